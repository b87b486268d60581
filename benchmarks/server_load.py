"""Load on the server: push latency, connecting, clients that never read, commit to push, /query.

    python benchmarks/server_load.py [--short] [--keep] [--check]

The server, the pipeline that feeds it and the clients are three processes.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import multiprocessing
import socket
import tempfile
import time
from pathlib import Path

from _live_clients import listener, masked, percentile, storm_clients, upgrade
from _record import Table, digits, main, ratios

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
    from muntin.server.channel import frame
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


def push(work, clients, size, hertz, seconds):
    """Latencies, seconds to connect all, and MB above what the idle server holds."""
    server, told = started(work, size, hertz)
    url = told.recv()
    time.sleep(1)
    idle = rss_mb(server.pid)
    _, heard = started(listener, url, clients, seconds, 2.0, SUBSCRIBE)
    most = idle
    while not heard.poll(0.5):
        most = max(most, rss_mb(server.pid))
    latencies, gaps, took = heard.recv()
    server.terminate()
    assert not gaps
    return latencies, took, most - idle


def stuck(good, bad, size, hertz, seconds):
    """Clients that never read, beside good ones."""
    server, told = started(pushing_server, size, hertz)
    url = told.recv()
    time.sleep(1)
    _, heard = started(listener, url, good, min(20, seconds / 2), 1.0, SUBSCRIBE)
    alone, _, _ = heard.recv()
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
    server.terminate()
    assert not gaps
    return alone, beside, closed_after, most - idle


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
    updates = client.subscribe("SELECT sum(served) AS events FROM orders(driver)", on="update")
    next(updates)
    seconds = []
    for batch in range(1, count + 4):
        ingest.take(batch, gathered(rows(batch, 500, drivers)))
        committed = ingest.ledger.pipelines()[0].committed_at
        end = (1_700_000_000 + batch + 1) * 1_000_000
        while (window := next(updates).result.window.covered) is None or window[1] < end:
            pass
        if batch > 3:  # after the first windows have come
            seconds.append(time.time() - committed / 1e6)
        time.sleep(0.15)
    updates.close()
    process.terminate()
    ingest.close()
    return seconds


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
    second, told = started(serving, url, int(port))
    told.recv()
    listening = time.monotonic()
    time.sleep(6)
    closes(10)
    time.sleep(3)
    heard.send("end")
    lists, back, gaps = heard.recv()
    server = muntin.connect(f"http://{host}:{port}")
    expected = [w["start"] for w in server.windows(limit=10_000) if w["start"] not in before]
    assert all(got == expected for got in lists)
    assert not gaps
    second.terminate()
    ingest.close()
    return [at - listening for at in back]


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

    ask(http.client.HTTPConnection(host), text)  # from the ledger
    found = {}
    for name, spelled in (
        ("the same statement", lambda n: text),
        ("as many statements", lambda n: text.replace(" AS mean", f" + {n} AS mean")),
        ("as many statements that look at every row", lambda n: f"{text} WHERE X1.Y1 >= -{n}"),
    ):
        seconds = found[name] = []

        def one(client, spelled=spelled, seconds=seconds):
            connection = http.client.HTTPConnection(host)
            for number in range(repeats):
                seconds.append(ask(connection, spelled(client * repeats + number)))

        threads = [threading.Thread(target=one, args=(n,)) for n in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    process.terminate()
    return found


def measure(short):
    table = Table(
        "load",
        "Load on the server, which shares the machine's cores with its clients",
        ["what", "p50 ms", "p99 ms", "broadcast's p50 : ours", "and"],
    )

    def told(what, seconds, beside="", more=""):
        quantiles = [digits(1e3 * percentile(seconds, part)) for part in (0.5, 0.99)]
        table.rows.append([what, *quantiles, beside, more])

    clients, push_seconds = (200, 3) if short else (1_000, 15)
    runs = [
        [push(work, clients, 1_024, 10, push_seconds) for work in (pushing_server, broadcasting)]
        for _ in range(2)  # in turn: the machine is not the same all the time
    ]
    halves = [[percentile(one[0], 0.5) for one in both] for both in zip(*runs, strict=True)]
    ours, theirs = ([s for one in both for s in one[0]] for both in zip(*runs, strict=True))
    took, above = (max(run[0][at] for run in runs) for at in (1, 2))
    what = f"{clients:,} subscribers, 1 KiB, ten a second"
    more = f"{took:.1f} s to connect all, {above:.0f} MB above idle"
    told(what, ours, ratios(*halves), more)
    told("`websockets.broadcast` to as many", theirs)
    alone, beside, closed, above = stuck(20, 20, 65_536, 10, 13 if short else 60)
    told("20 subscribers, 64 KiB, ten a second", alone)
    more = f"these were closed after {closed:.0f} s; {above:.1f} MB" if closed else "not closed"
    told("the same beside 20 that never read", beside, "", more)
    told("from the commit of a batch to the answer at a client", commit(20 if short else 100, 1000))
    back = 100 if short else 1_000
    told(f"{back:,} clients back after kill -9 of the server, none missed a window", storm(back, 1))
    keys = 100_000 if short else 640_000
    for name, seconds in query(keys, 20, 5 if short else 20).items():
        told(f"`POST /query`, the paper's (12), {keys:,} keys, 20 at once: {name}", seconds)
    yield table


if __name__ == "__main__":
    main("server-load", measure, ["duckdb", "pyarrow", "websockets"], __doc__)
