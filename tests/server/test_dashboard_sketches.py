"""The panels of sketched kinds in a real browser: bands with their error, bounds of counts."""

from __future__ import annotations

import pytest

from muntin.ledger.temporary import temporary
from muntin.server.serving import Server
from tests.pipeline.support import pipeline
from tests.server.browser import state, wait
from tests.server.conftest import Feeder

pytestmark = pytest.mark.slow

SPEC = pipeline(
    summaries={
        "fares": {"kind": "quantiles", "value": "fare", "k": 8},
        "fares_by": {"kind": "quantiles", "value": "fare", "k": 8, "by": "driver"},
        "drivers": {"kind": "top_k", "item": "driver", "capacity": 2},
        "trips": {"kind": "frequency", "item": "driver"},
        "areas": {"kind": "distinct", "item": "area", "by": "driver", "precision": 4},
        "sums": {
            "keys": ["driver"],
            "indicators": ["fare"],
            "sketch": {"width": 2, "depth": 1, "track": 1},
        },
    },
    queries={},
)


@pytest.fixture
def watched():
    ledger = temporary()
    feeder = Feeder(ledger, SPEC)
    for _ in range(6):
        feeder.minute(events_a_pane=200)
    with Server(ledger, port=0) as server:
        yield server, feeder
    feeder.close()


def panel(name):
    """JavaScript that finds the panel whose title begins so."""
    title = "s.querySelector('h2').textContent"
    return (
        f"[...document.querySelectorAll('#panels section')].find(s => {title}.includes('{name}'))"
    )


def test_quantiles_over_time_with_their_error(page, watched):
    server, feeder = watched
    page.goto(server.url)
    state(page, "live")
    for name in ("Quantiles of fares", "Quantiles of fares_by"):
        found = panel(name)
        wait(page, f"{found}?.querySelectorAll('.chart polyline').length == 4")
        # each line has many points, and a shaded error that is not flat
        points = f"{found}.querySelector('.chart polyline').getAttribute('points')"
        wait(page, f"{points}.split(' ').length > 10")
        heights = f"[...{found}.querySelectorAll('.chart polygon')].map(p => p.getBBox().height)"
        wait(page, f"{heights}.length == 4 && {heights}.every(h => h > 2)")
        wait(page, f"{found}.querySelectorAll('.bars .range').length > 0")
    drawn = page.evaluate(f"{panel('Quantiles of fares')}.querySelector('.chart svg').outerHTML")
    feeder.minute(events_a_pane=200)
    moved = f"html => {panel('Quantiles of fares')}.querySelector('.chart svg').outerHTML !== html"
    wait(page, moved, drawn)


def test_over_time_what_is_kept_in_longer_slices_alone_is_left_out(page):
    """Of its first part nothing is left but a rollup of ten minutes: nothing at all was drawn."""
    kept = {"panes": "2 minutes", "rollups": "5 minutes"}
    fares = {"fares": {"kind": "quantiles", "value": "fare"}}
    ledger = temporary()
    spec = pipeline(summaries=fares, queries={}, retention=kept, rollups=["1 minute", "10 minutes"])
    feeder = Feeder(ledger, spec)
    for _ in range(21):
        feeder.minute()
    with Server(ledger, port=0) as server:
        page.goto(server.url)
        found = panel("Quantiles of fares")
        wait(page, f"{found}?.querySelectorAll('.bars tr').length > 0")
        page.get_by_label("window").select_option(label="all")
        points = f"{found}.querySelector('.chart polyline')?.getAttribute('points')"
        wait(page, f"{points}?.split(' ').length > 5")
    feeder.close()


