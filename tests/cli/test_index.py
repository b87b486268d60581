"""`muntin index`: an index built by Spark, asked without it."""

import json
import signal
import subprocess
import sys
from datetime import date
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from muntin import cli
from muntin.cli.stopping import Stop
from muntin.spark import source
from muntin.spark.fingerprint_index import FingerprintIndex
from muntin.spark.index import sources
from muntin.spark.index.reader import IndexReader

pytestmark = pytest.mark.spark
ROWS = 5_000
FIRST = "manifests/0000000001.json"


@pytest.fixture
def muntin(muntin):
    """Run `muntin index`."""
    return partial(muntin, "index")


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    table = pa.table(
        {"url": [f"page/{i}" for i in range(ROWS)], "id": range(ROWS), "bytes": range(ROWS)}
    )
    pq.write_table(table, folder / "log.parquet")
    pcsv.write_csv(table, folder / "log.csv")
    return folder


@pytest.fixture(scope="module")
def built(records):
    """A folder that a build from the command line has filled."""
    out = records / "index"
    words = ["index", "build", str(records / "log.parquet"), "--key", "url", "--rank", "bytes"]
    cli.app([*words, "--out", str(out), "--partitions", "4"], standalone_mode=False)
    return out


def test_build_prints_what_it_made(muntin, built, records):
    code, out, err = muntin(
        "build", records / "log.csv", "-k", "id", "-o", built.parent / "ids", "--partitions", "2"
    )
    assert code == 0
    assert "building an index of 'id'" in err
    assert "built in" in err
    assert "5,000" in out
    code, out, _ = muntin("info", built.parent / "ids", "-f", "json")
    found = json.loads(out)
    assert (found["records"], found["key_type"], found["partitions"]) == (ROWS, "integers", 2)
    assert found["digest_nodes"] is None
    code, _, err = muntin("build", records / "log.csv", "-k", "id", "-o", built.parent / "ids")
    assert code == 1
    assert "overwrite" in err
    code, _, err = muntin("build", records / "log.parquet", "-k", "no", "-o", built.parent / "x")
    assert code == 1
    assert "no column 'no'; columns: url, id, bytes" in err.replace("\n", " ")


def test_contains_in_all_formats(muntin, built, tmp_path):
    code, out, _ = muntin("contains", built, "page/1", "elsewhere", "-f", "json")
    found = json.loads(out)
    assert code == 0
    assert found["columns"] == ["key", "present", "false_positive_rate"]
    assert [row[:2] for row in found["rows"]] == [["page/1", True], ["elsewhere", False]]
    _, out, _ = muntin("contains", built, "page/1", "elsewhere", "-f", "csv")
    assert out.splitlines()[0] == '"key","present","false_positive_rate"'
    assert out.splitlines()[2].startswith('"elsewhere",false')
    _, out, _ = muntin("contains", built, "page/1")
    assert "page/1" in out
    assert "true" in out
    keys = tmp_path / "keys.txt"
    keys.write_text("".join(f"page/{i}\r\n" for i in range(ROWS)))
    _, out, _ = muntin("contains", built, "--file", keys, "-f", "csv")
    assert out.count("true") == ROWS
    _, out, _ = muntin("contains", built, "--file", "-", "-f", "json", stdin="page/2\nx\n")
    assert [row[1] for row in json.loads(out)["rows"]] == [True, False]
    _, out, _ = muntin("contains", built, "--file", "-", "-f", "csv", stdin="")
    assert out.splitlines() == ['"key","present","false_positive_rate"']


def test_keys_beyond_int64(muntin, tmp_path, monkeypatch):
    ids = np.arange(2**63 - 3, 2**63 + 100, dtype=np.uint64)
    pq.write_table(pa.table({"id": ids}), tmp_path / "ids.parquet")
    out = tmp_path / "ids"
    muntin("build", tmp_path / "ids.parquet", "-k", "id", "-o", out, "--partitions", "2")
    keys = tmp_path / "keys"
    keys.write_text("\n".join(map(str, [2**63, 2**63 - 1, 5, 2**64 - 1])))
    for form in ("json", "csv"):
        _, said, _ = muntin("contains", out, "--file", keys, "-f", form)
        assert (said.count("true"), said.count(str(2**63)), said.count(str(2**64 - 1))) == (2, 1, 1)
    said = muntin("contains", out, "-f", "json", "--", 2**63 - 1, -5)[1]
    assert [row[1] for row in json.loads(said)["rows"]] == [True, False]
    monkeypatch.setattr("muntin.cli.index.KEYS_AT_ONCE", 2)
    for asked, told in (([2**63, -5], "-5 is not uint64"), ([1, 2, 2**63], "is not int64")):
        code, _, err = muntin("contains", out, "--", *asked)
        assert (code, told in err) == (1, True)


def test_quantiles_and_ranks(muntin, built):
    _, out, _ = muntin("quantile", built, "0.5", "0.95", "-f", "json")
    found = json.loads(out)
    assert found["columns"] == ["q", "value", "lower", "upper", "confidence"]
    for q, _, lower, upper, _ in found["rows"]:
        assert lower <= q * ROWS - 1 <= upper
    _, out, _ = muntin("quantile", built, "-f", "json")
    assert [row[0] for row in json.loads(out)["rows"]] == [0.5, 0.9, 0.95, 0.99]
    _, out, _ = muntin("rank", built, "812", "-f", "json")
    ((_, _, lower, upper, _),) = json.loads(out)["rows"]
    assert lower <= 813 <= upper
    _, out, _ = muntin("rank", built, "1" * 30, "-f", "json")
    assert json.loads(out)["rows"][0][1] == ROWS


