"""Table functions: what can be asked of the summaries that are not tables themselves.

Each is a question to the states of a segment, which its kind answers: a value beside its bounds.
A summary that is split by columns (`by: origin`) has a state for each value, with those columns
in front of its rows.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, SummaryOverflow
from muntin.kinds.periodic import SEPARATOR
from muntin.segments.algebra import Algebra
from muntin.segments.distinct import DistinctCount
from muntin.segments.fingerprint import Contains, Fingerprints
from muntin.segments.nulls import less
from muntin.segments.quantiles import Quantiles
from muntin.segments.ranked import QuantilesAt, RanksOf, asked_numbers
from muntin.segments.table import Segment, Table
from muntin.segments.top_k import Heaviest, WeightOf
from muntin.select.catalog import SummaryInfo
from muntin.select.syntax import Value, show_argument

Argument = str | int | float | bool | None
K_MAX = 100_000
ROWS = 10  # where nobody says how many
KEYED_COLUMNS = ("complete", "other")
"""After the answer of a split summary: that the row holds all events of its key (always), and
whether it is that of all keys past the limit (whose key columns are null)."""


class ArgumentError(Exception):
    """An argument of a table function is wrong; `index` counts from 0, after the summary."""

    def __init__(self, index: int, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.index = index
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class TableFunction:
    """One function of `FROM`.

    `kinds`: kinds of summaries that it can be asked of, in the pipeline file's words.
    `usage`: how it is written, for messages.
    `columns`: of the result, after the columns of `by`.
    `parse`: checks the arguments after the summary; raises ArgumentError.
    `question`: arguments -> what the kind's algebra is asked, of what lies in segments.
    `table`: (summary, arguments) -> pyarrow.Table with `columns`, of what does not lie in segments.
    `columns_by_kind`: kinds whose result has other columns.
    """

    name: str
    kinds: frozenset[str]
    usage: str
    columns: tuple[str, ...]
    parse: Callable[[Sequence[Argument]], tuple[Argument, ...]]
    question: Callable[[tuple[Any, ...]], Any] | None = None
    table: Callable[[Any, tuple[Argument, ...]], pa.Table] | None = None
    columns_by_kind: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def can_ask(self, info: SummaryInfo) -> bool:
        """Whether a summary answers it: a fingerprint of keys alone ranks nothing."""
        ranks = info.parameters.get("rank", "") is not None
        return info.kind in self.kinds and (ranks or self.kinds != _ORDERED)

    def all_columns(self, info: SummaryInfo) -> tuple[str, ...]:
        """Of the result for one summary."""
        columns = self.columns_by_kind.get(info.kind, self.columns)
        if info.by:
            return (*info.by, *columns, *KEYED_COLUMNS)
        return (*columns, *info.parts)

    def rows(self, summary: Any, info: SummaryInfo, arguments: tuple[Argument, ...]) -> pa.Table:
        """The function's rows; for a split summary, those of each of its keys. A column without a
        value anywhere may be missing, and `conformed` adds it."""
        if isinstance(summary, Segment):
            return self.rows_by_slice(summary, info, arguments)[0]
        assert self.table is not None  # noqa: S101 (the check of a statement has looked)
        return _with_parts(self.table(summary, arguments), info.parts)

    def rows_by_slice(
        self, segment: Segment, info: SummaryInfo, arguments: tuple[Argument, ...]
    ) -> tuple[pa.Table, dict[int, tuple[int, int]]]:
        """Those of each slice of a segment, one slice after the other, and where each has its."""
        table = segment.table(info.by)
        assert table is not None  # noqa: S101 (a segment that holds events has its states)
        _check_totals(info, table)
        assert self.question is not None  # noqa: S101 (as above)
        question = self.question(arguments)
        if isinstance(question, WeightOf | Contains):
            _check_items(arguments, segment.algebra, table)
        answered = segment.algebra.answer(table, question)
        values = values_of_rows(segment.algebra, table)
        if info.by:  # a key whose events have no value is not there
            if values.size and values.min() <= 0:
                answered = answered.filter(pa.array(values[answered["row"].to_numpy()] > 0))
        elif self.columns[0] in ("q", "x"):  # a row for each, also where a state holds no value
            answered = _each_asked(answered, len(table), arguments, self.columns[0])
        row = answered["row"]
        keys = (column.take(row) for column in table.key_arrays())
        found: dict[str, Any] = dict(zip(info.by, keys, strict=True))
        for name in answered.column_names:
            shown = "rank" if (self.name, name) == ("ranks", "value") else name
            found[str(shown)] = answered[name]
        if "n" in self.columns:
            found["n"] = pa.array(values).take(row)
        if info.by:
            found["complete"] = pa.repeat(True, len(row))
            found["other"] = pa.array(table.is_rest()).take(row)
        ends = np.searchsorted(row.to_numpy(), table.starts).tolist()
        places = itertools.pairwise(ends)
        return pa.table(found), dict(zip(table.slices.tolist(), places, strict=True))


def _each_asked(
    answered: pa.Table, rows: int, arguments: tuple[Argument, ...], name: str
) -> pa.Table:
    """A row for each state and argument: null where the state holds no value."""
    if answered.num_rows == rows * len(arguments):
        return answered
    there = answered["row"].to_numpy()
    at = np.full(rows * len(arguments), -1)
    at[there * len(arguments) + np.arange(len(there)) % len(arguments)] = np.arange(len(there))
    whole = answered.take(pa.array(at, mask=at < 0))
    numbers = np.repeat(np.arange(rows), len(arguments))
    asked = pa.array(np.tile(asked_numbers(arguments), rows))
    asked = asked.cast(answered.schema.field(name).type)
    whole = whole.set_column(whole.column_names.index("row"), "row", pa.array(numbers))
    return whole.set_column(whole.column_names.index(name), name, asked)


def _check_totals(info: SummaryInfo, table: Table) -> None:
    """SummaryOverflow where weights add up to more than int64: kinds leave such states out."""
    totals = table.states.get("total")
    if isinstance(totals, np.ndarray) and (totals < 0).any():
        raise SummaryOverflow(f"{info.name}: the weights of a summary are beyond int64")


def values_of_rows(algebra: Algebra, table: Table) -> np.ndarray:
    """Events with a value of each row: int64[rows]; of fingerprints, with a number; of sketches
    that others made, the values that these have seen."""
    if isinstance(algebra, Quantiles):
        return algebra.counts(table)
    if isinstance(algebra, Fingerprints):
        return algebra.ranked(table)
    return less(table.events, table.states.get("nulls"))


def _check_items(asked: tuple[Argument, ...], algebra: Algebra, table: Table) -> None:
    """A hash of '4' is not that of 4: asking for the other type would find nothing, silently."""
    if isinstance(algebra, Fingerprints):
        known, whole = algebra.items is not None, algebra.items == "integers"
    else:
        kept = table.items.columns[0].type if table.items is not None else pa.null()
        known, whole = not pa.types.is_null(kept), pa.types.is_integer(kept)
    if not known or isinstance(asked[0], int) == whole:
        return
    raise BadArgument(
        f"items of this summary are integers, and {_said(asked[0])} is a text: leave its quotes out"
        if whole
        else f"items of this summary are texts: write '{asked[0]}', not {asked[0]}"
    )


def _with_parts(table: pa.Table, parts: tuple[str, ...]) -> pa.Table:
    """The parts of joined items as columns of their own."""
    if not parts:
        return table
    split = [item.split(SEPARATOR, len(parts) - 1) for item in table["item"].to_pylist()]
    for at, name in enumerate(parts):
        values = [found[at] if at < len(found) else None for found in split]
        table = table.append_column(name, pa.array(values, pa.string()))
    return table


def _said(value: Argument) -> str:
    """NULL as NULL, not as Python's None."""
    return show_argument(Value(value))


