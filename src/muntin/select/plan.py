"""From text to a plan that can be run: parse, check, names, SQL; kept by text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from muntin.cache import Cache
from muntin.errors import SelectError
from muntin.select.bind import Binder, Bound
from muntin.select.catalog import ForClause, Moment, QueryInfo, SummaryInfo
from muntin.select.check import check_tree
from muntin.select.columns import Origin
from muntin.select.database import UNDECIMAL
from muntin.select.filtered_steps import End, filtered_steps
from muntin.select.limits import Limits
from muntin.select.listing import listed
from muntin.select.names import resolve
from muntin.select.narrowing import Narrowing, narrowing_of, projected, summed
from muntin.select.parser import parse
from muntin.select.places import NOWHERE, span_of
from muntin.select.shapes import Slots, filled, outline_of, slots_of
from muntin.select.syntax import (
    DIALECT,
    MARK,
    PLACEHOLDER,
    SUM,
    Statement,
    in_select,
    like_as_regex,
    show,
    show_item,
)
from muntin.select.tokens import check_text
from muntin.select.values import distinct_names

_PLANS_MAX = 512  # by text, and again by outline
_PLANS_CHARACTERS_MAX = _PLANS_MAX * 4096
_TREND_DEPTH_MAX = 8  # a trend of a trend of a trend ...


@dataclass(frozen=True, slots=True)
class ComputedEnds:
    """Ends with constants that DuckDB computes: `sql` selects them in this order."""

    ends: tuple[End, ...]
    sql: str
    clock: bool


@dataclass(frozen=True, slots=True)
class CheckedStatement:
    """A statement that could be run now: all of its names exist. `columns`: of the result; a name
    that stands twice has a number."""

    text: str
    columns: tuple[str, ...]
    items: tuple[Bound | None, ...]
    sql: str
    clock: bool
    projected: tuple[str, ...] | None
    """Columns of the one FROM item, where the statement does nothing but list them."""
    narrowing: Narrowing | None
    """Which rows of the one FROM item are enough."""
    names: frozenset[str] | None
    """Columns that it reads, of whichever item; None: all that there are."""
    compared: frozenset[str]
    """Columns in what it compares; "": others, of any type."""
    written: Mapping[str, str]
    """Columns by what the text calls them where that is another name: X1, Y2."""
    sums: tuple[Origin, ...]
    """Columns that are added up, in the order of their marks."""
    limits: Limits
    rows: pa.Table | None = None
    """Of one that lists what there is."""
    ends: ComputedEnds | None = None
    """Of the steps that it reads."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Summaries that it reads, each once; not standing queries whose trend it reads."""
        read = (b.source for b in self.items if b is not None and b.kind != "trend")
        return tuple(dict.fromkeys(read))

    @property
    def statement(self) -> Statement:
        """The text, parsed again: for errors after planning, and to show it."""
        return parse(self.text, self.limits)

    def show(self) -> str:
        """The statement in one spelling."""
        return show(self.statement)


_ToAsk = tuple[Mapping[str, SummaryInfo], Mapping[str, QueryInfo]]  # what there is to ask


@dataclass(frozen=True, slots=True)
class _Planned:
    plan: CheckedStatement
    known: _ToAsk
    slots: Slots | None = None
    steps: ForClause | None = None


