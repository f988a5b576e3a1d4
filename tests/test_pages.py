"""The pages in a real browser: on a phone and a desktop, by mouse, touch, keyboard and on paper."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from depgpo_jax.advantages import group_advantages
from depgpo_jax.batch import batch_traces, unpad
from depgpo_jax.credit import CreditConfig, dependency_credit
from depgpo_jax.errors import ConfigError
from depgpo_jax.explain.pages.render import LEVELS, level, shown_text
from depgpo_jax.explain.pages.report import Report
from depgpo_jax.explain.pages.rollout import MAX_TEXT, explain_page
from depgpo_jax.explain.pages.strips import credit_strip, weight_strip
from depgpo_jax.explain.why import RolloutExplanation
from depgpo_jax.explain.words import reasons, spoken
from depgpo_jax.traces import Trace, read_traces
from tests.browser import Page, browser
from tests.helpers import command, lines, step, trace, whole
from tests.page_traces import EVIL, hostile_rollout, long_rollout

REAL = Path(__file__).parent / "real" / "log-summary-group.jsonl"
PHONE, DESKTOP = 390, 1400
LONG = 300


class Made(NamedTuple):
    """The pages that the tests open."""

    folder: Path
    rollouts: dict[str, RolloutExplanation]

    def path(self, name: str) -> Path:
        return self.folder / name


def explained(traces: list[Trace], config: CreditConfig) -> list[RolloutExplanation]:
    batch = batch_traces(traces)
    results = unpad(batch, dependency_credit(batch, config))
    return [
        RolloutExplanation(trace, config, result)
        for trace, result in zip(traces, results, strict=True)
    ]


def small_rollout() -> Trace:
    """A file half of which is overwritten, a decoy, and a look whose output is used."""
    return trace(
        step(10, command(text="ls", reads=["/app"])),
        step(20, command(text="write four", writes=[lines("/app/a", (1, 4))])),
        step(30, command(text="fix two", writes=[lines("/app/a", (3, 4))], stdout_from=[0])),
        step(5, command(text="decoy", writes=[whole("/tmp/decoy")])),
        verifier=["/app/a"],
        trace_id="small",
        reward=0.0,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("pages")
    config = CreditConfig()
    real = list(read_traces(REAL))
    advantage = np.asarray(_advantages(real))
    for part in ("rollouts", "groups"):
        (folder / part).mkdir()
    report = Report(str(REAL.name), config)
    for rollout, own in zip(explained(real, config), advantage, strict=True):
        address, page = report.add(rollout, float(own))
        (folder / address).write_text(page, "utf-8")
    for rollout in explained([hostile_rollout()], config):
        address, page = report.add(rollout, None)
        (folder / address).write_text(page, "utf-8")
    for address, page in report.overviews():
        (folder / address).write_text(page, "utf-8")
    names = ("long", "evil", "small", "empty")
    traces = [long_rollout(LONG), hostile_rollout(), small_rollout(), trace(trace_id="empty")]
    rollouts: dict[str, RolloutExplanation] = {}
    rollouts.update(zip(names, explained(traces, config), strict=True))
    for name, rollout in rollouts.items():
        (folder / f"{name}.html").write_text(explain_page(rollout, 0.5), "utf-8")
    return Made(folder, rollouts)


def _advantages(traces: list[Trace]) -> np.ndarray:
    batch = batch_traces(traces)
    found = group_advantages(batch.reward, batch.group, batch.trainable)
    return np.asarray(found)[: len(traces)]


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    with browser(width=DESKTOP, height=900) as page:
        yield page


EVERY_PAGE = (
    "long.html",
    "evil.html",
    "empty.html",
    "rollouts/000000.html",
    "rollouts/000005.html",
    "groups/000000.html",
    "groups/000001.html",
    "index.html",
)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, 800, DESKTOP])
@pytest.mark.parametrize("name", EVERY_PAGE)
def test_every_page_is_clean(made: Made, tab: Page, name: str, width: int, dark: bool):
    tab.emulate(width=width, height=900, dark=dark)
    tab.open(made.path(name))
    if tab.all(".line"):
        tab.click(".line")  # the panel must fit too
    assert tab.console_errors() == []
    assert tab.overflowing() == []
    assert tab.network_requests() == []


@pytest.mark.parametrize("name", EVERY_PAGE)
def test_pages_are_one_file_and_their_links_lead_somewhere(made: Made, name: str):
    text = made.path(name).read_text("utf-8")
    links = _Links()
    links.feed(text)
    assert links.loaded == []
    for href in links.followed:
        target, _, anchor = href.partition("#")
        place = (made.path(name).parent / target).resolve() if target else made.path(name)
        assert place.is_relative_to(made.folder.resolve())
        assert place.is_file()
        if anchor:
            assert f'id="{anchor}"' in place.read_text("utf-8")


class _Links(HTMLParser):
    """What a page loads and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.followed: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "href" and tag == "a":
                self.followed.append(value or "")
            elif name in ("src", "href", "srcset", "data", "action", "style") or "url(" in str(
                value
            ):
                self.loaded.append(f"{tag} {name}={value}")


