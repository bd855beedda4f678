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


LABELS = """
generator: {openai: {model: writer, concurrency: 3}}
extract_metadata: {llm: {model: reader, timeout_s: 9}}
"""


def test_the_endpoint_for_labels_names_what_it_shares(folder: Path) -> None:
    (folder / "params.yaml").write_text(LABELS)
    printed = output_of("extract_metadata.llm.concurrency").stdout
    assert "as generator.openai" in printed
    assert "here" not in printed
    assert "(here: 9" in output_of("extract_metadata.llm.timeout_s").stdout


def test_the_endpoint_for_labels_has_defaults_of_its_own_too(folder: Path) -> None:
    (folder / "params.yaml").write_text(LABELS)
    printed = output_of("extract_metadata.llm").stdout
    (tokens,) = [line for line in printed.splitlines() if "llm.max_tokens " in line]
    (model,) = [line for line in printed.splitlines() if "llm.model " in line]
    assert "256" in tokens and "here" not in tokens
    assert "required (here: reader)" in model


def test_the_endpoint_for_labels_needs_no_section_of_a_generator(folder: Path) -> None:
    (folder / "params.yaml").write_text("extract_metadata: {llm: {model: reader}}")
    printed = output_of("extract_metadata.llm.concurrency").stdout
    assert "as generator.openai" in printed


def test_an_unknown_section_is_refused() -> None:
    refused = output_of("evolve.mapel")
    assert refused.exit_code != 0
    assert "'evolve.mapel' is not a section or a setting" in refused.output
