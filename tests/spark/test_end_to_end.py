"""Real Spark: from a DataFrame or files, in batch, to an answer."""

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import muntin
from muntin.assembly import cutting
from muntin.errors import LedgerConflict, SourceError, SpecError
from muntin.ledger.temporary import temporary
from tests.pipeline.support import START, events, pipeline, state

pytestmark = pytest.mark.spark


def test_executors_merge_and_write_shards(spark, table, summarised, tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "CUT_BYTES_MIN", 0)
    monkeypatch.setattr(cutting, "FILE_BYTES_MIN", 0)
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=500)
    orders = pipeline().summaries["orders"].model_copy(update={"shards": 4})
    sharded = pipeline().model_copy(update={"summaries": {"orders": orders}})
    for number, data in enumerate((spark.createDataFrame(table), tmp_path / "events.parquet")):
        path = tmp_path / f"{number}.db"
        found = muntin.summarize(data, sharded, ledger=f"sqlite:///{path}")
        assert state(found) == state(summarised)
        pieces = found.ledger.pieces("orders", sharded.pane)
        assert len(pieces) == 4
        (folder,) = path.with_name(f"{path.name}.payloads").iterdir()
        assert {file.name.split("-")[0] for file in folder.iterdir()} == {"orders"}
        found.close()


def test_answers_are_those_of_duckdb(summarised, table):
    orders = table  # noqa: F841 (DuckDB finds it by its name)
    expected = duckdb.sql(
        "SELECT driver, area, count(*), coalesce(sum(served), 0), coalesce(sum(fare), 0) "
        "FROM orders GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    found = summarised.sql(
        "SELECT driver, area, count, served, fare FROM orders(driver, area) FOR ALL "
        "ORDER BY driver NULLS LAST, area"
    )
    assert [tuple(row) for row in found.rows] == expected
    assert found.exact
    assert summarised.progress.read == table.num_rows


def test_files_read_in_the_workers_give_the_same_ledger(spark, table, summarised, tmp_path):
    pq.write_table(table, tmp_path / "orders.parquet", row_group_size=400)
    direct = muntin.summarize(str(tmp_path), pipeline(), ledger=temporary())
    assert state(direct) == state(summarised)


def test_partitions_in_any_order_give_the_same_ledger(spark, table, summarised):
    df = spark.createDataFrame(table).repartition(5, "fare")
    assert state(muntin.summarize(df, pipeline(), ledger=temporary())) == state(summarised)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"time": "tiem"}, "no column 'tiem'; did you mean 'time'"),
        ({"time": "area"}, "say what it counts"),
        ({"fields": {"late": "fare >"}}, "fields.late"),
        ({"fields": {"late": "fair > 5"}}, "fields.late"),
        ({"fields": {"area": "1", "b": "area.ip"}}, "no longer the source's but fields.area"),
    ],
)
def test_what_the_source_lacks_is_named(spark, table, changes, message):
    with pytest.raises(SourceError, match=message):
        muntin.summarize(spark.createDataFrame(table), pipeline(**changes), ledger=temporary())


def test_no_ledger_is_made_of_a_source_that_is_wrong(spark, table, tmp_path):
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "other.csv").write_text("time\n2024-01-01\n")
    ledger = f"sqlite:///{tmp_path}/l.db"
    there = sorted(tmp_path.iterdir())
    for data in (tmp_path / "none.parquet", tmp_path / "other.csv", table.select(["time"])):
        with pytest.raises(SourceError):
            muntin.summarize(data, pipeline(), ledger=ledger)
    wrong = pipeline(
        source={"format": "parquet", "path": str(tmp_path / "a.parquet")},
        summaries={"orders": {"keys": ["none"]}}, queries={},
    )  # fmt: skip
    with pytest.raises(SourceError, match="no column 'none'"):
        muntin.stream(None, wrong, ledger=ledger)
    assert sorted(tmp_path.iterdir()) == there


def test_text_cannot_be_an_indicator(spark, table):
    summary = {"keys": ["area"], "indicators": ["driver"]}
    with pytest.raises(SourceError, match="CAST"):
        muntin.summarize(
            spark.createDataFrame(table), pipeline(summaries={"orders": summary}, queries={}),
            ledger=temporary(),
        )  # fmt: skip


def test_a_column_that_arrow_does_not_know_is_named(spark):
    frame = spark.sql(
        "SELECT timestamp_seconds(1) AS t, make_ym_interval(0, 5) AS age, 1 AS unread"
    )
    spec = {"name": "n", "time": "t", "pane": "1 minute", "summaries": {"s": {"keys": ["age"]}}}
    with pytest.raises(SourceError, match=r"column 'age' has no Arrow type: .*age: CAST\(age AS"):
        muntin.summarize(frame, spec, ledger=temporary())
    spec["fields"] = {"age": "CAST(age AS INT)"}
    with muntin.summarize(frame, spec, ledger=temporary()) as session:
        assert session.sql("SELECT age, count FROM s(age) FOR ALL").rows == [[5, 1]]


