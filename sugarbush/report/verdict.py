"""The verdict on a release: good, fair, unknown or poor, with reasons in plain words.

A verdict comes from released and public values only, so it costs no budget and may be shown to
everybody. Its thresholds were chosen on real sets before any release was judged
(docs/log/first_release.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sugarbush.attributes.reader import ReadAttribute
from sugarbush.evaluation.first_look import GOOD_FIT, POOR_FIT
from sugarbush.evaluation.likeness import LEAST_DONATED, Likeness
from sugarbush.evaluation.public_figures import ACCURACY, COVERAGE, GAIN, TOPICS, PublicFigure
from sugarbush.report.json_fields import JsonFields
from sugarbush.report.true_labels import LEAST_GAIN, in_percent, learned, left_out, unlearned

_OTHER_LENGTH, _FAR_LENGTH = 2, 4  # ratios of two medians
# unknown: neither the records nor donated texts could tell a good release from a worthless one
Grade = Literal["good", "fair", "unknown", "poor"]
_ORDER: tuple[Grade, ...] = ("good", "fair", "unknown", "poor")
_MOST_REASONS = 5
_ENOUGH_DONATED = 20
_LEAST_SIGNAL = 1.5
_WIDEST = 0.4  # interval of the coverage that says something
# Shares of the records to move to another topic (docs/log/first_look.md)
_GOOD_TOPICS, _POOR_TOPICS = 0.2, 0.3
_MOST_UNLISTED = 0.3


@dataclass(frozen=True, kw_only=True)
class Teaching:
    """How well attribute values are learned: mean accuracy on donated examples, over attributes.

    `release` is the accuracy of a classifier that is trained on the released texts and their
    labels, and `donated` that of one trained on the other donated examples. Neither has seen the
    examples that it is tested on. `error` is the standard error of the difference.
    """

    release: float
    donated: float
    error: float

    @property
    def less(self) -> bool:
        """Whether the release teaches less than the donated examples alone."""
        return self.release < self.donated - self.error


@dataclass(frozen=True, kw_only=True)
class VerdictFacts:
    """What a verdict is made of; all values are released or public.

    `likeness` is None without enough texts or `donated` examples. `signal` is the standard
    deviation of the noisy scores or votes divided by the standard deviation of their noise; None
    without scores. A ratio of 1 is noise alone. `repeated` is the share of texts that repeat an
    earlier text. `wanted` and `texts` are the requested and the released number of texts. `scored`
    is the number of released texts that the records scored, or None for a method without scores.
    `unlisted` maps an attribute to the DP share of the records without one of its listed values.
    `considered` is the number of texts from which the release was chosen; None without a choice.
    `measured` are the public figures of the release; empty if nothing was measured. `lengths` are
    the median numbers of words of the release and of the records, or None if they are unknown.
    """

    texts: int
    wanted: int
    likeness: Likeness | None = None
    donated: int = 0
    signal: float | None = None
    scored: int | None = None
    considered: int | None = None
    repeated: float = 0.0
    attributes: Sequence[ReadAttribute] = ()
    teaching: Teaching | None = None
    measured: Sequence[PublicFigure] = ()
    unlisted: Mapping[str, float] = field(default_factory=dict)
    lengths: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict(JsonFields):
    """A grade, at most five reasons, notes, and whether the texts are good enough to train a model.

    A note says what a better schema could do, and is no reason for the grade.

    `training` is None if nobody can tell, because nothing measured it and no donated example has
    labels. `figures` are the
    measured values behind the reasons.
    """

    grade: Grade
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    training: Literal["good", "poor"] | None = None
    figures: Mapping[str, float] = field(default_factory=dict)

    def line(self) -> str:
        """Return the verdict in one line.

        >>> Verdict(grade="poor", reasons=("the texts repeat each other",)).line()
        'poor: the texts repeat each other'
        """
        return f"{self.grade}: {'; '.join(self.reasons)}"


def make_verdict(facts: VerdictFacts) -> Verdict:
    """Return the verdict: the worst grade of all findings, and the worst findings as reasons.

    >>> likeness = Likeness(separability=1.0, foreign=0.9, coverage=0.3, donated=50)
    >>> make_verdict(VerdictFacts(texts=100, wanted=100, likeness=likeness)).grade
    'poor'
    """
    findings = sorted(_findings(facts), key=lambda finding: -_ORDER.index(finding[0]))
    training: Literal["good", "poor"] | None = None
    if facts.teaching is not None:
        training = "poor" if facts.teaching.less else "good"
    if gains := [figure for figure in facts.measured if figure.name == GAIN]:
        training = "good" if any(gain.low > 0 for gain in gains) and training != "poor" else "poor"
    return Verdict(
        grade=findings[0][0] if findings else "good",
        reasons=tuple(reason for _, reason in findings[:_MOST_REASONS]),
        notes=tuple(_notes(facts)),
        training=training,
        figures=_figures(facts),
    )


def _figures(facts: VerdictFacts) -> dict[str, float]:
    figures = {"repeated": facts.repeated, "signal": facts.signal}
    if (like := facts.likeness) is not None:
        figures |= {
            "separability": like.separability,
            "foreign": like.foreign,
            "coverage": like.coverage,
            "copied": like.copied,
        }
    if (taught := facts.teaching) is not None:
        figures |= {"taught_by_release": taught.release, "taught_by_donated": taught.donated}
    figures |= {figure.title: figure.value for figure in facts.measured}
    figures |= {f"shown_{a.name}": a.shown for a in facts.attributes}
    return {name: round(value, 3) for name, value in figures.items() if value is not None}


def _notes(facts: VerdictFacts) -> Iterator[str]:
    for name, share in facts.unlisted.items():
        if share > _MOST_UNLISTED:
            yield (
                f"{share:.0%} of the records have no listed value of {name}: list more values "
                "(`sugarbush profile` finds frequent ones), join values in groups, or leave it out"
            )


def worst(verdicts: Sequence[Verdict]) -> Verdict | None:
    """Return the verdict with the worst grade, or None for an empty sequence."""
    return max(verdicts, key=lambda verdict: _ORDER.index(verdict.grade), default=None)


def _findings(facts: VerdictFacts) -> Iterator[tuple[Grade, str]]:
    if not facts.texts:
        yield "poor", "the release has no text"
        return
    coverage = next((figure for figure in facts.measured if figure.name == COVERAGE), None)
    if coverage is not None:
        yield _of_coverage(coverage, has_donated=facts.likeness is not None)
    if facts.lengths is not None:
        yield from _of_lengths(*facts.lengths)
    yield from (_of_topics(figure) for figure in facts.measured if figure.name == TOPICS)
    if coverage is None or facts.likeness is not None:
        yield from _of_likeness(facts.likeness, donated=facts.donated)
    if facts.signal is not None and facts.signal < _LEAST_SIGNAL:
        reason = "the records' scores are hardly more than noise: use more records or more epsilon"
        yield "fair", reason
    if facts.considered is not None and facts.considered <= facts.texts:
        reason = f"the scores chose nothing: there were only {facts.considered:,} different texts"
        yield "fair", reason
    if facts.texts < 0.8 * facts.wanted:
        reason = (
            f"only {facts.texts:,} of {facts.wanted:,} texts: there were no more different ones"
        )
        yield "fair", reason
    if facts.repeated > 0.05:
        grade: Grade = "poor" if facts.repeated > 0.2 else "fair"
        yield grade, f"{facts.repeated:.0%} of the texts repeat an earlier text"
    if facts.scored is not None and facts.scored < facts.texts / 2:
        yield "fair", f"the records scored only {facts.scored:,} of the {facts.texts:,} texts"
    yield from _of_learning(facts.measured, wrong={a.name for a in facts.attributes if a.wrong})
    yield from _of_labels(facts)


def _of_coverage(figure: PublicFigure, *, has_donated: bool) -> tuple[Grade, str]:
    said = f"{in_percent(figure)} of the records have a text like them in the release"
    if figure.high < POOR_FIT:
        return "poor", f"only {said}"
    if figure.high - figure.low > _WIDEST:
        tells_nothing = figure.low < POOR_FIT and figure.high >= GOOD_FIT and not has_donated
        grade: Grade = "unknown" if tells_nothing else "fair"
        return grade, f"not known well: {said}. More records or more epsilon tell"
    if figure.value < GOOD_FIT:
        return "fair", f"{said}; good releases have {GOOD_FIT:.0%}"
    return "good", said


def _of_lengths(released: int, records: int) -> Iterator[tuple[Grade, str]]:
    ratio = max(released, 1) / max(records, 1)
    if not 1 / _OTHER_LENGTH < ratio < _OTHER_LENGTH:
        is_far = not 1 / _FAR_LENGTH < ratio < _FAR_LENGTH
        said = f"the texts have about {released} words, and the records about {records}"
        yield ("poor" if is_far else "fair"), said


def _of_topics(figure: PublicFigure) -> tuple[Grade, str]:
    """Whether the texts are about what the records are about.

    Foreign texts beside a few of the kind leave the coverage high, but form topics of their own.
    """
    said = (
        f"for the topics of the texts, {in_percent(figure)} of the records would have to be about "
        "something else"
    )
    if figure.low > _POOR_TOPICS:
        return "poor", said
    return ("fair" if figure.value > _GOOD_TOPICS else "good"), said


def _of_learning(
    measured: Sequence[PublicFigure], *, wrong: Collection[str]
) -> Iterator[tuple[Grade, str]]:
    """What a model that is trained on the release tells about the records, by attribute.

    The attributes in `wrong` are no columns of the release.
    """
    right = {str(f.attribute): f for f in measured if f.name == ACCURACY}
    gains = {str(f.attribute): f for f in measured if f.name == GAIN}
    grade: Grade = "poor" if all(gain.high < LEAST_GAIN for gain in gains.values()) else "fair"
    is_taught = any(gain.low > 0 for name, gain in gains.items() if name not in wrong)
    if excluded := [right[name] for name in gains if name in wrong]:
        yield grade, left_out(excluded)
    rest = {name: gain for name, gain in gains.items() if name not in wrong}
    if untaught := [right[name] for name, gain in rest.items() if gain.low <= 0]:
        # Texts may not tell an attribute at all, so one that is learned is enough.
        yield "good" if is_taught else grade, unlearned(untaught)
    for name, gain in rest.items():
        if gain.low > 0:
            yield "good", learned(right[name])


def _of_likeness(likeness: Likeness | None, *, donated: int) -> Iterator[tuple[Grade, str]]:
    if likeness is None:
        few = "a release of so few texts" if donated >= LEAST_DONATED else "under 10 donated texts"
        yield "unknown", f"with {few}, nothing public shows how like the records the texts are"
        return
    detail = f"(separability {likeness.separability:.2f}; 0.5 is best)"
    if likeness.separability > 0.92:
        yield "poor", f"the texts are easily told from the donated texts {detail}"
    elif likeness.separability > 0.64:
        yield "fair", f"the texts differ from the donated texts {detail}"
    else:
        yield "good", f"the texts are hard to tell from the donated texts {detail}"
    if likeness.copied > 0.05:
        grade: Grade = "poor" if likeness.copied > 0.2 else "fair"
        yield grade, f"{likeness.copied:.0%} of the texts equal a donated text"
    elif likeness.separability < 0.3:
        yield "fair", "the texts are nearer to the donated texts than these are to each other"
    if likeness.foreign > 0.2:
        grade = "poor" if likeness.foreign > 0.35 else "fair"
        yield grade, f"{likeness.foreign:.0%} of the texts are unlike every donated text"
    if likeness.coverage < 0.7:
        yield "fair", "many donated texts have no similar text in the release"
    if likeness.donated < _ENOUGH_DONATED:
        yield "fair", f"only {likeness.donated} donated texts to compare with"


def _of_labels(facts: VerdictFacts) -> Iterator[tuple[Grade, str]]:
    teaching = facts.teaching
    if teaching is not None and teaching.less:
        yield (
            "fair",
            (
                f"poor for training: a model that learns from the release is right for "
                f"{teaching.release:.0%} of the donated texts, from other donated texts for "
                f"{teaching.donated:.0%}"
            ),
        )
    shown = {figure.attribute for figure in facts.measured if figure.name == GAIN}
    if unread := [a.name for a in facts.attributes if a.is_unverified and a.name not in shown]:
        names = ", ".join(unread)
        reason = f"nothing shows whether labels are true: too few donated texts tell their {names}"
        yield "fair", reason
    missed = [
        f"{a.name} ({a.shown:.0%})"
        for a in facts.attributes
        if a.shown is not None and a.missed and not a.wrong
    ]
    if missed:
        reason = (
            f"few texts have the requested {', '.join(missed)}; their labels say what they have"
        )
        yield "good", reason
