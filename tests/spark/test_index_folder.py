"""An index goes where its path says, or is refused."""

import fcntl
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.errors import BadArgument, CorruptSummary, SourceError, SpecError
from muntin.spark import fingerprint_index
from muntin.spark.fingerprint_index import FingerprintIndex, _folder_for
from muntin.spark.index import files, reader
from muntin.spark.index.build import IndexPlan, new_digest, scatter
from muntin.spark.index.build import run as run_stages
from muntin.spark.index.manifest import Manifest
from muntin.spark.index.reader import IndexReader
from muntin.spark.index.sources import _check_columns, _read
from muntin.spark.parquet import Split
from muntin.spark.rows import here
from muntin.storage import full_name
from muntin.summaries.order_maps import IntegerRange


def test_a_path_and_a_uri_of_this_machine(tmp_path):
    assert full_name(tmp_path / "a b") == str(tmp_path / "a b")
    for begin in ("file:", "file://", "file://localhost"):  # as Spark reads it: %20 is no space
        assert full_name(f"{begin}{tmp_path}/a%20b") == str(tmp_path / "a%20b")
    with pytest.raises(SourceError, match="holds no index"):
        IndexReader.open(f"file://{tmp_path}/none")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nowhere://bucket/index", "Protocol not known"),
        ("s3x://bucket/index", "Protocol not known"),
        ("ftp://me@127.0.0.1:1/index", "refused"),
        ("ftp://me:secret@127.0.0.1:1/a@b", r"ftp://me@127.0.0.1:1/a@b/.*FSSPEC_FTP_PASSWORD"),
    ],
)
def test_a_url_of_no_use_is_refused_and_no_local_folder_is_made(path, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match=said) as told:
        IndexReader.open(path)
    assert "secret" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_can_be_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(SourceError, match="file: no folder can be made there"):
        _folder_for(tmp_path / "file")
    with pytest.raises(BadArgument, match="path=''"):
        _folder_for("")


def test_a_mistyped_column_is_told_without_those_that_reading_adds():
    with pytest.raises(BadArgument) as told:
        _check_columns(["are"], ["time", "_muntin_file"], "the DataFrame")
    assert str(told.value) == "the DataFrame has no column 'are'; columns: time"
    with pytest.raises(BadArgument, match="did you mean 'area'"):
        _check_columns(["are"], ["time", "area"], "the DataFrame")


RANGE = IntegerRange(20)


def made(folder, keys, partitions=8):
    """An index of keys, each with its length as its number, built in this process."""
    folder.mkdir(exist_ok=True)
    newest = Manifest.newest(str(folder))
    manifest = Manifest("key", "n", "text", partitions, 0.001, 0.01, 0, revision=newest)
    index = FingerprintIndex(None, str(folder), manifest, new_digest(0.01, RANGE), [])
    return with_more(index, keys)


def with_more(index, keys):
    """Append, as `FingerprintIndex._add` does."""
    manifest, runs = index.manifest, f"{index.folder}/.runs-x"
    files.place_of(runs)[0].make_folder(runs)
    base = {file.partition: file.file for file in manifest.files}
    plan = IndexPlan(manifest, index.folder, runs, 1, RANGE, base)
    numbers = pa.array([len(key) for key in keys])
    parts, digest = run_stages(here, [*scatter(plan, [(pa.array(keys), numbers, "")])], plan)
    merged = index.digest.copy()
    merged.merge(digest)
    old = Manifest.names_in(index.folder)
    index._commit(parts, {}, merged)
    index._delete(old)
    return index


