"""What a statement compares, and whether it can be: decided by types, never by the rows.

DuckDB turns texts into numbers where they are compared with one, and fails at the first that is
none: a statement would work until such a row comes. Constant texts are read when a statement is
made (`database`), but those in tuples, as which it compares the other side's texts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from sqlglot import exp

from muntin.arrow import is_text, value_type
from muntin.select.allowed import words
from muntin.select.columns import Kind, Origin
from muntin.select.places import NOWHERE, span_of, starts_of
from muntin.select.syntax import DIALECT
from muntin.select.values import is_wide

_PAIRS = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ,
)  # fmt: skip
_TEXT, _INTEGER, _NUMBER, _TRUTH, _TIME, _LENGTH = (
    "a text", "an integer", "a number", "a truth value", "a time", "a length or time of day",
)  # fmt: skip
_CASTS = {
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), _NUMBER),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128"), _INTEGER),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINT", "UBIGINT"), _INTEGER),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMPNTZ"), _TIME),
    **dict.fromkeys(("TEXT", "VARCHAR"), _TEXT),
    "BOOLEAN": _TRUTH,
}
_GIVES = {
    name: kind
    for kind, names in {
        _TEXT: """
            lower upper substr substring left right trim ltrim rtrim concat split_part reverse
            regexp_extract strftime dayname monthname
        """,
        _INTEGER: "length strlen strpos instr count row_number rank dense_rank ntile",
        _TRUTH: "starts_with ends_with contains regexp_matches regexp_full_match",
    }.items()
    for name in words(names)
}
"""Types of what functions give, whatever they are given."""
_SAME = words(
    """
    min max first last any_value arg_min arg_max min_by max_by mode lag lead first_value last_value
    nth_value coalesce ifnull nullif greatest least
    """
)
"""Functions that give one of their first argument's type."""
_NUMBERS = words("abs round floor ceil ceiling trunc sum sqrt ln log exp power pow")
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_REMEDIES = {
    _TEXT: "write the constant in single quotes, or cast the text with TRY_CAST",
    _TRUTH: "write true or false",
    _TIME: "write a time as TIMESTAMP '2026-01-01 10:00' (UTC)",
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`shown` is compared with another; each by its type."""

    shown: str
    name: str
    """A column in it, as it was written: X1, Y2."""
    nth: int
    """Of the places of that name in the text, from 0: constants before it may be others."""
    mine: Kind
    other: Kind


def comparisons(tree: exp.Expr, text: str) -> tuple[Comparison, ...]:
    """Those of a resolved statement whose types are known once its tables are there."""
    found: dict[Comparison, None] = {}
    for node in tree.walk():
        pairs = {(id(one), kind_of(other)): (one, other) for one, other in _pairs(node)}
        for (_, theirs), (one, other) in pairs.items():
            mine = kind_of(one)
            for side, kind, against in ((one, mine, theirs), (other, theirs, mine)):
                column = None if side.find(exp.Query) else side.find(exp.Column)
                if column is not None and kind is not None and against is not None:
                    place = span_of(column.this) or NOWHERE
                    word = text[place.start : place.start + place.length].strip('"')
                    nth = sum(start < place.start for start in starts_of(word, text))
                    shown = side.name if side is column else side.sql(dialect=DIALECT)[:64]
                    found[Comparison(shown, word, nth, kind, against)] = None
    return tuple(found)


def mismatch(
    compared: Sequence[Comparison], schemas: Sequence[pa.Schema | None]
) -> tuple[Comparison, str, str] | None:
    """What cannot be compared as it is, what is wrong with it, and what to write.

    `schemas`: of each FROM item, as it was loaded.
    """
    for each in compared:
        mine, other = _type_of(each.mine, schemas), _type_of(each.other, schemas)
        if "" in (mine, other) or (mine == _TEXT) == (other == _TEXT):
            continue
        remedy = _REMEDIES.get(mine, "write the constant without quotes")
        return each, f"{each.shown} is {mine}, and is compared with {other}", remedy
    return None


def _pairs(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """What a node compares; of tuples their parts."""
    if isinstance(node, exp.Join):
        for name in node.args.get("using") or []:
            yield name.meta["same"]
    first, *others = _operands(node) or (None,)
    for other in others:
        if isinstance(first, exp.Tuple) and isinstance(other, exp.Tuple):
            yield from zip(first.expressions, other.expressions, strict=False)
        elif first is not None:
            yield first, other


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """What a node compares: the first with each of the others."""
    if isinstance(node, _PAIRS):
        return [node.this, node.expression]
    if isinstance(node, exp.In):
        return [node.this, *node.expressions]
    if isinstance(node, exp.Between):
        return [node.this, node.args["low"], node.args["high"]]
    if isinstance(node, exp.Case) and node.this is not None:
        return [node.this, *(each.this for each in node.args["ifs"])]
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == "nullif":
        return list(node.expressions)
    return []


def kind_of(node: exp.Expr) -> Kind:
    """What is known of the type of an expression whose names are resolved."""
    while isinstance(node, (exp.Paren, exp.Neg, exp.Filter, exp.Window)):
        node = node.this
    if isinstance(node, exp.Column):
        return node.meta.get("kind")
    if isinstance(node, exp.Subquery):
        return kind_of(node.this)
    if isinstance(node, exp.Select):  # of one column, where it is a value
        return kind_of(node.expressions[0].unalias())
    if isinstance(node, exp.Boolean):
        return _TRUTH
    if isinstance(node, exp.Cast):
        return _CASTS.get(node.to.this.value)
    if isinstance(node, exp.DPipe):
        return _TEXT
    if isinstance(node, _ARITHMETIC):
        of = _together(kind_of(node.this), kind_of(node.expression))
        return _together(_NUMBER, of) if isinstance(node, exp.Div) else of
    if isinstance(node, exp.Case):
        return kind_of(node.args["ifs"][0].args["true"])
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
        if name in _GIVES or not node.expressions:
            return _GIVES.get(name)
        if name == "if" and len(node.expressions) > 1:
            return kind_of(node.expressions[1])
        of_first = kind_of(node.expressions[0])
        if name in _SAME:
            return of_first
        return _together(_NUMBER, of_first) if name in _NUMBERS else None
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return _TEXT if isinstance(node.parent, exp.Tuple) else None
    return _INTEGER if node.name.isdigit() else _NUMBER


def _together(*kinds: Kind) -> Kind:
    """A number of numbers, each once: else `n + n` of a query over a query would double them."""
    parts = (kind if isinstance(kind, tuple) else (kind,) for kind in kinds)
    return tuple(dict.fromkeys(chain.from_iterable(parts)))


def _type_of(kind: Kind, schemas: Sequence[pa.Schema | None]) -> str:
    """A type in words; "" where nothing follows from it."""
    if isinstance(kind, tuple):
        parts = {_type_of(part, schemas) for part in kind}
        if not parts <= {_INTEGER, _NUMBER}:
            return ""
        return _NUMBER if _NUMBER in parts else _INTEGER
    if not isinstance(kind, Origin):
        return kind if isinstance(kind, str) else ""
    schema = schemas[kind.item]
    found = pa.null() if schema is None else value_type(schema.field(kind.name).type)
    if is_text(found):
        return _TEXT
    if pa.types.is_integer(found) or is_wide(found):
        return _INTEGER
    if pa.types.is_floating(found) or pa.types.is_decimal(found):
        return _NUMBER
    if pa.types.is_boolean(found):
        return _TRUTH
    if pa.types.is_timestamp(found) or pa.types.is_date(found):
        return _TIME
    return _LENGTH if pa.types.is_temporal(found) else ""
