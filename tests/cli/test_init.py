"""`muntin init` looks past records that are wrong, says so, and writes a file that runs."""

import gzip
import json

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.cli.check_source import wrong_in
from muntin.spec import Pipeline, SourceSpec
from muntin.times import duration_text
from tests.disks import small_disk

MINUTES = [f"2024-03-01 {n // 60:02}:{n % 60:02}:00" for n in range(1440)]


@pytest.fixture
def init(muntin, tmp_path):
    """Of a file's content: the pipeline, and what was said."""

    def made(name, content, look=None):
        data = tmp_path / name
        if isinstance(content, pa.Table):
            pq.write_table(content, data)
        else:
            data.write_text(content)
        code, _, err = muntin(
            "init", tmp_path / (look or name), "-o", tmp_path / "p.yaml", "--force"
        )
        assert code == 0, err
        code, _, problem = muntin("check", tmp_path / "p.yaml")
        assert code == 0, problem
        return Pipeline.of(tmp_path / "p.yaml"), err

    return made


def csv(rows):
    return "\n".join(["at,origin,delay", *rows]) + "\n"


def test_one_bad_time_among_many(init):
    rows = [f"{MINUTES[n % 1440]},EWR,{n % 50}" for n in range(3000)]
    rows[1234] = "soon,EWR,3"
    found, said = init("d.csv", csv(rows))
    assert found.time.column == "at"
    assert "1 of 3,000 rows have no time in 'at', such as 'soon'" in said


def test_one_bad_time_among_few_is_named_with_its_row(init):
    for write, field in (
        (lambda n: MINUTES[n], None),
        (lambda n: f"{n + 1:02}/03/2024 10:00", "try_to_timestamp(`at`, 'd/M/yyyy H:mm')"),
        (lambda n: 1_709_251_200_000 + n * 60_000, "TRY_CAST(`at` AS BIGINT)"),
    ):
        rows = [f"{write(n)},{'EJ'[n % 2]}WR,{n}" for n in range(10)]
        rows[4] = "soon,EWR,3"
        found, said = init("d.csv", csv(rows))
        assert found.fields == ({"at": field} if field else {})
        assert found.time.unit == ("ms" if field and "BIGINT" in field else None)
        assert "1 of 10 rows have no time in 'at', such as 'soon' in row 5 of d.csv" in said


def test_a_column_with_the_name_of_an_answers_is_given_another(init):
    rows = [f"{MINUTES[n]},EWR,{n % 5}" for n in range(100)]
    found, said = init("d.csv", csv(rows).replace("delay", "Count"))
    assert (found.fields, *found.summaries["d"].indicators) == (
        {"Count_value": "`Count`"},
        "Count_value",
    )
    assert "'Count' is a column of the answers too: it is read as 'Count_value'" in said
    table = pa.table({"time": pa.array(MINUTES[:9]), "count": [*"abcabcabc"], "at": [1.5] * 9})
    found, _ = init("d.parquet", table)
    assert found.summaries["d"].keys == (("count_value",),)


def test_times_of_flow_records_with_microseconds(init):
    """As Argus and nfdump write them: of six digits, also where some rows have fewer."""
    for fraction in ("{:06}", "{:03}"):
        rows = [f"2011/08/10 09:46:{n:02}.{fraction.format(n * 7)},EWR,{n}" for n in range(30)]
        found, _ = init("d.csv", csv(rows))
        digits = "SSSSSS" if fraction == "{:06}" else "SSS"
        assert found.fields == {"at": f"try_to_timestamp(`at`, 'yyyy/M/d H:mm:ss.{digits}')"}


def test_a_text_that_is_no_known_time_is_told_with_a_field_that_reads_it(muntin, tmp_path):
    rows = [f"2026-09-21 10:00:{n:02} CEST,EWR,{n}" for n in range(9)]
    (tmp_path / "d.csv").write_text(csv(rows))
    code, _, err = muntin("init", tmp_path / "d.csv", "-o", tmp_path / "p.yaml")
    assert code == 1
    assert "where texts are times, with a field, such as  at: try_to_timestamp(at, 'd/M/y" in err
    assert "9 rows have no time in 'at', such as '2026-09-21 10:00:00 CEST' in row 1" in err


