"""What SELECT needs to know and to load: the interface to the ledger, as protocols.

All times are int64 microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import pyarrow as pa

WindowKind = Literal["open", "last", "range", "window", "newest_window", "all"]


@dataclass(frozen=True, slots=True)
class WindowAsked:
    """Which window of a summary is asked for: a parsed `FOR ...` clause.

    Attributes
    ----------
    kind : str
        "open": the window that is not closed yet. "last": the newest `length_us` of event time.
        "range": [start_us, end_us). "window": the closed window that starts at `start_us`.
        "newest_window": the closed window that ended last. "all": everything the ledger holds.
    """

    kind: WindowKind = "open"
    length_us: int | None = None
    start_us: int | None = None
    end_us: int | None = None


OPEN = WindowAsked()


@dataclass(frozen=True, slots=True)
class SummaryInfo:
    """What there is to ask a summary for.

    Attributes
    ----------
    keys : tuple of tuple of str
        Keys of a vector matrix in the order of the spec: X1, X2, ...
    indicators : tuple of str
        Y1, Y2, ...; `count` is not among them.
    by : tuple of str
        Columns by which a summary of another kind is split: one summary for each value.
    parts : tuple of str
        Columns that items were joined from: they stand beside the answers, as text.
    sketched : bool
        A vector matrix whose rows are sketches.
    """

    name: str
    kind: str
    keys: tuple[tuple[str, ...], ...] = ()
    indicators: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    sketched: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """A standing query, whose results per window are its trend."""

    name: str
    select: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A window of a summary, merged, and how true it is.

    Attributes
    ----------
    summary : Summary or None
        None where the window holds nothing.
    covered : (int, int) or None
        Start and end of the panes that were merged.
    revision : int
        Of a closed window: 0, and +1 each time a late event changed it.
    late : int
        Events in it that came after their pane was sealed.
    stale : bool
        The pipeline has not committed for longer than it should.
    exact : bool
        The summary is exact (what approximate summaries answer is never exact).
    bounds : mapping or None
        For an approximate one: what is known about its error, e.g. {"relative": 0.01}.
    token : Hashable
        The same token means the same content; None means that it must not be cached.
    like : callable or None
        The newest summary that is held, or a new one: for the types of columns of which this one
        holds nothing.
    """

    summary: Any
    covered: tuple[int, int] | None = None
    watermark: int | None = None
    revision: int = 0
    late: int = 0
    stale: bool = False
    exact: bool = True
    bounds: Mapping[str, Any] | None = None
    token: Hashable = None
    like: Callable[[], Any] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """Rows that the ledger has ready (`trend`, `windows`), with the same particulars."""

    table: pa.Table
    covered: tuple[int, int] | None = None
    watermark: int | None = None
    revision: int = 0
    late: int = 0
    stale: bool = False
    exact: bool = True
    token: Hashable = None


class Catalog(Protocol):
    """The ledger as SELECT sees it. Called from several threads at once."""

    def summaries(self) -> Mapping[str, SummaryInfo]:
        """All that can be asked, by name. Cheap: called for every statement."""
        ...

    def queries(self) -> Mapping[str, QueryInfo]:
        """The standing queries, by name. Cheap as well."""
        ...

    def load(self, summary: str, window: WindowAsked) -> Loaded:
        """Merge the panes of a window."""
        ...

    def trend(self, query: str, window: WindowAsked | None) -> LoadedTable:
        """Results of a standing query: window_start, window_end, revision, its columns, error.

        `window` is None where no clause was given: then all that is kept.
        """
        ...

    def windows(self, summary: str, window: WindowAsked | None) -> LoadedTable:
        """Closed windows: the columns of `WINDOW_COLUMNS`."""
        ...


TREND_COLUMNS = ("window_start", "window_end", "revision")
TREND_ERROR = "error"
"""The last column of a trend: why the statement failed on that window, else null."""
WINDOW_COLUMNS = (
    "window_start",
    "window_end",
    "reason",
    "revision",
    "overflowed",
    "events",
    "late",
)
