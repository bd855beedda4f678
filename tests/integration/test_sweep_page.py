"""Tests of the page of a sweep in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from research.sweep_report import OVER_TEXTS, SweepPage, render_sweep_page
from tests.integration.browser import chromium, open_page
from tests.research.test_sweep_page_template import figures

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no chromium on this machine (Debian: apt-get install chromium)"
)
ORDER = "Array.from(document.querySelectorAll('tbody tr')).map(r => r.cells[{place}].textContent)"


def test_the_page_loads_sorts_and_fits_its_screen(tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    path.write_text(
        render_sweep_page(
            SweepPage(name="equal", intervals=OVER_TEXTS, figures=figures(), missing=())
        ),
        encoding="utf-8",
    )
    with open_page(tmp_path / "profile") as page:
        for width in (1280, 390):
            page.view(width=width, mobile=width < 500)
            page.load(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.problems == []
        assert all(url.startswith(("file:", "data:")) for url in page.requests)
        page.evaluate("document.querySelectorAll('thead button')[1].click()")
        assert page.evaluate(ORDER.format(place=1)) == ["0", "1", "1", "4", "–"]
        page.evaluate("document.querySelectorAll('thead button')[1].click()")
        assert page.evaluate(ORDER.format(place=1)) == ["4", "1", "1", "0", "–"]
