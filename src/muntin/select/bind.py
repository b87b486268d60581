"""A FROM item and the catalog: which summary, which key, which columns."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

from muntin.errors import closest, did_you_mean
from muntin.select.catalog import (
    SPAN_COLUMNS,
    WINDOW_COLUMNS,
    ForClause,
    QueryInfo,
    SummaryInfo,
    trend_columns,
)
from muntin.select.functions import (
    TABLE_FUNCTIONS,
    WITHOUT_WINDOWS,
    Argument,
    ArgumentError,
    usages,
)
from muntin.select.places import Span, problem_at
from muntin.select.syntax import FromItem, Name, SourceItem, VectorItem, in_select, show_item
from muntin.times import duration_text

MATRIX = "vector_matrix"  # the kind whose rows are tables by themselves

_Info = TypeVar("_Info")
ItemKind = Literal["key", "total", "function", "trend", "windows"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A FROM item that exists: what to load and which columns it has."""

    kind: ItemKind
    source: str
    """Summary, or standing query for a trend."""
    window: ForClause | None
    columns: tuple[str, ...]
    alias: str
    """What its columns are qualified with where the text gives no alias."""
    shown: str
    """The item in one spelling, for messages."""
    key: tuple[str, ...] | None = None
    key_number: int = 0
    """i of Xi."""
    indicators: tuple[str, ...] = ()
    """Y1, Y2, ... of the summary, whether or not they are among `columns`."""
    function: str = ""
    arguments: tuple[Argument, ...] = ()
    vector: bool = False
    """In the paper's spelling."""
    keys: tuple[tuple[str, ...], ...] = ()
    """Of a vector matrix: those of all its tables, for messages."""
    summed: bool = False
    """One row will do: the sum of each column."""

    @property
    def every(self) -> int | None:
        """The step, where it has rows for each: microseconds."""
        return None if self.window is None else self.window.every_us