def test_a_null_is_told_with_its_file_and_rows(tmp_path):
    table = pa.table({"key": ["a", "b", None], "n": [1, None, 3]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    split = Split(str(tmp_path / "a.parquet"), (1,), 2, (3, 2))
    plan = IndexPlan(Manifest("key", "n", "text", 1, 0.1, 0.1, 0), "", "", 1, RANGE, {})
    with pytest.raises(BadArgument, match=r"/a.parquet, from row 3 on: column 'key': .* 0 is null"):
        list(scatter(plan, _read([split], "key", "n")))


def texts(name, count=500):
    return [f"{name}{number}" for number in range(count)]


def are_there(index, keys):
    return index.contains(keys)["present"].to_pylist() == [True] * len(keys)


@pytest.mark.parametrize("far", [2**70, [2**70, 1, Decimal("1.5")], [-(2**70)], pa.scalar(5)])
def test_ranks_of_what_64_bits_do_not_hold_and_of_a_scalar(tmp_path, far):
    index = made(tmp_path / "index", texts("k", 20))
    ranks, between = index.rank(far).to_pylist(), index.count_between(-(2**70), 2**70).to_pylist()
    asked = far if isinstance(far, list) else [far.as_py() if isinstance(far, pa.Scalar) else far]
    assert [row["x"] for row in ranks] == list(map(float, asked))
    sizes = [len(key) for key in texts("k", 20)]
    assert [row["value"] for row in ranks] == [sum(n <= x for n in sizes) for x in asked]
    assert [row["value"] for row in between] == [20]
    assert index.count_between(pa.scalar(5), pa.scalar(9)).to_pylist()[0]["value"] == 0


def once(monkeypatch, owner, name, then):
    """Let something happen when a function is called next."""
    real, waiting = getattr(owner, name), [then]

    def call(*given):
        while waiting:
            waiting.pop()()
        return real(*given)

    monkeypatch.setattr(owner, name, call)


def test_a_file_that_took_the_place_of_another_is_found(tmp_path):
    """Both are whole, and of one size: asked for the other's keys, each would say no to all."""
    for number in range(400):
        keys = texts(f"{number}-", 40)
        index = made(tmp_path / str(number), keys, partitions=2)
        first, second = index.manifest.files
        if first.size == second.size:
            break
    one, other = (tmp_path / str(number) / file.file for file in (first, second))
    one.rename(tmp_path / "x")
    other.rename(one)
    (tmp_path / "x").rename(other)
    with pytest.raises(CorruptSummary, match=f"{one.name}|{other.name}"):
        IndexReader.open(index.folder).contains(keys)


def test_a_digest_that_took_the_place_of_another_is_found(tmp_path):
    index, other = made(tmp_path / "a", texts("a")), made(tmp_path / "b", texts("bbbbbb"))
    data = (tmp_path / "b" / other.manifest.digest).read_bytes()
    (tmp_path / "a" / index.manifest.digest).write_bytes(data)
    with pytest.raises(CorruptSummary, match=index.manifest.digest):
        IndexReader.open(index.folder)


@pytest.mark.parametrize("where", ["part", "digest"])
def test_an_index_built_anew_over_damaged_files_is_whole(tmp_path, where):
    """Of the same keys: their files are of that revision."""
    made(tmp_path, texts("a"))
    for path in tmp_path.glob(f"{where}-*"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    made(tmp_path, texts("a"))
    assert are_there(IndexReader.open(tmp_path), texts("a"))


@pytest.mark.parametrize("how", ["build", "save"])
def test_who_replaces_waits_for_who_appends_before_anything_goes(tmp_path, monkeypatch, how):
    other, tmp_path = made(tmp_path / "other", texts("c")), tmp_path / "index"
    old, waits = made(tmp_path, texts("a")), threading.Event()
    lock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda *given: (waits.set(), lock(*given)))
    source = SimpleNamespace(key_type=pa.string(), rank_type=None, spark=None)
    monkeypatch.setattr(fingerprint_index, "source_of", lambda *_: source)
    monkeypatch.setattr(FingerprintIndex, "_run", lambda *_: ((), None))
    build = FingerprintIndex.build
    with ThreadPoolExecutor() as threads:
        with files.changing(str(tmp_path)):
            waits.clear()
            if how == "build":
                done = threads.submit(build, "", "key", path=tmp_path, overwrite=True)
            else:
                done = threads.submit(other.save, tmp_path)
            assert waits.wait(60)
            appended = with_more(old, texts("b")).manifest.names()
        done.result()
    left = {path.name for path in tmp_path.iterdir()}
    assert not left.intersection([*appended, ".runs-x"] if how == "build" else appended)
    assert are_there(IndexReader.open(tmp_path), texts("c")) == (how == "save")


def test_who_asks_while_another_thread_appends_is_answered(tmp_path, monkeypatch):
    """Of the files that the question began with none is left when it comes to open them."""
    index = made(tmp_path / "index", texts("a"))
    once(monkeypatch, fingerprint_index, "ask_here", lambda: with_more(index, texts("b")))
    assert are_there(index, texts("a"))
    assert are_there(index, texts("b"))


def test_what_is_warmed_is_what_is_there(tmp_path):
    index = made(tmp_path / "index", texts("a"))
    asked = IndexReader.open(tmp_path / "index")
    with_more(index, texts("b"))
    asked.warm()
    assert asked.manifest == index.manifest
    for name in asked.manifest.names():
        (tmp_path / "index" / name).unlink()
    assert are_there(asked, texts("b"))


@pytest.mark.parametrize("partitions", [2, 64])
def test_a_question_is_answered_of_one_index(tmp_path, monkeypatch, partitions):
    """Another thread refreshes the reader to one that was built over it, of other partitions."""
    made(tmp_path / "index", texts("a"))
    asked = IndexReader.open(tmp_path / "index")

    def replaced():
        made(tmp_path / "index", texts("a") + texts("b"), partitions)
        assert asked.refresh()

    once(monkeypatch, reader, "by_partition", replaced)
    assert are_there(asked, texts("a"))
    assert asked.manifest.partitions == partitions


@pytest.mark.parametrize("then", ["a", "b"])
def test_an_index_is_opened_while_others_are_built_over_it(tmp_path, monkeypatch, then):
    """Of the same records: the manifest is that of before, and its files were away in between."""
    made(tmp_path / "index", texts("a"))
    read = Manifest.stored

    def replaced(folder):
        found = read(folder)
        monkeypatch.setattr(Manifest, "stored", again)
        made(tmp_path / "index", texts("b"))
        return found

    def again(folder):
        monkeypatch.setattr(Manifest, "stored", read)
        made(tmp_path / "index", texts(then))
        return read(folder)

    monkeypatch.setattr(Manifest, "stored", replaced)
    assert are_there(IndexReader.open(tmp_path / "index"), texts(then))


def test_threads_ask_more_files_than_stay_open(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "OPEN_MAX", 2)
    index = made(tmp_path / "index", texts("a"), partitions=16)
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(lambda _: are_there(index, texts("a")), range(100)))
    finally:
        sys.setswitchinterval(often)
