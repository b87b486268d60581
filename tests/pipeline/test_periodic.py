"""Kind `periodic` through the pipeline's own code, without Spark."""

import random
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.errors import BadArgument, SelectError, SourceError, SpecError, SummaryOverflow
from muntin.kinds import PeriodicSpec
from muntin.ledger.open import open_ledger
from muntin.ledger.temporary import temporary
from muntin.session import Session
from muntin.spark import sequences
from muntin.spark.ingest import Ingest
from muntin.spec import Pipeline
from muntin.summaries import HyperCalm, PeriodicShard
from tests.pipeline.support import SECOND, START, gather

LATENESS = 30
BEATS = {
    "kind": "periodic",
    "item": "driver",
    "gap": "5 seconds",
    "interval_unit": "4 seconds",
    "memory": "40 KB",
    "k": 10,
    "shards": 3,
}
COUNTS = {"keys": ["driver"], "indicators": ["area"]}


def pipeline(summaries=None, **changes):
    entries = {
        "name": "calls",
        "time": "time",
        "pane": "10 seconds",
        "lateness": f"{LATENESS} seconds",
        "summaries": summaries or {"beats": BEATS, "calls": COUNTS},
    }
    return Pipeline.of(entries | changes)


def events(rows):
    """A table of (seconds, driver, area)."""
    seconds, drivers, areas = zip(*rows, strict=True) if rows else ((), (), ())
    times = [START + int(second * SECOND) for second in seconds]
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "driver": pa.array(drivers, pa.string()),
            "area": pa.array(areas, pa.int64()),
        }
    )


def ingested(spec, batches, ledger=None, mode="continue"):
    ingest = Ingest(spec, ledger or temporary(), query_id="q", mode=mode)
    try:
        for number, partitions in enumerate(batches):
            ingest.take(number, gather(partitions))
        ingest.finish(ended=False)
    finally:
        ingest.close()
    return ingest


def states(ingest, name="beats"):
    return ingest.ledger.states(name)


def in_pieces(table, cuts):
    edges = sorted({0, table.num_rows, *(cut for cut in cuts if cut < table.num_rows)})
    return [table.slice(a, b - a) for a, b in pairwise(edges)]


rows = st.lists(
    st.tuples(
        st.integers(0, 400), st.one_of(st.none(), st.sampled_from("abcdefgh")), st.integers(0, 2)
    ),
    min_size=1,
    max_size=60,
)
cuts = st.lists(st.integers(0, 60), max_size=8)


@given(rows, cuts, cuts, st.lists(st.integers(0, LATENESS), min_size=1, max_size=9), st.booleans())
@settings(max_examples=40)
def test_batch_and_stream_agree_for_every_cut(rows, micro, parts, jitter, alone):
    spec = pipeline({"beats": BEATS} if alone else None)
    delays = [jitter[i % len(jitter)] for i in range(len(rows))]
    order = sorted(range(len(rows)), key=lambda i: rows[i][0] + delays[i])
    arrived = events([rows[i] for i in order])
    streamed = ingested(spec, [in_pieces(batch, parts) for batch in in_pieces(arrived, micro)])
    whole = ingested(spec, [[events(sorted(rows, key=lambda row: row[0]))]])
    assert states(streamed) == states(whole)
    assert streamed.progress.late == 0
    held = [PeriodicShard.from_bytes(payload) for payload in states(whole).values()]
    missing = sum(driver is None for _, driver, _ in rows)
    assert sum(shard.count for shard in held) == len(rows) - missing
    assert sum(shard.nulls for shard in held) == missing
    info = whole.ledger.pipelines()[0]
    assert (info.read, info.counted, info.rejected) == (len(rows), len(rows), 0)


def beating(until=2000):
    """A bot each 60 s with bursts of 3, a cron each 90 s, and others at random."""
    rng = random.Random(1)
    found = [(second + j, "bot", 1) for second in range(7, until, 60) for j in range(3)]
    found += [(second + rng.uniform(0, 1), "cron", 2) for second in range(20, until, 90)]
    found += [(rng.uniform(0, until), f"other {rng.randrange(200)}", 0) for _ in range(600)]
    return sorted(found)