@dataclass(eq=False, repr=False)
class Binder:
    """Looks names up; each error names what there is."""

    text: str
    summaries: Mapping[str, SummaryInfo]
    queries: Mapping[str, QueryInfo]
    columns_of: Callable[[QueryInfo], tuple[str, ...]]
    steps: ForClause | None = None
    """What is asked of an item without a clause, where that is by steps and it can be."""

    def __post_init__(self) -> None:
        self._error = partial(problem_at, self.text, code="from_item")

    def bind(self, item: FromItem) -> Bound:
        bound = self._bind(item)
        has_rows_of_time = bound.kind in ("trend", "windows")
        if self.steps is not None and bound.window is None and not has_rows_of_time:
            info = self.summaries[bound.source]
            if info.kind not in WITHOUT_WINDOWS:
                bound = replace(bound, window=self.steps.by_steps_of(info.pane_us))
        return bound if bound.every is None else self._by_steps(item, bound, bound.every)

    def _by_steps(self, item: FromItem, bound: Bound, every: int) -> Bound:
        """Its columns behind those that say of which step a row is."""
        if bound.kind in ("trend", "windows"):
            message = f"{bound.kind}(...) has a row for each window, and none by steps"
            remedy = "leave EVERY out; FOR says which windows"
            raise self._error(item.span, message, remedy, code="window")
        info = self.summaries[bound.source]
        if info.kind in WITHOUT_WINDOWS:
            message = f"{info.name} speaks of the whole stream so far: it has no steps"
            raise self._error(item.span, message, "leave the FOR clause out", code="window")
        if info.pane_us and every % info.pane_us:
            pane = duration_text(info.pane_us)
            message = f"a step of {duration_text(every)} cuts the panes of {info.name}, {pane} each"
            remedy = f"give EVERY a multiple of {pane}"
            raise self._error(item.span, message, remedy, code="window")
        hidden = next((name for name in bound.columns if name.lower() in SPAN_COLUMNS), None)
        if hidden is not None:
            message = f"{bound.shown} has a column '{hidden}' already, as rows by steps have"
            remedy = "leave EVERY out, or give the column another name under fields"
            raise self._error(item.span, message, remedy)
        return replace(bound, columns=(*SPAN_COLUMNS, *bound.columns))

    def _bind(self, item: FromItem) -> Bound:
        if isinstance(item, VectorItem):
            return self._vector(item)
        name = item.name.lower()
        known = named(item.name, self.summaries)
        is_matrix = known is not None and known.kind == MATRIX
        if item.arguments is not None and not item.quoted and not is_matrix:
            if name == "trend":
                return self._trend(item)
            if name == "windows":
                return self._windows(item)
            if name in TABLE_FUNCTIONS:
                return self._function(item)
        return self._matrix(item)

    def _vector(self, item: VectorItem) -> Bound:
        info = self._vector_summary(item)
        if item.word == "sketch" and not info.sketched:
            raise self._error(
                item.span,
                f"{info.name} is exact: it has vectors, not sketches",
                f"write vector {item.key}.{(item.indicators or ('*',))[0]}",
            )
        if item.key > len(info.keys):
            raise self._error(
                item.span,
                f"{info.name} has no key {item.key}",
                "keys: " + _numbered("X", [show_key(k) for k in info.keys]),
            )
        indicators = info.indicators
        if item.indicators is not None:
            for number, span in zip(item.indicators, item.spans, strict=True):
                if number > len(info.indicators):
                    raise self._error(
                        span,
                        f"{info.name} has no indicator {number}",
                        "indicators: " + _numbered("Y", info.indicators),
                    )
            indicators = tuple(info.indicators[j - 1] for j in item.indicators)
        key = info.keys[item.key - 1]
        columns = (*key, *_numbers(info, indicators))
        return _bound(
            "key", item, info.name, columns, f"X{item.key}", key=key, key_number=item.key,
            indicators=info.indicators, vector=True, keys=info.keys,
        )  # fmt: skip

    def _vector_summary(self, item: VectorItem) -> SummaryInfo:
        matrices = [i for i in self.summaries.values() if i.kind == MATRIX]
        if item.summary is not None:
            info = self._summary(item.summary, item.summary_span)
            if info.kind != MATRIX:
                raise self._error(
                    item.summary_span,
                    f"{info.name} is not a vector matrix but {info.kind}",
                    f"ask it with {usages(info)}" if usages(info) else "",
                )
            return info
        if len(matrices) == 1:
            return matrices[0]
        if not matrices:
            raise self._error(item.span, "there is no vector matrix", "")
        raise self._error(
            item.span,
            f"which vector matrix? There are {', '.join(i.name for i in matrices)}",
            f"say which: {item.word} {item.key}.{(item.indicators or ('*',))[0]} "
            f"OF {matrices[0].name}",
        )

    def _matrix(self, item: SourceItem) -> Bound:
        length = min(item.span.length, len(item.name) + 2 * item.quoted)
        info = self._summary(item.name, Span(item.span.start, length))
        if info.kind != MATRIX:
            raise self._error(
                item.span,
                f"{info.name} is {info.kind}, which is no table by itself",
                f"ask it with {usages(info)}".replace("<summary>", in_select(info.name)),
            )
        if not item.arguments:
            return _bound(
                "total", item, info.name, ("count", *info.indicators), info.name,
                indicators=info.indicators, keys=info.keys,
            )  # fmt: skip
        names = []
        parts = {part.lower(): part for key in info.keys for part in key}
        for argument in item.arguments:
            if not isinstance(argument, Name):
                raise self._error(argument.span, "a key is a name", _keys_of(info))
            number = key_number(argument.text)
            if argument.text.lower() in parts:
                names.append(parts[argument.text.lower()])
            elif number and number <= len(info.keys):
                names += info.keys[number - 1]
            else:
                raise self._error(
                    argument.span,
                    f"{info.name} has no key '{argument.text}'",
                    did_you_mean(argument.text, parts.values(), "keys"),
                )
        for number, key in enumerate(info.keys, 1):
            if sorted(key) == sorted(names):
                columns = (*key, *_numbers(info, info.indicators))
                return _bound(
                    "key", item, info.name, columns, info.name, key=key, key_number=number,
                    indicators=info.indicators, keys=info.keys,
                )  # fmt: skip
        first, last = item.arguments[0].span, item.arguments[-1].span
        raise self._error(
            Span(first.start, last.start + last.length - first.start),
            f"{info.name} is not kept by ({', '.join(names)})",
            _keys_of(info),
        )

    def _function(self, item: SourceItem) -> Bound:
        function = TABLE_FUNCTIONS[item.name.lower()]
        info = self._first_summary(item, function.usage)
        if not function.can_ask(info):
            instead = usages(info) or _keys_of(info)
            raise self._error(
                item.span,
                f"{function.name}() cannot be asked of {info.name}, which is {info.kind}"
                + (" without `rank`" if info.kind in function.kinds else ""),
                instead.replace("<summary>", in_select(info.name)),
            )
        given = (item.arguments or ())[1:]
        for argument in given:
            if isinstance(argument, Name):
                raise self._error(
                    argument.span,
                    f"'{argument.text}' is a name where a constant is expected",
                    f"texts are written in single quotes: {function.usage}",
                )
        try:
            arguments = function.parse([a.value for a in given if not isinstance(a, Name)])
        except ArgumentError as error:
            span = given[error.index].span if error.index < len(given) else item.span
            raise self._error(span, str(error), error.remedy or function.usage) from None
        return _bound(
            "function", item, info.name, function.all_columns(info), function.name,
            function=function.name, arguments=arguments,
        )  # fmt: skip

    def _first_summary(self, item: SourceItem, usage: str) -> SummaryInfo:
        arguments = item.arguments or ()
        if not arguments or not isinstance(arguments[0], Name):
            raise self._error(item.span, "the first argument is the name of a summary", usage)
        return self._summary(arguments[0].text, arguments[0].span)

    def _trend(self, item: SourceItem) -> Bound:
        arguments = item.arguments or ()
        if len(arguments) != 1 or not isinstance(arguments[0], Name):
            raise self._error(item.span, "trend has one argument", "trend(<standing query>)")
        name = arguments[0].text
        query = named(name, self.queries)
        if query is None:
            summary = named(name, self.summaries)
            if summary is not None:
                raise self._error(
                    arguments[0].span,
                    f"{summary.name} is a summary, and no standing query",
                    f"its closed windows are windows({in_select(summary.name)})",
                    code="unknown_name",
                )
            raise self._error(
                arguments[0].span,
                f"no standing query '{name}'",
                did_you_mean(name, self.queries, "standing queries")
                or "its pipeline keeps none: they are declared under queries:",
                code="unknown_name",
            )
        self._check_closed(item)
        columns = trend_columns(self.columns_of(query))
        return _bound("trend", item, query.name, columns, "trend")

    def _windows(self, item: SourceItem) -> Bound:
        arguments = item.arguments or ()
        if len(arguments) != 1:
            raise self._error(item.span, "windows has one argument", "windows(<summary>)")
        info = self._first_summary(item, "windows(<summary>)")
        self._check_closed(item)
        return _bound("windows", item, info.name, WINDOW_COLUMNS, "windows")

    def _check_closed(self, item: SourceItem) -> None:
        if item.window is not None and item.window.kind == "open":
            raise self._error(
                item.span,
                f"{item.name.lower()}(...) is of windows that have closed, and not of the open one",
                "leave FOR out for all of them, or write FOR WINDOW LAST",
                code="window",
            )

    def _summary(self, name: str, span: Span) -> SummaryInfo:
        info = named(name, self.summaries)
        if info is not None:
            return info
        query = named(name, self.queries)
        if query is not None:
            raise self._error(
                span,
                f"{query.name} is a standing query, and no summary",
                f"its results are trend({in_select(query.name)})",
                code="unknown_name",
            )
        word = name.lower()
        matrix = named(name.partition("(")[0], self.summaries)
        if matrix is not None and matrix.keys:  # "orders(tip)", as a table of PostgreSQL's clients
            remedy = _keys_of(matrix)
        elif word in TABLE_FUNCTIONS:
            remedy = TABLE_FUNCTIONS[word].usage
        elif word in ("vector", "sketch"):
            remedy = f"vectors are written {name} 3.1 (key 3, indicator 1) or {name} 3.*"
        else:
            near = closest(name, TABLE_FUNCTIONS)
            known = [*self.summaries, *([near] if near else [])]
            remedy = did_you_mean(name, known, "summaries")
            remedy = remedy or "there are none yet: its pipeline has not begun"
        raise self._error(span, f"no summary '{name}'", remedy, code="unknown_name")


