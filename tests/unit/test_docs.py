"""Runs the Python examples of the documentation.

Blocks without a title run as written, in the order of their page. A block with a title is a file of
a package: it is written to disk, the package is registered, and its tests run in another process. A
block after `<!-- run apart: ... -->` runs in test_docs_run.py, except
the one of python-api.md, which needs a real language model and is only parsed.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pandas as pd
import pytest
import yaml

import sugarbush as sb
from sugarbush.audits.noise_faults import Fault
from sugarbush.errors import ParamsError
from sugarbush.privacy import mechanisms
from tests.settings import ROOT

pytestmark = pytest.mark.usefixtures("quick_encoder")
DOCS = ROOT / "docs"
PACKAGES = ("add-a-method", "add-a-generator", "add-a-metric", "add-an-encoder", "add-a-format")
_BLOCK = re.compile(
    r"(?P<apart><!-- run apart: .*? -->\n)?^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    text: str
    language: str
    title: str | None
    apart: bool


def blocks(page: Path) -> list[Block]:
    found = _BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [Block(m["text"], m["language"], m["title"], bool(m["apart"])) for m in found]


def runnable(page: Path) -> str:
    return "\n".join(
        b.text for b in blocks(page) if b.language == "python" and not b.title and not b.apart
    )


def run_apart(page: Path) -> str:
    """Return the only block of a page that does not run with the others."""
    (block,) = (b for b in blocks(page) if b.apart)
    return block.text


def run(code: str, namespace: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {} if namespace is None else namespace
    exec(compile(code, "<documentation>", "exec"), found)
    return found


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the examples in a temporary folder with its own ledger, and without an endpoint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    monkeypatch.setitem(vars(sb), "OpenAI", lambda **_: sb.Simulator(any_texts=True))


@pytest.mark.parametrize("page", [p for p in DOCS.rglob("*.md") if p.parts[-2] != "log"], ids=str)
def test_every_python_block_can_be_parsed(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            ast.parse(block.text)


def test_every_python_block_has_a_test() -> None:
    """Blocks with a title belong to PACKAGES. The others run here, or in test_docs_run.py."""
    pages = [ROOT / "README.md", *(p for p in DOCS.rglob("*.md") if p.parts[-2] != "log")]
    found = {p.stem for p in pages if any(b.language == "python" for b in blocks(p))}
    assert found == {
        *PACKAGES, "README", "quickstart", "concepts", "python-api", "redact", "audit",
        "add-a-mechanism", "read-the-card", "profile", "record-shapes", "histories",
    }  # fmt: skip


def test_records_with_a_shape_run() -> None:
    release = run(runnable(DOCS / "how-to/record-shapes.md"))["release"]
    assert len(release.frame) == 10 and "text" not in release.frame


@pytest.mark.slow
def test_histories_run() -> None:
    code = runnable(DOCS / "how-to/histories.md")
    release = run(code.replace("        state=folder,\n", ""))["release"]
    folder = release.save("out")
    page = (folder / "index.html").read_text()
    assert "10 synthetic histories" in page and "the records of one synthetic person" in page
    table = pd.read_parquet(folder / "records.parquet")
    assert table["person"].nunique() == 10 and len(table) == len(release.records) > 10
    assert "one history" in release.card["promise"]["unit_details"]
    with pytest.raises(ParamsError, match="no histories"):
        run(runnable(DOCS / "how-to/record-shapes.md"))["release"].records  # noqa: B018


@pytest.mark.slow
def test_the_concepts_run() -> None:
    found = run(runnable(DOCS / "concepts.md"))
    assert found["counts"].value.shape == (12,)
    assert [entry.stage for entry in found["ledger"].entries()] == ["count"] * 3


@pytest.mark.slow
def test_the_quickstart_runs() -> None:
    rows = [f"Ticket {i}: my {('lamp', 'chair')[i % 2]} is broken" for i in range(160)]
    Path("tickets.csv").write_text("message\n" + "\n".join(rows) + "\n")
    Path("schema.yaml").write_text(
        "subject: tickets\n"
        "attributes:\n"
        "  - {name: product, values: [lamp], keywords: {lamp: [lamp]}}\n"
    )
    code = runnable(DOCS / "quickstart.md")
    assert code.count("texts=2000") == 1
    release = run(code.replace("texts=2000", "texts=100"))["release"]  # 2,000 take minutes
    assert release.epsilon <= 1 and len(release.texts) == 100
    assert Path("out/synthetic.jsonl").exists()


def test_the_block_of_the_readme_is_the_one_of_the_quickstart() -> None:
    readme, quickstart = (
        [line.partition("  #")[0] for line in runnable(page).splitlines()]
        for page in (ROOT / "README.md", DOCS / "quickstart.md")
    )
    assert len(readme) > 10
    assert set(readme) <= set(quickstart)


@pytest.mark.parametrize("name", ["redact", "audit"])
def test_the_block_of_a_page_runs(name: str) -> None:
    found = run(runnable(DOCS / "how-to" / f"{name}.md"))
    if name == "redact":
        made, code = found["made"], runnable(DOCS / "how-to" / "redact.md")
        printed = ast.literal_eval(code.rpartition("# ")[2])
        assert (made.texts, made.spans, made.labels) == printed


def test_the_page_on_profiles_runs() -> None:
    rows = [f"Ticket {i}: my lamp is broken,{('desk', 'floor')[i % 2]}" for i in range(2000)]
    Path("tickets.csv").write_text("message,product\n" + "\n".join(rows).replace(": ", " "))
    found = run(runnable(DOCS / "how-to" / "profile.md"))
    assert set(found["schema"].attribute("product").values) == {"desk", "floor"}
    assert len(found["profile"].ledger_ids) == 8


@pytest.mark.slow
def test_the_python_api_runs() -> None:
    found = run(runnable(DOCS / "how-to" / "python-api.md"))
    assert [release.method for release in found["releases"]] == ["public", "augpe"]
    assert 1 < found["ledger"].total() < 8
    assert isinstance(found["figures"].frame["value"].iloc[0], float)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The outcome of each test of each package, and of loading its plug-in, by package.

    One process for all of them: it imports what they share once.
    """
    folder = tmp_path_factory.mktemp("packages")
    for name in PACKAGES:
        write_package(DOCS / "how-to" / f"{name}.md", folder / name)
    path = os.pathsep.join([str(ROOT), *(str(folder / name) for name in PACKAGES)])
    finished = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--doctest-modules", "-p", "no:cacheprovider"),
            *("--import-mode=importlib", "--junitxml=found.xml", "--rootdir=."),
            *PACKAGES,
        ],
        env=os.environ | {"PYTHONPATH": path, "SUGARBUSH_STATE": str(folder / "state")},
        cwd=folder, text=True, capture_output=True, check=False, timeout=900,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found: dict[str, list[str]] = {name: [] for name in PACKAGES}
    for case in ElementTree.parse(folder / "found.xml").iter("testcase"):
        outcome = "passed" if not len(case) else case[0].tag
        found[case.attrib["classname"].split(".")[0]].append(outcome)
    return found


