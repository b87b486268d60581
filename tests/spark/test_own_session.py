"""A session that the user has started stays as it is, and answers are right whatever it says."""

import datetime as dt
import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.spark

SCRIPT = """
import json, sys, threading
from pyspark.sql import SparkSession
import muntin

spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "America/New_York")
    .config("spark.sql.shuffle.partitions", "64")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    .config("spark.sql.execution.arrow.useLargeVarTypes", "true")
    .config("spark.sql.ansi.enabled", "false")
    .config("spark.sql.timestampType", "TIMESTAMP_NTZ")
    .config("spark.sql.legacy.timeParserPolicy", "LEGACY")
    .config("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    .config("spark.sql.json.enableExactStringParsing", "false")
    .config("spark.sql.columnNameOfCorruptRecord", "clock")
    .config("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    .config("spark.sql.parser.escapedStringLiterals", "true")
)
for python in sys.argv[2:]:
    spark = spark.config("spark.pyspark.python", python)
spark = spark.getOrCreate()
before = dict(spark.conf.getAll)
spec = {
    "name": "flights", "time": "time", "pane": "1 hour",
    "summaries": {"flights": {"keys": ["origin"], "indicators": ["delay"]}},
}
told = {}
for name in ("flights.csv", "flights.json", "flights.parquet", "frame", "fields"):
    own = dict(spec, ledger=f"memory://{name.replace('.', '-')}")
    if name == "frame":
        data = spark.read.parquet(f"{sys.argv[1]}/flights.parquet")
    elif name == "fields":
        own["fields"] = {"time": "to_timestamp(text)"}
        data = f"{sys.argv[1]}/texts.parquet"
    else:
        data = f"{sys.argv[1]}/{name}"
    with muntin.summarize(data, own, progress=False) as session:
        rows = session.sql("SELECT origin, count, delay FROM flights(origin) FOR ALL")
        told[name] = [
            sorted(map(list, rows.to_arrow().to_pandas().itertuples(index=False))),
            session.ledger.bounds("flights", 3_600_000_000),
        ]
for name, keys, more, fields in (
    ("odd.json", ["n"], {"schema": "time timestamp, n string"}, {}),
    ("odd.csv", ["time", "clock"], {}, {}),
    ("odd.parquet", ["day", "x", "n"], {}, {"x": 'concat("x", origin)', "n": r"length('\\n')"}),
):
    own = dict(
        spec, fields=fields, source={"path": f"{sys.argv[1]}/{name}", **more}, max_rejected=1,
        summaries={"odd": {"keys": keys, "indicators": []}},
    )
    with muntin.summarize(None, own, progress=False) as session:
        rows = [session.sql(f"SELECT {key}, count FROM odd({key}) FOR ALL").rows for key in keys]
        told[name] = [rows, session.progress.rejected]
table = spark.read.parquet(f"{sys.argv[1]}/texts.parquet").toArrow()
fields = {"time": "to_timestamp(text)"}
muntin.summarize(table, dict(spec, fields=fields), progress=False)
told["unchanged"] = dict(spark.conf.getAll) == before
told["active"] = SparkSession.getActiveSession() is spark


def without_one():
    muntin.summarize(table, dict(spec, fields=fields), progress=False)
    told["still none"] = SparkSession.getActiveSession() is None


thread = threading.Thread(target=without_one)
thread.start()
thread.join()
told["active after"] = SparkSession.getActiveSession() is spark
muntin.register(spark)
ready = spark.read.parquet(f"{sys.argv[1]}/flights.parquet")
try:
    muntin.summarize(ready.selectExpr("*", "1 AS Origin"), spec, progress=False)
except muntin.errors.SourceError as problem:
    told["cases"] = str(problem)
ready.write.format("muntin").options(
    spec=json.dumps(spec), ledger=f"sqlite:///{sys.argv[1]}/written.db"
).mode("append").save()
told["executable"] = spark.sparkContext.pythonExec
print(json.dumps(told))
spark.stop()
"""
HOUR = 3_600_000_000


@pytest.fixture(
    scope="module",
    # PySpark overlooks the setting that says which Python it should be
    params=[(), pytest.param((sys.executable,), marks=pytest.mark.slow)],
    ids=["nobody says", "said"],
)
def told(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("own")
    texts = ["2013-01-01 05:15:00", "2013-01-01 05:59:59", "2013-01-01 06:00:00"]
    rest = {"origin": ["EWR", "JFK", "EWR"], "delay": [1, 2, 4]}
    times = pa.array([1357017300, 1357019999, 1357020000], pa.timestamp("s"))
    table = pa.table({"time": times.cast(pa.timestamp("us", "UTC")), **rest})
    pq.write_table(table, folder / "flights.parquet")
    pq.write_table(pa.table({"text": texts, **rest}), folder / "texts.parquet")
    rows = list(zip(texts, rest["origin"], rest["delay"], strict=True))
    lines = [",".join(map(str, row)) for row in rows]
    (folder / "flights.csv").write_text("\n".join(["time,origin,delay", *lines]) + "\n")
    objects = [dict(zip(("time", "origin", "delay"), row, strict=True)) for row in rows]
    (folder / "flights.json").write_text("\n".join(map(json.dumps, objects)) + "\n")
    odd = [{"time": "2013-01-01T05:15:00+01:00", "n": 12.5}, {"time": "2013-01-01 05:60:00"}]
    (folder / "odd.json").write_text("\n".join(map(json.dumps, odd)).replace("12.5", "12.50"))
    (folder / "odd.csv").write_text("time,clock\n2013-01-01T05:15:00+01:00,12:30:00\n")
    days = {"day": [dt.date(1500, 1, 1)], "origin": ["EWR"]}
    pq.write_table(
        pa.table({"time": times[:1].cast(pa.timestamp("us", "UTC")), **days}),
        folder / "odd.parquet",
    )
    (folder / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, folder / "script.py", folder, *request.param],
        # no environment is active: the python3 of the PATH has no muntin
        env={k: v for k, v in os.environ.items() if not k.startswith("PYSPARK")}
        | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "name", ["flights.csv", "flights.json", "flights.parquet", "frame", "fields"]
)
def test_answers_do_not_depend_on_it(told, name):
    rows, bounds = told[name]
    assert rows == [["EWR", 2, 5], ["JFK", 1, 2]]
    assert bounds == [1357017300_000_000 // HOUR * HOUR, 1357020000_000_000 + HOUR]


def test_texts_and_fields_of_files_are_read_without_it(told):
    """By its settings times would lose their zone, and 05:60 would be 06:00."""
    assert told["odd.json"] == [[[["12.50", 1]]], 1]
    assert told["odd.csv"] == [[[["2013-01-01T04:15:00Z", 1]], [["12:30:00", 1]]], 0]
    assert told["odd.parquet"] == [[[["1500-01-01", 1]], [["xEWR", 1]], [[1, 1]]], 0]


def test_columns_that_it_takes_for_one_are_named(told):
    assert told["cases"].startswith("columns 'origin' and 'Origin' differ by case alone, and your")


def test_it_is_left_as_it_was(told):
    assert told["still none"]
    assert told["active after"]
    assert told["unchanged"]
    assert told["active"]
    assert told["executable"] == "python3"
