"""Avro records in bulk against fastavro: every record, whole or damaged."""

from __future__ import annotations

import io
import json
import struct
from datetime import UTC, date, datetime
from decimal import Context, Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muntin.arrow import is_sound
from muntin.errors import SourceError, SpecError
from muntin.spark.avro import AvroValues, arrow_schema, avro_schemas
from muntin.spec import SourceSpec

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
FIELDS = [
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "seen", "type": ["null", MILLIS]},
    {"name": "day", "type": [{"type": "int", "logicalType": "date"}, "null"]},
    {"name": "driver", "type": "string"},
    {"name": "note", "type": ["null", "string"]},
    {"name": "raw", "type": "bytes"},
    {"name": "area", "type": "int"},
    {"name": "fare", "type": ["null", "long"]},
    {"name": "tip", "type": "float"},
    {"name": "distance", "type": ["double"]},
    {"name": "paid", "type": "boolean"},
    {"name": "nothing", "type": "null"},
    {"name": "class", "type": {"type": "enum", "name": "Class", "symbols": ["low", "high"]}},
    {"name": "second", "type": ["null", "Class"]},
    {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 3}},
]
SCHEMA = {"type": "record", "name": "Order", "fields": FIELDS}
PARSED = fastavro.parse_schema(SCHEMA)
VALUES = AvroValues(avro_schemas(json.dumps(SCHEMA)))
SHORT = json.dumps({"type": "record", "name": "S", "fields": [{"name": "n", "type": "long"}]})

instants = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
records = st.fixed_dictionaries(
    {
        "at": instants,
        "seen": st.none() | instants.map(lambda t: t.replace(microsecond=0)),
        "day": st.none() | st.dates(date(1900, 1, 1), date(2200, 1, 1)),
        "driver": st.text(max_size=5),
        "note": st.none() | st.text(max_size=300),
        "raw": st.binary(max_size=5),
        "area": st.integers(-(2**31), 2**31 - 1),
        "fare": st.none() | st.integers(-(2**63), 2**63 - 1),
        "tip": st.floats(width=32, allow_nan=False),
        "distance": st.floats(allow_nan=False),
        "paid": st.booleans(),
        "nothing": st.none(),
        "class": st.sampled_from(["low", "high"]),
        "second": st.none() | st.sampled_from(["low", "high"]),
        "code": st.binary(min_size=3, max_size=3),
    }
)


def written(record: dict) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, PARSED, record)
    return out.getvalue()


def read(value: bytes) -> dict | None:
    """By fastavro; None where it is malformed, or goes on behind the record."""
    source = io.BytesIO(value)
    try:
        record = fastavro.schemaless_reader(source, PARSED)
    except Exception:
        return None
    return record if source.tell() == len(value) else None


@given(st.lists(records, max_size=20), st.data())
def test_records_are_what_fastavro_reads_and_damage_stays_with_its_record(given, data):
    values = [written(record) for record in given]
    for _ in range(data.draw(st.integers(0, 3)) if values else 0):
        row = data.draw(st.integers(0, len(values) - 1))
        cut = data.draw(st.integers(0, len(values[row])))
        values[row] = data.draw(
            st.sampled_from([values[row][:cut], values[row] + b"\0", values[row][cut:]])
        )
    found = VALUES.parse(pa.array(values, pa.binary()))
    names = [field["name"] for field in FIELDS]
    rows = pa.table(found.columns, names).to_pylist() if values else []
    for row, value in enumerate(values):
        expected = read(value)
        if expected is not None and row not in found.malformed:
            assert rows[row] == expected
        elif row in found.malformed:
            assert expected is None or is_beyond(expected), found.malformed[row]
            assert set(rows[row].values()) == {None}
        else:
            raise AssertionError(f"{value!r} was taken as {rows[row]}")


def is_beyond(record: dict) -> bool:
    """fastavro takes what the specification does not: an int that has 64 bits, a false of 7."""
    return not -(2**31) <= record["area"] < 2**31 or any(
        not isinstance(record[name], datetime | None) for name in ("at", "seen")
    )


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_any_bytes_give_columns_or_a_reason(values):
    found = VALUES.parse(pa.array(values, pa.binary()))
    for column in found.columns:
        column.validate(full=True)
        assert len(column) == len(values)


