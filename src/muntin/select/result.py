"""The answer to a SELECT: rows, and what they are true of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.errors import UnknownName, needs
from muntin.select import result_text
from muntin.select.catalog import Note
from muntin.select.values import json_column, months_as_text, rows_of, text_column
from muntin.times import datetime_of, instant_text, instant_us


@dataclass(frozen=True, slots=True)
class WindowRead:
    """What one FROM item was asked for and what it covers."""

    source: str
    """Summary, or standing query."""
    asked: str
    """The clause without FOR, in one spelling."""
    covered: tuple[int, int] | None
    """Start and end of exactly what was read, microseconds since 1970 UTC; None: nothing was."""

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> WindowRead:
        """What `to_dict` made."""
        covered = said["covered"]
        if covered is not None:
            covered = instant_us(covered["start"]), instant_us(covered["end"])
        return cls(said["source"], said["asked"], covered)

    @property
    def start(self) -> datetime | None:
        """Start of what is covered, UTC."""
        return None if self.covered is None else datetime_of(self.covered[0])

    @property
    def end(self) -> datetime | None:
        """End of what is covered (excluded), UTC."""
        return None if self.covered is None else datetime_of(self.covered[1])

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON: instants as text."""
        covered = None
        if self.covered is not None:
            covered = {"start": instant_text(self.covered[0]), "end": instant_text(self.covered[1])}
        return {"source": self.source, "asked": self.asked, "covered": covered}


@dataclass(frozen=True)
class Result:
    """Rows of a SELECT, with the window that they cover.

    Attributes
    ----------
    table : pyarrow.Table
    windows : tuple of WindowRead
        One for each FROM item that was loaded, in their order in the text.
    watermark : int or None
        The lowest of what was read; microseconds since 1970 UTC.
    revision : int
        The highest of what was read.
    exact : bool
        No approximate summary took part but those that are proven to have forgotten nothing, and
        every event of what is covered was counted. Otherwise the bounds are columns, or in
        `bounds`.
    bounds : mapping
        Source -> what is known about the error of its rows. Where a source is read in several
        ways that differ in it: FROM item and window -> that.
    notes : tuple of Note
        What the rows do not show by themselves: a part that is not stored any more, a history that
        was cut, events that were not counted.
    late : int
        Events in the windows that came after their pane was sealed; they are counted.
    stale : bool
        Events that have come since may be missing: a pipeline failed, or gave no sign of life for
        three triggers and 10 s.
    seconds : float
        How long it took, loading (and the way from a server) included; 0 of what was pushed.
    """

    table: pa.Table
    windows: tuple[WindowRead, ...]
    watermark: int | None
    revision: int
    exact: bool
    bounds: Mapping[str, Any]
    notes: tuple[Note, ...]
    late: int
    stale: bool
    seconds: float = field(compare=False)

    @classmethod
    def of(cls, table: pa.Table, said: Mapping[str, Any], seconds: float = 0.0) -> Result:
        """Rows with the particulars that `particulars` made of them.

        Raises
        ------
        KeyError, TypeError, ValueError
            They are not what `particulars` makes.
        """
        return cls(
            table,
            windows=tuple(WindowRead.of(window) for window in said["windows"]),
            watermark=None if said["watermark"] is None else instant_us(said["watermark"]),
            revision=said["revision"],
            exact=said["exact"],
            bounds=said["bounds"],
            notes=tuple(Note(**note) for note in said["notes"]),
            late=said["late"],
            stale=said["stale"],
            seconds=seconds,
        )

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        return self.table.column_names

    @property
    def window(self) -> WindowRead | None:
        """Of the first FROM item."""
        return self.windows[0] if self.windows else None

    @cached_property
    def rows(self) -> list[list[Any]]:
        """Rows as JSON values: times as ISO 8601 text, null for NaN and infinity."""
        return rows_of(self.table, json_column)

    def __len__(self) -> int:
        return self.table.num_rows

    def __getitem__(self, column: str | list[str]) -> Any:
        """A column as a pandas Series, several as a DataFrame: `result["count"].sum()`. Raises
        UnknownName: there is no such column; the message lists those that there are."""
        for name in column if isinstance(column, list) else [column]:
            if name not in self.columns:
                raise UnknownName(
                    f"no column {name!r}: there are {', '.join(self.columns)}; "
                    "rows are in .rows, or in .to_pandas()"
                )
        return self.to_pandas()[column]

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self.rows)

    def particulars(self) -> dict[str, Any]:
        """All but columns and rows, as JSON values."""
        windows = [window.to_dict() for window in self.windows]
        first = None
        if windows:
            first = {"asked": windows[0]["asked"], "covered": windows[0]["covered"]}
        return {
            "window": first,
            "windows": windows,
            "watermark": instant_text(self.watermark),
            "revision": self.revision,
            "exact": self.exact,
            "bounds": dict(self.bounds),
            "notes": [note.to_dict() for note in self.notes],
            "late": self.late,
            "stale": self.stale,
        }

    def to_dict(self) -> dict[str, Any]:
        """The object that `to_json` writes."""
        types = [str(t) for t in self.table.schema.types]
        return {"columns": self.columns, "types": types, "rows": self.rows, **self.particulars()}

    def to_json(self) -> str:
        """One JSON object: columns, types, rows, window, watermark, exact, notes, stale, ..."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def to_arrow(self) -> pa.Table:
        """The rows; the particulars are the schema's metadata, as JSON under b"muntin"."""
        about = json.dumps(self.particulars(), ensure_ascii=False, allow_nan=False)
        return self.table.replace_schema_metadata({b"muntin": about.encode()})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """For whatever takes Arrow's streams: `polars.DataFrame(result)`, `pa.table(result)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """A pandas DataFrame; times are in UTC, lengths of time are timedeltas."""
        needs("notebook", "to_pandas", "pandas")
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """A polars DataFrame."""
        needs("notebook", "to_polars", "polars")
        import polars as pl

        return pl.from_arrow(months_as_text(self.table))

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """CSV with a header: as text, or written to `path`."""
        text = result_text.csv(self.columns, self._shown(None))
        if path is None:
            return text
        Path(path).write_text(text, encoding="utf-8", newline="")
        return None

    def to_text(self, rows_max: int | None = None) -> str:
        """An aligned table, and one line about what it covers."""
        rows = self._shown(rows_max)
        return result_text.table(self.columns, rows, len(self)) + "\n" + self.footer()

    def _shown(self, rows_max: int | None) -> list[list[Any]]:
        """The first rows, for a reader."""
        table = self.table if rows_max is None else self.table.slice(0, rows_max)
        return rows_of(table, text_column)

    def footer(self) -> str:
        """A line on rows, window, exactness, and one for each note."""
        return result_text.footer(len(self), self.particulars(), self.seconds)

    def __str__(self) -> str:
        return self.to_text(rows_max=40)

    __repr__ = __str__  # what an interactive Python shows

    def _repr_html_(self) -> str:
        rows = self._shown(result_text.HTML_ROWS_MAX)
        return result_text.html(self.columns, rows, len(self), self.footer())

    def plot(self, **options: Any) -> Any:
        """A chart of the rows; see `muntin.select.result_plot.plot`. Needs matplotlib."""
        from muntin.select.result_plot import plot

        return plot(self, **options)
