"""Taxi orders, generated: the stream of the vector matrix's paper, from a seed."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument

KEYS: tuple[str | tuple[str, str], ...] = (
    "driver",
    "area",
    ("driver", "area"),
    "car_class",
    "car_number",
    ("driver", "car_number"),
)
INDICATORS = ("served", "cancelled", "delivery_time", "distance", "fare", "tip", "rating")
SCHEMA = ", ".join(
    [
        "time timestamp",
        *(f"{key} string" for key in KEYS if isinstance(key, str)),
        *(f"{indicator} bigint" for indicator in INDICATORS),
    ]
)
"""Of `orders`, as Spark writes it."""
AREAS = 300
_AREAS_OF_A_DRIVER = 8
_CLASSES = ("economy", "comfort", "business", "van", "electric")
_PLATE_LETTERS = np.frombuffer(b"ABCEHKMOPTXY", np.uint8)
_START_US = 1_767_225_600_000_000  # 2026-01-01

PIPELINE: dict[str, Any] = {
    "name": "taxi",
    "time": "time",
    "pane": "10 seconds",
    "lateness": "10 seconds",
    "trigger": "1 second",
    "summaries": {
        "orders": {
            "kind": "vector_matrix",
            "keys": [list(key) if isinstance(key, tuple) else key for key in KEYS],
            "indicators": list(INDICATORS),
            "capacity": 100_000,
            "window": {"kind": "floating", "length": "2 minutes"},
        }
    },
    "queries": {
        "slowest": {
            "select": (
                "SELECT area, count, cancelled, delivery_time / served AS mean_time "
                "FROM orders(area) WHERE served > 0 ORDER BY mean_time DESC LIMIT 10"
            ),
            "on": "window",
        }
    },
}


def orders(
    n: int,
    drivers: int = 20_000,
    seed: int = 1,
    start_us: int = _START_US,
    per_second: float = 2_000.0,
) -> pa.RecordBatch:
    """Orders in the order of their time.

    Parameters
    ----------
    n : int
        How many.
    drivers : int
        Each has a UUID, one car, and eight neighbouring areas of 300; all equally busy. They
        depend on their number alone, so that batches of other seeds have the same drivers.
    seed : int
        Same arguments, same orders.
    start_us : int
        Time of the first, in microseconds since 1970 UTC.
    per_second : float
        Orders a second of event time.

    Returns
    -------
    pyarrow.RecordBatch
        time (timestamp[us, UTC]); driver, area, car_class, car_number (string); the seven
        `INDICATORS` (int64): served and cancelled 0 or 1, delivery_time 1 ... 100 minutes
        (uniform) and 0 where cancelled, distance in metres, fare and tip in cents, rating 1 ... 5.
    """
    if n < 0 or drivers < 1 or per_second <= 0:
        raise BadArgument(f"orders(n={n}, drivers={drivers}, per_second={per_second})")
    names, areas, classes, plates = _fleet(drivers)
    rng = np.random.default_rng([seed, drivers])
    who = rng.integers(0, drivers, n)
    where = (who * 7 + rng.integers(0, _AREAS_OF_A_DRIVER, n)) % AREAS
    served = (rng.random(n) < 0.93).astype(np.int64)
    minutes = rng.integers(1, 101, n) * served
    distance = (minutes * rng.integers(300, 700, n)).astype(np.int64)
    fare = served * 250 + minutes * 45 + distance // 20
    tip = np.where(rng.random(n) < 0.3, fare // 10, 0)
    rating = np.minimum(5, rng.integers(2, 8, n)) * served
    columns: dict[str, pa.Array] = {
        "time": pa.array(start_us + (np.arange(n) * (1e6 / per_second)).astype(np.int64)).view(
            pa.timestamp("us", "UTC")
        ),
        "driver": names.take(pa.array(who)),
        "area": areas.take(pa.array(where)),
        "car_class": classes.take(pa.array(who % 97 % len(_CLASSES))),
        "car_number": plates.take(pa.array(who)),
    }
    values = (served, 1 - served, minutes, distance, fare, tip, rating)
    for name, numbers in zip(INDICATORS, values, strict=True):
        columns[name] = pa.array(numbers, pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def order_stream(drivers: int, per_second: int, seconds: float) -> Iterator[pa.Table]:
    """Endless orders, one table for each stretch of so many seconds of event time."""
    n = max(1, int(per_second * seconds))
    for tick in count():
        start = _START_US + int(tick * n * 1e6 / per_second)
        yield pa.Table.from_batches([orders(n, drivers, tick, start, per_second)])


@lru_cache(maxsize=2)
def _fleet(drivers: int) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    """Names of drivers, areas and car classes, and number plates."""
    rng = np.random.default_rng(drivers)
    hexadecimal = np.frombuffer(b"0123456789abcdef", np.uint8)
    digits = rng.integers(0, 16, (drivers, 32))
    digits[:, 12] = 4  # the version of a random UUID
    digits[:, 16] = 8 + digits[:, 16] % 4
    names = np.insert(hexadecimal[digits], (8, 12, 16, 20), ord("-"), axis=1)
    car = np.arange(drivers)
    plates = np.empty((drivers, 9), np.uint8)
    for place, size in ((1, 10), (2, 10), (3, 10), (7, 10), (8, 10)):
        plates[:, place] = ord("0") + car % size
        car = car // size
    for place in (0, 4, 5, 6):
        plates[:, place] = _PLATE_LETTERS[car % len(_PLATE_LETTERS)]
        car = car // len(_PLATE_LETTERS)
    areas = pa.array([f"area-{number:03d}" for number in range(AREAS)])
    return _text(names), areas, pa.array(_CLASSES), _text(plates)


def _text(letters: np.ndarray) -> pa.Array:
    """One string a row."""
    return pa.array(letters.view(f"S{letters.shape[1]}").ravel(), pa.string())
