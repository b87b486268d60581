"""A parameter that a client sends, as a literal that is safe to stand in a statement."""

import contextlib
import re
import struct
from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta
from decimal import Decimal, InvalidOperation

from muntin.errors import BadArgument, SelectError
from muntin.select.allowed import CONSTANTS
from muntin.select.limits import Limits
from muntin.select.syntax import text_literal
from muntin.server.postgres.relations import TIME, selects_of
from muntin.server.postgres.rows import BINARY, BYTEA, TEXT, TYPES, formats_of
from muntin.server.postgres.text import (
    ARITHMETIC,
    IS_ANY,
    NOTHING,
    OPENING,
    STATEMENT_BYTES_MAX,
    Words,
    called,
    length,
    list_items,
    outside,
    parameters_of,
    with_parameters,
    words_of,
)
from muntin.times import DAY_US, datetime_of, instant_us

_INTEGERS = (20, 21, 23, 26)
_FLOATS = (700, 701)
_TEXTS = frozenset((0, 18, 19, 25, 705, 1042, 1043))
_EPOCH = datetime(2000, 1, 1)
_FORMATS = {16: ">B", 20: ">q", 21: ">h", 23: ">i", 26: ">I", 700: ">f", 701: ">d", 1082: ">i",
            1083: ">q", 1114: ">q", 1184: ">q", 1186: ">qii"}  # fmt: skip
"""Of types in binary: times count microseconds, dates days."""
_SQL = {16: "BOOLEAN", 20: "BIGINT", 21: "SMALLINT", 23: "INTEGER", 700: "FLOAT", 701: "DOUBLE",
        1082: "DATE", 1083: "TIME", 1114: "TIMESTAMP", 1184: "TIMESTAMP",
        1186: "INTERVAL"}  # fmt: skip

_DAY_IN_ZONE = re.compile(r"(\d{4}-\d\d-\d\d) ([+-]\d\d(?::\d\d)?)")
_IN_A_ZONE = re.compile(rb"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d(\.\d+)?)?)? ?[+-]\d\d(:?\d\d)?")
_CASTS = {word: kind.oid for kind in reversed(TYPES) if kind is not BYTEA
          for word in (kind.name.split()[0].upper(), kind.short.upper())}  # fmt: skip
_CASTS |= {"INT": 23, "FLOAT": 701, "DECIMAL": 1700, "OID": 26}
_LISTS = {kind.oid: kind.lists for kind in TYPES} | {26: 1028}
_ELEMENTS = {oids: oid for oid, oids in _LISTS.items()} | {1015: 25}
"""Types of lists, and those of their items."""
_TEXT_LIST = 1009
_STAND_INS = {"LIMIT": "0", "OFFSET": "0", "FIRST": "0", "NEXT": "0", "LAST": "'1 second'",
              "EVERY": "'1001 days'", "WINDOW": "LAST"}  # fmt: skip
_STAND_INS |= dict.fromkeys(("LIKE", "ILIKE", "|"), "''")
"""By the word before. A step must be a multiple of the panes: this one is of nearly all lengths."""
_WHOLE = ("ROUND", "LEFT", "RIGHT", "SUBSTR", "SUBSTRING")  # behind their first argument
_OF_CALLS = {"quantiles": (701, "0.5"), "ranks": (701, "0"), "top_k": (20, "1"),
             "periodic": (20, "1")}  # fmt: skip
"""Types of arguments of table functions, and what stands in for them; the others' are items."""
PARAMETERS_MAX = Limits().list_constants  # they may all be parameters
_BEFORE_ALL = datetime(1900, 1, 1)
_LATEST = datetime(9999, 1, 1) - timedelta(days=PARAMETERS_MAX)
"""Times that stand in: each is up to so many days later."""


def literals(
    values: Sequence[bytes | None], formats: Sequence[int], types: Sequence[int]
) -> list[str]:
    """Of all parameters of a Bind. Raises SelectError: a value is none of its type, or the type is
    not known here."""
    each = formats_of(formats, len(values))
    if len(formats) > 1 and len(formats) != len(values):
        raise SelectError("formats do not match the parameters", code="value")
    return [
        literal(value, form, oid, number)
        for number, (value, form, oid) in enumerate(zip(values, each, types, strict=True), start=1)
    ]


