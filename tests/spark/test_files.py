"""Which files a source has: the same for Spark, for what reads them by Arrow, and for a stream."""

import datetime as dt
import json
import os
import re
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import muntin
from muntin.cli.check_source import wrong_in
from muntin.errors import SourceError
from muntin.ledger.temporary import temporary
from muntin.spark import batch, files
from muntin.spark import stream as streams
from muntin.spark.failures import worker_error
from muntin.spark.file_starts import wrong_start
from muntin.spark.files import files_at, filled_files, is_nested, local_path, partitions_of
from muntin.spark.parquet import check_files
from muntin.spark.source import _of_first_file, batch_source
from muntin.spec import Pipeline, SourceSpec
from tests.pipeline.support import events, pipeline

PATIENCE_SECONDS = 300


def laid(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return folder


def found(folder, pattern=""):
    return [str(file.relative_to(folder)) for file in files_at(folder / pattern)]


@pytest.mark.spark
@pytest.mark.parametrize("fields", [{}, {"half": "served / 2"}])
def test_a_column_that_a_later_file_lacks_is_told_by_all(spark, tmp_path, caplog, fields):
    table, folder = events([(0, "a", 1, 1, 5)]), tmp_path / "data"
    folder.mkdir()
    pq.write_table(table, folder / "a.parquet")
    pq.write_table(table.drop_columns("served"), folder / "b.parquet")
    summed = {"keys": ["driver"], "indicators": ["half" if fields else "served"]}
    spec = Pipeline.of({
        "name": "orders", "time": "time", "pane": "10 s", "summaries": {"orders": summed},
        "source": {"format": "parquet", "path": str(folder)}, "fields": fields,
    })  # fmt: skip
    ways = (
        lambda: list(wrong_in(spec)),
        lambda: muntin.summarize(None, spec, ledger=temporary()),
        lambda: muntin.stream(
            None, spec, ledger=temporary(), checkpoint=str(tmp_path / "c"), once=True
        ).await_termination(PATIENCE_SECONDS),
    )
    for way in ways:
        caplog.clear()
        way()
        told = [line.getMessage() for line in caplog.records if line.name.startswith("muntin")]
        path = f"{folder}/b.parquet"
        assert told == [f"orders: {path} has no column 'served', which is null there"]


@pytest.mark.spark
def test_files_that_a_source_leaves_out_need_not_fit(spark, tmp_path):
    table = events([(0, "a", 1, 1, 5)])
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.set_column(4, "fare", pa.array([1.5])), tmp_path / "b.parquet")
    source = {"format": "parquet", "path": str(tmp_path), "pathGlobFilter": "{a,c}*.parquet"}
    found = muntin.summarize(None, pipeline(source=source), ledger=temporary())
    assert found.progress.counted == 1


