"""A statement as words, and edits of it that remember where everything stood."""

import bisect
import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from muntin.errors import BadArgument, SelectError
from muntin.select.functions import TABLE_FUNCTIONS
from muntin.select.limits import ASK_LESS, Limits
from muntin.select.syntax import text_literal
from muntin.times import datetime_of, instant_us

STATEMENT_BYTES_MAX = Limits().text_bytes
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


class Word(NamedTuple):
    """A word or sign; `value` is a name as it is meant, or a keyword in upper case."""

    kind: str
    text: str
    value: str
    start: int
    end: int

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
            message, code=code, position=self.start, length=self.end - self.start, remedy=remedy
        )


class Words(tuple[Word, ...]):
    """The words of a statement. `pairs`: bracket -> the one that opens or closes it. `around`: of
    each word the bracket that opens around it; -1: none. `line`: the words for patterns: blanks
    between them, keywords in upper case, AS of a CAST as CAST_AS. `starts`: of each in `line`, and
    its end."""

    pairs: dict[int, int]
    around: list[int]
    line: str
    starts: list[int]

    def said(self, start: int, end: int) -> str:
        """Some of them, as they stand in `line`."""
        return self.line[self.starts[start] : self.starts[end] - 1]


@lru_cache(maxsize=4)  # of a statement that goes from one pass to the next
def words_of(text: str) -> Words:
    """All but spaces and comments."""
    words = Words(map(_word, (each for each in _WORD.finditer(text) if each.lastgroup != "space")))
    words.pairs, words.around, words.starts = {}, [], [1]
    parts = [" "]
    opened: dict[str, list[int]] = {")": [], "]": []}
    for at, word in enumerate(words):
        words.around.append(opened[")"][-1] if opened[")"] else -1)
        parts.append((word.value if word.kind == "name" else word.text) + " ")
        inside = words.around[-1]
        if inside > 0 and word.is_word("AS") and words[inside - 1].is_word("CAST", "TRY_CAST"):
            parts[-1] = "CAST_AS "
        words.starts.append(words.starts[-1] + len(parts[-1]))
        if word.text in ("(", "["):
            opened[")" if word.text == "(" else "]"].append(at)
        elif opened.get(word.text):
            words.pairs[at] = opens = opened[word.text].pop()
            words.pairs[opens] = at
    words.line = "".join(parts)
    return words


_ESCAPE = re.compile(r"''|\\(.)", re.DOTALL)
_ESCAPES = re.compile(r"[eE]'((?:[^'\\]|''|\\[^0-7xuU])*)'", re.DOTALL)
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _word(found: re.Match[str]) -> Word:
    kind, text = found.lastgroup or "", found[0]
    if escaped := _ESCAPES.fullmatch(text):  # as libpq writes what holds a backslash
        plain = _ESCAPE.sub(lambda one: _CONTROLS.get(one[1], one[1] or "'"), escaped[1])
        text = text_literal(plain)
    value = text[1:-1].replace('""', '"') if kind == "quoted" else text
    return Word(kind, text, text.upper() if kind == "name" else value, *found.span())


def called(words: Words, at: int) -> str:
    """The table function of whose arguments behind the summary a word is one."""
    opens = words.around[at]
    name = words[max(opens - 1, 0)].text.lower()
    behind = opens + 2 < at and words[opens + 2].text == ","
    return name if behind and name in TABLE_FUNCTIONS else ""


def outside(words: Words, start: int, end: int | None = None) -> Iterator[tuple[int, Word]]:
    """Words that stand in no brackets of their own, the last where those around them close."""
    end = len(words) if end is None else end
    while start < end:
        word = words[start]
        if word.text == "(":
            start = words.pairs.get(start, end)
        else:
            yield start, word
            if word.text == ")":
                return
        start += 1


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
    left, right = text[max(edit.start - 1, 0) : edit.start], text[edit.end : edit.end + 1]
    around = left + edit.text[:1], edit.text[-1:] + right
    before, after = (" " if _GLUED.fullmatch(pair) else "" for pair in around)
    return before + edit.text + after


_GLUED = re.compile(r"\w\w")