def literal(value: bytes | None, form: int, oid: int, number: int = 1) -> str:
    """One parameter's; see `literals`.

    Examples
    --------
    >>> literal(b"it's", 0, 25), literal(b"-5", 0, 20), literal(None, 0, 20)
    ("'it''s'", '(-5)', 'CAST(NULL AS BIGINT)')
    """
    try:
        if oid in _ELEMENTS:
            return _list(value, form, _ELEMENTS[oid], number)
        if value is None:
            return f"CAST(NULL AS {_SQL[oid]})" if oid in _SQL else "NULL"
        if oid == 17:
            said = "there are no bytes in SELECT"
            raise SelectError(said, code="not_allowed", remedy="send text")
        return _in_binary(value, oid) if form == BINARY else _in_text(value.decode(), oid)
    except UnicodeDecodeError:
        raise SelectError(f"parameter ${number} is not UTF-8", code="value") from None
    except (ValueError, struct.error, InvalidOperation, OverflowError) as wrong:
        if isinstance(wrong, SelectError):
            raise
        kind = {one.oid: one.name for one in TYPES}.get(oid, str(oid))
        said = f"parameter ${number} is no value of type {kind}"
        if form == BINARY:
            raise SelectError(said, code="value", remedy="send it as text") from None
        raise SelectError(f"{said}: {(value or b'').decode()[:80]!r}", code="value") from None


def types_of(text: str, given: Sequence[int]) -> tuple[int, ...]:
    """Types of all parameters: as given, else by their cast or place; 0: any.

    Examples
    --------
    >>> types_of("SELECT driver FROM o WHERE count > $1::int AND area = $2 LIMIT $3", ())
    (23, 0, 20)
    """
    words = words_of(text)
    types = [*given, *[0] * (parameters_of(words) - len(given))]
    for at, number in _parameters(words):
        types[number] = types[number] or _type_at(words, at)
    return tuple(types)


def in_a_zone(values: Sequence[bytes | None], types: Sequence[int]) -> bool:
    """Whether one is a time with its zone, as JDBC writes times and days, which says no type."""
    return any(
        not oid and value is not None and _IN_A_ZONE.fullmatch(value)
        for value, oid in zip(values, types, strict=False)
    )


def stand_ins(text: str, types: Sequence[int]) -> list[str]:
    """Literals for parameters that are not given yet: nulls, or, where SELECT takes none, values
    that leave the answer its types. Each time is later than those before it, and than constants,
    so that a window ends behind its start."""
    words = words_of(text)
    ends, last = dict[int, bool](), _BEFORE_ALL + timedelta(days=PARAMETERS_MAX)
    types = [*types]
    for at, number in _parameters(words):
        if types[number] in _TEXTS and _bounds_window(words, at):
            types[number] = 1184
        is_end = words[at - 1].is_word("TO", "<", "<=", "AND")
        ends[number] = ends.get(number, True) and is_end
    for word in words if any(ends.values()) else ():
        if word.kind == "string":
            with contextlib.suppress(BadArgument):
                constant = datetime_of(instant_us(word.text[1:-1])).replace(tzinfo=None)
                last = max(last, min(constant, _LATEST))
    chosen = [
        _time_literal((last if ends.get(n) else _BEFORE_ALL) + timedelta(days=n + 1), oid)
        if oid in (1082, 1114, 1184)
        else literal(None, TEXT, oid)
        for n, oid in enumerate(types)
    ]
    for at, number in _parameters(words):
        in_brackets = words[at - 1].text == "("
        before = words[at - 1 - in_brackets]
        in_list = words.around[at] > 0 and words[words.around[at] - 1].is_word("IN")
        if in_list and words[at - 1].text in ("(", ","):
            chosen[number] = "NULL"  # with its type, thousands would be too long
        chosen[number] = _STAND_INS.get(before.value, chosen[number])
        if in_brackets and CONSTANTS.get(before.text.lower()) == 0:
            chosen[number] = "'day'"  # a unit
        if call := called(words, at):
            item = "0" if types[number] in _INTEGERS else "''"
            chosen[number] = _OF_CALLS.get(call, (0, item))[1]
    return chosen


def with_integer_items(text: str, types: Sequence[int]) -> tuple[int, ...]:
    """Types of parameters, where items that could be texts as well are integers."""
    words, found = words_of(text), [*types]
    for at, number in _parameters(words):
        if not found[number] and called(words, at):
            found[number] = 20
    return tuple(found)


