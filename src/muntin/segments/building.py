"""Segments from events, from segments, and less segments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, IncompatibleSummary, SummaryOverflow
from muntin.segments.algebra import Algebra
from muntin.segments.checks import EVENTS_MAX
from muntin.segments.columns import Ragged, States, concat, frozen, take
from muntin.segments.grouping import Groups, as_slices, counted, group, limited, sums_of
from muntin.segments.keys import NO_KEY, Encoded, Keys, union
from muntin.segments.table import Segment, Table, check_same
from muntin.sets import sums_of_set

WHOLE = 0  # `merge(..., step=WHOLE)`: all slices become slice 0


def build(
    algebra: Algebra,
    slices: np.ndarray,
    values: Sequence[pa.Array],
    keys: Sequence[tuple[str, ...]] = ((),),
    columns: Mapping[str, pa.Array] | None = None,
    limit: int | None = None,
) -> Segment:
    """The segment of a batch of events.

    Parameters
    ----------
    algebra : Algebra
        The kind and its parameters.
    slices : int64[n]
        Number of each event's slice.
    values : arrays [n]
        What the kind's `fold` takes.
    keys : sequence of tuples of names
        One table for each; () is the empty key. A merge has them `sorted`, whatever came first.
    columns : mapping of name -> array [n]
        The columns that keys name.
    limit : int, optional
        Keys kept a slice; those beyond are summarised together. See `limited`.

    Raises
    ------
    BadArgument
        Columns are missing, differ in length, or are of types that cannot be used.
    """
    slices = as_slices(slices)
    n = len(slices)
    columns = columns or {}
    for array in (*values, *columns.values()):
        if len(array) != n:
            raise BadArgument(f"a column has {len(array)} rows, there are {n} slices")
    algebra = algebra.fitted(values)
    encoded = Encoded(columns)
    read, items = algebra.prepared(values)
    tables = []
    for by in keys:
        named, numbers = encoded.keys(by, n)
        if algebra.keys_are_items:
            whole = NO_KEY, np.zeros(n, np.int64), None
            tables.append(_fold(algebra, slices, [frozen(numbers), *read], named, *whole))
        else:
            tables.append(_fold(algebra, slices, read, items, named, numbers, limit))
    kept = tuple(table for table in tables if len(table))
    return Segment(algebra, *counted(slices), kept, limit)


def _fold(
    algebra: Algebra,
    slices: np.ndarray,
    values: Sequence[Any],
    items: Keys | None,
    keys: Keys,
    numbers: np.ndarray,
    limit: int | None,
) -> Table:
    found = group(slices, numbers, len(keys))
    if limit is not None:
        found = limited(found, limit, len(keys))
    table = Table(
        keys=keys,
        slices=found.slices,
        starts=found.starts,
        key=found.keys,
        events=frozen(np.diff(found.groups.bounds)),
        states=algebra.fold(values, found.groups, items),
        items=items,
    )
    return table.with_used_keys()


def merge(segments: Sequence[Segment], step: int = 1) -> Segment:
    """The segment of the events of all.

    Parameters
    ----------
    segments : at least one
        Their order matters only to the bytes of kinds that are not `order_free`.
    step : int
        1: slices stay. m > 1: slice s becomes s // m, as a rollup does. `WHOLE`: slice 0.

    Raises
    ------
    IncompatibleSummary
        Other kinds, parameters, limits or types of keys.
    SummaryOverflow
        More events than there can be: kernels have no room for what so many would make.
    """
    if not segments:
        raise BadArgument("merge() of nothing: give at least one segment")
    if step < 0:
        raise BadArgument(f"step={step}: give 1, the slices of a longer one, or WHOLE")
    first = segments[0]
    if len(segments) == 1 and step == 1:
        return first
    algebra = first.algebra
    for segment in segments[1:]:
        check_same(first, segment)
        if segment.algebra is not algebra:
            algebra = algebra.united(segment.algebra)
    # in one order, whichever came first: not each shard has all
    names = sorted({t.name(s.algebra) for s in segments for t in s.tables})
    tables = []
    for by in names:
        parts = [(s.algebra, table) for s in segments if (table := s.table(by)) is not None]
        alike = [
            table if one == algebra else replace(table, states=one.adapted(table, algebra))
            for one, table in parts
        ]
        tables.append(merge_tables(algebra, alike, step, first.limit))
    slices = _stepped(np.concatenate([segment.slices for segment in segments]), step)
    events = np.concatenate([segment.events for segment in segments])
    found, totals = map(frozen, sums_of_set(slices, events))
    shards = {segment.shard for segment in segments}
    shard = shards.pop() if len(shards) == 1 else 0
    return Segment(algebra, found, totals, tuple(tables), first.limit, shard)


def _stepped(slices: np.ndarray, step: int) -> np.ndarray:
    if step == 1:
        return slices
    return np.zeros_like(slices) if step == WHOLE else slices // step


def merge_tables(algebra: Algebra, parts: list[Table], step: int, limit: int | None) -> Table:
    whole = joined(parts)
    if whole.events.sum(dtype=np.float64) > EVENTS_MAX:
        raise SummaryOverflow(f"{algebra.kind}: more than {EVENTS_MAX:,} events in one merge")
    slices = _stepped(whole.slice_of_row, step)
    found = group(slices, whole.key, len(whole.keys))
    if limit is not None:
        found = limited(found, limit, len(whole.keys))
    groups = found.groups
    if groups.size == len(whole):  # nothing to merge: rows are only brought into order
        states = {name: take(column, groups.order) for name, column in whole.states.items()}
        events = whole.events[groups.order]
    else:
        states = algebra.merge(whole.states, groups, whole.items)
        events = sums_of(whole.events, groups)
    table = replace(
        whole,
        slices=found.slices,
        starts=found.starts,
        key=found.keys,
        events=frozen(events),
        states=states,
    )
    return table.with_used_keys()


def totals(algebra: Algebra, table: Table) -> Table:
    """The rows of each slice as one, of the empty key."""
    groups = Groups(frozen(np.arange(len(table))), table.starts)
    states = algebra.merge(table.states, groups, table.items)
    starts = frozen(np.arange(len(table.slices) + 1))
    events = frozen(np.diff(np.concatenate(([0], np.cumsum(table.events)))[table.starts]))
    return Table(
        NO_KEY, table.slices, starts, np.zeros_like(table.slices), events, states, table.items
    )


def joined(parts: Sequence[Table]) -> Table:
    """The rows of several tables of one key, one after the other: not in order, not merged."""
    if len(parts) == 1:
        return parts[0]
    keys, numbers = union([part.keys for part in parts])
    rest = np.int64(len(keys))
    key = [np.append(to, rest)[part.key] for part, to in zip(parts, numbers, strict=True)]
    items, states = None, [part.states for part in parts]
    if parts[0].items is not None:
        known = [part.items for part in parts if part.items is not None]
        items, item_numbers = union(known)
        states = [_renumbered(one, to) for one, to in zip(states, item_numbers, strict=True)]
    sizes = [len(part) for part in parts]
    names = list(dict.fromkeys(name for one in states for name in one))
    slices = np.concatenate([part.slices for part in parts])
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    return Table(
        keys=keys,
        slices=slices,
        starts=np.concatenate(([0], np.cumsum(lengths))),
        key=np.concatenate(key),
        events=np.concatenate([part.events for part in parts]),
        states={name: concat([one.get(name) for one in states], sizes) for name in names},
        items=items,
    )


def _renumbered(states: States, to: np.ndarray) -> States:
    column = states["item"]
    if not isinstance(column, Ragged):
        return states
    return {**states, "item": Ragged(column.starts, frozen(to[column.items]))}


def subtract(whole: Segment, part: Segment) -> Segment:
    """The events of `whole` that are not in `part`, slice by slice: a merge with less than nothing.
    Raises IncompatibleSummary: the kind cannot, or `part` holds what `whole` does not. A limit
    hides which keys are in the rest, so that there is nothing to subtract with one."""
    algebra = whole.algebra
    if algebra != part.algebra or whole.limit is not None:
        raise IncompatibleSummary("only segments of the same parameters, without a limit, subtract")
    less = [
        replace(table, events=frozen(-table.events), states=algebra.negated(table.states))
        for table in part.tables
    ]
    both = merge([whole, replace(part, events=frozen(-part.events), tables=tuple(less))])
    if any((one.events < 0).any() for one in (both, *both.tables)):
        raise IncompatibleSummary("a segment cannot take away events that it does not have")
    left = [replace(table, states=algebra.remainder(table)) for table in both.tables]
    kept = [
        table.rows_at(np.flatnonzero(table.events)).with_used_keys()
        for table in left
        if table.events.any()
    ]
    there = np.flatnonzero(both.events)
    slices, events = frozen(both.slices[there]), frozen(both.events[there])
    return replace(both, slices=slices, events=events, tables=tuple(kept))


def relabelled(segment: Segment, labels: np.ndarray, at: np.ndarray | None = None) -> Segment:
    """The segment with slices of new numbers; slices of one number merge.

    Parameters
    ----------
    labels : int64[n]
    at : int64[n], optional
        The slices that `labels` number, by their places; one may stand there again and again.
    """
    at = np.arange(len(segment.slices)) if at is None else at
    found, events = map(frozen, sums_of_set(labels, segment.events[at]))
    tables = []
    for table in segment.tables:
        own = np.full(len(segment.slices), -1)
        own[np.searchsorted(segment.slices, table.slices)] = np.arange(len(table.slices))
        there = np.flatnonzero(own[at] >= 0)
        moved = table.repeated(own[at][there], labels[there])
        tables.append(merge_tables(segment.algebra, [moved], 1, segment.limit))
    kept = tuple(table for table in tables if len(table))
    return replace(segment, slices=found, events=events, tables=kept)


T = TypeVar("T")


def meeting(
    parts: Sequence[T], slices: Callable[[T], np.ndarray], nbytes: Callable[[T], int], small: int
) -> list[list[T]]:
    """Groups, in the order of time, that share no time with each other.

    Parts that reach into each other's time are in one group, and so are neighbours of at most
    `small` bytes together. `slices`: those of a part, ascending, of which there is one at least.
    """
    groups: list[list[T]] = []
    size = until = 0
    for part in sorted(parts, key=lambda part: int(slices(part)[0])):
        within = slices(part)
        if not groups or (within[0] >= until and size + nbytes(part) > small):
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += nbytes(part)
        until = max(until, int(within[-1]) + 1)
    return groups
