"""Collects what the card and the pages say about quality inside the guarantee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from sugarbush.attributes.reader import Labels
from sugarbush.data.schema import Schema
from sugarbush.errors import PrivacyError
from sugarbush.evaluation.public_figures import FigureRule, PublicFigure
from sugarbush.privacy.data_types import Released
from sugarbush.release.figures import MeasuredFigures, MeasuredRelease
from sugarbush.report.model import PublicQuality
from sugarbush.run.settings import ProjectSettings


def quality_of(
    settings: ProjectSettings,
    schema: Schema,
    figures: MeasuredFigures | None,
    *,
    labels: Mapping[str, Labels],
    counts: Mapping[str, NDArray[Any]],
) -> PublicQuality | None:
    """Describe the figures and the decision of the rule. All of it is post-processing.

    `labels` are those of each method's texts. `counts` are DP counts of the attributes.
    """
    if figures is None:
        return None
    return PublicQuality(
        figures=Released(figures.by_method, figures.ledger_ids),
        facts=figures.facts,
        missing={method: missing_values(schema, own, counts) for method, own in labels.items()},
        left_out={method: own.left_out for method, own in labels.items()},
        rules=tuple(map(str, settings.rules)),
        unmet=failures(settings.rules, figures.by_method),
    )


def require_same_texts(
    figures: MeasuredFigures | None, releases: Mapping[str, MeasuredRelease]
) -> None:
    """Raise PrivacyError if the figures were measured on other texts or labels."""
    if figures is not None and figures.digests != {n: r.digest() for n, r in releases.items()}:
        raise PrivacyError(
            "the public figures in data/released/figures were measured on other texts. Measure "
            "again with: sugarbush run"
        )


def failures(
    rules: Sequence[FigureRule], by_method: Mapping[str, Sequence[PublicFigure]]
) -> dict[str, list[str]]:
    """Return for each method the rules that its figures do not meet, with the estimates."""
    found = {}
    for method, figures in by_method.items():
        values = {figure.title: figure.value for figure in figures}
        found[method] = [
            f"{rule} (measured: {_said(values.get(rule.figure))})"
            for rule in rules
            if not rule.holds(values)
        ]
    return found


def _said(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.2f}"


def missing_values(
    schema: Schema, labels: Labels, counts: Mapping[str, NDArray[Any]]
) -> dict[str, dict[str, float | None]]:
    """Return the listed values that no text has, by attribute, with their DP share of the records.

    An attribute without any label is left out. The values with the largest share come first.
    """
    found, codes = {}, labels.given_codes
    for column, attribute in enumerate(schema.attributes):
        present = set(codes[:, column].tolist())
        if present <= {-1}:
            continue
        own = counts.get(attribute.name)
        total = 0.0 if own is None else float(own.clip(min=0).sum())
        shares = {
            value: float(max(own[code], 0)) / total if own is not None and total > 0 else None
            for code, value in enumerate(attribute.domain[:-1])
            if code not in present
        }
        if shares:
            ordered = sorted(shares, key=lambda value: -(shares[value] or 0.0))
            found[attribute.name] = {value: shares[value] for value in ordered}
    return found
