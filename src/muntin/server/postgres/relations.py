"""What there is to ask, as tables: `orders`, "orders(driver)", "trend(busiest)", "windows(orders)".

And a statement that names them so, or filters by `time`, as the SELECT that is meant.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from muntin.errors import BadArgument, SelectError
from muntin.select.bind import MATRIX, keyed_items
from muntin.select.catalog import OPEN, ForClause, QueryInfo, SummaryInfo
from muntin.select.functions import TABLE_FUNCTIONS, WITHOUT_WINDOWS, ArgumentError
from muntin.select.syntax import in_select, text_literal
from muntin.server.postgres.text import (
    NAME,
    OPENING,
    STRING,
    Edit,
    Edited,
    Rules,
    Word,
    Words,
    outside,
    words_of,
)
from muntin.times import duration_text, instant_us

TIME = "time"
_ARGUMENTS = {"quantiles": "0.5, 0.9, 0.99"}
_REMEDY = "write FROM … FOR '<start>' TO '<end>', or time >= '<start>' AND time < '<end>'"
_ENDS_WHERE = ("GROUP", "HAVING", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "WINDOW", "FETCH")
ENDS_FROM = ("WHERE", *_ENDS_WHERE)
SETS = ("UNION", "EXCEPT", "INTERSECT")
_JOINS = ("JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "SEMI", "ANTI", "ASOF")
_PATTERN = rf"{STRING}(?: :: (?:CHARACTER VARYING|[A-Z]+)| \| \| {STRING})*+"
_LIKE = re.compile(rf"I?LIKE (?:(?:(?:UPPER|LOWER) )?\( {_PATTERN} \)|{_PATTERN})(?! ESCAPE)(?= )")
_MATCH = re.compile(rf"(?::: TEXT )?(! )?~ (\* )?({STRING})(?: :: TEXT)?(?= )")
_AS_ANYHOW = Rules(
    (r"(?<= , )CTID", "NULL AS ctid"),  # DataGrip: t.*, CTID
    ('COLLATE (?:C|"C")', ""),  # of DuckDB's extension
    ("ESCAPE ''", ""),  # of Hibernate
)
_AFTER_ITEM = frozenset(("FOR", "ON", "USING", *_JOINS, *ENDS_FROM, *SETS))


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table, as clients see it."""

    name: str
    ask: str  # the FROM item that it stands for
    source: str  # summary, or standing query
    own: frozenset[str]  # the names in the spec; `time` is one of them where it is no filter
    pane_us: int = 0


def relations(
    summaries: Mapping[str, SummaryInfo], queries: Mapping[str, QueryInfo]
) -> dict[str, ShownTable]:
    """By name, in the order of names."""
    made: list[ShownTable] = []
    timed = frozenset((TIME,))
    for info in summaries.values():
        own = {name for key in (*info.keys, info.indicators, info.by, info.parts) for name in key}
        named = info.name, frozenset(own), info.pane_us
        made += [ShownTable(*way, *named) for way in _ways(info)]
        if info.kind not in WITHOUT_WINDOWS:
            made.append(ShownTable(*_call("windows", info.name), info.name, timed))
    made += [ShownTable(*_call("trend", name), name, timed) for name in queries]
    return {table.name: table for table in sorted(made, key=lambda table: table.name)}


def _ways(info: SummaryInfo) -> Iterator[tuple[str, str]]:
    """Each name, and how it is asked."""
    if info.kind == MATRIX:
        yield info.name, in_select(info.name)
        for key, way in zip(info.keys, keyed_items(info), strict=True):
            yield f"{info.name}({', '.join(key)})", way
        return
    for function in TABLE_FUNCTIONS.values():
        arguments = _ARGUMENTS.get(function.name, "")
        if not function.can_ask(info):
            continue
        if not arguments:
            try:
                function.parse(())
            except ArgumentError:  # it needs to be given the items
                continue
        yield _call(function.name, info.name, arguments)


