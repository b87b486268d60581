"""Which columns can be keys and indicators, and what is said about those that cannot."""

import datetime as dt
import decimal
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from muntin.errors import BadArgument, IncompatibleSummary, SummaryOverflow, UnknownName
from muntin.summaries import VectorMatrix

UTC = dt.UTC
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=UTC)


def counted(array, **more):
    summary = VectorMatrix(["k"], [*more])
    summary.update(pa.table({"k": array, **more}))
    return summary


def counts(summary, key="k"):
    table = summary.table(key)
    table.validate(full=True)
    return dict(zip(table[0].to_pylist(), table["count"].to_pylist(), strict=True))


STRINGS = pa.array(["x", "yy", None, "x", "z" * 100])


@pytest.mark.parametrize(
    "array",
    [
        STRINGS,
        STRINGS.cast(pa.large_string()),
        STRINGS.cast(pa.string_view()),
        STRINGS.dictionary_encode(),
        STRINGS.dictionary_encode("encode"),
        STRINGS.cast(pa.large_string()).dictionary_encode(),
        pa.DictionaryArray.from_arrays(
            pa.array([0, 1, None, 0, 2], pa.uint32()),
            pa.array(["x", "yy", "z" * 100, "unused"], pa.string_view()),
        ),
        pa.chunked_array([STRINGS[:2], STRINGS[2:]]),
        pa.concat_arrays([pa.array(["no"] * 9), STRINGS])[9:],
        pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 3, 0, 2], pa.int8()), pa.array(["x", "yy", "z" * 100, None, "unused"])
        ),
        pa.DictionaryArray.from_arrays(
            pa.array([0, 1, None, 0, 2], pa.uint16()), pa.array(["x", "yy", "z" * 100])
        ),
        pa.DictionaryArray.from_arrays(
            pa.array([0, 1, None, 0, 2]), pa.array(["x", "yy", "z" * 100, *map(str, range(50))])
        ),
    ],
    ids=lambda array: str(array.type)[:30],
)
def test_strings_in_every_spelling(array):
    summary = counted(array)
    assert counts(summary) == {"x": 2, "yy": 1, None: 1, "z" * 100: 1}
    assert summary.to_bytes() == counted(STRINGS).to_bytes()


@pytest.mark.parametrize(
    "width", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
def test_integers_of_any_width(width):
    array = pa.array([1, 5, None, 1], getattr(pa, width)())
    assert counts(counted(array[1:])) == {5: 1, None: 1, 1: 1}
    assert counted(array).to_bytes() == counted(array.cast(pa.int64())).to_bytes()
    assert counts(counted(array.dictionary_encode())) == {1: 2, 5: 1, None: 1}


@pytest.mark.parametrize(
    ("array", "natural", "expected"),
    [
        (pa.array([True, None, False, True]), pa.bool_(), {True: 2, False: 1, None: 1}),
        (pa.array([dt.date(1969, 1, 1)]), pa.date32(), {dt.date(1969, 1, 1): 1}),
        (pa.array([dt.date(1969, 1, 1)], pa.date64()), pa.date32(), {dt.date(1969, 1, 1): 1}),
        (pa.array([None, None]), pa.null(), {None: 2}),
        (pa.array([], pa.string()), pa.string(), {}),
        (pa.array([NOON.replace(tzinfo=None), None]), None, {NOON: 1, None: 1}),
        (pa.array([NOON, None], pa.timestamp("s", "Europe/Paris")), None, {NOON: 1, None: 1}),
        (pa.array([NOON, None], pa.timestamp("ms")), None, {NOON: 1, None: 1}),
        (pa.array([NOON, NOON], pa.timestamp("ns", "UTC")), None, {NOON: 2}),
        (pa.array([-(2**63), 2**63 - 1]), pa.int64(), {-(2**63): 1, 2**63 - 1: 1}),
    ],
    ids=str,
)
def test_other_types_come_back_as_they_are_natural(array, natural, expected):
    summary = counted(array)
    assert counts(summary) == expected
    again = VectorMatrix.from_bytes(summary.to_bytes())
    assert again.table("k").equals(summary.table("k"))
    assert again.table("k").schema.field("k").type == (natural or pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (pa.array([1.5]), "'k' is double.*round"),
        (pa.array([decimal.Decimal("1.5")]), "'k' is decimal.*cast"),
        (pa.array([b"x"]), "'k' is binary"),
        (pa.array([[1]]), "'k' is list"),
        (pa.array([2**64 - 1], pa.uint64()), "18446744073709551615 not in range"),
        (pa.array([2**62], pa.timestamp("s")), "out of bounds timestamp"),
        (pa.array([1.5]).dictionary_encode(), "double"),
    ],
)
def test_what_cannot_be_a_key(array, says):
    with pytest.raises(BadArgument, match=says):
        counted(array)


