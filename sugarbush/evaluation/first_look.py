"""The first look: does the generator fit the records, and how long are they? Measured before a run.

The look draws up to five groups of noisy numbers from one record of each unit:

    lengths   the lengths of the texts, unless settings or donated texts state them
    style     public yes/no rules on the form of a text, unless schema or donated texts state it
    centre    the sum of the embeddings
    fit       whether the nearest first text of a record is near (`fit`)
    kinds     the same for each value of each attribute

Guarantee: a record is in one cell of `fit`, and in one cell per attribute of `kinds`, per measure
of `lengths` and per rule of `style`. It adds a vector of a stated length to `centre`. One record of
each unit is used, so the sensitivity is that of one record. Everything that follows from the
numbers is post-processing, also the decision to stop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.evaluation.fit import CELLS, UNIT, ShareInterval
from sugarbush.privacy.budget import BudgetRequest

LENGTHS, STYLE, CENTRE = "look_lengths", "look_style", "look_centre"
FIT, KINDS = "look_fit", "look_kinds"
NAMES: Final = (LENGTHS, STYLE, CENTRE, FIT, KINDS)
# Shares of mu^2; docs/log/first_look.md
_SHARES: Final = {LENGTHS: 0.01, STYLE: 0.012, CENTRE: 0.015, FIT: 0.015, KINDS: 0.008}
TEXTS: Final = 200  # first texts, at most
FEWEST_TEXTS: Final = 40
# Generators that wrote texts of another kind had at most .25, good ones at least .5, apart from two
# of 60 cases (docs/log/first_look.md).
POOR_FIT: Final = 0.25
GOOD_FIT: Final = 0.5
_MOST_KINDS: Final = 6
_MOST_RATIO: Final = 2  # of the median lengths of texts of one form


def look_requests(cells: Mapping[str, int]) -> tuple[BudgetRequest, ...]:
    """Return the mechanisms of a look.

    `cells` has the largest number of cells of a record in each group that is drawn.
    """
    return tuple(
        BudgetRequest(
            name=name,
            count=cells[name],
            share=_SHARES[name],
            pool="figures",
            one_record=True,
            record_l2_sensitivity=UNIT if name == CENTRE else 1,
        )
        for name in NAMES
        if cells.get(name)
    )


@dataclass(frozen=True, kw_only=True)
class ValueCoverage:
    """A value of an attribute, and the share of its records that find a near first text."""

    attribute: str
    value: str
    fit: ShareInterval


@dataclass(frozen=True, kw_only=True)
class FirstLook:
    """A released first look.

    `fit` is the share of the records with a near first text; None if the noise is too large for it.
    `texts` is the number of first texts, and `text_words` the median of their numbers of words, if
    it was computed. `words` are numbers of words for prompts, `lengths` those of the parts of a
    text, and `style` describes the form of the texts; each is empty if it was not drawn or the
    noise is too large. `random` is at most the similarity of two random records.
    """

    fit: ShareInterval | None
    kinds: tuple[ValueCoverage, ...]
    texts: int
    text_words: int | None = None
    words: tuple[int, ...] = ()
    lengths: dict[str, tuple[int, ...]]
    style: str = ""
    random: float | None = None
    ledger_ids: tuple[str, ...] = ()

    @property
    def is_poor(self) -> bool:
        """Whether the first texts are certainly unlike the records."""
        return self.fit is not None and self.fit.high < POOR_FIT

    def missing(self) -> tuple[ValueCoverage, ...]:
        """The values with records that certainly find few near texts, the fewest first."""
        found = [kind for kind in self.kinds if kind.fit.high < POOR_FIT]
        return tuple(sorted(found, key=lambda kind: (kind.fit.high, kind.attribute, kind.value)))

    def line(self) -> str:
        """Return the look in one line.

        >>> share = Share(value=0.02, low=0.0, high=0.05)
        >>> FirstLook(fit=share, kinds=(), texts=200, lengths={}).line()
        '2% (0% to 5%) of the records have a near text among 200 first texts; good are 50% and more'
        """
        if self.fit is None:
            return (
                "too few records for a first look at this noise, so nothing is known about the fit"
            )
        return (
            f"{self.fit.in_percent()} of the records have a near text among {self.texts:,} first "
            f"texts; good are {GOOD_FIT:.0%} and more"
        )

    def has_length(self, words: float) -> bool | None:
        """Return whether the first texts have about `words` words; None if their length is
        unknown.
        """
        if self.text_words is None:
            return None
        return 1 / _MOST_RATIO < max(self.text_words, 1) / max(words, 1) < _MOST_RATIO

    def listed_missing(self) -> str:
        """Return the values of `missing`, in words, or ''."""
        names = [f"{kind.attribute} {kind.value}" for kind in self.missing()]
        more = f" and {len(names) - _MOST_KINDS} more" if len(names) > _MOST_KINDS else ""
        return ", ".join(names[:_MOST_KINDS]) + more

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> FirstLook:
        """Read the result of `to_json`."""
        fields: dict[str, Any] = json.loads(text)
        return cls(
            fit=None if fields["fit"] is None else ShareInterval(**fields["fit"]),
            kinds=tuple(
                ValueCoverage(**kind | {"fit": ShareInterval(**kind["fit"])})
                for kind in fields["kinds"]
            ),
            texts=fields["texts"],
            text_words=fields["text_words"],
            words=tuple(fields["words"]),
            lengths={name: tuple(numbers) for name, numbers in fields["lengths"].items()},
            style=fields["style"],
            random=fields["random"],
            ledger_ids=tuple(fields["ledger_ids"]),
        )


def kinds_of(
    counts: NDArray[np.int64], attributes: Sequence[tuple[str, Sequence[str]]], *, stddev: float
) -> tuple[ValueCoverage, ...]:
    """Return the fit of each listed value whose counts are above the noise.

    `counts` are those of `NearTexts.cells_by_value`. `attributes` are names with all values, the
    bucket for other values last.
    """
    found, start = [], 0
    for name, values in attributes:
        for value in values:
            far, near = counts[start : start + CELLS].tolist()
            start += CELLS
            if (
                value != values[-1]
                and (share := ShareInterval.of(far, near, stddev=stddev)) is not None
            ):
                found.append(ValueCoverage(attribute=name, value=value, fit=share))
    return tuple(found)