def _call(function: str, name: str, arguments: str = "") -> tuple[str, str]:
    after = f", {arguments}" if arguments else ""
    return f"{function}({name}{after})", f"{function}({in_select(name)}{after})"


def rewritten(
    text: str, known: Mapping[str, ShownTable], asked: ForClause = OPEN
) -> tuple[Edited, tuple[str, ...]]:
    """The statement as SELECT here reads it, and what is to be said of that. `asked`: of tables
    without a clause. Raises SelectError: it filters by `time` in a way that is no window."""
    words = words_of(text)
    edits, said = list[Edit](), set[str]()
    selects, owners = selects_of(words)
    times: dict[int, list[int]] = {}
    for at, owner in enumerate(owners):
        if _is_time(words, at):
            times.setdefault(owner, []).append(at)
    for at, found in selects.items():
        window, more = _window(words, known, found, times.get(at, []), asked)
        edits += window
        said |= more
    edits += [*_named(words, known, selects.values()), *_AS_ANYHOW.edits(words)]
    edits += [*_escapes(words), *_patterns(words)]
    return Edited(text, edits), tuple(said)


def _escapes(words: Words) -> Iterator[Edit]:
    """In PostgreSQL a backslash takes a sign's meaning away, where nothing else is said to."""
    for at, word in enumerate(words):
        found = _LIKE.match(words.line, words.starts[at]) if word.is_word("LIKE", "ILIKE") else None
        if found is not None and "\\" in found[0]:
            end = words[bisect_left(words.starts, found.end()) - 1].end
            yield Edit(end, end, r" ESCAPE '\'")


def _patterns(words: Words) -> Iterator[Edit]:
    """`column ~ '…'` and its like as `regexp_matches(column, '…')`: where the column is all that
    stands before it."""
    for at, word in enumerate(words):
        found = (
            _MATCH.match(words.line, words.starts[at]) if word.text in ("!", "~", "::") else None
        )
        start = at - 1
        while start > 1 and words[start - 1].text == ".":
            start -= 2
        before = words[start - 1]
        if found is None or not words[at - 1].is_name or start < 1:
            continue
        if before.text in ("(", ",") or before.is_word("HAVING", *OPENING):
            last = bisect_left(words.starts, found.end()) - 1
            sign, flags = "NOT " if found[1] else "", "si" if found[2] else "s"
            first = words[start].start
            yield Edit(first, first, f"{sign}regexp_matches(")
            yield Edit(words[at - 1].end, words[last].end, f", '(?{flags}){found[3][1:]})")


def selects_of(words: Words) -> tuple[dict[int, dict[str, int]], list[int]]:
    """The clauses of each SELECT, and in which of them each word stands; -1: in none."""
    selects = {at: _clauses(words, at) for at in range(len(words)) if _is_select(words, at)}
    around, owners = [-1], list[int]()
    for at in range(len(words)):
        while around[-1] >= 0 and selects[around[-1]][""] <= at:
            around.pop()
        if at in selects:
            around.append(at)
        owners.append(around[-1])
    return selects, owners


def _is_select(words: Words, at: int) -> bool:
    return words[at].is_word("SELECT") and not words[at - 1].is_word("AS")  # a column's name


def _clauses(words: Words, select: int) -> dict[str, int]:
    """Where FROM, WHERE and what follows them stand in a SELECT, and as "" where it ends."""
    found: dict[str, int] = {}
    for number, word in outside(words, select + 1):
        if word.text in (")", ";") or word.is_word(*SETS) or _is_select(words, number):
            return {**found, "": number}
        if word.is_word("FROM", *ENDS_FROM):
            found.setdefault(word.value, number)
    return {**found, "": len(words)}


