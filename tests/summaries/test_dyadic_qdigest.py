"""The q-digest's bounds hold always, against exact ranks and quantiles."""

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from damage import damaged, golden, readable
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.summaries import KLL, CountMin, TimeWindowQuantiles
from muntin.summaries.dyadic_qdigest import DyadicQDigest
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.order_maps import FloatOrder, IntegerRange, TimestampRange

QS = [0.0, 0.001, 0.1, 0.5, 0.7, 0.9, 0.999, 1.0]
small = st.lists(st.integers(0, 255), max_size=200)


def exact_quantile(values, q):
    ordered = np.sort(values)
    return ordered[max(1, math.ceil(Fraction(str(q)) * len(ordered))) - 1]


def check_bounds(digest, values, questions):
    values = np.asarray(values)
    assert digest.count == len(values)
    truth = (values[None, :] <= np.asarray(questions)[:, None]).sum(axis=1)
    answer = digest.rank(questions)
    assert answer.confidence == 1.0
    assert (answer.lower <= truth).all()
    assert (truth <= answer.upper).all()
    less = (values[None, :] < np.asarray(questions)[:, None]).sum(axis=1)
    before = digest.rank(questions, inclusive=False)
    assert (before.lower <= less).all()
    assert (less <= before.upper).all()
    if digest.domain.exact:
        assert (answer.upper - answer.lower <= digest.error_bound).all()
        assert (np.abs(answer.value - truth) <= digest.error_bound / 2).all()
        assert (np.abs(before.value - less) <= digest.error_bound / 2).all()
    assert ((answer.lower <= answer.value) & (answer.value <= answer.upper)).all()
    if len(values):
        found = digest.quantile(QS)
        for i, q in enumerate(QS):
            assert found.lower[i] <= exact_quantile(values, q) <= found.upper[i]
            assert found.lower[i] <= found.value[i] <= found.upper[i]


@given(st.lists(small, max_size=5), st.integers(1, 60), st.integers(8, 62))
def test_bounds_hold_after_any_merges(parts, k, bits):
    whole = DyadicQDigest(bits, k)
    for part in parts:
        piece = DyadicQDigest(bits, k)
        piece.update(part)
        piece.compress()
        before = piece.to_bytes()
        whole.merge(piece)
        assert piece.to_bytes() == before
    values = [value for part in parts for value in part]
    check_bounds(whole, values, [-1, 0, 3, 100, 255, 256, 2.5, 1 << bits])
    whole.compress()
    assert whole.size <= 3 * k + 256
    check_bounds(whole, values, list(range(0, 256, 7)))


@pytest.mark.parametrize("draw", ["lognormal", "normal", "exponential"])
def test_smooth_values_are_found_between_the_bounds(draw):
    """A node's values are taken to lie evenly in its cells: nothing of them is known, where a
    family that counts little had moved above nodes that stayed."""
    values = getattr(np.random.default_rng(5), draw)(size=100_000)
    whole = DyadicQDigest(31, 300, FloatOrder(31))
    for part in np.array_split(values, 20):
        piece = DyadicQDigest(31, 300, FloatOrder(31))
        piece.update(part)
        piece.compress()
        whole.merge(piece)
    whole.compress()
    q = np.linspace(0.01, 0.99, 99)
    found = np.searchsorted(np.sort(values), whole.quantile(q).value) / len(values)
    assert np.sqrt(np.mean((found - q) ** 2)) < 0.0003, "it was 0.0013"
    ranked = whole.rank(np.quantile(values, q)).value / len(values)
    assert np.sqrt(np.mean((ranked - q) ** 2)) < 0.0003, "midpoints were off by 0.0007"


def test_ranks_of_round_values_are_nearer_than_midpoints():
    """They lie at the beginning of their nodes' cells, and not evenly in them."""
    values = np.round(np.random.default_rng(5).lognormal(4, 0.5, 100_000))
    digest = DyadicQDigest(31, 460, FloatOrder(31))
    digest.update(values)
    digest.compress()
    asked = np.unique(values)
    for inclusive, side, most in ((True, "right", 0.00038), (False, "left", 0.00025)):
        found = digest.rank(asked, inclusive=inclusive).value
        off = (found - np.searchsorted(np.sort(values), asked, side)) / len(values)
        assert np.sqrt(np.mean(off**2)) < most, "midpoints were off by 0.00040 and 0.00027"


