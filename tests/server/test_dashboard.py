"""The dashboard in a real browser."""

from __future__ import annotations

import re
import time
from collections import Counter
from itertools import pairwise

import pytest

import muntin
from muntin.errors import LedgerError
from muntin.ledger.sqlite import SqliteLedger
from muntin.ledger.temporary import temporary
from muntin.server import state as pipelines_state
from muntin.server.limits import ServerLimits
from muntin.server.serving import Server
from muntin.spark.ingest import Ingest
from tests.pipeline.support import events, pipeline
from tests.server.browser import state, wait
from tests.server.conftest import Feeder, server_that_comes_back
from tests.server.proxy import under_a_path

pytestmark = pytest.mark.slow
LARGE = 2**60 + 1  # which a number of JavaScript rounds
KEY = "k" * 500
EVERY_SECONDS = 3  # between two times that a page asks for what is new


def test_a_stream_is_watched(page, server, feeder):
    page.goto(server.url)
    state(page, "live")
    page.wait_for_selector("#connection[aria-live=off]")  # which is said once
    rects = "document.querySelectorAll('#closings rect').length"
    wait(page, f"{rects} > 0")
    before = page.evaluate(rects)
    page.wait_for_selector("#load svg")  # a rate needs two readings
    drawn = page.evaluate("document.querySelector('#load svg').outerHTML")
    feeder.minute()
    wait(page, f"{rects} > {before}")  # a window has closed
    moved = "html => document.querySelector('#load svg').outerHTML !== html"
    wait(page, moved, drawn)
    page.wait_for_selector("#panels .bars tr")
    page.wait_for_selector("#trends svg polyline, #trends svg circle", state="attached")


def test_what_closes_while_an_older_answer_is_on_its_way_stays(page, server, feeder):
    page.goto(server.url)
    shown = "[...document.querySelectorAll('#closings rect title')].at(-1)?.textContent"
    drawn = "document.querySelector('#trends svg')?.textContent"
    wait(page, f"{shown} && {drawn}")
    answers = []
    held = re.compile(r"/windows\?|/query$")
    page.route(held, lambda route: answers.append((route, route.fetch())))
    page.select_option("#range select", label="last hour")  # all is asked for again
    while len(answers) < 2:
        page.wait_for_timeout(20)
    before = page.evaluate(f"[{shown}, {drawn}]")
    feeder.minute()
    wait(page, f"before => {shown} !== before[0] && {drawn} !== before[1]", before)
    after = page.evaluate(f"[{shown}, {drawn}]")
    for route, answer in answers:
        with page.expect_response(held):
            route.fulfill(response=answer)
    page.evaluate("new Promise((drawn) => setTimeout(drawn, 200))")
    assert page.evaluate(f"[{shown}, {drawn}]") == after


def test_a_trend_begins_on_a_page_that_was_open_before_its_first_window(page, ledger):
    feeder = Feeder(ledger)
    with Server(ledger, port=0) as server:
        page.goto(server.url)
        state(page, "live")
        assert page.locator("#panels section, #trends section").count() == 0  # no batch yet
        feeder.rows([(0, "a", 0, 1, 1)])
        page.wait_for_selector("#trends section")
        page.wait_for_timeout(500)  # what has closed is asked for meanwhile: nothing
        for _ in range(3):
            feeder.minute()
        page.wait_for_selector("#trends svg polyline, #trends svg circle", state="attached")
        page.goto("about:blank")
    feeder.close()


def test_of_few_events_the_load_is_by_the_hour_or_day(page, ledger):
    feeder = Feeder(ledger)
    feeder.rows([(day * 86_400, "a", 0, 1, 1) for day in range(30)])
    with Server(ledger, port=0) as server:
        page.goto(server.url)
        page.wait_for_selector("#load svg text.unit:text('events a day')")
        axis = page.locator("#load svg text").all_text_contents()[:3]
        assert len(set(axis)) == 3
        small = (
            "import('/static/dom.js').then(({ short, number }) => [short(0.0471), number(2e-9)])"
        )
        assert page.evaluate(f"() => {small}") == ["0.047", "2.0e-9"]
        page.goto("about:blank")
    feeder.close()


