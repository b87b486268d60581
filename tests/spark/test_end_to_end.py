"""Real Spark: from a DataFrame, files or a stream to an answer."""

import gzip
import json
import os
import random
import threading

import duckdb
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import muntin
from muntin.assembly import cutting
from muntin.errors import LedgerConflict, SelectError, SourceError, SpecError
from muntin.ledger.temporary import temporary
from muntin.spark import stream as streams
from muntin.spark.ingest import Ingest, gather_from
from tests.pipeline.support import SECOND, START, content, events, pipeline

pytestmark = pytest.mark.spark
PATIENCE_SECONDS = 300


def some_rows(number, seed=1):
    rng = random.Random(seed)
    return [
        (
            rng.uniform(0, 900),
            rng.choice([None, *"abcdefgh"]),
            rng.randrange(4),
            rng.randrange(-5, 6),
            rng.choice([None, rng.randrange(10**6)]),
        )
        for _ in range(number)
    ]


def arrive(rows, path):
    """A file that a stream that runs sees whole or not at all."""
    hidden = path.with_name("." + path.name)
    pq.write_table(rows, hidden)
    hidden.rename(path)


@pytest.fixture(scope="module")
def table():
    return events(sorted(some_rows(3000)))


def state(found):
    """The ledger's content, as the tests of the pipeline compare it."""
    holder = type("Holder", (), {"ledger": found.ledger, "pipeline": pipeline()})
    return content(holder)


@pytest.fixture(scope="module")
def summarised(spark, table):
    return muntin.summarize(spark.createDataFrame(table), pipeline(), ledger=temporary())


def test_executors_merge_and_write_shards(spark, table, summarised, tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "CUT_BYTES_MIN", 0)
    monkeypatch.setattr(cutting, "FILE_BYTES_MIN", 0)
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=500)
    orders = pipeline().summaries["orders"].model_copy(update={"shards": 4})
    sharded = pipeline().model_copy(update={"summaries": {"orders": orders}})
    for number, data in enumerate((spark.createDataFrame(table), tmp_path / "events.parquet")):
        path = tmp_path / f"{number}.db"
        found = muntin.summarize(data, sharded, ledger=f"sqlite:///{path}")
        assert state(found) == state(summarised)
        pieces = found.ledger.pieces("orders", sharded.pane)
        assert len(pieces) == 4
        (folder,) = path.with_name(f"{path.name}.payloads").iterdir()
        assert {file.name.split("-")[0] for file in folder.iterdir()} == {"orders"}
        found.close()


def test_answers_are_those_of_duckdb(summarised, table):
    orders = table  # noqa: F841 (DuckDB finds it by its name)
    expected = duckdb.sql(
        "SELECT driver, area, count(*), coalesce(sum(served), 0), coalesce(sum(fare), 0) "
        "FROM orders GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    found = summarised.sql(
        "SELECT driver, area, count, served, fare FROM orders(driver, area) FOR ALL "
        "ORDER BY driver NULLS LAST, area"
    )
    assert [tuple(row) for row in found.rows] == expected
    assert found.exact
    assert summarised.progress.read == table.num_rows


def test_files_read_in_the_workers_give_the_same_ledger(spark, table, summarised, tmp_path):
    pq.write_table(table, tmp_path / "orders.parquet", row_group_size=400)
    direct = muntin.summarize(str(tmp_path), pipeline(), ledger=temporary())
    assert state(direct) == state(summarised)


def test_partitions_in_any_order_give_the_same_ledger(spark, table, summarised):
    df = spark.createDataFrame(table).repartition(5, "fare")
    assert state(muntin.summarize(df, pipeline(), ledger=temporary())) == state(summarised)


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
    assert taken().progress.read == 10
    assert len(read_by_spark) == 1


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


def test_malformed_records_are_kept_with_their_reason(spark, tmp_path):
    good = {"time": "2023-11-14T22:13:20Z", "driver": "a", "area": 1, "served": 1, "fare": 5}
    lines = [
        json.dumps(good),
        json.dumps(good | {"time": None}),
        json.dumps(good | {"time": "yesterday"}),
        json.dumps(good | {"time": "1969-12-31T23:59:59Z"}),
        json.dumps(good | {"time": "2999-01-01"}),
        '{"time": "2023-11-14T22:13:20Z", "driver": ',
    ]
    (tmp_path / "events.json").write_text("\n".join(lines))
    spec = pipeline(
        source={
            "format": "json",
            "path": str(tmp_path / "events.json"),
            "schema": "time string, driver string, area bigint, served bigint, fare bigint",
        }
    )
    found = muntin.summarize(None, spec, ledger=temporary())
    assert (found.progress.read, found.progress.counted, found.progress.rejected) == (6, 1, 5)
    kept = {record.reason: record for _, record in found.ledger.rejected("orders")}
    assert set(kept) == {"no_time", "bad_time", "before_1970", "future", "malformed"}
    assert b'"driver": ' in kept["malformed"].raw
    assert "yesterday" in kept["bad_time"].detail


