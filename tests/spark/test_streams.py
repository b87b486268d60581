"""Real Spark: streams of files, from row to answer, and over restarts."""

import gc
import os
import shutil
import threading
import weakref
from contextlib import closing
from io import StringIO
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import muntin
from muntin.assembly.changes import spec_to_store
from muntin.cli.view import LiveView
from muntin.errors import LedgerConflict, SourceError, SpecError
from muntin.ledger.open import open_ledger
from muntin.ledger.records import Batch
from muntin.ledger.temporary import temporary
from muntin.spark import start_stream
from muntin.spark import stream as streams
from muntin.spark.gathering import gather_from
from muntin.spark.ingest import Ingest
from tests.pipeline.support import SECOND, START, events, pipeline, said_once_stopped, state

pytestmark = pytest.mark.spark
PATIENCE_SECONDS = 300


def arrive(rows, path):
    """A file that a stream that runs sees whole or not at all."""
    hidden = path.with_name("." + path.name)
    pq.write_table(rows, hidden)
    hidden.rename(path)


@pytest.mark.parametrize("what", ["DataFrame", "Table", "str"])
def test_what_is_no_stream_is_refused(spark, what):
    given = {"DataFrame": spark.range(3), "Table": events([(0, "a", 1, 1, 1)]), "str": "a.csv"}
    with pytest.raises(SourceError, match=f"this {what} is none: use spark.readStream, or muntin"):
        muntin.stream(given[what], pipeline())


