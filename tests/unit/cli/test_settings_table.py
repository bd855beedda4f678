"""`sugarbush settings` prints what the models declare."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sugarbush.cli.main import app
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.settings import meanings


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


def test_one_section_is_printed_with_its_values_here(folder: Path) -> None:
    (folder / "params.yaml").write_text("evolve: {augpe: {rounds: 3}}\n")
    lines = output_of("evolve.augpe").stdout.splitlines()
    assert all(line.startswith(("evolve.augpe", "setting", " ")) for line in lines)
    (rounds,) = [line for line in lines if line.startswith("evolve.augpe.rounds ")]
    assert "10 (here: 3)" in rounds
    assert "Rounds of private votes" in rounds


def test_the_endpoint_for_labels_names_what_it_shares(folder: Path) -> None:
    (folder / "params.yaml").write_text("generator: {openai: {concurrency: 3}}\n")
    printed = output_of("extract_metadata.llm.concurrency").stdout
    assert "as generator.openai" in printed
    assert "here" not in printed


def test_an_unknown_section_is_refused() -> None:
    refused = output_of("evolve.mapel")
    assert refused.exit_code != 0
    assert "'evolve.mapel' is not a section or a setting" in refused.output
