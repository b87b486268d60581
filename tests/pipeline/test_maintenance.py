"""Rollups hold what their panes hold, and a stream of small batches leaves few pieces."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.assembly import arriving, cutting, maintenance
from muntin.assembly.following import FloatingFollower
from muntin.errors import BadArgument, LedgerError
from muntin.ledger import rules
from muntin.ledger.files import GARBAGE_AGE_US
from muntin.ledger.open import open_ledger
from muntin.ledger.sqlite import SqliteLedger
from muntin.ledger.sqlite_writer import Writer
from muntin.ledger.temporary import temporary
from muntin.segments import codec
from muntin.segments.building import build, merge
from muntin.segments.codec import cut
from muntin.segments.shards import split
from muntin.segments.sums import Sums
from muntin.session import Session
from muntin.spark import partials
from muntin.spark.ingest import Ingest
from muntin.times import now_us
from tests.pipeline.support import (
    SECOND,
    START,
    content,
    events,
    gather,
    pipeline,
    run,
    slices_of,
)
from tests.server.conftest import until

MINUTE = 60 * SECOND


def stream(seconds, every=1):
    """A batch each `every` seconds, of two events; each twentieth brings a late one."""
    for at in range(0, seconds, every):
        rows = [(at, f"d{at % 7}", 1, 1, 5), (at, "d1", 1, 1, 7)]
        if at % 20 == 0 and at > 200:
            rows.append((at - 150, "late", 1, 1, 9))
        yield [events(rows)]


def test_rollups_hold_what_panes_hold_late_events_and_all():
    spec = pipeline(rollups=["1 minute", "1 hour"])
    with run(spec, stream(600, 10)) as ingest:
        ledger = ingest.ledger
        (minutes, *_) = ledger.coverage("orders")
        sealed = (START + 590 * SECOND - spec.lateness) // MINUTE * MINUTE
        assert (minutes.length, minutes.start, minutes.until) == (MINUTE, 0, sealed)
        rolled = slices_of(ledger, "orders", MINUTE)
        assert rolled == slices_of(ledger, "orders", spec.pane, 0, sealed).at_length(MINUTE)
        assert rolled.late_count > 0


@pytest.mark.parametrize("keys", [4, 8, 12, 24])
def test_rollups_are_made_where_they_take_a_quarter_of_what_they_are_made_of(keys, monkeypatch):
    """Each pane has four drivers, of `keys` that take turns through the six panes of a minute."""
    monkeypatch.setattr(maintenance, "SHRINK", 4)
    monkeypatch.setattr(maintenance.Maintenance, "_compact", lambda _: None)
    batches = [
        [events([(10 * pane, f"d{(4 * (pane % 6) + at) % keys}", 1, 1, 5) for at in range(4)])]
        for pane in range(60)
    ]
    totals = {}
    for retention in ({}, {"panes": "1 day", "rollups": "2 days"}):
        with run(pipeline(rollups=["1 minute"], retention=retention), batches) as ingest:
            covered = bool(ingest.ledger.coverage("orders"))
            assert covered == (bool(retention) or keys == 4)
            totals[covered] = (
                Session(ingest.ledger)
                .sql("SELECT driver, count, fare FROM orders(driver) FOR ALL ORDER BY driver")
                .rows
            )
    assert len(set(map(str, totals.values()))) == 1


def skewed(rng, parts, users):
    """Segments of ten slices, of users of whom few are frequent, and of a few pages."""
    found = []
    for _ in range(parts):
        n = 40_000
        columns = {
            "user": pa.array((rng.pareto(0.8, n) * users / 20).astype(np.int64) % users),
            "page": pa.array(rng.integers(0, 50, n)),
        }
        values = [pa.array(rng.integers(0, 100, n))]
        slices = rng.integers(0, 10, n)
        keys = [(), ("user",), ("page",), ("page", "user")]
        found.append(build(Sums((("n", None),)), slices, values, keys, columns))
    return found


@pytest.mark.parametrize("users", [20, 3_000, 30_000])
def test_keys_of_low_hashes_tell_what_a_rollup_takes(users):
    rng = np.random.default_rng(users)
    newer, older = skewed(rng, 2, users), skewed(rng, 1, users)
    parts = [(newer, 10), ([segment.between(0, 2) for segment in older], 2), ([], 5)]
    exact = [(merge(found), step) for found, step in parts if found]
    memory = sum(segment.nbytes for segment, _ in exact)
    rolled_up = merge([merge([segment], step) for segment, step in exact]).nbytes
    told = maintenance.memory_rolled_up(parts)
    assert told == pytest.approx((memory, rolled_up), rel=0.1)
    alone = [maintenance.memory_rolled_up([([one], 10)]) for one in split(merge(newer), 4)]
    whole = maintenance.memory_rolled_up([(newer, 10)])
    assert np.sum(alone, axis=0) == pytest.approx(whole, rel=0.1)
    if users == 20:  # no table has a thousand keys
        assert told == (memory, rolled_up)


def test_a_few_events_that_were_not_cut_do_not_tell_whether_the_rollup_of_all_shards_pays(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(maintenance, "SHRINK", 4)
    monkeypatch.setattr(cutting, "CUT_BYTES_MIN", 1 << 13)
    orders = {"keys": ["driver"], "indicators": ["fare"], "shards": 4}
    spec = pipeline(rollups=["1 minute"], summaries={"orders": orders}, queries={})
    first = [(10 * pane, f"d{at}", 1, 1, 5) for pane in range(4, 10) for at in range(200)]
    then = [(95, f"e{at}", 1, 1, 5) for at in range(3)]
    ledger = SqliteLedger(f"{tmp_path}/ledger.db")
    with run(spec, [], ledger) as ingest:
        for number, rows in enumerate([first, then, [(131, "d1", 1, 1, 5)]]):
            ingest.take(number, gather([events(rows)]))
        assert len({piece.shard for piece in ledger.pieces("orders", spec.pane)}) == 5
        assert [reach.length for reach in ledger.coverage("orders")] == [MINUTE]


def test_rollups_that_did_not_pay_begin_with_all_of_time_once_they_do(monkeypatch):
    monkeypatch.setattr(maintenance, "SHRINK", 4)
    looked_at = []
    sizes = maintenance._sizes
    monkeypatch.setattr(
        maintenance, "_sizes", lambda *given: looked_at.append(given[2]) or sizes(*given)
    )
    counted = []
    below = maintenance._below
    monkeypatch.setattr(
        maintenance, "_below", lambda *given: counted.extend(given[3]) or below(*given)
    )
    spec = pipeline(rollups=["1 minute"])

    def batches():
        for pane in range(120):  # no driver twice
            yield [events([(10 * pane, f"d{pane}.{at}", 1, 1, 5) for at in range(3)])]
        assert not ledger.coverage("orders")
        assert len(looked_at) == 2  # the first minute has four panes, the second six; none has more
        assert max(until - start for _, start, until in counted[1:]) == MINUTE  # none counts again
        for pane in range(120, 140):
            yield [events([(10 * pane, f"d{at}", 1, 1, 5) for at in range(4)])]

    with run(spec, []) as ingest:
        ledger = ingest.ledger
        for number, rows in enumerate(batches()):
            ingest.take(number, gather(rows))
        (minutes,) = ledger.coverage("orders")
        assert (minutes.length, minutes.start) == (MINUTE, 0)
        rolled = slices_of(ledger, "orders", MINUTE)
        panes = slices_of(ledger, "orders", spec.pane, 0, minutes.until)
        assert rolled == panes.at_length(MINUTE)


@pytest.mark.parametrize("retention", [{}, {"panes": "2 minutes", "rollups": "5 minutes"}])
def test_a_stream_of_small_batches_leaves_few_pieces(retention):
    spec = pipeline(rollups=["1 minute"], retention=retention)
    with run(spec, stream(400)) as ingest:
        ledger = ingest.ledger
        for length in (spec.pane, MINUTE):
            assert len(ledger.pieces("orders", length)) <= 40
        kept = slices_of(ledger, "orders", spec.pane)
        if retention:
            horizon = ledger.horizon("orders", spec.pane)
            oldest = START + (400 - 30 - 120 - 60) * SECOND
            assert horizon >= oldest
            # what lies before the horizon goes with the last slice of its piece
            assert kept.starts[0] >= horizon - 2 * MINUTE
        else:
            assert kept.count == 400 * 2 + 10 - 1


@pytest.mark.parametrize("retention", [
    {"rollups": "3 minutes"}, {"panes": "10 minutes", "rollups": "3 minutes"},
])  # fmt: skip
def test_rollups_that_would_be_dropped_at_once_are_not_made_batch_by_batch(retention, monkeypatch):
    """They were made of all that is kept, after every batch; nor of what is older than they get."""
    made, since = [], []
    roll_up = Writer.roll_up
    monkeypatch.setattr(
        Writer, "roll_up",
        lambda self, *of: made.append(of[1] // MINUTE) or since.append(of[2]) or roll_up(self, *of),
    )  # fmt: skip
    spec = pipeline(rollups=["1 minute", "10 minutes"], retention=retention)
    with run(spec, stream(1500, 10)) as ingest:
        assert made.count(10) <= 1500 // 600 + 1
        assert made.count(1) >= 1500 // 60 - 2
        tens = [at for length, at in zip(made, since, strict=True) if length == 10]
        assert min(b - a for a, b in pairwise(tens)) >= 10 * MINUTE
        (row,) = Session(ingest.ledger).sql("SELECT count FROM orders FOR LAST '2 minutes'").rows
        assert row[0] >= 2 * 12


@given(
    spans=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), min_size=1, max_size=8),
    small=st.sampled_from([0, 2_000, 1 << 18]),
    folded=st.sampled_from([5, 9, 1 << 19]),
    shuffled=st.booleans(),
)
@settings(max_examples=25)
def test_what_tasks_sent_of_times_apart_is_stored_as_it_travelled(spans, small, folded, shuffled):
    """However tasks share the time, the ledger holds the same, and no piece reaches into another:
    what meets is merged, what is small beside small as well, and nothing else."""
    tasks = [
        [
            (10 * pane + at, f"d{pane % 3}", task, 1, 5)
            for pane in range(first, first + length)
            for at in range(1 + pane % 4)
        ]
        for task, (first, length) in enumerate(spans)
    ]
    if shuffled:
        tasks = [rows[1::2] + rows[::2] for rows in tasks]
    spec = pipeline(rollups=["1 minute"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arriving, "SMALL_BYTES", small)
        patch.setattr(partials, "SMALL_BYTES", small)
        patch.setattr(partials, "ROWS_FOLDED_AT_ONCE", folded)
        batches = [
            [
                pa.concat_tables([events(rows[at : at + 3]) for at in range(0, len(rows), 3)])
                for rows in tasks
            ]
        ]
        with run(spec, batches) as ingest:
            pieces = sorted(ingest.ledger.pieces("orders", spec.pane), key=lambda p: p.start)
            found = content(ingest)
    with run(spec, [[events([row for rows in tasks for row in rows])]]) as ingest:
        assert found == content(ingest)
    assert all(a.until <= b.start for a, b in pairwise(pieces))
    if small == 1 << 18:
        assert len(pieces) == 1
    elif small == 0 and folded > max(map(len, tasks)):
        covered = sorted({first + at for first, length in spans for at in range(length)})
        assert len(pieces) == 1 + sum(
            not any(first <= a < b < first + length for first, length in spans)
            for a, b in pairwise(covered)
        )


def test_a_task_whose_rows_come_in_order_merges_nothing(monkeypatch):
    monkeypatch.setattr(partials, "SMALL_BYTES", 0)
    monkeypatch.setattr(partials, "ROWS_FOLDED_AT_ONCE", 40)
    merges = []
    monkeypatch.setattr(partials, "merge", lambda parts: merges.append(len(parts)) or merge(parts))
    rows = [(second, f"d{second % 7}", 1, 1, 5) for second in range(600)]
    table = pa.concat_tables([events(rows[at : at + 16]) for at in range(0, 600, 16)])
    with run(pipeline(), [[table]]) as ingest:
        assert slices_of(ingest.ledger, "orders", 10 * SECOND).events.tolist() == [10] * 60
    assert len(merges) > 10
    assert set(merges) == {1}


def test_pieces_that_compress_well_are_not_merged_for_ever(monkeypatch):
    """Cut by their memory, they are far below the bytes at which a piece counts as whole."""
    merged = []
    monkeypatch.setattr(maintenance, "CUT_BYTES", 1 << 12, raising=False)

    def counted(segment):
        merged.append(segment)
        assert len(merged) < 100, "the same pieces are merged again and again"
        return cut(segment, 1 << 12)

    monkeypatch.setattr("muntin.assembly.cutting.cut", counted)
    rows = [(at, f"d{driver}", 1, 1, 5) for at in range(0, 600, 10) for driver in range(20)]
    with run(pipeline(rollups=[]), [[events(rows[::2]), events(rows[1::2])]]) as ingest:
        assert len(ingest.ledger.pieces("orders", ingest.pipeline.pane)) > 10
        assert slices_of(ingest.ledger, "orders", ingest.pipeline.pane).count == len(rows)


@contextmanager
def held_up():
    """Merging begins, and does not go on before the block ends; tells that it has begun."""
    begun, may_go_on = threading.Event(), threading.Event()

    def waiting(segments, *step):
        if threading.current_thread().name.startswith("muntin-compaction"):
            begun.set()
            assert may_go_on.wait(60)
        return merge(segments, *step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maintenance, "merge", waiting)
        try:
            yield begun
        finally:
            may_go_on.set()


def taken(ingest, batches):
    for partitions in batches:
        ingest.take(ingest.progress.batches, gather(partitions))


def begun_to_merge(ingest, batches, begun):
    """Take as many as begin a merge: with the last one, if the look at those before has ended."""
    taken(ingest, batches[:-1])
    ingest._maintenance._wait()
    taken(ingest, batches[-1:])
    assert begun.wait(60)


def test_batches_are_taken_while_pieces_are_merged():
    batches = [[events([(at, f"d{at % 3}", 1, 1, 1)])] for at in range(80)]
    with run(pipeline(), batches) as ingest:
        expected = content(ingest)
    many = maintenance.PIECES_OF_A_SIZE_MAX
    with run(pipeline(), []) as ingest:
        with held_up() as begun:
            begun_to_merge(ingest, batches[: many + 1], begun)
            taken(ingest, batches[many + 1 : 2 * many])
            assert len(ingest.ledger.pieces("orders", ingest.pipeline.pane)) == 2 * many
        taken(ingest, batches[2 * many :])
        assert len(ingest.ledger.pieces("orders", ingest.pipeline.pane)) < 40
        ingest.finish(ended=False)
        assert content(ingest) == expected


def test_windows_close_of_pieces_that_are_merged_while_they_do(redis_server, request, monkeypatch):
    """A shared ledger keeps payloads of what was merged for a minute: to close may take longer."""
    monkeypatch.setattr("muntin.ledger.redis.GONE_SECONDS", 0)
    batches = [
        [events([(20 * at, "d", 1, 1, 1)])] for at in range(maintenance.PIECES_OF_A_SIZE_MAX + 1)
    ]
    last, spec = [events([(5_000, "d", 1, 1, 1)])], pipeline(lateness="1 hour")
    with run(spec, [*batches, last]) as ingest:
        expected = content(ingest)
    url = redis_server.url(schema=f"t{abs(hash(request.node.name)) % 10**9}")
    with closing(open_ledger(url)) as ledger, run(spec, [], ledger) as ingest:
        merging = ExitStack()
        begun_to_merge(ingest, batches, merging.enter_context(held_up()))
        step = FloatingFollower.step

        def slow(follower, pieces, until):
            pieces.of_length(ingest._assembler.layouts["orders"], spec.pane)
            merging.close()
            with suppress(TimeoutError):
                ingest._maintenance._compacting.result(2)
            return step(follower, pieces, until)

        monkeypatch.setattr(FloatingFollower, "step", slow)
        ingest._cache.clear()
        taken(ingest, [last])
        ingest.finish(ended=False)
        assert content(ingest) == expected


def test_where_merging_is_behind_batches_wait_for_it():
    many = maintenance.PIECES_OF_A_SIZE_MAX
    batches = [[events([(at, "d", 1, 1, 1)])] for at in range(3 * many)]
    with run(pipeline(), []) as ingest:
        with held_up() as begun:
            begun_to_merge(ingest, batches[: many + 1], begun)
            others = threading.Thread(target=taken, args=(ingest, batches[many + 1 :]))
            others.start()
            others.join(3)
            assert others.is_alive()
            assert ingest.progress.batches <= 2 * many + 2
        others.join(60)
        assert ingest.progress.batches == 3 * many


def test_pieces_that_retention_drops_while_they_are_merged_do_not_come_back():
    spec = pipeline(rollups=[], retention={"panes": "2 minutes"}, queries={})
    many = maintenance.PIECES_OF_A_SIZE_MAX
    with run(spec, []) as ingest:
        with held_up() as begun:
            old = [[events([(at / 10, "old", 1, 1, 1)])] for at in range(many + 1)]
            begun_to_merge(ingest, old, begun)
            taken(ingest, [[events([(900, "new", 1, 1, 1)])]])
            assert slices_of(ingest.ledger, "orders", spec.pane).count == 1
        ingest.finish(ended=False)
        assert slices_of(ingest.ledger, "orders", spec.pane).count == 1


def test_files_that_are_being_merged_into_stay_when_a_machine_has_slept(tmp_path, monkeypatch):
    """By its clock they are old at once, and no row names them yet."""
    monkeypatch.setattr(cutting, "FILE_BYTES_MIN", 0)
    spec = pipeline(queries={}, summaries={"orders": {"keys": ["driver"], "shards": 2}})
    many = maintenance.PIECES_OF_A_SIZE_MAX
    compact, held = Writer.compact, threading.Event()

    def sleepy(writer, *pieces):
        if threading.current_thread().name.startswith("muntin-compaction"):
            monkeypatch.setattr(maintenance, "now_us", lambda: now_us() + 2 * GARBAGE_AGE_US)
            held.set()
            threading.Event().wait(1)
        return compact(writer, *pieces)

    monkeypatch.setattr(Writer, "compact", sleepy)
    ledger = SqliteLedger(tmp_path / "x.db")
    with run(spec, [], ledger) as ingest:
        while not held.is_set():
            taken(ingest, [[events([(ingest.progress.batches, "d", 1, 1, 1)])]])
            held.wait(ingest.progress.batches // (many + 1))
        ingest._maintenance._swept_at = None
        taken(ingest, [[events([(99, "d", 1, 1, 1)])]])
        counted = ingest.progress.counted
    assert Session(ledger).sql("SELECT count FROM orders FOR ALL").rows == [[counted]]


def test_a_merge_that_fails_fails_the_next_batch_which_is_in_once(monkeypatch):
    many = maintenance.PIECES_OF_A_SIZE_MAX
    with run(pipeline(), []) as ingest:
        compact, writer = ingest.writer.compact, type(ingest.writer)

        def full(*_):
            raise LedgerError("the disk is full")

        monkeypatch.setattr(writer, "compact", full)
        with pytest.raises(LedgerError, match="the disk is full"):
            taken(ingest, [[events([(at, "d", 1, 1, 1)])] for at in range(2 * many + 2)])
        monkeypatch.setattr(writer, "compact", lambda _, *pieces: compact(*pieces))
        failed = ingest.writer.last_batch("q")
        ingest.take(failed, gather([events([(failed, "d", 1, 1, 1)])]))  # Spark's second try
        assert slices_of(ingest.ledger, "orders", ingest.pipeline.pane).count == failed + 1


def test_a_pipeline_that_is_closed_merges_no_more():
    many = maintenance.PIECES_OF_A_SIZE_MAX
    before = set(threading.enumerate())
    ingest = Ingest(pipeline(), temporary(), query_id="q")
    with held_up() as begun:
        batches = [[events([(at, "d", 1, 1, 1)])] for at in range(many + 1)]
        begun_to_merge(ingest, batches, begun)
        (compacting,) = [
            thread
            for thread in set(threading.enumerate()) - before
            if thread.name.startswith("muntin-compaction")
        ]
    ingest.close()
    assert not compacting.is_alive()


@pytest.mark.parametrize(
    "where", ["muntin.spark.ingest.Maintenance", "muntin.ledger.sqlite_writer.Writer.set_alerts"]
)
def test_a_change_that_fails_half_way_leaves_a_pipeline_that_goes_on(where, monkeypatch):
    """By the spec of before, which readers have as well."""

    def busy(*_):
        raise LedgerError("the ledger is busy")

    batches = [[events([(at, "d", 1, 1, 1)])] for at in range(6)]
    alert = {"when": "true"}
    queries = {"busy": {"select": "SELECT count FROM others(driver)", "alert": alert}}
    window = {"kind": "tumbling", "length": "10 s"}
    other = pipeline(summaries={"others": {"keys": ["driver"], "window": window}}, queries=queries)
    with run(pipeline(), batches[:2]) as ingest:
        stored = ingest.ledger.pipeline("orders").spec
        with monkeypatch.context() as for_a_while:
            for_a_while.setattr(where, busy)
            with pytest.raises(LedgerError, match="busy"):
                ingest.reconfigure(other)
        assert ingest.ledger.pipeline("orders").spec == stored
        assert ingest.pipeline == pipeline()
        taken(ingest, batches[2:4])
        assert slices_of(ingest.ledger, "orders", ingest.pipeline.pane).count == 4
        ingest.reconfigure(other)
        taken(ingest, batches[4:])
        assert slices_of(ingest.ledger, "others", ingest.pipeline.pane).count == 2


def test_a_change_whose_word_the_ledger_does_not_take_is_a_change(monkeypatch):
    """The next sign of life says so."""

    def busy(*_, **__):
        raise LedgerError("the ledger is busy")

    monkeypatch.setattr("muntin.spark.pipeline_status.BEAT_SECONDS", 0.1)
    with run(pipeline(), []) as ingest:
        ingest.status.refuse("it was wrong")
        changed = pipeline(lateness="40 s")
        with monkeypatch.context() as for_a_while:
            for_a_while.setattr("muntin.ledger.sqlite_writer.Writer.set_status", busy)
            ingest.reconfigure(changed)
        assert ingest.pipeline == changed
        until(lambda: "not_taken_over" not in ingest.ledger.status("orders"))


def test_a_ledger_that_is_finished_holds_each_slice_once():
    spec = pipeline()
    with run(spec, []) as ingest:
        for number in range(3):
            ingest.take(number, gather([events([(5, "a", 1, 1, 1), (25, "b", 1, 1, 1)])]))
        assert len(ingest.ledger.pieces("orders", spec.pane)) == 3
        ingest.finish(ended=False)
        (piece,) = ingest.ledger.pieces("orders", spec.pane)
        assert piece.events == 6
        found = Session(ingest.ledger).sql("SELECT driver, count FROM orders(driver) FOR ALL")
        assert sorted(found.rows) == [["a", 3], ["b", 3]]


def test_rollups_that_begin_after_retention_take_no_part_of_a_slice_for_whole():
    """The pane of 10 seconds where retention stopped lies in the middle of a minute."""
    without = pipeline(rollups=[], retention={"panes": "2 minutes"})
    with run(without, stream(340)) as ingest:
        ledger = ingest.ledger
        horizon = ledger.horizon("orders", without.pane)
        assert horizon % MINUTE
        ingest.close()
        rolled = pipeline(rollups=["1 minute"], retention={"panes": "2 minutes"})
        with run(rolled, [], ledger) as again:
            reach = {r.length: r.start for r in again.ledger.coverage("orders")}
            assert reach[MINUTE] == -(-horizon // MINUTE) * MINUTE


def test_panes_wait_for_the_first_rollup_however_short_they_are_kept():
    spec = pipeline(rollups=["1 minute", "1 hour"], retention={"panes": "20 seconds"})
    with run(spec, stream(300, 5)) as ingest:
        assert Session(ingest.ledger).sql("SELECT count FROM orders FOR ALL").rows == [[124]]
        assert ingest.ledger.horizon("orders", spec.pane) > START + 200 * SECOND


@pytest.mark.parametrize("batch", [1, 70])
def test_late_events_older_than_all_others_outlive_their_panes(batch):
    """As where last year's files are read after this year's: rollups hold them, kept for ever."""
    old = [[events([(-90_000, "old", 1, 1, 9), (-3_600, "old", 1, 1, 9)])]]
    spec = pipeline(rollups=["1 minute", "1 hour"], retention={"panes": "2 minutes"})
    batches = [*stream(400, 5)]
    batches.insert(batch, *old)
    with run(spec, batches) as ingest:
        assert ingest.ledger.horizon("orders", spec.pane) > START
        found = Session(ingest.ledger).sql("SELECT driver, fare FROM orders(driver) FOR ALL")
        assert dict(found.rows)["old"] == 18


def test_a_rollup_that_is_too_large_is_not_made_and_stops_nothing(monkeypatch, caplog):
    monkeypatch.setattr(codec, "DECODED_BYTES_MAX", 1 << 16)
    batches = [
        [events([(at, f"{at}-{n:0200}", 1, 1, 1) for n in range(20)])] for at in range(0, 80, 10)
    ]
    spec = pipeline(rollups=["1 minute"], retention={"panes": "1 day", "rollups": "2 days"})
    with run(spec, batches) as ingest:
        (before_all,) = ingest.ledger.coverage("orders")
        assert before_all.until == START // MINUTE * MINUTE
        assert Session(ingest.ledger).sql("SELECT count FROM orders FOR ALL").rows == [[160]]
    assert len(caplog.messages) == 1
    assert "rollups of 1 minute are not made: 160 rows of vector_matrix take" in caplog.text


def test_a_pane_that_is_too_large_is_refused_before_its_commit(monkeypatch):
    rows = [[events([(at / 10, f"d{at}", at % 3, 1, at) for at in range(100)])]]
    with run(pipeline(), []) as ingest:
        monkeypatch.setattr(rules, "PAYLOAD_BYTES_MAX", 100)
        with pytest.raises(BadArgument, match="give the summary more `shards:`"):
            ingest.take(0, gather(rows[0]))
        assert ingest.ledger.pieces("orders", ingest.pipeline.pane) == []
        assert ingest.writer.last_batch("q") is None
        monkeypatch.undo()
        ingest.take(0, gather(rows[0]))
        assert ingest.ledger.pipelines()[0].counted == 100
