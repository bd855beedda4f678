"""Says what was spent on a dataset, and which part of it one release spent.

Everything that states an epsilon of a release uses this module: the card, the pages, the commands
and the Python API. They read the ledger when they state it, because a card of an earlier moment
leaves out later charges.

An operator may draw several times and publish the best result. This choice depends on every result
that the operator could see. The results of all charges together have the epsilon of their
composition, and a choice among them is post-processing. So the epsilon of a release is the epsilon
of all charges of its dataset. A charge belongs to the release only if the release names its id. All
other charges count, whatever drew them: another run, a profile, results that were deleted and drawn
again, a run that crashed, a table or a histogram.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.entries import Entry, composed_epsilon
from sugarbush.privacy.ledger import Ledger

WHEN_WRITTEN = (
    "epsilon covers all charges of the dataset when this card was written, and that is what you "
    "must count if you chose among them. Later charges are in the ledger."
)


@dataclass(frozen=True, kw_only=True)
class Spending:
    """The charges of one run, and all other charges of its dataset.

    `own` are the charges that the run names. `before` and `after` are the other charges of the
    dataset, before and after the last charge of the run. `total` is the epsilon of all charges
    together. `delta` is that of the run.
    """

    own: tuple[Entry, ...]
    before: tuple[Entry, ...] = ()
    after: tuple[Entry, ...] = ()
    total: float
    delta: float

    @cached_property
    def of_run(self) -> float:
        """The epsilon of the charges of this run alone.

        If they come from several plans, the result is the bound for adaptive choices.
        """
        return composed_epsilon(self.own, delta=self.delta)

    @property
    def others(self) -> tuple[Entry, ...]:
        return (*self.before, *self.after)

    @property
    def epsilon(self) -> float:
        """The epsilon to count: that of all charges on the dataset."""
        return self.total if self.others else self.of_run

    def line(self, what: str = "this run") -> str:
        """Return the epsilon in words. There is one number if there is one run."""
        if not self.others:
            return f"epsilon {rounded_up(self.of_run)}"
        return (
            f"epsilon: {what} {rounded_up(self.of_run)}; all runs on this dataset "
            f"{rounded_up(self.total)}, and that is what you must count if you chose among them"
        )


def spending_of(ledger: Ledger, ids: Collection[str], *, delta: float | None = None) -> Spending:
    """Return what was spent by the run with the charges `ids`, and by all others.

    `ledger` is a snapshot of this moment, because another process may charge between two reads.
    Raises LedgerError if the ledger lacks one of the charges.
    """
    entries, named = ledger.entries(), set(ids)
    places = [place for place, entry in enumerate(entries) if entry.id in named]
    last = max(places, default=len(entries))
    return Spending(
        own=ledger.of(ids),
        before=tuple(entry for entry in entries[:last] if entry.id not in named),
        after=tuple(entry for entry in entries[last:] if entry.id not in named),
        total=ledger.total(),
        delta=ledger.delta if delta is None else delta,
    )
