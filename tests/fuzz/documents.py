"""The files that an operator writes: the schema and params.yaml."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import yaml
from hypothesis import strategies as st

from sugarbush.data.schema import load_schema, schema_of
from sugarbush.run.settings import load_params, parse_params
from tests.fuzz.damage import (
    SECRET,
    bytes_like,
    fields_like,
    more_damaged,
    scalars,
    values,
    with_damage,
)

_ATTRIBUTES: tuple[dict[str, Any], ...] = (
    {"name": "item", "description": "what", "values": ["lamp", "chair"], "column": "item"},
    {"name": "stars", "column": "stars", "bins": [2, 4]},
    {"name": "region", "column": "state", "groups": {"west": ["CA", "OR"], "east": ["NY"]}},
    {"name": "topic", "values": ["refund", "5"], "keywords": {"refund": ["money back"], 5: ["no"]}},
    {"name": "mood", "values": ["angry"], "zero_shot": {"angry": ["an angry customer"]}},
    {"name": "end", "values": ["open"], "other": "rest", "source": "llm"},
)
_SCHEMA = yaml.safe_dump({"subject": "letters", "attributes": list(_ATTRIBUTES[:3])}).encode()
# A password in an address: the one thing in the settings that no message may repeat.
_PARAMS: dict[str, Any] = {
    "methods": {"maple": {"rounds": 2, "scorer": "kernel"}, "augpe": {}, "dpft": {}},
    "privacy": {
        "epsilon": 1.0,
        "delta": 1e-6,
        "dataset": "letters",
        "purpose": "release",
        "cap": 4,
        "unit": "record",
    },
    "prepare": {
        "file": "letters.csv",
        "text_column": "text",
        "min_records": 50,
        "schema": "schema.yaml",
        "donated": None,
    },
    "generator": {
        "openai": {
            "model": "m",
            "base_url": "http://host/v1",
            "prices": {"m": {"input": 1, "output": 2, "date": "2026-01-01"}},
        }
    },
    "extract_metadata": {"llm": {"model": "m", "trusted": True, "base_url": "https://h/v1"}},
    "seed": 2,
    "embedding": {"max_tokens": 64},
}
_YAML = yaml.safe_dump(_PARAMS).encode()


def read_schema(case: bytes | dict[str, Any], folder: Path) -> None:
    if isinstance(case, dict):
        schema = schema_of(case, source="schema.yaml")
    else:
        (path := folder / "schema.yaml").write_bytes(case)
        schema = load_schema(path)
    for attribute in schema.attributes:
        assert 0 <= attribute.code("lamp") < len(attribute.domain)


def read_params(case: bytes | dict[str, Any], folder: Path) -> None:
    if isinstance(case, dict):
        parse_params(case).output_settings()
    else:
        (path := folder / "params.yaml").write_bytes(case)
        load_params(path)


_attributes = st.lists(st.one_of(*map(fields_like, _ATTRIBUTES)), min_size=1, max_size=3)
_mappings = st.one_of(
    st.fixed_dictionaries({"subject": st.just("letters"), "attributes": _attributes}),
    fields_like({"subject": "letters", "attributes": list(_ATTRIBUTES[:2])}),
)
_plain = {"subject": "letters", "attributes": [_ATTRIBUTES[0]]}
schemas = st.one_of(
    _mappings, _mappings, bytes_like(_SCHEMA, yaml.safe_dump(_plain).encode(), most=2)
)


def _with(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """The settings with another section `name`."""
    base = _PARAMS[name]
    sections = fields_like(base) if isinstance(base, dict) else values
    return sections.map(lambda own: _PARAMS | {name: own})


_sections = st.one_of(*map(_with, _PARAMS))
_addresses = st.builds(
    lambda section, name, base: _PARAMS | {section: {name: {"model": "m", "base_url": base}}},
    st.sampled_from(["generator", "extract_metadata"]),
    st.sampled_from(["openai", "llm", "pool"]),
    st.one_of(
        st.sampled_from(
            [f"http://{SECRET}@h", f"ftp://a:{SECRET}@h", f"http://h#{SECRET}", f"//a:{SECRET}@["]
        ),
        scalars,
    ),
)


def more_damaged_document(case: bytes | dict[str, Any], rng: Random) -> bytes | dict[str, Any]:
    found = more_damaged(case, rng) if isinstance(case, bytes) else with_damage(case, rng)
    return found if isinstance(found, bytes | dict) else yaml.safe_dump(repr(found)).encode()


params_files = st.one_of(_sections, _sections, _addresses, bytes_like(_YAML, most=2))