def test_a_bad_row_is_named_with_the_folder_of_its_file(muntin, tmp_path):
    rows = [f"{t},EWR,{n}" for n, t in enumerate(MINUTES)]
    for folder in ("01/00", "01/05", "02/05"):
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / "d.csv").write_text(csv(rows))
    (tmp_path / "in/01/05/d.csv").write_text(csv([*rows[:2], f"{MINUTES[2]},EWR,n/a", *rows[3:]]))
    code, _, err = muntin("init", tmp_path / "in", "-o", tmp_path / "p.yaml")
    assert code == 0
    assert "such as 'n/a' in row 3 of 01/05/d.csv" in err


def test_json_with_bad_lines(init):
    lines = [json.dumps({"at": t, "origin": "EWR", "delay": n}) for n, t in enumerate(MINUTES)]
    lines[100] = '{"at": "2024'
    lines[200] = "oops"
    lines[300:303] = "[1, 2]", "17", "null"  # have no columns, and hide those of no other
    lines[400] = lines[400].replace("400", '"400"')  # Spark reads all of them as texts
    lines[500] = lines[500].replace("500", '"warm"')
    found, said = init("d.json", "\n".join(lines))
    assert found.time.column == "at"
    assert "5 of 1,440 rows have no time in 'at': they" in said
    assert "1 of 1,440 rows have no number in 'delay', such as 'warm' in row 501 of d.json" in said
    assert found.fields == {"delay": "TRY_CAST(`delay` AS BIGINT)"}
    assert ("origin",) in found.summaries["d"].keys
    assert "delay" in found.summaries["d"].indicators


def test_times_in_numbers_of_json_with_a_line_that_is_no_object(init):
    lines = [
        json.dumps({"ts": 1_709_251_200_000 + n, "d": "2024-03-01", "v": n}) for n in range(90)
    ]
    found, _ = init("d.json", "\n".join([*lines, "[1]"]))
    assert (found.time.column, found.time.unit) == ("ts", "ms")
    assert list(found.summaries["d"].indicators) == ["v"]


def test_numbers_with_other_texts_among_them_are_no_keys(init):
    rows = [f"{t},EWR,{n % 7 - 2}" for n, t in enumerate(MINUTES)]
    rows[10] = f"{MINUTES[10]},EWR,n/a"
    rows[20] = f"{MINUTES[20]},EWR,-"
    found, said = init("d.csv", csv(rows))
    assert "delay" in found.summaries["d"].indicators
    assert found.fields == {"delay": "TRY_CAST(`delay` AS BIGINT)"}
    assert "2 of 1,440 rows have no number in 'delay', such as 'n/a'" in said


@pytest.mark.parametrize(
    ("step", "count", "pane", "window"),
    [
        (1, 5_000, "1 second", "1 minute"),
        (1, 86_400, "10 seconds", "10 minutes"),
        (60, 1_440, "1 minute", "1 hour"),
        (3600, 8_760, "1 hour", "1 day"),
        (86_400, 365, "1 day", "1 week"),
    ],
)
def test_the_grid_is_that_of_the_data(init, step, count, pane, window):
    """Also where a few records are years away."""
    times = [1_704_067_200_000_000 + n * step * 1_000_000 for n in range(count)]
    times[5] = 17
    at = pa.array(times, pa.timestamp("us", "UTC"))
    table = pa.table({"t": at, "k": ["ab"[n % 2] for n in range(count)]})
    found, _ = init("d.parquet", table)
    assert duration_text(found.pane) == pane
    assert duration_text(found.summaries["d"].window.length) == window


def test_times_in_a_way_of_their_own(init):
    rows = [f"{(n % 28) + 1:02}/03/2024 10:{n % 60:02}:00,EWR,{n}" for n in range(200)]
    found, _ = init("d.csv", csv(rows))
    assert found.fields == {"at": "try_to_timestamp(`at`, 'd/M/yyyy H:mm:ss')"}


