"""One pipeline gives the same bytes on every Spark: local, standalone, local-cluster, Connect.

In each of them a DataFrame, files and a stream are summarised, and `format("muntin")` is written
and read. The driver of the standalone cluster is submitted; all processes are Spark's own.
"""

import datetime as dt
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import muntin
from muntin.demo.broker import free_ports
from muntin.errors import BadArgument, LedgerConflict, LedgerError, MuntinError
from muntin.ledger.open import open_ledger
from muntin.spark import committing
from muntin.spark.failures import plainly
from muntin.spark.ingest import Ingest
from muntin.spec import Pipeline
from tests.spark.any_spark import SCHEMA, SELECT, SPEC, digest

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("any_spark.py")
START_SECONDS = 120
RUN_SECONDS = 540
LOOPBACK = "127.0.0.1"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Four files of flights in order of time, some without a time or an origin."""
    folder = tmp_path_factory.mktemp("any")
    (folder / "flights").mkdir()
    random, rows = np.random.default_rng(5), 1000
    seconds = 1357000000 + np.sort(random.integers(0, 48 * 3600, 4 * rows))
    for number in range(4):
        times = seconds[number * rows : (number + 1) * rows] * 1_000_000
        table = {
            "time": pa.array(times, mask=np.arange(rows) % 250 == 3).cast(
                pa.timestamp("us", "UTC")
            ),
            "origin": np.array(["EWR", "JFK", "LGA", None], object)[random.integers(0, 4, rows)],
            "delay": random.integers(-30, 100, rows),
        }
        path = folder / "flights" / f"{number}.parquet"
        pq.write_table(pa.table(table), path)
        os.utime(path, (number, number))  # Spark takes the oldest first; some were of one moment
    return folder


@pytest.fixture(scope="module")
def expected(data):
    """What the core makes of the same rows, without Spark."""
    table = pq.read_table(data / "flights")
    early = pa.array((table["delay"].to_numpy() < 0).astype(np.int64))
    spec = {name: entry for name, entry in SPEC.items() if name != "fields"}
    url = f"sqlite:///{data}/expected.db"
    with muntin.summarize(table.append_column("early", early), spec, ledger=url) as session:
        rows = session.sql(SELECT).rows
    return digest(url), rows


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    options = os.environ["SPARK_SUBMIT_OPTS"]  # those of all tests: Java starts quickly
    return kept | {"PYTHONPATH": str(ROOT), "SPARK_SUBMIT_OPTS": options, **more}


def child(data, out, *words, command=(sys.executable,), **more):
    """What `any_spark` prints."""
    out.mkdir()
    done = subprocess.run(
        [*map(str, command), str(CHILD), str(data), str(out), *words],
        cwd=ROOT,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, python_said(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def python_said(text):
    """The end of an output, without Java's traces."""
    lines = [line for line in text.splitlines() if not line.startswith(("\tat ", "\t... "))]
    return "\n".join(lines)[-6000:]


def home():
    import pyspark

    return Path(pyspark.__file__).parent


@contextmanager
def running(words, folder, port=None, told="", **more):
    """A process of Spark's, once it takes connections or has told something."""
    folder.mkdir()
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*map(str, words)],
            cwd=folder,
            env=environment(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP=LOOPBACK) | more,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + START_SECONDS
        while not (is_open(port) if port else told in log.read_text()):
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < end, log.read_text()[-3000:]
            time.sleep(0.2)
        yield
    finally:
        below = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGTERM)
        _, alive = psutil.wait_procs([psutil.Process(process.pid), *below], 10)
        for each in alive:
            each.kill()
        process.wait()


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


@pytest.mark.spark
@pytest.mark.slow
def test_one_machine(data, expected, tmp_path):
    found = child(data, tmp_path / "out", PYSPARK_SUBMIT_ARGS="--master local[2] pyspark-shell")
    check(found, expected, classic=True)


@pytest.mark.spark
@pytest.mark.slow
def test_a_cluster_that_loses_executors(data, expected, tmp_path):
    """Executors in processes of their own, of which each way but those of the format loses one."""
    master = "--master local-cluster[2,1,1024] pyspark-shell"
    found = child(data, tmp_path / "out", "kill", PYSPARK_SUBMIT_ARGS=master)
    check(found, expected, classic=True)


