"""Table functions: what can be asked of the summaries that are not tables themselves.

Each is an adapter from a summary's own query to rows: a value beside its bounds. A summary that
is split by columns (`by: origin`) gives one block of rows for each value, with those columns in
front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument
from muntin.kinds.periodic import SEPARATOR
from muntin.select.catalog import SummaryInfo
from muntin.select.conform import conformed
from muntin.summaries.base import Estimate

Argument = str | int | float | bool | None
K_MAX = 100_000
KEYED_COLUMNS = ("complete", "other")
"""After the answer of a split summary: whether the part holds all events of its key, and whether
it is the part of all keys past the limit (whose key columns are null)."""


class ArgumentError(Exception):
    """An argument of a table function is wrong; `index` counts from 0, after the summary."""

    def __init__(self, index: int, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.index = index
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class TableFunction:
    """One function of `FROM`.

    Attributes
    ----------
    kinds : frozenset of str
        Kinds of summaries that it can be asked of, in the pipeline file's words or the payload's.
    usage : str
        How it is written, for messages.
    columns : tuple of str
        Of the result, after the columns of `by`.
    parse : callable
        Checks the arguments after the summary; raises ArgumentError.
    table : callable
        (summary, arguments) -> pyarrow.Table with `columns`.
    columns_by_kind : mapping
        Kinds whose result has other columns.
    """

    name: str
    kinds: frozenset[str]
    usage: str
    columns: tuple[str, ...]
    parse: Callable[[Sequence[Argument]], tuple[Argument, ...]]
    table: Callable[[Any, tuple[Argument, ...]], pa.Table]
    columns_by_kind: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def all_columns(self, info: SummaryInfo) -> tuple[str, ...]:
        """Of the result for one summary."""
        columns = self.columns_by_kind.get(info.kind, self.columns)
        if info.by:
            return (*info.by, *columns, *KEYED_COLUMNS)
        return (*columns, *info.parts)

    def rows(self, summary: Any, info: SummaryInfo, arguments: tuple[Argument, ...]) -> pa.Table:
        """The function's rows; for a split summary, those of each of its parts."""
        summary = getattr(summary, "inner", summary)  # without the count of nulls around it
        if not info.by:
            return _with_parts(self.table(summary, arguments), info.parts)
        keys = summary.table().select([*info.by, *KEYED_COLUMNS])
        blocks = [
            conformed(self.table(part, arguments), self.columns) for part in summary.summaries()
        ]
        if not blocks:  # no keys: the types of a part's columns, without rows
            blocks = [conformed(self.table(summary.template, arguments), self.columns).slice(0, 0)]
        owner = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
        table = pa.concat_tables(blocks, promote_options="permissive")
        owners = keys.take(pa.array(owner))
        for name in keys.column_names:
            table = table.append_column(name, owners.column(name))
        return table.select(self.all_columns(info))


def _with_parts(table: pa.Table, parts: tuple[str, ...]) -> pa.Table:
    """The parts of joined items as columns of their own."""
    if not parts:
        return table
    split = [item.split(SEPARATOR, len(parts) - 1) for item in table["item"].to_pylist()]
    for at, name in enumerate(parts):
        values = [found[at] if at < len(found) else None for found in split]
        table = table.append_column(name, pa.array(values, pa.string()))
    return table


def _numbers(what: str, low: float | None = None, high: float | None = None) -> Any:
    def parse(arguments: Sequence[Argument]) -> tuple[Argument, ...]:
        if not arguments:
            raise ArgumentError(0, f"{what} is missing")
        for index, value in enumerate(arguments):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ArgumentError(index, f"{value!r} is not a number", f"{what} is one")
            if (low is not None and value < low) or (high is not None and value > high):
                raise ArgumentError(index, f"{value!r} is not between {low:g} and {high:g}")
        return tuple(arguments)

    return parse


def _items(arguments: Sequence[Argument]) -> tuple[Argument, ...]:
    if not arguments:
        raise ArgumentError(0, "the items are missing", "e.g. frequency(calls, 'd1', 'd2')")
    kinds = {str if isinstance(a, str) else int for a in arguments}
    for index, value in enumerate(arguments):
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ArgumentError(index, f"{value!r} is not an item", "items are texts or integers")
        if len(kinds) > 1 and isinstance(value, str) != isinstance(arguments[0], str):
            raise ArgumentError(index, "items are all texts or all integers")
    whole = [a for a in arguments if isinstance(a, int)]
    for index, value in enumerate(whole):
        if not -(1 << 63) <= value < 1 << (63 if min(whole) < 0 else 64):
            raise ArgumentError(index, f"{value!r} is not an integer of 64 bits, as items are")
    return tuple(arguments)


