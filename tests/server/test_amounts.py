"""What /history and /catalogue say, beside what was put in."""

from __future__ import annotations

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muntin.ledger.temporary import temporary
from muntin.reading.amounts import events_over_time
from tests.pipeline.support import SECOND, START, events, pipeline, run


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=15)
@given(
    st.lists(st.lists(st.integers(0, 20_000), min_size=1, max_size=20), min_size=1, max_size=4),
    st.tuples(st.integers(0, 20_000), st.integers(0, 20_000)),
)
def test_each_event_stands_in_its_point_once(batches, span):
    """Whatever lies in panes, and whatever in rollups."""
    spec = pipeline(rollups=["1 minute", "10 minutes", "1 hour"])
    ledger = temporary()
    taken = [[events([(s, "a", 0, 1, 1) for s in seconds])] for seconds in batches]
    with run(spec, taken, ledger):
        for start, end in ((None, None), [START + s * SECOND for s in sorted(span)]):
            found = events_over_time(ledger, spec, start, end)
            width = found["width_us"]
            low = -(2**62) if start is None else start // width * width
            high = 2**62 if end is None else -(-end // width) * width
            expected: dict[int, int] = {}
            for at in (START + s * SECOND for seconds in batches for s in seconds):
                if low <= at < high:
                    expected[at // width * width] = expected.get(at // width * width, 0) + 1
            assert dict(found["points"]) == expected
            assert len(found["points"]) <= 302


def test_what_is_stored_is_listed_with_its_bytes(server, ledger):
    (stored,) = httpx.get(f"{server.url}/catalogue").json()["summaries"]
    pieces = [
        p for length in (10 * SECOND, *pipeline().rungs) for p in ledger.pieces("orders", length)
    ]
    assert stored["pieces"] == len(pieces)
    assert stored["bytes"] >= sum(piece.nbytes for piece in pieces) > 0
    # a rollup may begin before the first event that is in it, long before where it is a week
    assert min(p.start for p in pieces) < START
    assert (stored["from"], stored["to"]) == (START, max(p.until for p in pieces))
    said = httpx.get(f"{server.url}/history", params={"pipeline": "orders"}).json()
    assert sum(count for _, count in said["points"]) == ledger.pipelines()[0].counted
    refused = httpx.get(f"{server.url}/history", params={"pipeline": "none"})
    assert refused.status_code == 400
    assert "there is no pipeline 'none'" in refused.text
