"""What an in-memory ledger holds: plain dicts, and reading them."""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muntin.ledger.records import (
    ClosedWindow,
    Command,
    Coverage,
    Piece,
    PipelineInfo,
    Rejected,
    TrendPoint,
)
from muntin.ledger.rollups import Rollups
from muntin.ledger.rules import check_limit, time_range

Slots = dict[int, tuple[Piece, ...]]


@dataclass(slots=True)
class Shelf:
    """The pieces of one summary and length, by slice."""

    starts: list[int] = field(default_factory=list)
    slots: Slots = field(default_factory=dict)
    provisional: set[int] = field(default_factory=set)
    """Ids of provisional pieces."""
    left: set[int] = field(default_factory=set)
    """Ids of pieces that do not merge with the others of their slice."""

    def copy(self) -> Shelf:
        return Shelf(list(self.starts), dict(self.slots), set(self.provisional), set(self.left))

    def leave(self, start: int, ids: Collection[int]) -> None:
        """Pieces of a slice that are not to be compacted."""
        there = {piece.id for piece in self.slots.get(start, ())} & set(ids)
        self.provisional -= there
        if len(self.slots.get(start, ())) > 1:
            self.left |= there

    def put(self, start: int, pieces: tuple[Piece, ...]) -> None:
        """Replace a slice's pieces; it disappears where there are none."""
        if self.provisional or self.left:
            gone = {piece.id for piece in self.slots.get(start, ())} - {p.id for p in pieces}
            self.provisional -= gone
            self.left -= gone
        if pieces and start not in self.slots:
            insort(self.starts, start)
        elif not pieces and start in self.slots:
            del self.starts[bisect_left(self.starts, start)]
        if pieces:
            self.slots[start] = pieces
        else:
            self.slots.pop(start, None)

    def between(self, start: int | None, end: int | None) -> list[int]:
        low = 0 if start is None else bisect_left(self.starts, start)
        high = len(self.starts) if end is None else bisect_left(self.starts, end)
        return self.starts[low:high]

    def drop(self, before: int) -> int:
        """Remove the slices that start before a time; how many pieces went."""
        count = bisect_left(self.starts, before)
        gone = [piece.id for start in self.starts[:count] for piece in self.slots.pop(start)]
        del self.starts[:count]
        self.provisional.difference_update(gone)
        self.left.difference_update(gone)
        return len(gone)

    def is_crowded(self, start: int) -> bool:
        """Has the slice more pieces than must be, or a provisional one?"""
        pieces = self.slots[start]
        several = len(pieces) > 1 and any(piece.id not in self.left for piece in pieces)
        return several or any(piece.id in self.provisional for piece in pieces)


@dataclass(slots=True)
class Pipeline:
    """One pipeline; documents are JSON text, as in the other ledgers."""

    name: str
    spec: str
    pane_us: int
    epoch: int = 0
    info: PipelineInfo | None = None
    batches: dict[str, set[int]] = field(default_factory=dict)
    rejected: dict[int, tuple[int, Rejected]] = field(default_factory=dict)
    """Number -> (committed at, record)."""
    rejected_number: int = 0
    assembler: str | None = None
    status: str | None = None

    def copy(self) -> Pipeline:
        return replace(
            self,
            batches={query: set(there) for query, there in self.batches.items()},
            rejected=dict(self.rejected),
        )


@dataclass(slots=True)
class Tables:
    """All that an in-memory ledger holds."""

    version: int = 0
    next_piece: int = 1
    next_command: int = 1
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    names: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """(role, name) -> (pipeline, kind)."""
    shelves: dict[tuple[str, int], Shelf] = field(default_factory=dict)
    states: dict[str, dict[int, bytes]] = field(default_factory=dict)
    rollups: dict[str, Rollups] = field(default_factory=dict)
    windows: dict[tuple[str, int], dict[int, tuple[ClosedWindow, str]]] = field(
        default_factory=dict
    )
    """(summary, start) -> revision -> window and its fill as JSON."""
    closings: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    """Number -> (summary, start, revision), in order."""
    next_closing: int = 1
    closings_dropped: int = 0
    generation: int = 0
    trends: dict[tuple[str, int], dict[int, TrendPoint]] = field(default_factory=dict)
    commands: dict[int, tuple[Command, str, str | None]] = field(default_factory=dict)
    """Id -> command, its arguments and answer as JSON."""

    def copy(self) -> Tables:
        """A copy that later writes do not reach; payloads are shared."""
        return Tables(
            self.version,
            self.next_piece,
            self.next_command,
            {name: pipeline.copy() for name, pipeline in self.pipelines.items()},
            dict(self.names),
            {key: shelf.copy() for key, shelf in self.shelves.items()},
            {summary: dict(shards) for summary, shards in self.states.items()},
            {summary: rollups.copy() for summary, rollups in self.rollups.items()},
            {key: dict(revisions) for key, revisions in self.windows.items()},
            dict(self.closings),
            self.next_closing,
            self.closings_dropped,
            self.generation,
            {key: dict(revisions) for key, revisions in self.trends.items()},
            dict(self.commands),
        )

    def note_closing(self, summary: str, start: int, revision: int) -> None:
        """Give a window that is stored the next number."""
        self.closings[self.next_closing] = (summary, start, revision)
        self.next_closing += 1

    def drop_closings(self, *, gone: bool) -> None:
        """Forget those whose window is not there any more, or has a newer closing.

        `gone`: readers are to be told that some are missing.
        """
        newest = {window: number for number, window in self.closings.items()}
        for number, (summary, start, revision) in list(self.closings.items()):
            there = revision in self.windows.get((summary, start), {})
            if not there or newest[summary, start, revision] != number:
                del self.closings[number]
                if gone and not there:
                    self.closings_dropped = max(self.closings_dropped, number)

    def shelf(self, summary: str, length: int) -> Shelf:
        """The shelf to read; an empty one where there is none."""
        return self.shelves.get((summary, length)) or Shelf()