@pytest.mark.spark
def test_nanoseconds_are_those_of_the_first_file_that_is_read(spark, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    times = pa.array([1_767_225_600_000_000], pa.timestamp("us", "UTC"))
    born = pa.array([1_767_225_600_000_000_000], pa.timestamp("ns"))
    pq.write_table(pa.table({"time": times, "born": born}), folder / "a.parquet")
    pq.write_table(pa.table({"time": times, "born": [5_000]}), folder / "b.parquet")
    spec = {
        "name": "p", "time": "time", "pane": "1 s", "fields": {"key": "born"},
        "source": {"format": "parquet", "path": str(folder)}, "summaries": {"m": {"keys": ["key"]}},
    }  # fmt: skip
    for names, expected in (("a*", "2026-01-01T00:00:00Z"), ("b*", 5_000)):
        spec["source"]["pathGlobFilter"] = names
        with muntin.summarize(None, spec) as session:
            assert session.sql("SELECT key FROM m(key) FOR ALL").rows == [[expected]]
        ledger = temporary()
        place = str(tmp_path / names[0])
        stream = muntin.stream(None, spec, ledger=ledger, checkpoint=place, once=True)
        stream.await_termination(PATIENCE_SECONDS)
        assert muntin.Session(ledger).sql("SELECT key FROM m(key) FOR ALL").rows == [[expected]]
    spec["source"]["pathGlobFilter"] = "*.parquet"
    with pytest.raises(SourceError, match="column 'born' is int64, and in ns in the first"):
        muntin.summarize(None, spec)


@pytest.mark.spark
@pytest.mark.parametrize("fields", [{}, {"half": "served / 2"}])
def test_columns_that_differ_by_case_are_one_where_the_session_says_so(
    spark, tmp_path, caplog, fields
):
    table, folder = events([(0, "a", 1, 1, 5)]), tmp_path / "data"
    other = table.rename_columns({"served": "Served"})
    both = other.append_column("served", table["served"])
    folder.mkdir()
    pq.write_table(table, folder / "a.parquet")
    summed = {"keys": ["driver"], "indicators": ["half" if fields else "served"]}
    spec = Pipeline.of({
        "name": "orders", "time": "time", "pane": "10 s", "summaries": {"orders": summed},
        "source": {"format": "parquet", "path": str(folder)}, "fields": fields,
    })  # fmt: skip
    no_case = spec.model_copy(update={"spark": {"spark.sql.caseSensitive": "false"}})

    def answered(pipeline):
        caplog.clear()
        assert list(wrong_in(pipeline)) == []
        ledger, place = temporary(), str(tmp_path / f"c{next(numbers)}")
        muntin.summarize(None, pipeline, ledger=ledger)
        streamed = temporary()
        stream = muntin.stream(None, pipeline, ledger=streamed, checkpoint=place, once=True)
        stream.await_termination(PATIENCE_SECONDS)
        asked = "SELECT * FROM orders(driver) FOR ALL"
        answers = [muntin.Session(each).sql(asked) for each in (ledger, streamed)]
        rows = [[row[2] for row in each.rows] for each in answers]
        told = [line for line in caplog.records if "has no column 'served'" in line.getMessage()]
        return rows, len(told)

    numbers = iter(range(9))
    one = 0.5 if fields else 1
    pq.write_table(other, folder / "b.parquet")
    assert answered(spec) == ([[one]] * 2, 3)
    assert answered(no_case) == ([[2 * one]] * 2, 0)
    pq.write_table(both, folder / "b.parquet")
    assert answered(spec) == ([[2 * one]] * 2, 0)
    message = "b.parquet: columns 'Served' and 'served' differ by case alone"
    assert message in "".join(wrong_in(no_case))
    with pytest.raises(SourceError, match=message):
        muntin.summarize(None, no_case, ledger=temporary())
    with pytest.raises(SourceError, match=message):
        muntin.stream(
            None, no_case, ledger=temporary(), checkpoint=str(tmp_path / "c"), once=True
        ).await_termination(PATIENCE_SECONDS)


def test_what_is_hidden_is_nobodys(tmp_path):
    laid(tmp_path, "a", "_b", ".c", "_d/e", ".f/g", "_h=1/i", "j/k", "l.pq")
    assert found(tmp_path) == ["_h=1/i", "a", "j/k", "l.pq"]
    assert found(tmp_path, "*") == ["_h=1/i", "a", "j/k", "l.pq"]
    assert found(tmp_path, "_b") == ["_b"]  # who names it means it


def test_a_pattern_names_files_and_folders(tmp_path):
    laid(tmp_path, "xa", "xd/b", "xd/c/e", "y")
    assert found(tmp_path, "x*") == ["xa", "xd/b", "xd/c/e"]
    assert found(tmp_path, "[^x]") == found(tmp_path, "[!x]") == ["y"]


def test_links_are_followed_and_circles_refused(tmp_path):
    laid(tmp_path, "data/a", "other/b", "other/c")
    (tmp_path / "data/d").symlink_to(tmp_path / "other")
    (tmp_path / "data/e").symlink_to(tmp_path / "other/c")
    (tmp_path / "data/_up").symlink_to(tmp_path / "data")
    (tmp_path / "data/gone").symlink_to(tmp_path / "nowhere")
    assert found(tmp_path, "data") == ["data/a", "data/d/b", "data/d/c", "data/e"]
    for there in (tmp_path, tmp_path / "data"):
        (tmp_path / "other/up").unlink(missing_ok=True)
        (tmp_path / "other/up").symlink_to(there)
        for ask in (lambda path: found(path, "data"), lambda path: is_nested(path / "data")):
            with pytest.raises(SourceError, match=r"data/d/up is a link to a folder .*: remove it"):
                ask(tmp_path)


def test_a_folder_that_cannot_be_read_is_told_and_one_that_is_gone_is_not(tmp_path, monkeypatch):
    laid(tmp_path, "data/a", "data/shut/b")
    listed, refusal = os.scandir, PermissionError

    def scandir(folder):
        if str(folder).endswith("shut"):
            raise refusal(13, "no", str(folder))
        return listed(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match="data/shut"):
        found(tmp_path, "data")
    refusal = FileNotFoundError
    assert found(tmp_path, "data") == ["data/a"]


def test_files_without_a_byte_have_no_rows(tmp_path):
    laid(tmp_path, "a", "b").joinpath("c").touch()
    assert [Path(file).name for file in filled_files(str(tmp_path))] == ["a", "b"]


def test_a_file_that_goes_while_a_folder_is_looked_at_is_passed_over(tmp_path, monkeypatch):
    laid(tmp_path, "a", "b")
    gone = tmp_path / "gone"
    monkeypatch.setattr(files, "files_at", lambda _: [tmp_path / "a", gone, tmp_path / "b"])
    assert [Path(file).name for file in filled_files(str(tmp_path))] == ["a", "b"]
    with pytest.raises(SourceError, match="/gone is gone: it must stay"):
        check_files([str(gone)], None)
    told = worker_error(FileNotFoundError(2, "No such file", str(gone)))
    assert isinstance(told, SourceError)
    assert "/gone': is it gone? It must stay" in str(told)


def test_partitions_are_told_from_other_folders(tmp_path):
    flat = laid(tmp_path / "flat", "a", "_SUCCESS")
    nested = laid(tmp_path / "nested", "a", "2024/01/b")
    parts = laid(tmp_path / "parts", "day=1/h%20=2/a", "day=2/h%20=2/b")
    assert [is_nested(each) for each in (flat, nested, parts)] == [False, True, False]
    assert partitions_of(parts, files_at(parts)) == {"day", "h "}
    assert partitions_of(nested, files_at(nested)) == set()
    around = local_path(f"{nested}/../{parts.name}")  # Spark names its files without the way there
    assert partitions_of(around, files_at(parts)) == {"day", "h "}
    for beside in ("top", "2024/inner"):
        mixed = laid(tmp_path / f"mixed {beside[:3]}", "day=1/a", beside)
        with pytest.raises(SourceError, match=rf"{beside} beside .* such as day=1: .*recursive"):
            is_nested(mixed)
        assert not is_nested(mixed, "a")  # Spark does not see the other
        assert is_nested(mixed, Path(beside).name) == ("/" in beside)


# -- by Spark

SPEC = {
    "name": "events",
    "time": "at",
    "pane": "1 second",
    "summaries": {"events": {"keys": ["k"], "indicators": ["v"]}},
}
START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def rows(first=0, unit="us", **columns):
    times = [START + dt.timedelta(seconds=first + n) for n in range(2)]
    plain = {"at": pa.array(times, pa.timestamp(unit, "UTC")), "k": ["a", "b"], "v": [first, 1]}
    return pa.table(plain | columns)


def written(folder, files):
    for name, table in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
    return folder


def answer(session, spec):
    (key,) = spec["summaries"]["events"]["keys"]
    select = f"SELECT {key}, count, v FROM events({key}) FOR ALL"  # noqa: S608 (names of a test)
    found = session.sql(select).to_arrow()
    return sorted(tuple(str(value) for value in row.values()) for row in found.to_pylist())


def by_all_ways(folder, monkeypatch, spec, tmp_path):
    """What batch and stream answer, read by Arrow where that can be, and by Spark."""
    answers = []
    source = {"format": "parquet", "path": str(folder)}
    for by_spark in (False, True):
        if by_spark:
            monkeypatch.setattr(batch, "gather_parquet", lambda *_: None)
            monkeypatch.setattr(streams, "gather_batch", lambda *_: None)
        with muntin.summarize(folder, spec, ledger=temporary()) as session:
            answers.append(answer(session, spec))
        place = str(tmp_path / f"checkpoint {by_spark}")
        stream = muntin.stream(
            None, spec | {"source": source}, ledger=temporary(), checkpoint=place, once=True
        )
        assert stream.await_termination(PATIENCE_SECONDS)
        answers.append(answer(stream, spec))
    return answers


OTHER = {"events": {"keys": ["day"], "indicators": ["v"]}}
LAYOUTS = {
    "endings": ({"a.parquet": rows(), "b.pq": rows(5), "c": rows(7)}, {}, 15),
    "nested": ({"a.parquet": rows(), "2024/01/b.parquet": rows(5)}, {}, 7),
    "signs of patterns": ({"a": rows(), "b [1]": rows(5), "c{d}": rows(7)}, {}, 15),
    "nested and such signs": ({"a?/b": rows(), "a?/c": rows(5)}, {}, 7),
    "partitions and such signs": ({"k=[p]/a": rows(), "k=q/b?": rows(5), "k=q/c": rows(7)}, {}, 15),
    "nested alone": ({"1/a.parquet": rows(), "2/b.parquet": rows(5)}, {}, 7),
    "partitions": ({"day=1/a.parquet": rows(), "day=2/b.parquet": rows(5)}, OTHER, 7),
    "partitions and columns": ({"k=p/a.parquet": rows(), "k=q/b.parquet": rows(5)}, {}, 7),
}


@pytest.mark.spark
@pytest.mark.parametrize("name", LAYOUTS)
def test_batch_and_stream_read_the_same_files(spark, tmp_path, monkeypatch, name):
    files, summaries, total = LAYOUTS[name]
    folder = written(tmp_path / "data", files)
    (folder / "empty.parquet" if name == "endings" else tmp_path / "empty").touch()
    spec = SPEC | ({"summaries": summaries} if summaries else {})
    first, *others = by_all_ways(folder, monkeypatch, spec, tmp_path)
    assert others == [first] * 3
    assert sum(int(row[-1]) for row in first) == total
    if name == "partitions and columns":
        assert [row[0] for row in first] == ["p", "q"]


@pytest.mark.spark
def test_files_that_spark_would_read_again_are_refused_of_a_stream_of_others(spark, tmp_path):
    """For each path with a sign of patterns Spark reads all files of the batch once more."""
    folder = written(tmp_path / "data", {"a[1].parquet": rows(), "b.parquet": rows(5)})
    df = spark.readStream.schema("at timestamp, k string, v bigint").parquet(str(folder))
    stream = muntin.stream(
        df, SPEC, ledger=temporary(), checkpoint=str(tmp_path / "checkpoint"), once=True
    )
    with pytest.raises(SourceError, match=r"read .*b\.parquet again, .* maxFilesPerTrigger: 1"):
        stream.await_termination(PATIENCE_SECONDS)
    assert stream.progress.read == 0


@pytest.mark.spark
@pytest.mark.parametrize("name", ["br[a]", "cur{l}", "st*r", "back\\slash", "50%20 é"])
def test_files_of_odd_names_are_found(spark, tmp_path, name):
    folder = written(tmp_path / name, {f"{name}.parquet": rows()})
    for number, path in enumerate((folder, folder / f"{name}.parquet")):
        source = {"format": "parquet", "path": str(path)}
        place = str(tmp_path / f"checkpoint {number}")
        stream = muntin.stream(
            None, SPEC | {"source": source}, ledger=temporary(), checkpoint=place, once=True
        )
        assert stream.await_termination(PATIENCE_SECONDS)
        by_spark = SPEC | {"source": source, "fields": {"z": "v + 1"}}
        with muntin.summarize(None, by_spark, ledger=temporary()) as session:
            assert session.progress.read == stream.progress.read == 2


@pytest.mark.spark
def test_many_files_are_looked_at_by_few_tasks(spark, tmp_path):
    folder = written(tmp_path / "many", {f"{n}.parquet": rows(n) for n in range(70)})
    spec = SPEC | {"source": {"format": "parquet", "path": str(folder)}, "fields": {"z": "v + 1"}}
    place = str(tmp_path / "checkpoint")
    stream = muntin.stream(None, spec, ledger=temporary(), checkpoint=place, once=True)
    assert stream.await_termination(PATIENCE_SECONDS)
    assert stream.progress.read == 140
    told = spark.sparkContext.statusTracker()
    jobs = map(told.getJobInfo, told.getJobIdsForGroup(str(stream.query.runId)))
    tasks = [told.getStageInfo(stage).numTasks for job in jobs for stage in job.stageIds]
    assert tasks
    assert max(tasks) <= 32


@pytest.mark.spark
def test_a_folder_of_delta_lake_is_refused_by_all_ways(spark, tmp_path):
    """Its files hold deleted rows as well, which would count."""
    folder = written(tmp_path / "data", {"day=1/a.parquet": rows()})
    (folder / "_delta_log").mkdir()
    source = {"format": "parquet", "path": str(folder)}
    said = "data is a table of Delta Lake.*format: delta"
    for spec in (SPEC, SPEC | {"fields": {"z": "v + 1"}}):
        with pytest.raises(SourceError, match=said):
            muntin.summarize(folder, spec, ledger=temporary())
        with pytest.raises(SourceError, match=said):
            muntin.stream(
                None, spec | {"source": source}, ledger=temporary(), checkpoint=str(tmp_path / "c")
            )
    for pattern in ("", "*", "da*"):
        with pytest.raises(SourceError, match=said):
            files_at(tmp_path / pattern)


@pytest.mark.spark
def test_files_that_would_be_left_out_are_named(spark, tmp_path):
    folder = written(tmp_path / "data", {"day=1/a.parquet": rows(), "b.parquet": rows(5)})
    source = {"format": "parquet", "path": str(folder)}
    by_spark = SPEC | {"source": source, "fields": {"z": "v + 1"}}
    with pytest.raises(SourceError, match=r"b\.parquet beside folders of partitions"):
        muntin.summarize(None, by_spark, ledger=temporary())
    with pytest.raises(SourceError, match=r"b\.parquet beside folders of partitions"):
        muntin.stream(
            None, SPEC | {"source": source}, ledger=temporary(), checkpoint=str(tmp_path / "c")
        )
    with muntin.summarize(folder, SPEC, ledger=temporary()) as session:
        assert session.progress.read == 4  # Arrow leaves out none
    (folder / "README.md").write_text("read me")
    with pytest.raises(SourceError, match=r"README\.md: not a Parquet file.*by a pattern"):
        muntin.summarize([folder / "b.parquet", folder / "README.md"], SPEC, ledger=temporary())


@pytest.mark.spark
def test_times_of_orc_are_utc_whatever_the_zone_of_the_machine(spark, tmp_path):
    orc.write_table(pa.table({"at": [dt.datetime(2026, 3, 8, 2, 30)]}), tmp_path / "a.orc")
    java = spark._jvm.java
    told = java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert "-Duser.timezone=UTC" in list(told)
    spec = SPEC | {"source": {"format": "orc", "path": str(tmp_path / "a.orc")}}
    spec["summaries"] = {"all": {"kind": "distinct", "item": "at"}}
    with muntin.summarize(None, spec, ledger=temporary()) as session:
        assert session.progress.newest == 1_772_937_000_000_000
    refused = pytest.raises(SourceError, match=r"Java's zone, America/New_York: start your session")
    with in_new_york(java), refused:
        muntin.summarize(None, spec, ledger=temporary())


@contextmanager
def in_new_york(java):
    usual = java.util.TimeZone.getDefault()
    java.util.TimeZone.setDefault(java.util.TimeZone.getTimeZone("America/New_York"))
    try:
        yield
    finally:
        java.util.TimeZone.setDefault(usual)


@pytest.mark.spark
def test_times_without_a_zone_of_a_database_are_utc_or_refused(spark):
    def summarize(time, fields):
        table = "(VALUES (TIMESTAMP('2026-03-08 02:30:00'), DATE('2026-03-08'))) AS t (v, w)"
        options = {"url": "jdbc:derby:memory:times;create=true", "dbtable": table}
        source = {"format": "jdbc", "options": options}
        spec = SPEC | {"time": time, "source": source, "fields": fields}
        spec["summaries"] = {"all": {"kind": "distinct", "item": time}}
        with muntin.summarize(None, spec, ledger=temporary()) as session:
            return session.progress.newest

    assert summarize("V", {}) == 1_772_937_000_000_000
    with in_new_york(spark._jvm.java):
        for time, fields in (("V", {}), ("W", {"hour": "hour(V)"}), ("W", {"h": "hash(*)"})):
            with pytest.raises(
                SourceError, match=r"^source\.format: jdbc: column 'V': .*, America/New_York: "
            ):
                summarize(time, fields)
        assert summarize("W", {"year": "year(W)"}) == 1_772_928_000_000_000  # nobody reads V


ORC_VALUES = [
    (pa.array([1], pa.int32()), "bigint", True),
    (pa.array([1], pa.int64()), "double", True),
    (pa.array([1], pa.int64()), "decimal(20,0)", True),
    (pa.array([1.5], pa.float32()), "double", True),
    (pa.array([Decimal("1.29")], pa.decimal128(12, 2)), "decimal(14,3)", True),
    (pa.array([0], pa.timestamp("ns")), "timestamp", True),
    (pa.array([1], pa.int64()), "string", True),
    (pa.array([1], pa.int64()), "timestamp_ntz", True),  # so Spark writes it
    (pa.array([1], pa.int64()), "int", False),
    (pa.array([1.5]), "bigint", False),
    (pa.array([1.5]), "float", False),
    (pa.array([1.5]), "decimal(12,2)", False),
    (pa.array(["1.9"]), "bigint", False),
    (pa.array([Decimal("1.29")], pa.decimal128(12, 2)), "bigint", False),
    (pa.array([Decimal("1.29")], pa.decimal128(12, 2)), "decimal(12,1)", False),
    (pa.array(["x"]), "timestamp", False),
]


@pytest.mark.parametrize(("values", "kind", "is_held"), ORC_VALUES)
def test_types_of_orc_that_hold_the_values_of_a_file(tmp_path, values, kind, is_held):
    orc.write_table(pa.table({"v": values}), tmp_path / "a.orc")
    wrong = wrong_start(str(tmp_path / "a.orc"), {"orc": {"v": kind, "other": "int"}})
    said = f"column 'v' is {values.type} in this file and {kind} to Spark"
    assert not wrong if is_held else wrong.startswith(said)


@pytest.mark.spark
@pytest.mark.parametrize("way", ["batch", "stream"])
def test_values_of_orc_are_never_cut_to_the_type_of_another_file(spark, tmp_path, way):
    folder = tmp_path / "data"
    folder.mkdir()
    for name, unit in (("a", 1), ("b", 1.75)):
        table = pa.table({"at": [START] * 3, "k": ["x"] * 3, "v": [unit] * 3})
        orc.write_table(table, folder / f"{name}.orc")
    schema = "at timestamp, k string, v bigint"
    spec = SPEC | {"source": {"format": "orc", "path": str(folder), "schema": schema}}
    ledger = temporary()
    if way == "batch":
        muntin.summarize(None, spec, ledger=ledger)
    else:
        place = str(tmp_path / "checkpoint")
        stream = muntin.stream(None, spec, ledger=ledger, checkpoint=place, once=True)
        assert stream.await_termination(PATIENCE_SECONDS)
    assert muntin.open(ledger).sql("SELECT count, v FROM events FOR ALL").rows == [[3, 3]]
    why = "column 'v' is double in this file and bigint to Spark, which does not hold its values"
    told = [
        (record.reason, record.detail.startswith(why)) for _, record in ledger.rejected("events")
    ]
    assert told == [("malformed", True)] * 3


@pytest.mark.spark
def test_a_damaged_file_of_orc_that_should_tell_the_schema_is_named(spark, tmp_path):
    whole = tmp_path / "a.orc"
    orc.write_table(pa.table({"at": [START] * 20, "k": ["x"] * 20}), whole)
    packed = whole.read_bytes()
    whole.write_bytes(packed[: len(packed) // 2])
    source = SourceSpec(format="orc", path=str(tmp_path))
    with pytest.raises(SourceError, match=r"a\.orc: .*type id .*Where it is damaged"):
        batch_source(spark, source)


@pytest.mark.spark
def test_times_of_orc_that_spark_cannot_read_are_told_with_what_helps(spark, tmp_path):
    early = dt.datetime(1969, 12, 31, 23, 59, 59, 1)
    orc.write_table(pa.table({"at": [START], "k": ["x"], "v": [early]}), tmp_path / "a.orc")
    source = {"format": "orc", "path": str(tmp_path)}
    spec = {"name": "p", "time": "at", "pane": "1 s", "summaries": {"m": {"keys": ["v"]}}}
    with pytest.raises(SourceError, match=r"times before 1970 .* ORC .* schema of the others"):
        muntin.summarize(None, spec | {"source": source}, ledger=temporary())
    named = {"source": source | {"schema": "at timestamp, k string"}}
    spec |= named | {"summaries": {"m": {"keys": ["k"]}}}
    assert muntin.summarize(None, spec, ledger=temporary()).progress.counted == 1


@pytest.mark.spark
def test_nanoseconds_beside_other_units_never_move_a_time(spark, tmp_path):
    """Where Spark reads them, both are numbers: microseconds landed in January 1970."""
    folder = written(tmp_path / "data", {"a.parquet": rows(unit="ns"), "b.parquet": rows(5)})
    source = {"format": "parquet", "path": str(folder)}
    spec = SPEC | {"source": source}
    with muntin.summarize(None, spec, ledger=temporary()) as session:
        assert session.progress.newest == (START.timestamp() + 6) * 1e6
    with_fields = spec | {"fields": {"z": "v + 1"}}
    with pytest.raises(SourceError, match=r"b\.parquet: column 'at' is in us, and in ns"):
        muntin.summarize(None, with_fields, ledger=temporary())
    for each, place in ((spec, "plain"), (with_fields, "fields")):
        stream = muntin.stream(
            None, each, ledger=temporary(), checkpoint=str(tmp_path / place), once=True
        )
        if each is with_fields:
            with pytest.raises(SourceError, match=r"b\.parquet: column 'at' is in us, and in ns"):
                stream.await_termination(PATIENCE_SECONDS)
        else:
            assert stream.await_termination(PATIENCE_SECONDS)
            assert stream.progress.newest == (START.timestamp() + 6) * 1e6


@pytest.mark.spark
@pytest.mark.parametrize("times", ["INT96", "TIMESTAMP_MICROS"])
def test_days_of_another_calendar_are_those_that_spark_reads(spark, tmp_path, times):
    """As Spark 2 wrote them: 0001-01-01, which often stands for no date, was in the year 0."""
    legacy = spark.newSession()
    legacy.conf.set("spark.sql.parquet.outputTimestampType", times)
    for of in ("datetime", "int96"):
        legacy.conf.set(f"spark.sql.parquet.{of}RebaseModeInWrite", "LEGACY")
    days = ["0001-01-01", "1582-10-04", "2026-01-01"]
    columns = ("timestamp '2026-01-01' at", "date(day) day", "timestamp(day) moment")
    frame = legacy.createDataFrame([(day,) for day in days], "day string").selectExpr(*columns)
    frame.write.parquet(str(tmp_path / "data"))
    source = {"format": "parquet", "path": str(tmp_path / "data")}
    summary = {"keys": ["day", "moment"]}
    spec = {"name": "p", "time": "at", "pane": "1 s", "source": source, "summaries": {"m": summary}}
    batch_of = muntin.summarize(None, spec, ledger=temporary())
    stream = muntin.stream(
        None, spec, ledger=temporary(), checkpoint=str(tmp_path / "checkpoint"), once=True
    )
    assert stream.await_termination(PATIENCE_SECONDS)
    for found in (batch_of, stream):
        for name in ("day", "moment"):
            rows = found.sql(f"SELECT {name}::DATE::VARCHAR, count FROM m({name}) FOR ALL").rows  # noqa: S608
            assert sorted(rows) == [[day, 1] for day in days]


@pytest.mark.spark
def test_days_of_files_without_a_calendar_are_those_of_the_session(spark, tmp_path):
    """A pipeline's own Spark settings may say that what Spark has not written counts as Spark 2."""
    days = [dt.date(1500, 1, 1), dt.date(2026, 1, 1)]
    at = pa.array([START, START], pa.timestamp("us", "UTC"))
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"at": at, "day": days}), tmp_path / "data" / "t.parquet")
    source = {"format": "parquet", "path": str(tmp_path / "data")}
    spec = {"name": "p", "time": "at", "pane": "1 s", "source": source}
    spec |= {"summaries": {"m": {"keys": ["day"]}}}
    spec |= {"spark": {"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}}
    batch_of = muntin.summarize(None, spec, ledger=temporary())
    stream = muntin.stream(
        None, spec, ledger=temporary(), checkpoint=str(tmp_path / "checkpoint"), once=True
    )
    assert stream.await_termination(PATIENCE_SECONDS)
    for found in (batch_of, stream):
        rows = found.sql("SELECT day::VARCHAR, count FROM m(day) FOR ALL ORDER BY day").rows
        assert rows == [["1499-12-23", 1], ["2026-01-01", 1]]


def test_columns_of_several_types_are_told_where_spark_must_read_them(spark, tmp_path):
    moment = pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))
    for kind in (pa.int32(), pa.int64()):
        table = pa.table({"t": moment, "k": ["a"], "v": pa.array([7], kind)})
        pq.write_table(table, tmp_path / f"{kind}.parquet")
    summary = {"keys": ["k"], "indicators": ["v", "w"]}
    source = {"format": "parquet", "path": str(tmp_path)}
    spec = {
        "name": "p", "time": "t", "pane": "1 s", "fields": {"w": "v + 1"}, "source": source,
        "summaries": {"m": summary},
    }  # fmt: skip
    said = r"int64\.parquet: column 'v' is int64 there, int to Spark.* wider type as schema:"
    with pytest.raises(SourceError, match=said):
        muntin.summarize(None, spec, ledger=temporary())
    wide = source | {"schema": "t timestamp, k string, v bigint"}
    found = muntin.summarize(None, spec | {"source": wide}, ledger=temporary())
    assert found.sql("SELECT v, w FROM m FOR ALL").rows == [[14, 16]]


