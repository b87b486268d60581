"""The fingerprint index on Spark: right answers, the same after faults, errors that name things."""

import gc
import json
import os
import shutil
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.errors import BadArgument, CorruptSummary, SourceError
from muntin.ledger.temporary import _lock_of
from muntin.spark import fingerprint_index
from muntin.spark.fingerprint_index import FingerprintIndex
from muntin.spark.index.build import DIGEST, FILE, RUN, IndexPlan, gather, scatter
from muntin.spark.index.files import forget, write_once
from muntin.spark.index.manifest import Manifest
from muntin.spark.index.reader import IndexReader
from muntin.spark.index.runs import RunReader
from muntin.spark.index.sources import Files, FrameSource, source_of
from muntin.summaries.items import hash_items
from muntin.summaries.order_maps import IntegerRange
from muntin.summaries.static_filter import to_partitions
from tests.disks import small_disk

pytestmark = pytest.mark.spark
ROWS = 20_000
PARTITIONS = 8
FIRST = "manifests/0000000001.json"


def table(start=0, rows=ROWS):
    rng = np.random.default_rng(start)
    return pa.table(
        {
            "url": [f"https://example.org/{i % 15_000 + start}" for i in range(rows)],
            "bytes": rng.lognormal(8, 2, rows).astype(np.int64),
        }
    )


@pytest.fixture(scope="module")
def records():
    return table()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("records")
    pq.write_table(records.slice(0, 9_000), path / "a.parquet", row_group_size=3_000)
    pq.write_table(records.slice(9_000), path / "b.parquet")
    return path


@pytest.fixture(scope="module")
def frame(spark, folder):
    return spark.read.parquet(str(folder)).repartition(3)


@pytest.fixture(scope="module")
def index(frame):
    return FingerprintIndex.build(frame, "url", "bytes", PARTITIONS, progress=False)


def strangers(count):
    return [f"https://elsewhere.example/{i}" for i in range(count)]


@pytest.mark.parametrize("via", ["driver", "job", "auto"])
def test_contains(index, records, via):
    keys = [*records["url"].to_pylist()[:1500], *strangers(1500)]
    answer = index.contains(keys, via=via)
    assert answer.column_names == ["key", "present", "false_positive_rate"]
    assert answer["key"].to_pylist() == keys
    present = np.asarray(answer["present"])
    assert present[:1500].all()
    assert present[1500:].sum() <= 8
    many = np.asarray(index.contains(strangers(100_000), via="driver")["present"])
    assert many.mean() <= 1.1 * index.false_positive_rate() + 0.0004  # four standard deviations
    assert 0 < np.asarray(answer["false_positive_rate"]).max() <= 0.001
    assert index.contains([]).num_rows == 0


def test_every_key_is_in_the_one_partition_of_its_hash(index, records):
    keys = records["url"].to_pylist()[:500]
    located = index.locate(keys)
    expected = to_partitions(hash_items(keys), PARTITIONS)
    assert located["partitions"].to_pylist() == [[p] for p in expected.tolist()]
    hashes = hash_items(records["url"])
    for file in index.manifest.files:
        mine = hashes[to_partitions(hashes, PARTITIONS) == file.partition]
        assert (file.least, file.most) == (int(mine.min()), int(mine.max()))
        assert file.records == len(mine)
    assert index.records == ROWS
    assert 15_000 * 0.998 <= index.fingerprints <= 15_000  # a few are taken for others


def test_ranks_hold_their_bounds(index, records):
    values = np.sort(records["bytes"].to_numpy())
    qs = np.arange(1, 10) / 10
    found = index.quantile(qs)
    exact = np.quantile(values, qs, method="inverted_cdf")
    assert (np.asarray(found["lower"]) <= exact).all()
    assert (exact <= np.asarray(found["upper"])).all()
    asked = [100, 812, 5_000, 10**9, -3]
    ranks = index.rank(asked)
    truth = np.searchsorted(values, asked, side="right")
    assert (np.asarray(ranks["lower"]) <= truth).all()
    assert (truth <= np.asarray(ranks["upper"])).all()
    assert (np.abs(np.asarray(ranks["value"]) - truth) <= 0.001 * ROWS).all()
    between = index.count_between(100, 5_000).to_pylist()[0]
    count = int(((values >= 100) & (values <= 5_000)).sum())
    assert between["lower"] <= count <= between["upper"]
    assert between["confidence"] == 1.0