def type_probes(text: str, given: Sequence[int], types: Sequence[int]) -> dict[str, list[int]]:
    """A SELECT whose column has the type that parameters without one need, since it is what they
    are compared, or computed, with -> their numbers.

    Examples
    --------
    >>> type_probes("SELECT driver FROM o(driver) AS o FOR ALL WHERE o.count > $1", (), (0,))
    {'SELECT o.count FROM o(driver) AS o FOR ALL LIMIT 0': [0]}
    """
    words = words_of(text)
    selects, owners = selects_of(words)
    select = next((word for _, word in outside(words, 0) if word.is_word("SELECT")), None)
    first = text[: select.start] if select else ""  # the WITH clause, if there is one
    found: dict[tuple[str, tuple[int, int], tuple[int, int]], list[int]] = {}
    firsts: dict[int, tuple[int, int]] = {}  # call -> its first argument
    begins: list[int] = []  # of the constants in IN's brackets, or after a sign
    for at in range(len(words)):
        goes_on = at and (words[at - 1].text == "," or words[at - 1].kind in _CONSTANTS)
        begins.append(begins[-1] if goes_on else at)
    done = set[int]()
    for at, number in reversed(_parameters(words)):
        if any(given[number : number + 1]) or types[number] not in (0, _TEXT_LIST):
            continue
        value, form = _beside(words, at, begins[at]), "{}"
        if value is None:
            value, form = _computed_with(words, at, firsts)
        source = _from_clause(words, selects.get(owners[at], {}))
        if value is None or source is None or number in done:
            continue
        done.add(number)
        found.setdefault((form, value, source), []).append(number)
    probes, size = dict[str, list[int]](), 0
    for (form, beside, behind), numbers in found.items():
        places = beside, behind  # of words
        value, source = (text[words[start].start : words[end - 1].end] for start, end in places)
        probe = f"{first}SELECT {form.format(value)} {source} LIMIT 0"
        size += len(probe)
        if len(probes) == _COMPARED_MAX or size > 2 * STATEMENT_BYTES_MAX:
            break
        edited = with_parameters(probe, stand_ins(probe, types)).text
        probes.setdefault(edited, []).extend(numbers)
    return probes


def probed_types(
    types: Sequence[int], probes: Mapping[str, Sequence[int]], found: Sequence[int]
) -> tuple[int, ...]:
    """Types of parameters, with those that their probes `found`; 0: unknown."""
    known = [*types]
    for numbers, oid in zip(probes.values(), found, strict=True):
        for number in numbers if oid else ():
            known[number] = oid if known[number] == 0 else _LISTS[oid]
    return tuple(known)


_COMPARED_MAX = 32
_COMPARES = re.compile(
    r" (= ANY \( |(<>|!=) ALL \( |(NOT )?IN \( |(=|<>|!=|<=?|>=?) |(NOT )?BETWEEN (\S+ AND )?"
    r"|IS (NOT )?DISTINCT FROM )$"
)


def _beside(words: Words, at: int, first: int) -> tuple[int, int] | None:
    """The name or call that a parameter without a cast is compared with: a part of the words.
    `first`: where the constants begin of which it is one."""
    after = [word.text for word in words[at + 1 : at + 2]]
    if after == ["::"]:
        return None
    compares = _COMPARES.search(f" {words.said(max(first - 6, 0), first)} ")
    if compares is not None:
        end = first - len(compares[0].split())
        start = _operand(words, end)
        return None if start is None else (start, end)
    return _name_behind(words, at + 2) if _COMPARES.search(f" {''.join(after)} ") else None


def _name_behind(words: Words, start: int) -> tuple[int, int] | None:
    end = start + 1
    while end + 1 < len(words) and words[end].text == "." and words[end + 1].is_name:
        end += 2
    is_name = start < len(words) and words[start].is_name
    return (start, end) if is_name and words[min(end, len(words) - 1)].text != "(" else None


_ONE_TYPE = ("COALESCE", "IFNULL", "NULLIF", "GREATEST", "LEAST")


