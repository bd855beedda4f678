"""Measures draws that one ledger entry pays for, compared with a charge for each draw.

    python -m benchmarks.planned_draws [--draws 800] [--records 1000]

Both make the same noisy histograms. The state folder is on the disk of temporary files.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import sugarbush as sb
from sugarbush.privacy import DiscreteGaussian, noisy_histogram
from sugarbush.privacy.session import ChargingSession

_STDDEV = 90.0


def measure(
    make: Callable[[sb.PrivacySession], ChargingSession], *, draws: int, records: int
) -> tuple[float, int, float]:
    """Return the wall-clock time of all draws, the number of ledger lines, and epsilon."""
    bins: sb.Private[int] = sb.Private(np.arange(records) % 50)
    with tempfile.TemporaryDirectory() as state:
        ledger = sb.open_ledger("tokens", cap=4, state=Path(state))
        start = time.perf_counter()
        session = make(sb.PrivacySession(ledger=ledger, stage="tokens", run="1"))
        for _ in range(draws):
            noisy_histogram(bins, size=50, stddev=_STDDEV, session=session)
        return time.perf_counter() - start, len(ledger.entries()), ledger.total()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=800)
    parser.add_argument("--records", type=int, default=1000)
    asked = parser.parse_args()
    event = DiscreteGaussian(stddev=_STDDEV, count=asked.draws)
    makes: dict[str, Callable[[sb.PrivacySession], ChargingSession]] = {
        "warm-up": lambda session: session.planned(event),
        "planned": lambda session: session.planned(event),
        "single charges": lambda session: session,
    }
    table = Table("charges", "seconds", "ledger lines", "epsilon", "ratio")
    planned = 0.0
    for name, make in makes.items():
        taken, lines, epsilon = measure(make, draws=asked.draws, records=asked.records)
        planned = taken if name == "planned" else planned
        if name != "warm-up":
            table.add_row(
                name, f"{taken:.2f}", f"{lines}", f"{epsilon:.3f}", f"{taken / planned:.0f}"
            )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
