"""Collects what the card and the pages say about quality inside the guarantee.

The stages that write texts run before the texts are measured. So their files have all labels, and
every outlet gives out `given_labels` or `given_lines` in place of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sugarbush.attributes.reader import Labels
from sugarbush.data.schema import Schema
from sugarbush.errors import PrivacyError
from sugarbush.evaluation.public_figures import FigureRule, PublicFigure
from sugarbush.evolution.population import load_population
from sugarbush.json_lines import read_json_lines
from sugarbush.paths import Roots
from sugarbush.privacy.data_types import Released
from sugarbush.quality.measure import FILE, MeasuredFigures, MeasuredRelease
from sugarbush.release.folders import columns_left_out, load_labels, read_release
from sugarbush.report.downloads import LINES, TEXTS
from sugarbush.report.model import PublicQuality
from sugarbush.report.true_labels import with_true_labels
from sugarbush.run.settings import ProjectSettings


def read_figures(roots: Roots) -> MeasuredFigures | None:
    """Read the public figures of a project, or return None if they were not measured."""
    return _read_figures(roots.released / "figures")


def _read_figures(folder: Path) -> MeasuredFigures | None:
    if not (folder / FILE).exists():
        return None
    fields = read_release(folder)
    text = (folder / FILE).read_text(encoding="utf-8")
    return MeasuredFigures.from_json(text, run=fields["run"], ledger_ids=fields["ledger_ids"])


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


def given_labels(folder: Path) -> Labels:
    """Return the labels of the final texts in a method's released folder, as outlets give them out.

    Labels that the public figures show to be wrong are left out (`quality.true_labels`). Figures
    of other texts or labels show nothing.
    """
    labels, figures = load_labels(folder), _read_figures(_figures_beside(folder))
    if figures is None or folder.name not in figures.by_method:
        return labels
    names = [attribute.name for attribute in labels.attributes]
    texts = load_population(folder / "lineage.parquet", names).texts
    own = MeasuredRelease(texts=texts, labels=labels, ledger_ids=())
    if own.digest() != figures.digests[folder.name]:
        return labels
    return with_true_labels(labels, figures.by_method[folder.name])


def given_lines(folder: Path) -> bytes:
    """Return the texts in a method's released folder as JSON lines, as outlets give them out."""
    lines = (folder / f"{TEXTS}{LINES}").read_bytes()
    if not _figures_beside(folder).exists():
        return lines
    if not (dropped := columns_left_out(given_labels(folder))):
        return lines
    rows = (
        {name: value for name, value in row.items() if name not in dropped}
        for row in read_json_lines(lines.decode("utf-8"))
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")


def _figures_beside(folder: Path) -> Path:
    """Return the folder of the figures, for a folder of data/released/<stage>/<method>."""
    return folder.parent.parent / "figures"


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