def _computed_with(
    words: Words, at: int, firsts: dict[int, tuple[int, int]]
) -> tuple[tuple[int, int] | None, str]:
    """The numbers, or the argument of a call, that a parameter is computed with, and SQL around
    them that has the parameter's type: drivers that know a parameter as text take no number."""
    opens = words.around[at]
    if opens > 0 and words[opens - 1].is_word(*_ONE_TYPE):
        if opens not in firsts:
            firsts[opens] = opens + 1, _argument_end(words, opens + 1)
        start, end = firsts[opens]
        if start == at:  # the parameter itself: what is behind it
            start, end = end + 1, _argument_end(words, end + 1)
        if end < len(words) and end > start:
            return (start, end), "{}"
    sign, start = words[at - 1].text, _term(words, at - 1)
    if sign in ARITHMETIC and start is not None:
        while words[start - 1].text in ARITHMETIC and (more := _term(words, start - 1)) is not None:
            start = more
        value = start, at - 1
    else:
        sign = words[at + 1].text if at + 1 < len(words) else ""
        value = _name_behind(words, at + 2) if sign in ARITHMETIC else None
    return value, "abs({}) / 1" if sign == "/" else "abs({})"  # of times there is no abs


def _term(words: Words, end: int) -> int | None:
    """Where the name, the call or the brackets begin that end there, or what has its type there."""
    opens, start = words.pairs.get(end - 1), _operand(words, end)
    if opens is not None and (start is None or words[opens - 1].is_word(*OPENING)):
        return opens
    if start is not None and words[start].is_word("PRECISION"):
        start -= 1
    if start and words[start - 1].text == "::":
        end = start - 1
        return words.pairs.get(end - 1, _operand(words, end))  # of one cast
    return start


def _argument_end(words: Words, start: int) -> int:
    return next((at for at, w in outside(words, start) if w.text in (",", ")")), len(words))


_CONSTANTS = ("parameter", "number", "string")


def _operand(words: Words, end: int) -> int | None:
    """Where the name or call begins that ends there."""
    start = words.pairs.get(end - 1, end) - 1
    if start < 0 or not words[start].is_name:
        return None
    while start > 1 and words[start - 1].text == "." and words[start - 2].is_name:
        start -= 2
    return start


def _from_clause(words: Words, found: Mapping[str, int]) -> tuple[int, int] | None:
    start = found.get("FROM", len(words))
    end = min((number for number in found.values() if number > start), default=start)
    return (start, end) if end > start else None


def _parameters(words: Words) -> list[tuple[int, int]]:
    """Their places among the words, and their numbers from 0 on."""
    each = [(at, word.text) for at, word in enumerate(words) if word.kind == "parameter"]
    return [(at, int(text[1:]) - 1) for at, text in each if int(text[1:])]


def _type_at(words: Words, at: int) -> int:
    said = ["", *(word.value for word in words[max(at - 2, 0) : at])]
    after = [word.value for word in words[at + 1 : at + 4]]
    if after[:1] == ["::"] or (after[:1] == ["AS"] and said[-2:] == ["CAST", "("]):
        zoned = after[1:] == ["TIMESTAMP", "WITH"]
        found = _CASTS.get("TIMESTAMPTZ" if zoned else "".join(after[1:2]), 0)
        return _LISTS.get(found, _TEXT_LIST) if after[2:] == ["["] else found
    if said[-2:] in (["ANY", "("], ["ALL", "("]):
        return _TEXT_LIST
    opens = words.around[at]
    if opens > 0 and said[-1] == "," and words[opens - 1].is_word(*_WHOLE):
        return 23
    if said[-1] in ("LIMIT", "OFFSET") or said[-2:] in (["FETCH", "FIRST"], ["FETCH", "NEXT"]):
        return 20
    return 1184 if _bounds_window(words, at) else _OF_CALLS.get(called(words, at), (0, ""))[0]


def _bounds_window(words: Words, at: int) -> bool:
    said = ["", "", *(word.value for word in words[max(at - 4, 0) : at])]
    if said[-1] == "AND" and said[-3] == "BETWEEN":  # time BETWEEN $1 AND $2
        said = said[:-2]
    compares = said[-1] in ("<", "<=", ">", ">=", "BETWEEN") and said[-2].lower() == TIME
    return compares or said[-1] in ("FOR", "TO", "WINDOW")


