"""A grid's tables and curves: means over seeds with Student's intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from research.leakage.grid import WITH_POLICY, Arm, Grid
from research.report.curves import CurveFigure, CurvePage
from sugarbush.audits.canaries import CANDIDATES, MEAN_BY_CHANCE, highest_by_chance
from sugarbush.audits.membership import over_seeds
from sugarbush.training.crt.confidentiality import allowed

_CONDITION = ["set_name", "model", "arm", "gamma", "epsilon"]


@dataclass(frozen=True)
class _Leak:
    """What is drawn over gamma: title and unit, where its axis begins, the most that can be, and
    what a guess has.

    `guess` takes the number of canaries. Whiskers end at `most`; the table has the whole interval.
    """

    title: str
    y: str
    floor: float
    most: float
    guess: Callable[[int], float]


_MOST_BITS = math.log2(CANDIDATES)
_OVER_GAMMA = {
    "exposure_highest": _Leak(
        "Exposure of the likeliest canary", "bits", 0.0, _MOST_BITS, highest_by_chance
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
    *_PERPLEXITIES, *_RATIOS.values(), *_OVER_GAMMA,
    *(f"{attack}_{kind}" for attack in ("membership", "reference", "group")
      for kind in ("auc", "tpr_1")),
]  # fmt: skip
_ACCOUNTED = (0.01, 0.1, 0.5)
_EPSILONS = np.linspace(0.25, 4, 16)


def page_of(table: pd.DataFrame, grid: Grid, *, name: str) -> CurvePage:
    """Everything that the points of `table`, as `summarised` gives it, show."""
    return CurvePage(
        name=f"Confidential training: {name}",
        remarks=remarks(table, grid),
        table=readable(table),
        figures=(*over_gamma(table, grid), over_epsilon(table, grid), accounting()),
    )


def remarks(table: pd.DataFrame, grid: Grid) -> tuple[str, ...]:
    """What is to be known before the curves are read."""
    sizes = "; ".join(
        f"{name}: {s.public} public texts, {s.members} members, {s.others} others"
        for name, s in grid.sets.items()
    )
    fewest, most = table["seeds"].min(), table["seeds"].max()
    seeds = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return (
        f"{sizes}. {grid.canaries} canaries, {grid.repeats} copies each. Seeds a point: {seeds}; "
        "intervals are 95% by Student's t.",
        "CRT's noise is made for a miss rate of at least "
        f"{grid.gammas[1]:g}; its epsilon is Bayesian, under replacement. That of dpsgd is of "
        "adding or removing a record. The two are not to be compared as numbers.",
        "crt-conservative trains without noise on sentences that hold no secret by a conservative "
        "policy. Its delta has the bound on that policy's misses on top, which holds together with "
        "gamma's at 95%; crt's is without one.",
    )


def summarised(done: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """A row a condition: each figure's mean over seeds, `_low` and `_high`; NaN for one seed.

    `perplexity_ratio` is over that of `nonprivate` with the same seed; NaN before that is finished.
    """
    frame = pd.DataFrame(done)
    same = ["set_name", "model", "seed"]
    ceiling = frame[frame["arm"] == Arm.NONPRIVATE.value].set_index(same)[_PERPLEXITIES]
    frame = frame.join(ceiling, on=same, rsuffix="_nonprivate")
    for measured, ratio in _RATIOS.items():
        frame[ratio] = frame[measured] / frame[f"{measured}_nonprivate"]
    return pd.DataFrame(
        dict(zip(_CONDITION, condition, strict=True)) | _means(own)
        for condition, own in frame.groupby(_CONDITION, dropna=False, sort=False)
    )


def _means(own: pd.DataFrame) -> dict[str, float]:
    found: dict[str, float] = {
        "seeds": len(own), "noise": own["noise"].mean(), "promised": own["promised"].max(),
        "delta": own["delta"].max(),
    }  # fmt: skip
    for name in _MEASURED:
        interval = over_seeds(own[name].tolist())
        known = math.isfinite(interval.lower)
        found[name] = interval.value
        found[f"{name}_low"] = interval.lower if known else math.nan
        found[f"{name}_high"] = interval.upper if known else math.nan
    return found


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """The table as it is read: a figure and its interval in one cell."""
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


def over_gamma(table: pd.DataFrame, grid: Grid) -> Iterator[CurveFigure]:
    """Figures 3 to 5 of the paper. Arms without a policy have one value for every gamma."""
    first = table[table["epsilon"].isna() | (table["epsilon"] == grid.epsilons[0])]
    rows = [
        row | {"gamma": gamma}
        for row in first.to_dict("records")
        for gamma in ([row["gamma"]] if Arm(row["arm"]) in WITH_POLICY else grid.gammas)
    ]
    for name, leak in _OVER_GAMMA.items():
        drawn = [_curve_row(row, row["gamma"], name) for row in rows]
        for row in drawn:
            row["high"] = float(np.minimum(row["high"], leak.most))
        drawn += [
            {"panel": panel, "arm": _GUESS, "x": gamma, "value": leak.guess(grid.canaries),
             "low": math.nan, "high": math.nan}
            for panel in dict.fromkeys(row["panel"] for row in drawn) for gamma in grid.gammas
        ]  # fmt: skip
        yield CurveFigure(
            name=f"{name}_by_gamma", title=leak.title, x="gamma", y=leak.y, floor=leak.floor,
            rows=pd.DataFrame(drawn),
        )  # fmt: skip


def over_epsilon(table: pd.DataFrame, grid: Grid) -> CurveFigure:
    """Figure 2: perplexity of held-out texts; the arms without noise are level lines."""
    at = table["gamma"].isna() | (table["gamma"] == grid.gammas[1])
    noisy = table[table["epsilon"].notna() & at]
    level = table[table["arm"].isin([Arm.PUBLIC.value, Arm.NONPRIVATE.value])]
    ends = sorted({min(grid.epsilons), max(grid.epsilons)})
    rows = [_curve_row(row, row["epsilon"], "perplexity") for row in noisy.to_dict("records")]
    rows += [_curve_row(row, x, "perplexity") for row in level.to_dict("records") for x in ends]
    return CurveFigure(
        name="perplexity_by_epsilon", title="Perplexity of held-out texts", x="epsilon",
        y="perplexity", rows=pd.DataFrame(rows), floor=1.0,
    )  # fmt: skip


def accounting() -> CurveFigure:
    """Figure 6: which epsilon of DP-SGD a Bayesian epsilon allows. No training."""
    return CurveFigure(
        name="inner_by_bayesian", title="Epsilon of DP-SGD that a Bayesian epsilon allows",
        x="Bayesian epsilon", y="epsilon of DP-SGD",
        rows=pd.DataFrame(
            {"panel": "accounting", "arm": f"gamma {gamma:g}", "x": float(target),
             "value": allowed(float(target), gamma=gamma), "low": math.nan, "high": math.nan}
            for gamma in _ACCOUNTED for target in _EPSILONS
        ),
    )  # fmt: skip


def _curve_row(row: dict[Any, Any], x: float, name: str) -> dict[str, Any]:
    return {
        "panel": f"{row['set_name']}, {row['model']}", "arm": row["arm"], "x": x,
        "value": row[name], "low": row[f"{name}_low"], "high": row[f"{name}_high"],
    }  # fmt: skip