class Planner:
    """Checks statements against what can be asked; thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._plans, self._shapes = (
            Cache[_Planned](_PLANS_CHARACTERS_MAX, entries_max=_PLANS_MAX) for _ in range(2)
        )

    def plan(self, text: str, moment: Moment, steps: ForClause | None = None) -> CheckedStatement:
        """The plan of a text, from the last time if there is still the same to ask. `steps`: what
        is asked of FROM items without a clause, where that is by steps."""
        known = dict(moment.summaries()), dict(moment.queries())
        entry = self._plans.get(text) if isinstance(text, str) else None
        if entry is not None and (entry.known, entry.steps) == (known, steps):
            return entry.plan
        check_text(text, self._limits)
        plan = self._listing(text, known, moment)
        if plan is not None:
            return plan  # not kept: it lists what is stored now
        try:
            plan = None if steps else self._with_constants(text, known)
            plan = plan or self._make(text, known, (), steps)
        except SelectError as problem:
            raise _with_quotes(problem, known[0].values()) from None
        self._plans.put(text, _Planned(plan, known, steps=steps), len(text))
        return plan

    def _listing(self, text: str, known: _ToAsk, moment: Moment) -> CheckedStatement | None:
        def columns_of(query: QueryInfo) -> tuple[str, ...]:
            return self._make(query.select, known, (query.name,)).columns

        rows = listed(text, *known, columns_of, moment.span_of)
        if rows is None:
            return None
        columns, names = tuple(rows.column_names), frozenset[str]()
        return CheckedStatement(
            text, columns, (), "", False, None, None, names, names, {}, (), self._limits, rows
        )

    def _make(
        self,
        text: str,
        known: _ToAsk,
        around: tuple[str, ...],
        steps: ForClause | None = None,
    ) -> CheckedStatement:
        statement = parse(text, self._limits)
        check_tree(statement, self._limits)

        def columns_of(query: QueryInfo) -> tuple[str, ...]:
            if query.name in around or len(around) >= _TREND_DEPTH_MAX:
                raise SelectError(
                    f"the standing query '{query.name}' reads its own trend",
                    code="from_item",
                    text=text,
                )
            return self._make(query.select, known, (*around, query.name)).columns

        binder = Binder(text, *known, columns_of, steps)
        items, columns = resolve(statement, binder, self._limits)
        tree, ends = statement.tree, tuple[End, ...]()
        if steps is not None:
            without = {at for at, item in enumerate(statement.items) if item.window is None}
            items, ends = filtered_steps(tree, items, without)
        narrowing = narrowing_of(tree, items)
        about = projected(tree, items, narrowing), narrowing, _names_read(tree), _compared(tree)
        written = _written(tree, text)
        items, sums = summed(tree, items), _marked_sums(tree)
        try:
            sql, clock = render(tree)  # last: it changes the tree
        except UnsupportedError as problem:
            raise SelectError(
                f"this cannot be run: {problem}", code="not_allowed", text=text
            ) from None
        names = tuple(distinct_names(columns))
        plan = CheckedStatement(text, names, items, sql, clock, *about, written, sums, self._limits)
        if around or steps is not None:
            return replace(plan, ends=_computed(ends))
        slots = slots_of(statement, plan.sql, plan.narrowing, self._limits)
        if slots is not None:
            outline, _ = outline_of(text)
            self._shapes.put(outline, _Planned(plan, known, slots), len(text))
        return plan

    def _with_constants(self, text: str, known: _ToAsk) -> CheckedStatement | None:
        """The plan of a text that differs from an earlier one in constants of its FROM item, or
        of conditions.

        None where there is none, and where there is anything wrong: `_make` says what and where.
        """
        outline, constants = outline_of(text)
        entry = self._shapes.get(outline)
        if entry is None or entry.slots is None or entry.known != known:
            return None
        plan = entry.plan
        found = filled(entry.slots, constants, plan.sql, plan.narrowing, self._limits)
        if found is None:
            return None
        item, sql, narrowing = found
        (bound,) = plan.items
        if item.arguments is not entry.slots.item.arguments:
            try:
                bound = Binder(text, *known, _no_columns).bind(item)
            except SelectError:
                return None
        elif item is not entry.slots.item:
            assert bound is not None  # noqa: S101 (it has a window)
            bound = replace(bound, window=item.window, shown=show_item(item))
        return replace(plan, text=text, items=(bound,), sql=sql, narrowing=narrowing)


def _with_quotes(problem: SelectError, summaries: Iterable[SummaryInfo]) -> SelectError:
    """The error, with the remedy where a word of SQL at its place, or before it, is a column."""
    before, end = problem.text[: problem.position], problem.position + problem.length
    words = re.findall(r"\w+", problem.text[problem.position : end])
    words += re.findall(r"\w+", before)[-1:]
    words += re.findall(r"\b[A-Z]+\b", problem.message)[-1:]
    columns = (name for s in summaries for name in (*s.indicators, *s.by, *chain(*s.keys)))
    for name in columns:
        shown = in_select(name)
        if name.lower() in map(str.lower, words) and shown != name and shown not in problem.text:
            remedy = f"; {problem.remedy}" if problem.remedy else ""
            return problem.replaced(remedy=f"the column is written {shown}{remedy}")
    return problem


def _marked_sums(tree: exp.Expr) -> tuple[Origin, ...]:
    """Marks each `sum` of a column of a FROM item with a number, for `with_sources`: of floats
    another function of DuckDB's keeps what rounding lost. The columns, by that number."""
    found: list[Origin] = []
    for node in tree.find_all(exp.Anonymous):
        origin = next((argument.meta.get("origin") for argument in node.expressions), None)
        over_rows = isinstance(node.parent, exp.Window)
        if str(node.this).lower() == "sum" and not over_rows and isinstance(origin, Origin):
            node.set("this", f"{MARK}sum{len(found)}")
            found.append(origin)
    return tuple(found)


def _names_read(tree: exp.Expr) -> frozenset[str] | None:
    if any(isinstance(star.parent, exp.Select | exp.Column) for star in tree.find_all(exp.Star)):
        return None
    return frozenset(column.name for column in tree.find_all(exp.Column)) | _joined(tree)


_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In,
    exp.Between, exp.Case,
)  # fmt: skip
_OF_ANY_TYPE = exp.Cast, exp.DPipe, exp.Anonymous


def _compared(tree: exp.Expr) -> frozenset[str]:
    calls = (n for n in tree.find_all(exp.Anonymous) if str(n.this).lower() == "nullif")
    found = (*tree.find_all(*_COMPARISONS), *calls)
    parts = (part for node in found for part in node.find_all(exp.Column, *_OF_ANY_TYPE))
    return frozenset(p.name if isinstance(p, exp.Column) else "" for p in parts) | _joined(tree)


