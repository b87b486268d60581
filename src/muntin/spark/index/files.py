"""Files of an index: written once under the name of their content, mapped into memory and kept."""

import fcntl
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from muntin.errors import CorruptSummary, SourceError, with_remedy
from muntin.spark.index.manifest import PartitionFile
from muntin.storage import is_elsewhere, is_file, place_of
from muntin.summaries.fingerprint_index import Fingerprint
from muntin.summaries.static_filter import to_partitions

HashGroups = Sequence[tuple[int, np.ndarray]]  # hashes, by the partition that can hold them
_GUARD = ".appending"
OPEN_MAX = 4096  # mapped files that a process keeps
_open: dict[str, Fingerprint] = {}
_changing_open = threading.Lock()


@contextmanager
def changing(folder: str) -> Iterator[None]:
    """Nobody else changes the index of this folder in the block; at a URL nobody could say so."""
    if is_elsewhere(folder):
        yield
        return
    try:
        guard = os.open(f"{folder}/{_GUARD}", os.O_CREAT | os.O_WRONLY, 0o644)
    except FileNotFoundError:
        raise SourceError(f"the index in {folder} is gone: restore it or build it anew") from None
    except OSError as problem:
        raise SourceError(f"the index in {folder} cannot be changed ({problem})") from None
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)  # until whoever appends has finished, or has ended
        yield
    finally:
        os.close(guard)


def _name_of(stem: str, data: bytes | memoryview) -> str:
    return f"{stem}-{hashlib.sha256(data).hexdigest()[:16]}.mntn"


def same_content(name: str, other: str) -> bool:
    """Whether two files, of whatever revisions, were written with the same bytes."""
    return name.rpartition("-")[2] == other.rpartition("-")[2]


def check_content(path: str, data: bytes | memoryview) -> None:
    """CorruptSummary where these bytes are not those that the file's name was made of. They may be
    whole and another file's, which would say no to all keys of this one."""
    if _name_of(path.rpartition("-")[0], data) != path:
        raise CorruptSummary(
            f"{path} does not hold what was written under this name: restore it or build the "
            "index anew"
        )


def read_checked(path: str) -> bytes:
    """All of a file; SourceError where it cannot be read, CorruptSummary where it is damaged."""
    place, full = place_of(path)
    try:
        data = place.read(full, 0, None)
    except OSError as problem:
        raise SourceError(f"{path} cannot be read: {problem}") from None
    check_content(path, data)
    return data


def write_once(folder: str, stem: str, data: bytes) -> str:
    """Write a file named after its content, also where one of that name is: it may be damaged."""
    name = _name_of(stem, data)
    place, path = place_of(f"{folder}/{name}")
    # Another attempt of the same task may be writing, too: one of them stays, whole.
    try:
        place.write(path, data, lasting=False)
    except OSError as problem:
        raise SourceError(f"{path}: the index cannot be written ({with_remedy(problem)})") from None
    return name


def write_partition(
    folder: str, partition: int, revision: int, summary: Fingerprint
) -> PartitionFile:
    """Write the file of a partition. Its name has the revision, so that none removes another's."""
    data = summary.to_bytes()
    least, most = summary.hash_range or (0, 0)
    return PartitionFile(
        partition=partition,
        file=write_once(folder, f"part-{partition:05d}-{revision}", data),
        size=len(data),
        records=summary.count,
        keys=summary.keys,
        least=least,
        most=most,
        false_positive_rate=summary.false_positive_rate(),
        filter_bytes=round(summary.bits_per_key * summary.keys / 8),
    )


def opened(path: str) -> Fingerprint:
    """A file's summary, read in place; checked once in a process, as by `read_checked`."""
    found = _open.get(path)
    if found is None:
        place, full = place_of(path)
        try:
            view = place.mapped(full)
        except (FileNotFoundError, ValueError):  # ValueError: an empty file cannot be mapped
            raise SourceError(f"the index lacks its file {path}, or it is empty") from None
        except OSError as problem:
            raise SourceError(f"{path} cannot be read: {problem}") from None
        check_content(path, view)
        found = Fingerprint.mapped(view)
        with _changing_open:
            if len(_open) >= OPEN_MAX:
                _open.pop(next(iter(_open)))
            _open[path] = found
    return found


def forget(folder: str) -> None:
    """Close what this process keeps of a folder."""
    prefix = f"{folder}/"
    with _changing_open:
        for path in [path for path in _open if path.startswith(prefix)]:
            del _open[path]


def can_read(folder: str, names: Iterable[str]) -> bool:
    """Whether this process sees all of these files. At a URL what it has open is not asked for."""
    known = _open if is_elsewhere(folder) else ()
    return all(path in known or is_file(path) for path in (f"{folder}/{name}" for name in names))


def ask_here(folder: str, names: Mapping[int, str], groups: HashGroups) -> np.ndarray:
    """Whether each hash may be there, group after group: bool[n]; this process reads the files."""
    found = [
        opened(f"{folder}/{names[partition]}").contains_hashes(hashes)
        for partition, hashes in groups
    ]
    return np.concatenate([np.empty(0, np.bool_), *found])


def by_partition(
    hashes: np.ndarray, partitions: int, zones: Mapping[int, tuple[int, int]]
) -> tuple[np.ndarray, HashGroups]:
    """Hashes grouped by the one partition that can hold them, and where each stood. A hash outside
    its partition's zone is in no group: it is surely not there."""
    if not len(hashes):
        return np.empty(0, np.int64), []
    placed = to_partitions(hashes, partitions)
    order = np.argsort(placed, kind="stable")
    found = placed[order]
    starts = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]]))
    positions, groups = [], []
    for start, end in zip(starts, [*starts[1:], len(found)], strict=True):
        zone = zones.get(int(found[start]))
        if zone is None:
            continue
        rows = order[start:end]
        part = hashes[rows]
        inside = (part >= np.uint64(zone[0])) & (part <= np.uint64(zone[1]))
        if inside.any():
            positions.append(rows[inside])
            groups.append((int(found[start]), part[inside]))
    where = np.concatenate(positions) if positions else np.empty(0, np.int64)
    return where, groups