def _numbers(what: str, low: float | None = None, high: float | None = None) -> Any:
    def parse(arguments: Sequence[Argument]) -> tuple[Argument, ...]:
        if not arguments:
            raise ArgumentError(0, f"{what} is missing")
        for index, value in enumerate(arguments):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ArgumentError(index, f"{_said(value)} is not a number", f"{what} is one")
            if (low is not None and value < low) or (high is not None and value > high):
                raise ArgumentError(index, f"{value!r} is not between {low:g} and {high:g}")
        return tuple(arguments)

    return parse


def _items(arguments: Sequence[Argument]) -> tuple[Argument, ...]:
    if not arguments:
        raise ArgumentError(0, "the items are missing")
    for index, value in enumerate(arguments):
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ArgumentError(
                index, f"{_said(value)} is not an item", "items are texts or integers"
            )
        if isinstance(value, str) != isinstance(arguments[0], str):
            raise ArgumentError(index, "items are all texts or all integers")
    whole = [a for a in arguments if isinstance(a, int)]
    for index, value in enumerate(whole):
        if not -(1 << 63) <= value < 1 << (63 if min(whole) < 0 else 64):
            raise ArgumentError(index, f"{value!r} is not an integer of 64 bits, as items are")
    return tuple(arguments)


def _number_of_rows(arguments: Sequence[Argument]) -> tuple[Argument, ...]:
    if not arguments:
        return (ROWS,)
    value = arguments[0]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= K_MAX:
        raise ArgumentError(0, f"{_said(value)} is not a number of rows from 1 to {K_MAX:,}")
    if len(arguments) > 1:
        raise ArgumentError(1, "there is one argument after the summary")
    return (value,)