# What it says.


def test_pointing_at_a_command_says_why(made: Made, tab: Page):
    tab.emulate(width=DESKTOP, height=900)
    tab.open(made.path("small.html"))
    tab.hover("#c1")
    said = tab.text("#panel")
    assert "2 of 4 records relevant: credit 0.5." in said
    assert "/app/a:1–2: inspected by the verifier." in said
    assert "/app/a:3–4: not relevant, overwritten by #2." in said
    tab.hover("#c0")
    assert "0.5 = 0.5 × 1.0 via #2" in tab.text("#panel")
    assert [line.get_attribute("id") for line in tab.all(".after")] == ["c2"]
    tab.hover("#c3")
    assert (
        "/tmp/decoy (whole): not relevant, there at the end, but the verifier did not inspect it."
        in tab.text("#panel")
    )


def test_on_a_phone_a_tap_says_why_beside_the_line(made: Made, tab: Page):
    tab.emulate(width=PHONE, height=800)
    tab.open(made.path("long.html"))
    assert not tab.all("#panel")[0].is_displayed()
    for number in (0, 3, 40, LONG - 1):
        tab.js(f"document.getElementById('c{number}').scrollIntoView({{block: 'center'}})")
        tab.click(f"#c{number}")
        assert tab.text("#panel-title").startswith(f"#{number} ·")
        panel, line = tab.js(
            "return ['#panel', '.line.shown'].map(css => {"
            "const box = document.querySelector(css).getBoundingClientRect();"
            "return [box.top, box.bottom]})"
        )
        assert panel[1] <= line[0] or panel[0] >= line[1]
        assert 0 <= panel[0] < panel[1] <= 800
    tab.click("#close")
    assert not tab.all("#panel")[0].is_displayed()


def test_the_keyboard_reaches_every_command_and_its_reasons(made: Made, tab: Page):
    tab.emulate(width=1000, height=900)
    tab.open(made.path("small.html"))
    stops = tab.tab_stops()
    assert all(stop.indicator for stop in stops)
    # One stop for the list, and from there the next ones are in the panel.
    reached = [stop.where for stop in stops]
    [place] = [place for place, where in enumerate(reached) if re.search(r"#c\d", where)]
    assert "close" in reached[place + 1]
    assert "panel" in reached[place + 2]
    tab.open(made.path("small.html"))
    tab.click("#c0")
    assert tab.text("#panel-title").startswith("#0 · step 0")
    tab.press("ArrowDown", "ArrowDown")
    assert tab.text("#panel-title").startswith("#2 · step 2")
    tab.press("ArrowUp")
    assert tab.text("#panel-title").startswith("#1")
    assert [line.get_attribute("id") for line in tab.all("[aria-current]")] == ["c1"]
    assert tab.js("return location.hash") == "#c1"
    tab.press("End")
    assert tab.text("#panel-title").startswith("#3")
    tab.press("Home")
    assert tab.text("#panel-title").startswith("#0")
    tab.press("Tab", "Tab")
    assert tab.js("return document.activeElement.closest('#panel') !== null")
    assert tab.text("#panel-title").startswith("#0")
    tab.press("Escape")
    assert not tab.all("#panel")[0].is_displayed()