def test_parquet_read_by_arrow_makes_the_same_index(spark, index, folder, records):
    other = FingerprintIndex.build(
        folder, "url", "bytes", partitions=PARTITIONS, spark=spark, progress=False
    )
    assert [file.file for file in other.manifest.files] == [
        file.file for file in index.manifest.files
    ]
    assert other.contains(records["url"].to_pylist()[:10])["present"].to_pylist() == [True] * 10


def test_a_temporary_index_goes_with_it_and_not_with_a_fork(spark, folder):
    made = FingerprintIndex.build(folder, "url", partitions=2, spark=spark, progress=False)
    path = Path(made.folder)
    assert _lock_of(path) is None  # held: else it would go with the next process that makes one
    child = os.fork()
    if child == 0:
        gc.disable()  # what other tests have left has threads, which a fork has not
        del made
        os._exit(0)
    os.waitpid(child, 0)
    assert path.exists()
    assert made.contains(["https://example.org/1"])["present"].to_pylist() == [True]
    del made
    gc.collect()
    assert not path.exists()


def test_a_frame_that_is_plain_files_is_read_by_arrow(spark, folder, tmp_path):
    plain = spark.read.parquet(str(folder))
    assert isinstance(source_of(plain, "url", "bytes", None), Files)
    assert isinstance(source_of(plain.select("bytes", "url"), "url", None, None), Files)
    pq.write_table(table(), tmp_path / "a part=1.parquet")
    (tmp_path / "day=1").mkdir()
    pq.write_table(table(), tmp_path / "day=1" / "a.parquet")
    spaced = source_of(spark.read.parquet(str(tmp_path / "a part=1.parquet")), "url", None, None)
    assert isinstance(spaced, Files)
    assert spaced.files[0] == str(tmp_path / "a part=1.parquet")
    cached = spark.read.parquet(str(folder)).cache()
    try:
        assert isinstance(source_of(cached, "url", None, None), FrameSource)
    finally:
        cached.unpersist(blocking=True)
    for frame in (
        plain.where("bytes > 5"),
        plain.selectExpr("bytes as url", "url as bytes"),
        plain.limit(5),
        plain.union(plain),
        spark.read.option("mergeSchema", "true").parquet(str(folder)),
        spark.read.parquet(str(tmp_path / "day=1" / "..")),
        spark.read.schema("url string, bytes int").parquet(str(folder)),
    ):
        assert isinstance(source_of(frame, "url", "bytes", None), FrameSource)


def test_save_load_append(spark, index, frame, tmp_path):
    index.save(tmp_path / "saved")
    loaded = FingerprintIndex.load(spark, tmp_path / "saved")
    assert loaded.manifest == index.manifest
    assert loaded.digest.to_bytes() == index.digest.to_bytes()
    more = spark.createDataFrame(table(50_000, 3_000).to_pandas())
    new = [f"https://example.org/{50_000 + i}" for i in range(3_000)]
    assert np.asarray(loaded.contains(new)["present"]).mean() < 0.01
    assert loaded.append(more, stream="q", batch_id=0, progress=False)
    assert not loaded.append(more, stream="q", batch_id=0)  # a replayed micro-batch
    assert loaded.records == ROWS + 3_000
    assert loaded.digest.count == ROWS + 3_000
    again = FingerprintIndex.load(spark, tmp_path / "saved")
    assert not again.append(more, stream="q", batch_id=0)
    for one in (loaded, again):
        assert np.asarray(one.contains(new)["present"]).all()
        assert one.contains("https://example.org/7")["present"].to_pylist() == [True]
        assert one.false_positive_rate() <= 0.001
    names = {file.name for file in (tmp_path / "saved").iterdir()}
    assert names - {".appending"} == {"manifests", *again.manifest.names()}  # nothing is left
    assert np.asarray(index.contains(new)["present"]).mean() < 0.01


