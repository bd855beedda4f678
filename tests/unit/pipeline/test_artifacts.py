"""Tests that the typed loaders (`Artifacts`) can read the output of the stages."""

from dataclasses import fields
from pathlib import Path

from sugarbush import open_ledger
from sugarbush.pipeline.artifacts import ReleaseNote
from sugarbush.privacy.events import GaussianDp
from sugarbush.release.folders import read_release, write_release
from tests.settings import params


def test_a_note_has_a_field_for_everything_that_a_release_says(tmp_path: Path) -> None:
    ledger = open_ledger("letters", state=tmp_path / "state")
    paid = ledger.charge(GaussianDp(mu=0.1), stage="evolve", run="r")
    write_release(
        tmp_path,
        stage="evolve",
        privacy=params().privacy,
        ledger_ids=(paid, paid),
        run="r",
        ledger=ledger,
    )
    assert set(read_release(tmp_path)) == {field.name for field in fields(ReleaseNote)}
