"""Measures the time of kernel scores, compared with a matrix product alone, and of herding.

    python -m benchmarks.scores                       # 50k x 5k, and 5k of 20k
    python -m benchmarks.scores --repeats 9

Scores and product run in turn. The last lines are `ratio R` and `herding_s S`. R is the ratio of
the shortest times of scores and product. Other processes can only increase a time, so the shortest
time counts. The sum checks the norm of every row, as a mechanism does, but adds no noise. The
vectors are the vectors of `benchmarks.voting`.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sugarbush.evolution.voting import PrivateEmbeddings, VotingSession, sum_scores

from benchmarks.voting import product_numpy, unit_vectors
from sugarbush.evolution.herding import herd
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.unit import Unit

WIDTH = 0.2
RECORDS, CANDIDATES, HERDED = 50_000, 5_000, 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    records, candidates = unit_vectors(RECORDS, CANDIDATES)
    products: list[float] = []
    scored: list[float] = []
    with tempfile.TemporaryDirectory() as state:
        voting = VotingSession(
            embeddings=Private(PrivateEmbeddings(records, np.zeros(RECORDS, dtype=np.int64))),
            stddev=None,
            session=PrivacySession(ledger=_ledger(Path(state)), stage="scores", run="1"),
        )
        for _ in range(repeats):
            products.append(_seconds(lambda: product_numpy(records, candidates)))
            scored.append(_seconds(lambda: sum_scores(voting, candidates, width=WIDTH)))
            print(f"product {products[-1]:.2f} s, scores {scored[-1]:.2f} s", flush=True)
        texts, _ = unit_vectors(HERDED, 1)
        sums = sum_scores(voting, texts, width=WIDTH).value
    herding = _seconds(lambda: herd(sums, texts, width=WIDTH, count=HERDED // 4))
    print(f"ratio {min(scored) / min(products):.2f}")
    print(f"herding_s {herding:.1f}")


def _ledger(state: Path) -> Ledger:
    return Ledger(
        state, dataset="d", purpose="benchmark", unit=Unit.RECORD, cap=math.inf, delta=1e-6
    )


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
