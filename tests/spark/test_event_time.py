"""Event times against Python's datetime."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muntin.errors import BadArgument
from muntin.spark.event_time import ABSENT, check_type, event_times
from muntin.spec import TimeSpec
from muntin.times import instant_us

moments = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))
zones = st.sampled_from(["", "Z", "+00:00", "+05:30", "-0800", "+02"])


@given(
    st.lists(st.one_of(st.none(), st.tuples(moments, zones, st.sampled_from(" T"))), max_size=20)
)
def test_iso_text(rows):
    texts = [None if row is None else row[0].isoformat(row[2]) + row[1] for row in rows]
    expected = [ABSENT if text is None else instant_us(text) for text in texts]
    assert event_times(pa.array(texts, pa.string()), None).tolist() == expected


@given(st.lists(st.text(max_size=30), min_size=1, max_size=10))
def test_any_text_is_a_time_or_absent(texts):
    assert len(event_times(pa.array(texts), None)) == len(texts)


@given(st.lists(st.one_of(st.none(), st.binary(max_size=30)), min_size=1, max_size=10))
@example([b"\xff", b"2013-01-01Z"])
def test_any_bytes_are_a_time_or_absent(texts):
    """Parquet and Arrow hand on text columns whose bytes nobody has checked."""
    for kind in (pa.string(), pa.large_string()):
        wide = pa.binary() if kind == pa.string() else pa.large_binary()
        column = pa.array([*texts, b"2013-01-01 10:00"], wide).view(kind)
        assert event_times(column, None).tolist()[-1] == instant_us("2013-01-01 10:00")


@pytest.mark.parametrize(
    "text",
    [
        "2013-13-01", "2013-02-30 10:00", "yesterday", "", "2013-01-01 25:00", "12", "2013-01",
        "2013-01-01 10:30.5", "2013-01-01T10.5Z",
    ],
)  # fmt: skip
def test_no_time(text):
    good = "2013-01-01 10:00:00"
    found = event_times(pa.array([good, text, good + "Z"]), None)
    assert found.tolist() == [instant_us(good), ABSENT, instant_us(good)]


@pytest.mark.parametrize(
    "text",
    [
        "2013-01-01", "2013-01-01 10:00", "2013-01-01T10:00:00.123456789", " 2013-01-01 10:00Z ",
        "2013-01-01T10", "2013-01-01 10Z", "2013-01-01T10+02",
    ],
)  # fmt: skip
def test_short_and_long_spellings(text):
    """Whatever stands beside them."""
    found = event_times(pa.array([text, "x"]), None)
    expected = instant_us(text.strip().replace("Z", "+00:00")[:26])
    assert found.tolist() == [expected, ABSENT]
    for good in ("2013-01-01 00:00:00", "2013-01-01 00:00:00Z"):
        assert event_times(pa.array([text, good]), None)[0] == expected
        assert event_times(pa.array([good, text]), None)[1] == expected


@pytest.mark.parametrize("zone", ["+24:00", "+99:99", "-05:60"])
def test_no_zone(zone):
    text = f"2013-01-01 10:00:00{zone}"
    for beside in ([], ["x"], ["2013-01-01 00:00:00Z"]):
        assert event_times(pa.array([text, *beside]), None)[0] == ABSENT


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 2**52)), max_size=20),
    st.sampled_from([(20, 6, "s"), (38, 18, "s"), (18, 3, "ms"), (30, 0, "us"), (38, 7, "ns")]),
)
def test_decimals_are_exact(micros, form):
    digits, scale, unit = form
    power = {"s": -6, "ms": -3, "us": 0, "ns": 3}[unit]
    with decimal.localcontext(prec=60):
        values = [None if us is None else decimal.Decimal(us).scaleb(power) for us in micros]
    expected = [ABSENT if us is None else us for us in micros]
    column = pa.array(values, pa.decimal128(digits, scale))
    assert event_times(column, unit).tolist() == expected


def test_decimals_that_are_no_time():
    far = decimal.Decimal(10) ** 30
    assert event_times(pa.array([far], pa.decimal128(38, 6)), "s").tolist() == [ABSENT]
    assert event_times(pa.array([far * 10**40], pa.decimal256(76, 0)), "s").tolist() == [ABSENT]


@given(st.integers(0, 10**10), st.sampled_from([1, 10, 1_000, 1_000_000]))
@example(41, 10)
def test_a_float_is_the_microsecond_that_it_was_written_for(whole, parts):
    assert event_times(pa.array([whole / parts]), "s")[0] == whole * 10**6 // parts


@given(st.lists(st.one_of(st.none(), moments), max_size=20))
def test_arrow_types(rows):
    for kind, floor in (
        (pa.timestamp("us"), 1),
        (pa.timestamp("ms", "UTC"), 1000),
        (pa.timestamp("s"), 10**6),
    ):
        expected = [ABSENT if r is None else instant_us(r) // floor * floor for r in rows]
        exact = [None if r is None else instant_us(r) // floor for r in rows]
        assert event_times(pa.array(exact, pa.int64()).cast(kind), None).tolist() == expected


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63) + 1, 2**63 - 1)), max_size=20))
@example([4_700_000_000 * 10**9, -4_700_000_000 * 10**9])  # 2118, and 1821
def test_all_nanoseconds_that_int64_holds_are_times(numbers):
    expected = [ABSENT if number is None else number // 1000 for number in numbers]
    column = pa.array(numbers, pa.int64())
    assert event_times(column, "ns").tolist() == expected
    assert event_times(column.cast(pa.timestamp("ns")), None).tolist() == expected


@pytest.mark.parametrize(("unit", "factor"), [("us", 1), ("ms", 1000), ("s", 10**6)])
def test_numbers(unit, factor):
    values = [0, 1, -1, 1_700_000_000, None, 2**63 - 1]
    expected = [0, factor, -factor, 1_700_000_000 * factor, ABSENT, ABSENT]
    assert event_times(pa.array(values, pa.int64()), unit).tolist() == expected
    floats = event_times(pa.array([1.5, float("nan"), float("inf"), None]), unit)
    assert floats.tolist() == [int(np.floor(1.5 * factor)), ABSENT, ABSENT, ABSENT]


@pytest.mark.parametrize(
    ("kind", "unit"),
    [(pa.int64(), None), (pa.bool_(), None), (pa.string(), "ms"), (pa.list_(pa.int8()), None)],
)
def test_types_that_are_no_time(kind, unit):
    with pytest.raises(BadArgument, match="column 't'"):
        check_type(TimeSpec(column="t", unit=unit), kind)