def test_what_no_answer_can_tell_is_told(page, ledger):
    Ingest(pipeline(), ledger, query_id="q", mode="append", begins=3).close()
    with Server(ledger, port=0) as server:
        page.goto(server.url)
        page.wait_for_selector("#headline li:text('missing, as --append accepted: 3')")
        page.goto("about:blank")


def test_what_is_new_is_asked_for_at_a_pace_and_never_behind_another_tab(page, server, feeder):
    """Six batches within some seconds, then two while the page is hidden."""
    asked, waiting = [], set()
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2].split("?")[0]))
    page.on("request", lambda request: waiting.add(request))
    for end in ("requestfinished", "requestfailed"):
        page.on(end, lambda request: waiting.discard(request))
    page.goto(server.url)
    page.wait_for_selector("#load svg")
    drawn = page.evaluate("document.querySelector('#load svg').outerHTML")
    asked.clear()
    began = time.monotonic()
    for _ in range(6):
        feeder.minute()
        page.wait_for_timeout(600)  # a state comes twice a second
    most = (time.monotonic() - began) / EVERY_SECONDS + 2  # 3, unless the machine is busy
    assert asked.count("history") <= most
    assert asked.count("catalogue") <= most
    page.evaluate("Object.defineProperty(document, 'hidden', {configurable: true, value: true})")
    page.wait_for_timeout(300)
    while waiting:  # what had begun may go on
        page.wait_for_timeout(300)
    asked.clear()
    for _ in range(2):
        feeder.minute()
        feeder.rows([(10**9, "a", 0, 1, 1)])  # of the far future
        page.wait_for_timeout(2_000)
    assert asked == []
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    wait(page, "html => document.querySelector('#load svg').outerHTML !== html", drawn)
    page.wait_for_selector("#rejected td:text('future')")
    assert {"history", "rejected"} <= {*asked}
    named = "#catalogue button:text-is('orders')"
    page.focus(named)
    until = "document.querySelector('#catalogue tbody').rows[0].cells[3].textContent"
    before = page.evaluate(until)
    feeder.minute()
    wait(page, f"before => {until} !== before", before)  # and the keyboard's place is kept
    assert page.evaluate("document.activeElement.textContent") == "orders"


def test_a_trend_shows_first_what_it_is_ordered_by(page, ledger):
    select = "SELECT driver, count, served, fare FROM orders(driver) ORDER BY"
    queries = {"dear": f"{select} fare DESC", "first": f"{select} abs(count)"}
    feeder = Feeder(ledger, pipeline(queries=queries))
    for _ in range(3):
        feeder.minute()
    with Server(ledger, port=0) as server:
        page.goto(server.url)
        for number, column in enumerate(("fare", "served")):
            chosen = page.locator("#trends select[aria-label=column]").nth(number)
            chosen.wait_for()
            assert chosen.input_value() == column
        page.goto("about:blank")
    feeder.close()


def test_an_error_is_shown_at_its_place(page, server):
    page.goto(server.url)
    page.fill("#statement", "SELECT drivr FROM orders(driver)")
    page.keyboard.press("Control+Enter")
    assert page.text_content("#select mark") == "drivr"
    assert "driver" in page.text_content("#select [aria-live]")
    page.fill("#statement", "SELECT '😀😀😀' AS x, area FROM orders(driver)")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#select mark:text-is('area')")  # that has two units for one character
    page.fill("#statement", "SELECT driver, count FROM orders(driver) FOR ALL")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#select tbody tr:nth-child(5)")
    page.wait_for_selector("#select button:text('run'):focus")  # the keyboard's place stays


def test_whatever_a_summary_is_called_a_click_asks_it(page, ledger):
    window = {"window": {"kind": "floating", "length": "1 minute"}}
    spec = pipeline(
        summaries={
            "my-orders": {"keys": [["driver", "area"]], "indicators": ["fare"], **window},
            "by-area": {"kind": "frequency", "item": "area", **window},
            "select": {"kind": "fingerprint", "key": "driver", **window},
        },
        queries={},
    )
    feeder = Feeder(ledger, spec)
    feeder.minute()
    with Server(ledger, port=0) as server:
        page.goto(server.url)
        for name, asked in (
            ("my-orders", '"my-orders"(driver, area)'),
            ("by-area", 'top_k("by-area", 10)'),
            ("select", "contains(\"select\", 'd1', 'd2')"),
        ):
            page.click(f"#catalogue button:text-is('{name}')")
            page.wait_for_selector("#select tbody tr")
            assert f"FROM {asked} FOR ALL" in page.input_value("#statement")
            assert page.locator("#select [role=alert]").count() == 0
        page.fill("#statement", "")
        page.type("#statement", "my")
        page.wait_for_selector("#completions li")
        page.keyboard.press("Tab")
        assert page.input_value("#statement") == '"my-orders"(driver, area)'
        page.goto("about:blank")
    feeder.close()


