"""Real streams through real Spark: Muntin beside Spark's own statement of the same groups.

    python benchmarks/spark_streams.py [--rows 3000000] [--data flights|taxi|views|sensors]
        [--pane hour|minute] [--repeats 3] [--only text] [--sketches] [--rollups] [--stream]
        [--keep | --check]

From Parquet, `local[2]`, each kind with and without `by`: `muntin.summarize` into an SQLite ledger,
and Spark's group-by of the same panes and keys, written as Parquet: `answers` as they are asked
(sums, approx_percentile, approx_count_distinct, counts), and `--sketches` that could be merged,
where Spark has them (kll_sketch_agg, hll_sketch_agg, count_min_sketch). Runs are taken in turn:
best and median seconds, of the clock and of the processor (this process, Java, Python workers),
the bytes of both, and the peaks of memory. Ledgers have panes alone, as Spark's answers;
`--rollups`: against ledgers with rollups, as they have by default, in place of Spark.
`--stream`: the same file as a stream, `once`, against `summarize`, and a stream of Spark's over it
that does nothing. `--keep`: as a table of
benchmarks/results/. `--check`: fail where a ratio fell below what is kept there.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from _record import Table, check, keep, ratios
from _spark import measured, removed, repeated_flights, written

import muntin
from muntin.demo.taxi import INDICATORS, KEYS, orders
from muntin.spark.checkpoint import for_local_files, make_folders
from muntin.spark.session import session

ANSWERS, SKETCHES, MUNTIN, NOTHING = "answers", "sketches", "muntin", "nothing"
ROLLUPS = "rollups"


class Data:
    """A stream in a Parquet file, and the names that summaries take from it."""

    def __init__(
        self, table: pa.Table, keys: Sequence[Any], sums: Sequence[str], value: str, **names: str
    ) -> None:
        self.table, self.keys, self.sums, self.value = table, keys, sums, value
        self.item, self.by, self.few = names["item"], names["by"], names["few"]
        # A sketch rejects what is below 0.
        self.counts = [name for name in sums if pc.min(table[name]).as_py() >= 0]


def flights_of_years(rows: int) -> Data:
    keys = ["origin", "dest", ["dest", "carrier"]]
    sums = ["flown", "cancelled", "dep_delay", "distance"]
    names = {"item": "tailnum", "by": "dest", "few": "origin"}
    return Data(repeated_flights(rows), keys, sums, "dep_delay", **names)


def taxi_orders(rows: int) -> Data:
    """As many orders as make ten hours."""
    table = pa.Table.from_batches([orders(rows, per_second=rows / 36_000)])
    keys = [list(key) if isinstance(key, tuple) else key for key in KEYS]
    return Data(table, keys, list(INDICATORS), "fare", item="driver", by="area", few="car_class")


def page_views(rows: int) -> Data:
    """A week of 400,000 users, of whom some come much more often than others: most come once in
    the hour, so that there are nearly as many groups as rows."""
    rng = np.random.default_rng(1)
    week, users, pages = 7 * 86_400_000_000, 400_000, 50_000
    user = rng.permutation(users)[(users * rng.random(rows) ** 2).astype(np.int64)]
    table = pa.table(
        {
            "time": pa.array(
                1_793_491_200_000_000 + np.sort(rng.integers(0, week, rows)),
                pa.timestamp("us", "UTC"),
            ),
            "user": user,
            "page": np.char.add("/p/", (rng.zipf(1.5, rows) % pages).astype(str)),
            "country": np.char.add("C", rng.integers(0, 60, rows).astype(str)),
            "ms": pa.array(
                rng.lognormal(5, 1, rows).astype(np.int64), mask=rng.random(rows) < 0.02
            ),
            "sent": rng.integers(500, 90_000, rows),
        }
    )
    keys = ["country", "user", ["country", "page"]]
    names = {"item": "page", "by": "user", "few": "country"}
    return Data(table, keys, ["ms", "sent"], "ms", **names)


def sensor_readings(rows: int) -> Data:
    """10,000 sensors of 200 sites, a reading each ten seconds: all keys in each pane, few times,
    and floating-point values."""
    rng = np.random.default_rng(2)
    sensors, every = 10_000, 10_000_000
    number = np.arange(rows)
    sensor = number % sensors
    jitter = rng.integers(0, every // sensors, rows)
    base = 15 + 10 * rng.random(sensors)
    table = pa.table(
        {
            "time": pa.array(
                1_793_491_200_000_000 + number * (every // sensors) + jitter,
                pa.timestamp("us", "UTC"),
            ),
            "sensor": np.char.add("s-", np.char.zfill(sensor.astype(str), 5)),
            "site": np.char.add("site-", (sensor % 200).astype(str)),
            "model": np.char.add("M", (sensor % 7).astype(str)),
            "temperature": pa.array(
                np.round(base[sensor] + rng.normal(0, 0.5, rows), 2), mask=rng.random(rows) < 0.01
            ),
            "vibration": rng.lognormal(0, 1, rows),
        }
    )
    keys = ["site", "sensor", ["site", "model"]]
    names = {"item": "sensor", "by": "sensor", "few": "site"}
    return Data(table, keys, ["temperature", "vibration"], "temperature", **names)


STREAMS = {
    "flights": flights_of_years,
    "taxi": taxi_orders,
    "views": page_views,
    "sensors": sensor_readings,
}


class Case:
    """One summary, and the same groups by Spark."""

    def __init__(self, name: str, entry: Mapping[str, Any], spark: Mapping[str, str]) -> None:
        self.name, self.entry, self.spark = name, entry, spark


def cases(data: Data) -> list[Case]:
    item, by, few, value = data.item, data.by, data.few, data.value
    sums, counts = (
        ", ".join(f"sum({name}) AS {name}" for name in names) for names in (data.sums, data.counts)
    )
    third = f"approx_percentile({value}, array(0.1, 0.5, 0.9))"

    def grouped(what: str, *names: str) -> str:
        shown = ", ".join(("pane", *names))
        return f"SELECT {shown}, count(*) AS n, {what} FROM panes GROUP BY {shown}"

    def counted(*names: str) -> str:
        shown = ", ".join(("pane", *names))
        return f"SELECT {shown}, count(*) AS n FROM panes GROUP BY {shown}"

    def sets(keys: Sequence[Any]) -> str:
        each = [key if isinstance(key, list) else [key] for key in keys]
        shown = ", ".join(dict.fromkeys(name for key in each for name in key))
        groups = ", ".join(f"(pane, {', '.join(key)})" for key in each)
        return (
            f"SELECT pane, {shown}, count(*) AS n, {sums} FROM panes "
            f"GROUP BY GROUPING SETS ({groups})"
        )

    def of(kind: str, **more: Any) -> dict[str, Any]:
        return {"kind": kind, **more}

    def matrix(*keys: Any, indicators: Sequence[str] = data.sums, **more: Any) -> dict[str, Any]:
        return of("vector_matrix", keys=list(keys), indicators=list(indicators), **more)

    number = "double" if pa.types.is_floating(data.table[value].type) else "bigint"
    kll = f"kll_sketch_agg_{number}({value}, 200) AS sketch"
    hll = f"hll_sketch_agg({item}, 12) AS sketch"
    cells = f"count_min_sketch({item}, 0.00133D, 0.99D, 1) AS sketch"
    distinct = f"approx_count_distinct({item}, 0.016) AS items"
    many = {"limit": 1_000_000}
    return [
        Case(f"sums by {by}", matrix(by), {ANSWERS: grouped(sums, by)}),
        Case(f"sums of {len(data.keys)} keys", matrix(*data.keys), {ANSWERS: sets(data.keys)}),
        Case(
            f"sketched sums by {item}", matrix(item, indicators=data.counts, sketch={}),
            {ANSWERS: grouped(counts, item)},
        ),
        Case(
            "quantiles", of("quantiles", value=value),
            {ANSWERS: grouped(third), SKETCHES: grouped(kll)},
        ),
        Case(
            f"quantiles by {by}", of("quantiles", value=value, by=by, **many),
            {ANSWERS: grouped(third, by), SKETCHES: grouped(kll, by)},
        ),
        Case(
            f"distinct {item}", of("distinct", item=item),
            {ANSWERS: grouped(distinct), SKETCHES: grouped(hll)},
        ),
        Case(
            f"distinct {item} by {by}", of("distinct", item=item, by=by, **many),
            {ANSWERS: grouped(distinct, by), SKETCHES: grouped(hll, by)},
        ),
        Case(f"top_k of {by}", of("top_k", item=by), {ANSWERS: counted(by)}),
        Case(
            f"top_k of {by} by {few}", of("top_k", item=by, by=few, **many),
            {ANSWERS: counted(few, by)},
        ),
        Case(
            f"frequency of {item}", of("frequency", item=item),
            {ANSWERS: counted(item), SKETCHES: grouped(cells)},
        ),
        Case(
            f"frequency of {item} by {few}", of("frequency", item=item, by=few, **many),
            {ANSWERS: counted(few, item)},
        ),
        Case(f"fingerprint of {item}", of("fingerprint", key=item), {ANSWERS: counted(item)}),
        Case(
            f"{item}, ranks of {value}", of("fingerprint", key=item, rank=value),
            {ANSWERS: counted(item)},
        ),
    ]  # fmt: skip


class Bench:
    """Spark, the file, and a folder for what is made."""

    def __init__(self, data: Data, pane: str, folder: Path, settings: Mapping[str, str]) -> None:
        self.pane, self.folder = pane, folder
        self.spark = session("benchmark", {"spark.master": "local[2,4]", **settings})
        self.file = folder / "rows" / "rows.parquet"
        self.file.parent.mkdir()
        pq.write_table(data.table, self.file, row_group_size=250_000)
        source = self.spark.read.parquet(str(self.file))
        self.schema = source.schema
        source.createOrReplaceTempView("source")
        self.spark.sql(
            f"SELECT *, date_trunc('{pane}', time) AS pane FROM source"
        ).createOrReplaceTempView("panes")
        self._number = 0

    def spec(self, case: Case, rollups: bool) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "name": "bench", "time": "time", "pane": f"1 {self.pane}", "lateness": "1 hour",
            "summaries": {"s": dict(case.entry)},
        }  # fmt: skip
        return spec if rollups else spec | {"rollups": []}

    def ledger(self) -> Path:
        self._number += 1
        return self.folder / f"{self._number}.db"

    def muntin(self, case: Case, rollups: bool) -> int:
        path = self.ledger()
        muntin.summarize(
            str(self.file), self.spec(case, rollups), ledger=str(path), progress=False
        )  # fmt: skip
        return removed(path)

    def stream(self, case: Case, rollups: bool) -> int:
        path = self.ledger()
        source = {"format": "parquet", "path": str(self.file.parent)}
        checkpoint = self.folder / f"checkpoint-{self._number}"
        spec = self.spec(case, rollups) | {"source": source}
        running = muntin.stream(None, spec, checkpoint=str(checkpoint), ledger=str(path), once=True)
        running.await_termination()
        shutil.rmtree(checkpoint)
        return removed(path)

    def nothing(self) -> int:
        """What Spark takes for a stream over the file that takes in nothing, checkpoint and all."""
        self._number += 1
        checkpoint = str(self.folder / f"checkpoint-{self._number}")
        spark = for_local_files(self.spark, checkpoint)
        make_folders(spark, checkpoint)
        rows = spark.readStream.schema(self.schema).parquet(str(self.file.parent))
        writer = rows.writeStream.foreachBatch(lambda _df, _batch: None)
        writer.option("checkpointLocation", checkpoint).trigger(
            availableNow=True
        ).start().awaitTermination()
        shutil.rmtree(checkpoint)
        return 1

    def by_spark(self, statement: str) -> int:
        return written(self.spark.sql(statement), self.folder / "out")


def shown(taken: Sequence[float]) -> str:
    return f"{min(taken):6.2f} {statistics.median(taken):6.2f}"


def ratio(of: Sequence[float], to: Sequence[float]) -> str:
    """Best over best, median over median."""
    return f"{min(of) / min(to):5.2f} {statistics.median(of) / statistics.median(to):5.2f}"


def measure(bench: Bench, case: Case, options: Any) -> list[Any]:
    """A line for each way: seconds in turn, processor time, bytes and memory; its row of `kept`."""
    runs: dict[str, Callable[[], int]] = {MUNTIN: lambda: bench.muntin(case, False)}
    if options.rollups:
        runs[ROLLUPS] = lambda: bench.muntin(case, True)
    elif options.stream:
        runs |= {"stream": lambda: bench.stream(case, False), NOTHING: bench.nothing}
    else:
        runs |= {
            name: (lambda text=text: bench.by_spark(text))
            for name, text in case.spark.items()
            if options.sketches or name == ANSWERS
        }
    found = measured(runs, options.repeats)
    seconds = {name: one.seconds for name, one in found.items()}
    used = {name: one.processor for name, one in found.items()}
    sizes = {name: one.bytes for name, one in found.items()}
    peaks = {name: one.peaks for name, one in found.items()}
    print(case.name)
    for name, taken in seconds.items():
        memory = peaks[name]
        print(
            f"  {name:14}{shown(taken)}   cpu {shown(used[name])}   "
            f"x {ratio(taken, seconds[MUNTIN])}  {ratio(used[name], used[MUNTIN])}   "
            f"{sizes[name]:>12,} bytes {sizes[MUNTIN] / sizes[name]:5.2f}   MiB driver "
            f"{memory['driver']}, java {memory['java']}, worker {memory['worker']}",
            flush=True,
        )
    row: list[Any] = [case.name, round(statistics.median(used[MUNTIN]), 2)]
    asked = (ANSWERS, SKETCHES) if options.sketches else (ANSWERS,)
    asked = (ROLLUPS,) if options.rollups else ("stream",) if options.stream else asked
    for name in asked:
        if name not in runs:
            row += ["", "", ""]
            continue
        row += [ratios(seconds[MUNTIN], seconds[name]), ratios(used[MUNTIN], used[name])]
        bytes_ = sizes[name] / sizes[MUNTIN] if options.rollups else sizes[MUNTIN] / sizes[name]
        row += [] if options.stream else [round(bytes_, 2)]
    if options.stream:
        row.append(
            round(statistics.median(seconds[NOTHING]) / statistics.median(seconds[MUNTIN]), 2)
        )
    memory = peaks[asked[0] if options.stream or options.rollups else MUNTIN]
    return [*row, f"{memory['driver']}, {memory['worker']}"]


def table_of(options: Any, rows: list[list[Any]]) -> Table:
    """As the pages show it."""
    what = f"{options.data.capitalize()}, {options.rows:,} rows, panes of one {options.pane}"
    memory = "driver's Python, a worker, MiB"
    if options.rollups:
        columns = ["summary", "panes alone, s of the processor", "time", "processor time", "bytes"]
        columns.append(memory)
        title = f"{what}: a ledger with rollups, times one of panes alone"
        name = f"streams-{options.data}-{options.pane}-rollups"
    elif options.stream:
        columns = ["summary", "Muntin, s of the processor", "time", "processor time"]
        columns += ["of it Spark's own stream of nothing", memory]
        title = f"{what}: `run --once`, times as long as `summarize`"
        name = f"streams-{options.data}-{options.pane}-once"
    else:
        columns = ["summary", "Muntin, s of the processor"]
        for name in (ANSWERS, SKETCHES) if options.sketches else (ANSWERS,):
            columns += [f"{name}: time", f"{name}: processor time", f"ledger / {name}, bytes"]
        columns.append(memory)
        title = f"{what}: Spark's statements into Parquet, times as long as `summarize`"
        name = f"streams-{options.data}-{options.pane}"
    return Table(name, title, columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--data", choices=[*STREAMS], default="flights")
    parser.add_argument("--pane", choices=("hour", "minute"), default="hour")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--sketches", action="store_true", help="Spark's sketches, too")
    parser.add_argument("--rollups", action="store_true", help="in place of Spark: with rollups")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--heap", default="4g", help="Java's memory")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/")
    parser.add_argument("--check", action="store_true", help="compare with benchmarks/results/")
    options = parser.parse_args()
    warnings.filterwarnings("error", ".*were rejected")  # such rows cost ours less
    data = STREAMS[options.data](options.rows)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"spark.driver.memory": options.heap}
        bench = Bench(data, options.pane, Path(folder), settings)
        print(
            f"{options.data}, {options.rows:,} rows, panes of one {options.pane}, local[2], "
            f"{time.strftime('%Y-%m-%d')}\n"
            "seconds (best, median), of the processor; x Muntin's, of both (best, median); bytes, "
            "Muntin's / these; memory at most"
        )
        data.table = data.table.schema.empty_table()
        rows = []
        for case in cases(data):
            if options.only in case.name:
                rows.append(measure(bench, case, options))
                if options.keep:
                    table = table_of(options, rows)
                    keep(table.name, [table], ["pyspark", "numpy", "numba", "pyarrow"])
        bench.spark.stop()
    if options.check:
        table = table_of(options, rows)
        check(table.name, [table], "whole")


if __name__ == "__main__":
    main()
