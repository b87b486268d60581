"""Merged summaries of any run of panes, read from a ledger through its rollups, with a cache."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Self, cast

from muntin.errors import LedgerError, MuntinError
from muntin.kinds import SummarySpec
from muntin.ledger.base import View
from muntin.ledger.records import Piece
from muntin.reading.held import Held, Layout, Reach
from muntin.times import duration_text, instant_text

CACHE_BYTES = 256 << 20
SLICES_AT_ONCE = 256  # read together, so that a year of panes is neither one query nor 8,760

Span = tuple[int, int, int]
"""Start, events, number of pieces."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A summary of a run of panes. Shared: whoever changes it makes a copy first."""

    summary: Any
    events: int
    late: int
    token: Hashable
    """Equal tokens, equal content."""
    problem: MuntinError | None = field(default=None, kw_only=True)
    """Why there is no summary: a part of it is marked, or a sum leaves its range."""

    def usable(self) -> Self:
        """Itself.

        Raises
        ------
        MuntinError
            `problem`.
        """
        if self.problem is not None:
            raise self.problem
        return self


@dataclass(frozen=True, slots=True)
class Slice(Merged):
    """One stored slice: a pane or a rollup."""

    start: int
    ids: tuple[int, ...]
    """Of the pieces that it was read from."""


class Panes:
    """Reads panes. Thread-safe; what it returns is shared and must not be changed.

    Parameters
    ----------
    view : View
        A ledger, or a snapshot of one: what is answered from several reads at once needs one.
    """

    def __init__(self, view: View, cache_bytes: int = CACHE_BYTES) -> None:
        self._view = view
        self._cache = _Cache(cache_bytes)

    def at(self, view: View) -> Panes:
        """The same of another moment; what was merged is shared."""
        other = Panes(view, 0)
        other._cache = self._cache
        return other

    def merged(self, layout: Layout, start: int, end: int, generation: Hashable = 0) -> Merged:
        """The summary of what is held of [start, end), both multiples of the pane.

        `generation` tells contents apart that were overwritten; a pipeline's epoch will do.
        """
        return self.merged_runs(layout, self.held(layout).reach(start, end), generation)

    def merged_runs(self, layout: Layout, reach: Reach, generation: Hashable = 0) -> Merged:
        """The summary of exactly the slices of a reach."""
        token, _ = self._stored(layout, reach, generation)
        found = self._cache.get(token)
        if found is not None:
            return found
        parts, events, late = [], 0, 0
        for length, first, until in reach.runs:
            for piece in self.each_slice(layout, length, first, until, generation):
                parts.append(piece.usable().summary)
                events += piece.events
                late += piece.late
        summary = _merged(layout.spec, parts)
        result = Merged(summary, events, late, token)
        self._cache.put(token, result, summary.nbytes)
        return result

    def window(self, layout: Layout, start: int, end: int, generation: Hashable = 0) -> Merged:
        """As `merged`; where the parts do not merge, what says so takes the summary's place."""
        reach = self.held(layout).reach(start, end)
        try:
            return self.merged_runs(layout, reach, generation)
        except LedgerError:
            raise
        except MuntinError as problem:
            found = problem
        events = late = 0
        token, _ = self._stored(layout, reach, generation)
        for length, first, until in reach.runs:
            for piece in self.each_slice(layout, length, first, until, generation):
                events += piece.events
                late += piece.late
        return Merged(None, events, late, token, problem=found)

    def slid(
        self, layout: Layout, before: Merged, span: tuple[int, int], start: int, end: int
    ) -> Merged | None:
        """As `merged`, from that of an overlapping `span` which began and ended earlier.

        The panes that left are subtracted, and those that came are added. None where that cannot
        be done: retention has dropped a pane that left, or the kind cannot subtract.
        """
        if before.problem is not None:
            return None
        summary = before.summary.copy()
        events, late = before.events, before.late
        try:
            for piece in self.each_slice(layout, layout.pane, span[0], start):
                summary.subtract(piece.usable().summary)
                events -= piece.events
                late -= piece.late
            for piece in self.each_slice(layout, layout.pane, span[1], end):
                layout.spec.merge_into(summary, piece.usable().summary)
                events += piece.events
                late += piece.late
        except LedgerError:
            raise
        except MuntinError:
            return None
        token, stored = self._stored(layout, self.held(layout).reach(start, end), 0)
        return Merged(summary, events, late, token) if events == stored else None

    def _stored(self, layout: Layout, reach: Reach, generation: Hashable) -> tuple[Hashable, int]:
        """A token of the content of the slices, and their events."""
        held = tuple(
            (length, *span)
            for length, first, until in reach.runs
            for span in self._view.spans(layout.name, length, first, until)
        )
        return (layout.name, generation, held), sum(events for _, _, events, _ in held)

    def counted_since(
        self, layout: Layout, reach: Reach, generation: Hashable = 0
    ) -> dict[Any, int]:
        """Key or indicator -> from where on it has counted all events of the slices.

        Of those that lack some, and not of one that lacks some of the newest slice.
        """
        since: dict[Hashable, int] = {}
        never: set[Hashable] = set()
        for length, first, until in reach.runs:
            for piece in self.each_slice(layout, length, first, until, generation):
                lacking = layout.spec.uncounted(piece.usable().summary)
                never = set(lacking)
                since |= dict.fromkeys(lacking, piece.start + length)
        return {part: start for part, start in since.items() if part not in never}

    def each_pane(
        self, layout: Layout, start: int, end: int, generation: Hashable = 0
    ) -> Iterator[tuple[int, Merged]]:
        """(pane start, its summary) of the panes in [start, end) that hold events, in order."""
        for piece in self.each_slice(layout, layout.pane, start, end, generation):
            yield piece.start, piece

    def each_slice(
        self,
        layout: Layout,
        length: int,
        start: int,
        end: int,
        generation: Hashable = 0,
        *,
        fresh: bool = False,
    ) -> Iterator[Slice]:
        """The slices of one length in [start, end) that hold events, in order.

        The `ids` of a slice from the cache may be those from before it was compacted; `fresh` ones
        are what the ledger holds now.
        """
        spans = self._view.spans(layout.name, length, start, end)
        for at in range(0, len(spans), SLICES_AT_ONCE):
            part = spans[at : at + SLICES_AT_ONCE]
            yield from self._read(layout, length, part, generation, fresh=fresh)

    def held(self, layout: Layout) -> Held:
        """What there is to read."""
        return Held(self._view, layout)

    def bounds(self, layout: Layout) -> tuple[int, int] | None:
        """Start of the first and end of the last slice that is held, or None: nothing is."""
        return self.held(layout).bounds

    def newest(self, layout: Layout, generation: Hashable = 0) -> Any:
        """The summary of the newest slice that is held; where there is none, a new one."""
        for length in (layout.pane, *layout.rungs):
            bounds = self._view.bounds(layout.name, length)
            if bounds is not None:
                end = bounds[1]
                for piece in self.each_slice(layout, length, end - length, end, generation):
                    return piece.summary
        return layout.spec.new()

    def starts(self, layout: Layout, start: int, end: int) -> list[int]:
        """Starts of the panes in [start, end) that hold events."""
        return [span[0] for span in self._view.spans(layout.name, layout.pane, start, end)]

    def _read(
        self, layout: Layout, length: int, spans: list[Span], generation: Hashable, *, fresh: bool
    ) -> Iterator[Slice]:
        """Slices from the cache where they are there, the others in one read of the ledger."""
        tokens = [(layout.name, generation, length, *span) for span in spans]
        found: dict[int, Slice | None] = {
            token[3]: None if fresh else cast("Slice | None", self._cache.get(token))
            for token in tokens
        }
        missing = [start for start, piece in found.items() if piece is None]
        if missing:
            stored = self._view.pieces(layout.name, length, missing[0], missing[-1] + length)
            by_start = {
                start: list(pieces) for start, pieces in groupby(stored, key=lambda p: p.start)
            }
            for token in tokens:
                start = token[3]
                pieces = by_start.get(start)
                if found[start] is not None or not pieces:  # or dropped by retention in between
                    continue
                summary, problem = _read_together(layout, pieces)
                piece = Slice(
                    summary=summary,
                    events=sum(piece.events for piece in pieces),
                    late=sum(piece.late for piece in pieces),
                    token=token,
                    start=start,
                    ids=tuple(piece.id for piece in pieces),
                    problem=problem,
                )
                if problem is None:
                    self._cache.put(token, piece, summary.nbytes)
                found[start] = piece
        yield from (piece for piece in found.values() if piece is not None)


