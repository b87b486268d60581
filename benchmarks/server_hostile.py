"""One hostile client of each kind: what others wait for, and what memory the server takes.

The server, a pipeline that closes a window every half second (`--every`), the hostile client and
the two that measure (GET /healthz by a new connection each time; a WebSocket that follows closed
windows) are processes of their own. Before each kind the same is measured without it. Run
`python benchmarks/server_hostile.py --seconds 20 --every 0.5 --keys 20000`, or name kinds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pyarrow as pa
import websockets

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
SPEC = {
    "name": "p",
    "time": "time",
    "pane": "1 s",
    "summaries": {
        "m": {"keys": ["k"], "indicators": ["i"], "window": {"kind": "tumbling", "length": "1 s"}},
        "big": {"keys": ["k2"], "indicators": ["i"]},
    },
}
ARROW = "application/vnd.apache.arrow.stream"
PAIRS = "big(k2) FOR ALL AS a, big(k2) FOR ALL AS b"
LARGE = f"SELECT a.k2, b.k2 AS k3, a.count, a.i, b.i AS j FROM {PAIRS} LIMIT "
HEAVY = f"FROM {PAIRS}, big(k2) FOR ALL AS c WHERE a.k2 < b.k2 AND b.k2 <> c.k2"


def pipeline(url, keys, every, ready):
    """Closes a window every so many seconds of wall clock."""
    from muntin.ledger.open import open_ledger
    from muntin.spark.ingest import Ingest
    from muntin.spec import Pipeline
    from tests.pipeline.support import gather

    ingest = Ingest(Pipeline.of(SPEC), open_ledger(url), query_id="q")

    def batch(number, rows):
        ingest.take(number, gather([pa.table({
            "time": pa.array([START + number * SECOND] * rows, pa.timestamp("us", "UTC")),
            "k": ["a"] * rows,
            "i": list(range(rows)),
            "k2": [f"x{j}" for j in range(rows)],
        })]))  # fmt: skip

    batch(0, keys)
    number = 1
    batch(number, 10)
    ready.set()
    while True:
        time.sleep(every)
        number += 1
        batch(number, 10)


def ask(url, statement, **headers):
    request = urllib.request.Request(
        url + "/query", statement.encode(), {"content-type": "text/plain", **headers}
    )
    with contextlib.suppress(OSError, http.client.HTTPException):
        urllib.request.urlopen(request, timeout=120).read()


def again_and_again(work):
    def looping():
        while True:
            work()
            time.sleep(0.05)

    threading.Thread(target=looping, daemon=True).start()


def followed(url, messages):
    """Subscribe, hear nothing."""

    async def following():
        while True:
            with contextlib.suppress(OSError, websockets.WebSocketException):
                async with websockets.connect("ws" + url[4:] + "/live", max_size=None) as client:
                    for message in messages:
                        await client.send(json.dumps(message))
                    async for _ in client:
                        pass
            await asyncio.sleep(0.5)

    threading.Thread(target=lambda: asyncio.run(following()), daemon=True).start()


def push_bomb(url):
    followed(url, [{"type": "subscribe", "id": "a", "select": f"{LARGE}4800000"}])


def push_bomb_in_limits(url):
    """Few enough for DuckDB's limits, far too many for a push."""
    followed(url, [
        {"type": "subscribe", "id": str(i), "select": f"{LARGE}{500_000 + i}"} for i in range(8)
    ])  # fmt: skip


def json_answers(url):
    columns = ", ".join(f"a.i * {i} + b.i AS x{i}" for i in range(30))
    for number in range(4):
        text = f"SELECT {columns} FROM {PAIRS} LIMIT {100_000 - number}"
        again_and_again(lambda text=text: ask(url, text))


def heavy_feeds(url):
    followed(url, [
        {"type": "subscribe", "id": str(i), "select": f"SELECT count(*) + {i} {HEAVY}"}
        for i in range(8)
    ])  # fmt: skip


def heavy_statements(url):
    for number in range(16):
        again_and_again(lambda number=number: ask(url, f"SELECT count(*) + {number} {HEAVY}"))


def endless(url):
    """DuckDB does not look whether it is interrupted in there."""
    window = "OVER (ORDER BY i ROWS BETWEEN 50000 PRECEDING AND 50000 FOLLOWING)"
    for number in range(2):
        text = f"SELECT max(x) + {number} FROM (SELECT entropy(k2) {window} AS x FROM big(k2)) AS z"
        again_and_again(lambda text=text: ask(url, text))


