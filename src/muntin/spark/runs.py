"""Many keys: what tasks write by shard, and tasks that merge a shard each.

A task that finds few keys sends its segment to the driver. One that finds many writes runs: files
of segments, shard by shard, where all executors can read. A second job merges each shard in a task,
which writes the shard's pieces; the driver gets their names and slices, and deletes the runs. Those
of tries that failed are garbage, as all files that no commit names.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from muntin.assembly.arriving import Covered, partials_of_segment
from muntin.assembly.cutting import Cutting
from muntin.errors import CorruptSummary, LedgerError
from muntin.ledger.files import PayloadFolder
from muntin.ledger.records import Partial, Stored
from muntin.ledger.slices import Slices
from muntin.segments.building import merge
from muntin.segments.codec import cut, decode, encode
from muntin.segments.shards import split
from muntin.segments.table import Segment
from muntin.spark.rows import PARTIAL, PIECE, RUN, Row, Tasks

if TYPE_CHECKING:
    from muntin.spark.partials import Plan

RUN_BYTES_MAX = 64 << 20  # in a task's memory, then written
BUFFERED_BYTES_MAX = 256 << 20  # of segments of one summary; then they are cut
SEGMENTS_MAX = 8  # then they are merged
SHRINKS = 0.7  # a merge that leaves more of the rows than this is left to the shards' own
_HEAD = struct.Struct("<qqq")
"""Of a piece: the length of its slices, and how many bytes say these and its file's name."""


class Runs:
    """A task's segments of one summary that has shards."""

    def __init__(self, cutting: Cutting) -> None:
        self._cutting = cutting
        self._parts: list[Segment] = []
        self._merges = True
        self._sections: list[tuple[int, bytes]] = []
        self._nbytes = 0
        self._written: list[Row] = []

    def add(self, segment: Segment) -> None:
        parts = self._parts
        parts.append(segment)
        if len(parts) in (2, SEGMENTS_MAX) and self._merges:
            whole = merge(parts)
            self._merges = whole.rows <= SHRINKS * sum(part.rows for part in parts)
            parts[:] = [whole]
        if not self._merges or sum(part.nbytes for part in parts) >= BUFFERED_BYTES_MAX:
            self._cut()

    def emit(self, all_of_it: bool) -> Iterator[Row]:
        """Rows for the driver: runs that were written, and at the end what is left."""
        if all_of_it and self._parts and not (self._sections or self._written):
            whole = merge(self._parts)
            self._parts.clear()
            if whole.nbytes < self._cutting.cut_bytes:
                yield PARTIAL, self._cutting.summary, 0, encode(whole)
            else:
                self._parts.append(whole)
        if all_of_it:
            self._cut()
            self._write()
        yield from self._written
        self._written.clear()

    def _cut(self) -> None:
        for segment in self._parts:
            shards = split(segment, self._cutting.shards)
            for part in (part for shard in shards for part in cut(shard)):
                payload = encode(part)
                self._sections.append((part.shard, payload))
                self._nbytes += len(payload)
        self._parts.clear()
        if self._nbytes >= RUN_BYTES_MAX:
            self._write()

    def _write(self) -> None:
        if not self._sections:
            return
        assert self._cutting.folder is not None  # noqa: S101 (who has shards has a folder)
        name = f"run-{self._cutting.summary}"
        payload = b"".join(payload for _, payload in self._sections)
        stored = self._cutting.folder.write(name, payload, lasting=False)
        sizes = [(shard, len(payload)) for shard, payload in self._sections]
        written = json.dumps([stored.path, sizes]).encode()
        self._written.append((RUN, self._cutting.summary, 0, written))
        self._sections.clear()
        self._nbytes = 0


class _Section(NamedTuple):
    path: str
    begin: int
    size: int


def merged(plan: Plan, rows: Sequence[Row], tasks: Tasks) -> Sequence[Row]:
    """On the driver: what tasks sent, and instead of their runs the pieces made of them."""
    cuttings = plan.cuttings
    runs: dict[tuple[str, int], list[_Section]] = {}
    paths: dict[str, list[str]] = {}
    for _, name, _, written in (row for row in rows if row[0] == RUN):
        path, sizes = json.loads(written)
        paths.setdefault(name, []).append(path)
        _folder(cuttings[name]).check_seen(path, sum(size for _, size in sizes))
        begin = 0
        for shard, size in sizes:
            runs.setdefault((name, shard), []).append(_Section(path, begin, size))
            begin += size
    if not runs:
        return rows
    jobs = sorted(runs.items())

    def task(number: int) -> Iterator[Row]:
        (name, _), sections = jobs[number]
        return _merged(cuttings[name], plan.covered.get(name, {}), plan.pane, sections)

    try:
        made = tasks(len(jobs), task)
    finally:  # also where they fail: perhaps for want of space
        for name, written in paths.items():
            _folder(cuttings[name]).delete(written)
    for row in made:
        payload = partial_of(row).payload
        if isinstance(payload, Stored):
            _folder(cuttings[row[1]]).check_seen(payload.path, payload.nbytes)
    return [*(row for row in rows if row[0] != RUN), *made]


def _merged(
    cutting: Cutting, covered: Covered, pane: int, sections: Sequence[_Section]
) -> Iterator[Row]:
    folder = _folder(cutting)
    whole = merge([_decoded(folder, section) for section in sections])
    for partial in partials_of_segment(cutting, pane, covered, whole):
        slices = partial.slices.to_bytes()
        payload = partial.payload
        named = b""
        if isinstance(payload, Stored):
            named, payload = payload.to_bytes(), b""
        head = _HEAD.pack(partial.length or 0, len(slices), len(named))
        yield PIECE, cutting.summary, partial.shard, b"".join((head, slices, named, payload))


def _decoded(folder: PayloadFolder, section: _Section) -> Segment:
    try:
        return decode(folder.read_part(*section))
    except CorruptSummary as problem:  # a store may give half of it
        raise LedgerError(
            f"{folder.full(section.path)}: from byte {section.begin:,} on it is not what a task of "
            f"this batch has written ({problem}): look at the store; the batch comes again at the "
            "next start"
        ) from problem


def partial_of(row: Row) -> Partial:
    """The partial that a task has made."""
    _, name, shard, body = row
    length, size, name_size = _HEAD.unpack_from(body)
    at = _HEAD.size + size
    slices, named = Slices.from_bytes(body[_HEAD.size : at]), body[at : at + name_size]
    stored = Stored.from_bytes(named) if named else body[at:]
    return Partial(name, slices, stored, length or None, shard)


def _folder(cutting: Cutting) -> PayloadFolder:
    assert cutting.folder is not None  # noqa: S101 (who has shards has a folder)
    return cutting.folder
