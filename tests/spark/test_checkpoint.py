"""The files of a checkpoint that Spark wrote, with a bit flipped or the end cut off."""

import json
import random
import re

import pytest
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from muntin.errors import SourceError
from muntin.ledger.open import open_ledger
from muntin.spark import committing
from muntin.spark.checkpoint import check_read_once, check_undamaged, for_local_files, query_of
from muntin.spark.data_source import MuntinSource, TaskMessage
from muntin.spark.start_stream import _elsewhere
from tests.chaos.test_checkpoint import spec_of, table_of, taken, written
from tests.pipeline.support import pipeline

pytestmark = pytest.mark.spark


def test_flipped_bits_and_cuts_are_refused(tmp_path):
    written(table_of(random.Random(1)), tmp_path)
    place = tmp_path / "checkpoint"
    with pytest.raises(Exception, match="here it dies"):
        taken(spec_of(tmp_path, place), 3)
    check_undamaged(str(place))
    check_undamaged(f"file://{place}")
    check_undamaged(str(tmp_path / "there is none yet"))
    files = [path for path in sorted(place.rglob("[!.]*")) if path.is_file()]
    assert {str(path.relative_to(place)) for path in files} >= {
        "metadata", "offsets/2", "commits/1", "sources/0/0",
    }  # fmt: skip
    for path in files:
        whole = path.read_bytes()
        places = range(0, len(whole), len(whole) // 11)
        damaged = [whole[:size] for size in places]
        for at in places:
            flipped = bytearray(whole)
            flipped[at] ^= 1 << at % 8
            damaged.append(bytes(flipped))
        for data in damaged:
            path.write_bytes(data)
            with pytest.raises(SourceError, match=re.escape(f"{path} is damaged")):
                check_undamaged(str(place))
        path.write_bytes(whole)
    letter = place / "sources" / "0" / "0"
    letter.write_bytes(letter.read_bytes().replace(b"part-00", b"part-04"))
    with pytest.raises(SourceError, match=r"sources/0/0 is damaged: .* delete \.0\.crc"):
        taken(spec_of(tmp_path, place))


def test_one_that_cannot_be_made_is_told_with_a_remedy(tmp_path):
    written(table_of(random.Random(1)), tmp_path)
    (tmp_path / "file").touch()
    spec = spec_of(tmp_path, tmp_path / "file" / "checkpoint")
    spec = spec.model_copy(update={"ledger": f"sqlite:///{tmp_path}/ledger.db"})
    with pytest.raises(SourceError, match=r"^checkpoint: .* cannot be made: .*; correct the path"):
        taken(spec)


@pytest.mark.parametrize("held", ["", "[]", '{"id"', "{}"])
def test_a_query_that_cannot_be_read_is_not_told_as_another(tmp_path, held):
    assert query_of(f"{tmp_path}/none") == ""
    (tmp_path / "metadata").write_text(held)
    with pytest.raises(SourceError, match=re.escape(f"{tmp_path}/metadata is damaged")):
        query_of(str(tmp_path))
    (tmp_path / "metadata").unlink()
    (tmp_path / "metadata").mkdir()
    with pytest.raises(SourceError, match=r"^checkpoint: .*Is a directory"):
        query_of(str(tmp_path))


def test_checksums_that_tell_nothing_are_passed_over(tmp_path):
    """A process that dies between a file and its checksums leaves none, or a part of them."""
    (tmp_path / "metadata").write_text("{}")
    for stored in (b"", b"crc", b"crc\0\0\0\0\0", b"src\0\0\0\2\0", b"crc\0\xff\0\0\0abcd"):
        (tmp_path / ".metadata.crc").write_bytes(stored)
        check_undamaged(str(tmp_path))


@pytest.fixture
def damaged(tmp_path):
    (tmp_path / "metadata").write_text('{"id":"q"}')
    (tmp_path / ".metadata.crc").write_bytes(b"crc\0\0\0\2\0abcd")
    return tmp_path


def test_the_sink_commits_nothing_of_a_damaged_one(damaged, tmp_path):
    """Spark Connect, and `format("muntin")`: where the batches are committed."""
    spec, url = pipeline(), f"sqlite:///{tmp_path}/l.db"
    kind = StructType().add("time", TimestampType()).add("driver", StringType())
    for name in ("area", "served", "fare"):
        kind = kind.add(name, LongType())
    options = {"spec": json.dumps(spec.as_json()), "ledger": url}
    sink = MuntinSource({**options, "checkpointLocation": str(damaged)}).streamWriter(
        kind, overwrite=False
    )
    sent = [TaskMessage("q", "run", [])]
    with pytest.raises(SourceError, match="metadata is damaged"):
        sink.commit(sent, 0)
    assert not (tmp_path / "l.db").exists()
    (damaged / ".metadata.crc").unlink()
    sink.commit(sent, 0)
    for _, ingest in committing._open.values():
        ingest.close()
    committing._open.clear()
    with open_ledger(url).snapshot() as view:
        assert view.pipelines()[0].batches == 1


def test_spark_connect_begins_with_no_damaged_one(damaged):
    with pytest.raises(SourceError, match="metadata is damaged"):
        _elsewhere(None, pipeline(), "sqlite:///l.db", str(damaged), once=True, mode="continue")


def test_a_local_one_is_written_in_spark_s_plain_way_by_a_session_of_its_own(spark, tmp_path):
    """Not by the user's session, whose other checkpoints may lie where renaming differs."""
    way = "spark.sql.streaming.checkpointFileManagerClass"
    for local in (str(tmp_path), f"file://{tmp_path}"):
        made = for_local_files(spark, local)
        assert made is not spark
        assert made.conf.get(way).endswith("FileSystemBasedCheckpointFileManager")
        assert for_local_files(made, local) is made, "it was said already"
    assert for_local_files(spark, "hdfs://there/it") is spark
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.defaultFS", "hdfs://there")
    try:
        assert for_local_files(spark, str(tmp_path)) is spark, "there is where Spark would find it"
    finally:
        hadoop.set("fs.defaultFS", "file:///")
    assert spark.conf.get(way, None) is None
    table = table_of(random.Random(2))
    written(table, tmp_path)
    taken(spec_of(tmp_path, tmp_path / "checkpoint"))
    files = [path for path in (tmp_path / "checkpoint").rglob("[!.]*") if path.is_file()]
    assert all(path.with_name(f".{path.name}.crc").exists() for path in files)
    assert len(files) >= 4


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_which_files_a_batch_has_taken(tmp_path, version):
    """Lists that were written as one, and one that no batch was planned with before."""
    offsets, log = tmp_path / "offsets", tmp_path / "sources" / "1"
    offsets.mkdir()
    log.mkdir(parents=True)
    for batch, end in enumerate(("-", {"logOffset": 8}, {"logOffset": 10}, {"logOffset": 10})):
        lines = [json.dumps({"offset": batch}), end if end == "-" else json.dumps(end)]
        if version == "v2":
            lines = [f"{number}:{line}" for number, line in enumerate(lines)][::-1]
        (offsets / str(batch)).write_text("\n".join([version, "{}", *lines]))

    def taken_by(numbers):
        return [json.dumps({"path": f"file:///%5B{n}", "batchId": n}) for n in numbers]

    (log / "8").write_text("\n".join(["v1", *taken_by([8])]))
    (log / "9.compact").write_text("\n".join(["v1", *taken_by(range(10))]))
    (log / "10").write_text("\n".join(["v1", *taken_by([10])]))
    for batch in (0, 1, 3, 4):
        check_read_once(str(tmp_path), batch)
    with pytest.raises(SourceError, match=r"read file:///\[9 again"):
        check_read_once(f"file://{tmp_path}", 2)
    check_read_once("s3a://bucket/checkpoint", 2)
    check_read_once("", 2)
    (offsets / "2").write_text("v1")  # another form: nothing is checked
    check_read_once(str(tmp_path), 2)