@pytest.mark.parametrize("named", [{}, {"TimeZone": "Europe/Berlin", "Header": True}])
@pytest.mark.parametrize("fields", [{}, {"one": "1"}])
def test_csv_is_read_as_all_write_it(spark, tmp_path, named, fields):
    """Quotes within quotes are doubled, and an option counts in whatever case it is written."""
    column = pa.array(['a"b', 'say ""', "x,y", "plain", "back\\"])
    times = ["2023-11-14 22:13:20"] * len(column)
    numbers = {name: [1] * len(column) for name in ("area", "served", "fare")}
    csv.write_csv(pa.table({"time": times, "driver": column, **numbers}), tmp_path / "orders.csv")
    ddl = "time timestamp, driver string, area bigint, served bigint, fare bigint"
    source = {"format": "csv", "path": str(tmp_path), "schema": ddl, **named}
    found = muntin.summarize(None, pipeline(source=source, fields=fields), ledger=temporary())
    drivers = found.sql("SELECT driver FROM orders(driver) FOR ALL").to_arrow()
    assert sorted(drivers["driver"].to_pylist()) == sorted(column.to_pylist())
    hour = 3600 if named else 0
    assert found.progress.newest == (START // SECOND - hour) * SECOND


def test_a_time_of_day_is_not_todays(spark, tmp_path):
    """Spark would read it on the day on which it runs, and answers would move with it."""
    lines = ["time,driver,area,served,fare,day", "12:30:00,a,1,1,5,2023-11-14 00:00:00"]
    (tmp_path / "orders.csv").write_text("\n".join(lines))
    spec = pipeline(source={"format": "csv", "path": str(tmp_path)})
    with pytest.warns(UserWarning, match="bad_time, column 'time': '12:30:00' is not a time"):
        muntin.summarize(None, spec, ledger=temporary())
    day_and_time = {"time": "to_timestamp(concat(date(day), ' ', time))"}
    spec = spec.model_copy(update={"fields": day_and_time})
    found = muntin.summarize(None, spec, ledger=temporary())
    assert found.progress.newest == START - START % (86_400 * SECOND) + 45_000 * SECOND


@pytest.mark.parametrize("name", ["user.id", "a`b", "c0", "a b"])
def test_columns_of_any_name_are_read_by_spark(spark, tmp_path, name):
    row = {"time": "2023-11-14T22:13:20Z", "c1": "x", name: "y", "fare": 5}
    (tmp_path / "orders.json").write_text(json.dumps(row))
    orders = {"keys": ["c1", name], "indicators": ["fare"]}
    source = {"format": "json", "path": str(tmp_path)}
    spec = pipeline(source=source, summaries={"orders": orders}, queries={})
    stream = muntin.stream(
        None, spec, ledger=temporary(), checkpoint=str(tmp_path / "_checkpoint"), once=True
    )
    assert stream.await_termination(PATIENCE_SECONDS)
    for found in (stream, muntin.summarize(None, spec, ledger=temporary())):
        for key, value in (("c1", "x"), (name, "y")):
            select = f'SELECT "{key}", fare FROM orders("{key}") FOR ALL'  # noqa: S608
            assert found.sql(select).to_arrow().to_pylist() == [{key: value, "fare": 5}]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_text_that_is_not_utf8_is_rejected_in_files_too(spark, tmp_path, form):
    """Spark reads U+FFFD for each such byte, and makes one key of two."""
    names = ["time", "driver", "area", "served", "fare"]
    orders = [["2023-11-14 22:13:20", driver, 1, 1, 5] for driver in ("\xe9", "\xe8", "e")]
    if form == "csv":
        lines = [",".join(map(str, line)) for line in (names, *orders)]
    else:
        records = [dict(zip(names, order, strict=True)) for order in orders]
        lines = [json.dumps(record, ensure_ascii=False) for record in records]
    (tmp_path / f"a.{form}").write_bytes("\n".join(lines).encode("latin-1"))
    ddl = "time timestamp, driver string, area bigint, served bigint, fare bigint"
    source = {"format": form, "path": str(tmp_path), "schema": ddl}
    why = "not UTF-8: .* encoding: ISO-8859-1" if form == "csv" else "does not parse"
    for fields in ({}, {"one": "1"}):
        spec = pipeline(source=source, fields=fields)
        with pytest.warns(UserWarning, match=f"2 of 3 records were rejected: malformed, .*{why}"):
            muntin.summarize(None, spec, ledger=temporary())
    mark = "\ufffd" if form == "csv" else "\\ufffd"  # an escape of JSON's
    (tmp_path / f"b.{form}").write_text("\n".join(lines).replace("\xe9", mark), "utf-8")
    found = muntin.summarize(None, pipeline(source=source), ledger=temporary())
    assert (found.progress.read, found.progress.counted) == (6, 4)  # what stands there counts
    (tmp_path / f"b.{form}").unlink()
    if form == "csv":
        said = pipeline(source=source | {"encoding": "ISO-8859-1"})
        found = muntin.summarize(None, said, ledger=temporary())
        drivers = found.sql("SELECT driver FROM orders(driver) FOR ALL").to_arrow()
        assert sorted(drivers["driver"].to_pylist()) == ["e", "\xe8", "\xe9"]


def test_lines_of_several_objects_are_rejected_where_spark_reads_one(spark, tmp_path):
    one = {"time": "2023-11-14T22:13:20Z", "driver": "a", "area": 1, "served": 1, "fare": 5}
    text = json.dumps(one)
    (tmp_path / "good.json").write_text(f"{text}\n{text}\n")
    (tmp_path / "joined.json").write_text(f"{text}{text}\n{text} {text}\n")
    source = {"format": "json", "path": str(tmp_path)}
    found = muntin.summarize(None, pipeline(source=source), ledger=temporary())
    assert (found.progress.read, found.progress.rejected) == (4, 2)
    (_, record), _ = found.ledger.rejected("orders")
    assert record.detail.startswith("the file has several JSON values in its first line")
    assert "joined.json, row" in record.place


@pytest.mark.parametrize("names", ["a.csv b.csv", "a b", "a.txt b.txt", "a.csv.gz b.csv.gz"])
def test_a_folder_is_read_as_its_files_are_named_or_the_spec_says(spark, tmp_path, names):
    """It was read as Parquet."""
    lines = "time,driver,area,served,fare\n2023-11-14 22:13:20,a,1,1,5\n"
    for name in names.split():
        content = lines.encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if ".gz" in name else content)
    source = {"format": "csv", "path": "elsewhere", "sep": ","}
    found = muntin.summarize(tmp_path, pipeline(source=source), ledger=temporary())
    assert (found.progress.read, found.progress.counted) == (2, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"time": "tiem"}, "no column 'tiem'; did you mean 'time'"),
        ({"time": "area"}, "say what it counts"),
        ({"fields": {"late": "fare >"}}, "fields.late"),
        ({"fields": {"late": "fair > 5"}}, "fields.late"),
    ],
)
def test_what_the_source_lacks_is_named(spark, table, changes, message):
    with pytest.raises(SourceError, match=message):
        muntin.summarize(spark.createDataFrame(table), pipeline(**changes), ledger=temporary())