def test_an_index_that_grows_far_keeps_its_rate(spark, tmp_path):
    """50 times the records: below fpp, and with headroom for them near the least size."""
    first = spark.range(0, 2_000, 1, 2)
    more = spark.range(2_000, 100_000, 1, 2)
    strange = -np.arange(1, 200_001)
    for headroom, bits_max in ((2, 22), (64, 1.25 * 1.125 * np.log2(1 / 0.001))):
        index = FingerprintIndex.build(first, "id", None, 1, headroom=headroom, progress=False)
        index.append(more, progress=False)
        assert np.asarray(index.contains(np.arange(100_000))["present"]).all()
        rate = index.false_positive_rate()
        assert np.asarray(index.contains(strange)["present"]).mean() <= 1.1 * rate + 0.0003
        assert rate <= 0.001
        assert index.bits_per_key <= bits_max
        assert index.manifest.headroom == headroom


def test_progress_is_shown_where_it_is_asked_for(spark, capsys):
    FingerprintIndex.build(spark.range(10), "id", partitions=1, progress=True)
    assert "building the index" in capsys.readouterr().err
    FingerprintIndex.build(spark.range(10), "id", partitions=1, progress=False)
    assert "index" not in capsys.readouterr().err


def test_filter_prunes_a_frame(spark, index):
    keys = ["https://example.org/1", *strangers(50), "https://example.org/2", None]
    rows = pd.DataFrame({"n": np.arange(len(keys)), "link": keys})
    df = spark.createDataFrame(rows, "n long, link string").repartition(2)
    kept = {row.link for row in index.filter(df, "link").collect()}
    assert {"https://example.org/1", "https://example.org/2"} <= kept
    assert len(kept) <= 4
    dropped = index.filter(df, "link", keep=False)
    assert dropped.count() + index.filter(df, "link").count() == len(keys)


def test_a_filtered_frame_is_computed_later(spark, tmp_path):
    """When nobody holds the index any more, or files that it had open are gone."""
    links = spark.range(100).selectExpr("id AS link")
    asked = spark.range(90, 110).selectExpr("id AS link")
    assert FingerprintIndex.build(links, "link", partitions=2).filter(asked, "link").count() >= 10
    index = FingerprintIndex.build(links, "link", partitions=2, path=tmp_path / "index")
    frame = index.filter(asked, "link")
    index.append(spark.range(100, 104).selectExpr("id AS link"))
    assert {row.link for row in frame.collect()} >= set(range(90, 104))


def test_records_of_a_stream_are_appended_once(spark, tmp_path):
    """A micro-batch that is delivered again, as after a lost checkpoint, changes nothing."""
    (tmp_path / "in").mkdir()
    pq.write_table(table(0, 500), tmp_path / "in" / "a.parquet")
    empty = spark.createDataFrame([], "url string, bytes long")
    index = FingerprintIndex.build(
        empty, "url", "bytes", 2, path=tmp_path / "index", progress=False
    )
    taken = []

    def stream_from(checkpoint, into):
        def add(batch, batch_id):
            taken.append(into.append(batch, stream="log", batch_id=batch_id, progress=False))

        source = spark.readStream.schema("url string, bytes long").parquet(str(tmp_path / "in"))
        writer = source.writeStream.foreachBatch(add).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / checkpoint)).start()
        assert query.awaitTermination(300)

    stream_from("one", index)
    pq.write_table(table(7_000, 300), tmp_path / "in" / "b.parquet")
    stream_from("one", index)
    assert (taken, index.records) == ([True, True], 800)
    assert np.asarray(index.contains(table(7_000, 300)["url"])["present"]).all()
    loaded = FingerprintIndex.load(spark, tmp_path / "index")
    stream_from("two", loaded)  # begins anew: its batch 0 holds all files
    assert (taken[2], loaded.records, loaded.digest.count) == (False, 800, 800)


