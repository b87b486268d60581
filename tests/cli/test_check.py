"""`muntin check` sees what would not run, and says where, without Spark."""

import bz2
import gzip
import lzma

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
import yaml

from muntin.ledger.open import open_ledger
from muntin.spark.ingest import Ingest
from muntin.spec import Pipeline
from tests.pipeline.support import gather

TABLE = pa.table(
    {
        "at": pa.array(range(0, 60_000_000_000, 60_000_000), pa.timestamp("us", "UTC")),
        "text": [f"2024-01-01 00:{n % 60:02}:00" for n in range(1000)],
        "seconds": [1_700_000_000 + n for n in range(1000)],
        "origin": ["EWR", "JFK"] * 500,
        "delay": pa.array(range(1000), pa.int64()),
    }
)
GOOD = """\
name: flights
source: {format: parquet, path: data.parquet}
time: at
pane: 1 hour
fields:
  late: CAST(delay > 15 AS BIGINT)
ledger: sqlite:///flights.db
summaries:
  flights: {keys: [origin], indicators: [delay, late]}
queries:
  busiest: {select: "SELECT origin, count FROM flights(origin)", on: update}
"""


@pytest.fixture
def check(muntin, tmp_path, monkeypatch):
    """What is said of a file in a folder with data, one line each."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, "data.parquet")
    pcsv.write_csv(TABLE, "data.csv")

    def checked(text):
        (tmp_path / "p.yaml").write_text(text)
        code, out, err = muntin("check", "p.yaml")
        assert "Traceback" not in err
        return code, out if code == 0 else err.removeprefix("error: ")

    return checked


def test_good_files_are_good(check):
    assert check(GOOD) == (
        0,
        "p.yaml: good: 1 summary, 1 query\n"
        "types of fields are Spark's to know:  muntin check --spark asks it\n",
    )
    for old, new in (
        ("format: parquet, path: data.parquet", "path: data.csv"),
        ("path: data.parquet", 'path: "*.parquet"'),
        ("time: at", "time: text"),
        ("time: at", "time: {column: seconds, unit: s}"),
        ("delay > 15", "delay >> 15"),
        ("CAST(delay > 15 AS BIGINT)", "size(filter(array(delay), x -> x > 15))"),
        (
            "format: parquet, path: data.parquet",
            "path: data.csv, schema: 'at timestamp, text string, seconds bigint, origin string, "
            "delay decimal(10, 2)'",
        ),
        ("format: parquet, path: data.parquet", "format: org.example.Source"),
        ("ledger: sqlite:///flights.db", "ledger: memory://x"),
    ):
        assert old in GOOD
        code, said = check(GOOD.replace(old, new))
        assert code == 0, said


@pytest.mark.parametrize(
    ("path", "data", "more"),
    [
        ("day=1/d.csv.bz2", bz2.compress(b"day0,at,origin\n1,2024-01-01,EWR\n"), ""),
        ("day=1/d.csv", "at,origin\n2024-01-01,é\n".encode("utf-16"),
         ", encoding: UTF-16, multiLine: true"),
        ("day=1/d.csv", b"at,origin\n01/02/24,EWR\n", ", schema: 'at string, origin string'"),
    ],
)  # fmt: skip
def test_what_spark_would_read_is_good(check, tmp_path, path, data, more):
    """Also where DuckDB, which looks for us, reads it otherwise or not at all."""
    file = tmp_path / "folder" / path
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    text = GOOD.replace("format: parquet, path: data.parquet", f"format: csv, path: folder{more}")
    text = text.replace("CAST(delay > 15 AS BIGINT)", "CAST(day > 15 AS BIGINT)\n  at: now()")
    code, said = check(text.replace("[delay, late]", "[late]").replace("[origin]", "[day, origin]"))
    assert (code, said.splitlines()[0]) == (0, "p.yaml: good: 1 summary, 1 query")


def test_columns_that_later_json_files_have_are_there(check, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "1.json").write_text('{"at": "2024-01-01T00:00:00Z", "origin": "EWR"}\n')
    late = ', "delay": 16}'
    (folder / "2.json").write_text(f'{{"at": "2024-01-02T00:00:00Z", "origin": "JFK"{late}\n')
    (folder / "3.json").write_text('{"at\n')
    text = GOOD.replace("format: parquet, path: data.parquet", "format: json, path: folder")
    assert check(text)[0] == 0
    code, said = check(text.replace("[delay, late]", "[dealy]"))
    assert code == 1
    assert "did you mean 'delay'? (where later files have it, name all columns in" in said


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        (
            "format: parquet",
            "format: parqet",
            "2:10",
            "no source 'parqet'; did you mean 'parquet'?",
        ),
        ("format: parquet, path: data.parquet", "path: .", "2:1", "is missing (parquet, csv,"),
        ("format: parquet", "format: csv", "2:10", "data.parquet is parquet, not csv"),
        ("data.parquet", "data.csv", "2:10", "data.csv is not parquet: write csv"),
        ("data.parquet", "data.parquet, mergSchema: true", "2:47", "you mean 'mergeSchema'?"),
        ("parquet, path: data.parquet", "csv, path: data.csv, seperator: ;", "2:39", "'sep'?"),
        ("data.parquet", "no/such", "2:27", "no/such: no such file or folder"),
        ("data.parquet", "'*.parqet'", "2:27", "no file matches"),
        ("sqlite:///flights.db", "mysql://db/x", "7:1", "there is no ledger of kind 'mysql'"),
        ("sqlite:///flights.db", "sqlite:/x.db", "7:1", "'sqlite:/x.db' is not the URL"),
        ("sqlite:///flights.db", "sqlite:///no/x.db", "7:1", "the folder no of ledger x.db"),
        ("sqlite:///flights.db", "sqlite:///data.db", "7:1", "the file is not a ledger"),
        ("pane: 1 hour", "pane: 1 hour\npane: 2 hours", "5:1", "stands twice, first in line 4"),
        ("name:", "retention: {panes: 1 minute}\nname:", "1:13", "shorter than a pane"),
        ("name:", "rollups: [1 day, 2 hours]\nname:", "1:1", "rollups: 2 hours is not a multiple"),
        ("delay > 15", "delay >> > 15", "6:3", "near '>'"),
        ("delay > 15", "dealy > 15", "6:3", "no column 'dealy'; did you mean 'delay'?"),
        ("[origin]", "[orign]", "9:3", "no column 'orign'; did you mean 'origin'?"),
        ("delay > 15", "dealy > 15", "6:3", "where later files have it, name all columns in"),
        ("[delay, late]", "[text]", "9:3", "'text' is string, and must be a number"),
        ("time: at", "time: origin", "3:1", "'origin' holds no times: 'EWR', 'JFK'; there is at"),
        ("time: at", "time: delay", "3:1", "say what it counts"),
        ("time: at", "time: {column: text, unit: us}", "3:1", "unit is for numbers"),
        ("SELECT origin", "SELECT orign", "11:3", "did you mean 'origin'?"),
    ],
)
def test_what_would_not_run_is_refused_with_its_place(check, old, new, place, said, tmp_path):
    (tmp_path / "data.db").write_bytes(b"no ledger at all" * 100)
    assert old in GOOD
    code, told = check(GOOD.replace(old, new, 1))
    assert code == 1, told
    assert f"p.yaml:{place}: " in told
    assert said in told
    if "queries" not in told:  # a query's error points into its text
        assert len(told.splitlines()) == 1


def test_a_later_file_of_a_wider_type_is_named_where_spark_reads_them(check, tmp_path):
    for number, kind in enumerate((pa.float32(), pa.float64())):
        (tmp_path / "d").mkdir(exist_ok=True)
        column = TABLE["delay"].cast(kind)
        pq.write_table(TABLE.set_column(4, "delay", column), tmp_path / "d" / f"{number}.parquet")
    text = GOOD.replace("data.parquet", "d")
    said = check(text)[1]
    assert "column 'delay' is double there, float to Spark, which knows one type: wri" in said
    plain = text.replace("fields:\n  late: CAST(delay > 15 AS BIGINT)\n", "")
    assert check(plain.replace("[delay, late]", "[delay]"))[0] == 0


@pytest.mark.parametrize("more", ["", ", schema: 'at string, origin string, delay bigint'"])
def test_times_that_only_duckdb_reads_are_named(check, tmp_path, more):
    (tmp_path / "o.csv").write_text("at,origin,delay\n" + "31.01.2026 10:00:00,EWR,7\n" * 9)
    said = check(GOOD.replace("format: parquet, path: data.parquet", f"path: o.csv{more}"))[1]
    assert "p.yaml:3:1: time: column 'at' holds no times: '31.01.2026 10:00:00'; an event" in said


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (pa.uint64(), "p.yaml:9:3: summaries.flights: key 'x' is decimal128(20, 0): a key is"),
        (pa.float16(), "p.yaml:2:27: source.path: data.parquet: column 'x' is halffloat: Spark"),
        (pa.time64("us"), "column 'x' is time64[us]: Spark reads no file with such a column, unl"),
        (pa.decimal256(39, 0), "column 'x' is decimal256(39, 0): Spark reads no file with"),
        (pa.list_(pa.float16()), "column 'x' is list<element: halffloat>: Spark reads no file"),
        (pa.uint32(), None),
        (pa.decimal256(38, 0), None),
    ],
)
def test_a_type_that_spark_does_not_read_or_reads_as_another(check, kind, said):
    pq.write_table(TABLE.append_column("x", pa.nulls(len(TABLE), kind)), "data.parquet")
    key = "[origin, x]" if pa.types.is_integer(kind) else "[origin]"
    code, told = check(GOOD.replace("[origin]", key, 1))
    assert code == (said is not None), told
    assert (said or "") in told


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("fits", ["s", "ms", "us", "ns"])
def test_numbers_of_another_unit_are_seen_and_named(check, fits, unit):
    times = [1_700_000_000 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[fits]] * 1000
    pq.write_table(TABLE.append_column("t", pa.array(times)), "data.parquet")
    code, told = check(GOOD.replace("time: at", f"time: {{column: t, unit: {unit}}}"))
    if fits == unit:
        assert code == 0
        return
    assert code == 1
    assert f"p.yaml:3:1: time: column 't' holds {times[0]}, which is " in told
    assert f" and 2023-11-14T22:13:20Z in {fits}; so are 1,000 of 1,000 events" in told
    assert f"write  time: {{column: t, unit: {fits}}}" in told
    code, told = check(GOOD.replace("time: at", "time: t"))
    assert code == 1
    assert f"say what it counts, for example  time: {{column: t, unit: {fits}}}" in told


@pytest.fixture
def with_its_connector(monkeypatch):
    """As with the Spark that a connector to Kafka was tried with."""
    monkeypatch.setattr(pytest.importorskip("pyspark"), "__version__", "4.3.0")


@pytest.mark.usefixtures("with_its_connector")
def test_kafka_needs_servers_a_topic_and_columns_of_its_value(check):
    kafka = GOOD.replace("{format: parquet, path: data.parquet}", "{format: kafka}")
    kafka = kafka.replace("time: at", "time: timestamp").replace("  late: CAST(delay > 15 AS", "")
    kafka = kafka.replace("fields:\n BIGINT)\n", "").replace("[delay, late]", "[]")
    kafka = kafka.replace("origin", "topic")
    code, told = check(kafka)
    assert code == 1
    assert "kafka.bootstrap.servers is missing" in told
    assert "subscribe: orders" in told
    kafka = kafka.replace("kafka}", "kafka, kafka.bootstrap.servers: 'localhost:1', subscribe: x}")
    code, told = check(kafka)
    assert code == 0, told
    code, told = check(kafka.replace("subscribe: x}", "subscribe: x, startingOffsets: erliest}"))
    assert code == 1
    assert "source.startingOffsets: 'erliest' is none; did you mean 'earliest'?" in told
    code, told = check(kafka.replace("subscribe: x}", "SUBSCRIBE: x, maxOffsetsPerTrigger: 0}"))
    assert code == 1
    assert "source.maxOffsetsPerTrigger: '0' is no whole number above 0" in told
    assert "topic" not in told
    _, told = check(kafka.replace("subscribe: x}", "subscribe: x, subscribePattern: 'x.*'}"))
    assert "source: subscribe and subscribePattern each name topics: keep one of them" in told
    value = "subscribe: x, value: {schema: 'time timestamp, area int'}}"
    code, told = check(kafka.replace("subscribe: x}", value).replace("[topic]", "[aera]"))
    assert code == 1
    assert "the source has no column 'aera'; did you mean 'area'?" in told
    code, told = check(kafka.replace("subscribe: x}", value.replace("area int", "area")))
    assert "column 'area' has no type" in told


def test_an_expression_without_its_end_is_told_in_words_where_there_is_no_spark(check, monkeypatch):
    monkeypatch.setattr("muntin.cli.check_source.spark_says", lambda _: None)
    told = check(GOOD.replace("CAST(delay > 15 AS BIGINT)", "delay +"))[1]
    assert told == (
        "p.yaml:6:3: fields.late: 'delay +' is not an expression: "
        "Something is missing. Line 1, Col: 7.\n"
    )


def test_all_that_is_wrong_is_said_at_once(check):
    wrong = GOOD.replace("[origin]", "[orign]").replace("delay > 15", "dealy > 15")
    wrong = wrong.replace("sqlite:///flights.db", "sqlite:///no/x.db")
    _, told = check(wrong)
    assert len([line for line in told.splitlines() if "p.yaml:" in line]) >= 3


@pytest.mark.usefixtures("with_its_connector")
def test_where_the_connector_to_kafka_comes_from(check, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kafka = """\
name: orders
source: {format: kafka, kafka.bootstrap.servers: 'localhost:1', subscribe: x}
time: timestamp
pane: 1 hour
summaries:
  orders: {keys: [topic]}
