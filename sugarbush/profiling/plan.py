"""Divides the budget of a profile among its mechanisms, before the first draw."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sugarbush.errors import ParamsError
from sugarbush.privacy.accounting import epsilon as epsilon_of
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.budget import BudgetRequest, make_plan
from sugarbush.privacy.events import (
    DiscreteGaussian,
    Event,
    PlannedEvents,
    ThresholdedGaussian,
    event_from_dict,
)
from sugarbush.profiling.layout import (
    MEASURES,
    TERMS_OF_RECORD,
    columns_group,
    sizes_group,
    style_group,
)

SIZES, STYLE, COLUMNS, VALUES, TERMS = "sizes", "style", "columns", "values", "terms"
# The steps that divide the bins of numbers and dates (`refinement`)
STEPS: Final = ("finer bins 1", "finer bins 2", "finer bins 3")
# Shares of mu^2. Values get most, because a schema needs them, and because values that are rarer
# than the threshold stay unknown. A count of `COLUMNS` and one of a step have about equal noise.
_SHARES: Final = {
    SIZES: 0.08, STYLE: 0.05, COLUMNS: 0.048, **dict.fromkeys(STEPS, 0.024), VALUES: 0.65,
    TERMS: 0.10,
}  # fmt: skip
_WITHOUT_COLUMNS: Final = {SIZES: 0.2, STYLE: 0.15, TERMS: 0.65}
_THRESHOLDED: Final = (VALUES, TERMS)
# Fraction of the ledger's slack that each threshold uses. So small, because a repaired ledger does
# not know which charges were planned together: then each of them has a slack number of its own, and
# the slack of the numbers 4 to 7 is 1/16 of that of number 1.
_OF_SLACK: Final = 0.9 / 16
_LEAST_DELTA: Final = 1e-16


@dataclass(frozen=True, kw_only=True)
class ProfilePlan:
    """The event of each mechanism. Their total epsilon is at most `epsilon` at `delta`."""

    events: dict[str, Event]
    epsilon: float
    delta: float
    charged: tuple[str, ...] | None = None  # the mechanisms to charge together; None: all

    @property
    def planned(self) -> PlannedEvents:
        """The events that are charged together, for the ledger."""
        names = self.events if self.charged is None else self.charged
        events = tuple(self.events[name] for name in names)
        said = json.dumps(["profile", self.delta, *(event.as_dict() for event in events)])
        return PlannedEvents(id=hashlib.sha256(said.encode()).hexdigest()[:16], events=events)

    def deltas(self, names: Sequence[str]) -> float:
        """Return the sum of the deltas of some mechanisms."""
        return sum(self.thresholded(name).delta for name in names if name in _THRESHOLDED)

    def again(self, names: Sequence[str], *, slack: float) -> ProfilePlan:
        """Return the plan of mechanisms that are charged again, because a draw was lost.

        The noise stays the same. The deltas fit into the slack that the ledger has left, so the
        thresholds are higher.
        """
        thresholded = [name for name in names if name in _THRESHOLDED]
        share = _OF_SLACK * slack
        events: dict[str, Event] = {name: self.events[name] for name in names}
        events |= {name: replace(self.thresholded(name), delta=share) for name in thresholded}
        return replace(self, events=self.events | events, charged=tuple(names))

    def stddev(self, name: str) -> float:
        """Return the noise of each count of a mechanism."""
        thresholded = name in _THRESHOLDED
        return self.thresholded(name).stddev if thresholded else self.counts(name).stddev

    def counts(self, name: str) -> DiscreteGaussian:
        """Return the event of noisy counts."""
        event = self.events[name]
        assert isinstance(event, DiscreteGaussian)
        return event

    def thresholded(self, name: str) -> ThresholdedGaussian:
        """Return the event of a noisy set."""
        event = self.events[name]
        assert isinstance(event, ThresholdedGaussian)
        return event

    def to_json(self) -> str:
        events = {name: event.as_dict() for name, event in self.events.items()}
        return json.dumps({"events": events, "epsilon": self.epsilon, "delta": self.delta})

    @classmethod
    def from_json(cls, text: str) -> ProfilePlan:
        fields = json.loads(text)
        events = {name: event_from_dict(event) for name, event in fields["events"].items()}
        return cls(events=events, epsilon=fields["epsilon"], delta=fields["delta"])


def plan_profile(
    *,
    epsilon: float,
    delta: float,
    slack: float,
    columns: int,
    by_user: bool,
    measures: Sequence[str] = MEASURES,
) -> ProfilePlan:
    """Plan a profile of a file with `columns` named columns. `measures` are the lengths of a text.

    The share of the sizes grows with their histograms, so that more lengths hardly change their
    noise.
    A unit gives one record to a profile, so every sensitivity is that of one record. `slack` is the
    share of delta that the ledger has left for the thresholds (`Ledger.next_slack`). Raises
    ParamsError if it is too small.
    """
    if slack < _LEAST_DELTA:
        raise ParamsError(
            "the ledger of this dataset has too many charges for another profile: the part of "
            "delta that is left for its thresholds is "
            f"{rounded_up(slack)}. Use the profile that exists"
        )
    shares = dict(_SHARES if columns else _WITHOUT_COLUMNS)
    further = shares[SIZES] * (len(measures) - len(MEASURES)) / (1 + len(MEASURES))
    shares[SIZES] += further
    shares = {name: share / (1 + further) for name, share in shares.items()}
    cells = {
        SIZES: sizes_group(by_user=by_user, measures=measures).cells,
        STYLE: style_group().cells,
        COLUMNS: columns_group([""] * columns).cells,
        **dict.fromkeys(STEPS, columns),
        VALUES: columns,
        TERMS: TERMS_OF_RECORD,
    }
    requests = [
        BudgetRequest(name=name, count=cells[name], share=share) for name, share in shares.items()
    ]
    share = _OF_SLACK * slack
    plan = make_plan(requests, epsilon=epsilon, delta=delta - len(_THRESHOLDED) * share)
    events: dict[str, Event] = {}
    for name in shares:
        stddev = plan.of(name).stddev
        if name in _THRESHOLDED:
            events[name] = ThresholdedGaussian(stddev=stddev, delta=share, count=cells[name])
        else:
            events[name] = DiscreteGaussian(stddev=stddev, count=cells[name])
    # The divergence at every epsilon is at most that of the counts, plus the deltas.
    spent = min(epsilon, epsilon_of(events.values(), delta=delta))
    return ProfilePlan(events=events, epsilon=max(spent, plan.epsilon), delta=delta)
