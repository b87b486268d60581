"""A shard: whatever the order and the cuts, the bytes are those of one pass in order of time."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.summaries import HyperCalm, PeriodicShard
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.items import hash_items
from muntin.summaries.periodic_shard import SHARD_SEED, order_of, shards_of
from tests.summaries.damage import golden

LAST = 2**62


def calm(**more):
    return HyperCalm(**({"memory": 20_000, "gap": 5, "interval_unit": 2, "k": 10} | more))


def shard(**more):
    return PeriodicShard(calm(**more), ["item"])


def texts(items):
    return pa.array([f"item {i}" for i in items], pa.string())


events = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 300)), max_size=80)
cuts = st.lists(st.integers(0, 80), max_size=6)


def folded(rows, edges, convert, delay):
    """Batches between edges; the boundary follows `delay` behind the newest time, as in a stream.

    Rows come so that none is late: in order of time + a delay of their own.
    """
    made, newest, until = shard(), 0, 0
    for begin, end in pairwise(sorted({0, len(rows), *(e for e in edges if e < len(rows))})):
        items, times = zip(*rows[begin:end], strict=True)
        newest = max(newest, *times)
        before, until = until, max(until, newest - delay)
        made.update(convert(items), np.array(times), until=until, late_before=before)
    return made


@given(events, cuts, st.lists(st.integers(0, 20), min_size=1, max_size=7), st.booleans())
@settings(max_examples=150)
def test_any_cut_and_order_within_the_delay_gives_the_same_bytes(rows, edges, jitter, numbers):
    convert = (lambda items: pa.array(items, pa.int64())) if numbers else texts
    delays = [jitter[i % len(jitter)] for i in range(len(rows))]
    order = sorted(range(len(rows)), key=lambda i: rows[i][1] + delays[i])
    whole = folded(sorted(rows), [], convert, 20)
    cut = folded([rows[i] for i in order], edges, convert, 20)
    assert cut.late == 0
    assert cut.to_bytes() == whole.to_bytes()
    assert cut.count == len(rows)
    again = PeriodicShard.from_bytes(cut.to_bytes())
    assert again.to_bytes() == cut.to_bytes()
    assert (again.buffered, again.count, again.span) == (cut.buffered, cut.count, cut.span)
    # what is asked knows the buffered events too: one pass over all, in the same order
    if rows:
        items, times = zip(*rows, strict=True)
        array, at = convert(items), np.array(times)
        placed = order_of(at, hash_items(array, SHARD_SEED))
        placed = np.arange(len(at)) if placed is None else placed
        oracle = calm()
        oracle.update(array.take(pa.array(placed)), at[placed])
        assert oracle.to_bytes() == cut.whole().to_bytes() == again.whole().to_bytes()
        assert cut.span == (min(times), max(times))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2**64 - 1)), max_size=50))
def test_order(pairs):
    times = np.array([t for t, _ in pairs], np.int64)
    hashes = np.array([h for _, h in pairs], np.uint64)
    order = order_of(times, hashes)
    placed = pairs if order is None else [pairs[i] for i in order]
    assert placed == sorted(pairs)


def test_late_and_missing_items_are_counted():
    made = shard()
    made.update(texts([1, 2, 3]), np.array([50, 10, 90]), until=40)
    assert (made.buffered, made.count, made.first_buffered) == (2, 3, 50)
    made.update(texts([4, 5, 6]), np.array([39, 40, 5]), until=60, late_before=40, nulls=2)
    assert (made.late, made.nulls, made.buffered, made.count) == (2, 2, 1, 4)
    again = PeriodicShard.from_bytes(made.to_bytes())
    assert (again.late, again.nulls, again.buffered, again.count) == (2, 2, 1, 4)
    made.update(texts([]), np.empty(0, np.int64), until=LAST)
    assert (made.buffered, made.first_buffered) == (0, None)
    assert made.nbytes < 20_200


def test_shards_take_about_as_many_items_each():
    hashes = hash_items(np.arange(100_000), SHARD_SEED)
    for shards in (1, 3, 4, 4096):
        counts = np.bincount(shards_of(hashes, shards), minlength=shards)
        assert len(counts) == shards
        assert abs(counts - 100_000 / shards).max() < 6 * (100_000 / shards) ** 0.5 + 1


@pytest.mark.parametrize(
    ("items", "match"),
    [
        (pa.array([1, 2]), "items of type int64 after items of type string"),
        (pa.array(["a", None]), "null"),
        (pa.array([b"a", b"\xff"]).view(pa.string()), "not UTF-8"),
        (pa.array([b"a", b"b"]), "use text or int64"),
        (pa.array([1.5, 2]), "cannot be hashed"),
        (pa.array(["a"]), "2 times for 1 item:"),
    ],
)
@pytest.mark.parametrize("until", [0, LAST])
def test_bad_items(items, match, until):
    made = shard()
    made.update(texts([1]), np.array([3]), until=until)
    before = made.to_bytes()
    with pytest.raises(BadArgument, match=match):
        made.update(items, np.array([LAST + 1, LAST + 2]), until=until)
    assert made.to_bytes() == before


def test_bad_parameters():
    for wrong in ({"shard": 4, "shards": 4}, {"shards": 0}, {"shards": 2**20}, {"shard": -1}):
        with pytest.raises(BadArgument):
            PeriodicShard(calm(), ["item"], **wrong)
    with pytest.raises(IncompatibleSummary, match="merged_top"):
        shard().merge(shard())


def some_shard(convert=texts):
    made = shard(memory=3000, k=2)
    items = np.arange(60) % 7
    made.update(convert(items), np.arange(60), until=50, nulls=1)
    return made


@pytest.mark.parametrize("convert", [texts, lambda items: pa.array(items, pa.int64())])
def test_fuzzed_bytes_are_refused_or_read_as_they_are(convert):
    good = some_shard(convert).to_bytes()
    parameters, body = unseal(good, "periodic_shard")
    body = bytes(body)
    rng = np.random.default_rng(5)
    inner = 8 + int.from_bytes(body[:8], "little")
    for case in range(3000):
        wrong, described = bytearray(body), dict(parameters)
        what = case % 4
        if what == 0:  # what is buffered
            at = int(rng.integers(inner, len(wrong)))
            wrong[at] = int(rng.integers(256))
        elif what == 1:  # anywhere
            for at in rng.integers(0, len(wrong), int(rng.integers(1, 4))):
                wrong[at] ^= 1 << int(rng.integers(8))
        elif what == 2:
            del wrong[int(rng.integers(len(wrong))) :]
        else:
            name = sorted(described)[case // 4 % len(described)]
            values = (-1, 0, 1, 2**40, 2**70, None, "x", [], ["a"], [1], True, 1.5, "string")
            described[name] = values[case // 60 % len(values)]
        data = seal("periodic_shard", described, bytes(wrong))
        try:
            read = PeriodicShard.from_bytes(data)
        except CorruptSummary:
            continue
        assert read.to_bytes() == data
        read.update(convert([1]), np.array([LAST]), until=LAST)  # and it goes on
    for size in range(0, len(good), 37):
        with pytest.raises(CorruptSummary):
            PeriodicShard.from_bytes(good[:size])


def test_an_item_of_another_shard_is_refused():
    made = PeriodicShard(calm(), ["item"], 0, 2)
    items = pa.array(np.arange(100))
    mine = shards_of(hash_items(items, SHARD_SEED), 2) == 0
    made.update(items.filter(pa.array(mine)), np.arange(100)[mine], until=10)
    parameters, body = unseal(made.to_bytes(), "periodic_shard")
    moved = seal("periodic_shard", parameters | {"shard": 1}, bytes(body))
    with pytest.raises(CorruptSummary, match="another shard"):
        PeriodicShard.from_bytes(moved)


def test_golden_bytes():
    made = some_shard()
    kept = golden("periodic_shard-v1", made.to_bytes)
    assert made.to_bytes() == kept == PeriodicShard.from_bytes(kept).to_bytes()
