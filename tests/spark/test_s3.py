"""What workers read and write may be on an object store, by the names that Spark uses."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from muntin.assembly import cutting
from muntin.errors import BadArgument, CorruptSummary, SelectError, SourceError
from muntin.session import Session
from muntin.spark import fingerprint_index
from muntin.spark.fingerprint_index import FingerprintIndex
from muntin.spark.index.build import IndexPlan, new_digest, scatter
from muntin.spark.index.build import run as run_stages
from muntin.spark.index.files import opened
from muntin.spark.index.manifest import Manifest
from muntin.spark.index.reader import IndexReader
from muntin.spark.index.runs import remove_left, run_folder
from muntin.spark.rows import here
from muntin.storage import _ObjectUrls, place_of
from muntin.summaries.order_maps import IntegerRange
from tests.pipeline.support import content, run
from tests.pipeline.test_kinds import in_pieces, pipeline, some_rows, table
from tests.pipeline.test_shards import SUMMARIES, _rows
from tests.s3_server import s3_server
from tests.spark.test_any_spark import python_said
from tests.spark.test_index_folder import RANGE, are_there, once, texts, with_more

ROOT = Path(__file__).parents[2]
ASKED = "SELECT * FROM quantiles(delays, 0.5) FOR ALL"
JARS = os.environ.get("MUNTIN_S3_JARS", "")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with s3_server(tmp_path_factory.mktemp("s3")) as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.items():
            patch.setenv(name, value)
        yield found


@pytest.fixture
def cut_early(monkeypatch):
    monkeypatch.setattr(cutting, "CUT_BYTES_MIN", 0)
    monkeypatch.setattr(cutting, "FILE_BYTES_MIN", 0)


def test_it_takes_the_payloads_of_shards(store, cut_early):
    batches = [[part] for part in in_pieces(table(some_rows(40, seconds=20)), [20])]
    near = pipeline({"delays": SUMMARIES["delays"]}, {})
    far = pipeline({"delays": {**SUMMARIES["delays"], "shards": 2}}, {})
    far = far.model_copy(update={"payloads": "s3a://bucket/payloads"})
    place, folder = place_of("s3a://bucket/payloads")
    with run(near, batches) as whole, run(far, batches) as sharded:
        assert content(whole) == content(sharded)
        before = set(place.listed(folder))
        place.write(f"{min(before).rpartition('/')[0]}/x.mseg", b"a try's", lasting=True)
        assert sharded._maintenance.sweep(age_us=-10_000_000) > 0
        after = set(place.listed(folder))
        assert after <= before
        assert all(path.startswith("s3a://bucket/payloads/flights-") for path in after)
        one, other = (Session(each.ledger).sql(ASKED) for each in (whole, sharded))
        assert _rows(one) == _rows(other)
        place.delete_folder(folder)
        sharded.ledger.verify()
        with pytest.raises(SelectError, match=r"payload file s3a://bucket/payloads/.* is gone"):
            Session(sharded.ledger).sql(ASKED)


def build(folder, base=None):
    """Both stages in this process, as tasks do them."""
    numbers = np.arange(5000)
    keys, values = pa.array([f"page/{n}" for n in numbers]), pa.array(numbers * 7 % 1000)
    with run_folder(folder) as runs:
        revision = Manifest.newest(folder) + 1
        made = Manifest("url", "bytes", "text", 4, 0.01, 0.01, 0, revision=revision)
        plan = IndexPlan(made, folder, runs, 1, IntegerRange(10), base or {})
        files, digest = run_stages(here, [*scatter(plan, [(keys, values, "")])], plan)
    made = made.with_files(files)
    made.commit(folder)
    return made, digest


def test_an_index_is_the_same_there(store, tmp_path):
    url = "s3a://bucket/index"
    (far, digest), (near, same) = build(url), build(str(tmp_path))
    assert far.files == near.files
    assert digest.to_bytes() == same.to_bytes()
    assert Manifest.names_in(url) == set(far.names())
    place, _ = place_of(url)
    left = {path.removeprefix(f"{url}/") for path in place.listed(url)}
    assert left == {*far.names(), "manifests/0000000001.json"}
    index = IndexReader.open(url)
    assert index.folder == url
    keys = [f"page/{n}" for n in range(0, 10_000, 5)]
    found = index.contains(keys)
    assert found.equals(IndexReader.open(tmp_path).contains(keys))
    assert found["present"].to_pylist()[:1000] == [True] * 1000
    more, _ = build(url, {file.partition: file.file for file in far.files})
    assert sum(file.records for file in more.files) == 10_000

    broken = f"{url}/{more.files[0].file}"
    place.write(broken, b"x", lasting=False)
    with pytest.raises(CorruptSummary, match="1 bytes instead of"):
        IndexReader.open(url)
    place.delete(broken)
    with pytest.raises(SourceError, match="lacks 1 of its files"):
        IndexReader.open(url)
    with pytest.raises(SourceError, match="lacks its file s3a://"):
        opened(broken)
    with pytest.raises(SourceError, match="s3a://bucket/none holds no index"):
        IndexReader.open("s3a://bucket/none")
    with pytest.raises(SourceError, match=r"s3a://nobody/none\S* cannot be|holds no index"):
        IndexReader.open("s3a://nobody/none")


def test_what_killed_writers_left_goes_when_it_is_old(store):
    url = "s3a://bucket/left"
    manifest, _ = build(url)
    place, _ = place_of(url)
    for name in ("part-00003-2-0123456789abcdef.mntn", ".runs-x/y.u64", "digest-2-x", "another"):
        place.write(f"{url}/{name}", b"x", lasting=False)
    before = set(place.listed(url))
    remove_left(url, manifest.names())
    assert set(place.listed(url)) == before
    remove_left(url, manifest.names(), age_us=-10_000_000)
    assert len(before - set(place.listed(url))) == 2
    assert IndexReader.open(url).contains(["page/1"])["present"].to_pylist() == [True]


@pytest.mark.parametrize("problem", [PermissionError("Forbidden"), OSError("SlowDown")])
def test_a_store_that_takes_nothing_is_told_as_that(store, monkeypatch, problem):
    def refuses(*_, **__):
        raise problem

    files = place_of("s3a://bucket/index")[0].files
    monkeypatch.setattr(type(files), "open", refuses)
    monkeypatch.setattr(type(files), "pipe_file", refuses)
    with pytest.raises(SourceError, match=rf"cannot be written \({problem}\)$"):
        build("s3a://bucket/refused")


def fails(*_):
    raise OSError("no answer")


def test_of_those_that_add_to_an_index_at_once_one_does(store, monkeypatch):
    url = "s3a://bucket/shared"
    manifest = Manifest("key", "n", "text", 8, 0.001, 0.01, 0)
    first = FingerprintIndex(None, url, manifest, new_digest(0.01, RANGE), [])
    one, other = with_more(first, texts("a")), FingerprintIndex.load(None, url)
    there = texts("a")

    def others(*names):
        for name in names:
            with_more(other, texts(name))
            there.extend(texts(name))

    for names, said in ((["b"], "nothing was added; try again"), (["c", "d"], "look whether")):
        once(monkeypatch, _ObjectUrls, "add", partial(others, *names))
        with pytest.raises(SourceError, match=said):
            with_more(one, texts("mine"))
        assert are_there(IndexReader.open(url), there)
        one.refresh()

    monkeypatch.setattr(_ObjectUrls, "delete", fails)
    add = _ObjectUrls.add
    monkeypatch.setattr(_ObjectUrls, "add", lambda *given: (add(*given), fails()))
    with_more(one, texts("mine"))
    monkeypatch.undo()
    assert are_there(IndexReader.open(url), [*there, *texts("mine")])


def test_an_index_that_cannot_be_looked_for_is_not_replaced(store, monkeypatch):
    build("s3a://bucket/kept")
    source = SimpleNamespace(key_type=pa.string(), rank_type=None, spark=None)
    monkeypatch.setattr(fingerprint_index, "source_of", lambda *_: source)
    monkeypatch.setattr(FingerprintIndex, "_run", lambda *_: ((), None))
    with pytest.raises(BadArgument, match="holds an index already"):
        FingerprintIndex.build("", "url", path="s3a://bucket/kept")
    with monkeypatch.context() as patch:
        patch.setattr(_ObjectUrls, "sizes", fails)
        with pytest.raises(SourceError, match="kept/manifests cannot be read"):
            FingerprintIndex.build("", "url", path="s3a://bucket/kept")
    assert IndexReader.open("s3a://bucket/kept").records == 0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(
    not JARS,
    reason="MUNTIN_S3_JARS names no folder with org.apache.hadoop:hadoop-aws:3.5.0, and what it "
    "needs: software.amazon.awssdk:bundle:2.35.4 (690 MB), "
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
)
def test_spark_and_muntin_by_the_same_names(store, tmp_path):
    """Sources, a checkpoint, its reset, shards and an index, all at s3a://, tasks elsewhere."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.s3_process", store["AWS_ENDPOINT_URL"], str(tmp_path)],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stdout + python_said(done.stderr)
    assert done.stdout.splitlines()[-1] == "done"