CENTS = pa.array([Decimal("1.25")], pa.decimal128(9, 2))
MISREAD = {  # those of a second file, beside a first one: Spark takes them for others, unsaid
    "cut": (pa.array([7], pa.int8()), pa.array([65_537], pa.int32()), "int", 65_544),
    "signed": (pa.array([7], pa.int32()), pa.array([2**32 - 1], pa.uint32()), "bigint", 2**32 + 6),
    "far": (pa.array([7]), pa.array([2**63 - 1], pa.uint64()), "decimal(20, 0)", 2**63 + 6),
    "cents": (pa.array([7], pa.int32()), CENTS, "decimal(18, 2)", 8.25),
    "times": (pa.array([7]), pa.array([3], pa.time64("us")), None, None),
}


@pytest.mark.spark
@pytest.mark.parametrize("name", MISREAD)
def test_numbers_of_parquet_are_never_read_as_others(spark, tmp_path, name):
    *files, wide, total = MISREAD[name]
    moment = pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))
    folder = tmp_path / "data"
    folder.mkdir()
    for place, values in zip("ab", files, strict=True):
        columns = {"t": moment, "v": values, "nothing": pa.nulls(1), "other": values}
        pq.write_table(
            pa.table(columns), folder / f"{place}.parquet",
            use_dictionary=False, store_decimal_as_integer=True,  # as Spark and DuckDB have them
        )  # fmt: skip
    source = {"format": "parquet", "path": str(folder)}
    spec = {
        "name": "p", "time": "t", "pane": "1 s", "fields": {"w": "v", "n": "nothing"},
        "source": source, "summaries": {"m": {"indicators": ["w"], "keys": ["n"]}},
    }  # fmt: skip

    def streamed(given):
        place = str(tmp_path / given["source"].get("schema", "inferred"))
        stream = muntin.stream(None, given, ledger=temporary(), checkpoint=place, once=True)
        assert stream.await_termination(PATIENCE_SECONDS)
        return stream

    for run in (lambda given: muntin.summarize(None, given, ledger=temporary()), streamed):
        with pytest.raises(SourceError, match=r"b\.parquet: column 'v' is .* wider type as"):
            run(spec)
        if wide:
            named = source | {"schema": f"t timestamp, v {wide}, nothing int"}
            answer = run(spec | {"source": named}).sql("SELECT w FROM m FOR ALL")
            assert answer.rows == [[total]]


