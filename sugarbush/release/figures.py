"""Contains the public figures of a release, and the labels that they leave for publication.

The stages that write texts run before the texts are measured. So their files have all labels. Every
function that publishes labels uses `given_labels` or `given_lines` in place of these files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.reader import Labels
from sugarbush.evaluation.public_figures import LEVEL, PublicFigure
from sugarbush.evolution.population import load_population
from sugarbush.json_lines import read_json_lines
from sugarbush.paths import Roots
from sugarbush.privacy.results import digest_of
from sugarbush.release.folders import (
    FIGURES,
    columns_left_out,
    load_labels,
    read_release,
    reading_folder,
)
from sugarbush.report.downloads import LINES, TEXTS
from sugarbush.report.true_labels import with_true_labels

_WEIGHT_STEPS = 1000  # parts of the weight of a text in a public histogram


@dataclass(frozen=True, kw_only=True)
class MeasuredFigures:
    """The public figures of each method.

    `facts` describe how the figures were measured, without a private value. `run` is the random id
    of the draw. `ledger_ids` are the charges of the figures themselves. `digests` are those of the
    measured texts and labels.
    """

    by_method: Mapping[str, tuple[PublicFigure, ...]]
    facts: Mapping[str, Mapping[str, float]]
    digests: Mapping[str, str]
    run: str
    ledger_ids: tuple[str, ...]

    def to_json(self) -> str:
        """Return the content of figures.json."""
        fields = {
            "level": LEVEL,
            "methods": {
                method: {
                    "texts": self.digests[method],
                    "facts": self.facts[method],
                    "figures": [asdict(f) for f in figures],
                }
                for method, figures in self.by_method.items()
            },
        }
        return json.dumps(fields, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, *, run: str, ledger_ids: Sequence[str]) -> MeasuredFigures:
        """Read the result of `to_json`."""
        methods = json.loads(text)["methods"]
        return cls(
            by_method={
                name: tuple(PublicFigure(**figure) for figure in fields["figures"])
                for name, fields in methods.items()
            },
            facts={name: fields["facts"] for name, fields in methods.items()},
            digests={name: fields["texts"] for name, fields in methods.items()},
            run=run,
            ledger_ids=tuple(ledger_ids),
        )


@dataclass(frozen=True, kw_only=True)
class MeasuredRelease:
    """The texts of one method, their labels, and the ids of their charges."""

    texts: tuple[str, ...]
    labels: Labels
    ledger_ids: tuple[str, ...]

    def digest(self) -> str:
        """Return a digest of everything that the figures depend on."""
        return digest_of(
            texts=self.texts,
            codes=self.labels.codes.tolist(),
            weights=public_weights(self.labels).tolist(),
        )


def public_weights(labels: Labels) -> NDArray[np.int64]:
    """Return the weights of the texts in thousandths, as the released column has them."""
    return np.rint(labels.weights * _WEIGHT_STEPS).astype(np.int64)


def read_figures(roots: Roots) -> MeasuredFigures | None:
    """Read the public figures of a project, or return None if they were not measured."""
    return _read_figures(roots.released / "figures")


def _read_figures(folder: Path) -> MeasuredFigures | None:
    if not (folder / FIGURES).exists():
        return None
    with reading_folder(folder):
        fields = read_release(folder)
        text = (folder / FIGURES).read_text(encoding="utf-8")
        return MeasuredFigures.from_json(text, run=fields["run"], ledger_ids=fields["ledger_ids"])


def given_labels(folder: Path) -> Labels:
    """Return the labels of the final texts in a method's released folder, as they are published.

    Labels that the public figures show to be wrong are left out (`report.true_labels`). Figures
    of other texts or labels show nothing.
    """
    with reading_folder(folder):
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
    """Return the texts in a method's released folder as JSON lines, as they are published.

    Raises StorageError for a damaged or missing file, and so do the other functions that read.
    """
    with reading_folder(folder):
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
