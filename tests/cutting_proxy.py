"""A TCP proxy on loopback that cuts connections where a test says."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

WAYS = ("before", "half", "sent", "answered")
"""Where a request is cut: nothing of it has come to the server, a half, all; or all, and the server
has answered."""


class Proxy:
    """Stands before a server; `cut_next` and `cut_often` say what breaks."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.cuts = 0
        self.away = False
        """Connections are taken and closed."""
        self.away_after_cut = False
        self._next: tuple[bytes, str] | None = None
        self._chance: Callable[[], bool] = lambda: False
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._silent: set[tuple[socket.socket, socket.socket]] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next(self, word: bytes, way: str) -> None:
        """Cut the next request that has this word, once, in one of `WAYS`."""
        self._next = word, way

    def cut_often(self, seed: int | None, often: float = 0.03) -> None:
        """Cut by chance, before and within what either side sends; None: no more."""
        chance = random.Random(seed)
        self._chance = lambda: seed is not None and chance.random() < often

    def silence_all(self) -> None:
        """Nothing comes through any more, nor an end of it: as from a host without power."""
        with self._lock:
            self._silent |= self._pairs

    def cut_all(self) -> None:
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            self._close(*pair)

    def close(self) -> None:
        with suppress(OSError):  # else its thread waits on, and may come to listen for another
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut_all()

    def _accept(self) -> None:
        with suppress(OSError):  # the proxy is closed
            while True:
                client, _ = self._listening.accept()
                if self.away:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._to))
                with self._lock:
                    self._pairs.add((client, server))
                answered = threading.Event()  # is what the next answer is cut by
                for act in (self._ask, self._answer):
                    of = client, server, answered
                    threading.Thread(target=act, args=of, daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, answered: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if (client, server) in self._silent:
                    continue
                wanted = self._next
                if wanted is not None and wanted[0] in data:
                    self._next, way = None, wanted[1]
                    self.cuts += 1
                    self.away = self.away_after_cut
                    if way == "half":
                        server.sendall(data[: len(data) // 2])
                    elif way == "sent":
                        server.sendall(data)
                    elif way == "answered":
                        answered.set()
                        server.sendall(data)
                        continue
                    break
                if not self._passed(data, server):
                    break
        self._ended(client, server)

    def _answer(
        self, client: socket.socket, server: socket.socket, answered: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if answered.is_set() or not self._passed(data, client):
                    break
        self._ended(client, server)

    def _passed(self, data: bytes, to: socket.socket) -> bool:
        if self._chance():
            self.cuts += 1
            to.sendall(data[: len(data) // 2] if self.cuts % 2 else b"")
            return False
        to.sendall(data)
        return True

    def _close(self, *pair: socket.socket) -> None:
        """Both are still open: a thread that is about to read would take another's number."""
        for one in pair:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _ended(self, client: socket.socket, server: socket.socket) -> None:
        """By each of the two threads at its end."""
        self._close(client, server)
        with self._lock:
            is_last = (client, server) not in self._pairs
            self._pairs.discard((client, server))
        if is_last:
            client.close()
            server.close()
