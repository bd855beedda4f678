"""Prepares the samples of texts that metrics compare, and computes the metrics.

All results are internal, because they depend on real texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.extract import extract_codes
from sugarbush.attributes.zero_shot import ZeroShotReader
from sugarbush.data.private_store import RealTexts
from sugarbush.data.schema import Schema
from sugarbush.evaluation.copies import copy_values
from sugarbush.evaluation.downstream import downstream_values, train_classifier
from sugarbush.evaluation.evaluate import BUILT_IN, evaluate_texts
from sugarbush.evaluation.features import latent_space
from sugarbush.evaluation.interface import (
    FINAL,
    REAL,
    Metric,
    MetricSettings,
    MetricValue,
    Sample,
    label,
)
from sugarbush.generators.interface import Embed
from sugarbush.run.settings import ProjectSettings

ENCODER, LATENT = "encoder", "tf-idf"


def train_sample_reader(
    train: RealTexts,
    *,
    schema: Schema,
    embed: Embed,
    zero_shot: Mapping[str, ZeroShotReader],
    params: ProjectSettings,
) -> Callable[[Sequence[str], Embed], Sample]:
    """Return a function that computes the features and attributes of real and synthetic texts.

    The second feature space is fitted to real training texts. If an attribute comes from a column
    or an LLM, a classifier predicts it from the embedding. This classifier is trained on the same
    real texts. All other attributes are computed as the schema describes. The function takes an
    encoder, so that private and public embeddings have separate caches.
    """
    trained_on, seed = embed(train.texts), params.seed
    latent = latent_space(train.texts, seed=seed)
    classifiers = {
        column: train_classifier(trained_on, train.codes[:, column], seed=seed)
        for column, attribute in enumerate(schema.attributes)
        if attribute.column is not None or attribute.source is not None
    }

    def read(texts: Sequence[str], embed: Embed) -> Sample:
        embeddings = embed(texts)
        codes = extract_codes(
            schema,
            texts,
            {name: [None] * len(texts) for name in schema.names},
            embed=embed,
            readers=zero_shot,
            params=params.extract_metadata,
        )
        for column, classifier in classifiers.items():
            codes[:, column] = classifier.predict(embeddings)
        features = {ENCODER: embeddings, LATENT: latent.encode(texts)}
        return Sample(texts=tuple(texts), features=features, codes=codes)

    return read


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """Compares samples with the real texts. `taught` contains the donated examples with the codes
    of their labels. The codes in `heldout` are computed in the same way as the codes of synthetic
    texts. `heldout_codes` contains the codes that stage extract_metadata
    wrote."""

    heldout: Sample
    heldout_codes: NDArray[np.int64]
    train: Sample
    donated: tuple[str, ...]
    taught: Sample | None = None
    public: tuple[str, ...]
    settings: MetricSettings
    metrics: tuple[Metric, ...] = BUILT_IN

    def texts(self, sample: Sample, *, method: str, round_: int = FINAL) -> tuple[MetricValue, ...]:
        """Compute all metrics without a classifier, for the texts after round `round_`."""
        values = evaluate_texts(self.heldout, sample, self.settings, metrics=self.metrics)
        return label(values, method=method, round_=round_)

    def copies(self, sample: Sample, *, method: str) -> tuple[MetricValue, ...]:
        values = copy_values(
            sample,
            training=self.train,
            heldout=self.heldout,
            donated=self.donated,
            public=self.public,
            space=ENCODER,
            settings=self.settings,
        )
        return label(values, method=method)

    def downstream(self, sample: Sample, *, method: str) -> tuple[MetricValue, ...]:
        """Return the scores of classifiers of each attribute, trained on `sample`."""
        given = replace(self.heldout, codes=self.heldout_codes)
        values = downstream_values(
            given,
            sample,
            space=ENCODER,
            settings=self.settings,
            donated=None if method == REAL else self.taught,
        )
        return label(values, method=method)
