"""Random pipelines and events: any time, and any value that Arrow can hold in a column's type."""

from __future__ import annotations

import decimal
import struct

import numpy as np
import pyarrow as pa

from muntin.errors import SourceError, SpecError
from muntin.spark.frame_columns import check_types
from muntin.spec import Pipeline
from tests.pipeline.support import SECOND, START

INT64 = (-(2**63), -1, 0, 1, 2**62, 2**63 - 1)
INVALID = b"\xff\xfe\xc3("
TIMES = [pa.timestamp(u, z) for u in ("s", "ms", "us", "ns") for z in (None, "UTC", "Asia/Tokyo")]
WHOLE = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()]
NUMBERS = [
    *WHOLE, pa.bool_(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(38, 10),
    pa.decimal256(76, 3), pa.null(), pa.dictionary(pa.int8(), pa.int64()),
]  # fmt: skip
TEXT = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int16(), pa.string())]
OTHER = [
    pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(4), pa.list_(pa.int64()),
    pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64()), pa.duration("us"),
    pa.time32("s"), pa.time64("ns"), pa.month_day_nano_interval(), pa.null(),
]  # fmt: skip
DAYS = [pa.date32(), pa.date64()]
KEYS = [*TEXT, *WHOLE, pa.bool_(), *DAYS, *TIMES, *OTHER]
ANY = [*KEYS, *NUMBERS]
MOMENTS = [*TIMES, *DAYS, *TEXT, pa.null(), pa.int64(), pa.uint64(), pa.float64(), *NUMBERS]

QUERIES = (
    "SELECT k, count, x FROM m(k)",
    "SELECT k, x * 4611686018427387904 AS y FROM m(k)",
    "SELECT CAST(k AS BIGINT) AS n FROM m(k)",
    "SELECT sum(x) AS x, max(k) AS k FROM m(k)",
    "SELECT a.k, b.count FROM m(k) AS a LEFT JOIN m(k) FOR WINDOW LAST AS b USING (k)",
    "SELECT k, x FROM m(k), (SELECT max(count) AS y FROM other FOR '2020-01-01' TO '2020-01-02')",
    "SELECT count / (count - 1) AS y FROM other",
)  # fmt: skip


def spec_and_columns(random: np.random.Generator) -> tuple[Pipeline, dict[str, pa.DataType]]:
    """A pipeline that starts over columns of these types; what is refused at the start is not."""
    while True:
        types = {"t": _one(random, MOMENTS), "k": _one(random, KEYS), "x": _one(random, NUMBERS)}
        types |= {"i": _one(random, ANY), "w": _one(random, NUMBERS)}
        try:
            spec = _spec(random, types["t"])
            check_types(spec, pa.schema(list(types.items())))
        except (SourceError, SpecError):
            continue
        return spec, types


def _spec(random: np.random.Generator, moment: pa.DataType) -> Pipeline:
    number = pa.types.is_integer(moment) or pa.types.is_floating(moment)
    number = number or pa.types.is_decimal(moment)
    number = number or (pa.types.is_dictionary(moment) and pa.types.is_integer(moment.value_type))
    unit = _one(random, ["s", "ms", "us", "ns"])
    indicators = {"x": _one(random, [None, "int64", "float64"])}
    matrix = {"keys": ["k"], "indicators": indicators, "window": _window(random)}
    if random.random() < 0.3:
        matrix |= {"keys": ["k", "i", ["k", "i"]]}
    if random.random() < 0.3 and matrix["window"]["kind"] == "floating":
        matrix["capacity"] = 3
    if random.random() < 0.2 and "capacity" not in matrix:
        matrix["sketch"] = {"width": 16, "depth": 2, "track": 4}
    weight = _one(random, [None, "w"])
    others = [
        {"kind": "distinct", "item": "i"},
        {"kind": "top_k", "item": "i", "weight": weight, "capacity": 4},
        {"kind": "frequency", "item": "i", "weight": weight, "width": 16, "track": 2},
        {"kind": "quantiles", "value": "x", "k": 16, "type": _one(random, ["float64", "int64"])},
        {"kind": "quantiles", "value": "w", "k": 16, "by": ["k"], "limit": 3},
        {"keys": ["i"], "indicators": ["w"]},
        {"kind": "fingerprint", "key": "i", "capacity": 64},
        {"kind": "periodic", "item": "i", "memory": "100 KB"},
    ]
    other = _one(random, others)
    if other.get("kind") != "periodic":
        other["window"] = _window(random)
    names = random.permutation(len(QUERIES))[: random.integers(0, 4)]
    queries = {f"q{n}": QUERIES[n] for n in names}
    if other.get("kind", "") not in ("", "vector_matrix"):
        queries = {n: q for n, q in queries.items() if "other" not in q}
    entries = {
        "name": "p",
        "time": {"column": "t", "unit": unit} if number else "t",
        "pane": "10 s",
        "lateness": _one(random, ["0 s", "30 s", "5 minutes"]),
        "summaries": {"m": matrix, "other": other},
        "queries": queries,
    }
    if random.random() < 0.5:
        entries["rollups"] = _one(random, [[], ["20 s"], ["1 minute", "10 minutes"]])
    return Pipeline.of(entries)


