"""A pipeline with shards, in a process of its own, which says before a commit that the files are
written, and waits to be killed.

python shards_process.py FOLDER BATCHES

BATCHES is how many it commits before it waits.
"""

import sys
import time

from muntin.assembly import cutting
from muntin.ledger.sqlite import SqliteLedger
from muntin.ledger.sqlite_writer import Writer
from muntin.spark.ingest import Ingest
from tests.pipeline.support import events, gather, pipeline

BATCHES = 4
commit = Writer.commit


def sharded():
    spec = pipeline()
    orders = spec.summaries["orders"].model_copy(update={"shards": 4})
    return spec.model_copy(update={"summaries": {"orders": orders}})


def batches():
    rows = [(at / 4, "abcdefgh"[at % 8], at % 3, 1, at) for at in range(1600)]
    return [[events(rows[number::BATCHES])] for number in range(BATCHES)]


def main(folder: str, until: str) -> None:
    cutting.CUT_BYTES_MIN = cutting.FILE_BYTES_MIN = 0

    def stopping(self, batch, owing):
        if batch.batch_id == int(until):
            sys.stdout.write("written\n")
            sys.stdout.flush()
            time.sleep(3600)
        return commit(self, batch, owing)

    Writer.commit = stopping
    ingest = Ingest(sharded(), SqliteLedger(f"{folder}/ledger.db"), query_id="q")
    for number, partitions in enumerate(batches()):
        ingest.take(number, gather(partitions))
    ingest.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
