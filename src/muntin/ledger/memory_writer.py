"""The writer of one pipeline in memory: checks everything, then changes; never half."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Protocol

from muntin.errors import BadArgument, LedgerError, UnknownName
from muntin.ledger.documents import (
    ASSEMBLER_BYTES_MAX,
    COMMAND_BYTES_MAX,
    FILL_BYTES_MAX,
    SPEC_BYTES_MAX,
    STATUS_BYTES_MAX,
    dump,
)
from muntin.ledger.memory_open import Opened, check_spec, store_spec
from muntin.ledger.memory_tables import Pipeline, Shelf, Tables
from muntin.ledger.records import (
    REJECTED_KEPT_MAX,
    REVISIONS_KEPT_MAX,
    WAITING_COMMANDS_MAX,
    Batch,
    ClosedWindow,
    Partial,
    Piece,
    TrendPoint,
)
from muntin.ledger.rollups import (
    Rollups,
    check_replaced,
    check_sums,
    holds_all,
    pieces_made,
    sums_of,
)
from muntin.ledger.rules import (
    ROLE_QUERY,
    ROLE_SUMMARY,
    blob,
    check_batch,
    check_query,
    check_query_id,
    check_sequence,
    check_summary,
    check_windows,
    count_late,
    fenced,
    kept_rejected,
    newer,
    read_spec,
    whole,
)


class Writing(Protocol):
    def __call__(self, *, grows: bool = True) -> AbstractContextManager[Tables]: ...


class MemoryWriter:
    """A `Writer` on the tables that `writing` lends."""

    def __init__(
        self, writing: Writing, url: str, opened: Opened, clock: Callable[[], int]
    ) -> None:
        self._lend = writing
        self._url = url
        self._opened = opened
        self._owned = opened.owned
        self._clock = clock
        self._lock = threading.RLock()
        self._closed = False

    @property
    def epoch(self) -> int:
        return self._opened.epoch

    @contextmanager
    def _writing(
        self, *, grows: bool = True, fence: bool = True
    ) -> Iterator[tuple[Tables, Pipeline]]:
        with self._lock:
            if self._closed:
                raise LedgerError(f"the writer of {self._url} was closed: open another")
            with self._lend(grows=grows) as tables:
                pipeline = tables.pipelines[self._opened.pipeline]
                if fence and pipeline.epoch != self._opened.epoch:
                    raise fenced(self._opened.pipeline, self._opened.epoch, pipeline.epoch)
                yield tables, pipeline

    def _check_summary(self, summary: str) -> None:
        check_summary(summary, self._owned, self._opened.pipeline)

    # Batches

    def last_batch(self, query_id: str) -> int | None:
        check_query_id(query_id)
        with self._writing(grows=False, fence=False) as (_, pipeline):
            return max(pipeline.batches.get(query_id, ()), default=None)

    def commit(self, batch: Batch) -> bool:
        batch = check_batch(batch, self._owned, self._opened.pipeline)
        rejected = kept_rejected(batch.rejected)
        with self._writing(grows=False) as (tables, pipeline):
            info = pipeline.info
            if info is None:
                raise LedgerError(f'pipeline "{pipeline.name}" is gone from {self._url}')
            there = pipeline.batches.get(batch.query_id, set())
            if batch.batch_id in there:
                return False
            mode = self._opened.mode
            if batch.query_id != self._opened.query_id:
                fed_by = info.query_id or self._opened.query_id
                check_query(pipeline.name, self._url, mode, batch.query_id, fed_by, bool(there))
            check_sequence(pipeline.name, mode, batch, max(there, default=None))
            late, late_total = count_late(
                batch.partials, self._owned.pane_us, info.watermark, batch.counted
            )
            late_total = max(late_total, batch.late)
            now = self._clock()
            for partial, late_events in zip(batch.partials, late, strict=True):
                self._add(tables, partial, late_events)
            for state in batch.states:
                tables.states.setdefault(state.summary, {})[state.shard] = state.payload
            for record in rejected:
                pipeline.rejected_number += 1
                pipeline.rejected[pipeline.rejected_number] = (now, record)
            for number in list(pipeline.rejected)[: -REJECTED_KEPT_MAX or None]:
                del pipeline.rejected[number]
            pipeline.batches.setdefault(batch.query_id, set()).add(batch.batch_id)
            pipeline.info = replace(
                info,
                query_id=batch.query_id,
                watermark=newer(info.watermark, batch.watermark),
                max_event_time=newer(info.max_event_time, batch.max_event_time),
                batches=info.batches + 1,
                read=info.read + batch.read,
                counted=info.counted + batch.counted,
                late=info.late + late_total,
                rejected=info.rejected + batch.rejected_count,
                committed_at=now,
            )
            with self._lend():  # readers see it and those who wait are woken
                return True

    def _add(self, tables: Tables, partial: Partial, late: int) -> None:
        rollups = self._rollups(tables, partial.summary)
        added, spoiled = rollups.receivers(partial.pane)
        for longer, slice_ in spoiled:
            rollups.dirty.setdefault(longer, set()).add(slice_)
        for length, start in added:
            self._insert(
                tables, partial.summary, length, start, partial.events, late, partial.payload,
                partial.provisional,
            )  # fmt: skip

    def _insert(
        self,
        tables: Tables,
        summary: str,
        length: int,
        start: int,
        events: int,
        late: int,
        payload: bytes,
        provisional: bool = False,
    ) -> None:
        shelf = tables.shelves.setdefault((summary, length), Shelf())
        if provisional:
            shelf.provisional.add(tables.next_piece)
        piece = Piece(tables.next_piece, summary, length, start, events, late, payload)
        tables.next_piece += 1
        shelf.put(start, (*shelf.slots.get(start, ()), piece))

    def _rollups(self, tables: Tables, summary: str) -> Rollups:
        return tables.rollups.setdefault(summary, Rollups(self._owned.pane_us))

    def states(self, summary: str) -> dict[int, bytes]:
        self._check_summary(summary)
        with self._writing(grows=False, fence=False) as (tables, _):
            return dict(sorted(tables.states.get(summary, {}).items()))

    def set_spec(self, spec: Mapping[str, Any]) -> None:
        owned, text = read_spec(spec), dump(spec, "spec", SPEC_BYTES_MAX)
        with self._writing() as (tables, pipeline):
            check_spec(tables, pipeline.name, owned)
            store_spec(tables, pipeline, text, owned)
            self._owned = owned

    # Pieces

    def compact(self, replaced: Sequence[Piece], payload: bytes) -> None:
        if not replaced:
            return
        self._check_summary(replaced[0].summary)
        payload = blob(payload, "a compacted payload")
        ids, length, start = check_replaced(replaced)
        summary = replaced[0].summary
        with self._writing(grows=False) as (tables, _):
            known = {piece.id: piece for piece in _pieces_of(tables, summary)}
            if not ids <= known.keys():
                return
            if any((known[i].length, known[i].start) != (length, start) for i in ids):
                raise BadArgument(f"pieces {sorted(ids)} are not those of the slice at {start}")
            given = sum(piece.events for piece in replaced), sum(piece.late for piece in replaced)
            check_sums("the compacted piece", given, _sums(known[i] for i in ids))
            shelf = tables.shelves[summary, length]
            shelf.put(start, tuple(piece for piece in shelf.slots[start] if piece.id not in ids))
            self._insert(tables, summary, length, start, *given, payload)

    def leave(self, pieces: Sequence[Piece]) -> None:
        if not pieces:
            return
        self._check_summary(pieces[0].summary)
        ids, length, start = check_replaced(pieces)
        with self._writing(grows=False) as (tables, _):
            tables.shelf(pieces[0].summary, length).leave(start, ids)

    def roll_up(
        self,
        summary: str,
        length: int,
        start: int,
        made: tuple[int, int, bytes] | None,
        seen: Sequence[int] = (),
        more: Sequence[tuple[int, int, bytes]] = (),
    ) -> bool:
        self._check_summary(summary)
        length, start = whole(length, "length"), whole(start, "start")
        parts = [
            (*sums_of(part), blob(part[2], "a rollup's payload"))
            for part in pieces_made(made, more)
        ]
        with self._writing(grows=False) as (tables, _):
            rollups = self._rollups(tables, summary)
            rollups.check_slice(length, start)
            if rollups.clean(length, start):
                return True
            ids = {whole(identifier, "id") for identifier in seen}
            merged = [piece for piece in _pieces_of(tables, summary) if piece.id in ids]
            if len(merged) < len(ids):
                return False
            if any(not start <= piece.start < start + length for piece in merged):
                raise BadArgument(
                    f"pieces in `seen` lie outside the slice at {start} of {length} us"
                )
            shapes = [(piece.length, piece.start) for piece in merged]
            stored = [
                (piece.id, level, at)
                for level, begin, end in rollups.to_compare(length, start, shapes)
                for at in tables.shelf(summary, level).between(begin, end)
                for piece in tables.shelf(summary, level).slots[at]
            ]
            if not holds_all(rollups, length, [(p.id, p.length, p.start) for p in merged], stored):
                return False
            sums = sum(part[0] for part in parts), sum(part[1] for part in parts)
            check_sums("the rollup", sums, _sums(merged))
            shelf = tables.shelves.setdefault((summary, length), Shelf())
            shelf.put(start, ())
            for part in parts:
                self._insert(tables, summary, length, start, *part)
            shelf.leave(start, {piece.id for piece in shelf.slots.get(start, ())})
            rollups.cover(length, start)
            return True

    def extend_coverage(self, summary: str, length: int, until: int) -> bool:
        self._check_summary(summary)
        length, until = whole(length, "length", least=1), whole(until, "until")
        with self._writing(grows=False) as (tables, _):
            rollups = self._rollups(tables, summary)
            gap = rollups.gap_before(length, until)
            if gap is None:
                return True
            levels = (rollups.pane_us, *rollups.covered)
            if any(
                True
                for level in levels
                if level <= length
                for _ in tables.shelf(summary, level).between(*gap)
            ):
                return False
            rollups.extend(length, until)
            return True

    def drop_before(self, summary: str, length: int, before: int) -> int:
        self._check_summary(summary)
        length, before = whole(length, "length"), whole(before, "before")
        with self._writing() as (tables, _):
            rollups = self._rollups(tables, summary)
            shelf = tables.shelf(summary, length)
            if not shelf.starts and length not in rollups.covered:
                return 0
            end = shelf.starts[-1] + length if shelf.starts else 0
            cut = rollups.cut(length, before, end)
            rollups.drop(length, cut)
            return shelf.drop(cut)

    # Windows, trends, documents

    def close_windows(
        self,
        windows: Sequence[ClosedWindow],
        trends: Sequence[TrendPoint],
        assembler: Mapping[str, Any],
    ) -> None:
        windows, trends = check_windows(windows, trends, self._owned, self._opened.pipeline)
        body = dump(assembler, "assembler's state", ASSEMBLER_BYTES_MAX)
        fills = [dump(window.fill, "fill of a window", FILL_BYTES_MAX) for window in windows]
        with self._writing() as (tables, pipeline):
            again = False
            for window, fill in zip(windows, fills, strict=True):
                kept = tables.windows.setdefault((window.summary, window.start), {})
                again |= bool(kept)
                kept[window.revision] = (window, fill)
                _keep_newest(kept)
                tables.note_closing(window.summary, window.start, window.revision)
            if again:
                tables.drop_closings(gone=False)
            for point in trends:
                points = tables.trends.setdefault((point.query, point.start), {})
                points[point.revision] = point
                _keep_newest(points)
            pipeline.assembler = body

    def set_status(self, status: Mapping[str, Any]) -> None:
        body = dump(status, "status", STATUS_BYTES_MAX)
        with self._writing() as (_, pipeline):
            pipeline.status = body

    def answer(self, command: int, answer: Mapping[str, Any]) -> None:
        body = dump(answer, "answer to a command", COMMAND_BYTES_MAX)
        mine = self._opened.pipeline
        with self._writing() as (tables, _):
            entry = tables.commands.get(command)
            if entry is None or entry[0].pipeline != mine:
                raise UnknownName(
                    f'pipeline "{mine}" was not asked command {command!r}; see Ledger.commands'
                )
            tables.commands[command] = (entry[0], entry[1], body)
            kept = [i for i, (asked, _, _) in tables.commands.items() if asked.pipeline == mine]
            for identifier in kept[: -WAITING_COMMANDS_MAX or None]:
                if tables.commands[identifier][2] is not None:
                    del tables.commands[identifier]

    def drop_history_before(self, before: int) -> int:
        before = whole(before, "before")
        with self._writing() as (tables, pipeline):
            gone = 0
            for key, kept in list(tables.windows.items()):
                if tables.names[ROLE_SUMMARY, key[0]][0] == pipeline.name:
                    gone += _drop_ended(kept, before, lambda entry: entry[0].end)
                    if not kept:
                        del tables.windows[key]
            if gone:
                tables.drop_closings(gone=True)
            for key, points in list(tables.trends.items()):
                if tables.names[ROLE_QUERY, key[0]][0] == pipeline.name:
                    gone += _drop_ended(points, before, lambda point: point.end)
                    if not points:
                        del tables.trends[key]
            return gone + _drop_ended(pipeline.rejected, before, lambda entry: entry[0])

    def close(self) -> None:
        """End this writer; its epoch stays taken."""
        with self._lock:
            self._closed = True


def _pieces_of(tables: Tables, summary: str) -> Iterator[Piece]:
    for (owner, _), shelf in tables.shelves.items():
        if owner == summary:
            for pieces in shelf.slots.values():
                yield from pieces


def _sums(pieces: Any) -> tuple[int, int]:
    counted = [(piece.events, piece.late) for piece in pieces]
    return sum(events for events, _ in counted), sum(late for _, late in counted)


def _keep_newest(kept: dict[int, Any]) -> None:
    newest = max(kept)
    for revision in [r for r in kept if r <= newest - REVISIONS_KEPT_MAX]:
        del kept[revision]


def _drop_ended(kept: dict[int, Any], before: int, end: Callable[[Any], int]) -> int:
    ended = [key for key, entry in kept.items() if end(entry) <= before]
    for key in ended:
        del kept[key]
    return len(ended)