@pytest.mark.spark
def test_a_frame_over_integers_with_a_sign_and_without_is_told_with_what_helps(spark, tmp_path):
    moment = pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))
    for place, kind in (("a", pa.int64()), ("b", pa.uint64())):
        table = pa.table({"t": moment, "v": pa.array([7], kind)})
        pq.write_table(table, tmp_path / f"{place}.parquet")
    summary = {"keys": ["t"], "indicators": ["v"]}
    spec = {"name": "p", "time": "t", "pane": "1 s", "summaries": {"m": summary}}
    with pytest.raises(SourceError, match=r"integers without a sign.* files alike, .*bigint"):
        muntin.summarize(spark.read.parquet(str(tmp_path)), spec)


@pytest.mark.spark
@pytest.mark.parametrize("summary", [{"keys": ["k"]}, {"kind": "distinct", "item": "k"}])
def test_a_key_or_item_of_another_type_is_told_with_its_file(spark, tmp_path, summary):
    for name, keys in (("a", [1]), ("b", pa.nulls(1)), ("c", ["x"])):
        moment = pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"t": moment, "k": keys}), tmp_path / f"{name}.parquet")
    source = {"format": "parquet", "path": str(tmp_path)}
    spec = {"name": "p", "time": "t", "pane": "1 s", "summaries": {"m": summary}}
    spec["source"] = source
    said = r"c\.parquet: 'k' is string there, and int64 in .*a\.parquet: .* files alike"
    with pytest.raises(SourceError, match=said):
        muntin.summarize(None, spec, ledger=temporary())
    place = str(tmp_path / "checkpoint")
    stream = muntin.stream(None, spec, ledger=temporary(), checkpoint=place, once=True)
    with pytest.raises(SourceError, match=said):
        stream.await_termination(PATIENCE_SECONDS)


