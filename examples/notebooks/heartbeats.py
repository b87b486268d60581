"""Hosts that report at a steady beat, and those that have missed one: `marimo edit heartbeats.py`.

Without Spark. `pip install 'muntin[notebook]'`; in a pipeline the same is `kind: periodic`, and an
`alert:` tells somebody.
"""

import marimo

app = marimo.App(width="medium", app_title="Heartbeats")


@app.cell
def _():
    import marimo as mo
    import matplotlib.pyplot as plt
    import numpy as np

    from muntin.summaries import HyperCalm

    SECOND = 1_000_000
    return HyperCalm, SECOND, mo, np, plt


@app.cell
def _(mo):
    mo.md("""
    # Who has missed a beat?

    Sixty hosts report every 10 to 60 seconds, between a thousand visitors that come as they like.
    Nobody says which are hosts, nor how often they should report: the beat is found in one pass,
    in 200 KB.
    """)


@app.cell
def _(SECOND, np):
    rng = np.random.default_rng(11)
    END = 3600 * SECOND
    silent = {f"host-{n}": int((0.5 + 0.08 * n) * END) for n in range(5)}  # the last they said

    items, times = [], []
    for n in range(60):
        period = int(rng.integers(10, 61)) * SECOND
        beats = np.arange(int(rng.integers(0, period)), silent.get(f"host-{n}", END), period)
        times.append(beats)
        items += [f"host-{n}"] * len(beats)
    times.append(rng.integers(0, END, 8_000))
    items += [f"visitor-{n}" for n in rng.integers(0, 1_000, 8_000)]
    when = np.concatenate(times)
    order = np.argsort(when, kind="stable")
    return END, items, order, silent, when


@app.cell
def _(HyperCalm, SECOND, items, order, when):
    calm = HyperCalm(memory=200_000, gap=2 * SECOND, interval_unit=SECOND, k=80)
    calm.update([items[n] for n in order], when[order])
    found = calm.top(60).to_pandas()
    return (found,)


@app.cell
def _(END, SECOND, found, mo):
    beating = found[found["periodicity"] >= 20]
    # a host may be late by its own beat once more
    overdue = beating[beating["next_expected"] + beating["interval"] < END].copy()
    overdue["silent for, s"] = (END - overdue["last_batch"]) // SECOND
    mo.ui.table(overdue[["item", "periodicity", "silent for, s"]])
    return beating, overdue


@app.cell
def _(SECOND, beating, plt):
    figure, axis = plt.subplots(figsize=(8, 3))
    axis.bar(range(len(beating)), beating["interval"] / SECOND)
    axis.set(xlabel="item", ylabel="interval, seconds")
    figure


@app.cell
def _(overdue, silent):
    assert set(overdue["item"]) == set(silent)


if __name__ == "__main__":
    app.run()