def _read_together(layout: Layout, pieces: list[Piece]) -> tuple[Any, MuntinError | None]:
    """The summary of one slice's pieces, or what stands against it, with the slice's name."""
    try:
        read = [layout.read(piece.payload) for piece in pieces]
        return (read[0] if len(read) == 1 else layout.spec.merged(read)), None
    except LedgerError:
        raise
    except MuntinError as problem:
        at = instant_text(pieces[0].start)
        length = duration_text(pieces[0].length)
        return None, type(problem)(f"{layout.name}, {length} from {at}: {problem}")


def _merged(spec: SummarySpec, parts: list[Any]) -> Any:
    """One summary of all parts; shared where there is only one."""
    if not parts:
        return spec.new()
    return parts[0] if len(parts) == 1 else spec.merged(parts)


class _Cache:
    """Least recently used, bounded by the bytes that the summaries hold."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._held: OrderedDict[Hashable, tuple[Merged, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, token: Hashable) -> Merged | None:
        with self._lock:
            entry = self._held.get(token)
            if entry is None:
                return None
            self._held.move_to_end(token)
            return entry[0]

    def put(self, token: Hashable, merged: Merged, size: int) -> None:
        if size > self._bytes_max:
            return
        with self._lock:
            old = self._held.pop(token, None)
            self._bytes += size - (old[1] if old else 0)
            self._held[token] = (merged, size)
            while self._bytes > self._bytes_max:
                _, (_, freed) = self._held.popitem(last=False)
                self._bytes -= freed
