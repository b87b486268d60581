"""Files of CSV and JSON: all that is in them is counted, or rejected and kept."""

import gzip
import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import muntin
from muntin.cli.check_source import wrong_in
from muntin.cli.init import pipeline_text
from muntin.cli.inspect_data import inspect
from muntin.errors import SourceError
from muntin.ledger.temporary import temporary
from tests.pipeline.support import SECOND, START, pipeline

pytestmark = pytest.mark.spark
PATIENCE_SECONDS = 300


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


DDL = "time timestamp, driver string, area bigint, served bigint, fare bigint"


@pytest.mark.parametrize("sep", [",", "||"])
def test_a_line_that_does_not_fit_says_which_of_its_columns(spark, tmp_path, sep):
    good = ["2023-11-14 22:13:20", "a", "1", "", "5"]
    lines = {
        sep.join([*good[:2], "x", *good[3:]]): "column 'area': 'x' is not bigint: where",
        sep.join(
            [*good[:4], "1,5" if sep != "," else '"1,5"']
        ): "column 'fare': '1,5' is not bigint: ",
        sep.join(["yesterday", *good[1:]]): "column 'time': 'yesterday' is not timestamp: ",
        sep.join(good[:4]): "the line has 4 fields, and the source 5",
        sep.join([*good, ""]): "the line has 6 fields, and the source 5",
        sep.join([*good[:2], "-", "z", "-"]): "column 'served': 'z' is not bigint",
    }
    folder = tmp_path / "of=1"
    folder.mkdir()
    text = "\n".join([sep.join(good), *lines])
    for header in (True, False):
        names = sep.join(["time", "driver", "area", "served", "fare"]) + "\n" if header else ""
        (folder / "orders.csv").write_text(names + text)
        source = {"format": "csv", "path": str(tmp_path), "schema": DDL, "sep": sep}
        spec = pipeline(source=source | {"header": header, "nullvalue": "-"})
        with pytest.warns(UserWarning, match="6 of 7 records were rejected"):
            found = muntin.summarize(None, spec, ledger=temporary())
        kept = {r.raw.decode(): r.detail for _, r in found.ledger.rejected("orders")}
        assert {line: kept[line][: len(why)] for line, why in lines.items()} == lines


def test_an_object_that_does_not_fit_says_which_of_its_columns(spark, tmp_path):
    good = {"time": "2023-11-14T22:13:20Z", "driver": "a", "area": 1, "served": 1, "fare": 5}
    wrong = {
        json.dumps(good | {"area": "x"}): "column 'area': 'x' is not bigint: where",
        json.dumps(good | {"served": {"a": 1}}): "column 'served': {'a': 1} is not bigint:",
        json.dumps(good | {"time": "today"}): "column 'time': 'today' is not timestamp: ",
        '{"time": ': "the record does not parse",
        # of what a field makes nothing is known
        json.dumps(good | {"fare": "x"}): "the record does not parse",
    }
    (tmp_path / "orders.json").write_text("\n".join([json.dumps(good), *wrong]))
    source = {"format": "json", "path": str(tmp_path), "schema": DDL}
    spec = pipeline(source=source, fields={"fare": "nullif(fare, 5)"})
    with pytest.warns(UserWarning, match="5 of 6 records were rejected"):
        found = muntin.summarize(None, spec, ledger=temporary())
    kept = {r.raw.decode(): r.detail for _, r in found.ledger.rejected("orders")}
    assert {line: kept[line][: len(why)] for line, why in wrong.items()} == wrong


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


def test_lines_of_text_that_are_not_utf8_are_rejected(spark, tmp_path):
    """Spark reads U+FFFD for each such byte, and keys that differ were one."""
    lines = [f"2023-11-14T22:13:20Z {driver}" for driver in ("\xe9", "\xe8", "e")]
    (tmp_path / "a.txt").write_bytes("\n".join(lines).encode("latin-1"))
    fields = {"time": "split(value, ' ')[0]", "driver": "split(value, ' ')[1]"}
    source, orders = {"format": "text", "path": str(tmp_path)}, {"keys": ["driver"]}
    spec = pipeline(source=source, fields=fields, summaries={"orders": orders}, queries={})
    with pytest.warns(UserWarning, match="2 of 3 records were rejected: malformed, .*not UTF-8"):
        found = muntin.summarize(None, spec, ledger=temporary())
    (tmp_path / "a.txt").write_text("\n".join(lines), "utf-8")
    found = muntin.summarize(None, spec, ledger=temporary())
    assert found.progress.counted == 3


