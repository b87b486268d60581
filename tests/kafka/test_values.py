"""JSON records in bulk against Python's `json`: every record, whatever stands beside it."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muntin.errors import SourceError
from muntin.spark.values import JsonValues, value_schema

SCHEMA = value_schema(
    "time timestamp, day date, area int, order bigint, fare double, tip float, name string, "
    "paid boolean, cost decimal(18, 2), rate decimal(4,4)"
)
VALUES = JsonValues(SCHEMA)


class Written(float):
    """A number that knows its text."""

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made


def oracle(value: bytes | None) -> dict[str, Any] | None:
    """What the record holds; None where it is malformed."""
    if value is None:
        return None
    value = value[5:] if value.startswith(b"\0") else value  # a schema registry's
    try:
        found = json.loads(value.decode(), parse_float=Written)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    row = {}
    for field in SCHEMA:
        try:
            row[field.name] = of_type(str(field.type), found.get(field.name))
        except (ValueError, TypeError, OverflowError):
            return None
    return row


def of_type(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind in ("int32", "int64"):
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise ValueError
        if isinstance(value, float) and abs(value) > 2**53:
            raise ValueError
        return int(value).to_bytes(int(kind[3:]) // 8, "big", signed=True) and int(value)
    if kind in ("double", "float"):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError
        number = float(value)
        if kind == "float":
            number = pa.scalar(number, pa.float32()).as_py()
        if not math.isfinite(number):
            raise ValueError
        return number
    if kind == "bool":
        if not isinstance(value, bool):
            raise TypeError
        return value
    if kind.startswith("decimal"):
        if isinstance(value, bool) or not isinstance(value, int | Written | str):
            raise TypeError
        text = str(value) if isinstance(value, int) else getattr(value, "text", value)
        if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", text, re.ASCII):
            raise ValueError
        precision, scale = map(int, re.findall(r"\d+", kind)[1:])
        units = Fraction(text) * 10**scale
        if units.denominator > 1 or abs(units) >= 10**precision:
            raise ValueError
        return Decimal(int(units)).scaleb(-scale)
    if not isinstance(value, str):
        raise TypeError
    value.encode()
    if kind == "string":
        return value
    if kind.startswith("date"):
        return date.fromisoformat(value) if len(value) == 10 else date.fromisoformat("")
    return datetime.fromisoformat(value).astimezone(UTC)


def rows_of(values: list[bytes | None]) -> list[dict[str, Any] | None]:
    parsed = VALUES.parse(pa.array(values, pa.binary()))
    columns = [column.to_pylist() for column in parsed.columns]
    assert [str(c.type) for c in parsed.columns] == [str(f.type) for f in SCHEMA]
    rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in zip(*columns, strict=True)]
    for row, why in parsed.malformed.items():
        assert why
        assert set(rows[row].values()) == {None}
    return [None if at in parsed.malformed else row for at, row in enumerate(rows)]


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.from_regex(r"-?\d{1,17}\.?\d{0,3}(e-?\d)?", fullmatch=True, alphabet="-.0123456789e")
    | st.floats(width=32)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["2026-02-28", "2026-02-30", "2026-01-01T10:00:00Z", "\ud800", "\0", "}\n{"])
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
good = st.fixed_dictionaries(
    {},
    optional={
        "time": st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)).map(
            lambda t: t.isoformat(timespec="microseconds") + "Z"
        ),
        "day": st.dates(date(1, 1, 1), date(9999, 12, 31)).map(str),
        "area": st.integers(-(2**31), 2**31 - 1),
        "order": st.integers(-(2**63), 2**63 - 1),
        "fare": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60),
        "tip": st.floats(allow_nan=False, allow_infinity=False, width=32),
        "name": st.none() | st.text(),
        "paid": st.booleans(),
        "cost": st.decimals(-(10**16), 10**16, places=2).map(str) | st.integers(-1000, 1000),
        "more": anything,
    },
)
mixed = st.dictionaries(st.sampled_from([*SCHEMA.names, "more"]), anything)
texts = st.builds(
    lambda value, indent, ascii_only: json.dumps(value, indent=indent, ensure_ascii=ascii_only),
    good | good | good | mixed | anything,
    st.sampled_from([None, None, None, 1]),
    st.booleans(),
).map(lambda text: text.encode("utf-8", "surrogatepass"))
broken = st.sampled_from(
    [
        None, b"", b" ", b"\n", b"{", b"}", b"{}", b"{}{}", b"{} {}", b"{}\n{}", b'{"area":{}',
        b'{"area":1}\0}', b'{"area":1}{"area":2}\0}', b'{"name":"}', b'{"name":"\xff"}', b"[1]",
        b'{"area":1,"area":2}', b'{"fare":NaN}', b'{"fare":1e999}', b'{"tip":1e39}', b"{}x}",
        b'\xef\xbb\xbf{"area":1}', b'{"area":1.0}', b'{"area":1e2}', b'{"more":NaN}', b"{}//}",
        b"{" * 4000 + b"}", b'{"area":01}',
        b'{"name":"a\nb"}', b"{'area':1}", b'{"area":1,}', b'{"a":{}\n,"b":{}}', b'{"name":"\\x"}',
        b'{"area":+1}', b'{"fare":.5}', b'{"fare":1.}', b'{"fare":-0}', b'{"area":-0}', b'{"":1}',
        b'{"cost":1234567890123456.78}', b'{"cost":12345678901234567.8}', b'{"cost":1.234}',
        b'{"cost":1.50}',
        b'{"cost":1e15}', b'{"cost":1e16}', b'{"cost":NaN}', b'{"cost":"1.5"}', b'{"rate":1}',
        b'{"cost":"x"}', b'{"cost":" 1"}', b'{"cost":150e-2}', b'{"cost":"0.10"}{"area":1}',
        b'{"cost":"\\ud800"}', b'{"cost":true}', b'{"cost":-0.0}', b'{"rate":0.12340}',
        b'{"more":-Infinity}', b'{"fare":Infinity}', b'{"more":"\\ud800"}', b'{"ar\\u0065a":7}',
    ]
)  # fmt: skip


@given(st.lists(texts | texts | texts | broken, max_size=30))
@example([b"", b'{"area":1}{"area":2}'])
@example([b'\0\0\0\0\x0c{"area":1}', b'{"area":2}', None, b"\0", b"\0\0\0\0\x0c"])
@example([b'{"area":1}{"area":2}\0}', b'{"area":3}'])
@example([b'{"area":{}', b'{"area":1}'])
def test_each_record_is_what_pythons_json_reads(values: list[bytes | None]) -> None:
    assert list(zip(values, rows_of(values), strict=True)) == [(v, oracle(v)) for v in values]


@given(st.lists(texts | broken, min_size=1, max_size=12))
def test_a_record_does_not_depend_on_its_neighbours(values: list[bytes | None]) -> None:
    assert rows_of(values) == [rows_of([value])[0] for value in values]


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (None, "the record has no value: it is a tombstone"),
        (b'{"area":"x"}', "column 'area': \"x\" is not int"),
        (b'{"fare":"12,5"}', "column 'fare': \"12,5\" is not double"),
        (b'{"order":9223372036854775808}', "column 'order': 9223372036854775808 is not bigint"),
        (b'{"order":9007199254740995.0}', "column 'order': 9007199254740996.0 is not bigint"),
        (b'{"name":5}', "column 'name': 5 is not text"),
        (b'{"time":"noon"}', "column 'time': \"noon\" is not a time"),
        (b'{"day":"2026-02-30"}', "column 'day': \"2026-02-30\" is not a date"),
        (b"[1, 2]", "[1, 2] is not a JSON object"),
        (b'{"name":"\xff"}', "byte 9 is not UTF-8"),
        (b'{"fare":NaN}', "column 'fare': NaN is not double"),
        (b'{"cost":0.125}', "column 'cost': 0.125 is not decimal(18,2)"),
        (b'{"cost":"1,5"}', "column 'cost': \"1,5\" is not decimal(18,2)"),
    ],
)
def test_a_malformed_record_says_why(record: bytes | None, why: str) -> None:
    parsed = VALUES.parse(pa.array([b'{"area":1}', record, b'{"area":2}'], pa.binary()))
    assert parsed.malformed == {1: why}
    assert parsed.columns[2].to_pylist() == [1, None, 2]


def test_many_records_in_several_blocks() -> None:
    values = [json.dumps({"order": i, "more": "x" * 2_000}).encode() for i in range(10_000)]
    values[7_777] = b'{"order": "no"}'
    parsed = VALUES.parse(pa.array(values, pa.binary()))
    assert list(parsed.malformed) == [7_777]
    assert parsed.columns[3].to_pylist() == [None if i == 7_777 else i for i in range(10_000)]


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("time timestamp, area", "column 'area' has no type"),
        ("at struct<x: int>", "column 'at': a value's column is one of string, bigint"),
        ("fare double (", "source.value.schema: 'fare double (' is not SQL DDL"),
    ],
)
def test_a_schema_that_values_cannot_have(ddl: str, said: str) -> None:
    with pytest.raises(SourceError) as refused:
        value_schema(ddl)
    assert said in str(refused.value)
