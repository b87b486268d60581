"""Of items that are asked by steps: only those steps that a statement's WHERE lets through.

Tools that know no FOR filter by `window_start`. Their filter stays in the statement, but what it
leaves out need not be read from the ledger.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from muntin.errors import BadArgument
from muntin.select.bind import Bound
from muntin.select.catalog import SPAN_COLUMNS, ForClause
from muntin.select.columns import Origin
from muntin.select.narrowing import TURNED
from muntin.select.syntax import item_number
from muntin.times import DAY_US, instant_us

_TYPE = exp.DataType.Type
_TIMES = (_TYPE.TIMESTAMP, _TYPE.TIMESTAMPNTZ, _TYPE.TIMESTAMPTZ, _TYPE.DATE)
_LAST_US = instant_us("9999-12-31")
_UNITS_US = {
    "second": DAY_US // 86_400,
    "minute": DAY_US // 1_440,
    "hour": DAY_US // 24,
    "day": DAY_US,
    "week": 7 * DAY_US,
    "month": 31 * DAY_US,
    "quarter": 92 * DAY_US,
    "year": 366 * DAY_US,
}


@dataclass(frozen=True, slots=True)
class End:
    """What a filter compares an item's `window_start` with."""

    item: int
    sign: type[exp.Expr]
    constant: exp.Expr
    cut_us: int = 0
    """What is compared may lie before `window_start`, by less than this."""

    def within(self, window: ForClause, at: int) -> ForClause:
        """The steps of a window that are let through, where the constant is the moment `at`:
        whole ones, of which the filter leaves out what is too much."""
        every = window.every_us or 1
        low, high = window.start_us or 0, window.end_us or _LAST_US
        at = min(max(at, 0), _LAST_US)
        if self.sign in (exp.GT, exp.GTE, exp.EQ):
            low = max(low, at // every * every)
        if self.sign in (exp.LT, exp.LTE, exp.EQ):
            high = min(high, (at + self.cut_us) // every * every + every)
        return replace(window, kind="range", start_us=low, end_us=max(high, low + every))


def filtered_steps(
    tree: exp.Expr, items: Sequence[Bound | None], among: Collection[int]
) -> tuple[tuple[Bound | None, ...], tuple[End, ...]]:
    """The items of a resolved statement; those of `among`, which are asked for all steps, for a
    range of them where their SELECT, or one around it, compares `window_start` with constants. And
    the ends whose constants are to be computed."""
    found, left = list(items), list[End]()
    for select in tree.find_all(exp.Select):
        where = select.args.get("where")
        if where is None:
            continue
        clauses = (select.args.get("from_"), *(select.args.get("joins") or ()))
        of_it = {_item(clause.this) for clause in clauses if clause is not None}
        for end in _ends(where.this):
            item = found[end.item] if end.item in of_it and end.item in among else None
            if item is None or item.window is None or item.window.kind not in ("all", "range"):
                continue
            at = _constant_us(end.constant)
            if at is not None:
                found[end.item] = replace(item, window=end.within(item.window, at))
            elif end.constant.find(exp.Column, exp.From) is None:
                left.append(replace(end, constant=end.constant.copy()))  # the tree will change
    return tuple(found), tuple(left)


def _item(table: exp.Expr) -> int | None:
    """The FROM item that a table is, or that it takes rows of without looking at others."""
    while isinstance(table, exp.Subquery):
        select = table.this
        limits = (each.args.get(part) for each in (table, select) for part in ("limit", "offset"))
        if any(limits) or not isinstance(select, exp.Select) or select.args.get("qualify"):
            return None
        source = select.args.get("from_")
        over = any(each.find(exp.Window) for each in select.expressions)
        if source is None or over or select.args.get("joins"):
            return None
        table = source.this
    return item_number(table)


def _ends(where: exp.Expr) -> Iterator[End]:
    """Of what AND joins, comparisons of columns of FROM items."""
    left = [where]
    while left:
        part = left.pop().unnest()
        if isinstance(part, exp.And):
            left += [part.this, part.expression]
        elif isinstance(part, exp.Between):
            yield from _compared(part.this.unnest(), part.args["low"].unnest(), exp.GTE)
            yield from _compared(part.this.unnest(), part.args["high"].unnest(), exp.LTE)
        elif type(part) in TURNED:
            first, second = part.this.unnest(), part.expression.unnest()
            yield from _compared(first, second, type(part))
            yield from _compared(second, first, TURNED[type(part)])


def _compared(side: exp.Expr, constant: exp.Expr, sign: type[exp.Expr]) -> Iterator[End]:
    """`window_start`, also cut to a unit or in seconds, beside whatever else."""
    cut, is_day, seconds = 0, False, False
    while not isinstance(side, exp.Column):
        is_call = isinstance(side, exp.Anonymous) and len(side.expressions) == 2
        call = str(side.this).lower() if is_call else ""
        unit = side.expressions[0].name.lower() if is_call else ""
        if isinstance(side, exp.Cast) and side.to.this in _TIMES:
            is_day = is_day or side.to.this == _TYPE.DATE
            cut += DAY_US * (side.to.this == _TYPE.DATE)
            side = side.this.unnest()
        elif call == "date_trunc" and unit in _UNITS_US:
            cut += _UNITS_US[unit]
            side = side.expressions[1].unnest()
        elif call == "date_part" and unit == "epoch" and not seconds:
            seconds = True
            side = side.expressions[1].unnest()
        else:
            return
    if is_day and constant.is_string:  # it is read as a day
        constant = exp.cast(constant.copy(), "DATE")
    if seconds:
        constant = exp.Anonymous(this="to_timestamp", expressions=[constant.copy()])
    origin = side.meta.get("origin")
    if isinstance(origin, Origin) and origin.name == SPAN_COLUMNS[0]:
        yield End(origin.item, sign, constant, cut)


def _constant_us(node: exp.Expr) -> int | None:
    """The moment that a constant says; None where it is none, or DuckDB reads it otherwise."""
    literal, kind = node, None
    if isinstance(node, exp.Cast) and node.to.this in _TIMES:
        literal, kind = node.this, node.to.this
    if not literal.is_string:
        return None
    try:
        at = instant_us(literal.name)
    except BadArgument:
        return None
    return None if kind == _TYPE.DATE and at % DAY_US else at
