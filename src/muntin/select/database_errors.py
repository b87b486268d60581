"""What DuckDB says of a statement, as an error at its place in the text."""

import re
from bisect import bisect_left
from contextlib import suppress
from itertools import pairwise

from muntin.errors import BadArgument, SelectError
from muntin.select.allowed import words
from muntin.select.database import DatabaseError
from muntin.select.places import NOWHERE, Span, problem_at, starts_of
from muntin.select.plan import CheckedStatement
from muntin.select.syntax import MARK, SourceItem
from muntin.times import datetime_of, instant_us

_LIMITS = {
    "timeout": "ask for less: a shorter window, fewer rows, a join on keys",
    "memory": "ask for less: a shorter window, fewer groups, a join on keys",
    "too_large": "add WHERE or LIMIT",
    "busy": "try again",
}
_READ_AS = {
    "BOOLEAN": "write true or false",
    "DATE": "write a day as '2026-01-01', a time as TIMESTAMP '2026-01-01 10:00' (UTC)",
    "TIMESTAMP": "write a time as '2026-01-01 10:00' (UTC)",
    "INTERVAL": "write a length as INTERVAL '15 minutes'",
    "TIME": "write a time of day as '10:00'",
}
_KINDS = {
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "a number"),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"), "a time"),
    **dict.fromkeys(("INTERVAL", "TIME"), "a length or time of day"),
    "BOOLEAN": "a truth value",
    **dict.fromkeys(("VARCHAR", "STRING"), "a text"),
}
"""Types in words; the others are integers."""
_REMEDIES = {
    "a text": "write the constant in single quotes, or cast the text with TRY_CAST",
    "a truth value": "write true or false",
    "a time": "write a time as TIMESTAMP '2026-01-01 10:00' (UTC)",
}
_OURS = {
    "zone": ("value", "the zone of this time would be passed over", "write it in UTC"),
    "rounded": (
        "type", "this decimal would be rounded to the digits of what stands beside it",
        "cast to DOUBLE what is added up: x::DOUBLE",
    ),
    "text": ("type", "", "write the constant without quotes"),
}  # fmt: skip
"""Of the kinds that `database` finds: code, message, remedy."""
_TOKEN = re.compile(r"""::|\w+|"(\w+)"|'(?:[^']|'')*'|"(?:[^"]|"")*"|\S""")
_QUOTED = re.compile(r"'([A-Za-z_][A-Za-z0-9_]*)\(|\"([^\"]+)\"|'([^']+)'")
_COLUMN = re.compile(r"source column (\w+)")
_SOURCE = re.compile(rf'\(SELECT \* REPLACE \(.*?\) FROM "{MARK}\d+"\)')  # noqa: S608
_RELATION = re.compile(r'"(?:[^"]|"")*"\.')
_OWN_NAME = re.compile(rf'"?{MARK}\d+"?\.')
# as DuckDB calls it, and as `matching` writes it
_LIKE = re.compile(r"!?~~(\*?)\(|regexp_full_match\((?=[^,]*, STRING, STRING\))")
_MIXED = re.compile(
    r"Cannot (?:compare|mix(?=.* BETWEEN)) values of type (\w+).*? and (?:type )?(\w+)"
)
_OVERFLOW = re.compile("overflow|is out of range")
_ARITHMETIC = re.compile(r"Overflow in (\w+) of ")
_SIGNS = {"multiplication": "*", "addition": "+", "subtraction": "-"}
_FAILING = words(
    """
    abs left make_date make_timestamp ntile quantile_cont quantile_disc regexp_extract
    regexp_full_match regexp_matches right substr substring time_bucket to_timestamp
    """
)
"""Functions with arguments that they refuse."""


