"""Casts that DuckDB adds by itself, as its plan of a statement shows them.

It casts a text to the type beside it, which cuts some and fails at the first row that it cannot
read, and a decimal to fewer digits. `database.py` refuses such statements, whatever the rows are.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import repeat
from typing import Any

import pyarrow as pa

from muntin.arrow import is_text

_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
_INTEGERS = ("INT", "INTEGER")
_ZONED = re.compile(r"\s*\S+?[ T][\d:.]+\s*(.*?)\s*", re.DOTALL)
_FRACTION = re.compile(r"\d\.\d")
_CAST = re.compile(rb"(?!\w+\([\w.\"]+ AS TEXT\))(TRY_)?CAST\(")  # but of a text to text: none
_TIME_OF_DAY = re.compile(r"\S[ T].*[1-9]")  # but midnight
_UTC = re.compile(r"|Z|UTC|GMT|[+-]00(:?00)*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TextRead:
    """A constant text that is read as another type; `cast`: by a CAST of the statement."""

    value: str
    type: str
    position: int
    cast: bool
    tried: bool  # by TRY_CAST


def _casts(plan: Any, around: Any = None) -> Iterator[Any]:
    """The casts of a plan, the innermost first; and whether each is for a comparison."""
    for each in plan if isinstance(plan, list) else plan.values():
        if isinstance(each, dict | list):
            yield from _casts(each, around if isinstance(plan, list) else plan)
    if isinstance(plan, dict) and plan.get("type") == "OPERATOR_CAST":
        yield plan | {"compared": _compares(around or {})}


def _compares(node: Any) -> bool:
    return str(node.get("type")).startswith("COMPARE_") or "comparison" in node


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


def may_be_read(sql: str, tables: Sequence[pa.Table], compared: Collection[str]) -> bool:
    """Whether there are texts or decimals in a statement that DuckDB may read as something else.
    `compared`: the names of what it compares."""
    columns = [field for table in tables for field in table.schema]
    decimals = any(pa.types.is_decimal(c.type) and c.type.scale > 0 for c in columns)
    plain = {c.name for c in columns} - {c.name for c in columns if is_text(c.type)}
    texts = "'" in sql or not plain.issuperset(compared)
    return texts or decimals or _FRACTION.search(sql) is not None


def mixed(plan: Any, sql: bytes) -> Iterator[tuple[str, str, int]]:
    """Texts that are read as another type to be compared with it, and in tuples also what is read
    as text: both types, and where that stands.

    `sql`: what the plan is of. Constants are left to `texts_of`. A cast that the statement asks for
    stands where its word does, others where their value does.
    """
    for cast in _casts(plan):
        given, asked, (child,) = cast["arguments"][0], cast["return_type"], cast["children"]
        place = cast["query_location"]
        asked_for = place != child["query_location"] and _CAST.match(sql, min(place, len(sql)))
        if asked_for or child["type"] == "VALUE_CONSTANT":
            continue
        for one, other, _ in _parts(given, asked, child):
            kinds = one["id"], other["id"]
            if kinds[1] == "BOOLEAN" and not cast["compared"]:
                continue  # a text as a condition
            of_text = kinds[0] == "VARCHAR" or (given["id"] == "TUPLE" and kinds[1] == "VARCHAR")
            if of_text and kinds[0] != kinds[1] and "NULL" not in kinds:
                yield *kinds, place


def rounded(plan: Any) -> Iterator[int]:
    """Places of decimals that lose digits, though nobody has cast them: a sum has 38 of them, so
    that beside it there is no space for more behind the point."""
    for cast in _casts(plan):
        given, asked, (child,) = cast["arguments"][0], cast["return_type"], cast["children"]
        if cast["query_location"] == child["query_location"]:
            for part in _parts(given, asked, child):
                yield from _rounded_as(*part)


def _parts(given: Any, asked: Any, value: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The types of a value, as it is and as it is read, and it; of a tuple those of its parts."""
    if not given["id"] == asked["id"] == "TUPLE":
        yield given, asked, value
        return
    is_row = value.get("qname", {}).get("path", [])[-1:] == ["row"]
    parts = value["children"] if is_row else repeat(value)
    pairs = zip(*(kind["type_info"]["child_types"] for kind in (given, asked)), strict=True)
    for (one, other), part in zip(pairs, parts, strict=False):
        yield from _parts(one["second"], other["second"], part)


def _rounded_as(given: Any, asked: Any, value: Any) -> Iterator[int]:
    """Where a value of one type loses digits as another."""
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
