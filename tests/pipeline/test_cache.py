"""What is kept in memory: as many bytes as it says, and no longer than it is wanted."""

import contextlib
import gc
import inspect
import itertools
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from muntin.ledger import open_ledger
from muntin.reading.catalog import LedgerCatalog
from muntin.reading.pieces import KEPT_SECONDS, SegmentCache, memory_of_entry
from muntin.reading.snapshot import Snapshot
from muntin.segments import decode, encode
from muntin.select.catalog import ForClause
from muntin.select.tables import TableCache
from muntin.spark.ingest import Ingest
from muntin.spec import Pipeline
from tests.pipeline.support import SECOND, START, events, gather, pipeline, run

SUMMARIES = {
    "orders": {"keys": ["driver", "area"], "indicators": ["fare"]},
    "fares": {"kind": "quantiles", "value": "fare", "by": "driver"},
    "busy": {"kind": "top_k", "item": "driver", "capacity": 100},
}
SPEC = Pipeline.of({"name": "p", "time": "time", "pane": "1 minute", "summaries": SUMMARIES})


def payload(name, rows):
    columns = {"driver": [f"driver {i}" for i in range(rows)], "area": ["a"] * rows}
    batch = pa.record_batch({**columns, "fare": list(range(rows))})
    return encode(SPEC.summaries[name].segment(batch, np.zeros(rows, np.int64)))


@pytest.mark.parametrize("rows", [3, 1000])
@pytest.mark.parametrize("name", SUMMARIES)
def test_small_segments_take_no_more_than_was_allowed(name, rows):
    data, allowed = payload(name, rows), 500_000 if rows == 3 else 2_000_000
    cache, pool = SegmentCache(allowed), pa.default_memory_pool()
    decode(data)
    gc.collect()  # what others' tests in this process have left would be let go meanwhile
    before = pool.bytes_allocated()
    tracemalloc.start()
    put = 0
    for number in itertools.count():
        segment = decode(data)
        cache.put(number, segment, memory_of_entry(segment))
        put += memory_of_entry(segment)
        if put > 2 * allowed:
            break
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] + pool.bytes_allocated() - before
    tracemalloc.stop()
    assert allowed / 2 < taken < allowed * 1.3


@pytest.mark.parametrize("rows", [3, 1000, 20_000])
def test_one_key_of_several_holds_nothing_of_the_others(rows):
    data, pool = payload("orders", rows), pa.default_memory_pool()
    said = memory_of_entry(decode(data, (("area",),)))
    before = pool.bytes_allocated()
    tracemalloc.start()
    some = [decode(data, (("area",),)) for _ in range(20)]
    taken = tracemalloc.get_traced_memory()[0] + pool.bytes_allocated() - before
    tracemalloc.stop()
    assert taken < len(some) * said * 1.3


def test_windows_of_one_version_take_no_more_than_was_allowed(tmp_path):
    """Nothing comes any more, and all windows are looked at."""
    ledger, allowed = open_ledger(f"sqlite:///{tmp_path}/ledger.db"), 1_000_000
    batches = [[events([(10 * b, str(i), i, 1, i) for i in range(1000)])] for b in range(10)]
    with run(pipeline(queries={}), batches, ledger):
        catalog, pool = LedgerCatalog(ledger, cache_bytes=allowed), pa.default_memory_pool()
        with LedgerCatalog(ledger).moment() as moment:  # kernels that it compiles stay in memory
            moment.load("orders", ForClause("range", start_us=START, end_us=START + 20 * SECOND))
        gc.collect()
        before = pool.bytes_allocated()
        tracemalloc.start()
        for first, last in itertools.combinations(range(11), 2):
            start, end = (START + 10 * n * SECOND for n in (first, last))
            with catalog.moment() as moment:
                moment.load("orders", ForClause("range", start_us=start, end_us=end))
        taken = tracemalloc.get_traced_memory()[0] + pool.bytes_allocated() - before
        tracemalloc.stop()
    ledger.close()
    assert allowed / 4 < taken < allowed * 1.3  # what both hold counts twice


def test_what_nobody_asks_for_goes():
    now = 0.0
    cache = SegmentCache()
    cache._clock = lambda: now
    segment = decode(payload("fares", 3))
    for name in "abc":
        cache.put(name, segment, memory_of_entry(segment))
    now = KEPT_SECONDS
    assert cache.get("b") is segment
    now += 1
    cache.put("d", None, memory_of_entry(None))
    assert [cache.get(name) for name in "abcd"] == [None, segment, None, None]
    assert len(cache._entries) == 2


