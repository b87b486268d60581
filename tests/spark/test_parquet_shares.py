"""Row groups in shares: all of them once, in order, of about the same size."""

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.spark import parquet


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
    split = parquet.Split(str(path), (2, 3), 20)
    assert share == [parquet.Split(str(path), (0, 1, 2, 3), 0)]
    read = list(parquet._read([split], ["x"]))
    rows = [
        (batch["x"][row].as_py(), place(row)) for batch, place in read for row in range(len(batch))
    ]
    assert rows == [(row, f"{path}, row {row + 1}") for row in range(20, 40)]
