"""Taxi orders to columns: Muntin's parsers of JSON and Avro beside Spark's `from_json`, in turn.

    python benchmarks/kafka_json.py [--records 300000] [--repeats 5]

Values are in memory on both sides (a cached frame; an Arrow array, as Spark sends it to a worker),
so that neither Kafka nor the way to Python is in it: the workers' part alone, one core each. Spark
writes to its `noop` sink; what it takes to pass the bytes on without parsing is shown beside.
"""

from __future__ import annotations

import argparse
import io
import json

import pyarrow as pa
from _timing import in_turn, report
from pyspark.sql import functions as sf

from muntin.demo.producing import values_of
from muntin.demo.taxi import SCHEMA
from muntin.spark.avro import AvroField, AvroValues, avro_fields
from muntin.spark.session import session
from muntin.spark.values import JsonValues, value_schema

ROWS_AT_ONCE = 16_384  # as Spark sends them, `spark.sql.execution.arrow.maxRecordsPerBatch`


def as_avro(batch: pa.RecordBatch) -> tuple[pa.Array, tuple[AvroField, ...]]:
    """The same records in Avro, and their schema."""
    import fastavro

    time = {"type": "long", "logicalType": "timestamp-micros"}
    kinds = {"int64": "long", "string": "string"}
    fields = [{"name": f.name, "type": kinds.get(str(f.type), time)} for f in batch.schema]
    schema = {"type": "record", "name": "Order", "fields": fields}
    parsed = fastavro.parse_schema(schema)
    values = []
    for row in batch.to_pylist():
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        values.append(out.getvalue())
    return pa.array(values, pa.binary()), avro_fields(json.dumps(schema))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--records", type=int, default=300_000)
    asked.add_argument("--repeats", type=int, default=5)
    given = asked.parse_args()
    source = values_of("taxi")
    values = pa.array([next(source) for _ in range(given.records)], pa.binary())
    spark = session("kafka_json", {"spark.master": "local[1]"})
    frame = spark.createDataFrame(pa.table({"value": values})).coalesce(1).cache()
    assert frame.count() == given.records
    text = sf.col("value").cast("string")
    parser = JsonValues(value_schema(SCHEMA))

    def ours() -> None:
        for begin in range(0, len(values), ROWS_AT_ONCE):
            parsed = parser.parse(values.slice(begin, ROWS_AT_ONCE))
            assert not parsed.malformed

    table = parser.parse(values)
    avro, fields = as_avro(pa.RecordBatch.from_arrays(table.columns, value_schema(SCHEMA).names))
    avro_parser = AvroValues(fields)

    def ours_of_avro() -> None:
        for begin in range(0, len(avro), ROWS_AT_ONCE):
            parsed = avro_parser.parse(avro.slice(begin, ROWS_AT_ONCE))
            assert not parsed.malformed

    def written(what: object) -> None:
        frame.select(what).write.format("noop").mode("overwrite").save()

    seconds = in_turn(
        {
            "muntin": ours,
            "muntin, avro": ours_of_avro,
            "from_json": lambda: written(sf.from_json(text, SCHEMA)),
            "not parsed": lambda: written(sf.length("value")),
        },
        given.repeats,
        warm=2,
    )
    report(seconds, events=given.records, unit="record")
    for name in ("muntin", "muntin, avro", "from_json"):
        print(f"{name}: {given.records / min(seconds[name]):,.0f} records a second")
    net = min(seconds["from_json"]) - min(seconds["not parsed"])
    print(f"from_json less not parsed, by muntin: {net / min(seconds['muntin']):.2f}x")


if __name__ == "__main__":
    main()
