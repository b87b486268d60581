"""A pipeline's process that waits for commands.

python obeying_process.py URL [stopped]

With `stopped` it goes no further once it has stored what a command has changed: to be killed.
"""

import signal
import sys
import time

from muntin.ledger.open import open_ledger
from muntin.ledger.sqlite_writer import Writer
from muntin.spark.ingest import Ingest
from tests.chaos.committing_process import say
from tests.pipeline.support import events, gather, pipeline


def stop_after_obeying():
    real = Writer.close_windows

    def stopping(self, *arguments):
        real(self, *arguments)
        if arguments[2]["orders"]["window"]["factor"] > 1:
            say("stopped")
            time.sleep(1e6)

    Writer.close_windows = stopping


def main(url, stopped=""):
    if stopped:
        stop_after_obeying()
    ingest = Ingest(pipeline(), open_ledger(url), query_id="q")
    ingest.take(0, gather([events([(at, "a", 1, 1, 1) for at in range(45)])]))
    say("taken")
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
