"""Fingerprints: filter and digest over the same records."""

import numpy as np
import pytest
from damage import damaged, golden, readable
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument, IncompatibleSummary
from muntin.summaries.fingerprint_index import Fingerprint
from muntin.summaries.order_maps import IntegerRange

records = st.lists(st.tuples(st.text(max_size=4), st.integers(0, 255)), max_size=60)


def made(rows=()):
    summary = Fingerprint(100, 0.01, domain=IntegerRange(8), error=0.05)
    if rows:
        summary.update([key for key, _ in rows], [number for _, number in rows])
    return summary


@given(st.lists(records, max_size=4))
def test_merge_is_the_whole(parts):
    whole, merged = made(), made()
    for part in parts:
        if part:
            whole.update([key for key, _ in part], [number for _, number in part])
        merged.merge(made(part))
    rows = [row for part in parts for row in part]
    for summary in (whole, merged, Fingerprint.from_bytes(merged.to_bytes())):
        assert summary.count == len(rows)
        if not rows:
            assert summary.hash_range is None
            continue
        assert summary.contains([key for key, _ in rows]).all()
        answer = summary.rank([100])
        truth = sum(number <= 100 for _, number in rows)
        assert answer.lower[0] <= truth <= answer.upper[0]
    assert whole.hash_range == merged.hash_range
    data = merged.to_bytes()
    assert Fingerprint.from_bytes(data).to_bytes() == data
    assert Fingerprint.mapped(memoryview(data)).to_bytes() == data


def test_the_range_of_hashes_is_exact():
    summary = Fingerprint(100, 0.5)
    hashes = np.array([500, 1 << 40, (1 << 63) + 5], np.uint64)
    summary.update_hashes(hashes)
    assert summary.hash_range == (500, (1 << 63) + 5)
    assert summary.contains_hashes(hashes).all()
    assert not summary.contains_hashes(np.array([0, 499, (1 << 63) + 6], np.uint64)).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Fingerprint(domain=IntegerRange(8), error=1.0), "error=1.0"),
        (lambda: Fingerprint().update(["a"], [1]), "no domain"),
        (lambda: Fingerprint().quantile(0.5), "no domain"),
        (lambda: made().update(["a"]), "give `ranks`"),
        (lambda: made().update(["a"], [1, 2]), "1 key and 2 ranks"),
        (lambda: made().update(["a"], [float("nan")]), "NaN"),
        (lambda: made().update_hashes(np.zeros(1, np.uint64)), "use `update`"),
        (lambda: made([("a", 1)]).update([1], [1]), "integers"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(BadArgument, match=message):
        call()


def test_a_refused_update_sees_nothing():
    summary = made()
    with pytest.raises(BadArgument):
        summary.update(["a", "b"], [1, 300])
    assert summary.count == 0
    assert not summary.contains(["a"]).any()


def test_other_parameters_do_not_merge():
    others = (
        Fingerprint(100, 0.01),
        Fingerprint(100, 0.01, domain=IntegerRange(9), error=0.05),
        Fingerprint(101, 0.01, domain=IntegerRange(8), error=0.05),
    )
    for other in others:
        with pytest.raises(IncompatibleSummary):
            made().merge(other)


def full():
    return made([(f"key {i}", i % 256) for i in range(300)])


def test_golden_bytes():
    data = golden("fingerprint-v3", lambda: full().to_bytes())
    assert Fingerprint.from_bytes(data).to_bytes() == data == full().to_bytes()


def test_damaged_bytes_are_refused_or_sound():
    accepted = [*readable(Fingerprint, damaged(full().to_bytes(), 3000))]
    assert all(summary.to_bytes() == case for case, summary in accepted)
    assert len(accepted) < 1000


def test_one_number_for_several_keys_is_refused():
    summary = made([("a", 1)])
    with pytest.raises(BadArgument, match="2 keys and 1 rank:"):
        summary.update(["b", "c"], 5)
    assert (summary.count, summary.digest.count) == (1, 1)
