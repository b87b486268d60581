"""Whatever a public method is given, it takes it or refuses it with an error of Muntin's own."""

from __future__ import annotations

import contextlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.errors import MuntinError
from muntin.summaries import (
    KLL,
    REQ,
    CountMin,
    DyadicQDigest,
    Fingerprint,
    FixedWindowQuantiles,
    HyperCalm,
    SpaceSaving,
)
from muntin.summaries.order_maps import FloatOrder, IntegerRange, TimestampRange
from tests.summaries.test_every_summary import MAKERS

_NOT_UTF8 = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
)


class _Celsius(pa.ExtensionType):
    """A type of somebody's own; Arrow gives none of these a hash."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


def odd() -> Iterator[Any]:
    """What somebody may give by accident, each new."""
    yield from (None, True, np.bool_(True), 0, -1, 2**70, 10**400, 1.5, float("nan"), float("inf"))
    yield from ("x", "\ud800", b"\xff", bytearray(b"x"), memoryview(b"abc"), 1j, ..., int, len)
    yield from (np.int64(3), np.float32(0.5), np.str_("a"), np.datetime64("NaT"), np.timedelta64(1))
    yield from (Decimal("1.5"), Decimal("NaN"), Fraction(1, 3), timedelta(1), date(2020, 1, 1))
    yield from (datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), object())
    yield from ([], (), {}, {1}, {"a": 1}, range(3), iter([1]), (i for i in [1]), Counter("ab"))
    yield from ([None], [1, "a", None], ["a", 1], [1, 2.5], [1.0, float("nan")], [True, False])
    yield from (
        ["a", "b"],
        ["a", "\ud800"],
        [[1], [1, 2]],
        [[1, 2]],
        [10**400],
        [2**64 - 1],
        [2**64],
    )
    yield from ([Decimal("1.5")], [Decimal("sNaN")], [Decimal("1e999")], [Fraction(1, 3)])
    for values, dtype in (
        (1, None), ("x", None), (None, object), ([], None), ([], int), ([[1]], None),
        ([1, 2], ">i8"), ([1, 2], object), ([1, "a", None], object), ([1 + 2j], None),
        ([1], np.float16), ([1], np.longdouble), (["a"], None), (["\ud800"], None),
        ([b"a"], None), ([b"a"], "V1"), (["a"], "T"), (["2020-01-01"], "M8[D]"), ([1], "m8[s]"),
        ([(1, 2.0)], [("a", int), ("b", float)]),
    ):  # fmt: skip
        yield np.array(values, dtype)
    yield from (np.ma.array([1, 2], mask=[0, 1]), np.arange(10)[::2], np.empty((0, 3)))
    words = pa.array(["a", "b"]).dictionary_encode()
    yield from (pa.array([1, 2]), pa.array([1.5]), pa.array([True]), pa.array([Decimal("1.5")]))
    yield from (pa.nulls(2), pa.nulls(0), pa.scalar(1), pa.scalar(None, pa.int64()), words)
    yield from (pa.array([1, None]).dictionary_encode(), pa.array(["a"], pa.string_view()))
    views = pa.array(["a", "a"], pa.string_view()).dictionary_encode()
    yield from (views, pa.chunked_array([views, views]))
    yield from (pa.DictionaryArray.from_arrays([0, 1], pa.array([1, None])), pa.array([[1]]))
    yield from (
        pa.chunked_array([[1], [2]]),
        pa.chunked_array([], pa.int64()),
        pa.array([{"a": 1}]),
    )
    yield from (pa.chunked_array([words, words]), pa.chunked_array([pa.nulls(1)]), _NOT_UTF8)
    yield from (pa.chunked_array([_NOT_UTF8]), pa.array([1], pa.duration("s")))
    own = pa.ExtensionArray.from_storage(_Celsius(), pa.array([1, 2]))
    yield from (own, pa.table({"key": own, "x": own}), pa.DictionaryArray.from_arrays([0, 1], own))
    yield from (
        pa.array([1], pa.timestamp("s")),
        pa.array([(1, 1, 1)], pa.month_day_nano_interval()),
    )
    yield from (pa.table({"a": [1]}), pa.table({"key": ["a"], "x": ["b"]}))
    yield from (pa.table({"key": pa.nulls(1), "x": pa.nulls(1)}), pd.DataFrame({"a": [1]}))
    yield from (pd.Series([1, None], dtype="Int64"), pd.Series([1, 2], dtype="int64[pyarrow]"))
    yield from (pd.Series(["a"], dtype="category"), pd.Series(["a"], dtype="string"), pd.NA, pd.NaT)
    yield from (pd.array([True, None], dtype="boolean"), pd.Timestamp("2020"), pd.Index([1, 2]))
    yield from (pd.period_range("2020", "2021", freq="Y"), pd.interval_range(0, 2))
    yield from (pl.Series([1, 2]), pl.Series(["a"]), pl.Series([1, None]), pl.Series([]))
    yield from (pl.Series([Decimal("1.5")]), pl.Series([object()]), pl.Series([[1]]))
    yield from (pl.Series(["a"], dtype=pl.Categorical), pl.DataFrame({"a": [1]}).lazy())


MORE: dict[str, tuple[Callable[[], Any], Any]] = {
    "KLL of int64": (lambda: KLL(dtype="int64"), np.arange(300)),
    "KLL of float32": (lambda: KLL(dtype="float32"), np.arange(300)),
    "REQ of int64": (lambda: REQ(dtype="int64"), np.arange(300)),
    "REQ of float32": (lambda: REQ(dtype="float32"), np.arange(300)),
    "DyadicQDigest of floats": (lambda: DyadicQDigest(domain=FloatOrder()), np.arange(300)),
    "DyadicQDigest of times": (
        lambda: DyadicQDigest(domain=TimestampRange(0)), np.arange(300).astype("M8[us]")
    ),
    "strict FixedWindowQuantiles": (
        lambda: FixedWindowQuantiles(100, guarantee="strict"), np.arange(300)
    ),
    "CountMin of texts": (lambda: CountMin(64, track=5), ["a", "b"]),
    "SpaceSaving of texts": (lambda: SpaceSaving(5), ["a", "b"]),
}  # fmt: skip
"""Summaries of other parameters, and what they hold."""
MAPS = (IntegerRange, FloatOrder, TimestampRange)
GIVEN = {
    "items": [1, 2], "keys": [1, 2], "times": [10**7, 10**7], "values": [1, 2], "q": [0.5],
    "x": [1], "points": [1, 2], "window": 100, "error": 0.01, "epsilon": 0.01, "delta": 0.01,
    "k": 10, "hashes": np.array([1, 2], np.uint64), "memory": 200_000, "gap": 10,
    "interval_unit": 5, "now": 10**6, "calm": HyperCalm(200_000, 10, 5, 10), "until": 10**6,
    "name": "x", "key": "key", "batch": pa.table({"key": [1], "x": [2]}), "cells": "int64",
    "sample_items": [1] * 9, "sample_times": list(range(9)), "low": 0.0, "high": 1.0, "start": 0,
}  # fmt: skip
"""What else is given: by name of the parameter."""


def _made(of: Any) -> Any:
    if of in MORE:
        make, held = MORE[of]
        made = make()
        made.update(held)
    elif of == "Fingerprint of ranks":
        made = Fingerprint(100, domain=FloatOrder())
        made.update([1, 2], [1.0, 2.0])
    else:
        make, update = MAKERS[of]
        made = make()
        update(made, np.arange(300))
    made.to_bytes()
    return made


def _others(made: Any, name: str) -> dict[str, Any]:
    """Arguments that are summaries, or bytes of one."""
    if name == "from_datasketches":
        bare = made if type(made) is not REQ else REQ(dtype="float32")
        return {"data": bare.to_datasketches()}
    others = {"data": made.to_bytes(), "other": made, "shards": [made]}
    others |= {key: [made] for key in ("sketches", "windows", "summaries")}
    matrix = type(made).__name__ in ("VectorMatrix", "SketchedMatrix")
    return others | ({"keys": ["key"]} if matrix and name == "new" else {})


def _methods(made: Any) -> Iterator[tuple[str, bool]]:
    """Public methods by name, and whether they need what was made."""
    yield "new", False
    for name in dir(type(made)):
        found = inspect.getattr_static(type(made), name)
        if name.startswith("_") or isinstance(found, property):
            continue
        if isinstance(found, classmethod | staticmethod):
            yield name, False
        elif callable(found):
            yield name, True


def _try(made: Any, name: str, *, bound: bool) -> Iterator[str]:
    """What is wrong with a method's errors."""
    whose = made if bound else type(made)
    parameters = inspect.signature(type(made) if name == "new" else getattr(whose, name)).parameters
    known = {**GIVEN, **_others(made, name)}
    needed = {
        key: known[key]
        for key, one in parameters.items()
        if one.default is one.empty and key in known
    }
    before = made.to_bytes() if bound else b""
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        for value in odd():
            copy = made.copy() if bound else type(made)
            method = copy if name == "new" else getattr(copy, name)
            try:
                method(**{**needed, parameter.name: value})
            except MuntinError as error:
                if bound and copy.to_bytes() != before:
                    yield f"{name}({parameter.name}={value!r:.60}) changed something: {error}"
            except Exception as error:
                said = f"{type(error).__name__}: {error!s:.100}"
                yield f"{name}({parameter.name}=<{type(value).__name__}> {value!r:.60}): {said}"


