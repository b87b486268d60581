"""What /state says of a pipeline: the same to all, and whether it still works."""

from __future__ import annotations

import random
import sys
import threading
from dataclasses import replace

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.ledger.temporary import temporary
from muntin.reading.catalog import LedgerCatalog
from muntin.reading.liveness import STALE_US_MIN, Hearing, liveness
from muntin.server import state
from muntin.server.reader import RATE_US, Rates, Reader
from muntin.server.serving import Server
from muntin.spark import pipeline_status
from muntin.spark.ingest import Ingest
from tests.pipeline.support import pipeline

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND


def ago(seconds):
    return NOW - seconds * SECOND


@pytest.mark.parametrize(("committed", "said", "expected", "stale"), [
    (None, None, "unknown", True),
    (ago(1), None, "running", False),
    (ago(1), {"state": "running", "at": ago(1)}, "running", False),
    (ago(60), {"state": "running", "at": ago(2)}, "idle", False),
    (None, {"state": "running", "at": ago(2)}, "idle", False),  # an empty topic
    (ago(60), {"state": "running", "at": ago(60)}, "stale", True),
    (ago(60), None, "stale", True),
    (ago(60), {"state": "finished", "at": ago(60)}, "finished", False),
    (None, {"state": "finished", "at": ago(60)}, "finished", False),  # an empty source
    (ago(2), {"state": "failed", "at": ago(1), "reason": "no column x"}, "failed", True),
    (ago(900), {"state": "failed", "at": ago(600), "reason": "no column x"}, "failed", True),
    (ago(1), {"state": "failed", "at": ago(60), "reason": "no column x"}, "running", False),
    (ago(-9), {"state": "running", "at": ago(-9)}, "running", False),
    (ago(-60), {"state": "running", "at": ago(-60)}, "stale", True),  # the clock went back
    (ago(-900), None, "stale", True),
    (ago(-900), {"state": "running", "at": ago(2)}, "running", False),
    (ago(-900), {"state": "running", "at": ago(60)}, "stale", True),
    (ago(-900), {"state": "failed", "at": ago(60), "reason": "no column x"}, "failed", True),
])  # fmt: skip
def test_liveness(feeder, ledger, committed, said, expected, stale):
    info = replace(ledger.pipelines()[0], committed_at=committed)
    found = liveness(info, said, trigger_us=SECOND, now_us=NOW)
    assert (found.state, found.stale) == (expected, stale)
    assert found.state in ("unknown", "running", "idle", "stale", "failed", "finished")
    assert found.reason == (said["reason"] if expected == "failed" else "")


def test_a_long_trigger_is_not_stale_before_three(feeder, ledger):
    info = replace(ledger.pipelines()[0], committed_at=ago(60))
    assert liveness(info, None, trigger_us=30 * SECOND, now_us=NOW).state == "running"
    assert liveness(info, None, trigger_us=19 * SECOND, now_us=NOW).state == "stale"


@pytest.mark.parametrize("ahead", [0, 9, 60, 3600])
def test_a_clock_that_is_ahead_is_told_from_one_that_was_set_back(feeder, ledger, ahead):
    info = replace(ledger.pipelines()[0], committed_at=ago(900))
    hearing = Hearing()

    def heard(now, said):
        status = {"state": "running", "at": NOW + (said + ahead) * SECOND}
        return hearing.of(info, status, SECOND, NOW + now * SECOND).stale

    assert heard(0, 0) == (ahead > 10)  # it may have said so before the clock was set back
    assert not any(heard(5 * beat + 2, 5 * beat) for beat in range(1, 20))
    assert not heard(105, 95)
    assert heard(110, 95)  # silence tells
    assert not heard(300, 299)


def test_a_sign_of_life_is_read_and_makes_nothing_anew(feeder, ledger, monkeypatch):
    now = [ledger.pipelines()[0].committed_at + 600 * SECOND]
    catalog = LedgerCatalog(ledger, clock=lambda: now[0])
    with catalog.moment() as moment:
        before = moment.snapshot
        (known,) = before.pipelines.values()
        assert moment.stale(known)
    version = ledger.version()
    monkeypatch.setattr(pipeline_status, "BEAT_SECONDS", 0)
    feeder.ingest.status.beat()
    now[0] = ledger.status(known.info.name)["at"] + SECOND
    assert ledger.version() == version
    with catalog.moment() as moment:
        assert moment.snapshot is before
        assert not moment.stale(known)