def test_ranks_of_times(muntin, records):
    """2026 was taken for microseconds, of which no record had as few."""
    days = pa.array([date(2026, 1, 1 + day) for day in range(9)])
    pq.write_table(pa.table({"id": range(9), "day": days}), records / "days.parquet")
    out = records / "days"
    muntin("build", records / "days.parquet", "-k", "id", "-r", "day", "-o", out)
    for asked in ("2026-01-03", "2026-01-03T01:00+01:00", "2026-01-03T23:59:59Z"):
        _, rows, err = muntin("rank", out, asked, "-f", "csv")
        assert rows.splitlines()[1].split(",")[1:] == ["3", "3", "3", "1"]
        assert not err
    code, _, err = muntin("rank", out, "2026")
    assert code == 1
    assert "'2026': what this index ranks are times, such as 2026-01-31T12:00" in err


def test_what_is_wrong_is_named(muntin, built, tmp_path, monkeypatch):
    ids = built.parent / "numbers"
    muntin("build", built.parent / "log.parquet", "-k", "id", "-o", ids, "--partitions", "2")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.csv").write_text("a\n1\n")
    build = ("build", built.parent / "log.csv", "-k", "url", "-o", tmp_path / "o")
    monkeypatch.setattr(source, "inferred_ddl", lambda *_: pytest.fail("Spark is asked"))
    monkeypatch.setattr(sources, "session", lambda *_: pytest.fail("Spark is started"))
    for words, message in (
        ((*build, "--option", "x"), "--option 'x': name=value"),
        ((*build, "--option", "password:geheim"), "--option ***: name=value"),
        ((*build, "--option", "jars=x"), "jars: is for format: kafka, not csv"),
        ((*build, "--partitions", "0"), "partitions=0 is out of range"),
        ((*build, "--fpp", "2"), "fpp=2.0: a fraction"),
        ((*build, "-o", built), "holds an index already"),
        (("build", "-", *build[2:]), "name its --source-format"),
        (("build", tmp_path / "no.csv", *build[2:]), "no such file or folder"),
        (("build", built.parent / "log.parquet", "-k", "no", *build[4:]), "no column 'no'"),
        (("build", built.parent / "log.parquet", *build[2:], "-o", "/proc/x"), "no folder can"),
        (
            (
                "build",
                "-",
                *build[2:],
                "--source-format",
                "kafka",
                "--option",
                "kafka.bootstrap.servers=127.0.0.1:1",
            ),
            "no broker is there",
        ),
        (("contains", ids, "abc"), "'abc': the keys of this index are integers"),
        (("contains", ids, str(1 << 64)), "integers, of 64 bits"),
        (("contains", ids), "give keys, or --file"),
        (("contains", ids, "--file", tmp_path / "none"), "No such file"),
        (("quantile", ids), "built without `rank`"),
        (("quantile", built, "1.5"), "fraction 1.5 at position 0: use 0 <= q <= 1"),
        (("rank", built, "many"), "'many': what this index ranks are numbers"),
        (("rank", built, "2026-01-31"), "'2026-01-31': what this index ranks are numbers"),
        (("info", tmp_path), "holds no index"),
        (("info", __file__), "holds no index"),
        (("build", "/nowhere", "-k", "a", "-o", tmp_path / "o"), "no Parquet files"),
        (("build", folder, "-k", "a", "-o", tmp_path / "o"), "say what it is: --source-format"),
    ):
        code, _, err = muntin(*words)
        assert code == 1
        assert message in err
    (gone,) = ids.glob("part-00001-*")
    gone.unlink()
    code, _, err = muntin("contains", ids, "5")
    assert code == 1
    assert gone.name in err
    manifest = json.loads((built / FIRST).read_text())
    other = tmp_path / "other"
    (other / "manifests").mkdir(parents=True)
    (other / FIRST).write_text(json.dumps({**manifest, "muntin_index": 9}))
    code, _, err = muntin("info", other)
    assert code == 1
    assert "format 9" in err


def test_ctrl_c_ends_a_build_and_java_at_once(muntin, built, tmp_path, monkeypatch):
    """By a handler of ours: that of PySpark calls Java in the middle of a call to Java."""
    handlers = []

    def build(*_, **__):
        handlers.append(signal.getsignal(signal.SIGINT))
        return IndexReader.open(built)

    monkeypatch.setattr(FingerprintIndex, "build", build)
    muntin("build", built.parent / "log.parquet", "-k", "url", "-o", tmp_path / "o")
    assert isinstance(handlers[0].__self__, Stop)


def test_a_saved_index_is_asked_without_spark(built):
    code = (
        "import sys; sys.modules['pyspark'] = None; from muntin import cli; "
        "sys.argv = ['muntin', 'index', *sys.argv[1:]]; cli.main()"
    )

    def answer(*words):
        command = [sys.executable, "-c", code, *words, "--format", "arrow"]
        said = subprocess.run(command, capture_output=True, timeout=300, check=True)
        return pa.ipc.open_stream(said.stdout).read_all()

    assert answer("contains", str(built), "page/7")["present"].to_pylist() == [True]
    lower = answer("quantile", str(built), "0.5")["lower"].to_numpy()
    assert np.abs(lower - ROWS / 2).max() <= 0.001 * ROWS
    assert "records" in answer("info", str(built))["property"].to_pylist()