def test_a_wrong_standing_query_is_named(spark, table):
    with pytest.raises(SpecError, match=r"queries\.bad"):
        muntin.summarize(
            spark.createDataFrame(table),
            pipeline(queries={"bad": "SELECT x FROM orders(driver)"}),
            ledger=temporary(),
        )


def test_fields_are_evaluated_by_spark(spark, table):
    spec = pipeline(
        fields={"dear": "CAST(fare > 500000 AS BIGINT)"},
        summaries={"orders": {"keys": ["area"], "indicators": ["dear"]}},
        queries={},
    )
    found = muntin.summarize(spark.createDataFrame(table), spec, ledger=temporary())
    dear = sum((fare or 0) > 500000 for fare in table["fare"].to_pylist())
    assert found.sql("SELECT sum(dear) FROM orders(area) FOR ALL").rows == [[dear]]


def test_a_sum_beyond_int64_stops_nothing(spark):
    rows = [*[(0, "a", 1, 1, 2**62)] * 4, (60, "b", 1, 1, 7)]
    found = muntin.summarize(spark.createDataFrame(events(rows)), pipeline(), ledger=temporary())
    assert found.sql("SELECT fare FROM orders FOR ALL").rows == [[2**64 + 7]]
    assert found.sql("SELECT driver, fare FROM orders(driver) FOR LAST '10 s'").rows == [["b", 7]]


def test_batch_modes_are_those_of_spark(spark, table):
    ledger = temporary()
    df = spark.createDataFrame(table.slice(0, 100))
    muntin.summarize(df, pipeline(), ledger=ledger)
    with pytest.raises(LedgerConflict):
        muntin.summarize(df, pipeline(), ledger=ledger)
    twice = muntin.summarize(df, pipeline(), ledger=ledger, mode="append")
    assert twice.sql("SELECT count FROM orders FOR ALL").rows == [[200]]
    once = muntin.summarize(df, pipeline(), ledger=ledger, mode="overwrite")
    assert once.sql("SELECT count FROM orders FOR ALL").rows == [[100]]


def test_tables_with_types_that_spark_lacks_are_taken_with_fields(spark):
    moments = pa.array([START, START], pa.timestamp("us", "UTC"))
    columns = {
        "driver": pa.array(["a", "é"], pa.string_view()),
        "area": pa.array([1, 2**32 - 1], pa.uint32()),
        "served": pa.array([1, 255], pa.uint8()),
        "fare": pa.array([1, 2**63 - 1], pa.uint64()),
        "day": pa.array([0, 86_400_000], pa.date64()),
    }
    summary = {"keys": [["driver", "area"]], "indicators": ["served", "dear"]}
    spec = pipeline(
        fields={"dear": "CAST(fare AS BIGINT)"}, summaries={"orders": summary}, queries={}
    )
    for table in (
        pa.table({"time": moments, **columns}),
        pl.DataFrame({"time": moments, **columns}),
    ):
        found = muntin.summarize(table, spec, ledger=temporary())
        assert found.sql("SELECT * FROM orders(X1) FOR ALL ORDER BY driver").rows == [
            ["a", 1, 1, 1, 1],
            ["é", 2**32 - 1, 1, 255, 2**63 - 1],
        ]


def test_a_column_of_a_type_that_spark_lacks_is_in_the_way_of_fields_only_where_it_is_named(spark):
    odd = pa.array([(1, 1, 1), None], pa.month_day_nano_interval())
    wide = pa.array([1, 2]).cast(pa.decimal256(50, 2))
    moments = pa.array([START, START], pa.timestamp("us", "UTC"))
    table = pa.table({"time": moments, "driver": ["a", "a"], "fare": [1, 2], "x": odd, "y": wide})
    summary = {"keys": ["driver"], "indicators": ["dear"]}
    spec = {"summaries": {"orders": summary}, "queries": {}}
    named = pipeline(fields={"dear": "1 + `fare` * 1"}, **spec)
    found = muntin.summarize(table, named, ledger=temporary())
    assert found.sql("SELECT * FROM orders(driver) FOR ALL").rows == [["a", 2, 5]]
    for text, said in (
        ("x + 1", "month_day_nano_interval"),
        ("y + 1", "does not take this table"),
        ("hash(*)", "month_day_nano_interval|does not take this table"),
    ):
        with pytest.raises(SourceError, match=said):
            muntin.summarize(table, pipeline(fields={"dear": text}, **spec))
