"""What the ledger's tests share: specs, batches of numbered events, and a reference reader."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from muntin.ledger import Batch, Partial, Piece, View

PANE = 10
SPEC: dict[str, Any] = {
    "pane_us": PANE,
    "summaries": {"s": {"kind": "vector_matrix"}, "t": {"kind": "kll"}},
    "queries": {"q": {"select": "SELECT 1"}},
}


def pack_ids(ids: Iterable[int]) -> bytes:
    """A payload that says which events it holds."""
    return json.dumps(sorted(ids)).encode()


def ids_of(pieces: Iterable[Piece]) -> Counter[int]:
    return Counter(event for piece in pieces for event in json.loads(piece.payload))


def partial(summary: str, pane: int, ids: Sequence[int]) -> Partial:
    return Partial(summary, pane, len(ids), pack_ids(ids))


def batch(number: int, *partials: Partial, query: str = "A", **more: Any) -> Batch:
    """A batch whose counts fit to its partials (each summary sees the same events)."""
    sums: Counter[str] = Counter()
    for one in partials:
        sums[one.summary] += one.events
    counted = max(sums.values(), default=0)
    more.setdefault("read", counted + more.get("rejected_count", 0))
    return Batch(query, number, partials, counted=counted, **more)


def merged(pieces: Sequence[Piece]) -> tuple[int, int, bytes] | None:
    """(events, late, payload) of pieces together; None of none."""
    if not pieces:
        return None
    return (
        sum(piece.events for piece in pieces),
        sum(piece.late for piece in pieces),
        pack_ids(ids_of(pieces).elements()),
    )


def gather(view: View, summary: str, start: int, end: int, below: int | None = None) -> list[Piece]:
    """Reference reader: the fewest pieces that hold [start, end), from lengths under `below`."""
    levels = [c for c in reversed(view.coverage(summary)) if below is None or c.length < below]
    return _gather(view, summary, start, end, levels)


def _gather(view: View, summary: str, start: int, end: int, levels: list[Any]) -> list[Piece]:
    if start >= end:
        return []
    if not levels:
        return view.pieces(summary, PANE, start, end)
    cover, shorter = levels[0], levels[1:]
    length, found = cover.length, []
    at = start
    while at < end:
        stop = min(at - at % length + length, end)
        whole = at % length == 0 and stop - at == length
        if whole and cover.start <= at < cover.until and at not in cover.dirty:
            found += view.pieces(summary, length, at, stop)
        else:
            found += _gather(view, summary, at, stop, shorter)
        at = stop
    return found


def roll(ledger: View, writer: Any, summary: str, length: int, start: int) -> bool:
    """Make a rollup as an assembler would."""
    pieces = gather(ledger, summary, start, start + length, below=length)
    return writer.roll_up(summary, length, start, merged(pieces), [piece.id for piece in pieces])
