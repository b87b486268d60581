"""What an index is, in one JSON file: its parameters, the partition map, sizes and checksums.

Each revision is a file of its own, named by its number, and the newest counts: who adds one learns
whether another was first. A file that is replaced could tell nobody so, at a URL.
"""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self, get_args

import google_crc32c

from muntin.errors import CorruptSummary, SourceError
from muntin.storage import place_of
from muntin.summaries.dynamic_bloom import ItemType

FORMAT = 1
MANIFESTS = "manifests"
PARTITIONS_MAX = 1 << 16
FILE_NAME = re.compile(r"(part-\d{5}|digest)-\d+-[0-9a-f]{16}\.mntn")
_REVISION = re.compile(r"\d{10}\.json")


@dataclass(frozen=True, slots=True)
class PartitionFile:
    """One partition's file; `least` and `most` are the exact range of its keys' hashes."""

    partition: int
    file: str
    size: int
    records: int
    keys: int
    least: int
    most: int
    false_positive_rate: float
    filter_bytes: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """An index: immutable; `append` makes the next revision."""

    key: str
    rank: str | None
    item_type: ItemType
    partitions: int
    fpp: float
    error: float
    seed: int
    headroom: int = 2
    records: int = 0
    revision: int = 0
    digest: str = ""
    files: tuple[PartitionFile, ...] = ()
    batches: Mapping[str, int] = field(default_factory=dict)
    """Newest batch of each stream that was appended."""

    def with_files(self, changed: tuple[PartitionFile, ...], **others: Any) -> Self:
        files = {file.partition: file for file in (*self.files, *changed)}
        ordered = tuple(files[partition] for partition in sorted(files))
        return replace(self, files=ordered, **others)

    def names(self) -> list[str]:
        return [file.file for file in self.files] + ([self.digest] if self.digest else [])

    def commit(self, folder: str) -> None:
        """Add this revision to a folder, in place of those before it. Raises SourceError: another
        process was first, or the file cannot be written: readers see no change."""
        content = {"muntin_index": FORMAT, **asdict(self)}
        content["crc32c"] = _checksum(content)
        data = json.dumps(content, sort_keys=True, indent=1).encode()
        name = _file_of(self.revision)
        place, path = place_of(f"{folder}/{MANIFESTS}")
        try:
            made = [one for one in self.names() if f"-{self.revision}-" in one]
            place.sync(place_of(folder)[1], made)  # before the manifest names them
            place.add(f"{path}/{name}", data)
        except OSError as problem:  # of an answer that was lost, too
            there = None
            with suppress(OSError):
                there = place.read(f"{path}/{name}", 0, None)
            if there is None:
                raise SourceError(f"{path}/{name} cannot be written: {problem}") from None
            if there != data:
                raise changed_meanwhile(folder) from None
        why, names = "another process changed it meanwhile", {}
        try:
            names = _sizes(f"{folder}/{MANIFESTS}")
        except SourceError as problem:
            why = str(problem)
        if _newest_of(names) != self.revision:  # its number may have been taken, and free again
            raise SourceError(
                f"whether the index in {folder} was changed is not known ({why}): look whether "
                "what was to be added is there, and try again if it is not"
            )
        for old in names:
            if old < name:
                with suppress(OSError):  # the next one removes it
                    place.delete(f"{path}/{old}")

    @staticmethod
    def names_in(folder: str) -> set[str]:
        """Files of an index that lie in a folder, also such as were not written to their end."""
        return {name for name in _sizes(folder) if FILE_NAME.match(name)}

    @staticmethod
    def newest(folder: str) -> int:
        """The newest revision in a folder; 0: there is no index."""
        place = f"{folder}/{MANIFESTS}"
        # A folder that is listed while one file takes the place of another may show neither.
        return _newest_of(_sizes(place)) or _newest_of(_sizes(place))

    @classmethod
    def stored(cls, folder: str) -> Self:
        """The newest manifest of a folder, without a look at its files."""
        revision = cls.newest(folder)
        if not revision:
            raise SourceError(f"{folder} holds no index: correct the path, or build it there")
        place, path = place_of(f"{folder}/{MANIFESTS}/{_file_of(revision)}")
        try:
            content = json.loads(place.read(path, 0, None))
        except OSError as problem:
            if isinstance(problem, FileNotFoundError) and cls.newest(folder) != revision:
                return cls.stored(folder)  # a newer one has taken its place
            raise SourceError(f"{path} cannot be read: {problem}") from None
        except (ValueError, RecursionError) as problem:
            raise CorruptSummary(f"{path} is damaged: {problem}") from None
        if not isinstance(content, dict):
            raise CorruptSummary(f"{path} is damaged: no JSON object")
        version = content.pop("muntin_index", None)
        if version != FORMAT:
            raise SourceError(
                f"{path} is of format {version!r}, this Muntin reads {FORMAT}: build it anew"
            )
        stated = content.pop("crc32c", None)
        if stated != _checksum({"muntin_index": version, **content}):
            raise CorruptSummary(f"{path} is damaged: its checksum does not match")
        made = cls._from(content, path)
        if made.revision != revision:
            raise CorruptSummary(f"{path} is damaged: it holds revision {made.revision!r:.50}")
        return made

    @classmethod
    def _from(cls, content: dict[str, Any], path: str) -> Self:
        try:
            files = tuple(PartitionFile(**file) for file in content.pop("files"))
            made = cls(files=files, **content)
        except (TypeError, KeyError) as problem:
            raise CorruptSummary(f"{path} is damaged: {problem}") from None
        if made.item_type not in get_args(ItemType):
            raise CorruptSummary(f"{path} is damaged: keys of type {made.item_type!r:.50}")
        if any(not FILE_NAME.fullmatch(str(name)) for name in made.names()):
            raise CorruptSummary(f"{path} names a file that is none of an index")
        if any(
            type(getattr(file, one.name)) is not (float if "rate" in one.name else int)
            for file in files
            for one in fields(PartitionFile)
            if one.name != "file"
        ):
            raise CorruptSummary(f"{path} is damaged: a partition's numbers are none")
        return made

    def check_files(self, folder: str) -> None:
        """SourceError that names the files which are missing, CorruptSummary for other sizes."""
        sizes = _sizes(folder)
        missing = [name for name in self.names() if name not in sizes]
        if missing:
            shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
            raise SourceError(
                f"the index in {folder} lacks {len(missing)} of its files: {shown}; "
                "restore them or build the index anew"
            )
        for file in self.files:
            size = sizes[file.file]
            if size != file.size:
                raise CorruptSummary(f"{folder}/{file.file}: {size} bytes instead of {file.size}")


def changed_meanwhile(folder: str) -> SourceError:
    return SourceError(
        f"the index in {folder} was changed by another process meanwhile: nothing was added; try "
        "again"
    )


def _file_of(revision: int) -> str:
    return f"{revision:010}.json"


def _newest_of(names: Iterable[str]) -> int:
    return max((int(name[:10]) for name in names if _REVISION.fullmatch(name)), default=0)


def _sizes(folder: str) -> dict[str, int]:
    """Bytes of the files in a folder, by their names."""
    place, path = place_of(folder)
    try:
        return place.sizes(path)
    except OSError as problem:
        raise SourceError(f"{path} cannot be read: {problem}") from None


def _checksum(content: Mapping[str, Any]) -> int:
    return google_crc32c.value(json.dumps(content, sort_keys=True).encode())
