"""One plan for statements that differ only in constants of their one FROM item, or of conditions.

`quantiles(delays, 0.5)` and `quantiles(delays, 0.9)` under the same SELECT have the same columns
and the same SQL, and so have all windows of one form (`FOR '<start>' TO '<end>'`): what a plan
costs is paid for the first of them, and of the others only the constants are read. `WHERE driver =
7` and `WHERE driver = 8` differ in one number of the SQL as well.

That is enough: up to the first constant, the two texts are the same characters, so that a tokenizer
is in the same state there; both constants are followed by the same character, which cannot continue
either of them; and so on to the end of the text.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from muntin.errors import BadArgument
from muntin.select.catalog import ForClause
from muntin.select.item_parser import number_of
from muntin.select.limits import Limits
from muntin.select.narrowing import Narrowing, is_whole
from muntin.select.syntax import SourceItem, Statement, Value
from muntin.times import duration_us, instant_us

# A number or a string that stands by itself. Some that match are neither ('1' in a comment): what
# matters is only which of them are constants of the first text's FROM item.
_CONSTANT = re.compile(
    r"""(?<![\w.'"])(?:[0-9]+(?:\.[0-9]+)?|'(?:[^'\\]|'')*')(?![\w.'"])""", re.ASCII
)
_HOLE = "\x01"  # no text that can be planned holds it


@dataclass(frozen=True, slots=True)
class Slots:
    """Which constants of a text are arguments of its FROM item, and which are of conditions.

    `constants`: all of the text, as written. One that is named nowhere else must be as it was.
    `arguments`: from constants to the arguments of the item.
    `negative`: constants behind a minus.
    `conditions`: from constants to the place of their condition in `Narrowing`.
    `window`: constants of the window clause, in order.
    """

    item: SourceItem
    constants: tuple[str, ...]
    arguments: Mapping[int, int]
    negative: Collection[int]
    conditions: Mapping[int, int]
    window: Sequence[int]


def outline_of(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with holes where its constants were, and the constants."""
    return _CONSTANT.sub(_HOLE, text), tuple(_CONSTANT.findall(text))


def slots_of(
    statement: Statement, sql: str, narrowing: Narrowing | None, limits: Limits
) -> Slots | None:
    """Where a planned statement has constants that another of its shape may have otherwise.

    None where nothing can be shared: with one SELECT and one FROM item no column is named after
    an item, and there is no WITH query that the item could be.
    """
    item = statement.items[0] if len(statement.items) == 1 else None
    selects = sum(1 for _ in statement.tree.find_all(exp.Select))
    if not isinstance(item, SourceItem) or selects != 1:
        return None
    text = statement.text
    ends = {
        argument.span.start + argument.span.length: (number, argument)
        for number, argument in enumerate(item.arguments or ())
        if isinstance(argument, Value)
    }
    arguments, negative, window = dict[int, int](), set[int](), list[int]()
    first, last = item.window_span.start, item.window_span.start + item.window_span.length
    for at, found in enumerate(_CONSTANT.finditer(text)):
        if first <= found.start() < last and found[0][0] == "'":
            window.append(at)
        if found.end() in ends:
            arguments[at], argument = ends[found.end()]
            if text[argument.span.start] == "-":
                negative.add(at)
    constants = outline_of(text)[1]
    conditions = {} if narrowing is None else _conditions(statement, constants, sql, narrowing)
    if _window_with(item.window, [_value(constants[at], limits) for at in window]) is None:
        window = []  # of none, or spelled otherwise: LAST 5 minutes
    if not (arguments or conditions or window):
        return None
    return Slots(item, constants, arguments, negative, conditions, window)


def _conditions(
    statement: Statement, constants: tuple[str, ...], sql: str, narrowing: Narrowing
) -> dict[int, int]:
    """Constants that stand once in the text, once in its tree and once in its SQL: in the
    condition, then. Not where a name or a comment might hold a number."""
    if any(sign in statement.text for sign in ('"', "\\", "--", "/*")):
        return {}
    numbers = [node.name for node in statement.tree.find_all(exp.Literal)]
    in_sql = _CONSTANT.findall(sql)
    return {
        constants.index(condition.constant): place
        for place, condition in enumerate(narrowing.conditions)
        if all(each.count(condition.constant) == 1 for each in (constants, numbers, in_sql))
    }


def filled(
    slots: Slots, constants: tuple[str, ...], sql: str, narrowing: Narrowing | None, limits: Limits
) -> tuple[SourceItem, str, Narrowing | None] | None:
    """The FROM item, the SQL and the conditions with other constants; None where the text has to be
    read. The item's places are not set: errors are left to those who read the text."""
    item, arguments = slots.item, dict[int, Value]()
    conditions = [] if narrowing is None else list(narrowing.conditions)
    in_sql: dict[str, str] = {}
    for at, (was, text) in enumerate(zip(slots.constants, constants, strict=True)):
        if text == was or at in slots.window:
            continue
        place, number = slots.conditions.get(at), slots.arguments.get(at)
        if place is not None and is_whole(text):
            value = -int(text) if conditions[place].negative else int(text)
            conditions[place] = replace(conditions[place], value=value, constant=text)
            in_sql[was] = text
            continue
        given = _value(text, limits)
        alike = isinstance(given, str) == (was[0] == "'")
        if place is not None or number is None or given is None or not alike:
            return None
        arguments[number] = Value(-given if at in slots.negative else given)  # type: ignore[operator]
    if arguments:
        known = enumerate(item.arguments or ())
        item = replace(item, arguments=tuple(arguments.get(at, each) for at, each in known))
    if any(constants[at] != slots.constants[at] for at in slots.window):
        window = _window_with(item.window, [_value(constants[at], limits) for at in slots.window])
        if window is None:
            return None
        item = replace(item, window=window)
    if in_sql and narrowing is not None:
        sql = _CONSTANT.sub(lambda found: in_sql.get(found[0], found[0]), sql)
        narrowing = replace(narrowing, conditions=tuple(conditions))
    return item, sql, narrowing


def _window_with(window: ForClause | None, constants: Sequence[object]) -> ForClause | None:
    """A window of the same form with other constants; None where the text has to be read."""
    if window is None or window.every_us is not None:  # which of them the step is, is not told
        return None
    try:
        match window.kind, constants:
            case "last", [str(length)]:
                return ForClause("last", length_us=duration_us(length))
            case "window", [str(start)]:
                return ForClause("window", start_us=instant_us(start))
            case "range", [str(start), str(end)]:
                first, last = instant_us(start), instant_us(end)
                return ForClause("range", start_us=first, end_us=last) if first < last else None
            case _:
                return None
    except BadArgument:
        return None


def _value(text: str, limits: Limits) -> str | int | float | None:
    """A constant's value; None where it is beyond a limit."""
    if text[0] != "'":
        return number_of(text)
    if len(text.encode()) > limits.literal_bytes + 2:
        return None
    return text[1:-1].replace("''", "'")