def _nothing_more(arguments: Sequence[Argument]) -> tuple[Argument, ...]:
    if arguments:
        raise ArgumentError(0, "there is no argument after the summary")
    return ()


_MOMENT, _SPAN = pa.timestamp("us"), pa.duration("us")
PERIODIC: dict[str, pa.DataType] = {
    "item": pa.null(),  # of any type
    "interval": _SPAN,
    **dict.fromkeys(("periodicity", "lower", "upper"), pa.int64()),
    **dict.fromkeys(("next_expected", "last_batch", "first_seen"), _MOMENT),
    **dict.fromkeys(("interval_low", "interval_high"), _SPAN),
}
"""Columns of what is periodic, and what they are where nothing is."""


def _periodic(shards: Any, arguments: tuple[Argument, ...]) -> pa.Table:
    """Of the HyperCalm of each shard. Times are microseconds there, and become what SQL can
    compare with `now()`. `interval` is a recent mean, which lies in the range of the pair."""
    table = type(shards[0]).merged_top(shards, int(arguments[0] or 0))
    return pa.table(
        {
            name: table[name].cast(kind) if pa.types.is_temporal(kind) else table[name]
            for name, kind in PERIODIC.items()
        }
    )


GLOBAL_TOP_K = "global_top_k"
"""Kind of what a coordinator keeps over several sites: no summary of a pipeline."""
WITHOUT_WINDOWS = frozenset((GLOBAL_TOP_K, "periodic"))
"""Kinds that never have a window, so that none closes."""
_ORDERED = frozenset(("quantiles", "fingerprint"))
_COUNTED = frozenset(("frequency", "top_k"))
_BOUNDS = ("value", "lower", "upper", "confidence")

TABLE_FUNCTIONS: dict[str, TableFunction] = {
    function.name: function
    for function in (
        TableFunction(
            "contains", frozenset(("fingerprint",)), "contains(<summary>, 'd1', 'd2')",
            ("item", "present", "false_positive_rate"), _items, Contains,
        ),
        TableFunction(
            "quantiles", _ORDERED, "quantiles(<summary>, 0.5, 0.99)", ("q", *_BOUNDS, "n"),
            _numbers("a fraction from 0 to 1", 0, 1),
            lambda fractions: QuantilesAt(tuple(map(float, fractions))),
        ),
        TableFunction(
            "ranks", _ORDERED, "ranks(<summary>, 15, 60)",
            ("x", "rank", "lower", "upper", "confidence", "n"), _numbers("a value"), RanksOf,
        ),
        TableFunction(
            "top_k", _COUNTED | {GLOBAL_TOP_K}, "top_k(<summary>, 10)",
            ("item", "value", "lower", "upper", "guaranteed"), _number_of_rows,
            lambda most: Heaviest(int(most[0])), lambda summary, most: summary.top(most[0]),
            {GLOBAL_TOP_K: ("item", "value", "valid", "as_of")},
        ),
        TableFunction(
            "frequency", _COUNTED, "frequency(<summary>, 'd1', 'd2')", ("item", *_BOUNDS), _items,
            WeightOf,
        ),
        TableFunction(
            "distinct", frozenset(("distinct",)), "distinct(<summary>)", _BOUNDS,
            _nothing_more, lambda _: DistinctCount(),
        ),
        TableFunction(
            "periodic", frozenset(("periodic",)), "periodic(<summary>, 10)", tuple(PERIODIC),
            _number_of_rows, table=_periodic,
        ),
    )
}  # fmt: skip
"""By name: of those of a kind, first the one that is shown. A new kind of summary adds its name to
`kinds`, or a function of its own."""


def usages(info: SummaryInfo) -> str:
    """How a summary is asked, for messages."""
    known = [f.usage for f in TABLE_FUNCTIONS.values() if f.can_ask(info)]
    return " or ".join(known)
