"""The harness for tests of pages: it finds what is wrong, and is silent about a good page."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pypdf import PdfReader
from selenium.common.exceptions import NoSuchElementException

from tests import browser as harness
from tests.browser import Page, TabStop, browser

HEAD = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>A page</title>"
    "<meta name=viewport content='width=device-width, initial-scale=1'>"
)
NO_IMAGES = "<meta http-equiv=Content-Security-Policy content=\"img-src 'none'\">"
CLEAN = """
<style>
  body { margin: 8px; font: 16px sans-serif } .skip { position: absolute; left: -9999px }
  .wide { overflow-x: auto } .wide div { width: 2000px }
  .short { width: 60px; overflow: hidden; white-space: nowrap; text-overflow: ellipsis }
  .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  .frame { position: relative; overflow: hidden; line-height: 1 }
</style>
<a class=skip href="#main">Skip</a>
<main id=main><h1>Hello</h1>
  <div class=wide><div>A wide table that scrolls by itself</div></div>
  <p class=short>A long name that is shortened</p>
  <span class=unseen>Only for screen readers, and rather long at that</span>
  <div class=frame>Tight lines are not cut off</div>
  <div style="max-height: 0; overflow: hidden"><p>Folded away</p></div>
  <details><summary>More</summary><div style="width: 3000px">Closed</div></details>
  <svg width=100 height=20 role=img aria-label="A drawing"><text x=0 y=15>Drawn</text></svg>
  <p><button>Press</button> <input type=radio name=r aria-label=One></p>
</main>
"""


@pytest.fixture(scope="module")
def phone() -> Iterator[Page]:
    with browser(width=390) as page:
        yield page


def show(page: Page, folder: Path, body: str, head: str = HEAD) -> Page:
    path = folder / "page.html"
    path.write_text(head + body, "utf-8")
    page.open(path)
    return page


def test_nothing_is_found_on_a_clean_page(phone: Page, tmp_path: Path):
    page = show(phone, tmp_path, CLEAN)
    assert page.overflowing() == []
    assert page.console_errors() == []
    assert page.network_requests() == []
    assert all(stop.indicator for stop in page.tab_stops())


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("<p id=a style='width: 600px'>Wide", 'p#a "Wide": box 218 px outside'),
        ("<p id=a style='white-space: nowrap'>" + "word " * 40, r'p#a "word .*": text \d+ px out'),
        ("<p id=a style='margin-left: -20px'>Left", 'p#a "Left": box 12 px outside'),
        (
            "<div style='overflow: hidden; width: 50px'><b id=a>Abcdefghijk",
            "text cut off sideways by",
        ),
        ("<div id=a style='overflow: hidden; height: 30px'>One<br>Two<br>3", "in height by div#a"),
        (
            "<div style='overflow: hidden; width: 50px'><svg id=a width=90 height=9>",
            "box cut off side",
        ),
        (
            "<svg width=20 height=20><text id=a y=15>Abcdefghijk",
            "text#a .*: text cut off sideways by",
        ),
        ("<style>body { overflow-x: hidden }</style><p id=a style='width: 600px'>W", "box 218 px"),
    ],
)
def test_what_does_not_fit_is_found(phone: Page, tmp_path: Path, body: str, found: str):
    findings = show(phone, tmp_path, body).overflowing()
    assert any(re.search(found, finding) for finding in findings), findings


def test_sideways_scrolling_names_each_cause_once(phone: Page, tmp_path: Path):
    page = show(phone, tmp_path, "<main id=m style='width: 600px'><p>One</p><p>Two</p></main>")
    assert page.overflowing() == [
        "document: scrolls sideways, 608 px in 390 px",
        'main#m "OneTwo": box 218 px outside of the screen',
    ]


def test_a_page_that_is_not_made_for_phones_is_found(phone: Page, tmp_path: Path):
    page = show(phone, tmp_path, "<p>Small", head="<!doctype html><meta charset=utf-8>")
    assert page.overflowing() == [
        "document: laid out for 980 px on a screen of 390 px (viewport meta?)"
    ]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("<script>console.warn('careful')</script>", "WARNING console-api: .*careful"),
        ("<script>setTimeout(() => { throw Error('late') })</script>", "SEVERE .*Error: late"),
        ("<script>Promise.reject(Error('alone'))</script>", "SEVERE javascript: .*alone"),
        (
            NO_IMAGES + "<img src='data:,'>",
            "SEVERE security: .*Content Security Policy",
        ),
    ],
)
def test_console_errors_are_found(phone: Page, tmp_path: Path, body: str, found: str):
    page = show(phone, tmp_path, body)
    assert [bool(re.search(found, error)) for error in page.console_errors()] == [True]
    assert page.console_errors(), "asking twice gives the same answer"
    assert show(page, tmp_path, CLEAN).console_errors() == []


@pytest.mark.parametrize(
    "body",
    [
        "<img src='http://example.com/asked'>",
        "<link rel=preconnect href='http://example.com/asked'>",
        "<script>fetch('http://example.com/asked').catch(() => 0)</script>",
        "<style>@import 'http://example.com/asked'</style>",
        NO_IMAGES + "<img src='http://example.com/asked'>",
    ],
)
def test_network_requests_are_found(phone: Page, tmp_path: Path, body: str):
    page = show(phone, tmp_path, body)
    assert page.network_requests() == ["http://example.com/asked"]
    assert show(page, tmp_path, CLEAN).network_requests() == []


def test_no_request_reaches_even_this_machine(phone: Page, tmp_path: Path):
    page = show(phone, tmp_path, "<script>new WebSocket('ws://127.0.0.1:9999/')</script>")
    assert page.network_requests() == ["ws://127.0.0.1:9999/"]


FOCUS = """
<style>
  .none:focus { outline: none } .same { box-shadow: 0 0 2px red } .same:focus { outline: none }
  .shadow:focus { outline: none; box-shadow: 0 0 0 2px blue; transition: box-shadow 9s }
  .white:focus { outline: 2px solid white } .box:focus-within { box-shadow: 0 0 0 2px blue }
  .bare { opacity: 0 } .bare:focus-visible + label { outline: 2px solid blue }
