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
from numpy.typing import NDArray

from benchmarks.voting import product_numpy, unit_vectors
from sugarbush.evolution.herding import herd
from sugarbush.evolution.parts import Candidates, Records
from sugarbush.evolution.scorers import KernelScorer
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
        session = PrivacySession(ledger=_ledger(Path(state)), stage="scores", run="1")
        private = Private[Records](Records.without_codes(records))

        def sums_for(texts: NDArray[np.float32]) -> NDArray[np.int64]:
            public = Records.without_codes(texts)
            scored = Candidates(public.embeddings, public.codes, public.labels)
            scorer = KernelScorer(width=WIDTH)
            return scorer.total(private, scored, stddev=None, session=session).value

        for _ in range(repeats):
            products.append(_seconds(lambda: product_numpy(records, candidates)))
            scored.append(_seconds(lambda: sums_for(candidates)))
            print(f"product {products[-1]:.2f} s, scores {scored[-1]:.2f} s", flush=True)
        texts, _ = unit_vectors(HERDED, 1)
        sums = sums_for(texts)
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