@pytest.mark.parametrize(
    ("day", "clock", "field"),
    [
        ("2024-03-{:02}", "{:02}:05:00", "concat(`Day`, ' ', `Clock`)"),
        (
            "2024-03-{:02}",
            "{}:05",
            "try_to_timestamp(concat(`Day`, ' ', `Clock`), 'yyyy-M-d H:mm')",
        ),
        ("{}.3.2024", "{}:05", "try_to_timestamp(concat(`Day`, ' ', `Clock`), 'd.M.yyyy H:mm')"),
        (
            "3/{}/2024",
            "{}:05 PM",
            "try_to_timestamp(concat(`Day`, ' ', `Clock`), 'M/d/yyyy h:mm a')",
        ),
    ],
)
def test_a_day_and_a_time_of_day_in_columns_of_their_own(init, day, clock, field):
    rows = [f"EWR,{day.format(n // 30 + 1)},{clock.format(n % 9 + 1)},{n}" for n in range(600)]
    found, _ = init("d.csv", "\n".join(["origin,Day,Clock,delay", *rows]) + "\n")
    assert (found.time.column, found.fields) == ("Day_Clock", {"Day_Clock": field})
    assert list(found.summaries["d"].keys) == [("origin",)]
    assert duration_text(found.pane) == "10 minutes"


def test_a_time_of_day_makes_no_event_time_of_another_columns_days(init):
    """Where a column tells the whole time, or the other is no day but in one row."""
    born, rows = [f"1980-01-{n % 28 + 1:02}" for n in range(1440)], range(1440)
    columns = {
        "born": born,
        "opens": [f"{n % 9:02}:30" for n in rows],
        "k": ["ab"[n % 2] for n in rows],
    }
    whole = pa.table({"at": [f"{t}+02:00" for t in MINUTES], **columns})
    found, _ = init("d.parquet", whole)
    assert (found.time.column, found.fields) == ("at", {})
    columns["born"] = ["not said", *["2024-03-01"], *["not said"] * 1438]
    at = [1_709_251_200_000 + n * 60_000 for n in rows]
    found, _ = init("d.parquet", pa.table({"ts": at, **columns}))
    assert (found.time.column, found.fields) == ("ts", {})


def test_many_rows_without_a_number_where_one_text_stands_for_none(init):
    rows = [f"{t},EWR,{'n/a' if n % 4 == 0 else n * 1.5}" for n, t in enumerate(MINUTES)]
    found, said = init("d.csv", csv(rows))
    assert found.fields == {"delay": "TRY_CAST(`delay` AS DOUBLE)"}
    assert "360 of 1,440 rows have no number in 'delay', such as 'n/a'" in said


def test_a_folder_of_files_of_several_kinds(init, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "readme.txt").write_text("hello\n")
    found, said = init("d/b.csv", csv(f"{t},EWR,{n}" for n, t in enumerate(MINUTES)), look="d")
    assert found.source.options["pathGlobFilter"] == "*.csv"
    assert "holds readme.txt, too: only *.csv is read" in said


def test_what_is_not_for_readers_in_a_folder_is_not_looked_at(init, tmp_path):
    log = tmp_path / "d" / "_log"
    log.mkdir(parents=True)
    (log / "0.json").write_text('{"add": {"path": "part.csv", "size": 1}}\n')
    (tmp_path / "d" / "b.csv").mkdir()  # as Spark writes a "file"
    found, said = init("d/b.csv/p.csv", csv(f"{t},EWR,{n}" for n, t in enumerate(MINUTES)), "d")
    assert found.source.format == "csv"
    assert "too: only" not in said


