"""Results of a standing query as one table: of a new version of the ledger, only what is new."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa

from muntin.arrow import is_number, pc
from muntin.errors import SelectError
from muntin.ledger.base import View
from muntin.reading.stored_results import ABOUT, Alike, opened
from muntin.select.catalog import TREND_COLUMNS, TREND_ERROR, TREND_OWN
from muntin.times import DAY_US, instant_text

_AT_ONCE = 1_000  # results that are decoded together: each takes some 3 KB until they are joined
_MOMENT = pa.timestamp("us", "UTC")
_MONTHS = pa.month_day_nano_interval()


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Results of a standing query, oldest first."""

    marks: np.ndarray
    """Start, end, revision and checksum of each: where these are the same, all of it is."""
    about: pa.Table
    """What is true of each, and what it was made of: `ABOUT` of `stored_results`."""
    starts: np.ndarray
    """Where the rows of each begin; the last is the number of rows."""
    table: pa.Table
    """The rows of all, with their windows in front."""
    schema: pa.Schema | None
    """Of the rows of each that did not fail, where it is the same."""

    def said(self) -> dict[bytes, int]:
        """What is true of those that did not fail, each once, and of how many: see `ABOUT`."""
        values, counts = pc.value_counts(self.about["said"].drop_null()).flatten()
        return dict(zip(values.to_pylist(), counts.to_pylist(), strict=True))

    def without_lineage(self) -> Self:
        """As if they said nothing of what they were made of."""
        about = self.about
        for name in ("of", "counted"):
            nulls = pa.nulls(len(about), ABOUT.field(name).type)
            about = about.set_column(about.column_names.index(name), name, nulls)
        return replace(self, about=about)

    @property
    def reach(self) -> tuple[int, int]:
        """Start of the newest, and how many they are."""
        return (int(self.marks[-1, 0]), len(self.marks)) if len(self.marks) else (-(2**63), 0)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, about."""
        return self.table.nbytes + self.about.nbytes + self.marks.nbytes + self.starts.nbytes


def read_results(view: View, query: str, marks: np.ndarray, before: Results | None) -> Results:
    """The results that have these marks.

    `before`: some that were read earlier; those that follow each other here too are taken over.
    Raises SelectError: the query was changed, and a column has had another type before.
    """
    kept = slice(0, 0) if before is None else _shared(before, marks)
    left = marks[kept.stop - kept.start :]
    about, parts, lengths = [ABOUT.empty_table()], [pa.table({})], [np.zeros(0, np.int64)]
    schemas: set[pa.Schema] = set()
    try:
        for at in range(0, len(left), _AT_ONCE):
            said, runs = _opened(view, query, left[at : at + _AT_ONCE])
            read = [_rows(run) for run in runs]
            about.append(said)
            parts.append(_in_one_piece([rows for rows, _ in read]))
            lengths += [each for _, each in read]
            schemas |= {run.schema for run in runs if run.schema.names}
        sizes = np.concatenate(lengths)
        table = _with_windows(left, sizes, _in_one_piece(parts[1:] or parts))
    except pa.ArrowTypeError:
        raise _other_types(view, query, left) from None
    if before is not None and kept.stop > kept.start:
        first, end = before.starts[[kept.start, kept.stop]].tolist()
        try:
            table = _in_one_piece([before.table.slice(first, end - first), table])
        except pa.ArrowTypeError:
            return read_results(view, query, marks, None)  # which says where they differ
        about.insert(0, before.about.slice(kept.start, kept.stop - kept.start))
        sizes = np.concatenate([np.diff(before.starts)[kept], sizes])
        schemas.add(before.schema)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    schema = schemas.pop() if len(schemas) == 1 else None
    whole = pa.concat_tables(about).unify_dictionaries().combine_chunks()
    return Results(marks, whole, starts, table, schema)


def _shared(before: Results, marks: np.ndarray) -> slice:
    """Which results of before are the first of those with these marks. None where their columns are
    not the same: what the others gave to the table would stay in it."""
    if before.schema is None or not len(marks):
        return slice(0, 0)
    first = int(np.searchsorted(before.marks[:, 0], marks[0, 0]))
    old = before.marks[first : first + len(marks)]
    other = np.flatnonzero((old != marks[: len(old)]).any(axis=1))
    end = first + (int(other[0]) if len(other) else len(old))
    failed = before.about["said"].slice(first, end - first).null_count == end - first
    return slice(0, 0) if failed else slice(first, end)


def _opened(view: View, query: str, marks: np.ndarray) -> tuple[pa.Table, list[Alike]]:
    first, last = int(marks[0, 0]), int(marks[-1, 0])
    points = view.trend(query, start=first, end=last + 1, limit=len(marks))
    return opened(point.result for point in points)


def _rows(run: Alike) -> tuple[pa.Table, np.ndarray]:
    """Without columns that would hide those of the trend."""
    rows, lengths = run.rows()
    return rows.drop_columns([n for n in run.schema.names if n.lower() in TREND_OWN]), lengths


def _with_windows(marks: np.ndarray, lengths: np.ndarray, rows: pa.Table) -> pa.Table:
    """The rows of results that have these marks, each with its window in front."""
    start, end, revision, _ = (pa.array(np.repeat(column, lengths)) for column in marks.T)
    front = [start.cast(_MOMENT), end.cast(_MOMENT), revision]
    names = [*TREND_COLUMNS, *rows.column_names]
    return pa.table([*front, *rows.columns], names=names)


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
    for end in range(len(marks), 0, -_AT_ONCE):
        after = end
        for run in _opened(view, query, marks[max(end - _AT_ONCE, 0) : end])[1][::-1]:
            for name, kind in zip(run.schema.names, run.schema.types, strict=True):
                known = newest.setdefault(name, kind)
                if pa.types.is_null(known) or name.lower() in TREND_OWN:
                    newest[name] = kind
                elif not (pa.types.is_null(kind) or _unite(kind, known)):
                    since = instant_text(int(marks[after, 0]))
                    return SelectError(
                        f"the standing query '{query}' was changed: its column '{name}' is {known} "
                        f"since {since}, and {kind} before",
                        code="type",
                        remedy=f"FOR '{since}' TO '{instant_text(int(marks[-1, 1]))}'",
                    )
            after -= len(run.stored)
    return SelectError(f"the standing query '{query}' was changed", code="type")


def _unite(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of both may stand in one column."""
    return (
        one == other
        or (is_number(one) and is_number(other))
        or all(kind == _MONTHS or pa.types.is_duration(kind) for kind in (one, other))
    )
