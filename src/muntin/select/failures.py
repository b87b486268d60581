"""What DuckDB says about a statement, in terms of the text that was written."""

from __future__ import annotations

import re

from muntin.errors import SelectError
from muntin.select.database import DatabaseError
from muntin.select.places import NOWHERE, Span, problem_at
from muntin.select.plan import CheckedStatement

_LIMITS = {
    "timeout": "ask for less: a shorter window, fewer rows, a join on keys",
    "memory": "ask for less: a shorter window, fewer groups, a join on keys",
    "too_large": "add WHERE or LIMIT",
    "busy": "try again",
}
_QUOTED = re.compile(r"'([A-Za-z_][A-Za-z0-9_]*)\(|\"([^\"]+)\"|'([^']+)'")
_COLUMN = re.compile(r"source column (\w+)")
_OWN_NAME = re.compile(r'"?\bt\d+\b"?\.')
_TIMES = ("date", "timestamp", "time field", "interval")
_ARITHMETIC = ("overflow", "out of range")


def converted(error: DatabaseError, plan: CheckedStatement) -> SelectError:
    """A `SelectError` at the name or value that DuckDB speaks of, where that is known."""
    if error.kind in _LIMITS:
        code = "timeout" if error.kind == "timeout" else "limit"
        return SelectError(str(error), code=code, text=plan.text, remedy=_LIMITS[error.kind])
    message = re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", str(error))
    place = _place(message, plan)
    lower = message.lower()
    code, remedy = "type", ""
    if any(word in lower for word in _ARITHMETIC) and any(word in lower for word in _TIMES):
        code = "value"
    elif any(word in lower for word in _ARITHMETIC):
        code, remedy = "overflow", "cast to DOUBLE before multiplying or adding: x::DOUBLE * y"
    elif error.kind.lower() in ("conversion", "invalid input", "invalidinput", "out of range"):
        code = "value"
        if lower.startswith("could not convert"):
            remedy = "TRY_CAST gives null for such a value; texts are compared with 'texts'"
    elif "must appear in the group by" in lower:
        code, remedy = "group_by", "add it to GROUP BY, or put it into sum(...), max(...), ..."
        message = message.split(".")[0]
    elif "no function matches" in lower:
        message = message.split(". You might")[0]
        remedy = "cast the argument, e.g. x::DOUBLE"
    return problem_at(plan.text, place, _OWN_NAME.sub("", message)[:500], remedy, code)


def _place(message: str, plan: CheckedStatement) -> Span:
    """The column that the message names, or the first thing in quotes, if the text has it: where
    it is not in a FROM item, about which DuckDB knows nothing."""
    for match in (*_COLUMN.finditer(message), *_QUOTED.finditer(message)):
        word = next(g for g in match.groups() if g)
        pattern = rf"(?<!\w){re.escape(word)}(?!\w)"
        starts = [found.start() for found in re.finditer(pattern, plan.text, re.IGNORECASE)]
        if starts:
            items = [item.span for item in plan.statement.items] if plan.items else []
            outside = (
                s for s in starts if not any(i.start <= s < i.start + i.length for i in items)
            )
            return Span(next(outside, starts[0]), len(word))
    return NOWHERE
