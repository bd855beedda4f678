"""Which labels of a release are shown to be wrong, and what is said about labels.

A label that the records show to be wrong is not given out as a label. Every outlet of released
texts uses `with_true_labels`: the column of such an attribute and its confidence are left out, and
only `requested_<attribute>` stays, which is what the prompts requested.

Guarantee: post-processing of public figures and of released labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sugarbush.attributes.reader import Labels, ReadAttribute
from sugarbush.evaluation.public_figures import ACCURACY, GAIN, PublicFigure

LEAST_GAIN: Final = 0.05  # of what could be gained over the most common value
_LEAST_ROOM: Final = 0.2
# These readers read a released text as they read a record, so their values are those of the text.
# A drawn value, such as the date of a history, says nothing about the text.
_BY_DEFINITION: Final = ("record", "keywords", "zero_shot", "drawn")


def with_true_labels(labels: Labels, figures: Sequence[PublicFigure]) -> Labels:
    """Return the labels, without those attributes that the records show to be wrong.

    `figures` are the public figures of the same texts; without figures, all labels stay.
    """
    return labels.without(wrong_labels(labels.attributes, figures))


def wrong_labels(
    attributes: Iterable[ReadAttribute], figures: Sequence[PublicFigure]
) -> tuple[str, ...]:
    """Return the names of the attributes whose labels are wrong, in the given order.

    The labels of an attribute are wrong if even the upper end of the gain of a model that learned
    from them is below 5% of what could be gained over the most common value.

    *Wide intervals.* With few records the upper end is high, so the labels stay. Only labels that
    are certainly worthless go.

    *Frequent values.* What can be gained is the share of the records with another value, at least:
    its estimate less the error of a share. Labels stay if it is below 20%. There a model of true
    labels often gives the most common value alone, so a gain of 0 shows nothing about the labels.

    *Labels by definition.* A property of a record, keywords and zero-shot descriptions are read
    from a released text as from a record. They are true whatever a model learns from them. Dates
    and gaps of histories are drawn from the DP counts, and the report says so.

    *Chosen shares.* A model that learns from other shares than those of the records, or from one
    value, may gain nothing from true labels.

    >>> right = PublicFigure(name="accuracy", value=0.09, low=0.05, high=0.13, attribute="intent")
    >>> gain = PublicFigure(name="gain", value=-0.06, low=-0.1, high=-0.02, attribute="intent")
    >>> attribute = ReadAttribute(name="intent", source="request", requested=500)
    >>> wrong_labels([attribute], [right, gain])
    ('intent',)
    >>> wide = PublicFigure(name="gain", value=-0.06, low=-0.2, high=0.1, attribute="intent")
    >>> wrong_labels([attribute], [right, wide])
    ()
    """
    right = {figure.attribute: figure for figure in figures if figure.name == ACCURACY}
    gains = {figure.attribute: figure for figure in figures if figure.name == GAIN}
    return tuple(
        each.name
        for each in attributes
        if each.source not in _BY_DEFINITION
        and not each.chosen
        and each.name in gains
        and each.name in right
        and _is_worthless(right[each.name], gains[each.name])
    )


def _is_worthless(right: PublicFigure, gain: PublicFigure) -> bool:
    # right - gain is the share of the most common value, with about the error of `right`.
    room = 1 - (right.high - gain.value)
    return room >= _LEAST_ROOM and gain.high < LEAST_GAIN * room


def learned(right: PublicFigure) -> str:
    """Say how much a model learns. `right` is the accuracy of one attribute.

    >>> learned(PublicFigure(name="accuracy", value=0.6, low=0.5, high=0.7, attribute="topic"))
    'a model that learns topic from the release is right for 60% (50% to 70%) of the records'
    """
    return _model([right])


def unlearned(right: Sequence[PublicFigure]) -> str:
    """Say that the gain of some attributes was not shown. `right` has the accuracy of each."""
    return (
        f"poor for training: {_model(right)}, which was not shown to be better than always "
        "answering the most common value"
    )


def left_out(right: Sequence[PublicFigure]) -> str:
    """Say that some attributes are no columns. `right` has the accuracy of each."""
    columns = "is not a column" if len(right) == 1 else "are not columns"
    return (
        f"{_names(right)} {columns} of this release: {_model(right)}, no better than always "
        "answering the most common value"
    )


def _model(right: Sequence[PublicFigure]) -> str:
    shares = _joined([in_percent(figure) for figure in right])
    return (
        f"a model that learns {_names(right)} from the release is right for {shares} of the records"
    )


def _names(figures: Sequence[PublicFigure]) -> str:
    return _joined([str(figure.attribute) for figure in figures])


def _joined(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def in_percent(figure: PublicFigure) -> str:
    """Return a figure and its interval, such as '60% (50% to 70%)'."""
    return f"{figure.value:.0%} ({figure.low:.0%} to {figure.high:.0%})"
