"""What metrics need: the samples of texts, and the real texts to compare with.

`sugarbush.data.private_store` opens the real texts: everything here is internal.
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
from sugarbush.errors import ParamsError
from sugarbush.evaluation.attributes import AttributeClassifier, train_classifier
from sugarbush.evaluation.copies import copy_values
from sugarbush.evaluation.downstream import downstream_values
from sugarbush.evaluation.evaluate import BUILT_IN, evaluate_texts
from sugarbush.evaluation.features import LatentSpace, latent_space
from sugarbush.evaluation.interface import (
    FINAL,
    REAL,
    Metric,
    MetricSettings,
    MetricValue,
    Progress,
    Sample,
    label,
    no_progress,
)
from sugarbush.evaluation.settings import EvaluateSettings
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.settings import ProjectSettings

ENCODER, LATENT, SECOND = "encoder", "tf-idf", "second encoder"

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class Encoders:
    """The encoder of the votes, and the second one if the settings name it."""

    main: Embed
    second: Embed | None


def open_encoders(project: Project, *, private: bool) -> Encoders:
    """Both encoders, each with the cache for private or for public texts."""
    name = project.settings.evaluate.second_encoder
    main = project.encoder(private=private).encode
    if name is None:
        return Encoders(main=main, second=None)
    return Encoders(main=main, second=project.encoder_named(name, private=private).encode)


@dataclass(frozen=True, kw_only=True)
class SampleReader:
    """Computes the features and attributes of texts.

    The same readers are used for real and synthetic texts. A classifier trained on real texts
    predicts the attributes of `classifiers` from the embedding; the schema says how to read the
    others.
    """

    latent: LatentSpace
    classifiers: Mapping[str, AttributeClassifier]
    zero_shot: Mapping[str, ZeroShotReader]
    schema: Schema
    params: ProjectSettings

    def read(self, texts: Sequence[str], *, by: Encoders) -> Sample:
        """The texts as a sample."""
        embeddings = by.main(texts)
        codes = extract_codes(
            self.schema,
            texts,
            {name: [None] * len(texts) for name in self.schema.names},
            embed=by.main,
            readers=self.zero_shot,
            params=self.params.extract_metadata,
        )
        for column, name in enumerate(self.schema.names):
            if name in self.classifiers:
                codes[:, column] = self.classifiers[name].predict(embeddings)
        features = {ENCODER: embeddings, LATENT: self.latent.encode(texts)}
        if by.second is not None:
            features[SECOND] = by.second(texts)
        return Sample(texts=tuple(texts), features=features, codes=codes)


def train_sample_reader(
    train: RealTexts,
    *,
    schema: Schema,
    embed: Embed,
    zero_shot: Mapping[str, ZeroShotReader],
    params: ProjectSettings,
) -> SampleReader:
    """The second feature space, and a classifier for each attribute from a column or an LLM.

    Both are trained on real texts.
    """
    embeddings, seed = embed(train.texts), params.evaluate.seed
    return SampleReader(
        latent=latent_space(train.texts, seed=seed),
        classifiers={
            attribute.name: train_classifier(embeddings, train.codes[:, column], seed=seed)
            for column, attribute in enumerate(schema.attributes)
            if attribute.column is not None or attribute.source is not None
        },
        zero_shot=zero_shot,
        schema=schema,
        params=params,
    )


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """Measures samples against the real texts.

    `heldout_codes` are the original codes of the held-out texts, not those read from the texts.
    `progress` receives public facts only: the method, the round, and the seed of a training.
    """

    heldout: Sample
    heldout_codes: NDArray[np.int64]
    train: Sample
    donated: tuple[str, ...]
    public: tuple[str, ...]
    settings: MetricSettings
    metrics: tuple[Metric, ...] = BUILT_IN
    progress: Progress = no_progress

    def texts(
        self, sample: Sample, *, method: str, round_: int = FINAL, rounds: int = 0
    ) -> tuple[MetricValue, ...]:
        """Every metric that needs no training, after `round_` of `rounds`."""
        if method == REAL:
            self.progress("real texts")
        else:
            steps = {0: "first candidates", FINAL: "final texts"}
            self.progress(f"{method}, {steps.get(round_, f'round {round_} of {rounds}')}")
        values = evaluate_texts(self.heldout, sample, self.settings, metrics=self.metrics)
        return label(values, method=method, round_=round_)

    def copies(self, sample: Sample, *, method: str) -> tuple[MetricValue, ...]:
        """The copy checks of the final texts."""
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
        """A classifier for each attribute, trained on the texts and the codes of `sample`."""
        values = downstream_values(self._given, sample, space=ENCODER, settings=self.settings)
        return label(values, method=method)

    def trained(
        self, sample: Sample, *, method: str, wanted: EvaluateSettings
    ) -> tuple[MetricValue, ...]:
        """The metrics that train a model on `sample`; none unless the settings ask for seeds.

        Raises ParamsError when the settings name an unknown model or attribute.
        """
        if not len(sample) or not (wanted.next_token.seeds or wanted.fine_tuned.seeds):
            return ()
        if unknown := set(wanted.fine_tuned.attributes or ()) - set(self.settings.domain):
            raise ParamsError(
                f"evaluate.fine_tuned.attributes: the schema has no {', '.join(sorted(unknown))}"
            )
        from sugarbush.evaluation.trained import fine_tuned_values, next_token_values

        def progress(step: str) -> None:
            self.progress(f"{'real texts' if method == REAL else method}, {step}")

        values: list[MetricValue] = []
        try:
            if wanted.next_token.seeds:
                values += next_token_values(
                    self._given,
                    sample,
                    model=wanted.next_token,
                    settings=self.settings,
                    progress=progress,
                )
            if wanted.fine_tuned.seeds:
                values += fine_tuned_values(
                    self._given,
                    sample,
                    model=wanted.fine_tuned,
                    settings=self.settings,
                    progress=progress,
                )
        except OSError:  # transformers raises no narrower error
            raise ParamsError(
                "evaluate.next_token.model or evaluate.fine_tuned.model is neither a folder nor a "
                "model of the hub or its local cache. Correct the name"
            ) from None
        return label(values, method=method)

    @property
    def _given(self) -> Sample:
        return replace(self.heldout, codes=self.heldout_codes)