</style>
<button id=default>Default</button> <button id=none class=none>None</button>
<button id=same class=same>Same</button> <button id=shadow class=shadow aria-label=Ring>x</button>
<button id=white class=white>White</button>
<div class=box><a id=one class=none href=#>One</a> <a id=two class=none href=#>Two</a></div>
<input id=bare class=bare type=checkbox><label for=bare>Label</label>
<button tabindex=-1>Never</button> <p tabindex=0>Last</p>
"""


def test_tab_stops_are_walked_in_order_and_missing_indicators_found(phone: Page, tmp_path: Path):
    page = show(phone, tmp_path, FOCUS)
    page.click("#none")
    stops = page.tab_stops()
    assert [stop.where for stop in stops] == [
        *("button#default", "button#none", "button#same", "button#shadow", "button#white"),
        *("a#one", "a#two", "input#bare", "body > p"),
    ]
    assert [stop.where for stop in stops if not stop.indicator] == [
        *("button#none", "button#same", "button#white"),
    ]
    assert stops[3] == TabStop("button#shadow", "Ring", True)
    assert page.tab_stops() == stops, "the second walk starts from the top again"
    assert page.tab_stops(limit=2) == stops[:2]
    assert page.js("return document.body.hasAttribute('tabindex')") is False


def test_a_focus_trap_ends_the_walk(phone: Page, tmp_path: Path):
    trap = "<button id=a>A</button><button id=b onblur='setTimeout(() => a.focus())'>B</button>"
    assert len(show(phone, tmp_path, trap).tab_stops()) <= 3


def test_keys_mouse_and_text(phone: Page, tmp_path: Path):
    page = show(
        phone,
        tmp_path,
        "<style>p:hover { text-transform: uppercase }</style><input id=i><p>text</p>"
        "<ul><li>1<li>2</ul><button onclick='this.textContent = 1'>0</button>",
    )
    page.click("#i")
    page.press("a", "+", "Space", "b", "Shift+ArrowLeft", "Delete", "Control+a")
    assert page.js("return [i.value, i.selectionEnd - i.selectionStart]") == ["a+ ", 3]
    assert page.text("p") == "text"
    page.hover("p")
    assert page.text("p") == "TEXT"
    page.click("button")
    assert page.text("button") == "1"
    assert [item.text for item in page.all("li")] == ["1", "2"]
    with pytest.raises(NoSuchElementException, match="#nothing"):
        page.text("#nothing")
    with pytest.raises(
        ValueError, match=r"found key 'Tabb'\. Allowed: one character or Tab, Enter"
    ):
        page.press("Tabb")


def test_pictures_and_print(phone: Page, tmp_path: Path):
    page = show(
        phone,
        tmp_path,
        "<style>@media print { #screen { display: none } }</style><div style='height: 3000px'>Top"
        "</div><p id=screen>Screen</p><p>Bottom</p>",
    )
    heights = []
    for name, take in (("screen", page.screenshot), ("full", page.full_screenshot)):
        take(tmp_path / f"{name}.png")
        data = (tmp_path / f"{name}.png").read_bytes()
        assert int.from_bytes(data[16:20], "big") == 780, "two dots for each of 390 pixels"
        heights.append(int.from_bytes(data[20:24], "big"))
    assert heights[0] == 2 * 844
    assert heights[1] > 2 * 3000
    assert page.printed_text().split() == ["Top", "Bottom"]
    page.printed_pdf(tmp_path / "page.pdf")
    assert len(PdfReader(tmp_path / "page.pdf").pages) > 1


def test_screens_and_colours_are_told_to_the_page(tmp_path: Path):
    asked = (
        "return [innerWidth, innerHeight, matchMedia('(prefers-color-scheme: dark)').matches,"
        " matchMedia('(pointer: coarse)').matches]"
    )
    with browser(width=1000, height=700, dark=True) as page:
        assert show(page, tmp_path, CLEAN).js(asked) == [1000, 700, True, False]
        page.emulate(width=320, height=600)
        assert page.js(asked) == [320, 600, False, True]
        assert page.overflowing() == []


def test_without_scripts_the_page_runs_none_but_tests_do(tmp_path: Path):
    with browser(javascript=False) as page:
        show(page, tmp_path, "<script>document.title = 'ran'</script><noscript>None</noscript>")
        assert page.js("return document.title") == "A page"
        assert page.text("body") == "None"
        assert page.overflowing() == page.tab_stops() == []


def processes_naming(text: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:  # it ended meanwhile
            continue
        if text in command:
            found.append(command)
    return found


def test_nothing_is_left_even_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/proc/no-such-home")
    seen: list[str] = []

    def fail():
        with browser() as page:
            seen.append(page.driver.capabilities["chrome"]["userDataDir"])
            assert processes_naming(seen[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    (profile,) = seen
    assert not Path(profile).parent.exists()
    assert processes_naming(profile) == []


def program(folder: Path, name: str, version: int) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho 'Some Browser {version}.0.1 built on 9'\n", "utf-8")
    path.chmod(0o755)
    return str(path)


def test_of_several_browsers_the_one_of_the_drivers_version_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", f"{tmp_path / 'a'}{os.pathsep}{os.environ['PATH']}")
    driver = program(tmp_path / "a", "chromedriver", 120)
    program(tmp_path / "a", "google-chrome", 119)
    chromium = program(tmp_path / "a", "chromium", 120)
    assert harness.find_browser() == (chromium, driver)


def test_a_missing_browser_is_an_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    remedy = r"Allowed: google-chrome, .* run scripts/system-packages\.sh test\."
    with (
        pytest.raises(RuntimeError, match=f"no browser and no chromedriver on PATH. {remedy}"),
        browser(),
    ):
        pass
    chromium = program(tmp_path / "bin", "chromium", 1)
    with pytest.raises(RuntimeError, match=f"found no chromedriver on PATH. {remedy}"):
        harness.find_browser()
    driver = program(tmp_path / "bin", "chromedriver", 1)
    assert harness.find_browser() == (chromium, driver)
