"""`muntin run --serve` with real Spark and a real browser: what a person does on the first day."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from muntin.demo.replay import Replay
from tests.server.conftest import until

pytestmark = [pytest.mark.slow, pytest.mark.spark]
START_SECONDS = 120
PIPELINE = """\
name: orders
time: time
pane: 10 s
lateness: 0 s
trigger: 500 ms
ledger: sqlite:///{folder}/ledger.db
source: {{format: parquet, path: {folder}/events}}
summaries:
  orders:
    keys: [driver, area]
    indicators: [fare]
    capacity: 1000
    window: {{kind: floating, length: 1 min, limit: 4 min}}
queries:
  busiest: "SELECT driver, count FROM orders(driver) ORDER BY count DESC LIMIT 3"
"""


def minutes():
    """Twenty seconds of events a piece, for as long as it is asked."""
    second = 1_700_000_000
    while True:
        times = [(second + i % 20) * 1_000_000 for i in range(200)]
        yield pa.table(
            {
                "time": pa.array(sorted(times), pa.timestamp("us", "UTC")),
                "driver": [f"d{i % 7}" for i in range(200)],
                "area": pa.array([i % 3 for i in range(200)]),
                "fare": pa.array([i % 11 for i in range(200)]),
            }
        )
        second += 20


@pytest.fixture
def running(tmp_path):
    """The command, and the address that it prints."""
    replay = Replay(minutes(), tmp_path / "events")
    replay.write_first()
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE.format(folder=tmp_path))
    command = [Path(sys.executable).with_name("muntin"), "run", path, "--serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--no-live"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    said = []
    reading = threading.Thread(target=lambda: said.extend(process.stdout), daemon=True)
    reading.start()
    replay.start()

    def address():
        assert process.poll() is None, "".join(said)
        found = re.search(r"dashboard: +(http\S+)", "".join(said))
        return found and found[1]

    try:
        yield process, until(address, START_SECONDS), said
    finally:
        replay.stop()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_a_person_watches_asks_slows_down_and_stops(running, page):
    process, url, said = running
    assert httpx.get(url + "/readyz").status_code == 503  # Spark has yet to start
    until(lambda: httpx.get(url + "/readyz").status_code == 200, START_SECONDS)
    page.goto(url)
    page.wait_for_selector('#connection[data-state="live"]')
    page.wait_for_selector("#closings rect", state="attached")  # a window has closed
    page.fill("#statement", "SELECT driver, count FROM orders(driver) FOR ALL ORDER BY driver")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#select tbody tr:nth-child(7)")

    def open_window():
        return httpx.get(url + "/state").json()["pipelines"][0]["open"]["orders"]

    assert open_window()["length_us"] == 60_000_000
    page.click("#open button:text('slow down')")
    page.wait_for_selector("#open .warn:text('2× the usual')")
    assert open_window()["length_us"] == 120_000_000

    def lengths():
        windows = httpx.get(url + "/windows").json()["windows"]
        return {(w["reason"], _seconds(w)) for w in windows}

    until(lambda: ("full", 120.0) in lengths(), 60)  # and the pipeline closes by it
    page.click("#open button:text('resume')")
    page.wait_for_selector("#open .warn", state="detached")

    os.killpg(process.pid, signal.SIGINT)  # Ctrl-C
    assert process.wait(60) == 0, "".join(said)
    page.wait_for_selector('#connection[data-state="lost"]')
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
    until(lambda: not _alive(process.pid), 10)  # Spark's processes too
    assert "Traceback" not in "".join(said)
    assert re.search(r"windows closed +.*full", "".join(said))


def _seconds(window):
    from muntin.times import instant_us

    return (instant_us(window["end"]) - instant_us(window["start"])) / 1e6


def _alive(group):
    """Processes of a group that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, in_group = stat.read_text().rpartition(") ")[2].split()[:3]
            if int(in_group) == group and state != "Z":
                found.append(stat.parent.name)
    return found
