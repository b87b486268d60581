"""What answers must be: tables of the matrix exactly, answers of sketches within their bounds."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tests.truth.world import KEYS, SKETCHES, TYPES, Events, World

Row = dict[str, Any]


@dataclass
class Chances:
    """How often bounds that hold with some probability did not."""

    asked: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    allowed: dict[str, float] = field(default_factory=dict)

    def note(self, what: str, confidence: float, *, holds: bool) -> None:
        """One answer. Where it is certain, it must hold."""
        if confidence >= 1.0:
            assert holds, what
            return
        self.asked[what] += 1
        self.broken[what] += not holds
        self.allowed[what] = 1.0 - confidence

    def share(self, what: str) -> float:
        return self.broken[what] / self.asked[what]


def check_chances(worlds: Sequence[Chances]) -> None:
    """Answers of one world share their hashes and coins, so that worlds are what is counted."""
    shares: dict[str, list[float]] = defaultdict(list)
    allowed: dict[str, float] = {}
    for world in worlds:
        allowed |= world.allowed
        for what in world.asked:
            shares[what].append(world.share(what))
    for what, each in shares.items():
        slack = 5 * max(np.std(each), math.sqrt(allowed[what])) / math.sqrt(len(each))
        assert np.mean(each) <= allowed[what] + slack, (what, np.mean(each), allowed[what])


def matrix_table(world: World, events: Events, key: tuple[str, ...] | None) -> pa.Table:
    """Rows of a key of the matrix, or its totals: what `FROM m(key)`, `FROM m` give."""
    by = key or ()
    counted = world.counted(events, KEYS[0] if key is None else key)
    columns = counted.columns
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for at, value in enumerate(zip(*(columns[name] for name in by), strict=True)):
        groups[value].append(at)
    if key is None:
        groups = {(): list(range(len(counted)))}
    names = world.indicators
    made: dict[str, list[Any]] = {name: [] for name in (*by, "count", *names)}
    for value, rows in groups.items():
        for name, part in zip(by, value, strict=True):
            made[name].append(part)
        made["count"].append(len(rows))
        for name in names:
            seen = [at for at in rows if counted.batch[at] >= world.since[name]]
            total = sum(columns[name][at] for at in seen if columns[name][at] is not None)
            made[name].append(total if seen else None)
    types = [(n, pa.int64() if n == "count" else TYPES[n]) for n in made]
    return pa.table(made, pa.schema(types))


def uncounted(
    world: World, events: Events, key: tuple[str, ...] | None, until: int | None = None
) -> dict[str, int]:
    """Of a key and the indicators that there were before a batch, the events that they lack.

    Of an indicator where it lacks more than its key.
    """
    names = [n for n in world.indicators if until is None or world.since[n] < until]
    own = events if key is None else world.counted(events, key)
    lacking = {} if key is None or len(own) == len(events) else {", ".join(key): own}
    of_names = {name: world.counted(own, name) for name in names}
    lacking |= {name: counted for name, counted in of_names.items() if len(counted) < len(own)}
    return {part: len(events) - len(counted) for part, counted in lacking.items()}


def values_of(events: Events, name: str, where: Iterable[bool] | None = None) -> list[Any]:
    column = events.columns[name]
    if where is not None:
        column = column[np.fromiter(where, bool, len(column))]
    return [value for value in column if value is not None]


def groups_of(summary: str, events: Events, rows: Sequence[Row]) -> list[tuple[Row, Events]]:
    """Each answered row with the events that it stands for; of a summary that is not split, all."""
    by = SKETCHES[summary].get("by")
    if by is None:
        return [(row, events) for row in rows]
    keys = events.columns[by]
    listed = {row[by] for row in rows if not row["other"]}
    found = []
    for row in rows:
        assert row["complete"] is True, row
        mask = [(k not in listed) if row["other"] else (k == row[by]) for k in keys]
        found.append((row, events.take(np.array(mask, bool))))
    return found


def check_listed(summary: str, events: Events, rows: Sequence[Row], column: str) -> None:
    """Of a split summary, each key that has a value shows, or is in `other`."""
    entry = SKETCHES[summary]
    if "by" not in entry:
        return
    keys, values = events.columns[entry["by"]], events.columns[column]
    there = {k for k, v in zip(keys, values, strict=True) if v is not None}
    listed = {row[entry["by"]] for row in rows if not row["other"]}
    assert listed <= there, (listed, there)
    assert len(listed) <= entry["limit"]
    assert any(row["other"] for row in rows) == (listed != there), (listed, there)


def weights(summary: str, events: Events) -> Counter[str]:
    """Weight of each item."""
    found: Counter[str] = Counter()
    weight = SKETCHES[summary].get("weight")
    weighed = events.columns[weight] if weight else np.ones(len(events), object)
    for item, heavy in zip(events.columns["u"], weighed, strict=True):
        if item is not None and heavy is not None:
            found[item] += heavy
    return found


def all_listed(summary: str, events: Events) -> bool:
    """Whether so few items came that `top_k` and `frequency` have not let any go."""
    entry = SKETCHES[summary]
    few = 2 * entry.get("capacity", entry.get("track", 0))
    return entry.get("kind") in ("top_k", "frequency") and len(+weights(summary, events)) <= few


def nulls(summary: str, events: Events) -> int:
    """Events that a sketch could not take."""
    entry = SKETCHES[summary]
    read = [entry[name] for name in ("value", "item", "key", "weight") if entry.get(name)]
    columns = [events.columns[name] for name in read]
    return sum(None in row for row in zip(*columns, strict=True))


def check_quantiles(summary: str, events: Events, rows: Sequence[Row], chances: Chances) -> None:
    for row, own in groups_of(summary, events, rows):
        values = sorted(_ranked(summary, own))
        size = len(values)
        assert row["n"] == size, row
        if not size:
            assert row["value"] is row["lower"] is row["upper"] is None, row
            continue
        truth = values[max(math.ceil(row["q"] * size), 1) - 1]
        holds = row["lower"] <= truth <= row["upper"]
        chances.note(f"quantiles({summary})", row["confidence"], holds=holds)
        if summary != "p" and row["confidence"] == 1.0:
            assert row["value"] == row["lower"] == row["upper"] == truth, (row, truth)


def check_ranks(summary: str, events: Events, rows: Sequence[Row], chances: Chances) -> None:
    for row, own in groups_of(summary, events, rows):
        values = _ranked(summary, own)
        assert row["n"] == len(values), row
        if not values:
            assert row["rank"] is row["lower"] is row["upper"] is None, row
            continue
        truth = sum(value <= row["x"] for value in values) / len(values)
        holds = row["lower"] - 1e-12 <= truth <= row["upper"] + 1e-12
        chances.note(f"ranks({summary})", row["confidence"], holds=holds)
        if summary != "p" and row["confidence"] == 1.0:
            assert abs(row["rank"] - truth) < 1e-12, (row, truth)


def _ranked(summary: str, events: Events) -> list[float]:
    if summary != "p":
        return values_of(events, "x")
    return values_of(events, "x", (u is not None for u in events.columns["u"]))


def check_distinct(summary: str, events: Events, rows: Sequence[Row], chances: Chances) -> None:
    for row, own in groups_of(summary, events, rows):
        truth = len(set(values_of(own, "u")))
        holds = row["lower"] <= truth <= row["upper"]
        chances.note(f"distinct({summary})", row["confidence"], holds=holds)


def check_weights(summary: str, events: Events, rows: Sequence[Row], chances: Chances) -> None:
    """`frequency(...)`: a row for each item that was asked for."""
    truth = weights(summary, events)
    exact = all_listed(summary, events)
    for row in rows:
        weight, confidence = truth[row["item"]], row.get("confidence")
        assert row["lower"] <= row["value"] <= row["upper"], row
        assert row["upper"] >= weight, (row, weight)
        assert not exact or row["lower"] == row["upper"] == weight, (row, weight)
        confidence = 1.0 if confidence is None or summary == "t" else confidence
        chances.note(f"frequency({summary})", confidence, holds=row["lower"] <= weight)


def check_heaviest(
    summary: str, events: Events, rows: Sequence[Row], k: int, chances: Chances
) -> None:
    """`top_k(...)`: intervals of items, the heaviest first; none that is heavy is left out."""
    truth = weights(summary, events)
    assert [row["value"] for row in rows] == sorted((row["value"] for row in rows), reverse=True)
    listed = {row["item"]: row for row in rows}
    assert len(listed) == len(rows) <= k
    if all_listed(summary, events):
        heaviest = sorted((+truth).values(), reverse=True)[:k]
        assert [row["lower"] for row in rows] == [row["upper"] for row in rows] == heaviest
    for item, row in listed.items():
        assert row["upper"] >= truth[item], (row, truth[item])
        assert row["lower"] <= truth[item], (row, truth[item])
        heavier = sum(weight > truth[item] for weight in truth.values())
        assert heavier < k or not row["guaranteed"], (row, truth)
    kept = SKETCHES[summary].get("capacity") or SKETCHES[summary]["track"]
    if k >= kept and summary == "t":
        heavy = sum(truth.values()) / (kept + 1)
        missing = {item for item, weight in truth.items() if weight > heavy} - set(listed)
        assert not missing, missing


def check_members(events: Events, rows: Sequence[Row], chances: Chances) -> None:
    truth = set(values_of(events, "u"))
    for row in rows:
        if row["item"] in truth:
            assert row["present"] is True, row
        else:
            confidence = 1.0 - SKETCHES["p"]["fpp"]
            chances.note("contains(p)", confidence, holds=not row["present"])


def check_sketched(
    events: Events, rows: Sequence[Row], confidence: float, chances: Chances
) -> None:
    """Rows of the sketched matrix: never below the truth, and their lower bounds."""
    counts: Counter[Any] = Counter(events.columns["u"])
    sums: Counter[Any] = Counter()
    for item, weight in zip(events.columns["u"], events.columns["w"], strict=True):
        sums[item] += weight or 0
    assert len({row["u"] for row in rows}) == len(rows)
    assert (not rows) == (not len(events))
    for row in rows:
        for name, truth in (("count", counts[row["u"]]), ("w", sums[row["u"]])):
            assert row[name] >= truth, (row, truth)
            chances.note("sketched(s)", confidence, holds=row[f"{name}_lower"] <= truth)
            assert row[f"{name}_lower"] <= row[name], row