class Edited:
    """A text after edits, and where a place of it stood before them. Of edits that overlap, the
    first stands.

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
            if edit.start < at:
                continue
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
    """The statement with literals in place of $1, $2, ..., and with further edits. Raises
    SelectError: there is no such parameter, or the statement becomes too long."""
    words = words_of(text)
    edits, size = [*also], 0
    for at, word in enumerate(words):
        if word.kind != "parameter":
            continue
        number = int(word.text[1:])
        if not 1 <= number <= len(literals):
            said = f"there is no parameter {word.text}: {len(literals)} were given"
            raise word.wrong(said, "value", "parameters count from $1")
        value = literals[number - 1]
        size += len(value)
        if size > STATEMENT_BYTES_MAX:
            said = f"with its parameters a statement has at most {STATEMENT_BYTES_MAX:,} bytes"
            raise word.wrong(said, "limit", ASK_LESS)
        is_list = value.startswith(IS_ANY)
        edits.append(_any_of(words, at, value) if is_list else _cast(words, at, value))
    return Edited(text, [*edits, *_types(words)])


NAME = r'(?:"(?:[^"]|"")*+"|\S+)'
STRING = "'(?:[^']|'')*+'"
Put = str | Callable[[re.Match[str]], str | None]


class Rules:
    """Edits by pattern: of `Words.line`, and what is put in its place (for `re.Match.expand`, or
    made of the match; None: it stays). At each word the first pattern counts that fits."""

    def __init__(self, *rows: tuple[str, Put]) -> None:
        self._rows = {
            f"row{n}": (re.compile(f"(?:{row})(?= )"), put) for n, (row, put) in enumerate(rows)
        }
        each = (f"(?P<{name}>{row.pattern})" for name, (row, _) in self._rows.items())
        self._any = re.compile("|".join(each))

    def edits(self, words: Words) -> Iterator[Edit]:
        for at, start in enumerate(words.starts[:-1]):
            fits = self._any.match(words.line, start)
            if fits is None:
                continue
            row, put = self._rows[fits.lastgroup or ""]
            found = row.match(words.line, start)
            text = found and (found.expand(put) if isinstance(put, str) else put(found))
            if text is not None:
                last = bisect.bisect_left(words.starts, fits.end()) - 1
                yield Edit(words[at].start, words[last].end, text)


def _in_utc(kind: str) -> Put:
    """A constant time, with its type in front or behind."""

    def put(found: re.Match[str]) -> str | None:
        with contextlib.suppress(BadArgument):
            if found[0] != found[1]:
                return f"{kind}'{datetime_of(instant_us(found[1][1:-1])).replace(tzinfo=None)}'"
        return None

    return put


_TYPE = "(?:(?<= :: )|(?<= CAST_AS ))"
_ZONED = "(?:TIMESTAMP WITH TIME ZONE|TIMESTAMPTZ)"
_ANY_DIGITS = r"(?:NUMERIC|DECIMAL)(?! \()"
_LONG = r"(\( - [0-9]{16,38} \)|'-[0-9]{16,38}'|'?[0-9]{16,38}'?)"
"""A whole constant that a DOUBLE may not hold."""
_ISO = "(?i:'YYYY-MM-DD(?:.HH24:MI:SS(?:.(?:US|MS))?)?')"
_TYPES = Rules(
    (r"EXISTS \( SELECT(?= FROM)", "EXISTS (SELECT 1"),
    (rf"TO_(DATE|TIMESTAMP) \( ({STRING}) , {_ISO} \)", r"\1 \2"),  # as Superset writes constants
    (r"(?:(?<= LIMIT )|(?<= OFFSET ))'?([0-9]+)'?(?: :: (?:BIGINT|INTEGER))?", r"\1"),
    (r"(! )?~ ~( \*)?", lambda found: _LIKES[bool(found[1]), bool(found[2])]),
    (r"FLOAT \( (?:[1-9]|1[0-9]|2[0-4]) \)", "REAL"),
    (r"FLOAT \( [0-9]+ \)", "DOUBLE"),
    (
        rf"{_LONG} :: {_ANY_DIGITS}|CAST \( {_LONG} CAST_AS {_ANY_DIGITS} \)",
        lambda found: f"({found[1] or found[2]})".replace("'", ""),
    ),
    (rf"{_TYPE}(?:FLOAT|{_ANY_DIGITS})", "DOUBLE"),
    ("AT TIME ZONE 'UTC'", ""),
    (rf"{_TYPE}{_ZONED}", "TIMESTAMP"),
    (rf"(?:(?<= LAST )|(?<= EVERY ))({STRING}) :: INTERVAL", lambda found: length(found[1])),
    (
        rf"(?:(?<= FOR )|(?<= TO )|(?<= WINDOW ))(?:{_ZONED} )?({STRING})"
        rf"(?: :: (?:{_ZONED}|TIMESTAMP|DATE))?",
        _in_utc(""),
    ),
    (rf"(?:{_ZONED} )?({STRING})(?: :: {_ZONED})?", _in_utc("TIMESTAMP ")),
)
"""FLOAT has 53 bits in PostgreSQL, and NUMERIC any digits, of which DuckDB's has three behind the
point; times with a zone are in UTC here."""


_NUMBER = re.compile(r"'-?[0-9]+(\.[0-9]+)?'")
OF_NUMBERS = ("quantiles", "ranks", "top_k", "periodic")
"""Table functions whose arguments behind the summary are no items."""
ARITHMETIC = ("+", "-", "*", "/", "%")
OPENING = ("SELECT", "DISTINCT", "WHERE", "AND", "OR", "NOT", "ON", "BY", "WHEN", "THEN", "ELSE")
"""Words behind which an expression begins."""


def _number(words: Words, at: int, literal: str) -> str | None:
    """One that a client sent as a text, where texts are not reckoned with, without its quotes."""
    if not _NUMBER.fullmatch(literal) or words[min(at + 1, len(words) - 1)].text == "::":
        return None
    if called(words, at) in OF_NUMBERS:
        return literal[1:-1]
    before, after = words[at - 1], words[min(at + 1, len(words) - 1)]
    if words[at - 2].text == "~":  # ~* '5'
        return None
    begins = before.kind == "sign" or before.is_word(*OPENING)
    if before.text in ARITHMETIC or (after.text in ARITHMETIC and begins):
        return f"({literal[1:-1]})" if literal[1] == "-" else literal[1:-1]
    return None


_LIKES = {
    (False, False): "LIKE", (False, True): "ILIKE",
    (True, False): "NOT LIKE", (True, True): "NOT ILIKE",
}  # fmt: skip
"""By whether an operator begins with !, and ends with *."""


def _types(words: Words) -> Iterator[Edit]:
    """What is PostgreSQL's in constants and types, and what clients write that put parameters into
    the text themselves: LIMIT '2', top_k(calls, '3'), = ANY of a constant list. And what
    postgres_fdw writes: LIMIT 2::bigint, k ~~ 'a%', FROM (a JOIN b ON …)."""
    yield from _TYPES.edits(words)
    for at, word in enumerate(words):
        if word.is_word("FROM"):
            yield from _without_brackets(words, at + 1)
        if word.kind == "string" and word.end - word.start > len(word.text):  # E'…'
            yield Edit(word.start, word.end, word.text)
        if word.kind == "string" and (bare := _number(words, at, word.text)):
            yield Edit(word.start, word.end, bare)
        after = [other.text for other in words[at + 1 : at + 4]]
        if word.is_word("SUBSTRING") and after[:1] == ["("]:  # (x FROM 2 FOR 3)
            inside = outside(words, at + 2, words.pairs.get(at + 1, at + 2))
            yield from (Edit(w.start, w.end, ",") for _, w in inside if w.is_word("FROM", "FOR"))
        if word.is_word("ANY", "ALL") and after[:1] == ["("] and after[2:]:
            yield from _any_of_constants(words, at)


def _without_brackets(words: Words, opens: int) -> Iterator[Edit]:
    """Around a join that stands first in FROM, which needs none."""
    while (close := words.pairs.get(opens)) and not words[opens + 1].is_word("SELECT", "WITH"):
        if any(word.is_word("JOIN") for _, word in outside(words, opens + 1, close)):
            yield Edit(words[opens].start, words[opens].end, " ")
            yield Edit(words[close].start, words[close].end, " ")
        opens += 1


_CLOCK = re.compile(r"(-?)(?<!\d)(\d+):(\d\d):(\d\d(?:\.\d+)?)")


def length(text: str) -> str:
    """In units alone, as FOR LAST and EVERY take it: psycopg writes 1 day, 2:00:00."""
    return _CLOCK.sub(r"\1\2 hours \1\3 minutes \1\4 seconds", text.replace(",", ""))


IS_ANY = "IN ("  # with what a literal of a list begins
NOTHING = "SELECT NULL WHERE FALSE"
"""What stands in the literal of an empty list: NOT IN (NULL) would be true of no row."""
_ITEM = re.compile(r'\s*("(?:[^"\\]|\\.)*")\s*|([^,{}"\\]+)', re.DOTALL)
_LIST = re.compile(rf"\{{(?:(?:{_ITEM.pattern})(?:,(?:{_ITEM.pattern}))*)?\}}", re.DOTALL)


def list_items(text: str) -> list[str | None]:
    """Of an array as PostgreSQL writes it; ValueError where it is none.

    Examples
    --------
    >>> list_items('{a, "b, \\\\"c\\\\"", NULL}')
    ['a', 'b, "c"', None]
    """
    if not _LIST.fullmatch(text):
        raise ValueError(text)
    items: list[str | None] = []
    for quoted, plain in _ITEM.findall(text[1:-1]):
        item = re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL) if quoted else plain.strip()
        items.append(None if item.upper() == "NULL" and not quoted else item)
    return items


_LIST_CAST = re.compile(r"(:: [\w ]+( \( \d+ \))? \[ \])?")


def _list_ends(words: Words, opens: int, at: int) -> int | None:
    """Where ANY's bracket closes, if but a cast stands between the list's last word and it."""
    close = words.pairs.get(opens, at + 10)
    cast = " ".join(word.text for word in words[at + 1 : min(close, at + 10)])
    return close if close < at + 10 and _LIST_CAST.fullmatch(cast) else None


def _any_of(words: Words, at: int, literal: str) -> Edit:
    """= ANY($1) and <> ALL($1), as drivers write it for a list. Raises SelectError where it stands
    elsewhere."""
    close = _list_ends(words, at - 1, at)
    before = (word.value for word in words[max(at - 3, 0) : at])
    sign, which, opens = ["", "", "", *before][-3:]
    if sign not in _SIGNS.get(which, ()) or opens != "(" or close is None:
        remedy = f"column = ANY({words[at].text})"
        raise words[at].wrong("a list stands in = ANY or <> ALL", "not_allowed", remedy)
    is_in = literal if which == "ANY" else f"NOT {literal}"
    return Edit(words[at - 3].start, words[close].end, is_in)


_SIGNS = {"ANY": ("=",), "ALL": ("<>", "!=")}


def _any_of_constants(words: Words, at: int) -> Iterator[Edit]:
    """= ANY('{a,b}') and = ANY(ARRAY['a', 'b']), as IN; <> ALL as NOT IN."""
    sign = _SIGNS[words[at].value]
    first = words[at + 2]
    end = words.pairs.get(at + 3, -1) if first.is_word("ARRAY") else at + 2
    close = _list_ends(words, at + 1, end)
    if words[at - 1].text not in sign or close is None:
        return
    is_in = IS_ANY if words[at].is_word("ANY") else f"NOT {IS_ANY}"
    if first.kind == "string":
        with contextlib.suppress(ValueError):
            items = list_items(first.text[1:-1].replace("''", "'"))
            written = ", ".join("NULL" if t is None else text_literal(t) for t in items) or NOTHING
            yield Edit(words[at - 1].start, words[close].end, f"{is_in}{written})")
    elif words[end].text == "]":
        nothing = NOTHING if end == at + 4 else ""
        yield Edit(words[at - 1].start, words[at + 3].end, is_in + nothing)
        yield Edit(words[end].start, words[close].end, ")")


_INTEGERS = frozenset(("INTEGER", "INT", "BIGINT", "SMALLINT", "INT2", "INT4", "INT8"))
_TIMES = frozenset(("TIMESTAMP", "TIMESTAMPTZ", "DATE"))


_OF_TYPE = re.compile("^(DATE|TIMESTAMP|TIME|INTERVAL) ")
_BRACKETS = re.compile(r"^\((-.*)\)$|^CAST\((.*) AS \w+\)$")


def _cast(words: Words, at: int, literal: str) -> Edit:
    """A parameter's literal, with the cast to what it is already: SQLAlchemy writes
    LIMIT $1::INTEGER, and neither a window clause nor a table function takes a cast or brackets."""
    before = words[at - 1 - (words[at - 1].text == "(")]
    is_limit = before.is_word("LIMIT", "OFFSET", "FIRST", "NEXT")
    bare = _OF_TYPE.sub("", literal)
    in_window = words[at - 1].is_word("FOR", "TO", "LAST", "WINDOW", "EVERY")
    in_call = bool(called(words, at))
    digits = literal.strip("()-")
    literal = _number(words, at, literal) or literal
    if in_call:
        literal = bare = _BRACKETS.sub(r"\1\2", literal)
    alone = Edit(words[at].start, words[at].end, bare if in_window else literal)
    if at + 2 >= len(words) or words[at + 1].text != "::":
        return alone
    kind = words[at + 2].value
    exact = kind in ("NUMERIC", "DECIMAL") and words[min(at + 3, len(words) - 1)].text != "("
    if not (
        (digits.isdigit() and kind in _INTEGERS and is_limit)  # elsewhere 1::BIGINT is no INTEGER
        or (exact and digits.replace(".", "").isdigit())  # of DuckDB's it would have three places
        or (bare[:1] == "'" and kind in ("VARCHAR", "TEXT", *_TIMES))
        or in_call
    ):
        return alone
    literal = bare
    zone = [word.value for word in words[at + 3 : at + 6]]
    whole = len(zone) == 3 and zone[0] in ("WITH", "WITHOUT") and zone[1:] == ["TIME", "ZONE"]
    last = at + 5 if whole else at + 2 + (zone[:1] == ["PRECISION"])
    if kind in _TIMES and not in_window:
        literal = f"{kind.removesuffix('TZ')} {literal}"
    return Edit(words[at].start, words[last].end, literal)
