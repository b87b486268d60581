"""The ledger's contract: what it promises, and the methods that keep it (`records`: the words).

A ledger knows bytes and keys only; what the bytes mean is for those who read it. One ledger may
serve several pipelines; names of summaries and standing queries are unique in a ledger.

Promises, kept by every implementation and by the same tests:

1. `commit` is one transaction: all of a `Batch`, or nothing.
2. Exactly once: a batch `(query_id, batch_id)` that is already there is ignored (returns False).
3. Fenced: each `open_writer` takes a higher epoch; any write with an older one is refused with
   `LedgerConflict`, whatever it would have written.
4. A commit from a query that never fed the pipeline is refused (`LedgerConflict`, naming the
   remedies) unless the writer was opened with `mode="append"` or `"overwrite"`.
5. What was committed survives kill -9.
6. Readers see whole transactions only, and never block the writer.
7. No silent gap: in `mode="continue"` a query's batches follow each other, from 0. One that skips
   some (the ledger is older than the checkpoint: restored from a backup, or deleted) is refused.
8. Events are conserved: `read == counted + rejected_count`, and what a rollup or a compacted piece
   holds of each slice is the sum of what it was made from.
9. Damage is seen: each row carries a checksum; a row that does not match is refused
   (`LedgerError`), never returned.
10. A payload may lie in a file (`Stored`) that executors have written (`files`): a commit names it
    with size and checksum, readers get its bytes or `LedgerError`, and what no row names any more,
    or never did, is deleted by `Writer.sweep`, by age, never sooner.

All times are int64 microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from muntin.ledger.files import PayloadFolder
from muntin.ledger.records import (
    Batch,
    ClosedWindow,
    Command,
    Coverage,
    Made,
    Piece,
    PipelineInfo,
    Rejected,
    TrendPoint,
)

Mode = Literal["continue", "error", "append", "overwrite"]


class Writer(Protocol):
    """The one writer of one pipeline, under its epoch. Thread-safe, one transaction at a time."""

    @property
    def epoch(self) -> int:
        """Of this writer: higher than that of every one before it."""
        ...

    def last_batch(self, query_id: str) -> int | None:
        """The newest committed batch of a query."""
        ...

    def commit(self, batch: Batch, assembler: Mapping[str, Any] | None = None) -> bool:
        """Store a batch in one transaction; False if it was there already.

        `assembler`: its state as well, in the same transaction, where the batch changes it.

        An event is late where its pane's end is at or before the watermark that stood before the
        batch: the ledger counts it so, per slice and for the pipeline (where summaries differ in
        what they counted of a pane, the most of them). What comes to panes that rollups cover
        comes to those rollups as well, in partials of their length.

        Raises
        ------
        BadArgument
            Events are not conserved, a name is not in the spec, a slice does not start on a
            multiple of its length, rollups do not receive what their panes do, or a payload is
            larger than `PAYLOAD_BYTES_MAX`.
        LedgerConflict
            A newer writer took over, another query is given than the writer was opened for, or
            batches in between are missing (`mode="continue"`).
        """
        ...

    def set_spec(self, spec: Mapping[str, Any]) -> None:
        """Replace the spec while running (a key or a query was added), as `open_writer` would."""
        ...

    def compact(self, replaced: Sequence[Piece], made: Sequence[Made]) -> bool:
        """Replace pieces of one length by others that hold the same events of the same slices.

        False, and no change, where a piece is gone. New pieces that came in between stay. Readers'
        answers do not change, so `version` does not grow.
        """
        ...

    def roll_up(
        self, summary: str, length: int, start: int, until: int, made: Sequence[Made]
    ) -> None:
        """Store rollups of one length, which cover [start, until) from now on.

        `made` holds every event of that range, in slices of `length`; of a range without events it
        is empty. The range begins where that length's rollups end, or ends where they begin.

        Raises
        ------
        BadArgument
            `made` does not hold the events of that range, it is not sealed or leaves a gap, the
            length does not nest with the pane and the other rollups, or retention has dropped a
            part of what the rollups would be made from.
        """
        ...

    def close_windows(
        self,
        windows: Sequence[ClosedWindow],
        trends: Sequence[TrendPoint],
        assembler: Mapping[str, Any],
    ) -> None:
        """Store windows, their trends and the assembler's state in one transaction.

        A window or trend point with the same (summary or query, start) and revision replaces.
        Of each, the newest `REVISIONS_KEPT_MAX` revisions are kept.
        """
        ...

    def answer(self, command: int, answer: Mapping[str, Any]) -> None:
        """Say what was done about a client's command; a second answer replaces the first."""
        ...

    def set_status(self, status: Mapping[str, Any], *, news: bool = True) -> None:
        """What the pipeline is doing now (open windows, rates); small JSON, newest wins.

        Without `news` it is a sign of life: the version stays, and what was made of it is kept.
        """
        ...

    def set_alerts(self, alerts: Mapping[str, Any]) -> None:
        """Alerts with all that is to be known of them at the next start: one transaction."""
        ...

    def drop_before(self, summary: str, length: int, before: int) -> int:
        """Retention: no slice of that length before a time is stored any more; pieces deleted.

        What a longer rollup still needs stays until a later call: nothing that the next longer
        one has yet to take in (after its `until`), and only whole slices. So the rollups of a
        length that is no longer made must be given up, or they hold up retention: drop them
        before 2**63 - 1. A piece that holds slices on both sides of the horizon is deleted when
        its last slice is behind it: who reads it leaves out what lies before `horizon`.
        """
        ...

    def drop_history_before(self, before: int) -> int:
        """Retention: windows and trends that end, and rejected records that were committed, at
        or before a time; how many.
        """
        ...

    def sweep(self, folder: PayloadFolder, before: int) -> int:
        """Delete payload files of this pipeline that no row names; how many.

        Those that rows named until they were replaced or dropped go when that was before a time;
        others, of tries that failed, when they were written before it.
        """
        ...

    def close(self) -> None:
        """Give up the writer's connection; the pipeline stays its own until another opens."""
        ...