@pytest.mark.parametrize("width", [360, 1400])
def test_long_names_and_keys_that_are_null_or_empty(page, ledger, width):
    """Names and digits ran over their neighbours; a null and the text 'null' were one line."""
    name = "a" + "_long_name" * 6
    window = {"window": {"kind": "tumbling", "length": "1 minute"}}
    spec = pipeline(
        name="p" * 60,
        summaries={
            name: {"keys": ["driver"], "indicators": ["fare"], **window},
            "fares": {"kind": "quantiles", "value": "fare", "by": "driver", **window},
            "areas": {"kind": "vector_matrix", "keys": ["area"], "indicators": ["fare"]},
        },
        queries={"each": {"select": f"SELECT driver, fare FROM {name}(driver)"}},  # noqa: S608
    )
    feeder = Feeder(ledger, spec)
    for start in range(0, 300, 10):
        feeder.rows([(start, driver, LARGE, 1, LARGE) for driver in (KEY, None, "null", "", " ")])
    with Server(ledger, port=0) as server:
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(server.url)
        wait(page, "document.querySelectorAll('#panels .bars tr').length == 11")
        page.select_option("section:has-text('Top of areas') select >> nth=1", "fare")
        page.wait_for_selector(f"#panels td:text-is('{150 * LARGE:,}')")  # to its last digit
        wait(page, "document.querySelectorAll('#trends polyline').length == 5")
        keys = page.locator("#trends .keys")
        drivers = ["(none)", '""', '" "', KEY, "null"]
        assert sorted(keys.locator("span").all_text_contents()) == sorted(drivers)
        room = keys.bounding_box()
        for drawn in keys.locator("span").all():  # none is pushed out by a long one
            box = drawn.bounding_box()
            assert box["y"] + box["height"] <= room["y"] + room["height"]
            assert box["x"] + box["width"] <= room["x"] + room["width"]
        labels = page.locator("#panels .bars td:first-child").all_text_contents()
        assert sorted(labels) == sorted([str(LARGE), *drivers, *(f"{d} 99 %" for d in drivers)])
        wait(page, "document.documentElement.scrollWidth <= innerWidth")
        for number in page.locator(".bars .number").all():
            box = number.bounding_box()
            assert box["x"] + box["width"] <= width
        page.goto("about:blank")
    feeder.close()


def test_more_cards_than_topics_that_a_client_may_follow(page, ledger):
    """The page sent more at once than the server takes, and so for ever."""
    one = {"keys": ["driver"], "window": {"kind": "floating", "length": "1 minute"}}
    feeder = Feeder(ledger, pipeline(summaries={f"s{n}": one for n in range(45)}, queries={}))
    feeder.minute()
    feeder.minute()
    with Server(ledger, port=0) as server:
        page.goto(server.url)
        for card in ("first", "last"):
            page.locator(f"#panels section:{card}-child").scroll_into_view_if_needed()
            page.wait_for_selector(f"#panels section:{card}-child .bars tr")
        state(page, "live")
        assert server.app.state.hub.closings == {}
        page.goto("about:blank")
    feeder.close()


def test_names_are_completed_with_the_keyboard(page, server):
    page.goto(server.url)
    page.wait_for_selector("#statement")
    page.fill("#statement", "")
    page.type("#statement", "SELECT serv")
    page.wait_for_selector("#completions li")
    page.keyboard.press("Escape")
    page.wait_for_selector("#statement:not([aria-activedescendant])")
    page.type("#statement", "e")
    page.wait_for_selector("#completions li")
    page.keyboard.press("Tab")
    assert page.input_value("#statement") == "SELECT served"