def unread(url):
    """Answers of tens of megabytes that nobody reads."""
    host, port = url.removeprefix("http://").split(":")

    def one():
        with socket.socket() as made, contextlib.suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            made.connect((host, int(port)))
            body = f"{LARGE}1000000".encode()
            made.sendall(
                f"POST /query HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: text/plain\r\n"
                f"Accept: {ARROW}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            time.sleep(60)

    for _ in range(24):
        again_and_again(one)


def pings(url):
    """As many WebSocket pings as the socket takes."""
    flood(url, b"\x89\x80mask" * 4096)


def fragments(url):
    """A message without an end, of empty fragments."""
    flood(url, b"\x00\x80mask" * 4096, begin=b"\x01\x80mask")


def flood(url, frames, begin=b""):
    host, port = url.removeprefix("http://").split(":")

    def one():
        with socket.create_connection((host, int(port))) as made, contextlib.suppress(OSError):
            made.sendall(
                f"GET /live HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
                + begin
            )
            while True:
                made.sendall(frames)

    for _ in range(4):
        again_and_again(one)


def dripped_bodies(url):
    host, port = url.removeprefix("http://").split(":")

    def one():
        with socket.create_connection((host, int(port))) as made, contextlib.suppress(OSError):
            made.sendall(
                f"POST /query HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: text/plain\r\n"
                "Content-Length: 4000\r\n\r\n".encode()
            )
            for _ in range(4000):
                made.sendall(b"x")
                time.sleep(0.01)

    for _ in range(64):
        again_and_again(one)


KINDS = {
    "push_bomb": push_bomb,
    "push_bomb_in_limits": push_bomb_in_limits,
    "json_answers": json_answers,
    "heavy_feeds": heavy_feeds,
    "heavy_statements": heavy_statements,
    "endless": endless,
    "unread": unread,
    "pings": pings,
    "fragments": fragments,
    "dripped_bodies": dripped_bodies,
}


def hostile(name, url):
    KINDS[name](url)
    time.sleep(3600)


def probe(url, seconds, pipe):
    """Latencies of /healthz, and of closed windows, for some seconds."""
    end = time.monotonic() + seconds
    health, windows = [], []

    async def follow():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async with websockets.connect("ws" + url[4:] + "/live") as client:
                    await client.send('{"type":"subscribe","id":"w","windows":"m"}')
                    async for text in client:
                        message = json.loads(text)
                        if message["type"] == "window":
                            closed = message["window"]["closed_at"].rstrip("Z")
                            since = time.time() - _seconds(closed)
                            windows.append(since)

    def ask_health():
        while time.monotonic() < end:
            began = time.monotonic()
            try:
                urllib.request.urlopen(url + "/healthz", timeout=60).read()
                health.append(time.monotonic() - began)
            except OSError:
                health.append(60.0)
            time.sleep(0.02)

    asking = threading.Thread(target=ask_health)
    asking.start()
    asyncio.run(follow())
    asking.join()
    pipe.send((health, windows))


def _seconds(text):
    import datetime

    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC).timestamp()


def memory_mb(pid):
    """Of a process and of it with all that it has started, without files, in MB."""

    def own(number):
        try:
            _, resident, shared = Path(f"/proc/{number}/statm").read_text().split()[:3]
            return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE") / 1e6
        except OSError:
            return 0.0

    found, front = [pid], [pid]
    while front:
        number = front.pop()
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{number}/task").iterdir():
                children = [int(n) for n in (task / "children").read_text().split()]
                found += children
                front += children
    return own(pid), sum(own(number) for number in found)


def proportional_mb(pid):
    """As `memory_mb`, what processes share counted once (slow to read)."""
    total = 0
    front = [pid]
    while front:
        number = front.pop()
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{number}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss_Anon:"):
                    total += int(line.split()[1]) / 1e3
            for task in Path(f"/proc/{number}/task").iterdir():
                front += [int(n) for n in (task / "children").read_text().split()]
    return total


def measured(context, url, seconds, pid, settle=0.0):
    """Latencies, and the most memory meanwhile."""
    time.sleep(settle)
    ours, theirs = context.Pipe()
    process = context.Process(target=probe, args=(url, seconds, theirs), daemon=True)
    process.start()
    most = [0.0, 0.0]
    while not ours.poll(0.2):
        most = [max(most[0], memory_mb(pid)[0]), max(most[1], proportional_mb(pid))]
    health, windows = ours.recv()
    process.join()
    return health, windows, most


def shown(values):
    if not values:
        return f"{'none':>20}"
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"{statistics.median(ordered):6.3f} {p99:6.3f} {ordered[-1]:6.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--every", type=float, default=0.5)
    parser.add_argument("--keys", type=int, default=20_000)
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/hostile.db"
        ready = context.Event()
        arguments = (url, given.keys, given.every, ready)
        feeding = context.Process(target=pipeline, args=arguments, daemon=True)
        feeding.start()
        ready.wait()
        server = subprocess.Popen(
            [
                str(Path(sys.executable).with_name("muntin")),
                "serve",
                "--port",
                "0",
                "--ledger",
                url,
            ],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        address = server.stdout.readline().decode().split()[-1]
        try:
            time.sleep(15)
            ask(address, "SELECT count(*) FROM big(k2) FOR ALL")
            print(f"{'':22}{'/healthz p50 p99 max, s':>26}{'closed window':>23}{'memory, MB':>20}")
            for name in given.kinds or KINDS:
                idle = measured(context, address, given.seconds / 2, server.pid)
                attacking = context.Process(target=hostile, args=(name, address), daemon=True)
                attacking.start()
                under = measured(context, address, given.seconds, server.pid, settle=3.0)
                attacking.kill()
                attacking.join()
                for label, (health, windows, most) in ((f"before {name}", idle), (name, under)):
                    above = [m - i for m, i in zip(most, idle[2], strict=True)]
                    print(
                        f"{label:28}{shown(health)}   {shown(windows)}   "
                        f"server {above[0]:+6.0f}, all {above[1]:+6.0f}; "
                        f"{len(health)} answers, {len(windows)} windows",
                        flush=True,
                    )
                time.sleep(3)
        finally:
            server.terminate()
            server.wait()
            feeding.kill()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    main()