def test_planted_beats_are_found():
    made = ingested(pipeline(), [[events(beating())]])
    found = Session(made.ledger).sql("SELECT item, interval, periodicity FROM periodic(beats, 2)")
    assert [row[0] for row in found.rows] == ["bot", "cron"]
    assert [row[2] for row in found.rows] == [33, 21]  # of 34 and 22 batches: held ones as well
    assert found.table["interval"].to_pylist()[0].total_seconds() == pytest.approx(60, abs=4)
    assert not found.exact
    assert found.bounds["beats"] == {"left_out_late": 0, "nulls": 0, "unnamed": 0, "k": 10}
    assert found.windows[0].covered[1] > START + 1990 * SECOND
    # the other summary of the pipeline answers as ever
    counts = Session(made.ledger).sql("SELECT count FROM calls(driver) FOR ALL WHERE driver='bot'")
    assert counts.rows == [[34 * 3]]


def test_items_too_long_to_be_named_are_told_and_may_have_more_space():
    rows = [
        (second, f"https://{'x' * 300}/{i}", 1) for second in range(7, 2000, 60) for i in (1, 2)
    ]
    for space, named in (({}, 0), ({"item_bytes": 320, "k": 2}, 2)):
        made = ingested(pipeline({"beats": BEATS | space}), [[events(rows)]])
        found = Session(made.ledger).sql("SELECT item FROM periodic(beats)")
        assert len(found.rows) == named
        assert (found.bounds["beats"]["unnamed"] > 0) == (named == 0)


def test_an_overdue_item_is_told():
    rows = [row for row in beating() if row[1] != "bot" or row[0] < 1500]
    made = ingested(pipeline(), [[events(rows)]])
    engine = Session(made.ledger)
    now = START + 1990 * SECOND  # the next cron comes at 2000
    text = "SELECT item, next_expected FROM periodic(beats, 2) WHERE next_expected < now()"
    assert engine.sql(text).rows[0][0] == "bot"  # by the wall clock all are overdue
    found = engine._engine.sql(text, now=now)
    assert [row[0] for row in found.rows] == ["bot"]


def test_late_events_are_counted_and_left_out():
    spec = pipeline({"beats": BEATS})
    early = [(second, "a", 1) for second in range(0, 200, 20)]
    made = ingested(
        spec,
        [[events(early)], [events([(5, "a", 1), (100, "b", 1), (165, "c", 1), (300, "a", 1)])]],
    )
    # the watermark stood at 180 - 30: panes before 150 s were sealed
    read = [PeriodicShard.from_bytes(payload) for payload in states(made).values()]
    assert sum(shard.late for shard in read) == 2
    assert sum(shard.count for shard in read) == len(early) + 2
    assert made.progress.late == 2
    info = made.ledger.pipelines()[0]
    assert (info.late, info.counted, info.read) == (2, len(early) + 4, len(early) + 4)
    found = Session(made.ledger).sql("SELECT item FROM periodic(beats)")
    assert found.late == 2
    assert found.bounds["beats"]["left_out_late"] == 2


