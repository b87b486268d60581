"""The coordinator's page in a real browser: the race, validity, sites, and the costs."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest

from tests.server.browser import state
from tests.sites.conftest import until
from tests.sites.fed import coordinated, sites, top
from tests.sites.stream import SITES, coordinator

pytestmark = pytest.mark.slow

ROWS = "[...document.querySelectorAll('#race li .name')].map(one => one.textContent)"


def wait(page, expression, argument=None):
    """Until it holds, on a busy machine too."""
    until(lambda: page.evaluate(expression, argument))


def shown(page, text):
    return f"document.querySelector('#{page}').textContent.includes('{text}')"


@pytest.fixture
def race(tmp_path):
    """Ranks move every 40 panes."""
    with coordinated(coordinator(tmp_path, missing_after=12, lease=30)) as server:
        yield server


def test_the_race_is_watched(page, race):
    page.set_default_timeout(60_000)
    began = datetime.now(UTC)
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(race.url)
    state(page, "live")
    first = [one["item"] for one in top(race)["items"]]
    wait(page, f"names => {ROWS}.join() === names", ",".join(first))
    wait(page, shown("validity", "valid"))
    assert page.evaluate("document.querySelectorAll('#sites tbody tr').length") == len(SITES)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360

    for each in race.fed:
        each.feed(80)
    until(lambda: {one["item"] for one in top(race)["items"]} != set(first))
    wait(page, f"names => {ROWS}.join() !== names", ",".join(first))
    wait(page, "document.querySelectorAll('#changes td.in').length > 0")
    page.wait_for_selector("#bytes svg polyline", state="attached")
    page.wait_for_selector("#messages svg polyline", state="attached")
    drawn = page.text_content("#bytes svg")  # midnight may lie between
    assert any(f"{day:%m-%d}" in drawn for day in (began, datetime.now(UTC)))

    race.fed[0].site.stop()  # and the answer says what is missing
    until(lambda: top(race)["missing_sites"] == [SITES[0]])
    wait(page, shown("validity", SITES[0]))
    wait(page, shown("sites", "missing"))
    race.service.note(SITES[0], "sums beyond 2^50")
    wait(page, shown("sites", "sums beyond 2^50"))
    state(page, "wait")  # no unit comes any more: stale, and it looks so
    wait(page, "document.documentElement.classList.contains('stale')")
    for site, kind in zip(SITES, ("text", "integers"), strict=True):
        race.service._note_type(site, kind)
    wait(page, shown("validity", "items are text at north, integers at south: cast the key"))
    page.goto("about:blank")


def test_only_its_files_are_served(race):
    for path in ("/race/../page.py", "/race/%2e%2e/page.py", "/race/", "/race/missing.js"):
        assert httpx.get(race.url + path).status_code == 404
    answer = httpx.get(race.url + "/")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert sites(race)


def test_a_page_that_is_back_is_live_once_the_state_has_come(page, race):
    page.add_init_script("""
        window.seen = [];
        window.WebSocket = class extends WebSocket {
            constructor(...given) {
                super(...given);
                window.socket = this;
                this.addEventListener("message", ({ data }) => seen.push(JSON.parse(data).type));
            }
        };
    """)
    page.goto(race.url)
    state(page, "live")
    page.evaluate("""() => {
        const said = document.getElementById("connection");
        const look = () => seen.push(`now ${said.dataset.state}`);
        new MutationObserver(look).observe(said, { attributeFilter: ["data-state"] });
        seen.length = 0;
        socket.close();
    }""")
    wait(page, "seen.includes('now live')")
    seen = page.evaluate("seen")
    back = seen[seen.index("now lost") :]
    assert "state" in back[: back.index("now live")]
    page.goto("about:blank")
