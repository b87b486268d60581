"""A thousand subscribers of one server: each hears every window, once and in order."""

from __future__ import annotations

import asyncio
import json

from websockets.asyncio.client import connect

from tests.server.conftest import PATIENCE_SECONDS

CLIENTS, WINDOWS = 1_000, 10


async def follow(url: str, ready: asyncio.Barrier) -> list[tuple[int, str]]:
    """Sequence number and start of each window that one client hears."""
    async with connect(
        f"ws{url[4:]}/live", compression=None, open_timeout=PATIENCE_SECONDS, ping_interval=None
    ) as socket:
        await socket.send(json.dumps({"type": "subscribe", "id": "w", "windows": "orders"}))
        while json.loads(await socket.recv())["type"] != "subscribed":
            pass
        await ready.wait()
        heard: list[tuple[int, str]] = []
        while len(heard) < WINDOWS:
            message = json.loads(await socket.recv())
            assert message["type"] not in ("gap", "error"), message
            if message["type"] == "window":
                heard.append((message["seq"], message["window"]["start"]))
        return heard


async def crowd(url: str, feeder) -> list[list[tuple[int, str]]]:
    ready = asyncio.Barrier(CLIENTS + 1)
    followers = [asyncio.create_task(follow(url, ready)) for _ in range(CLIENTS)]
    await ready.wait()  # all connected, and at once
    for _ in range(WINDOWS):
        await asyncio.to_thread(feeder.minute)
    return await asyncio.wait_for(asyncio.gather(*followers), PATIENCE_SECONDS)


def test_a_thousand_subscribers_hear_each_window_once_and_in_order(server, feeder):
    first, *others = asyncio.run(crowd(server.url, feeder))
    starts = [start for _, start in first]
    assert len(set(starts)) == WINDOWS
    assert starts == sorted(starts)
    sequence = [number for number, _ in first]
    assert sequence == list(range(sequence[0], sequence[0] + WINDOWS))
    assert all(heard == first for heard in others)
