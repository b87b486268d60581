"""Flights at several sites: each a process with its own Spark, ledger and monitor.

A site is an airport where there are three of them, else a share of the carriers.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import yaml

from muntin.arrow import pc
from muntin.demo.replay import Replay
from muntin.errors import SourceError
from muntin.spark.settings import SHORT_RUN
from muntin.times import DAY_US, duration_us

AIRPORTS = 3
SPEED = "2 hours"  # of event time a second
UNIT, WINDOW = "1 hour", "7 days"
HEAD_US = 8 * DAY_US  # given at once, so that the first window is whole
PATIENCE_SECONDS, RETRY_SECONDS = 30.0, 1.0  # all sites share one machine, and so do their batches
HEARTBEAT = 24  # units, 12 seconds at this speed
GATHER_SECONDS = 600.0  # nothing moves before all sites are there, so one survey is enough
K = 10
STOP_SECONDS = 30.0
_MAIN = (
    "from muntin.demo.sites import end_with_parent; end_with_parent(); "
    "from muntin.cli import main; main()"
)
RANKING = {"summary": "flights", "key": "dest", "window": WINDOW, "unit": UNIT}
SPARK = SHORT_RUN | {
    "spark.master": "local[1,4]",
    "spark.driver.memory": "768m",
    "spark.sql.shuffle.partitions": "1",
}


def at_sites(flights: pa.Table, sites: int) -> tuple[pa.Table, list[str]]:
    """Flights with a column `site`, and the sites' names. Three sites are the airports; any other
    number share the carriers, the largest first."""
    if sites == AIRPORTS:
        column = pc.utf8_lower(flights["origin"])
        names = sorted(pc.unique(column).to_pylist())
    else:
        counts = pc.value_counts(flights["carrier"]).to_pylist()
        carriers = [one["values"] for one in sorted(counts, key=lambda one: -one["counts"])]
        names = [f"site-{number + 1}" for number in range(sites)]
        dealt = pa.array([names[at % sites] for at in range(len(carriers))])
        column = dealt.take(pc.index_in(flights["carrier"], pa.array(carriers)).combine_chunks())
    return flights.append_column("site", column), names


def coordinator_entries(names: list[str], folder: Path, port: int, speed: float) -> dict[str, Any]:
    """What the coordinator's file says; `speed` is event time per clock time."""
    units_a_second = speed / (duration_us(UNIT) / 1e6)
    patience = max(18.0, PATIENCE_SECONDS * units_a_second)
    return {
        "sites": names,
        **RANKING,
        "k": K,
        "hybrid": "none",  # the first days would empty the budget, and hide what comes after
        "speed": speed,
        "state": str(folder / "coordinator.state"),
        "port": port,
        "retry": max(2.0, RETRY_SECONDS * units_a_second),
        "missing_after": patience,
        "lease": patience,
        "gather": GATHER_SECONDS * units_a_second,
    }


def site_entries(name: str, address: str, folder: Path, speed: float) -> dict[str, Any]:
    """What a site's pipeline file says."""
    return {
        "name": "flights",
        "source": {"format": "parquet", "path": str(folder / "events" / name)},
        "time": "time",
        "pane": "1 hour",
        "lateness": "1 hour",
        "trigger": "0 seconds",
        "ledger": f"sqlite:///{folder}/{name}.db",
        "spark": SPARK,
        "summaries": {"flights": {"keys": ["dest", "carrier"]}},
        "sites": {
            "coordinator": address,
            "site": name,
            "speed": speed,
            "heartbeat": HEARTBEAT,
            **RANKING,
        },
    }


class SplitReplay(Replay):
    """Replays each slice to all sites at once: a folder below `folder` for each."""

    def __init__(self, slices: Iterator[pa.Table], folder: Path, names: list[str]) -> None:
        super().__init__(slices, folder)
        self._sites = names
        for name in names:
            (folder / name).mkdir(exist_ok=True)

    def write_first(self) -> None:
        """The first days as one file for each site: it connects when it has sealed a unit."""
        first = [next(self._slices)]
        end = pc.min(first[0]["time"].cast(pa.int64())).as_py() + HEAD_US
        while pc.max(first[-1]["time"].cast(pa.int64())).as_py() < end:
            first.append(next(self._slices))
        self._write(pa.concat_tables(first))

    def _write(self, table: pa.Table) -> None:
        for name in self._sites:
            part = table.filter(pc.equal(table["site"], name)).drop_columns("site")
            if part.num_rows:
                self._put(part, self._folder / name)
        self.written += 1


class SiteProcesses:
    """A `muntin run` for each site, in a session of its own: a Ctrl-C here is passed on in order.

    They end when this process does, even if it is killed. `files`: site -> what its pipeline file
    says. Files and logs go to `folder`.
    """

    def __init__(self, files: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for name, entries in files.items():
            file = folder / f"{name}.yaml"
            file.write_text(yaml.safe_dump(dict(entries), sort_keys=False), "utf-8")
            with (folder / f"{name}.log").open("wb") as log:
                self._running[name] = start(["-c", _MAIN, "run", str(file), "--no-live"], log)

    def check(self) -> None:
        """Raises SourceError: a site has ended by itself."""
        for name, process in self._running.items():
            if process.poll() is not None:
                log = self._folder / f"{name}.log"
                last = log.read_text("utf-8", "replace").strip().splitlines()[-1:]
                raise SourceError(f"site {name} has ended: {' '.join(last)[:300]}; see {log}")

    def stop(self) -> None:
        """All sites end after the batch at hand; what does not in time, at once."""
        for process in self._running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            with contextlib.suppress(ProcessLookupError):  # and whatever it has left behind
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def start(arguments: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """This Python with other arguments, in a session of its own: a Ctrl-C here does not reach it.

    Its standard input is a pipe that this process holds: it ends when this process does, be it by
    kill -9, and `end_with_parent` notices.
    """
    return subprocess.Popen(  # noqa: S603 (this Python)
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def end_with_parent() -> None:
    """In the process started: end, with all that it has started, once its parent has gone. First as
    on Ctrl-C; whatever is left after `STOP_SECONDS`, at once."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(STOP_SECONDS)
        os.killpg(os.getpid(), signal.SIGKILL)

    # a script that starts its parent with & has both ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=wait, name="muntin-parent", daemon=True).start()
