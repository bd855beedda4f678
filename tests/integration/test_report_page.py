"""Tests of the report pages in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sugarbush.report.page import render_internal_page, render_public_page
from tests.integration.browser import Page, chromium, open_page
from tests.unit.report.sample import internal_data, public_data
from tests.unit.report.test_page import attacked

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no chromium on this machine (Debian: apt-get install chromium)"
)

VISIBLE = "Array.from(document.querySelectorAll('#browser tbody tr')).filter(r => r.offsetParent)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser: Page, tmp_path: Path) -> Page:
    browser.problems.clear()
    browser.requests.clear()
    browser.view(width=1280)
    path = tmp_path / "report.html"
    path.write_text(render_internal_page(public_data(), internal_data()))
    browser.load(path)
    return browser


def shown(page: Page) -> int:
    return int(page.evaluate(f"{VISIBLE}.length"))


def count(page: Page) -> int:
    return int(page.evaluate("document.getElementById('count').textContent").replace(",", ""))


def column(page: Page, place: int) -> list[str]:
    return list(page.evaluate(f"{VISIBLE}.map(r => r.children[{place}].textContent.trim())"))


def type_into(page: Page, selector: str, value: str, event: str) -> None:
    page.evaluate(
        f"(() => {{ const field = document.querySelector({selector!r}); field.value = {value!r};"
        f" field.dispatchEvent(new Event('{event}', {{bubbles: true}})); }})()"
    )


def test_the_pages_load_without_an_error_and_without_the_network(
    page: Page, tmp_path: Path
) -> None:
    public = tmp_path / "public.html"
    public.write_text(render_public_page(public_data()))
    page.load(public)
    assert page.problems == []
    assert all(url.startswith(("file:", "data:")) for url in page.requests)
    assert page.evaluate("document.body.classList.contains('js')")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_no_page_is_wider_than_its_screen(page: Page, width: int, dark: bool) -> None:
    page.view(width=width, dark=dark, mobile=width < 500)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(23, 21, 18)") is dark


def test_searching_and_filtering_leave_the_texts_that_match(page: Page) -> None:
    everything = count(page)
    type_into(page, "#search", "COURIER lamp", "input")
    assert 0 < count(page) < everything
    texts = [t.casefold() for t in column(page, 0)]
    assert texts and all("courier" in t and "lamp" in t for t in texts)
    type_into(page, "#search", "", "input")
    type_into(page, "[data-filter=method]", "public", "change")
    assert set(column(page, 1)) == {"public"} and count(page) == 30
    type_into(page, "[data-filter=method]", "", "change")
    type_into(page, "[data-filter=a-0]", "armchair", "change")
    assert all("armchair" in t for t in column(page, 0))
    type_into(page, "#search", "no such words", "input")
    assert count(page) == 0 == shown(page)
    assert page.problems == []


def test_more_texts_are_shown_on_demand_and_ancestors_when_asked(page: Page) -> None:
    assert shown(page) == 25 and count(page) == 90
    page.evaluate("document.getElementById('more').click()")
    assert shown(page) == 90
    page.evaluate("document.getElementById('ancestors').click()")
    assert count(page) == 90 + 45


def test_a_column_sorts_both_ways_with_missing_values_last(page: Page) -> None:
    votes = "document.querySelectorAll('#browser th button')[3]"
    page.evaluate("document.getElementById('more').click()")
    for sign in (1, -1):
        page.evaluate(f"{votes}.click()")
        found = column(page, 3)
        numbers = [sign * int(v) for v in found if v != "–"]
        assert numbers == sorted(numbers) and len(set(numbers)) > 3
        assert found[len(numbers) :] == ["–"] * (len(found) - len(numbers))
    order = page.evaluate(f"{votes}.parentNode.getAttribute('aria-sort')")
    assert order == "descending"
    assert page.problems == []


def test_a_text_is_read_by_keyboard_alone_with_its_lineage(page: Page) -> None:
    page.evaluate(
        "document.querySelector('#browser tbody tr[data-parent]:not(.away) .open').focus()"
    )
    page.press("Enter", text="\r")
    assert page.evaluate("document.getElementById('reader').open")
    assert page.evaluate("document.querySelectorAll('#reader-lineage li').length") >= 1
    first = page.evaluate("document.getElementById('reader-place').textContent")
    page.press("ArrowRight")
    assert page.evaluate("document.getElementById('reader-place').textContent") != first
    page.press("Escape")
    assert not page.evaluate("document.getElementById('reader').open")
    assert page.evaluate("document.activeElement.className") == "open"


def test_every_control_can_be_reached_by_tab(page: Page) -> None:
    page.evaluate("document.querySelector('#search').focus()")
    reached = set()
    for _ in range(12):
        page.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName"))
    assert {"SELECT", "INPUT", "BUTTON"} <= reached


def test_a_text_that_holds_a_script_is_shown_and_not_run(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "attacked.html"
    path.write_text(render_public_page(attacked(public_data())))
    page.load(path)
    page.evaluate("document.querySelector('#browser .open').click()")
    assert "onerror" in page.evaluate("document.getElementById('reader-text').textContent")
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert "owned" not in page.evaluate("document.title")[:5]
    assert page.problems == []


def test_a_script_that_got_into_the_page_would_not_run(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "injected.html"
    injected = "<script>document.documentElement.dataset.owned = 1</script>"
    path.write_text(render_public_page(public_data()).replace("<footer>", f"{injected}<footer>"))
    page.load(path)
    assert page.evaluate("document.documentElement.dataset.owned") is None
    assert any("Content Security Policy" in problem for problem in page.problems)


def test_the_page_prints(page: Page) -> None:
    printed = page.call("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)
    assert len(printed["data"]) > 20_000


def test_no_table_is_wider_than_the_paper(page: Page) -> None:
    """On A4 paper, Chromium's margins leave a width of 717 pixels. Wider content would not be
    printed completely."""
    page.view(width=717)
    page.call("Emulation.setEmulatedMedia", media="print")
    edges = page.evaluate(
        "Array.from(document.querySelectorAll('table'), t => t.getBoundingClientRect().right)"
    )
    page.call("Emulation.setEmulatedMedia", media="")
    assert edges and max(edges) <= 717
