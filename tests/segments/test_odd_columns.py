"""Columns that Arrow holds and few people write: narrow integers, date64, unused dictionaries."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from muntin.errors import BadArgument
from muntin.segments import build
from muntin.segments.keys import Encoded
from muntin.segments.sketched import SketchedSums
from muntin.summaries.key_columns import canonical


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.bool_()])
def test_narrow_integers_of_a_sketch_are_summed_in_64_bits(kind):
    rows = 300
    names, values = pa.array(["a"] * rows), [pa.array([1] * rows).cast(kind)]
    algebra = SketchedSums((("x", None),), width=16, depth=2, track=4)
    built = build(algebra, np.zeros(rows, np.int64), values, [("k",)], {"k": names}, None)
    (table,) = built.tables
    assert table.states["x.all"].tolist() == [rows]
    assert table.states["x.list"].items.tolist() == [rows]


def test_times_before_1970_are_floored():
    days = canonical("k", pa.array([-1, 0, None]).view(pa.date64()), "date32")
    assert days.to_pylist() == [dt.date(1969, 12, 31), dt.date(1970, 1, 1), None]
    times = canonical("k", pa.array([-1, 999]).view(pa.timestamp("ns")), "timestamp")
    assert times.view(pa.int64()).to_pylist() == [-1, 0]
    with pytest.raises(BadArgument, match="cannot be a key"):
        canonical("k", pa.array([2**63 - 1]).view(pa.date64()), "date32")
    with pytest.raises(BadArgument, match="cannot be a key"):
        canonical("k", pa.array([2**60], pa.timestamp("s")), "timestamp")


def test_a_dictionary_may_hold_broken_text_that_no_row_has():
    _, offsets, data = pa.array([b"a", b"\xff", b"a"]).buffers()
    texts = pa.StringArray.from_buffers(3, offsets, data)
    column = pa.DictionaryArray.from_arrays(pa.array([2, 0, 0]), texts)
    keys, numbers = Encoded({"k": column}).keys(("k",), 3)
    assert keys.columns[0].to_pylist() == ["a"]
    assert numbers.tolist() == [0, 0, 0]
