"""Alerts: a condition on a standing query's answers that has lasted long enough, and ends.

They follow what the ledger holds, beside the batches; only one that revises windows, or drops some,
waits until those that have closed were looked at. Of a query on windows, the stored results are
asked window by window, in event time; of one on update its answer, by the clock, every few seconds.
What is known of each alert, how far the windows were looked at, the changes and those which the
webhook has yet to take are one document, written in one transaction: after a crash each change is
there once. Nothing is pushed that is not stored.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from muntin.assembly.standing import StandingQueries
from muntin.assembly.webhook import Webhook, WebhookEvent
from muntin.errors import LedgerConflict, LedgerError, MuntinError, SelectError
from muntin.ledger.base import Ledger, Writer
from muntin.ledger.records import ClosedWindow
from muntin.select.catalog import TREND_ERROR
from muntin.spec import Pipeline
from muntin.spec_alerts import AlertSpec
from muntin.times import instant_text, now_us

EVERY_SECONDS = 5.0  # how often queries on update are asked
UNSEEN_US = 60_000_000  # between looks; what is longer does not count as `for`
WINDOWS_AT_ONCE = 64  # of one query, in one statement
OF_ROWS = ("value", "overflow", "limit", "timeout")  # codes of errors that fewer rows may not have
CLOSINGS_AT_ONCE = 1_000
ACTIVE_MAX = 1_000  # of a pipeline, pending or firing; those beyond are counted, not followed
CHANGES_KEPT = 100
WAITING_MAX = 500  # for the webhook; the oldest go
EVENT_BYTES_MAX = 8_192  # rows are left out until an event is no longer
ROWS_MAX = 10  # in an event, and of an alert's firing conditions in the state
TEXT_MAX = 500  # characters of a value, or an error
EMPTY: Mapping[str, Any] = {"number": 0, "alerts": {}, "changes": [], "waiting": [], "dropped": 0}
_LOG = logging.getLogger("muntin")

Rows = Sequence[Mapping[str, Any]]


class Alerts:
    """The alerts of a pipeline that is at work. Thread-safe."""

    def __init__(
        self, pipeline: Pipeline, ledger: Ledger, writer: Writer, queries: StandingQueries
    ) -> None:
        self._ledger = ledger
        self._writer = writer
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        stored = ledger.alerts(pipeline.name)
        self._stored: dict[str, Any] = copy.deepcopy(dict(EMPTY)) | dict(stored or {})
        self._in_doubt = False  # whether that is what the ledger holds
        self._said: set[str] = set()
        self._webhook: Webhook | None = None
        self.adopt(pipeline, queries)

    def adopt(self, pipeline: Pipeline, queries: StandingQueries) -> None:
        """Go on with another spec. An alert that it does not have is resolved.

        What there is from here on is stored at once: no window is passed over, though this process
        ended before it looks.
        """
        with self._lock:
            key = None if pipeline.webhook is None else pipeline.webhook.key()
            specs = {n: q.alert for n, q in pipeline.queries.items() if q.alert is not None}
            step = _Look(pipeline, copy.deepcopy(self._stored), now_us())
            was_reset = step.state.pop("reset", False)  # what it followed has been deleted
            step.end_unknown({} if was_reset else specs)
            step.begin(specs, queries.follows, self._ledger.last_closing())
            self._store(step)
            self._pipeline, self._queries, self._specs = pipeline, queries, specs
            url = "" if pipeline.webhook is None else pipeline.webhook.url
            if self._webhook is not None and self._webhook.target != (url, key):
                self._webhook.close()
                self._webhook = None
            if self._webhook is None and key is not None:  # else it may be sending: once is enough
                self._webhook = Webhook(url, key, self._next, self._taken)
            if self._thread is None and (self._specs or self._stored["alerts"]):
                self._thread = threading.Thread(
                    target=self._watch, name=f"muntin-alerts-{pipeline.name}", daemon=True
                )
                self._thread.start()
            self.wake()

    def wake(self) -> None:
        """Windows may have closed."""
        self._wake.set()

    def finish(self) -> None:
        """Look at all that is there."""
        if self._thread is not None:
            self._look()

    def look_at_windows(self) -> None:
        """Look at what has closed: it may be revised, or dropped, from here on."""
        if self._thread is not None:
            self._try_to_look(windows_only=True)

    def close(self) -> None:
        """Give up. What the webhook has not taken in a moment, it is offered at the next start."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        if self._webhook is not None:
            self._webhook.close(patiently=True)

    def _watch(self) -> None:
        while not self._stopped:
            try:
                self._try_to_look()
            except LedgerConflict:
                return  # another writer has the alerts now
            except LedgerError:
                pass  # busy, or a full disk: the windows are looked at later
            self._wake.wait(EVERY_SECONDS)
            self._wake.clear()
            if not self._stopped:
                time.sleep(0.1)  # batches that follow fast are looked at together

    def _try_to_look(self, *, windows_only: bool = False) -> None:
        """No alert stops a pipeline."""
        try:
            self._look(windows_only=windows_only)
        except LedgerError:
            raise
        except Exception:
            _LOG.exception("alerts of %s could not be looked at", self._pipeline.name)

    def _look(self, *, windows_only: bool = False) -> None:
        """Ask all that is new, and store what has changed."""
        with self._lock:
            step = _Look(self._pipeline, copy.deepcopy(self._stored), now_us())
            for batch in self._closed(step.state["seen"]):
                for name, spec in self._specs.items():
                    if self._pipeline.queries[name].on == "window":
                        after = step.alert(name).get("after", 0)
                        self._ask_windows(step, name, spec, [w for n, w in batch if n > after])
                step.state["seen"] = batch[-1][0]
            for name, spec in self._specs.items():
                if self._pipeline.queries[name].on == "update" and not windows_only:
                    found = self._rows(step, name)
                    if not isinstance(found, str):
                        step.take(name, spec, found.to_pylist(), step.now, step.now)
            self._store(step)
            if self._webhook is not None and self._stored["waiting"]:
                self._webhook.wake()

    def _closed(self, seen: int) -> Iterator[list[tuple[int, ClosedWindow]]]:
        while self._specs and (batch := self._ledger.closings(seen, limit=CLOSINGS_AT_ONCE)):
            yield batch
            seen = batch[-1][0]

    def _ask_windows(
        self, step: _Look, name: str, spec: AlertSpec, windows: Sequence[ClosedWindow]
    ) -> None:
        until = step.alert(name)["until"]
        newest: dict[int, ClosedWindow] = {}
        for window in windows:
            if window.summary == self._queries.follows[name] and (
                window.start in newest or until is None or window.end >= until
            ):
                newest[window.start], until = window, max(window.end, until or 0)
        mine = [*newest.values()]
        for first in range(0, len(mine), WINDOWS_AT_ONCE):
            self._ask_group(step, name, spec, mine[first : first + WINDOWS_AT_ONCE])

    def _ask_group(
        self, step: _Look, name: str, spec: AlertSpec, group: Sequence[ClosedWindow]
    ) -> None:
        found = self._rows(step, name, min(w.start for w in group), max(w.start for w in group) + 1)
        if isinstance(found, str):
            if len(group) > 1 and found in OF_ROWS:  # those of one window keep none from the others
                for window in group:
                    self._ask_group(step, name, spec, [window])
            return
        by_window: dict[int, list[Mapping[str, Any]]] = {}
        starts = found["window_start"]
        starts = starts.cast(pa.timestamp("us", starts.type.tz)).cast(pa.int64()).to_pylist()
        for row, start in zip(found.to_pylist(), starts, strict=True):
            by_window.setdefault(start, []).append(row)
        for window in group:
            rows = by_window.get(window.start, [])
            if rows and rows[0].get(TREND_ERROR) is not None:
                continue  # nobody knows whether the condition holds
            step.take(name, spec, rows, window.start, window.end)

    def _rows(self, step: _Look, name: str, *span: int) -> pa.Table | str:
        """The rows for which the condition holds; the error's code where it cannot be asked."""
        try:
            found = self._queries.alarming(name, *span)
        except LedgerError:
            raise
        except Exception as error:
            if isinstance(error.__cause__, LedgerError):
                raise error.__cause__ from None
            step.alert(name)["error"] = str(error)[:TEXT_MAX]
            if name not in self._said:
                self._said.add(name)
                _LOG.warning(
                    "queries.%s.alert cannot be asked: %s (not logged again)", name, error,
                    exc_info=None if isinstance(error, MuntinError) else error,
                )  # fmt: skip
            return error.code if isinstance(error, SelectError) else ""
        self._said.discard(name)
        step.alert(name)["error"] = ""
        return found

    def _store(self, step: _Look) -> None:
        if step.state != self._stored or self._in_doubt:
            self._in_doubt = True  # a store that does not answer may have it all the same
            self._writer.set_alerts(step.state)
            self._stored, self._in_doubt = step.state, False

    def _next(self) -> WebhookEvent | None:
        """What the webhook is offered."""
        with self._lock:
            waiting = self._stored["waiting"]
            if self._pipeline.webhook is None or not waiting:
                return None
            return WebhookEvent(
                waiting[0]["id"], json.dumps(waiting[0], ensure_ascii=False).encode()
            )

    def _taken(self, push: WebhookEvent) -> None:
        """The webhook has it, or will never take it."""
        with self._lock:
            waiting = [event for event in self._stored["waiting"] if event["id"] != push.id]
            after = self._stored | {"waiting": waiting}
            self._writer.set_alerts(after)
            self._stored = after

    def said(self) -> dict[str, Any]:
        """How the webhook fares, for the pipeline's status."""
        return {} if self._webhook is None else self._webhook.said()