def late_by_the_rule(pieces):
    """Rows of each piece that are before the panes that the pieces before it have sealed."""
    newest, late, kept = None, 0, []
    for piece in pieces:
        sealed = -1 if newest is None else (START // SECOND + newest - LATENESS) // 10 * 10
        good = [row for row in piece if row[0] + START // SECOND >= sealed]
        late += len(piece) - len(good)
        kept += good
        newest = max([row[0] for row in piece] + ([] if newest is None else [newest]))
    return late, kept


delays = st.lists(st.integers(0, 4 * LATENESS), min_size=1, max_size=9)


@given(rows, cuts, cuts, cuts, delays)
@settings(max_examples=30)
def test_what_is_late_is_told_by_the_batches_before(rows, micro, finer, parts, jitter):
    """A row is late if an earlier batch sealed its pane; finer cuts can only make more late."""
    rows = [row for row in rows if row[1] is not None]
    order = sorted(range(len(rows)), key=lambda i: rows[i][0] + jitter[i % len(jitter)])
    arrived = [rows[i] for i in order]
    spec, lates = pipeline({"beats": BEATS}), []
    for edges in (micro, [*micro, *finer]):
        edges = sorted({0, len(rows), *(cut for cut in edges if cut < len(rows))})
        pieces = [arrived[a:b] for a, b in pairwise(edges)]
        made = ingested(spec, [in_pieces(events(piece), parts) for piece in pieces])
        late, kept = late_by_the_rule(pieces)
        read = {n: PeriodicShard.from_bytes(p) for n, p in states(made).items()}
        assert sum(shard.late for shard in read.values()) == made.progress.late == late
        clean = ingested(spec, [[events(kept)]])
        for number, payload in states(clean).items():
            whole = PeriodicShard.from_bytes(payload).whole()
            assert read[number].whole().to_bytes() == whole.to_bytes()
        lates.append(late)
    assert lates[0] <= lates[1]


def test_late_is_counted_once_beside_panes():
    early = [(second, "a", 1) for second in range(0, 200, 20)]
    made = ingested(pipeline(), [[events(early)], [events([(5, "a", 1), (300, None, 1)])]])
    assert made.progress.late == 1
    assert made.ledger.pipelines()[0].late == 1


@pytest.mark.parametrize("url", ["memory", "sqlite"])
def test_restart_and_replay_go_on_from_the_ledger(url, tmp_path):
    spec = pipeline()
    pieces = in_pieces(events(beating()), range(100, 1000, 100))
    whole = ingested(spec, [[piece] for piece in pieces])
    place = temporary() if url == "memory" else f"sqlite:///{tmp_path}/l.db"
    for number, piece in enumerate(pieces):  # a new process for each batch
        ledger = place if url == "memory" else open_ledger(place)
        ingest = Ingest(spec, ledger, query_id="q")
        if number:
            ingest.take(number - 1, gather([pieces[number - 1]]))  # comes again after a crash
        ingest.take(number, gather([piece]))
        ingest.take(number, gather([piece]))
        assert ingest.progress.read == piece.num_rows
        ingest.close()
        if number == len(pieces) - 1:
            assert ledger.states("beats") == states(whole)
            assert ledger.pipelines()[0].read == sum(p.num_rows for p in pieces)


def test_a_batch_that_fails_changes_nothing():
    spec, pieces = pipeline(), in_pieces(events(beating()), [300])
    ingest = Ingest(spec, temporary(), query_id="q")
    ingest.take(0, gather([pieces[0]]))
    before = states(ingest)
    commit, ingest.writer.commit = ingest.writer.commit, _fails
    with pytest.raises(OSError, match="disk"):
        ingest.take(1, gather([pieces[1]]))
    ingest.writer.commit = commit
    assert states(ingest) == before
    ingest.take(1, gather([pieces[1]]))
    ingest.close()
    assert states(ingest) == states(ingested(spec, [[piece] for piece in pieces]))


def _fails(*_):
    raise OSError("disk")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["area"], 7),
        (["driver", "area"], "a\x1f7"),
        (["day"], "2023-11-14"),
        (["flag", "driver"], "true\x1fa"),
        (["price"], "0.0000000025"),
    ],
)
def test_items_of_any_column(columns, expected):
    spec = pipeline({"beats": BEATS | {"item": columns}})
    table = events([(second, "a", 7) for second in range(0, 300, 20)])
    table = table.append_column("day", table["time"].cast(pa.date32()))
    table = table.append_column("flag", pa.array([True] * len(table)))
    price = pa.array([Decimal("25E-10")] * len(table), pa.decimal128(20, 10))
    table = table.append_column("price", price)
    made = ingested(spec, [[table]])
    (row,) = Session(made.ledger).sql("SELECT item, periodicity FROM periodic(beats, 1)").rows
    assert row == [expected, 14]
    if len(columns) > 1:  # the parts stand beside, as text
        text = f"SELECT {', '.join(columns)} FROM periodic(beats, 1)"  # noqa: S608
        assert "\x1f".join(Session(made.ledger).sql(text).rows[0]) == expected
    coded = [
        pa.table([c.dictionary_encode() for c in table.columns[1:]], names=table.column_names[1:])
    ]
    coded = coded[0].append_column("time", table["time"])
    assert states(ingested(spec, [[coded]])) == states(made)


def test_a_time_is_the_same_item_in_any_unit_and_zone():
    """Files of one folder may have several; rows that Spark reads have microseconds, and the zone
    of its session."""
    spec, table = pipeline({"beats": BEATS}), events([(n, "a", n) for n in range(0, 320, 20)])
    moments = pa.array([-1_500_000] * 4, pa.timestamp("us", "UTC"))
    types = ("ms", "UTC"), ("us", "America/New_York"), ("ns", "+05:45")
    units = [moments.cast(pa.timestamp(*each)) for each in types]
    parts = [
        table.slice(4 * n, 4).set_column(1, "driver", column) for n, column in enumerate(units)
    ]
    found = Session(ingested(spec, [[part] for part in parts]).ledger).sql(
        "SELECT item, periodicity FROM periodic(beats, 9)"
    )
    assert found.rows == [["1969-12-31 23:59:58.500000Z", 11]]