def test_strings_that_are_not_utf8_are_refused():
    broken = pa.array([b"fine", b"\xff\xfe"]).view(pa.string())
    summary = VectorMatrix(["k", ("j", "k")], ["x"])
    batch = pa.table({"j": [1, 1], "k": broken, "x": [1, 2]})
    for _ in range(2):
        with pytest.raises(BadArgument, match=r"'k'.*UTF-8"):
            summary.update(batch)
    summary.update(pa.table({"j": ["now a string"], "k": ["fine"], "x": [0.5]}))
    assert summary.table(2).to_pylist() == [
        {"j": "now a string", "k": "fine", "count": 1, "x": 0.5}
    ]
    with pytest.raises(BadArgument, match="UTF-8"):
        summary.update(pa.table({"j": ["a"], "k": broken[1:], "x": [0.5]}))
    assert summary.count == 1
    assert counts(summary) == {"fine": 1}


def test_a_column_keeps_its_type():
    summary = counted(pa.array([None]))
    summary.update(pa.table({"k": ["a", None]}))
    assert counts(summary) == {None: 2, "a": 1}
    with pytest.raises(BadArgument, match="'k' had string so far, now int64"):
        summary.update(pa.table({"k": [1]}))
    with pytest.raises(IncompatibleSummary, match=r"'k' is string .* int64"):
        summary.merge(counted(pa.array([1])))
    summary.merge(counted(pa.array([None])))
    assert counts(summary) == {None: 3, "a": 1}
    untyped = counted(pa.array([None]))
    untyped.merge(summary)
    assert counts(untyped) == {None: 4, "a": 1}


@pytest.mark.parametrize(
    ("array", "kind", "total"),
    [
        (pa.array([1, None, 2], pa.int8()), "int64", 3),
        (pa.array([2**31, 1], pa.uint32()), "int64", 2**31 + 1),
        (pa.array([2**62], pa.uint64()), "int64", 2**62),
        (pa.array([True, False, True, None]), "int64", 2),
        (pa.array([0.5, None, 1]), "float64", 1.5),
        (pa.array([0.5, 1], pa.float32()), "float64", 1.5),
        (pa.array([np.float16(0.5), None], pa.float16()), "float64", 0.5),
        (pa.array([decimal.Decimal("0.25"), decimal.Decimal("1")]), "decimal(2)", 1.25),
        (pa.array([decimal.Decimal("0.1"), decimal.Decimal("0.2")] * 3), "decimal(1)", 0.9),
        (pa.array([decimal.Decimal(3), None], pa.decimal128(10, 0)), "int64", 3),
        (pa.array([decimal.Decimal(1200)], pa.decimal128(3, -2)), "float64", 1200.0),
        (pa.array([decimal.Decimal("0.25")], pa.decimal128(19, 2)), "float64", 0.25),
        (pa.array([1, 2, 1]).dictionary_encode(), "int64", 4),
        (pa.array([None, None]), None, 0),
        (pa.array([float("inf"), float("nan"), 2.0]), "float64", 2.0),
    ],
)
def test_indicators_of_any_number_type(array, kind, total):
    summary = counted(pa.array([7] * len(array)), x=array)
    assert summary.indicators == {"x": kind}
    assert summary.table("k").to_pylist() == [{"k": 7, "count": len(array), "x": total}]
    again = VectorMatrix.from_bytes(summary.to_bytes())
    assert again.to_bytes() == summary.to_bytes()
    assert again.indicators == {"x": kind}


