"""A heartbeat monitor: a standing query pushes items whose next batch is overdue."""

from __future__ import annotations

import time

import pytest

from muntin.server.serving import Server
from tests.pipeline.support import SECOND
from tests.server.beating import Beating, now_us
from tests.server.test_live import Live


@pytest.fixture
def beating(ledger):
    made = Beating(ledger)
    yield made
    made.close()


def rows_of(message):
    assert "error" not in message, message
    return message["result"]["rows"]


def test_an_item_is_pushed_when_it_is_overdue_and_goes_when_it_comes(beating, ledger):
    """Nothing is committed when a beat is missed: the answer moves because the time does."""
    period, wait = 60, 3
    last = now_us() - (period - wait) * SECOND
    beating.beats([("tram", 2, period, 15, last), ("bus", 1, 3600, 12, last)])
    with Server(ledger, port=0) as server:
        live = Live(server)
        live.subscribe(on="update", query="overdue")
        heard = [(rows_of(live.hear("result")), time.time())]
        if heard[0][1] * SECOND < last + period * SECOND:  # else the machine was very slow
            assert heard[0][0] == []
        while not heard[-1][0]:
            heard.append((rows_of(live.hear("result", seconds=30)), time.time()))
        (row,), at = heard[-1]
        assert row[:2] == ["tram", "2"]
        assert at * SECOND >= last + period * SECOND - 1_000
        assert at * SECOND < last + (period + 20) * SECOND  # soon after: seconds, not minutes
        beating.beats([("tram", 2, period, 1, now_us())])
        while heard[-1][0]:
            heard.append((rows_of(live.hear("result", seconds=30)), time.time()))
        live.socket.close()