"""
    code, told = check(kafka)
    assert code == 0
    assert "the first run fetches Spark's connector to Kafka" in told
    assert str(tmp_path / "cache") in told
    (tmp_path / "jars").mkdir()
    code, told = check(kafka.replace("subscribe: x", "subscribe: x, jars: jars"))
    assert (code, told.count("\n")) == (1, 1)
    assert "p.yaml:2:79: source.jars: " in told
    assert "no spark-sql-kafka-0-10 jar is there" in told
    (tmp_path / "jars" / "spark-sql-kafka-0-10_2.13-4.2.0.jar").touch()
    assert check(kafka.replace("subscribe: x", "subscribe: x, jars: jars"))[0] == 0


def test_folders_of_files_of_several_kinds_and_spreadsheets(check, tmp_path):
    (tmp_path / "mixed").mkdir()
    pcsv.write_csv(TABLE, "mixed/b.csv")
    (tmp_path / "mixed" / "a.json").write_text('{"at": "2024-01-01 00:00:00"}\n')
    (tmp_path / "mixed" / "c.txt").write_text("hello\n")
    mixed = GOOD.replace("format: parquet, path: data.parquet", "format: csv, path: mixed")
    code, told = check(mixed)
    assert (code, told.count("\n")) == (1, 1)
    assert "mixed holds a.json beside .csv files, and all are read as csv" in told
    code, told = check(mixed.replace("path: mixed", "path: mixed, pathGlobFilter: '*.csv'"))
    assert code == 0, told
    (tmp_path / "rows.xlsx").write_bytes(b"PK\x03\x04" + bytes(100))
    code, told = check(mixed.replace("path: mixed", "path: rows.xlsx"))
    assert (code, told.count("\n")) == (1, 1)
    assert "rows.xlsx is a spreadsheet or another zip file" in told
    (tmp_path / "packed.csv").write_bytes(gzip.compress(b"at,k\n"))
    code, told = check(mixed.replace("path: mixed", "path: packed.csv"))
    assert (code, told.count("\n")) == (1, 1)
    assert "packed.csv is packed by gzip" in told
    assert "name it packed.csv.gz" in told


def test_what_does_not_fit_what_the_ledger_holds(check):
    own = """ledger: sqlite:///x.db
