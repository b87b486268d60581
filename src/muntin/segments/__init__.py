"""The states of many panes and keys as columns: what a summary of a stream is made of.

A **segment** is an immutable table of one summary's states over a run of slices: rows (slice, key)
-> events, state. A kind of summary is an `Algebra`: fold, merge, check and answer over columns.
Grouping, keys, rollups, windows, limits, bytes and shards are written once, for all kinds.

Imports nothing but summaries and errors: no Spark, no ledger, no files, no clock.
"""

from muntin.segments.algebra import Algebra, Shape
from muntin.segments.building import WHOLE, build, merge, subtract
from muntin.segments.codec import Index, cut, decode, encode, read_index
from muntin.segments.shards import split
from muntin.segments.table import Segment, Table

__all__ = [
    "WHOLE",
    "Algebra",
    "Index",
    "Segment",
    "Shape",
    "Table",
    "build",
    "cut",
    "decode",
    "encode",
    "merge",
    "read_index",
    "split",
    "subtract",
]
