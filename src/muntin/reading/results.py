"""Results of a standing query as one table: of a new version of the ledger, only what is new."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from muntin.arrow import is_number
from muntin.errors import SelectError
from muntin.ledger.base import View
from muntin.ledger.records import TrendPoint
from muntin.reading.stored_results import Lineage, lineage_of, read_result
from muntin.select.catalog import TREND_ERROR, TREND_OWN
from muntin.select.result import Result
from muntin.times import DAY_US, instant_text

RESULT_BYTES = 2 << 10  # that objects take which say what is true of a result
_MOMENT = pa.timestamp("us", "UTC")
_MONTHS = pa.month_day_nano_interval()
_NO_ROWS = pa.table({})


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
    points = []
    if len(left):
        first, last = int(left[0, 0]), int(left[-1, 0])
        points = view.trend(query, start=first, end=last + 1, limit=len(left))
    read = [_read(point) for point in points]
    tables = [_rows(each) for each in read]
    table = _joined(query, points, tables)
    said = [replace(each, table=_NO_ROWS) if isinstance(each, Result) else None for each in read]
    lineages = [lineage_of(point.result) for point in points]
    sizes = np.array([len(rows) for rows in tables], np.int64)
    schemas = {rows.schema for rows, each in zip(tables, said, strict=True) if each is not None}
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


def _read(point: TrendPoint) -> Result | SelectError:
    try:
        return read_result(point, None, stale=False)
    except SelectError as failed:
        return failed


def _rows(read: Result | SelectError) -> pa.Table:
    """A standing query's rows for one window; where it failed there, one that says why."""
    if isinstance(read, SelectError):
        return pa.table({TREND_ERROR: [read.message]})
    table = read.table
    own = [name for name in table.column_names if name.lower() in TREND_OWN]
    return table.drop_columns(own).append_column(TREND_ERROR, pa.nulls(len(table), pa.string()))


def _joined(query: str, points: Sequence[TrendPoint], tables: Sequence[pa.Table]) -> pa.Table:
    """All rows, each with its window in front. Raises SelectError: the query was changed, and a
    column has had another type before."""
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
    if any(_MONTHS in table.schema.types for table in tables):
        tables = [_with_months(table) for table in tables]
    try:
        rest = _in_one_piece(tables)
    except pa.ArrowTypeError:
        raise _other_types(query, points, tables) from None
    for name in rest.column_names:
        front = front.append_column(name, rest.column(name))
    return front


def _in_one_piece(tables: Sequence[pa.Table]) -> pa.Table:
    """Else each statement over it would go through thousands. Why one failed stands last."""
    table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
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


def _other_types(
    query: str, points: Sequence[TrendPoint], tables: Sequence[pa.Table]
) -> SelectError:
    """Which column has changed, and since when it is what it is now."""
    newest: dict[str, pa.DataType] = {}
    for _, table, after in zip(points[::-1], tables[::-1], (None, *points[::-1]), strict=False):
        for name, kind in zip(table.schema.names, table.schema.types, strict=True):
            known = newest.setdefault(name, kind)
            if pa.types.is_null(known):
                newest[name] = kind
            elif not (
                pa.types.is_null(kind) or kind == known or (is_number(kind) and is_number(known))
            ):
                since = instant_text(points[-1].start if after is None else after.start)
                return SelectError(
                    f"the standing query '{query}' was changed: its column '{name}' is {known} "
                    f"since {since}, and {kind} before",
                    code="type",
                    remedy=f"FOR '{since}' TO '{instant_text(points[-1].end)}'",
                )
    return SelectError(f"the standing query '{query}' was changed", code="type")
