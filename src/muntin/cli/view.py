"""The live view in the terminal: what the stream does, at a glance."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from muntin.cli.tables import rich_table
from muntin.errors import SelectError, how_many
from muntin.progress import READING
from muntin.times import DAY_US, age_text, duration_text, instant_text, now_us

if TYPE_CHECKING:
    from muntin.spark.sink_stream import SinkStream
    from muntin.spark.stream import Stream

REFRESH_SECONDS = 0.5
TICK_SECONDS = 0.5
LINE_SECONDS = 5.0
AGE_US_MAX = 365 * DAY_US  # a stream that is older is no stream that lags
WINDOWS_SHOWN = 8
ROWS_SHOWN = 10
BAR_CHARACTERS = 20


def follow(
    stream: Stream | SinkStream, on_tick: Callable[[], None] = lambda: None, *, live: bool = True
) -> None:
    """Show the view until the stream ends; lines where this is no terminal that can redraw it
    (FORCE_COLOR, as logs of CI have it, makes none), or not `live`."""
    console = Console()
    if not live or not sys.stdout.isatty() or console.is_dumb_terminal:
        lines = Lines(stream)
        while not stream.await_termination(TICK_SECONDS):
            on_tick()
            line = lines.due()
            if line:
                console.print(line, highlight=False, soft_wrap=True)
        return
    view = LiveView(stream)
    with Live(console=console, auto_refresh=False, screen=False) as shown:
        while True:
            ended = stream.await_termination(REFRESH_SECONDS)
            on_tick()
            shown.update(view.render(), refresh=True)
            if ended:
                return


def behind(
    lag: Mapping[str, Mapping[str, int]], newest: int | None, now: int, once: bool
) -> list[str]:
    """What is still to be taken: Kafka's records; else how old the newest event is. Of a run over
    what is there (`once`), and of old data that are played, its age says nothing."""
    if lag:
        waiting = sum(n for partitions in lag.values() for n in partitions.values())
        return [f"{how_many(waiting, 'record')} behind"]
    if newest is None or once or now - newest > AGE_US_MAX:
        return []
    return [f"{age_text(max(0, now - newest))} behind the clock"]


class Lines:
    """What is going on, a line every few seconds, as long as something is."""

    def __init__(self, stream: Stream | SinkStream) -> None:
        self._stream = stream
        self._last = time.monotonic()
        self._read = 0
        self._shown: object = None

    def due(self) -> str:
        """The next line, or "" where it is too early, or nothing has changed."""
        now = time.monotonic()
        if now - self._last < LINE_SECONDS:
            return ""
        progress = self._stream.progress
        closed = sum(progress.windows.values())
        doing = self._doing(now)
        what = (progress.read, closed, doing)
        if what == self._shown:
            return ""
        rate = (progress.read - self._read) / (now - self._last)
        self._shown, self._last, self._read = what, now, progress.read
        parts = [
            f"{progress.read:,} events",
            *([f"{rate:,.0f}/s"] if rate else []),
            f"{closed:,} windows closed",
            f"{progress.late:,} late",
            *([f"{progress.rejected:,} rejected"] if progress.rejected else []),
            *([f"at {instant_text(progress.newest)}"] if progress.newest is not None else []),
            *behind(self._stream.lag(), progress.newest, now_us(), self._stream.once),
            *([doing] if doing else []),
        ]
        return ", ".join(parts)

    def _doing(self, now: float) -> str:
        """The part of the batch at hand, and how long it will take at its pace so far."""
        step = self._stream.progress.step
        done, total = self._stream.tasks() if step.name == READING else (step.done, step.total)
        if not step.name or not total:
            return step.name
        text = f"{step.name} {min(1.0, done / total):.0%}"
        spent = now - step.began
        if not done or spent < LINE_SECONDS:
            return text
        return f"{text}, about {duration_text(int(spent * (total / done - 1)) * 1_000_000)} left"


class LiveView:
    """Reads the ledger, as any other reader would; keeps only what rates need."""

    def __init__(self, stream: Stream | SinkStream) -> None:
        self._stream = stream
        self._seen: list[tuple[float, int]] = []

    def render(self) -> Group:
        parts: list[RenderableType] = [self._headline(), self._windows()]
        parts += [self._query(name) for name in list(self._stream.pipeline.queries)[:2]]
        return Group(*parts)

    def _headline(self) -> RenderableType:
        progress = self._stream.progress
        now = time.monotonic()
        self._seen = [*self._seen, (now, progress.read)][-20:]
        first = self._seen[0]
        elapsed = now - first[0]
        rate = (progress.read - first[1]) / elapsed if elapsed > 0 else 0.0
        lines = [Table.grid(padding=(0, 3))]
        lines[0].add_row(
            f"[bold]{rate:,.0f}[/] events/s",
            how_many(progress.read, "event"),
            f"{progress.late:,} late",
            f"{progress.rejected:,} rejected",
        )
        stream = self._stream
        status = stream.ledger.status(stream.pipeline.name) if stream.ingest else None
        for name, window in ((status or {}).get("open") or {}).items():
            lines.append(Table.grid(padding=(0, 3)))
            lines[-1].add_row(
                f"open window of [bold]{name}[/]",
                f"since {instant_text(window['start'])}",
                f"closes after {duration_text(window['end'] - window['start'])}",
                self._fill(name, window.get("fill") or {}),
            )
        title = f"muntin · {self._stream.pipeline.name}"
        return Panel(Group(*lines), title=title, title_align="left")

    def _fill(self, summary: str, rows: dict[str, int]) -> str:
        capacity = self._stream.pipeline.summaries[summary].window_capacity
        if not (capacity and rows):
            return ", ".join(f"{n:,} {key}" for key, n in list(rows.items())[:4])
        key, most = max(rows.items(), key=lambda item: item[1])
        return f"{bar(most / capacity)} {most:,} of {capacity:,} rows ({key})"

    def _windows(self) -> RenderableType:
        table = Table(box=box.SIMPLE_HEAD, title="closed windows", title_justify="left")
        for column in ("summary", "start", "end", "closed because", "events", "late", "fill"):
            table.add_column(column, justify="right" if column in ("events", "late") else "left")
        for window in self._stream.ledger.windows(limit=WINDOWS_SHOWN, newest_first=True):
            fill = ", ".join(f"{key} {n:,}" for key, n in list(window.fill.items())[:3])
            reason = f"[yellow]{window.reason}[/]" if window.reason == "capacity" else window.reason
            table.add_row(
                window.summary,
                instant_text(window.start),
                instant_text(window.end),
                reason + (f" (revision {window.revision})" if window.revision else ""),
                f"{window.events:,}",
                f"{window.late:,}",
                fill,
            )
        return table

    def _query(self, name: str) -> RenderableType:
        if self._stream.ingest is None:  # the ledger does not know the summaries yet
            return Text(f"{name}: waiting for the first events", style="dim")
        select = self._stream.pipeline.queries[name].select
        try:
            began = time.perf_counter()
            result = self._stream.sql(select)
            ms = (time.perf_counter() - began) * 1000
        except SelectError as problem:
            return Text(f"{name}: {problem}", style="red")
        exact = "exact" if result.exact else "approximate"
        head = Text.assemble((name, "bold"), f"  {select}  ", (f"{ms:.1f} ms, {exact}", "dim"))
        return Group(head, rich_table(result.table, ROWS_SHOWN))


def bar(share: float) -> str:
    """A share as a bar of text."""
    full = round(min(1.0, max(0.0, share)) * BAR_CHARACTERS)
    return "█" * full + "░" * (BAR_CHARACTERS - full)