@given(st.integers(4, 12), st.integers(20, 62), st.integers(0, 2**32))
def test_no_data_make_it_larger(k, bits, seed):
    """Leaves that count much keep what lies beside them from moving up, at each level above."""
    heavy = np.random.default_rng(seed).integers(0, 1 << bits, k - 1)
    beside = heavy[:, None] ^ (np.int64(1) << np.arange(bits))[None, :]
    digest = DyadicQDigest(bits, k)
    values = np.concatenate([np.repeat(heavy, 2 * k * bits), beside.ravel()])
    digest.update(values)
    digest.compress()
    assert digest.size <= 3 * k + 2 * k
    check_bounds(digest, values, [int(x) for x in heavy])


@given(small, st.integers(1, 40))
def test_bytes_round_trip(values, k):
    digest = DyadicQDigest(8, k)
    digest.update(values)
    data = digest.to_bytes()
    again = DyadicQDigest.from_bytes(data)
    assert again.to_bytes() == data
    assert again.count == digest.count
    questions = list(range(256))
    assert again.rank(questions).lower.tolist() == digest.rank(questions).lower.tolist()
    twin = digest.copy()
    twin.update([1, 2, 3])
    assert digest.to_bytes() == data


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 50)), max_size=100))
def test_weights_are_repeats(pairs):
    weighted, repeated = DyadicQDigest(8, 20), DyadicQDigest(8, 20)
    values = np.array([value for value, _ in pairs], np.int64)
    weights = np.array([weight for _, weight in pairs], np.int64)
    weighted.update(values, weights)
    repeated.update(np.repeat(values, weights))
    assert weighted.to_bytes() == repeated.to_bytes()


@pytest.mark.parametrize("bits", [20, 40, 62])
@pytest.mark.parametrize("kind", ["uniform", "lognormal", "few", "sorted"])
def test_large_streams(bits, kind):
    rng = np.random.default_rng(bits)
    values = {
        "uniform": lambda: rng.integers(0, 1 << 20, 300_000),
        "lognormal": lambda: rng.lognormal(8, 1.5, 300_000).astype(np.int64) % (1 << 20),
        "few": lambda: rng.integers(0, 50, 300_000) ** 3,
        "sorted": lambda: np.arange(300_000),
    }[kind]()
    digest = DyadicQDigest(bits, k=2000)
    for part in np.array_split(values, 7):
        digest.update(part)
        digest.compress()
    assert digest.size <= 3 * 2000 + np.unique(values).size
    if bits > 22:  # only leaves that count more than their share stay beside 3k nodes
        assert digest.size <= 4 * 2000
    questions = np.sort(rng.integers(0, 1 << 20, 200))
    truth = np.searchsorted(np.sort(values), questions, side="right")
    answer = digest.rank(questions)
    assert (answer.lower <= truth).all()
    assert (truth <= answer.upper).all()
    assert np.abs(answer.value - truth).max() <= digest.error_bound / 2
    assert np.abs(answer.value - truth).max() / len(values) < 0.005
    found = digest.quantile(QS)
    for i, q in enumerate(QS):
        assert found.lower[i] <= exact_quantile(values, q) <= found.upper[i]


def test_an_empty_digest():
    digest = DyadicQDigest(8)
    assert len(digest.quantile([0.1, 0.5]).value) == 0
    assert digest.rank([1, 2]).upper.tolist() == [0, 0]
    assert DyadicQDigest.from_bytes(digest.to_bytes()).count == 0


def test_asking_between_merges_changes_nothing():
    """Merged digests wait until they are needed: the bytes are as if each was added at once."""
    rng = np.random.default_rng(2)
    asked, waiting = DyadicQDigest(31, 20), DyadicQDigest(31, 20)
    for _ in range(60):
        piece = DyadicQDigest(31, 20)
        piece.update(rng.integers(0, 1 << 31, 700))
        for digest in (asked, waiting):
            digest.merge(piece)
        assert asked.size
    assert asked.to_bytes() == waiting.to_bytes()


def test_same_calls_same_bytes():
    made = []
    for _ in range(2):
        digest = DyadicQDigest(16, 50)
        for part in np.array_split(np.arange(60_000) % 40_000, 9):
            digest.update(part)
        made.append(digest.to_bytes())
    assert made[0] == made[1]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_float_domains(values):
    for domain in (FloatOrder(40), FloatOrder(62)):
        digest = DyadicQDigest(k=30, domain=domain)
        digest.update(values)
        check_bounds(digest, values, [-2e6, -1e6, -1.5, 0.0, 1e-9, 3.25, *values[:10], 1e6, 2e6])
        assert DyadicQDigest.from_bytes(digest.to_bytes()).to_bytes() == digest.to_bytes()


def test_float_order_takes_infinities_and_both_zeros():
    digest = DyadicQDigest(k=100, domain=FloatOrder(16))
    digest.update([-np.inf, -0.0, 0.0, 5e-324, 1.7e308, np.inf])
    check_bounds(digest, [-np.inf, -0.0, 0.0, 5e-324, 1.7e308, np.inf], [-np.inf, 0.0, np.inf])


