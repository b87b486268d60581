"""Of items that are asked by steps: only those steps that a statement's WHERE lets through.

Tools that know no FOR filter by `window_start`. Their filter stays in the statement, but what it
leaves out need not be read from the ledger.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace

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
_Ends = list[tuple[type[exp.Expr], int]]  # how window_start is compared, and with what


def filtered_steps(
    tree: exp.Expr, items: tuple[Bound | None, ...], among: Collection[int]
) -> tuple[Bound | None, ...]:
    """The items of a resolved statement; those of `among`, which are asked for all steps, for a
    range of them where their SELECT compares `window_start` with constants."""
    found = list(items)
    for select in tree.find_all(exp.Select):
        where = select.args.get("where")
        if where is None:
            continue
        ends = dict[Origin, _Ends]()
        for origin, sign, at in _comparisons(where.this):
            ends.setdefault(origin, []).append((sign, at))
        for clause in (select.args.get("from_"), *(select.args.get("joins") or ())):
            number = None if clause is None else item_number(clause.this)
            item = None if number is None or number not in among else found[number]
            if number is not None and item is not None and item.window is not None:
                said = ends.get(Origin(number, SPAN_COLUMNS[0]), [])
                found[number] = replace(item, window=_range(item.window, said))
    return tuple(found)


def _range(window: ForClause, ends: _Ends) -> ForClause:
    """Whole steps, of which the filter leaves out what is too much."""
    every = window.every_us or 1
    lows = [at // every * every for sign, at in ends if sign in (exp.GT, exp.GTE, exp.EQ)]
    highs = [at // every * every + every for sign, at in ends if sign in (exp.LT, exp.LTE, exp.EQ)]
    if window.kind != "all" or not ends:
        return window
    start, end = max(lows, default=0), min(highs, default=_LAST_US)
    return replace(window, kind="range", start_us=start, end_us=max(end, start + every))


def _comparisons(where: exp.Expr) -> Iterator[tuple[Origin, type[exp.Expr], int]]:
    """Of what AND joins, columns of FROM items beside constant times."""
    left = [where]
    while left:
        part = left.pop().unnest()
        if isinstance(part, exp.And):
            left += [part.this, part.expression]
        elif isinstance(part, exp.Between):
            left += [
                exp.GTE(this=part.this, expression=part.args["low"]),
                exp.LTE(this=part.this, expression=part.args["high"]),
            ]
        elif type(part) in TURNED:
            sides = part.this.unnest(), part.expression.unnest()
            kind = type(part)
            if not isinstance(sides[0], exp.Column):
                sides, kind = sides[::-1], TURNED[kind]
            origin, at = sides[0].meta.get("origin"), _constant_us(sides[1])
            if isinstance(origin, Origin) and at is not None:
                yield origin, kind, at


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