UNREAD = {
    "half": pa.array([np.float16(1)], pa.float16()),
    "wide": pa.array([1], pa.decimal256(50, 2)),
    "at": pa.array([1], pa.time32("ms")),
    "day": pa.array([1], pa.time64("us")),
}


@pytest.mark.spark
@pytest.mark.parametrize("name", UNREAD)
def test_a_column_that_spark_does_not_read_is_told_with_what_helps(spark, tmp_path, name):
    moment = pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"t": moment, "k": ["a"], name: UNREAD[name]}), tmp_path / "a.parquet")
    source = {"format": "parquet", "path": str(tmp_path)}
    spec = {"name": "p", "time": "t", "pane": "1 s", "summaries": {"m": {"keys": ["k"]}}}
    spec["source"] = source
    assert muntin.summarize(None, spec, ledger=temporary()).progress.counted == 1

    told = rf"a\.parquet: column '{name}' is \w.*: Spark reads no file with such a column, unless"
    assert re.search(told, "".join(wrong_in(Pipeline.of(spec))))
    fields, place = {"fields": {"z": "1"}}, str(tmp_path / "checkpoint")
    named = spec | {"source": source | {"schema": "t timestamp, k string"}}
    for run in (
        lambda given: muntin.summarize(None, given | fields, ledger=temporary()),
        lambda given: muntin.stream(None, given, ledger=temporary(), checkpoint=place, once=True),
    ):
        with pytest.raises(SourceError, match=told):
            run(spec)
        run(named)


