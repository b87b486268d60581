"""What an index is, in one JSON file: its parameters, the partition map, sizes and checksums."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self, get_args

import google_crc32c

from muntin.errors import CorruptSummary, SourceError
from muntin.storage import place_of
from muntin.summaries.dynamic_bloom import ItemType

FORMAT = 1
MANIFEST = "manifest.json"
PARTITIONS_MAX = 1 << 16
_NAME = re.compile(r"(part-\d{5}|digest)-[0-9a-f]{16}\.mntn")


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

    def by_partition(self) -> dict[int, PartitionFile]:
        return {file.partition: file for file in self.files}

    def with_files(self, changed: tuple[PartitionFile, ...], **others: Any) -> Self:
        files = {**self.by_partition(), **{file.partition: file for file in changed}}
        ordered = tuple(files[partition] for partition in sorted(files))
        return replace(self, files=ordered, **others)

    def names(self) -> list[str]:
        return [file.file for file in self.files] + ([self.digest] if self.digest else [])

    def write(self, folder: str) -> None:
        """Replace the folder's manifest; a reader sees the old one or the new one."""
        content = {"muntin_index": FORMAT, **asdict(self)}
        content["crc32c"] = _checksum(content)
        place, path = place_of(f"{folder}/{MANIFEST}")
        data = json.dumps(content, sort_keys=True, indent=1).encode()
        try:
            place.write(path, data, lasting=True)
        except OSError as problem:
            raise SourceError(f"{path} cannot be written: {problem}") from None

    @staticmethod
    def names_in(folder: str) -> set[str]:
        """Files of an index that lie in a folder, also such as were not written to their end."""
        place, path = place_of(folder)
        return {name for name in place.sizes(path) if _NAME.match(name)}

    @classmethod
    def stored(cls, folder: str) -> Self:
        """The manifest of a folder, without a look at its files.

        Raises
        ------
        SourceError
            There is no index, or it is of another version.
        CorruptSummary
            It is damaged.
        """
        place, path = place_of(f"{folder}/{MANIFEST}")
        try:
            content = json.loads(place.read(path, 0, None))
        except FileNotFoundError:
            raise SourceError(f"{folder} holds no index: {MANIFEST} is missing") from None
        except OSError as problem:
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
        return cls._from(content, path)

    @classmethod
    def _from(cls, content: dict[str, Any], path: str) -> Self:
        try:
            files = tuple(PartitionFile(**file) for file in content.pop("files"))
            made = cls(files=files, **content)
        except (TypeError, KeyError) as problem:
            raise CorruptSummary(f"{path} is damaged: {problem}") from None
        if made.item_type not in get_args(ItemType):
            raise CorruptSummary(f"{path} is damaged: keys of type {made.item_type!r:.50}")
        if any(not _NAME.fullmatch(str(name)) for name in made.names()):
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
        place, path = place_of(folder)
        sizes = place.sizes(path)
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


def _checksum(content: Mapping[str, Any]) -> int:
    return google_crc32c.value(json.dumps(content, sort_keys=True).encode())