def test_slow_down_lengthens_the_window(page, server):
    page.goto(server.url)
    page.click("#open button:text('slow down')")
    page.wait_for_selector("#open span.warn:text('2× the usual')")
    page.focus("#open button:text('resume')")
    page.keyboard.press("Enter")
    page.wait_for_selector("#open span.warn", state="detached")
    page.wait_for_selector("#open button[aria-disabled=true]:text('resume'):focus")


def test_what_has_no_limit_has_no_bar(page, ledger):
    window = {"kind": "floating", "length": "1 minute"}
    fares = {"kind": "quantiles", "value": "fare", "by": "driver", "window": window}
    feeder = Feeder(ledger, pipeline(summaries={"fares": fares}, queries={}))
    for _ in range(2):
        feeder.minute()
    with Server(ledger, port=0) as server:
        page.goto(server.url)
        page.wait_for_selector("#open .meter:has-text('keys')")
        bars = {
            name: page.locator(f"#open .meter:has-text('{name}') div") for name in ("time", "keys")
        }
        assert {name: found.count() for name, found in bars.items()} == {"time": 1, "keys": 0}
        page.goto("about:blank")
    feeder.close()


def test_a_card_without_rows_says_where_there_are_some(page, ledger):
    """A source that ended where its window did: what is open holds nothing."""
    rows = events([(second, "a", 0, 1, 1) for second in (0, 59)])
    muntin.summarize(rows, pipeline(queries={}), ledger=ledger)
    with Server(ledger, port=0) as server:
        page.goto(server.url)
        page.wait_for_selector("#panels .note:has-text('FOR ALL reads all since')")
        page.goto("about:blank")


def test_the_page_says_that_server_or_ledger_is_gone_and_recovers(
    page, feeder, ledger, monkeypatch
):
    def away(*_):
        raise LedgerError("it is away")

    server, port = server_that_comes_back(ledger)
    with server:
        page.goto(server.url)
        state(page, "live")
    state(page, "lost")
    page.fill("#statement", "SELECT 1")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#select [role=alert]:text-is('the server cannot be reached')")
    grey = "getComputedStyle(document.querySelector('#headline')).filter.includes('grayscale')"
    assert page.evaluate(grey)
    with Server(ledger, port=port):
        state(page, "live")
        assert not page.evaluate(grey)
        with monkeypatch.context() as patched:
            patched.setattr(pipelines_state, "read", away)
            page.wait_for_selector("#connection[data-state=bad]:text('it is away')")
            assert page.evaluate(grey)
        state(page, "live")
    with Server(temporary(), port=port):  # nothing is left of what is in no ledger any more
        page.wait_for_selector("#connection[data-state=live]:text('no pipeline yet')")
        assert not page.text_content("#pipelines") + page.text_content("#headline")
        page.goto("about:blank")


@pytest.mark.parametrize("how", ["deleted and made anew", "reset"])
def test_what_a_ledger_holds_no_more_is_not_shown(page, tmp_path, how):
    """Windows and trend of before, on a page that stays connected."""
    path = tmp_path / "x.db"

    def fed(at):
        ledger = SqliteLedger(path)
        feeder = Feeder(ledger)
        feeder.at = at
        for _ in range(3):
            feeder.minute()
        feeder.close()
        ledger.close()

    trend = "document.querySelector('#trends svg')?.textContent"
    windows = "[...document.querySelectorAll('#closings rect title')].map((t) => t.textContent)"
    drawn = f"[{trend}, `${{{windows}}}`].every((text) => text?.includes('%s:13:20'))"
    before = f"`${{{trend}}} ${{{windows}}}`.includes('22:13:20')"
    fed(0)
    with Server(SqliteLedger(path), port=0) as server:
        page.goto(server.url)
        wait(page, drawn % 22)
        if how == "reset":
            ledger = SqliteLedger(path)
            Ingest(pipeline(), ledger, query_id="q", mode="overwrite").close()
            ledger.close()
            page.wait_for_selector("#headline .figure:has-text('events read'):has(b:text-is('0'))")
        else:
            for file in tmp_path.glob("x.db*"):
                file.unlink()
        fed(3600)
        wait(page, f"{drawn % 23} && !{before}")
        page.goto("about:blank")


def test_behind_a_proxy_that_puts_a_path_before_it(page, server):
    with under_a_path(server.url) as url:
        page.goto(f"{url}/")
        state(page, "live")
        page.fill("#statement", "SELECT count FROM orders FOR ALL")
        page.click("#select button:text-is('run')")
        page.wait_for_selector("#select tbody tr")
        wait(page, "document.querySelectorAll('#panels section').length > 0")
        assert page.complaints == []
        page.goto("about:blank")


