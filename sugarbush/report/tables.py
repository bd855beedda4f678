"""Released values as tables for `dvc plots`."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sugarbush.report.model import PublicData
from sugarbush.report.svg import thinned


def votes_table(data: PublicData) -> pd.DataFrame:
    """Noisy votes by rank, highest first: at most 200 ranks per round, on a logarithmic scale.

    Scores are in units of one vote, rounded to 0.001.
    """
    rows = [
        {
            "method": method.name,
            "round": round_.number,
            "rank": rank,
            "votes": round(ranked[rank - 1].item(), 3),
        }
        for method in data.methods
        for round_ in method.rounds
        for ranked in [np.sort(round_.votes.value)[::-1]]
        for rank in thinned(len(ranked)).tolist()
    ]
    return pd.DataFrame(rows, columns=["method", "round", "rank", "votes"])


def survivors_table(data: PublicData) -> pd.DataFrame:
    """Survivors of every round, by the round for which they were written."""
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