@pytest.mark.spark
@pytest.mark.slow
def test_a_standalone_cluster_by_spark_submit(data, expected, tmp_path):
    spark_class, port = home() / "bin" / "spark-class", *free_ports(1)
    master = f"spark://{LOOPBACK}:{port}"
    deploy = "org.apache.spark.deploy"
    where = ["--host", LOOPBACK, "--webui-port", "0"]
    with (
        running(
            [spark_class, f"{deploy}.master.Master", *where, "--port", port],
            tmp_path / "master",
            port,
        ),
        running(
            [spark_class, f"{deploy}.worker.Worker", *where, "--cores", "2", "--memory", "1500m",
             "-d", tmp_path / "work", master],
            tmp_path / "worker",
            told="Successfully registered",
        ),
    ):  # fmt: skip
        settings = {
            "spark.pyspark.python": sys.executable,
            "spark.executor.memory": "1g",
            "spark.executorEnv.PYTHONPATH": ROOT,
            "spark.ui.enabled": "false",
        }
        confs = [word for k, v in settings.items() for word in ("--conf", f"{k}={v}")]
        submit = [home() / "bin" / "spark-submit", "--master", master, *confs]
        # relative: executors have another working folder
        relative = os.path.relpath(data, ROOT)
        check(child(relative, tmp_path / "out", command=submit), expected, classic=True)


@contextmanager
def connect_server(folder):
    (port,) = free_ports(1)
    server = [
        home() / "bin" / "spark-submit",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", "local[2]",
        "--conf", "spark.ui.enabled=false",
        "--conf", f"spark.connect.grpc.binding.port={port}",
        "--conf", f"spark.connect.grpc.binding.address={LOOPBACK}",
        "spark-internal",
    ]  # fmt: skip
    with running(server, folder / "server", port):
        yield f"sc://{LOOPBACK}:{port}"


@pytest.mark.spark
def test_files_by_spark_connect(data, expected, tmp_path):
    with connect_server(tmp_path) as remote:
        found = child(data, tmp_path / "out", "path", SPARK_REMOTE=remote)
    assert found == {"told": {"path": expected[0]}, "classic": False}


@pytest.mark.spark
@pytest.mark.slow
def test_spark_connect(data, expected, tmp_path):
    with connect_server(tmp_path) as remote:
        found = child(data, tmp_path / "out", SPARK_REMOTE=remote)
    check(found, expected, classic=False)


def check(found, expected, *, classic):
    whole, rows = expected
    assert found["classic"] is classic
    assert found["told"] == dict.fromkeys(("frame", "path", "stream", "write", "sink"), whole)
    assert found["rows"] == rows


# The format on the session that the tests share


@pytest.fixture(scope="module")
def ready(spark, data):
    """A session that knows the format, the flights with their field, and the same as a stream."""
    muntin.register(spark)
    early = f"{SPEC['fields']['early']} AS early"
    files = str(data / "flights")
    frame = spark.read.schema(SCHEMA).parquet(files).selectExpr("*", early)
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2)
    return spark, frame, reader.parquet(files).selectExpr("*", early)


def writing(frame, ledger, **more):
    return frame.format("muntin").options(spec=json.dumps(SPEC), ledger=ledger, **more)


@pytest.mark.spark
def test_a_stream_by_the_format(ready, expected, tmp_path):
    spark, _, stream = ready
    url = f"sqlite:///{tmp_path}/flights.db"
    sink = writing(stream.writeStream, url, checkpointLocation=str(tmp_path / "checkpoint"))
    for _ in range(2):  # the second start has nothing to do
        sink.trigger(availableNow=True).start().awaitTermination()
    assert digest(url) == expected[0]
    answer = spark.read.format("muntin").options(ledger=url, select=SELECT).load()
    assert [list(row) for row in answer.collect()] == expected[1]


@pytest.mark.spark
@pytest.mark.slow
def test_the_cells_of_the_databricks_notebook(ready, tmp_path):
    """All but the two that only Databricks has, and with the ledger elsewhere."""
    cells = json.loads((ROOT / "examples" / "notebooks" / "databricks.ipynb").read_text())["cells"]
    names = {"spark": ready[0]}
    for cell in cells:
        text = "".join(cell["source"]).replace("/local_disk0", str(tmp_path))
        if cell["cell_type"] == "code" and not text.startswith(("%pip", "dbutils.")):
            exec(compile(text, "databricks.ipynb", "exec"), names)  # noqa: S102 (our own)
    assert names["sums"]["count"].tolist() == [3334, 3333, 3333]
    assert names["sums"]["amount"].sum() == sum(n % 100 for n in range(10_000))
    p99 = names["p99"]
    assert ((p99["lower"] <= 98) & (p99["upper"] >= 98)).all()