class View(Protocol):
    """The reading half of a ledger. A name that is not there has nothing: no error."""

    def pipelines(self) -> list[PipelineInfo]:
        """All pipelines of the ledger, as their last commits left them."""
        ...

    def behind(self) -> bool:
        """Whether commits may be missing, since the ledger's store did not answer when asked."""
        ...

    def version(self) -> int:
        """Grows with each transaction that readers may care about; cheap to poll."""
        ...

    def pieces(
        self, summary: str, length: int, start: int | None = None, end: int | None = None
    ) -> list[Piece]:
        """Pieces of that length that overlap [start, end), by id, without their payloads."""
        ...

    def payloads(self, ids: Sequence[int]) -> dict[int, bytes]:
        """Piece -> payload, from its file where it lies in one. A piece that is gone is left out.

        Raises
        ------
        LedgerError
            A row is damaged, or a file is missing, or damaged.
        """
        ...

    def bounds(self, summary: str, length: int) -> tuple[int, int] | None:
        """First slice start and last slice end, or None where there is nothing."""
        ...

    def sizes(self) -> dict[str, tuple[int, int, int | None, int | None]]:
        """Summary -> pieces (or states), their bytes, start of the first, end of the last."""
        ...

    def states(self, summary: str) -> dict[int, bytes]:
        """Shard -> payload of a sequential summary, as the last commit left them."""
        ...

    def coverage(self, summary: str) -> list[Coverage]:
        """The rollups of a summary, by length."""
        ...

    def horizon(self, summary: str, length: int) -> int | None:
        """Retention has dropped the slices of that length before this; None: it dropped none."""
        ...

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
        """Closed windows that start in [start, end), by (start, summary, revision).

        The newest revision of each, or all that are kept with `revisions`.
        """
        ...

    def generation(self) -> int:
        """Tells this ledger from others that stood, or will stand, in its place."""
        ...

    def closings(
        self, after: int, *, until: int | None = None, limit: int = 1000
    ) -> list[tuple[int, ClosedWindow]]:
        """Windows in the order in which they were stored, by running number, from 1.

        Those with a number above `after`, up to `until`; of each the newest revision, whose number
        it has. No number is used again in a generation, whatever clocks do.
        """
        ...

    def last_closing(self) -> int:
        """The highest number that a closing was ever given; 0 before the first."""
        ...

    def closings_dropped(self) -> int:
        """Closings up to this number are not all there: retention, or a reset, took some."""
        ...

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
        """A standing query's results of the windows that start in [start, end).

        The newest revision of each, or all that are kept with `revisions`.
        """
        ...

    def assembler(self, pipeline: str) -> Mapping[str, Any] | None:
        """The assembler's state as `close_windows` last stored it."""
        ...

    def status(self, pipeline: str) -> Mapping[str, Any] | None:
        """What `set_status` last stored."""
        ...

    def alerts(self, pipeline: str) -> Mapping[str, Any] | None:
        """What `set_alerts` last stored."""
        ...

    def commands(self, pipeline: str, *, waiting: bool = True) -> list[Command]:
        """Commands by id: those that wait, or all that are kept."""
        ...

    def command(self, identifier: int) -> Command | None:
        """A command by its id; None where it is not kept any more."""
        ...

    def rejected(
        self, pipeline: str, *, limit: int = 100, after: int = 0
    ) -> Iterator[tuple[int, Rejected]]:
        """Rejected records that were kept, with their running number (from 1, per pipeline)."""
        ...