@pytest.mark.parametrize("name", ["groups/000000.html", "index.html"])
def test_the_keyboard_reaches_columns_and_rollouts(made: Made, tab: Page, name: str):
    tab.emulate(width=1000, height=900)
    tab.open(made.path(name))
    stops = tab.tab_stops()
    assert all(stop.indicator for stop in stops)
    texts = [stop.text for stop in stops]
    assert any("reward" in text for text in texts)
    assert any("log-summary" in text for text in texts)


def test_links_in_the_reasons_lead_to_commands(made: Made, tab: Page):
    tab.emulate(width=1000, height=900)
    tab.open(made.path("small.html"))
    tab.click("#c1")
    tab.click("#panel a")
    assert tab.text("#panel-title").startswith("#2")
    assert tab.js("return document.activeElement.id") == "c2"


def test_more_arcs_than_can_be_drawn_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("depgpo_jax.explain.pages.rollout.MAX_ARCS", 1)
    [rollout] = explained([small_rollout()], CreditConfig())
    edges = [[edge.producer, edge.consumer] for out in rollout.graph.outputs for edge in out]
    assert edges == [[0, 2]]
    assert "have no arc" not in explain_page(rollout)
    monkeypatch.setattr("depgpo_jax.explain.pages.rollout.MAX_ARCS", 0)
    page = explain_page(rollout)
    assert "1 dependencies have no arc: there are too many to draw." in page
    assert ">[]</script>" in page


def test_only_recorded_commands_are_counted():
    unrecorded = command(recorded=False)
    rollout = trace(
        step(1, command(writes=[whole("/a")])),
        step(1, command(writes=[whole("/b")])),
        step(2, unrecorded, unrecorded),
        verifier=["/a"],
    )
    [facts] = explained([rollout], CreditConfig())
    assert "<dd>1 of 2 recorded commands</dd>" in explain_page(facts)


@pytest.mark.parametrize("advantage", [float("nan"), float("inf")])
def test_an_advantage_that_is_not_finite_is_refused(advantage: float):
    [rollout] = explained([small_rollout()], CreditConfig())
    with pytest.raises(ConfigError, match=r"found advantage (nan|inf); allowed: a finite number"):
        explain_page(rollout, advantage)


def test_a_blank_text_leaves_the_deed_as_title():
    rollout = trace(step(1, command(text=" \n", writes=[whole("/a")])), verifier=["/a"])
    [facts] = explained([rollout], CreditConfig())
    assert "writes /a*</span>" in explain_page(facts)


def test_an_address_with_a_command_shows_it(made: Made, tab: Page):
    tab.emulate(width=1000, height=900)
    tab.open(made.path("small.html"))
    tab.js("location.hash = 'c3'; location.reload()")
    tab.open(made.path("index.html"))
    tab.js(f"location.href = '{made.path('small.html').as_uri()}#c3'")
    assert tab.text("#panel-title").startswith("#3")


# 300 commands.


def test_three_hundred_commands_stay_readable(made: Made, tab: Page):
    for width in (PHONE, DESKTOP):
        tab.emulate(width=width, height=900)
        tab.open(made.path("long.html"))
        heights, sizes, titles = tab.js(
            "const lines = [...document.querySelectorAll('.line')];"
            "const titles = lines.map(line => line.querySelector('.title'));"
            "return [lines.map(line => line.getBoundingClientRect().height),"
            "titles.map(title => parseFloat(getComputedStyle(title).fontSize)),"
            "titles.map(title => title.clientWidth)]"
        )
        assert len(heights) == LONG
        assert min(heights) >= (44 if width == PHONE else 24)
        assert min(sizes) >= 12
        assert min(titles) >= 120


def test_arcs_are_the_dependencies(made: Made, tab: Page):
    tab.emulate(width=DESKTOP, height=900)
    tab.open(made.path("long.html"))
    edges = [edge for outputs in made.rollouts["long"].graph.outputs for edge in outputs]
    assert len(edges) > 300
    drawn = tab.js(
        "return ['rest', 'flow'].map(c => document.querySelector('.arcs .' + c))"
        ".map(path => (path.getAttribute('d').match(/M/g) || []).length)"
    )
    assert sum(drawn) == len(edges)
    busiest = max(range(LONG), key=lambda number: len(made.rollouts["long"].graph.inputs[number]))
    tab.js(f"document.getElementById('c{busiest}').focus()")
    facts = made.rollouts["long"].why(busiest)
    before = {f"c{edge.producer}" for edge in facts.inputs}
    after = {f"c{edge.consumer}" for edge in facts.outputs}
    assert {line.get_attribute("id") for line in tab.all(".before")} == before
    assert {line.get_attribute("id") for line in tab.all(".after")} == after


