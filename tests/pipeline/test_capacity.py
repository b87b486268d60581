"""What `muntin capacity` says, beside a ledger that was fed with such events."""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from muntin.assembly.capacity import capacity
from muntin.assembly.capacity_windows import PAGES, RESULT_BYTES
from muntin.cli import app
from muntin.ledger.open import open_ledger
from muntin.ledger.temporary import temporary
from tests.docs_samples import sample_of
from tests.pipeline.support import SECOND, START, pipeline, run

RATE = 200


def spec():
    return pipeline(
        pane="10 seconds",
        rollups=["1 minute", "10 minutes"],
        summaries={
            "orders": {"keys": ["driver", ["driver", "area"]], "indicators": ["served", "fare"]},
            "fares": {"kind": "quantiles", "value": "fare", "by": "area"},
            "drivers": {"kind": "distinct", "item": "driver", "by": "area"},
            "waits": {"kind": "quantiles", "value": "wait", "by": "area", "accuracy": "tail"},
            "meters": {"keys": ["area"], "indicators": {"wait": "float64"}},
        },
        queries={},
    )


@pytest.mark.parametrize("minutes", [3, 30])
def test_its_bytes_are_those_of_a_real_ledger_within_30_percent(minutes):
    """Drivers of which some are much more frequent than others, and amounts of another shape."""
    rng = np.random.default_rng(3)
    batches = []
    for minute in range(minutes):
        count = 60 * RATE
        times = START + (60 * minute) * SECOND + np.sort(rng.integers(0, 60 * SECOND, count))
        rank = np.minimum(rng.geometric(1 / 150, count), 500)
        batches.append(
            [
                pa.table(
                    {
                        "time": pa.array(times, pa.timestamp("us", "UTC")),
                        "driver": pa.array([f"taxi {n}" for n in rank]),
                        "area": pa.array([f"area {n}" for n in rng.integers(0, 12, count)]),
                        "served": pa.array(rng.integers(0, 1_000, count)),
                        "fare": pa.array((rng.gamma(2, 200, count)).astype(np.int64)),
                        "wait": pa.array(rng.lognormal(2, 1, count)),
                    }
                )
            ]
        )
    ledger = temporary()
    with run(spec(), batches, ledger), ledger.snapshot() as view:
        held = {name: size for name, (_, size, _, _) in view.sizes().items()}
    said = capacity(spec(), RATE, {"driver": 500, "area": 12, "fare": 1_000}, minutes * 60 * SECOND)
    for name, nbytes in held.items():
        expected = sum(line.nbytes for line in said.lines if line.summary == name)
        assert 0.7 < expected / nbytes < 1.3, (name, expected, nbytes)
    assert 0.7 < said.ledger_bytes / sum(held.values()) < 1.3
    assert 0 < said.fold_seconds < 1


WINDOWS = {
    "tumbling": {"kind": "tumbling", "length": "10 seconds"},
    "sliding": {"kind": "sliding", "length": "1 minute", "every": "10 seconds"},
    "floating": {"kind": "floating", "length": "30 seconds"},
    "crowded": {"kind": "floating", "length": "10 minutes"},
}
QUERIES = {
    "top": "SELECT driver, count FROM tumbling(driver) ORDER BY count DESC LIMIT 3",
    "all": "SELECT * FROM sliding(driver)",
    "share": "SELECT t.driver, t.count / s.count AS share FROM sliding(driver) s "
    "JOIN tumbling(driver) FOR LAST '10 minutes' t ON t.driver = s.driver",
    "middle": "SELECT * FROM quantiles(floating, 0.5, 0.9)",
    "none": "SELECT driver FROM crowded(driver) WHERE count < 0",
    "fails": "SELECT CAST(driver AS INTEGER) AS n FROM crowded(driver)",
}


