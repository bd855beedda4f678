"""The grid of arms and epsilons, replayed in memory: many seeds, intervals over whole runs.

    python -m flows.sweep settings/sweep.yaml       # prepares and embeds the sets
    python -m benchmarks.arms settings/sweep.yaml --seeds 10

Writes reports/internal/sweeps/<sweep>-replayed/: figures.csv, table.csv and index.html, as a sweep
does. A figure is the mean over seeds, its interval 95% by Student's t over seeds: noise, table,
prompts and selection are all drawn anew. The same texts are held out at all seeds.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import t as student

from benchmarks.replay import METRICS, Ground, Measured, Variant, grounds, replay
from sugarbush.params import PromptContent
from sugarbush.paths import Roots, make_private, whole_file
from sugarbush.report.model import FINAL
from sugarbush.report.sweep import SweepPage, headline, render_sweep_page

AUGPE = {"start": "labels", "prompt": PromptContent.INDEPENDENT, "by_label": True}
# At equal rounds, candidates, variations and calls; `augpe-10` has its own rounds.
ARMS: Mapping[str, Variant] = {
    "maple": Variant(),
    "augpe": Variant(**AUGPE),
    "maple-zero": Variant(rounds=0, candidates=100, variations=1),
    "maple-M": Variant(prompt=PromptContent.METADATA),
    "maple-E": Variant(prompt=PromptContent.EXAMPLES),
    "maple-weak": Variant(attributes=("product_group", "region")),
    "sugarbush": Variant(distinct=True, final="density"),
    "augpe-10": Variant(**AUGPE, rounds=10, variations=7, candidates=700),
}
PUBLIC = Variant(
    start="nothing", prompt=PromptContent.INDEPENDENT, rounds=0, candidates=100, variations=1
)
WHERE = {"mauve": ("mauve", "encoder"), "mauve_tfidf": ("mauve", "tf-idf"),
         "mean_jsd": ("mean", "attribute")}  # fmt: skip


def runs(
    ground: Ground, *, epsilons: Sequence[float], slow: Sequence[float], seeds: int
) -> Iterator[dict[str, Any]]:
    """A row a figure of every run; arms of ten rounds at the epsilons `slow` alone."""
    points = [("public", PUBLIC, 0.0), ("nonprivate", Variant(), math.inf)]
    points += [
        (arm, variant, epsilon)
        for epsilon in epsilons
        for arm, variant in ARMS.items()
        if variant.rounds < 10 or epsilon in slow
    ]
    for arm, variant, epsilon in points:
        if not set(variant.attributes or ()) <= set(ground.schema.names):
            continue
        for seed in range(seeds):
            for found in replay(ground, variant, epsilon=epsilon, seed=seed, by_round=True):
                point = {"set": ground.name, "arm": arm, "method": arm, "epsilon": epsilon}
                yield from (point | row for row in _rows(found))


def _rows(found: Measured) -> Iterator[dict[str, Any]]:
    own = {"round": FINAL if found.round is None else found.round, "calls": found.calls}
    for name in METRICS:
        metric, space = WHERE[name]
        yield own | {"metric": metric, "space": space, "value": found.figures[name]}
    yield own | {"metric": "texts", "space": "text", "value": min(found.texts, 100)}


def averaged(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds with their intervals, in the columns of a sweep's page."""
    keys = ["set", "arm", "method", "epsilon", "round", "metric", "space"]
    found = rows.groupby(keys, sort=False).agg(
        value=("value", "mean"), sd=("value", "std"), n=("value", "size"), calls=("calls", "mean")
    )
    reach = student.ppf(0.975, found["n"] - 1) * found["sd"] / found["n"] ** 0.5
    # MAUVE and the root of the divergence end at 1: so do their intervals.
    found["low"] = (found["value"] - reach).clip(lower=0)
    found["high"] = (found["value"] + reach).clip(upper=found["value"].clip(lower=1))
    return found.drop(columns=["sd", "n"]).reset_index().assign(seed=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--sets", nargs="*", help="of the sweep; all unless given")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0, 8.0])
    parser.add_argument("--slow", type=float, nargs="*", default=[1.0], help="of augpe-10")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--records", type=int, default=2000, help="private records at most")
    asked = parser.parse_args()
    begun, rows = time.process_time(), list[dict[str, Any]]()
    for ground in grounds(asked.sweep, sets=asked.sets, records=asked.records):
        rows += runs(ground, epsilons=asked.epsilons, slow=asked.slow, seeds=asked.seeds)
    figures = averaged(pd.DataFrame(rows))
    name = "-".join([asked.sweep.stem, "replayed", *(asked.sets or ())])
    intervals = f"Means of {asked.seeds} whole runs with 95% intervals over runs"
    folder = make_private(Roots(Path()).internal / "sweeps" / name)
    with whole_file(folder / "figures.csv") as path:
        figures.to_csv(path, index=False)
    with whole_file(folder / "table.csv") as path:
        headline(figures).to_csv(path, index=False)
    with whole_file(folder / "index.html") as path:
        page = SweepPage(name=name, intervals=intervals, figures=figures, missing=())
        path.write_text(render_sweep_page(page), encoding="utf-8")
    print(f"{folder / 'index.html'}: {asked.seeds} seeds, {time.process_time() - begun:.0f} CPU-s")


if __name__ == "__main__":
    main()
