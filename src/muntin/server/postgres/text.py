"""A statement as words, and edits of it that remember where everything stood."""

from __future__ import annotations

import bisect
import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from muntin.errors import BadArgument, SelectError
from muntin.select.syntax import text_literal
from muntin.times import datetime_of, instant_us

_WORD = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*|/\*.*?\*/)
    | (?P<open>/\*.*)
    | (?P<string>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<parameter>\$[0-9]{1,9})
    | (?P<name>[^\W\d][\w$]*)
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
    | (?P<sign>::|<=|>=|<>|!=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word or sign; `value` is a name as it is meant, or a keyword in upper case."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def value(self) -> str:
        if self.kind == "quoted":
            return self.text[1:-1].replace('""', '"')
        return self.text.upper() if self.kind == "name" else self.text

    @property
    def is_name(self) -> bool:
        return self.kind in ("name", "quoted")

    @property
    def plain(self) -> str:
        """A name as PostgreSQL keeps it, a string's text."""
        return {"string": self.text[1:-1], "name": self.text.lower()}.get(self.kind, self.value)

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these keywords or signs."""
        return self.kind in ("name", "sign") and self.value in words

    def wrong(self, message: str, code: str, remedy: str) -> SelectError:
        """What is said of it, at its place."""
        return SelectError(
            message, code=code, position=self.start, length=len(self.text), remedy=remedy
        )


def words_of(text: str) -> list[Word]:
    """All but spaces and comments."""
    return [
        Word(found.lastgroup or "", found[0], found.start(), found.end())
        for found in _WORD.finditer(text)
        if found.lastgroup != "space"
    ]


def outside(
    words: Sequence[Word], start: int, end: int | None = None
) -> Iterator[tuple[int, Word]]:
    """Words that stand in no brackets of their own, the last where those around them close."""
    depth = 0
    for number in range(start, len(words) if end is None else end):
        depth += {"(": 1, ")": -1}.get(words[number].text, 0)
        if depth < 0 or (depth == 0 and words[number].text != ")"):
            yield number, words[number]
        if depth < 0:
            return


def statements_of(text: str) -> list[str]:
    """The statements between semicolons; those without a word are left out."""
    ends = [word.start for word in words_of(text) if word.kind == "sign" and word.text == ";"]
    starts = [0, *(end + 1 for end in ends)]
    parts = [text[start:end] for start, end in zip(starts, [*ends, len(text)], strict=True)]
    return [part for part in parts if words_of(part)]


@dataclass(frozen=True, slots=True)
class Edit:
    start: int
    end: int
    text: str


def _apart(text: str, edit: Edit) -> str:
    """What an edit puts there, as words of its own: in `city=ANY($1)`, IN follows a name."""
    around = text[: edit.start][-1:] + edit.text[:1], edit.text[-1:] + text[edit.end :][:1]
    before, after = (" " if _GLUED.fullmatch(pair) else "" for pair in around)
    return before + edit.text + after


_GLUED = re.compile(r"\w\w")


class Edited:
    """A text after edits, and where a place of it stood before them.

    Examples
    --------
    >>> edited = Edited("SELECT $1, x", [Edit(7, 9, "'long'")])
    >>> edited.text, edited.before(15), edited.before(9)
    ("SELECT 'long', x", 11, 7)
    """

    def __init__(self, text: str, edits: Iterable[Edit]) -> None:
        self._places: list[tuple[int, int, bool]] = []
        """Of each part: its place in the new text and in the old, and whether it is the same."""
        parts: list[str] = []
        at = size = 0
        ends = Edit(len(text), len(text), "")
        for edit in (*sorted(edits, key=lambda edit: (edit.start, edit.end)), ends):
            for piece, place, same in (
                (text[at : edit.start], at, True),
                (_apart(text, edit), edit.start, False),
            ):
                self._places.append((size, place, same))
                parts.append(piece)
                size += len(piece)
            at = edit.end
        self.text = "".join(parts)

    def before(self, place: int) -> int:
        """Where that stood in the text that was edited."""
        number = bisect.bisect_right(self._places, place, key=lambda part: part[0]) - 1
        start, before, same = self._places[number]
        return before + (place - start if same else 0)


def parameters_of(words: Sequence[Word]) -> int:
    """How many there are: the highest number."""
    return max((int(word.text[1:]) for word in words if word.kind == "parameter"), default=0)


def with_parameters(text: str, literals: Sequence[str], also: Sequence[Edit] = ()) -> Edited:
    """The statement with literals in place of $1, $2, ..., and with further edits.

    Raises
    ------
    SelectError
        There is no such parameter.
    """
    words = words_of(text)
    edits = [*also]
    for at, word in enumerate(words):
        if word.kind != "parameter":
            continue
        number = int(word.text[1:])
        if not 1 <= number <= len(literals):
            said = f"there is no parameter {word.text}: {len(literals)} were given"
            raise word.wrong(said, "value", "parameters count from $1")
        value = literals[number - 1]
        is_list = value.startswith(IS_ANY)
        edits.append(_any_of(words, at, value) if is_list else _cast(words, at, value))
    for edit in _types(words):
        if not any(other.start <= edit.start < other.end for other in edits):
            edits.append(edit)
    return Edited(text, edits)


_ISO = re.compile("'YYYY-MM-DD(.HH24:MI:SS(.(US|MS))?)?'", re.IGNORECASE)
_REALS = frozenset(str(bits) for bits in range(1, 25))
_ZONED = ["TIMESTAMP", "WITH", "TIME", "ZONE"]


def _types(words: Sequence[Word]) -> Iterator[Edit]:
    """FLOAT, which has 53 bits in PostgreSQL, times with a zone, in UTC, and what clients write
    that put parameters into the text themselves: LIMIT '2', = ANY of a constant list."""
    for at, word in enumerate(words):
        after = [other.value for other in words[at + 1 : at + 6]]
        if word.is_word("ANY", "ALL") and after[:1] == ["("] and after[2:]:
            yield from _any_of_constants(words, at)
        read = word.is_word("TO_TIMESTAMP", "TO_DATE") and after[4:] == [")"]
        if read and _ISO.fullmatch(after[3]):  # as Superset writes constants
            kind = "DATE" if word.is_word("TO_DATE") else "TIMESTAMP"
            yield Edit(word.start, words[at + 5].end, f"{kind} {after[1]}")
        if word.is_word("LIMIT", "OFFSET") and after and after[0][1:-1].isdigit():
            yield Edit(words[at + 1].start, words[at + 1].end, after[0].strip("'"))
        if word.is_word("FLOAT") and after[:1] == ["("] and after[2:3] == [")"]:
            kind = "REAL" if after[1] in _REALS else "DOUBLE"
            yield Edit(word.start, words[at + 3].end, kind)
        elif word.is_word("FLOAT") and _is_type(words, at):
            yield Edit(word.start, word.end, "DOUBLE")
        if word.is_word("AT") and after[:3] == ["TIME", "ZONE", "'UTC'"]:
            yield Edit(word.start, words[at + 3].end, "")
        zoned = word.is_word("TIMESTAMP") and after[:3] == _ZONED[1:]
        if (zoned or word.is_word("TIMESTAMPTZ")) and _is_type(words, at):
            yield Edit(word.start, words[at + 3 if zoned else at].end, "TIMESTAMP")
        if word.kind != "string":
            continue
        before = [other.value for other in words[max(at - 4, 0) : at]]
        first = at - 4 if before == _ZONED else at - (before[-1:] == ["TIMESTAMPTZ"])
        last = at
        if after[:1] == ["::"]:
            last += 5 if after[1:] == _ZONED else 2 * (after[1:2] == ["TIMESTAMPTZ"])
        if words[at - 1].is_word("LAST") and after[:2] == ["::", "INTERVAL"]:
            yield Edit(word.end, words[at + 2].end, "")
        if first == last:
            continue
        with contextlib.suppress(BadArgument):
            time = datetime_of(instant_us(word.text[1:-1])).replace(tzinfo=None)
            kind = "" if words[first - 1].is_word("FOR", "TO") else "TIMESTAMP "
            yield Edit(words[first].start, words[last].end, f"{kind}'{time}'")


def _is_type(words: Sequence[Word], at: int) -> bool:
    """Whether something is cast to it, by :: or CAST."""
    if not words[at - 1].is_word("AS"):
        return words[at - 1].text == "::"
    depth, start = 1, at
    while start > 1 and depth:
        start -= 1
        depth += {")": 1, "(": -1}.get(words[start].text, 0)
    return words[start - 1].is_word("CAST", "TRY_CAST")


IS_ANY = "IN ("
"""With what a literal of a list begins."""
NOTHING = "SELECT NULL WHERE FALSE"
"""What stands in the literal of an empty list: NOT IN (NULL) would be true of no row."""
_ITEM = re.compile(r'\s*("(?:[^"\\]|\\.)*")\s*|([^,{}"\\]+)', re.DOTALL)
_LIST = re.compile(rf"\{{(?:(?:{_ITEM.pattern})(?:,(?:{_ITEM.pattern}))*)?\}}", re.DOTALL)


def list_items(text: str) -> list[str | None]:
    """Of an array as PostgreSQL writes it.

    Examples
    --------
    >>> list_items('{a, "b, \\\\"c\\\\"", NULL}')
    ['a', 'b, "c"', None]

    Raises
    ------
    ValueError
    """
    if not _LIST.fullmatch(text):
        raise ValueError(text)
    items: list[str | None] = []
    for quoted, plain in _ITEM.findall(text[1:-1]):
        item = re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL) if quoted else plain.strip()
        items.append(None if item.upper() == "NULL" and not quoted else item)
    return items


def _any_of(words: Sequence[Word], at: int, literal: str) -> Edit:
    """= ANY($1), as drivers write it for a list. Raises SelectError where it stands elsewhere."""
    close = next((i for i in range(at, len(words)) if words[i].text == ")"), at)
    cast = [word.text for word in words[at + 1 : close]]
    if [word.value for word in words[max(at - 3, 0) : at]] != ["=", "ANY", "("] or (
        cast and (cast[0], cast[2:]) != ("::", ["[", "]"])
    ):
        remedy = f"column = ANY({words[at].text})"
        raise words[at].wrong("a list stands in = ANY alone", "not_allowed", remedy)
    return Edit(words[at - 3].start, words[close].end, literal)


def _any_of_constants(words: Sequence[Word], at: int) -> Iterator[Edit]:
    """= ANY('{a,b}') and = ANY(ARRAY['a', 'b']), as IN; <> ALL as NOT IN."""
    sign = {"ANY": ("=",), "ALL": ("<>", "!=")}[words[at].value]
    if words[at - 1].text not in sign:
        return
    is_in = IS_ANY if words[at].is_word("ANY") else f"NOT {IS_ANY}"
    close = next((i for i in range(at, len(words)) if words[i].text == ")"), at)
    first = words[at + 2]
    if first.kind == "string":
        with contextlib.suppress(ValueError):
            items = list_items(first.text[1:-1].replace("''", "'"))
            written = ", ".join("NULL" if t is None else text_literal(t) for t in items) or NOTHING
            yield Edit(words[at - 1].start, words[close].end, f"{is_in}{written})")
    end = next((i for i in range(at, close) if words[i].text == "]"), 0)
    if first.is_word("ARRAY") and words[at + 3].text == "[" and end:
        nothing = NOTHING if end == at + 4 else ""
        yield Edit(words[at - 1].start, words[at + 3].end, is_in + nothing)
        yield Edit(words[end].start, words[close].end, ")")


_INTEGERS = frozenset(("INTEGER", "INT", "BIGINT", "SMALLINT", "INT2", "INT4", "INT8"))
_TIMES = frozenset(("TIMESTAMP", "TIMESTAMPTZ", "DATE"))


_OF_TYPE = re.compile("^(DATE|TIMESTAMP|TIME|INTERVAL) ")


def _cast(words: Sequence[Word], at: int, literal: str) -> Edit:
    """A parameter's literal, with the cast to what it is already: SQLAlchemy writes
    LIMIT $1::INTEGER, and a window clause takes no cast."""
    bare = _OF_TYPE.sub("", literal)
    in_window = words[at - 1].is_word("FOR", "TO", "LAST")
    if in_window:
        literal = bare
    alone = Edit(words[at].start, words[at].end, literal)
    if at + 2 >= len(words) or words[at + 1].text != "::":
        return alone
    kind = words[at + 2].value
    digits = literal.strip("()-")
    exact = kind in ("NUMERIC", "DECIMAL") and words[min(at + 3, len(words) - 1)].text != "("
    if not (
        (digits.isdigit() and kind in _INTEGERS)
        or (exact and digits.replace(".", "").isdigit())  # of DuckDB's it would have three places
        or (bare[:1] == "'" and kind in ("VARCHAR", "TEXT", *_TIMES))
    ):
        return alone
    literal = bare
    zone = [word.value for word in words[at + 3 : at + 6]]
    whole = len(zone) == 3 and zone[0] in ("WITH", "WITHOUT") and zone[1:] == ["TIME", "ZONE"]
    if kind in _TIMES and not in_window:
        literal = f"{kind.removesuffix('TZ')} {literal}"
    return Edit(words[at].start, words[at + 5 if whole else at + 2].end, literal)
