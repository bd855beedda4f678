"""Runs Sugarbush's methods on a public data set in memory, and computes their metrics."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sugarbush as sb
from research.sweep_layout import GROUND, points_of, sweep_folder
from sugarbush.evaluation import (
    LatentSpace,
    distance_by_attribute,
    latent_space,
    mauve_score,
    train_classifier,
)
from sugarbush.pipeline import corpus_of_project, open_project
from sugarbush.randomness import public_rng
from sugarbush.run import parse_params

# The ledger of a run is in shared memory, because its writes to a disk would take as long as the
# run.
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
METRICS = ("mauve", "mauve_tfidf", "mean_jsd")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A method with changed settings. `evolution` changes settings of the method. `settings`
    changes other sections of params.yaml. `kind` is a subclass of the method to use in its place.
    """

    method: str = "maple"
    kind: type[sb.Method] | None = None
    evolution: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def attributes(self) -> Sequence[str]:
        """The attributes in the DP table. An empty value means all attributes."""
        return self.settings.get("synthesize_metadata", {}).get("attributes", ())


@dataclass(frozen=True, kw_only=True)
class RoundSnapshot:
    """The texts after `round` votes, with their codes (n, d).

    If `round` is None, the texts are the final set. `calls` is the number of generator calls of the
    run up to this round.
    """

    round: int | None
    calls: int
    texts: tuple[str, ...]
    codes: NDArray[np.int64]


@dataclass(frozen=True)
class TextFeatures:
    """The features of n texts: embeddings (n, d), TF-IDF vectors (n, e) and codes (n, a)."""

    vectors: NDArray[np.float32]
    latent: NDArray[np.float32]
    codes: NDArray[np.int64]


class FeatureReader:
    """Computes the features of each text once."""

    def __init__(self, embed: Any, latent: LatentSpace, classifiers: Sequence[Any]) -> None:
        self._embed, self._latent, self._classifiers = embed, latent, classifiers
        self._place: dict[str, int] = {}
        self._known: TextFeatures | None = None

    def of(self, texts: Sequence[str]) -> TextFeatures:
        new = [text for text in dict.fromkeys(texts) if text not in self._place]
        if new:
            self._learn(new)
        known, places = self._known, [self._place[text] for text in texts]
        assert known is not None
        return TextFeatures(known.vectors[places], known.latent[places], known.codes[places])

    def _learn(self, new: Sequence[str]) -> None:
        vectors = self._embed(new)
        codes = np.stack([classifier.predict(vectors) for classifier in self._classifiers], axis=1)
        found: list[NDArray[Any]] = [vectors, self._latent.encode(new), codes]
        self._place |= {text: len(self._place) + i for i, text in enumerate(new)}
        if self._known is not None:
            known: list[NDArray[Any]] = [self._known.vectors, self._known.latent, self._known.codes]
            found = [np.concatenate(pair) for pair in zip(known, found, strict=True)]
        self._known = TextFeatures(*found)