@pytest.mark.spark
@pytest.mark.slow
def test_the_format_tells_what_is_wrong_in_a_line(ready, tmp_path):
    spark, frame, _ = ready
    for wrong, options, said in (
        (frame.drop("early"), {}, "fields.early: this way evaluates no fields"),
        (frame.drop("origin"), {}, "the source has no column 'origin'"),
        (frame, {"ledger": "memory://x"}, "is lost with the process that commits"),
        (frame, {"shard": "1"}, "there is no option shard"),
        (frame, {"mode": "overwrite"}, "option mode is of writeStream"),
    ):
        given = {"ledger": f"sqlite:///{tmp_path}/x.db"} | options
        with pytest.raises(MuntinError, match=said), plainly():
            writing(wrong.write, **given).mode("append").save()
    with pytest.raises(MuntinError, match="no summary 'flight'"), plainly():
        spark.read.format("muntin").options(
            ledger=f"sqlite:///{data_ledger(tmp_path)}", select="SELECT * FROM flight FOR ALL"
        ).load()
    assert not (tmp_path / "x.db").exists()


def data_ledger(folder):
    rows = committing.fold_task(PLAIN, [BATCH])[2]
    committing.commit_all(PLAIN, f"sqlite:///{folder}/flights.db", "append", ("", "", rows))
    return folder / "flights.db"


# What is committed, without Spark

PLAIN = Pipeline.of({name: entry for name, entry in SPEC.items() if name != "fields"})
BATCH = pa.record_batch(
    {
        "time": pa.array([1357000000_000_000] * 3, pa.timestamp("us", "UTC")),
        "origin": ["EWR", "JFK", "EWR"],
        "delay": [1, 2, 4],
        "early": [0, 0, 0],
    }
)


def test_the_format_takes_no_path():
    """The file of `save` would be a spec, and that of `load` nothing."""
    from pyspark.sql.types import StructType

    from muntin.spark.data_source import MuntinSource

    given = {"path": "x.yaml"}
    for ask, there in (
        (lambda: MuntinSource(given).writer(StructType(), overwrite=False), "spec, ledger$"),
        (lambda: MuntinSource(given).streamWriter(StructType(), False), "spec, ledger, mode$"),
        (lambda: MuntinSource(given).schema(), "ledger, select"),
    ):
        with pytest.raises(BadArgument, match=f"there is no option path; there are {there}"):
            ask()


@pytest.mark.parametrize("given", [{}, {"provider": "muntin", "option.ledger": "l", "ledger": "l"}])
def test_a_table_of_the_catalog_says_how_a_ledger_is_read(given):
    """Spark gives its readers no options: saveAsTable and CREATE TABLE make what none can read."""
    from pyspark.sql.types import StructType

    from muntin.spark.data_source import MuntinSource

    source = MuntinSource(given)
    for ask in (source.schema, source.reader(StructType()).partitions):
        with pytest.raises(BadArgument, match=r"keeps no options .* CREATE TEMPORARY VIEW"):
            ask()


def read_by_the_format(folder, select, before=lambda: None, **asked):
    """Rows as the format gives them to Spark, in the types that it expects."""
    from pyspark.sql.types import StructType

    from muntin.spark.data_source import MuntinSource
    from muntin.spark.ddl import in_arrow

    source = MuntinSource({"ledger": f"sqlite:///{folder}/flights.db", "select": select})
    planned = StructType() if asked else source.schema()
    for name, kind in asked.items():
        planned.add(name, kind)
    before()
    reader = source.reader(planned)
    [table] = [pa.Table.from_batches(reader.read(part)) for part in reader.partitions()]
    assert table.schema == in_arrow(planned)
    return table.to_pylist()


