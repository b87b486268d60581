"""The contract, clause by clause, over every ledger."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from ledger_helpers import (
    PANE,
    SPEC,
    batch,
    compacted,
    gather,
    held,
    made_of,
    partial,
    partial_of,
    roll,
)  # fmt: skip

from muntin.errors import BadArgument, LedgerConflict, LedgerError, UnknownName
from muntin.ledger import (
    Batch,
    ClosedWindow,
    Coverage,
    Made,
    Partial,
    Rejected,
    Slices,
    State,
    TrendPoint,
)
from muntin.ledger import records as limits


def window(start, revision=0, *, summary="s", end=None, **more):
    fields = {"reason": "full", "overflowed": False, "events": 1, "late": 0, "fill": {"k": 1}}
    return ClosedWindow(
        summary, start, end or start + 100, revision=revision, **(fields | {"closed_at": 7} | more)
    )


# Commit


def test_a_batch_is_stored_whole(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    version = ledger.version()
    first = Batch(
        "A",
        0,
        [partial("s", 0, [1, 2]), partial("t", 0, [1, 2]), partial("s", 20, [3])],
        [State("t", 0, b"zero"), State("t", 5, b"five")],
        [Rejected("no_time", "column t is null", "file:1", b"{}")],
        read=4,
        counted=3,
        rejected_count=1,
        max_event_time=25,
        watermark=5,
    )
    assert writer.commit(first) is True
    assert ledger.version() > version
    assert held(ledger, "s", PANE, 0, 100) == {1: 1, 2: 1, 3: 1}
    assert held(ledger, "t", PANE, 0, 100) == {1: 1, 2: 1}
    assert ledger.states("t") == {0: b"zero", 5: b"five"}
    assert ledger.states("s") == {}
    assert list(ledger.rejected("p")) == [(1, first.rejected[0])]
    (info,) = ledger.pipelines()
    assert (info.name, info.spec, info.epoch, info.query_id) == ("p", SPEC, writer.epoch, "A")
    assert (info.watermark, info.max_event_time, info.batches) == (5, 25, 1)
    assert (info.read, info.counted, info.late, info.rejected) == (4, 3, 0, 1)
    assert info.committed_at is not None
    for newest in (writer.last_batch, lambda query: ledger.last_batch("p", query)):
        assert (newest("A"), newest("B")) == (0, None)
    assert ledger.last_batch("q", "A") is None
    assert ledger.verify() == []


def test_a_replayed_batch_changes_nothing(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    for number in range(3):
        writer.commit(batch(number, partial("s", 0, [number])))
    before = ledger.version(), ledger.pipelines(), ledger.pieces("s", PANE, 0, 100)
    for number in (2, 0, 1):
        assert writer.commit(batch(number, partial("s", 0, [77]))) is False
    assert (ledger.version(), ledger.pipelines(), ledger.pieces("s", PANE, 0, 100)) == before


def test_states_are_replaced_per_shard(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(Batch("A", 0, states=[State("t", 0, b"a"), State("t", 1, b"b" * 5000)]))
    writer.commit(Batch("A", 1, states=[State("t", 0, b"c")]))
    assert ledger.states("t") == {0: b"c", 1: b"b" * 5000}


def test_readers_see_states(ledger, reopen):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(Batch("A", 0, states=[State("t", 3, b"a"), State("t", 1, b"b")]))
    assert ledger.states("t") == {1: b"b", 3: b"a"}
    assert list(ledger.states("t")) == [1, 3]
    assert ledger.states("s") == ledger.states("no such summary") == {}
    with ledger.snapshot() as view:
        before = view.states("t")
        writer.commit(Batch("A", 1, states=[State("t", 1, b"c")]))
        assert view.states("t") == before == {1: b"b", 3: b"a"}
    assert reopen().states("t") == {1: b"c", 3: b"a"}
    ledger.open_writer("p", SPEC, query_id="B", mode="overwrite")
    assert ledger.states("t") == {}


def test_late_events_that_are_in_no_partial(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [1]), watermark=20))
    writer.commit(Batch("A", 1, read=5, counted=5, late=3))
    assert ledger.pipelines()[0].late == 3
    writer.commit(Batch("A", 2, [partial("s", 0, [2, 3])], read=4, counted=4, late=1))
    assert ledger.pipelines()[0].late == 5  # the same events, counted by both
    with pytest.raises(BadArgument, match="3 events are late of 2 counted"):
        writer.commit(Batch("A", 3, read=2, counted=2, late=3))


def test_watermark_and_newest_time_never_go_back(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(Batch("A", 0, watermark=50, max_event_time=80))
    writer.commit(Batch("A", 1, watermark=40, max_event_time=70))
    writer.commit(Batch("A", 2))
    (info,) = ledger.pipelines()
    assert (info.watermark, info.max_event_time) == (50, 80)


def test_late_is_judged_by_the_watermark_before_the_batch(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [1]), watermark=20))
    writer.commit(
        batch(
            1,
            partial("s", 0, [2, 3]),  # pane ends at 10: late
            partial("s", 10, [4]),  # ends at 20, at the watermark: late
            partial("s", 20, [5]),
            partial("t", 0, [2]),
            partial("t", 10, [4]),
            watermark=1000,
        )
    )
    assert [p.late for p in ledger.pieces("s", PANE, 0, 100)] == [0, 2, 1, 0]
    assert ledger.pipelines()[0].late == 3  # per pane the summary that counted most


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (batch(0, partial("s", 0, [1]), read=2), "2 events were read, but 1 counted and 0"),
        (Batch("A", 0, [partial("s", 0, [1, 2])], read=1, counted=1), "hold 2 events of 1"),
        (Batch("A", 0, rejected=[Rejected("r", "", "", b"")]), "1 rejected records for"),
        (batch(0, partial("s", 5, [1])), "slice 5 of a partial .* multiple of 10 us"),
        (batch(0, partial("s", 2**63 - 8, [1])), "beyond the last microsecond"),
        (Batch("A", 0, [Partial("s", Slices.of([0], [-1]), b"")]), "holds -1 events"),
        (Batch("A", 0, [Partial("s", Slices.of([], []), b"")]), "has 0 slices"),
        (Batch("A", 0, [Partial("s", Slices.of([10, 0], [1, 1]), b"")]), "in order of time"),
        (Batch("A", 0, [Partial("s", Slices.of([0, 0], [1, 1]), b"")]), "each once"),
        (Batch("A", 0, [partial("s", 0, [1], 20)]), 'no rollups of "s" have 20 us'),
        (batch(0, Partial("s", Slices.of([0], [1]), "text")), "must be bytes"),
        (batch(0, partial("nope", 0, [1])), "no summary 'nope'; its spec has s, t"),
        (Batch("A", -1), "batch_id is -1"),
        (Batch("", 0), "query_id"),
        (Batch("a\nb", 0), "query_id"),
        (Batch("A", 0, states=[State("t", -1, b"")]), "shard is -1"),
        (Batch("A", 0, watermark=2**63), "watermark is"),
    ],
)
def test_an_impossible_batch_is_refused_and_leaves_nothing(ledger, wrong, match):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    before = ledger.pipelines(), ledger.version()
    with pytest.raises(BadArgument, match=match):
        writer.commit(wrong)
    assert (ledger.pipelines(), ledger.version()) == before
    assert ledger.bounds("s", PANE) is None


@pytest.mark.parametrize(
    ("starts", "events", "match"),
    [([0.0], [1], "whole numbers"), ([0], [True], "whole numbers"), ([[0]], [1], "a row of"),
     ([0, 10], [1], "same number"), (["0"], [1], "whole numbers"),
     (np.array([2**63], np.uint64), [1], "64 bits with a sign")],
)  # fmt: skip
def test_slices_of_other_things_are_refused(starts, events, match):
    with pytest.raises(BadArgument, match=match):
        Slices.of(starts, events)


def test_numpy_integers_and_buffers_are_taken(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    buffer = bytearray(b"[1]")
    one = Partial("s", Slices.of(np.array([10], np.int32), [1]), memoryview(buffer))
    watermark = np.int64(40)
    writer.commit(Batch("A", np.int64(0), [one], read=np.int64(1), counted=1, watermark=watermark))
    buffer[:] = b"[9]"
    (piece,) = ledger.pieces("s", np.int64(PANE), np.int64(0), np.int64(20))
    assert (piece.start, piece.until, type(piece.start)) == (10, 20, int)
    assert ledger.payloads([np.int64(piece.id)]) == {piece.id: b"[1]"}
    made = Made(Slices.of([np.int64(0)], [1]), b"[1]")
    writer.roll_up("s", np.int64(40), np.int64(0), np.int64(40), [made])
    assert writer.drop_before("s", np.int64(PANE), np.int64(40)) == 1
    assert [p.events for p in ledger.pieces("s", np.int64(40), np.int64(0), np.int64(9))] == [1]
    assert ledger.horizon("s", np.int64(PANE)) == 40


def test_payloads_of_every_size_come_back(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    noise = np.random.default_rng(1).bytes(300_000)
    payloads = [b"", b"x", b"\0" * 256, b"\0" * 257, noise[:257], noise, b"ab" * 200_000]
    partials = [Partial("s", Slices.of([0], [0]), payload) for payload in payloads]
    writer.commit(Batch("A", 0, partials, [State("t", i, p) for i, p in enumerate(payloads)]))
    pieces = ledger.pieces("s", PANE, 0, 1)
    assert list(ledger.payloads([piece.id for piece in pieces]).values()) == payloads
    assert ledger.payloads([10**9]) == ledger.heads([10**9], 300) == {}
    heads = list(ledger.heads([piece.id for piece in pieces], 300).values())
    for head, payload in zip(heads, payloads, strict=True):
        assert len(head) >= min(300, len(payload))
        assert payload.startswith(head)
    assert ledger.states("t") == dict(enumerate(payloads))


# Who may write


def test_a_newer_writer_fences_the_older(ledger):
    old = ledger.open_writer("p", SPEC, query_id="A")
    old.commit(batch(0, partial("s", 0, [1])))
    (piece,) = ledger.pieces("s", PANE, 0, 10)
    asked = ledger.ask("p", "slow_down", {})
    new = ledger.open_writer("p", SPEC, query_id="A")
    assert old.epoch < new.epoch
    before = ledger.pipelines(), ledger.version()
    for write in (
        lambda: old.commit(batch(1, partial("s", 0, [2]))),
        lambda: old.commit(batch(0, partial("s", 0, [1]))),  # a replay as well
        lambda: old.compact([piece], []),
        lambda: old.roll_up("s", 100, 0, 100, made_of(ledger, "s", 100, 0, 100)),
        lambda: old.close_windows([window(0)], [], {}),
        lambda: old.answer(asked.id, {}),
        lambda: old.set_status({}),
        lambda: old.set_spec(SPEC),
        lambda: old.drop_before("s", PANE, 100),
        lambda: old.drop_history_before(100),
    ):
        with pytest.raises(LedgerConflict, match="another writer took over"):
            write()
    assert (ledger.pipelines(), ledger.version()) == before
    assert new.commit(batch(1, partial("s", 0, [2])))


def test_epochs_of_pipelines_are_apart(ledger):
    mine = ledger.open_writer("p", SPEC, query_id="A")
    ledger.open_writer("other", {"pane_us": 7, "summaries": {"u": {}}}, query_id="B")
    assert mine.commit(batch(0, partial("s", 0, [1])))


def test_a_foreign_query_is_refused_unless_told(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    ledger.open_writer("p", SPEC, query_id="B")  # no data yet: any may
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [1])))
    with pytest.raises(
        LedgerConflict, match=r"was fed by query A; .*checkpoint.*append.*overwrite"
    ):
        ledger.open_writer("p", SPEC, query_id="B")
    assert writer.commit(batch(1, partial("s", 0, [2])))  # the refusal took no epoch
    with pytest.raises(LedgerConflict, match="was fed by query A"):
        writer.commit(batch(0, partial("s", 0, [3]), query="B"))
    with pytest.raises(LedgerConflict, match=r'has data.*mode="append"'):
        ledger.open_writer("p", SPEC, query_id="C", mode="error")
    added = ledger.open_writer("p", SPEC, query_id="B", mode="append")
    assert added.commit(batch(0, partial("s", 0, [3]), query="B"))
    assert ledger.pipelines()[0].query_id == "B"
    back = ledger.open_writer("p", SPEC, query_id="A")  # it fed the pipeline before
    assert back.last_batch("A") == 1
    assert back.commit(batch(2, partial("s", 0, [4])))
    assert held(ledger, "s", PANE, 0, 10) == {1: 1, 2: 1, 3: 1, 4: 1}


def test_missing_batches_are_refused_unless_told(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    with pytest.raises(LedgerConflict, match=r"has no batch of query A, and batch 57 comes next"):
        writer.commit(batch(57, partial("s", 0, [1])))
    writer.commit(batch(0))
    with pytest.raises(LedgerConflict, match=r"up to 0 of query A, and batch 2 .*backup"):
        writer.commit(batch(2))
    told = ledger.open_writer("p", SPEC, query_id="A", mode="append")
    assert told.commit(batch(2, partial("s", 0, [2])))
    assert told.commit(batch(5, partial("s", 0, [5])))
    assert [told.commit(batch(n, partial("s", 0, [n]))) for n in (0, 2, 5)] == [False] * 3
    assert [told.commit(batch(n, partial("s", 0, [n]))) for n in (4, 3, 1)] == [True] * 3
    assert [told.commit(batch(n)) for n in range(6)] == [False] * 6
    assert held(ledger, "s", PANE, 0, 10) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1}


@pytest.mark.parametrize("begins", [0, 5])
def test_what_was_accepted_stays_so_though_nothing_comes(ledger, begins):
    """A new query, or one whose ledger has lost what came before: its next run does not ask."""
    ledger.open_writer("p", SPEC, query_id="A").commit(batch(0, partial("s", 0, [1])))
    ledger.open_writer("p", SPEC, query_id="B", mode="append", begins=begins).close()
    assert ledger.last_batch("p", "B") == (begins - 1 if begins else None)
    assert ledger.missing_batches("p") == begins
    writer = ledger.open_writer("p", SPEC, query_id="B")
    with pytest.raises(LedgerConflict, match=f"batch {begins + 1} comes next: what lies between"):
        writer.commit(batch(begins + 1, query="B"))
    for number in (begins, begins, begins + 1):
        writer.commit(batch(number, partial("s", 0, [2]), query="B"))
    assert held(ledger, "s", PANE, 0, 10) == {1: 1, 2: 2}
    assert ledger.missing_batches("p") == begins
    again = ledger.open_writer("p", SPEC, query_id="B", mode="append", begins=begins + 2)
    assert again.commit(batch(begins + 4, query="B"))
    assert ledger.missing_batches("p") == begins + 2
    assert ledger.missing_batches("q") == 0


def test_overwrite_deletes_the_pipelines_data_only(ledger):
    other = ledger.open_writer("other", {"pane_us": 7, "summaries": {"u": {}}}, query_id="B")
    other.commit(batch(0, partial("u", 7, [9]), query="B"))
    writer = ledger.open_writer("p", SPEC, query_id="A")
    refused = Rejected("future", "", "", b"")
    writer.commit(
        replace(
            batch(0, partial("s", 0, [1]), rejected_count=1, watermark=500),
            rejected=[refused],
            states=[State("t", 0, b"x")],
        )
    )
    roll(ledger, writer, "s", 40, 0)
    writer.close_windows([window(0)], [TrendPoint("q", 0, 100, 0, b"r")], {"T": 1})
    writer.set_status({"a": 1})
    ledger.ask("p", "slow_down", {})
    spec = {"pane_us": 20, "summaries": {"s": {"kind": "kll"}}}
    again = ledger.open_writer("p", spec, query_id="Z", mode="overwrite")
    assert again.epoch > writer.epoch
    info = next(one for one in ledger.pipelines() if one.name == "p")
    assert (info.read, info.counted, info.rejected, info.batches) == (0, 0, 0, 0)
    assert (info.watermark, info.query_id, info.spec) == (None, None, spec)
    assert ledger.pieces("s", PANE, 0, 100) == ledger.pieces("s", 40, 0, 100) == []
    assert ledger.coverage("s") == []
    assert ledger.windows() == ledger.trend("q") == list(ledger.rejected("p")) == []
    assert ledger.assembler("p") is ledger.status("p") is None
    assert ledger.commands("p", waiting=False) == []
    assert again.commit(batch(0, partial("s", 20, [5]), query="Z"))
    assert held(ledger, "u", 7, 0, 100) == {9: 1}
    ledger.open_writer("late", {"pane_us": 1, "summaries": {"t": {}}}, query_id="A")  # name is free
    assert ledger.verify() == []


def test_names_belong_to_one_pipeline(ledger):
    ledger.open_writer("p", SPEC, query_id="A")
    with pytest.raises(LedgerConflict, match='summary name "s" belongs to pipeline "p"'):
        ledger.open_writer("r", {"pane_us": 5, "summaries": {"s": {}}}, query_id="A")
    with pytest.raises(LedgerConflict, match='query name "q" belongs to pipeline "p"'):
        ledger.open_writer("r", {"pane_us": 5, "queries": ["q"]}, query_id="A")
    assert [one.name for one in ledger.pipelines()] == ["p"]
    # a summary and a query may share a name
    ledger.open_writer("r", {"pane_us": 5, "summaries": {"q": {}}}, query_id="A")


def test_kind_and_pane_cannot_change_under_data(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    changed = {**SPEC, "summaries": {**SPEC["summaries"], "s": {"kind": "kll"}}}
    writer.set_spec(changed)
    writer.set_spec(SPEC)
    writer.commit(batch(0, partial("s", 0, [1])))
    for become in (
        lambda spec: ledger.open_writer("p", spec, query_id="A"),
        writer.set_spec,
    ):
        with pytest.raises(LedgerConflict, match=r'"s" holds data of kind vector_matrix.*kll'):
            become(changed)
        with pytest.raises(LedgerConflict, match="panes of 10 microseconds"):
            become({**SPEC, "pane_us": 11})
    assert ledger.pipelines()[0].spec == SPEC
    assert writer.commit(batch(1))  # the refusals took no epoch


def test_a_spec_may_grow_and_shrink_while_running(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [1])))
    grown = {**SPEC, "summaries": {"t": {"kind": "kll"}, "u": {"kind": "kll"}}}
    writer.set_spec(grown)
    assert ledger.pipelines()[0].spec == grown
    writer.commit(batch(1, partial("u", 0, [1])))
    with pytest.raises(UnknownName, match="its spec has t, u"):
        writer.commit(batch(2, partial("s", 0, [1])))
    assert held(ledger, "s", PANE, 0, 10) == {1: 1}  # stays readable


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        {"pane_us": 0},
        {"pane_us": "10"},
        {"pane_us": 10, "summaries": {"Bad": {}}},
        {"pane_us": 10, "queries": {"a b": {}}},
        {"pane_us": 10, "x": float("nan")},
        {"pane_us": 10, "x": object()},
        {"pane_us": 10, "x": "y" * (1 << 20)},
    ],
)
def test_an_impossible_spec_is_refused(ledger, spec):
    with pytest.raises(BadArgument):
        ledger.open_writer("p", spec, query_id="A")
    assert ledger.pipelines() == []


def test_impossible_modes_and_ids_are_refused(ledger):
    for wrong in ({"mode": "force"}, {"query_id": "a\0"}, {"query_id": "x" * 201}):
        with pytest.raises(BadArgument):
            ledger.open_writer("p", SPEC, **({"query_id": "A"} | wrong))


def test_a_closed_writer_or_ledger_says_so(reopen):
    ledger = reopen()
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.close()
    writer.close()
    with pytest.raises(LedgerError, match="closed"):
        writer.commit(batch(0))
    ledger.close()
    for use in (ledger.version, ledger.pipelines, lambda: ledger.wait(0, 0.1)):
        with pytest.raises(LedgerError, match="closed"):
            use()
    assert [one.name for one in reopen().pipelines()] == ["p"]


# Pieces


def test_pieces_overlap_what_is_asked_for(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial_of("s", {30: [3], -20: [2]}), partial("s", 30, [4])))
    writer.commit(batch(1, partial("s", -20, [5])))
    found = ledger.pieces("s", PANE, -100, 100)
    assert [(p.start, p.until, p.events) for p in found] == [
        (-20, 40, 2), (30, 40, 1), (-20, -10, 1),
    ]  # fmt: skip
    assert [p.id for p in found] == sorted(p.id for p in found)
    assert ledger.pieces("s", PANE) == found
    assert ledger.pieces("s", PANE, -20, 30) == [found[0], found[2]]
    assert ledger.pieces("s", PANE, 10, 11) == [found[0]]  # it holds slices on both sides
    assert ledger.pieces("s", PANE, 40, 100) == ledger.pieces("s", PANE, -100, -20) == []
    assert ledger.bounds("s", PANE) == (-20, 40)
    assert found[0].slices == Slices.of([-20, 30], [1, 1])


def test_names_that_are_not_there_have_nothing(ledger):
    assert ledger.pieces("x", PANE, 0, 10) == ledger.coverage("x") == []
    assert ledger.bounds("x", PANE) is ledger.horizon("x", PANE) is ledger.command(1) is None
    assert ledger.windows("x") == ledger.trend("x") == ledger.commands("x") == []
    assert ledger.assembler("x") is ledger.status("x") is None
    assert list(ledger.rejected("x")) == ledger.pipelines() == []
    with pytest.raises(UnknownName, match="there is no pipeline 'x'"):
        ledger.ask("x", "slow_down", {})


def test_compaction_keeps_sums_and_newcomers(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [1]), partial_of("s", {0: [2], 50: [9]}), watermark=10))
    old = ledger.pieces("s", PANE, 0, 10)
    writer.commit(batch(1, partial("s", 0, [3])))
    version = ledger.version()
    assert writer.compact(old, [compacted(ledger, old)])
    found = ledger.pieces("s", PANE, 0, 100)
    assert sorted((p.events, p.late) for p in found) == [(1, 1), (3, 0)]
    assert held(ledger, "s", PANE, 0, 100) == {1: 1, 2: 1, 3: 1, 9: 1}
    assert writer.compact(old, [compacted(ledger, found)]) is False  # they are gone
    assert ledger.pieces("s", PANE, 0, 100) == found
    cut = [Made(Slices.of([0], [3], [1]), b"left"), Made(Slices.of([50], [1]), b"right")]
    assert writer.compact(found, cut)  # one may be cut into several
    left, right = ledger.pieces("s", PANE)
    assert ledger.payloads([left.id, right.id]) == {left.id: b"left", right.id: b"right"}
    assert ledger.version() == version
    assert ledger.pipelines()[0].late == 1


def test_compaction_of_other_things_is_refused(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial_of("s", {0: [1], 10: [2]}), partial("s", 40, [3]), watermark=80))
    roll(ledger, writer, "s", 80, 0)
    first, second = ledger.pieces("s", PANE, 0, 100)
    (rollup,) = ledger.pieces("s", 80)
    for replaced, starts, events, late in (
        ([first, first], [0, 10], [1, 1], [0, 0]),
        ([first, rollup], [0], [3], [0]),
        ([replace(rollup, length=PANE)], [0], [3], [0]),
        ([first], [0, 10], [1, 2], [0, 0]),
        ([first], [0, 10], [1, 1], [0, 1]),
        ([first], [0], [2], [0]),  # moved to another slice
        ([first], [0, 20], [1, 1], [0, 0]),
        ([first, second], [0, 10], [1, 1], [0, 0]),
    ):
        with pytest.raises(BadArgument):
            writer.compact(replaced, [Made(Slices.of(starts, events, late), b"")])
    with pytest.raises(BadArgument):
        writer.compact([first], [])
    assert writer.compact([], [])
    right = Made(first.slices, b"")
    assert writer.compact([replace(first, summary="t")], [right]) is False  # no such id in t
    assert ledger.pieces("s", PANE, 0, 100) == [first, second]


# Rollups


def test_rollups_cover_a_range_and_receive_what_comes_late(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial_of("s", {0: [1], 30: [2], 80: [3]}), watermark=160))
    roll(ledger, writer, "s", 40, 0, slices=2)  # the second is empty
    assert ledger.coverage("s") == [Coverage(40, 0, 80)]
    assert [p.slices for p in ledger.pieces("s", 40)] == [Slices.of([0], [2])]
    roll(ledger, writer, "s", 40, 80)
    roll(ledger, writer, "s", 160, 0)
    assert held(ledger, "s", 160, 0, 160) == {1: 1, 2: 1, 3: 1}
    late = partial_of("s", {50: [4], 100: [5], 170: [6]})
    for missing in (
        batch(1, late),
        batch(1, late, partial_of("s", {40: [4], 80: [5]}, 40)),
        batch(1, late, partial_of("s", {40: [4, 5]}, 40), partial("s", 0, [4, 5], 160)),
        batch(1, late, partial("s", 0, [4, 5], 160), into=ledger),
        batch(1, partial("s", 170, [6]), partial("s", 0, [4], 160)),
    ):
        with pytest.raises(BadArgument, match="what the batch adds to the rollups"):
            writer.commit(missing)
    assert writer.commit(batch(1, late, into=ledger))
    assert ledger.coverage("s") == [Coverage(40, 0, 120), Coverage(160, 0, 160)]
    assert gather(ledger, "s", 0, 160) == dict.fromkeys(range(1, 6), 1)
    assert held(ledger, "s", 40, 0, 160) == dict.fromkeys(range(1, 6), 1)
    assert [p.late for p in ledger.pieces("s", 40)] == [0, 0, 2]
    assert ledger.coverage("t") == []


def test_a_rollup_holds_what_its_range_holds(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [1]), partial("s", 0, [2]), watermark=60))
    made = made_of(ledger, "s", 40, 0, 40)
    writer.commit(batch(1, partial("s", 10, [3])))
    for wrong in (made, [], made * 2):
        with pytest.raises(BadArgument, match=r"the rollup would hold \d events of the slice 0"):
            writer.roll_up("s", 40, 0, 40, wrong)
    assert ledger.coverage("s") == []
    roll(ledger, writer, "s", 40, 0)
    assert ledger.pieces("s", 40)[0].late == 1


def test_impossible_rollups_are_refused(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 80, [1]), partial("s", 200, [2]), watermark=400))
    made = made_of(ledger, "s", 40, 80, 120)
    for length, start, until, match in (
        (PANE, 80, 90, "longer than the pane"),
        (45, 45, 90, "do not nest"),
        (40, 90, 130, "multiples of the length"),
        (40, 80, 80, "the first below the second"),
        (0, 0, 0, "length is 0"),
        (400, 400, 800, "only what is sealed"),
    ):
        with pytest.raises(BadArgument, match=match):
            writer.roll_up("s", length, start, until, made)
    with pytest.raises(BadArgument, match="would hold 1 events of the slice 80"):
        writer.roll_up("s", 40, 40, 80, made)
    roll(ledger, writer, "s", 40, 80)
    for start in (0, 80, 160):
        with pytest.raises(BadArgument, match="must begin where these end"):
            roll(ledger, writer, "s", 40, start)
    with pytest.raises(BadArgument, match="do not nest with those of 40"):
        roll(ledger, writer, "s", 60, 60)
    roll(ledger, writer, "s", 40, 40)  # backwards is allowed
    assert ledger.coverage("s") == [Coverage(40, 40, 120)]


# Retention


def test_dropped_panes_leave_their_rollups(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    panes = [partial_of("s", {pane: [pane], pane + 10: [pane + 10]}) for pane in range(0, 160, 20)]
    writer.commit(batch(0, *panes, watermark=160))
    roll(ledger, writer, "s", 40, 0, slices=4)
    assert ledger.horizon("s", PANE) is None
    assert writer.drop_before("s", PANE, 99) == 4  # whole slices of the rollup only
    assert ledger.horizon("s", PANE) == 80
    assert ledger.bounds("s", PANE) == (80, 160)
    assert writer.drop_before("s", PANE, 99) == 0
    assert gather(ledger, "s", 0, 160) == dict.fromkeys(range(0, 160, 10), 1)
    # a late event of a dropped pane is in the rollup that holds it
    writer.commit(batch(1, partial("s", 20, [777]), into=ledger))
    assert held(ledger, "s", 40, 0, 40)[777] == 1
    roll(ledger, writer, "s", 160, 0)
    assert 777 in held(ledger, "s", 160, 0, 160)
    writer.commit(batch(2, partial("s", 30, [778]), into=ledger))
    assert ledger.coverage("s")[1] == Coverage(160, 0, 160)
    everything = dict.fromkeys([*range(0, 160, 10), 777, 778], 1)
    assert gather(ledger, "s", 0, 160) == everything
    assert writer.drop_before("s", PANE, 99) == 2  # the late ones were there for a while
    assert gather(ledger, "s", 0, 160) == everything
    version = ledger.version()
    assert (writer.drop_before("s", PANE, 99), writer.drop_history_before(0)) == (0, 0)
    assert ledger.version() == version  # asked after each batch, it is mostly no news


def test_a_piece_on_both_sides_of_the_horizon_stays(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial_of("s", {0: [1], 10: [2], 60: [3]}), watermark=80))
    assert writer.drop_before("s", PANE, 20) == 0
    assert ledger.horizon("s", PANE) == 20
    assert gather(ledger, "s", 0, 80) == {3: 1}
    assert writer.drop_before("s", PANE, 70) == 1


def test_without_rollups_retention_deletes(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, *[partial("s", pane, [pane]) for pane in range(0, 1000 * PANE, PANE)]))
    assert writer.drop_before("s", PANE, 999 * PANE + 5) == 999
    assert writer.drop_before("s", PANE, 2**63 - 1) == 1
    assert ledger.bounds("s", PANE) is None
    assert ledger.horizon("s", PANE) == 1000 * PANE  # not in the future
    assert writer.drop_before("t", PANE, 100) == 0
    writer.commit(batch(1, partial("s", 1000 * PANE, [1])))
    assert ledger.bounds("s", PANE) == (1000 * PANE, 1001 * PANE)


def test_rollups_of_a_length_can_be_given_up(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(
        batch(0, partial_of("s", {pane: [pane] for pane in range(0, 200, 10)}), watermark=200)
    )
    roll(ledger, writer, "s", 40, 0, slices=5)
    roll(ledger, writer, "s", 160, 0)
    assert writer.drop_before("s", 40, 2**63 - 1) == 1
    assert ledger.coverage("s") == [Coverage(160, 0, 160)]
    assert gather(ledger, "s", 0, 200) == dict.fromkeys(range(0, 200, 10), 1)
    roll(ledger, writer, "s", 80, 0)


def test_history_is_dropped_by_its_end(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.close_windows(
        [window(0), window(0, 1), window(100), window(200)],
        [TrendPoint("q", start, start + 100, 0, b"") for start in (0, 100, 200)],
        {},
    )
    assert writer.drop_history_before(200) == 5
    assert [one.start for one in ledger.windows()] == [200]
    assert [one.start for one in ledger.trend("q")] == [200]
    writer.commit(Batch("A", 0, rejected=[Rejected("r", "", "", b"")], read=1, rejected_count=1))
    assert writer.drop_history_before(2**62) == 3
    assert list(ledger.rejected("p")) == []
    assert ledger.pipelines()[0].rejected == 1  # the count stays


def test_history_that_is_kept_is_not_read_to_drop_what_is_older(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    starts = range(100, 100_000, 100)
    points = [TrendPoint("q", start, start + 100, 0, b"") for start in starts]
    writer.close_windows([window(start) for start in starts], points, {})
    steps = []
    writer._connection.set_progress_handler(lambda: steps.append(0), 100)
    assert writer.drop_history_before(100) == 0
    assert len(steps) < 20


# Windows, trends, documents, control


def test_windows_and_trends_show_their_newest_revision(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    first = [window(0), window(100, reason="capacity", overflowed=True, fill={"k": 3, "(a, b)": 4})]
    writer.close_windows(first, [TrendPoint("q", 0, 100, 0, b"old" * 200)], {"T": 200})
    assert ledger.windows("s") == first
    newer = window(0, 1, events=5, late=2, closed_at=9)
    writer.close_windows([newer], [TrendPoint("q", 0, 100, 1, b"new" * 200)], {"T": 201})
    assert ledger.windows() == [newer, first[1]]
    assert ledger.windows(revisions=True) == [first[0], newer, first[1]]
    assert ledger.windows(newest_first=True, limit=1) == [first[1]]
    assert ledger.windows(start=1) == ledger.windows("s", start=100, end=101) == [first[1]]
    assert ledger.windows(end=100) == [newer]
    (number, _), (last, _) = ledger.closings(0)
    assert ledger.closings(0) == [(number, first[1]), (last, newer)]
    assert ledger.closings(number) == [(last, newer)]
    assert ledger.closings(0, until=number, limit=1) == [(number, first[1])]
    assert ledger.windows("t") == []
    assert [p.result for p in ledger.trend("q")] == [b"new" * 200]
    assert [p.revision for p in ledger.trend("q", revisions=True, newest_first=True)] == [1, 0]
    assert ledger.trend("q", start=1) == []
    assert ledger.assembler("p") == {"T": 201}
    replaced = window(0, 1, events=6)
    writer.close_windows([replaced], [], {})
    assert ledger.windows("s", end=1) == [replaced]
    assert ledger.closings(0) == [(number, first[1]), (ledger.last_closing(), replaced)]
    assert ledger.last_closing() > last
    writer.close_windows([window(0, summary="t"), window(200)], [], {})
    found = dict(ledger.closings(0))
    other = [(n, w) for n, w in found.items() if w.summary == "t"]
    assert ledger.closings(0, summary="t") == other
    assert ledger.closings(other[0][0], summary="t") == []
    *older, newest = [n for n, w in found.items() if w.summary == "s"]
    last = ledger.last_closing()
    for summary, most, beyond in (
        ("s", 2, (1, older[0])), ("s", 0, (3, newest)), (None, 3, (1, older[0])),
        ("s", 3, (0, 0)), ("none", 0, (0, 0)),
    ):  # fmt: skip
        assert ledger.closings_beyond(most, 0, until=last, summary=summary) == beyond


def test_windows_of_which_a_query_has_no_result_or_an_older_one(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.close_windows([window(at) for at in (0, 100, 200)], [], {})
    assert ledger.unanswered("q", "s") == (0, 0)  # it has none
    writer.close_windows([], [TrendPoint("q", 100, 200, 0, b"r")], {})
    assert ledger.unanswered("q", "s") == (0, 1)  # from its first on
    writer.close_windows([window(100, 1), window(300)], [TrendPoint("q", 300, 400, 0, b"r")], {})
    assert ledger.unanswered("q", "s") == (1, 1)
    assert ledger.unanswered("q", "s", 200, 300) == (0, 1)
    assert ledger.unanswered("q", "s", start=300) == (0, 0)
    assert ledger.unanswered("q", "t") == ledger.unanswered("x", "s") == (0, 0)


def test_windows_of_all_summaries_are_in_order(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    mixed = [window(100, summary="t"), window(0, summary="t"), window(100), window(0)]
    writer.close_windows(mixed, [], {})
    keys = [(one.start, one.summary) for one in ledger.windows()]
    assert keys == [(0, "s"), (0, "t"), (100, "s"), (100, "t")]
    back = [(one.start, one.summary) for one in ledger.windows(newest_first=True)]
    assert back == keys[::-1]


def test_old_revisions_go(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    for revision in range(limits.REVISIONS_KEPT_MAX + 5):
        points = [TrendPoint("q", 0, 100, revision, b"")]
        writer.close_windows([window(0, revision)], points, {})
    expected = list(range(5, limits.REVISIONS_KEPT_MAX + 5))
    assert [one.revision for one in ledger.windows(revisions=True)] == expected
    assert [one.revision for one in ledger.trend("q", revisions=True)] == expected


def test_impossible_windows_are_refused_whole(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    for windows, trends, state in (
        ([window(0), window(5, end=5)], [], {}),
        ([window(0), window(0, -1)], [], {}),
        ([window(0), window(0, summary="x")], [], {}),
        ([window(0), window(0, fill={"k": object()})], [], {}),
        ([window(0)], [TrendPoint("x", 0, 1, 0, b"")], {}),
        ([window(0)], [], {"a": float("inf")}),
        ([window(0)], [], [1]),
    ):
        with pytest.raises(BadArgument):
            writer.close_windows(windows, trends, state)
    assert ledger.windows() == []
    assert ledger.assembler("p") is None


def test_commands_wait_until_they_are_answered(ledger, reopen):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    version = ledger.version()
    one = ledger.ask("p", "slow_down", {"factor": 2}, client="127.0.0.1")
    two = reopen().ask("p", "resume", {})
    assert ledger.version() > version
    assert (one.action, one.arguments, one.client, one.answer) == (
        "slow_down", {"factor": 2}, "127.0.0.1", None,
    )  # fmt: skip
    assert ledger.commands("p") == [one, two]
    writer.answer(one.id, {"length": 20})
    assert ledger.commands("p") == [two]
    assert ledger.command(one.id) == replace(one, answer={"length": 20})
    assert ledger.commands("p", waiting=False) == [replace(one, answer={"length": 20}), two]
    writer.answer(one.id, {"length": 40})
    assert ledger.command(one.id).answer == {"length": 40}
    with pytest.raises(UnknownName, match="was not asked command 999"):
        writer.answer(999, {})
    with pytest.raises(BadArgument):
        ledger.ask("p", "Slow Down", {})
    with pytest.raises(BadArgument, match="at most"):
        ledger.ask("p", "slow_down", {"x": "y" * (64 << 10)})


def test_waiting_commands_are_bounded_and_answered_ones_go(ledger, monkeypatch):
    for module in ("sqlite", "sqlite_writer"):
        monkeypatch.setattr(f"muntin.ledger.{module}.WAITING_COMMANDS_MAX", 5)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    asked = [ledger.ask("p", "resume", {}) for _ in range(5)]
    with pytest.raises(LedgerError, match='5 commands wait for pipeline "p"'):
        ledger.ask("p", "resume", {})
    for command in asked:
        writer.answer(command.id, {})
    more = [ledger.ask("p", "resume", {}) for _ in range(4)]
    for command in more:
        writer.answer(command.id, {})
    kept = ledger.commands("p", waiting=False)
    assert [command.id for command in kept] == [c.id for c in [*asked, *more]][-5:]


def test_status_is_the_newest(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    assert ledger.status("p") is None
    writer.set_status({"rate": 1.5, "open": {"s": [1, None, "ü"]}})
    writer.set_status({"rate": 2})
    assert ledger.status("p") == {"rate": 2}


def test_rejected_records_are_cut_and_bounded(ledger, monkeypatch):
    for module in ("rules", "sqlite_commit"):
        monkeypatch.setattr(f"muntin.ledger.{module}.REJECTED_KEPT_MAX", 10)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    odd = Rejected("r" * 99, "lone \ud800 and \0" + "d" * 2000, "p" * 2000, b"x" * 5000)
    records = [replace(odd, reason=f"r{n}") for n in range(7)]
    for number in range(2):
        writer.commit(Batch("A", number, rejected=records, read=50, rejected_count=50))
    kept = list(ledger.rejected("p"))
    assert [number for number, _ in kept] == list(range(5, 15))
    assert [record.reason for _, record in kept] == [f"r{n}" for n in (4, 5, 6, *range(7))]
    assert kept[0][1].detail.startswith("lone \\ud800 and \0d")
    assert (len(kept[0][1].place), len(kept[0][1].raw)) == (1000, limits.RAW_BYTES_MAX)
    assert [n for n, _ in ledger.rejected("p", after=6, limit=2)] == [7, 8]
    assert [n for n, _ in ledger.rejected("p", after=6, limit=2, newest_first=True)] == [14, 13]
    assert list(ledger.rejected_reasons("p").items()) == [
        *((f"r{n}", 2) for n in (4, 5, 6)), *((f"r{n}", 1) for n in range(4))
    ]  # fmt: skip
    assert ledger.rejected_reasons("none") == {}
    assert ledger.pipelines()[0].rejected == 100


# Snapshots, waiting


def test_a_snapshot_stays_as_it_was(ledger):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, partial("s", 0, [1])))
    with ledger.snapshot() as view:
        version = view.version()
        writer.commit(batch(1, partial("s", 0, [2]), watermark=40))
        roll(ledger, writer, "s", 40, 0)
        writer.close_windows([window(0)], [], {"T": 1})
        assert held(view, "s", PANE, 0, 10) == {1: 1}
        assert view.version() == version
        assert view.coverage("s") == view.windows() == []
        assert view.pipelines()[0].batches == 1
        assert view.assembler("p") is None
    with ledger.snapshot() as view:
        assert held(view, "s", 40, 0, 10) == {1: 1, 2: 1}
        assert len(view.windows()) == 1


def test_wait_returns_on_a_change_or_in_time(reopen):
    ledger, other = reopen(), reopen()
    writer = ledger.open_writer("p", SPEC, query_id="A")
    version = ledger.version()
    assert other.wait(version, 0.02) == version
    assert other.wait(version - 1, 60) == version
    found = []
    waiting = threading.Thread(target=lambda: found.append(other.wait(version, 60)))
    waiting.start()
    writer.set_status({"a": 1})
    waiting.join(60)
    assert found == [other.version()] > [version]
    writer.set_status({"a": 2}, news=False)
    assert ([other.version()], other.status("p")) == (found, {"a": 2})


def test_closings_are_numbered_as_they_come_whatever_clocks_do(ledger, monkeypatch):
    writer = ledger.open_writer("p", SPEC, query_id="A")
    for number, clock in enumerate((50, 20, 90)):
        monkeypatch.setattr("muntin.ledger.tables.now_us", lambda clock=clock: clock)
        writer.close_windows([window(number * 100, closed_at=clock)], [], {})
    assert [(n, w.start) for n, w in ledger.closings(0)] == [(50, 0), (51, 100), (90, 200)]
    again = ledger.open_writer("p", SPEC, query_id="B", mode="overwrite")
    assert (ledger.closings(0), ledger.closings_dropped(), ledger.last_closing()) == ([], 90, 90)
    again.close_windows([window(0)], [], {})
    assert [(n, w.start) for n, w in ledger.closings(90)] == [(91, 0)]
    again.drop_history_before(1000)
    assert (ledger.closings(0), ledger.closings_dropped()) == ([], 91)


def test_which_closings_were_dropped_is_known_of_each_summary(ledger, monkeypatch):
    """Who followed one summary was told of a gap where windows of another were dropped."""
    monkeypatch.setattr("muntin.ledger.tables.now_us", lambda: 1)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    closed = [window(0, summary="t", end=1000), window(500), window(0)]
    for each in closed:
        writer.close_windows([each], [], {})

    def dropped():
        return [ledger.closings_dropped(name) for name in ("s", "t", None)]

    assert dropped() == [0, 0, 0]
    writer.drop_history_before(100)
    assert dropped() == [3, 0, 3]
    writer.drop_history_before(600)
    assert dropped() == [3, 0, 3]  # its number is lower than that of the one that went before
    assert [number for number, _ in ledger.closings(0)] == [1]
    assert ledger.coverage("s") == []
    assert ledger.verify() == []
    again = ledger.open_writer("p", SPEC, query_id="B", mode="overwrite")
    assert dropped() == [3, 3, 3]
    again.close()


def test_a_reset_drops_the_closings_of_its_pipeline_alone(ledger, monkeypatch):
    """Who followed another one was told of a gap."""
    monkeypatch.setattr("muntin.ledger.tables.now_us", lambda: 1)
    other = {"summaries": {"k": {"kind": "vector_matrix"}}, "queries": {}}
    kept = ledger.open_writer("kept", SPEC | other, query_id="A")
    writer = ledger.open_writer("p", SPEC, query_id="A")
    for each in (window(0), window(0, summary="t")):
        writer.close_windows([each], [], {})
    kept.close_windows([window(0, summary="k")], [], {})
    again = ledger.open_writer(
        "p", SPEC | {"summaries": {"s": SPEC["summaries"]["s"]}}, query_id="B", mode="overwrite"
    )
    again.set_spec(SPEC)  # with `t`, which those who followed it may follow again
    assert [ledger.closings_dropped(name) for name in ("s", "t", "k", None)] == [3, 3, 0, 3]
    assert ledger.verify() == []


@pytest.mark.parametrize("error", [OverflowError("date value out of range"), ValueError("bad")])
def test_what_a_reader_does_with_a_state_is_no_error_of_the_ledger(ledger, error):
    with pytest.raises(type(error)) as caught, ledger.snapshot():
        raise error
    assert caught.value is error