@pytest.mark.parametrize("where", ["batches", "tasks", "files of a task"])
def test_items_of_another_type_are_refused_whichever_shards_they_reach(where):
    """A shard that had no event took them, and no question was answered any more."""
    for number in range(6):
        table = events([(second, None, number) for second in range(0, 200, 20)])
        whole = table.set_column(1, "driver", table["area"])
        texts = table.set_column(1, "driver", pa.array(["a"] * 10))
        ingest = Ingest(pipeline({"beats": BEATS}), temporary(), query_id="q")
        ingest.take(0, gather([whole] if where == "batches" else [events([(0, None, 0)])]))
        before = states(ingest)
        both = {"batches": [[texts]], "tasks": [[whole], [texts]]}.get(where, [[whole, texts]])
        with pytest.raises(SourceError, match=r"beats: item is int64, and string .* cast the col"):
            ingest.take(1, gather(map(InTurn, both)))
        assert states(ingest) == before
        ingest.take(1, gather([whole]))
        assert len(Session(ingest.ledger).sql("SELECT * FROM periodic(beats, 9)").rows) == 1
        ingest.close()


class InTurn(list):
    """What one task reads: tables of several types."""

    def to_batches(self):
        return [batch for table in self for batch in table.to_batches()]


def test_nothing_yet():
    made = ingested(pipeline({"beats": BEATS}), [[events([])]])
    assert states(made) == {}
    found = Session(made.ledger).sql("SELECT * FROM periodic(beats, 5)")
    assert found.rows == []
    joined = pipeline({"beats": BEATS | {"item": ["driver", "area"]}})
    made = ingested(joined, [[events([])]])
    found = Session(made.ledger).sql("SELECT driver, interval FROM periodic(beats, 5)")
    assert found.rows == []
    made = ingested(pipeline({"beats": BEATS}), [[events([(5, None, 1), (900, None, 2)])]])
    found = Session(made.ledger).sql("SELECT * FROM periodic(beats, 5)")
    assert (found.rows, found.bounds["beats"]["nulls"]) == ([], 2)
    batches = [[events([(900, "bot", 1), (900, None, 2)])], [events([(5, None, 1), (5, "bot", 2)])]]
    made = ingested(pipeline({"beats": BEATS}), batches)
    assert (made.progress.late, made.ledger.pipelines()[0].late) == (2, 2)


def test_what_is_asked_of_nothing_can_be_asked_of_something():
    """An item may be a number: a statement is not refused until the first one comes."""
    text = "SELECT item + 1 AS next, periodicity FROM periodic(beats, 5) WHERE item = 3"
    columns = {}
    for seconds in ([], [0], range(0, 600, 60)):
        table = events([(second, None, 3) for second in seconds])
        spec = pipeline({"beats": BEATS | {"item": "area"}})
        found = Session(ingested(spec, [[table]]).ledger).sql(text).table
        columns[len(seconds)] = found.schema.field("periodicity").type
    assert found.to_pylist() == [{"next": 4, "periodicity": 9}]
    assert set(columns.values()) == {pa.int64()}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT item FROM periodic(beats, 5) FOR LAST '1 hour'",
        "SELECT item FROM periodic(beats, 5) FOR '2026-01-01' TO '2026-01-02'",
        "SELECT item FROM periodic(beats, 5) FOR WINDOW '2026-01-01'",
    ],
)
def test_a_part_of_the_stream_cannot_be_asked(text):
    made = ingested(pipeline(), [[events(beating(300))]])
    session = Session(made.ledger)
    with pytest.raises(SelectError, match=r"(?s)whole stream so far.*leave the FOR clause out"):
        session.sql(text)
    assert session.sql("SELECT item FROM periodic(beats, 5) FOR ALL").rows
    # and the same in a standing query, when it is checked
    with pytest.raises(SpecError, match=r"queries\.due.*whole stream"):
        Ingest(
            pipeline(queries={"due": {"select": text, "on": "update"}}),
            temporary(),
            query_id="q",
        )


