"""The dashboard over a ledger with several pipelines, of which some have ended: in a real browser.

Beside `test_dashboard.py`, whose tests are slow, what every change of the page goes through.
"""

from __future__ import annotations

import re
from random import Random

import pytest

from muntin.ledger.temporary import temporary
from muntin.select.result_text import cell
from muntin.server.serving import Server
from muntin.spark import pipeline_status
from tests.pipeline.support import pipeline
from tests.server.browser import state, wait
from tests.server.conftest import Feeder, server_that_comes_back

SENSORS = pipeline(
    name="sensors",
    summaries={
        "rooms": {
            "keys": ["driver"],
            "indicators": ["fare"],
            "window": {"kind": "floating", "length": "1 minute"},
        },
        "visitors": {"kind": "distinct", "item": "driver"},
    },
    queries={"fullest": "SELECT driver, count FROM rooms(driver) ORDER BY count DESC"},
)
REASON = "there is no column 'delai'"
LAG = {"rooms": {"0": 12, "1": 3_400}}
NAMES = """[...document.querySelectorAll("#trends section, #panels section")]
    .filter((part) => !part.hidden).map((part) => part.querySelector("h2").firstChild.textContent)
    .join()"""
RATES = """async ({ width, from, to, points, newest }) => (await import("/static/load.js"))
    .rates({ width_us: width, from, to, points }, newest)"""


@pytest.fixture
def watched(monkeypatch):
    """Two pipelines in one ledger: one at work, and one that has failed."""
    monkeypatch.setattr(pipeline_status, "BEAT_SECONDS", 1e9)  # or that one says that it is well
    ledger = temporary()
    orders, sensors = Feeder(ledger), Feeder(ledger, SENSORS)
    for _ in range(4):
        orders.minute()
    for _ in range(3):
        sensors.minute(events_a_pane=9)
    at = max(info.committed_at for info in ledger.pipelines()) + 1
    sensors.ingest.writer.set_status({"state": "failed", "at": at, "reason": REASON, "lag": LAG})
    with Server(ledger, port=0) as server:
        yield server
    orders.close()
    sensors.close()