def _bound(
    kind: ItemKind, item: FromItem, source: str, columns: tuple[str, ...], alias: str, **more: Any
) -> Bound:
    return Bound(kind, source, item.window, columns, alias, show_item(item), **more)


def _numbers(info: SummaryInfo, indicators: tuple[str, ...]) -> tuple[str, ...]:
    """Columns of sums; those of a sketch are upper bounds, with lower bounds after them."""
    sums = ("count", *indicators)
    return (*sums, *(f"{name}_lower" for name in sums)) if info.sketched else sums


def show_key(key: tuple[str, ...]) -> str:
    return key[0] if len(key) == 1 else f"({', '.join(key)})"


def named(name: str, known: Mapping[str, _Info]) -> _Info | None:
    """What has a name, written in whatever case."""
    found = known.get(name)
    if found is not None:
        return found
    return next((each for n, each in known.items() if n.lower() == name.lower()), None)


def keyed_items(info: SummaryInfo) -> list[str]:
    """The FROM items of a vector matrix that have a row for each value of a key."""
    return [keyed_item(info.name, key) for key in info.keys]


def keyed_item(summary: str, key: tuple[str, ...]) -> str:
    """The FROM item that has a row for each value of a key."""
    return f"{in_select(summary)}({', '.join(map(in_select, key))})"


def _keys_of(info: SummaryInfo) -> str:
    shown = keyed_items(info)
    return "keys: " + ", ".join(shown) if shown else ""


def _numbered(letter: str, names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(f"{letter}{i} = {name}" for i, name in enumerate(names, 1)) or "none"


def key_number(name: str) -> int:
    """i of Xi, or 0."""
    match = re.fullmatch(r"[xX]([1-9]\d{0,3})", name)
    return int(match[1]) if match else 0