def test_reasons_name_the_field_and_a_slice_with_tombstones_is_read():
    good = written(
        {"at": datetime(2026, 1, 1, tzinfo=UTC), "seen": None, "day": date(2026, 1, 2),
         "driver": "é", "note": None, "raw": b"", "area": 7, "fare": -1, "tip": 0.5,
         "distance": 1.5, "paid": True, "nothing": None, "class": "high", "second": None,
         "code": b"abc"}
    )  # fmt: skip
    bad = good.replace("é".encode(), b"\xff\xff")
    values = pa.array([b"x", None, good, bad, good[:-1], good + b"!", good], pa.binary()).slice(1)
    found = VALUES.parse(values)
    assert found.malformed == {
        0: "the record has no value: it is a tombstone",
        2: "column 'driver': byte 0 is not UTF-8",
        3: "column 'code': the record ends within it",
        4: "bytes are left behind the last field: is it another schema's?",
    }
    assert found.columns[3].to_pylist() == [None, "é", None, None, None, "é"]
    assert found.columns[0].to_pylist()[1] == datetime(2026, 1, 1, tzinfo=UTC)
    short = AvroValues(avro_schemas({258: SHORT}))
    header = b"\0" + struct.pack(">I", 258)
    told = short.parse(pa.array([header + b"\x0e", b"\x0e", header[:-1] + b"\x03\x0e"]))
    assert told.columns[0].to_pylist() == [7, None, None]
    assert told.malformed == {
        1: "it does not begin with 0 and the schema's number, 258",
        2: "its schema's number is 259, not 258: give source.value.schema that schema, too",
    }
    far = AvroValues(
        avro_schemas(json.dumps({"type": "record", "fields": [{"name": "t", "type": MILLIS}]}))
    )
    values = []
    for number in (2**62, -(2**63)):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(SHORT)), {"n": number})
        values.append(out.getvalue())
    assert far.parse(pa.array(values)).malformed == {
        0: "column 't': 4611686018427387904 is not a time",
        1: "column 't': -9223372036854775808 is not a time",
    }


@given(
    st.lists(st.none() | st.integers(-(10**21), 10**21) | st.binary(max_size=20), max_size=20),
    st.sampled_from([(4, 2), (18, 2), (38, 5)]),
    st.integers(3, 17),
)
@example([10**38 - 1, 1 - 10**38, 10**38, -(10**38), 2**127 - 1, -(2**127)], (38, 5), 16)
@example([2**127 - 1, -(2**127), 9999, -9999, 10_000, -10_000, 2**64, -(2**64)], (4, 2), 16)
def test_decimals_are_exact_or_malformed(given, digits, size):
    """Whole numbers of the last digit in as few bytes as hold them, other bytes, and both as
    `fixed` where they have its size."""
    precision, scale = digits
    about = {"logicalType": "decimal", "precision": precision, "scale": scale}
    kinds = [{"type": "bytes"}, {"type": "fixed", "name": "F", "size": size}]
    fields = [{"name": f"d{at}", "type": ["null", kind | about]} for at, kind in enumerate(kinds)]
    values, expected = [], []
    for one in given:
        raw = one
        if isinstance(one, int):
            raw = one.to_bytes(one.bit_length() // 8 + 1, "big", signed=True)
        if raw is None:
            values.append(b"\0\0")
            expected.append((None, None))
            continue
        number = int.from_bytes(raw, "big", signed=True)
        good = 1 <= len(raw) <= 16 and abs(number) < 10**precision
        of_size = len(raw) == size
        values.append(b"\2" + bytes([2 * len(raw)]) + raw + (b"\2" + raw if of_size else b"\0"))
        exact = Decimal(number).scaleb(-scale, Context(40))
        expected.append((exact, exact if of_size else None) if good else None)
    schema = {"type": "record", "name": "R", "fields": fields}
    found = AvroValues(avro_schemas(json.dumps(schema))).parse(pa.array(values, pa.binary()))
    assert [str(c.type) for c in found.columns] == [f"decimal128({precision}, {scale})"] * 2
    assert all(is_sound(column) for column in found.columns)
    rows = list(zip(*(c.to_pylist() for c in found.columns), strict=True))
    assert rows == [one or (None, None) for one in expected]
    assert found.malformed == dict.fromkeys(
        (row for row, one in enumerate(expected) if one is None),
        f"column 'd0': no number of at most {precision} digits",
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nowhere.avsc", r"'nowhere\.avsc': No such file.*or the path of a file"),
        ("{", "not JSON"),
        ('{"type": "enum"}', "is no Avro record"),
        ('[{"type": "record"}, "null"]', "is no Avro record"),
        ('{"type": "record", "fields": [{"name": "a"}]}', "needs a name and a type"),
        (
            '{"type": "record", "fields": [{"name": "a", "type": {"type": "array"}}]}',
            r"field 'a'.*what is nested is for Spark.*from_avro",
        ),
        ('{"type": "record", "fields": [{"name": "a", "type": {"type": ["int"]}}]}', "field 'a'"),
        (
            '{"type": "record", "fields": [{"name": "a", "type": ["int", "long"]}]}',
            "field 'a': a union is of null and one other type",
        ),
    ],
)
def test_a_wrong_schema_is_told(given, said):
    with pytest.raises(SourceError, match=said):
        avro_schemas(given)


def test_a_name_is_that_of_its_namespace():
    low = {"type": "enum", "name": "Class", "symbols": ["low"]}
    kinds = [
        low,
        low | {"name": "org.Class", "symbols": ["high"]},
        "Class",
        "com.Class",
        "org.Class",
    ]
    fields = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(kinds)]
    schema = {"type": "record", "name": "com.Order", "fields": fields}
    assert fastavro.schemaless_reader(io.BytesIO(bytes(5)), fastavro.parse_schema(schema)) == {
        "f0": "low", "f1": "high", "f2": "low", "f3": "low", "f4": "high"
    }  # fmt: skip
    found = AvroValues(avro_schemas(json.dumps(schema))).parse(pa.array([bytes(5)]))
    assert [c.to_pylist() for c in found.columns] == [["low"], ["high"], ["low"], ["low"], ["high"]]


