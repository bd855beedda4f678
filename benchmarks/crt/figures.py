"""The grid's tables, curves and page: means over seeds with Student's intervals.

Writes   table.csv            one row a condition: every figure with its bounds
         <figure>.csv         what DVC plots:  dvc plots show <figure>.csv -x x -y value
         <figure>.vl.json     the same as a Vega-Lite specification
         index.html           the page
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.crt.grid import WITH_POLICY, Arm, Grid
from sugarbush.attacks.membership import over_seeds
from sugarbush.crt.confidentiality import allowed
from sugarbush.paths import make_private, whole_file
from sugarbush.report.curves import CurveFigure, CurvePage, render_curve_page, vega_lite

_CONDITION = ["set_name", "model", "arm", "gamma", "epsilon"]
_OVER_GAMMA = {
    "exposure_highest": ("Exposure of the likeliest canary", "bits"),
    "exposure_mean": ("Mean exposure of the canaries", "bits"),
    "membership_accuracy": ("Membership of a text", "accuracy"),
    "group_accuracy": ("Membership of a group", "accuracy"),
}
_MEASURED = [
    "perplexity", "perplexity_outside", *_OVER_GAMMA,
    *(f"{attack}_{kind}" for attack in ("membership", "reference", "group")
      for kind in ("auc", "tpr_1")),
]  # fmt: skip
_ACCOUNTED = (0.01, 0.1, 0.5)
_EPSILONS = np.linspace(0.1, 4, 40)


def write_figures(done: Sequence[dict[str, Any]], grid: Grid, folder: Path) -> None:
    """Everything that the points so far show."""
    if not done:
        raise SystemExit("no point is finished")
    table = summarised(pd.DataFrame(done))
    page = CurvePage(
        name=f"Confidential training: {folder.name}",
        remarks=remarks(table, grid),
        table=readable(table),
        figures=(*over_gamma(table, grid), over_epsilon(table, grid), accounting()),
    )
    make_private(folder)
    with whole_file(folder / "table.csv") as path:
        table.to_csv(path, index=False)
    for figure in page.figures:
        with whole_file(folder / f"{figure.name}.csv") as path:
            figure.rows.to_csv(path, index=False)
        with whole_file(folder / f"{figure.name}.vl.json") as path:
            path.write_text(json.dumps(vega_lite(figure)))
    with whole_file(folder / "index.html") as path:
        path.write_text(render_curve_page(page), encoding="utf-8")
    print(readable(table).to_string(index=False))
    print(folder / "index.html")


def remarks(table: pd.DataFrame, grid: Grid) -> tuple[str, ...]:
    """What is to be known before the curves are read."""
    sizes = "; ".join(
        f"{name}: {s.public} public texts, {s.members} members, {s.others} others"
        for name, s in grid.sets.items()
    )
    seeds = f"{table['seeds'].min()} to {table['seeds'].max()} seeds a point, 95% intervals"
    return (
        f"{sizes}. {grid.canaries} canaries, {grid.repeats} copies each. {seeds} by Student's t.",
        "Without a leak the mean exposure is 1.44 bits and the highest of ten 4.2; the accuracy of "
        "an attack that guesses is 0.5.",
        "CRT's noise is made for a miss rate of at least "
        f"{grid.gammas[1]:g}; its epsilon is Bayesian, under replacement. That of dpsgd is of "
        "adding or removing a record. The two are not to be compared as numbers.",
    )


def summarised(frame: pd.DataFrame) -> pd.DataFrame:
    """A row a condition: each figure's mean over seeds, `_low` and `_high`; NaN for one seed."""
    return pd.DataFrame(
        dict(zip(_CONDITION, condition, strict=True)) | _means(own)
        for condition, own in frame.groupby(_CONDITION, dropna=False, sort=False)
    )


def _means(own: pd.DataFrame) -> dict[str, float]:
    ratio = own["perplexity"] / own["start_perplexity"]
    found: dict[str, float] = {
        "seeds": len(own), "noise": own["noise"].mean(), "promised": own["promised"].max(),
        "start_perplexity": own["start_perplexity"].mean(), "over_start": ratio.mean(),
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
    shown = table[[*_CONDITION, "seeds", "promised"]].copy()
    for name in _MEASURED:
        shown[name] = [
            f"{row[name]:.3g}"
            + (
                f" ({row[f'{name}_low']:.3g} to {row[f'{name}_high']:.3g})"
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
    for name, (title, y) in _OVER_GAMMA.items():
        yield CurveFigure(
            name=f"{name}_by_gamma", title=title, x="gamma", y=y,
            rows=pd.DataFrame(_curve_row(row, row["gamma"], name) for row in rows),
        )  # fmt: skip


def over_epsilon(table: pd.DataFrame, grid: Grid) -> CurveFigure:
    """Figure 2: perplexity of held-out texts; the arms without noise are level lines."""
    at = table["gamma"].isna() | (table["gamma"] == grid.gammas[1])
    noisy = table[table["epsilon"].notna() & at]
    level = table[table["arm"] == Arm.NONPRIVATE.value]
    ends = sorted({noisy["epsilon"].min(), noisy["epsilon"].max()})
    rows = [_curve_row(row, row["epsilon"], "perplexity") for row in noisy.to_dict("records")]
    rows += [_curve_row(row, x, "perplexity") for row in level.to_dict("records") for x in ends]
    return CurveFigure(
        name="perplexity_by_epsilon", title="Perplexity of held-out texts", x="epsilon",
        y="perplexity", rows=pd.DataFrame(rows),
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
