"""Names of keys and indicators: what may be asked for, and what is said when it may not."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muntin.errors import BadArgument, UnknownName
from muntin.summaries.checks import name_of, names_in
from muntin.summaries.indicators import SumType, is_sum_type

Key = tuple[str, ...]
KeyName = str | Sequence[str]
COUNT = "count"
KEYS_MAX = 64
PARTS_MAX = 16
INDICATORS_MAX = 256


def as_key(key: Any) -> Key:
    """A name, or a sequence of names, as a tuple of names."""
    if isinstance(key, str):
        key = (key,)
    if not isinstance(key, Sequence) or not 1 <= len(key) <= PARTS_MAX:
        raise BadArgument(
            f"key {key!r:.100}: give a name, or 1 to {PARTS_MAX} names for a combination"
        )
    names = tuple(name_of("key column", name) for name in key)
    if len(set(names)) < len(names):
        raise BadArgument(f"key {names}: a column is named twice")
    if COUNT in names:
        raise BadArgument(f"key {names}: the name {COUNT!r} is taken, rename the column")
    return names


def as_keys(keys: Any) -> list[Key]:
    found = [as_key(key) for key in names_in("keys", keys)]
    if not 1 <= len(found) <= KEYS_MAX:
        raise BadArgument(f"{len(found)} keys: give 1 to {KEYS_MAX}")
    for at, key in enumerate(found):
        if key in found[:at]:
            raise BadArgument(f"key {shown(key)} is given twice")
    return found


def as_indicators(indicators: Any) -> dict[str, SumType | None]:
    """Names, or names with types, as a mapping name -> type."""
    if isinstance(indicators, Mapping):
        pairs = list(indicators.items())
    else:
        pairs = [(name, None) for name in names_in("indicators", indicators)]
    if len(pairs) > INDICATORS_MAX:
        raise BadArgument(f"{len(pairs)} indicators: give at most {INDICATORS_MAX}")
    found: dict[str, SumType | None] = {}
    for given, kind in pairs:
        name = as_indicator(given)
        if name in found:
            raise BadArgument(f"indicator {name!r} is given twice")
        found[name] = as_type(name, kind)
    return found


def as_indicator(name: Any) -> str:
    name = name_of("indicator", name)
    if name == COUNT:
        raise BadArgument(f"indicator {COUNT!r} is always there: leave it out")
    return name


def as_type(name: str, kind: Any) -> SumType | None:
    if kind is None or is_sum_type(kind):
        return kind
    raise BadArgument(
        f"indicator {name!r} of type {kind!r:.50}: give 'int64', 'float64' or None; for sums that "
        "are exact, of decimals, 'decimal(2)', too"
    )


def refuse_both(keys: Iterable[Key], indicators: Iterable[str]) -> None:
    """A table of a key has one column of each name."""
    columns = {name for key in keys for name in key}
    for name in indicators:
        if name in columns:
            raise BadArgument(
                f"{name!r} is a key and an indicator: give the column a second name for one of them"
            )


def find_key(keys: Sequence[Key], asked: Any) -> Key:
    """The key of a name, a combination, or a position from 1."""
    if isinstance(asked, int) and not isinstance(asked, bool):
        if 1 <= asked <= len(keys):
            return keys[asked - 1]
        raise UnknownName(f"there is no key {asked}: positions are 1 to {len(keys)}")
    if isinstance(asked, str):
        asked = (asked,)
    if isinstance(asked, Sequence) and tuple(asked) in keys:
        return tuple(asked)
    raise UnknownName(f"unknown key {asked!r:.200}; there are {', '.join(map(shown, keys))}")


def shown(key: Key) -> str:
    return key[0] if len(key) == 1 else f"({', '.join(key)})"
