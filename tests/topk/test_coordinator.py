"""The coordinator alone: what it refuses, and its saved state."""

from __future__ import annotations

import json

import pytest

from muntin.errors import BadArgument, CorruptMessage, UnknownName
from muntin.topk import Alert, Coordinator, CostModel, Factors, Hello, Policy, Push, Reply, Request


def settled() -> Coordinator:
    """Two sites, T = (a,)."""
    coordinator = Coordinator(["n", "s"], 1, barrier=True)
    down = coordinator.tick(0)
    while down:
        up = []
        for name, message in down:
            if isinstance(message, Request):
                values = (("a", 9), ("b", 4))
                up.append((name, Reply(message.epoch, 0, message.round, 0, 0, 0, values)))
        down = [out for name, message in up for out in coordinator.receive(name, message, 0)]
    assert coordinator.answer().valid
    return coordinator


def test_refuses_what_cannot_be_meant() -> None:
    coordinator = settled()
    with pytest.raises(UnknownName, match="the sites are n, s"):
        coordinator.receive("x", Hello(0, 0))
    with pytest.raises(CorruptMessage, match="does not come from a site"):
        coordinator.receive("n", Factors(1, 0, 1, None, ()))
    with pytest.raises(CorruptMessage, match="claims epoch"):
        coordinator.receive("n", Hello((1 << 60) + 1, 0))
    with pytest.raises(CorruptMessage, match="without the members"):
        coordinator.receive("n", Alert(1, 1, 1, 0, 0, 0, (("b", 3),)))
    with pytest.raises(CorruptMessage, match="beyond"):
        coordinator.receive("n", Push(1, 1, 1, (("b", 1 + (1 << 51)),), 1))
    coordinator.receive("n", Push(1, 1, 1, (("b", -(1 << 51)),), 1))  # from 2**50 to -2**50
    for border in (-1, 1 + (1 << 61)):
        with pytest.raises(CorruptMessage, match="claims the border"):
            coordinator.receive("n", Alert(1, 1, 1, border, 0, 0, (("a", 3),)))
    for least in (1, -1 - (1 << 50)):
        with pytest.raises(CorruptMessage, match="claims the least value"):
            coordinator.receive("n", Reply(1, 1, 1, 1, 0, least, ()))
    assert coordinator.answer().valid


@pytest.mark.parametrize(
    "wrong",
    [
        {"sites": []},
        {"sites": ["a", "a"]},
        {"sites": [f"s{n}" for n in range(1025)]},
        {"k": 0},
        {"epsilon": -1},
        {"policy": "best"},
    ],
)
def test_impossible_parameters(wrong: dict) -> None:
    with pytest.raises(BadArgument):
        Coordinator(**{"sites": ["n"], "k": 1, **wrong})


def test_impossible_cost_model_and_policy() -> None:
    with pytest.raises(BadArgument, match="objective"):
        CostModel("euros")
    with pytest.raises(BadArgument, match="share"):
        Policy("p", coordinator=-1)


def test_state_there_and_back() -> None:
    coordinator = settled()
    data = coordinator.to_bytes()
    again = Coordinator.from_bytes(data, barrier=True)
    assert again.top == coordinator.top
    assert again.epoch > coordinator.epoch + 1000
    assert not again.answer().valid
    assert json.loads(again.to_bytes())["top"] == ["a"]


def test_what_was_said_to_another_of_the_same_epoch_makes_all_be_asked_anew() -> None:
    """Restored twice from one state: the first had given out factors that the second never knew."""
    coordinator = settled()
    epoch, version = coordinator.epoch, coordinator.sites["n"].version
    assert coordinator.receive("n", Push(epoch, version + 1, 1, (("a", 3),), 1), 1) == []
    assert coordinator.epoch > epoch + 1000
    assert {type(message) for _, message in coordinator.tick(1)} == {Request}
    assert not coordinator.answer().valid


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"epoch": -1},
        {"epoch": "1"},
        {"k": None},
        {"sites": "ns"},
        {"sites": [1]},
        {"top": 3},
        {"top": [1.5]},
        {"more": 1},
    ],
)
def test_damaged_state(change: dict) -> None:
    state = {**json.loads(settled().to_bytes()), **change}
    with pytest.raises(CorruptMessage):
        Coordinator.from_bytes(json.dumps(state).encode())


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"3", b"{}", b"[" * 5000])
def test_no_state(data: bytes) -> None:
    with pytest.raises(CorruptMessage):
        Coordinator.from_bytes(data)
