"""Hash runs: what the first stage of a build leaves in the index's folder for the second.

A file is a row of chunks: where each partition begins in it (int64[partitions + 1]), then its
hashes by partition (uint64[...]). A task writes one file under a name of its own attempt and tells
the name when it is whole; files of attempts that failed are never read. So eight bytes a key are
written once and read once, and none of them goes through the JVM.
"""

from __future__ import annotations

import mmap
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from muntin.errors import SourceError
from muntin.summaries.kernels.placement import place
from muntin.summaries.static_filter import to_partitions

CHUNK_KEYS = 1 << 20  # hashes that are placed at once: 8 MiB, which a core's cache nearly holds
_PREFIX = ".runs-"


class RunWriter:
    """Writes the hashes of one task; `finish` gives the file's name, or None if there were none."""

    def __init__(self, folder: Path, partitions: int, only: frozenset[int] | None) -> None:
        self._path = folder / f"{uuid.uuid4().hex}.u64"
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
        self._file.close()
        return self._path.name

    def _write(self) -> None:
        hashes = np.concatenate(self._waiting)
        self._waiting, self._count = [], 0
        if self._only is not None:
            hashes = hashes[np.isin(to_partitions(hashes, self._partitions), self._only)]
        placed = np.empty_like(hashes)
        starts = np.zeros(self._partitions + 1, np.int64)
        place(hashes, self._partitions, starts, placed)
        if self._file is None:
            self._file = self._path.open("wb")
        self._file.write(starts.data)
        self._file.write(placed.data)


class RunReader:
    """The chunks of run files, mapped into memory.

    Raises
    ------
    SourceError
        A file is missing or cut: the folder is not the same one on all machines, or it is full.
    """

    def __init__(self, folder: Path, names: Iterable[str], partitions: int) -> None:
        self._chunks: list[tuple[np.ndarray, np.ndarray]] = []
        for name in names:
            self._chunks += _chunks(folder / name, partitions)

    def hashes(self, partition: int) -> np.ndarray:
        """uint64[n] of one partition, in no order that means anything."""
        parts = [
            hashes[starts[partition] : starts[partition + 1]] for starts, hashes in self._chunks
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _chunks(path: Path, partitions: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (FileNotFoundError, ValueError):  # ValueError: an empty file cannot be mapped
        raise SourceError(
            f"{path} is missing, which another task has written: the folder of an index must be "
            "the same one for all workers"
        ) from None
    at = 0
    while at < len(data):
        begin = at + 8 * (partitions + 1)
        starts = np.frombuffer(data, np.int64, partitions + 1, at) if begin <= len(data) else None
        if starts is None or begin + 8 * int(starts[-1]) > len(data):
            raise SourceError(f"{path} was cut at {len(data)} bytes: is the disk full?")
        yield starts, np.frombuffer(data, np.uint64, int(starts[-1]), begin)
        at = begin + 8 * int(starts[-1])


@contextmanager
def run_folder(folder: str | Path) -> Iterator[str]:
    """A folder for runs inside that of an index, removed in the end whatever happens."""
    made = Path(folder) / f"{_PREFIX}{uuid.uuid4().hex}"
    made.mkdir()  # with the rights of the index's folder: workers may be another user's
    try:
        yield str(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def remove_left(folder: Path) -> None:
    """Remove the runs that a build left whose driver was killed."""
    for path in folder.glob(f"{_PREFIX}*"):
        shutil.rmtree(path, ignore_errors=True)