def _written(tree: exp.Expr, text: str) -> dict[str, str]:
    columns = (
        (span_of(each.this) or NOWHERE, each.name.lower()) for each in tree.find_all(exp.Column)
    )
    words = (
        (text[at.start : at.start + at.length].strip('"').lower(), name) for at, name in columns
    )
    return {word: name for word, name in words if word != name}


def _joined(tree: exp.Expr) -> frozenset[str]:
    """Columns of USING, which are none of the tree."""
    joins = tree.find_all(exp.Join)
    using = (name for join in joins for name in join.args.get("using") or ())
    return frozenset(side.name for name in using for side in name.meta["same"])


def _no_columns(query: QueryInfo) -> tuple[str, ...]:
    """A trend has no constants, so that nobody asks."""
    raise SelectError(f"the columns of '{query.name}' are not known here")


_BETWEEN_VALUES = frozenset(("median", "quantile_cont"))
NOW = "now_utc"  # name of the parameter that holds the statement's clock


def _computed(ends: tuple[End, ...]) -> ComputedEnds | None:
    select = exp.Select(expressions=[exp.Paren(this=end.constant) for end in ends])
    return ComputedEnds(ends, *render(select)) if ends else None


def render(tree: exp.Expr) -> tuple[str, bool]:
    """SQL of DuckDB's with the meaning that Muntin promises, and whether it uses the clock.

    - Division by zero is null: `a / b` becomes `a / nullif(b, 0)`, and so do `//` and `%`.
    - `now()` is the statement's clock, a parameter; the rendered text does not hold the time.
    - `median` and `quantile_cont` of decimals are those of floats: DuckDB rounds what lies between
      two decimals to a decimal.
    - LIKE with many wildcards goes to DuckDB's linear regular expressions, since its own matcher
      tries again from each place and may take time exponential in the wildcards.

    FROM items stay as marks, for `with_sources`, until it is known what was loaded. The tree is
    changed.
    """
    clock = False
    # From the leaves up, and nothing is copied: what is inside a divisor or a pattern's subject is
    # rewritten before it moves there.
    for node in reversed(list(tree.walk())):
        if isinstance(node, (exp.Div, exp.IntDiv, exp.Mod)):
            _safe_division(node)
        elif isinstance(node, (exp.Like, exp.ILike)):
            _bounded_pattern(node)
        elif isinstance(node, (exp.CurrentTimestamp, exp.CurrentDate)) or (
            isinstance(node, exp.Anonymous) and str(node.this).lower() == "now"
        ):
            clock = True
            node.replace(_clock(node))
        elif isinstance(node, exp.Anonymous) and str(node.this).lower() in _BETWEEN_VALUES:
            _on_floats(node)
    sql = DIALECT.generate(
        tree,
        copy=False,
        identify=True,
        comments=False,
        normalize_functions="lower",
        unsupported_level=ErrorLevel.RAISE,  # else what it cannot write is left out with a warning
    )
    return sql, clock


def with_sources(sql: str, sources: Sequence[str], sums: Sequence[str] = ()) -> str:
    """Put each FROM item's SQL, and what adds up a column, where its mark stands."""
    sql = PLACEHOLDER.sub(lambda m: sources[int(m[1])], sql)
    return SUM.sub(lambda m: sums[int(m[1])], sql) if sums else sql


def _safe_division(node: exp.Expr) -> None:
    divisor = node.args["expression"]
    plain = divisor
    while isinstance(plain, (exp.Paren, exp.Neg)):
        plain = plain.this
    if isinstance(plain, exp.Literal) and not plain.is_string and float(plain.name) != 0:
        return
    zero = exp.Literal.number(0)
    node.set("expression", exp.Anonymous(this="nullif", expressions=[divisor, zero]))


def _on_floats(node: exp.Anonymous) -> None:
    values = next((each for each in node.expressions if isinstance(each, exp.Distinct)), node)
    for value in values.expressions[:1]:
        if not isinstance(value, exp.Tuple):  # that is none of DuckDB's either, and it says so
            value.replace(around := exp.Anonymous(this=UNDECIMAL))
            around.set("expressions", [value])


def _clock(node: exp.Expr) -> exp.Expr:
    moment = exp.cast(exp.Parameter(this=exp.Var(this=NOW)), "TIMESTAMP", dialect=DIALECT)
    is_day = isinstance(node, exp.CurrentDate)
    return exp.cast(moment, "DATE", dialect=DIALECT) if is_day else moment


def _bounded_pattern(node: exp.Expr) -> None:
    pattern = node.expression.name
    simple = isinstance(node, exp.Like) and "_" not in pattern
    groups = len(re.findall(r"%+", pattern.rstrip("%")))
    if simple or groups <= 1:
        return
    node.replace(like_as_regex(node))
