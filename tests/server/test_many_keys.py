"""Ten million keys in a window: who asks for all of them is refused, and nobody else notices."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import httpx
import numpy as np
import psutil
import pyarrow as pa
import pytest

import muntin
from muntin.ledger import open_ledger
from muntin.server.serving import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

KEYS = 10_000_000
MEMORY_MAX = 1 << 30  # of all the server's processes, above what they take when nobody asks
SPEC = {
    "name": "orders", "time": "time", "pane": "1 hour", "lateness": "1 hour",
    "summaries": {
        "orders": {"keys": ["order"], "indicators": ["fare"]},
        "areas": {"keys": ["area"], "indicators": ["fare"]},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> str:
    address = f"sqlite:///{tmp_path_factory.mktemp('keys')}/ledger.db"
    numbers = np.arange(KEYS)
    table = pa.table(
        {
            "time": pa.array(1_700_000_000_000_000 + numbers % 60, pa.timestamp("us", "UTC")),
            "order": numbers * 2_654_435_761,
            "area": numbers % 7,
            "fare": np.ones(KEYS, np.int64),
        }
    )
    muntin.summarize(table, SPEC, ledger=address, progress=False).close()
    return address


def memory() -> int:
    """Of all processes that the server has begun."""
    taken = 0
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            taken += one.memory_info().rss
    return taken


@contextlib.contextmanager
def watched() -> Iterator[list[int]]:
    """What they take, again and again."""
    seen, done = [memory()], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            seen.append(memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


def test_the_server_stays_small_and_answers_others(url) -> None:
    ledger = open_ledger(url)
    with Server(ledger, port=0) as server, httpx.Client(base_url=server.url, timeout=600) as http:

        def ask(select: str) -> httpx.Response:
            return http.post("/query", json={"select": select})

        total = "SELECT area, fare FROM areas(area) FOR ALL ORDER BY area"
        expected = ask(total).json()["rows"]
        assert sum(fare for _, fare in expected) == KEYS
        with watched() as seen:
            for select in (
                'SELECT "order", fare FROM orders("order") FOR ALL',
                'SELECT max(fare) AS most FROM orders("order") FOR ALL WHERE "order" % 3 = 1',
            ):
                refused = ask(select)
                assert refused.status_code == 400, refused.text[:300]
                assert refused.json()["error"]["code"] == "limit"
                assert ask(total).json()["rows"] == expected
        assert len(seen) > 10
        assert max(seen) - seen[0] < MEMORY_MAX
    ledger.close()
