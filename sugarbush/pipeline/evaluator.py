"""What arms are measured with: how a text is seen, and the real texts it is held against.

The real texts were opened by `sugarbush.data.private_store`: everything here is internal.
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
from sugarbush.evaluation.attributes import AttributeReader, train_reader
from sugarbush.evaluation.evaluate import (
    FINAL,
    Figure,
    Sample,
    Settings,
    evaluate_copies,
    evaluate_downstream,
    evaluate_texts,
)
from sugarbush.evaluation.features import LatentSpace, latent_space
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.settings import ProjectSettings

ENCODER, LATENT, SECOND = "encoder", "tf-idf", "second encoder"

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class Encoders:
    """The encoder of the votes, and the second one where the settings name it."""

    main: Embed
    second: Embed | None


def open_encoders(project: Project, *, private: bool) -> Encoders:
    """Both encoders, with the caches that belong to what they encode."""
    name = project.settings.evaluate.second_encoder
    main = project.encoder(private=private).encode
    if name is None:
        return Encoders(main=main, second=None)
    return Encoders(main=main, second=project.encoder_named(name, private=private).encode)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How a text is seen by the metrics: its place in all feature spaces, and its attributes."""

    latent: LatentSpace
    attributes: Mapping[str, AttributeReader]
    zero_shot: Mapping[str, ZeroShotReader]
    schema: Schema
    params: ProjectSettings

    def read(self, texts: Sequence[str], *, by: Encoders) -> Sample:
        """Codes by the same extractor for real and synthetic texts: a given column, and what an
        endpoint was asked for, is read off the embedding by a classifier trained on real texts,
        everything else by the schema."""
        embeddings = by.main(texts)
        codes = extract_codes(
            self.schema, texts, {name: [None] * len(texts) for name in self.schema.names},
            embed=by.main, readers=self.zero_shot, params=self.params.extract_metadata,
        )  # fmt: skip
        for place, name in enumerate(self.schema.names):
            if name in self.attributes:
                codes[:, place] = self.attributes[name].read(embeddings)
        features = {ENCODER: embeddings, LATENT: self.latent.encode(texts)}
        if by.second is not None:
            features[SECOND] = by.second(texts)
        return Sample(texts=tuple(texts), features=features, codes=codes)


def train_readers(
    train: RealTexts,
    *,
    schema: Schema,
    embed: Embed,
    zero_shot: Mapping[str, ZeroShotReader],
    params: ProjectSettings,
) -> Reader:
    """The second feature space and a classifier for each attribute that the schema cannot read.

    Both are made from real texts.
    """
    embeddings, seed = embed(train.texts), params.evaluate.seed
    return Reader(
        latent=latent_space(train.texts, seed=seed),
        attributes={
            attribute.name: train_reader(embeddings, train.codes[:, place], seed=seed)
            for place, attribute in enumerate(schema.attributes)
            if attribute.column is not None or attribute.source is not None
        },
        zero_shot=zero_shot,
        schema=schema,
        params=params,
    )


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """The real parts, as read and with the codes that they were given; and the public texts."""

    heldout: Sample
    heldout_codes: NDArray[np.int64]
    train: Sample
    donated: tuple[str, ...]
    public: tuple[str, ...]
    domain: Mapping[str, int]
    settings: Settings

    def texts(self, sample: Sample, *, method: str, round_: int) -> tuple[Figure, ...]:
        """Every metric that needs no training."""
        return evaluate_texts(
            self.heldout, sample, domain=self.domain, settings=self.settings,
            method=method, round_=round_,
        )  # fmt: skip

    def copies(self, sample: Sample, *, method: str) -> tuple[Figure, ...]:
        """What the final set shares with the texts that it may have been copied from."""
        return evaluate_copies(
            sample, training=self.train, heldout=self.heldout, donated=self.donated,
            public=self.public, space=ENCODER, settings=self.settings, method=method, round_=FINAL,
        )  # fmt: skip

    def downstream(self, sample: Sample, *, method: str) -> tuple[Figure, ...]:
        """A classifier of each attribute, trained on texts and the codes that they came with."""
        return evaluate_downstream(
            replace(self.heldout, codes=self.heldout_codes), sample,
            space=ENCODER, domain=self.domain, settings=self.settings, method=method, round_=FINAL,
        )  # fmt: skip
