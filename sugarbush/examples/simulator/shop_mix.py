"""The mix of the embedded example: a Bayesian network over eight attributes.

    region ──> product ──> issue ──> priority ──┐
      └──────────────────────^  └──> sentiment  ├─> resolution
    tenure_months ──> channel ──────────────────┘

A child's weights are its base weights times one factor for each parent value that tilts them.
The margins are skewed and some values are rare, as in a real service desk. The simulator that
writes candidates must not know any of this: it never imports this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sugarbush.examples.simulator.dice import Dice

Weights = Mapping[str, float]
Tilts = Mapping[str, Weights]

TENURE_EDGES = (6, 24, 60)
TENURE = {(1, 5): 0.22, (6, 23): 0.41, (24, 59): 0.28, (60, 190): 0.09}

REGION = {"north": 0.37, "east": 0.26, "west": 0.20, "south": 0.10, "islands": 0.05, "abroad": 0.02}

PRODUCT = {
    "thermostat": 0.30, "router": 0.23, "coffee machine": 0.16, "robot vacuum": 0.12,
    "air purifier": 0.08, "mattress": 0.05, "floor lamp": 0.03, "office chair": 0.02,
    "bicycle": 0.007, "tent": 0.003,
}  # fmt: skip
PRODUCT_BY_REGION: Tilts = {
    "north": {"thermostat": 2.0, "air purifier": 0.5},
    "east": {"coffee machine": 2.2, "mattress": 1.8},
    "west": {"router": 2.4, "thermostat": 0.5},
    "south": {"air purifier": 5.0, "thermostat": 0.25},
    "islands": {"router": 4.0, "tent": 6.0, "bicycle": 3.0},
    "abroad": {"floor lamp": 8.0, "office chair": 8.0, "thermostat": 0.2},
}

ISSUE = {
    "setup trouble": 0.27, "warranty claim": 0.22, "late delivery": 0.14, "damaged item": 0.11,
    "refund not received": 0.09, "double charge": 0.07, "cancellation": 0.06, "wrong item": 0.03,
    "lost parcel": 0.01,
}  # fmt: skip
ISSUE_BY_PRODUCT: Tilts = {
    "thermostat": {"setup trouble": 2.5, "warranty claim": 1.3, "late delivery": 0.4},
    "router": {
        "setup trouble": 2.2,
        "double charge": 3.5,
        "cancellation": 3.5,
        "damaged item": 0.2,
    },
    "coffee machine": {"warranty claim": 3.5, "setup trouble": 0.2, "damaged item": 1.8},
    "robot vacuum": {"warranty claim": 3.0, "refund not received": 1.5},
    "air purifier": {"late delivery": 3.5, "setup trouble": 0.3},
    "mattress": {"refund not received": 6.0, "late delivery": 4.0, "setup trouble": 0.05},
    "floor lamp": {"damaged item": 9.0, "wrong item": 3.0, "setup trouble": 0.3},
    "office chair": {"damaged item": 4.0, "wrong item": 4.0},
    "bicycle": {"damaged item": 3.0, "late delivery": 3.0},
    "tent": {"wrong item": 6.0, "refund not received": 3.0, "setup trouble": 0.2},
}
ISSUE_BY_REGION: Tilts = {
    "islands": {"late delivery": 5.0, "lost parcel": 12.0},
    "abroad": {"late delivery": 4.0, "lost parcel": 25.0, "setup trouble": 0.2},
}

CHANNEL = {"phone": 0.44, "email": 0.29, "chat": 0.22, "web form": 0.05}
CHANNEL_BY_TENURE: Tilts = {
    "below 6": {"chat": 3.5, "phone": 0.5},
    "6 to below 24": {},
    "24 to below 60": {"phone": 1.4, "chat": 0.4},
    "60 and above": {"phone": 3.0, "chat": 0.05, "web form": 0.2},
}
CHANNEL_BY_ISSUE: Tilts = {
    "double charge": {"email": 3.0, "web form": 3.0},
    "refund not received": {"email": 2.5},
    "setup trouble": {"phone": 1.8, "chat": 1.8, "email": 0.4},
}

SENTIMENT = {"neutral": 0.46, "worried": 0.25, "angry": 0.20, "grateful": 0.09}
SENTIMENT_BY_ISSUE: Tilts = {
    "double charge": {"angry": 4.0, "neutral": 0.5, "grateful": 0.2},
    "refund not received": {"angry": 3.0, "worried": 1.5},
    "lost parcel": {"worried": 5.0, "neutral": 0.3},
    "late delivery": {"worried": 2.5},
    "setup trouble": {"grateful": 3.0, "angry": 0.3},
    "cancellation": {"neutral": 3.0, "worried": 0.3},
}

PRIORITY = {"normal": 0.62, "low": 0.22, "high": 0.13, "urgent": 0.03}
PRIORITY_BY_SENTIMENT: Tilts = {
    "angry": {"high": 6.0, "urgent": 6.0, "low": 0.1},
    "worried": {"high": 2.0, "low": 0.5},
    "grateful": {"low": 3.0, "high": 0.1, "urgent": 0.1},
}
PRIORITY_BY_ISSUE: Tilts = {
    "double charge": {"high": 3.0},
    "lost parcel": {"urgent": 8.0, "low": 0.1},
    "cancellation": {"low": 4.0},
}

RESOLUTION = {
    "advice given": 0.32, "replacement": 0.26, "refund": 0.17, "callback": 0.12,
    "store credit": 0.09, "escalation": 0.04,
}  # fmt: skip
RESOLUTION_BY_ISSUE: Tilts = {
    "setup trouble": {"advice given": 5.0, "callback": 3.0, "refund": 0.05, "replacement": 0.2},
    "warranty claim": {"replacement": 5.0, "refund": 0.3, "advice given": 0.5},
    "late delivery": {"store credit": 5.0, "advice given": 2.0, "replacement": 0.1},
    "damaged item": {"replacement": 6.0, "advice given": 0.1},
    "refund not received": {"refund": 7.0, "replacement": 0.02, "escalation": 3.0},
    "double charge": {"refund": 8.0, "replacement": 0.01, "escalation": 2.0, "advice given": 0.3},
    "cancellation": {"refund": 3.0, "advice given": 2.0, "replacement": 0.01, "callback": 3.0},
    "wrong item": {"replacement": 7.0, "store credit": 2.0, "advice given": 0.1},
    "lost parcel": {"escalation": 9.0, "replacement": 2.0, "advice given": 0.1},
}
RESOLUTION_BY_PRIORITY: Tilts = {
    "urgent": {"escalation": 10.0, "advice given": 0.2},
    "high": {"escalation": 3.0, "store credit": 2.0},
    "low": {"escalation": 0.05, "advice given": 2.0},
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """The eight attributes of one record. `tenure_months` is a number; the rest are labels."""

    product: str
    issue: str
    channel: str
    sentiment: str
    resolution: str
    region: str
    priority: str
    tenure_months: int


def draw_case(dice: Dice) -> Case:
    """One case from the network, parents first."""
    low, high = dice.weighted(TENURE)
    tenure_months = dice.between(low, high)
    region = dice.weighted(REGION)
    product = _draw(dice, PRODUCT, PRODUCT_BY_REGION.get(region))
    issue = _draw(dice, ISSUE, ISSUE_BY_PRODUCT.get(product), ISSUE_BY_REGION.get(region))
    tenure = CHANNEL_BY_TENURE[tenure_label(tenure_months)]
    channel = _draw(dice, CHANNEL, tenure, CHANNEL_BY_ISSUE.get(issue))
    sentiment = _draw(dice, SENTIMENT, SENTIMENT_BY_ISSUE.get(issue))
    priority = _draw(
        dice, PRIORITY, PRIORITY_BY_SENTIMENT.get(sentiment), PRIORITY_BY_ISSUE.get(issue)
    )
    resolution = _draw(
        dice, RESOLUTION, RESOLUTION_BY_ISSUE.get(issue), RESOLUTION_BY_PRIORITY.get(priority)
    )
    return Case(
        product=product,
        issue=issue,
        channel=channel,
        sentiment=sentiment,
        resolution=resolution,
        region=region,
        priority=priority,
        tenure_months=tenure_months,
    )


def tenure_label(months: int) -> str:
    """The bin that a schema with the edges TENURE_EDGES gives to a tenure."""
    place = sum(months >= edge for edge in TENURE_EDGES)
    return tuple(CHANNEL_BY_TENURE)[place]


def _draw(dice: Dice, base: Weights, *tilts: Weights | None) -> str:
    weights = dict(base)
    for tilt in tilts:
        for value, factor in (tilt or {}).items():
            weights[value] *= factor
    return dice.weighted(weights)