def test_another_key_has_other_bands(page, watched):
    server, _ = watched
    page.goto(server.url)
    found = panel("Quantiles of fares_by")
    wait(page, f"{found}?.querySelectorAll('.chart polyline').length == 4")
    drawn = page.evaluate(f"{found}.querySelector('.chart svg').outerHTML")
    keys = page.locator("#panels select[aria-label=driver]")
    listed = [text.strip() for text in keys.locator("option").all_text_contents()]
    rows = page.evaluate(f"[...{found}.querySelectorAll('.bars tr')].map(row => row.innerText)")
    values = [float(row.split("\t")[-1].split(" ")[0].replace(",", "")) for row in rows]
    assert listed == [row.split(" ")[0] for row in rows]
    assert values == sorted(values, reverse=True)  # the worst first
    keys.select_option(index=1)
    wait(page, f"html => {found}.querySelector('.chart svg').outerHTML !== html", drawn)


def test_heavy_items_with_bounds(page, watched):
    server, feeder = watched
    feeder.rows([(feeder.at, "c", 0, 1, 1)] * 50)  # which no pane before had among its two
    page.goto(server.url)
    found = panel("Most frequent in drivers")
    wait(page, f"{found}?.querySelectorAll('.bars .range').length > 0")
    wait(page, f"{found}.querySelectorAll('.bars .unsure').length > 0")
    wait(page, f"{panel('Most frequent in trips')}?.innerText.includes('1,238')")
    for title in ("Different items in areas", "Top of sums"):
        wait(page, f"{panel(title)}?.querySelectorAll('.bars .range').length > 0")


def test_the_heaviest_of_many_keys_and_items_that_are_numbers(page):
    """The card asked for ten items of each key, by hash: too many to be sent, and not the heaviest;
    a number that names a row was drawn as an amount."""
    spec = pipeline(
        summaries={
            "areas_by": {"kind": "top_k", "item": "area", "by": "driver"},
            "areas": {"kind": "top_k", "item": "area"},
        },
        queries={"most": {"select": "SELECT item, value FROM top_k(areas, 3)", "on": "update"}},
    )
    ledger = temporary()
    feeder = Feeder(ledger, spec)
    feeder.rows([(0, f"driver {n}", n, 1, 1) for n in range(6_000)] + [(0, "heavy", 17, 1, 1)] * 3)
    with Server(ledger, port=0) as server:
        page.goto(server.url)
        found = panel("Most frequent in areas_by")
        wait(page, f"{found}?.querySelectorAll('.bars tr').length == 20")
        assert page.evaluate(f"{found}.querySelector('.bars tr').textContent") == "heavy, 173"
        wait(page, "document.querySelectorAll('#trends svg').length == 1")
        assert page.text_content("#trends .unit") == "value"
        wait(page, "document.querySelector('#trends .keys')?.innerText.includes('17')")
        for asked in (
            "SELECT * FROM top_k(areas, 3) FOR ALL",
            "SELECT * FROM top_k(areas_by, 1) FOR ALL ORDER BY value DESC LIMIT 3",
        ):
            page.fill("#statement", asked)
            page.keyboard.press("Control+Enter")
            wait(page, "/\\b17\\b/.test(document.querySelector('#select .bars td')?.innerText)")
            page.fill("#statement", "SELECT drivr FROM areas")
            page.keyboard.press("Control+Enter")
            page.wait_for_selector("#select [role=alert]")
        page.goto("about:blank")
    feeder.close()


def test_cards_stand_below_each_other_without_gaps(page, watched):
    server, _ = watched
    page.set_viewport_size({"width": 1500, "height": 1000})
    page.goto(server.url)
    places = "[...document.querySelectorAll('#panels section')].map(s => s.getBoundingClientRect())"
    wait(page, f"{places}.length == 6 && {places}.every(p => p.height > 100)")
    packed = (
        f"{places}.every((p, i) => i < 3 || {places}.some(q => q.left == p.left"
        " && p.top - q.bottom > 10 && p.top - q.bottom < 20))"
    )
    wait(page, packed)
    columns = page.evaluate(f"{places}.map(p => p.left)")
    assert columns[3:] == columns[:3] == sorted(columns[:3])