def test_a_page_that_may_not_connect_says_what_lets_it(page, server):
    """Behind a proxy that calls the server by another name, it was a lost connection for ever."""
    page.route(
        "**/ticket", lambda route: route.continue_(headers={"origin": "https://ops.example"})
    )
    page.goto(server.url)
    said = "this page may not connect: start the server with --origin https://ops.example:443"
    page.wait_for_selector(f"#connection[data-state=lost]:has-text('{said}')")
    page.unroute("**/ticket")
    state(page, "live")
    page.goto("about:blank")


def test_a_token_is_asked_for(page, feeder, ledger):
    token, held = "reader-0123456789", ["reader-0123456789", ""]
    limits = ServerLimits(recheck_seconds=0.5)
    server, port = server_that_comes_back(ledger)
    with server:
        page.goto(server.url)
        state(page, "live")
    with Server(ledger, port=port, tokens=lambda: held, limits=limits):  # which asks for one now
        page.fill("#token input", "wrong-0123456789")
        page.keyboard.press("Enter")
        page.wait_for_selector("#token [role=alert]:text('that is not it')")
        page.fill("#token input", token)
        page.keyboard.press("Enter")
        state(page, "live")
        assert page.locator("#open button:visible").count() == 0  # it may only read
        held[0] = "exchanged-0123456789"
        page.fill("#token input", held[0])  # it is asked for again
        page.keyboard.press("Enter")
        state(page, "live")
        page.goto("about:blank")


def test_it_fits_a_phone_that_keeps_nothing(page, server):
    refused = "Object.defineProperty(window, name, { get() { throw new DOMException('no') } })"
    names = "['localStorage', 'sessionStorage']"
    page.add_init_script(f"for (const name of {names}) {refused}")
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(server.url)
    state(page, "live")
    page.wait_for_selector("#closings rect", state="attached")
    wait(page, "document.documentElement.scrollWidth <= 360")
    middles = (
        "['h1', '#theme'].map((one) => document.querySelector(one).getBoundingClientRect())"
        ".map((place) => (place.top + place.bottom) / 2)"
    )
    for said in ("live", "live, pipeline idle: nothing new for 34 s"):
        page.evaluate("(said) => document.querySelector('#connection').replaceChildren(said)", said)
        mark, button = page.evaluate(middles)
        assert abs(mark - button) < 2, said


def test_on_paper_cards_stand_below_each_other_with_their_bars(page, server):
    page.goto(server.url)
    page.wait_for_selector("#panels .bars tr")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})  # A4
    places = page.evaluate(
        "[...document.querySelectorAll('section')].filter(s => s.offsetParent)"
        ".map(s => s.getBoundingClientRect()).map(p => [p.top, p.bottom])"
    )
    assert len(places) > 6
    assert all(above[1] < below[0] for above, below in pairwise(places))
    drawn = "getComputedStyle(document.querySelector('.bars .bar')).printColorAdjust"
    assert page.evaluate(drawn) == "exact"
    page.goto("about:blank")


@pytest.mark.parametrize("lag", [{}, {"topic": {"0": 5}}])
def test_no_figure_stands_alone_in_its_row(page, server, lag, monkeypatch):
    read = pipelines_state.read

    def with_lag(reader, now):
        found = read(reader, now)
        for one in found["pipelines"]:
            one["lag"] = lag
        return found

    monkeypatch.setattr(pipelines_state, "read", with_lag)
    page.goto(server.url)
    page.wait_for_selector(f"#headline .figure:nth-child({10 if lag else 9})")
    top = "[...document.querySelectorAll('.figure')].map(one => one.offsetTop)"
    for width in range(900, 1921, 30):
        page.set_viewport_size({"width": width, "height": 800})
        # the cards are packed anew a frame after the page's width has changed
        wait(page, "document.documentElement.scrollWidth <= innerWidth")
        rows = Counter(page.evaluate(top))
        assert min(rows.values()) >= 4, (width, rows)


