"""The simulation: the published numbers, ours, and what it refuses."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from muntin.errors import BadArgument
from muntin.topk import compare, plot, simulate, streams

PUBLISHED = {3: 0, 5: 1.8, 8: 20, 10: 46}  # messages per 100 windows, Zipf(2), unit 10 s


def mean_messages(sites: int, policy: str, runs: int = 10) -> float:
    return float(
        np.mean([simulate(sites=sites, policy=policy, seed=s).messages for s in range(runs)])
    )


@pytest.mark.parametrize("sites", PUBLISHED)
def test_messages_on_zipf(sites: int) -> None:
    ours = mean_messages(sites, "resolution")
    assert ours <= PUBLISHED[sites] * (0.9 if sites >= 8 else 1)
    assert ours <= mean_messages(sites, "lsa")


def test_the_published_policies_give_the_published_numbers() -> None:
    assert mean_messages(8, "even") == pytest.approx(20, abs=1)
    assert mean_messages(8, "lsa") == pytest.approx(28, abs=1)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("policy", ["hybrid", "resolution"])
def test_more_ties_than_a_message_holds(policy: str) -> None:
    once = np.zeros((8, 2, 34_000), np.int64)
    once[0, 0, :17_000] = once[0, 1, 17_000:] = 1
    found = simulate(once, k=3, window=4, unit=1, windows=4, policy=policy)
    assert found.invalid == 0
    assert found.unsure == (0 if policy == "hybrid" else 1)  # asked again when they have left
    assert found.entries < 2 * once.sum()


def test_traffic_against_naive() -> None:
    naive = simulate("traffic", policy="naive")
    ours = simulate("traffic", policy="hybrid")
    assert ours.invalid == ours.unsure == 0
    assert ours.changes == 23
    assert ours.bytes <= 0.2 * naive.bytes
    sparing = simulate("traffic", policy="hybrid", objective="messages")
    assert sparing.messages <= 1.3 * naive.messages


def test_compare_reports_all_three_costs(tmp_path) -> None:
    table = compare("zipf", objects=50, sites=3, windows=10, k=3)
    assert list(table) == ["resolution", "lsa", "gsa", "hybrid", "naive"]
    assert set(table["naive"]) == {"messages", "entries", "bytes", "invalid", "changes"}
    plot(table, tmp_path / "costs.png")
    assert (tmp_path / "costs.png").stat().st_size > 5000


def test_series_add_up() -> None:
    found = simulate("traffic", objects=60, sites=4, windows=20, rate=20)
    assert found.series["messages"].sum() == found.messages
    assert found.series["bytes"].sum() == found.bytes
    assert found.bootstrap["messages"] == 28
    assert found.per_100_windows()["messages"] == found.messages * 5


def test_streams_are_the_ones_measured() -> None:
    zipf = streams.zipf(np.random.default_rng(7), 100, 3, 4, 500)
    assert zipf.shape == (4, 3, 100)
    assert zipf.sum((1, 2)).tolist() == [500] * 4
    traffic = streams.traffic(np.random.default_rng(7), 100, 3, 40, 500)
    assert traffic.sum() == pytest.approx(20_000, rel=0.05)
    local = streams.zipf(np.random.default_rng(7), 10, 4, 1, 10_000, affinity=0.1)
    assert (local[0].max(0) > 0.5 * local[0].sum(0)).mean() > 0.5


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
def test_streams_from_files(kind: str, tmp_path) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / f"stream.{kind}"
    if kind == "npy":
        np.save(path, rng.poisson(3, (30, 2, 6)))
    else:
        table = pa.table(
            {
                "time": np.sort(rng.integers(1000, 1300, 4000)),
                "site": rng.choice(["east", "west"], 4000),
                "object": rng.choice(list("abcdef"), 4000, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.1]),
                "value": rng.integers(0, 5, 4000),
            }
        )
        (pa.csv.write_csv if kind == "csv" else pa.parquet.write_table)(table, path)
        counts = streams.from_file(path, 10)
        assert counts.shape[1:] == (2, 6)
        assert counts.sum() == pa.compute.sum(table["value"]).as_py()
    found = simulate(path, window=100, unit=10, windows=20, k=2)
    assert found.invalid == found.unsure == 0
    with pytest.raises(BadArgument, match="3 sites: the file has sites of its own"):
        simulate(path, window=100, unit=10, windows=20, k=2, sites=3)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_may_be_as_fine_as_they_like(unit: str) -> None:
    one = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    times = pa.array([-1, 0, 10 * one - 1, 10 * one], pa.timestamp(unit))
    table = pa.table({"time": times, "object": ["a"] * 4})
    assert streams.from_table(table, 10, sites=1)[:, 0, 0].tolist() == [1, 2, 1]


def test_streams_that_cannot_be_read(tmp_path) -> None:
    with pytest.raises(BadArgument, match=r"none\.csv: no such file"):
        streams.from_file(tmp_path / "none.csv", 10)
    for table, said in (
        (pa.table({"time": [1]}), "no column 'object'"),
        (pa.table({"time": [1, None], "object": ["a", "b"]}), "null"),
        (pa.table({"time": [1], "object": ["a"], "value": [1.5]}), "scale"),
        (pa.table({"time": [1], "object": ["a"], "value": pa.array([1 << 63], pa.uint64())}), "50"),
        (pa.table({"time": [1], "object": [["a"]]}), "are list"),
        (pa.table({"time": [1], "object": [b"\xff"]}), "are binary"),
        (pa.table({"time": ["x"], "object": ["a"]}), "seconds"),
        (pa.table({"time": [0, 1 << 40], "object": ["a", "b"]}), "too many"),
        (pa.table({"time": [0.0, float("nan")], "object": ["a", "b"]}), "nan seconds"),
        (pa.table({"time": [-(1 << 63), 5], "object": ["a", "b"]}), "reach from -9223"),
        (pa.table({"time": pa.array([], pa.int64()), "object": pa.array([], pa.string())}), "rows"),
    ):
        with pytest.raises(BadArgument, match=said):
            streams.from_table(table, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"window": "15 lightyears"},
        {"window": 25, "unit": 10},
        {"windows": 0},
        {"policy": "best"},
        {"stream": np.zeros((5, 2, 3), np.int64)},
        {"stream": np.zeros((300, 2, 3))},
        {"stream": np.full((300, 2, 3), (1 << 64) - 5, np.uint64)},  # no -5
    ],
)
def test_impossible_parameters(wrong: dict) -> None:
    with pytest.raises(BadArgument):
        simulate(**{"objects": 10, "windows": 3, **wrong})


def test_a_stream_that_is_too_large_is_not_read(tmp_path) -> None:
    path = tmp_path / "large.npy"
    np.lib.format.open_memmap(path, "w+", np.int64, (1 << 14, 1 << 10, 1 << 5))  # no byte of it
    with pytest.raises(BadArgument, match="too many for memory"):
        streams.from_file(path, 10)
