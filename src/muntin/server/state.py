"""What the pipelines do now: one small JSON object, for the dashboard and whoever watches load."""

from __future__ import annotations

import json
import zlib
from collections import deque
from collections.abc import Mapping
from typing import Any

from muntin.assembly.followers import LIMIT_FACTOR
from muntin.ledger.records import PipelineInfo
from muntin.reading.catalog import STALE_TRIGGERS, STALE_US_MIN
from muntin.server.reader import Reader
from muntin.spec import Pipeline
from muntin.times import US_PER_SECOND

RATE_US = 10 * US_PER_SECOND  # events a second are an average over so long


def spec_number(info: PipelineInfo) -> int:
    """Changes when the pipeline's file does: names may have come or gone."""
    return zlib.crc32(json.dumps(info.spec, sort_keys=True, default=str).encode())


class StateReader:
    """Reads the state; remembers the last seconds for rates. Used by one thread at a time."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._seen: dict[str, deque[tuple[int, int]]] = {}

    def read(self, now_us: int) -> dict[str, Any]:
        """All pipelines of the ledger; times are microseconds since 1970 UTC."""
        specs = self._reader.pipelines()
        return {
            "now": now_us,
            "pipelines": [
                self._pipeline(info, specs[info.name], now_us)
                for info in self._reader.ledger.pipelines()
                if info.name in specs
            ],
            **self._reader.more_state(),
        }

    def _pipeline(self, info: PipelineInfo, spec: Pipeline, now_us: int) -> dict[str, Any]:
        ledger = self._reader.ledger
        status = ledger.status(info.name) or {}
        alive = max(info.committed_at or 0, int(status.get("at", 0)))
        finished = status.get("state") == "finished"
        late_us = now_us - alive
        return {
            "name": info.name,
            "spec": spec_number(info),
            "state": status.get("state", "unknown"),
            "read": info.read,
            "counted": info.counted,
            "late": info.late,
            "rejected": info.rejected,
            "batches": info.batches,
            "watermark": info.watermark,
            "newest": info.max_event_time,
            "committed_at": info.committed_at,
            "silent_us": None if not alive else late_us,
            "stale": not finished and late_us > max(STALE_US_MIN, STALE_TRIGGERS * spec.trigger),
            "trigger_us": spec.trigger,
            "lateness_us": spec.lateness,
            "batch_seconds": status.get("batch_seconds"),
            "events_per_second": self._rate(info, now_us),
            "failing": status.get("failing") or {},
            "open": self._open(info.name, spec, status),
        }

    def _rate(self, info: PipelineInfo, now_us: int) -> float | None:
        """Events a second of wall clock; None until there are two readings."""
        seen = self._seen.setdefault(info.name, deque())
        seen.append((now_us, info.read))
        while len(seen) > 2 and seen[0][0] < now_us - RATE_US:
            seen.popleft()
        elapsed, read = now_us - seen[0][0], info.read - seen[0][1]
        return round(read / elapsed * US_PER_SECOND, 1) if elapsed > 0 and read >= 0 else None

    def _open(
        self, name: str, pipeline: Pipeline, status: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Open windows: where they stand, how long they may be, how full they are."""
        stored = self._reader.ledger.assembler(name) or {}
        opened = status.get("open") or {}
        shown = {}
        for summary, spec in pipeline.summaries.items():
            window = spec.window
            if window is None:
                continue
            kept = (stored.get(summary) or {}).get("window") or {}
            factor = int(kept.get("factor", 1))
            limit = window.limit or window.length * LIMIT_FACTOR
            floats = window.kind == "floating"
            known = opened.get(summary) or {}
            shown[summary] = {
                "kind": window.kind,
                "length_us": min(window.length * factor, limit) if floats else window.length,
                "usual_us": window.length,
                "limit_us": limit if floats else window.length,
                "start": known.get("start"),
                "end": known.get("end"),
                "fill": known.get("fill") or {},
                "capacity": None if spec.window_capacity is None else spec.window_capacity * factor,
            }
        return shown
