"""Files of this machine that a source names, found as Spark finds them."""

from __future__ import annotations

from pathlib import Path

from muntin import storage

FILE_FORMATS = ("parquet", "csv", "json", "orc", "text", "avro")


def local_path(path: str) -> Path | None:
    """A path of this machine, absolute: workers may have another working folder. None elsewhere."""
    return None if storage.is_elsewhere(path) else Path(storage.path_of(path)).absolute()


def is_pattern(path: str) -> bool:
    """Does it name files by a pattern, such as `day=*/*.csv`?"""
    return any(sign in path for sign in "*?[{")


def files_at(path: Path, ending: str = "") -> list[Path]:
    """The files of a folder, at any depth, that of a path, or those that a pattern names, in order.

    Of a folder's, those with an ending; what begins with _ or . is not for readers.
    """
    if path.is_file():
        return [path]
    if path.is_dir():
        found = (f for f in path.rglob(f"*{ending}") if not _is_hidden(f.relative_to(path)))
    else:
        found = Path(path.anchor or ".").glob(str(path.relative_to(path.anchor)))
    return sorted(file for file in found if file.is_file())


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)