def _number_of_rows(default: int) -> Any:
    def parse(arguments: Sequence[Argument]) -> tuple[Argument, ...]:
        if not arguments:
            return (default,)
        value = arguments[0]
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= K_MAX:
            raise ArgumentError(0, f"{value!r} is not a number of rows from 1 to {K_MAX:,}")
        if len(arguments) > 1:
            raise ArgumentError(1, "there is one argument after the summary")
        return (value,)

    return parse


def _nothing_more(arguments: Sequence[Argument]) -> tuple[Argument, ...]:
    if arguments:
        raise ArgumentError(0, "there is no argument after the summary")
    return ()


def _estimated(
    asked: Mapping[str, Sequence[Any]],
    estimate: Estimate,
    rows: int,
    count: int | None = None,
    value: str = "value",
) -> pa.Table:
    """Questions beside answers; an empty summary answers with nulls."""
    columns: dict[str, Any] = dict(asked)
    found = (estimate.value, estimate.lower, estimate.upper)
    for name, values in zip((value, "lower", "upper"), map(np.atleast_1d, found), strict=True):
        kind = pa.from_numpy_dtype(np.asarray(values).dtype)
        columns[name] = pa.nulls(rows, kind) if len(values) != rows else pa.array(values)
    columns["confidence"] = pa.array(np.full(rows, float(estimate.confidence)))
    if count is not None:
        columns["n"] = pa.array(np.full(rows, count, np.int64))
    return pa.table(columns)


def _asked(arguments: tuple[Argument, ...]) -> pa.Array:
    beyond = any(isinstance(a, int) and a >= 1 << 63 for a in arguments)
    return pa.array(arguments, pa.uint64() if beyond else None)


def _floats(arguments: tuple[Argument, ...]) -> np.ndarray:
    return np.asarray(arguments, np.float64)


def _quantiles(summary: Any, arguments: tuple[Argument, ...]) -> pa.Table:
    asked = _floats(arguments)
    numbers = _numbers_of(summary)
    estimate = numbers.quantile(asked)
    return _estimated({"q": pa.array(asked)}, estimate, len(asked), numbers.count)


def _ranks(summary: Any, arguments: tuple[Argument, ...]) -> pa.Table:
    whole = all(isinstance(a, int) and abs(a) < 1 << 63 for a in arguments)
    asked = np.asarray(arguments) if whole else _floats(arguments)
    numbers = _numbers_of(summary)
    estimate = numbers.rank(asked)
    if numbers.kind == "dyadic_qdigest":  # its ranks are numbers of values, here are fractions
        estimate = _divided(estimate, numbers.count)
    return _estimated({"x": pa.array(asked)}, estimate, len(asked), numbers.count, "rank")


def _numbers_of(summary: Any) -> Any:
    """What ranks numbers: the summary itself, or the digest of a fingerprint."""
    if summary.kind != "fingerprint":
        return summary
    if summary.digest is None:
        raise BadArgument(
            "this fingerprint ranks no number: name one under `rank` in the pipeline file"
        )
    return summary.digest


def _divided(estimate: Estimate, count: int) -> Estimate:
    if not count:
        nothing = np.empty(0)
        return Estimate(nothing, nothing, nothing, estimate.confidence)
    return Estimate(
        estimate.value / count,
        estimate.lower / count,
        estimate.upper / count,
        estimate.confidence,
    )


def _frequency(summary: Any, arguments: tuple[Argument, ...]) -> pa.Table:
    items = _asked(arguments)
    if getattr(summary, "track", 0):
        _check_items(items, summary.top()["item"])
    return _estimated({"item": items}, summary.estimate(items), len(items))


def _check_items(asked: pa.Array, kept: pa.ChunkedArray) -> None:
    """A hash of '4' is not that of 4: asking for the other type would find nothing, silently."""
    if not len(kept) or pa.types.is_integer(asked.type) == pa.types.is_integer(kept.type):
        return
    plain = pa.types.is_integer(kept.type)
    raise BadArgument(
        "items of this summary are integers: write 4, not '4'"
        if plain
        else "items of this summary are texts: write '4', not 4"
    )


