"""The 99th percentile of a stream with its bounds, pane by pane: `marimo edit p99.py`.

Without Spark. `pip install 'muntin[notebook]'`; in a pipeline the same is `kind: quantiles`.
"""

import marimo

app = marimo.App(width="medium", app_title="p99 with its bounds")


@app.cell
def _():
    import marimo as mo
    import matplotlib.pyplot as plt
    import numpy as np

    from muntin.summaries import KLL

    return KLL, mo, np, plt


@app.cell
def _(mo):
    mo.md("""
    # How sure is a p99?

    An hour of response times in panes of a minute, each a sketch. The sketch of any run of panes is
    a merge of theirs. Its answer comes with a lower and an upper bound, which hold at the
    confidence that it states; a smaller sketch has wider ones.
    """)


@app.cell
def _(mo):
    k = mo.ui.slider(steps=[100, 200, 400, 800], value=200, label="k, the size of a sketch")
    k
    return (k,)


@app.cell
def _(KLL, k, np):
    rng = np.random.default_rng(5)
    minutes = [rng.gamma(2.0, 20.0, 5_000) * (3.0 if 40 <= n < 45 else 1.0) for n in range(60)]

    def sketch_of(values, seed):
        made = KLL(k=k.value, seed=seed)
        made.update(values)
        return made

    panes = [sketch_of(values, n) for n, values in enumerate(minutes)]
    return minutes, panes


@app.cell
def _(np, minutes, panes, plt):
    answers = [pane.quantile([0.99]) for pane in panes]
    exact = [float(np.quantile(values, 0.99, method="inverted_cdf")) for values in minutes]
    lower = [float(answer.lower[0]) for answer in answers]
    upper = [float(answer.upper[0]) for answer in answers]

    figure, axis = plt.subplots(figsize=(8, 3.5))
    axis.fill_between(range(60), lower, upper, alpha=0.25, label="bounds")
    axis.plot([float(answer.value[0]) for answer in answers], label="p99")
    axis.plot(exact, "k.", markersize=3, label="exact")
    axis.set(xlabel="minute", ylabel="milliseconds", ylim=(0, 2 * max(exact)))
    axis.legend()
    figure
    return exact, lower, upper


@app.cell
def _(KLL, k, minutes, np, panes):
    hour = KLL(k=k.value, seed=99)
    for pane in panes:
        hour.merge(pane)
    whole = hour.quantile([0.5, 0.99])
    truth = np.quantile(np.concatenate(minutes), [0.5, 0.99], method="inverted_cdf")
    within = [
        bool(low <= value <= high)
        for low, value, high in zip(whole.lower, truth, whole.upper, strict=True)
    ]
    return hour, truth, whole, within


@app.cell
def _(hour, mo, truth, whole):
    mo.md(f"""
    Of the whole hour, {hour.count:,} values in {len(hour.to_bytes()):,} bytes: p99 is
    **{whole.value[1]:.1f} ms**, and lies between {whole.lower[1]:.1f} and {whole.upper[1]:.1f} at
    confidence {whole.confidence:.0%}. Exact: {truth[1]:.1f}.
    """)


if __name__ == "__main__":
    app.run()
