"""A stream with shards on a cluster of two executors, of which something is killed.

python shards_executors.py FOLDER KILLED

KILLED: "driver", once, before the commit, when the executors have written their files; "executor",
the first that has written a shard's files; "nobody".
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import muntin
from muntin.assembly import cutting
from muntin.ledger.sqlite_writer import Writer
from muntin.spark import runs
from muntin.spark.session import session
from tests.chaos.killing import killing_once

ASKED = "SELECT * FROM orders(driver) FOR ALL ORDER BY driver"


def spec(folder: Path, **more: int) -> dict[str, object]:
    return {
        "name": "orders", "time": "time", "pane": "10 seconds", "lateness": "30 seconds",
        "source": {"format": "parquet", "path": str(folder / "rows")},
        "summaries": {"orders": {"keys": ["driver"], "indicators": ["fare"], **more}},
    }  # fmt: skip


def killing(mark: Path):
    """What the task of a shard does; the first one that has done it kills its executor."""

    def merged(*arguments):
        from muntin.spark.runs import _merged  # the worker's own

        rows = list(_merged(*arguments))  # when they are there, the files are
        return killing_once(lambda: rows, mark)()

    return merged


def main(folder: Path, killed: str) -> None:
    cutting.CUT_BYTES_MIN = cutting.FILE_BYTES_MIN = 0
    settings = {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g"}
    spark = session("shards die", settings)
    mark = folder / "killed"
    if killed == "driver":

        def dying(*_):
            os.kill(os.getpid(), signal.SIGKILL)

        Writer.commit = dying
    elif killed == "executor":
        runs._merged = killing(mark)
    running = muntin.stream(
        None, spec(folder, shards=4), once=True,
        ledger=str(folder / "ledger.db"), checkpoint=str(folder / "checkpoint"),
    )  # fmt: skip
    running.await_termination()
    rows = running.sql(ASKED).rows
    clean = muntin.summarize(None, spec(folder), ledger=str(folder / "clean.db"), progress=False)
    pieces = running.ledger.pieces("orders", 10_000_000)
    found = {
        "same": rows == clean.sql(ASKED).rows,
        "rows": len(rows),
        "shards": len({piece.shard for piece in pieces}),
        "marked": mark.exists(),
        "damage": running.ledger.verify(),
        "read": running.ledger.pipelines()[0].read,
    }
    print("FOUND " + json.dumps(found), flush=True)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
