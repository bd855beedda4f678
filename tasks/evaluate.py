"""How near the synthetic texts are to held-out real ones, by round.

Reads    data/private/prepared/, data/private/metadata/, data/released/{initial,evolve}/<method>/
Writes   reports/internal/   metrics.json (final sets), figures.csv (all), plots/
         data/stamps/evaluate.json
Spends   nothing, and releases nothing: every figure is computed on real texts and is internal
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.errors import InputError
from sugarbush.evolution.population import Population, load_population
from sugarbush.metadata.extract import extract_codes
from sugarbush.metrics.attributes import AttributeReader, train_reader
from sugarbush.metrics.bootstrap import Estimate, normal_interval
from sugarbush.metrics.features import LatentSpace, latent_space
from sugarbush.metrics.frechet import frechet_distance
from sugarbush.metrics.jensen_shannon import MAXIMUM, distance_by_attribute
from sugarbush.metrics.lengths import length_distance, word_counts
from sugarbush.metrics.mauve import mauve_interval
from sugarbush.metrics.precision_recall import NEIGHBOURS, neighbour_scores
from sugarbush.params import EvaluateParams, Method, Params
from sugarbush.paths import Roots, find_input, make_private, require, whole_file
from sugarbush.privacy.key import state_key
from sugarbush.randomness import public_rng
from sugarbush.schema import Schema, load_schema
from tasks import stage
from tasks.encoder import open_encoder
from tasks.private_files import RealTexts, load_real_texts
from tasks.state import state_of

NAME = "evaluate"
ENCODER, LATENT = "encoder", "tf-idf"

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One figure: `method`, `round` (-1: the final set) and what it measures."""

    method: str
    round: int
    space: str
    metric: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """The held-out part in both spaces, its codes, and how a text's attributes are read."""

    features: dict[str, NDArray[np.float32]]
    words: NDArray[np.int64]
    codes: NDArray[np.int64]
    latent: LatentSpace
    readers: dict[str, AttributeReader]
    schema: Schema
    embed: Embed
    params: Params

    def spaces(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """`texts` in every feature space."""
        return {ENCODER: self.embed(texts), LATENT: self.latent.encode(texts)}

    def read(self, texts: Sequence[str], embeddings: NDArray[np.float32]) -> NDArray[np.int64]:
        """Codes `(n, d)` by the same extractor for real and synthetic: a given column is read off
        the embedding by a classifier trained on real texts, everything else by the schema."""
        written = extract_codes(
            self.schema, texts, {a.name: [None] * len(texts) for a in self.schema.attributes},
            embed=self.embed, params=self.params.extract_metadata,
        )  # fmt: skip
        for place, attribute in enumerate(self.schema.attributes):
            if attribute.name in self.readers:
                written[:, place] = self.readers[attribute.name].read(embeddings)
        return written


def yardstick(
    train: RealTexts, heldout: RealTexts, *, schema: Schema, embed: Embed, params: Params
) -> Yardstick:
    """What everything is measured against. Its own `codes` are read, not given, for fairness."""
    latent = latent_space(train.texts, seed=params.evaluate.seed)
    embeddings = embed(train.texts)
    readers = {
        a.name: train_reader(embeddings, train.codes[:, place], seed=params.evaluate.seed)
        for place, a in enumerate(schema.attributes)
        if a.column is not None
    }
    empty = np.empty((0, len(schema.names)), dtype=np.int64)
    ruler = Yardstick(
        features={}, words=word_counts(heldout.texts), codes=empty, latent=latent,
        readers=readers, schema=schema, embed=embed, params=params,
    )  # fmt: skip
    features = ruler.spaces(heldout.texts)
    codes = ruler.read(heldout.texts, features[ENCODER])
    return Yardstick(**{**vars(ruler), "features": features, "codes": codes})


def distances(
    texts: Sequence[str], ruler: Yardstick, *, method: str, round_: int, params: EvaluateParams
) -> Iterator[Measure]:
    """Every distribution metric of one set of texts, in both spaces."""
    for space, features in ruler.spaces(texts).items():
        real = ruler.features[space]
        rng = public_rng(params.seed, method, round_, space)
        found = {
            "mauve": mauve_interval(
                real, features, seed=params.seed, resamples=params.bootstrap, rng=rng,
                clusters=params.clusters,
            ),
        }  # fmt: skip
        if min(len(real), len(features)) > 1:
            found["frechet"] = Estimate(value=frechet_distance(real, features))
        if min(len(real), len(features)) > NEIGHBOURS:
            scores = neighbour_scores(real, features)
            for name in ("precision", "recall", "density", "coverage"):
                found[name] = Estimate(value=float(np.mean(getattr(scores, name))))
        for metric, estimate in found.items():
            yield _measure(method, round_, space, metric, estimate)
    lengths = length_distance(ruler.words, word_counts(texts))
    yield _measure(method, round_, "words", "length", Estimate(value=float(lengths)))


def attribute_distances(
    texts: Sequence[str], ruler: Yardstick, *, method: str, round_: int, params: EvaluateParams
) -> Iterator[Measure]:
    """Jensen-Shannon distance (the square root of the divergence, in nats) by attribute."""
    codes = ruler.read(texts, ruler.embed(texts))
    domain = ruler.schema.domain
    rng = public_rng(params.seed, method, round_, "attributes")
    for metric, value in distance_by_attribute(ruler.codes, codes, domain=domain).items():
        yield _measure(method, round_, "attribute", metric, Estimate(value=value))
    mean = normal_interval(
        lambda p, q: float(
            np.mean(list(distance_by_attribute(ruler.codes[p], codes[q], domain=domain).values()))
        ),
        sizes=(len(ruler.codes), len(codes)),
        resamples=params.bootstrap,
        rng=rng,
        within=(0.0, MAXIMUM),
    )
    yield _measure(method, round_, "attribute", "mean", mean)


def _measure(method: str, round_: int, space: str, metric: str, estimate: Estimate) -> Measure:
    return Measure(
        method=method, round=round_, space=space, metric=metric, value=estimate.value,
        low=estimate.low, high=estimate.high,
    )  # fmt: skip


def stages_of(base: Path, method: Method, schema: Schema) -> Iterator[tuple[int, Population]]:
    """The candidates that a method starts from, each round's survivors, and the final set (-1)."""
    released = Roots(base).released
    initial = released / "initial" / method.value / "candidates.parquet"
    evolved = require(released / "evolve" / method.value, left_by=f"evolve@{method}")
    yield 0, load_population(require(initial, left_by=f"initialise@{method}"), schema.names)
    for folder in sorted(evolved.glob("round_*")):
        population = load_population(folder / "candidates.parquet", schema.names)
        yield (
            int(folder.name.removeprefix("round_")),
            population.take(np.load(folder / "survivors.npy")),
        )
    yield -1, load_population(evolved / "final.parquet", schema.names)


def run(base: Path, params: Params) -> None:
    """Measure every method, and a real sample as the ceiling."""
    roots, schema = Roots(base), load_schema(find_input(base, params.prepare.schema_))
    settings = params.evaluate
    train = load_real_texts(roots.private, "train", schema.names, settings.max_texts, settings.seed)
    heldout = load_real_texts(
        roots.private, "heldout", schema.names, settings.max_texts, settings.seed
    )
    if len(heldout.texts) < 2:
        raise InputError(
            "the held-out part is too small to measure anything against; raise "
            "prepare.heldout_share"
        )
    with (
        open_encoder(params, roots, private=True) as private,
        open_encoder(params, roots, private=False) as encoder,
    ):
        ruler = yardstick(train, heldout, schema=schema, embed=private.encode, params=params)
        ruler = Yardstick(**{**vars(ruler), "embed": encoder.encode})
        measures = list(_ceiling(train, ruler, private.encode, settings))
        for method in params.methods:
            for round_, population in stages_of(base, method, schema):
                texts = _sample(population.texts, settings, method.value, round_)
                sets = {"method": method.value, "round_": round_, "params": settings}
                measures += distances(texts, ruler, **sets)  # type: ignore[arg-type]
                measures += attribute_distances(texts, ruler, **sets)  # type: ignore[arg-type]
    write_metrics(base, measures, key=state_key(state_of(params, base)))


def _ceiling(
    train: RealTexts, ruler: Yardstick, embed: Embed, params: EvaluateParams
) -> Iterator[Measure]:
    """Real train texts measured as if they were synthetic: nothing can be expected to be nearer."""
    real = Yardstick(**{**vars(ruler), "embed": embed})
    yield from distances(train.texts, real, method="real", round_=-1, params=params)
    yield from attribute_distances(train.texts, real, method="real", round_=-1, params=params)


def _sample(texts: Sequence[str], params: EvaluateParams, *names: str | int) -> tuple[str, ...]:
    if len(texts) <= params.max_texts:
        return tuple(texts)
    places = public_rng(params.seed, "sample", *names).choice(
        len(texts), size=params.max_texts, replace=False
    )
    return tuple(texts[i] for i in np.sort(places))


def write_metrics(base: Path, measures: Sequence[Measure], *, key: bytes) -> None:
    """The internal figures, as DVC's metrics and plots read them, and their keyed stamp."""
    internal = make_private(Roots(base).internal)
    plots = make_private(internal / "plots")
    frame = pd.DataFrame([vars(m) for m in measures])
    nested: dict[str, Any] = {}
    for m in measures:
        if m.round == -1:
            nested.setdefault(m.method, {}).setdefault(m.space, {})[m.metric] = m.value
    text = json.dumps({"final": nested}, indent=1)
    with whole_file(internal / "metrics.json") as path:
        path.write_text(text)
    with whole_file(internal / "figures.csv") as path:
        frame.to_csv(path, index=False)
    with whole_file(plots / "distance.csv") as path:
        frame[frame.space.isin([ENCODER, LATENT])].to_csv(path, index=False)
    with whole_file(plots / "attributes.csv") as path:
        frame[frame.space == "attribute"].to_csv(path, index=False)
    with whole_file(Roots(base).stamps / "evaluate.json") as path:
        stamp = hmac.digest(key, hashlib.sha256(text.encode()).digest(), "sha256").hex()
        path.write_text(json.dumps({"stamp": stamp}) + "\n")


if __name__ == "__main__":
    stage.main(NAME, run)
