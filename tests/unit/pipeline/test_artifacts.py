"""Tests that the typed loaders (`Artifacts`) can read the output of the stages."""

from dataclasses import fields
from pathlib import Path

from sugarbush.pipeline.artifacts import ReleaseNote
from sugarbush.pipeline.released import read_release, write_release
from tests.settings import params


def test_a_note_has_a_field_for_everything_that_a_release_says(tmp_path: Path) -> None:
    write_release(
        tmp_path,
        stage="evolve",
        privacy=params().privacy,
        ledger_ids=("a", "a"),
        run="r",
        ledger=None,
    )
    assert set(read_release(tmp_path)) == {field.name for field in fields(ReleaseNote)}
