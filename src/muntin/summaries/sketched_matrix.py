"""The vector matrix with Count-Min rows ("sketch i.j"): sums by key in fixed memory.

=========== =================================================================================
State       one slice of a segment of `SketchedSums`, and recent events in hash tables
Error       none while a key has at most max(2 x track, 3/4 x width x depth) values. Then truth <=
            value always; value - truth <= e / width * total of that column, with probability
            1 - exp(-depth) for each sum asked for. Floats: to their rounding
Merge       with the same keys, indicators, width, depth and track. Exact: the cells of the whole
            stream (floats: to their rounding)
Duplicates  count again
Source      Cormode & Muthukrishnan, J. Algorithms 55 (2005), with vectors for cells
Limits      indicators >= 0 (a negative one would void the upper bound); no subtraction
=========== =================================================================================
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, CorruptSummary, SummaryOverflow
from muntin.segments.building import build
from muntin.segments.checks import EVENTS_MAX
from muntin.segments.columns import Ragged, States, frozen, lists, numbers
from muntin.segments.grouping import Groups
from muntin.segments.keys import NO_KEY
from muntin.segments.sketched import Listed, SketchedSums, SumsOf
from muntin.segments.sums import Sums
from muntin.segments.table import Segment, Table
from muntin.summaries import key_columns
from muntin.summaries.base import Estimate
from muntin.summaries.checks import INT64_MAX, check_alike, integer_in
from muntin.summaries.count_min import CELLS_MAX, DEPTH_MAX, TRACK_MAX
from muntin.summaries.indicators import SumType
from muntin.summaries.vector_matrix.batches import EventColumns, decimals_as_floats
from muntin.summaries.vector_matrix.gathered import GatheredSums, check_whole, no_rows, read_whole
from muntin.summaries.vector_matrix.names import COUNT, KeyName, find_key
from muntin.summaries.weights import added, exact_sum

LOWER = "_lower"
GATHERED_ROWS_MAX = 1 << 16  # of a key: past that, the hash tables go into the sketch


class SketchedMatrix(GatheredSums):
    """Upper bounds of sums of indicators by key.

    Parameters
    ----------
    keys : list of str or of sequences of str
        Columns, or combinations of columns, as for `VectorMatrix`.
    indicators : list of str, or mapping of str to {"int64", "float64", None}
        Numeric columns, never negative. None: the first batch decides. `count` is always there.
    width, depth : int
        As for `CountMin`; one sketch of vectors a key.
    track : int
        Heaviest values of each key, by count, that `table` lists beside cells; at least 1.

    Raises
    ------
    BadArgument
        A parameter out of its range, or a name given twice.

    Examples
    --------
    >>> orders = SketchedMatrix(keys=["driver"], indicators=["served"], width=512, depth=4)
    >>> orders.update(pa.table({"driver": ["a", "a"], "served": [1, 4]}))
    >>> orders.table("driver").select(["driver", "count", "served"]).to_pylist()
    [{'driver': 'a', 'count': 2, 'served': 5}]
    """

    kind: ClassVar[str] = "sketched_matrix"
    __slots__ = ("_totals", "depth", "track", "width")

    def __init__(
        self,
        keys: Iterable[KeyName],
        indicators: Iterable[str] | Mapping[str, SumType | None] = (),
        width: int = 2048,
        depth: int = 4,
        track: int = 1000,
    ) -> None:
        super().__init__(keys, indicators)
        names = {*self._kinds, *self._indicators}
        for name in (COUNT, *self._indicators):
            if name + LOWER in names:
                raise BadArgument(f"{name + LOWER!r} names the lower bounds of {name!r}: rename it")
        self.width = integer_in("width", width, 2, CELLS_MAX)
        self.depth = integer_in("depth", depth, 1, DEPTH_MAX)
        self.track = integer_in("track", track, 1, TRACK_MAX)
        _ = self._algebra  # refuses what is too much together
        if self.width * self.depth * (1 + len(self._indicators)) * len(self._keys) > CELLS_MAX:
            raise BadArgument(f"{width} x {depth} cells of all keys and indicators: too many")
        self._totals: dict[str, int | float] = dict.fromkeys((COUNT, *self._indicators), 0)

    def _pieces(self, batch: Any) -> list[pa.RecordBatch]:
        floats = [name for name, kind in self._indicators.items() if kind != "int64"]
        return [decimals_as_floats(piece, floats) for piece in super()._pieces(batch)]

    @property
    def _algebra(self) -> SketchedSums:
        return SketchedSums(tuple(self._indicators.items()), self.width, self.depth, self.track)

    def _empty(self) -> Self:
        new = type(self)(self._keys, self._indicators, self.width, self.depth, self.track)
        new._totals = dict(self._totals)
        return new

    @property
    def parameters(self) -> dict[str, Any]:
        """What two summaries must share to be merged."""
        keys, indicators = [list(key) for key in self._keys], list(self._indicators)
        sizes = {"width": self.width, "depth": self.depth, "track": self.track}
        return {"keys": keys, "indicators": indicators, **sizes}

    @property
    def totals(self) -> dict[str, int | float]:
        """`count` and the sum of each indicator over all events: exact for integers."""
        return dict(self._totals)

    @property
    def confidence(self) -> float:
        """Probability that one lower bound holds where a key has cells."""
        return self._algebra.confidence

    def rows(self, key: KeyName | int | None = None) -> Any:
        """Values of a key that `table` lists; without a key, a dict key -> how many."""
        if key is not None:
            return self.rows()[find_key(self._keys, key)]
        found = dict.fromkeys(self._keys, 0)
        for table in self._segment().tables:
            found[table.name(self._algebra)] = len(lists(table.states["item"], 1).items)
        return found

    def _count(self, read: list[EventColumns], pieces: list[pa.RecordBatch], sums: Sums) -> None:
        totals = {COUNT: _added(COUNT, self.count, sum(batch.events for batch in read))}
        for at, (name, kind) in enumerate(sums.indicators):
            columns = [batch.values[at].numbers for batch in read]
            total = float(self._totals[name]) if kind == "float64" else self._totals[name]
            for column in columns:
                if column is not None and len(column):
                    _refuse_negative(name, column)
                    is_float = column.dtype == np.float64
                    with np.errstate(over="ignore"):  # which is refused below
                        more = float(np.sum(column)) if is_float else exact_sum(column)
                    total = _added(name, total, more)
            totals[name] = total
        super()._count(read, pieces, sums)
        self._totals = totals
        recent = self._recent
        if recent and max(map(recent.numbering.rows, self._keys)) > GATHERED_ROWS_MAX:
            self._settle()

    def _built(self, pieces: list[pa.RecordBatch], sums: Sums) -> list[Segment]:
        algebra = replace(self._algebra, indicators=sums.indicators)
        segments = []
        for piece in pieces:
            columns = {name: piece.column(name) for name in self._kinds}
            values = [piece.column(name) for name in self._indicators]
            slices = np.zeros(len(piece), np.int64)
            segments.append(build(algebra, slices, values, self._keys, columns))
        return [segment for segment in segments if segment.count]

    def _made_of(self, sums: Segment) -> Segment:
        assert isinstance(sums.algebra, Sums)  # noqa: S101
        algebra = replace(self._algebra, indicators=sums.algebra.indicators)
        total, *tables = sums.tables
        rows = frozen(np.arange(2))
        made = []
        for table in tables:
            starts = frozen(np.array([0, len(table)]))
            states: States = {
                "item": Ragged(starts, frozen(np.arange(len(table)))),
                "weight": Ragged(starts, table.events),
                "gained": None,
                "offset": None,
                "total": total.events,
                "cells": None,
            }
            for name, _ in algebra.indicators:
                listed, whole = (_sums_of(one, name) for one in (table, total))
                states |= {
                    f"{name}.nulls": total.states[f"{name}.nulls"],
                    f"{name}.all": whole,
                    f"{name}.list": Ragged(starts, listed.view(np.int64)),
                    f"{name}.cells": None,
                }
            merged = algebra.merge(
                states, Groups(rows[:1], rows), table.keys
            )  # which lets the light go
            one = Table(NO_KEY, sums.slices, rows, sums.slices, sums.events, merged, table.keys)
            made.append(one.with_used_keys())
        return replace(sums, algebra=algebra, tables=tuple(made))

    def _segment(self) -> Segment:
        self._settle()  # what is in the sketch once does not go into it again
        return super()._segment()

    def estimate(self, key: KeyName | int, items: Any) -> dict[str, Estimate]:
        """Sums of given values of a key.

        Parameters
        ----------
        key : str, sequence of str, or int
            A key, or its position from 1.
        items : array [n]; or a table, mapping or list of arrays with the key's columns
            Values of the key.

        Returns
        -------
        dict of str to Estimate
            `count` and each indicator: int64[n] or float64[n]. `value` = `upper`, never below
            the truth; `lower` holds at `confidence`: 1 without cells, else 1 - exp(-depth).
        """
        found = find_key(self._keys, key)
        columns = dict(zip(found, key_columns.columns_in(items, found), strict=True))
        for name, column in columns.items():
            kind, before = key_columns.kind_of(name, column), self._kinds[name]
            if kind and before and kind != before:
                raise BadArgument(f"key column {name!r} is {before}, not {kind}")
        table = self._segment().table(found)
        if table is None:
            size = len(columns[found[0]])
            zeros = {name: np.zeros(size, kind or "int64") for name, kind in self._lanes}
            return {name: Estimate(zero, zero, zero, 1.0) for name, zero in zeros.items()}
        answer = self._algebra.answer(table, SumsOf(columns))
        has_cells = table.states["cells"] is not None
        confidence = self.confidence if has_cells else 1.0
        estimates = {}
        for name, _ in self._lanes:
            value, lower = answer[name].to_numpy(), answer[name + LOWER].to_numpy()
            estimates[name] = Estimate(value, lower, value.copy(), confidence)
        return estimates

    def table(self, key: KeyName | int) -> pa.Table:
        """The heaviest values of a key with their sums, or all while it has no cells.

        Parameters
        ----------
        key : str, sequence of str, or int
            A key, or its position from 1.

        Returns
        -------
        pyarrow.Table
            The key's columns; `count` and the indicators, which are upper bounds; then
            `count_lower` (certain) and `<indicator>_lower` (at `confidence`). Largest counts
            first. A value that is not listed has at most `SpaceSaving`'s bound of events:
            count / (track + 1).
        """
        found = find_key(self._keys, key)
        table = self._segment().table(found)
        lanes = [name for name, _ in self._lanes]
        if table is None:
            rows = no_rows(self._algebra, found, self._kinds)
            for name in lanes:
                rows = rows.append_column(name + LOWER, rows[name])
            return rows
        rows = self._algebra.answer(table, Listed())
        return rows.select([*found, *lanes, *(name + LOWER for name in lanes)])

    @property
    def _lanes(self) -> list[tuple[str, SumType | None]]:
        return [(COUNT, "int64"), *self._indicators.items()]

    def merge(self, other: Self) -> None:
        """Add the events of another of the same parameters, which stays as it is.

        Raises
        ------
        IncompatibleSummary
            Other parameters, keys or indicators, or a key column of another type.
        SummaryOverflow
            The sum of an indicator would leave its range. Nothing was changed.
        """
        check_alike(self, other)
        kinds = self._kinds_with(other)
        added(self.count, other.count, self.kind, "events", EVENTS_MAX)
        united = self._algebra.united(other._algebra)
        assert isinstance(united, SketchedSums)  # noqa: S101
        totals = {n: _added(n, mine, other._totals[n]) for n, mine in self._totals.items()}
        if other.count:
            self._add(other._segment())
        self._kinds, self._indicators, self._totals = kinds, dict(united.indicators), totals
        self._changed()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The summary that `to_bytes` wrote; CorruptSummary on anything else."""
        parameters, whole, algebra = read_whole(data, cls.kind, SketchedSums)
        sizes = algebra.width, algebra.depth, algebra.track
        try:
            new = cls(parameters["keys"], dict(algebra.indicators), *sizes)
        except BadArgument as problem:
            raise CorruptSummary(f"sketched_matrix: {problem}") from None
        new._kinds = check_whole(whole, new._keys, parameters["columns"])
        if not whole.count:
            return new
        if len(whole.tables) < len(new._keys) or any(table.by for table in whole.tables):
            raise CorruptSummary("sketched_matrix: a key has no sums")
        new._segments = [whole]
        new._totals[COUNT] = whole.count
        for name in new._indicators:  # each key tells the same, but for a float's rounding
            new._totals[name] = numbers(whole.tables[0].states[f"{name}.all"])[0].item()
        if min(new._totals.values()) < 0:
            raise CorruptSummary("sketched_matrix: a sum is beyond its type")
        return new

    def __repr__(self) -> str:
        return (
            f"SketchedMatrix(keys={self.keys}, indicators={self.indicators}, "
            f"width={self.width}, depth={self.depth}): {self.count} events"
        )


def _sums_of(table: Table, name: str) -> np.ndarray:
    """Of each row; zeros where no batch had a type for them."""
    found = numbers(table.states.get(f"{name}.sum"))
    return found if len(found) else frozen(np.zeros(len(table), np.int64))


def _refuse_negative(name: str, column: np.ndarray) -> None:
    if column.min() < 0:
        raise BadArgument(
            f"indicator {name!r} is {column.min()}: sketched sums need values of at least 0; keep "
            "positive and negative parts as two indicators, or drop `sketch`"
        )


def _added(name: str, total: Any, more: Any) -> Any:
    found = total + more
    if found > INT64_MAX if isinstance(found, int) else not math.isfinite(found):
        raise SummaryOverflow(f"the sum of {name!r} over all events leaves its range: {found}")
    return found
