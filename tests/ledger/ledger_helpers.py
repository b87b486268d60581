"""What the ledger's tests share: specs, batches of numbered events, and a reference reader."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from muntin.ledger import Batch, Ledger, Made, Partial, Piece, Slices, View
from muntin.ledger.shared import SharedLedger

PANE = 10
SERVERS = ["postgresql", "redis_server"]
"""Fixtures of the servers that hold ledgers."""
STORES = ["sqlite", *SERVERS]  # memory:// is a SQLite file as well
SPEC: dict[str, Any] = {
    "pane_us": PANE,
    "summaries": {"s": {"kind": "vector_matrix"}, "t": {"kind": "kll"}},
    "queries": {"q": {"select": "SELECT 1"}},
}
Held = Mapping[int, Sequence[int]]
"""Slice -> the numbers of its events."""


@contextmanager
def impatient(ledger: Ledger | None = None, seconds: float = 0.0) -> Iterator[None]:
    """Readers wait for a store as long as they do outside of tests, and a ledger so long: only
    here, since a store that is there may need longer where the machine is busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muntin.ledger.shared.READER_SECONDS", 1.0)
        if ledger is not None:
            assert isinstance(ledger, SharedLedger)
            patch.setattr(ledger._replica, "deadline", seconds)
            patch.setattr(ledger._replica.store, "_deadline", seconds, raising=False)  # Redis has
        yield


@contextmanager
def tried_once() -> Iterator[None]:
    """A store that is away once stays away: nobody asks again until a deadline is over."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muntin.ledger.shared.PAUSE_SECONDS", 3600.0)
        yield


def packed(held: Held) -> bytes:
    """A payload that says which events it holds of which slices."""
    return json.dumps({str(start): sorted(ids) for start, ids in sorted(held.items())}).encode()


def slices_of(held: Held) -> Slices:
    starts = sorted(held)
    return Slices.of(starts, [len(held[start]) for start in starts])


def partial(summary: str, pane: int, ids: Sequence[int], length: int | None = None) -> Partial:
    return partial_of(summary, {pane: ids}, length)


def partial_of(summary: str, held: Held, length: int | None = None) -> Partial:
    return Partial(summary, slices_of(held), packed(held), length)


def batch(
    number: int, *partials: Partial, query: str = "A", into: View | None = None, **more: Any
) -> Batch:
    """A batch whose counts fit to its partials (each summary sees the same events).

    `into`: the ledger whose rollups receive what comes to panes that they cover.
    """
    sums: Counter[str] = Counter()
    for one in partials:
        if one.length is None:
            sums[one.summary] += one.slices.count
    counted = max(sums.values(), default=0)
    more.setdefault("read", counted + more.get("rejected_count", 0))
    received = [] if into is None else received_by(into, partials)
    return Batch(query, number, [*partials, *received], counted=counted, **more)


def received_by(view: View, partials: Sequence[Partial]) -> list[Partial]:
    """What the rollups of a ledger must receive of the panes in a batch."""
    found = []
    for one in partials:
        for cover in view.coverage(one.summary):
            held: dict[int, list[int]] = {}
            for start, ids in json.loads(one.payload).items():
                if cover.start <= int(start) < cover.until:
                    slice_ = int(start) - int(start) % cover.length
                    held.setdefault(slice_, []).extend(ids)
            if held:
                found.append(partial_of(one.summary, held, cover.length))
    return found


def events_of(view: View, pieces: Iterable[Piece]) -> list[tuple[int, int]]:
    """(slice, event) of all that pieces hold."""
    pieces = list(pieces)
    payloads = view.payloads([piece.id for piece in pieces])
    return [
        (int(start), event)
        for piece in pieces
        for start, ids in json.loads(payloads[piece.id]).items()
        for event in ids
    ]


def held(view: View, summary: str, length: int, start: int, end: int) -> Counter[int]:
    """The events in slices of one length that start in [start, end)."""
    found = events_of(view, view.pieces(summary, length, start, end))
    return Counter(event for slice_, event in found if start <= slice_ < end)


def read_in_turn(
    view: View, summary: str, start: int, end: int, below: int | None
) -> Iterator[tuple[int, int]]:
    """Length and start of the longest slices under `below` that hold [start, end)."""
    covers = [c for c in view.coverage(summary) if below is None or c.length < below]
    horizon = view.horizon(summary, PANE)
    at = start
    while at < end:
        length = PANE
        for cover in covers:
            inside = cover.start <= at and at + cover.length <= min(cover.until, end)
            if at % cover.length == 0 and inside:
                length = cover.length
        if length != PANE or horizon is None or at >= horizon:
            yield length, at
        at += length


def gather(view: View, summary: str, start: int, end: int, below: int | None = None) -> Counter:
    """Reference reader: all events of [start, end), from the longest slices under `below`."""
    found: Counter[int] = Counter()
    for length, at in read_in_turn(view, summary, start, end, below):
        found += held(view, summary, length, at, at + length)
    return found


def made_of(view: View, summary: str, length: int, start: int, until: int) -> list[Made]:
    """What rollups of a range hold, made from what is below them, in one piece."""
    slices = {
        at: gather(view, summary, at, at + length, length) for at in range(start, until, length)
    }
    full = {at: sorted(ids.elements()) for at, ids in slices.items() if ids}
    if not full:
        return []
    starts = sorted(full)
    late = [sum(late_in(view, summary, at, at + length, length)) for at in starts]
    return [Made(Slices.of(starts, [len(full[at]) for at in starts], late), packed(full))]


def late_in(view: View, summary: str, start: int, end: int, below: int) -> list[int]:
    """Late events of the pieces that `gather` reads."""
    return [
        piece.slices.between(at, at + length).late_count
        for length, at in read_in_turn(view, summary, start, end, below)
        for piece in view.pieces(summary, length, at, at + length)
    ]


def roll(ledger: View, writer: Any, summary: str, length: int, start: int, slices: int = 1) -> None:
    """Make rollups as an assembler would."""
    until = start + slices * length
    writer.roll_up(summary, length, start, until, made_of(ledger, summary, length, start, until))


def compacted(view: View, pieces: Sequence[Piece]) -> Made:
    """One piece that holds what these hold."""
    whole: dict[int, list[int]] = {}
    late: Counter[int] = Counter()
    for start, event in events_of(view, pieces):
        whole.setdefault(start, []).append(event)
    for piece in pieces:
        for start, number in zip(piece.slices.starts, piece.slices.late, strict=True):
            late[int(start)] += int(number)
    counted = slices_of(whole)
    return Made(
        Slices.of(counted.starts, counted.events, [late[at] for at in sorted(whole)]), packed(whole)
    )