class BenchmarkDataset:
    """A public data set, with features for the metrics of its runs.

    If `state` is given, runs store results and answers in this folder, and a repeated run restores
    them. Otherwise every run draws new noise.
    """

    def __init__(self, corpus: sb.Corpus, *, name: str, state: Path | None = None) -> None:
        self.corpus, self.name, self._state = corpus, name, state
        self.schema, seed = corpus.schema, corpus.settings.seed
        train, heldout = (corpus.real_texts(split) for split in ("train", "heldout"))
        vectors = corpus.encode(train.texts, private=True)
        classifiers = [
            train_classifier(vectors, train.codes[:, place], seed=seed)
            for place in range(len(self.schema.names))
        ]
        latent = latent_space(train.texts, seed=seed)

        def reader(*, private: bool) -> FeatureReader:
            return FeatureReader(
                lambda new: corpus.encode(new, private=private), latent, classifiers
            )

        self._readers = {private: reader(private=private) for private in (True, False)}
        self.heldout = self.features(heldout.texts, private=True)

    def features(self, texts: Sequence[str], *, private: bool = False) -> TextFeatures:
        """Compute the features of the texts. `private` selects the cache for the embeddings.

        The codes come from classifiers that are trained on real training texts.
        """
        return self._readers[private].of(texts)

    def run(self, variant: Variant, *, texts: int, epsilon: float, seed: int) -> sb.Release:
        """Release `texts` texts by one call of `sb.synthesize`, with real noise.

        Methods without a budget ignore `epsilon`.
        """
        own = self.corpus.settings
        method = own.method(variant.method)
        kind = variant.kind or type(method)
        method = kind(**{**method.model_dump(), **variant.evolution})
        privacy = dict(variant.settings.get("privacy", {}))
        if 0 < epsilon < np.inf:
            privacy["epsilon"] = epsilon
        with tempfile.TemporaryDirectory(prefix="sugarbush-benchmark-", dir=_MEMORY) as scratch:
            state = Path(scratch) if self._state is None else self._state
            return sb.synthesize(
                dataclasses.replace(self.corpus, state=state),
                method=method,
                seed=seed,
                texts=texts,
                settings={**variant.settings, "privacy": privacy},
            )

    def measured(
        self, texts: Sequence[str], *, count: int, seed: int, private: bool = False
    ) -> dict[str, float]:
        """Compute every metric on at most `count` of the texts, drawn without replacement.

        MAUVE uses `count` / 10 clusters. `private` selects the cache for the embeddings.
        """
        size = min(count, len(texts))
        chosen = public_rng(seed, "measured").choice(len(texts), size=size, replace=False)
        own = self.features([texts[i] for i in chosen], private=private)
        real, clusters = self.heldout, max(2, count // 10)
        jsd = distance_by_attribute(real.codes, own.codes, domain=self.schema.domain)
        return {
            "mauve": mauve_score(real.vectors, own.vectors, clusters=clusters, seed=seed),
            "mauve_tfidf": mauve_score(real.latent, own.latent, clusters=clusters, seed=seed),
            "mean_jsd": float(np.mean(list(jsd.values()))),
        }


def snapshots(release: sb.Release) -> Iterator[RoundSnapshot]:
    """Return snapshots of one run: before the first vote, after every vote, and at the end."""
    lineage = release.lineage
    first = lineage.final
    if lineage.scored is not None or lineage.rounds:
        first = (lineage.scored or lineage.rounds[0]).population
    first = first.take(np.flatnonzero(first.rounds == 0))
    calls = int(first.ids.max()) + 1  # the counter includes repeated texts, which were dropped

    def at(number: int | None, population: Any) -> RoundSnapshot:
        return RoundSnapshot(
            round=number, calls=calls, texts=population.texts, codes=population.codes
        )

    yield at(0, first)
    for own in lineage.rounds:
        calls += own.usage.calls + own.usage.cached_calls
        yield at(own.number, own.population.take(own.survivors))
    calls += lineage.usage.calls + lineage.usage.cached_calls
    yield at(None, lineage.final)


def datasets(
    sweep: Path, *, sets: Sequence[str] | None, records: int, keep: bool = False
) -> Iterator[BenchmarkDataset]:
    """Return the prepared data sets of a sweep, or only the data sets in `sets`.

    Each split has at most `records` records. With `keep`, results and answers are stored. A
    repeated run restores the stored results.
    """
    _, points = points_of(Path(), sweep)
    settings = {point.set_name: parse_params(point.fields) for point in points}
    for name in sets or settings:
        folder = sweep_folder(Path(), sweep) / name / GROUND
        own = settings[name]
        corpus = corpus_of_project(open_project(folder, settings=own), limit=records, seed=own.seed)
        state = folder / "runs" if keep else None
        yield BenchmarkDataset(corpus, name=name, state=state)
