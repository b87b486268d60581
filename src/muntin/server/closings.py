"""Which windows have closed since one last looked, in the order in which the ledger stored them."""

from __future__ import annotations

from muntin.ledger.base import Ledger
from muntin.ledger.records import ClosedWindow
from muntin.server.channel import BEGINNING, Place

AT_ONCE_MAX = 1_000

Closing = tuple[Place, ClosedWindow]


class Closings:
    """Reads new closings. One thread at a time.

    Attributes
    ----------
    head : Place
        The newest that was returned; places that are returned only grow.
    anew : bool
        The last `read` found another ledger in the place of the one before.
    more : bool
        The last `read` has left some for the next.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.head: Place = BEGINNING
        self.anew = self.more = False

    def begin(self) -> None:
        """What has closed before this is not new."""
        generation = self._ledger.generation()
        self.head = Place(generation, self._ledger.last_closing())

    def read(self) -> list[Closing]:
        """New windows and new revisions that `wait` has seen, oldest closing first."""
        with self._ledger.snapshot(known=True) as view:
            generation = view.generation()
            self.anew = generation != self.head.generation
            if self.anew:
                self.head = Place(generation, 0)
            found = view.closings(self.head.number, limit=AT_ONCE_MAX)
        self.more = len(found) == AT_ONCE_MAX
        closings = [(Place(generation, number), window) for number, window in found]
        if closings:
            self.head = closings[-1][0]
        return closings