class Ledger(View, Protocol):
    """A durable (or, for notebooks, in-memory) table of pane summaries. Thread-safe."""

    url: str

    def open_writer(
        self, pipeline: str, spec: Mapping[str, Any], *, query_id: str, mode: Mode = "continue"
    ) -> Writer:
        """Become the pipeline's writer: takes the next epoch, so that older writers are refused.

        Parameters
        ----------
        spec : mapping
            The pipeline as JSON; stored for readers. Its "summaries" (name -> {"kind", ...}) and
            "queries" (by name) are what the pipeline owns in this ledger, its "pane_us" the length
            of a pane. What a newer spec leaves out stays readable.
        mode : {"continue", "error", "append", "overwrite"}
            "continue": only a query that fed the pipeline before may go on (or any, while there
            is no data). "error": refuse if there are data. "append": any query may add.
            "overwrite": delete the pipeline's data first, in the same transaction as the epoch.

        Raises
        ------
        LedgerConflict
            Another query has fed this pipeline (names the remedies), there are data and mode is
            "error", a name belongs to another pipeline of this ledger, or the pane length or a
            summary's kind differs from that of the data.
        LedgerError
            The ledger is of a newer version, not a ledger, read-only or full.
        """
        ...

    def payload_folder(self, pipeline: str, place: str = "") -> PayloadFolder:
        """Where payload files of a pipeline are written, by whoever does: it goes to executors.

        Parameters
        ----------
        place : str
            A folder, or a URL that fsspec knows; "": the ledger's own folder.

        Raises
        ------
        SpecError
            The ledger has no folder of its own, or the URL cannot be used.
        """
        ...

    def snapshot(self, *, known: bool = False) -> AbstractContextManager[View]:
        """Several reads of one state: `with ledger.snapshot() as view: ...`. Keep it short.

        `known`: what `wait` has seen is new enough, so that no server is asked again.
        """
        ...

    def wait(self, version: int, timeout: float) -> int:
        """Block until `version()` is another or `timeout` seconds passed; the version.

        It is lower where another ledger stands in this one's place.
        """
        ...

    def ask(
        self, pipeline: str, action: str, arguments: Mapping[str, Any], *, client: str = ""
    ) -> Command:
        """Put a command into the control table (at most `WAITING_COMMANDS_MAX` may wait)."""
        ...

    def verify(self) -> list[str]:
        """Read everything and check it; what is damaged, one sentence each."""
        ...

    def close(self) -> None:
        """Let go of connections and files; what reads or writes now is ended."""
        ...
