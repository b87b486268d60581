"""A pipeline and an index whose every file that workers touch is at s3a://; executors of their own.

python s3_process.py ENDPOINT FOLDER, with MUNTIN_S3_JARS in the environment
"""

import os
import sys
from pathlib import Path

import pyarrow as pa

import muntin
from muntin.assembly import cutting
from muntin.spark import FingerprintIndex
from muntin.spark.session import session
from muntin.storage import place_of

ROWS, FILES = 2000, 4
SPEC = {
    "name": "flights", "time": "time", "pane": "1 hour", "payloads": "s3a://bucket/payloads",
    "summaries": {
        "flights": {"keys": ["origin"], "indicators": ["delay"], "shards": 4},
    },
}  # fmt: skip
SELECT = "SELECT origin, count, delay FROM flights(origin) FOR ALL ORDER BY origin"


def main(endpoint, folder):
    cutting.CUT_BYTES_MIN = cutting.FILE_BYTES_MIN = 0
    spark = session(
        "s3",
        {
            "spark.master": "local-cluster[1,2,1024]",
            "spark.jars": ",".join(map(str, Path(os.environ["MUNTIN_S3_JARS"]).glob("*.jar"))),
            "spark.hadoop.fs.s3a.endpoint": endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        },
    )
    rows = [(1357000000 + n * 60, f"A{n % 50}", n % 70) for n in range(ROWS)]
    frame = spark.createDataFrame(rows, "at bigint, origin string, delay bigint").selectExpr(
        "timestamp_seconds(at) AS time", "origin", "delay"
    )
    frame.repartition(FILES).write.parquet("s3a://bucket/flights")
    expected = [
        [f"A{key}", ROWS // 50, sum(n % 70 for n in range(key, ROWS, 50))] for key in range(50)
    ]
    expected.sort()

    def check(ledger):
        with muntin.open(ledger) as opened:
            assert opened.sql(SELECT).rows == expected, opened.sql(SELECT).rows[:3]

    files = "s3a://bucket/flights"
    for name, data in (("path", files), ("frame", spark.read.parquet(files))):
        ledger = f"sqlite:///{folder}/{name}.db"
        muntin.summarize(data, SPEC, ledger=ledger).close()
        check(ledger)
    payloads = list(place_of(files)[0].listed("s3a://bucket/payloads"))
    assert payloads

    source = {
        "format": "parquet", "path": files, "maxFilesPerTrigger": 1,
        "schema": "time timestamp, origin string, delay bigint",
    }  # fmt: skip
    spec = {**SPEC, "source": source, "checkpoint": "s3a://bucket/checkpoint"}
    ledger = f"sqlite:///{folder}/stream.db"
    for mode in ("continue", "continue", "overwrite"):  # the last one reads all of it again
        muntin.stream(None, spec, ledger=ledger, once=True, mode=mode).await_termination()
        check(ledger)
    assert any(
        path.endswith("/metadata") for path in place_of(files)[0].listed("s3a://bucket/checkpoint")
    )

    index = FingerprintIndex.build(
        files, "origin", "delay", 4, path="s3a://bucket/index", progress=False
    )
    for via in ("job", "driver"):
        found = index.contains(pa.array(["A1", "A49", "B1"]), via=via)["present"].to_pylist()
        assert found == [True, True, False], found
    again = FingerprintIndex.load(spark, "s3a://bucket/index")
    assert again.append(spark.read.parquet(files))
    assert again.records == 2 * ROWS
    assert not Path("s3a:").exists()
    sys.stdout.write("done\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