def _list(value: bytes | None, form: int, element: int, number: int) -> str:
    """IN with its items, which stands for = ANY of a list, and behind NOT for <> ALL."""
    if value is None:
        return f"{IS_ANY}NULL)"
    items: list[bytes | None] = []
    if form == BINARY:
        dimensions, _, _, size = struct.unpack(">4i", value[:16].ljust(16, b"\0"))
        if dimensions > 1 or size < 0:
            raise ValueError(value)
        at = 20
        for _ in range(size):
            (length,) = struct.unpack(">i", value[at : at + 4])
            items.append(None if length < 0 else value[at + 4 : at + 4 + length])
            at += 4 + max(length, 0)
        if dimensions and at != len(value):
            raise ValueError(value)
    else:
        items = [None if t is None else t.encode() for t in list_items(value.decode())]
    each = [literal(item, form, element, number) for item in items]
    return f"{IS_ANY}{', '.join(each) or NOTHING})"


def _in_text(text: str, oid: int) -> str:
    if oid in _INTEGERS:
        return _number(str(int(text)))
    if oid in _FLOATS:
        return _float(float(text))
    if oid == 1700:
        return _decimal(Decimal(text))
    if oid == 16:
        word = text.strip().lower()
        if word not in ("t", "true", "1", "on", "yes", "f", "false", "0", "off", "no"):
            raise ValueError(text)
        return "TRUE" if word in ("t", "true", "1", "on", "yes") else "FALSE"
    if oid in (1082, 1114, 1184):
        return _instant(text, oid)
    if oid == 1083:
        return f"TIME '{time.fromisoformat(text.strip()).replace(tzinfo=None)}'"
    if oid == 1186:
        return f"INTERVAL {text_literal(length(text))}"
    return text_literal(text)


def _in_binary(value: bytes, oid: int) -> str:
    if oid in _TEXTS:
        return text_literal(value.decode())
    if oid == 1700:
        return _binary_numeric(value)
    if oid not in _FORMATS:
        raise SelectError(
            f"parameters of type {oid} are not known in binary",
            code="not_allowed",
            remedy="send it as text",
        )
    found, *more = struct.unpack(_FORMATS[oid], value)
    if oid in _INTEGERS:
        return _number(str(found))
    if oid in _FLOATS:
        return _float(found)
    if oid == 16 and found < 2:
        return "TRUE" if found else "FALSE"
    if oid == 1186:
        days, months = more
        if months:
            raise SelectError("a month is not a length", code="value", remedy="give days")
        return f"INTERVAL '{days} days {found} microseconds'"
    if oid == 1083 and 0 <= found < DAY_US:
        return f"TIME '{(_EPOCH + timedelta(microseconds=found)).time()}'"
    if oid in (16, 1083):
        raise ValueError(value)
    unit = "days" if oid == 1082 else "microseconds"
    return _time_literal(_EPOCH + timedelta(**{unit: found}), oid)


def _binary_numeric(value: bytes) -> str:
    count, weight, sign, _ = struct.unpack(">hhHH", value[:8])
    groups = struct.unpack(f">{count}H", value[8:])
    if sign not in (0, 0x4000) or abs(weight) > 32 or len(groups) > 64:
        raise ValueError(value)
    whole = Decimal(0)
    for group in groups:
        whole = whole * 10_000 + group
    found = whole.scaleb(4 * (weight + 1 - count))
    return _decimal(-found if sign else found)


def _instant(text: str, oid: int) -> str:
    """In UTC and without a zone, as times are here."""
    day = _DAY_IN_ZONE.fullmatch(text.strip())
    if day:  # as JDBC writes a date
        text = day[1] if oid == 1082 else f"{day[1]} 00:00{day[2]}"
    try:
        at = datetime_of(instant_us(text.strip())).replace(tzinfo=None)
    except BadArgument as wrong:
        raise SelectError(str(wrong), code="value") from None
    return _time_literal(at, oid)


def _time_literal(at: datetime, oid: int) -> str:
    return f"DATE '{at.date()}'" if oid == 1082 else f"TIMESTAMP '{at}'"


def _number(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _float(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return f"CAST('{value}' AS DOUBLE)"
    return _number(repr(value))


def _decimal(value: Decimal) -> str:
    if not value.is_finite() or abs(value.adjusted()) > 38:
        raise ValueError(value)
    return _number(f"{value:f}")
