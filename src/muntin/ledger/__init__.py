"""The durable table of pane summaries: bytes under keys, committed once, fenced by epoch."""

from muntin.ledger.base import Ledger, View, Writer
from muntin.ledger.names import check_name
from muntin.ledger.open import open_ledger
from muntin.ledger.records import (
    Batch,
    ClosedWindow,
    Command,
    Coverage,
    Made,
    Partial,
    Piece,
    PipelineInfo,
    Rejected,
    State,
    Stored,
    TrendPoint,
)
from muntin.ledger.slices import Slices

__all__ = [
    "Batch",
    "ClosedWindow",
    "Command",
    "Coverage",
    "Ledger",
    "Made",
    "Partial",
    "Piece",
    "PipelineInfo",
    "Rejected",
    "Slices",
    "State",
    "Stored",
    "TrendPoint",
    "View",
    "Writer",
    "check_name",
    "open_ledger",
]
