"""Taxi orders to columns: Muntin's parsers of JSON and Avro beside Spark's `from_json`, in turn.

    python benchmarks/kafka_json.py [--short] [--keep] [--check]

Values are in memory on both sides (a cached frame; an Arrow array, as Spark sends it to a worker),
so that neither Kafka nor the way to Python is in it: the workers' part alone, one core each. Spark
writes to its `noop` sink; what it takes to pass the bytes on without parsing is shown beside.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable

import pyarrow as pa
from _record import Table, main, timed
from _spark import Tree
from pyspark.sql import functions as sf

from muntin.demo.producing import values_of
from muntin.demo.taxi import SCHEMA
from muntin.spark.avro import AvroValues, Schemas, avro_schemas
from muntin.spark.session import session
from muntin.spark.values import JsonValues, value_schema

ROWS_AT_ONCE = 16_384  # as Spark sends them, `spark.sql.execution.arrow.maxRecordsPerBatch`


def as_avro(batch: pa.RecordBatch) -> tuple[pa.Array, Schemas]:
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
    return pa.array(values, pa.binary()), avro_schemas(json.dumps(schema))


def measure(short: bool) -> Iterable[Table]:
    records = 100_000 if short else 300_000
    source = values_of("taxi")
    values = pa.array([next(source) for _ in range(records)], pa.binary())
    spark = session("kafka_json", {"spark.master": "local[1]"})
    frame = spark.createDataFrame(pa.table({"value": values})).coalesce(1).cache()
    assert frame.count() == records
    parser = JsonValues(value_schema(SCHEMA))
    table = parser.parse(values)
    avro, schemas = as_avro(pa.RecordBatch.from_arrays(table.columns, value_schema(SCHEMA).names))
    avro_parser, fields = AvroValues(schemas), len(table.columns)

    def ours(parser: JsonValues | AvroValues, values: pa.Array) -> None:
        for begin in range(0, len(values), ROWS_AT_ONCE):
            parsed = parser.parse(values.slice(begin, ROWS_AT_ONCE))
            assert not parsed.malformed

    def written(what: object) -> None:
        frame.select(what).write.format("noop").mode("overwrite").save()

    text = sf.col("value").cast("string")
    yield timed(
        "parsers",
        f"Taxi orders of {values.nbytes // records} bytes and {fields} fields to columns",
        {
            "Muntin, JSON": lambda: ours(parser, values),
            "Muntin, the same in Avro": lambda: ours(avro_parser, avro),
            "Spark, `from_json`": lambda: written(sf.from_json(text, SCHEMA)),
            "Spark, passing the bytes on, not parsed": lambda: written(sf.length("value")),
        },
        5,
        events=records,
        unit="ns a record",
        ours=2,
        warm=3,
        clock=Tree().seconds,
        note="Processor time of all processes; below 1, less than our JSON.",
    )
    spark.stop()


if __name__ == "__main__":
    main("kafka-json", measure, ["pyspark", "numpy", "numba", "pyarrow"], __doc__)