class _Look:
    """What becomes of the stored state, in one look."""

    def __init__(self, pipeline: Pipeline, state: dict[str, Any], now: int) -> None:
        self._pipeline = pipeline
        self.state = state
        self.now = now

    def begin(self, specs: Mapping[str, AlertSpec], follows: Mapping[str, str], last: int) -> None:
        """Those that are new, or whose query runs on the windows of another summary now. The
        window of this number is the last one that has closed: neither it nor those before are
        looked at, since the query did not run on them."""
        if specs and not self.state["alerts"]:
            self.state["seen"] = last
        for name in specs:
            is_new, alert = name not in self.state["alerts"], self.alert(name)
            if is_new or alert.get("of", follows[name]) != follows[name]:
                alert |= {"after": last, "before": []}
            alert["of"] = follows[name]  # older ledgers do not say it

    def alert(self, name: str) -> dict[str, Any]:
        if name not in self.state["alerts"]:
            on = self._pipeline.queries[name].on
            new = {"on": on, "until": None, "active": {}, "left_out": 0, "error": ""}
            self.state["alerts"][name] = new
        return self.state["alerts"][name]

    def end_unknown(self, specs: Mapping[str, AlertSpec]) -> None:
        """Those that are not there any more, or are asked in another time: the clock's, or that of
        events. Of those whose `by` is another now, the values of before."""
        for name, alert in [*self.state["alerts"].items()]:
            before, active = alert.get("on"), alert["active"]  # older ledgers do not say `on`
            if name not in specs or before not in (None, self._pipeline.queries[name].on):
                self._end(name, active, [], self.now)
                del self.state["alerts"][name]
                continue
            # older ledgers say it of what is active only
            was = [alert["by"]] if "by" in alert else [[*one["by"]] for one in active.values()]
            if any(by != [*specs[name].by] for by in was):
                self._end(name, active, [], self.now)
                alert.pop("before", None)

    def take(self, name: str, spec: AlertSpec, rows: Rows, start: int, end: int) -> None:
        """The condition held for these rows, and no others, from `start` to `end`."""
        alert = self.alert(name)
        active, until = alert["active"], alert["until"]
        by_clock = start == end
        hole = until is not None and start > until and not by_clock
        unseen = end - until if until is not None and by_clock else 0
        found: dict[str, list[Mapping[str, Any]]] = {}
        names = {name.lower(): name for name in (rows[0] if rows else ())}
        columns = {said: names.get(said.lower(), said) for said in spec.by}
        for row in rows:
            key = json.dumps([_plain(row.get(name)) for name in columns.values()])
            if len(key) > TEXT_MAX:  # those that differ further on are others
                key = hashlib.sha256(key.encode()).hexdigest()
            found.setdefault(key, []).append(row)
        known: dict[str, int | None] = {  # of what holds, since when; what waits waits anew
            key: one["since"] for key, one in active.items() if not hole or one["fired"] is not None
        }
        before = alert.pop("before", [])
        while before and before[-1][0] >= start:  # this one comes again: as it was in front of it
            known |= before.pop()[1]
        if by_clock or end != until:
            before = []  # those that the source's end has closed, and may come again, share one
        self._end(name, active, found, end)
        space = ACTIVE_MAX - sum(len(each["active"]) for each in self.state["alerts"].values())
        alert["left_out"] = 0
        for key, of_key in found.items():
            since = known.get(key)
            if since is None or since > end:  # or the clock was set back
                since = start
            if key not in active:
                if space <= 0:
                    alert["left_out"] += 1
                    continue
                space -= 1
                by = {said: _cut(of_key[0].get(name)) for said, name in columns.items()}
                active[key] = {"since": since, "fired": None, "by": by}
            elif unseen > UNSEEN_US:
                active[key]["unseen"] = active[key].get("unseen", 0) + unseen
            one = active[key]
            if one["fired"] is None:
                if since != one["since"]:
                    one |= {"since": since, "unseen": 0}
                if end - since - one.get("unseen", 0) >= spec.for_:
                    one["fired"] = end
                    self._change(name, "firing", one, end, of_key)
        alert["until"] = end if until is None or by_clock else max(end, until)
        alert["by"] = [*spec.by]
        now = {key: one["since"] for key, one in active.items()}
        undo = {key: known.get(key) for key in known | now if known.get(key) != now.get(key)}
        alert["before"] = [] if by_clock else [*before, [start, undo]]

    def _end(self, name: str, active: dict[str, Any], found: Any, at: int) -> None:
        for key in [key for key in active if key not in found]:
            one = active.pop(key)
            if one["fired"] is not None:
                self._change(name, "resolved", one, at, ())

    def _change(self, name: str, became: str, one: Mapping[str, Any], at: int, rows: Rows) -> None:
        state = self.state
        state["number"] += 1
        query = self._pipeline.queries.get(name)
        spec = None if query is None else query.alert
        event = {
            "id": f"{self._pipeline.name}.{state['number']}.{self.now}",
            "type": f"alert.{became}",
            "timestamp": instant_text(self.now),
            "pipeline": self._pipeline.name,
            "alert": name,
            "state": became,
            "by": one["by"],
            "since": instant_text(one["since"]),
            "at": instant_text(at),
            "when": "" if spec is None else spec.when,
        }
        state["changes"] = [*state["changes"], event][-CHANGES_KEPT:]
        if self._pipeline.webhook is None:
            return
        plain = [{column: _cut(v) for column, v in row.items()} for row in rows[:ROWS_MAX]]
        while plain and len(json.dumps(plain)) > EVENT_BYTES_MAX:
            plain.pop()
        waiting = [*state["waiting"], {**event, "rows": plain, "rows_in_all": len(rows)}]
        state["dropped"] += max(0, len(waiting) - WAITING_MAX)
        state["waiting"] = waiting[-WAITING_MAX:]