@pytest.mark.parametrize("start", [(1 << 60) + 1, -(1 << 63), (1 << 63) - 256, (1 << 53) + 1])
def test_floats_beside_large_integers(start):
    digest = DyadicQDigest(k=1000, domain=IntegerRange(8, start))
    values = [start, start + 1, start + 200, start + 255]
    digest.update(values)
    for question in (float(start), float(start + 128), float(start + 255), 2.0**63, -(2.0**63)):
        for inclusive in (True, False):
            rank = digest.rank(question, inclusive=inclusive)
            truth = sum(v <= question if inclusive else v < question for v in values)
            assert (rank.lower[0], rank.upper[0]) == (truth, truth)


@pytest.mark.parametrize("kind", [int, np.int64])
def test_large_integers_asked_beside_floats_keep_their_digits(kind):
    start = (1 << 60) + 1
    digest = DyadicQDigest(k=1000, domain=IntegerRange(8, start))
    digest.update([start, start + 1, start + 2])
    points = [kind(start + 1), start + 1.0, 0.5, 2**70, -(2**70), np.inf, -np.inf]
    for inclusive in (True, False):
        rank = digest.rank(points, inclusive=inclusive)
        truth = [1 + inclusive, 0, 0, 3, 0, 3, 0]  # start + 1.0 is a float: 2**60
        assert rank.value.tolist() == rank.lower.tolist() == rank.upper.tolist() == truth


def test_floats_are_asked_at_integers_of_any_size():
    digest = DyadicQDigest(domain=FloatOrder())
    digest.update([-3, 1.5, 1e25])
    asked = [-(10**30), 2**64, 10**25, 10**30, 1.5]
    assert digest.rank(asked).value.tolist() == [0, 2, 3, 3, 2]
    assert digest.rank(10**30).value.tolist() == [3]


def test_the_rank_of_a_float_counts_those_equal_to_it():
    digest = DyadicQDigest.for_error(0.001, domain=FloatOrder())
    digest.update([5.0] * 30 + [9.99] * 30 + [19.95] * 40)
    rank = digest.rank([5.0, 9.98, 9.99, 19.95])
    assert rank.value.tolist() == [30, 30, 60, 100]
    assert (rank.lower[2], rank.upper[2]) == (30, 60)  # 9.99 and its neighbours are one cell
    assert digest.rank([9.99], inclusive=False).value.tolist() == [30]


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=100))
def test_timestamps(seconds):
    times = np.array(seconds, np.int64).view("datetime64[s]").astype("datetime64[us]")
    digest = DyadicQDigest(k=50, domain=TimestampRange(start=0, bits=50))
    digest.update(times)
    truth = exact_quantile(times, 0.5)
    median = digest.quantile(0.5)
    assert median.lower[0] <= truth <= median.upper[0]
    rank = digest.rank(times)
    exact = (times[None, :] <= times[:, None]).sum(axis=1)
    assert ((rank.lower <= exact) & (exact <= rank.upper)).all()


@pytest.mark.filterwarnings("error")
def test_instants_of_any_zone_are_asked():
    digest = DyadicQDigest.for_error(0.1, domain=TimestampRange())
    hours = [datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in range(4)]
    digest.update([at.astimezone(timezone(timedelta(hours=5, minutes=30))) for at in hours])
    assert digest.rank([*hours, datetime(2024, 1, 1, 1)]).value.tolist() == [1, 2, 3, 4, 2]