@pytest.mark.spark
def test_columns_of_one_name_are_refused_by_all_ways(spark, tmp_path):
    moment = pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))
    columns = [moment, pa.array(["a"]), pa.array(["b"])]
    pq.write_table(pa.Table.from_arrays(columns, ["t", "k", "k"]), tmp_path / "a.parquet")
    spec = {
        "name": "p", "time": "t", "pane": "1 s", "summaries": {"m": {"keys": ["k"]}},
        "source": {"format": "parquet", "path": str(tmp_path)},
    }  # fmt: skip
    frame = spark.createDataFrame(pa.table({"t": moment, "k": ["a"]}))
    twice = frame.join(frame.select("k"))
    for run, said in (
        (lambda: muntin.summarize(None, spec, ledger=temporary()), "there are 2 columns 'k': give"),
        (lambda: muntin.summarize(twice, spec, ledger=temporary()), "there are 2 columns 'k': giv"),
        (
            lambda: muntin.stream(None, spec, ledger=temporary(), checkpoint=str(tmp_path / "c")),
            "The column `k` already exists",
        ),
    ):
        with pytest.raises(SourceError, match=said):
            run()


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", ["_corrupt_record", "_metadata", "_muntin_row", "_muntin_malformed"]
)
def test_a_column_is_read_whatever_others_call_their_own(spark, tmp_path, name):
    moment = pa.array([1_700_000_000_000_000_999], pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"t": moment, name: ["{"]}), tmp_path / "a.parquet")
    spec = {
        "name": "p", "time": "t", "pane": "1 s", "summaries": {"m": {"keys": [name]}},
        "source": {"format": "parquet", "path": str(tmp_path)},
    }  # fmt: skip
    if name.startswith("_muntin_"):  # those are refused by name
        with pytest.raises(SourceError, match=f"column '{name}' has a name of Muntin's own"):
            muntin.summarize(None, spec | {"fields": {"z": "1"}}, ledger=temporary())
        with pytest.raises(SourceError, match=f"column '{name}' has a name of Muntin's own"):
            muntin.stream(None, spec, ledger=temporary(), checkpoint=str(tmp_path / "c"))
        (tmp_path / "a.jsonl").write_text(json.dumps({"t": "2026-01-01", name: "{"}))
        spec["source"] = {"format": "json", "path": str(tmp_path / "a.jsonl")}
        with pytest.raises(SourceError, match=f"column '{name}' has a name of Muntin's own"):
            muntin.stream(None, spec, ledger=temporary(), checkpoint=str(tmp_path / "c"))
        return
    stream = muntin.stream(
        None, spec, ledger=temporary(), checkpoint=str(tmp_path / "c"), once=True
    )
    assert stream.await_termination(PATIENCE_SECONDS)
    assert stream.progress.counted == 1


