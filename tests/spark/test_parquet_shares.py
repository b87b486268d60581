"""Row groups in shares: all of them once, in order, of about the same size."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.errors import SourceError
from muntin.spark import parquet
from muntin.spark.event_time import event_times
from muntin.spec import Pipeline

INT96 = Path(__file__).parent.parent / "golden" / "int96.parquet"
"""A column `at` of five years, by pyarrow 26: 21 writes those before 1970 wrongly."""


@settings(max_examples=30)
@given(
    sizes=st.lists(st.lists(st.integers(1, 400), max_size=6), min_size=1, max_size=4),
    workers=st.integers(1, 6),
)
def test_shares_hold_each_row_group_once(tmp_path_factory, sizes, workers):
    folder = tmp_path_factory.mktemp("files")
    files, expected, largest = [], [], 0
    for number, groups in enumerate(sizes):
        files.append(str(folder / f"{number}.parquet"))
        with pq.ParquetWriter(files[-1], pa.schema([("x", pa.int64())])) as writer:
            row = 0
            for at, rows in enumerate(groups):
                writer.write_table(pa.table({"x": pa.array(range(rows), pa.int64())}))
                expected.append((files[-1], at, row))
                row += rows
                largest = max(largest, rows)
    shares = parquet.shares_of(files, workers)
    assert len(shares) <= workers
    assert [
        (split.path, group) for share in shares for split in share for group in split.row_groups
    ] == [(path, group) for path, group, _ in expected]
    starts = {(path, group): row for path, group, row in expected}
    for share in shares:
        for split in share:
            assert split.first_row == starts[split.path, split.row_groups[0]]


def test_a_rejected_record_says_where_it_stands_in_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROWS_AT_ONCE", 7)
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": list(range(40))}), path, row_group_size=10)
    (share,) = parquet.shares_of([str(path)], 1)
    split = parquet.Split(str(path), (2, 3), 20, (40, 4))
    assert share == [parquet.Split(str(path), (0, 1, 2, 3), 0, (40, 4))]
    read = list(parquet._read([split], pa.schema([("x", pa.int64())])))
    rows = [
        (batch["x"][row].as_py(), place(row)) for batch, place in read for row in range(len(batch))
    ]
    assert rows == [(row, f"{path}, row {row + 1}") for row in range(20, 40)]


@pytest.mark.parametrize(("rows", "groups"), [(400, 5), (20, 5), (40, 10)])
def test_a_file_that_is_another_one_by_now_is_told(tmp_path, rows, groups):
    """Of one with more row groups those that were planned would be read, and no others."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": list(range(40))}), path, row_group_size=8)
    (share,) = parquet.shares_of([str(path)], 1)
    pq.write_table(pa.table({"x": list(range(rows))}), path, row_group_size=rows // groups)
    with pytest.raises(SourceError, match=r"x\.parquet was written anew .*: write to another name"):
        list(parquet._read(share, pa.schema([("x", pa.int64())])))


def test_times_of_96_bits_are_what_spark_wrote():
    """As nanoseconds of 64 bits, which Arrow makes of them, the year 9999 was 1816."""
    times = [dt.datetime(year, 12, 30, 1, 2, 3, 456789) for year in (1, 1815, 2024, 2300, 9999)]
    schema = pa.schema([("at", pa.timestamp("us"))])
    ((batch, _),) = parquet._read(parquet.shares_of([str(INT96)], 1)[0], schema)
    epoch = dt.datetime(1970, 1, 1)
    expected = [(time - epoch) // dt.timedelta(microseconds=1) for time in times]
    assert event_times(batch.column(0), None).tolist() == expected


def test_a_column_that_stands_twice_is_named(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1])] * 2, ["t", "t"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    spec = Pipeline.of(
        {"name": "p", "time": {"column": "t", "unit": "s"}, "pane": "1 hour",
         "summaries": {"s": {"kind": "quantiles", "value": "t"}}}
    )  # fmt: skip
    with pytest.raises(SourceError, match=r"twice\.parquet: there are 2 columns 't'"):
        parquet.check_files([str(tmp_path / "twice.parquet")], spec)
