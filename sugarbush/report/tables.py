"""Released values as tables for `dvc plots`."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sugarbush.report.model import PublicData


def votes_table(data: PublicData) -> pd.DataFrame:
    """Noisy votes by rank: one row a candidate of a round, most votes first."""
    rows = [
        {"method": method.name, "round": round_.number, "rank": rank, "votes": int(votes)}
        for method in data.methods
        for round_ in method.rounds
        for rank, votes in enumerate(np.sort(round_.votes.value)[::-1], start=1)
    ]
    return pd.DataFrame(rows, columns=["method", "round", "rank", "votes"])


def survivors_table(data: PublicData) -> pd.DataFrame:
    """Survivors of every round by the round that they were written for."""
    rows = [
        {
            "method": method.name,
            "round": round_.number,
            "written": int(written),
            "survivors": int(count),
        }
        for method in data.methods
        for round_ in method.rounds
        for written, count in zip(
            *np.unique(round_.written[round_.survivors], return_counts=True), strict=True
        )
    ]
    return pd.DataFrame(rows, columns=["method", "round", "written", "survivors"])