def _contains(summary: Any, arguments: tuple[Argument, ...]) -> pa.Table:
    items = _asked(arguments)
    present = np.atleast_1d(np.asarray(summary.contains(items), bool))
    rate = summary.false_positive_rate
    rate = rate() if callable(rate) else rate
    return pa.table(
        {
            "item": items,
            "present": pa.array(present),
            "false_positive_rate": pa.array(np.full(len(items), rate, np.float64)),
        }
    )


def _top_k(summary: Any, arguments: tuple[Argument, ...]) -> pa.Table:
    found = summary.top(arguments[0])
    if found.num_rows:
        return found
    return found.set_column(found.column_names.index("item"), "item", pa.nulls(0))  # of any type


def _distinct(summary: Any, arguments: tuple[Argument, ...]) -> pa.Table:  # noqa: ARG001
    return _estimated({}, summary.estimate(), 1)


def _periodic(summary: Any, arguments: tuple[Argument, ...]) -> pa.Table:
    """Times are microseconds here, and become what SQL can compare with `now()`.

    `interval` is a recent mean, which lies in the range of the pair.
    """
    k = int(arguments[0] or 0)
    if isinstance(summary, list | tuple):  # one for each shard of the items
        table = type(summary[0]).merged_top(summary, k)
    else:
        table = summary.top(min(k, summary.k))
    moment, span = pa.timestamp("us"), pa.duration("us")
    columns = {
        "item": table["item"],
        "interval": table["interval"].cast(span),
        "periodicity": table["periodicity"],
        "lower": table["lower"],
        "upper": table["upper"],
        "next_expected": table["next_expected"].cast(moment),
        "last_batch": table["last_batch"].cast(moment),
        "first_seen": table["first_seen"].cast(moment),
        "interval_low": table["interval_low"].cast(span),
        "interval_high": table["interval_high"].cast(span),
    }
    return pa.table(columns)


GLOBAL_TOP_K = "global_top_k"
"""Kind of what a coordinator keeps over several sites: no summary of a pipeline."""
_ORDERED = frozenset(("quantiles", "kll", "dyadic_qdigest", "fingerprint", "window_quantiles"))
_COUNTED = frozenset(("frequency", "count_min", "top_k", "space_saving"))
_BOUNDS = ("value", "lower", "upper", "confidence")

TABLE_FUNCTIONS: dict[str, TableFunction] = {
    function.name: function
    for function in (
        TableFunction(
            "quantiles",
            _ORDERED,
            "quantiles(<summary>, 0.5, 0.99)",
            ("q", *_BOUNDS, "n"),
            _numbers("a fraction from 0 to 1", 0, 1),
            _quantiles,
        ),
        TableFunction(
            "ranks",
            _ORDERED,
            "ranks(<summary>, 15, 60)",
            ("x", "rank", "lower", "upper", "confidence", "n"),
            _numbers("a value"),
            _ranks,
        ),
        TableFunction(
            "frequency",
            _COUNTED,
            "frequency(<summary>, 'd1', 'd2')",
            ("item", *_BOUNDS),
            _items,
            _frequency,
        ),
        TableFunction(
            "contains",
            frozenset(("fingerprint", "dynamic_bloom")),
            "contains(<summary>, 'd1', 'd2')",
            ("item", "present", "false_positive_rate"),
            _items,
            _contains,
        ),
        TableFunction(
            "top_k",
            _COUNTED | {GLOBAL_TOP_K},
            "top_k(<summary>, 10)",
            ("item", "value", "lower", "upper", "guaranteed"),
            _number_of_rows(10),
            _top_k,
            {GLOBAL_TOP_K: ("item", "value", "valid", "as_of")},
        ),
        TableFunction(
            "distinct",
            frozenset(("distinct",)),
            "distinct(<summary>)",
            _BOUNDS,
            _nothing_more,
            _distinct,
        ),
        TableFunction(
            "periodic",
            frozenset(("periodic", "hyper_calm")),
            "periodic(<summary>, 10)",
            (
                "item",
                "interval",
                "periodicity",
                "lower",
                "upper",
                "next_expected",
                "last_batch",
                "first_seen",
                "interval_low",
                "interval_high",
            ),
            _number_of_rows(10),
            _periodic,
        ),
    )
}
"""By name. A new kind of summary adds its name to `kinds`, or a function of its own."""


def usages(kind: str) -> str:
    """How a kind of summary is asked, for messages."""
    known = [f.usage for f in TABLE_FUNCTIONS.values() if kind in f.kinds]
    return " or ".join(known)
