"""Samples the attributes of one record from the Bayesian network in attributes.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sugarbush.examples.data_files import load_yaml
from sugarbush.examples.seeded_random import SeededRandom

_NETWORK = load_yaml(Path(__file__).with_name("attributes.yaml"))
_TENURES = _NETWORK.pop("tenure_months")


@dataclass(frozen=True, kw_only=True)
class Case:
    """The eight attributes of one record."""

    product: str
    issue: str
    channel: str
    sentiment: str
    resolution: str
    region: str
    priority: str
    tenure_months: int


def draw_case(rng: SeededRandom) -> Case:
    """Sample one case from the network. The parents of an attribute are sampled first."""
    tenure = rng.weighted_key({label: bin["weight"] for label, bin in _TENURES.items()})
    months = rng.between(_TENURES[tenure]["from"], _TENURES[tenure]["to"])
    values: dict[str, Any] = {"tenure_months": tenure}
    for attribute, table in _NETWORK.items():
        values[attribute] = rng.weighted_key(_weights(table, values))
    return Case(**(values | {"tenure_months": months}))


def _weights(table: Mapping[str, Any], parents: Mapping[str, str]) -> dict[str, float]:
    weights = dict(table["weights"])
    for parent, factors in table.get("factors", {}).items():
        for value, factor in factors.get(parents[parent], {}).items():
            weights[value] *= factor
    return weights
