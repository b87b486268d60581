"""How soon results flow again, after a part of a live pipeline was killed or frozen.

    python benchmarks/recovery.py [--short] [--keep]

`muntin run` from Kafka into PostgreSQL and `muntin serve`, both started again as soon as they have
ended; 200 events a second, whose time is now. From a kill -9 to the server's telling of an event
that was produced after it; a frozen part (SIGSTOP) wakes up after 3 to 10 seconds, a broker and a
store are started again after up to 2. At the end every closed window is compared with what was
produced. --short kills the driver twice.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from _record import Table, main

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.chaos.supervised import WAYS, killed

DRIVER_KILLS, OTHER_STRIKES = 20, 5


def measure(short: bool) -> Iterable[Table]:
    ways = ["driver"] * (2 if short else DRIVER_KILLS)
    ways += [] if short else OTHER_STRIKES * [way for way in WAYS if way != "driver"]
    rng = random.Random(14)
    rng.shuffle(ways)
    with tempfile.TemporaryDirectory() as folder:
        took = killed(Path(folder), ways, rng)
    table = Table("back", "Until results flow again", ["what", "times", "p50 s", "p95 s", "most s"])
    for way in WAYS:
        if way in took:
            p50, p95 = np.percentile(took[way], [50, 95])
            figures = (round(float(x), 1) for x in (p50, p95, max(took[way])))
            table.rows.append([_NAMES[way], len(took[way]), *figures])
    table.note = "No event was lost or counted twice, and no closed window was wrong."
    yield table


_NAMES = {
    "driver": "kill -9 of the driver, with Spark and its workers",
    "worker": "kill -9 of a Python worker",
    "broker": "kill -9 of Kafka's broker",
    "broker frozen": "the broker frozen",
    "driver frozen": "the driver frozen",
    "store": "kill -9 of PostgreSQL",
    "server": "kill -9 of the server",
}

if __name__ == "__main__":
    main("recovery", measure, ["pyspark", "psycopg", "confluent-kafka"], __doc__)
