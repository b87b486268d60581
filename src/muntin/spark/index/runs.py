"""Hash runs: what the first stage of a build leaves in the index's folder for the second.

A file is a row of chunks: where each partition begins in it (int64[partitions + 1]), then its
hashes by partition (uint64[...]). A task writes one file under a name of its own attempt and tells
the name when it is whole; files of attempts that failed are never read. So eight bytes a key are
written once and read once, and none of them goes through the JVM.
"""

import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from muntin.errors import SourceError, with_remedy
from muntin.spark.index.manifest import FILE_NAME
from muntin.storage import is_elsewhere, place_of
from muntin.summaries.kernels.static_filter import place
from muntin.summaries.static_filter import to_partitions
from muntin.times import DAY_US, now_us

CHUNK_KEYS = 1 << 20  # hashes that are placed at once: 8 MiB, which a core's cache nearly holds
_PREFIX = ".runs-"
LEFT_AGE_US = 7 * DAY_US  # a week: longer than any build takes


class RunWriter:
    """Writes the hashes of one task; `finish` gives the file's name, or None if there were none."""

    def __init__(self, folder: str, partitions: int, only: frozenset[int] | None) -> None:
        self._name = f"{uuid.uuid4().hex}.u64"
        self._place, self._path = place_of(f"{folder}/{self._name}")
        self._partitions = partitions
        self._only = None if only is None else np.array(sorted(only), np.int64)
        self._waiting: list[np.ndarray] = []
        self._count = 0
        self._file = None

    def add(self, hashes: np.ndarray) -> None:
        self._waiting.append(hashes)
        self._count += len(hashes)
        if self._count >= CHUNK_KEYS:
            self._write()

    def finish(self) -> str | None:
        if self._count:
            self._write()
        if self._file is None:
            return None
        try:
            self._file.close()
        except OSError as problem:
            raise _not_written(self._path, problem) from None
        return self._name

    def _write(self) -> None:
        hashes = np.concatenate(self._waiting)
        self._waiting, self._count = [], 0
        if self._only is not None:
            hashes = hashes[np.isin(to_partitions(hashes, self._partitions), self._only)]
        placed = np.empty_like(hashes)
        starts = np.zeros(self._partitions + 1, np.int64)
        place(hashes, self._partitions, starts, placed)
        try:
            if self._file is None:
                self._file = self._place.create(self._path)
            self._file.write(starts.data)
            self._file.write(placed.data)
        except OSError as problem:
            raise _not_written(self._path, problem) from None


_Chunk = tuple[np.ndarray, np.ndarray]
"""Where each partition begins, and the hashes of those that are wanted."""


class RunReader:
    """The chunks of run files, of which the wanted partitions are read. Raises SourceError: a file
    is missing or cut: the folder is not the same one on all machines, or it is full."""

    def __init__(
        self, folder: str, names: Iterable[str], partitions: int, wanted: range | None = None
    ) -> None:
        self._wanted = range(partitions) if wanted is None else wanted
        self._chunks: list[_Chunk] = []
        for name in names:
            self._chunks += _chunks(f"{folder}/{name}", partitions, self._wanted)

    def hashes(self, partition: int) -> np.ndarray:
        """uint64[n] of one partition, in no order that means anything."""
        found = []
        for starts, hashes in self._chunks:
            begin = int(starts[self._wanted.start])
            found.append(hashes[starts[partition] - begin : starts[partition + 1] - begin])
        return np.concatenate(found) if found else np.empty(0, np.uint64)


def _chunks(path: str, partitions: int, wanted: range) -> Iterator[_Chunk]:
    where, full = place_of(path)
    try:
        size, part = where.parts(full)
        if not size:
            raise _missing(path)
        at = 0
        while at < size:
            begin = at + 8 * (partitions + 1)
            if begin > size:
                raise _cut(path, size)
            starts = np.frombuffer(part(at, begin), np.int64)
            at = begin + 8 * int(starts[-1])
            if at > size:
                raise _cut(path, size)
            first, last = (begin + 8 * int(starts[n]) for n in (wanted.start, wanted.stop))
            yield starts, np.frombuffer(part(first, last), np.uint64)
    except (FileNotFoundError, ValueError):  # ValueError: an empty file cannot be mapped
        raise _missing(path) from None
    except OSError as problem:
        raise SourceError(f"{path} cannot be read: {problem}") from None


def _missing(path: str) -> SourceError:
    return SourceError(f"{path} is missing, which another task has written{_same_folder(path)}")


def _cut(path: str, size: int) -> SourceError:
    return SourceError(f"{path} was cut at {size} bytes: is the disk full?")


def _not_written(path: str, problem: OSError) -> SourceError:
    why = _same_folder(path) if isinstance(problem, FileNotFoundError) else ""
    return SourceError(f"{path} cannot be written ({with_remedy(problem)}){why}")


def _same_folder(path: str) -> str:
    if is_elsewhere(path):
        return ""
    return (
        ": the folder of an index must be the same one for all workers, or a URL such as "
        "s3a://bucket/index"
    )


@contextmanager
def run_folder(folder: str) -> Iterator[str]:
    """A folder for runs inside that of an index, removed in the end whatever happens."""
    where, made = place_of(f"{folder}/{_PREFIX}{uuid.uuid4().hex}")
    where.make_folder(made)  # with the rights of the index's folder: workers may be another user's
    try:
        yield made
    finally:
        where.delete_folder(made)


def remove_left(folder: str, named: Iterable[str], age_us: int = LEFT_AGE_US) -> None:
    """Remove what writers that were killed have left: runs, and files that no manifest names. At a
    URL, where others may be writing at the same time, what is old."""
    place, path = place_of(folder)
    before = now_us() - age_us if is_elsewhere(folder) else None
    kept = set(named)
    with suppress(OSError):  # the next one removes it
        for full in place.listed(path):
            name = full[len(path) + 1 :]
            is_left = name.startswith(_PREFIX) or (FILE_NAME.match(name) and name not in kept)
            if is_left and (before is None or place.written(full) < before):
                place.delete(full)
    if before is None:
        for left in Path(path).glob(f"{_PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)