def test_the_format_gives_each_type_of_an_answer_to_spark(tmp_path):
    data_ledger(tmp_path)
    values = {
        "CAST(255 AS UTINYINT)": 255,
        "CAST(4294967295 AS UINTEGER)": 2**32 - 1,
        "CAST(18446744073709551615 AS UBIGINT)": Decimal(2**64 - 1),
        "TIME '23:59:59.000001'": dt.time(23, 59, 59, 1),
        "INTERVAL '1 month 2 days'": "P1M2D",
        "INTERVAL '2 hours'": dt.timedelta(hours=2),
    }
    listed = ", ".join(f"{text} AS c{at}" for at, text in enumerate(values))
    select = f"SELECT {listed} FROM flights FOR ALL"  # noqa: S608 (our own)
    [row] = read_by_the_format(tmp_path, select)
    assert list(row.values()) == list(values.values())


def test_the_format_takes_the_columns_that_it_is_asked_for_by_name(tmp_path):
    data_ledger(tmp_path)
    select = "SELECT origin, count FROM flights(origin) FOR ALL ORDER BY origin"
    rows = read_by_the_format(tmp_path, select, count="integer", origin="string")
    assert rows == [{"count": 2, "origin": "EWR"}, {"count": 1, "origin": "JFK"}]
    assert read_by_the_format(tmp_path, select, origin="string")[0] == {"origin": "EWR"}
    with pytest.raises(BadArgument, match="no column 'orgin': it has origin, count"):
        read_by_the_format(tmp_path, select, orgin="string")
    with pytest.raises(BadArgument, match="column 'origin' of the answer is string now, which"):
        read_by_the_format(tmp_path, select, origin="integer")


def test_what_is_committed_between_plan_and_rows_is_read_or_told(tmp_path):
    """A sum grows beyond int64, and comes as a wider integer."""
    url = f"sqlite:///{tmp_path}/flights.db"

    def committed(delay):
        large = BATCH.set_column(2, "delay", pa.array([delay] * 3))
        written = "", "", committing.fold_task(PLAIN, [large])[2]
        committing.commit_all(PLAIN, url, "append", written)

    committed(1)
    total = "SELECT delay FROM flights FOR ALL"
    with pytest.raises(BadArgument, match=r"'delay' of the answer is decimal.* load it anew"):
        read_by_the_format(tmp_path, total, lambda: committed(2**62))
    assert read_by_the_format(tmp_path, total) == [{"delay": 3 * 2**62 + 3}]
    [row] = read_by_the_format(tmp_path, total, lambda: committed(-(2**62)))  # is small again
    assert row == {"delay": 3}


def test_a_stream_that_the_format_cannot_write_or_read_is_refused(tmp_path):
    """Each batch of output mode complete holds all of those before it."""
    from muntin.spark.data_source import MuntinSource

    spec = json.dumps(PLAIN.as_json())
    source = MuntinSource({"spec": spec, "ledger": f"sqlite:///{tmp_path}/flights.db"})
    with pytest.raises(BadArgument, match="complete gives all rows anew with each batch"):
        source.streamWriter(SCHEMA, overwrite=True)
    with pytest.raises(BadArgument, match=r"read as it is now, by spark\.read"):
        source.streamReader(SCHEMA)


@pytest.mark.parametrize("way", ["format", "summarize"])
def test_what_is_committed_is_no_failure_where_another_writer_comes(tmp_path, monkeypatch, way):
    """Who is told that it failed writes it again, and it would count twice."""
    url = f"sqlite:///{data_ledger(tmp_path).absolute()}"
    rows = committing.fold_task(PLAIN, [BATCH])[2]

    def write():
        if way == "format":
            committing.commit_all(PLAIN, url, "append", ("", "", rows))
        else:
            table = pa.Table.from_batches([BATCH])
            muntin.summarize(table, PLAIN, ledger=url, mode="append").close()

    def overtaken_before(name):
        method = getattr(Ingest, name)

        def overtaken(ingest, *arguments, **options):
            monkeypatch.undo()
            write()
            method(ingest, *arguments, **options)

        monkeypatch.setattr(Ingest, name, overtaken)

    overtaken_before("finish")
    write()
    assert counted(url) == 9
    overtaken_before("take")
    with pytest.raises(LedgerConflict):
        write()
    assert counted(url) == 12


def take(url, query, run, batch_id, mode="continue", pipeline=PLAIN):
    rows = committing.fold_task(pipeline, [BATCH])[2]
    committing.commit_batch(pipeline, url, mode, (query, run, rows), batch_id)


def counted(url):
    with muntin.open(url) as session:
        return session.ledger.pipelines()[0].counted