def test_who_appends_adds_to_what_others_appended(spark, tmp_path):
    """Two that opened the same revision: the second wrote over what the first had added."""
    built = FingerprintIndex.build(
        spark.createDataFrame(table(0, 300).to_pandas()), "url", "bytes", 2,
        path=tmp_path, progress=False,
    )  # fmt: skip
    others = [FingerprintIndex.load(spark, tmp_path) for _ in range(2)]
    reader = IndexReader.open(tmp_path)
    parts = [table(first, 200) for first in (10_000, 20_000)]
    frames = [spark.createDataFrame(part.to_pandas()) for part in parts]
    assert others[0].append(frames[0], stream="log", batch_id=7, progress=False)
    assert not others[1].append(frames[0], stream="log", batch_id=7, progress=False)
    assert others[1].append(frames[1], progress=False)
    forget(str(tmp_path))
    for one in (built, *others, reader, IndexReader.open(tmp_path)):
        one.refresh()
        assert (one.records, one.digest.count) == (700, 700)
        for part in (table(0, 300), *parts):
            assert np.asarray(one.contains(part["url"])["present"]).all()


def test_a_reader_goes_on_where_its_files_are_gone(spark, tmp_path):
    index = FingerprintIndex.build(
        spark.createDataFrame(table(0, 300).to_pandas()), "url", partitions=2,
        path=tmp_path, progress=False,
    )  # fmt: skip
    readers = [IndexReader.open(tmp_path), FingerprintIndex.load(spark, tmp_path)]
    more = table(10_000, 200)
    index.append(spark.createDataFrame(more.to_pandas()), progress=False)
    for reader in readers:
        forget(str(tmp_path))  # as in a process of its own that has not asked yet
        assert np.asarray(reader.contains(more["url"])["present"]).all()
        assert reader.records == 500


def test_a_full_disk_is_told_with_what_to_do(tmp_path):
    with small_disk(tmp_path, "64k") as disk:
        with pytest.raises(SourceError, match=r"cannot be written .*: free space"):
            write_once(str(disk), "part", bytes(1 << 20))
        assert list(disk.iterdir()) == []


def test_an_append_that_fails_leaves_all_as_it_was(spark, tmp_path, monkeypatch):
    index = FingerprintIndex.build(
        spark.createDataFrame(table(0, 300).to_pandas()), "url", "bytes", 2,
        path=tmp_path, progress=False,
    )  # fmt: skip
    more = spark.createDataFrame(table(10_000, 200).to_pandas())

    def full(*_):
        raise SourceError("the disk is full")

    monkeypatch.setattr(fingerprint_index, "write_once", full)
    with pytest.raises(SourceError, match="full"):
        index.append(more, progress=False)
    monkeypatch.undo()
    (tmp_path / ".runs-of-one-that-was-killed").mkdir()
    (tmp_path / ".runs-of-one-that-was-killed/1.u64").touch()
    (tmp_path / f"{index.manifest.files[0].file}.1.part").touch()
    assert index.append(more, progress=False)
    assert (index.records, index.digest.count) == (500, 500)
    assert IndexReader.open(tmp_path).digest.count == 500
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*index.manifest.names(), "manifests", ".appending"}


def test_keys_that_are_times_and_dates(spark, tmp_path):
    """A time is the same key in any unit; it was never there in another than that of the files."""
    times = pd.date_range("2026-01-01", periods=100, freq="h")
    plain = pa.table({"t": pa.array(times, pa.timestamp("ms")), "d": pa.array(times, pa.date32())})
    pq.write_table(plain, tmp_path / "times.parquet")
    index = FingerprintIndex.build(
        tmp_path / "times.parquet", "t", partitions=2, path=tmp_path / "t", progress=False
    )
    for unit in ("s", "ms", "us", "ns"):
        assert np.asarray(index.contains(pa.array(times, pa.timestamp(unit)))["present"]).all()
    index.append(spark.createDataFrame(plain.to_pandas()[["t"]]), progress=False)
    assert index.fingerprints == 100
    for keys in ([times[0].date()], ["2026-01-01"], [1_767_225_600_000_000]):
        with pytest.raises(BadArgument, match="keys of this index are times"):
            index.contains(keys)
    dates = FingerprintIndex.build(
        tmp_path / "times.parquet", "d", partitions=2, path=tmp_path / "d", progress=False
    )
    found = dates.contains([times[0].date(), date(1999, 1, 1)])
    assert found["present"].to_pylist() == [True, False]


