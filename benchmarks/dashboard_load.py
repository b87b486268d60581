"""The dashboard in a real browser: its first paint, and its memory over an hour's pushes.

An hour at the usual pace is 7,200 pushes of the state, about 3,600 of statements that move and,
with a window each 10 seconds, 360 of windows and of each trend: 12,000 messages, which come here
about 60 times as fast. Run `--minutes 10` for the usual pace instead, and beside a pipeline that
runs, `--url http://127.0.0.1:8787 --minutes 60`: an hour as it is, with a look each minute.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent))  # for tests/

from muntin.ledger.temporary import temporary
from muntin.server.limits import ServerLimits
from muntin.server.serving import Server
from tests.server.conftest import Feeder

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
SHOWN = "document.querySelectorAll('#headline b').length"


def first_paints(browser, url, times):
    paints, figures = [], []
    for _ in range(times):
        page = browser.new_page()
        page.goto(url)
        while page.evaluate(PAINT) is None or not page.evaluate(SHOWN):
            page.wait_for_timeout(10)
        paints.append(page.evaluate(PAINT))
        figures.append(page.evaluate("performance.now()"))
        page.close()
    print(
        f"first paint, {times} times: median {statistics.median(paints):.0f}, "
        f"most {max(paints):.0f} ms; first figures by {max(figures):.0f} ms",
        flush=True,
    )


class Watched:
    """A page, what its script holds, and how much the server has pushed to it."""

    def __init__(self, browser, url):
        self.page = browser.new_page()
        self.page.goto(url)
        self.page.wait_for_selector('#connection[data-state="live"]', timeout=60_000)
        self._devtools = self.page.context.new_cdp_session(self.page)

    def before_collection(self):
        """Script's memory (MB) as it is, with what the next collection would free."""
        return self._devtools.send("Runtime.getHeapUsage")["usedSize"] / 2**20

    def measure(self):
        """Script's memory after two collections (MB), elements, listeners."""
        for _ in range(2):
            self._devtools.send("HeapProfiler.collectGarbage")
        used = self._devtools.send("Runtime.getHeapUsage")["usedSize"] / 2**20
        counts = self._devtools.send("Memory.getDOMCounters")
        return used, counts["nodes"], counts["jsEventListeners"]


def watch(browser, url, minutes):
    """Look at a running server's page each minute."""
    watched, used = Watched(browser, url), []
    began = time.monotonic()
    for minute in range(int(minutes) + 1):
        watched.page.wait_for_timeout(max(0, began + 60 * minute - time.monotonic()) * 1000)
        before = watched.before_collection()
        memory, nodes, listeners = watched.measure()
        used.append(memory)
        windows = watched.page.evaluate("document.querySelectorAll('#closings rect').length")
        live = watched.page.get_attribute("#connection", "data-state")
        print(
            f"   {minute:3} min: {memory:5.2f} MB ({before:5.2f} before collection), "
            f"{nodes:,} nodes, {listeners} listeners, {windows} windows drawn, {live}",
            flush=True,
        )
    return used


def compare_halves(used):
    half = len(used) // 2
    change = statistics.fmean(used[half:]) / statistics.fmean(used[1:half]) - 1
    print(f"second half against the first: {change:+.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=12_000)
    parser.add_argument("--minutes", type=float, default=0, help="at the usual pace, for so long")
    parser.add_argument("--url", help="of a server that runs, to watch instead of one made here")
    given = parser.parse_args()
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    if given.url:
        with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
            browser = playwright.chromium.launch_persistent_context(
                folder, executable_path=CHROMIUM, args=options, headless=True
            )
            compare_halves(watch(browser, given.url, given.minutes or 60))
            browser.close()
        return
    fast = ServerLimits(state_seconds=0.008, quiet_seconds=0.008, update_seconds=0.02)
    limits = ServerLimits() if given.minutes else fast
    ledger = temporary()
    feeder = Feeder(ledger)
    for _ in range(100):  # the charts are full
        feeder.minute()
    with (
        Server(ledger, port=0, limits=limits) as server,
        sync_playwright() as playwright,
        tempfile.TemporaryDirectory() as folder,
    ):
        browser = playwright.chromium.launch_persistent_context(
            folder, executable_path=CHROMIUM, args=options, headless=True
        )
        first_paints(browser, server.url, 7)
        watched, hub = Watched(browser, server.url), server.app.state.hub
        watched.page.wait_for_timeout(3000)
        began, pushed, next_look, used = time.monotonic(), hub.sent, 0.0, []
        while next_look <= 1.0:
            feeder.minute()
            passed = time.monotonic() - began
            if given.minutes:
                watched.page.wait_for_timeout(500)
                part = passed / 60 / given.minutes
            else:
                watched.page.wait_for_timeout(150)
                part = (hub.sent - pushed) / given.messages
            if part >= next_look:
                next_look += 0.1
                memory, nodes, listeners = watched.measure()
                used.append(memory)
                print(
                    f"   {passed:6.0f} s, {feeder.batches:6,} batches, {hub.sent - pushed:7,} "
                    f"messages: {memory:5.2f} MB, {nodes:,} nodes, {listeners} listeners",
                    flush=True,
                )
        compare_halves(used)
        watched.page.goto("about:blank")
        browser.close()
    feeder.close()


if __name__ == "__main__":
    main()
