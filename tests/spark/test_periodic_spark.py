"""Real Spark: periodic batches from a DataFrame, files or a stream leave the same states."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import muntin
from muntin.ledger.temporary import temporary
from tests.pipeline.support import SECOND, START
from tests.pipeline.test_periodic import BEATS, beating, events, pipeline

pytestmark = pytest.mark.spark


def test_batch_files_and_stream_leave_the_same_states(spark, tmp_path):
    table = events(beating(1500))
    spec = pipeline({"beats": BEATS | {"item": ["driver", "area"]}})
    df = spark.createDataFrame(table)
    whole = muntin.summarize(df.repartition(5, "driver"), spec, ledger=temporary())
    states = whole.ledger.states("beats")
    assert set(states) == {0, 1, 2}
    text = "SELECT driver, area, periodicity FROM periodic(beats, 2)"
    assert whole.sql(text).rows == [["bot", "1", 24], ["cron", "2", 16]]

    pq.write_table(table, tmp_path / "all.parquet", row_group_size=200)
    direct = muntin.summarize(str(tmp_path / "all.parquet"), spec, ledger=temporary())
    assert direct.ledger.states("beats") == states

    folder = tmp_path / "events"
    folder.mkdir()
    seconds = table["time"].cast(pa.int64()).to_numpy() // SECOND
    order = sorted(range(len(table)), key=lambda i: seconds[i] + i * 7 % 30)  # within the lateness
    arrived = table.take(pa.array(order))
    for number, at in enumerate(range(0, len(arrived), 150)):
        path = folder / f"part-{number}.parquet"
        pq.write_table(arrived.slice(at, 150), path)
        os.utime(path, (START // SECOND + number,) * 2)  # Spark takes the oldest first
    source = spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 1)
    url = f"sqlite:///{tmp_path}/stream.db"
    stream = muntin.stream(source.parquet(str(folder)), spec, ledger=url, once=True)
    assert stream.await_termination(300)
    assert stream.progress.batches > 4
    assert stream.progress.late == 0
    assert stream.ledger.states("beats") == states
    assert stream.sql(text).rows == whole.sql(text).rows
    again = muntin.stream(source.parquet(str(folder)), spec, ledger=url, once=True)
    assert again.await_termination(300)
    assert (again.progress.read, again.ledger.states("beats")) == (0, states)