def test_a_schema_may_be_a_file_and_its_number_is_avros(tmp_path):
    (tmp_path / "s.avsc").write_text(SHORT)
    assert arrow_schema(avro_schemas(str(tmp_path / "s.avsc"))).names == ["n"]
    for value, said in (
        ({"format": "json", "schema": {7: "n int"}}, "schema: by number is for format: avro"),
        *(
            ({"format": "avro", "schema": wrong}, r"takes text, or text by the numbers of a regis")
            for wrong in ({}, {-1: SHORT}, {2**32: SHORT}, {"x": SHORT}, {1: 2}, [SHORT], 7)
        ),
    ):
        with pytest.raises((ValueError, SpecError), match=said):
            SourceSpec.model_validate({"format": "kafka", "value": value})
    stored = SourceSpec.model_validate(
        {"format": "kafka", "value": {"format": "avro", "schema": {7: SHORT}}}
    )
    assert SourceSpec.model_validate_json(stored.model_dump_json(by_alias=True)) == stored


VERSIONS = {
    "n": ["int", "long"],
    "x": ["float", "double", ["null", "double"]],
    "text": ["string", ["null", "string"]],
    "raw": ["bytes"],
    "day": [{"type": "int", "logicalType": "date"}],
    "at": [MILLIS],
    "price": [{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
}
DEFAULTS = {  # as the schema says them, and what they are
    "n": (7, 7),
    "x": (0.5, 0.5),
    "text": ("é", "é"),
    "raw": ("\u00ff", b"\xff"),
    "day": (3, date(1970, 1, 4)),
    "at": (-5, datetime(1969, 12, 31, 23, 59, 59, 995_000, UTC)),
    "price": ("\u00ff", Decimal("-0.01")),
}
SOME = {
    "n": st.integers(-(2**31), 2**31 - 1),
    "x": st.floats(width=32, allow_nan=False),
    "text": st.text(max_size=3),
    "raw": st.binary(max_size=3),
    "day": st.dates(date(1900, 1, 1), date(2200, 1, 1)),
    "at": instants.map(lambda t: t.replace(microsecond=0)),
    "price": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)),
}


@given(st.data())
def test_fields_may_come_and_go_and_widen_from_schema_to_schema(data):
    """All of them are columns; what a record's own schema has not is the newest's default."""
    schemas, defaults = {}, {}
    numbers = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4, unique=True)
    for number in sorted(data.draw(numbers)):
        names = data.draw(st.lists(st.sampled_from([*VERSIONS]), min_size=1, unique=True))
        fields = [{"name": n, "type": data.draw(st.sampled_from(VERSIONS[n]))} for n in names]
        for field in fields:
            said, meant = data.draw(st.sampled_from([(None, None), DEFAULTS[field["name"]]]))
            if isinstance(field["type"], list):  # a default is of the first in a union: null
                said, meant = None, None
            defaults[field["name"]] = meant
            if said is not None:
                field["default"] = said
        schemas[number] = {"type": "record", "name": "R", "fields": fields}
    values, expected = [], []
    for number in data.draw(st.lists(st.sampled_from([*schemas]), max_size=12)):
        record = {f["name"]: data.draw(SOME[f["name"]]) for f in schemas[number]["fields"]}
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schemas[number]), record)
        values.append(b"\0" + struct.pack(">I", number) + out.getvalue())
        expected.append(defaults | record)
    given = {number: json.dumps(schema) for number, schema in schemas.items()}
    damaged = data.draw(st.sets(st.integers(0, len(values) - 1))) if values else set()
    for row in damaged:
        values[row] += b"!"
        expected[row] = dict.fromkeys(defaults)
    parsed = AvroValues(avro_schemas(given)).parse(pa.array(values, pa.binary()))
    schema = arrow_schema(avro_schemas(given))
    assert [c.type for c in parsed.columns] == schema.types
    assert pa.table(parsed.columns, schema.names).to_pylist() == expected
    assert {*parsed.malformed} == damaged


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (
            ["int", "string"],
            "schemas do not agree.*Field n has incompatible types: string vs int32",
        ),
        (
            ["float", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
            r"no type has what decimal128\(9, 2\) and the others of field 'n' hold exactly",
        ),
    ],
)
def test_schemas_that_do_not_agree_are_told(kinds, said):
    given = {
        number: json.dumps({"type": "record", "fields": [{"name": "n", "type": kind}]})
        for number, kind in enumerate(kinds)
    }
    with pytest.raises(SourceError, match=said):
        AvroValues(avro_schemas(given))
    wrong = {"type": "record", "fields": [{"name": "n", "type": "int", "default": "x"}]}
    with pytest.raises(SourceError, match="field 'n': its default 'x' is no int32"):
        avro_schemas(json.dumps(wrong))