@pytest.fixture
def url(tmp_path):
    yield f"sqlite:///{tmp_path}/flights.db"
    forget_processes()


def forget_processes():
    """As if Spark had started another process for commits."""
    while committing._open:
        ingest = committing._open.popitem()[1][1]
        ingest.close()
        ingest.ledger.close()


def test_a_ledger_is_closed_where_no_writer_may_begin(url, monkeypatch):
    opened = []

    def opening(*given):
        opened.append(open_ledger(*given))
        return opened[-1]

    take(url, "q", "run 1", 0)
    forget_processes()
    monkeypatch.setattr(committing, "open_ledger", opening)
    with pytest.raises(LedgerConflict, match="would read the source again"):
        take(url, "other", "run 2", 0)
    with pytest.raises(LedgerError, match="closed"):
        opened[0].pipelines()


def test_a_batch_counts_once_whichever_process_commits_it(url):
    take(url, "q", "run 1", 0)
    take(url, "q", "run 1", 0)
    forget_processes()
    take(url, "q", "run 1", 0)
    take(url, "q", "run 1", 1)
    assert counted(url) == 6
    take(url, "q", "run 2", 1)  # the query was started again: Spark replays its last batch
    take(url, "q", "run 2", 2)
    assert counted(url) == 9


def test_a_frozen_driver_that_wakes_up_writes_nothing(url):
    take(url, "q", "run 1", 0)
    frozen = committing._open.copy()
    committing._open.clear()
    take(url, "q", "run 2", 1)
    committing._open.clear()
    committing._open.update(frozen)
    with pytest.raises(LedgerConflict):  # by its epoch
        take(url, "q", "run 1", 2)
    forget_processes()
    with pytest.raises(LedgerConflict, match="started again"):  # and in a new process, by its run
        take(url, "q", "run 1", 2)
    take(url, "q", "run 2", 2)
    assert counted(url) == 9


def test_overwriting_happens_once_a_query(url):
    take(url, "old", "run 0", 0)
    with pytest.raises(LedgerConflict):
        take(url, "new", "run 1", 0)
    take(url, "new", "run 1", 0, "overwrite")
    take(url, "new", "run 1", 1, "overwrite")
    forget_processes()
    take(url, "new", "run 1", 2, "overwrite")
    take(url, "new", "run 2", 3, "overwrite")
    assert counted(url) == 12


def test_a_changed_spec_leaves_nothing_of_the_one_before(url):
    """Threads and descriptors would grow with each change, and old alerts go on being asked."""
    take(url, "q", "run 1", 0)
    [(_, before)] = committing._open.values()
    entries = {name: entry for name, entry in SPEC.items() if name not in ("fields", "queries")}
    take(url, "q", "run 2", 1, pipeline=Pipeline.of(entries))
    [(run, ingest)] = committing._open.values()
    assert (run, dict(ingest.pipeline.queries)) == ("run 2", {})
    assert not before._answering.is_alive()
    assert counted(url) == 6


def test_what_is_large_goes_by_files(url, tmp_path, monkeypatch):
    monkeypatch.setattr(committing, "SPILL_BYTES", 0)
    spec = PLAIN.model_copy(update={"payloads": str(tmp_path / "shared")})
    spilled = committing.fold_task(spec, [BATCH])[2]
    files = [*(tmp_path / "shared").rglob("*.mseg")]
    assert len(files) == 2 == len(committing._named(spilled))
    assert committing._whole(spilled) == committing.fold_task(PLAIN, [BATCH])[2]
    committing.commit_batch(spec, url, "continue", ("q", "run 1", spilled), 0)
    assert counted(url) == 3
    again = committing.fold_task(spec, [BATCH])[2]
    committing.forget_spilled(spec, again)  # as a batch that is given up
    assert [*(tmp_path / "shared").rglob("*.mseg")] == []
    with pytest.raises(LedgerError, match="is gone"):
        committing.commit_batch(spec, url, "continue", ("q", "run 1", again), 1)
    assert counted(url) == 3


def test_a_message_that_is_too_large_is_refused_in_the_task(monkeypatch):
    size = sum(len(row[-1]) for row in committing.fold_task(PLAIN, [BATCH])[2])
    monkeypatch.setattr(committing, "MESSAGE_BYTES_MAX", size - 1)
    with pytest.raises(BadArgument, match="write shards: for it"):
        committing.fold_task(PLAIN, [BATCH])
