"""How good the synthetic texts are beside held-out real ones, by round.

Reads    data/private/prepared/, data/private/metadata/, data/released/{initial,evolve}/<method>/,
         data/released/generated/, data/public/donated/; the pool's files
Writes   reports/internal/   metrics.json (final sets), figures.csv (all), read.json, plots/
         data/stamps/evaluate.json
Spends   nothing, and releases nothing: every figure is computed on real texts and is internal
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.errors import InputError
from sugarbush.evolution.population import Population, load_population
from sugarbush.metadata.extract import extract_codes
from sugarbush.metadata.zero_shot import ZeroShotReader
from sugarbush.metrics.attributes import AttributeReader, train_reader
from sugarbush.metrics.evaluate import (
    ATTRIBUTE,
    FINAL,
    Figure,
    Sample,
    Settings,
    evaluate_copies,
    evaluate_downstream,
    evaluate_texts,
)
from sugarbush.metrics.features import LatentSpace, latent_space
from sugarbush.params import Method, Params, Provider
from sugarbush.paths import Roots, find_input, make_private, require, whole_file
from sugarbush.privacy.key import state_key
from sugarbush.randomness import public_rng
from sugarbush.schema import Schema, load_schema
from tasks import stage
from tasks.encoder import open_encoder
from tasks.extract_metadata import load_readers
from tasks.pool import load_pool
from tasks.private_files import RealTexts, load_real_texts
from tasks.state import state_of
from tasks.texts import final_folder

NAME = "evaluate"
ENCODER, LATENT = "encoder", "tf-idf"
REAL = "real"

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How a text is seen by the metrics: its place in both feature spaces, and its attributes."""

    latent: LatentSpace
    attributes: Mapping[str, AttributeReader]
    zero_shot: Mapping[str, ZeroShotReader]
    schema: Schema
    params: Params

    def read(self, texts: Sequence[str], *, embed: Embed) -> Sample:
        """Codes by the same extractor for real and synthetic texts: a given column, and what an
        endpoint was asked for, is read off the embedding by a classifier trained on real texts,
        everything else by the schema."""
        embeddings = embed(texts)
        codes = extract_codes(
            self.schema, texts, {name: [None] * len(texts) for name in self.schema.names},
            embed=embed, readers=self.zero_shot, params=self.params.extract_metadata,
        )  # fmt: skip
        for place, name in enumerate(self.schema.names):
            if name in self.attributes:
                codes[:, place] = self.attributes[name].read(embeddings)
        features = {ENCODER: embeddings, LATENT: self.latent.encode(texts)}
        return Sample(texts=tuple(texts), features=features, codes=codes)


