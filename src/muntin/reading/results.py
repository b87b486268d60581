"""Results of a standing query as one table: of a new version of the ledger, only what is new."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrow import is_number
from muntin.errors import SelectError
from muntin.ledger.base import View
from muntin.ledger.records import TrendPoint
from muntin.reading.stored_results import Lineage, read_stored
from muntin.select.catalog import TREND_ERROR, TREND_OWN
from muntin.select.result import Result
from muntin.times import DAY_US, instant_text

RESULT_BYTES = 2 << 10  # that objects take which say what is true of a result
_AT_ONCE = 1_000  # results that are decoded together: each takes some 6 KB until they are joined
_MOMENT = pa.timestamp("us", "UTC")
_MONTHS = pa.month_day_nano_interval()


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Results of a standing query, oldest first."""

    marks: np.ndarray
    """Start, end, revision and checksum of each: where these are the same, all of it is."""
    said: Sequence[Result | None]
    """What is true of each, without its rows; None where the statement failed."""
    lineages: Sequence[Lineage]
    """What each was made of."""
    starts: np.ndarray
    """Where the rows of each begin; the last is the number of rows."""
    table: pa.Table
    """The rows of all, with their windows in front."""
    schema: pa.Schema | None
    """Of the rows of each that did not fail, where it is the same."""

    @property
    def known(self) -> list[Result]:
        """Of those that did not fail."""
        return [each for each in self.said if each is not None]

    @property
    def reach(self) -> tuple[int, int]:
        """Start of the newest, and how many they are."""
        return (int(self.marks[-1, 0]), len(self.marks)) if len(self.marks) else (-(2**63), 0)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, about."""
        return self.table.nbytes + RESULT_BYTES * len(self.marks)


def read_results(view: View, query: str, marks: np.ndarray, before: Results | None) -> Results:
    """The results that have these marks.

    `before`: some that were read earlier; those that follow each other here too are taken over.
    Raises SelectError: the query was changed, and a column has had another type before.
    """
    kept = slice(0, 0) if before is None else _shared(before, marks)
    left = marks[kept.stop - kept.start :]
    said: list[Result | None] = []
    lineages: list[Lineage] = []
    lengths: list[int] = []
    schemas: set[pa.Schema] = set()
    parts: list[pa.Table] = []
    try:
        for at in range(0, max(len(left), 1), _AT_ONCE):
            points = _points(view, query, left[at : at + _AT_ONCE])
            read = [_read(point) for point in points]
            tables = [rows for rows, *_ in read]
            parts.append(_joined(points, tables))
            schemas |= {rows.schema for rows, one, _ in read if one is not None}
            said += [one for _, one, _ in read]
            lineages += [lineage for *_, lineage in read]
            lengths += [len(rows) for rows in tables]
        table = _in_one_piece(parts)
    except pa.ArrowTypeError:
        raise _other_types(view, query, left) from None
    sizes = np.array(lengths, np.int64)
    if before is not None and kept.stop > kept.start:
        first, end = before.starts[[kept.start, kept.stop]].tolist()
        try:
            table = _in_one_piece([before.table.slice(first, end - first), table])
        except pa.ArrowTypeError:
            return read_results(view, query, marks, None)  # which says where they differ
        said = [*before.said[kept], *said]
        lineages = [*before.lineages[kept], *lineages]
        sizes = np.concatenate([np.diff(before.starts)[kept], sizes])
        schemas.add(before.schema)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    schema = schemas.pop() if len(schemas) == 1 else None
    return Results(marks, said, lineages, starts, table, schema)


def _shared(before: Results, marks: np.ndarray) -> slice:
    """Which results of before are the first of those with these marks.

    None where their columns are not the same: what the others gave to the table would stay in it.
    """
    if before.schema is None or not len(marks):
        return slice(0, 0)
    first = int(np.searchsorted(before.marks[:, 0], marks[0, 0]))
    old = before.marks[first : first + len(marks)]
    other = np.flatnonzero((old != marks[: len(old)]).any(axis=1))
    end = first + (int(other[0]) if len(other) else len(old))
    failed = all(each is None for each in before.said[first:end])
    return slice(0, 0) if failed else slice(first, end)


def _read(point: TrendPoint) -> tuple[pa.Table, Result | None, Lineage]:
    """A standing query's rows for one window; where it failed there, one that says why."""
    table, said, lineage = read_stored(point, None, stale=False)
    if isinstance(said, SelectError):
        return pa.table({TREND_ERROR: [said.message]}), None, lineage
    own = [name for name in table.column_names if name.lower() in TREND_OWN]
    return table.drop_columns(own) if own else table, said, lineage