def _named(
    words: Words, known: Mapping[str, ShownTable], selects: Iterable[Mapping[str, int]]
) -> Iterator[Edit]:
    """Tables by their names as SELECT's FROM items; schema and database are left out."""
    begins = {at for at, word in enumerate(words) if word.is_word("FROM", "JOIN")}
    for found in selects:
        start = found.get("FROM", found[""])
        end = min((number for number in found.values() if number > start), default=start)
        begins |= {at for at, word in outside(words, start, end) if word.text == ","}
    for number, word in enumerate(words):
        dot = number + 1 < len(words) and words[number + 1].text == "."
        if _qualifies(words, number):
            yield Edit(word.start, words[number + 1].end, "")
        relation = known.get(word.value) if word.kind == "quoted" else None
        if relation is None or dot or "(" not in relation.ask:
            continue
        before = number - 1
        while before > 0 and words[before].text == ".":
            before -= 2
        if before not in begins:
            continue
        after = words[number + 1] if number + 1 < len(words) else None
        has_alias = after is not None and (
            after.is_word("AS", "FOR") or (after.is_name and after.value not in _AFTER_ITEM)
        )
        alias = "" if has_alias else " AS " + word.text
        yield Edit(word.start, word.end, relation.ask + alias)


def _qualifies(words: Sequence[Word], at: int) -> bool:
    """Whether a name is the schema before another, or the database before that (dbt)."""
    rest = [word.value.lower() for word in words[at : at + 4]]
    dotted = rest[1:2] == ["."] and words[at].is_name
    return dotted and (rest[0] == "public" or rest[2:] == ["public", "."])


# WHERE time >= … AND time < …


def _window(
    words: Words,
    known: Mapping[str, ShownTable],
    found: Mapping[str, int],
    own: list[int],
    asked: ForClause,
) -> tuple[list[Edit], set[str]]:
    """Edits that make a SELECT's filter by time its window clause; `own`: where it names it."""
    where, start = found.get("WHERE", -1), found.get("FROM", -1)
    relation = _relation_at(words, start + 1, known) if 0 <= start < where else None
    if relation is None or TIME in {name.lower() for name in relation.own}:
        return [], set()
    end = min(number for number in found.values() if number > where)
    parts = _conjuncts(words, where + 1, end)
    times = [(a, b) for a, b in parts if bisect_left(own, a) < bisect_left(own, b)]
    if not times:
        return [], set()
    _check_plain(words, start, where, words[times[0][0]])
    bounds = [bound for part in _joined(words, times) for bound in _bounds(words, *part)]
    low = [at for sign, at in bounds if sign == ">="]
    high = [at for sign, at in bounds if sign != ">="]
    if len(low) != 1 or len(high) != 1:
        raise _wrong(words[times[0][0]], "a filter by time needs one start and one end")
    after_item = words[where - 1].end
    clause = f" FOR {text_literal(low[0])} TO {text_literal(high[0])}"
    every = asked.by_steps_of(relation.pane_us).every_us
    clause += "" if every is None else f" EVERY '{duration_text(every)}'"
    edits = [Edit(after_item, after_item, clause)]
    first = next((a for a, b in parts if (a, b) not in times), end)
    begin = where if first == end else where + 1
    if first > where + 1:
        last = words[first].start if first < end else words[end - 1].end
        edits.append(Edit(words[begin].start, last, ""))
    edits += [
        Edit(words[a - 2].end, words[b - 1].end, "") for a, b in times if a > first
    ]  # with the AND before it
    between = any(sign == "BETWEEN" for sign, _ in bounds)
    return edits, {"BETWEEN on time: the end is excluded"} if between else set()


def _relation_at(
    words: Sequence[Word], at: int, known: Mapping[str, ShownTable]
) -> ShownTable | None:
    while _qualifies(words, at):
        at += 2
    if at >= len(words) or not words[at].is_name:
        return None
    first = words[at]
    if first.kind == "quoted" and first.value in known:
        return known[first.value]
    name = first.plain
    inside = at + 2 < len(words) and words[at + 1].text == "("
    if inside and name in (*TABLE_FUNCTIONS, "trend", "windows") and words[at + 2].is_name:
        if name in ("trend", "windows"):
            return None  # their rows have times of their own
        name = words[at + 2].plain
    of_it = (r for r in known.values() if r.source.lower() == name.lower() and TIME not in r.own)
    return next(of_it, next((r for r in known.values() if r.source.lower() == name.lower()), None))


