"""Tests that `sugarbush settings` prints the settings that the settings classes declare."""

import re
from pathlib import Path
from typing import ClassVar

import pytest
from typer.testing import CliRunner, Result

from sugarbush import registry
from sugarbush.cli.main import app
from sugarbush.cli.settings_table import settings_page
from sugarbush.methods import settings as method_settings
from sugarbush.methods.maple import Maple
from sugarbush.run import settings as pipeline_settings
from sugarbush.run.settings import ProjectSettings
from sugarbush.settings import meanings
from tests.settings import ROOT


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def output_of(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["settings", *arguments])


def test_all_settings_are_printed_without_a_project() -> None:
    printed = output_of().stdout
    for name, _, _ in meanings(ProjectSettings()):
        assert f"{name} " in printed
    assert "here:" not in printed.replace("(here: example)", "")


def test_every_installed_generator_and_method_is_listed() -> None:
    printed = output_of().stdout
    for name in ("pool.sources", "openai.model", "huggingface.model", "provider"):
        assert f"\ngenerator.{name} " in printed
    for name in ("maple", "augpe", "nonprivate", "dpft", "crt", "mosaic +chosen"):
        assert re.search(rf"^methods.{name} +\S", printed, re.MULTILINE), name


def test_a_method_of_another_package_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Maple):
        """A method of another package."""

        name: ClassVar[str] = "other"

    monkeypatch.setattr(pipeline_settings, "plugin_names", lambda _: ("maple", "other"))
    monkeypatch.setattr(
        pipeline_settings, "method_class", lambda name: Other if name == "other" else Maple
    )
    monkeypatch.setattr(method_settings, "method_class", pipeline_settings.method_class)
    monkeypatch.setattr(pipeline_settings, "_every_generator", dict)
    printed = output_of("methods.other").stdout
    assert "A method of another package." in printed
    assert "methods.other.rounds" in printed


def test_one_section_is_printed_with_its_values_here(folder: Path) -> None:
    (folder / "params.yaml").write_text("methods: {augpe: {rounds: 3}}\n")
    lines = output_of("methods.augpe").stdout.splitlines()
    assert all(line.startswith(("methods.augpe", "setting", " ")) for line in lines)
    (rounds,) = [line for line in lines if line.startswith("methods.augpe.rounds ")]
    assert "10 (here: 3)" in rounds
    assert "Number of rounds of private scores" in rounds


def test_the_endpoint_for_labels_names_what_it_shares(folder: Path) -> None:
    (folder / "params.yaml").write_text("generator: {openai: {model: m, concurrency: 3}}\n")
    printed = output_of("extract_metadata.llm.concurrency").stdout
    assert "as generator.openai" in printed
    assert "here" not in printed


def test_an_unknown_section_is_refused() -> None:
    refused = output_of("methods.mapel")
    assert refused.exit_code != 0
    assert "'methods.mapel' is not a section or a setting" in refused.output


def test_a_method_with_a_setting_that_must_be_given_is_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Worded(Maple):
        """A method whose words nobody can guess."""

        name: ClassVar[str] = "worded"

        words: tuple[str, ...]
        """Words that a text may have."""

    monkeypatch.setitem(registry._OF_THIS_PROCESS, (registry.METHODS, "worded"), Worded)
    printed = output_of("methods.worded").output
    line = next(x for x in printed.splitlines() if ".words " in x)
    assert "required" in line and "Words that a text may have" in line


def test_the_page_of_settings_lists_every_setting_without_a_build_of_the_site() -> None:
    written = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    assert written == settings_page(), (
        "python -m sugarbush.cli.settings_table > docs/reference/settings.md"
    )
    assert ":::" not in written
    printed = output_of().stdout.split()
    names = {word for word in printed if re.fullmatch(r"[a-z]+(\.[a-z_]+)+", word)}
    assert len(names) > 150
    assert [name for name in sorted(names) if name not in written] == []
