"""Tests which attributes are in the DP table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sugarbush.data.private_store import CorpusInMemory
from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError, SchemaError
from sugarbush.pipeline.metadata import MetadataRequest
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.plan import plan_of
from sugarbush.privacy.unit import ContributionBounds
from sugarbush.rehearsal.rehearse import require_rehearsal
from sugarbush.run.context import Gate, Project
from sugarbush.run.inputs import FolderInputs
from tests.settings import params

NAMES = ("a", "b", "c")
SCHEMA = Schema.model_validate(
    {
        "subject": "letters",
        "attributes": [{"name": n, "column": n, "values": ["x"]} for n in NAMES],
    }
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))


class SmallInputs(FolderInputs):
    """Forty equal records in memory."""

    def records(self) -> CorpusInMemory:
        codes = pd.DataFrame(np.zeros((40, 3), dtype=np.int64), columns=list(NAMES))
        return CorpusInMemory({}, {"train": codes}, fingerprint=("f",), bounds=ContributionBounds())

    def names(self) -> dict[str, str]:
        return {"codes": "d"}


def drawn(base: Path, **changes: Any) -> pd.DataFrame:
    """Return the rows of the DP table.

    The `attrs` of the frame contain a description of the table.
    """
    settings = params(**changes)
    project = Project(
        base,
        settings,
        inputs=SmallInputs(base, settings, schema=SCHEMA),
        gate=Gate(rehearse=require_rehearsal, plan=plan_of),
    )
    (folder,) = MetadataRequest(project).release(forced=False).folders
    frame = pd.read_parquet(folder / "rows.parquet")
    frame.attrs["table"] = json.loads((folder / "table.json").read_text())
    return frame


def covered(frame: pd.DataFrame) -> list[str]:
    """Return the attributes that have codes in the table."""
    assert list(frame.columns) == list(NAMES)
    return [name for name in NAMES if (frame[name] >= 0).all()]


def test_the_table_holds_all_attributes_unless_some_are_named(tmp_path: Path) -> None:
    assert covered(drawn(tmp_path)) == ["a", "b", "c"]
    named = drawn(tmp_path, synthesize_metadata__attributes=["c", "a"])
    assert covered(named) == ["a", "c"]
    assert (named["b"] < 0).all()


def test_a_trained_model_needs_the_whole_table() -> None:
    with pytest.raises(ParamsError, match=r"synthesize_metadata\.attributes"):
        params(methods=["dpft"], synthesize_metadata__attributes=["a"])


def test_an_unknown_attribute_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="'d'"):
        drawn(tmp_path, synthesize_metadata__attributes=["d"])
    assert not open_project(tmp_path, settings=params()).ledger().entries()
