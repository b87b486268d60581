"""Nine deciles of 20 million doubles in real Spark: Muntin beside Spark's own aggregates, in turn.

    python benchmarks/spark_quantiles.py [--values 20000000] [--repeats 5]

Each run reads Parquet, builds the sketch and answers nine deciles. Spark reads the one column;
Muntin also reads the times of the events, by which it cuts panes. Then the second question: other
quantiles or ranks of what is held already, which Spark's aggregates without a stored sketch must
build anew. No text is asked twice, so that nothing can come from an answer that was kept.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _timing import in_turn, report

import muntin
from muntin.ledger.temporary import temporary
from muntin.session import Session
from muntin.spark.session import session

DECILES = tuple(n / 10 for n in range(1, 10))
START_US = 1_767_225_600_000_000
HOUR_US = 3_600_000_000
ROW_GROUP = 1_000_000
K = 200
PIPELINE: dict[str, Any] = {
    "name": "doubles",
    "time": "time",
    "pane": "10 minutes",
    "rollups": [],
    "summaries": {"values": {"kind": "quantiles", "value": "value", "k": K}},
}
ASKED = f"SELECT q, value, lower, upper FROM quantiles(values, {', '.join(map(str, DECILES))})"


def write(path: Path, values: int) -> np.ndarray:
    """Lognormal values over one hour, in order of time; returns them sorted."""
    rng = np.random.default_rng(0)
    drawn = rng.lognormal(size=values)
    times = START_US + np.arange(values) * HOUR_US // values
    table = pa.table(
        {"time": pa.array(times).cast(pa.timestamp("us", "UTC")), "value": pa.array(drawn)}
    )
    pq.write_table(table, path, row_group_size=ROW_GROUP)
    drawn.sort()
    return drawn


def second_questions() -> Iterator[str]:
    """Nine quantiles, then nine ranks, and so on; no two texts are the same."""
    rng = np.random.default_rng(1)
    while True:
        quantiles = ", ".join(f"{q:.6f}" for q in np.sort(rng.uniform(0.01, 0.99, 9)))
        yield f"SELECT q, value, lower, upper FROM quantiles(values, {quantiles})"
        values = ", ".join(f"{x:.6f}" for x in np.sort(rng.lognormal(size=9)))
        yield f"SELECT x, rank, lower, upper FROM ranks(values, {values})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    spark = session("benchmark", {"spark.master": "local[2,4]", "spark.driver.memory": "4g"})
    path = Path(tempfile.mkdtemp()) / "doubles.parquet"
    ordered = write(path, asked.values)
    spark.read.parquet(str(path)).createOrReplaceTempView("doubles")
    fractions = ", ".join(f"{q}D" for q in DECILES)
    answers: dict[str, list[float]] = {}
    held: list[Session] = []

    def muntin_on() -> None:
        opened = muntin.summarize(str(path), PIPELINE, ledger=temporary(), progress=False)
        answers["Muntin"] = opened.sql(ASKED).to_arrow()["value"].to_pylist()
        held[:] = [opened]

    def spark_on(name: str, expression: str) -> None:
        answers[name] = spark.sql(f"SELECT {expression} AS found FROM doubles").collect()[0][0]

    kll = f"kll_sketch_get_quantile_double(kll_sketch_agg_double(value, {K}), array({fractions}))"
    approx = f"percentile_approx(value, array({fractions}), 10000)"
    print(f"{asked.values:,} doubles from Parquet: build, and answer nine deciles; local[2]")
    report(
        in_turn(
            {
                "Muntin": muntin_on,
                "Spark kll_sketch_agg_double": lambda: spark_on("Spark kll", kll),
                "Spark percentile_approx": lambda: spark_on("percentile_approx", approx),
                "Spark avg (reading alone)": lambda: spark_on("mean", "array(avg(value))"),
            },
            asked.repeats,
            warm=2,
        ),
        events=asked.values,
        unit="value",
    )
    for name in ("Muntin", "Spark kll", "percentile_approx"):
        ranks = np.searchsorted(ordered, answers[name], "right") / len(ordered)
        rms = 100 * float(np.sqrt(np.mean((ranks - DECILES) ** 2)))
        print(f"  rms rank error, {name:18} {rms:.3f} %")
    questions = second_questions()
    print("the second question: nine quantiles or ranks of what is held, each asked for once")
    ask = {"Muntin": lambda: held[0].sql(next(questions))}
    print("each after a full garbage collection, which leaves nothing in the processor's caches")
    report(in_turn(ask, 300), unit="question")
    print("one after another")
    report(
        in_turn({"Muntin": lambda: [ask["Muntin"]() for _ in range(10)]}, 30),
        events=10,
        unit="question",
    )


if __name__ == "__main__":
    main()