@pytest.mark.parametrize("name", ["day", "moment"])
def test_keys_and_numbers_of_another_calendar_are_those_that_spark_reads(spark, tmp_path, name):
    """As Spark 2 wrote them. A key that is there was said not to be."""
    legacy = spark.newSession()
    for of in ("datetime", "int96"):
        legacy.conf.set(f"spark.sql.parquet.{of}RebaseModeInWrite", "LEGACY")
    days = [("1500-01-01",), ("1582-10-04",), ("2026-01-01",)]
    columns = ("date(day) day", "timestamp(day) moment", "1 n")
    folder = f"{tmp_path}/[0]"
    legacy.createDataFrame(days, "day string").selectExpr(*columns).write.parquet(folder)
    asked = spark.read.parquet(f"{tmp_path}/?0]").select(name).toArrow().column(0)
    assert str(asked[0]).startswith("1500-01-01")
    for records in (folder, Path(folder), spark.read.parquet(f"{tmp_path}/?0]")):
        index = FingerprintIndex.build(records, name, "n", 2, spark=spark, progress=False)
        assert index.contains(asked)["present"].to_pylist() == [True] * 3
        ranked = FingerprintIndex.build(records, "n", name, 2, spark=spark, progress=False)
        assert str(ranked.quantile(0.0)["value"][0]).startswith("1500-01-01")


@pytest.mark.parametrize("name", ["day", "moment"])
def test_files_that_do_not_say_their_calendar_are_read_as_the_session_says(spark, tmp_path, name):
    """What Spark has not written; of what it was set to read so, Arrow read other days."""
    days = [date(1500, 1, 1), date(1582, 10, 4), date(2026, 1, 1)]
    moments = pa.array(days, pa.date32()).cast(pa.timestamp("us", "UTC"))
    place = tmp_path / "t.parquet"
    pq.write_table(pa.table({"day": days, "moment": moments, "n": [1, 1, 1]}), place)
    found = {}
    for mode in ("LEGACY", "CORRECTED"):
        session = spark.newSession()
        session.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", mode)
        frame = session.read.parquet(str(place))
        found[mode] = asked = frame.select(name).toArrow().column(0)
        for records in (str(place), frame):
            index = FingerprintIndex.build(records, name, "n", 2, spark=session, progress=False)
            assert index.contains(asked)["present"].to_pylist() == [True] * 3
            ranked = FingerprintIndex.build(records, "n", name, 2, spark=session, progress=False)
            assert str(ranked.quantile(0.0)["value"][0])[:10] == str(asked[0])[:10]
    assert found["LEGACY"][0] != found["CORRECTED"][0]


def test_names_of_columns_may_hold_anything(spark):
    frame = spark.createDataFrame([("a", 1), ("b", 2)], ["page.url", "bytes.sent by day"])
    index = FingerprintIndex.build(frame, "page.url", "bytes.sent by day", 2, progress=False)
    assert index.contains(["a", "c"])["present"].to_pylist() == [True, False]
    assert index.rank([1])["value"].to_pylist() == [1]
    assert index.filter(frame, "page.url", keep=False).count() == 0


def test_columns_that_are_there_twice_or_have_no_arrow_type_are_named(spark, index):
    other = spark.newSession()
    other.conf.set("spark.sql.caseSensitive", "false")
    frame = other.sql("SELECT 'a' AS url, 1L AS bytes")
    twice, cases = frame.selectExpr("*", "1 AS url"), frame.selectExpr("*", "1 AS Url")
    months = frame.selectExpr("*", "make_ym_interval(1) AS months")
    for call in (FingerprintIndex.build, index.filter):
        for given, key, message in (
            (twice, "url", "has 2 columns 'url'"),
            (cases, "url", "the columns url: .* is ambiguous"),
            (months, "months", "YearMonthInterval"),
        ):
            with pytest.raises((BadArgument, SourceError), match=message):
                call(given, key)
    assert index.filter(frame.selectExpr("*", "1 AS n", "2 AS n"), "url").columns[2:] == ["n", "n"]


def test_filter_before_a_join_changes_no_row(spark, index, records):
    keys = [*records["url"].to_pylist()[:300], *strangers(700)]
    left = spark.createDataFrame(pd.DataFrame({"link": keys, "n": range(1000)}))
    right = spark.createDataFrame(records.slice(0, 300).select(["url"]).to_pandas())
    plain = left.join(right, left.link == right.url)
    pruned = index.filter(left, "link")
    assert pruned.count() <= 305
    assert sorted(pruned.join(right, pruned.link == right.url).collect()) == sorted(plain.collect())


