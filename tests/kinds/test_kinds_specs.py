"""Entries of the pipeline file: what is refused, with which words, and what goes through."""

import math
import re

import pyarrow as pa
import pytest

from muntin.errors import BadArgument, SpecError
from muntin.kinds import KINDS
from muntin.reading.warm import warm
from muntin.segments.distinct import DistinctItems
from muntin.segments.fingerprint import Fingerprints
from muntin.segments.frequency import Frequency
from muntin.segments.quantiles import Quantiles
from muntin.segments.registry import algebra_of
from muntin.segments.sketched import SketchedSums
from muntin.segments.top_k import TopItems
from muntin.spec import Pipeline
from muntin.summaries import CountMin

SUMMARIES = {
    "quantiles": {"kind": "quantiles", "value": "delay"},
    "quantiles by": {"kind": "quantiles", "value": "delay", "by": "origin", "limit": 5},
    "quantiles int64": {"kind": "quantiles", "value": "delay", "type": "int64", "k": 50},
    "quantiles tail": {
        "kind": "quantiles", "value": "delay", "accuracy": "tail", "by": "origin", "k": 24
    },
    "frequency": {"kind": "frequency", "item": "dest"},
    "frequency weight": {"kind": "frequency", "item": "dest", "weight": "seats", "by": ["origin"]},
    "frequency error": {"kind": "frequency", "item": "dest", "epsilon": 0.01, "delta": 0.01},
    "top_k": {"kind": "top_k", "item": "dest", "weight": "seats", "capacity": 50},
    "top_k by": {"kind": "top_k", "item": "dest", "by": ["origin", "day"]},
    "distinct": {"kind": "distinct", "item": "tail", "precision": 10, "by": "origin"},
    "fingerprint": {"kind": "fingerprint", "key": "tail"},
    "fingerprint rank": {"kind": "fingerprint", "key": "tail", "rank": "delay", "error": 0.1},
    "fingerprint bits": {
        "kind": "fingerprint", "key": "tail", "rank": "delay", "type": "int64", "bits": 20, "k": 500
    },
    "sketch": {
        "keys": ["origin", ["origin", "dest"]], "indicators": ["seats"],
        "sketch": {"width": 64, "depth": 3, "track": 10},
    },
}  # fmt: skip


def pipeline(summary):
    return Pipeline.of(
        {"name": "p", "time": "time", "pane": "10 seconds", "summaries": {"s": summary}}
    )


def spec(summary):
    return pipeline(summary).summaries["s"]


@pytest.mark.parametrize("summary", SUMMARIES.values(), ids=SUMMARIES)
def test_as_json_and_back_and_warm(summary):
    made = pipeline(summary)
    assert Pipeline.from_json(made.as_json()) == made
    warm(made)
    kind = made.summaries["s"]
    assert algebra_of(kind.algebra().kind, kind.algebra().parameters()) == kind.algebra()
    assert set(kind.text_columns()) <= set(kind.columns())