def _window(random: np.random.Generator) -> dict[str, str]:
    kind = _one(random, ["tumbling", "floating", "sliding"])
    return {"kind": kind, "length": "1 minute", **({"every": "20 s"} if kind == "sliding" else {})}


def span_of(random: np.random.Generator) -> int:
    """Seconds over which a pipeline's events lie: few windows in most of them, so that many run.

    Over 20 minutes each batch is late for up to 60 windows, which are all asked anew.
    """
    return _one(random, [20, 60, 60, 60, 120, 120, 120, 240, 240, _one(random, [240, 1200])])


def events(
    random: np.random.Generator, spec: Pipeline, types: dict[str, pa.DataType], span: int
) -> pa.RecordBatch:
    """A batch of random rows: most at usual times, so that windows close."""
    size = int(random.integers(1, 30))
    unit = spec.time.unit
    columns = [
        _moments(random, types[name], size, unit, span)
        if name == "t"
        else _values(random, kind, size)
        for name, kind in types.items()
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(types))


def _moments(
    random: np.random.Generator, kind: pa.DataType, size: int, unit: str | None, span: int
) -> pa.Array:
    if random.random() < 0.15:
        return _values(random, kind, size)
    us = START + random.integers(0, span, size) * SECOND
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    per = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0.001, None: 1}
    whole: list = us.tolist()
    if pa.types.is_timestamp(plain):
        whole = [int(v / per[plain.unit]) for v in whole]
        made = pa.array(whole, pa.int64()).view(plain)
    elif pa.types.is_date(plain):
        made = pa.array(whole, pa.timestamp("us")).cast(plain, safe=False)
    elif plain in (pa.string(), pa.large_string(), pa.string_view()):
        texts = [f"{v}Z" for v in np.array(whole, "datetime64[us]").astype(str)]
        made = pa.array(texts, pa.string())
        made = made if plain == pa.string() else made.cast(plain)
    elif plain in (pa.int64(), pa.uint64(), pa.float64()):
        made = pa.array([int(v / per[unit]) for v in whole], pa.int64()).cast(plain, safe=False)
    else:
        return _values(random, kind, size)
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(pa.array(range(size), kind.index_type), made)
    return made


def _values(random: np.random.Generator, kind: pa.DataType, size: int) -> pa.Array:
    """Extremes, usual values and nulls; bits that Python has no value for."""
    if pa.types.is_null(kind):
        return pa.nulls(size)
    if pa.types.is_dictionary(kind):
        values = _values(random, kind.value_type, 5)
        codes = [_one(random, [*range(5), None]) for _ in range(size)]
        return pa.DictionaryArray.from_arrays(pa.array(codes, kind.index_type), values)
    drawn = [None if random.random() < 0.1 else _value(random, kind) for _ in range(size)]
    if pa.types.is_temporal(kind) and kind != pa.month_day_nano_interval():
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(drawn, width).view(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        wide = pa.large_binary() if pa.types.is_large_string(kind) else pa.binary()
        return pa.array(drawn, wide).view(kind)
    if pa.types.is_string_view(kind):
        return pa.array([None if v is None else v.decode("utf8", "ignore") for v in drawn], kind)
    return pa.array(drawn, kind)


def _value(random: np.random.Generator, kind: pa.DataType):
    if pa.types.is_boolean(kind):
        return bool(random.integers(2))
    if pa.types.is_integer(kind):
        low, high = (0, 2**kind.bit_width - 1)
        if pa.types.is_signed_integer(kind):
            low, high = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
        return _one(random, [low, high, 0, 1, 1, 2, high // 2 + 1])
    if pa.types.is_floating(kind):
        value = _one(
            random, [0.0, -0.0, 1.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), -np.inf]
        )
        return (
            np.float16(np.clip(value, -6e4, 6e4)) if kind == pa.float16() else _narrow(value, kind)
        )
    if pa.types.is_decimal(kind):
        digits = "9" * (kind.precision - kind.scale)
        return decimal.Decimal(_one(random, [digits, f"-{digits}", "0", "1", "0.1"]))
    if pa.types.is_temporal(kind) and kind != pa.month_day_nano_interval():
        edge = 2**31 if kind.bit_width == 32 else 2**63
        return int(_one(random, [-edge, edge - 1, 0, 1, 20_000, edge // 4]))
    if pa.types.is_fixed_size_binary(kind):
        return INVALID
    if pa.types.is_nested(kind):
        plain = {"struct": {"a": 2**62}, "map": [("a", 1)], "list": [1, None]}
        return plain[str(kind).partition("<")[0]]
    if kind == pa.month_day_nano_interval():
        return (2**31 - 1, -1, 2**63 - 1)
    return _one(random, [b"a", b"b", b"c", b"", INVALID, b"7", "\U0001f600".encode(), b"x" * 500])


def _narrow(value: float, kind: pa.DataType) -> float:
    if kind != pa.float32() or not np.isfinite(value):
        return value
    return struct.unpack("f", struct.pack("f", max(min(value, 3e38), -3e38)))[0]


def _one(random: np.random.Generator, choices):
    return choices[int(random.integers(len(choices)))]
