"""Measures the first texts of a generator, before a run spends budget.

All inputs are public: the requests, the answers of the generator, the donated texts and the schema.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.extract import extract_codes
from sugarbush.attributes.settings import ExtractMetadataSettings
from sugarbush.attributes.zero_shot import ZeroShotReader
from sugarbush.data.schema import Schema
from sugarbush.evaluation.downstream import train_classifier
from sugarbush.evolution.enlarge import without_repeated_texts
from sugarbush.evolution.initialisation import Donated, Targets
from sugarbush.evolution.population import NO_CODE
from sugarbush.generators.interface import Answer, Embed
from sugarbush.pipeline.rehearsal_verdict import FEWEST_DONATED, Figures, Lengths, ShownAttribute

_FAR: Final = 0.9  # quantile of the distance of a donated text to its nearest other donated text
_LEAST_LABELS: Final = 8  # number of donated texts with a known value, for a classifier
_NEAREST_SUBJECTS: Final = 3

# Subjects of other collections. A text about its own subject is nearer to it than to most of these.
OTHER_SUBJECTS = (
    "restaurant reviews", "medical case reports", "weather forecasts", "football match reports",
    "cooking recipes", "court decisions", "customer complaints to a bank", "software bug reports",
    "abstracts of physics papers", "hotel reviews", "tweets to an airline", "job advertisements",
    "political speeches", "fairy tales", "product descriptions of furniture", "song lyrics",
    "dialogues between a doctor and a patient", "reviews of scientific papers",
    "news about the stock market", "instructions for garden work",
)  # fmt: skip


def measure(
    answers: Sequence[Answer],
    targets: Targets,
    *,
    schema: Schema,
    donated: Donated | None,
    readers: Mapping[str, ZeroShotReader],
    reading: ExtractMetadataSettings,
    words: int | None,
    embed: Embed,
    seed: int,
) -> Figures:
    """Compute the figures of `answers` (n,) to requests with `targets` (n,).

    `donated` are the donated texts with their codes. `readers` read zero-shot attributes. `words`
    is the median of the requested lengths.
    """
    kept = [i for i, answer in enumerate(answers) if answer.text is not None]
    texts = [str(answers[i].text) for i in kept]
    standard = donated.texts if donated is not None else ()
    different = [texts[i] for i in without_repeated_texts(texts)]
    problems = dict(Counter(a.problem.value for a in answers if a.problem is not None))
    figures = Figures(
        requested=len(answers),
        usable=len(texts),
        different=len(different),
        donated=len(standard),
        problems=problems,
    )
    if not texts:
        return figures
    embedded = np.asarray(embed(texts), dtype=np.float64)
    known = np.asarray(embed(standard), dtype=np.float64) if standard else None
    compared: dict[str, Any] = {}
    if known is not None and len(known) >= FEWEST_DONATED:
        compared = _compared(embedded, known)
    return replace(
        figures,
        **compared,
        lengths=_lengths(texts),
        donated_lengths=_lengths(standard),
        requested_words=words,
        spread=_spread(embedded),
        off_subject=_off_subject(embedded, schema.subject, embed=embed),
        attributes=shown_attributes(
            texts,
            embedded,
            targets.codes[kept],
            schema=schema,
            donated=donated,
            donated_embedded=known,
            readers=readers,
            reading=reading,
            embed=embed,
            seed=seed,
        ),
    )


def shown_attributes(
    texts: Sequence[str],
    embedded: NDArray[np.float64],
    requested: NDArray[np.int64],
    *,
    schema: Schema,
    donated: Donated | None,
    donated_embedded: NDArray[np.float64] | None,
    readers: Mapping[str, ZeroShotReader],
    reading: ExtractMetadataSettings,
    embed: Embed,
    seed: int,
) -> tuple[ShownAttribute, ...]:
    """Read the attributes from the texts, and compare them with the requested codes (n, d).

    Keywords and zero-shot readers read their attributes. A classifier that is trained on the
    donated texts reads the others. An attribute without a reader is omitted.
    """
    none = dict.fromkeys(schema.names, (None,) * len(texts))
    read = extract_codes(schema, texts, none, embed=embed, readers=readers, params=reading)
    found = []
    for place, attribute in enumerate(schema.attributes):
        codes, bucket = read[:, place], len(attribute.domain) - 1
        if attribute.column is not None or attribute.source is not None:
            if donated is None or donated_embedded is None:
                continue
            known = donated.codes[:, place] != bucket
            labels = donated.codes[known, place]
            if known.sum() < _LEAST_LABELS or len(np.unique(labels)) < 2:
                continue
            codes = train_classifier(donated_embedded[known], labels, seed=seed).predict(embedded)
        asked = requested[:, place]
        rows = np.flatnonzero((asked != NO_CODE) & (asked != bucket))
        if len(rows) < 2:
            continue
        shares = [float(np.mean(codes[rows] == np.roll(asked[rows], k))) for k in range(len(rows))]
        found.append(
            ShownAttribute(
                name=attribute.name,
                shown=shares[0],
                chance=float(np.mean(shares[1:])),
                texts=len(rows),
            )
        )
    return tuple(found)


def _compared(embedded: NDArray[np.float64], known: NDArray[np.float64]) -> dict[str, float]:
    among = 1.0 - known @ known.T
    np.fill_diagonal(among, np.inf)
    usual = among.min(axis=1)
    nearest = (1.0 - embedded @ known.T).min(axis=1)
    return {
        "far": float(np.mean(nearest > np.quantile(usual, _FAR))),
        "distance": float(np.median(nearest)),
        "donated_distance": float(np.median(usual)),
        "donated_spread": _spread(known),
    }


def _spread(embedded: NDArray[np.float64]) -> float:
    """Return the mean cosine distance between two texts; 0 for a single text."""
    count = len(embedded)
    if count < 2:
        return 0.0
    similarities = embedded @ embedded.T
    return float(1.0 - (similarities.sum() - np.trace(similarities)) / (count * (count - 1)))


def _off_subject(embedded: NDArray[np.float64], subject: str, *, embed: Embed) -> float:
    subjects = np.asarray(embed([subject, *OTHER_SUBJECTS]), dtype=np.float64)
    similarities = embedded @ subjects.T
    nearer = (similarities[:, 1:] > similarities[:, :1]).sum(axis=1)
    return float(np.mean(nearer >= _NEAREST_SUBJECTS))


def _lengths(texts: Sequence[str]) -> Lengths | None:
    if not texts:
        return None
    found = np.quantile([len(text.split()) for text in texts], (0.1, 0.5, 0.9))
    low, median, high = (round(value) for value in found.tolist())
    return Lengths(low=low, median=median, high=high)
