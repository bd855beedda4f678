"""Says what a release is good for, and what must not be done with it, from public figures alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from sugarbush.evaluation.first_look import GOOD_FIT
from sugarbush.evaluation.public_figures import (
    ACCURACY,
    COVERAGE,
    GAIN,
    LEVEL,
    MARGINALS,
    PAIRS,
    TOPICS,
    PublicFigure,
)
from sugarbush.report.card import CardFigure, CardFigures, MethodFigures
from sugarbush.report.model import PublicQuality
from sugarbush.report.true_labels import in_percent, learned, left_out, unlearned

NOT_MEASURED = (
    "Nothing about the quality of the texts was measured inside the guarantee (evaluate.public is "
    "off). Whoever uses them must test them for the own purpose first."
)
_MOST_VALUES = 5  # missing values of an attribute that are listed
TITLES = {
    COVERAGE: "records with a text like them",
    TOPICS: "error of the shares of topics",
    MARGINALS: "error of the shares of values",
    PAIRS: "error of the shares of pairs of values",
    ACCURACY: "right answers of a classifier that learned from the texts",
    GAIN: "gain over the most common value",
}


def card_figures(quality: PublicQuality | None) -> CardFigures | None:
    """Return the public figures for the card, or None if there are none."""
    if quality is None:
        return None
    return CardFigures(
        level=LEVEL,
        methods={
            method: _of_method(quality, method, figures)
            for method, figures in quality.figures.value.items()
        },
        rules=quality.rules,
        unmet_rules={method: tuple(unmet) for method, unmet in quality.unmet.items() if unmet},
        accepted=quality.accepted,
    )


def _of_method(
    quality: PublicQuality, method: str, figures: Sequence[PublicFigure]
) -> MethodFigures:
    wrong = tuple(quality.left_out.get(method, ()))
    return MethodFigures(
        measured_on=dict(quality.facts.get(method, {})),
        figures=tuple(map(_on_card, figures)),
        left_out=wrong,
        uses=tuple(uses(figures, quality.missing.get(method, {}), wrong=wrong)),
    )


def _on_card(figure: PublicFigure) -> CardFigure:
    return CardFigure(
        name=figure.title,
        meaning=_title(figure),
        value=round(figure.value, 4),
        low=round(figure.low, 4),
        high=round(figure.high, 4),
    )


def _title(figure: PublicFigure) -> str:
    title = TITLES[figure.name]
    return title if figure.attribute is None else f"{title}: {figure.attribute}"


def uses(
    figures: Sequence[PublicFigure],
    missing: Mapping[str, Mapping[str, float | None]],
    *,
    wrong: Collection[str] = (),
) -> Iterator[str]:
    """Yield sentences about what the texts of one method can be used for.

    `missing` contains the values that no text has, by attribute. The attributes in `wrong` are no
    columns of the texts. Guarantee: post-processing.
    """
    by_title = {figure.title: figure for figure in figures}
    gains = [figure for figure in figures if figure.name == GAIN]
    for gain in gains:
        name, right = str(gain.attribute), by_title[f"{ACCURACY}.{gain.attribute}"]
        if name in wrong:
            yield (
                f"{left_out([right])}. If there is a column requested_{name}, it says what prompts "
                "requested. The texts need not have it."
            )
        elif gain.low > 0:
            yield (
                f"{name} can be learned: {learned(right)}, {100 * gain.value:.0f} points more than "
                "always answering the most common value."
            )
        else:
            said = unlearned([right])
            yield f"{said[0].upper()}{said[1:]}."
    if (coverage := by_title.get(COVERAGE)) is not None:
        yield (
            f"{in_percent(coverage)} of the records have a text like them in the release (texts of "
            f"the same kind: {GOOD_FIT:.0%} and more). The rest is not represented. Do not "
            "conclude from a missing subject that nobody wrote about it."
        )
    if (topics := by_title.get(TOPICS)) is not None:
        yield (f"The shares of topics (clusters of the texts) are wrong by {in_percent(topics)}.")
    shares = [f for f in figures if f.name == MARGINALS and f.attribute not in (None, *wrong)]
    if shares:
        worst = max(shares, key=lambda figure: figure.high)
        yield (
            "Counts: the shares of values (with the column weight) are wrong by "
            f"{_listed(shares)}. Do not interpret a share, or a difference of shares, below "
            f"{100 * worst.high:.0f}%."
        )
    if (pairs := by_title.get(PAIRS)) is not None and not wrong:
        yield f"Pairs of values are wrong by {in_percent(pairs)} on average."
    for attribute, values in missing.items():
        yield f"No text is labelled with these values of {attribute}: {_values(values)}."


def _listed(figures: Sequence[PublicFigure]) -> str:
    return ", ".join(f"{in_percent(figure)} for {figure.attribute}" for figure in figures)


def _values(values: Mapping[str, float | None]) -> str:
    shown = [
        name if share is None else f"{name} (about {100 * share:.1f}% of the records)"
        for name, share in values.items()
    ]
    rest = len(shown) - _MOST_VALUES
    return ", ".join(shown[:_MOST_VALUES]) + (f" and {rest} more" if rest > 0 else "")