def test_a_lost_partition_is_rebuilt_from_its_records(spark, frame, records, tmp_path):
    index = FingerprintIndex.build(
        frame, "url", partitions=4, path=tmp_path / "index", progress=False
    )
    index.append(spark.createDataFrame(table(90_000, 500).to_pandas()), progress=False)
    for file in index.manifest.files[:2]:
        (tmp_path / "index" / file.file).unlink()
    forget(tmp_path / "index")
    keys = [
        *records["url"].to_pylist()[:2000],
        *(f"https://example.org/{90_000 + i}" for i in range(9)),
    ]
    assert np.asarray(index.contains(keys)["present"]).all()
    assert index.records == ROWS + 500


@pytest.mark.parametrize("now", [table(5), None])
def test_a_lost_partition_is_not_rebuilt_from_other_records(spark, records, now, tmp_path):
    """It said no to keys that had been indexed, which is always right."""
    source, folder = tmp_path / "records.parquet", tmp_path / "index"
    pq.write_table(records, source)
    index = FingerprintIndex.build(
        str(source), "url", "bytes", 4, path=folder, progress=False, spark=spark
    )
    lost = folder / index.manifest.files[0].file
    kept = lost.read_bytes()
    lost.unlink()
    forget(folder)
    source.unlink() if now is None else pq.write_table(now, source)
    before = {path.name for path in folder.iterdir()}
    keys = records["url"].to_pylist()[:2000]
    said = r"cannot be read.*records\.parquet" if now is None else lost.name
    with pytest.raises(SourceError, match=said):
        index.contains(keys)
    assert {path.name for path in folder.iterdir()} == before
    lost.write_bytes(kept)
    assert np.asarray(index.contains(keys)["present"]).all()
    assert IndexReader.open(folder).records == ROWS


def test_a_worker_that_dies_in_a_query_changes_nothing(index, records, tmp_path):
    """The first attempt of a task kills its own process: Spark runs it again."""
    import os
    import signal

    from muntin.spark import fingerprint_index

    mark = tmp_path / "died"
    real = fingerprint_index.ask_here

    def dying(folder, names, parts):
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return real(folder, names, parts)

    keys = [*records["url"].to_pylist()[:100], *strangers(100)]
    expected = index.contains(keys, via="driver")
    fingerprint_index.ask_here = dying
    try:
        answer = index.contains(keys, via="job")
    finally:
        fingerprint_index.ask_here = real
    assert mark.exists()
    assert answer.equals(expected)


def plan_for(folder, **others):
    index = Manifest("key", "rank", "text", partitions=3, fpp=0.01, error=0.01, seed=0)
    plan = IndexPlan(index, str(folder), str(folder / "runs"), 2, IntegerRange(20), {})
    return replace(plan, **others)


def test_a_task_that_runs_twice_makes_the_same_files(tmp_path):
    keys, numbers = pa.array([f"k{i}" for i in range(999)]), pa.array(range(999))
    plan = plan_for(tmp_path)
    (tmp_path / "runs").mkdir()

    def half(part):
        return [*scatter(plan, [(keys[part], numbers[part], "")])]

    def names(left, kind):
        return [name for what, name, *_ in left if what == kind]

    lost = half(slice(0, 500))  # an attempt whose result never came
    left = [half(part) for part in (slice(0, 500), slice(500, 999))]
    assert names(left[0], DIGEST) == names(lost, DIGEST)
    assert names(left[0], RUN) != names(lost, RUN)
    both = [[*a, *b] for a, b in (left, left[::-1])]

    def made(order):
        return [row for task in range(2) for row in gather(plan, order, task)]

    first = made(both[0])
    seen = sorted(path.name for path in tmp_path.iterdir())
    assert made(both[0]) == first
    files = [row for row in first if row[0] == FILE]
    assert [row for row in made(both[1]) if row[0] == FILE] == files
    assert sorted(path.name for path in tmp_path.iterdir()) == seen
    assert len(seen) == 3 + 1
    assert sum(json.loads(payload)["records"] for *_, payload in files) == 999


