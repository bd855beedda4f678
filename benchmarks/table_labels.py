"""Measures a classifier that is trained on the DP table, on real rows that the table has not seen.

    python -m benchmarks.table_labels airline_tweets.parquet --label sentiment \\
        --attributes airline sentiment negative_reason weekday hour --unused negative_reason

Each seed divides the rows into two halves. One half gives the DP table, independent marginals, and
the real rows. On each, a logistic regression of one-hot columns learns the label from the other
columns except `--unused`, with balanced classes. The figure is macro-F1 on the other half, as mean
and standard error over the seeds. The values in each column are public. Delta is 1e-9.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.data_types import Private
from sugarbush.randomness import public_rng
from sugarbush.tables.engines import run_engine
from sugarbush.tables.marginal_measurer import MarginalMeasurer
from sugarbush.tables.settings import Engine, SynthesizeMetadataSettings
from sugarbush.tables.synthesis import draw_rows

DELTA = 1e-9
Codes = NDArray[np.int64]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--attributes", nargs="+", required=True)
    parser.add_argument("--label", required=True)
    parser.add_argument("--unused", nargs="+", default=[])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1, 4])
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args(arguments)
    frame = pd.read_parquet(asked.table)
    coded = [
        pd.factorize(frame[name], sort=True, use_na_sentinel=False) for name in asked.attributes
    ]
    codes = np.stack([column for column, _ in coded], axis=1).astype(np.int64)
    domain = {name: len(of) for name, (_, of) in zip(asked.attributes, coded, strict=True)}
    for epsilon in asked.epsilons:
        found: dict[str, list[float]] = {}
        for seed in range(asked.seeds):
            order = public_rng(seed, "halves").permutation(len(codes))
            train, test = np.array_split(codes[order], 2)
            tables = {"real": train}
            for engine in (Engine.SUGARBUSH, Engine.INDEPENDENT):
                tables[engine.value] = _table(train, domain, engine, epsilon=epsilon, seed=seed)
            for name, rows in tables.items():
                found.setdefault(name, []).append(_macro_f1(rows, test, domain, asked))
        for name, scores in found.items():
            error = np.std(scores, ddof=1) / np.sqrt(len(scores))
            print(
                f"epsilon {epsilon:g}  {name:11}  {np.mean(scores):.3f} ± {error:.3f}", flush=True
            )


def _table(
    rows: Codes, domain: dict[str, int], engine: Engine, *, epsilon: float, seed: int
) -> Codes:
    measurer = MarginalMeasurer(Private(rows), domain, mu=mu_of(epsilon=epsilon, delta=DELTA))
    made = run_engine(measurer, SynthesizeMetadataSettings(engine=engine))
    return draw_rows(made, public_rng(seed, "rows"))


def _macro_f1(
    train: Codes, test: Codes, domain: dict[str, int], asked: argparse.Namespace
) -> float:
    names = list(domain)
    place = names.index(asked.label)
    used = [i for i, name in enumerate(names) if name not in {asked.label, *asked.unused}]
    model = LogisticRegression(class_weight="balanced", max_iter=1_000)
    one_hot = [
        np.concatenate([np.eye(domain[names[i]])[rows[:, i]] for i in used], axis=1)
        for rows in (train, test)
    ]
    model.fit(one_hot[0], train[:, place])
    return float(f1_score(test[:, place], model.predict(one_hot[1]), average="macro"))


if __name__ == "__main__":
    main()
