"""Time and memory against growth: of events, keys, indicators, panes, windows, clients, sites.

    python benchmarks/growth.py [--short] [--keep] [--check]

One thread, processor time, but for cores. Each row grows one thing and keeps the others; the slope
is that of the least squares line through the logarithms: 1 is linear, 0 is constant. Events are
made in batches of a million, which are not timed, so that a billion of them need no more memory
than one batch.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from _live_clients import listener
from _record import UNITS, Table, digits, main
from server_load import SUBSCRIBE, pushing_server, started

from muntin.segments import WHOLE, Segment, build, cut, decode, encode, merge
from muntin.segments.building import relabelled
from muntin.segments.quantiles import Quantiles
from muntin.segments.ranked import QuantilesAt
from muntin.segments.sums import Sums
from muntin.summaries import KLL, VectorMatrix
from muntin.topk import compare

BATCH = 1_000_000
KEY_BYTES = 150  # of memory for a key, while its bytes are written


def taken(run: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    made = run()
    return time.process_time() - began, made


def batches(events: int, keys: int, indicators: int = 1) -> Iterator[pa.Table]:
    rng = np.random.default_rng(0)
    for start in range(0, events, BATCH):
        count = min(BATCH, events - start)
        columns = {f"x{i}": rng.integers(0, 1000, count) for i in range(indicators)}
        yield pa.table({"key": rng.integers(0, keys, count), **columns})


def matrix(events: int, keys: int, indicators: int = 1) -> tuple[float, int, int]:
    """Seconds to take the events in and to write the bytes; the bytes; those of memory."""
    names = [f"x{i}" for i in range(indicators)]
    kept, seconds = VectorMatrix(["key"], names), 0.0
    for batch in batches(events, keys, indicators):
        seconds += taken(lambda batch=batch: kept.update(batch))[0]
    memory = kept.nbytes
    more, data = taken(kept.to_bytes)
    return seconds + more, len(data), memory


def sketch(events: int) -> tuple[float, int]:
    kept, seconds = KLL(200), 0.0
    rng = np.random.default_rng(0)
    for start in range(0, events, BATCH):
        values = rng.lognormal(size=min(BATCH, events - start))
        seconds += taken(lambda values=values: kept.update(values))[0]
    return seconds, len(kept.to_bytes())


def panes(count: int, algebra: Any, events: int, keys: int) -> tuple[float, int, list[bytes]]:
    """Events spread over panes and keys: seconds from rows to bytes, and the bytes."""
    rng = np.random.default_rng(0)
    slices = np.sort(rng.integers(0, count, events))
    columns = {
        "key": pa.array(rng.integers(0, keys, events)),
        "x": pa.array(rng.integers(0, 1000, events).astype(float)),
    }

    def run() -> list[bytes]:
        made = build(algebra, slices, [columns["x"]], [("key",)], columns)
        return [encode(piece) for piece in cut(made)]

    seconds, data = taken(run)
    return seconds, sum(map(len, data)), data


def asked(data: list[bytes], algebra: Any) -> float:
    """Seconds from bytes to the medians of all keys over all panes."""

    def run() -> Any:
        parts: list[Segment] = [decode(one) for one in data]
        return algebra.answer(merge(parts, WHOLE).tables[0], QuantilesAt((0.5,)))

    return min(taken(run)[0] for _ in range(3))


def closed(data: list[bytes], windows: int) -> float:
    """Seconds from the panes' bytes to so many windows, all in one merge."""

    def run() -> Any:
        panes = merge([decode(one) for one in data])
        return relabelled(panes, np.asarray(panes.slices) * windows // (panes.slices[-1] + 1))

    return min(taken(run)[0] for _ in range(3))


def pushed(clients: int, seconds: float = 6.0) -> float:
    """Processor seconds of the server for each second of ten messages of 1 kB to each client."""
    server, told = started(pushing_server, 1_000, 10)
    url = told.recv()
    process = psutil.Process(server.pid)
    _, heard = started(listener, url, clients, seconds, 2.0, SUBSCRIBE)
    time.sleep(4.0 + clients / 500)
    before, began = process.cpu_times(), time.monotonic()
    heard.recv()
    after, took = process.cpu_times(), time.monotonic() - began
    server.terminate()
    used = after.user + after.system - before.user - before.system
    return max(used, 0.01) / took  # of which the system tells hundredths


def _fold(events: int) -> None:
    matrix(events, 1_000)


def folded(cores: int, events: int) -> float:
    """Seconds of the clock for as many events in each of so many processes."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(cores) as pool:
        pool.map(_fold, [10_000] * cores, 1)  # compiles
        found = []
        for _ in range(3):
            began = time.perf_counter()
            pool.map(_fold, [events] * cores, 1)
            found.append(time.perf_counter() - began)
    return min(found)


def slope(sizes: list[int], found: list[float]) -> float:
    return round(float(np.polyfit(np.log(sizes), np.log(found), 1)[0]), 2)


def row(what: str, sizes: list[int], found: list[float], unit: str) -> list[Any]:
    """Sizes, and seconds or bytes at each of them in a unit that is read easily."""
    told = [digits(number * UNITS[unit]) for number in found]
    return [f"{what}, {unit}", sizes, told, slope(sizes, found)]


def measure(short: bool) -> Iterable[Table]:
    table = Table(
        "growth",
        "What grows, and what follows",
        ["what grows", "from, to", "what follows", "slope"],
    )
    matrix(10_000, 100)  # compiles
    sketch(2 * BATCH)
    panes(10, Quantiles(), 300_000, 3)
    panes(10, Sums((("x", None),)), 10_000, 10)
    top = 10**7 if short else 10**9
    events = [10**n for n in range(5, 10) if 10**n <= top]
    times = [matrix(n, 1_000)[0] for n in events]
    table.rows.append(row("events, sums of 1,000 keys: time", events, times, "s"))
    found = [sketch(n) for n in events]
    table.rows.append(row("events, quantiles: time", events, [s for s, _ in found], "s"))
    table.rows.append(row("events, quantiles: bytes", events, [b for _, b in found], "MB"))
    keys = [10**n for n in range(3, 6 if short else 9)]
    keys = [n for n in keys if n * KEY_BYTES <= psutil.virtual_memory().available]
    found = [matrix(max(10**6, 2 * n), n) for n in keys]
    per_event = [s / max(10**6, 2 * n) for n, (s, *_) in zip(keys, found, strict=True)]
    table.rows.append(row("keys, sums: bytes", keys, [b for _, b, _ in found], "MB"))
    table.rows.append(row("keys, sums: memory", keys, [m for *_, m in found], "MB"))
    table.rows.append(row("keys, sums: time an event", keys, per_event, "ns"))
    many = [1, 2, 4, 8, 16] if short else [1, 2, 4, 8, 16, 32, 64]
    times = [matrix(10**6, 1_000, n)[0] for n in many]
    table.rows.append(row("indicators: time", many, times, "s"))
    both = [10**n for n in range(3, 5 if short else 8)]
    found = [matrix(max(10**6, n // 5), n // 10, 10) for n in both]
    table.rows.append(row("keys x indicators, sums: bytes", both, [b for _, b, _ in found], "MB"))
    table.rows.append(row("keys x indicators, sums: memory", both, [m for *_, m in found], "MB"))
    count = 10**6 if short else 3 * 10**6
    sizes = [10**n for n in range(1, 5 if short else 7)]
    for name, algebra, by in (("sums", Sums((("x", None),)), 100), ("quantiles", Quantiles(), 3)):
        built = [panes(n, algebra, count, by) for n in sizes]
        what = f"panes of {count:,} events, {name} of {by} keys"
        table.rows.append(row(f"{what}: time", sizes, [s for s, _, _ in built], "s"))
        table.rows.append(row(f"{what}: bytes", sizes, [float(b) for _, b, _ in built], "MB"))
        if name == "quantiles":
            times = [asked(data, algebra) for _, _, data in built]
            table.rows.append(row("panes asked at once, quantiles of 3 keys", sizes, times, "s"))
        else:
            many = [n for n in sizes if n <= 10_000]
            times = [closed(built[sizes.index(10_000)][2], n) for n in many]
            what = "windows closed of 10,000 panes, sums of 100 keys"
            table.rows.append(row(what, many, times, "s"))
    clients = [10, 100] if short else [10, 100, 1_000]
    times = [pushed(n) for n in clients]
    table.rows.append(row("subscribers: the server's processor, a second", clients, times, "s"))
    sites = [8, 16] if short else [8, 16, 32]
    found = [compare("zipf", policies=["resolution"], runs=2, sites=n) for n in sites]
    sent = [one["resolution"]["bytes"] for one in found]
    table.rows.append(row("sites: bytes of 100 windows of the top 10", sites, sent, "MB"))
    cores = [2**n for n in range((os.cpu_count() or 1).bit_length())]
    times = [folded(n, 3 * 10**6 if short else 10**7) / n for n in cores]
    table.rows.append(row("cores, a process each: seconds of an equal part", cores, times, "s"))
    yield table


if __name__ == "__main__":
    main("growth", measure, ["numpy", "numba", "pyarrow"], __doc__)
