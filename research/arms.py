"""Runs methods (here called arms) at several epsilons with many seeds.

    python -m research.sweep research/settings/sweep.yaml       # prepares and embeds the data
    python -m research.arms research/settings/sweep.yaml --seeds 10

The command writes figures.csv, table.csv and index.html to
reports/internal/sweeps/<sweep>-replayed/. The file runs.csv in this folder has one row per value of
each run. A run is one call of `sugarbush.synthesize` with a separate ledger. The data set of a run
is prepared once. A value is the mean over seeds, with a 95% interval by Student's t over seeds.
Noise has no seed, as in a real release. So a second grid has other values, within the intervals.
The same texts are held out for all seeds.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

import sugarbush as sb
from research.benchmark_dataset import METRICS, BenchmarkDataset, Variant, datasets, snapshots
from research.page import write_page
from sugarbush.evaluation import FINAL
from sugarbush.paths import Roots, atomic_file

WEAK = {"synthesize_metadata": {"attributes": ["product_group", "region"]}}


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The size of every run.

    A vote has `candidates` texts. `candidates / variations` texts survive. The metrics of a final
    set use `texts` texts.
    """

    candidates: int
    variations: int
    texts: int


def arms_of(scale: Scale) -> dict[str, Variant]:
    """Return the methods by name, with equal rounds, candidates, variations and calls.

    `augpe-10` is an exception: it has ten rounds. `mosaic` scores `candidates` texts. `mosaic-4`
    scores four texts for each released text. `augpe-scores` is `augpe` with kernel scores and
    herding in place of votes by label. `augpe-once` is `mosaic-4` with AugPE's first texts, without
    metadata and examples.
    """
    size = {"candidates": scale.candidates, "rounds": 2, "variations": scale.variations}
    survivors = scale.candidates // scale.variations

    def mosaic(ratio: float, **other: Any) -> Variant:
        return Variant(
            method="mosaic", evolution={"candidates": round(ratio * scale.texts), **other}
        )

    once = {"candidates": survivors, "rounds": 0, "variations": 1}
    herding = {"scorer": "kernel"}
    ten = {"rounds": 10, "variations": 7, "candidates": 7 * survivors}
    return {
        "public": Variant(method="public", evolution={"candidates": survivors}),
        "nonprivate": Variant(method="nonprivate", evolution=size),
        "maple": Variant(evolution=size),
        "augpe": Variant(method="augpe", evolution=size),
        "maple-zero": Variant(evolution=once),
        "maple-M": Variant(evolution={**size, "prompt": "metadata"}),
        "maple-E": Variant(evolution={**size, "prompt": "examples"}),
        "maple-weak": Variant(evolution=size, settings=WEAK),
        "sugarbush": Variant(evolution={**size, **herding}),
        "augpe-10": Variant(method="augpe", evolution=ten),
        "augpe-scores": Variant(method="augpe", evolution={**size, **herding, "by_label": False}),
        "augpe-once": mosaic(4, prompt="independent", examples=0),
        "mosaic": Variant(method="mosaic", evolution={"candidates": scale.candidates}),
        "mosaic-2": mosaic(2),
        "mosaic-4": mosaic(4),
        "mosaic-7": mosaic(7),
        "mosaic-M": mosaic(4, prompt="metadata", examples=0),
    }


# Methods without noise run at this epsilon only.
FIXED = {"public": 0.0, "nonprivate": math.inf}
RUN = ("set", "arm", "epsilon", "run")  # these columns identify a run
WHERE = {
    "mauve": ("mauve", "encoder"),
    "mauve_tfidf": ("mauve", "tf-idf"),
    "mean_jsd": ("mean", "attribute"),
}


def runs(
    dataset: BenchmarkDataset,
    arms: Mapping[str, Variant],
    *,
    epsilons: Sequence[float],
    slow: Sequence[float],
    seeds: int,
    done: Collection[tuple[Any, ...]] = (),
) -> Iterator[list[dict[str, Any]]]:
    """Run all methods, without the runs in `done`. For each run, yield one row per value.

    Methods with ten rounds run only at the epsilons in `slow`. Runs are ordered by seed. So a
    stopped grid has all runs of its first seeds.
    """
    for seed in range(seeds):
        for arm, variant in arms.items():
            if not set(variant.attributes) <= set(dataset.schema.names):
                continue
            for epsilon in (FIXED[arm],) if arm in FIXED else epsilons:
                if variant.evolution.get("rounds", 1) >= 10 and epsilon not in slow:
                    continue
                point = {
                    "set": dataset.name,
                    "arm": arm,
                    "method": arm,
                    "epsilon": epsilon,
                    "run": seed,
                }
                if tuple(point[name] for name in RUN) in done:
                    continue
                release = dataset.run(variant, epsilon=epsilon, seed=seed)
                yield [point | row for row in _rows(release, dataset, seed=seed)]


