"""Web requests of an hour through Spark, in sketches of a few kilobytes; every answer is checked.

    python examples/sketches.py

Each question is asked of a sketch and, beside it, computed exactly from the generated data: the
exact value lies within the bounds that the answer states.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import muntin
from muntin.spark.session import session

HOUR = 3600
REQUESTS = 60_000
PIPELINE = {
    "name": "requests",
    "time": "time",
    "pane": "10 seconds",
    "summaries": {
        "latency": {
            "kind": "quantiles",
            "value": "ms",
            "window": {"kind": "tumbling", "length": "10 minutes"},
        },
        "latency_by": {"kind": "quantiles", "value": "ms", "by": "region"},
        "pages": {"kind": "top_k", "item": "page", "capacity": 200},
        "traffic": {"kind": "frequency", "item": "page", "weight": "bytes"},
        "visitors": {"kind": "distinct", "item": "visitor", "by": "region"},
        "known": {"kind": "fingerprint", "key": "visitor", "fpp": 0.001},
        "sizes": {"keys": ["page"], "indicators": ["bytes"], "sketch": {"width": 1024}},
    },
    "queries": {"slow": "SELECT value, upper FROM quantiles(latency, 0.99)"},
}


def requests(rng: np.random.Generator) -> pa.Table:
    """Latency rises in the last ten minutes; one in fifty requests has none (it failed)."""
    seconds = np.sort(rng.uniform(0, HOUR, REQUESTS))
    slow = np.where(seconds > HOUR - 600, 3.0, 1.0)
    latency = rng.gamma(2.0, 20.0, REQUESTS) * slow
    return pa.table(
        {
            "time": pa.array(1_767_261_600_000_000 + (seconds * 1e6).astype(np.int64)).cast(
                pa.timestamp("us", "UTC")
            ),
            "region": pa.array(np.array(["eu", "us", "asia"])[rng.integers(0, 3, REQUESTS)]),
            "page": pa.array([f"/{page}" for page in rng.zipf(1.4, REQUESTS) % 5000]),
            "visitor": pa.array([f"v{v}" for v in rng.integers(0, 20_000, REQUESTS)]),
            "ms": pa.array(latency, mask=rng.random(REQUESTS) < 0.02),
            "bytes": pa.array(rng.integers(200, 60_000, REQUESTS)),
        }
    )


def main() -> None:
    spark = session("sketches")
    data = requests(np.random.default_rng(7))
    with muntin.summarize(spark.createDataFrame(data), PIPELINE) as answers:
        ms = np.sort(data["ms"].drop_null().to_numpy())
        print("latency of the hour; exact:", {q: round(at(ms, q), 1) for q in (0.5, 0.99)})
        found = answers.sql("SELECT * FROM quantiles(latency, 0.5, 0.99) FOR ALL")
        print(found)
        print("  bounds:", found.bounds["latency"])
        for q, _, lower, upper, *_ in found.rows:
            if not lower <= at(ms, q) <= upper:  # at confidence 99 %
                print(f"  the quantile {q} was outside its bounds")

        print("\nshare of requests within 100 ms, by region:")
        print(
            answers.sql("SELECT region, x, rank, lower, upper FROM ranks(latency_by, 100) FOR ALL")
        )

        print("\nthe heaviest pages of the last ten minutes, certain bounds:")
        print(answers.sql("SELECT * FROM top_k(pages, 4) FOR LAST '10 minutes'"))

        sent = bytes_of(data, "/1")
        print(f"\nbytes sent for page /1; exact: {sent:,}")
        print(answers.sql("SELECT * FROM frequency(traffic, '/1') FOR ALL"))
        print(answers.sql("SELECT page, bytes, bytes_lower FROM sizes(page) FOR ALL LIMIT 1"))

        print("\nvisitors by region; exact:", visitors(data))
        print(answers.sql("SELECT region, value, lower, upper FROM distinct(visitors) FOR ALL"))

        print("\nwho was there?")
        print(answers.sql("SELECT * FROM contains(known, 'v1', 'v2', 'nobody') FOR ALL"))

        print("\nthe 99th percentile, each ten minutes (a standing query):")
        print(answers.sql("SELECT window_start, value, upper FROM trend(slow)"))
    spark.stop()


def at(ordered: np.ndarray, q: float) -> float:
    """The smallest value that a fraction q does not exceed."""
    return float(ordered[max(int(np.ceil(q * len(ordered))) - 1, 0)])


def bytes_of(data: pa.Table, page: str) -> int:
    there = np.array(data["page"].to_pylist()) == page
    return int(data["bytes"].to_numpy()[there].sum())


def visitors(data: pa.Table) -> dict[str, int]:
    counted = data.group_by("region").aggregate([("visitor", "count_distinct")])
    rows = zip(
        counted["region"].to_pylist(), counted["visitor_count_distinct"].to_pylist(), strict=True
    )
    return dict(sorted(rows))


if __name__ == "__main__":
    main()
