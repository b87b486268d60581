"""Rows as messages, against what psycopg and pygwire read of them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.adapt import Transformer
from pygwire.messages import DataRow

from muntin.server.postgres.rows import BINARY, TEXT, data_rows, type_of

CONNECTION_FREE = psycopg.adapters


def read_back(table, formats):
    """The rows, as psycopg's own loaders read them."""
    data = b"".join(data_rows(table, formats))
    each = formats * table.num_columns if len(formats) == 1 else formats
    transformer = Transformer(CONNECTION_FREE)
    loaders = [
        transformer.get_loader(type_of(kind).oid, psycopg.pq.Format(form))
        for kind, form in zip(table.schema.types, each, strict=True)
    ]
    rows, at = [], 0
    while at < len(data):
        assert data[at : at + 1] == b"D"
        end = at + 1 + int.from_bytes(data[at + 1 : at + 5])
        message = DataRow.decode(memoryview(data)[at + 5 : end])
        rows.append(
            tuple(
                None if value is None else loader.load(value)
                for value, loader in zip(message.columns, loaders, strict=True)
            )
        )
        at = end
    return rows


def nullable(values):
    return st.one_of(st.none(), values)


INT64 = st.integers(-(2**63), 2**63 - 1)
NAIVE = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
COLUMNS = {
    "int64": (pa.int64(), INT64),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int16": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "float64": (pa.float64(), st.floats(allow_nan=False)),
    "bool": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.text(st.characters(exclude_characters="\0", codec="utf-8"))),
    "bytes": (pa.binary(), st.binary()),
    "date": (pa.date32(), st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 30))),
    "naive": (pa.timestamp("us"), NAIVE),
    "zoned": (pa.timestamp("us", "UTC"), NAIVE.map(lambda at: at.replace(tzinfo=dt.UTC))),
    "interval": (
        pa.duration("us"),
        st.timedeltas(dt.timedelta(days=-9999), dt.timedelta(days=9999)),
    ),
    "whole": (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    "fraction": (
        pa.decimal128(20, 6),
        st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-6)),
    ),
}


@pytest.mark.parametrize("form", [TEXT, BINARY])
@pytest.mark.parametrize("name", COLUMNS)
@given(data=st.data())
def test_a_column_comes_back(name, form, data):
    kind, values = COLUMNS[name]
    given_ = data.draw(st.lists(nullable(values), max_size=12))
    table = pa.table({"before": pa.array(range(len(given_)), pa.int64())})
    table = table.append_column("x", pa.array(given_, kind))
    table = table.append_column("after", pa.array(["é" * n for n in range(len(given_))]))
    expected = [(n, value, "é" * n) for n, value in enumerate(given_)]
    assert read_back(table, [form]) == expected
    without_nulls = table.select(["x", "x"]).filter(table["x"].is_valid())
    found = read_back(without_nulls, [form, TEXT])
    assert found == [(value, value) for value in given_ if value is not None]


@pytest.mark.parametrize("form", [TEXT, BINARY])
def test_floats_that_are_none_and_infinite(form):
    table = pa.table({"x": [float("inf"), float("-inf"), float("nan"), 0.1 + 0.2]})
    found = [row[0] for row in read_back(table, [form])]
    assert found[:2] == [float("inf"), float("-inf")]
    assert found[2] != found[2]
    assert found[3] == 0.1 + 0.2


def test_slices_pieces_and_no_columns():
    long = pa.table({"n": pa.chunked_array([range(5), range(5, 20_000)]), "t": ["ab"] * 20_000})
    assert read_back(long.slice(3, 19_000), [BINARY]) == [(n, "ab") for n in range(3, 19_003)]
    assert read_back(long.slice(0, 0), [BINARY]) == []
