"""Files that grow, or are replaced, between Spark's plan of a batch and the end of its job."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import muntin
from muntin.errors import SourceError
from muntin.ledger.temporary import temporary
from muntin.spark.ingest import Ingest
from muntin.spark.unchanged import check_as_planned, check_unchanged, states_of

pytestmark = pytest.mark.spark
PATIENCE_SECONDS = 300
COLUMNS = "at bigint, k string, v bigint"
SPEC = {
    "name": "n",
    "time": {"column": "at", "unit": "s"},
    "pane": "1 minute",
    "summaries": {"s": {"keys": ["k"], "indicators": ["v"]}},
}


def put(path, rows):
    if path.suffix == ".parquet":
        columns = {"at": range(rows), "k": ["a"] * rows, "v": [rows] * rows}
        pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), path)
        return
    lines = [f"{at},a,{rows}" for at in range(rows)]
    if path.suffix == ".json":
        lines = [f'{{"at": {at}, "k": "a", "v": {rows}}}' for at in range(rows)]
    elif path.suffix == ".csv":
        lines.insert(0, "at,k,v")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data é").mkdir()
    return tmp_path / "data é"


@pytest.fixture
def meanwhile(monkeypatch):
    """What it is given is done once, when a batch has been planned and nothing is read."""

    def once(does):
        with_plan = Ingest.plan

        def planned(ingest):
            monkeypatch.setattr(Ingest, "plan", with_plan)
            does()
            return with_plan(ingest)

        monkeypatch.setattr(Ingest, "plan", planned)

    return once


def given(spark, folder, way, *, as_stream=False):
    """The data and the spec by which it is read."""
    source = {"format": way.partition(" ")[0], "path": str(folder), "schema": COLUMNS}
    if way == "parquet of Arrow":
        del source["schema"]
    spec = SPEC | ({"fields": {"z": "v + 1"}} if way == "parquet of Spark" else {})
    if way.endswith("frame"):
        reader = spark.readStream if as_stream else spark.read
        return reader.schema(COLUMNS).csv(str(folder), header=True), spec
    return None, spec | {"source": source}


WAYS = ["csv", "json", "parquet of Arrow", "parquet of Spark", "csv of a frame"]


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_of_a_file_that_grew_is_refused(spark, folder, meanwhile, way):
    kind = way.partition(" ")[0]
    for name in "xyz":
        put(folder / f"{name}.{kind}", 3)
    data, spec = given(spark, folder, way)
    changed = folder / f"y.{kind}"
    meanwhile(lambda: put(changed, 5))
    ledger = temporary()
    with pytest.raises(SourceError, match=rf"/data é/y\.{kind} was written anew.*rename it"):
        muntin.summarize(data, spec, ledger=ledger)
    assert not any(found.counted for found in ledger.pipelines())
    data, spec = given(spark, folder, way)
    with muntin.summarize(data, spec, ledger=temporary()) as session:
        assert session.progress.read == 11


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_takes_what_is_there_at_its_next_start(spark, folder, meanwhile, tmp_path, way):
    kind = way.partition(" ")[0]
    for name in "xyz":
        put(folder / f"{name}.{kind}", 3)
    (folder / f"empty.{kind}").touch()
    url, place = f"sqlite:///{tmp_path}/l.db", str(tmp_path / "checkpoint")

    def taken():
        data, spec = given(spark, folder, way, as_stream=True)
        stream = muntin.stream(data, spec, ledger=url, checkpoint=place, once=True)
        stream.await_termination(PATIENCE_SECONDS)
        return stream.ledger.pipelines()[0].read

    changed = ["empty", "y"] if kind != "parquet" else ["y"]
    meanwhile(lambda: [put(folder / f"{name}.{kind}", 5) for name in changed])
    told = f"{changed[0]}.{kind} {'and 1 more were' if len(changed) > 1 else 'was'} written anew"
    with pytest.raises(SourceError, match=told):
        taken()
    assert taken() == 11 + 5 * (len(changed) - 1)


def test_files_that_are_gone_once_they_were_read_are_no_failure(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(name)
    before = states_of([str(tmp_path / name) for name in "abc"])
    assert len(before) == 2
    (tmp_path / "a").unlink()
    check_unchanged(before, states_of(before))
    os.utime(tmp_path / "b", (1, 1))
    with pytest.raises(SourceError, match=r"/b was written anew"):
        check_unchanged(before, states_of(before))


class Java:
    """An object of Java's, as Py4J gives it: an answer for each method."""

    def __init__(self, kind, **told):
        self._kind = kind
        for name, answer in told.items():
            setattr(self, name, answer if callable(answer) else lambda *_, a=answer: a)

    def getClass(self):
        return Java("Class", getSimpleName=self._kind)


def plan_of(location, kind="FileSourceScanExec"):
    """The plan of a query that reads files, as Spark tells it once it has run."""
    leaf = Java(kind, relation=Java("HadoopFsRelation", location=location))
    leaves = Java("List", size=1, apply=leaf)
    plan = Java("AdaptiveSparkPlanExec", inputPlan=Java("MapInArrowExec", collectLeaves=leaves))
    return Java("QueryExecution", executedPlan=plan)


def far_files(store, kind="InMemoryFileIndex"):
    """Spark's list of an object store's files {path: (bytes, written)}: as it was, until anew."""
    listed = dict(store)

    def text(_):
        return "\n".join(
            f"S3ALocatedFileStatus{{path={path}; isDirectory=false; length={size}; replication=1; "
            f"blocksize=1; modification_time={written}; access_time=0; owner=a}}"
            for path, (size, written) in listed.items()
        )

    def refresh():
        listed.clear()
        listed.update(store)

    return Java(kind, allFiles=lambda: Java("Seq", mkString=text), refresh=refresh)


def test_files_of_an_object_store_are_listed_anew():
    store = {"s3a://b/x;y.csv": (3, 1), "s3a://b/y.csv": (3, 1)}
    location = far_files(store)
    check_as_planned(plan_of(location), is_ours=True)
    store["s3a://b/z.csv"] = (9, 9)  # came since: the next batch's
    del store["s3a://b/y.csv"]  # was read to its end
    check_as_planned(plan_of(location), is_ours=True)

    location = far_files(store)
    store["s3a://b/x;y.csv"] = (5, 2)
    plan = plan_of(location)
    check_as_planned(plan, is_ours=False)  # somebody else's list, which stays as it was
    check_as_planned(plan_of(location, "ScanExistingRDD"), is_ours=True)
    check_as_planned(plan_of(far_files(store, "Other")), is_ours=True)
    with pytest.raises(SourceError, match=r"source: s3a://b/x;y\.csv was written anew, or grew"):
        check_as_planned(plan, is_ours=True)
    store["s3a://b/z.csv"] = (9, 10)
    store["s3a://b/x;y.csv"] = (5, 3)
    with pytest.raises(SourceError, match=r"s3a://b/x;y\.csv and 1 more were written anew"):
        check_as_planned(plan, is_ours=True)


def test_a_plan_of_another_form_is_not_looked_at():
    check_as_planned(Java("QueryExecution"), is_ours=True)
    check_as_planned(plan_of(Java("InMemoryFileIndex")), is_ours=True)
