"""Whose turn it is: clients take turns, however much one of them asks. No I/O, one thread."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Work = TypeVar("Work")


@dataclass(frozen=True, slots=True)
class Turn(Generic[Work]):
    """What runs next, and for whom."""

    client: Hashable
    work: Work


class Turns(Generic[Work]):
    """A queue for each client. The next to run is the first of the client that waits longest
    since its last turn; one client never has all of the places at once.

    Parameters
    ----------
    places : int
        How much runs at once. One client has at most all but one, where there are several.
    """

    def __init__(self, places: int) -> None:
        self._share = max(1, places - 1)
        self._places = places
        self._queues: OrderedDict[Hashable, deque[Work]] = OrderedDict()
        self._running: Counter[Hashable] = Counter()

    @property
    def waiting(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def waiting_of(self, client: Hashable) -> int:
        return len(self._queues.get(client, ())) + self._running[client]

    def put(self, client: Hashable, work: Work) -> None:
        self._queues.setdefault(client, deque()).append(work)

    def drop(self, client: Hashable, work: Work) -> None:
        """It is not wanted any more. What runs already is not here."""
        queue = self._queues.get(client)
        if queue is not None and work in queue:
            queue.remove(work)
            if not queue:
                del self._queues[client]

    def take(self) -> Turn[Work] | None:
        """The next, which runs until `done`; None where nobody who waits may run more."""
        if self._running.total() >= self._places:
            return None
        for client, queue in self._queues.items():
            if self._running[client] < self._share:
                work = queue.popleft()
                if queue:
                    self._queues.move_to_end(client)
                else:
                    del self._queues[client]
                self._running[client] += 1
                return Turn(client, work)
        return None

    def done(self, client: Hashable) -> None:
        """One that `take` gave has ended."""
        self._running[client] -= 1
        if self._running[client] <= 0:
            del self._running[client]
