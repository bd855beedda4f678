"""Compares variants of MAPLE with other votes or another selection, with many seeds.

    python -m research.sweep research/settings/sweep.yaml       # prepares and embeds the data
    python -m research.selection research/settings/sweep.yaml --epsilon 1 --seeds 10

A variant is MAPLE with changed settings. A difference is the value of a variant minus the value of
`maple` with the same seed. The 95% interval of a difference is by Student's t over seeds. Every run
draws new noise. The values are MAUVE in both feature spaces and the mean JSD. The metrics compare
synthetic with held-out texts. Every variant has the same number of synthetic texts.
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

from research.benchmark_dataset import METRICS, Variant, datasets

TEXTS = 100  # the metrics use this number of synthetic texts of each variant


def maple(*, metadata_share: float = 0.1, **evolution: Any) -> Variant:
    """Return MAPLE with 400 candidates, two rounds and the changed settings.

    One of four candidates survives a round.
    """
    shares = {"metadata": metadata_share, "synthesis": 1 - metadata_share}
    size = {"candidates": 4 * TEXTS, "rounds": 2, "variations": 4}
    return Variant(evolution={**size, **evolution}, settings={"privacy": {"shares": shares}})


def herding(width: float, **changes: Any) -> Variant:
    """Return MAPLE with kernel scores in place of votes, and selection by kernel herding."""
    return maple(selection="kernel_herding", score_width=width, **changes)


VARIANTS: Mapping[str, Variant] = {
    "maple": maple(),
    "no vote": maple(rounds=0, candidates=TEXTS, variations=1),
    "1 round": maple(rounds=1),
    "3 rounds": maple(rounds=3),
    "200 candidates": maple(candidates=200),
    "800 candidates": maple(candidates=800),
    "distinct before the vote": maple(distinct=True),
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
    "metadata 0.3": maple(metadata_share=0.3),
    "metadata 0.5": maple(metadata_share=0.5),
    "distinct, metadata 0.3": maple(distinct=True, metadata_share=0.3),
    "distinct, 1 round": maple(distinct=True, rounds=1),
    "distinct, 3 rounds": maple(distinct=True, rounds=3),
    "distinct, 800 candidates": maple(distinct=True, candidates=800),
}


def table(results: pd.DataFrame, *, base: str) -> str:
    """Return a table with the means over seeds, and the differences to `base` at equal seeds.

    Differences have 95% intervals.
    """
    lines = [
        "| variant | texts | MAUVE | MAUVE, TF-IDF | mean JSD | difference: MAUVE | TF-IDF | JSD |",
        "|---|" + "---:|" * 7,
    ]
    base_rows = results[results.variant == base].set_index("seed")
    for name, found in results.groupby("variant", sort=False):
        rows = found.set_index("seed")
        means = [f"{rows[m].mean():.3f}" for m in METRICS]
        differences = [_interval(rows[m] - base_rows[m]) if name != base else "" for m in METRICS]
        lines.append(
            f"| {name} | {rows.texts.mean():.0f} | " + " | ".join([*means, *differences]) + " |"
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
    parser.add_argument("--sets", nargs="*", help="data sets of the sweep; default: all")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--records", type=int, default=2000, help="most private records to use")
    parser.add_argument("--only", nargs="*", default=None)
    asked = parser.parse_args()
    for own in datasets(asked.sweep, sets=asked.sets, records=asked.records, texts=TEXTS):
        begun, rows = time.process_time(), []
        for variant_name, variant in VARIANTS.items():
            if asked.only is not None and variant_name not in {"maple", *asked.only}:
                continue
            for seed in range(asked.seeds):
                texts = own.run(variant, epsilon=asked.epsilon, seed=seed).texts
                values = own.measured(texts, seed=seed)
                rows.append({"variant": variant_name, "seed": seed, "texts": len(texts)} | values)
        spent = time.process_time() - begun
        print(f"\n{own.name}, epsilon {asked.epsilon:g}, {asked.seeds} seeds, {spent:.0f} CPU-s\n")
        print(table(pd.DataFrame(rows), base="maple"), flush=True)


if __name__ == "__main__":
    main()