def converted(error: DatabaseError, plan: CheckedStatement) -> SelectError:
    """A `SelectError` at the name or value that DuckDB speaks of, where that is known."""
    if error.kind in _LIMITS:
        code = "timeout" if error.kind == "timeout" else "limit"
        return SelectError(str(error), code=code, text=plan.text, remedy=_LIMITS[error.kind])
    said = _OURS.get(error.kind)
    if said is not None:
        code, message, remedy = said
        if error.kind == "text":
            message = str(error)
            remedy = _READ_AS.get(message.rpartition(" ")[2], remedy)
        elif error.kind == "zone":
            with suppress(BadArgument):
                remedy += f": '{datetime_of(instant_us(str(error))).replace(tzinfo=None)}'"
        return problem_at(plan.text, _place_in(error, plan) or NOWHERE, message, remedy, code)
    message = re.sub(r"^[A-Z][A-Za-z ]* Error: |_LITERAL\b", "", str(error))
    lower = message.lower()
    kind, code, remedy = error.kind.lower(), "type", ""
    if kind == "out of range" and _OVERFLOW.search(lower):
        code, remedy = "overflow", "cast to DOUBLE before multiplying or adding: x::DOUBLE * y"
    elif kind in ("conversion", "invalid input", "invalidinput", "out of range"):
        code = "value"
        if kind == "conversion" and error.position is not None:  # a cast
            remedy = "TRY_CAST gives null for such a value"
    elif "must appear in the group by" in lower:
        code, remedy = "group_by", "add it to GROUP BY, or put it into sum(...), max(...), ..."
        message = message.split(".")[0]
    elif "clause cannot contain window functions" in lower:
        code, remedy = "group_by", "write QUALIFY, or ask the rows of a query in WITH"
    elif lower.startswith("window functions are not supported here"):
        remedy = "write OVER (ORDER BY x) behind it, in SELECT, QUALIFY or ORDER BY"
    elif "order by non-integer literal" in lower:
        message = "ORDER BY a constant leaves rows as they are"
        remedy = """name a column: k, or "k" in double quotes"""
    elif "no function matches" in lower:
        message = message.split(". You might")[0]
        if "regexp_" not in plan.text.lower():
            message = _LIKE.sub(lambda found: "ILIKE(" if found[1] else "LIKE(", message)
        remedy = "cast the argument, e.g. x::DOUBLE or x::VARCHAR"
    elif found := _MIXED.search(message):
        one, other = (_KINDS.get(each, "an integer") for each in found.groups())
        message = f"{_column_in(error) or 'this'} is {one}, and is compared with {other}"
        remedy = _REMEDIES.get(one, "write the constant without quotes")
    elif is_ambiguous(error):
        message = message.split(". In order")[0]
        remedy = "say what its arguments are, e.g. x::DOUBLE or x::TIMESTAMP"
    place = _place_of(_COLUMN, message, plan) or _place_in(error, plan)
    place = place or _place_of(_QUOTED, message, plan) or _place_of_call(message, plan) or NOWHERE
    return problem_at(plan.text, place, _OWN_NAME.sub("", message)[:500], remedy, code)


def is_ambiguous(error: DatabaseError) -> bool:
    """A function has arguments of no type, such as a column that holds nothing yet."""
    return "could not choose a best candidate" in str(error).lower()


def _place_in(error: DatabaseError, plan: CheckedStatement) -> Span | None:
    """The place in the text of the word or sign of the SQL that DuckDB points at, where both have
    it as often, but in FROM items."""
    if error.position is None:
        return None
    at, text = _start_in(error), plan.text
    for item in plan.statement.items if plan.items else ():
        for span in (item.span, *([item.window_span] if isinstance(item, SourceItem) else ())):
            end = span.start + span.length
            text = text[: span.start] + " " * span.length + text[end:]
    instead = {"::": "cast", **plan.written}
    tokens = _tokens(_SOURCE.sub(lambda found: " " * len(found[0]), error.sql))
    word = next((word for start, word in tokens if start >= at), "")
    same = [start for start, each in tokens if each == word]
    spans = [Span(s, len(each)) for s, each in _tokens(text) if instead.get(each, each) == word]
    return spans[bisect_left(same, at)] if same and len(same) == len(spans) else None


def _start_in(error: DatabaseError) -> int:
    """Where the SQL has what DuckDB points at, but the relation of a column."""
    at = len(error.sql.encode()[: error.position].decode(errors="replace"))
    relation = _RELATION.match(error.sql, at)
    return relation.end() if relation else at


def _column_in(error: DatabaseError) -> str:
    """The column that DuckDB points at, if it is one."""
    found = None if error.position is None else _TOKEN.match(error.sql, _start_in(error))
    return (found and found[1]) or ""


def _place_of_call(message: str, plan: CheckedStatement) -> Span | None:
    """The function or sign that failed while rows were made, where only one can have: DuckDB then
    says no place."""
    tokens = _tokens(plan.text)
    if said := _ARITHMETIC.match(message):
        found = [token for token in tokens if token[1] == _SIGNS.get(said[1])]
    else:
        pairs = pairwise(tokens)
        calls = [call for call, after in pairs if after[1] == "(" and call[1] in _FAILING]
        found = [call for call in calls if call[1] in message.lower()] or calls
    return Span(found[0][0], len(found[0][1])) if len(found) == 1 else None


def _tokens(text: str) -> list[tuple[int, str]]:
    """Words and signs, with where they start; plain names without their quotes."""
    found = _TOKEN.finditer(text)
    return [(each.start(each.lastindex or 0), each[each.lastindex or 0].lower()) for each in found]


def _place_of(named: re.Pattern[str], message: str, plan: CheckedStatement) -> Span | None:
    """The column that the message names, or the first thing in quotes, if the text has it: where
    it is not in a FROM item, about which DuckDB knows nothing."""
    for match in named.finditer(message):
        word = next(g for g in match.groups() if g)
        if starts := starts_of(word, plan.text):
            items = [item.span for item in plan.statement.items] if plan.items else []
            outside = (
                s for s in starts if not any(i.start <= s < i.start + i.length for i in items)
            )
            return Span(next(outside, starts[0]), len(word))
    return None