def test_files_of_a_folder_are_looked_at_not_only_the_first(init, tmp_path):
    """The first may be a short one: how long a time there is, and how late it comes, others say."""
    for day, count in enumerate((50, 86_400, 86_400)):
        folder = tmp_path / "d" / f"day={day}"
        folder.mkdir(parents=True)
        ahead = 86_400  # one event is a day ahead of the others
        seconds = [ahead, *(n - 41 * (n % 2) for n in range(count))]
        at = [(1_704_067_200 + day * 86_400 + second) * 10**6 for second in seconds]
        sensors = [f"s{n % 300}" for n in range(len(at))]
        table = pa.table({"at": pa.array(at, pa.timestamp("us", "UTC")), "sensor": sensors})
        pq.write_table(table, folder / "0.parquet")
    found, _ = init("beside.txt", "x", look="d")
    assert ("sensor",) in found.summaries["d"].keys
    assert duration_text(found.pane) == "1 minute"
    assert duration_text(found.lateness) == "1 minute"


@pytest.mark.parametrize("name", ["ts", "eventTime", "created"])
@pytest.mark.parametrize(
    ("kind", "per_second", "unit"),
    [
        (pa.int32(), 1, "s"),
        (pa.float64(), 1, "s"),
        (pa.decimal128(23, 3), 1, "s"),
        (pa.int64(), 1_000, "ms"),
        (pa.int64(), 10**6, "us"),
        (pa.uint64(), 10**9, "ns"),
    ],
)
def test_what_numbers_count_is_told_by_most_of_them(init, name, kind, per_second, unit):
    times = [(1_700_000_000 + n) * per_second for n in range(1000)]
    times[7] = 2**31 - 1  # one that is far off
    table = pa.table({name: pa.array(times).cast(kind), "k": ["a", "b"] * 500})
    found, _ = init("d.parquet", table)
    assert (found.time.column, found.time.unit) == (name, unit)


def test_how_decimals_are_summed_exactly_is_told(init):
    paid = pa.array(range(1440)).cast(pa.decimal128(21, 2))
    found, said = init("d.parquet", pa.table({"at": MINUTES, "k": ["a", "b"] * 720, "paid": paid}))
    assert "paid" in found.summaries["d"].indicators
    assert "float64; exact is a field such as TRY_CAST(`paid` AS DECIMAL(18, 2))" in said


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ("{:.2f}", "TRY_CAST(`paid` AS DECIMAL(18, 2))"),
        ("${:,.2f}", "TRY_CAST(regexp_replace(`paid`, '[^0-9.-]', '') AS DECIMAL(18, 2))"),
        ("{}", None),  # 0.5 and 0.75: how many digits others have is not known
        ("{:05.0f}", None),  # may be a code
    ],
)
def test_amounts_in_text_are_decimals(init, written, field):
    lines = [
        {"at": t, "k": "ab"[n % 2], "paid": written.format(n * 97 / 4)}
        for n, t in enumerate(MINUTES)
    ]
    found, _ = init("d.json", "\n".join(map(json.dumps, lines)))
    assert found.fields.get("paid") == field
    assert ("paid" in found.summaries["d"].indicators) == bool(field)


@pytest.mark.parametrize(("written", "escape"), [('a\\"b', "\\"), ('a""b', None)])
def test_quotes_within_quotes_are_read_as_they_were_written(init, written, escape):
    rows = [f'{MINUTES[n]},"{written}",{n % 50}' for n in range(200)]
    found, _ = init("d.csv", csv(rows))
    assert found.source.options.get("escape") == escape


def test_compressed_files_and_names_with_quotes(init, tmp_path):
    text = csv([f"{t},EWR,{n}" for n, t in enumerate(MINUTES)]).replace("origin", '"or""i\\gin"')
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "d.csv.gz").write_bytes(gzip.compress(text.encode()))
    found, _ = init("beside.txt", "x", look="files")
    assert found.source.format == "csv"
    assert ('or"i\\gin',) in found.summaries["files"].keys


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ("{}, EWR, {}", {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}),
        ("'{}','E,R','{}'", {"quote": "'", "escape": "'"}),
    ],
)
def test_how_a_csv_file_is_written_is_told_to_spark(init, row, options):
    found, _ = init("d.csv", csv(row.format(t, n % 50) for n, t in enumerate(MINUTES)))
    assert found.source.options == options
    assert found.source.schema_ == "`at` timestamp, `origin` string, `delay` bigint"


