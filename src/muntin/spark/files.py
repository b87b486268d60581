"""Files of this machine that a source names, found as Spark finds them."""

import gzip
import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, cast
from urllib.parse import unquote

from muntin import storage
from muntin.errors import SourceError
from muntin.spark.unchanged import states_of
from muntin.spec import COMPRESSED

FILE_FORMATS = ("parquet", "csv", "json", "orc", "text", "avro")


def local_path(path: str) -> Path | None:
    """A path of this machine, absolute: workers may have another working folder. None elsewhere.
    Without `..`, which Spark takes out in the same way: its files would not lie below."""
    return None if storage.is_elsewhere(path) else Path(os.path.abspath(storage.path_of(path)))


def unpacked(path: str) -> IO[bytes] | None:
    """The bytes of a file, which may be a `.gz`; None where it cannot be read here. Raises OSError,
    EOFError: it is not there, or is no `.gz`: so may reading it."""
    here = local_path(path)
    if here is None or here.suffix in COMPRESSED[1:]:
        return None
    return cast("IO[bytes]", gzip.open(here)) if here.suffix == ".gz" else here.open("rb")


def is_pattern(path: str) -> bool:
    """Does it name files by a pattern, such as `day=*/*.csv`?"""
    return any(sign in path for sign in "*?[{")


def for_spark(path: str) -> str:
    """A path as Spark is to be given it: what stands in the name of a file that is there, such as
    [ or {, is no pattern."""
    here = local_path(path)
    if here is None or not here.exists():
        return path
    return re.sub(r"[][{}*?\\]", r"\\\g<0>", path)


def files_at(path: Path) -> list[Path]:
    """The files of a folder, at any depth, that of a path, or those that a pattern names, and in
    folders that it names; in order. What begins with _ or . is not for readers. Raises SourceError:
    a link to a folder in which it lies makes files without end of them, or it is a Delta table."""
    return sorted({file for root in _roots(path) for file in _below(root)}, key=str)


def filled_files(path: str) -> list[str]:
    """The files of a local file, folder or pattern, but empty ones, which Spark leaves out; [] if
    they are elsewhere."""
    here = local_path(path)
    there = states_of(map(str, files_at(here))) if here else {}
    return [file for file, (size, _) in there.items() if size]


def is_nested(path: Path, wanted: str = "*") -> bool:
    """Do files lie in folders of a folder, which Spark does not look into by itself?

    `wanted`: the source's pathGlobFilter; other files are none to Spark.

    Folders of partitions, such as `day=1`, are others: these it knows. Raises SourceError: there
    are folders of partitions and files beside them, of which Spark leaves out some without a word.
    """
    beside: list[Path] = []
    nested = False
    partitioned: Path | None = None
    for root in _roots(path):
        for file in _below(root) if root.is_dir() else ():
            if "{" not in wanted and not fnmatchcase(file.name, wanted.replace("[^", "[!")):
                continue
            folders = file.relative_to(root).parts[:-1]
            if any(_is_partition(folder) for folder in folders):
                partitioned = partitioned or file
            else:
                beside.append(file)
                nested |= bool(folders)
    if partitioned is not None and beside:
        raise SourceError(
            f"source.path: {path} holds {beside[0]} beside folders of partitions, such as "
            f"{partitioned.parent.name}: move it, or write  recursiveFileLookup: true  to read all "
            "files, without the partitions' columns"
        )
    return nested


def partitions_of(path: Path, files: Iterable[Path]) -> set[str]:
    """Columns that are told by the folders between a folder and its files: `day=1` has day."""
    found = set()
    for file in files if path.is_dir() else ():
        folders = file.relative_to(path).parts[:-1] if file.is_relative_to(path) else ()
        found |= {unquote(part.partition("=")[0]) for part in folders if _is_partition(part)}
    return found


def _roots(path: Path) -> Iterator[Path]:
    """A folder, or what a pattern names."""
    if path.exists():
        yield path
        return
    pattern = str(path.relative_to(path.anchor)).replace("[^", "[!")
    found = Path(path.anchor or ".").glob(pattern)
    yield from (each for each in found if not _is_hidden(each.name))


def _below(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for folder, folders, names in os.walk(root, onerror=_unless_gone, followlinks=True):
        if "_delta_log" in folders:
            said = "is a table of Delta Lake, whose files also hold what was deleted and replaced"
            raise SourceError(f"{folder} {said}: read it by  format: delta")
        folders[:] = [name for name in folders if not _is_hidden(name)]
        if above := next((n for n in folders if _is_above(Path(folder, n))), None):
            raise SourceError(
                f"{folder}/{above} is a link to a folder in which it lies, and Spark would read "
                "each file again and again: remove it"
            )
        files = (Path(folder, name) for name in names if not _is_hidden(name))
        yield from (file for file in files if file.is_file())


def _unless_gone(problem: OSError) -> None:
    """Of a folder that cannot be read, files would be missing without a word."""
    if not isinstance(problem, FileNotFoundError | NotADirectoryError):  # a file has no others
        raise problem


def _is_above(folder: Path) -> bool:
    """Is it a link to a folder in which it lies, perhaps by other links?"""
    there = folder.resolve() if folder.is_symlink() else None
    return there is not None and any(p.resolve().is_relative_to(there) for p in folder.parents)


def _is_partition(name: str) -> bool:
    return name.find("=") > 0


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
