"""Measures the time of a sampled step's privacy loss distribution, compared with dp_accounting.

    python -m benchmarks.accounting [--rounds 3]

Both distributions are bitwise equal. The table has the median CPU time per distribution.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from dp_accounting import NeighboringRelation
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from rich.console import Console
from rich.table import Table

from sugarbush.privacy.privacy_loss import sampled_gaussian

_INTERVAL = 1e-4
_STEPS = [(0.8, 0.1), (1.0, 0.25), (2.5, 0.05), (8.0, 0.5)]  # noise multiplier and rate


def cpu_s(make: Callable[[], Any], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        make()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    table = Table("noise multiplier", "rate", "neighbours", "dp_accounting", "Sugarbush", "ratio")
    for noise, rate in _STEPS:
        for relation in (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE):
            replaced = relation is NeighboringRelation.REPLACE_ONE
            theirs = cpu_s(
                lambda n=noise, q=rate, r=relation: from_gaussian_mechanism(
                    n, sampling_prob=q, value_discretization_interval=_INTERVAL,
                    neighboring_relation=r,
                ),
                rounds,
            )  # fmt: skip
            ours = cpu_s(
                lambda n=noise, q=rate, r=replaced: sampled_gaussian(
                    n, rate=q, interval=_INTERVAL, replaced=r
                ),
                rounds,
            )
            table.add_row(
                f"{noise:g}", f"{rate:g}", relation.name.lower(),
                f"{theirs * 1e3:.0f} ms", f"{ours * 1e3:.0f} ms", f"{ours / theirs:.2f}",
            )  # fmt: skip
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
