"""A pipeline over a folder of Parquet files, in a process of its own; killed by the tests.

python pipeline_process.py FOLDER [SUMMARIES as JSON] [hang]

With `hang`, rows pass through a function on their way that does not come back, at its first call.
"""

import json
import sys
import time
from pathlib import Path

import muntin
from muntin.spark.session import session
from tests.pipeline.support import pipeline

HANG_SECONDS = 10  # what Spark then waits for an answer
SPARK = {"spark.master": "local[2,4]", "spark.sql.shuffle.partitions": "2"}


def hanging_once(folder: str):
    """Rows that pass through a function of the user's, which hangs in the first of all tasks."""
    limit = {"spark.sql.execution.pyspark.udf.idleTimeoutSeconds": str(HANG_SECONDS)}
    reader = session(settings={**SPARK, **limit}).readStream.option("maxFilesPerTrigger", 1)
    mark = Path(folder) / "hung"

    def hanging(batches):
        for batch in batches:
            try:
                mark.touch(exist_ok=False)
            except FileExistsError:
                yield batch
            else:
                time.sleep(1e6)

    schema = "time timestamp, driver string, area bigint, served bigint, fare bigint"
    return reader.schema(schema).parquet(f"{folder}/events").mapInArrow(hanging, schema)


def main(folder: str, summaries: str = "", hang: str = "") -> None:
    changes = {"summaries": json.loads(summaries), "queries": {}} if summaries else {}
    spec = pipeline(
        **changes,
        source={"format": "parquet", "path": f"{folder}/events", "maxFilesPerTrigger": 1},
        trigger="0 seconds",
        ledger=f"sqlite:///{folder}/ledger.db",
        spark=SPARK,
    )

    def said(ingest) -> None:
        sys.stdout.write(f"batch {ingest.progress.batches}\n")
        sys.stdout.flush()

    rows = hanging_once(folder) if hang else None
    stream = muntin.stream(rows, spec, once=True, on_batch=said)
    stream.await_termination()
    sys.stdout.write("done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