@pytest.mark.parametrize(
    ("summary", "message"),
    [
        ({"kind": "quantile", "value": "x"}, "unknown kind 'quantile'"),
        ({"kind": "quantiles"}, "value: is missing"),
        ({"kind": "quantiles", "value": "x", "valeu": 1}, "did you mean .value."),
        ({"kind": "quantiles", "value": "x", "k": 7}, "from 8 to 65,535"),
        ({"kind": "quantiles", "value": "x", "k": 65536}, "65535"),
        (
            {"kind": "quantiles", "value": "x", "accuracy": "tail", "k": 13},
            "an even number from 4 to 1,024",
        ),
        ({"kind": "quantiles", "value": "x", "accuracy": "best"}, "rank"),
        ({"kind": "quantiles", "value": "x", "type": "text"}, "float64"),
        ({"kind": "quantiles", "value": "x", "limit": 3}, "goes with `by`"),
        ({"kind": "quantiles", "value": "x", "by": ["a", "a"]}, "'a' stands twice"),
        ({"kind": "quantiles", "value": "x", "by": ["value"]}, "column of the answers"),
        ({"kind": "quantiles", "value": "x", "by": "a", "limit": 0}, "limit"),
        ({"kind": "frequency", "item": "x", "epsilon": 0.1}, "go together"),
        ({"kind": "frequency", "item": "x", "epsilon": 0.1, "delta": 0.1, "width": 9}, "not both"),
        ({"kind": "frequency", "item": "x", "epsilon": 0.1, "delta": 1e-20}, "depth of 47"),
        ({"kind": "frequency", "item": "x", "width": 2**28, "depth": 2}, "too many"),
        ({"kind": "frequency", "item": "x", "weight": "x"}, "both item and weight"),
        ({"kind": "frequency", "item": "x", "weight": "y", "by": "y"}, "both weight and by"),
        ({"kind": "top_k", "item": ["x", "y"]}, r"takes one column: .* x_y: concat\(x, ' ', y\)"),
        ({"kind": "distinct", "item": ["x", "y"]}, "one column"),
        ({"kind": "fingerprint", "key": ["x", "y"]}, "one column"),
        ({"kind": "top_k", "item": "x", "capacity": 0}, "capacity"),
        ({"kind": "distinct", "item": "x", "precision": 3}, "precision"),
        ({"kind": "distinct", "item": "x", "precision": 22}, "precision"),
        ({"kind": "fingerprint", "key": "x", "fpp": 1}, "fpp"),
        ({"kind": "fingerprint", "key": "x", "bits": 20}, "`bits` goes with `rank`"),
        ({"kind": "fingerprint", "key": "x", "rank": "x"}, "both key and rank"),
        ({"kind": "fingerprint", "key": "x", "rank": "y", "k": 9, "error": 0.1}, "not both"),
        ({"kind": "fingerprint", "key": "x", "rank": "y", "k": 31}, "more than 31"),
        ({"kind": "fingerprint", "key": "x", "rank": "y", "error": 1e-9}, "too small"),
        ({"kind": "fingerprint", "key": "x", "by": "y"}, "unknown entry"),
        ({"keys": ["x"], "sketch": {"width": 1}}, "width"),
        ({"keys": ["x"], "sketch": {"hight": 1}}, "unknown entry"),
        ({"keys": ["x"], "sketch": {}, "capacity": 5}, "a sketch never grows"),
        ({"keys": ["x"], "capacity": 5}, "this summary has no window: leave it out"),
        (
            {"keys": ["x"], "capacity": 5, "window": {"kind": "tumbling", "length": "1 minute"}},
            "this summary has a tumbling one: leave it out, or",
        ),
        ({"keys": ["x"], "sketch": {"width": 2**28, "depth": 2}}, "too large"),
        ({"keys": ["x"], "indicators": ["a", "a_lower"], "sketch": {}}, "rename it"),
    ],
)
def test_named_refusals(summary, message):
    with pytest.raises(SpecError, match=message):
        spec(summary)


def test_a_capacity_that_changes_nothing_is_still_read_from_a_ledger():
    made = pipeline({"keys": ["x"]}).as_json()
    made["summaries"]["s"]["capacity"] = 5
    assert Pipeline.from_json(made).summaries["s"].capacity == 5


def test_the_least_rate_that_an_error_names_is_taken():
    with pytest.raises(SpecError) as refused:
        spec({"kind": "fingerprint", "key": "x", "fpp": 1e-12})
    least = float(re.findall(r"[0-9.]+e-[0-9]+", str(refused.value))[-1])
    assert spec({"kind": "fingerprint", "key": "x", "fpp": least})
    with pytest.raises(SpecError):
        spec({"kind": "fingerprint", "key": "x", "fpp": least * 0.95})


TYPES = {
    "delay": pa.float64(), "origin": pa.string(), "dest": pa.string(), "seats": pa.int32(),
    "tail": pa.string(), "day": pa.date32(),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "column", "kind", "message"),
    [
        ("quantiles", "delay", pa.string(), "value 'delay' is string.*AS DOUBLE"),
        ("quantiles", "delay", pa.timestamp("us"), r"delay: UNIX_MICROS\(delay\)"),
        ("quantiles int64", "delay", pa.date32(), r"delay: UNIX_DATE\(delay\)"),
        ("quantiles int64", "delay", pa.float64(), "must be whole numbers.*AS BIGINT"),
        ("quantiles by", "origin", pa.float64(), "by 'origin' is double.*AS STRING"),
        ("quantiles by", "origin", pa.binary(), "by 'origin' is binary"),
        ("quantiles by", "origin", pa.list_(pa.int64()), "by 'origin' is list"),
        ("frequency", "dest", pa.float64(), "item 'dest' is double"),
        ("frequency", "dest", pa.timestamp("us", "UTC"), "item 'dest' is timestamp.*AS STRING"),
        ("frequency weight", "seats", pa.float32(), "weight 'seats' is float.*AS BIGINT"),
        ("top_k", "dest", pa.struct([]), "item 'dest'"),
        ("top_k", "seats", pa.string(), "weight 'seats'"),
        ("distinct", "tail", pa.float64(), "boolean, a date"),
        ("fingerprint", "tail", pa.bool_(), "key 'tail' is bool"),
        ("fingerprint rank", "delay", pa.string(), "rank 'delay'"),
        ("sketch", "seats", pa.string(), "must be a number"),
        ("sketch", "origin", pa.decimal128(5, 2), "key 'origin' is decimal"),
    ],
)
def test_types_of_columns(name, column, kind, message):
    made = spec(SUMMARIES[name])
    types = {key: TYPES[key] for key in made.columns()}
    if name == "quantiles int64" or name == "fingerprint bits":
        types["delay"] = pa.int64()
    made.check_types(types)
    with pytest.raises(BadArgument, match=message):
        made.check_types(types | {column: kind})


