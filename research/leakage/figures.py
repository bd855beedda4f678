"""Makes the tables and charts of a grid: means over seeds, with Student's t intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from research.leakage.canaries import CANDIDATES, MEAN_BY_CHANCE, highest_by_chance
from research.leakage.grid import WITH_POLICY, LeakageGrid, TrainingMethod
from research.leakage.membership import over_seeds
from research.report.curves import CurveFigure, CurvePage
from sugarbush.training import allowed

_CONDITION = ["set_name", "model", "arm", "gamma", "epsilon"]


@dataclass(frozen=True)
class _Leak:
    """The chart of one value against gamma.

    `y` is the unit of the y axis, and `floor` is its start. `guess` returns the value of random
    guesses for a number of canaries. Whiskers end at `most`. The table contains the whole interval.
    """

    title: str
    y: str
    floor: float
    most: float
    guess: Callable[[int], float]


_MOST_BITS = math.log2(CANDIDATES)
_OVER_GAMMA = {
    "exposure_highest": _Leak(
        "Highest exposure of a canary", "bits", 0.0, _MOST_BITS, highest_by_chance
    ),
    "exposure_mean": _Leak(
        "Mean exposure of the canaries", "bits", 0.0, _MOST_BITS, lambda _: MEAN_BY_CHANCE
    ),
    "membership_accuracy": _Leak("Membership of a text", "accuracy", 0.4, 1.0, lambda _: 0.5),
    "group_accuracy": _Leak("Membership of a group", "accuracy", 0.4, 1.0, lambda _: 0.5),
}
_GUESS = "a guess"
_PERPLEXITIES = ["perplexity", "perplexity_outside"]
_RATIOS = {name: f"{name}_ratio" for name in _PERPLEXITIES}
_MEASURED = [
    *_PERPLEXITIES,
    *_RATIOS.values(),
    *_OVER_GAMMA,
    *(
        f"{attack}_{kind}"
        for attack in ("membership", "reference", "group")
        for kind in ("auc", "tpr_1")
    ),
]
_ACCOUNTED = (0.01, 0.1, 0.5)
_EPSILONS = np.linspace(0.25, 4, 16)


def page_of(table: pd.DataFrame, grid: LeakageGrid, *, name: str) -> CurvePage:
    """Make the page for a table that `summarised` returned."""
    return CurvePage(
        name=f"Confidential training: {name}",
        remarks=remarks(table, grid),
        table=readable(table),
        figures=(*over_gamma(table, grid), over_epsilon(table, grid), accounting()),
    )


def remarks(table: pd.DataFrame, grid: LeakageGrid) -> tuple[str, ...]:
    """Return the notes that a reader needs to understand the charts."""
    sizes = "; ".join(
        f"{name}: {s.public} public texts, {s.members} members, {s.others} others"
        for name, s in grid.sets.items()
    )
    fewest, most = table["seeds"].min(), table["seeds"].max()
    seeds = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return (
        f"{sizes}. {grid.canaries} canaries, {grid.repeats} copies each. Seeds per point: {seeds}. "
        "Intervals are 95% Student's t intervals.",
        f"CRT's noise is calibrated to a miss rate of at least {grid.gammas[1]:g}. Its epsilon is "
        "Bayesian, under replacement of a record. The epsilon of dpsgd is for adding or removing a "
        "record. Do not compare the two numbers.",
        "crt-conservative trains without noise on sentences in which a conservative policy finds "
        "no secret. Its delta includes an upper bound of the secrets that this policy misses. This "
        "bound and the bound for gamma are both true with 95% confidence. The delta of crt "
        "includes no such bound.",
    )


def summarised(done: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return one row per condition: the mean of each value over seeds, with `_low` and `_high`.

    The bounds are NaN if there is only one seed. `perplexity_ratio` is the perplexity divided by
    the perplexity of `nonprivate` with the same seed. The ratio is NaN until the point of
    `nonprivate` is finished.
    """
    frame = pd.DataFrame(done)
    same = ["set_name", "model", "seed"]
    ceiling = frame[frame["arm"] == TrainingMethod.NONPRIVATE.value].set_index(same)[_PERPLEXITIES]
    frame = frame.join(ceiling.add_suffix("_nonprivate"), on=same)
    for measured, ratio in _RATIOS.items():
        frame[ratio] = frame[measured] / frame[f"{measured}_nonprivate"]
    return pd.DataFrame(
        dict(zip(_CONDITION, condition, strict=True)) | _means(own)
        for condition, own in frame.groupby(_CONDITION, dropna=False, sort=False)
    )


