"""Clients' commands: answered also after one that could not be obeyed."""

import threading
from contextlib import suppress
from unittest import mock

import pytest

from muntin.errors import LedgerError
from muntin.ledger.temporary import temporary
from muntin.spark.ingest import Ingest
from muntin.spark.running import RunningPipeline
from muntin.spark.sink_stream import SinkStream
from tests.pipeline.support import (
    SECOND,
    START,
    events,
    gather,
    pipeline,
    run,
    said_once_stopped,
)
from tests.server.conftest import until

ROWS = [(second, "a", 1, 1, 1) for second in range(0, 45, 5)]


@pytest.fixture
def working():
    with run(pipeline(), [[events(ROWS)]], temporary()) as ingest:
        yield ingest


def answered(ingest, action):
    asked = ingest.ledger.ask("orders", action, {})
    return until(lambda: ingest.ledger.command(asked.id).answer)


@pytest.mark.parametrize(("asked", "seconds"), [
    ("slow_down slow_down slow_down", 120), ("slow_down resume slow_down", 120),
    ("slow_down slow_down resume", 60),
])  # fmt: skip
def test_what_is_asked_again_while_nobody_answers_is_obeyed_once(asked, seconds):
    ledger = temporary()
    with run(pipeline(), [[events(ROWS)]], ledger):
        pass
    waiting = [ledger.ask("orders", action, {}).id for action in asked.split()]
    with run(pipeline(), [], ledger):
        assert until(lambda: not ledger.commands("orders"))
    found = [ledger.command(each).answer["orders"] for each in waiting]
    assert all(each["done"] for each in found)
    assert found[-1]["length_us"] == seconds * 1_000_000


def test_a_query_by_spark_connect_that_has_ended_is_asked_nothing(working):
    stream = SinkStream.__new__(SinkStream)
    stream._pipeline, stream._opened = working.pipeline, working.ledger
    stream.query = mock.Mock(isActive=False)
    assert stream.slow_down() == {"done": False, "why": "the query has ended"}
    assert not working.ledger.commands("orders", waiting=False)


def test_who_stops_a_query_by_spark_connect_that_another_awaits_has_its_last_word(monkeypatch):
    stream = SinkStream.__new__(SinkStream)
    RunningPipeline.__init__(stream, pipeline(), once=False)
    stream._opened = temporary()
    stream.query = mock.Mock(id="q", runId="r", **{"exception.return_value": None})
    assert said_once_stopped(stream, monkeypatch) == "finished"


def test_an_unknown_action_is_answered(working):
    assert "unknown action" in answered(working, "dance")["why"]


def test_commands_are_obeyed_again_once_the_ledger_takes_them(working):
    """A file that another process holds for long, or a full disk, is over some time."""
    tries = []
    store = working._assembler._store

    def failing(*arguments):
        tries.append(arguments)
        if len(tries) < 3:
            raise LedgerError("another process held the ledger for more than 10 seconds")
        store(*arguments)

    working._assembler._store = failing
    asked = working.ledger.ask("orders", "slow_down", {})
    answer = until(lambda: working.ledger.command(asked.id).answer)
    assert len(tries) == 3
    assert answer["orders"] == {"done": True, "length_us": 120_000_000}  # doubled once


def test_an_answer_that_is_lost_is_stored_again_and_what_was_obeyed_stays(working):
    """A store has taken what was done, and the connection broke before it said so."""
    store, lost = working.writer.close_windows, []

    def close_windows(*arguments):
        store(*arguments)
        if not lost:
            lost.append(1)
            raise LedgerError("the store does not answer")

    working.writer.close_windows = close_windows
    asked = {"done": True, "length_us": 120_000_000}
    assert answered(working, "slow_down")["orders"] == asked
    working.take(1, gather([events(ROWS)]))
    assert working.ledger.assembler("orders")["orders"]["window"]["factor"] == 2
    assert answered(working, "slow_down")["orders"]["length_us"] == 240_000_000


@pytest.mark.parametrize("fails", ["close_windows", "answer"])
def test_what_fails_while_a_command_is_obeyed_makes_it_no_second_one(working, fails):
    real, failed = getattr(working.writer, fails), []

    def failing(*arguments):
        if not failed:
            failed.append(1)
            raise LedgerError("the disk is full")
        real(*arguments)

    setattr(working.writer, fails, failing)
    done = {"done": True, "length_us": 120_000_000}
    assert answered(working, "slow_down")["orders"] == done


def test_a_command_that_waits_for_a_long_batch_stops_no_sign_of_life(working, monkeypatch):
    monkeypatch.setattr("muntin.spark.ingest.TURN_SECONDS", 0.05, raising=False)
    monkeypatch.setattr("muntin.spark.pipeline_status.BEAT_SECONDS", 0.1)
    with working._lock:  # as a batch does
        asked = working.ledger.ask("orders", "slow_down", {})
        before = working.ledger.status("orders")["at"]
        until(lambda: working.ledger.status("orders")["at"] > before + 900_000)
        assert working.ledger.command(asked.id).answer is None
    assert until(lambda: working.ledger.command(asked.id).answer)["orders"]["done"]