def test_indicators_that_do_not_fit():
    summary = VectorMatrix(["k"], {"x": "int64"})
    summary.update(pa.table({"k": ["a"], "x": [1]}))
    before = summary.to_bytes()
    for column, says in (
        (pa.array([0.5]), "'x' is double.*float64"),
        (pa.array(["1"]), "'x' is string"),
        (pa.array([2**63], pa.uint64()), "9223372036854775808 is beyond int64"),
    ):
        with pytest.raises(BadArgument, match=says):
            summary.update(pa.table({"k": ["b"], "x": column}))
    with pytest.raises(BadArgument, match=r"indicator 'x' is missing.*k"):
        summary.update(pa.table({"k": ["b"]}))
    with pytest.raises(BadArgument, match="key column 'k' is missing"):
        summary.update(pa.table({"x": [1]}))
    with pytest.raises(BadArgument, match="pyarrow"):
        summary.update({"k": ["a"], "x": [1]})
    assert summary.to_bytes() == before
    floats = VectorMatrix(["k"], {"x": "float64"})
    floats.update(pa.table({"k": ["a"], "x": [3]}))
    assert floats.table("k").to_pylist() == [{"k": "a", "count": 1, "x": 3.0}]


def test_a_sum_beyond_its_type_is_kept_and_named_where_it_is_asked_for():
    summary = VectorMatrix(["k", ("k", "j")], ["x", "y"])
    most = 2**63 - 1
    summary.update(pa.table({"k": ["a", "b"], "j": [1, 2], "x": [most - 1, 0], "y": [1.5, 0.0]}))
    more = pa.table({"k": ["n", "a", "a"], "j": [1, 3, 1], "x": [5, 1, 1], "y": [1.0] * 3})
    summary.update(more)
    for matrix in (summary, VectorMatrix.from_bytes(summary.to_bytes())):
        with pytest.raises(SummaryOverflow, match=r"'x': a sum is beyond int64 .*k 'a'"):
            matrix.table("k")
        matrix.merge(matrix)
        matrix.update(pa.table({"k": ["a"], "j": [1], "x": [-most], "y": [1.0]}))
        matrix.update(pa.table({"k": ["a"], "j": [1], "x": [-most], "y": [1.0]}))
        sums = matrix.table("k").to_pydict()
        assert dict(zip(sums["k"], sums["x"], strict=True)) == {"a": 2, "b": 0, "n": 10}
    summary.update(pa.table({"k": ["c"] * 3, "j": [1] * 3, "x": [0] * 3, "y": [1e308] * 3}))
    with pytest.raises(SummaryOverflow, match=r"'y': a sum is beyond double .*k 'c'"):
        summary.table("k")
    assert summary.rows() == {("k",): 4, ("k", "j"): 5}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"keys": "driver"}, "list of names"),
        ({"keys": []}, "1 to 64"),
        ({"keys": ["a", "a"]}, "key a is given twice"),
        ({"keys": [("a", "a")]}, "named twice"),
        ({"keys": [()]}, "1 to 16 names"),
        ({"keys": ["count"]}, "'count' is taken"),
        ({"keys": [3]}, "give a name"),
        ({"keys": ["\ud800"]}, "not Unicode"),
        ({"keys": ["a"], "indicators": "x"}, "list of names"),
        ({"keys": ["a"], "indicators": ["x", "x"]}, "'x' is given twice"),
        ({"keys": ["a"], "indicators": ["count"]}, "always there"),
        ({"keys": ["a"], "indicators": ["a"]}, "a key and an indicator"),
        ({"keys": ["a"], "indicators": {"x": "int32"}}, "'decimal\\(2\\)', too"),
        ({"keys": ["a"], "indicators": [f"i{i}" for i in range(257)]}, "at most 256"),
        ({"keys": ["a"], "capacity": 0}, "capacity=0"),
        ({"keys": ["a"], "capacity": True}, "capacity must be an integer, got True"),
    ],
)
def test_impossible_parameters(arguments, says):
    with pytest.raises(BadArgument, match=says):
        VectorMatrix(**arguments)


