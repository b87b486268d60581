"""What benchmarks beside Spark share: flights of years, and runs with all their processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pyarrow as pa
from _timing import in_turn

from muntin.demo.flights import flights

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

YEAR_US = 365 * 24 * 3_600_000_000


class Tree:
    """This process and all that it has started: Java, and Spark's Python workers."""

    def __init__(self) -> None:
        self._me = psutil.Process()

    def processes(self) -> list[psutil.Process]:
        return [self._me, *self._me.children(recursive=True)]

    def seconds(self) -> float:
        """Processor time so far, those that have ended included."""
        taken = 0.0
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):  # its parent's time counts it by now
                taken += sum(process.cpu_times()[:4])
        return taken

    def forget(self) -> None:
        """Peaks of memory begin anew (Linux)."""
        for process in self.processes():
            with suppress(FileNotFoundError, ProcessLookupError):  # a worker that has just ended
                Path(f"/proc/{process.pid}/clear_refs").write_text("5")

    def peaks(self) -> dict[str, int]:
        """MiB of memory at most: the driver's Python, Java, and the largest worker."""
        found = {"driver": 0, "java": 0, "worker": 0}
        for process in self.processes():
            try:
                lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            except FileNotFoundError:  # a worker that has just ended
                continue
            told = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
            kib = max(told, default=0)  # one that has just ended tells none
            named = "java" if "java" in process.name() else "worker"
            named = "driver" if process == self._me else named
            found[named] = max(found[named], kib >> 10)
        return found


@dataclass
class Measured:
    """Runs of one thing: seconds of the clock and of the processor; bytes and MiB of the last."""

    seconds: list[float]
    processor: list[float]
    bytes: int
    peaks: dict[str, int]


def measured(runs: Mapping[str, Callable[[], int]], repeats: int) -> dict[str, Measured]:
    """Each in turn, `repeats` times after one that gets warm; a run tells the bytes it made."""
    tree = Tree()
    found = {name: Measured([], [], 0, {}) for name in runs}

    def counted(name: str) -> Callable[[], None]:
        def run() -> None:
            tree.forget()
            began = tree.seconds()
            found[name].bytes = runs[name]()
            spent = tree.seconds() - began
            # a worker that ended on its own took along what it had used before
            found[name].processor.append(spent if spent > 0 else math.nan)
            found[name].peaks = tree.peaks()

        return run

    for name, taken in in_turn({name: counted(name) for name in runs}, repeats).items():
        found[name].seconds = taken
        found[name].processor = found[name].processor[1:]  # the first was to get warm
    return found


def repeated_flights(rows: int) -> pa.Table:
    """The flights of 2013, year after year, in order of time."""
    once = flights()
    times = once["time"].cast(pa.int64()).to_numpy()
    years = range(-(-rows // once.num_rows))
    table = pa.concat_tables([once] * len(years)).slice(0, rows)
    moved = np.concatenate([times - YEAR_US * year for year in reversed(years)])[:rows]
    return at_times(table, moved)


def at_times(table: pa.Table, micros: np.ndarray) -> pa.Table:
    """The same rows at other times."""
    at = pa.array(micros).cast(pa.timestamp("us", "UTC"))
    return table.set_column(table.schema.get_field_index("time"), "time", at)


def written(data: DataFrame, out: Path) -> int:
    """Bytes of a DataFrame as Parquet."""
    data.write.mode("overwrite").parquet(str(out))
    return sum(file.stat().st_size for file in out.glob("*.parquet"))


def size_of(ledger: Path) -> int:
    return sum(file.stat().st_size for file in ledger.parent.glob(f"{ledger.name}*"))


def removed(ledger: Path) -> int:
    """Bytes of a ledger's files, which go."""
    size = size_of(ledger)
    for file in ledger.parent.glob(f"{ledger.name}*"):
        file.unlink()
    return size