def test_standing_queries_run_on_update_only():
    text = "SELECT item FROM periodic(beats, 5) WHERE next_expected < now()"
    with pytest.raises(SpecError, match=r"queries\.due: on: window .* write on: update"):
        Ingest(pipeline(queries={"due": text}), temporary(), query_id="q")
    both = "SELECT p.item FROM periodic(beats, 5) AS p JOIN calls(driver) AS c ON c.driver = p.item"
    windowed = {"beats": BEATS, "calls": COUNTS | {"window": {"length": "1 minute"}}}
    with pytest.raises(SpecError, match=r"queries\.due: on: window .* write on: update"):
        Ingest(pipeline(windowed, queries={"due": both}), temporary(), query_id="q")
    queries = {"due": {"select": text, "on": "update"}}
    made = ingested(pipeline(queries=queries), [[events(beating(300))]])
    assert states(made)
    (note,) = Session(made.ledger).sql("SELECT * FROM trend(due)").notes
    assert note.message.startswith("due: it runs on update, so that no window has a result")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"window": {"length": "1 hour"}}, "no windows: leave `window` out"),
        ({"memory": "1 KB"}, "too small for k=10: give at least .* bytes for each of 3 shards"),
        ({"memory": "some"}, "write for example '100 KB'"),
        ({"gap": 0}, "gap"),
        ({"item": []}, "item"),
        ({"item": ["a", "a"]}, "'a' stands twice"),
        ({"item": ["a", "Interval"]}, "'Interval' is a column of the answers too"),
        ({"shards": 0}, "shards"),
        ({"batch_size": 0}, "batch_size"),
        (
            {"interval_unit": "1 us", "gap": "1 hour"},
            "interval_unit: 1 microsecond is too short: give at least 440 milliseconds$",
        ),
        ({"gap": "300 days"}, "gap: 300 days is too long: give at most 203 days$"),
        ({"resolution": "6 s"}, "resolution: 6 seconds is too long: give at most 5 seconds$"),
    ],
)
def test_a_wrong_entry_is_named(wrong, message):
    with pytest.raises(SpecError, match=message):
        pipeline({"beats": BEATS | wrong})


def test_sizes():
    for text, size in (("100 KB", 100_000), ("64KiB", 65536), ("1.5 mb", 1_500_000), (9e4, None)):
        if size is None:
            with pytest.raises(SpecError, match="amount of memory"):
                pipeline({"beats": BEATS | {"memory": text}})
        else:
            assert pipeline({"beats": BEATS | {"memory": text}}).summaries["beats"].memory == size


@pytest.mark.parametrize(
    "kind",
    [
        pa.float64(), pa.binary(), pa.large_binary(), pa.binary_view(), pa.list_(pa.int64()),
        pa.month_day_nano_interval(), pa.dictionary(pa.int8(), pa.float64()), pa.time32("s"),
        pa.duration("us"),
    ],
)  # fmt: skip
def test_a_column_that_is_no_item_is_named(kind):
    with pytest.raises(BadArgument, match=r"item 'driver' is .* cast it"):
        pipeline().summaries["beats"].check_types({"driver": kind})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gap": "6 seconds"}, "gap: 5 seconds in what is stored, now 6 seconds"),
        ({"shards": 2}, "shards: 3 in what is stored, now 2"),
        ({"item": ["area"]}, r"item: \['driver'\] in what is stored, now \['area'\]"),
        ({"k": 11}, "k: 10 in what is stored, now 11"),
        ({"resolution": "1 second"}, "resolution: 611 microseconds in what is stored, now"),
    ],
)
def test_other_parameters_do_not_continue_a_state(change, message):
    spec, other = pipeline(), pipeline({"beats": BEATS | change, "calls": COUNTS})
    made = ingested(spec, [[events(beating(300))]])
    with pytest.raises(SpecError, match=rf"summaries\.beats\.{message}"):
        Ingest(other, made.ledger, query_id="q")
    assert made.ledger.pipelines()[0].spec == spec.as_json()
    again = ingested(other, [[events(beating(300))]], made.ledger, mode="overwrite")
    made = ingested(spec, [[events(beating(300))]], again.ledger, mode="overwrite")
    ingest = Ingest(spec, made.ledger, query_id="q")
    with pytest.raises(SpecError, match=message):
        ingest.reconfigure(other)
    assert ingest.pipeline is spec
    ingest.take(1, gather([events([(310, "a", 1)])]))
    ingest.close()


def test_a_summary_that_is_added_later_begins_there():
    first = ingested(pipeline({"calls": COUNTS}), [[events(beating(300))]])
    ingest = Ingest(pipeline(), first.ledger, query_id="q")
    ingest.take(1, gather([events([(400, "a", 1), (10, "b", 1)])]))
    ingest.close()
    read = [PeriodicShard.from_bytes(payload) for payload in states(ingest).values()]
    assert (sum(s.count for s in read), sum(s.late for s in read)) == (1, 1)