def test_only_the_path_can_be_shown(made: Made, tab: Page):
    tab.emulate(width=DESKTOP, height=900)
    tab.open(made.path("long.html"))
    tab.click("#only")
    shown = [line.get_attribute("id") for line in tab.all(".line") if line.is_displayed()]
    credit = made.rollouts["long"].result.command_credit
    assert shown == [f"c{number}" for number in np.flatnonzero(credit > 0)]
    tab.click("#only")
    assert tab.all(".line")[0].is_displayed()


# Hostile text.


@pytest.mark.parametrize("name", ["evil.html", "rollouts/000005.html", "groups/000001.html"])
def test_text_of_a_trace_stays_text(made: Made, tab: Page, name: str):
    tab.emulate(width=DESKTOP, height=900)
    tab.open(made.path(name))
    assert tab.console_errors() == []
    assert tab.js("return document.title") != "owned"
    assert tab.js("return document.images.length") == 0
    assert tab.js("return document.scripts.length") == (1 if "groups" in name else 2)
    assert "alert(2)</script> \"'&" in tab.js("return document.body.innerText")


def test_hostile_names_are_shown_whole_on_one_line(made: Made, tab: Page):
    tab.emulate(width=DESKTOP, height=900)
    tab.open(made.path("evil.html"))
    assert "/app/<script>alert(\"1\")</script> & 'quoted'\\n\\u202enew line\\x1b[31m" in tab.text(
        ".inspected"
    )
    assert "/nowhere/{{ 7 * 7 }}" in tab.text(".inspected")
    assert "\u202e" in EVIL
    assert not re.search("[\u202e\x1b]", made.path("evil.html").read_text("utf-8"))


# Without a script, on paper, for weak eyes.


def test_without_a_script_every_reason_is_there(made: Made, tab: Page):
    tab.emulate(width=PHONE, height=900, javascript=False)
    tab.open(made.path("small.html"))
    said = " ".join(tab.text("main").split())
    rollout = made.rollouts["small"]
    for number in range(4):
        for reason in reasons(rollout, rollout.why(number)):
            assert spoken(reason) in said
    assert tab.overflowing() == []
    tab.emulate(width=DESKTOP, height=900)


def test_the_printed_page_can_be_read(made: Made, tab: Page):
    tab.emulate(width=DESKTOP, height=900, dark=True)
    tab.open(made.path("small.html"))
    tab.click("#c1")
    # Fonts print some letters as one sign, as in "verifier".
    printed = " ".join(unicodedata.normalize("NFKC", tab.printed_text()).split())
    rollout = made.rollouts["small"]
    for number in range(4):
        for reason in reasons(rollout, rollout.why(number)):
            # Extraction may drop blanks at line ends, superscripts and arrows; words stay.
            for word in re.findall(r"[a-zA-Z/]{4,}", spoken(reason)):
                assert word in printed
    assert "only those on the path" not in printed
    assert printed.count("2 of 4 records relevant") == 1
    tab.open(made.path("groups/000000.html"))
    printed = " ".join(unicodedata.normalize("NFKC", tab.printed_text()).split())
    for number in range(5):
        assert f"log-summary/{number}" in printed
    assert "effective tokens" in printed


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(made: Made, tab: Page, dark: bool):
    """WCAG 2.2 asks for a contrast of at least 4.5."""
    tab.emulate(width=DESKTOP, height=900, dark=dark)
    tab.open(made.path("small.html"))
    names = ("text", "quiet", "credit", "weight", "in", "out", "good", "bad")
    colors = tab.js(
        "const style = getComputedStyle(document.documentElement);"
        "return arguments[0].map(name => style.getPropertyValue('--' + name).trim())",
        ["bg", "card", *names],
    )
    for ground in colors[:2]:
        for name, ink in zip(names, colors[2:], strict=True):
            assert _contrast(ground, ink) >= 4.5, (ground, name, ink)


def _contrast(one: str, other: str) -> float:
    bright, dim = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(color: str) -> float:
    digits = color[1:] if len(color) == 7 else "".join(digit * 2 for digit in color[1:])
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