def test_for_error_keeps_its_word():
    rng = np.random.default_rng(3)
    values = rng.lognormal(10, 2, 200_000).astype(np.int64) % (1 << 20)
    digest = DyadicQDigest.for_error(0.001, bits=20)
    digest.update(values)
    digest.compress()
    questions = np.arange(0, 1 << 20, 1009)
    truth = np.searchsorted(np.sort(values), questions, side="right")
    assert np.abs(digest.rank(questions).value - truth).max() <= 0.001 * len(values)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DyadicQDigest(bits=0), "bits=0"),
        (lambda: DyadicQDigest(bits=63), "bits=63"),
        (lambda: DyadicQDigest(k=0), "k=0"),
        (lambda: DyadicQDigest(k=1.5), "k must be an integer, got 1.5"),
        (lambda: DyadicQDigest.for_error(0.0), "error=0.0"),
        (lambda: DyadicQDigest.for_error(1.0), "error=1.0"),
        (lambda: DyadicQDigest.for_error(math.nan), "error=nan"),
        (lambda: DyadicQDigest(8).update([256]), "domain 0 ... 255: choose more bits or"),
        (lambda: DyadicQDigest(domain=IntegerRange(62)).update([-1]), "choose FloatOrder, of"),
        (lambda: DyadicQDigest(8).update([-1]), "-1 is outside"),
        (lambda: DyadicQDigest(8).update([1.5]), "not an integer"),
        (lambda: DyadicQDigest(8).update([math.nan]), "NaN"),
        (lambda: DyadicQDigest(8).update(["a"]), "not numbers"),
        (lambda: DyadicQDigest(8).update([[1]]), "one dimension"),
        (lambda: DyadicQDigest(8).update([1, None]), "position 1 is null"),
        (lambda: DyadicQDigest(8).update([1], [-1]), "weight -1 at position 0"),
        (lambda: DyadicQDigest(8).update([1], [1, 2]), "2 weights for 1 item:"),
        (lambda: DyadicQDigest(8).update([1], [1.5]), "must be integers"),
        (lambda: DyadicQDigest(8).update([1], [1 << 62]), "add up"),
        (lambda: DyadicQDigest(8).rank(["a"], inclusive=False), "not numbers"),
        (lambda: DyadicQDigest(8).quantile(1.5), "1.5 at position 0"),
        (lambda: DyadicQDigest(8).quantile(math.nan), "nan at position 0"),
        (lambda: DyadicQDigest(8).quantile("a"), "'a' are not numbers"),
        (lambda: DyadicQDigest(domain=FloatOrder()).update([math.nan]), "NaN"),
        (lambda: IntegerRange(62, (1 << 62) + 1), "start="),
        (
            lambda: DyadicQDigest(domain=TimestampRange(bits=10)).update(
                np.array(["NaT"], "datetime64[us]")
            ),
            "NaT",
        ),
        (
            lambda: DyadicQDigest(domain=TimestampRange()).update(
                np.array([1 << 60], "datetime64[h]")
            ),
            "beyond int64 microseconds",
        ),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(BadArgument, match=message.replace("[", r"\[")):
        call()


def test_a_refused_update_counts_nothing():
    digest = DyadicQDigest(8, 10)
    with pytest.raises(BadArgument):
        digest.update([1, 2, 300])
    assert digest.count == 0
    assert digest.rank(255).upper[0] == 0


def test_other_parameters_do_not_merge():
    for other in (DyadicQDigest(8, 11), DyadicQDigest(9, 10)):
        with pytest.raises(IncompatibleSummary):
            DyadicQDigest(8, 10).merge(other)


def made_digest():
    digest = DyadicQDigest(12, 15)
    digest.update(np.random.default_rng(5).zipf(1.3, 3000) % 4096)
    return digest


def test_golden_bytes():
    data = golden("dyadic_qdigest-v1", lambda: made_digest().to_bytes())
    again = DyadicQDigest.from_bytes(data)
    assert again.to_bytes() == data
    assert again.rank([10, 100]).lower.tolist() == [1472, 2260]  # NumPy 2.0 draws other values


def test_damaged_bytes_are_refused_or_sound():
    data = made_digest().to_bytes()
    accepted = 0
    for case, digest in readable(DyadicQDigest, damaged(data, 5000)):
        accepted += 1
        assert digest.to_bytes() == case
        digest.quantile([0.1, 0.9]) if digest.count else None
    assert accepted < 1000


def test_a_forged_size_is_refused_before_it_is_allocated():
    parameters, body = unseal(made_digest().to_bytes(), "dyadic_qdigest")
    forged = (1 << 60).to_bytes(8, "little") + bytes(body[8:])
    with pytest.raises(CorruptSummary):
        DyadicQDigest.from_bytes(seal("dyadic_qdigest", parameters, forged))


def test_decimals_are_the_nearest_floats():
    """As KLL has them; Arrow's cast makes 0.07 and others a unit too large or small."""
    shown = [f"{cents // 100}.{cents % 100:02}" for cents in range(1000)]
    digest = DyadicQDigest(k=1 << 20, domain=FloatOrder(62))
    digest.update(pa.array([Decimal(one) for one in shown]))
    ranks = digest.rank(np.array([float(one) for one in shown]))
    assert (ranks.value == np.arange(1, 1001)).all()


def test_masked_values_times_and_weights_are_nulls():
    masked = np.ma.array([1, 2], mask=[False, True])
    digest = DyadicQDigest(10, 10)
    for call in (
        lambda: digest.update(masked), lambda: digest.rank(masked), lambda: KLL().quantile(masked),
        lambda: digest.update([1, 2], masked), lambda: KLL().update([1.0, 2.0], masked),
        lambda: CountMin().update(["a", "b"], masked),
        lambda: TimeWindowQuantiles(9).update([1.0, 2.0], masked),
    ):  # fmt: skip
        with pytest.raises(BadArgument, match=r"masked|null"):
            call()
    assert digest.count == 0
