"""SELECT by PostgreSQL's protocol (psycopg) beside HTTP: a small answer, and a long one.

    python benchmarks/postgres_wire.py [--short] [--keep] [--check]

The server is a process of its own; answers are the same rows. The state of the ledger does not
change, so that statements are asked with differing constants: none is answered from what another
computed.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import psutil
import psycopg
import pyarrow as pa
from _record import Table, digits, main, timed

from muntin.ledger.sqlite import SqliteLedger
from muntin.server.serving import Server
from muntin.spark.ingest import Ingest
from muntin.spark.partials import fold
from muntin.spec import Pipeline

ARROW = "application/vnd.apache.arrow.stream"
SMALL = "SELECT driver, count, fare FROM orders(driver) FOR ALL ORDER BY fare DESC, driver LIMIT 10"
LONG = "SELECT driver, count, fare FROM orders(driver) FOR ALL"
SPEC = {
    "name": "orders",
    "time": "time",
    "pane": "10 seconds",
    "lateness": "30 seconds",
    "summaries": {"orders": {"keys": ["driver"], "indicators": ["fare"]}},
}


def fill(ledger, keys):
    rows = pa.table(
        {
            "time": pa.array([1_700_000_000_000_000] * keys, pa.timestamp("us", "UTC")),
            "driver": pa.array(range(keys), pa.int64()),
            "fare": pa.array(((n * 7919) % 1000 for n in range(keys)), pa.int64()),
        }
    )
    ingest = Ingest(Pipeline.of(SPEC), ledger, query_id="q")
    ingest.take(0, lambda plan: list(fold(plan, rows.to_batches())))
    ingest.close()


def serve(path):
    """Until standard input ends."""
    ledger = SqliteLedger(Path(path), create=False)
    with Server(ledger, port=0, postgres="127.0.0.1:0") as server:
        print(server.url, server.postgres_url, flush=True)
        sys.stdin.read()


def seconds(ask, times):
    """Of each call; the first, which loads, is left out."""
    ask(0)
    found = []
    for number in range(1, times + 1):
        began = time.perf_counter()
        ask(number)
        found.append(time.perf_counter() - began)
    return found


def measure(short):
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "ledger.db")
        ledger = SqliteLedger(Path(path))
        keys = 200_000 if short else 640_000
        fill(ledger, keys)
        ledger.close()
        with subprocess.Popen(
            [sys.executable, __file__, "--serve", path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            url, postgres = process.stdout.readline().split()
            try:
                server, asks = psutil.Process(process.pid), 100 if short else 300
                yield from asked(url, postgres, keys, asks, server)
            finally:
                process.stdin.close()


def processor_seconds(server):
    """Of the server and of the processes that it has started."""
    each = [process.cpu_times() for process in (server, *server.children(recursive=True))]
    return sum(times.user + times.system for times in each)


def asked(url, postgres, keys, asks, server):
    with (
        psycopg.connect(postgres, autocommit=True) as connected,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        connected.execute("SET client_min_messages TO warning")
        cursor = connected.cursor(binary=True)

        def by_http(text, form="application/json"):
            answer = client.post("/query", json={"select": text}, headers={"accept": form})
            answer.raise_for_status()
            return answer

        def small(number):
            return SMALL.replace("FOR ALL", f"FOR ALL WHERE driver >= {number}")

        begun = time.monotonic()
        while time.monotonic() - begun < 10:  # until kernels are loaded
            by_http(small(1_000_000 + int(1e6 * (time.monotonic() - begun))))
            time.sleep(0.5)
        few = Table(
            "few",
            "Ten rows of a statement that nobody has asked before",
            ["client", "p50 ms", "p99 ms", "the server's processor, ms"],
        )
        for name, ask in (
            ("HTTP, JSON", lambda n: by_http(small(n)).json()),
            ("psycopg, binary", lambda n: cursor.execute(small(1000 + n)).fetchall()),
        ):
            before = processor_seconds(server)
            found = seconds(ask, asks)
            spent = (processor_seconds(server) - before) / (asks + 1)
            p50, p99 = statistics.median(found), statistics.quantiles(found, n=100)[98]
            few.rows.append([name, *(digits(1e3 * one) for one in (p50, p99, spent))])
        yield few
        yield timed(
            "many",
            f"{keys:,} rows of three integers",
            {
                "HTTP, Arrow": lambda: rows_of(by_http(f"{LONG} WHERE driver >= {fresh()}", ARROW)),
                "psycopg, binary, to Python's tuples": (
                    lambda: len(cursor.execute(f"{LONG} WHERE driver >= {fresh()}").fetchall())
                ),
                "the same, without Python's objects": (
                    lambda: unread(cursor, f"{LONG} WHERE driver >= {fresh()}")
                ),
            },
            5,
            events=keys,
            unit="ns a row",
            ours=3,
            clock=time.perf_counter,
        )


FRESH = itertools.count(1)


def fresh():
    """A number below all keys that no statement has had."""
    return -next(FRESH)


def rows_of(answer):
    return pa.ipc.open_stream(answer.content).read_all().num_rows


def unread(cursor, text):
    """As many rows as came, of which Python makes no objects."""
    return cursor.execute(text).rowcount


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        main("postgres-wire", measure, ["psycopg", "httpx", "duckdb", "pyarrow"], __doc__)