@pytest.mark.filterwarnings("ignore:Data type alias")  # of NumPy, which is asked for it
@pytest.mark.parametrize("of", [*MAKERS, *MORE, "Fingerprint of ranks"])
def test_what_cannot_be_is_refused_by_name(of: Any) -> None:
    made = _made(of)
    wrong = [line for name, bound in _methods(made) for line in _try(made, name, bound=bound)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", MAPS)
def test_a_map_refuses_by_name(kind: Any) -> None:
    needed = {"start": 0} if kind is TimestampRange else {}
    for name in inspect.signature(kind).parameters:
        for value in odd():
            try:
                kind(**{**needed, name: value})
            except MuntinError:
                pass
            except Exception as error:
                pytest.fail(f"{name}={value!r:.60}: {type(error).__name__}: {error}")
    made = kind(**needed)
    for method in (made.cells, made.place):
        for value in odd():
            try:
                method(value)
            except MuntinError:
                pass
            except Exception as error:
                pytest.fail(f"{method.__name__}({value!r:.60}): {type(error).__name__}: {error}")


NUMBERS = [
    [], [0], [1, 2, 2, 900], [-1, 2**40], [2**63 - 1, -(2**63)], [0.5, -0.0], [1e308, -1e308],
    [float("inf"), -float("inf")], [None], list(range(300)),
]  # fmt: skip
ITEMS = [*NUMBERS, ["a", "", "é", "a\0b"], [b"a", b"\xff"], ["x" * 200], [True], "ab", 7]
TIMES = [[], [0], [5, 6, 7, 5_000], [10**6, 1], [-5, -4], list(range(0, 3_000, 10)), 50, 2**63 - 1]
COUNTS = [None, 0, 1, 5, 2**62, [1], [0, 3, 2**61, 7], [2**63 - 1, 2**63 - 1]]
HASHES = [np.array(h, np.uint64) for h in ([], [0, 1, 2**64 - 1], range(300))]
BATCHES = [
    pa.table({name: pa.array(values) for name, values in columns.items()})
    for columns in (
        {"key": [1, None], "x": [2**63 - 1, -(2**63)]},
        {"key": ["a", None], "x": [1e308, None], "y": [1, 2]},
        {"key": [1, 1], "x": [2**63 - 1, 2**63 - 1], "y": [None, 1.5]},
        {"key": range(300), "x": range(300), "y": range(300)},
    )
]
CALLS = {
    "items": ITEMS, "keys": ITEMS, "values": NUMBERS, "weights": COUNTS, "intervals": COUNTS,
    "ranks": NUMBERS, "times": TIMES, "now": TIMES[-2:], "until": [-5, 0, 6, 10**6, 2**63 - 1],
    "late_before": [-(2**63), 0, 10**6], "nulls": [0, 3, 2**63 - 1], "hashes": HASHES,
    "item_type": [None, "text", "integers"], "batch": BATCHES, "key": ["key", "x", ("y", "key")],
    "name": ["x", "y", "z"], "type": [None, "int64", "float64"],
}  # fmt: skip
"""What is given in any order: by name of the parameter."""
KEPT = {"copy", "to_bytes", "to_datasketches", "hashes"}


@pytest.mark.parametrize("of", [*MAKERS, *MORE, "Fingerprint of ranks"])
@settings(max_examples=25)
@given(data=st.data())
def test_whatever_is_called_its_bytes_are_read_again(of: Any, data: st.DataObject) -> None:
    makers: dict[Any, Any] = {**MAKERS, **MORE}
    made = makers[of][0]() if of in makers and data.draw(st.booleans()) else _made(of)
    calls = {}
    for name, bound in _methods(made):
        needs = inspect.signature(getattr(made, name)).parameters if bound else {}
        if bound and name not in KEPT and needs.keys() <= {*CALLS, "other"}:
            calls[name] = needs
    others = [made.copy(), _made(of)]
    for _ in range(data.draw(st.integers(1, 5))):
        name = data.draw(st.sampled_from(sorted(calls)))
        arguments = {
            key: data.draw(st.sampled_from(others if key == "other" else CALLS[key]))
            for key in calls[name]
        }
        with contextlib.suppress(MuntinError):
            getattr(made, name)(**arguments)
        written = made.to_bytes()
        again = type(made).from_bytes(written)
        assert again.to_bytes() == written, (name, arguments)
        others.append(again)
