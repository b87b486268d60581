"""The process beside Spark's driver in which batches are committed and windows close.

python committing_process.py URL RUN FIRST POINT

It commits the batches from FIRST on, for one run of a query, and tells each. At POINT, if there is
one, it stops as a whole and says so: to be killed, or woken later.
"""

import os
import signal
import sys

from muntin.assembly.maintenance import Maintenance
from muntin.errors import LedgerConflict
from muntin.ledger.sqlite_writer import Writer
from muntin.spark import committing
from muntin.spark.ingest import Ingest
from tests.pipeline.support import events, pipeline

BATCHES, ROWS, FREEZES_IN = 6, 80, 3
POINTS = {
    "before the commit": (Writer, "commit", False),
    "after the commit": (Writer, "commit", True),
    "before windows close": (Writer, "close_windows", False),
    "after windows close": (Writer, "close_windows", True),
    "before housekeeping": (Maintenance, "run", False),
    "after the batch": (Ingest, "take", True),
}


def batches():
    rows = [(at, "abcdefgh"[at % 8], at % 3, 1, at) for at in range(BATCHES * ROWS)]
    return [[events(rows[n * ROWS : (n + 1) * ROWS])] for n in range(BATCHES)]


def say(word):
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def stop_at(point, at_hand):
    owner, name, after = POINTS[point]
    real = getattr(owner, name)

    def stopping(self, *arguments, **named):
        def stop():
            if at_hand["batch"] == FREEZES_IN:
                at_hand["batch"] = -1
                say("stopped")
                os.kill(os.getpid(), signal.SIGSTOP)

        if not after:
            stop()
        found = real(self, *arguments, **named)
        if after:
            stop()
        return found

    setattr(owner, name, stopping)


def main(url, run, first, point=""):
    at_hand = {"batch": 0}
    if point:
        stop_at(point, at_hand)
    spec = pipeline()
    for number, partitions in list(enumerate(batches()))[int(first) :]:
        at_hand["batch"] = number
        rows = committing.fold_task(spec, partitions[0].to_batches())[2]
        try:
            committing.commit_batch(spec, url, "continue", ("q", run, rows), number)
        except LedgerConflict as problem:
            say(f"refused: {problem}")
            return
        say(f"batch {number}")
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
