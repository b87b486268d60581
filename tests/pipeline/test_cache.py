"""What is kept of a ledger's pieces: as many bytes as it says, and no longer than it is wanted."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from muntin.reading.pieces import KEPT_SECONDS, SegmentCache
from muntin.segments import decode, encode
from muntin.spec import Pipeline

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
    data, allowed = payload(name, rows), 2_000_000
    cache, pool = SegmentCache(allowed), pa.default_memory_pool()
    decode(data)
    before = pool.bytes_allocated()
    tracemalloc.start()
    for number in range(3 * allowed // (4000 + len(data))):
        segment = decode(data)
        cache.put(number, segment, segment)
    taken = tracemalloc.get_traced_memory()[0] + pool.bytes_allocated() - before
    tracemalloc.stop()
    assert allowed / 2 < taken < allowed * 1.3


def test_what_nobody_asks_for_goes():
    now = 0.0
    cache = SegmentCache(clock=lambda: now)
    segment = decode(payload("fares", 3))
    for name in "abc":
        cache.put(name, segment, segment)
    now = KEPT_SECONDS
    assert cache.get("b") is segment
    now += 1
    cache.put("d", None, None)
    assert [cache.get(name) for name in "abcd"] == [None, segment, None, None]
    assert len(cache._entries) == 2
