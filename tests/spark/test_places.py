"""Where rows of files that Spark reads stand, however it cuts them into batches."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin
from muntin.ledger.temporary import temporary
from muntin.spark.places import BLOCK, FILE, ROW, in_files

FILES = ["file:///in/a%20b.json", "hdfs:/in/c.json"]
SHOWN = ["/in/a b.json", "hdfs:/in/c.json"]


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from([0, 1000]), st.integers(1, 5)), max_size=5
    ),
    st.integers(1, 7),
)
def test_rows_are_counted_by_block_whatever_the_batches(blocks, size):
    blocks = [
        b for b, before in zip(blocks, [None, *blocks], strict=False) if b[:2] != (before or ())[:2]
    ]
    rows = [(FILES[file], begins) for file, begins, number in blocks for _ in range(number)]
    expected = [
        f"{SHOWN[file]}, row {at + 1}" + (" from byte 1,000" if begins else "")
        for file, begins, number in blocks
        for at in range(number)
    ]
    columns = {FILE: [f for f, _ in rows], BLOCK: [b for _, b in rows], "x": list(range(len(rows)))}
    schema = pa.schema({FILE: pa.string(), BLOCK: pa.int64(), "x": pa.int64()})
    batches = pa.table(columns, schema).to_batches(max_chunksize=size)
    found = []
    for batch, place in in_files(batches):
        assert batch.schema.names == ["x"]
        found += [place(row) for row in range(batch.num_rows)]
    assert found == expected


def test_rows_that_have_numbers():
    batch = pa.record_batch({FILE: FILES, ROW: [7, 0], "x": [1, 2]})
    ((_, place),) = in_files([batch])
    assert [place(0), place(1)] == [f"{SHOWN[0]}, row 8", f"{SHOWN[1]}, row 1"]


@pytest.mark.spark
def test_rejected_records_of_json_and_parquet_name_their_file(spark, tmp_path):
    folder = tmp_path / "in files"
    folder.mkdir()
    lines = ['{"time": "2026-01-01T00:00:00Z", "k": "a"}', '{"time": "no", "k": "b"}', "{broken"]
    (folder / "one.json").write_text("\n".join(lines) + "\n")
    spark.sql("SELECT 'x' AS time, 'c' AS k").coalesce(1).write.parquet(str(tmp_path / "pq"))
    for kind, path in (("json", folder), ("parquet", tmp_path / "pq")):
        spec = {
            "name": "p", "time": "time", "pane": "1 s", "fields": {"key": "upper(k)"},
            "source": {"format": kind, "path": str(path)}, "summaries": {"m": {"keys": ["key"]}},
        }  # fmt: skip
        ledger = temporary()
        muntin.summarize(None, spec, ledger=ledger)
        places = [record.place for _, record in ledger.rejected("p")]
        (file,) = path.glob("[!._]*")
        rows = [2, 3] if kind == "json" else [1]
        assert places == [f"{file}, row {row}" for row in rows]


@pytest.mark.spark
def test_nanoseconds_of_files_that_a_pattern_names(spark, tmp_path):
    times = pa.array([1_767_225_600_000_000_001, None], pa.timestamp("ns"))
    born = pa.array([-1, -(2**63)], pa.timestamp("ns", "UTC"))
    table = pa.table({"time": times, "k": ["a", "b"], "born": born})
    pq.write_table(table, tmp_path / "one.parquet")
    spec = {
        "name": "p", "time": "time", "pane": "1 s", "fields": {"key": "upper(k)"},
        "source": {"path": str(tmp_path / "*.parquet")},
        "summaries": {"m": {"keys": [["key", "born"]]}},
    }  # fmt: skip
    with pytest.warns(UserWarning, match="rejected"), muntin.summarize(None, spec) as session:
        assert session.sql("SELECT key, born FROM m(key, born) FOR ALL").rows == [
            ["A", "1969-12-31T23:59:59.999999Z"]
        ]