@pytest.mark.parametrize(
    ("suffix", "whole"), [(".json", False), (".json.gz", False), (".json", True)]
)
def test_halves_of_characters_in_json_make_no_two_keys_one(spark, tmp_path, suffix, whole):
    """Spark reads a question mark for each."""
    drivers = ["\ud83d", "\ud800x", "\udc00x", "?x", "x?", "\U0001f600", "\\ud83d"]
    one = {"time": "2023-11-14T22:13:20Z", "area": 1, "served": 1, "fare": 5}
    records = [json.dumps(one | {"driver": driver}) for driver in drivers]
    text = f"[{','.join(records)}]" if whole else "\r\n\n".join(records)
    packed = gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode()
    (tmp_path / f"a{suffix}").write_bytes(packed)
    source = {"format": "json", "path": str(tmp_path), "multiLine": whole}
    found = muntin.summarize(None, pipeline(source=source), ledger=temporary())
    assert (found.progress.read, found.progress.rejected) == (7, 4)
    assert all("half a character" in record.detail for _, record in found.ledger.rejected("orders"))
    counted = found.sql("SELECT driver FROM orders(driver) FOR ALL").to_arrow()
    assert sorted(counted["driver"].to_pylist()) == sorted(drivers[4:])


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_what_spark_passes_over_in_lines_of_json_is_rejected(spark, tmp_path, suffix):
    one = {"time": "2023-11-14T22:13:20Z", "driver": '}{"\\', "area": 1, "served": 1, "fare": 5}
    one["more"] = [{"a": {}}, [], {"b": "}{"}]
    text = json.dumps(one)
    lines = f"{text}\n\n[{text}, {text}]\n{text},\n{text}{text} {text}\r\n{text}\n{text},{text}"
    packed = gzip.compress(lines.encode()) if suffix.endswith("gz") else lines.encode()
    (tmp_path / f"joined{suffix}").write_bytes(packed)
    source = {"format": "json", "path": str(tmp_path)}
    found = muntin.summarize(None, pipeline(source=source), ledger=temporary())
    assert (found.progress.read, found.progress.rejected) == (10, 3)
    records = [record for _, record in found.ledger.rejected("orders")]
    assert all(r.detail.startswith("the line has several JSON values") for r in records)
    places = sorted(record.place.removeprefix(f"{tmp_path}/joined{suffix}, ") for record in records)
    assert places == ["line 5", "line 5", "line 7"]
    assert {record.raw.decode() for record in records} == {text, f"{text} {text}\r"}


def test_what_spark_passes_over_in_files_of_json_over_several_lines_is_rejected(spark, tmp_path):
    one = {"time": "2023-11-14T22:13:20Z", "driver": "}{", "area": 1, "served": 1, "fare": 5}
    (tmp_path / "a.json").write_text("\n".join([json.dumps(one, indent=1)] * 3))
    (tmp_path / "b.json").write_text(json.dumps([one] * 4, indent=1))
    (tmp_path / "c.json").write_text("\n".join([json.dumps(one)] * 2))
    source = {"format": "json", "path": str(tmp_path), "multiLine": True}
    found = muntin.summarize(None, pipeline(source=source), ledger=temporary())
    assert (found.progress.read, found.progress.rejected) == (9, 3)
    records = [record for _, record in found.ledger.rejected("orders")]
    assert all("the file has several JSON values" in r.detail for r in records)
    places = [f"{name}.json, line {line}" for name, line in (("a", 8), ("a", 8), ("c", 2))]
    assert sorted(r.place.removeprefix(f"{tmp_path}/") for r in records) == places


def test_what_spark_passes_over_is_found_once_where_a_file_is_read_in_blocks(spark, tmp_path):
    one = {"time": "2023-11-14T22:13:20Z", "driver": "a", "area": 1, "served": 1, "fare": 5}
    text = json.dumps(one)
    lines = [text * (1 + (n % 7 == 0)) for n in range(3_000)]
    (tmp_path / "many.json").write_text("\n".join(lines))
    source = {"format": "json", "path": str(tmp_path)}
    spark.conf.set("spark.sql.files.maxPartitionBytes", "10007")
    try:
        found = muntin.summarize(None, pipeline(source=source), ledger=temporary())
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert found.progress.counted == 3_000
    assert found.progress.rejected == sum(n % 7 == 0 for n in range(3_000))


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


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16le", "utf-16be"])
def test_text_in_utf16_is_told_with_the_remedy(spark, tmp_path, encoding):
    lines = "time,driver,area,served,fare\n2023-11-14 22:13:20,a,1,1,5\n"
    (tmp_path / "a.csv").write_bytes(lines.encode(encoding))
    source = {"format": "csv", "path": str(tmp_path)}
    for more in ({}, {"encoding": encoding}):
        with pytest.raises(SourceError, match=r"a\.csv: the file is UTF-16.*iconv -f UTF-16"):
            muntin.summarize(None, pipeline(source=source | more), ledger=temporary())
    schema = "time timestamp, driver string, area bigint, served bigint, fare bigint"
    typed = pipeline(source=source | {"schema": schema})
    found = muntin.summarize(None, typed, ledger=temporary())
    assert found.progress.counted == 0 < found.progress.rejected
    assert all("iconv" in r.detail for _, r in found.ledger.rejected("orders"))
    whole = pipeline(source=source | {"encoding": encoding, "multiLine": "true"})
    assert muntin.summarize(None, whole, ledger=temporary()).progress.counted == 1


