"""A segment whose slices become others: panes become windows, all in one merge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muntin.segments.building import merge_tables
from muntin.segments.columns import frozen
from muntin.segments.table import Segment


def relabelled(segment: Segment, labels: np.ndarray) -> Segment:
    """The segment with slices of new numbers; slices of one number merge.

    Parameters
    ----------
    labels : int64[slices]
        Not descending.
    """
    found, at = np.unique(labels, return_inverse=True)
    events = np.zeros(len(found), np.int64)
    np.add.at(events, at, segment.events)
    tables = []
    for table in segment.tables:
        new = labels[np.searchsorted(segment.slices, table.slices)]
        moved = replace(table, slices=frozen(new))
        if len(np.unique(new)) < len(new):
            moved = merge_tables(segment.algebra, [moved], 1, segment.limit)
        tables.append(moved)
    return replace(segment, slices=frozen(found), events=frozen(events), tables=tuple(tables))