def train_readers(
    train: RealTexts,
    *,
    schema: Schema,
    embed: Embed,
    zero_shot: Mapping[str, ZeroShotReader],
    params: Params,
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
class Yardstick:
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

    def downstream(
        self, sample: Sample, codes: NDArray[np.int64], *, method: str
    ) -> tuple[Figure, ...]:
        """A classifier of each attribute, trained on texts and the codes that they came with."""
        return evaluate_downstream(
            replace(self.heldout, codes=self.heldout_codes), replace(sample, codes=codes),
            space=ENCODER, domain=self.domain, settings=self.settings, method=method, round_=FINAL,
        )  # fmt: skip


def stages_of(base: Path, method: Method, schema: Schema) -> Iterator[tuple[int, Population]]:
    """The candidates that a method starts from, each round's survivors, and the final set."""
    roots = Roots(base)
    final = final_folder(roots, method)
    if not method.trains:
        initial = roots.released / "initial" / method.value / "candidates.parquet"
        yield 0, load_population(require(initial, left_by=f"initialise@{method}"), schema.names)
    for folder in sorted(final.glob("round_*")):
        population = load_population(folder / "candidates.parquet", schema.names)
        yield (
            int(folder.name.removeprefix("round_")),
            population.take(np.load(folder / "survivors.npy")),
        )
    yield FINAL, load_population(final / "final.parquet", schema.names)


def run(base: Path, params: Params) -> None:
    """Measure every method whose texts are released, and a real sample as the ceiling."""
    if not params.released:
        write_figures(base, [], {}, key=state_key(state_of(params, base)))
        return
    roots, schema = Roots(base), load_schema(find_input(base, params.prepare.schema_))
    wanted = params.evaluate
    train, heldout = (
        load_real_texts(roots.private, part, schema.names, wanted.max_texts, wanted.seed)
        for part in ("train", "heldout")
    )
    if len(heldout.texts) < 2:
        raise InputError(
            "the held-out part is too small to measure anything against; raise "
            "prepare.heldout_share"
        )
    count = equal_count(base, params, schema)
    figures: list[Figure] = []
    read: dict[str, dict[str, list[int]]] = {}
    with (
        open_encoder(params, roots, private=True) as private,
        open_encoder(params, roots, private=False) as encoder,
    ):
        reader = train_readers(
            train,
            schema=schema,
            embed=private.encode,
            zero_shot=load_readers(base, schema, embed=encoder.encode),
            params=params,
        )
        ruler = Yardstick(
            heldout=reader.read(heldout.texts, embed=private.encode),
            heldout_codes=heldout.codes,
            train=reader.read(train.texts, embed=private.encode),
            donated=donated_texts(roots),
            public=public_texts(params, base),
            domain=schema.domain,
            settings=Settings(
                clusters=wanted.clusters or max(2, count // 10),
                resamples=wanted.bootstrap,
                seed=wanted.seed,
            ),
        )
        # Real texts measured as if they were synthetic: as near as chance draws that many.
        ceiling = ruler.train.limited(count, rng=public_rng(wanted.seed, REAL))
        figures += ruler.texts(ceiling, method=REAL, round_=FINAL)
        figures += ruler.downstream(ruler.train, train.codes, method=REAL)
        for method in params.released:
            for round_, everything in stages_of(base, method, schema):
                population = everything.take(
                    _chosen(len(everything), count, wanted.seed, method, round_)
                )
                sample = reader.read(population.texts, embed=encoder.encode)
                figures += ruler.texts(sample, method=method, round_=round_)
                if round_ == FINAL:
                    figures += ruler.copies(sample, method=method)
                    figures += ruler.downstream(sample, population.codes, method=method)
                    read[method.value] = _counts(sample.codes, schema)
    write_figures(base, figures, read, key=state_key(state_of(params, base)))


def equal_count(base: Path, params: Params, schema: Schema) -> int:
    """How many texts of each arm and round are measured: as many as the smallest final set has.

    Most metrics depend on the number of texts, and MAUVE on the number of clusters, a tenth of it.
    """
    finals = (final_folder(Roots(base), method) / "final.parquet" for method in params.released)
    smallest = min(len(load_population(final, schema.names)) for final in finals)
    return min(params.evaluate.max_texts, smallest)


def donated_texts(roots: Roots) -> tuple[str, ...]:
    """The examples that were given away."""
    path = require(roots.public / "donated" / "donated.parquet", left_by="extract_metadata")
    return tuple(pd.read_parquet(path)["text"])


def public_texts(params: Params, base: Path) -> tuple[str, ...]:
    """The public corpus that candidates are drawn from, where there is one."""
    if params.generator.provider is not Provider.POOL:
        return ()
    return load_pool(params.generator.pool.sources, base=base)


def _chosen(count: int, most: int, seed: int, *names: str | int) -> NDArray[np.int64]:
    """Places of at most `most` texts, drawn without replacement, in order."""
    if count <= most:
        return np.arange(count)
    drawn = public_rng(seed, "sample", *names).choice(count, size=most, replace=False)
    return np.sort(drawn)


def _counts(codes: NDArray[np.int64], schema: Schema) -> dict[str, list[int]]:
    return {
        name: np.bincount(codes[:, place], minlength=size).tolist()
        for place, (name, size) in enumerate(schema.domain.items())
    }


def write_figures(
    base: Path,
    figures: Sequence[Figure],
    read: Mapping[str, Mapping[str, list[int]]],
    *,
    key: bytes,
) -> None:
    """The internal figures, as DVC's metrics and plots read them, and their keyed stamp."""
    internal = make_private(Roots(base).internal)
    plots = make_private(internal / "plots")
    frame = pd.DataFrame(map(vars, figures), columns=[field.name for field in fields(Figure)])
    nested: dict[str, Any] = {}
    for figure in figures:
        if figure.round == FINAL:
            spaces = nested.setdefault(figure.method, {})
            spaces.setdefault(figure.space, {})[figure.metric] = figure.value
    text = json.dumps({"final": nested}, indent=1)
    with whole_file(internal / "metrics.json") as path:
        path.write_text(text)
    with whole_file(internal / "figures.csv") as path:
        frame.to_csv(path, index=False)
    with whole_file(internal / "read.json") as path:
        path.write_text(json.dumps(read))
    with whole_file(plots / "distance.csv") as path:
        frame[frame.space.isin([ENCODER, LATENT])].to_csv(path, index=False)
    with whole_file(plots / "attributes.csv") as path:
        frame[frame.space == ATTRIBUTE].to_csv(path, index=False)
    with whole_file(Roots(base).stamps / "evaluate.json") as path:
        stamp = hmac.digest(key, hashlib.sha256(text.encode()).digest(), "sha256").hex()
        path.write_text(json.dumps({"stamp": stamp}) + "\n")


if __name__ == "__main__":
    stage.main(NAME, run)
