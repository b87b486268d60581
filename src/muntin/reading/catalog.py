"""A ledger as SELECT sees it: names, windows, merged summaries, trends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from muntin.errors import SelectError
from muntin.kinds import SequentialSpec, SummarySpec
from muntin.ledger.base import Ledger
from muntin.ledger.records import ClosedWindow, PipelineInfo
from muntin.reading.liveness import liveness
from muntin.reading.panes import CACHE_BYTES, Layout, Merged, Panes
from muntin.reading.sequences import Sequences, check_whole_stream
from muntin.reading.stored_results import read_result
from muntin.select.catalog import (
    TREND_ERROR,
    Loaded,
    LoadedTable,
    QueryInfo,
    SummaryInfo,
    WindowAsked,
)
from muntin.select.limits import Limits
from muntin.select.plan import Planner
from muntin.spec import Pipeline
from muntin.times import instant_text

HISTORY_MAX = 100_000  # windows or trend points in one answer

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Known:
    """One pipeline as this process last read it."""

    info: PipelineInfo
    pipeline: Pipeline
    generation: tuple[int, int]
    """Of the ledger, and of the pipeline within it: what is cached of others is not of this one."""


@dataclass(frozen=True, slots=True)
class _Read:
    """All pipelines at one version of the ledger, and what can be asked of them."""

    version: int
    pipelines: Mapping[str, _Known]
    summaries: Mapping[str, SummaryInfo]
    queries: Mapping[str, QueryInfo]


class LedgerCatalog:
    """Thread-safe; reads what the ledger holds now, at each call."""

    def __init__(
        self,
        ledger: Ledger,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._ledger = ledger
        self._now_us = now_us
        self._panes = Panes(ledger, cache_bytes)
        self._sequences = Sequences(ledger)
        self._read = _Read(-1, {}, {}, {})
        self._exact: dict[tuple[str, str], bool] = {}  # by standing query and its text

    def summaries(self) -> Mapping[str, SummaryInfo]:
        return self._now().summaries

    def queries(self) -> Mapping[str, QueryInfo]:
        return self._now().queries

    def load(self, summary: str, window: WindowAsked) -> Loaded:
        known, layout = self._find(summary)
        if isinstance(layout.spec, SequentialSpec):
            return self._followed(known, layout, layout.spec, window)
        span, closed = self._span(known, layout, window)
        if span is None or span[0] >= span[1]:
            return Loaded(
                summary=None,
                watermark=known.info.watermark,
                stale=self._stale(known),
                token=None,
                like=lambda: self._panes.newest(layout, known.generation),
            )
        merged = self._panes.merged(layout, *span, generation=known.generation)
        found = loaded(known.info, layout.spec, merged, span, closed, self._stale(known))
        return replace(found, like=lambda: self._panes.newest(layout, known.generation))

    def _followed(
        self, known: _Known, layout: Layout, spec: SequentialSpec, window: WindowAsked
    ) -> Loaded:
        check_whole_stream(layout.name, window)
        read = self._sequences.read(layout.name, spec, known.generation)
        pane, covered = layout.pane, None
        if read.span is not None:
            covered = (read.span[0] // pane * pane, (read.span[1] // pane + 1) * pane)
        return Loaded(
            summary=read.summary,
            covered=covered,
            watermark=known.info.watermark,
            late=read.late,
            stale=self._stale(known),
            exact=False,
            bounds=spec.bounds_of(read.states),
            token=read.token,
        )

    def trend(self, query: str, window: WindowAsked | None) -> LoadedTable:
        for known in self._pipelines().values():
            if query in known.pipeline.queries:
                break
        else:
            raise KeyError(query)
        span = self._history_span(known, window)
        start, end = span or (None, None)
        points = self._ledger.trend(query, start=start, end=end, limit=HISTORY_MAX)
        tables = []
        # the newest there is says what types the columns have, where a part has no rows
        for point in points or self._ledger.trend(query, limit=1, newest_first=True):
            table = _rows_of(point.result)
            for place, (name, value, kind) in enumerate(
                (
                    ("window_start", point.start, pa.timestamp("us", "UTC")),
                    ("window_end", point.end, pa.timestamp("us", "UTC")),
                    ("revision", point.revision, pa.int64()),
                )
            ):
                column = pa.array([value], kind).take(pa.array([0] * len(table), pa.int32()))
                table = table.add_column(place, name, column)
            tables.append(table)
        empty = pa.table(
            {
                "window_start": pa.array([], pa.timestamp("us", "UTC")),
                "window_end": pa.array([], pa.timestamp("us", "UTC")),
                "revision": pa.array([], pa.int64()),
            }
        )
        table = pa.concat_tables(tables, promote_options="permissive") if tables else empty
        table = table if points else table.slice(0, 0)
        covered = (points[0].start, points[-1].end) if points else None
        return LoadedTable(
            table,
            covered,
            known.info.watermark,
            stale=self._stale(known),
            exact=self._is_exact(query, known.pipeline.queries[query].select),
        )

    def windows(self, summary: str, window: WindowAsked | None) -> LoadedTable:
        known, _ = self._find(summary)
        span = self._history_span(known, window)
        start, end = span or (None, None)
        closed = self._ledger.windows(summary, start=start, end=end, limit=HISTORY_MAX)
        moment = pa.timestamp("us", "UTC")
        table = pa.table(
            {
                "window_start": pa.array([w.start for w in closed], moment),
                "window_end": pa.array([w.end for w in closed], moment),
                "reason": pa.array([w.reason for w in closed], pa.string()),
                "revision": pa.array([w.revision for w in closed], pa.int64()),
                "overflowed": pa.array([w.overflowed for w in closed], pa.bool_()),
                "events": pa.array([w.events for w in closed], pa.int64()),
                "late": pa.array([w.late for w in closed], pa.int64()),
            }
        )
        covered = (closed[0].start, closed[-1].end) if closed else None
        return LoadedTable(table, covered, known.info.watermark, stale=self._stale(known))

    def _is_exact(self, query: str, text: str) -> bool:
        """Whether a standing query reads no rows of a sketch."""
        found = self._exact.get((query, text))
        if found is None:
            infos = self.summaries()
            items = Planner(self, Limits()).plan(text).items
            found = self._exact[query, text] = not any(
                item.kind == "function" or (item.kind == "key" and infos[item.source].sketched)
                for item in items
                if item is not None
            )
        return found

    def _pipelines(self) -> Mapping[str, _Known]:
        return self._now().pipelines

    def _now(self) -> _Read:
        """The ledger's pipelines; read again only when the ledger has changed."""
        version = self._ledger.version()
        read = self._read
        if read.version != version:
            infos = self._ledger.pipelines()
            place = self._ledger.generation()
            known = {
                info.name: _Known(info, Pipeline.from_json(info.spec), (place, info.epoch))
                for info in infos
            }
            read = self._read = _Read(
                version,
                known,
                {
                    name: summary_info(name, spec)
                    for each in known.values()
                    for name, spec in each.pipeline.summaries.items()
                },
                {
                    name: QueryInfo(name, query.select)
                    for each in known.values()
                    for name, query in each.pipeline.queries.items()
                },
            )
        return read

    def _find(self, summary: str) -> tuple[_Known, Layout]:
        for known in self._pipelines().values():
            spec = known.pipeline.summaries.get(summary)
            if spec is not None:
                pipeline = known.pipeline
                return known, Layout(summary, spec, pipeline.pane, pipeline.rungs)
        raise KeyError(summary)

    def _span(
        self, known: _Known, layout: Layout, window: WindowAsked
    ) -> tuple[Span | None, ClosedWindow | None]:
        """The run of panes that a clause means, and the closed window where it means one."""
        bounds = self._panes.bounds(layout)
        if bounds is None:
            return None, None
        first, newest = bounds
        pane = layout.pane
        if window.kind == "all":
            return bounds, None
        if window.kind == "last":
            length = -(-(window.length_us or pane) // pane) * pane
            return (max(first, newest - length), newest), None
        if window.kind == "range":
            start = (first if window.start_us is None else window.start_us) // pane * pane
            end = newest if window.end_us is None else -(-window.end_us // pane) * pane
            return (max(first, start), min(newest, end)), None
        if window.kind == "open":
            return self._open_span(known, layout, bounds), None
        closed = self._closed(layout, window)
        return (closed.start, closed.end), closed

    def _open_span(self, known: _Known, layout: Layout, bounds: Span) -> Span | None:
        """From the start of the window that closes next to the newest pane."""
        state = (self._ledger.assembler(known.info.name) or {}).get(layout.name)
        window = layout.spec.window
        if window is None or state is None:
            return bounds
        start = bounds[0] if state["next"] is None else state["next"]
        if window.kind == "floating":
            opened = state["window"]["start"]
            start = start if opened is None else opened
        else:
            every = window.every or window.length
            start = (start - window.length) // every * every + every
        return max(start, bounds[0]), bounds[1]

    def _closed(self, layout: Layout, window: WindowAsked) -> ClosedWindow:
        if window.kind == "newest_window":
            found = self._ledger.windows(layout.name, limit=1, newest_first=True)
            if found:
                return found[0]
            raise SelectError(f"no window of {layout.name} has closed yet", code="no_window")
        at = window.start_us or 0
        found = self._ledger.windows(layout.name, start=at, end=at + 1, limit=1)
        if found:
            return found[0]
        near = self._ledger.windows(layout.name, end=at, limit=1, newest_first=True)
        remedy = f"the window before it starts at {instant_text(near[0].start)}" if near else ""
        raise SelectError(
            f"no closed window of {layout.name} starts at {instant_text(at)}",
            code="no_window",
            remedy=remedy,
        )

    def _history_span(self, known: _Known, window: WindowAsked | None) -> Span | None:
        """Starts of windows that a clause on a trend or on `windows(...)` lets through."""
        if window is None or window.kind in ("all", "open"):
            return None
        newest = known.info.max_event_time or 0
        if window.kind == "last":
            return newest - (window.length_us or 0), newest + 1
        if window.kind == "window" and window.start_us is not None:
            return window.start_us, window.start_us + 1
        start = 0 if window.start_us is None else window.start_us
        end = newest + 1 if window.end_us is None else window.end_us
        return start, end

    def _stale(self, known: _Known) -> bool:
        status = self._ledger.status(known.info.name)
        return liveness(known.info, status, known.pipeline.trigger, self._now_us()).stale


def _rows_of(result: bytes) -> pa.Table:
    """A standing query's rows for one window; where it failed there, one that says why."""
    try:
        table = read_result(result)
    except SelectError as failed:
        return pa.table({TREND_ERROR: [failed.message]})
    own = [name for name in table.column_names if name.lower() == TREND_ERROR]
    return table.drop_columns(own).append_column(TREND_ERROR, pa.nulls(len(table), pa.string()))


def summary_info(name: str, spec: SummarySpec) -> SummaryInfo:
    """What SELECT may ask of a summary."""
    asked = spec.asked()
    return SummaryInfo(name=name, kind=spec.kind, **asked)


def loaded(
    info: PipelineInfo,
    spec: SummarySpec,
    merged: Merged,
    span: Span,
    closed: ClosedWindow | None,
    stale: bool,
) -> Loaded:
    """What was merged, with what must be said about it; a run without events is no summary."""
    summary = merged.summary if merged.events else None
    return Loaded(
        summary=summary,
        covered=span,
        watermark=info.watermark,
        revision=closed.revision if closed else 0,
        late=merged.late,
        stale=stale,
        exact=spec.is_exact,
        bounds=None if summary is None else spec.bounds(summary),
        token=merged.token,
    )
