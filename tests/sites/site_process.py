"""A site in a process of its own: a real pipeline without Spark, its ledger, its monitor.

python -m tests.sites.site_process FOLDER SITE URL START
"""

import logging
import sys
import time

from muntin.ledger.open import open_ledger
from muntin.reading.warm import warm
from muntin.sites import Site
from muntin.spark.ingest import Ingest
from tests.pipeline.support import gather
from tests.sites.stream import PANE_US, events, pipeline


def main(folder: str, site: str, url: str, start: int) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    token = {"token_env": f"TOKEN_{site.upper()}"}
    spec = pipeline(site, url, ledger=f"sqlite:///{folder}/{site}.db", sites=token)
    warm(spec)
    ledger = open_ledger(spec.ledger_url)
    ingest = Ingest(spec, ledger, query_id="q")
    last = ingest.writer.last_batch("q")
    number = 0 if last is None else last + 1
    with Site(ledger, spec):
        while True:
            pane = start + number
            time.sleep(max(0.0, (pane + 1) * PANE_US / 1e6 - time.time()))
            ingest.take(number, gather([events(site, pane)]))
            number += 1


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
