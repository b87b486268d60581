"""A table that rows are exported to: what it has, and one commit after the other."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa

from muntin.errors import OS_REMEDIES, MuntinError, SourceError

KNOWN = ("start", "end", "revision", "events")
ABOUT = "muntin.export"  # what a table says of itself: whose rows they are. See `exporter.about`.


class Overtaken(Exception):  # noqa: N818  (it says what is the case)
    """Another export has committed since `known` was read."""


class Target(Protocol):
    """One table. What `known` said stays true until `append`, or `append` refuses."""

    def about(self) -> str | None:
        """`ABOUT`, as the first rows' metadata had it; None: it is not there, or does not say."""
        ...

    def known(self) -> Iterator[pa.Table | pa.RecordBatch]:
        """The columns `KNOWN` of all rows."""
        ...

    def schema(self) -> pa.Schema | None:
        """Of the rows; None: there is no table yet."""
        ...

    def append(self, rows: pa.RecordBatchReader) -> None:
        """All rows, or none: one commit. A table that did not say what it is about does now. Raises
        Overtaken: nothing was written: see `known`."""
        ...


_COLOUR = re.compile(r"\x1b\[\d*m")


@contextmanager
def told(place: str) -> Iterator[None]:
    """What catalogs, stores and their packages raise, each in its own way, as one line of ours."""
    try:
        yield
    except (MuntinError, Overtaken):
        raise
    except Exception as problem:
        said = " ".join(_COLOUR.sub("", str(problem)).split()) or type(problem).__name__
        known = (f"; {r}" for number, r in OS_REMEDIES.items() if os.strerror(number) in said)
        remedy = next(known, "")
        raise SourceError(f"cannot export to '{place}': {said[:500]}{remedy}") from problem


def done(target: Target) -> dict[tuple[int, int], tuple[int, int]]:
    """Start and revision of what a table has; its end and its events."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for part in target.known():
        start: Any = part.column("start").cast(pa.int64())
        end: Any = part.column("end").cast(pa.int64())
        columns = (start, end, part.column("revision"), part.column("events"))
        for row in zip(*(column.to_pylist() for column in columns), strict=True):
            found[row[0], row[2]] = row[1], row[3]
    return found


def about_of(schema: pa.Schema) -> str | None:
    said = (schema.metadata or {}).get(ABOUT.encode())
    return None if said is None else said.decode()