def test_csv_without_rows_says_so_rather_than_that_its_columns_are_text(spark, tmp_path):
    (tmp_path / "a.csv").write_text("time,driver,area,served,fare\n")
    source = {"format": "csv", "path": str(tmp_path)}
    with pytest.raises(SourceError, match=r"has no rows.*give source\.schema"):
        muntin.summarize(None, pipeline(source=source), ledger=temporary())
    schema = "time timestamp, driver string, area bigint, served bigint, fare bigint"
    typed = pipeline(source=source | {"schema": schema})
    assert muntin.summarize(None, typed, ledger=temporary()).progress.read == 0


NONE = ["", "\\N"]
MINUTES = [datetime(2024, 3, 1, tzinfo=UTC) + timedelta(minutes=30 * n) for n in range(200)]


def rows(row, head="at,k,v"):
    return "\n".join([head, *(row(at, n) for n, at in enumerate(MINUTES))]) + "\n"


def objects(row):
    return [row(f"{at:%FT%TZ}", n) for n, at in enumerate(MINUTES)]


AS_FOUND = {
    "commas.csv": rows(lambda at, n: f"{at:%d.%m.%Y %H:%M:%S};k;1.{n:03},00 €", "at;k;v"),
    "american.csv": rows(lambda at, n: f'{at.month}/{at.day}/{at:%y %I:%M %p},k,"$1,{n:03}.00"'),
    "postgres.tsv": rows(
        lambda at, n: f"{at:%F %T+00}\t{'tf'[n % 2]}\t{NONE[n == 0] or n + 1000}", "at\tk\tv"
    ),
    "lines.csv": rows(lambda at, n: f'{at:%Y%m%dT%H%M%S},"k\n{n % 3}",{n + 1000}'),
    "latin.csv": rows(lambda at, n: f"{at:%d/%b/%Y:%T +0000}, K\xf6ln, {n + 1000}"),
    "list.json": json.dumps(objects(lambda at, n: {"at": at, "k": "a", "v": n + 1000}), indent=1),
    "nested.jsonl": "\n".join(
        json.dumps(row) for row in objects(lambda at, n: {"at": at, "u": {"k": "a", "v": n + 1000}})
    ),
}


@pytest.mark.parametrize("name", AS_FOUND)
def test_what_init_writes_of_a_file_takes_all_of_its_rows(spark, tmp_path, name):
    folder = tmp_path / "d" / "day=1"  # the name of a partition is a column, too
    folder.mkdir(parents=True)
    (folder / name).write_text(AS_FOUND[name], "latin-1" if name == "latin.csv" else "utf-8")
    (folder / name.replace(".", "0.")).touch()  # empty
    (tmp_path / "p.yaml").write_text(pipeline_text(inspect(tmp_path / "d")))
    spec = muntin.Pipeline.of(tmp_path / "p.yaml")
    assert list(wrong_in(spec)) == []
    found = muntin.summarize(None, spec, ledger=temporary())
    assert (found.progress.counted, found.progress.rejected) == (len(MINUTES), 0)
    assert found.progress.newest == MINUTES[-1].timestamp() * SECOND
    ((name_of, summary),) = spec.summaries.items()
    asked = f"{next(iter(summary.indicators))}) FROM {name_of}({summary.keys[0][0]}) FOR ALL"
    ((total,),) = found.sql(f"SELECT sum({asked}").rows
    assert total == sum(range(1000, 1200)) - 1000 * (name == "postgres.tsv")


def test_files_of_another_format_are_named_and_not_shown(tmp_path):
    """Spark would take the bytes of the first for the names of columns."""
    pq.write_table(pa.table({"a": [1]}), tmp_path / "d.data")
    spec = pipeline(source={"format": "csv", "path": str(tmp_path)})
    with pytest.raises(SourceError, match=r"d\.data is parquet, not csv: write parquet$"):
        muntin.summarize(None, spec, ledger=temporary())


def test_a_type_that_there_is_not_is_told_with_what_was_meant(spark, tmp_path):
    (tmp_path / "orders.csv").write_text("time,driver,area,served,fare\n")
    ddl = "time timestam, driver string, area bigint, served bigint, fare bigint"
    spec = pipeline(source={"format": "csv", "path": str(tmp_path), "schema": ddl})
    with pytest.raises(SourceError) as refused:
        muntin.summarize(None, spec, ledger=temporary())
    assert str(refused.value).startswith(f"source.schema: {ddl!r} ")
    assert str(refused.value).endswith("no type 'timestam'; did you mean 'timestamp'?")
    assert list(wrong_in(spec)) == [str(refused.value)]


def test_names_within_objects_may_have_any_sign(spark, tmp_path):
    """Spark's own spelling of such a type is none that it reads."""
    headers = {"user-agent": "x", "a.b": [{"c d": 1, "`": {"é": True}}]}
    record = {"time": "2023-11-14T22:13:20Z", "area": 1, "served": 1, "fare": 5, "headers": headers}
    (tmp_path / "events.json").write_text(json.dumps(record))
    fields = {"driver": "concat(headers.`user-agent`, headers.`a.b`[0].`c d`)"}
    spec = pipeline(source={"format": "json", "path": str(tmp_path)}, fields=fields)
    found = muntin.summarize(None, spec, ledger=temporary())
    assert found.sql("SELECT driver FROM orders(driver) FOR ALL").rows == [["x1"]]
