"""Which attributes the DP table holds."""

from __future__ import annotations

import pytest

from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError, SchemaError
from sugarbush.pipeline.stages.synthesize_metadata import table_attributes
from tests.settings import params

SCHEMA = Schema.model_validate(
    {
        "subject": "letters",
        "attributes": [{"name": n, "column": n, "values": ["x"]} for n in ("a", "b", "c")],
    }
)


def test_the_table_holds_all_attributes_unless_some_are_named() -> None:
    assert table_attributes(params(), SCHEMA) == ["a", "b", "c"]
    named = params(synthesize_metadata__attributes=["c", "a"])
    assert table_attributes(named, SCHEMA) == ["a", "c"]


def test_a_trained_model_needs_the_whole_table() -> None:
    with pytest.raises(ParamsError, match=r"synthesize_metadata\.attributes"):
        params(methods=["dpft"], synthesize_metadata__attributes=["a"])


def test_an_unknown_attribute_is_named() -> None:
    with pytest.raises(SchemaError, match="'d'"):
        table_attributes(params(synthesize_metadata__attributes=["d"]), SCHEMA)