# The report's tables.


def column(page: Page, place: int) -> list[str]:
    return page.js(
        "return [...document.querySelectorAll('tbody tr')]"
        ".map(row => row.cells[arguments[0]].innerText)",
        place,
    )


def test_tables_sort_by_any_column(made: Made, tab: Page):
    tab.emulate(width=DESKTOP, height=900)
    tab.open(made.path("groups/000000.html"))
    names = [f"log-summary/{number}" for number in range(5)]
    assert column(tab, 0) == names
    assert column(tab, 1) == ["1", "1", "1", "0", "0"]
    heads = tab.all("thead button")
    commands = next(head for head in heads if head.text == "commands")
    commands.click()
    assert column(tab, 4) == ["16", "14", "12", "9", "7"]
    assert commands.find_element("xpath", "..").get_attribute("aria-sort") == "descending"
    commands.click()
    assert column(tab, 4) == ["7", "9", "12", "14", "16"]
    heads[0].click()
    assert column(tab, 0) == names
    sorted_by = [head.get_attribute("aria-sort") for head in tab.all("th[aria-sort]")]
    assert sorted_by == ["ascending"] + ["none"] * (len(sorted_by) - 1)


def test_groups_without_rewards_come_last(made: Made, tab: Page):
    tab.emulate(width=DESKTOP, height=900)
    tab.open(made.path("index.html"))
    for expected in (["0.6", "–"], ["0.6", "–"]):
        tab.click("thead th:nth-child(3) button")
        assert column(tab, 2) == expected


def test_a_thousand_rollouts_take_few_elements(tmp_path: Path, tab: Page):
    report = Report("thousand", CreditConfig())
    [rollout] = explained([long_rollout(20)], CreditConfig())
    for _ in range(1000):
        report.add(rollout, 0.25)
    pages = dict(report.overviews())
    path = tmp_path / "group.html"
    path.write_text(pages["groups/000000.html"], "utf-8")
    assert path.stat().st_size < 4 * 1024**2
    tab.emulate(width=DESKTOP, height=900)
    tab.open(path)
    assert tab.js("return document.querySelectorAll('tbody tr').length") == 1000
    assert tab.js("return document.querySelectorAll('*').length") < 50 * 1000
    assert tab.console_errors() == []


# Parts.


def test_shades_tell_zero_from_little():
    assert [level(value, 1.0) for value in (0.0, 1e-9, 0.5, 1.0, 7.0)] == [0, 1, 5, LEVELS, LEVELS]
    assert level(1.0, 0.0) == 0


def test_strips_join_neighbours_of_one_shade():
    strip = credit_strip([0.0, 0.0, 1.0, 1.0, 0.0])
    assert strip.width == 5
    assert dict(strip.paths) == {0: "M0 0h2v1H0zM4 0h1v1H4z", LEVELS: "M2 0h2v1H2z"}
    assert strip.label == "credit of 5 commands in time order, 2 above 0"
    strip = weight_strip([2.0, 0.0, 9.0], [10, 30, 0])
    assert strip.width == 40
    assert dict(strip.paths)[4] == "M0 0h10v1H0z"  # 2 on the scale from 0 to 5
    assert "weights of 40 loss tokens in time order, at most 2" in strip.label
    assert credit_strip([]).width == 1
    assert weight_strip([1.0], [2**53]).width <= 2_000_000


def test_long_texts_are_cut_and_say_so():
    assert shown_text("a\tb\nc\x00\u202e", 100) == "a\tb\nc\\x00\\u202e"
    assert shown_text("x" * (MAX_TEXT + 1500), MAX_TEXT).endswith("x\n… 1,500 more characters")


def test_a_rollout_of_every_setting_has_a_page():
    config = CreditConfig(
        relevance="slice",
        beta=0.25,
        max_weight=4.0,
        read_credit=False,
        write_credit="binary",
        inspect="all",
        subtract_min=False,
    )
    [rollout] = explained([small_rollout()], config)
    page = explain_page(rollout)
    assert (
        "Credit by relevance rule slice, beta 0.25, largest weight 4, no read credit, binary write "
        "credit, every resource inspected, minimum not subtracted." in page
    )
    assert "Counted as inspected: every resource" in page
