"""Which way of voting and selecting gives the better texts: variants of MAPLE, many seeds each.

    python -m research.sweep research/settings/sweep.yaml       # prepares and embeds the sets
    python -m research.selection research/settings/sweep.yaml --epsilon 1 --seeds 10

A difference is taken to `maple` at the same seed, with a 95% interval by Student's t over seeds.
Figures are MAUVE against held-out texts in both feature spaces and the mean JSD, of equally many
texts of every variant.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import t as student

from research.benchmark_dataset import METRICS, grounds
from research.replay import Variant, replay


def herding(width: float, **settings: Any) -> Variant:
    """Scores in place of votes, and survivors that would score alike."""
    return Variant(score_width=width, select="herded", **settings)


TEXTS = 100  # of every variant are measured
BASE = Variant()
VARIANTS: Mapping[str, Variant] = {
    "maple": BASE,
    "no vote": Variant(rounds=0),
    "1 round": Variant(rounds=1),
    "3 rounds": Variant(rounds=3),
    "200 candidates": Variant(candidates=200),
    "800 candidates": Variant(candidates=800),
    "distinct before the vote": Variant(distinct=True),
    "smoothed 0.05": Variant(smoothing=0.05),
    "smoothed 0.02, pooled": Variant(smoothing=0.02, pooled=True),
    "stratified by metadata": Variant(select="stratified"),
    "sampled": Variant(select="sample"),
    "2 votes a record": Variant(neighbours=2),
    "4 votes a record": Variant(neighbours=4),
    "scores, 0.2": Variant(score_width=0.2),
    "scores, 0.05": Variant(score_width=0.05),
    "scores, 0.02": Variant(score_width=0.02),
    "scores, 0.01": Variant(score_width=0.01),
    "herded, 0.02": herding(0.02),
    "herded, 0.05": herding(0.05),
    "herded, 0.1": herding(0.1),
    "herded, 0.15": herding(0.15),
    "herded": herding(0.2),
    "herded, 0.3": herding(0.3),
    "herded, 0.5": herding(0.5),
    "herded, 1": herding(1.0),
    "herded, distinct": herding(0.2, distinct=True),
    "herded, 1 round": herding(0.2, rounds=1),
    "herded, 3 rounds": herding(0.2, rounds=3),
    "herded, 800 candidates": herding(0.2, candidates=800),
    "herded, metadata 0.3": herding(0.2, metadata_share=0.3),
    "metadata 0.3": Variant(metadata_share=0.3),
    "metadata 0.5": Variant(metadata_share=0.5),
    "final by density": Variant(final="density"),
    "final by density, 1 round": Variant(final="density", rounds=1),
    "final by density of both rounds": Variant(final="density-pooled"),
    "all by density": Variant(select="density", final="density"),
    "final by density, 4 votes": Variant(final="density", neighbours=4),
    "distinct, by density, cells of 8": Variant(
        distinct=True, final="density", candidates_a_cell=8
    ),
    "distinct, by density, cells of 32": Variant(
        distinct=True, final="density", candidates_a_cell=32
    ),
    "distinct, by density, twice the texts": Variant(
        distinct=True, final="density", final_texts=200
    ),
    "distinct, by density, metadata 0.3": Variant(
        distinct=True, final="density", metadata_share=0.3
    ),
    "distinct, by density, smoothed 0.02": Variant(distinct=True, final="density", smoothing=0.02),
    "distinct, by density": Variant(distinct=True, final="density"),
    "distinct, by density of both rounds": Variant(distinct=True, final="density-pooled"),
    "distinct, all by density": Variant(distinct=True, select="density", final="density"),
    "distinct, smoothed 0.02": Variant(distinct=True, smoothing=0.02),
    "distinct, smoothed 0.05": Variant(distinct=True, smoothing=0.05),
    "distinct, smoothed 0.1": Variant(distinct=True, smoothing=0.1),
    "distinct, smoothed 0.05, 4 votes": Variant(distinct=True, smoothing=0.05, neighbours=4),
    "distinct, smoothed 0.05, pooled": Variant(distinct=True, smoothing=0.05, pooled=True),
    "distinct, 2 votes": Variant(distinct=True, neighbours=2),
    "distinct, metadata 0.3": Variant(distinct=True, metadata_share=0.3),
    "distinct, 1 round": Variant(distinct=True, rounds=1),
    "distinct, 3 rounds": Variant(distinct=True, rounds=3),
    "distinct, 800 candidates": Variant(distinct=True, candidates=800),
}


def table(results: pd.DataFrame, *, base: str) -> str:
    """Means over seeds, and differences to `base` at equal seeds with 95% intervals."""
    lines = ["| variant | texts | votes/sigma | MAUVE | MAUVE, TF-IDF | mean JSD | "
             "difference: MAUVE | TF-IDF | JSD |", "|---|" + "---:|" * 8]  # fmt: skip
    own = results[results.variant == base].set_index("seed")
    for name, found in results.groupby("variant", sort=False):
        rows = found.set_index("seed")
        means = [f"{rows[m].mean():.3f}" for m in METRICS]
        differences = [_interval(rows[m] - own[m]) if name != base else "" for m in METRICS]
        lines.append(
            f"| {name} | {rows.texts.mean():.0f} | {rows.votes_over_sigma.mean():.2f} | "
            + " | ".join([*means, *differences])
            + " |"
        )
    return "\n".join(lines)


def _interval(differences: pd.Series) -> str:
    n = len(differences)
    reach = student.ppf(0.975, n - 1) * differences.std(ddof=1) / math.sqrt(n)
    mark = "**" if abs(differences.mean()) > reach else ""
    return f"{mark}{differences.mean():+.3f} ± {reach:.3f}{mark}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--sets", nargs="*", help="of the sweep; all unless given")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--records", type=int, default=2000, help="private records at most")
    parser.add_argument("--only", nargs="*", default=None)
    asked = parser.parse_args()
    for ground in grounds(asked.sweep, sets=asked.sets, records=asked.records, texts=TEXTS):
        begun, rows = time.process_time(), []
        for variant_name, variant in VARIANTS.items():
            if asked.only is not None and variant_name not in {"maple", *asked.only}:
                continue
            for seed in range(asked.seeds):
                (found,) = replay(ground, variant, epsilon=asked.epsilon, seed=seed)
                own = {"votes_over_sigma": found.votes_over_sigma, "texts": found.texts}
                rows.append({"variant": variant_name, "seed": seed, **found.figures, **own})
        print(f"\n{ground.name}, epsilon {asked.epsilon:g}, {asked.seeds} seeds, "
              f"{time.process_time() - begun:.0f} CPU-s\n")  # fmt: skip
        print(table(pd.DataFrame(rows), base="maple"), flush=True)


if __name__ == "__main__":
    main()
