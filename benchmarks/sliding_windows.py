"""Quantiles over hours that slide by a minute: Spark's Expand, its two levels, and panes.

    python benchmarks/sliding_windows.py [--short] [--keep] [--check]

The flights of three years in three days, so that a minute holds what six hours did, from Parquet,
`local[2]`, k = 200 throughout:

- Expand: `GROUP BY window(time, '1 hour', '1 minute')` with `kll_sketch_agg_bigint`: each row goes
  to sixty windows, and a sketch of each window is written to Parquet;
- two levels: a sketch of each minute, and `kll_merge_agg_bigint` of the sixty of each window;
- Muntin: panes of a minute, and the same with a sliding window and a standing query, which writes
  the answers of each window.

Then an hour of that grid is asked for its deciles 1, 5 and 9, and 37 minutes that are none of it.
The counts of all answers must be those of the rows, and their ranks are compared with the exact.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _record import Table, digits, main, ratios
from _spark import Measured, at_times, measured, removed, repeated_flights, size_of, written
from _timing import in_turn

import muntin
from muntin.spark.session import session

MINUTE = 60_000_000
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
FASTER = 360  # a minute holds the flights of six hours
HOUR, ODD = 60, 37  # minutes of the windows that are asked
ASKED = (0.1, 0.5, 0.9)
PANES, ANSWERED = "Muntin, panes alone", "Muntin, each window answered"
EXPAND, MINUTES, MERGED = "Spark, Expand", "Spark, minutes alone", "Spark, two levels"

Window = tuple[int, int]
"""Its first minute since START, and how many it has."""
Ask = Callable[[Window], Iterable[Any]]


class Bench:
    """Spark, the rows, and a folder for what is made."""

    def __init__(self, rows: int, folder: Path) -> None:
        self.folder = folder
        settings = {"spark.master": "local[2,4]", "spark.driver.memory": "3g"}
        self.spark = session("benchmark", settings)
        table = repeated_flights(rows)
        times = table["time"].cast(pa.int64()).to_numpy()
        moved = START + (times - times[0]) // FASTER
        self.rows = at_times(table, moved).select(["time", "origin", "dest", "dep_delay"])
        self.minutes = int(moved[-1] - START) // MINUTE + 1
        self.file = folder / "rows.parquet"
        pq.write_table(self.rows, self.file, row_group_size=250_000)
        self.spark.read.parquet(str(self.file)).createOrReplaceTempView("source")

    def builds(self, by: str) -> dict[str, Callable[[], int]]:
        """Each writes what it keeps, and tells its bytes."""
        shown = f"{by}, " if by else ""
        sketch = "kll_sketch_agg_bigint(dep_delay, 200) AS sketch"

        def grouped(window: str) -> str:  # a sketch of no values answers with an error
            return (
                f"SELECT {shown}{window}.start AS start, {sketch} FROM source "
                f"WHERE dep_delay IS NOT NULL GROUP BY {shown}{window}"
            )

        def spark(name: str, statement: str) -> int:
            size = written(self.spark.sql(statement), self.folder / name)
            self.spark.read.parquet(str(self.folder / name)).createOrReplaceTempView(view(name))
            return size

        merged = (
            f"SELECT {shown}start, kll_merge_agg_bigint(sketch) AS sketch FROM (SELECT {shown}"
            "sketch, explode(sequence(start - INTERVAL 59 MINUTES, start, INTERVAL 1 MINUTE)) "
            f"AS start FROM {view(MINUTES)}) GROUP BY {shown}start"
        )
        return {
            PANES: lambda: self.summarized(PANES, by),
            MINUTES: lambda: spark(MINUTES, grouped("window(time, '1 minute')")),
            ANSWERED: lambda: self.summarized(ANSWERED, by),
            MERGED: lambda: spark(MERGED, merged),
            EXPAND: lambda: spark(EXPAND, grouped("window(time, '1 hour', '1 minute')")),
        }

    def ledger(self, name: str) -> Path:
        return self.folder / f"{name}.db"

    def summarized(self, name: str, by: str) -> int:
        entry: dict[str, Any] = {"kind": "quantiles", "value": "dep_delay", "type": "int64"}
        spec: dict[str, Any] = {
            "name": "bench", "time": "time", "pane": "1 minute", "rollups": [],
            "summaries": {"delays": entry},
        }  # fmt: skip
        if by:
            entry |= {"by": by, "limit": 1_000_000}
        if name == ANSWERED:
            entry["window"] = {"kind": "sliding", "length": "1 hour", "every": "1 minute"}
            spec["queries"] = {"each": select(by, "quantiles(delays, 0.1, 0.5, 0.9)")}
        removed(self.ledger(name))
        muntin.summarize(
            str(self.file), spec, ledger=str(self.ledger(name)), progress=False
        ).close()  # fmt: skip
        return size_of(self.ledger(name))

    def asks(
        self, by: str, panes: muntin.Session, closed: muntin.Session
    ) -> dict[str, tuple[Ask, Ask | None]]:
        """How each answers a window of the grid, and another: rows of a key, q, a value, n."""
        quantiles = select(by, "quantiles(delays, 0.1, 0.5, 0.9)")
        shown = f"{by}, " if by else ""
        values = "kll_sketch_get_quantile_bigint(sketch, array(0.1D, 0.5D, 0.9D)) AS found"
        count = "kll_sketch_get_n_bigint(sketch) AS n"

        def by_panes(window: Window) -> Iterable[Any]:
            first, end = of(window)
            return panes.sql(f"{quantiles} FOR '{first}' TO '{end}'").rows

        def by_answers(window: Window) -> Iterable[Any]:
            statement = f"{select(by, 'trend(each)')} FOR WINDOW '{of(window)[0]}'"
            return closed.sql(statement).rows

        def by_spark(source: str) -> Iterable[Any]:
            for *key, found, n in self.spark.sql(
                f"SELECT {shown}{values}, {count} FROM {source}"
            ).collect():
                yield from ([*key, q, value, n] for q, value in zip(ASKED, found, strict=True))

        def stored(name: str) -> Ask:
            def ask(window: Window) -> Iterable[Any]:
                first, _ = of(window)
                return list(by_spark(f"{view(name)} WHERE start = TIMESTAMP '{first} UTC'"))

            return ask

        def by_minutes(window: Window) -> Iterable[Any]:
            first, end = of(window)
            grouped = f"GROUP BY {by}" if by else ""
            return list(
                by_spark(
                    f"(SELECT {shown}kll_merge_agg_bigint(sketch) AS sketch FROM {view(MINUTES)} "
                    f"WHERE start >= TIMESTAMP '{first} UTC' AND start < TIMESTAMP '{end} UTC' "
                    f"{grouped})"
                )
            )

        return {
            PANES: (by_panes, by_panes),
            ANSWERED: (by_answers, None),
            EXPAND: (stored(EXPAND), None),
            MERGED: (stored(MERGED), by_minutes),
        }


def view(name: str) -> str:
    return name.split(", ")[1].replace(" ", "_")


def select(by: str, source: str) -> str:
    return f"SELECT {f'{by}, ' if by else ''}q, value, n FROM {source}"


def of(window: Window) -> tuple[datetime, datetime]:
    """From when to when, as both read it: UTC, without saying so."""
    first = datetime(2026, 1, 1) + timedelta(minutes=window[0])
    return first, first + timedelta(minutes=window[1])


class Exact:
    """The values of each key in any window."""

    def __init__(self, rows: pa.Table, by: str) -> None:
        rows = rows.filter(rows["dep_delay"].is_valid())
        self.times = (rows["time"].cast(pa.int64()).to_numpy() - START) // MINUTE
        self.values = rows["dep_delay"].to_numpy()
        self.keys = rows[by].to_numpy() if by else None

    def of(self, window: Window) -> dict[str, np.ndarray]:
        first, end = np.searchsorted(self.times, [window[0], window[0] + window[1]])
        values = self.values[first:end]
        if self.keys is None:
            return {"": np.sort(values)}
        keys = self.keys[first:end]
        return {key: np.sort(values[keys == key]) for key in np.unique(keys)}

    def errors(self, window: Window, answers: Iterable[Any]) -> Iterator[float]:
        """By how much of all ranks each answer is off; ends where a count or a key is wrong."""
        exact = self.of(window)
        seen = 0
        for *key, q, value, n in answers:
            values = exact[key[0] if key else ""]
            if n != len(values):
                raise SystemExit(f"{window}: {key}: {n} values instead of {len(values)}")
            below, until = (np.searchsorted(values, value, side) for side in ("left", "right"))
            yield max(below / n - q, q - until / n, 0.0)
            seen += 1
        if seen != len(exact) * len(ASKED):
            raise SystemExit(f"{window}: {seen} answers of {len(exact)} keys")


def built(by: str, found: Mapping[str, Measured]) -> list[list[Any]]:
    """A row for each way, Spark's beside ours above; two levels are minutes and their merge."""
    minutes, merged = found[MINUTES], found[MERGED]
    together = Measured(
        [sum(pair) for pair in zip(minutes.seconds, merged.seconds, strict=True)],
        [sum(pair) for pair in zip(minutes.processor, merged.processor, strict=True)],
        minutes.bytes + merged.bytes,
        {name: max(minutes.peaks[name], merged.peaks[name]) for name in merged.peaks},
    )
    rows, ours = [], minutes
    for name, one in {**found, MERGED: together}.items():
        peaks = one.peaks
        memory, pair = f"Java {peaks['java']:,}", [1, 1]
        if name in {PANES, ANSWERED}:
            ours = one
            memory = f"driver {peaks['driver']:,}, worker {peaks['worker']:,}"
        else:
            pair = [ratios(ours.seconds, one.seconds), ratios(ours.processor, one.processor)]
        processor = round(statistics.median(one.processor), 2)
        rows.append([named(name, by), *pair, processor, one.bytes, memory])
    return rows


