"""Muntin: windowed summaries of a stream on PySpark.

import muntin

with muntin.summarize(df, "pipeline.yaml") as session:     # a DataFrame, once
    print(session.sql("SELECT origin, count FROM flights(origin) ORDER BY count DESC"))

stream = muntin.stream(df, "pipeline.yaml")                 # a streaming DataFrame
session = muntin.open("sqlite:///flights.db")               # what either has written

All that goes wrong on purpose is a `muntin.MuntinError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.lazy import lazy

if TYPE_CHECKING:
    from muntin.client import Client as Client
    from muntin.client import connect as connect
    from muntin.errors import MuntinError as MuntinError
    from muntin.select.result import Result as Result
    from muntin.session import Session as Session
    from muntin.session import open as open  # noqa: A004
    from muntin.spark.batch import summarize as summarize
    from muntin.spark.session import register as register
    from muntin.spark.shipping import ship as ship
    from muntin.spark.start_stream import stream as stream
    from muntin.spark.stream import Stream as Stream
    from muntin.spec import Pipeline as Pipeline

__version__ = "0.1.0"

# Imported when first asked for: `import muntin` costs nothing, whatever is used of it.
_MODULE_OF = {
    "Client": "muntin.client",
    "MuntinError": "muntin.errors",
    "Pipeline": "muntin.spec",
    "Result": "muntin.select.result",
    "Session": "muntin.session",
    "Stream": "muntin.spark.stream",
    "connect": "muntin.client",
    "open": "muntin.session",
    "register": "muntin.spark.session",
    "ship": "muntin.spark.shipping",
    "stream": "muntin.spark.start_stream",
    "summarize": "muntin.spark.batch",
}
__all__ = [*_MODULE_OF, "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]

if not TYPE_CHECKING:  # else a misspelt name would be of any type
    __getattr__ = lazy(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return sorted(__all__)
