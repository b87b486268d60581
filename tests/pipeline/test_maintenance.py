"""Rollups are made whatever a pane's pieces have become since it was last read."""

from __future__ import annotations

import pytest

from muntin.spark.partials import PARTIAL, PROVISIONAL, unpacked
from tests.pipeline.support import SECOND, START, events, gather, pipeline, run

MINUTE = 60 * SECOND


@pytest.fixture(params=["provisional", "final"])
def taken(request):
    """Gathers a batch; as workers send large summaries (to be packed later), or small ones."""

    def large(row):
        what, name, pane, events, payload = row
        return (PROVISIONAL, name, pane, events, unpacked(payload)) if what == PARTIAL else row

    def gathers(partitions):
        small = gather(partitions)
        return lambda plan: [large(row) for row in small(plan)]

    return gathers if request.param == "provisional" else gather


def test_rollups_follow_panes_that_were_compacted_after_they_were_read(taken):
    """Closing windows reads a pane, then it becomes another piece of as many events."""
    spec = pipeline(rollups=["1 minute", "1 hour"])
    batches = [[events([(at, "d1", 1, 1, 5), (at + 5, "d2", 1, 1, 7)])] for at in range(0, 600, 10)]
    with run(spec, []) as ingest:
        for number, partitions in enumerate(batches):
            ingest.take(number, taken(partitions))
        (minutes, *_) = ingest.ledger.coverage("orders")
        first = START // MINUTE * MINUTE
        sealed = (START + 595 * SECOND - spec.lateness) // MINUTE * MINUTE
        assert (minutes.length, minutes.start, minutes.until) == (MINUTE, first, sealed)
        assert not minutes.dirty
        rolled = ingest.ledger.spans("orders", MINUTE)
        assert sum(n for _, n, _ in rolled) == sum(
            n for start, n, _ in ingest.ledger.spans("orders", spec.pane) if start < sealed
        )


def test_a_rollup_that_is_refused_stops_no_pipeline_and_is_made_later(taken, monkeypatch):
    spec = pipeline(rollups=["1 minute"])
    batches = [[events([(at, "d1", 1, 1, 5)])] for at in range(0, 600, 10)]
    with run(spec, []) as ingest:
        make, refused = ingest.writer.roll_up, []

        def refuses(summary, length, start, *rest, **more):
            if len(refused) < 9:
                refused.append(start)
                return False
            return make(summary, length, start, *rest, **more)

        monkeypatch.setattr(ingest.writer, "roll_up", refuses)
        for number, partitions in enumerate(batches):
            ingest.take(number, taken(partitions))
        (minutes,) = ingest.ledger.coverage("orders")
        assert len(set(refused)) == 1
        assert minutes.start == refused[0]
        assert minutes.until == (START + 590 * SECOND - spec.lateness) // MINUTE * MINUTE
