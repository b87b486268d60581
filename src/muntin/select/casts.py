"""What DuckDB's plan of a statement reads as another type than it is, though nobody has said so.

DuckDB casts without a word: a text to the type of what stands beside it, of which it reads a part;
a decimal to fewer digits. `database.py` refuses such statements.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import repeat
from typing import Any

import pyarrow as pa

_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
_INTEGERS = ("INT", "INTEGER")
_ZONED = re.compile(r"\s*\S+?[ T][\d:.]+\s*(.*?)\s*", re.DOTALL)
_FRACTION = re.compile(r"\d\.\d")
_TIME_OF_DAY = re.compile(r"\S[ T].*[1-9]")  # but midnight
_UTC = re.compile(r"|Z|UTC|GMT|[+-]00(:?00)*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TextRead:
    """A constant text that is read as another type; `cast`: since the statement says so."""

    value: str
    type: str
    position: int
    cast: bool
    tried: bool
    """By TRY_CAST."""


def _casts(plan: Any) -> Iterator[Any]:
    """The casts of a plan, the innermost first."""
    for each in plan if isinstance(plan, list) else plan.values():
        if isinstance(each, dict | list):
            yield from _casts(each)
    if isinstance(plan, dict) and plan.get("type") == "OPERATOR_CAST":
        yield plan


def texts_of(plan: Any) -> Iterator[TextRead]:
    """The constant texts of a plan that become something else."""
    for cast in _casts(plan):
        constant = cast["children"][0]
        value = constant.get("value", {"is_null": True})
        kind, size = cast["return_type"]["id"], cast["return_type"]["type_info"]
        if value["is_null"] or value["type"]["id"] != "VARCHAR" or kind == "VARCHAR":
            continue
        if kind == "DECIMAL":
            kind, size = f"DECIMAL({size['width']}, {size['scale']})", None
        place = constant["query_location"]
        if size is None:
            tried = cast["function_data"]["try_cast"]
            yield TextRead(value["value"], kind, place, cast["query_location"] != place, tried)


def may_be_read(sql: str, tables: Sequence[pa.Table]) -> bool:
    """Whether there are texts or decimals in a statement that DuckDB may read as something else."""
    kinds = (kind for table in tables for kind in table.schema.types)
    decimals = any(pa.types.is_decimal(kind) and kind.scale > 0 for kind in kinds)
    return "'" in sql or decimals or _FRACTION.search(sql) is not None


def rounded(plan: Any) -> Iterator[int]:
    """Places of decimals that lose digits, though nobody has cast them: a sum has 38 of them, so
    that beside it there is no space for more behind the point."""
    for cast in _casts(plan):
        given, asked, (child,) = cast["arguments"][0], cast["return_type"], cast["children"]
        if cast["query_location"] == child["query_location"]:
            yield from _rounded_as(given, asked, child)


def _rounded_as(given: Any, asked: Any, value: Any) -> Iterator[int]:
    """Where a value of one type loses digits as another; of a tuple each part by itself."""
    if given["id"] == asked["id"] == "TUPLE":
        is_row = value.get("qname", {}).get("path", [])[-1:] == ["row"]
        parts = value["children"] if is_row else repeat(value)
        pairs = zip(*(kind["type_info"]["child_types"] for kind in (given, asked)), strict=True)
        for (one, other), part in zip(pairs, parts, strict=False):
            yield from _rounded_as(one["second"], other["second"], part)
        return
    place = value["query_location"]
    whole = asked["id"].endswith(("INT", "INTEGER"))
    if whole and given["id"] in ("FLOAT", "DOUBLE"):
        yield place
    if given["id"] != "DECIMAL" or not (whole or asked["id"] == "DECIMAL"):
        return
    lost = given["type_info"]["scale"] - (0 if whole else asked["type_info"]["scale"])
    constant = value.get("value", {}).get("value")
    if lost > 0 and not (isinstance(constant, int) and constant % 10**lost == 0):
        yield place


def is_cut(read: TextRead) -> bool:
    """Whether a text says more than what it is read as."""
    if read.type.endswith(_INTEGERS):
        return not _WHOLE.fullmatch(read.value)
    if read.type.startswith("DECIMAL"):
        scale = int(read.type[:-1].rpartition(" ")[2])
        with suppress(InvalidOperation):
            return int(Decimal(read.value).normalize().as_tuple().exponent) < -scale
    return read.type == "DATE" and _TIME_OF_DAY.search(read.value) is not None


def has_other_zone(text: str) -> bool:
    """Whether something stands behind a time of day that is not UTC: DuckDB passes over it."""
    found = _ZONED.fullmatch(text)
    return found is not None and not _UTC.fullmatch(found[1])
