"""A pipeline over a folder of Parquet files, in a process of its own; killed by the tests.

python pipeline_process.py FOLDER [SUMMARIES as JSON]
"""

import json
import sys

import muntin
from tests.pipeline.support import pipeline


def main(folder: str, summaries: str = "") -> None:
    changes = {"summaries": json.loads(summaries), "queries": {}} if summaries else {}
    spec = pipeline(
        **changes,
        source={"format": "parquet", "path": f"{folder}/events", "maxFilesPerTrigger": 1},
        trigger="0 seconds",
        ledger=f"sqlite:///{folder}/ledger.db",
        spark={"spark.master": "local[2,4]", "spark.sql.shuffle.partitions": "2"},
    )

    def said(ingest) -> None:
        sys.stdout.write(f"batch {ingest.progress.batches}\n")
        sys.stdout.flush()

    stream = muntin.stream(None, spec, once=True, on_batch=said)
    stream.await_termination()
    sys.stdout.write("done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