def _points(view: View, query: str, marks: np.ndarray) -> list[TrendPoint]:
    if not len(marks):
        return []
    first, last = int(marks[0, 0]), int(marks[-1, 0])
    return view.trend(query, start=first, end=last + 1, limit=len(marks))


def _joined(points: Sequence[TrendPoint], tables: Sequence[pa.Table]) -> pa.Table:
    """All rows, each with its window in front. Raises ArrowTypeError: a column has had another
    type before."""
    lengths = [len(table) for table in tables]

    def column(values: list[int], kind: pa.DataType) -> pa.Array:
        return pa.array(np.repeat(np.asarray(values, np.int64), lengths)).cast(kind)

    front = pa.table(
        {
            "window_start": column([point.start for point in points], _MOMENT),
            "window_end": column([point.end for point in points], _MOMENT),
            "revision": column([point.revision for point in points], pa.int64()),
        }
    )
    if not tables:
        return front.append_column(TREND_ERROR, pa.array([], pa.string()))
    rest = _in_one_piece(tables)
    for name in rest.column_names:
        front = front.append_column(name, rest.column(name))
    return front


def _in_one_piece(tables: Sequence[pa.Table]) -> pa.Table:
    """Else each statement over it would go through thousands. Why one failed stands last."""
    if any(_MONTHS in table.schema.types for table in tables):
        tables = [_with_months(table) for table in tables]
    table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    if TREND_ERROR not in table.column_names:  # none failed
        table = table.append_column(TREND_ERROR, pa.nulls(len(table), pa.string()))
    return table.select(
        [*(name for name in table.column_names if name != TREND_ERROR), TREND_ERROR]
    )


def _with_months(table: pa.Table) -> pa.Table:
    """Lengths of time as the intervals that others of the same column are."""
    for at, field in enumerate(table.schema):
        if pa.types.is_duration(field.type):
            lengths = [
                None if us is None else pa.MonthDayNano([0, us // DAY_US, us % DAY_US * 1000])
                for us in table.column(at).cast(pa.int64()).to_pylist()
            ]
            table = table.set_column(at, field.name, pa.array(lengths, _MONTHS))
    return table


def _other_types(view: View, query: str, marks: np.ndarray) -> SelectError:
    """Which column has changed, and since when it is what it is now."""
    newest: dict[str, pa.DataType] = {}
    after: TrendPoint | None = None
    for end in range(len(marks), 0, -_AT_ONCE):
        for point in _points(view, query, marks[max(end - _AT_ONCE, 0) : end])[::-1]:
            schema = _read(point)[0].schema
            for name, kind in zip(schema.names, schema.types, strict=True):
                known = newest.setdefault(name, kind)
                if pa.types.is_null(known):
                    newest[name] = kind
                elif not (pa.types.is_null(kind) or _unite(kind, known)):
                    since = instant_text((after or point).start)
                    return SelectError(
                        f"the standing query '{query}' was changed: its column '{name}' is {known} "
                        f"since {since}, and {kind} before",
                        code="type",
                        remedy=f"FOR '{since}' TO '{instant_text(int(marks[-1, 1]))}'",
                    )
            after = point
    return SelectError(f"the standing query '{query}' was changed", code="type")


def _unite(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of both may stand in one column."""
    return (
        one == other
        or (is_number(one) and is_number(other))
        or all(kind == _MONTHS or pa.types.is_duration(kind) for kind in (one, other))
    )