def shown(stored: Mapping[str, Any] | None, said: Mapping[str, Any]) -> dict[str, Any]:
    """What there is to show of a pipeline's alerts, by what the ledger and its status hold."""
    stored = stored or EMPTY
    return {
        "alerts": [
            {
                "name": name,
                "firing": sum(one["fired"] is not None for one in alert["active"].values()),
                "pending": sum(one["fired"] is None for one in alert["active"].values()),
                "longest": _longest(alert["active"].values()),
                "left_out": alert["left_out"],
                "error": alert["error"],
            }
            for name, alert in sorted(stored["alerts"].items())
        ],
        "changes": stored["changes"][::-1],
        "number": stored["number"],
        "waiting": len(stored["waiting"]),
        "dropped": stored["dropped"],
        "webhook": dict(said),
    }


def _longest(active: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those that have fired, since when: their changes may be no longer among those kept."""
    firing = sorted((one for one in active if one["fired"] is not None), key=itemgetter("since"))
    return [
        {"by": one["by"], "since": instant_text(one["since"]), "at": instant_text(one["fired"])}
        for one in firing[:ROWS_MAX]
    ]


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _cut(value: Any) -> Any:
    """The same, as much of it as is kept."""
    plain = _plain(value)
    return plain[:TEXT_MAX] if isinstance(plain, str) else plain