@pytest.mark.parametrize(
    ("column", "kind", "remedy"),
    [
        ("Total Bytes", pa.string(), "Total Bytes: TRY_CAST(`Total Bytes` AS DOUBLE)"),
        ("dst.`n", pa.string(), "dst.`n: TRY_CAST(`dst.``n` AS DOUBLE)"),
        ("day", pa.date32(), "day: UNIX_DATE(day)"),
        ("tags", pa.list_(pa.string()), "tags: array_size(tags)"),
        ("tags", pa.large_list(pa.int64()), "tags: array_size(tags)"),
        ("by host", pa.map_(pa.string(), pa.int64()), "by host: size(`by host`)"),
        ("raw", pa.binary(), "raw: TRY_CAST(CAST(raw AS STRING) AS DOUBLE)"),
        ("geo", pa.struct({"place": pa.string(), "l.at": pa.float64()}),
         "geo: TRY_CAST(geo.`l.at` AS DOUBLE)"),
        ("geo", pa.struct({"place": pa.string()}), "geo: TRY_CAST(geo.place AS DOUBLE)"),
    ],
)  # fmt: skip
def test_the_field_that_an_error_proposes_is_one_that_spark_takes(column, kind, remedy):
    made = spec({"kind": "quantiles", "value": column})
    with pytest.raises(BadArgument) as refused:
        made.check_types({column: kind})
    assert str(refused.value).endswith(f"for example  {remedy}")


def test_the_text_that_an_error_proposes_for_a_key_has_its_name_in_backticks():
    made = spec({"keys": ["rtt (ms)"]})
    with pytest.raises(BadArgument, match=r"rtt \(ms\): CAST\(`rtt \(ms\)` AS STRING\)"):
        made.check_types({"rtt (ms)": pa.float64()})


def test_limits_are_those_of_the_algebras():
    """The file refuses what the algebras would refuse, before anything is built."""
    for k in (8, 65_535):
        assert spec({"kind": "quantiles", "value": "x", "k": k}).algebra().k == k
    for precision in (4, 21):
        made = spec({"kind": "distinct", "item": "x", "precision": precision})
        assert made.algebra().lg_k == precision
    for wrong in (
        lambda: Quantiles(k=7), lambda: Quantiles(k=65_536),
        lambda: DistinctItems(3), lambda: DistinctItems(22),
        lambda: TopItems((1 << 24) + 1), lambda: Frequency(2**28, 2),
        lambda: Frequency(2, 33), lambda: Frequency(track=(1 << 20) + 1),
        lambda: Fingerprints(2.0**-33), lambda: SketchedSums(depth=33),
        lambda: SketchedSums(track=(1 << 20) + 1),
    ):  # fmt: skip
        with pytest.raises(BadArgument):
            wrong()


def test_epsilon_and_delta_are_those_of_count_min():
    for epsilon, delta in ((0.01, 0.01), (0.3, 0.5), (0.0007, 1e-9)):
        made = spec({"kind": "frequency", "item": "x", "epsilon": epsilon, "delta": delta})
        wanted = CountMin.for_error(epsilon, delta, track=100)
        assert (made.algebra().width, made.algebra().depth) == (wanted.width, wanted.depth)


def test_k_of_a_fingerprint_is_that_of_its_digest():
    made = spec(SUMMARIES["fingerprint bits"])
    assert made.algebra().k == 500
    assert dict(made.algebra().domain)["bits"] == 20
    assert spec(SUMMARIES["fingerprint rank"]).algebra().k == math.ceil(62 / 0.2)


def test_all_kinds_are_registered():
    assert set(KINDS) >= {
        "vector_matrix", "quantiles", "frequency", "top_k", "distinct", "fingerprint"
    }  # fmt: skip
    for name, kind in KINDS.items():
        assert kind.model_fields["kind"].default == name


def test_unknown_entries_name_those_of_the_kind():
    with pytest.raises(
        SpecError, match="entries: kind, window, shards, by, limit, value, accuracy, k"
    ):
        spec({"kind": "quantiles", "value": "x", "zzz": 1})
    with pytest.raises(SpecError, match="entries: width, depth, track"):
        spec({"keys": ["x"], "sketch": {"zzz": 1}})