def test_what_was_is_there_at_once_and_a_run_of_time_is_chosen_by_dragging(page, server):
    page.goto(server.url)
    page.wait_for_selector("#load svg.zoomable")  # three minutes, and nothing has come since
    page.locator("#load svg").scroll_into_view_if_needed()
    box = page.locator("#load svg").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * box["width"], middle, steps=4)
    page.mouse.up()
    page.wait_for_selector("#range option[data-zoom]", state="attached")
    before = page.locator("#closings rect").count()
    wait(page, "n => document.querySelectorAll('#closings rect').length <= n", before)
    page.locator("#load svg").dblclick()
    page.wait_for_selector("#range option[data-zoom]", state="detached")


def test_an_answer_is_drawn_and_kept(page, server):
    page.goto(server.url)
    many = "[{ name: 'n', points: Array.from({ length: 200000 }, (_, i) => [i, i]) }]"
    holder = "const holder = document.createElement('div'), { lines } = charts"
    drawn = f"charts => {{ {holder}; lines(holder, {many}); return holder.innerHTML.length }}"
    assert page.evaluate(f"import('/static/charts.js').then({drawn})") > 1_000_000
    holder = "const holder = document.createElement('div')"
    drawn = (
        f"charts => {{ {holder}; charts.bars(holder, [3, -1].map(value => ({{ value }}))); return "
        "[...holder.querySelectorAll('.bar')].map(bar => [bar.style.marginLeft, bar.style.width]) }"
    )
    found = page.evaluate(f"import('/static/charts.js').then({drawn})")
    assert found == [["25%", "75%"], ["0%", "25%"]]  # what is below 0 ends where the other begins
    page.fill("#statement", "SELECT driver, count FROM orders(driver) FOR ALL ORDER BY driver")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#select .answer .bars tr:nth-child(5)")
    with page.expect_download() as download:
        page.click("#select button:text('CSV')")
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == "driver,count"
    assert len(lines) == 6
    page.fill("#statement", "SELECT area, count FROM orders(driver, area) FOR ALL ORDER BY driver")
    page.keyboard.press("Control+Enter")  # a key names its row, also where it is a number
    third = "#select .bars tr:nth-child(3)"
    page.wait_for_selector(f"{third}:has(td:text-is('2')):has(td:text-is('18'))")
    large = "SELECT 9007199254740993 AS n, '' AS t UNION ALL SELECT -9223372036854775808, NULL"
    page.fill("#statement", f"{large} ORDER BY n DESC")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#select td:text('9,007,199,254,740,993')")
    with page.expect_download() as download:
        page.click("#select button:text('CSV')")
    assert download.value.path().read_text().splitlines() == [
        "n,t",
        '9007199254740993,""',
        "-9223372036854775808,",
    ]
    page.fill("#statement", "SELECT driver, count FROM orders(driver) FOR ALL ORDER BY driver")
    page.click("#select button:text('save')")
    page.reload()
    page.wait_for_selector("#select option:text('SELECT driver')", state="attached")
    page.click("#catalogue button:text('orders')")
    wait(page, "document.querySelector('#statement').value.includes('FROM orders(driver)')")


@pytest.mark.slow
def test_a_trend_that_is_not_drawn_keeps_as_few_rows(page, server):
    """Its tab is hidden for a night."""
    page.goto(server.url)
    state(page, "live")
    told = """async () => {
        window.requestAnimationFrame = () => 0;
        const { trend } = await import("/static/trends.js");
        const query = { name: "q", select: "", on: "window" };
        let hear;
        const live = { subscribe: (topic, told) => { hear = told; }, seen: new Set() };
        const range = { onchange() {}, ends: () => [], until: null };
        const board = document.createElement("div");
        trend(board, live, query, range, ["k"]);
        const columns = ["k", "n"], types = ["varchar", "bigint"];
        for (let at = 0; at < 3000; at++) {
            const rows = Array.from({ length: 300 }, (_, i) => [`key ${at} ${i}`, i]);
            const start = new Date(1767225600000 + 1000 * at).toISOString();
            hear({ type: "result", window: { start }, result: { columns, types, rows } });
        }
        window.kept = board;
    }"""
    profiler = page.context.new_cdp_session(page)

    def used():
        profiler.send("HeapProfiler.collectGarbage")
        return profiler.send("Runtime.getHeapUsage")["usedSize"]

    before = used()
    page.evaluate(told)
    grown = used() - before
    assert grown < 30_000_000, grown