def test_what_no_run_could_read_of_parquet_files_is_left_out(init, tmp_path):
    (tmp_path / "d").mkdir()
    at = pa.array(range(0, 10**12, 10**9), pa.timestamp("us", "UTC"))
    table = pa.table({"at": at, "k": ["a", "b"] * 500, "V": range(1000)})
    unusable = {
        "v": pa.array(range(1000)),
        "hash": pa.array(range(2**64 - 1000, 2**64), pa.uint64()),
        "__index_level_0__": pa.array(range(1000)),
        "took": pa.array(range(1000), pa.duration("ms")),
        "nothing": pa.nulls(1000, pa.int64()),
    }
    for name, column in unusable.items():
        table = table.append_column(name, column)
    (tmp_path / "d" / "sub").mkdir()
    pq.write_table(table, tmp_path / "d" / "sub" / "0.parquet")
    (tmp_path / "d" / "sub" / "1.parquet").touch()
    found, _ = init("d/2.parquet", table.append_column("new", table["V"]), look="d")
    assert list(found.summaries["d"].indicators) == ["V", "new"]


def test_parquet_files_whose_columns_grew_have_a_schema(init, tmp_path):
    """Spark alone has the columns of the first file, of its types, and refuses a wider one."""
    days = 1_709_251_200 + np.arange(3)[:, None] * 86_400 + np.arange(0, 86_400, 60)
    for day, at in enumerate(days):
        columns = {"ts": at, "k": ["a", "b"] * 720, "n": pa.array(at % 97, pa.int32())}
        if day:
            more = pa.array(at % 7).cast(pa.decimal128(21, 2)).cast(pa.decimal128(5, 2))
            columns |= {"n": at % 97, "more": more}
        folder = tmp_path / "d" / f"day=2024-03-0{day + 1}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table(columns), folder / "0.parquet")
    found, _ = init("beside.txt", "", look="d")
    assert found.source.schema_ == (
        "`ts` bigint, `k` string, `day` date, `n` bigint, `more` decimal(5,2)"
    )
    assert [*found.summaries["d"].indicators] == ["n", "more"]
    # where the time is of a type that no schema names, they are left out
    for file in (tmp_path / "d").rglob("*.parquet"):
        table = pq.read_table(file, partitioning=None)
        at = pa.array(table["ts"].to_numpy() * 10**9, pa.timestamp("ns"))
        columns = {"ts": at, "n": table["n"], "same": pa.array(range(1440))}
        columns |= {name: table[name] for name in table.column_names if name not in columns}
        pq.write_table(pa.table(columns), file)
    found, _ = init("beside.txt", "", look="d")
    assert (found.source.schema_, [*found.summaries["d"].indicators]) == (None, ["same"])
    text = (tmp_path / "p.yaml").read_text()
    for name in ("n", "more"):
        assert f"{name}: not the same in all files; source.schema can name it" in text


