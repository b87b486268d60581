"""What keeps a server from following its ledger is told once, not each second while it lasts."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from muntin.errors import LedgerError
from muntin.server import feeds as module
from muntin.server.feeds import Feeds
from muntin.server.limits import ServerLimits


class _Ledger:
    why: Any = ["is gone"] * 4 + ["is damaged"] * 3

    def generation(self) -> int:
        return 1

    def last_closing(self) -> int:
        return 0

    def wait(self, *_: object) -> int:
        raise LedgerError(self.why.pop(0) if len(self.why) > 1 else self.why[0])


def test_trouble_is_told_once(monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr(module, "REST_SECONDS", 0.001)
    ledger = _Ledger()
    reader: Any = SimpleNamespace(ledger=ledger)
    statements: Any = None

    async def follow() -> None:
        feeds = Feeds(reader, statements, ServerLimits())
        await feeds.start()
        while len(ledger.why) > 1:
            await asyncio.sleep(0.005)
        await feeds.stop()

    asyncio.run(follow())
    said = "the ledger cannot be followed: "
    assert caplog.messages == [said + "is gone", said + "is damaged"]


def test_a_program_that_ends_without_stop_is_told_nothing(monkeypatch: Any, caplog: Any) -> None:
    """Python then lets its threads take no more work, while the loop's still runs."""
    monkeypatch.setattr(module, "REST_SECONDS", 0.001)
    reader: Any = SimpleNamespace(ledger=_Ledger())
    statements: Any = None

    async def follow() -> None:
        feeds = Feeds(reader, statements, ServerLimits())
        await feeds.start()
        feeds._following.shutdown(wait=False)
        assert feeds._follower is not None
        await asyncio.wait({feeds._follower}, timeout=60)
        assert feeds._follower.cancelled()
        await feeds.stop()

    asyncio.run(follow())
    assert caplog.text == ""
