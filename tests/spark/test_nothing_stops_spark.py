"""What Spark can hold and Python cannot: rejected with its partition and row, batch and stream."""

import pytest

import muntin
from muntin.ledger.temporary import temporary
from muntin.spec import Pipeline

ROWS = """
SELECT timestamp_micros(at) AS t, IF(id = 3, CAST(X'FFFE41' AS STRING), 'a') AS k, id
FROM VALUES
    (0, 1700000000000000), (1, 1700000020000000), (2, 300000000000000000),
    (3, 1700000030000000), (4, -70000000000000000), (5, NULL)
    AS rows(id, at)
"""
SPEC = Pipeline.of(
    {
        "name": "p",
        "time": "t",
        "pane": "10 s",
        "summaries": {"m": {"keys": ["k"], "window": {"kind": "tumbling", "length": "20 s"}}},
        "queries": {"q": "SELECT CAST(k AS BIGINT) AS n FROM m(k)"},
    }
)
REASONS = {"future": 1, "bad_value": 1, "before_1970": 1, "no_time": 1}


@pytest.mark.spark
def test_a_batch_rejects_them(spark):
    ledger = temporary()
    muntin.summarize(spark.sql(ROWS), SPEC, ledger=ledger)
    check(ledger)


@pytest.mark.spark
def test_a_stream_rejects_them(spark, tmp_path):
    spark.sql(ROWS).coalesce(1).write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("t timestamp, k string, id int").parquet(str(tmp_path / "in"))
    ledger = temporary()
    running = muntin.stream(
        rows, SPEC, ledger=ledger, checkpoint=str(tmp_path / "checkpoint"), once=True
    )
    assert running.await_termination(120)
    check(ledger)


def check(ledger):
    (info,) = ledger.pipelines()
    assert (info.read, info.counted, info.rejected) == (6, 2, 4)
    kept = [record for _, record in ledger.rejected("p")]
    assert {record.reason: 1 for record in kept} == REASONS
    assert all(record.place.startswith("partition ") for record in kept)
    assert len(ledger.windows("m")) == len(ledger.trend("q")) >= 1