def write_package(page: Path, package: Path) -> None:
    """The package of a page as if it was installed, and a test that loads its plug-in."""
    package.mkdir()
    for block in blocks(page):
        if block.title:
            (package / block.title).write_text(block.text)
    project = tomllib.loads((package / "pyproject.toml").read_text())
    assert {f"{module}.py" for module in project["tool"]["setuptools"]["py-modules"]} <= {
        path.name for path in package.iterdir()
    }
    info = package / f"{project['project']['name'].replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['project']['name']}\nVersion: 1.0\n"
    )
    ((group, points),) = project["project"]["entry-points"].items()
    ((key, target),) = points.items()
    (info / "entry_points.txt").write_text(f"[{group}]\n{key} = {target}\n")
    (package / "test_it_loads.py").write_text(
        "from sugarbush.registry import load_plugin\n"
        f"def test_it_loads():\n    assert load_plugin({group!r}, {key!r})\n"
    )


@pytest.mark.slow
@pytest.mark.xdist_group("packages")
@pytest.mark.parametrize("name", PACKAGES)
def test_the_package_of_a_page_passes_its_own_tests(
    name: str, outcomes: dict[str, list[str]]
) -> None:
    assert len(outcomes[name]) > 1  # its own, and that its plug-in loads
    assert set(outcomes[name]) == {"passed"}


@pytest.mark.slow
def test_the_mechanism_of_the_page_passes_its_own_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism, property_tests, statistical_tests = (
        b.text for b in blocks(DOCS / "how-to" / "add-a-mechanism.md") if b.language == "python"
    )
    name = "noisy_bounded_sum"
    monkeypatch.setattr(mechanisms, name, None, raising=False)
    exec(compile(mechanism, "<documentation>", "exec"), vars(mechanisms))
    found = run(property_tests)
    with monkeypatch.context() as patch:
        found["test_one_more_record_moves_the_sum_by_at_most_the_bound"](tmp_path, patch, 500)
    found["test_a_refused_charge_leaves_the_ledger_unchanged"](tmp_path / "refused")
    found["test_the_charge_covers_all_records_of_a_user"](tmp_path / "users")
    found = run(statistical_tests)
    found["test_the_noise_has_the_stated_scale"](tmp_path / "scale")
    for fault in (None, Fault.ROOT_TWO):
        folder = tmp_path / f"{fault}".replace("/", "_")
        found["test_an_attacker_learns_no_more_than_the_event_says"](folder, fault)


@pytest.mark.slow
def test_the_page_about_the_card_adds_a_field(tmp_path: Path) -> None:
    """Add the lines of the page to a copy of the package, and write a card with the copy."""
    shutil.copytree(
        ROOT / "sugarbush", tmp_path / "sugarbush", ignore=shutil.ignore_patterns("__pycache__")
    )
    page = DOCS / "how-to/add-a-card-field.md"
    additions = [block for block in blocks(page) if block.language == "diff"]
    assert len(additions) == 3
    for block in additions:
        file, lines = tmp_path / str(block.title), block.text.splitlines()
        before = "\n".join(line[1:] for line in lines if not line.startswith("+"))
        after = "\n".join(line[1:] for line in lines)
        text = file.read_text(encoding="utf-8")
        assert text.count(before) == 1, block.title
        file.write_text(text.replace(before, after), encoding="utf-8")
    code = """
        from sugarbush.report.card import Card
        from sugarbush.report.card_files import card_files
        from sugarbush.report.card_values import release_card
        from tests.unit.report.sample import release

        card = release_card(release())
        assert Card.from_json(card.to_json()) == card
        assert list(card.to_json()["budget"])[-1] == "charges"
        said = card_files(card)["release_card.md"]
        assert f"The release has {len(card.budget.events)} charges." in said
    """
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    subprocess.run(command, env=environment, check=True, cwd=tmp_path)


def test_the_mutant_of_the_page_on_mechanisms_changes_one_place() -> None:
    page = blocks(DOCS / "how-to" / "add-a-mechanism.md")
    (mutant,) = (yaml.safe_load(b.text) for b in page if b.language == "yaml")
    mechanism, property_tests, _ = (b.text for b in page if b.language == "python")
    assert mechanism.count(mutant["old"]) == 1
    assert f"def {mutant['tests'][0].rpartition('::')[2]}(" in property_tests