def test_a_run_that_was_cut_or_lost_is_named(tmp_path):
    plan = plan_for(tmp_path, runs=str(tmp_path))
    _, name, *_ = next(scatter(plan, [(pa.array(["a", "b"]), pa.array([1, 2]), "")]))
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(SourceError, match="cut at 40 bytes"):
        RunReader(str(tmp_path), [path.name], 3)
    path.unlink()
    with pytest.raises(SourceError, match="same one for all workers"):
        RunReader(str(tmp_path), [path.name], 3)


def test_an_empty_table(spark, tmp_path):
    empty = spark.createDataFrame([], "url string, bytes long")
    index = FingerprintIndex.build(empty, "url", "bytes", path=tmp_path, progress=False)
    assert index.records == index.fingerprints == 0
    with pytest.raises(BadArgument, match="overwrite=True"):
        FingerprintIndex.build(empty, "url", path=tmp_path)
    assert index.contains(["a"])["present"].to_pylist() == [False]
    assert index.locate(["a"])["partitions"].to_pylist() == [[]]
    with pytest.raises(BadArgument, match="'half' are not numbers"):
        index.quantile("half")
    with pytest.raises(BadArgument, match="not numbers"):
        index.count_between("x", 5)
    assert index.quantile([0.5]).num_rows == 0
    assert index.rank([5])["upper"].to_pylist() == [0]
    loaded = FingerprintIndex.load(spark, tmp_path)
    assert loaded.contains(["a"], via="job")["present"].to_pylist() == [False]
    loaded.append(spark.createDataFrame([("a", 5)], "url string, bytes long"), progress=False)
    assert loaded.contains(["a"])["present"].to_pylist() == [True]
    assert loaded.quantile(0.5)["value"].to_pylist() == [5]
    again = FingerprintIndex.build(
        empty, "url", path=tmp_path, overwrite=True, partitions=2, progress=False
    )
    assert again.contains(["a"])["present"].to_pylist() == [False]
    assert {path.name for path in tmp_path.iterdir()} == {"manifests", ".appending"}


def test_other_types_of_keys_and_numbers(spark, tmp_path):
    rows = pd.DataFrame(
        {
            "n": np.arange(1000),
            "x": np.linspace(-1, 1, 1000),
            "t": pd.date_range("2026-01-01", periods=1000, freq="min"),
        }
    )
    df = spark.createDataFrame(rows)
    index = FingerprintIndex.build(df, "n", "x", 2, progress=False)
    assert index.contains(np.arange(1000))["present"].to_pylist() == [True] * 1000
    assert abs(index.quantile(0.25)["value"][0].as_py() + 0.5) < 0.01
    with pytest.raises(BadArgument, match="integers"):
        index.contains(["1"])
    times = FingerprintIndex.build(df, "n", "t", 2, progress=False)
    lower, upper = (times.quantile(0.5)[name][0].as_py() for name in ("lower", "upper"))
    assert lower <= rows["t"][499] <= upper
    with pytest.raises(BadArgument, match="built without"):
        FingerprintIndex.build(df, "n", partitions=2, progress=False).quantile(0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "nothing"}, "no column 'nothing'; columns: url, bytes"),
        ({"rank": "url"}, "column 'url' is string, which has no rank"),
        ({"partitions": 0}, "partitions=0"),
        ({"fpp": 1.0}, "fpp=1.0"),
        ({"fpp": 0.0}, "fpp=0.0"),
        ({"error": 0.0}, "error=0.0"),
        ({"error": float("nan")}, "error=nan"),
        ({"seed": -1}, "seed=-1"),
        ({"headroom": 0}, "headroom=0"),
    ],
)
def test_bad_parameters(frame, options, message):
    with pytest.raises(BadArgument, match=message):
        FingerprintIndex.build(frame, **{"key": "url", "rank": "bytes", **options})


@pytest.mark.parametrize(
    ("rows", "schema", "options", "message"),
    [
        ([("a", float("nan"))], "url string, bytes double", {}, "column 'bytes': NaN"),
        (
            [("a", 1), ("b", 1 << 20)],
            "url string, bytes long",
            {"domain": IntegerRange(20)},
            "outside",
        ),
        ([(None, 1)], "url string, bytes long", {}, "column 'url': .* is null"),
        ([("a", None)], "url string, bytes long", {}, "column 'bytes': .* is null"),
        ([(1.5, 1)], "url double, bytes long", {}, "a key is .* a date or a time"),
    ],
)
def test_bad_values(spark, rows, schema, options, message):
    df = spark.createDataFrame(rows, schema)
    with pytest.raises(BadArgument, match=message):
        FingerprintIndex.build(df, "url", "bytes", 2, progress=False, **options)