def test_tables_that_nobody_asks_for_go():
    now = 0.0
    cache = TableCache(1_000_000, 600.0, clock=lambda: now)
    table = pa.table({"n": [1, 2, 3]})
    other = pa.table({"n": [4, 5, 6]})
    assert all(cache.made(name, 1, lambda: (table, True)) is table for name in "abc")
    now = 600.0
    assert cache.made("b", 1, lambda: (other, True)) is table
    now += 1
    cache.made("d", 1, lambda: (table, True))
    assert list(cache._entries) == ["b", "d"]
    assert cache._bytes == 2 * table.nbytes
    assert cache.made("b", 2, lambda: (other, True)) is other  # the last version's goes
    assert cache.made("d", None, lambda: (other, True)) is other
    assert cache._bytes == other.nbytes + table.nbytes


@pytest.mark.slow  # the longest of those without Spark, by far
def test_a_pipeline_keeps_nothing_of_batches_that_are_behind_its_retention(tmp_path):
    """In a process of its own: others' tests in this one let go of things, and take them."""
    asked = "import sys; from tests.pipeline import test_cache as it; print(it.grown(sys.argv[1]))"
    command = [sys.executable, "-c", asked, str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # some hundreds come and go; three that stay of each of 300 batches are more
    assert int(done.stdout) < 900


def grown(folder):
    """By how many blocks of memory a pipeline has, over some hundreds of batches. Windows close,
    are revised and asked by standing queries; pieces and alarms come and go."""
    window = {"kind": "tumbling", "length": "1 minute"}
    spec = pipeline(
        summaries={"orders": {"keys": ["driver"], "indicators": ["fare"], "window": window}},
        queries={
            "busiest": "SELECT driver, count FROM orders(driver) ORDER BY driver",
            "alarm": {
                "select": "SELECT max(count) AS most FROM orders(driver) FOR LAST '1 minute'",
                "on": "update",
                "alert": {"when": "most > 1000"},
            },
        },
        retention={"panes": "5 minutes", "rollups": "10 minutes", "history": "10 minutes"},
    )
    ledger = open_ledger(f"sqlite:///{folder}/ledger.db")
    ingest = Ingest(spec, ledger, query_id="q")
    ingest._cache._kept_seconds = 0.0  # what caches keep, they keep for a time

    def blocks_after(first, last):
        for number in range(first, last):
            seconds = 5 * number
            rows = [(seconds + i / 10, "abcdef"[i % 6], i % 3, 1, i) for i in range(20)]
            rows += [(max(0, seconds - 130), "late", 1, 1, number)] * (number % 6 == 0)
            ingest.take(number, gather([events(rows)]))
        gc.collect()
        return sys.getallocatedblocks()

    blocks_after(0, 240)
    # some hundreds come and go with windows and pieces
    blocks = [blocks_after(first, first + 60) for first in range(240, 960, 60)]
    assert any(window.revision for window in ledger.windows())
    ingest.close()
    ledger.close()
    return min(blocks[-4:]) - max(blocks[:4])


def test_whoever_is_interrupted_where_it_may_be_leaves_nobody_waiting():
    """As Ctrl-C in a notebook does: before each line, but where a lock is taken or given back."""
    code = Snapshot.once.__code__
    lines, first = inspect.getsourcelines(Snapshot.once)
    for number, line in enumerate(lines, first):
        if line.strip().startswith("with "):
            continue
        snapshot = Snapshot((0, 0), {}, 1 << 10)

        def interrupt(frame, event, _, number=number):
            if event == "line" and frame.f_lineno == number:
                raise KeyboardInterrupt
            return interrupt if frame.f_code is code else None

        def ask(what, snapshot=snapshot):
            return snapshot.once("made", lambda: what, lambda _: 8)

        tracing = sys.gettrace()
        with contextlib.suppress(KeyboardInterrupt):
            try:
                sys.settrace(interrupt)
                ask(1)
            finally:
                sys.settrace(tracing)
        made: list[int] = []
        asking = threading.Thread(
            target=lambda made=made, ask=ask: made.append(ask(2)), daemon=True
        )
        asking.start()
        asking.join(60)
        assert made in ([1], [2]), line
