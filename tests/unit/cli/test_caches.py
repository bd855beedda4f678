"""Tests of `sugarbush cache` in a folder that contains only settings."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from sugarbush.cli.main import app
from sugarbush.generators.answer_cache import Completion, open_cache
from tests.settings import settings

COMPLETION = Completion(
    text="word " * 200, finish_reason="stop", refused=False, prompt_tokens=1, completion_tokens=200
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(settings()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    return tmp_path


def keep(place: Path, count: int) -> None:
    with open_cache(place) as cache:
        for number in range(count):
            cache.put(str(number), COMPLETION)


def output_of(*arguments: str) -> str:
    return CliRunner().invoke(app, ["cache", *arguments], catch_exceptions=False).stdout


def test_an_empty_cache_is_reported_and_nothing_is_written(folder: Path) -> None:
    assert output_of() == "generator: none cached\nlabels: none cached\n"
    assert sorted(p.name for p in folder.iterdir()) == ["params.yaml"]


def test_answers_and_their_size_are_shown(folder: Path) -> None:
    keep(folder / "state", 1200)
    output = output_of()
    assert "generator: 1,200 answers" in output
    assert " MB in " in output
    assert "labels: none cached" in output


def test_clear_deletes_the_generators_answers_and_labels_only_with_its_option(folder: Path) -> None:
    keep(folder / "state", 3)
    keep(folder / "data/private/labels", 2)
    output = output_of("--clear")
    assert "generator: 3 answers deleted" in output
    assert "labels: 2 answers," in output
    output = output_of("--clear", "--labels")
    assert "labels: 2 answers deleted" in output
    with open_cache(folder / "data/private/labels") as cache:
        assert cache.size().answers == 0


def test_the_size_on_disk_falls_when_answers_are_deleted(folder: Path) -> None:
    keep(folder / "state", 500)
    before = (folder / "state/answers/cache.db").stat().st_size
    output_of("--clear")
    with open_cache(folder / "state") as cache:
        assert cache.size().size_bytes < before