def test_times_of_files_in_nanoseconds_are_not_wrapped(spark):
    """INT96, as Spark writes times by default; the year 9999 stands for 'never' in many tables."""
    times = [datetime(year, 12, 30, 1, 2, 3, 456789) for year in (1, 1815, 2024, 2300, 9999)]
    written = Path(__file__).parent.parent / "golden" / "int96.parquet"  # by pyarrow 26
    index = FingerprintIndex.build(written, "at", "at", 2, spark=spark)
    assert index.contains(times)["present"].to_pylist() == [True] * len(times)
    assert index.rank(times)["value"].to_pylist() == [1, 2, 3, 4, 5]
    assert index.quantile([0.0, 1.0])["value"].to_pylist() == [times[0], times[-1]]


def test_bad_questions(spark, index, frame):
    for call, message in (
        (lambda: index.contains([1]), "keys of this index are text"),
        (lambda: index.contains(["a", 1]), "items must be"),
        (lambda: index.contains(["a"], via="air"), "via='air'"),
        (lambda: index.quantile([1.5]), "use 0 <= q <= 1"),
        (lambda: index.rank([float("nan")]), "NaN"),
        (lambda: index.count_between(5, 1), "low <= high"),
        (lambda: index.filter(frame, "bytes"), "keys of this index are text"),
        (lambda: index.append(frame.selectExpr("bytes as url", "bytes")), "text"),
        (lambda: FingerprintIndex.build("/nowhere/at/all", "url", spark=spark), "no Parquet"),
    ):
        with pytest.raises((BadArgument, SourceError), match=message):
            call()


def test_a_folder_that_is_no_whole_index(spark, index, tmp_path):
    with pytest.raises(SourceError, match="holds no index"):
        FingerprintIndex.load(spark, tmp_path)

    def saved(name):
        index.save(tmp_path / name)
        return tmp_path / name

    lacking = saved("lacking")
    name = index.manifest.files[3].file
    (lacking / name).unlink()
    with pytest.raises(SourceError, match=name):
        FingerprintIndex.load(spark, lacking)

    late = saved("late")
    loaded = FingerprintIndex.load(spark, late)
    shutil.rmtree(late)
    for via in ("auto", "driver", "job"):
        with pytest.raises(SourceError, match="lacks its file"):
            loaded.contains(["a", *strangers(50)], via=via)
    rows = spark.createDataFrame(table(0, 300).to_pandas())
    built = FingerprintIndex.build(rows, "url", None, 2, path=tmp_path / "built", progress=False)
    shutil.rmtree(tmp_path / "built")
    with pytest.raises(SourceError, match="built is gone: restore it or build it anew"):
        built.contains(["a"])

    cut = saved("cut")
    (cut / name).write_bytes((cut / name).read_bytes()[:-1])
    with pytest.raises(CorruptSummary, match=name):
        FingerprintIndex.load(spark, cut)

    flipped = saved("flipped")
    data = bytearray((flipped / name).read_bytes())
    data[len(data) // 2] ^= 4
    (flipped / name).write_bytes(bytes(data))
    with pytest.raises(CorruptSummary, match=f"{name} does not hold"):
        FingerprintIndex.load(spark, flipped).warm()

    other = saved("other")
    manifest = json.loads((other / FIRST).read_text())
    (other / FIRST).write_text(json.dumps({**manifest, "muntin_index": 2}))
    with pytest.raises(SourceError, match="format 2"):
        FingerprintIndex.load(spark, other)
    (other / FIRST).write_text(json.dumps({**manifest, "fpp": 0.5}))
    with pytest.raises(CorruptSummary, match="checksum"):
        FingerprintIndex.load(spark, other)
    (other / FIRST).write_text("{")
    with pytest.raises(CorruptSummary, match="damaged"):
        FingerprintIndex.load(spark, other)
