"""Files of an index: written once under the name of their content, mapped into memory and kept."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np

from muntin.errors import BadArgument, SourceError
from muntin.spark.index.manifest import PartitionFile
from muntin.summaries.fingerprint_index import Fingerprint
from muntin.summaries.static_filter import to_partitions

OPEN_MAX = 4096  # mapped files that a process keeps
_open: dict[str, Fingerprint] = {}


def index_folder(path: str | Path) -> Path:
    """The folder of an index, from its path or `file:///` URI.

    Raises
    ------
    BadArgument
        It is elsewhere: its files are mapped into memory where they are asked.
    """
    text = os.fspath(path)
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    elif "://" in text:
        raise BadArgument(
            f"path: {text}: an index lies in files that are mapped into memory: name a folder that "
            "this machine and the workers have mounted, and copy it from and to such storage"
        )
    return Path(text).resolve()


def write_once(folder: Path, stem: str, data: bytes) -> str:
    """Write a file named after its content; the same bytes again change nothing."""
    name = f"{stem}-{hashlib.sha256(data).hexdigest()[:16]}.mntn"
    path = folder / name
    if path.is_file() and path.stat().st_size == len(data):
        return name
    # Another attempt of the same task may be writing, too: each to its own file, last one stays.
    partial = folder / f".{name}.{os.getpid()}"
    with partial.open("wb") as out:
        out.write(data)
    partial.replace(path)
    return name


def write_partition(folder: Path, partition: int, summary: Fingerprint) -> PartitionFile:
    data = summary.to_bytes()
    least, most = summary.hash_range or (0, 0)
    return PartitionFile(
        partition=partition,
        file=write_once(folder, f"part-{partition:05d}", data),
        size=len(data),
        records=summary.count,
        keys=summary.keys,
        least=least,
        most=most,
        false_positive_rate=summary.false_positive_rate(),
        filter_bytes=round(summary.bits_per_key * summary.keys / 8),
    )


def opened(path: str) -> Fingerprint:
    """A file's summary, read in place; checked once in a process.

    Raises
    ------
    SourceError
        The file is missing.
    CorruptSummary
        It is damaged.
    """
    found = _open.get(path)
    if found is None:
        try:
            with open(path, "rb") as file:
                view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (FileNotFoundError, ValueError):  # ValueError: an empty file cannot be mapped
            raise SourceError(f"the index lacks its file {path}, or it is empty") from None
        found = Fingerprint.mapped(view)
        if len(_open) >= OPEN_MAX:
            _open.pop(next(iter(_open)))
        _open[path] = found
    return found


def forget(folder: Path) -> None:
    """Close what this process keeps of a folder."""
    prefix = str(folder) + os.sep
    for path in [path for path in _open if path.startswith(prefix)]:
        del _open[path]


def probe(folder: str, names: Mapping[int, str], parts: Sequence[tuple[int, np.ndarray]]) -> bytes:
    """Whether each hash may be there, one byte each, part after part."""
    return b"".join(
        opened(os.path.join(folder, names[partition])).contains_hashes(hashes).tobytes()
        for partition, hashes in parts
    )


def by_partition(
    hashes: np.ndarray, partitions: int, zones: Mapping[int, tuple[int, int]]
) -> tuple[np.ndarray, list[tuple[int, np.ndarray]]]:
    """Hashes grouped by the one partition that can hold them, and where each stood.

    A hash outside its partition's zone is in no group: it is surely not there.
    """
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
