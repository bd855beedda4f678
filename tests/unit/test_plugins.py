"""Tests of plug-ins of each kind from another package, found by entry points.

`tests/fixtures/toy_package` has one of each. The tests copy it to a separate folder and add the
metadata that an installer would write, so they need no installer and no network.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from sugarbush.data.reading import column_names, digest_of_files, read_rows
from sugarbush.data.schema import Attribute, Schema
from sugarbush.data.settings import FRAME
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import InputError, ParamsError
from sugarbush.evaluation.evaluate import installed_metrics
from sugarbush.pipeline.opening import open_project
from sugarbush.registry import METHODS, plugin_names
from sugarbush.release.facts import ReleaseContents, release_facts
from sugarbush.run.settings import parse_params
from tests.settings import ROOT, settings

KNOWN = ", ".join(plugin_names(METHODS))  # without the toy, the last name of all
TOY = ROOT / "tests" / "fixtures" / "toy_package"
LETTERS = Schema(
    subject="letters", attributes=(Attribute(name="s", values=("a", "b"), column="s"),)
)
slow = [pytest.mark.slow, pytest.mark.xdist_group("plugins")]

Install = Callable[..., Path]


def install_into(target: Path, *, name: str = "toy-package") -> Path:
    """Copy the toy package to `target`, and register its plug-ins by a package with the name
    `name`."""
    project = tomllib.loads((TOY / "pyproject.toml").read_text())["project"]
    shutil.copytree(TOY / "toy_package", target / "toy_package")
    info = target / f"{name.replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {project['version']}\n"
    )
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return target


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that installs the toy package for one test, under any name."""

    def installed(name: str = "toy-package") -> Path:
        target = install_into(tmp_path / name, name=name)
        monkeypatch.syspath_prepend(str(target))
        forget_toys()
        return target

    return installed


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run a project, the API and the commands with plug-ins, and return their results."""
    site = install_into(tmp_path_factory.mktemp("site") / "packages")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of DVC itself
        patch.syspath_prepend(str(site))
        forget_toys()
        patch.setenv("SUGARBUSH_STATE", "")
        patch.chdir(ROOT)
        project = run_path(str(TOY / "run_project.py"))
        done = project["main"](tmp_path_factory.mktemp("run"))
    forget_toys()
    found: dict[str, Any] = json.loads(json.dumps(done))
    return found


def forget_toys() -> None:
    """Remove the toy package from the imported modules, so that its next import searches again."""
    for module in [m for m in sys.modules if m.partition(".")[0] == "toy_package"]:
        del sys.modules[module]


def with_toys(**changes: Any) -> dict[str, Any]:
    toys = {"methods": ["toy"], "generator__provider": "toy", "embedding__model": "toy"}
    return settings(**(toys | changes))


def test_settings_name_a_method_a_generator_and_an_encoder_of_another_package(
    install: Install,
) -> None:
    install()
    found = parse_params(with_toys(methods__toy={"texts": 7}))
    assert found.chosen[0].model_dump() == {"texts": 7}
    assert found.generator.chosen.name == found.embedding.model == "toy"


def test_a_method_without_a_section_has_its_defaults(install: Install) -> None:
    install()
    found = parse_params({"methods": {"toy": {}}})
    assert found.chosen[0].model_dump() == {"texts": 20}


def test_a_new_version_of_its_package_makes_a_method_s_stages_stale(install: Install) -> None:
    install()
    found = parse_params({"methods": {"toy": {}, "maple": {}}}).output_settings()["by_method"]
    assert found["toy"] == {"texts": 20, "package": "toy-package 1.0"}
    assert "package" not in found["maple"]


def test_a_plug_in_that_evolves_shows_no_examples_where_none_are_donated(
    install: Install,
) -> None:
    package = install() / "toy_package"
    (package / "method.py").write_text(
        "from sugarbush.methods.maple import Maple\nclass Toy(Maple):\n    name = 'toy'\n"
    )
    own = {"file": "letters.csv", "donated": None}
    method = parse_params({"methods": {"toy": {}}, "prepare": own}).chosen[0]
    assert method.model_dump(mode="json")["prompt"] == "metadata"


def test_an_encoder_of_another_package_embeds_texts(install: Install) -> None:
    install()
    found = Encoder(EmbeddingSettings(model="toy"), cache=None).encode(["a late lamp", "a lamp"])
    assert found.shape == (2, 64)
    assert (found**2).sum(axis=1) == pytest.approx(1)


def test_a_metric_of_another_package_is_among_the_installed_ones(install: Install) -> None:
    install()
    assert "toy_questions" in {metric.name for metric in installed_metrics()}


def test_a_format_of_another_package_reads_files(install: Install, tmp_path: Path) -> None:
    file = tmp_path / "letters.toy.gz"
    file.write_bytes(gzip.compress(b"a lamp\na chair\n"))
    with pytest.raises(InputError, match=r"expected \.csv, .* or \.mbox, or a folder"):
        column_names(file, required={"text": "s"}, setting="s")
    install()
    assert column_names(file, required={"text": "s"}, setting="s") == ("text",)
    rows = read_rows(file, setting="s", wanted={"text": "s"})
    assert [(row.number, row.fields) for row in rows] == [
        (1, {"text": "a lamp"}),
        (2, {"text": "a chair"}),
    ]
    with pytest.raises(InputError, match="has no column 'gone'"):
        read_rows(file, setting="s", wanted={"gone": "s"})
    with pytest.raises(InputError, match=r"or \.toy, or a folder"):
        read_rows(tmp_path / "letters.docx", setting="s", wanted={})


def test_an_error_of_a_format_of_another_package_shows_no_value(
    install: Install, tmp_path: Path
) -> None:
    install()
    file = tmp_path / "letters.toy"
    file.write_text("a lamp\nBROKEN canary-7731\n")
    expected = r"letters\.toy, after row 1: cannot be read \(KeyError in toy-package 1\.0\)"
    with pytest.raises(InputError, match=expected) as refusal:
        read_rows(file, setting="s", wanted={"text": "s"})
    assert "canary" not in str(refusal.value)
    assert refusal.value.__cause__ is None and refusal.value.__suppress_context__


def test_the_digest_of_a_file_depends_on_the_package_of_its_format(
    install: Install, tmp_path: Path
) -> None:
    content = b"a lamp\n"
    for name in ("a.toy", "a.csv"):
        (tmp_path / name).write_bytes(content)
    before = {n: digest_of_files(tmp_path, [n], setting="s") for n in ("a.toy", "a.csv")}
    install()
    after = {n: digest_of_files(tmp_path, [n], setting="s") for n in ("a.toy", "a.csv")}
    plain = hashlib.sha256(hashlib.sha256(content).digest()).digest()
    assert before["a.toy"] == before["a.csv"] == after["a.csv"] == plain
    assert after["a.toy"] != plain


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "named"),
    [("letters.toy.gz", True), ("folder", True), ("letters.csv", False), (FRAME, False)],
)
def test_the_card_names_the_package_of_the_format_of_the_private_file(
    install: Install, tmp_path: Path, file: str, named: bool
) -> None:
    """A folder may contain files of each format."""
    install()
    project = open_project(
        tmp_path,
        settings=parse_params(settings(prepare__file=file, privacy__dataset="letters")),
        schema=LETTERS,
    )
    facts = release_facts(
        project.settings,
        LETTERS,
        ReleaseContents(texts={}, donated=0, engine=None),
        ledger=project.ledger(),
        ledger_ids=[],
        plan=project.plan,
    )
    assert ("toy-package 1.0" in facts.other_packages) == named
    assert (facts.software.get("toy-package") == "1.0") == named


@pytest.mark.slow
@pytest.mark.parametrize(
    ("crt", "named"),
    [({"detectors": ["regex", "toy"]}, True), ({"conservative": "toy"}, True), ({}, False)],
)
def test_the_card_names_the_package_of_a_detector(
    install: Install, tmp_path: Path, crt: dict[str, Any], named: bool
) -> None:
    install()
    own = settings(methods={"mosaic": {}, "crt": crt}, privacy__dataset="letters")
    project = open_project(tmp_path, settings=parse_params(own), schema=LETTERS)
    facts = release_facts(
        project.settings,
        LETTERS,
        ReleaseContents(texts={}, donated=0, engine=None),
        ledger=project.ledger(),
        ledger_ids=[],
        plan=project.plan,
    )
    assert ("toy-package 1.0" in facts.other_packages) == named
    assert (facts.software.get("toy-package") == "1.0") == named


def test_a_new_version_of_a_detector_makes_its_training_stale(install: Install) -> None:
    install()
    for crt, expected in (({"detectors": ["toy"]}, ("toy-package 1.0",)), ({}, None)):
        found = parse_params({"methods": {"crt": crt}}).output_settings()["by_method"]["crt"]
        assert found.get("packages") == expected


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"methods": ["toi"]}, f"'toi' is not an installed method. Known: {KNOWN},"),
        ({"generator__provider": "toi"}, "generator.provider: 'toi' is not an installed generator"),
        (
            {"methods__toy": {"text": 1}},
            "methods.toy.text is not a known setting; did you mean texts?",
        ),
        ({"methods": ["mapel"]}, "methods.mapel: did you mean maple? 'mapel' is not an installed"),
        (
            {"methods__quux": {}},
            f"methods.quux: 'quux' is not an installed method. Known: {KNOWN},",
        ),
        (
            {"generator__quux": {}},
            "generator.quux: is not a setting, and 'quux' is not an installed",
        ),
    ],
)
def test_an_unknown_plug_in_is_named_with_its_setting(
    install: Install, changes: dict[str, Any], complaint: str
) -> None:
    install()
    with pytest.raises(ParamsError, match=re.escape(complaint)):
        parse_params(with_toys(**changes))


def test_an_unknown_encoder_is_named() -> None:
    with pytest.raises(ParamsError, match="no-such-encoder"):
        Encoder(EmbeddingSettings(model="no-such-encoder"), cache=None).encode(["a text"])


def test_two_packages_that_register_one_name_are_named(install: Install) -> None:
    install()
    install("other-toys")
    for changes in ({"methods": {"toy": {}}}, {"generator": {"provider": "toy"}}):
        with pytest.raises(ParamsError, match="other-toys and toy-package both register a"):
            parse_params(changes)


@pytest.mark.slow
def test_pip_installs_the_toy_package_with_its_entry_points(tmp_path: Path) -> None:
    if not (find_spec("pip") and find_spec("setuptools")):
        pytest.skip("needs pip and setuptools")
    # A copy of the package, because a build writes into its folder.
    shutil.copytree(TOY, tmp_path / "source")
    subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
            "--no-build-isolation", "--target", str(tmp_path / "site"), str(tmp_path / "source"),
        ],
        check=True, timeout=900, capture_output=True,
    )  # fmt: skip
    by_hand = install_into(tmp_path / "by_hand")
    (made,), (expected,) = (
        [path.read_text().split() for path in site.glob("*.dist-info/entry_points.txt")]
        for site in (tmp_path / "site", by_hand)
    )
    assert sorted(made) == sorted(expected)


class TestAProject:
    """Tests of a project with the toy method, generator, encoder and metric."""

    pytestmark = slow

    def test_a_method_charges_its_one_histogram(self, ran: dict[str, Any]) -> None:
        assert ran["charges"] == ["evolve@toy"]
        assert [event["kind"] for event in ran["card"]["budget"]["events"]] == ["discrete_gaussian"]
        assert ran["card"]["promise"]["epsilon"] <= 1

    def test_a_method_that_embeds_nothing_has_no_remark_on_the_encoder(
        self, ran: dict[str, Any]
    ) -> None:
        remarks = " ".join(ran["card"]["remarks"])
        assert "integer noise" in remarks
        assert "encoder" not in remarks

    def test_a_second_run_restores_its_draws_and_spends_nothing(self, ran: dict[str, Any]) -> None:
        assert ran["charges_after_a_second_run"] == ran["charges"]

    def test_a_generator_writes_the_texts(self, ran: dict[str, Any]) -> None:
        texts = [json.loads(line)["text"] for line in ran["texts"]]
        assert len(texts) == 12
        assert all(re.fullmatch(r"(I write about|Is) my \w+( safe\?|\.)", t) for t in texts)

    def test_a_metric_is_among_the_internal_ones(self, ran: dict[str, Any]) -> None:
        assert {"real", "toy"} == set(ran["metrics"])
        assert all("toy_questions" in spaces["text"] for spaces in ran["metrics"].values())

    def test_the_card_names_method_generator_encoder_and_settings(
        self, ran: dict[str, Any]
    ) -> None:
        made_by = ran["card"]["made_by"]
        assert made_by["methods"] == ["toy"]
        assert made_by["generator"] == {"provider": "toy"}
        assert made_by["encoder"] == "toy"
        assert made_by["software"]["toy-package"] == "1.0"
        assert made_by["settings"]["methods"] == {"toy": {"texts": 12}}
        assert "toy" in ran["page"]

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("check", "generator  ok: toy"),
            ("budget", "counts:toy       discrete gaussian"),
            ("estimate", "12 calls"),
        ],
    )
    def test_commands_before_a_run_know_its_plan(
        self, ran: dict[str, Any], name: str, expected: str
    ) -> None:
        assert ran["before"][name]["code"] == 0
        assert expected in ran["before"][name]["output"]

    def test_commands_after_a_run_show_its_results(self, ran: dict[str, Any]) -> None:
        assert {shown["code"] for shown in ran["after"].values()} == {0}
        assert "evolve@toy" in ran["after"]["budget"]["output"]
        assert "10 of 12" in ran["after"]["show synthetic"]["output"]
        assert "20 (here: 12)" in ran["settings"]["output"]

    def test_the_api_runs_a_method_and_charges_it_once(self, ran: dict[str, Any]) -> None:
        api = ran["api"]
        assert api["entries"] == [4, 4]  # the first look has three
        assert set(api["events"]) == {"discrete_gaussian"}
        assert api["methods"] == ["toy"]
        assert 0 < api["epsilon"] <= 1
        assert all(re.fullmatch(r"My \w+ broke\.", text) for text in api["texts"])