def test_numbers_with_zeros_in_front_are_names(init):
    for places, is_name in ((1, False), (8, True)):
        rows = [f"{t},EWR,{n % 50:0{places}}" for n, t in enumerate(MINUTES)]
        rows[900] = f"{MINUTES[900]},EWR,delay"
        found, _ = init("d.csv", csv(rows))
        assert (("delay",) in found.summaries["d"].keys) == is_name


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("d.csv", "at,k\n2024-03-01,a\n".encode("utf-16"), "the file is UTF-16"),
        ("d.csv.bz2", b"BZh", "there is no looking into .bz2"),
        ("d.json", b'{"at": "2024-03-01", "k": []}', "there are at DATE, k VARCHAR[]"),
        ("d.csv", b"", "holds no rows"),
        ("d.csv", b"at,k\n", "holds no rows"),
        ("d.json", b'{"at":\n"2024-03-01"}\n{"at":\n1}', "several objects, some over"),
        ("d.csv", b'at,k\n"1,234",a\n"5,678",b\n"9,012",c\n', "no column looks like an event"),
        ("d.csv", b"at,k\n,a\nsoon,a\n", "'at', such as 'soon' in row 2 of d.csv"),
    ],
)
def test_why_there_is_nothing_to_see_is_told_in_a_line(muntin, tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    code, _, err = muntin("init", tmp_path / name, "-o", tmp_path / "p.yaml")
    assert code == 1
    assert said in err
    assert len(err.splitlines()) == 1


def test_which_folders_tell_columns(init, tmp_path):
    """Those between the path and its files, as to Spark; where files lie beside them, none."""
    (tmp_path / "d/day=1/h=1").mkdir(parents=True)
    rows = csv(f"{t},EWR,{n}" for n, t in enumerate(MINUTES))
    for look, keys in {"d/day=1": {"origin"}, "d": {"origin", "day"}}.items():
        found, _ = init("d/day=1/h=1/a.csv", rows, look)
        assert {key for (key, *_) in found.summaries[found.name].keys} == keys | {"h"}
        assert found.source.schema_ == "`at` timestamp, `origin` string, `delay` bigint"
    lines = (json.dumps({"at": t, "origin": "EWR", "delay": n}) for n, t in enumerate(MINUTES))
    found, _ = init("d/day=1/h=1/b.json", "\n".join(lines), "d/day=1/h=1/b.json")
    assert found.summaries["b"].keys == (("origin",),)
    found, said = init("d/notes.txt", "", "d")
    assert "recursiveFileLookup" not in found.source.options  # they are not read
    found, said = init("d/b.csv", rows, "d")
    assert found.source.options["recursiveFileLookup"] == "true"
    assert found.summaries["d"].keys == (("origin",),)
    assert "d holds files beside folders of partitions: all are read, without the part" in said
    source = SourceSpec(format="csv", path=str(tmp_path / "d"), pathGlobFilter="*.csv")
    assert "b.csv beside folders of" in next(wrong_in(found.model_copy(update={"source": source})))


def test_intervals_are_no_numbers(init, tmp_path):
    """Spark and DuckDB write them in their own ways, which are numbers and bytes to Arrow."""
    kinds = {"took": "interval day to second", "age": "interval year to month", "n": "long"}
    fields = json.dumps({"fields": [{"name": n, "type": kind} for n, kind in kinds.items()]})
    table = pa.table({"at": MINUTES, "k": ["a", "b"] * 720, **dict.fromkeys(kinds, range(1440))})
    spark = {"org.apache.spark.sql.parquet.row.metadata": fields}
    found, _ = init("s.parquet", table.replace_schema_metadata(spark))
    assert [*found.summaries["s"].indicators] == ["n"]
    assert found.source.schema_ is None
    at, file = "TIMESTAMP '2024-03-01' + to_minutes(n)", tmp_path / "a.parquet"
    rows = f"SELECT {at} AS at, 'a' AS k, n, to_seconds(n) AS took FROM range(1440) t(n)"  # noqa: S608
    duckdb.sql(f"COPY ({rows}) TO '{file}'")
    found, _ = init("beside.txt", "", "a.parquet")
    assert found.source.schema_ == "`at` timestamp, `k` string, `n` bigint"
    found = found.model_copy(update={"source": SourceSpec(format="parquet", path=str(file))})
    assert "'took' is month_day_nano_interval: Spark reads no file" in next(wrong_in(found))


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.float16(), pa.decimal256(50, 3)])
def test_a_column_for_which_spark_refuses_the_file_is_left_out_by_a_schema(init, kind):
    columns = {"at": MINUTES, "k": ["a", "b"] * 720, "v": range(1440), "odd": pa.nulls(1440, kind)}
    found, said = init("d.parquet", pa.table(columns))
    assert found.source.schema_ == "`at` string, `k` string, `v` bigint"
    assert not said


def test_a_column_for_which_spark_refuses_the_file_is_told(muntin, tmp_path):
    at = pa.array(range(1440), pa.timestamp("ns", "UTC"))  # which no schema of Spark's can name
    columns = {"at": at, "k": ["a", "b"] * 720, "tod": pa.nulls(1440, pa.time64("us"))}
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    code, _, err = muntin("init", tmp_path / "d.parquet", "-o", tmp_path / "p.yaml")
    assert code == 0
    assert "note: column 'tod' is time64[us]: Spark reads no file with such a column, un" in err


