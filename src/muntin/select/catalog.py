"""What SELECT needs to know and to load: the interface to the ledger, as protocols.

All times are int64 microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol

import pyarrow as pa

WindowKind = Literal["open", "last", "range", "window", "newest_window", "all"]


@dataclass(frozen=True, slots=True)
class ForClause:
    """Which window of a summary is asked for: a parsed `FOR ...` clause.

    `kind`: "open": the window that is not closed yet. "last": the newest `length_us` of event time.
      "range": [start_us, end_us). "window": the closed window that starts at `start_us`.
      "newest_window": the closed window that ended last. "all": everything the ledger holds.
      A standing query's "last" and "all" have an end: that of the window that closes.
    `whole`: a range of which a part is not stored any more is refused, as a closed window is;
      without, what is still stored answers, and the answer says so.
    `every_us`: rows for each step of so many microseconds, on a grid through 1970-01-01 00:00 UTC;
      None: for the window as a whole.
    """

    kind: WindowKind = "open"
    length_us: int | None = None
    start_us: int | None = None
    end_us: int | None = None
    whole: bool = False
    every_us: int | None = None

    def by_steps_of(self, pane_us: int) -> ForClause:
        """With the shortest step that is no shorter and cuts no pane."""
        every = self.every_us
        if not every or not pane_us:
            return self
        return replace(self, every_us=-(-every // pane_us) * pane_us)

    def before(self, end: int) -> ForClause:
        """What the clause means in a standing query, on the window that ends then. Nothing after
        that is read, so that the result is the same whenever it is made."""
        if self.kind == "range":
            assert self.start_us is not None and self.end_us is not None  # noqa: S101, PT018 (parsed)
            return replace(self, start_us=min(self.start_us, end), end_us=min(self.end_us, end))
        return replace(self, end_us=end) if self.kind in ("last", "all") else self


OPEN = ForClause()


@dataclass(frozen=True, slots=True)
class SummaryInfo:
    """What there is to ask a summary for.

    `keys`: keys of a vector matrix in the order of the spec: X1, X2, ...
    `indicators`: Y1, Y2, ...; `count` is not among them.
    `by`: columns by which a summary of another kind is split: one summary for each value.
    `parts`: columns that items were joined from: they stand beside the answers, as text.
    `sketched`: a vector matrix whose rows are sketches.
    `pane_us`: of what it is kept in; 0 where it has no panes.
    """

    name: str
    kind: str
    keys: tuple[tuple[str, ...], ...] = ()
    indicators: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    sketched: bool = False
    pane_us: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """A standing query, whose results per window are its trend."""

    name: str
    select: str


NoteCode = Literal["open", "nothing", "retention", "cut", "uncounted", "outdated"]


@dataclass(frozen=True, slots=True)
class Note:
    """What an answer's rows do not show by themselves, said in a sentence.

    `code`: "open": no window was asked for, so that only the open one was read. "nothing": the
      ledger holds nothing there. "retention": a part of what was asked for is gone. "cut": only the
      newest rows of a history were read. "uncounted": a summary, or a key or indicator of it, was
      added later and has not counted all events. "outdated": late events came after retention had
      dropped a part of the window, or while a standing query was away; or a stored result is of
      another statement, or missing.
    `source`: summary or standing query.
    `message`: for people.
    """

    code: NoteCode
    source: str
    message: str

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Uncounted:
    """What a summary, or a key or indicator of it, has not counted: it was added later."""

    events: int
    """So many of them it does not have."""
    of: int
    """Events in the window."""
    since: int | None
    """From here on it has counted all; None where that is not known, or it never did."""
    at_most: bool = False
    """It lacks no more than `events`, of no more than `of`, and maybe less."""


Part = str | tuple[str, ...]  # an indicator, or a key of a vector matrix; or `WHOLE`
WHOLE: Part = ()  # all of a summary, which joined its pipeline later
KeyNames = tuple[tuple[str, ...], ...]  # which keys of a vector matrix


@dataclass(frozen=True, slots=True, eq=False)
class ClosingWindows:
    """Windows of one summary that close together: a question is answered once for all of them.

    `segment`: a slice for each window.
    `rows`: question -> the rows of all windows, and where each has its own; None where it failed.
    """

    segment: Any
    rows: dict[Hashable, tuple[pa.Table, Mapping[int, tuple[int, int]]] | None]


@dataclass(frozen=True, slots=True)
class LoadedWindow:
    """A window of a summary, merged, and how true it is.

    `summary`: None where the window holds nothing; by steps, a slice for each that holds events.
    `covered`: start and end of exactly what was read; None where that is nothing.
    `stored`: start and end of all that the ledger holds of the summary.
    `revision`: of a closed window: 0, and +1 each time a late event changed it.
    `late`: events in it that came after their pane was sealed.
    `stale`: events that have come since may be missing: see `reading.liveness`.
    `exact`: the summary is exact.
    `proven`: so is all that an approximate one answers, since it has forgotten nothing.
    `bounds`: for an approximate one: what is known about its error, e.g. {"relative": 0.01}.
    `uncounted`: what of it has not counted every event of the window.
    `token`: the same token means the same content; None means that it must not be cached.
    `like`: others that are stored, the newest first, or a new one: for the types of columns of
      which this one holds nothing. To be called, and read, while the moment is open.
    `among`: the windows that it closes with, and which of them it is.
    """

    summary: Any
    covered: tuple[int, int] | None
    stored: tuple[int, int] | None
    watermark: int | None
    revision: int
    late: int
    stale: bool
    exact: bool
    proven: bool
    bounds: Mapping[str, Any]
    uncounted: Mapping[Part, Uncounted]
    notes: tuple[Note, ...]
    token: Hashable
    like: Callable[[], Iterable[Any]] | None = field(compare=False)
    among: tuple[ClosingWindows, int] | None = field(compare=False)


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """Rows that the ledger has ready (`trend`, `windows`), with the same particulars."""

    table: pa.Table
    covered: tuple[int, int] | None
    watermark: int | None
    revision: int
    late: int
    stale: bool
    exact: bool
    bounds: Mapping[str, Any]
    notes: tuple[Note, ...]


class Moment(Protocol):
    """One state of what can be asked: all that a statement reads is read of one moment."""

    def summaries(self) -> Mapping[str, SummaryInfo]:
        """All that can be asked, by name. Cheap: called for every statement."""
        ...

    def queries(self) -> Mapping[str, QueryInfo]:
        """The standing queries, by name. Cheap as well."""
        ...

    def span_of(self, summary: str) -> tuple[int, int] | None:
        """Start and end of all that is stored of a summary; None where that is nothing."""
        ...

    def load(self, summary: str, window: ForClause, keys: KeyNames | None = None) -> LoadedWindow:
        """Merge the panes of a window. `keys`: of a vector matrix, those that are wanted: the
        others need not be read. Default: all."""
        ...

    def trend(self, query: str, window: ForClause | None) -> LoadedTable:
        """Results of a standing query: window_start, window_end, revision, its columns, error.
        `window` is None where no clause was given: then all that is kept."""
        ...

    def windows(self, summary: str, window: ForClause | None) -> LoadedTable:
        """Closed windows: the columns of `WINDOW_COLUMNS`."""
        ...


class Catalog(Protocol):
    """The ledger as SELECT sees it. Called from several threads at once."""

    def moment(self) -> AbstractContextManager[Moment]:
        """What can be asked now; it stays as it is while it is open. Keep it short."""
        ...


SPAN_COLUMNS = ("window_start", "window_end")
"""Of each row of a window that is asked by steps, in front of its own."""
TREND_COLUMNS = (*SPAN_COLUMNS, "revision")
TREND_ERROR = "error"
"""The last column of a trend: why the statement failed on that window, else null."""
TREND_OWN = frozenset((*TREND_COLUMNS, TREND_ERROR))
"""Columns of every trend; one of the query with such a name would hide behind it."""
WINDOW_COLUMNS = (*SPAN_COLUMNS, "reason", "revision", "overflowed", "events", "late")


def trend_columns(own: Iterable[str]) -> tuple[str, ...]:
    """Those of the trend of a query that has these of its own."""
    kept = (name for name in own if name.lower() not in TREND_OWN)
    return (*TREND_COLUMNS, *kept, TREND_ERROR)
