"""Flights from New York, summed by day and asked over any window: `marimo edit flights.py`.

Without Spark. `pip install 'muntin[notebook]'`; in a pipeline the same is `kind: vector_matrix`.
"""

import marimo

app = marimo.App(width="medium", app_title="Flights")


@app.cell
def _():
    from importlib.resources import files

    import marimo as mo
    import matplotlib.pyplot as plt
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from muntin.summaries import VectorMatrix

    return VectorMatrix, files, mo, np, pa, pc, plt, pq


@app.cell
def _(mo):
    mo.md("""
    # Four weeks of flights

    Each day is one summary: the sums of three indicators by origin, and by carrier and origin.
    Any run of days is a merge of theirs, and exact.
    """)


@app.cell
def _(files, pa, pc, pq):
    with files("muntin.demo").joinpath("flights.parquet").open("rb") as source:
        flights = pq.read_table(source)
    day_of = pc.floor_temporal(flights["time"], unit="day").cast(pa.int64()).to_numpy()
    return day_of, flights


@app.cell
def _(VectorMatrix, day_of, flights, np, pa):
    KEYS = ["origin", ("carrier", "origin")]
    INDICATORS = ["flown", "cancelled", "dep_delay"]

    def summary_of(table):
        made = VectorMatrix(keys=KEYS, indicators=INDICATORS, capacity=10_000)
        made.update(table)
        return made

    days = [summary_of(flights.filter(pa.array(day_of == day))) for day in np.unique(day_of)]

    def between(first, last):
        """The summary of the days first to last, both included."""
        merged = summary_of(flights.slice(0, 0))
        for day in days[first : last + 1]:
            merged.merge(day)
        return merged

    return between, days


@app.cell
def _(days, mo):
    chosen = mo.ui.range_slider(0, len(days) - 1, value=(7, 13), label="days")
    chosen
    return (chosen,)


@app.cell
def _(between, chosen, mo):
    week = between(*chosen.value)
    worst = week.table(("carrier", "origin")).to_pandas()
    worst["mean delay"] = worst["dep_delay"] / worst["flown"]
    worst = worst[worst["flown"] > 20].sort_values("mean delay", ascending=False).head(10)
    mo.ui.table(worst)
    return week, worst


@app.cell
def _(days, plt):
    figure, axis = plt.subplots(figsize=(8, 3))
    for origin in ("EWR", "JFK", "LGA"):
        rows = [{row["origin"]: row for row in day.table("origin").to_pylist()} for day in days]
        axis.plot([row[origin]["dep_delay"] / row[origin]["flown"] for row in rows], label=origin)
    axis.set(xlabel="day", ylabel="mean delay of departures, minutes")
    axis.legend()
    figure


@app.cell
def _(chosen, day_of, flights, np, week):
    # the same by hand, from all rows
    _days = np.unique(day_of)[chosen.value[0] : chosen.value[1] + 1]
    by_hand = int(flights["flown"].to_numpy()[np.isin(day_of, _days)].sum())
    from_summaries = sum(row["flown"] for row in week.table("origin").to_pylist())
    assert from_summaries == by_hand
    return by_hand, from_summaries


if __name__ == "__main__":
    app.run()
