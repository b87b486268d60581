"""A pipeline with an alert, in a process of its own: python alerting_process.py LEDGER URL FIRST

It takes the batches from FIRST on, says so, and waits to be killed. With FIRST 0 it never learns
that the webhook has taken an event.
"""

import sys
import time

from muntin.assembly.alerts import Alerts
from muntin.ledger.open import open_ledger
from muntin.spark.ingest import Ingest
from tests.pipeline.support import events, gather
from tests.pipeline.test_alerts import MINUTES, alerting, minute


def main(ledger, url, first):
    if first == "0":
        Alerts._taken = lambda *_: time.sleep(3600)
    ingest = Ingest(alerting(webhook=url), open_ledger(ledger), query_id="q")
    for number in range(int(first), len(MINUTES)):
        ingest.take(number, gather([events(minute(number, MINUTES[number]))]))
    sys.stdout.write("taken\n")
    sys.stdout.flush()
    time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