def _rows(release: sb.Release, dataset: BenchmarkDataset, *, seed: int) -> Iterator[dict[str, Any]]:
    for found in snapshots(release):
        own = {"round": FINAL if found.round is None else found.round, "calls": found.calls}
        values = dataset.measured(found.texts, seed=seed)
        for name in METRICS:
            metric, space = WHERE[name]
            yield own | {"metric": metric, "space": space, "value": values[name]}
        count = min(len(found.texts), dataset.texts)
        yield own | {"metric": "texts", "space": "text", "value": count}


def averaged(rows: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds with intervals, in the columns of a sweep page."""
    keys = ["set", "arm", "method", "epsilon", "round", "metric", "space"]
    found = rows.groupby(keys, sort=False).agg(
        value=("value", "mean"), sd=("value", "std"), n=("value", "size"), calls=("calls", "mean")
    )
    reach = student.ppf(0.975, found["n"] - 1) * found["sd"] / found["n"] ** 0.5
    # Shares, MAUVE and the square root of the JSD are at most 1, so intervals are cut at 1. A value
    # above 1 is a perplexity or a count, which has no upper limit.
    most = np.where(found["value"] > 1, math.inf, 1)
    found["low"] = (found["value"] - reach).clip(lower=0)
    found["high"] = (found["value"] + reach).clip(upper=most)
    return found.drop(columns=["sd", "n"]).reset_index().assign(seed=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--sets", nargs="*", help="data sets of the sweep; default: all")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0, 8.0])
    parser.add_argument("--slow", type=float, nargs="*", default=[1.0], help="epsilons of augpe-10")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--records", type=int, default=2000, help="most private records to use")
    parser.add_argument("--arms", nargs="*", help="methods; default: all")
    parser.add_argument("--candidates", type=int, default=400, help="number of texts in a vote")
    parser.add_argument("--variations", type=int, default=4)
    parser.add_argument("--texts", type=int, default=100, help="texts of a final set to measure")
    parser.add_argument("--model", help="folder of a local model, in place of the sweep's model")
    parser.add_argument(
        "--keep", action="store_true", help="store draws and answers for a later run"
    )
    parser.add_argument(
        "--resume", action="store_true", help="leave out the runs that runs.csv already has"
    )
    asked = parser.parse_args()
    scale = Scale(candidates=asked.candidates, variations=asked.variations, texts=asked.texts)
    arms = {k: v for k, v in arms_of(scale).items() if asked.arms is None or k in asked.arms}
    model = [Path(asked.model).name] if asked.model else []
    if asked.model:
        override = {"generator": {"huggingface": {"model": asked.model}}}
        arms = {k: replace(v, settings={**v.settings, **override}) for k, v in arms.items()}
    begun = time.process_time()
    name = "-".join([asked.sweep.stem, "replayed", *(asked.sets or ()), *model])
    file = Roots(Path()).internal / "sweeps" / name / "runs.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = pd.read_csv(file).to_dict("records") if asked.resume and file.exists() else []
    done = {tuple(row[name] for name in RUN) for row in rows}
    for dataset in datasets(
        asked.sweep, sets=asked.sets, records=asked.records, texts=scale.texts, keep=asked.keep
    ):
        for own in runs(
            dataset, arms, epsilons=asked.epsilons, slow=asked.slow, seeds=asked.seeds, done=done
        ):
            rows += own
            with atomic_file(file) as path:
                pd.DataFrame(rows).to_csv(path, index=False)
    figures = averaged(pd.DataFrame(rows))
    intervals = f"Means of {asked.seeds} whole runs with 95% intervals over runs"
    page = write_page(name, figures, intervals=intervals, base=Path())
    print(f"{page}: {asked.seeds} seeds, {time.process_time() - begun:.0f} CPU-s")


if __name__ == "__main__":
    main()
