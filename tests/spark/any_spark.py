"""One pipeline, in each way that there is, on the Spark of the environment: a digest for each.

Run by python3 (Spark Connect, or PYSPARK_SUBMIT_ARGS) and by spark-submit. Prints a line of JSON.

python any_spark.py DATA OUT [kill] [path]

With `kill`, each of the first three ways loses an executor in the middle of its tasks. With `path`,
files are the only way.
"""

import hashlib
import json
import sys
import time
from pathlib import Path

import muntin
from muntin.spark import gathering, parquet
from muntin.spark.partials import fold_placed
from muntin.spark.session import is_classic, session
from tests.chaos.killing import killing_once
from tests.pipeline.support import whole_of

HOUR = 3_600_000_000
SCHEMA = "time timestamp, origin string, delay bigint"
SPEC = {
    "name": "flights", "time": "time", "pane": "1 hour", "lateness": "3 hours",
    "fields": {"early": "CASE WHEN delay < 0 THEN 1 ELSE 0 END"},
    "summaries": {
        "flights": {
            "keys": ["origin"], "indicators": ["delay", "early"],
            "window": {"kind": "tumbling", "length": "6 hours"},
        },
        "delays": {"kind": "quantiles", "value": "delay", "by": "origin"},
    },
    "queries": {"most": "SELECT origin, count FROM flights(origin) ORDER BY count DESC LIMIT 1"},
    "trigger": "0 seconds",
}  # fmt: skip
SELECT = "SELECT origin, count, delay, early FROM flights(origin) FOR ALL ORDER BY origin"


def digest(url):
    """Of all that a ledger holds of its pipeline."""
    with muntin.open(url) as opened:
        held = [whole_of(opened.ledger, name, HOUR) for name in SPEC["summaries"]]
        closed = opened.windows()
        # who writes by the format is not told that the source has ended
        until = opened.ledger.pipelines()[0].watermark
        windows = [
            (w.summary, w.start, w.end, w.reason, w.events) for w in closed if w.end <= until
        ]
        trend = [(p.start, p.end, p.result) for p in opened.ledger.trend("most") if p.end <= until]
        rejected = opened.ledger.pipelines()[0].rejected
        answer = opened.sql(SELECT).rows
    assert held[0] is not None
    assert windows
    told = repr((held, windows, trend, rejected, answer))
    return hashlib.sha256(told.encode()).hexdigest()


def main():
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    spark = session("any")
    muntin.register(spark)
    files = str(data / "flights")
    frame = spark.read.schema(SCHEMA).parquet(files)

    def ledger(name):
        return f"sqlite:///{out}/{name}.db"

    def arriving():
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(files)

    told, began = {}, time.monotonic()

    def done(name):
        told[name] = digest(ledger(name))
        sys.stderr.write(f"{name}: {time.monotonic() - began:.1f} s\n")

    def losing_one(name, act):
        mark = out / f"killed in {name}"
        if "kill" in sys.argv:
            gathering.fold_placed = parquet.fold_placed = killing_once(fold_placed, mark)
        act()
        gathering.fold_placed = parquet.fold_placed = fold_placed
        assert mark.exists() == ("kill" in sys.argv)
        done(name)

    losing_one("path", lambda: muntin.summarize(files, SPEC, ledger=ledger("path")).close())
    if "path" in sys.argv:
        sys.stdout.write(json.dumps({"told": told, "classic": is_classic(spark)}) + "\n")
        return
    losing_one("frame", lambda: muntin.summarize(frame, SPEC, ledger=ledger("frame")).close())
    losing_one(
        "stream",
        lambda: muntin.stream(
            arriving(), SPEC, ledger=ledger("stream"), once=True
        ).await_termination(),
    )
    ready = frame.selectExpr("*", f"{SPEC['fields']['early']} AS early")
    own = json.dumps(SPEC)
    sink = ready.write.format("muntin").option("spec", own).option("ledger", ledger("write"))
    sink.mode("append").save()
    done("write")
    more = arriving().selectExpr("*", f"{SPEC['fields']['early']} AS early")
    for _ in range(2):  # the second has nothing to do
        more.writeStream.format("muntin").option("spec", own).option(
            "ledger", ledger("sink")
        ).option("checkpointLocation", f"{out}/sink").trigger(
            availableNow=True
        ).start().awaitTermination()
    done("sink")
    answer = spark.read.format("muntin").option("ledger", ledger("frame"))
    rows = [list(row) for row in answer.option("select", SELECT).load().collect()]
    sys.stdout.write(json.dumps({"told": told, "rows": rows, "classic": is_classic(spark)}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
