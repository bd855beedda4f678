"""Tests of the report pages in a real browser."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sugarbush.privacy.data_types import Released
from sugarbush.report.model import PublicData, SyntheticText
from sugarbush.report.page import render_internal_page, render_public_page
from tests.integration.browser import Page, chromium, open_page
from tests.unit.report.sample import SCHEMA, internal_data, public_data
from tests.unit.report.test_page import attacked

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no chromium on this machine (Debian: apt-get install chromium)"
)

ROWS = "Array.from(document.querySelectorAll('#browser [role=option]'))"
ACTIVE = "Number(document.querySelector('#browser [aria-selected=true]').ariaPosInSet)"


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


def count(page: Page) -> int:
    return int(page.evaluate("document.getElementById('count').textContent").replace(",", ""))


def row_texts(page: Page) -> list[str]:
    return list(page.evaluate(f"{ROWS}.map(r => r.textContent)"))


def position(page: Page) -> int:
    """The position of the active row, which is completely within the visible part of the list."""
    inside = (
        "(() => { const [a, b] = ['#browser', '#browser [aria-selected=true]'].map("
        "s => document.querySelector(s).getBoundingClientRect());"
        " return a.top - 1 <= b.top && b.bottom <= a.bottom + 1; })()"
    )
    assert page.evaluate(inside)
    active = page.evaluate(
        "document.getElementById('browser').getAttribute('aria-activedescendant')"
    )
    assert active == page.evaluate("document.querySelector('[aria-selected=true]').id")
    return int(page.evaluate(ACTIVE))


def wait_for(page: Page, condition: str) -> None:
    while not page.evaluate(condition):
        time.sleep(0.02)


def large_release(count: int, *, words: int = 100) -> PublicData:
    """A release of one method, in which text number i contains the word `number<i>`."""
    data = public_data()
    method = data.methods[0]
    filler = " ".join(["word"] * (words - 1))
    codes = [tuple(i % len(a.domain) for a in SCHEMA.attributes) for i in range(count)]
    texts = tuple(
        SyntheticText(id=i, text=f"{filler} number{i}", codes=codes[i], round=i % 4, votes=i)
        for i in range(count)
    )
    own = replace(method, final_texts=count, texts=Released(texts, method.texts.ledger_ids))
    return replace(data, methods=(own,))


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


# The tables that are wider than their column, and are not marked as wider.
CUT = """Array.from(document.querySelectorAll('table'), t => {
  const around = t.closest('.scroll');
  const seen = around ? around.getBoundingClientRect() : document.body.getBoundingClientRect();
  const wider = t.getBoundingClientRect().right > seen.right + 1;
  const reachable = around && around.classList.contains('wider') && around.tabIndex === 0
    && getComputedStyle(around).overflowX === 'auto'
    && getComputedStyle(around, '::before').content.includes('Scroll')
    && around.getBoundingClientRect().right <= innerWidth;
  return wider && !reachable ? t.id || t.textContent.slice(0, 40) : null;
}).filter(Boolean)"""


@pytest.mark.parametrize("width", [1280, 390])
def test_no_table_is_cut_and_a_wide_table_says_that_it_scrolls(page: Page, width: int) -> None:
    page.view(width=width, mobile=width < 500)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    wide = "document.querySelectorAll('.scroll.wider').length"
    if width < 500:
        wait_for(page, f"{wide} > 3")
    wait_for(page, f"{CUT}.length === 0")
    assert page.evaluate(f"{CUT}") == []
    if width == 1280:
        assert page.evaluate(wide) == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_the_texts_are_within_the_first_screen_of_scrolling(page: Page, width: int) -> None:
    page.view(width=width, mobile=width < 500)
    top = page.evaluate("document.getElementById('texts').getBoundingClientRect().top + scrollY")
    assert top < 1600


@pytest.mark.parametrize("dark", [False, True])
def test_every_dot_of_the_map_has_contrast_to_the_page(page: Page, dark: bool) -> None:
    """A contrast of 3 is the limit of WCAG 2.1 for graphics (1.4.11)."""
    page.view(width=1280, dark=dark)
    found = page.evaluate(
        """(() => {
        const context = document.createElement('canvas').getContext('2d');
        const luminance = (colour) => {
          context.fillStyle = colour; context.fillRect(0, 0, 1, 1);
          const [r, g, b] = Array.from(context.getImageData(0, 0, 1, 1).data, v => v / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const paper = luminance(getComputedStyle(document.body).backgroundColor);
        return Array.from(document.querySelectorAll('.dots, .real-dots'), dot => {
          const style = getComputedStyle(dot);
          const own = luminance(style.stroke);
          const [low, high] = [own, paper].sort((a, b) => a - b);
          return Number(style.strokeOpacity) * (high + 0.05) / (low + 0.05);
        });
        })()"""
    )
    assert len(found) == 4 and min(found) >= 3


def test_the_buttons_lead_to_the_files_and_the_line_of_code_loads_the_texts(
    browser: Page, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    data = public_data()
    table = pa.table({"text": ["One text"], "stars": ["01"], "day": ["2024-02-01"]})
    for download in data.downloads:
        pq.write_table(table, folder / download.name)
    (folder / "index.html").write_text(render_public_page(data))
    browser.view(width=1280)
    browser.load(folder / "index.html")
    links = browser.evaluate("Array.from(document.querySelectorAll('.button'), a => a.href)")
    paths = [Path(unquote(urlsplit(link).path)) for link in links]
    assert paths == [folder / download.name for download in data.downloads]
    scope: dict[str, Any] = {}
    exec(browser.evaluate("document.getElementById('code').textContent"), scope)
    assert scope["texts"].to_dict("records") == table.to_pylist()


def test_searching_and_filtering_leave_the_texts_that_match(page: Page) -> None:
    everything = count(page)
    type_into(page, "#search", "COURIER lamp", "input")
    assert 0 < count(page) < everything
    assert all("courier" in t and "lamp" in t for t in row_texts(page))
    marks = page.evaluate(
        "Array.from(document.querySelectorAll('#browser mark'), m => m.textContent)"
    )
    assert {m.casefold() for m in marks} == {"courier", "lamp"}
    type_into(page, "#search", "", "input")
    type_into(page, "[data-filter=method]", "1", "input")
    assert count(page) == 30 and all("public" in t for t in row_texts(page))
    type_into(page, "[data-filter=method]", "", "input")
    type_into(page, "[data-filter='0']", "1", "input")
    assert 0 < count(page) < everything and all("armchair" in t for t in row_texts(page))
    type_into(page, "#search", "no such words (.*", "input")
    assert count(page) == 0 and row_texts(page) == []
    page.evaluate("document.getElementById('browser').focus()")
    for key in ("ArrowDown", "End", "Enter"):
        page.press(key)
    assert not page.evaluate("document.getElementById('reader').open")
    assert page.problems == []


def test_ancestors_are_listed_when_asked(page: Page) -> None:
    assert count(page) == 90
    page.evaluate("document.getElementById('ancestors').click()")
    assert count(page) == 90 + 45


@pytest.mark.parametrize("sign", [1, -1])
def test_votes_order_the_texts_with_missing_values_last(page: Page, sign: int) -> None:
    type_into(page, "#order", "votes" if sign == 1 else "-votes", "input")
    found = [re.search(r"(-?\d+) votes?$", text) for text in row_texts(page)]
    numbers = [sign * int(match[1]) for match in found if match]
    assert len(numbers) == len(found) and numbers == sorted(numbers) and len(set(numbers)) > 3
    page.evaluate("document.getElementById('browser').focus()")
    page.press("End")
    assert "vote" not in row_texts(page)[-1].partition("words")[2]
    assert page.problems == []


def test_keys_move_through_the_list_and_a_slash_goes_to_the_search(page: Page) -> None:
    page.press("/", text="/")
    assert page.evaluate("document.activeElement.id") == "search"
    assert page.evaluate("document.activeElement.value") == ""
    page.press("ArrowDown")
    assert page.evaluate("document.activeElement.id") == "browser"
    assert position(page) == 1
    page.press("ArrowDown")
    page.press("ArrowDown")
    page.press("ArrowUp")
    assert position(page) == 2
    page.press("PageDown")
    further = position(page)
    assert further > 4
    page.press("PageUp")
    assert position(page) == 2
    page.press("End")
    assert position(page) == 90
    page.press("PageDown")
    assert position(page) == 90
    page.press("Home")
    assert position(page) == 1
    assert page.problems == []


def test_a_text_is_read_by_keyboard_alone_with_its_row_and_lineage(page: Page) -> None:
    page.evaluate("document.getElementById('browser').focus()")
    page.press("Enter", text="\r")
    assert page.evaluate("document.getElementById('reader').open")
    made = page.evaluate("document.getElementById('reader-made').innerText")
    for words in ("Labels", "product", "stars", "How it was made", "1 ancestor"):
        assert words in made
    place = "document.getElementById('reader-place').textContent"
    assert page.evaluate(place) == "1 of 90 texts"
    page.press("ArrowRight")
    assert page.evaluate(place) == "2 of 90 texts"
    page.press("Escape")
    assert not page.evaluate("document.getElementById('reader').open")
    assert page.evaluate("document.activeElement.id") == "browser"
    assert position(page) == 2


@pytest.mark.parametrize("width", [1280, 420])
def test_a_release_of_5000_texts_opens_fast_and_has_few_rows_in_the_document(
    page: Page, tmp_path: Path, width: int
) -> None:
    path = tmp_path / "large.html"
    path.write_text(render_public_page(large_release(5000)))
    assert path.stat().st_size < 5e6
    page.view(width=width, mobile=width < 500)
    page.load(path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.getElementById('browser').focus()")
    for key, reached in (("Home", 1), ("End", 5000)):
        page.press(key)
        assert position(page) == reached
        assert len(row_texts(page)) < 40
    assert page.evaluate("document.querySelectorAll('*').length") < 2000
    type_into(page, "#search", "number4321", "input")
    assert count(page) == 1 == len(row_texts(page))
    assert page.evaluate("document.querySelector('#browser mark').textContent") == "number4321"
    assert page.problems == []
    assert all(url.startswith(("file:", "data:")) for url in page.requests)


def test_scrolling_draws_the_rows_at_the_new_place(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "large.html"
    path.write_text(render_public_page(large_release(3000, words=10)))
    page.load(path)
    page.evaluate("document.getElementById('browser').scrollTop = 90 * 1500")
    wait_for(page, f"{ROWS}.some(r => r.textContent.includes('number1500'))")
    places = page.evaluate(f"{ROWS}.map(r => [Number(r.ariaPosInSet), r.textContent])")
    assert all(f"number{place - 1}" in text for place, text in places)


def test_every_control_has_a_name_and_can_be_reached_by_tab(page: Page) -> None:
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"searchbox", "combobox", "checkbox", "listbox", "option", "button", "search", "link"}
    named = [
        (node["role"]["value"], node.get("name", {}).get("value"))
        for node in tree
        if not node["ignored"] and node.get("role", {}).get("value") in roles
    ]
    assert roles - {"link"} <= {role for role, _ in named}
    assert all(name for _, name in named)
    page.evaluate("document.querySelector('#search').focus()")
    reached = set()
    for _ in range(12):
        page.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"SELECT", "order", "ancestors", "browser"} <= reached


def test_a_text_that_holds_a_script_is_shown_and_not_run(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "attacked.html"
    path.write_text(render_public_page(attacked(public_data())))
    page.load(path)
    type_into(page, "#search", "onerror", "input")
    assert any("<img src=x onerror" in text for text in row_texts(page))
    type_into(page, "#search", "document.title", "input")
    page.evaluate(f"{ROWS}[0].click()")
    for id_ in ("reader-text", "reader-made"):
        assert "onerror" in page.evaluate(f"document.getElementById('{id_}').textContent")
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