def _means(own: pd.DataFrame) -> dict[str, float]:
    found: dict[str, float] = {
        "seeds": len(own),
        "noise": own["noise"].mean(),
        "promised": own["promised"].max(),
        "delta": own["delta"].max(),
    }
    for name in _MEASURED:
        interval = over_seeds(own[name].tolist())
        known = math.isfinite(interval.lower)
        found[name] = interval.value
        found[f"{name}_low"] = interval.lower if known else math.nan
        found[f"{name}_high"] = interval.upper if known else math.nan
    return found


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of the page. A cell contains a value and its interval."""
    shown = table[[*_CONDITION, "seeds"]].copy()
    for name in ("promised", "delta"):
        shown[name] = [f"{value:.3g}" for value in table[name]]
    for name in _MEASURED:
        shown[name] = [
            f"{row[name]:.3g}"
            + (
                f"\u00a0({row[f'{name}_low']:.3g}–{row[f'{name}_high']:.3g})"
                if row["seeds"] > 1
                else ""
            )
            for row in table.to_dict("records")
        ]
    return shown


def over_gamma(table: pd.DataFrame, grid: LeakageGrid) -> Iterator[CurveFigure]:
    """Return figures 3 to 5 of the paper. Methods without a policy are constant over gamma."""
    first = table[table["epsilon"].isna() | (table["epsilon"] == grid.epsilons[0])]
    rows = [
        row | {"gamma": gamma}
        for row in first.to_dict("records")
        for gamma in ([row["gamma"]] if TrainingMethod(row["arm"]) in WITH_POLICY else grid.gammas)
    ]
    for name, leak in _OVER_GAMMA.items():
        drawn = [_curve_row(row, row["gamma"], name) for row in rows]
        for row in drawn:
            row["high"] = float(np.minimum(row["high"], leak.most))
        drawn += [
            {
                "panel": panel,
                "arm": _GUESS,
                "x": gamma,
                "value": leak.guess(grid.canaries),
                "low": math.nan,
                "high": math.nan,
            }
            for panel in dict.fromkeys(row["panel"] for row in drawn)
            for gamma in grid.gammas
        ]
        yield CurveFigure(
            name=f"{name}_by_gamma",
            title=leak.title,
            x="gamma",
            y=leak.y,
            floor=leak.floor,
            rows=pd.DataFrame(drawn),
        )


def over_epsilon(table: pd.DataFrame, grid: LeakageGrid) -> CurveFigure:
    """Return figure 2: perplexity on held-out texts. Methods without noise are horizontal lines."""
    at = table["gamma"].isna() | (table["gamma"] == grid.gammas[1])
    noisy = table[table["epsilon"].notna() & at]
    level = table[table["arm"].isin([TrainingMethod.PUBLIC.value, TrainingMethod.NONPRIVATE.value])]
    ends = sorted({min(grid.epsilons), max(grid.epsilons)})
    rows = [_curve_row(row, row["epsilon"], "perplexity") for row in noisy.to_dict("records")]
    rows += [_curve_row(row, x, "perplexity") for row in level.to_dict("records") for x in ends]
    return CurveFigure(
        name="perplexity_by_epsilon",
        title="Perplexity of held-out texts",
        x="epsilon",
        y="perplexity",
        rows=pd.DataFrame(rows),
        floor=1.0,
    )


def accounting() -> CurveFigure:
    """Return figure 6: the largest epsilon of DP-SGD for which a given Bayesian epsilon holds.

    The figure needs no training.
    """
    return CurveFigure(
        name="inner_by_bayesian",
        title="Epsilon of DP-SGD that a Bayesian epsilon allows",
        x="Bayesian epsilon",
        y="epsilon of DP-SGD",
        rows=pd.DataFrame(
            {
                "panel": "accounting",
                "arm": f"gamma {gamma:g}",
                "x": float(target),
                "value": allowed(float(target), gamma=gamma),
                "low": math.nan,
                "high": math.nan,
            }
            for gamma in _ACCOUNTED
            for target in _EPSILONS
        ),
    )


def _curve_row(row: dict[Any, Any], x: float, name: str) -> dict[str, Any]:
    return {
        "panel": f"{row['set_name']}, {row['model']}",
        "arm": row["arm"],
        "x": x,
        "value": row[name],
        "low": row[f"{name}_low"],
        "high": row[f"{name}_high"],
    }