summaries:
  delays: {kind: quantiles, value: delay, k: 200}
  beats: {kind: periodic, item: origin, gap: 1 hour, interval_unit: 10 minutes}
"""
    text = GOOD.partition("fields:")[0] + own
    ingest = Ingest(Pipeline.of(yaml.safe_load(text)), open_ledger("sqlite:///x.db"), query_id="q")
    ingest.take(0, gather([TABLE]))
    ingest.close()
    code, said = check(text.replace("200", "50"))
    assert code == 1
    assert said.startswith("p.yaml:7:43: summaries.delays.k: 200 in what is stored, now 50: ")
    code, said = check(text.replace("gap: 1 hour", "gap: 2 hours"))
    assert code == 1
    assert said.startswith("p.yaml:8:41: summaries.beats.gap: 1 hour in what is stored, now")


@pytest.mark.parametrize(
    ("data", "more", "said"),
    [
        ("at;origin\n2024-01-01;EWR\n", "", "are they separated by ';'? Write  sep: \";\""),
        ("2024-01-01;EWR\n", ", header: false", "are they separated by ';'?"),
        ("at,origin\n2024-01-01,EWR\n", ", header: false", "write  header: true"),
        ("2024-01-01,EWR\n2024-01-02,JFK\n", "", "begins with '2024-01-01,EWR': write  header: f"),
        ('at,origin\n2024-01-01,"E\nR"\n', "", "goes over several lines, each of which"),
    ],
)
def test_a_schema_hides_no_other_form(check, tmp_path, data, more, said):
    (tmp_path / "d.csv").write_text(data)
    text = GOOD.partition("fields:")[0].replace(
        "format: parquet, path: data.parquet",
        f"format: csv, path: d.csv, schema: 'at string, origin string'{more}",
    )
    code, told = check(text + "summaries: {d: {keys: [origin]}}\n")
    assert (code, told.count("\n")) == (1, 1)
    assert said in told


@pytest.mark.parametrize(
    ("lines", "more", "said"),
    [
        ("2024-01-01,EWR,\n", "", "lines have 3 fields, and the source 2 columns: each line would"),
        ("2024-01-01,EWR,\n", ", schema: 'at string, origin string'", "have 3 fields"),
        ("2024-01-01,EWR,\n2024-01-01,EWR,1,\n", "", "lines have 3 or 4 fields"),
        ("2024-01-01,EWR,\n", ", schema: 'at string, origin string, more string'", ""),
        ("2024-01-01,EWR,\n2024-01-02,JFK\n", "", ""),
        ('2024-01-01,"E,R"\n', "", ""),
    ],
)  # fmt: skip
def test_lines_that_would_all_be_rejected_for_how_many_fields_they_have(
    check, tmp_path, lines, more, said
):
    (tmp_path / "d.csv").write_text("at,origin\n" + lines)
    text = GOOD.partition("fields:")[0].replace(
        "format: parquet, path: data.parquet", f"format: csv, path: d.csv{more}"
    )
    code, told = check(text + "summaries: {d: {keys: [origin]}}\n")
    assert code == bool(said), told
    assert said in told


def test_files_packed_in_a_way_that_spark_does_not_read(check, tmp_path):
    (tmp_path / "d.csv.xz").write_bytes(lzma.compress(b"at,origin\n2024-01-01,EWR\n"))
    schema = "path: d.csv.xz, schema: 'at string, origin string'"
    text = GOOD.partition("fields:")[0].replace("path: data.parquet", schema)
    code, told = check(text.replace("parquet", "csv") + "summaries: {d: {keys: [origin]}}\n")
    assert (code, told.count("\n")) == (1, 1)
    assert "d.csv.xz is packed by xz, which Spark does not read" in told