class TablesView:
    """The reading methods over tables that do not change meanwhile."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def version(self) -> int:
        return self._tables.version

    def pipelines(self) -> list[PipelineInfo]:
        return [
            replace(pipeline.info, spec=json.loads(pipeline.spec), epoch=pipeline.epoch)
            for _, pipeline in sorted(self._tables.pipelines.items())
            if pipeline.info is not None
        ]

    def assembler(self, pipeline: str) -> Mapping[str, Any] | None:
        found = self._tables.pipelines.get(pipeline)
        return json.loads(found.assembler) if found and found.assembler is not None else None

    def status(self, pipeline: str) -> Mapping[str, Any] | None:
        found = self._tables.pipelines.get(pipeline)
        return json.loads(found.status) if found and found.status is not None else None

    def pieces(
        self, summary: str, length: int, start: int, end: int, *, limit: int | None = None
    ) -> list[Piece]:
        shelf = self._tables.shelf(summary, length)
        found = [piece for at in shelf.between(start, end) for piece in shelf.slots[at]]
        return found if limit is None else found[: check_limit(limit)]

    def spans(
        self, summary: str, length: int, start: int | None = None, end: int | None = None
    ) -> list[tuple[int, int, int]]:
        shelf = self._tables.shelf(summary, length)
        return [
            (at, sum(piece.events for piece in shelf.slots[at]), len(shelf.slots[at]))
            for at in shelf.between(start, end)
        ]

    def bounds(self, summary: str, length: int) -> tuple[int, int] | None:
        starts = self._tables.shelf(summary, length).starts
        return (starts[0], starts[-1] + length) if starts else None

    def crowded(self, summary: str, length: int, before: int, *, limit: int = 1000) -> list[int]:
        shelf = self._tables.shelf(summary, length)
        sealed = shelf.between(None, before - length + 1)
        return [at for at in sealed if shelf.is_crowded(at)][: check_limit(limit)]

    def states(self, summary: str) -> dict[int, bytes]:
        return dict(sorted(self._tables.states.get(summary, {}).items()))

    def coverage(self, summary: str) -> list[Coverage]:
        rollups = self._tables.rollups.get(summary)
        return rollups.coverage() if rollups else []

    def horizon(self, summary: str, length: int) -> int | None:
        rollups = self._tables.rollups.get(summary)
        return rollups.dropped.get(length) if rollups else None

    def windows(
        self,
        summary: str | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
        limit: int = 1000,
        newest_first: bool = False,
        revisions: bool = False,
    ) -> list[ClosedWindow]:
        low, high = time_range(start, end)
        found = [
            (window.start, window.summary, window.revision, window, fill)
            for (owner, at), kept in self._tables.windows.items()
            if summary in (None, owner) and low <= at < high
            for window, fill in _chosen(kept, revisions)
        ]
        found.sort(key=lambda entry: entry[:3], reverse=newest_first)
        return [
            replace(window, fill=json.loads(fill))
            for *_, window, fill in found[: check_limit(limit)]
        ]

    def generation(self) -> int:
        return self._tables.generation

    def last_closing(self) -> int:
        return self._tables.next_closing - 1

    def closings_dropped(self) -> int:
        return self._tables.closings_dropped

    def closings(
        self, after: int, *, until: int | None = None, limit: int = 1000
    ) -> list[tuple[int, ClosedWindow]]:
        found = []
        for number, (summary, start, revision) in self._tables.closings.items():
            kept = self._tables.windows[summary, start]
            if number > after and (until is None or number <= until) and revision == max(kept):
                window, fill = kept[revision]
                found.append((number, replace(window, fill=json.loads(fill))))
        return found[: check_limit(limit)]

    def trend(
        self,
        query: str,
        *,
        start: int | None = None,
        end: int | None = None,
        limit: int = 1000,
        newest_first: bool = False,
        revisions: bool = False,
    ) -> list[TrendPoint]:
        low, high = time_range(start, end)
        found = [
            point
            for (owner, at), kept in self._tables.trends.items()
            if owner == query and low <= at < high
            for point in _chosen(kept, revisions)
        ]
        found.sort(key=lambda point: (point.start, point.revision), reverse=newest_first)
        return found[: check_limit(limit)]

    def commands(self, pipeline: str, *, waiting: bool = True) -> list[Command]:
        return [
            _parsed(*entry)
            for _, entry in sorted(self._tables.commands.items())
            if entry[0].pipeline == pipeline and not (waiting and entry[2] is not None)
        ]

    def command(self, identifier: int) -> Command | None:
        entry = self._tables.commands.get(identifier)
        return _parsed(*entry) if entry else None

    def rejected(
        self, pipeline: str, *, limit: int = 100, after: int = 0
    ) -> Iterator[tuple[int, Rejected]]:
        found = self._tables.pipelines.get(pipeline)
        kept = found.rejected if found else {}
        numbers = [number for number in kept if number > after][: check_limit(limit)]
        return iter([(number, kept[number][1]) for number in numbers])


def _chosen(kept: Mapping[int, Any], revisions: bool) -> Iterable[Any]:
    return kept.values() if revisions or not kept else [kept[max(kept)]]


def _parsed(command: Command, arguments: str, answer: str | None) -> Command:
    return replace(
        command,
        arguments=json.loads(arguments),
        answer=None if answer is None else json.loads(answer),
    )