def test_a_sign_of_life_that_comes_late_does_not_take_the_last_word_back(working, monkeypatch):
    """Spark may take its time to tell what waits in the source, and the pipeline end meanwhile."""
    working.take(1, gather([events(ROWS)]))
    working._stopped.set()
    working._answering.join()
    monkeypatch.setattr("muntin.spark.pipeline_status.BEAT_SECONDS", 0)
    asked, go_on = threading.Event(), threading.Event()

    def of_source():
        if threading.current_thread() is beating:
            asked.set()
            assert go_on.wait(60)
        return {}

    working._of_source = of_source
    beating = threading.Thread(target=working.status.beat)
    beating.start()
    assert asked.wait(60)
    working.finish(ended=True)
    go_on.set()
    beating.join()
    assert working.ledger.status("orders")["state"] == "finished"


def floating(*, beside=(), **entries):
    window = {"kind": "floating", "length": "1 minute"} | entries
    summary = {"keys": ["driver"], "indicators": ["served"], "capacity": 6, "window": window}
    return pipeline(summaries={"orders": summary}, queries={}, **dict(beside))


def ten_drivers(begin, end):
    return gather([events([(s, "abcdefghij"[s % 10], 1, 1, 1) for s in range(begin, end)])])


def test_a_command_after_windows_that_could_not_be_stored_passes_none_over():
    """It waits for the next process, which closes them as they would have."""
    ledger = temporary()
    ingest = Ingest(floating(), ledger, query_id="q")
    store = ingest.writer.close_windows

    def close_windows(windows, *others):
        if windows:
            raise LedgerError("full")
        store(windows, *others)

    with (
        mock.patch.object(ingest.writer, "close_windows", close_windows),
        pytest.raises(LedgerError, match="full"),
    ):
        ingest.take(0, ten_drivers(0, 100))
    with suppress(LedgerError):
        ingest.command("resume")
        ingest.command("slow_down")
    ingest.close()
    again = Ingest(floating(), ledger, query_id="q")
    again.take(1, ten_drivers(100, 101))
    again.close()
    found = ledger.windows("orders")
    assert {(w.reason, w.end - w.start) for w in found} == {("capacity", 10 * SECOND)}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_window_is_judged_by_what_it_might_hold(restarted):
    """It took ten drivers while it was slowed down to twelve: it did not overflow."""
    ledger = temporary()
    ingest = Ingest(floating(), ledger, query_id="q")
    ingest.command("slow_down")
    ingest.take(0, ten_drivers(0, 90))
    assert ingest.command("resume")["orders"] == {"done": True, "length_us": 60_000_000}
    if restarted:
        ingest.close()
        ingest = Ingest(floating(), ledger, query_id="q")
    ingest.take(1, ten_drivers(90, 200))
    ingest.close()
    resumed, *others = ledger.windows("orders")
    assert (resumed.fill["driver"], resumed.overflowed) == (10, False)
    assert others
    assert all(window.overflowed for window in others)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_window_ends_with_the_last_pane_that_it_holds_whatever_rollups_hold_it(restarted):
    spec = floating(beside={"retention": {"panes": "10 minutes"}, "rollups": ["1 minute"]})
    ledger = temporary()
    ingest = Ingest(spec, ledger, query_id="q")
    for _ in range(2):
        ingest.command("slow_down")
    ingest.take(0, ten_drivers(0, 80))
    ingest.take(1, ten_drivers(160, 161))
    assert ledger.coverage("orders")[0].until == START + 100 * SECOND
    ingest.command("resume")
    if restarted:
        ingest.close()
        ingest = Ingest(spec, ledger, query_id="q")
    ingest.take(2, ten_drivers(200, 201))
    ingest.close()
    assert ledger.windows("orders")[0].end == START + 80 * SECOND


def test_a_limit_that_was_lowered_lowers_the_capacity_as_well():
    ledger = temporary()
    ingest = Ingest(floating(), ledger, query_id="q")
    for _ in range(3):
        ingest.command("slow_down")
    ingest.take(0, ten_drivers(0, 60))
    ingest.close()
    lowered = Ingest(floating(limit="1 minute"), ledger, query_id="q")
    lowered.take(1, ten_drivers(60, 200))
    lowered.close()
    first, *others = ledger.windows("orders")
    assert (first.fill["driver"], first.overflowed) == (10, False)
    assert all(window.overflowed for window in others)


def test_where_no_window_floats_that_is_said():
    plain = {"orders": {"keys": ["driver"], "indicators": ["served"]}}
    with run(pipeline(summaries=plain, queries={}), []) as ingest:
        said = {"done": False, "why": "its windows do not float"}
        assert ingest.command("slow_down") == {"orders": said}


def test_how_long_the_open_window_is_now_is_said_where_nothing_comes(working):
    opened = working.ledger.status("orders")["open"]["orders"]
    answered(working, "slow_down")
    until(lambda: working.ledger.status("orders")["open"]["orders"] != opened)
    slowed = working.ledger.status("orders")["open"]["orders"]
    assert slowed == opened | {"end": opened["start"] + 120_000_000}
