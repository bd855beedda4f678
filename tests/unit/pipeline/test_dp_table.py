"""Tests of the DP table as the report shows it, for every engine of the package itself."""

import json
import math
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from sugarbush.attributes.extract import extract_codes
from sugarbush.data.schema import Attribute, Schema
from sugarbush.pipeline.dp_table import dp_counts_of
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.session import PrivacySession
from sugarbush.randomness import public_rng
from sugarbush.release.store import read_released_metadata
from sugarbush.report.dp_table import table_view
from sugarbush.report.model import DpCounts
from sugarbush.tables.dp_table import DpTable
from sugarbush.tables.engines import synthesize_table
from sugarbush.tables.settings import Engine
from tests.settings import params

SCHEMA = Schema(
    subject="letters",
    attributes=(
        Attribute(name="item", values=("lamp", "chair", "shed"), column="item"),
        Attribute(name="stars", column="stars", bins=(2, 4)),
    ),
)
NAMES = {
    Engine.SUGARBUSH: "AIM, engine sugarbush",
    Engine.INDEPENDENT: "independent marginals, engine independent",
}
# What a data file may contain: values of the schema, nulls of every kind, and other values.
ITEMS = ["lamp", "chair", None, float("nan"), "", "canary-7731"]
STARS = [1, "3", 5.0, None, "many", float("inf")]


def made(folder: Path, engine: Engine) -> DpTable:
    """Make a DP table from unusual raw values, and release it to `folder` as the stage does."""
    raw = {"item": ITEMS * 100, "stars": STARS * 100}
    settings = params(synthesize_metadata__engine=engine.value)
    codes = extract_codes(
        SCHEMA, [""] * 600, raw, embed=lambda _: np.empty((0, 0), np.float32), readers={},
        params=settings.extract_metadata,
    )  # fmt: skip
    ledger = mock.create_autospec(Ledger, instance=True)
    ledger.charge.return_value = "id"
    table = synthesize_table(
        Private(codes),
        SCHEMA.domain,
        mu=1.0,
        params=settings.synthesize_metadata,
        session=PrivacySession(ledger=ledger, stage="s", run="r"),
        rng=public_rng(1),
    )
    released = folder / "data" / "released" / "metadata"
    released.mkdir(parents=True)
    rows = pd.DataFrame(table.rows.value, columns=list(SCHEMA.names))
    rows.to_parquet(released / "rows.parquet", index=False)
    (released / "table.json").write_text(json.dumps(table.to_json()))
    (released / "metadata.json").write_text(json.dumps({"engine": engine.value, "label": None}))
    return table


def read(base: Path) -> tuple[DpTable | None, DpCounts | None]:
    """Return the stored table and its counts."""
    folder = base / "data/released/metadata"
    described = json.loads((folder / "metadata.json").read_text())
    metadata = read_released_metadata([folder], described, ledger_ids=("id",))
    return metadata.table, dp_counts_of(metadata, SCHEMA)


@pytest.mark.parametrize("engine", list(NAMES))
def test_one_setting_switches_the_engine_and_the_report_names_it(
    tmp_path: Path, engine: Engine
) -> None:
    made(tmp_path, engine)
    table, counts = read(tmp_path)
    assert table is not None and table.engine == engine.value
    assert counts is not None and counts.source == NAMES[engine]
    assert counts.counts.ledger_ids == ("id",)


@pytest.mark.parametrize("engine", list(NAMES))
def test_costs_add_up_to_the_whole_and_bands_are_those_of_the_counts(
    tmp_path: Path, engine: Engine
) -> None:
    table = made(tmp_path, engine)
    found, counts = read(tmp_path)
    assert found is not None and counts is not None
    view = table_view(found, SCHEMA, None)
    assert math.fsum(r["choosing"] + r["measuring"] for r in view["rounds"]) == pytest.approx(1)
    assert view["records"] == table.record_count.value
    assert len(view["rows"]) == 10
    for name, stddev in counts.stddev.items():
        own = [m for m in table.measurements if m.attributes == (name,) and not m.merged]
        assert stddev == pytest.approx(1 / math.sqrt(sum(m.stddev**-2 for m in own)))


@pytest.mark.parametrize("engine", list(NAMES))
def test_nulls_and_unseen_values_are_the_bucket_and_are_never_named(
    tmp_path: Path, engine: Engine
) -> None:
    """Of 600 records, 400 belong to the bucket of `item` and 200 to the bucket of `stars`. The
    noise is under 10."""
    made(tmp_path, engine)
    _, counts = read(tmp_path)
    assert counts is not None
    assert counts.counts.value["item"][-1] == pytest.approx(400, abs=60)
    assert counts.counts.value["stars"][-1] == pytest.approx(200, abs=60)
    written = (tmp_path / "data/released/metadata/table.json").read_text()
    assert "canary" not in written
