"""The ledger: commit latency, reading the pieces of an hour, polling.

python benchmarks/ledger.py [--repeats 30] [--quick]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from muntin.ledger import Batch, Ledger, Partial, Slices, Writer, open_ledger

PANE = 10_000_000
SPEC = {"pane_us": PANE, "summaries": {"s": {"kind": "vector_matrix"}}}


def measure(run: Callable[[], object], repeats: int) -> list[float]:
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return seconds


def half_noise(size: int) -> bytes:
    """Bytes that compress about two to one, as a matrix of counts does."""
    return b"".join(os.urandom(8) + bytes(8) for _ in range(size // 16))


def of_one_pane(summary: str, pane: int, payload: bytes) -> Partial:
    return Partial(summary, Slices.of([pane], [1]), payload)


def payloads(ledger: Ledger) -> int:
    """Bytes of all pieces of an hour."""
    pieces = ledger.pieces("r", PANE, 0, 360 * PANE)
    return sum(map(len, ledger.payloads([piece.id for piece in pieces]).values()))


class Feed:
    """Commits of `count` partials of `size` bytes, each to the next panes."""

    def __init__(self, writer: Writer, count: int, size: int) -> None:
        self.writer, self.count = writer, count
        self.payload = half_noise(size)

    def __call__(self) -> None:
        newest = self.writer.last_batch("A")
        number = 0 if newest is None else newest + 1
        panes = [(number + index) * PANE for index in range(self.count)]
        partials = [of_one_pane("s", pane, self.payload) for pane in panes]
        self.writer.commit(Batch("A", number, partials, read=self.count, counted=self.count))


def show(name: str, seconds: list[float]) -> None:
    times = sorted(1000 * one for one in seconds)
    p95 = times[int(0.95 * (len(times) - 1))]
    print(
        f"{name:44s} best {times[0]:8.3f}  median {statistics.median(times):8.3f}  "
        f"p95 {p95:8.3f} ms"
    )


def fill(ledger: Ledger, panes: int) -> None:
    spec = {"pane_us": PANE, "summaries": {"r": {}}}
    writer = ledger.open_writer("reading", spec, query_id="A")
    payload = half_noise(4096)
    partials = [of_one_pane("r", number * PANE, payload) for number in range(panes)]
    writer.commit(Batch("A", 0, partials, read=panes, counted=panes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    repeats = 5 if options.quick else options.repeats
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        for url in (
            f"sqlite:///{path}/normal.db",
            f"sqlite:///{path}/full.db?synchronous=full",
            "memory://bench",
        ):
            print(url.replace(str(path), "..."))
            ledger = open_ledger(url)
            writer = ledger.open_writer("p", SPEC, query_id="A")
            for count, size in ((1, 4096), (10, 4096), (100, 4096), (1, 10 << 20)):
                feed = Feed(writer, count, size)
                times = max(3, repeats // 3) if size > 4096 else repeats
                show(f"  commit {count:3d} x {size / 1024:8,.0f} KiB", measure(feed, times))
            fill(ledger, 360)
            show("  read 360 pieces of 4 KiB", measure(lambda: payloads(ledger), repeats))  # noqa: B023
            show("  list 360 pieces", measure(lambda: ledger.pieces("r", PANE), repeats))  # noqa: B023
            show("  version()", measure(ledger.version, 20 * repeats))
            show("  set_status", measure(lambda: writer.set_status({"a": 1}), repeats))  # noqa: B023
            ledger.close()


if __name__ == "__main__":
    main()