def test_names_and_positions():
    summary = VectorMatrix(["a", ("a", "b")], capacity=1)
    summary.update(pa.table({"a": [1, 2], "b": [1, 1]}))
    assert summary.keys == (("a",), ("a", "b"))
    assert summary.table(1).equals(summary.table("a"))
    assert summary.table(2).equals(summary.table(["a", "b"]))
    assert summary.overflowed
    assert summary.capacity == 1
    for asked in ("b", ("b", "a"), 0, 3, True, None, -1):
        with pytest.raises(UnknownName, match=r"a, \(a, b\)|1 to 2"):
            summary.table(asked)
    with pytest.raises(IncompatibleSummary, match="int"):
        summary.merge(3)
    with pytest.raises(BadArgument, match="at least one"):
        VectorMatrix.merged([])


def test_large_dictionaries_and_wide_rows():
    names = [f"i{i}" for i in range(20)]
    summary = VectorMatrix(["k"], names)
    keys = np.arange(5000) % 1700
    columns = {name: np.arange(5000) * i for i, name in enumerate(names)}
    summary.update(pa.table({"k": keys, **columns}))
    table = summary.table("k").sort_by("k")
    for i, name in enumerate(names):
        expected = np.bincount(keys, np.arange(5000) * i).astype(np.int64)
        assert table[name].to_pylist() == expected.tolist()


@pytest.mark.parametrize(("values", "longest"), [(40, 9), (40, 40), (9000, 16), (9000, 17)])
def test_strings_of_every_length(values, longest):
    """Short ones go through without loops; a table of many values looks further ahead."""
    rng = np.random.default_rng(values + longest)
    names = [
        bytes(rng.integers(0, 3, rng.integers(0, longest + 1))).decode() for _ in range(values)
    ]
    names += ["a" * size for size in range(longest)]
    events = [names[i] for i in rng.integers(0, len(names), 20_000)]
    summary = VectorMatrix(["k", ("k", "j")])
    for begin in range(0, 20_000, 5000):
        piece = events[begin : begin + 5000]
        summary.update(pa.table({"k": piece, "j": [len(name) for name in piece]}))
    expected = dict(Counter(events))
    assert counts(summary) == expected
    assert summary.rows(("k", "j")) == len(expected)
    assert counts(VectorMatrix.from_bytes(summary.to_bytes())) == expected


def test_a_sum_beyond_its_type_is_named_by_a_key_that_python_cannot_hold():
    years_before = pa.array([-(10**17)] * 2, pa.timestamp("us", "UTC"))
    summary = counted(years_before, x=pa.array([2**63 - 1] * 2))
    with pytest.raises(SummaryOverflow, match="k '-100000000000000000 us since 1970'"):
        summary.table("k")


def test_nothing_but_nulls_decides_no_type_beside_large_numbers() -> None:
    """Whose sums may need more than 64 bits: they are made another way."""
    made = VectorMatrix(["k"], ["x", "y"])
    made.update(pa.table({"k": [1, 1], "x": pa.nulls(2), "y": [2**62, 2**62 - 1]}))
    again = VectorMatrix.from_bytes(made.to_bytes())
    for matrix in (made, again):
        assert matrix.indicators == {"x": None, "y": "int64"}
        matrix.update(pa.table({"k": [1], "x": [1.5], "y": [0]}))
        assert matrix.table("k")["x"].to_pylist() == [1.5]
        assert matrix.nulls == {"x": 2, "y": 0}
    assert again.to_bytes() == made.to_bytes()
