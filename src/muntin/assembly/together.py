"""Merging the parts of a slice into as few pieces as there can be.

Nearly always that is one. Where a sum would leave its range, or a piece would be larger than a
ledger takes, the slice stays in several: nothing is lost, and answers that need it merge them on
the fly, or say why they cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muntin.errors import LedgerError, MuntinError
from muntin.kinds.marked import is_marked
from muntin.ledger.records import PAYLOAD_BYTES_MAX, Piece
from muntin.reading.panes import Layout


@dataclass(frozen=True, slots=True)
class Part:
    """Some events of a slice: a payload, or a summary that was read already."""

    events: int
    late: int
    ids: tuple[int, ...]
    """Of the pieces that it was read from."""
    payload: bytes | None
    summary: Any = None

    @classmethod
    def of(cls, piece: Piece) -> Part:
        return cls(piece.events, piece.late, (piece.id,), piece.payload)


@dataclass(frozen=True, slots=True)
class Made:
    """One piece to store."""

    events: int
    late: int
    ids: tuple[int, ...]
    payload: bytes


def put_together(layout: Layout, parts: Sequence[Part]) -> list[Made]:
    """As few pieces as merging in halves gives. One marked part marks all: nobody can read it."""
    if not parts:
        return []
    marked = next((p.payload for p in parts if p.payload and is_marked(p.payload)), None)
    if marked is not None:
        return [_made(parts, marked)]
    try:
        read = [p.summary if p.payload is None else layout.read(p.payload) for p in parts]
        payload = layout.spec.merged(read).to_bytes()
    except LedgerError:
        raise
    except MuntinError:
        payload = None
    if payload is not None and len(payload) <= PAYLOAD_BYTES_MAX:
        return [_made(parts, payload)]
    if len(parts) == 1:
        stored = parts[0].payload
        return [_made(parts, parts[0].summary.to_bytes() if stored is None else stored)]
    middle = len(parts) // 2
    return put_together(layout, parts[:middle]) + put_together(layout, parts[middle:])


def _made(parts: Sequence[Part], payload: bytes) -> Made:
    return Made(
        sum(part.events for part in parts),
        sum(part.late for part in parts),
        tuple(identifier for part in parts for identifier in part.ids),
        payload,
    )