def named(name: str, by: str) -> str:
    return f"{name}, by {by}" if by else name


def answered(bench: Bench, by: str, windows: int, rounds: int) -> list[list[Any]]:
    """A row for each way: how long a window takes, and how far off its answers are."""
    ledgers = (str(bench.ledger(name)) for name in (PANES, ANSWERED))
    with muntin.open(next(ledgers)) as panes, muntin.open(next(ledgers)) as closed:
        asks = bench.asks(by, panes, closed)
        exact, rng = Exact(bench.rows, by), np.random.default_rng(0)
        rows = [[named(name, by)] for name in asks]
        each = windows // (rounds + 1)  # one round gets warm
        for at, (first, length) in enumerate(((0, HOUR), (613, ODD))):  # 37 minutes from 10:13
            starts = rng.permutation(bench.minutes - length)[: windows - 1].tolist()
            asked = [(min(first, bench.minutes - length), length)]
            asked += [(start, length) for start in starts]
            ways = {name: ask[at] for name, ask in asks.items()}
            answers: dict[str, list[Any]] = {name: [] for name in ways}

            def asking(name: str, ask: Ask, asked: Any = asked, answers: Any = answers) -> Any:
                left = iter(asked)

                def run() -> None:
                    for window in itertools.islice(left, each):
                        answers[name].append((window, ask(window)))

                return run

            runs = {name: asking(name, ask) for name, ask in ways.items() if ask is not None}
            seconds = in_turn(runs, rounds)
            for row, name in zip(rows, ways, strict=True):
                if name not in runs:
                    row += ["cannot" if name == EXPAND else "", "", ""]
                    continue
                off = [error for one in answers[name] for error in exact.errors(*one)]
                ratio = 1 if name == PANES else ratios(seconds[PANES], seconds[name])
                each_ms = digits(1e3 * statistics.median(seconds[name]) / each)
                row += [ratio, each_ms, round(100 * max(off), 3)]
        return rows


