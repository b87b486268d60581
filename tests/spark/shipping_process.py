"""A driver whose workers' Python has no Muntin: what it is told, and what helps.

python shipping_process.py FOLDER PYTHON, where SPARK_REMOTE or a master is in the environment
"""

import json
import os
import sys
from pathlib import Path

import muntin
from muntin.errors import MuntinError

SPEC = {
    "name": "flights", "time": "time", "pane": "1 hour",
    "summaries": {
        "flights": {"keys": ["origin"], "indicators": ["delay"]},
        "delays": {"kind": "quantiles", "value": "delay", "by": "origin"},
    },
}  # fmt: skip
SELECT = "SELECT origin, count, delay FROM flights(origin) FOR ALL ORDER BY origin"


def main(folder: Path, python: str) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if "SPARK_REMOTE" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = python
        builder = (
            builder.master("local-cluster[1,2,1024]")
            .config("spark.ui.enabled", "false")
            .config("spark.task.maxFailures", "1")
        )
    spark = builder.getOrCreate()
    if "SPARK_REMOTE" not in os.environ:
        spark.sparkContext.setLogLevel("OFF")
    frame = spark.read.parquet(str(folder / "flights.parquet"))
    told = {}

    def summarized(data, name):
        try:
            with muntin.summarize(data, SPEC, ledger=f"memory://{name}") as session:
                return session.sql(SELECT).rows
        except MuntinError as problem:
            return str(problem)

    told["without"] = summarized(frame, "without")
    muntin.ship(spark, SPEC)
    told["with"] = summarized(frame, "with")
    if "SPARK_REMOTE" not in os.environ:
        told["files"] = summarized(str(folder / "flights.parquet"), "files")
        told["unseen"] = summarized(str(folder / "hidden" / "flights.parquet"), "unseen")

    def misses(batches):
        import pyarrow as pa
        from numba.core.dispatcher import Dispatcher

        list(batches)
        compiled = {
            kernel
            for name, module in sys.modules.items()
            if name.startswith("muntin.")
            for kernel in vars(module).values()
            if isinstance(kernel, Dispatcher)
        }
        hits = sum(sum(kernel.stats.cache_hits.values()) for kernel in compiled)
        missed = sum(sum(kernel.stats.cache_misses.values()) for kernel in compiled)
        yield pa.record_batch({"hits": [hits], "misses": [missed]})

    # in workers that have taken part in the above: Spark keeps them
    counts = spark.range(2, numPartitions=2).mapInArrow(misses, "hits bigint, misses bigint")
    told["kernels"] = [list(row) for row in counts.collect()]
    sys.stdout.write(json.dumps(told) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
