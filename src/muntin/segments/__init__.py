"""The states of many panes and keys as columns: what a summary of a stream is made of.

A **segment** is an immutable table of one summary's states over a run of slices: rows (slice, key)
-> events, state. A kind of summary is an `Algebra`: fold, merge, check and answer over columns.
Grouping, keys, rollups, windows, limits, bytes and shards are written once, for all kinds.

Imports nothing but summaries and errors: no Spark, no ledger, no files, no clock.
"""

from muntin.segments.algebra import Algebra as Algebra
from muntin.segments.algebra import Shape as Shape
from muntin.segments.building import WHOLE as WHOLE
from muntin.segments.building import build as build
from muntin.segments.building import merge as merge
from muntin.segments.building import subtract as subtract
from muntin.segments.codec import Index as Index
from muntin.segments.codec import cut as cut
from muntin.segments.codec import decode as decode
from muntin.segments.codec import encode as encode
from muntin.segments.codec import read_index as read_index
from muntin.segments.shards import split as split
from muntin.segments.table import Segment as Segment
from muntin.segments.table import Table as Table