def test_text_cannot_be_an_indicator(spark, table):
    summary = {"keys": ["area"], "indicators": ["driver"]}
    with pytest.raises(SourceError, match="CAST"):
        muntin.summarize(
            spark.createDataFrame(table), pipeline(summaries={"orders": summary}, queries={}),
            ledger=temporary(),
        )  # fmt: skip


def test_a_wrong_standing_query_is_named(spark, table):
    with pytest.raises(SpecError, match=r"queries\.bad"):
        muntin.summarize(
            spark.createDataFrame(table),
            pipeline(queries={"bad": "SELECT x FROM orders(driver)"}),
            ledger=temporary(),
        )


def test_fields_are_evaluated_by_spark(spark, table):
    spec = pipeline(
        fields={"dear": "CAST(fare > 500000 AS BIGINT)"},
        summaries={"orders": {"keys": ["area"], "indicators": ["dear"]}},
        queries={},
    )
    found = muntin.summarize(spark.createDataFrame(table), spec, ledger=temporary())
    dear = sum((fare or 0) > 500000 for fare in table["fare"].to_pylist())
    assert found.sql("SELECT sum(dear) FROM orders(area) FOR ALL").rows == [[dear]]


def test_overflow_is_told_by_the_answers_that_need_its_pane_and_stops_nothing(spark):
    rows = [*[(0, "a", 1, 1, 2**62)] * 4, (60, "b", 1, 1, 7)]
    found = muntin.summarize(spark.createDataFrame(events(rows)), pipeline(), ledger=temporary())
    with pytest.raises(SelectError, match="'fare': a sum is beyond int64"):
        found.sql("SELECT fare FROM orders FOR ALL")
    assert found.sql("SELECT driver, fare FROM orders(driver) FOR LAST '10 s'").rows == [["b", 7]]


def test_batch_modes_are_those_of_spark(spark, table):
    ledger = temporary()
    df = spark.createDataFrame(table.slice(0, 100))
    muntin.summarize(df, pipeline(), ledger=ledger)
    with pytest.raises(LedgerConflict):
        muntin.summarize(df, pipeline(), ledger=ledger)
    twice = muntin.summarize(df, pipeline(), ledger=ledger, mode="append")
    assert twice.sql("SELECT count FROM orders FOR ALL").rows == [[200]]
    once = muntin.summarize(df, pipeline(), ledger=ledger, mode="overwrite")
    assert once.sql("SELECT count FROM orders FOR ALL").rows == [[100]]


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
    stream.reconfigure(pipeline(trigger="100 ms", summaries={"orders": summary}))
    arrive(events([(s, "b", 2, 1, 1) for s in range(40, 80, 5)]), folder / "b.parquet")
    stream.query.processAllAvailable()
    found = stream.sql("SELECT area, count FROM orders(area) FOR ALL")
    assert found.rows == [[2, 8]]
    assert stream.sql("SELECT driver, count FROM orders(driver) FOR ALL ORDER BY driver").rows == [
        ["a", 8],
        ["b", 8],
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