@pytest.mark.parametrize(("rate", "history"), [(5, None), (5, "10 minutes"), (0.05, None)])
def test_windows_and_trends_are_those_of_a_real_ledger_within_30_percent(tmp_path, rate, history):
    """In the pages of its file."""
    orders = {"keys": ["driver"], "indicators": ["fare"]}
    summaries = {name: {**orders, "window": window} for name, window in WINDOWS.items()}
    floating = {"kind": "quantiles", "value": "fare", "by": "area", "window": WINDOWS["floating"]}
    summaries |= {"floating": floating, "crowded": {**summaries["crowded"], "capacity": 24}}
    kept = {"retention": {"history": history}} if history else {}
    asked = pipeline(pane="10 seconds", summaries=summaries, queries=QUERIES, **kept)
    rng = np.random.default_rng(5)
    minutes = 24 if rate > 1 else 90
    batches = []
    for minute in range(0, minutes, 2):
        count = rng.poisson(120 * rate)
        times = START + 60 * minute * SECOND + np.sort(rng.integers(0, 120 * SECOND, count))
        columns = {
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "driver": pa.array([f"taxi {n}" for n in rng.integers(0, 40, count)], pa.string()),
            "area": pa.array([f"area {n}" for n in rng.integers(0, 12, count)], pa.string()),
            "fare": pa.array(rng.integers(0, 1_000, count)),
        }
        batches.append([pa.table(columns)])
    with run(asked, batches, open_ledger(f"sqlite:///{tmp_path}/orders.db")):
        pass
    with closing(sqlite3.connect(tmp_path / "orders.db")) as file:
        pages = dict(file.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
        names = dict(file.execute("SELECT id, name FROM names"))
        there = dict(file.execute("SELECT summary, count(DISTINCT start) FROM windows GROUP BY 1"))
        there |= dict(file.execute("SELECT query, count(DISTINCT start) FROM trends GROUP BY 1"))
        sizes = dict(file.execute("SELECT query, avg(length(payload)) FROM trends GROUP BY 1"))
    keys = {"driver": 40, "area": 12, "fare": 1_000}
    said = capacity(asked, rate, keys, minutes * 60 * SECOND)
    for number, count in there.items():
        (line,) = [line for line in said.closed if line.name == names[number]]
        assert 0.85 < line.count / count < 1.15, (line, count)
        if number in sizes:
            assert 0.7 < (line.each_bytes - RESULT_BYTES) / PAGES / sizes[number] < 1.3, line
    tables = ("windows", "closings", "trends")
    held = sum(size for name, size in pages.items() if any(table in name for table in tables))
    assert 0.7 < sum(line.nbytes for line in said.closed) / held < 1.3, held
    assert len(said.closed) == len(there) == len(WINDOWS) + len(QUERIES)


@pytest.mark.parametrize("drivers", [100, 1_000, 100_000])
def test_rollups_that_would_take_more_than_a_quarter_are_not_counted(drivers, monkeypatch):
    monkeypatch.setattr("muntin.assembly.maintenance.SHRINK", 4)
    rng = np.random.default_rng(4)
    batches = []
    for minute in range(22):
        count = 60 * RATE
        times = START + 60 * minute * SECOND + np.sort(rng.integers(0, 60 * SECOND, count))
        columns = {name: np.zeros(count, np.int64) for name in ("area", "served", "fare")}
        names = [f"d{n}" for n in rng.integers(0, drivers, count)]
        time = pa.array(times, pa.timestamp("us", "UTC"))
        batches.append([pa.table({"time": time, "driver": names, **columns})])
    orders = {"keys": ["driver"], "indicators": ["fare"]}
    asked = pipeline(rollups=["1 minute", "10 minutes"], summaries={"orders": orders}, queries={})
    with run(asked, batches) as ingest:
        made = [reach.length for reach in ingest.ledger.coverage("orders")]
    said = capacity(asked, RATE, {"driver": drivers, "fare": 1}, 22 * 60 * SECOND)
    assert [line.length_us for line in said.lines] == [asked.pane, *made]
    assert len(made) == {100: 2, 1_000: 2, 100_000: 0}[drivers]


def test_keys_beyond_those_that_are_drawn_count(monkeypatch):
    """Ten million events of a slice are not made to see how many of so many drivers they have."""
    summaries = {
        "orders": {"keys": ["driver", ["driver", "area"]]},
        "limited": {"kind": "quantiles", "value": "fare", "by": "driver", "limit": 50},
        "seen": {"kind": "fingerprint", "key": "driver"},
        "sketch": {"keys": ["driver"], "sketch": {"width": 64, "depth": 2, "track": 9}},
    }
    asked = pipeline(pane="1 minute", rollups=[], summaries=summaries, queries={})
    given = (asked, 1_000, {"driver": 20_000, "area": 2, "fare": 100}, 60 * SECOND)
    found = []
    for most in (60_000, 6_000):
        monkeypatch.setattr("muntin.assembly.capacity.EVENTS_DRAWN_MAX", most)
        found.append(capacity(*given))
    whole, drawn = found
    for expected, said in zip(whole.lines, drawn.lines, strict=True):
        assert 0.7 < said.slice_bytes / expected.slice_bytes < 1.3, said
    for name, expected in whole.window_bytes.items():
        assert 0.7 < drawn.window_bytes[name] / expected < 1.3, name


@pytest.mark.parametrize("drivers", [5, 300, 20_000])
def test_rows_grow_with_the_events_of_their_keys(monkeypatch, drivers):
    """Where a tenth of a slice is drawn, a key's values are not a tenth of what they will be."""
    summaries = {
        "fares": {"kind": "quantiles", "value": "fare", "by": "driver"},
        "tails": {"kind": "quantiles", "value": "fare", "by": "driver", "accuracy": "tail"},
        "items": {"kind": "top_k", "item": "item", "by": "driver"},
        "seen": {"kind": "distinct", "item": "item", "by": "driver", "precision": 8},
    }
    asked = pipeline(pane="1 minute", rollups=[], summaries=summaries, queries={})
    given = (asked, 5_000, {"driver": drivers, "item": 100_000}, 60 * SECOND)
    found = []
    for most in (300_000, 30_000):
        monkeypatch.setattr("muntin.assembly.capacity.EVENTS_DRAWN_MAX", most)
        found.append(capacity(*given))
    whole, drawn = found
    for expected, said in zip(whole.lines, drawn.lines, strict=True):
        most = 2 if said.summary == "items" else 1.3  # whose texts are shared by the keys
        assert 0.7 < said.slice_bytes / expected.slice_bytes < most, (said, expected)
    for name, expected in whole.window_bytes.items():
        assert 0.7 < drawn.window_bytes[name] / expected < 1.3, name


def test_slices_count_that_hold_an_event_and_are_kept():
    """A slice without an event takes nothing; what an open window reads stays."""
    tumbling = {"kind": "tumbling", "length": "10 minutes"}
    summaries = {"o": {"keys": ["area"]}, "w": {"keys": ["area"], "window": tumbling}}
    kept = {"retention": {"panes": "1 minute"}, "rollups": []}
    asked = pipeline(pane="1 second", summaries=summaries, queries={}, **kept)
    assert [line.slices for line in capacity(asked, 1_000, {}, SECOND).lines] == [60, 600]
    assert [line.slices for line in capacity(asked, 0.01, {}, SECOND).lines] == [1, 6]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rate", "10", "--keys", "driver=200"], "ledger:"),
        (["--rate", "10"], "not counted, since the file says its memory: beats\n"),
        (["--rate", "10"], "cores:   less than 0.001 to fold"),
        (["--rate", "10", "--keep", "30 dayz"], "--keep: '30 dayz' is not a duration"),
        (["--rate", "10", "--keys", "driver"], "write for example user=200000"),
        (["--rate", "10", "--keys", "driver=²"], "'driver=²': write for example user=200000"),
        (["--rate", "10", "--keys", "area=1", "--keys", "area=2"], "'area=2': write for example"),
        (["--rate", "10", "--keys", "who=3"], "no summary reads 'who'; they read driver, area"),
    ],
)
def test_the_command(tmp_path, options, message):
    file = tmp_path / "orders.yaml"
    file.write_text(
        "name: orders\ntime: time\npane: 1 minute\nsummaries:\n"
        "  orders: {keys: [driver, area], indicators: [fare]}\n"
        "  beats: {kind: periodic, item: area, gap: 5 s, interval_unit: 1 s, memory: 9 KB, k: 9}\n"
    )
    done = CliRunner().invoke(app, ["capacity", str(file), *options])
    assert message in done.output + str(done.exception)


def test_a_boolean_has_two_values(tmp_path):
    file = tmp_path / "orders.yaml"
    columns = {"at": pa.array([0], pa.timestamp("us")), "paid": [True], "area": ["a"]}
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    file.write_text(
        f"name: orders\nsource: {{format: parquet, path: {tmp_path}/d.parquet}}\ntime: at\n"
        "pane: 1 minute\nsummaries: {orders: {keys: [paid, area]}}\n"
    )
    command = ["capacity", str(file), "--rate", "10"]
    said = CliRunner().invoke(app, command).output
    assert said.endswith("1,000 different values were taken for: area\n")
    (tmp_path / "d.parquet").unlink()
    assert "taken for: paid, area\n" in CliRunner().invoke(app, command).output


def test_the_sample_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("orders.yaml").write_text(
        "name: orders\ntime: time\npane: 1 minute\nsummaries:\n"
        "  orders: {keys: [driver, area], indicators: [fare]}\n"
    )
    words = shlex.split(sample_of("operations.md", "muntin capacity orders.yaml"))
    assert "ledger:" in CliRunner().invoke(app, words[1:]).output
