"""Load on the server: push latency, connecting, clients that never read, commit to push, /query.

The server, the pipeline that feeds it and the clients are three processes. Run
`python benchmarks/server_load.py --quick` for seconds, or with a part's name for that part:
push (in turn with a plain `websockets` broadcast), stuck, commit, storm, query.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from pathlib import Path

from _live_clients import listener, masked, percentile, show, storm_clients, upgrade

SUBSCRIBE = '{"type":"subscribe","id":"a","select":"SELECT 1","on":"update"}'


def rss_mb(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise OSError


# The pushing server: a channel that is fed with stamped messages, without a ledger's work.


def pushing_server(pipe, size, hertz, port=0):
    """Serves one feed of messages of `size` bytes, `hertz` a second, stamped with their time."""
    import muntin.server.feeds as feeds_module
    from muntin.ledger.temporary import temporary
    from muntin.server.frames import frame
    from muntin.server.serving import Server

    padding = "x" * max(0, size - 90)

    class Stamped(feeds_module.Feeds):
        async def _checked(self, topic, client):
            return ""

        async def _move(self, feed):
            due = time.monotonic()
            while True:
                due += 1 / hertz
                await asyncio.sleep(max(0, due - time.monotonic()))
                feed.channel.update(
                    frame(
                        {
                            "type": "result",
                            "channel": feed.channel.number,
                            "seq": feed.channel.seq + 1,
                            "at": time.monotonic(),
                            "pad": padding,
                        }
                    )
                )
                self._tell(feed)

    import muntin.server.app as app_module

    app_module.Feeds = Stamped
    with Server(temporary(), port=port) as server:
        pipe.send(server.url)
        while True:
            if pipe.poll(0.2):
                pipe.recv()
                pipe.send(dict(server.app.state.hub.closings))


def broadcasting(pipe, size, hertz):
    """The reference: `websockets.broadcast` to whoever is connected."""
    from websockets.asyncio.server import broadcast, serve

    padding = "x" * max(0, size - 90)

    async def run():
        connected = set()

        async def handle(ws):
            await ws.send('{"type":"subscribed"}')
            connected.add(ws)
            try:
                await ws.wait_closed()
            finally:
                connected.discard(ws)

        async with serve(handle, "127.0.0.1", 0, compression=None, backlog=2048) as server:
            pipe.send(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            due, number = time.monotonic(), 0
            while True:
                due += 1 / hertz
                number += 1
                await asyncio.sleep(max(0, due - time.monotonic()))
                about = {"type": "result", "channel": 1, "seq": number, "at": time.monotonic()}
                text = json.dumps(about | {"pad": padding}, separators=(",", ":"))
                broadcast(connected, text)

    asyncio.run(run())


def started(work, *arguments):
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(there, *arguments), daemon=True
    )
    process.start()
    return process, here


def push(name, work, clients, size, hertz, seconds):
    server, told = started(work, size, hertz)
    url = told.recv()
    time.sleep(1)
    idle = rss_mb(server.pid)
    _, heard = started(listener, url, clients, seconds, 2.0, SUBSCRIBE)
    most = idle
    while not heard.poll(0.5):
        most = max(most, rss_mb(server.pid))
    latencies, gaps, took = heard.recv()
    show(f"{name}, {clients} x {size} B x {hertz}/s", latencies)
    print(
        f"   connected in {took:.1f} s; {gaps} gaps; memory {idle:.0f} MB idle, +{most - idle:.1f}"
    )
    server.terminate()


def stuck(good, bad, size, hertz, seconds):
    """Clients that never read, beside good ones."""
    server, told = started(pushing_server, size, hertz)
    url = told.recv()
    time.sleep(1)
    _, heard = started(listener, url, good, min(20, seconds / 2), 1.0, SUBSCRIBE)
    alone, _, _ = heard.recv()
    show(f"{good} good ones alone, {size} B", alone)
    idle = rss_mb(server.pid)
    host = url.removeprefix("http://")
    address, port = host.split(":")
    sockets = []
    for _ in range(bad):
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect((address, int(port)))
        raw.sendall(upgrade(host))
        raw.recv(512)  # the answer; nothing is read after it
        raw.sendall(masked(SUBSCRIBE))
        sockets.append(raw)
    began = time.monotonic()
    _, heard = started(listener, url, good, seconds, 1.0, SUBSCRIBE)
    most, closed_after = idle, None
    while not heard.poll(0.25):
        most = max(most, rss_mb(server.pid))
        told.send("closings")
        if closed_after is None and told.recv().get(4008, 0) >= bad:
            closed_after = time.monotonic() - began
        elif closed_after is not None:
            told.recv()
    beside, gaps, _ = heard.recv()
    show(f"beside {bad} that never read", beside)
    change = percentile(beside, 0.99) / percentile(alone, 0.99) - 1
    print(
        f"   p99 {change:+.0%}; {gaps} gaps; memory "
        f"+{most - idle:.1f} MB; all closed with 4008 after "
        + ("never" if closed_after is None else f"{closed_after:.1f} s")
    )
    server.terminate()


# A real ledger: from commit to push, and POST /query.


def serving(pipe, url, port=0):
    from muntin.ledger.open import open_ledger
    from muntin.server.serving import Server

    with Server(open_ledger(url), port=port) as server:
        pipe.send(server.url)
        time.sleep(3600)


def pipeline(url, keys):
    from muntin.spec import Pipeline

    return Pipeline.of(
        {
            "name": "orders",
            "time": "time",
            "pane": "1 second",
            "ledger": url,
            "summaries": {
                "orders": {
                    "keys": ["driver", ["driver", "area"]] if keys else ["driver"],
                    "indicators": ["fare", "served"],
                    "window": {"kind": "floating", "length": "10 seconds"},
                }
            },
        }
    )


def rows(at, count, keys):
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(at)
    times = (1_700_000_000 + at) * 1_000_000 + np.sort(random.integers(0, 1_000_000, count))
    ids = np.arange(count) % keys if keys >= count else random.integers(0, keys, count)
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "driver": pa.array(ids).cast(pa.string()),
            "area": pa.array(ids % 300),
            "fare": pa.array(random.integers(1, 1000, count)),
            "served": pa.array(np.ones(count, np.int64)),
        }
    )


def gathered(table):
    from muntin.spark.partials import fold

    return lambda plan: list(fold(plan, table.to_batches()))


def commit(count, drivers):
    """From the commit of a batch to the answer at a client, another process than the server."""
    import muntin
    from muntin.ledger.open import open_ledger
    from muntin.spark.ingest import Ingest

    folder = tempfile.mkdtemp()
    url = f"sqlite:///{folder}/ledger.db"
    ingest = Ingest(pipeline(url, 0), open_ledger(url), query_id="q")
    ingest.take(0, gathered(rows(0, 1000, drivers)))
    process, told = started(serving, url)
    client = muntin.connect(told.recv())
    batches = itertools.count(1)
    for name, statement in (
        ("open window", "SELECT sum(served) AS events FROM orders(driver)"),
        ("all panes so far", "SELECT sum(served) AS events FROM orders(driver) FOR ALL"),
    ):
        updates = client.subscribe(statement, on="update")
        next(updates)
        seconds = []
        for number, batch in enumerate(itertools.islice(batches, count + 3)):
            ingest.take(batch, gathered(rows(batch, 500, drivers)))
            committed = ingest.ledger.pipelines()[0].committed_at
            end = (1_700_000_000 + batch + 1) * 1_000_000
            while (window := next(updates).result.window.covered) is None or window[1] < end:
                pass
            if number >= 3:  # after the first windows have come
                seconds.append(time.time() - committed / 1e6)
            time.sleep(0.15)
        show(f"commit to push, {drivers:,} keys, {name}", seconds)
        updates.close()
    process.terminate()
    ingest.close()


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def storm(clients, away):
    """The server is killed and started anew; windows close before, meanwhile and after."""
    import muntin
    from muntin.ledger.open import open_ledger
    from muntin.spark.ingest import Ingest

    folder = tempfile.mkdtemp()
    url = f"sqlite:///{folder}/ledger.db"
    ingest = Ingest(pipeline(url, 0), open_ledger(url), query_id="q")
    batches = itertools.count()

    def closes(windows):
        for _ in range(windows):  # of 10 s each
            number = next(batches)
            ingest.take(number, gathered(rows(10 * number, 20, 5)))
            time.sleep(0.1)

    closes(3)
    first, told = started(serving, url)
    host, port = told.recv().removeprefix("http://").split(":")
    _, heard = started(storm_clients, host, int(port), clients)
    heard.recv()
    before = {w["start"] for w in muntin.connect(f"http://{host}:{port}").windows()}
    closes(10)
    first.kill()
    first.join()
    closes(5)
    time.sleep(away)
    began = time.monotonic()
    second, told = started(serving, url, int(port))
    told.recv()
    listening = time.monotonic()
    burned = []
    for _ in range(6):  # CPU of each second
        at = cpu_seconds(second.pid)
        time.sleep(1)
        burned.append(cpu_seconds(second.pid) - at)
    closes(10)
    time.sleep(3)
    heard.send("end")
    lists, back, gaps = heard.recv()
    server = muntin.connect(f"http://{host}:{port}")
    expected = [w["start"] for w in server.windows(limit=10_000) if w["start"] not in before]
    wrong = sum(got != expected for got in lists)
    twice = sum(len(got) - len(set(got)) for got in lists)
    show(f"storm: {clients} back after it listens", [b - listening for b in back])
    print(
        f"   started in {listening - began:.1f} s; {len(expected)} windows closed, {wrong} clients "
        f"have not just these in order; {gaps} gaps, {twice} came twice; CPU of the first seconds "
        + " ".join(f"{100 * b:.0f} %" for b in burned)
    )
    second.terminate()
    ingest.close()


def query(keys, clients, repeats):
    """POST /query, the paper's (12), from many threads at once."""
    import threading

    from muntin.ledger.open import open_ledger
    from muntin.spark.ingest import Ingest

    folder = tempfile.mkdtemp()
    url = f"sqlite:///{folder}/ledger.db"
    ingest = Ingest(pipeline(url, 2), open_ledger(url), query_id="q")
    ingest.take(0, gathered(rows(0, keys, keys)))
    ingest.close()
    process, told = started(serving, url)
    server = told.recv()
    text = "SELECT sum X1.Y1 / sum X1.Y2 AS mean FROM vector (1.1), vector (1.2) FOR ALL"

    host = server.removeprefix("http://")

    def ask(connection, statement):
        body = json.dumps({"select": statement})
        begun = time.perf_counter()
        connection.request("POST", "/query", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 200, said
        return time.perf_counter() - begun

    took = ask(http.client.HTTPConnection(host), text)
    print(f"   first, from the ledger: {1000 * took:.0f} ms")
    for name, spelled in (
        ("same statement", lambda n: text),
        ("own statements", lambda n: text.replace(" AS mean", f" + {n} AS mean")),
        (
            "own, every row read",
            lambda n: f"{text} WHERE X1.Y1 >= -{n}",
        ),
    ):
        seconds = []

        def one(client, spelled=spelled, seconds=seconds):
            connection = http.client.HTTPConnection(host)
            for number in range(repeats):
                seconds.append(ask(connection, spelled(client * repeats + number)))

        threads = [threading.Thread(target=one, args=(n,)) for n in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        show(f"query (12), {keys:,} keys, {name}", seconds)
        print(f"   {clients} at once, mean {1000 * statistics.fmean(seconds):.1f} ms")
    process.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", default=["push", "stuck", "commit", "storm", "query"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=60, help="of stuck")
    given = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    quick = given.quick
    if "push" in given.part:
        for _ in range(1 if quick else 2):  # in turn: the machine is not the same all the time
            size = (100 if quick else 1000, 1024, 10, 3 if quick else 15)
            push("muntin", pushing_server, *size)
            push("broadcast", broadcasting, *size)
    if "stuck" in given.part:
        stuck(20, 20, 65_536, 10, 14 if quick else given.seconds)
    if "commit" in given.part:
        commit(20 if quick else 100, 1000)
    if "storm" in given.part:
        storm(100 if quick else 1000, 1)
    if "query" in given.part:
        query(20_000 if quick else 640_000, 20, 5 if quick else 20)


if __name__ == "__main__":
    main()
