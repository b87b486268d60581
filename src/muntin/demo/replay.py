"""Replays events into a folder, from where Spark's file stream takes them: one file a tick."""

import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.arrow import pc

TICK_SECONDS = 0.5
FIRST_SLICES = 4  # enough to see a window close


def slices_of(table: pa.Table, event_seconds_per_tick: float) -> Iterator[pa.Table]:
    """A table in the order of its `time` column, cut into ticks; empty ticks are skipped."""
    times = table["time"].cast(pa.int64())
    tick = max(1, int(event_seconds_per_tick * 1_000_000))
    first = pc.min(times).as_py()
    numbers = pc.divide(pc.subtract(times, first), tick).combine_chunks()
    ends = pc.run_end_encode(numbers).run_ends.to_pylist()
    for start, end in zip([0, *ends], ends, strict=False):
        yield table.slice(start, end - start)


class Replay:
    """Writes one slice a tick until there are no more, in a thread of its own."""

    def __init__(self, slices: Iterator[pa.Table], folder: Path) -> None:
        self._slices = slices
        self._folder = folder
        self._stop = threading.Event()
        self.finished = threading.Event()
        self.started = False
        self.written = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._thread = threading.Thread(target=self._run, name="muntin-replay", daemon=True)

    def write_first(self) -> None:
        """Some slices at once, so that there is something to see as soon as Spark is there."""
        for table in islice(self._slices, FIRST_SLICES):
            self._write(table)

    def start(self) -> None:
        self.started = True
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        for table in self._slices:
            due += TICK_SECONDS
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            self._write(table)
        self.finished.set()

    def _write(self, table: pa.Table) -> None:
        self._put(table, self._folder)
        self.written += 1

    def _put(self, table: pa.Table, folder: Path) -> None:
        """A file appears whole: it is renamed into its place."""
        name = f"part-{self.written:06d}.parquet"
        hidden = folder / f".{name}"
        pq.write_table(table, hidden)
        hidden.rename(folder / name)