def measure(short: bool) -> Iterable[Table]:
    rows, keys = (100_000, ("", "dest")) if short else (1_000_000, ("", "origin", "dest"))
    repeats, windows, rounds = (2, 12, 2) if short else (3, 50, 4)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(rows, Path(folder))
        what = f"{rows:,} flights in {bench.minutes:,} minutes"
        build = Table(
            "build",
            f"Quantiles of hours that slide by a minute, {what}: times as long as Muntin's row "
            "above",
            [
                "what",
                "time",
                "processor time",
                "s of the processor",
                "bytes",
                "memory at most, MiB",
            ],
            note="Above 1, ours is faster. Java keeps the memory that an earlier statement took.",
        )
        ask = Table(
            "ask",
            "One window afterwards, three quantiles of each key: times as long as Muntin's panes",
            [
                "what", "hour of the grid", "its ms", "its rank error at most, %",
                "37 minutes", "their ms", "their rank error at most, %",
            ],
            note=f"Above 1, ours is faster. Of {windows} windows each.",
        )  # fmt: skip
        for by in keys:
            build.rows += built(by, measured(bench.builds(by), repeats))
            ask.rows += answered(bench, by, windows, rounds)
        bench.spark.stop()
    yield build
    yield ask


if __name__ == "__main__":
    main("sliding-windows", measure, ["pyspark", "numpy", "numba", "pyarrow"], __doc__)