def test_a_source_that_says_things_twice_is_counted_once_by_sparks_own_means(spark, tmp_path):
    """As docs/spark.md has it: over a restart, and without what is older than its watermark."""
    folder = tmp_path / "events"
    folder.mkdir()
    unique = events([(n, "ab"[n % 2], 1, n, 1) for n in range(3000)])
    unique = unique.append_column("id", pa.array(range(3000)))

    def repeats(number):
        """The newest fifth of the file before comes again."""
        return unique.slice(max(number * 500 - 100, 0), 500 + 100 * bool(number))

    def run():
        reader = spark.readStream.schema(spark.createDataFrame(unique.slice(0, 1)).schema)
        df = reader.option("maxFilesPerTrigger", 1).parquet(str(folder))
        once = df.withWatermark("time", "10 minutes").dropDuplicatesWithinWatermark(["id"])
        stream = muntin.stream(once, pipeline(), ledger=f"sqlite:///{tmp_path}/l.db", once=True)
        assert stream.await_termination(PATIENCE_SECONDS)
        found = stream.sql("SELECT driver, count, served FROM orders(driver) FOR ALL")
        assert found.exact
        return {row["driver"]: (row["count"], row["served"]) for row in found.table.to_pylist()}

    for number in range(6):
        path = folder / f"part-{number}.parquet"
        pq.write_table(repeats(number), path)
        os.utime(path, (START // SECOND + number,) * 2)
        if number in (2, 5):  # a restart in between, and no file's repeats in its own batch
            upto = 500 * (number + 1)
            assert run() == {
                driver: (upto // 2, sum(range(first, upto, 2))) for first, driver in enumerate("ab")
            }
    late = events([(5, "late", 1, 1, 1)]).append_column("id", pa.array([9999]))
    pq.write_table(late, folder / "late.parquet")
    assert "late" not in run()


def test_a_stream_says_that_its_times_are_in_another_unit(spark, tmp_path, caplog):
    rows = {"driver": ["a"], "area": [1], "served": [1], "fare": [5]}
    pq.write_table(pa.table({"time": [START // SECOND], **rows}), tmp_path / "a.parquet")
    spec = pipeline(
        source={"format": "parquet", "path": str(tmp_path)}, time={"column": "time", "unit": "ms"}
    )
    place = str(tmp_path / "_checkpoint")
    stream = muntin.stream(None, spec, ledger=temporary(), checkpoint=place, once=True)
    assert stream.await_termination(PATIENCE_SECONDS)
    assert stream.progress.counted == 1  # it goes on
    assert "and 2023-11-14T22:13:20Z in s; so are 1 of 1 events" in caplog.text
    assert stream.ledger.status("orders")["doubt"] in caplog.text


def test_a_stream_of_files_gives_the_same_ledger(spark, table, summarised, tmp_path):
    folder = tmp_path / "events"
    folder.mkdir()
    for number in range(6):
        path = folder / f"part-{number}.parquet"
        pq.write_table(table.slice(number * 500, 500), path)
        os.utime(path, (START // SECOND + number,) * 2)  # Spark takes the oldest first
    df = (
        spark.readStream.schema(spark.createDataFrame(table.slice(0, 1)).schema)
        .option("maxFilesPerTrigger", 2)
        .parquet(str(folder))
    )
    url = f"sqlite:///{tmp_path}/stream.db"
    stream = muntin.stream(df, pipeline(), ledger=url, once=True)
    assert stream.await_termination(PATIENCE_SECONDS)
    assert stream.progress.batches == 3
    assert state(stream) == state(summarised)
    # once more: nothing new, nothing counted twice
    again = muntin.stream(df, pipeline(), ledger=url, once=True)
    assert again.await_termination(PATIENCE_SECONDS)
    assert again.progress.read == 0
    assert state(again) == state(summarised)
    # with its checkpoint gone it would read all again: refused
    with pytest.raises(LedgerConflict, match="append"):
        muntin.stream(df, pipeline(), ledger=url, checkpoint=str(tmp_path / "new"), once=True)
    assert state(again) == state(summarised)


def test_a_stream_of_the_specs_own_files_is_read_in_the_workers(
    spark, table, summarised, tmp_path, monkeypatch
):
    folder = tmp_path / "in %20 files"
    folder.mkdir()
    for number in range(4):
        path = folder / f"part {number}.parquet"
        pq.write_table(table.slice(number * 750, 750), path)
        os.utime(path, (number, number))  # Spark takes the oldest first; some were of one moment
    # Spark takes no %20 of a URI for a space
    source = {"format": "parquet", "path": f"file://{folder}", "maxFilesPerTrigger": 3}
    spec, ledger = pipeline(source=source), temporary()
    read_by_spark = []

    def by_spark(df, pipeline):
        read_by_spark.append(df)
        return gather_from(df, pipeline)

    monkeypatch.setattr(streams, "gather_from", by_spark)

    def taken():
        stream = muntin.stream(
            None, spec, ledger=ledger, checkpoint=str(tmp_path / "checkpoint"), once=True
        )
        assert stream.await_termination(PATIENCE_SECONDS)
        return stream

    stream = taken()
    assert stream.progress.batches == 2
    assert not read_by_spark
    assert state(stream) == state(summarised)
    # a file that lacks a column stops nothing: Spark fills it in
    pq.write_table(table.drop_columns("fare").slice(0, 10), folder / "part 9.parquet")
    stream = taken()
    assert stream.progress.read == 10
    assert len(read_by_spark) == 1
    # nor in a batch, whoever reads it
    for fields in ({}, {"x": "1"}):
        spec = pipeline(source=source, fields=fields)
        whole = muntin.summarize(None, spec, ledger=temporary())
        assert state(whole)[0] == state(stream)[0]


def test_a_planned_file_that_is_gone_is_told_and_comes_back(spark, table, tmp_path, monkeypatch):
    """A batch that died before its commit runs again; Spark would leave the file out in silence."""
    folder = tmp_path / "events"
    folder.mkdir()
    for number in range(3):
        pq.write_table(table.slice(number * 100, 100), folder / f"{number}.parquet")
    spec, url = pipeline(source={"format": "parquet", "path": str(folder)}), f"{tmp_path}/a.db"

    def taken():
        found = muntin.stream(None, spec, ledger=f"sqlite:///{url}", once=True)
        found.await_termination(PATIENCE_SECONDS)
        return found.ledger.pipelines()[0].read

    def dies(*_):
        raise RuntimeError("here it dies")

    with monkeypatch.context() as dying:
        dying.setattr(Ingest, "_commit", dies)
        with pytest.raises(Exception, match="here it dies"):
            taken()
    lost = folder / "1.parquet"
    lost.rename(tmp_path / "kept")
    with pytest.raises(SourceError, match=r"1\.parquet is gone.*Put it back.*ignoreMissingFiles"):
        taken()
    (tmp_path / "kept").rename(lost)
    assert taken() == 300


def test_a_checkpoint_that_is_older_than_the_ledger_is_refused(spark, table, tmp_path):
    """By its next batch Spark would take other files than those that are stored under its number:
    they would be ignored."""
    (tmp_path / "events").mkdir()
    place, old = tmp_path / "checkpoint", tmp_path / "old"
    spec = pipeline(source={"format": "parquet", "path": str(tmp_path / "events")})

    def taken(number):
        pq.write_table(table.slice(number * 100, 100), tmp_path / "events" / f"{number}.parquet")
        url = f"sqlite:///{tmp_path}/l.db"
        found = muntin.stream(None, spec, ledger=url, checkpoint=str(place), once=True)
        found.await_termination(PATIENCE_SECONDS)
        return found.ledger.pipelines()[0].read

    assert taken(0) == 100
    shutil.copytree(place, old)
    assert taken(1) == 200
    place.rename(tmp_path / "new")
    shutil.copytree(old, place)
    told = r"has planned batches up to 0, and those up to 1 are stored.*--append.*--reset"
    with pytest.raises(LedgerConflict, match=told):
        taken(2)
    shutil.rmtree(place)
    (tmp_path / "new").rename(place)
    assert taken(2) == 300


def test_a_ledger_that_was_lost_is_accepted_once_and_says_what_it_lacks(spark, table, tmp_path):
    """Though nothing comes in the run that accepts it."""
    (tmp_path / "events").mkdir()
    source = {"format": "parquet", "path": str(tmp_path / "events")}
    spec = pipeline(source=source)

    def taken(mode="continue", number=None):
        if number is not None:
            pq.write_table(table.slice(number * 9, 9), tmp_path / "events" / f"{number}.parquet")
        with closing(open_ledger(f"sqlite:///{tmp_path}/l.db")) as ledger:
            place = str(tmp_path / "checkpoint")
            found = muntin.stream(None, spec, ledger=ledger, checkpoint=place, once=True, mode=mode)
            assert found.await_termination(PATIENCE_SECONDS)
            return ledger.pipelines()[0].read, ledger.missing_batches(spec.name)

    assert [taken(number=number) for number in range(2)] == [(9, 0), (18, 0)]
    for file in tmp_path.glob("l.db*"):
        file.unlink()
    with pytest.raises(LedgerConflict, match=r"no batch of query .*, and batch 2 comes next"):
        taken()
    assert taken("append") == (0, 2)
    assert taken() == (0, 2)
    assert taken(number=2) == (9, 2)


def test_older_events_are_added_beside_a_stream_which_then_goes_on(spark, tmp_path):
    """By another checkpoint and `append`; by `summarize`, too."""
    url = f"sqlite:///{tmp_path}/l.db"
    window = {"window": {"kind": "tumbling", "length": "1 minute"}}

    def spec_of(folder):
        (tmp_path / folder).mkdir(exist_ok=True)
        source = {"format": "parquet", "path": str(tmp_path / folder)}
        sums = {"keys": ["driver"], "indicators": ["fare"], **window}
        return pipeline(source=source, summaries={"orders": sums}, queries={})

    def rows(*minutes):
        return events([(60 * m + s, "ab"[s % 2], 1, 1, m + 1) for m in minutes for s in range(50)])

    def taken(folder, mode):
        place = str(tmp_path / f"{folder}-checkpoint")
        found = muntin.stream(
            None, spec_of(folder), ledger=url, checkpoint=place, once=True, mode=mode
        )
        assert found.await_termination(PATIENCE_SECONDS)
        return found

    spec_of("live"), spec_of("older")
    arrive(rows(7, 8), tmp_path / "live" / "1.parquet")
    taken("live", "continue")
    arrive(rows(3, 4), tmp_path / "older" / "1.parquet")
    with pytest.raises(LedgerConflict, match="a new query would read the source again"):
        taken("older", "continue")
    assert taken("older", "append").ledger.pipelines()[0].late == 100
    muntin.summarize(rows(1), spec_of("live"), ledger=url, mode="append").close()
    arrive(rows(9), tmp_path / "live" / "2.parquet")
    session = taken("live", "continue")
    whole = muntin.summarize(rows(1, 3, 4, 7, 8, 9), spec_of("live"))
    for asked in (
        "SELECT driver, count, fare FROM orders(driver) FOR ALL ORDER BY driver",
        "SELECT window_start, window_end, events FROM windows(orders)",
    ):
        assert session.sql(asked).table == whole.sql(asked).table


def test_what_was_rejected_counts_once_it_comes_anew_in_a_new_file(spark, tmp_path):
    """As docs/operations.md has it."""
    folder = tmp_path / "data"
    folder.mkdir()
    good, bad = (f'{{"time": "2026-01-01T00:00:00Z", "fare": {n}}}\n' for n in (1, '"2,0"'))
    (folder / "1.json").write_text(good + bad)
    source = {"format": "json", "path": str(folder), "schema": "time TIMESTAMP, fare DOUBLE"}
    summaries = {"orders": {"keys": ["time"], "indicators": ["fare"]}}
    spec = {"name": "p", "time": "time", "pane": "1 minute", "max_rejected": 1}
    spec |= {"source": source, "summaries": summaries, "ledger": f"sqlite:///{tmp_path}/l.db"}

    def run():
        stream = muntin.stream(None, spec, once=True)
        assert stream.await_termination(PATIENCE_SECONDS)
        return stream.ledger, stream.sql("SELECT count, fare FROM orders FOR ALL").rows

    ledger, rows = run()
    ((_, record),) = ledger.rejected("p")
    assert (record.reason, record.raw.decode() + "\n", rows) == ("malformed", bad, [[1, 1.0]])
    corrected = record.raw.decode().replace('"2,0"', "2.0")
    (folder / "again-1-1000.json").write_text(corrected)
    for _ in range(2):
        ledger, rows = run()
        assert (rows, ledger.pipeline("p").rejected) == ([[2, 3.0]], 1)


def test_a_ledger_that_is_older_than_the_checkpoint_is_told_before_spark_starts(
    table, tmp_path, monkeypatch
):
    """Put back from a copy, or deleted: where nothing new came, a run ended as if all were well."""
    url, place = f"sqlite:///{tmp_path}/l.db", tmp_path / "checkpoint"
    for name in ("offsets", "commits"):
        (place / name).mkdir(parents=True)
        for number in range(3):
            (place / name / str(number)).write_text("v1\n{}\n{}\n")
    (place / "metadata").write_text('{"id":"q"}')
    spec = pipeline(source={"format": "parquet", "path": str(tmp_path)})

    def passes():
        with monkeypatch.context() as patch:
            starts = Mock(side_effect=RuntimeError("Spark starts"))
            patch.setattr(start_stream, "_own_source", starts)
            with pytest.raises(RuntimeError, match="Spark starts"):
                muntin.stream(None, spec, ledger=url, checkpoint=str(place), once=True)

    with pytest.raises(LedgerConflict, match=r"no batch of query q, and batch 3 comes.*--reset"):
        muntin.stream(None, spec, ledger=url, checkpoint=str(place), once=True)
    ledger = open_ledger(url)
    writer = ledger.open_writer(spec.name, spec_to_store(spec, None), query_id="q", mode="continue")
    for number in range(3):
        with pytest.raises(LedgerConflict, match=r"is lost to this ledger.*--append"):
            muntin.stream(None, spec, ledger=ledger, checkpoint=str(place), once=True)
        writer.commit(Batch("q", number))
    writer.close()
    passes()
    (place / "commits" / "2").unlink()  # Spark died before it wrote that
    passes()
    ledger.close()


def test_a_damaged_file_is_named_and_one_put_in_its_place_is_taken(spark, table, tmp_path):
    """By Arrow; by Spark, which computes fields; by Spark, where Arrow finds no end of the file."""
    folder = tmp_path / "events"
    folder.mkdir()
    for number in range(2):
        pq.write_table(table.slice(number * 100, 100), folder / f"{number}.parquet")
    lost = folder / "1.parquet"
    sound = lost.read_bytes()
    source = {"format": "parquet", "path": str(folder)}
    plain, by_spark = pipeline(source=source), pipeline(source=source, fields={"again": "1"})

    def streamed(spec, name):
        found = muntin.stream(None, spec, ledger=f"sqlite:///{tmp_path}/{name}.db", once=True)
        found.await_termination(PATIENCE_SECONDS)
        return found.ledger.pipelines()[0].read

    told = r"/1\.parquet.*put a whole one in its place"
    middle = sound[:60] + bytes(200) + sound[260:]
    ways = [("arrow", plain, middle), ("spark", by_spark, middle), ("end", plain, sound[:-60])]
    for name, spec, damaged in ways:
        lost.write_bytes(damaged)
        with pytest.raises(SourceError, match=told):
            streamed(spec, name)
        lost.write_bytes(sound)
        assert streamed(spec, name) == 200


def test_a_stream_that_has_ended_leaves_nothing(spark, table, tmp_path):
    """Spark never forgets whom it calls with batches."""
    pq.write_table(table, tmp_path / "a.parquet")
    spec = pipeline(source={"format": "parquet", "path": str(tmp_path)})
    place = str(tmp_path / "_checkpoint")
    stream = muntin.stream(None, spec, ledger=temporary(), checkpoint=place, once=True)
    assert stream.await_termination(PATIENCE_SECONDS)
    assert stream.progress.counted == len(table)
    ingest = weakref.ref(stream.ingest)
    del stream
    gc.collect()
    assert ingest() is None


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_file_counts_however_old_it_is(spark, table, tmp_path, form):
    """As one that was copied with its times, or a newest one whose clock was ahead."""
    folder = tmp_path / "events"
    folder.mkdir()
    source = {"format": form, "path": str(folder), "schema": "time timestamp, driver string"}
    if form == "parquet":
        del source["schema"]
    sums = {"summaries": {"orders": {"keys": ["driver"]}}, "queries": {}}

    def taken(number, days, **more):
        path = folder / f"{number}.{form}"
        if form == "json":
            path.write_text('{"time": "2026-01-01T00:00:00Z", "driver": "a"}\n' * 100)
        else:
            arrive(table.slice(number * 100, 100), path)
        when = path.stat().st_mtime + days * 86400
        os.utime(path, (when, when))
        spec = pipeline(source=source | more, **sums)
        stream = muntin.stream(None, spec, ledger=f"sqlite:///{tmp_path}/l.db", once=True)
        assert stream.await_termination(PATIENCE_SECONDS)
        return stream.ledger.pipelines()[0].read

    assert [taken(0, 0), taken(1, -30), taken(2, 20_000), taken(3, -10_000)] == [100, 200, 300, 400]
    assert taken(4, 0, maxfileage="7d") == 400  # who says so himself is obeyed


def test_files_that_grew_since_they_were_counted_are_told(spark, tmp_path, caplog):
    """Also once Spark has put its list of files together, as it does every tenth batch."""
    folder, line = tmp_path / "in ü%", '{"time": "2026-01-01T00:00:00Z", "driver": "a"}\n'
    folder.mkdir()
    source = {"format": "json", "path": str(folder), "schema": "time timestamp, driver string"}
    sums = {"summaries": {"orders": {"keys": ["driver"]}}, "queries": {}}
    spec = pipeline(source=source | {"maxFilesPerTrigger": 1}, **sums)

    def taken():
        caplog.clear()
        stream = muntin.stream(None, spec, ledger=f"sqlite:///{tmp_path}/l.db", once=True)
        assert stream.await_termination(PATIENCE_SECONDS)
        return stream.ledger.pipelines()[0].read, caplog.text

    for number in range(12):
        (folder / f"{number}.json").write_text(line)
    assert taken() == (12, "")
    for number in (3, 11):
        with (folder / f"{number}.json").open("a") as file:
            file.write(line)
        when = (1_900_000_000 + number,) * 2
        os.utime(folder / f"{number}.json", when)
    (folder / "5.json").unlink()
    read, said = taken()
    assert read == 12
    assert f"{folder}/3.json and 1 more were written anew" in said


def test_another_folder_is_not_that_of_the_checkpoint(spark, table, tmp_path):
    for number, name in enumerate("ab"):
        (tmp_path / name).mkdir()
        pq.write_table(table.slice(number * 100, 100), tmp_path / name / "1.parquet")

    def taken(name, mode="continue", **more):
        source = {"format": "parquet", "path": str(tmp_path / name)}
        url = f"sqlite:///{tmp_path}/l.db"
        made = muntin.stream(
            None, pipeline(source=source), ledger=url, once=True, mode=mode, **more
        )
        made.await_termination(PATIENCE_SECONDS)
        return made.ledger.pipelines()[0].read

    assert taken("a") == 100
    with pytest.raises(SourceError, match=r"source\.path: is \S+/b now, .* has read \S+/a/1.parq"):
        taken("b", "append")
    assert taken("b", "append", checkpoint=str(tmp_path / "another")) == 200


@pytest.mark.slow
def test_a_checkpoint_that_is_a_uri_goes_with_the_data(spark, table, tmp_path):
    """Were it left, a pipeline that begins anew would leave out what the old one has read."""
    (tmp_path / "events").mkdir()
    schema = spark.createDataFrame(table.slice(0, 1)).schema
    df = spark.readStream.schema(schema).parquet(str(tmp_path / "events"))
    ledger, read = temporary(), []
    for number, mode in enumerate(("continue", "overwrite")):
        pq.write_table(table.slice(number * 50, 50), tmp_path / "events" / f"{number}.parquet")
        found = muntin.stream(
            df, pipeline(), ledger=ledger, checkpoint=f"file://{tmp_path}/checkpoint",
            once=True, mode=mode,
        )  # fmt: skip
        found.await_termination()
        read.append(found.progress.read)
    assert read == [50, 100]


def test_slow_down_lengthens_the_window(spark, tmp_path):
    folder = tmp_path / "events"
    folder.mkdir()
    first = events([(s, "a", 1, 1, 1) for s in range(0, 45, 5)])
    pq.write_table(first, folder / "a.parquet")
    df = spark.readStream.schema(spark.createDataFrame(first).schema).parquet(str(folder))
    spec = pipeline(trigger="100 ms")
    stream = muntin.stream(df, spec, ledger=f"sqlite:///{tmp_path}/slow.db")
    stream.query.processAllAvailable()
    assert stream.slow_down("orders")["orders"] == {"done": True, "length_us": 120_000_000}
    arrive(events([(s, "a", 1, 1, 1) for s in range(45, 400, 5)]), folder / "b.parquet")
    stream.query.processAllAvailable()
    lengths = [w.end - w.start for w in stream.ledger.windows("orders")]
    assert set(lengths) == {120_000_000}
    assert stream.resume()["orders"]["length_us"] == 60_000_000
    arrive(events([(s, "a", 1, 1, 1) for s in range(400, 700, 5)]), folder / "c.parquet")
    stream.query.processAllAvailable()
    assert stream.ledger.windows("orders")[-1].end - stream.ledger.windows("orders")[-1].start == (
        60_000_000
    )
    stream.stop()


def test_keys_change_without_a_restart(spark, tmp_path):
    folder = tmp_path / "events"
    folder.mkdir()
    first = events([(s, "a", 1, 1, 1) for s in range(0, 40, 5)])
    pq.write_table(first, folder / "a.parquet")
    df = spark.readStream.schema(spark.createDataFrame(first).schema).parquet(str(folder))
    spec = pipeline(trigger="100 ms")
    stream = muntin.stream(df, spec, ledger=f"sqlite:///{tmp_path}/keys.db")
    stream.query.processAllAvailable()
    summary = dict(spec.as_json()["summaries"]["orders"])
    summary["keys"] = [*summary["keys"], ["area"]]
    summary["window"] = {"kind": "floating", "length": "1 minute"}
    for entry, other in (("name", "other"), ("ledger", "memory://"), ("trigger", "1 hour")):
        with pytest.raises(SpecError, match=f"^{entry}: cannot change while the pipeline runs"):
            stream.reconfigure(pipeline(**{"trigger": "100 ms", entry: other}))
    tumbling = {"window": {"kind": "tumbling", "length": "1 minute"}, "capacity": None}
    both = {"orders": summary, "more": summary | tumbling}
    stream.reconfigure(pipeline(trigger="100 ms", summaries=both))
    arrive(events([(s, "b", 2, 1, 1) for s in range(40, 80, 5)]), folder / "b.parquet")
    stream.query.processAllAvailable()
    shown = StringIO()
    Console(file=shown, width=200).print(LiveView(stream).render())
    assert "open window of more" in shown.getvalue()
    found = stream.sql("SELECT area, count FROM orders(area) FOR ALL")
    assert found.rows == [[2, 8]]
    assert stream.sql("SELECT driver, count FROM orders(driver) FOR ALL ORDER BY driver").rows == [
        ["a", 8],
        ["b", 8],
    ]
    stream.stop()


def test_columns_change_while_a_batch_begins(spark, tmp_path, monkeypatch):
    """Who follows the pipeline file is another thread than the batches'."""
    folder = tmp_path / "events"
    folder.mkdir()
    first = events([(s, "a", 1, 1, 1) for s in range(0, 40, 5)])
    df = spark.readStream.schema(spark.createDataFrame(first).schema).parquet(str(folder))
    of = {"keys": ["driver"], "indicators": ["served"]}
    spec = pipeline(trigger="100 ms", summaries={"orders": of}, queries={})
    more = pipeline(
        trigger="100 ms", summaries={"orders": of | {"indicators": ["served", "fare"]}}, queries={}
    )
    changing = []
    prepared = streams.Stream._gather

    def gather(stream, batch, known):
        found = prepared(stream, batch, known)
        if not changing:
            changing.append(threading.Thread(target=stream.reconfigure, args=[more]))
            changing[0].start()
            changing[0].join(3)
        return found

    monkeypatch.setattr(streams.Stream, "_gather", gather)
    stream = muntin.stream(df, spec, ledger=f"sqlite:///{tmp_path}/columns.db")
    arrive(first, folder / "a.parquet")
    stream.query.processAllAvailable()
    changing[0].join(PATIENCE_SECONDS)
    arrive(events([(s, "b", 2, 1, 7) for s in range(40, 80, 5)]), folder / "b.parquet")
    stream.query.processAllAvailable()
    assert stream.sql("SELECT driver, fare FROM orders(driver) FOR ALL ORDER BY driver").rows == [
        ["a", None],
        ["b", 56],
    ]
    stream.stop()


def test_a_stream_stops_while_batches_keep_coming(spark, tmp_path):
    """Stopping waits for the batch at hand, and a batch that begins meanwhile does not wait."""
    folder = tmp_path / "events"
    folder.mkdir()
    for number in range(40):
        rows = events([(number * 10 + s, "a", 1, 1, 1) for s in range(10)])
        pq.write_table(rows, folder / f"part-{number:02d}.parquet")
    df = (
        spark.readStream.schema(spark.createDataFrame(rows).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder))
    )
    url = f"sqlite:///{tmp_path}/stop.db"
    for _ in range(3):
        begun = threading.Event()
        spec = pipeline(trigger="0 seconds")
        stream = muntin.stream(df, spec, ledger=url, on_batch=lambda ingest, b=begun: b.set())
        assert begun.wait(PATIENCE_SECONDS)
        stopping = threading.Thread(target=stream.stop, daemon=True)
        stopping.start()
        stopping.join(PATIENCE_SECONDS)
        assert not stopping.is_alive()
    (info,) = stream.ledger.pipelines()
    assert info.read == info.counted == info.batches * 10


def test_who_stops_a_stream_that_another_awaits_has_its_last_word(
    spark, table, tmp_path, monkeypatch
):
    pq.write_table(table, tmp_path / "a.parquet")
    spec = pipeline(source={"format": "parquet", "path": str(tmp_path)})
    place = str(tmp_path / "_checkpoint")
    stream = muntin.stream(None, spec, ledger=temporary(), checkpoint=place, once=True)
    assert said_once_stopped(stream, monkeypatch) == "finished"
