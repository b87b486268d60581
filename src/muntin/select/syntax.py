"""What a statement is once it is parsed: FROM items of our own around a tree of sqlglot's.

In the tree, each FROM item is a table whose name holds a control character and its number, which
no text can spell (the lexer refuses control characters). Places in the text do not take part in
comparisons: two statements are equal if they ask the same.
"""

import re
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokenizer_core import TokenType

from muntin.select.catalog import ForClause
from muntin.select.places import NOWHERE, Span
from muntin.times import duration_text, instant_text

DIALECT = DuckDB()
MARK = "\x01"
PLACEHOLDER = re.compile(f'"{MARK}(\\d+)"')
SUM = re.compile(f"{MARK}sum(\\d+)")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# in sqlglot 30.22 GROUP without BY is a name
_RESERVED = frozenset((*DuckDB.Generator.RESERVED_KEYWORDS, "group"))  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Name:
    """A name as an argument of a FROM item."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Value:
    """A constant as an argument of a FROM item."""

    value: str | int | float | bool | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class SourceItem:
    """`orders`, `orders(driver, area)`, `quantiles(delays, 0.5)`, `trend(busiest)`, or a CTE."""

    name: str
    arguments: tuple[Name | Value, ...] | None
    window: ForClause | None
    quoted: bool = False  # a quoted name is a summary's, never a function's
    span: Span = field(default=NOWHERE, compare=False)
    window_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class VectorItem:
    """`vector 3.1, vector 3.2 OF orders`: vectors of one key, in the paper's spelling."""

    key: int
    indicators: tuple[int, ...] | None  # None for `vector 3.*`
    summary: str | None
    window: ForClause | None
    word: str = "vector"  # or "sketch"
    span: Span = field(default=NOWHERE, compare=False)
    spans: tuple[Span, ...] = field(default=(), compare=False)  # of each indicator
    summary_span: Span = field(default=NOWHERE, compare=False)


FromItem = SourceItem | VectorItem


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement; names are not resolved yet."""

    items: tuple[FromItem, ...]
    tree: exp.Expr
    text: str = field(default="", compare=False)


def placeholder(number: int) -> str:
    """The table name that stands for FROM item `number` in the tree."""
    return f"{MARK}{number}"


def item_number(table: exp.Expr) -> int | None:
    """Which FROM item a table of the tree stands for; None for a CTE."""
    name = table.name
    return int(name[1:]) if name.startswith(MARK) else None


def constant_text(node: exp.Expr) -> str | None:
    """What a text's parts are together, as drivers write a pattern: '%' || 'a' || '%', or
    UPPER('%a%')."""
    if isinstance(node, exp.DPipe):
        parts = [constant_text(node.this), constant_text(node.expression)]
        return None if None in parts else "".join(part or "" for part in parts)
    if isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and node.to.sql() == "TEXT"):
        return constant_text(node.this)
    if isinstance(node, exp.Anonymous) and node.name.lower() in ("upper", "lower"):
        text = constant_text(node.expressions[0]) if len(node.expressions) == 1 else None
        cased = [getattr(c, node.name.lower())() for c in text or ""]
        # DuckDB's are letter by letter
        return None if text is None or max(map(len, cased), default=0) > 1 else "".join(cased)
    return node.name if node.is_string else None


def like_as_regex(like: exp.Expr, sign: str = "") -> exp.Expr:
    """LIKE or ILIKE of a constant as a regular expression; `sign` is that of ESCAPE.

    ILIKE compares lower cases, letter by letter: a regular expression that ignores the case takes
    others for one.
    """
    subject, pattern = like.this, like.expression.name
    if isinstance(like, exp.ILike):
        subject = exp.Anonymous(this="lower", expressions=[subject])
        pattern, sign = ("".join(c.lower()[0] for c in text) for text in (pattern, sign))
    either = f"{re.escape(sign)}(.)|(.)" if sign else "()(.)"
    expression = "".join(
        re.escape(kept) if kept else {"%": ".*", "_": "."}.get(found) or re.escape(found)
        for kept, found in re.findall(either, pattern, re.DOTALL)
    )
    arguments = [subject, exp.Literal.string(expression), exp.Literal.string("s")]
    match = exp.Anonymous(this="regexp_full_match", expressions=arguments)
    return exp.Paren(this=exp.Not(this=match)) if like.args.get("negate") else match


def show(statement: Statement, part: exp.Expr | None = None) -> str:
    """The statement as text, in one spelling; parsing it gives an equal statement. Or a `part`."""
    tree = part or statement.tree
    sql = tree.sql(dialect=DIALECT, comments=False, normalize_functions=False)
    return PLACEHOLDER.sub(lambda m: show_item(statement.items[int(m[1])]), sql)


def show_item(item: FromItem) -> str:
    """A FROM item as text, with its window clause and without its alias."""
    clause = "" if item.window is None else f" FOR {show_window(item.window)}"
    if isinstance(item, VectorItem):
        of = "" if item.summary is None else f" OF {show_name(item.summary)}"
        columns = ("*",) if item.indicators is None else item.indicators
        return ", ".join(f"{item.word} {item.key}.{j}{of}{clause}" for j in columns)
    name = show_name(item.name, in_quotes=item.quoted)
    if item.arguments is not None:
        name += f"({', '.join(show_argument(a) for a in item.arguments)})"
    return name + clause


def show_name(name: str, *, in_quotes: bool = False) -> str:
    return name if not in_quotes and _PLAIN_NAME.match(name) else quoted(name)


def in_select(name: str) -> str:
    """A name as one would write it: in quotes only where it must be."""
    if must_be_quoted(name):
        return quoted(name)
    tokens = DIALECT.tokenize(name)
    return name if [token.token_type for token in tokens] == [TokenType.VAR] else quoted(name)


def must_be_quoted(name: str) -> bool:
    """Whether it is no plain name, or a word of SQL."""
    return not _PLAIN_NAME.match(name) or name.lower() in _RESERVED


def quoted(name: str) -> str:
    """A name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """A string of SQL."""
    return "'" + text.replace("'", "''") + "'"


def show_window(window: ForClause) -> str:
    """The window clause without FOR; parsing it gives the window."""
    every = "" if window.every_us is None else f" EVERY '{duration_text(window.every_us)}'"
    if window.kind == "last":
        shown = f"LAST '{duration_text(window.length_us or 0)}'"
    elif window.kind == "range":
        shown = f"'{instant_text(window.start_us or 0)}' TO '{instant_text(window.end_us or 0)}'"
    elif window.kind == "window":
        shown = f"WINDOW '{instant_text(window.start_us or 0)}'"
    else:
        shown = {"newest_window": "WINDOW LAST", "all": "ALL", "open": "OPEN"}[window.kind]
    return shown + every


def show_argument(argument: Name | Value) -> str:
    if isinstance(argument, Name):
        return in_select(argument.text)
    value = argument.value
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        return text_literal(value)
    return repr(value)