def test_no_interval_is_measured_across_the_time_that_a_summary_was_away():
    """Whichever shard's items come first, or not before a restart."""
    without, spec = pipeline({"calls": COUNTS}), pipeline()
    ledger, drivers = temporary(), "abcdefgh"
    beats = [(60 * n, driver, 1) for n in range(30) for driver in drivers]

    def fed(spec, number, begin, end, drivers=drivers):
        ingest = Ingest(spec, ledger, query_id="q")
        rows = [row for row in beats if begin <= row[0] < end and row[1] in drivers]
        ingest.take(number, gather([events(rows)]))
        ingest.close()

    for number, each in enumerate([
        (spec, 0, 600), (without, 600, 1200), (spec, 1200, 1201, "a"), (spec, 1260, 1800),
    ]):  # fmt: skip
        fed(each[0], number, *each[1:])
    top = HyperCalm.merged_top(
        [PeriodicShard.from_bytes(payload).whole() for payload in ledger.states("beats").values()],
        30,
    ).to_pylist()
    assert {row["item"] for row in top} == set(drivers)
    for row in top:
        assert row["interval_low"] <= 60 * SECOND < row["interval_high"]
        assert row["periodicity"] == 8 + (9 if row["item"] == "a" else 8)  # 540 s was not sealed


@pytest.mark.parametrize(
    ("batches", "left_out", "intervals"),
    [
        ([[0, 100], [110], [120], [1200]], 1, [1080]),  # 100 waited for the watermark
        ([[0, 100, 120], [110, 900], [1200]], 2, []),
        ([[0, 100], [110], [105], [1200]], 2, []),  # 105 came too soon
        ([[], [110], [105, 130], [1200]], 1, [1070]),  # it joined later
    ],
)
def test_what_came_without_a_summary_may_lie_between_what_it_has(batches, left_out, intervals):
    without, spec, ledger = pipeline({"calls": COUNTS}), pipeline(), temporary()
    for number, seconds in enumerate(batches):
        came = [[]] * number + [[events([(second, "a", 1) for second in seconds])]]
        ingested(without if number == 1 else spec, came, ledger)
    found = Session(ledger).sql("SELECT interval FROM periodic(beats, 10)")
    measured = [each.total_seconds() for each in found.table["interval"].to_pylist()]
    assert measured == pytest.approx(intervals, abs=0.01)
    assert found.bounds["beats"]["left_out_late"] == left_out


def test_shards_have_room_for_their_share_of_the_highest():
    shard = (
        pipeline({"beats": BEATS | {"k": 1000, "memory": "1 MB"}}).summaries["beats"].new_shard(0)
    )
    assert shard.parameters.k == 443  # 1000 / 3, and six deviations
    assert shard.parameters.memory == 333_333


def test_the_spec_survives_json():
    spec = pipeline({"beats": BEATS | {"item": ["driver", "area"], "consecutive": True}})
    again = Pipeline.from_json(spec.as_json())
    assert again.summaries["beats"] == spec.summaries["beats"]
    assert isinstance(again.summaries["beats"], PeriodicSpec)


def test_shards_together_are_a_hyper_calm_each(tmp_path):
    """The answer is `merged_top` of shards that saw their items in order of time."""
    made = ingested(pipeline(), [[events(beating())]])
    read = [PeriodicShard.from_bytes(payload) for payload in states(made).values()]
    table = HyperCalm.merged_top([shard.whole() for shard in read], 5)
    found = Session(made.ledger).sql("SELECT item, periodicity FROM periodic(beats, 5)")
    expected = zip(table["item"].to_pylist(), table["periodicity"].to_pylist(), strict=True)
    assert found.rows == [list(row) for row in expected]


def test_a_shard_that_is_too_large_is_told_before_the_commit(monkeypatch):
    monkeypatch.setattr(sequences, "PAYLOAD_BYTES_MAX", 60_000)
    spec = pipeline({"beats": BEATS | {"shards": 1}})
    ingest = Ingest(spec, temporary(), query_id="q")
    ingest.take(0, gather([events([(0, "a", 1)])]))
    before = states(ingest)
    waiting = events([(1 + number / 1000, f"driver {number}", 1) for number in range(4_000)])
    with pytest.raises(SummaryOverflow, match=r"beats: shard 0 is [\d,]+ bytes.* give it more"):
        ingest.take(1, gather([waiting]))
    assert (ingest.ledger.pipelines()[0].batches, states(ingest)) == (1, before)
    ingest.take(1, gather([events([(1, "b", 1)])]))  # as if it had not come
    (shard,) = (PeriodicShard.from_bytes(payload) for payload in states(ingest).values())
    assert shard.count == 2
    ingest.close()
