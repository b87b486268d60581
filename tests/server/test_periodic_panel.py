"""The dashboard's strips of periodic items, in a real browser."""

from __future__ import annotations

from itertools import pairwise

import pytest

from muntin.server.serving import Server
from tests.pipeline.support import SECOND
from tests.server.beating import Beating, now_us
from tests.server.browser import state, wait

pytestmark = pytest.mark.slow

ROWS = "document.querySelectorAll('.strips tbody tr').length"


@pytest.fixture
def beating(ledger):
    made = Beating(ledger)
    yield made
    made.close()


def test_strips_show_beats_and_who_is_overdue(page, beating, ledger, tmp_path):
    now = now_us()
    beating.beats(
        [
            ("cab <b>", 7, 3600, 20, now - 600 * SECOND),
            ("bus", 1, 7200, 12, now - 600 * SECOND),
            ("tram", 2, 1800, 15, now - 6000 * SECOND),  # two beats are missing
        ]
    )
    with Server(ledger, port=0) as server:
        page.goto(server.url)
        state(page, "live")
        wait(page, f"{ROWS} === 3")
        text = page.text_content(".strips tbody tr:nth-child(1)")
        assert text.startswith("cab <b>, 71 h")
        assert "×19" in text
        assert page.locator(".strips tr.overdue").count() == 1
        overdue = page.text_content(".strips tr.overdue")
        assert overdue.startswith("tram, 230 min")
        assert "overdue 1 h" in overdue
        assert page.locator(".strips tr.overdue .late").bounding_box()["width"] > 20
        beats = page.locator(".strips tbody tr:nth-child(1) .beat")
        places = beats.evaluate_all("all => all.map((one) => one.getBoundingClientRect().x)")
        assert len(places) == 7
        steps = [b - a for a, b in pairwise(places)]
        assert min(steps) > 5
        assert max(steps) - min(steps) < 1.5  # evenly spaced
        due = page.locator(".strips tbody tr:nth-child(1) .next").bounding_box()["x"]
        assert due - places[-1] == pytest.approx(steps[0], rel=0.1)
        page.screenshot(path=tmp_path / "strips.png", full_page=True)
        # the tram comes: it is no longer overdue, and what was scrolled to is still there
        page.set_viewport_size({"width": 360, "height": 740})
        kept = "document.querySelector('.scroll:has(.strips)')"
        page.evaluate(f"{kept}.focus(); {kept}.scrollLeft = 60")
        beating.beats([("tram", 2, 1800, 1, now_us())])
        page.wait_for_selector(".strips tr.overdue", state="detached")
        assert page.evaluate(f"document.activeElement === {kept} && {kept}.scrollLeft") == 60
        wait(page, "document.documentElement.scrollWidth <= 360")
        page.goto("about:blank")


def test_a_standing_query_on_update_is_plotted_as_it_moves(page, beating, ledger):
    """It has no windows whose trend could be read, and no number: its rows are counted."""
    now = now_us()
    beating.beats([("bus", 1, 3600, 12, now - 1800 * SECOND)])
    with Server(ledger, port=0) as server:
        page.goto(server.url)
        state(page, "live")
        trend = "document.querySelector('#trends section')"
        wait(page, f"{trend}?.querySelector('.chart svg') != null")
        shown = page.get_attribute("#trends .chart svg", "aria-label")
        assert shown == "rows of overdue, by update"
        assert page.text_content("#trends .note").startswith("SELECT driver, area, next_expected")
        page.wait_for_timeout(1100)  # one point a second
        beating.beats([("tram", 2, 30, 15, now_us() - 100 * SECOND)])
        wait(page, f"{trend}.querySelector('.chart polyline') != null")
        page.goto("about:blank")


def test_an_old_stream_is_seen_as_of_its_newest_event(page, beating, ledger):
    then = now_us() - 300 * 86_400 * SECOND
    beating.beats([("bus", 1, 3600, 30, then), ("tram", 2, 600, 20, then - 86_400 * SECOND)])
    with Server(ledger, port=0) as server:
        page.goto(server.url)
        wait(page, f"{ROWS} === 2")
        assert page.locator(".strips tr.overdue").count() == 1
        assert page.text_content(".strips tr.overdue").startswith("tram, 2")
        page.select_option("select[aria-label='as of']", "clock")
        wait(page, "document.querySelectorAll('.strips tr.overdue').length === 2")
        page.goto("about:blank")