@pytest.mark.parametrize("name", ["d.json", "d.parquet"])
def test_objects_are_opened_at_any_depth(init, name):
    deep = {"city": "EWR", "x.y": 7}
    rows = [{"of": {"at": t, "deep": deep}, "delay": n % 7} for n, t in enumerate(MINUTES)]
    text = "\n".join(map(json.dumps, rows))
    found, _ = init(name, pa.Table.from_pylist(rows) if name == "d.parquet" else text)
    assert found.time.column == "of_at"
    assert found.fields["of_deep_city"] == "`of`.`deep`.`city`"
    assert found.fields["of_deep_x.y"] == "`of`.`deep`.`x.y`"
    assert ("of_deep_city",) in found.summaries["d"].keys


def test_a_full_disk_is_named_and_leaves_no_half_of_a_file(muntin, tmp_path):
    (tmp_path / "a.csv").write_text(csv(f"{minute},JFK,1" for minute in MINUTES))
    with small_disk(tmp_path, "16k") as disk:
        (disk / "other").write_bytes(bytes(16 << 10))
        code, _, err = muntin("init", tmp_path / "a.csv", "-o", disk / "p.yaml")
        assert (code, f"{disk / 'p.yaml'}: No space left" in err) == (1, True), err
        assert not (disk / "p.yaml").exists()


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_in_nanoseconds_with_a_zone(init, zone):
    at = pa.array([1709251200 * 10**9 + 60 * 10**9 * n for n in range(1440)]).cast(
        pa.timestamp("ns", zone)
    )
    found, _ = init("d.parquet", pa.table({"at": at, "k": ["a", "b"] * 720, "v": range(1440)}))
    assert (found.time.column, duration_text(found.pane)) == ("at", "1 minute")


def test_integers_of_json_are_integers_whatever_their_sign(init):
    rows = [{"at": t, "k": "ab"[n % 2], "v": n - 5, "w": 2**64 - 1 - n % 9}
            for n, t in enumerate(MINUTES)]  # fmt: skip
    text = "\n".join(map(json.dumps, rows))
    found, said = init("d.json", "\ufeff" + text)
    assert "summed as float64" not in said
    assert tuple(found.summaries["d"].indicators) == ("v",)  # w would have all rows rejected
    assert "multiLine" not in found.source.options  # of which Spark would read the first alone


def test_numbers_of_19_digits_are_read_whole(init):
    rows = [f"{1709251200 + 60 * n}000000999,{5_000_000_000_000_000_000 + n % 9},{n % 7}"
            for n in range(1440)]  # fmt: skip
    found, _ = init("d.csv", "\n".join(["ts,user_id,v", *rows]) + "\n")
    assert found.source.schema_ == "`ts` bigint, `user_id` bigint, `v` bigint"
    assert found.time.unit == "ns"


@pytest.mark.parametrize(
    "name", ["status", "PULocationID", "carrier id", "zip", "http.status", "statusCode", "no"]
)
def test_integers_that_are_codes_are_keys(init, name):
    rows = [f"{MINUTES[n]},EWR,{n % 50},{(200, 301, 404, 500)[n % 4]}" for n in range(400)]
    found, _ = init("d.csv", csv(rows).replace("delay", f"delay,{name}", 1))
    assert found.summaries["d"].indicators == {"delay": None}
    assert (name,) in found.summaries["d"].keys


@pytest.mark.parametrize("ended", ["", ","])
def test_a_field_that_the_header_does_not_name_is_declared(init, ended):
    lines = [f"{minute},EWR,{n}{ended}" for n, minute in enumerate(MINUTES[:9])]
    pipeline, said = init("flights.csv", csv(lines))
    assert pipeline.source.schema_ == (
        "`at` timestamp, `origin` string, `delay` bigint" + (", `_c3` string" if ended else "")
    )
    assert ("have 4 fields, and its header 3: the schema names the rest _c3" in said) == bool(ended)