def test_the_pipeline_that_is_chosen_is_in_every_panel(page, watched):
    page.goto(f"{watched.url}#100%")  # the name of no pipeline
    page.wait_for_selector('#connection[data-state="live"]')
    wait(page, "document.querySelectorAll('#closings rect').length === 3")
    for chart in ("#load", "#trends"):
        page.wait_for_selector(f"{chart} svg polyline", state="attached")
    page.wait_for_selector("#catalogue button:text('orders')")
    page.wait_for_selector("#panels .bars tr")
    assert page.evaluate(NAMES) == "Trend: busiest,Top of orders"
    assert page.locator("#overview tbody tr").count() == 2
    assert page.text_content("#overview li") == f"sensors: failed: {REASON}"
    assert page.evaluate("(s => s.scrollWidth <= s.clientWidth)(document.querySelector('.scroll'))")
    assert "failed" not in page.text_content("#headline")
    assert page.locator("#waiting").is_hidden()  # it reads no topic

    page.click("#overview button:text('sensors')")
    page.wait_for_selector('#connection[data-state="bad"]')
    wait(page, "document.querySelectorAll('#closings rect').length === 2")
    wait(page, f"{NAMES} === 'Trend: fullest,Top of rooms,Different items in visitors'")
    page.wait_for_selector("#catalogue button:text('rooms')")
    assert page.locator("#catalogue button:text('orders')").count() == 0
    headline = page.text_content("#headline")
    assert f"failed: {REASON}" in headline
    assert "162" in headline  # events of this one alone
    meters = page.locator("#waiting .meter").all_text_contents()
    assert meters == ["rooms, partition 13,400", "rooms, partition 012"]  # the worst first
    assert page.input_value("#statement").startswith("SELECT driver, count FROM rooms")
    page.reload()  # it stays
    page.wait_for_selector('#connection[data-state="bad"]')
    assert page.input_value("#pipelines select") == "sensors"
    page.evaluate("location.hash = '#orders'")  # as a link would
    wait(page, f"{NAMES} === 'Trend: busiest,Top of orders'")

    # a bucket of the load is what came in it by the time of it that has passed
    hour = 3_600_000_000
    points = [[n * hour, 3_600] for n in range(3)] + [[3 * hour, 2_700]]
    asked = {"width": hour, "from": hour // 2, "to": 4 * hour, "newest": int(3.75 * hour)}
    found = page.evaluate(RATES, asked | {"points": points})
    assert found == [[hour, 1], [2 * hour, 1], [3 * hour, 1]]
    asked["newest"] = 3 * hour + hour // 10  # too little of it to say
    assert page.evaluate(RATES, asked | {"points": points}) == found[:2]
    page.set_viewport_size({"width": 360, "height": 740})
    page.evaluate("document.querySelector('#pipelines option').textContent = 'x'.repeat(90)")
    wait(page, "document.documentElement.scrollWidth <= 360")
    assert page.complaints == []
    page.goto("about:blank")


# on a page that is so wide, charts over more than one day: their times and where those stand
FOOT = """async (width) => {
    const { lines, columns } = await import("/static/charts.js"), start = 1767225599e6, span = 5e9;
    const name = (t) => new Date(t / 1000).toISOString().slice(0, 19).replace("T", " ");
    const holder = document.createElement("div");
    holder.style.width = width + "px";
    document.body.append(holder);
    const bounds = () => {
        const { left } = holder.getBoundingClientRect();
        return [...holder.querySelectorAll("svg text")].filter((t) => t.textContent.includes(":"))
            .map((t) => t.getBoundingClientRect())
            .flatMap((b) => [b.left - left, b.right - left]) };
    lines(holder, [{ name: "", points: [[start, 1], [start + span, 2]] }]);
    const found = [bounds()];
    const column = { value: 1, colour: "", title: "" };
    columns(holder, [0, span].map((t) => ({ ...column, name: name(start + t) })));
    return [...found, bounds()] }"""


def test_times_below_a_chart_are_whole_and_apart(page, watched):
    page.goto(watched.url)
    for width in (280, 360, 420):
        for found in page.evaluate(FOOT, width):
            assert found
            assert found == sorted(found)
            assert found[-1] <= width
    page.goto("about:blank")


def test_times_and_amounts_beyond_the_usual(page, watched):
    page.goto(watched.url)
    said = """async () => { const { duration, number, short } = await import("/static/dom.js");
        return [duration(1123200e6), short(1e300), number(-1e300), short(2e12)] }"""
    assert page.evaluate(said) == ["1 week 6 days", "1e+300", "-1.0e+300", "2T"]
    page.goto("about:blank")


def test_a_table_shows_a_value_as_the_command_line_does(page, watched):
    page.goto(watched.url)
    random = Random(1)
    values = [238_337.18, 0.1 + 0.2, 1e-4, 1e-15, 1.5e15 + 0.5, 2.0**53, -1e300, 0.0, -12.5]
    values += [random.uniform(-1, 1) * 10 ** random.randint(-30, 8) for _ in range(500)] + [None]
    shown = """async (values) => { const { table } = await import("/static/dom.js");
        const made = table(["x"], values.map((v) => [v]), ["double"]);
        return [...made.querySelectorAll("td")].map((cell) => cell.textContent) }"""
    found = [re.sub(r"(?<=e-)(?=\d$)", "0", text) for text in page.evaluate(shown, values)]
    assert found == [cell(value) for value in values]
    page.goto("about:blank")


def test_the_parts_of_a_joined_item_stand_apart(page, watched):
    page.goto(watched.url)
    said = """async () => { const { named, table } = await import("/static/dom.js");
        const cell = table(["item"], [["UA\\x1f15"]], ["string"]).querySelector("td");
        return [named(["UA\\x1f15", 7]), cell.textContent] }"""
    assert page.evaluate(said) == ["UA · 15, 7", "UA · 15"]
    page.goto("about:blank")


def test_labels_keep_their_order_beside_what_runs_from_right_to_left(page, watched):
    """A percentage stood before the name, its sign behind; an empty name was nothing."""
    page.goto(watched.url)
    said = """async () => {
        const { named, make } = await import("/static/dom.js");
        const { alerts } = await import("/static/alerts.js");
        const { bars } = await import("/static/charts.js");
        const section = make("section", {}, make("div")), holder = make("div");
        const changes = ["", "null", null].map((driver) =>
            ({ alert: "a", by: { driver }, state: "firing", when: "", at: 0 }));
        alerts(section)({}, { alerts: { alerts: [], changes } });
        document.body.append(holder);
        bars(holder, [{ label: `${named(["שלום", 7])} 99 %`, value: 1 }]);
        const text = holder.querySelector("td").firstChild, range = new Range();
        const place = (letter) => {
            const at = text.data.indexOf(letter);
            range.setStart(text, at);
            range.setEnd(text, at + 1);
            return range.getBoundingClientRect().left;
        };
        const whose = [...section.querySelectorAll("td:nth-child(3)")];
        return [["ש", "7", "9", "%"].map(place), whose.map((cell) => cell.textContent)];
    }"""
    places, shown = page.evaluate(said)
    assert places == sorted(places)
    assert shown == ['driver ""', "driver null", "driver (none)"]
    page.goto("about:blank")


def test_a_trend_shows_what_one_who_asks_now_is_told(page, watched):
    """Of a revision that has no rows, or failed, nothing of before; of the last hour, no more."""
    page.goto(watched.url)
    told = """async () => {
        const { trend } = await import("/static/trends.js");
        let hear;
        const live = { subscribe: (topic, told) => { hear = told; }, seen: new Set() };
        const range = { onchange() {}, ends: () => [range.from, null], from: null, until: null };
        const board = document.createElement("div"), drawn = [];
        trend(board, live, { name: "q", select: "", on: "window" }, range, ["k"]);
        const says = async (minute, said) => {
            hear({ type: "window", window: { start: `2026-01-01T00:0${minute}:00Z` }, ...said });
            await new Promise(requestAnimationFrame);
            await new Promise(requestAnimationFrame);
            const line = board.querySelector("polyline")?.getAttribute("points").split(" ").length;
            drawn.push(line ?? Math.sign(board.querySelectorAll("circle").length));
        };
        const kept = { columns: ["k", "n"], types: ["varchar", "int64"] };
        const rows = (...rows) => ({ result: { ...kept, rows } });
        for (const minute of [1, 2, 3]) await says(minute, rows(["a", minute]));
        await says(2, rows());
        range.from = "2026-01-01T00:03:00.000Z";
        await says(4, rows(["a", 4]));
        await says(4, { error: { message: "no" } });
        await says(3, { error: { message: "no" } });
        return drawn;
    }"""
    assert page.evaluate(told) == [1, 2, 3, 2, 2, 1, 0]


def test_what_was_shown_before_is_grey_until_the_state_has_come(page, feeder, ledger):
    """A server that is back says welcome first; figures of before looked as if they were of now."""
    read = (
        "[...document.querySelectorAll('.figure')].find((f) => /events read/.test(f.textContent))"
    )
    server, port = server_that_comes_back(ledger)
    with server:
        page.goto(server.url)
        state(page, "live")
        before = page.evaluate(f"{read}.textContent")
        page.evaluate(f"""() => {{
            const root = document.documentElement, said = document.getElementById("connection");
            const seen = window.seen = [];
            const look = () => seen.push([said.dataset.state, root.className, {read}.textContent]);
            new MutationObserver(look).observe(root, {{ subtree: true, attributes: true }});
        }}""")
    state(page, "lost")
    feeder.minute()
    with Server(ledger, port=port):
        wait(page, f"before => {read}.textContent !== before", before)
        state(page, "live")
        seen = page.evaluate("window.seen")
        since = seen[[each[0] for each in seen].index("lost") :]
        assert all(level == "lost" and "lost" in grey for level, grey, at in since if at == before)
        assert since[-1][:2] == ["live", ""]
        page.goto("about:blank")
