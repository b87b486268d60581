"""Many WebSocket clients in one process, as cheap as Python allows: what is measured is the server.

A client is an `asyncio.Protocol` over the bare socket: it reads whole frames out of what came and
looks only at the entries that the measurement needs.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from urllib.parse import urlsplit


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def upgrade(host):
    return (
        f"GET /live HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def masked(text):
    payload, mask = text.encode(), os.urandom(4)
    size = len(payload)
    head = bytes((0x81, 0x80 | size)) if size < 126 else b"\x81\xfe" + size.to_bytes(2, "big")
    return head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))


class LiveClient(asyncio.Protocol):
    """Says `hello` once it is connected; `hear(payload)` gets each message's bytes."""

    def __init__(self, host, hello, hear, lost):
        self._host = host
        self._hello = hello
        self._hear = hear
        self._lost = lost
        self._kept = b""
        self._upgraded = False

    def connection_made(self, transport):
        self.transport = transport
        transport.write(upgrade(self._host))

    def data_received(self, data):
        if self._kept:
            data = self._kept + data
        if not self._upgraded:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._kept = data
                return
            if not data.startswith(b"HTTP/1.1 101"):
                self.transport.close()
                return
            self._upgraded = True
            data = data[end + 4 :]
            if self._hello:
                self.transport.write(masked(self._hello))
        at, end = 0, len(data)
        while end - at >= 2:
            size, head = data[at + 1], 2
            if size == 126:
                size, head = int.from_bytes(data[at + 2 : at + 4], "big"), 4
            elif size == 127:
                size, head = int.from_bytes(data[at + 2 : at + 10], "big"), 10
            if end - at < head + size:
                break
            if data[at] == 0x81:
                self._hear(data[at + head : at + head + size])
            elif data[at] == 0x89:  # a ping
                self.transport.write(
                    bytes((0x8A, 0x80 | size)) + bytes(4) + data[at + 2 : at + 2 + size]
                )
            at += head + size
        self._kept = data[at:]

    def connection_lost(self, _):
        self._lost()


class Stamped:
    """Reads the stamp of a message of the pushing server."""

    def __init__(self):
        self.latencies = []
        self.gaps = 0
        self.from_when = float("inf")

    def client(self):
        last = None

        def hear(message):
            nonlocal last
            now = time.monotonic()
            told = json.loads(message[: message.index(b',"pad"')] + b"}")
            if now > self.from_when:
                self.latencies.append(now - told["at"])
                self.gaps += last is not None and told["seq"] != last + 1
            last = told["seq"]

        return hear


async def listen(url, clients, seconds, warm, hello):
    """Latencies of all messages that subscribers get, gaps, and how long connecting took."""
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    stamped, ready, everybody = Stamped(), 0, asyncio.Event()

    def one():
        hear_pushed = stamped.client()

        def hear(message):
            nonlocal ready
            if message.startswith(b'{"type":"result"'):
                hear_pushed(message)
            elif message.startswith(b'{"type":"subscribed"'):
                ready += 1
                if ready == clients:
                    everybody.set()

        return LiveClient(parts.netloc, hello, hear, lambda: None)

    begun = time.monotonic()
    made = await asyncio.gather(
        *(loop.create_connection(one, parts.hostname, parts.port) for _ in range(clients))
    )
    await asyncio.wait_for(everybody.wait(), 60)
    took = time.monotonic() - begun
    stamped.from_when = time.monotonic() + warm
    await asyncio.sleep(warm + seconds)
    for transport, _ in made:
        transport.close()
    return stamped.latencies, stamped.gaps, took


def listener(pipe, *arguments):
    pipe.send(asyncio.run(listen(*arguments)))


async def come_back(host, port, clients, said):
    """Follow closed windows through the death of the server; what each client got, and when.

    `said` is a pipe: it tells when all are there first, and asks for the end. Each client waits as
    `muntin.client.Subscription` and the page do, and goes on from its last place.
    """
    from muntin.client import Backoff

    loop = asyncio.get_running_loop()
    heard = [[] for _ in range(clients)]
    back = [0.0] * clients
    gaps = 0
    ended = asyncio.Event()

    async def one(number):
        nonlocal gaps
        backoff, after = Backoff(), None
        while not ended.is_set():
            over = loop.create_future()

            def hear(message, backoff=backoff):
                nonlocal after, gaps
                told = json.loads(message)
                after = told.get("after", after)
                if told["type"] == "window":
                    heard[number].append(told["window"]["start"])
                elif told["type"] == "subscribed":
                    back[number] = time.monotonic()
                    backoff.reset()
                gaps += told["type"] == "gap"

            def lost(over=over):
                if not over.done():
                    over.set_result(None)

            hello = {"type": "subscribe", "id": "a", "windows": True}
            hello = json.dumps(hello | ({"after": after} if after else {}))
            try:
                transport, _ = await loop.create_connection(
                    lambda hello=hello, hear=hear, lost=lost: LiveClient(
                        f"{host}:{port}", hello, hear, lost
                    ),
                    host,
                    port,
                )
            except OSError:
                pass
            else:
                ending = asyncio.ensure_future(ended.wait())
                await asyncio.wait((over, ending), return_when=asyncio.FIRST_COMPLETED)
                ending.cancel()
                transport.close()
            if not ended.is_set():
                await asyncio.sleep(backoff.pause())

    tasks = [asyncio.create_task(one(number)) for number in range(clients)]
    while not all(back):
        await asyncio.sleep(0.01)
    said.send("all there")
    while not said.poll():
        await asyncio.sleep(0.05)
    ended.set()
    await asyncio.gather(*tasks)
    said.send((heard, back, gaps))


def storm_clients(pipe, *arguments):
    asyncio.run(come_back(*arguments, pipe))
