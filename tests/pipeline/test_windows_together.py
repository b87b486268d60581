"""Windows that close together hold what each of them would hold alone, and what came."""

from __future__ import annotations

import statistics
from collections import Counter
from random import Random

import pytest

from muntin.assembly import following
from muntin.session import Session
from tests.pipeline.support import SECOND, START, content, events, pipeline, run

ASKED = {
    "sums": "SELECT driver, count, fare FROM orders(driver) ORDER BY driver",
    "middle": "SELECT value, lower, upper, n FROM quantiles(fares, 0.5)",
    "different": "SELECT value, lower FROM distinct(areas)",
    "by_driver": "SELECT * FROM quantiles(fares_by, 0.1, 0.9)",
    "twice": "SELECT q.driver, q.value, x, rank FROM quantiles(fares_by, 0.5) q, "
    "ranks(fares_by, 0) r",
    "heaviest": "SELECT * FROM top_k(tops, 2) WHERE value > 1",
    "counted": "SELECT * FROM frequency(tops, 3, 99)",
    "there": "SELECT * FROM contains(prints, 'a', 'z')",
}
TREND = "SELECT * FROM trend({})"


def spec_of(length, every):
    kind = "sliding" if every < length else "tumbling"
    window = {"kind": kind, "length": f"{length} s"}
    if kind == "sliding":
        window["every"] = f"{every} s"
    return pipeline(
        pane="5 seconds",
        rollups=["20 seconds", "1 minute"],
        summaries={
            "orders": {"keys": ["driver", "area"], "indicators": ["fare"], "window": window},
            "fares": {"kind": "quantiles", "value": "fare", "type": "int64", "window": window},
            "areas": {"kind": "distinct", "item": "area", "window": window},
            "fares_by": {
                "kind": "quantiles",
                "value": "fare",
                "type": "int64",
                "by": ["driver"],
                "limit": 3,
                "window": window,
            },
            "tops": {
                "kind": "top_k",
                "item": "area",
                "by": ["driver"],
                "weight": "served",
                "window": window,
            },
            "prints": {"kind": "fingerprint", "key": "driver", "window": window},
        },
        queries=ASKED,
    )


@pytest.mark.parametrize(("length", "every", "gap"), [(60, 5, 2), (70, 15, 4), (60, 60, 8)])
def test_each_holds_what_it_would_alone_and_what_came(length, every, gap, monkeypatch):
    random, at, rows = Random(length + every), 0, []
    for _ in range(160):
        at += random.choice((0, 0, gap, gap, 60 * gap if random.random() < 0.05 else gap))
        rows.append((at, random.choice("abcd"), random.randrange(9), 1, random.randrange(-50, 50)))
    late = [rows.pop(n) for n in (110, 70, 30)]
    batches = [
        [events(rows[:120])],
        [events(rows[120:])],
        [events(late)],
        [events([(at + 9, "a", 1, 1, 1)])],
    ]
    spec = spec_of(length, every)
    with run(spec, batches) as together:
        held = content(together)
        with Session(together.ledger) as asked:
            found = {n: asked.sql(TREND.format(n)).table for n in ASKED}
    monkeypatch.setattr(following, "TOGETHER", 1 << 40)
    with run(spec, batches) as alone:
        assert content(alone) == held
    rows += [*late, (at + 9, "a", 1, 1, 1)]
    _, windows, _ = held
    assert len(windows) > 3 * 10
    for start in {start for _, start, *_ in windows}:
        of = (start - START) / SECOND
        own = [row for row in rows if of <= row[0] < of + length]
        counts = Counter(row[1] for row in own)
        fares = {d: sum(row[4] for row in own if row[1] == d) for d in counts}
        assert of_window(found["sums"], start) == [[d, counts[d], fares[d]] for d in sorted(counts)]
        middle = statistics.median_low(row[4] for row in own)
        assert of_window(found["middle"], start) == [[middle, middle, middle, len(own)]]
        ((about, at_least),) = of_window(found["different"], start)
        assert at_least <= len({row[2] for row in own}) == round(about)


def test_one_that_fails_leaves_the_others_their_answers(monkeypatch):
    """Of weights beyond int64 in one window, only the windows that hold both say so."""
    rows = [(at, "a", at % 3, 1, 0) for at in range(0, 300, 7)]
    rows += [(at, "a", 1, 2**62, 0) for at in (140, 141)]
    spec = spec_of(60, 10)
    summary = {
        "kind": "top_k",
        "item": "area",
        "weight": "served",
        "window": {"kind": "sliding", "length": "1 minute", "every": "10 seconds"},
    }
    spec = pipeline(
        pane="5 seconds",
        summaries={"tops": summary},
        queries={"heaviest": "SELECT * FROM top_k(tops, 1)"},
    )
    batches = [[events(sorted(rows))], [events([(400, "a", 1, 1, 1)])]]
    with run(spec, batches) as together:
        held = content(together)
        with Session(together.ledger) as asked:
            found = asked.sql(TREND.format("heaviest")).table
    failed = [
        m.timestamp() - START / SECOND
        for m, e in zip(found["window_start"].to_pylist(), found["error"].to_pylist(), strict=True)
        if e
    ]
    assert failed == [90, 100, 110, 120, 130, 140]
    monkeypatch.setattr(following, "TOGETHER", 1 << 40)
    with run(spec, batches) as alone:
        assert content(alone) == held


def of_window(table, start):
    """Rows of one window, without what says which it is."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    front = table.column_names.index("revision") + 1
    seconds = [moment.timestamp() * SECOND for moment in table["window_start"].to_pylist()]
    return [[*row[front:-1]] for row, at in zip(rows, seconds, strict=True) if at == start]
