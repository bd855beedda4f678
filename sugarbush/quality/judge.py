"""Judges a release from released and public values, so the verdict costs no budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.reader import LEAST_EXAMPLES, LabelReader, Labels, folds
from sugarbush.errors import PoorReleaseError, RefusedReleaseError
from sugarbush.evaluation.downstream import train_classifier
from sugarbush.evaluation.first_look import FirstLook
from sugarbush.evaluation.likeness import likeness
from sugarbush.evaluation.public_figures import PublicFigure
from sugarbush.evolution.enlarge import without_repeated_texts
from sugarbush.evolution.parts import Lineage
from sugarbush.json_lines import load_json
from sugarbush.languages import count_words
from sugarbush.paths import Roots, reading
from sugarbush.privacy.settings import Purpose
from sugarbush.randomness import public_rng
from sugarbush.release.labelled import class_sums_of
from sugarbush.report.card import CARD_FILE, read_card
from sugarbush.report.verdict import Teaching, Verdict, VerdictFacts, make_verdict
from sugarbush.run.settings import ProjectSettings

FILE = "verdict.json"
_RUN = "Write the release and its card again with: sugarbush run"
_FOLDS = 5
_MOST_TEXTS = 1000


def judge(
    lineage: Lineage,
    labels: Labels,
    *,
    reader: LabelReader,
    wanted: int,
    measured: Sequence[PublicFigure] = (),
    look: FirstLook | None = None,
) -> Verdict:
    """Return the verdict on a method's final texts.

    `reader` read `labels` and has the donated examples. `wanted` is the requested number of texts.
    `measured` are the public figures of the texts, and `look` is the first look, which may know how
    long the records are. Guarantee: post-processing.
    """
    final, last = lineage.final, lineage.last
    reader = reader.with_sums(class_sums_of(lineage))
    texts = np.asarray(reader.embed(final.texts)) if len(final) else np.empty((0, 1))
    donated = np.asarray(reader.embed(tuple(reader.examples))) if reader.examples else None
    signal = scored = considered = None
    if last is not None and last.stddev:
        signal = float(last.scores.value.std()) / last.stddev
        if last.name == "scores":
            scored = int(np.isin(final.ids, last.population.ids).sum())
            considered = len(without_repeated_texts(last.population.texts))
            considered += len(final) - scored
    different = len(without_repeated_texts(final.texts))
    return make_verdict(
        VerdictFacts(
            texts=len(final),
            wanted=wanted,
            likeness=None if donated is None else likeness(texts, donated),
            donated=len(reader.examples),
            signal=signal,
            scored=scored,
            considered=considered,
            repeated=1 - different / max(len(final), 1),
            attributes=labels.attributes,
            teaching=teaching(reader, final.texts, final.codes),
            measured=measured,
            unlisted=unlisted(reader.counts),
            lengths=_lengths(final.texts, look),
        )
    )


def _lengths(texts: Sequence[str], look: FirstLook | None) -> tuple[int, int] | None:
    """Return the median numbers of words of the texts and, as the look released it, of the records;
    None if one of them is unknown."""
    if look is None or not look.words or not texts:
        return None
    return round(float(np.median([count_words(text) for text in texts]))), round(
        float(np.median(look.words))
    )


def unlisted(counts: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """Return the DP share of records with the value `other`, by attribute.

    `counts` are DP counts, with the bucket for other values at the end.
    """
    positive = {name: np.maximum(values, 0) for name, values in counts.items()}
    return {n: float(own[-1] / own.sum()) for n, own in positive.items() if own.sum() > 0}


def read_verdicts(roots: Roots) -> dict[str, Verdict]:
    """Read the verdict on each released method that stage report wrote. There may be none.

    Raises StorageError for a damaged file.
    """
    path = roots.published / FILE
    if not path.exists():
        return {}
    with reading(path, advice=_RUN):
        found = load_json(path.read_text(encoding="utf-8"))
        return {method: Verdict.from_json(fields) for method, fields in found.items()}


def require_not_poor(roots: Roots, settings: ProjectSettings) -> None:
    """Raise PoorReleaseError if a finished release is poor.

    Examples, benchmarks and releases with `report.accept_poor` are never refused.
    """
    if settings.report.accept_poor or settings.privacy.purpose is not Purpose.RELEASE:
        return
    for method, verdict in read_verdicts(roots).items():
        if verdict.grade == "poor":
            raise PoorReleaseError(
                f"the release of {method} is finished, and it is {verdict.line()}. To accept such "
                "releases, set report.accept_poor: true"
            )


def require_accepted(roots: Roots) -> None:
    """Raise RefusedReleaseError if the rule `release.accept_if` refuses the finished release.

    The card says so, and `sugarbush publish` refuses it. The decision is public. Raises
    StorageError for a damaged card.
    """
    path = roots.published / CARD_FILE
    card = read_card(path) if path.exists() else None
    if card is not None and card.public_figures is not None and not card.public_figures.accepted:
        raise RefusedReleaseError(card.heading)


def teaching(
    reader: LabelReader, texts: tuple[str, ...], requested: NDArray[np.int64]
) -> Teaching | None:
    """Compare what a model learns from the texts and from the donated examples alone.

    Both are tested on donated examples that neither the model nor the reader of the labels has
    seen. At most 1,000 texts are used. The result is None if no attribute has enough donated
    examples with a label.
    """
    if reader.codes is None or not texts:
        return None
    if len(texts) > _MOST_TEXTS:
        chosen = np.sort(public_rng(1, "teaching").choice(len(texts), _MOST_TEXTS, replace=False))
        texts, requested = tuple(texts[i] for i in chosen), requested[chosen]
    names = {
        place: a
        for place, a in enumerate(reader.schema.attributes)
        if a.column is not None or a.source is not None
    }
    examples, codes = np.array(reader.examples, dtype=object), reader.codes
    listed = np.array([len(a.domain) - 1 for a in reader.schema.attributes])
    known = (codes >= 0) & (codes < listed)
    names = {
        place: a
        for place, a in names.items()
        if known[:, place].sum() >= 2 * LEAST_EXAMPLES
        and len(np.unique(codes[known[:, place], place])) > 1
    }
    if not names:
        return None
    embedded = np.asarray(reader.embed(tuple(examples)))
    written = np.asarray(reader.embed(texts))
    right = {arm: np.full((len(examples), len(names)), np.nan) for arm in ("release", "donated")}
    fold = folds(tuple(examples), _FOLDS)
    for number in range(_FOLDS):
        others = fold != number
        own = replace(reader, examples=tuple(examples[others]), codes=codes[others])
        labels = own.read(texts, requested)
        for column, place in enumerate(names):
            tested = np.flatnonzero(~others & known[:, place])
            taught = np.flatnonzero(others & known[:, place])
            arms: Mapping[str, tuple[NDArray[Any], NDArray[np.int64]]] = {
                "release": _known(written, labels.codes[:, place]),
                "donated": (embedded[taught], codes[taught, place]),
            }
            for arm, (rows, values) in arms.items():
                if len(values) and len(tested):
                    model = train_classifier(rows, values, seed=1)
                    found = model.predict(embedded[tested]) == codes[tested, place]
                    right[arm][tested, column] = found
    tried = ~(np.isnan(right["release"]) | np.isnan(right["donated"]))
    both = tried.any(axis=1)
    if both.sum() < 2:
        return None
    release, donated = (
        np.nanmean(np.where(tried, hits, np.nan)[both], axis=1) for hits in right.values()
    )
    return Teaching(
        release=float(release.mean()),
        donated=float(donated.mean()),
        error=float((release - donated).std(ddof=1) / np.sqrt(len(release))),
    )


def _known(rows: NDArray[Any], codes: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    return rows[codes >= 0], codes[codes >= 0]
