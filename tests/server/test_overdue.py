"""A heartbeat monitor: a standing query pushes items whose next batch is overdue."""

from __future__ import annotations

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
    beating.beats([("bus", 1, 3600, 12, now_us() - 20 * period * SECOND)])  # before the tram's
    with Server(ledger, port=0) as server:
        live = Live(server)
        live.subscribe(on="update", query="overdue")
        assert rows_of(live.hear("result")) == []  # now all that it needs is compiled
        last = now_us() - (period - wait) * SECOND
        beating.beats([("tram", 2, period, 15, last)])
        batches, rows = ledger.pipelines()[0].batches, []
        while not rows:
            rows = rows_of(live.hear("result"))
        assert now_us() >= last + period * SECOND - 1_000
        assert ledger.pipelines()[0].batches == batches
        assert [row[:2] for row in rows] == [["tram", "2"]]
        beating.beats([("tram", 2, period, 1, now_us())])
        while rows:
            rows = rows_of(live.hear("result"))
        live.socket.close()