def test_a_pipeline_that_failed_says_so(feeder, ledger, server, monkeypatch):
    monkeypatch.setattr(pipeline_status, "BEAT_SECONDS", 1e9)  # or it may say that it is well

    def said():
        return httpx.get(server.url + "/state").json()["pipelines"][0]

    def stale():
        body = {"select": f"SELECT count, {random.random()} AS x FROM orders FOR ALL"}  # noqa: S608
        return httpx.post(server.url + "/query", json=body).json()["stale"]

    assert (said()["state"], said()["stale"], said()["reason"]) == ("running", False, "")
    assert stale() is False
    writer, at = feeder.ingest.writer, ledger.pipelines()[0].committed_at + 1
    writer.set_status({"state": "running", "at": at, "not_taken_over": "there is no delai"})
    assert (said()["state"], said()["not_taken_over"]) == ("running", "there is no delai")
    writer.set_status({"state": "failed", "at": at, "reason": "there is no column 'delai'"})
    assert (said()["state"], said()["stale"]) == ("failed", True)
    assert said()["reason"] == "there is no column 'delai'"
    assert stale() is True
    health = httpx.get(server.url + "/healthz")
    assert health.status_code == 200  # the server itself is well
    assert health.json() == {"pipelines": {"failed": 1}, "status": "degraded"}
    feeder.minute()  # it was started anew
    assert (said()["state"], said()["not_taken_over"]) == ("running", "")


def test_the_lag_of_a_topic_is_in_state_and_metrics(feeder, ledger, server, monkeypatch):
    monkeypatch.setattr(pipeline_status, "BEAT_SECONDS", 1e9)
    at = ledger.pipelines()[0].committed_at + 1
    lag = {"orders": {"0": 12, "1": 0}}
    feeder.ingest.writer.set_status({"state": "running", "at": at, "lag": lag})
    assert httpx.get(server.url + "/state").json()["pipelines"][0]["lag"] == lag
    name = feeder.ingest.pipeline.name
    line = f'muntin_lag_records{{partition="0",pipeline="{name}",topic="orders"}} 12.0'
    assert line in httpx.get(server.url + "/metrics").text


def test_all_see_one_rate(feeder, ledger):
    reader = Reader(ledger)
    found = []
    for _ in range(3):
        feeder.minute()
        now = ledger.pipelines()[0].committed_at
        # each looks at another time
        states = [state.read(reader, now + 7_000 * number) for number in range(3)]
        found += [one["pipelines"][0]["events_per_second"] for one in states]
    assert found[:3] == [None] * 3
    assert found[3] > 0
    assert found[3:6] == found[3:4] * 3
    assert found[6:] == found[6:7] * 3
    reader.engine.close()


@given(
    st.lists(
        st.tuples(st.integers(1, 30 * SECOND), st.integers(0, 9_999)), min_size=2, max_size=20
    ),
    st.randoms(),
)
def test_the_rate_is_that_of_the_commits(commits, rng):
    """Each commit is seen by somebody, some of them late: the newest span of ten seconds counts."""
    rates, at, read, seen = Rates(), NOW, 0, []
    for wait, events in commits:
        at, read = at + wait, read + events
        seen.append((at, read))
        found = rates.of("p", at, read, at)
        for late_at, late_read in rng.sample(seen, min(2, len(seen))):
            assert rates.of("p", late_at, late_read, at) == found
    begin, before = next(
        (seen[i] for i in range(len(seen) - 2, -1, -1) if seen[i][0] <= at - RATE_US), seen[0]
    )
    assert found == round((read - before) / (at - begin) * SECOND, 1)
    quiet = max(RATE_US, 30 * 3 * SECOND) + 1
    assert rates.of("p", at, read, at + quiet) == 0.0


def test_a_pipeline_that_begins_anew_has_no_old_rate():
    rates = Rates()
    rates.of("p", NOW, 1_000, NOW)
    assert rates.of("p", NOW + SECOND, 2_000, NOW + SECOND) == 1_000.0
    assert rates.of("q", NOW, 1, NOW) is None
    assert rates.of("p", NOW + 2 * SECOND, 10, NOW + 2 * SECOND) is None  # begun anew
    assert rates.of("p", NOW + 3 * SECOND, 20, NOW + 3 * SECOND) == 10.0
    assert rates.of("p", NOW - 60 * SECOND, 30, NOW - 60 * SECOND) is None  # the clock went back
    assert rates.of("p", None, 0, NOW) is None


def test_threads_that_look_at_once_see_the_same():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            rates, found, start = Rates(), [], threading.Barrier(4)
            for number in range(3):
                rates.of("p", NOW + number, 100 * number, NOW)

            def look(rates=rates, found=found, start=start):
                start.wait()
                found.append(rates.of("p", NOW + 60 * SECOND, 9_000, NOW + 60 * SECOND))

            threads = [threading.Thread(target=look) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert found == [round(8_800 / (60 * SECOND - 2) * SECOND, 1)] * 4
    finally:
        sys.setswitchinterval(interval)


def test_limits_agree():
    assert STALE_US_MIN == RATE_US  # where nothing comes, the rate is 0 when it is called idle


def test_batches_that_were_accepted_as_missing_are_said():
    ledger = temporary()
    Ingest(pipeline(), ledger, query_id="q", mode="append", begins=3).close()
    with Server(ledger, port=0) as server:
        (shown,) = httpx.get(f"{server.url}/state").json()["pipelines"]
        metrics = httpx.get(f"{server.url}/metrics").text
    assert shown["missing_batches"] == 3
    assert 'muntin_missing_batches_total{pipeline="orders"} 3.0' in metrics
    ledger.close()