def _check_plain(words: Words, start: int, where: int, place: Word) -> None:
    for _, word in outside(words, start + 1, where):
        if word.text == "," or word.is_word("JOIN"):
            raise _wrong(place, "time filters one FROM item alone: this statement joins several")
        if word.is_word("FOR"):
            raise _wrong(place, "the FROM item has a window clause already")


def _conjuncts(words: Words, start: int, end: int) -> list[tuple[int, int]]:
    """What AND joins at the top; where an OR stands there, all of it is one part."""
    parts, begin, between = [], start, False
    for number, word in outside(words, start, end):
        if word.is_word("OR"):
            return [(start, end)]
        if word.is_word("BETWEEN"):
            between = True
        elif word.is_word("AND") and between:
            between = False
        elif word.is_word("AND"):
            parts.append((begin, number))
            begin = number + 1
    parts.append((begin, end))
    return [part for part in parts if part[0] < part[1]]


def _joined(words: Words, parts: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What AND joins in brackets, too, however deep."""
    left = parts[::-1]
    while left:
        start, end = left.pop()
        while words.pairs.get(start) == end - 1:  # not (a) AND (b)
            start, end = start + 1, end - 1
        inside = _conjuncts(words, start, end)
        if len(inside) > 1:
            left += inside[::-1]
        else:
            yield start, end


def _is_time(words: Sequence[Word], at: int) -> bool:
    """Whether it is the column, and not the start of TIME '…' nor a type."""
    word = words[at]
    if not word.is_name or word.value.lower() != TIME:
        return False
    before, after = words[at - 1], words[at + 1] if at + 1 < len(words) else None
    if before.text == "::" or before.is_word("AS", "WITH", "WITHOUT"):
        return False
    return after is None or (after.kind != "string" and after.text != "(")


_TIMES = r"(?:TIMESTAMP|TIMESTAMPTZ|DATE|WITH|WITHOUT|TIME|ZONE|CAST|AS|CAST_AS|::|\(|\))"
_CONSTANT = rf"(?:{_TIMES} )*{STRING}(?: {_TIMES})*"
"""A time, also as TIMESTAMP '…', '…'::timestamptz or CAST('…' AS timestamp)."""
_COLUMN = rf'(?:{NAME} \. )*(?i:time|"time")'
_BOUND = re.compile(
    rf"{_COLUMN} (?P<sign>BETWEEN|[<>]=?|=) {_CONSTANT}(?P<end> AND {_CONSTANT})?"
    rf"|{_CONSTANT} (?P<turned>[<>]=?|=) {_COLUMN}"
)


def _bounds(words: Words, start: int, end: int) -> list[tuple[str, str]]:
    """The ends that a condition says, by ">=", "<" or BETWEEN; else it raises SelectError."""
    place, found = words[start], _BOUND.fullmatch(words.said(start, end))
    if found is None or (found["sign"] == "BETWEEN") != bool(found["end"]):
        raise _wrong(place, "this is no window: time is compared with constant times alone")
    times = [_instant(word) for word in words[start:end] if word.kind == "string"]
    if found["end"]:
        return [(">=", times[0]), ("BETWEEN", times[1])]
    sign = found["sign"] or found["turned"].translate(str.maketrans("<>", "><"))
    if sign not in (">=", "<"):
        raise _wrong(place, f"time {sign} … is no end of a window: the start is in it, the end not")
    return [(sign, times[0])]


def _instant(word: Word) -> str:
    value = word.text[1:-1].replace("''", "'")
    try:
        instant_us(value)
    except BadArgument as wrong:
        raise _wrong(word, str(wrong)) from None
    return value


def _wrong(word: Word, message: str) -> SelectError:
    return word.wrong(message, "window", _REMEDY)
