"""The figures of a rehearsal, and the verdict on them: good, fair or poor.

The donated texts are the standard: beside each figure of the first texts is the same figure of the
donated texts. Thresholds: docs/decisions/rehearsal.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sugarbush.generators.interface import Problem

FEWEST_DONATED = 5  # with fewer donated texts, there is no standard
_ENOUGH_DONATED = 20  # with fewer, the nearest donated text is farther away by chance
_MOST_REASONS = 5
_MOST_KINDS = 6


class RehearsalGrade(StrEnum):
    """The verdict on the first texts. The order is from best to worst."""

    GOOD = "good"
    FAIR = "fair"
    POOR = "poor"


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Quantiles of the number of words: 10%, 50% and 90%."""

    low: int
    median: int
    high: int


@dataclass(frozen=True, kw_only=True)
class ShownAttribute:
    """How often the texts show the requested value of one attribute.

    `shown` is the share of texts that have the requested value, as read from the text. `chance`
    is this share if every text is compared with the request of another text.
    """

    name: str
    shown: float
    chance: float
    texts: int


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of the first texts, and the same figures of the donated texts.

    Each donated text has a distance to the nearest other donated text. A text is far if its
    distance to the nearest donated text exceeds 90% of these distances; `far` is the share of these
    texts. `distance` is the median distance to the nearest donated text; `donated_distance` is this
    median among the donated texts. `spread` and `donated_spread` are mean distances between two
    texts. All distances are cosine distances. `off_subject` is the share of texts that are nearer
    to three other subjects than to the subject of the schema. Without enough donated texts, the
    comparisons are None. `kinds` counts the generator's public texts by the values of each
    attribute.
    """

    requested: int
    usable: int
    different: int
    donated: int
    problems: Mapping[str, int] = field(default_factory=dict)
    lengths: Lengths | None = None
    donated_lengths: Lengths | None = None
    requested_words: int | None = None
    far: float | None = None
    distance: float | None = None
    donated_distance: float | None = None
    spread: float | None = None
    donated_spread: float | None = None
    off_subject: float | None = None
    attributes: tuple[ShownAttribute, ...] = ()
    kinds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def usable_share(self) -> float:
        return self.usable / self.requested


@dataclass(frozen=True, kw_only=True)
class RehearsalVerdict:
    """The grade with at most five reasons, and what to change if the grade is poor."""

    grade: RehearsalGrade
    reasons: tuple[str, ...]
    advice: tuple[str, ...] = ()


def judge_rehearsal(
    figures: Figures, *, max_dropped_share: float, compared: bool
) -> RehearsalVerdict:
    """Return the verdict. `compared` states whether there are enough donated texts.

    >>> judge(Figures(requested=40, usable=0, different=0, donated=0, problems={"refusal": 40}),
    ...       max_dropped_share=0.2, compared=False).grade
    <Grade.POOR: 'poor'>
    """
    found = [
        *_usable(figures, max_dropped_share),
        *(_like_the_standard(figures) if compared else _like_the_subject(figures)),
        *_varied(figures),
        *_attributes(figures),
        *_missing_kinds(figures),
    ]
    order = list(RehearsalGrade)
    grade = max((one.grade for one in found), key=order.index, default=RehearsalGrade.GOOD)
    found.sort(key=lambda one: -order.index(one.grade))
    if not found:
        found = [_Reason(RehearsalGrade.GOOD, _praise(figures))]
    poor = [one.advice for one in found if one.grade is RehearsalGrade.POOR and one.advice]
    return RehearsalVerdict(
        grade=grade,
        reasons=tuple(one.text for one in found[:_MOST_REASONS]),
        advice=tuple(dict.fromkeys(poor)),
    )


@dataclass(frozen=True)
class _Reason:
    grade: RehearsalGrade
    text: str
    advice: str = ""


_MODEL = "choose a larger or another model, or another generator (generator.provider)"
_ADVICE = {
    Problem.TRUNCATED: "raise the generator's max_tokens, or lower initialise.length",
    Problem.REFUSAL: f"{_MODEL}: this model refuses",
    Problem.FAILED: "check that the generator's server answers, and try again",
    Problem.COPIED_EXAMPLE: f"donate more texts, or {_MODEL}: this model copies its examples",
    Problem.WRONG_LANGUAGE: f"{_MODEL}: this model does not write the language of the texts",
}
_KINDS = "choose a generator for texts like yours, or correct `subject` in the schema"


def _usable(figures: Figures, max_dropped_share: float) -> list[_Reason]:
    dropped = figures.requested - figures.usable
    if dropped <= max(1, 0.5 * max_dropped_share * figures.requested):
        return []
    kinds = sorted(figures.problems.items(), key=lambda kind: -kind[1])
    listed = ", ".join(f"{count} {_words_of(name)}" for name, count in kinds)
    text = f"{dropped} of {figures.requested} answers are unusable ({listed})"
    if dropped <= max_dropped_share * figures.requested:
        return [_Reason(RehearsalGrade.FAIR, text)]
    advice = _ADVICE.get(Problem(kinds[0][0]), _MODEL)
    return [_Reason(RehearsalGrade.POOR, text, advice)]


def _like_the_standard(figures: Figures) -> list[_Reason]:
    if figures.far is None or figures.distance is None or figures.donated_distance is None:
        return []
    found = []
    if figures.far > (0.35 if figures.donated >= _ENOUGH_DONATED else 0.5):
        grade = RehearsalGrade.POOR if figures.far > 0.6 else RehearsalGrade.FAIR
        count = round(figures.far * figures.usable)
        found.append(
            _Reason(
                grade,
                f"{count} of {figures.usable} texts are unlike every donated text (median distance "
                f"to the nearest {figures.distance:.2f}; among donated texts "
                f"{figures.donated_distance:.2f})",
                _KINDS,
            )
        )
    own, other = figures.lengths, figures.donated_lengths
    if own is not None and other is not None:
        ratio = max(own.median, 1) / max(other.median, 1)
        if not 1 / 1.8 <= ratio <= 1.8:
            grade = RehearsalGrade.FAIR if 1 / 4 <= ratio <= 4 else RehearsalGrade.POOR
            found.append(
                _Reason(
                    grade,
                    f"the texts have {own.median} words, and donated texts have {other.median} "
                    "(medians)",
                    "set initialise.length to the lengths of the donated texts",
                )
            )
    if figures.spread is not None and figures.donated_spread:
        ratio = figures.spread / figures.donated_spread
        if ratio < 0.7:
            grade = RehearsalGrade.POOR if ratio < 0.45 else RehearsalGrade.FAIR
            found.append(
                _Reason(
                    grade,
                    f"the texts are too like one another (mean distance {figures.spread:.2f}; "
                    f"donated texts {figures.donated_spread:.2f})",
                    f"raise the generator's temperature, or {_MODEL}",
                )
            )
    return found


def _like_the_subject(figures: Figures) -> list[_Reason]:
    """Return reasons without donated texts. The grade is never good, because nothing shows what
    real texts are like."""
    found = [
        _Reason(
            RehearsalGrade.FAIR,
            f"quality cannot be judged without donated texts (prepare.donated has "
            f"{figures.donated}; at least {FEWEST_DONATED} are needed)",
        )
    ]
    if figures.off_subject is not None and figures.off_subject > 0.5:
        count = round(figures.off_subject * figures.usable)
        grade = RehearsalGrade.POOR if figures.off_subject > 0.8 else RehearsalGrade.FAIR
        found.append(
            _Reason(
                grade,
                f"{count} of {figures.usable} texts are nearer to other subjects than to the "
                "schema's `subject`",
                _KINDS,
            )
        )
    own = figures.lengths
    if own is not None and figures.requested_words:
        ratio = max(own.median, 1) / figures.requested_words
        if not 1 / 3 <= ratio <= 3:
            text = f"the texts have {own.median} words, but {figures.requested_words} are requested"
            found.append(_Reason(RehearsalGrade.FAIR, text))
    if figures.spread is not None and figures.usable > 1 and figures.spread < 0.15:
        found.append(
            _Reason(
                RehearsalGrade.POOR,
                f"the texts are nearly the same (mean distance {figures.spread:.2f})",
                f"raise the generator's temperature, or {_MODEL}",
            )
        )
    return found


def _varied(figures: Figures) -> list[_Reason]:
    repeated = figures.usable - figures.different
    if figures.usable < 2 or repeated <= max(1, 0.2 * figures.usable):
        return []
    grade = RehearsalGrade.POOR if repeated > 0.5 * figures.usable else RehearsalGrade.FAIR
    text = f"{repeated} of {figures.usable} texts repeat another text"
    return [_Reason(grade, text, "raise the generator's temperature, or add public texts")]


def _attributes(figures: Figures) -> list[_Reason]:
    hidden = [one for one in figures.attributes if _is_hidden(one)]
    if not hidden:
        return []
    names = ", ".join(f"{one.name} ({one.shown:.0%}, by chance {one.chance:.0%})" for one in hidden)
    return [_Reason(RehearsalGrade.FAIR, f"few texts show the requested value of: {names}")]


def _missing_kinds(figures: Figures) -> list[_Reason]:
    missing = [
        f"{name} {value}"
        for name, counts in figures.kinds.items()
        for value, count in counts.items()
        if not count
    ]
    if not missing:
        return []
    listed = ", ".join(missing[:_MOST_KINDS]) + (", .." if len(missing) > _MOST_KINDS else "")
    return [_Reason(RehearsalGrade.FAIR, f"the public texts have no text of: {listed}")]


def _is_hidden(one: ShownAttribute) -> bool:
    """Return whether `shown` is less than a fifth of the way from `chance` to 1."""
    return one.shown - one.chance < 0.2 * (1.0 - one.chance)


def _praise(figures: Figures) -> str:
    return (
        f"{figures.usable} of {figures.requested} answers are usable, different, and like the "
        "donated texts"
    )


def _words_of(problem: str) -> str:
    return problem.replace("_", " ")
