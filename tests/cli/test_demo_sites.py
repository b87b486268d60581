"""Flights at several sites: nothing is lost or told twice; and the race as text."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.cli.demo import line
from muntin.demo import sites as demo
from muntin.demo.replay import slices_of
from muntin.sites import CoordinatorSpec
from muntin.spec import Pipeline

CHILD = (
    "from muntin.demo.sites import end_with_parent; end_with_parent(); "
    "import time; print('up', flush=True); time.sleep(600)"
)
PARENT = (
    "import signal, sys, time; from muntin.demo import sites; "
    "signal.signal(signal.SIGINT, signal.SIG_IGN); "  # as a script does for what it starts by &
    "sites.start(['-c', sys.argv[1]], sys.stdout); time.sleep(600)"
)
HOUR_US = 3_600_000_000
DAYS = 12


@pytest.fixture(scope="module")
def flights():
    hours = range(24 * DAYS)
    return pa.table(
        {
            "time": pa.array([hour * HOUR_US for hour in hours], pa.timestamp("us", "UTC")),
            "origin": [("EWR", "JFK", "LGA")[hour % 3] for hour in hours],
            "carrier": [("AA", "B6", "DL", "UA", "WN")[hour % 5] for hour in hours],
            "dest": [f"D{hour % 7}" for hour in hours],
        }
    )


@pytest.mark.parametrize(("sites", "names"), [
    (3, ["ewr", "jfk", "lga"]),
    (2, ["site-1", "site-2"]),
])  # fmt: skip
def test_every_flight_goes_to_one_site(tmp_path, flights, sites, names, monkeypatch):
    monkeypatch.setattr("muntin.demo.replay.TICK_SECONDS", 0)
    table, found = demo.at_sites(flights, sites)
    assert found == names
    replay = demo.SplitReplay(slices_of(table, 3600), tmp_path, found)
    replay.write_first()
    first = sum(pq.read_table(tmp_path / name).num_rows for name in names)
    assert first * HOUR_US >= demo.HEAD_US
    replay._run()
    parts = [pq.read_table(tmp_path / name) for name in names]
    assert all(part.num_rows for part in parts)
    assert pa.concat_tables(parts).sort_by("time").equals(flights)
    if sites == 3:
        assert [set(part["origin"].to_pylist()) for part in parts] == [{"EWR"}, {"JFK"}, {"LGA"}]


def test_sites_and_coordinator_say_the_same(tmp_path):
    entries = demo.coordinator_entries(["ewr", "jfk"], tmp_path, 0, 7200.0)
    spec = CoordinatorSpec.of(entries)
    site = Pipeline.of(demo.site_entries("ewr", "ws://127.0.0.1:1", tmp_path, 7200.0)).sites
    assert site is not None
    assert site.said() == spec.said()
    assert site.speed == spec.speed


@pytest.mark.timeout(120)
def test_sites_end_with_a_parent_that_is_killed():
    """The parent can do nothing any more; its child still has its standard output, and ends."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout as output:
        assert output.readline() == b"up\n"
        parent.kill()
        parent.wait()
        assert b"KeyboardInterrupt" in output.read()


@pytest.mark.parametrize(("changes", "expected"), [
    ({}, "valid, as of T: ATL 1,200, ORD -"),
    ({"stale": True}, "stale, as of T: ATL 1,200, ORD -"),
    ({"valid": False, "bound": 7, "missing_sites": ["jfk"]},
     "unsure, as of T, off by 7 at most, missing: jfk: ATL 1,200, ORD -"),
    ({"valid": False, "as_of": None, "bound": None, "items": []}, "unsure: nothing yet"),
])  # fmt: skip
def test_the_race_in_a_line(changes, expected):
    items = [{"item": "ATL", "value": 1200}, {"item": "ORD", "value": None}]
    answer = {"valid": True, "stale": False, "as_of": "T", "bound": 0, "missing_sites": []}
    assert line({"answer": answer | {"items": items} | changes}) == expected
