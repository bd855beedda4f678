"""A prepared public set in memory: the private records as voters, the generator, the yardstick."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sugarbush.pipeline.encoders import open_encoder
from sugarbush.pipeline.generators import open_generator

from research.cached_results import Kept, open_kept
from research.sweep_layout import GROUND, points_of, sweep_folder
from sugarbush.data.private_store import load_real_texts
from sugarbush.data.schema import load_schema
from sugarbush.evaluation.attributes import AttributeClassifier, train_classifier
from sugarbush.evaluation.features import LatentSpace, latent_space
from sugarbush.evaluation.jensen_shannon import distance_by_attribute
from sugarbush.evaluation.mauve import mauve
from sugarbush.generators.interface import Answer, Generator, Request
from sugarbush.paths import Roots
from sugarbush.pipeline.settings import ProjectSettings, parse_params
from sugarbush.pipeline.stages.initialise import load_donated
from sugarbush.privacy.data_types import Released
from sugarbush.randomness import public_rng, seed_of

METRICS = ("mauve", "mauve_tfidf", "mean_jsd")
Embed = Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True)
class View:
    """Texts as votes and metrics see them: unit vectors (n, d), TF-IDF's (n, e), codes (n, a)."""

    vectors: NDArray[np.float32]
    latent: NDArray[np.float32]
    codes: NDArray[np.int64]


class Viewer:
    """Looks at every text once, however often it is asked about."""

    def __init__(
        self, embed: Embed, latent: LatentSpace, classifiers: Sequence[AttributeClassifier]
    ) -> None:
        self._embed, self._latent, self._classifiers = embed, latent, classifiers
        self._place: dict[str, int] = {}
        self._known: View | None = None

    def of(self, texts: Sequence[str]) -> View:
        new = [text for text in dict.fromkeys(texts) if text not in self._place]
        if new:
            self._learn(new)
        known, places = self._known, [self._place[text] for text in texts]
        assert known is not None
        return View(known.vectors[places], known.latent[places], known.codes[places])

    def _learn(self, new: Sequence[str]) -> None:
        vectors = self._embed(new)
        codes = np.stack([classifier.predict(vectors) for classifier in self._classifiers], axis=1)
        found = View(vectors, self._latent.encode(new), codes)
        self._place |= {text: len(self._place) + i for i, text in enumerate(new)}
        if self._known is not None:
            columns = zip(_columns(self._known), _columns(found), strict=True)
            found = View(*(np.concatenate(pair) for pair in columns))
        self._known = found


def _columns(view: View) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    return view.vectors, view.latent, view.codes


class BenchmarkDataset:
    """What all runs on a set have in common.

    `texts` of every round and final set are measured, in `texts` / 10 clusters; `calls` counts what
    the generator was asked for. `kept` is a folder where answers and drawn tables are kept, with
    which a run that was stopped goes on; None draws everything anew.
    """

    def __init__(
        self, folder: Path, *, params: ProjectSettings, records: int, texts: int, kept: Kept | None
    ) -> None:
        self.name, self.params, self.texts, self.calls = folder.parent.name, params, texts, 0
        self._kept = kept
        self.schema = load_schema(Path(params.prepare.schema_))
        roots = Roots(folder)
        self.donated = load_donated(folder, self.schema)
        names, seed = self.schema.names, params.evaluate.seed
        train, heldout = (
            load_real_texts(roots.private, part, names, records, seed)
            for part in ("train", "heldout")
        )
        self.codes = train.codes
        self.label = params.synthesize_metadata.label or names[0]
        self.labels = self.codes[:, names.index(self.label)]
        with open_encoder(params, roots, private=True) as private:
            self.voters = private.encode(train.texts)
            readers = [
                train_classifier(self.voters, self.codes[:, j], seed=seed)
                for j in range(len(names))
            ]
            latent = latent_space(train.texts, seed=seed)
            self.heldout = Viewer(private.encode, latent, readers).of(heldout.texts)
        with open_encoder(params, roots, private=False) as encoder:
            self.generator: Generator = open_generator(params, folder, encoder, stage="replay")
            self._viewer = Viewer(encoder.encode, latent, readers)
        if kept is not None:
            self.generator = kept.generator(self.generator, identity=params.generator.identity())

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._viewer.of(texts).vectors

    def measured(self, texts: Sequence[str], *, seed: int) -> dict[str, float]:
        """Every metric of at most `texts` of them, drawn without replacement."""
        count = min(self.texts, len(texts))
        shown = public_rng(seed, "measured").choice(len(texts), size=count, replace=False)
        own = self._viewer.of([texts[i] for i in shown])
        real, clusters = self.heldout, max(2, self.texts // 10)
        jsd = distance_by_attribute(real.codes, own.codes, domain=self.schema.domain)
        return {
            "mauve": mauve(real.vectors, own.vectors, clusters=clusters, seed=seed),
            "mauve_tfidf": mauve(real.latent, own.latent, clusters=clusters, seed=seed),
            "mean_jsd": float(np.mean(list(jsd.values()))),
        }

    def write(self, requests: tuple[Request, ...], seed: int) -> tuple[Answer, ...]:
        self.calls += len(requests)
        requests = tuple(
            dataclasses.replace(r, sample=seed_of(r.sample, "replay", seed) >> 1) for r in requests
        )
        return self.generator.generate(Released(requests)).value

    def once(self, name: str, make: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        """What `make` draws or, where things are kept, drew for this set under that name."""
        return make() if self._kept is None else self._kept.array(f"{self.name}-{name}", make)


def grounds(
    sweep: Path, *, sets: Sequence[str] | None, records: int, texts: int, keep: bool = False
) -> Iterator[BenchmarkDataset]:
    """The prepared sets of a sweep, all of them unless named.

    `keep` draws and asks nothing a second time, in this run or a later one.
    """
    _, points = points_of(Path(), sweep)
    settings = {point.set_name: parse_params(point.fields) for point in points}
    for name in sets or settings:
        folder = sweep_folder(Path(), sweep) / name / GROUND
        with open_kept(folder / "replayed") if keep else nullcontext() as kept:
            yield BenchmarkDataset(
                folder, params=settings[name], records=records, texts=texts, kept=kept
            )