@pytest.mark.spark
def test_a_schema_is_learnt_of_the_first_file_as_spark_learns_it(spark, tmp_path):
    """By classes that are no public interface: the same, of files by Spark and by Arrow."""
    kinds = "tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date"
    kinds += "timestamp", "timestamp_ntz", "binary", "string", "decimal(12,3)", "array<int>"
    kinds += "struct<a: int, b: string>", "map<string, bigint>"
    nulls = ", ".join(f"CAST(NULL AS {kind}) AS `{n} é`" for n, kind in enumerate(kinds))
    spark.sql(f"SELECT {nulls}").write.parquet(str(tmp_path / "by spark"))
    (tmp_path / "by arrow" / "deep").mkdir(parents=True)
    types = pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.int8(), pa.float32(), pa.bool_()
    types += pa.timestamp("ns"), pa.timestamp("ms", "UTC"), pa.timestamp("us"), pa.date32()
    types += (
        pa.dictionary(pa.int32(), pa.string()),
        pa.large_string(),
        pa.binary(),
        pa.list_(pa.int8()),
    )
    table = pa.table({str(n): pa.nulls(1, kind) for n, kind in enumerate(types)})
    pq.write_table(table, tmp_path / "by arrow" / "deep" / "b.parquet")
    pq.write_table(table.select(["0"]), tmp_path / "by arrow" / "deep" / "c.parquet")
    pq.write_table(table, tmp_path / "96 bits.parquet", use_deprecated_int96_timestamps=True)
    for path in tmp_path.iterdir():
        found = _of_first_file(spark, SourceSpec(format="parquet", path=str(path)))
        read = spark.read.option("recursiveFileLookup", "true").parquet(str(path))
        assert found is not None
        assert [(f.name, f.dataType) for f in found] == [(f.name, f.dataType) for f in read.schema]
    for day in (1, 2):
        pq.write_table(table, tmp_path / "by arrow" / "deep" / "_metadata")
        assert _of_first_file(spark, SourceSpec(format="parquet", path=f"{tmp_path}/*")) is None
        (tmp_path / "parts" / f"day={day}").mkdir(parents=True)
        pq.write_table(table, tmp_path / "parts" / f"day={day}" / "a.parquet")
    for path in ("parts", "by arrow/deep"):
        assert (
            _of_first_file(spark, SourceSpec(format="parquet", path=f"{tmp_path}/{path}")) is None
        )


