"""Tests that the page of curves shows every point, for any name of a method."""

import math

import pandas as pd

from research.report.curves import CurveFigure, CurvePage, render_curve_page

ROWS = pd.DataFrame(
    [
        {
            "panel": "set & one",
            "arm": "<b>crt</b>",
            "x": 0.1,
            "value": 1.5,
            "low": 1.0,
            "high": 2.0,
        },
        {
            "panel": "set & one",
            "arm": "<b>crt</b>",
            "x": 0.5,
            "value": 3.25,
            "low": 3.0,
            "high": 9.5,
        },
        {"panel": "two", "arm": "plain", "x": 0.1, "value": 7, "low": math.nan, "high": math.nan},
    ]
)
FIGURE = CurveFigure(name="f", title="A figure", x="gamma", y="bits", rows=ROWS)
PAGE = CurvePage(
    name="grid",
    remarks=("First <this>.",),
    table=pd.DataFrame({"arm": ["crt"], "gamma": [math.nan]}),
    figures=(FIGURE,),
)


def test_the_page_shows_each_point_and_escapes_every_name():
    page = render_curve_page(PAGE)
    assert page.count("<figure>") == 2
    assert "gamma 0.5: 3.25" in page
    assert "&lt;b&gt;crt" in page
    assert "<b>crt" not in page
    assert "First &lt;this&gt;." in page
    assert "<td>–</td>" in page
    assert page.count('class="whisker"') == 2
