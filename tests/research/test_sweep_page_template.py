"""Tests of the tables and the page of a sweep."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from research.sweep_report import OVER_TEXTS, SweepPage, headline, render_sweep_page
from sugarbush.evaluation.interface import FINAL, REAL

ATTACK = "<script>alert(1)</script>"


def row(arm: str, value: float, **fields: Any) -> dict[str, Any]:
    own = {
        "set": "letters", "arm": arm, "method": arm, "epsilon": 1.0, "seed": 1,
        "round": FINAL, "calls": 40.0,
        "metric": "mauve", "space": "encoder", "value": value, "low": value - 0.1,
        "high": value + 0.1,
    }  # fmt: skip
    return own | fields


def figures() -> pd.DataFrame:
    rows = []
    for arm, epsilon in (("maple", 1.0), ("augpe", 1.0), ("maple", 4.0), ("public", 0.0)):
        rows += [
            row(arm, 0.5, epsilon=epsilon, round=0, calls=10.0),
            row(arm, 0.7, epsilon=epsilon, round=1, calls=25.0),
            row(arm, 0.8, epsilon=epsilon),
            row(arm, 150, epsilon=epsilon, metric="texts", space="text", low=None, high=None),
            row(arm, 0.6, epsilon=epsilon, metric="accuracy", space="product"),
            row(arm, 0.4, epsilon=epsilon, metric="accuracy", space="wish"),
            row(REAL, 0.9, epsilon=epsilon, calls=None),
            row(REAL, 150, epsilon=epsilon, calls=None, metric="texts", space="text"),
        ]
    return pd.DataFrame(rows)


def page(**changes: Any) -> str:
    found = figures().replace(changes) if changes else figures()
    return render_sweep_page(
        SweepPage(name="equal", intervals=OVER_TEXTS, figures=found, missing=("letters/augpe",))
    )


def test_a_final_set_has_one_row_and_real_texts_one_a_set() -> None:
    table = headline(figures())
    assert list(table["arm"]) == ["maple", "augpe", "maple", "public", REAL]
    assert list(table["epsilon"][:4]) == [1.0, 1.0, 4.0, 0.0]
    assert (table["texts"] == 150).all()
    first = table.iloc[0]
    assert (first["mauve"], first["mauve_low"], first["mauve_high"]) == (0.8, 0.8 - 0.1, 0.8 + 0.1)
    assert first["calls"] == 40
    assert first["accuracy"] == 0.5


def test_a_figure_that_was_not_measured_is_missing_and_not_zero() -> None:
    assert headline(figures())["jsd"].isna().all()
    assert math.isnan(headline(figures()).iloc[-1]["accuracy"])


def test_the_page_shows_intervals_what_is_missing_and_no_network() -> None:
    written = page()
    assert "0.800 (0.700 to 0.900)" in written
    assert "Not finished: letters/augpe" in written
    assert "Internal." in written
    assert OVER_TEXTS in written
    assert "http" not in written.replace("http-equiv", "")
    assert written.count('aria-label="MAUVE by generator calls"') == 2


def test_what_nobody_measured_has_neither_column_nor_chart() -> None:
    assert "Mean JSD" not in page()
    assert page().count("MAUVE, encoder") > 1


def test_a_page_of_means_does_not_say_that_a_row_is_a_run() -> None:
    written = render_sweep_page(
        SweepPage(name="m", intervals="Means of 5 runs", figures=figures(), missing=())
    )
    assert "Means of 5 runs." in written
    assert "run a row" not in written and "a row is one run" not in written


def test_a_number_of_texts_that_is_not_known_is_no_zero() -> None:
    found = figures()[lambda f: f["metric"] != "texts"]
    written = render_sweep_page(
        SweepPage(name="m", intervals=OVER_TEXTS, figures=found, missing=())
    )
    assert '<td class="n">–</td>' in written
    assert '<td class="n">0</td>' not in written


def test_an_arm_without_noise_has_epsilon_infinity() -> None:
    found = pd.DataFrame([row("nonprivate", 0.9, epsilon=math.inf), row(REAL, 0.95)])
    written = render_sweep_page(
        SweepPage(name="ceiling", intervals=OVER_TEXTS, figures=found, missing=())
    )
    assert "nonprivate, ε ∞" in written
    assert "inf<" not in written


def test_an_arm_at_several_epsilons_has_a_line_and_one_at_a_single_epsilon_none() -> None:
    written = page()
    assert written.count('aria-label="MAUVE, encoder by epsilon"') == 1
    chart = written[written.index('aria-label="MAUVE, encoder by epsilon"') :]
    chart = chart[: chart.index("</svg>")]
    assert "maple, epsilon 4" in chart
    assert "augpe" not in chart
    once = figures()[lambda f: f["epsilon"] != 4]
    alone = render_sweep_page(SweepPage(name="m", intervals="", figures=once, missing=()))
    assert "by epsilon" not in alone


def test_a_set_shows_what_was_measured_on_it_and_nothing_of_another() -> None:
    more = pd.DataFrame([row("maple", 0.6, set="notes", metric="coverage")])
    both = pd.concat([figures(), more], ignore_index=True)
    written = render_sweep_page(SweepPage(name="m", intervals="", figures=both, missing=()))
    letters, notes = written.split('<section id="letters">')[1].split('<section id="notes">')
    assert "Coverage" not in letters and "Coverage" in notes
    assert "MAUVE" in letters and "MAUVE" not in notes.split("</section>")[0]


def test_accuracy_that_nobody_measured_has_no_column() -> None:
    assert "Accuracy ↑" in page()
    without = figures()[lambda f: f["metric"] != "accuracy"]
    written = render_sweep_page(SweepPage(name="m", intervals="", figures=without, missing=()))
    assert "Accuracy" not in written


def test_names_are_escaped() -> None:
    assert ATTACK not in page(maple=ATTACK)
    assert ATTACK not in page(letters=ATTACK)


def test_the_options_of_other_programs_are_on_the_page_once() -> None:
    assert "Other programs" not in page()
    found = pd.concat([figures(), pd.DataFrame([row("peer", 0.5, options=f"v1 {ATTACK}")] * 2)])
    written = render_sweep_page(
        SweepPage(name="equal", intervals=OVER_TEXTS, figures=found, missing=())
    )
    assert written.count("<td>peer</td><td>v1 &lt;script&gt;") == 1
    assert ATTACK not in written
