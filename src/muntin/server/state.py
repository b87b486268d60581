"""What the pipelines do now: one small JSON object, for the dashboard and whoever watches load."""

import asyncio
import json
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from muntin.assembly import alerts
from muntin.assembly.following import LIMIT_FACTOR
from muntin.ledger.records import PipelineInfo
from muntin.server.reader import Reader
from muntin.spec import Pipeline
from muntin.summaries.kernels.compiling import compiling


def spec_number(info: PipelineInfo) -> int:
    """Changes when the pipeline's file does: names may have come or gone."""
    return zlib.crc32(json.dumps(info.spec, sort_keys=True, default=str).encode())


def read(reader: Reader, now_us: int) -> dict[str, Any]:
    """All pipelines of the ledger; times are microseconds since 1970 UTC. `compiling`: this
    process compiles kernels now, once on its machine, and answers later than it will.
    """
    specs = reader.pipelines()
    return {
        "now": now_us,
        "compiling": compiling(),
        "pipelines": [
            _pipeline(reader, info, specs[info.name], now_us)
            for info in reader.ledger.pipelines()
            if info.name in specs
        ],
        **reader.more_state(),
    }


def ready(reader: Reader) -> bool:
    """Whether answers are of now; LedgerError where there are none."""
    reader.ledger.pipelines()
    return not reader.ledger.behind()


def health(reader: Reader, now_us: int) -> dict[str, Any]:
    """How many pipelines are in each state; `status` is "degraded" where one should work and
    does not. Says nothing of the data, so that whoever comes may know it."""
    specs, ledger = reader.pipelines(), reader.ledger
    heard = reader.hearing.of
    found = [
        heard(info, ledger.status(info.name), specs[info.name].trigger, now_us).state
        for info in ledger.pipelines()
        if info.name in specs
    ]
    bad = "failed" in found or "stale" in found or ledger.behind()
    return {"pipelines": dict(Counter(found)), "status": "degraded" if bad else "ok"}


def _pipeline(reader: Reader, info: PipelineInfo, spec: Pipeline, now_us: int) -> dict[str, Any]:
    ledger = reader.ledger
    status = ledger.status(info.name) or {}
    alive = reader.hearing.of(info, status, spec.trigger, now_us)
    rate = reader.rates.of(info.name, info.committed_at, info.read, now_us)
    return {
        "name": info.name,
        "spec": spec_number(info),
        "state": alive.state,
        "reason": alive.reason,
        "not_taken_over": status.get("not_taken_over", ""),
        "doubt": status.get("doubt", ""),
        "read": info.read,
        "counted": info.counted,
        "late": info.late,
        "rejected": info.rejected,
        "batches": info.batches,
        "watermark": info.watermark,
        "newest": info.max_event_time,
        "committed_at": info.committed_at,
        "silent_us": alive.silent_us,
        "stale": alive.stale or ledger.behind(),
        "trigger_us": spec.trigger,
        "batch_seconds": status.get("batch_seconds"),
        "events_per_second": rate,
        "failing": status.get("failing") or {},
        "lag": status.get("lag") or {},
        "missed": status.get("missed") or 0,
        "missing_batches": ledger.missing_batches(info.name),
        "alerts": alerts.shown(ledger.alerts(info.name), status.get("webhook") or {}),
        "open": _open(reader, info.name, spec, status),
    }


def _open(
    reader: Reader, name: str, pipeline: Pipeline, status: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Open windows: where they stand, how long they may be, how full they are."""
    stored = reader.ledger.assembler(name) or {}
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


T = TypeVar("T")


class FreshRead(Generic[T]):
    """A read with a thread of its own, so that it waits for nothing else.

    Who asks while it runs hears of the next run, which begins after the question: an answer is
    never older than its question.
    """

    def __init__(self, read: Callable[[], T], name: str) -> None:
        self._read = read
        self._pool = ThreadPoolExecutor(1, name)
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        if self._next is None:
            self._next = asyncio.create_task(self._in_turn())
        return await asyncio.shield(self._next)

    async def _in_turn(self) -> T:
        async with self._turn:
            self._next = None  # who asks from here on may want what is not there yet
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._read)

    def close(self) -> None:
        """For the loop's thread. Who waits for the next run is cancelled."""
        if self._next is not None:
            self._next.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