@pytest.mark.spark
@pytest.mark.parametrize("path", ["s3a://bucket/a.csv", "far://bucket/a.parquet"])
def test_a_store_that_spark_has_no_package_for_is_told(spark, path):
    """It was told that Spark has no source 'csv'; there were parquet, csv, …"""
    told = rf"source\.path: {path}: this Spark has no package for {path.partition(':')[0]}://.*spark\.jars"
    with pytest.raises(SourceError, match=told):
        muntin.summarize(path, SPEC)


def test_folders_that_tell_different_columns_are_named(spark, tmp_path):
    for folder in ("k=a", "j=b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.csv").write_text("t,n\n2024-01-01,1\n")
    source = SourceSpec(format="csv", path=str(tmp_path), schema="t string, n bigint")
    with pytest.raises(SourceError, match=r"different columns \((k; j|j; k)\): name those"):
        batch_source(spark, source)


@pytest.mark.spark
@pytest.mark.parametrize("form", ["parquet", "csv", "json", "orc"])
def test_a_folder_without_files_is_named_with_what_to_do(spark, tmp_path, form):
    source = {"format": form, "path": str(tmp_path)}
    said = f"^source.path: {tmp_path} holds no files, or empty ones: give source.schema, or data"
    with pytest.raises(SourceError, match=said):
        muntin.summarize(None, SPEC | {"source": source}, ledger=temporary())
