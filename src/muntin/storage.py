"""Files by their names: paths of this machine, and URLs of an object store that fsspec knows.

A URL is the one that Spark uses (`s3a://`, `gs://`, `abfss://`); who may read it is what the
store's own package finds (for S3: AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, a role of the machine), in
this process and in Spark's workers. Knows nothing of what is in the files.
"""

import hashlib
import mmap
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO, TypeVar

from muntin.errors import SpecError

Outcome = TypeVar("Outcome")
ReadPart = Callable[[int, int], bytes | memoryview]
"""Bytes of a file, from one place in it to another."""


@dataclass(frozen=True, slots=True)
class _Disk:
    """Paths of this machine, or of a file system that all machines have mounted."""

    def write(self, path: str, data: bytes, lasting: bool) -> None:
        """All of it, or nothing under that name: if it is to last, also where the power fails."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(f"{path}.{secrets.token_hex(8)}.part")  # others may be writing the same
        try:
            with open(part, "wb") as out:
                out.write(data)
                if lasting:
                    out.flush()
                    os.fsync(out.fileno())
            part.replace(target)
        except BaseException:
            with suppress(OSError):
                part.unlink()  # on a full disk it would take what space there is
            raise
        if lasting:
            sync_folder(target.parent)  # else its name may be gone, though a commit has named it

    def add(self, path: str, data: bytes) -> None:
        """A file that was not there, and is to last. FileExistsError; who adds takes turns."""
        if Path(path).exists():
            raise FileExistsError(f"{path} is there already")
        self.write(path, data, lasting=True)

    def sync(self, folder: str, names: Iterable[str]) -> None:
        """Files that were written here last now, also where the power fails."""
        for name in names:
            with open(f"{folder}/{name}", "rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(folder))

    def create(self, path: str) -> BinaryIO:
        """A new file, which is there from the beginning on."""
        return open(path, "wb")

    def read(self, path: str, begin: int, end: int | None) -> bytes:
        with open(path, "rb") as file:
            file.seek(begin)
            return file.read() if end is None else file.read(end - begin)

    def mapped(self, path: str) -> memoryview:
        """The file's bytes in place. ValueError where it has none."""
        with open(path, "rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def parts(self, path: str) -> tuple[int, ReadPart]:
        """How many bytes a file has, and who reads some of them. ValueError where it has none."""
        view = self.mapped(path)
        return len(view), lambda begin, end: view[begin:end]

    def make_folder(self, folder: str) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)

    def sizes(self, folder: str) -> dict[str, int]:
        """Bytes of the files in a folder, by their names; none where there is no folder."""
        sizes: dict[str, int] = {}
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as found:
            for one in found:
                with suppress(FileNotFoundError):  # it was deleted after it had been listed
                    if one.is_file():
                        sizes[one.name] = one.stat().st_size
        return sizes

    def delete(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)

    def delete_folder(self, folder: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def listed(self, folder: str) -> Iterator[str]:
        """All files below a folder."""
        for root, _, names in os.walk(folder):
            yield from (os.path.join(root, name) for name in names)

    def written(self, path: str) -> int:
        """When: microseconds."""
        return Path(path).stat().st_mtime_ns // 1000

    def size(self, path: str) -> int:
        return Path(path).stat().st_size


ANSWER_SECONDS = 15.0
"""How long a store may take to answer. Its own package would try for minutes, and where the store
takes connections and says nothing, some for ever."""
BYTES_A_SECOND_MIN = 1 << 19  # what a slow line brings; so much longer may bytes take
LISTING_BYTES = 8 << 20  # as which a listing counts: some hundred thousand names


def _asked(nbytes: int, act: Callable[..., Outcome], *given: Any, **named: Any) -> Outcome:
    """What a store's package does, which brings or takes some bytes.

    Stores have errors of their own, such as that nobody has said who asks: they are OSErrors here.
    After a TimeoutError the package may go on trying, in its thread.
    """
    answer: Future[Outcome] = Future()

    def ask() -> None:
        try:
            answer.set_result(act(*given, **named))
        except BaseException as problem:
            answer.set_exception(problem)

    seconds = ANSWER_SECONDS + nbytes / BYTES_A_SECOND_MIN
    Thread(target=ask, daemon=True, name="muntin-store").start()
    if not wait([answer], seconds).done:
        raise TimeoutError(f"the store does not answer within {seconds:.0f} seconds")
    try:
        return answer.result()
    except OSError:
        raise
    except Exception as problem:
        raise OSError(f"{type(problem).__name__}: {problem}") from problem


class _WrittenFile:
    """A file of a store that is being written: what is waiting goes with what comes, or at last."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._waiting = int(getattr(file, "blocksize", 0))

    def write(self, data: Any) -> None:
        _asked(self._waiting, self._file.write, data)

    def close(self) -> None:
        _asked(self._waiting, self._file.close)


@dataclass(frozen=True, slots=True)
class _ObjectUrls:
    """URLs of an object store, or of anything else that fsspec knows."""

    files: Any

    def _ask(self, nbytes: int, act: Callable[..., Outcome], *given: Any, **named: Any) -> Outcome:
        try:
            return _asked(nbytes, act, *given, **named)
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError:
            # fsspec keeps who asks, with credentials as found first: they may be renewed by now
            self.files.clear_instance_cache()
            raise

    def write(self, path: str, data: bytes, lasting: bool) -> None:  # noqa: ARG002
        self._ask(len(data), self.files.pipe_file, path, data)

    def add(self, path: str, data: bytes) -> None:
        """A file that was not there. FileExistsError: of several that add it one does."""
        self._ask(len(data), self.files.pipe_file, path, data, mode="create")

    def sync(self, folder: str, names: Iterable[str]) -> None:
        """What a store has taken, it keeps."""

    def create(self, path: str) -> _WrittenFile:
        """A new file, which is there once it is closed."""
        return _WrittenFile(self._ask(0, self.files.open, path, "wb"))

    def read(self, path: str, begin: int, end: int | None) -> bytes:
        end = self.size(path) if end is None else end
        if begin >= end:
            return b""
        return self._ask(end - begin, self.files.cat_file, path, start=begin, end=end)

    def mapped(self, path: str) -> memoryview:
        """A copy on this machine's disk, which goes with the process. ValueError where empty."""
        with tempfile.TemporaryFile() as file:
            file.write(self.read(path, 0, None))
            file.flush()
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def parts(self, path: str) -> tuple[int, ReadPart]:
        return self.size(path), lambda begin, end: self.read(path, begin, end)

    def make_folder(self, folder: str) -> None:
        """There are none: names begin alike."""

    def sizes(self, folder: str) -> dict[str, int]:
        found = self._ask(LISTING_BYTES, self.files.find, folder, maxdepth=1, detail=True)
        return {path.rpartition("/")[2]: int(one["size"]) for path, one in found.items()}

    def delete(self, path: str) -> None:
        self._ask(0, self.files.rm_file, path)

    def delete_folder(self, folder: str) -> None:
        with suppress(OSError):
            for path in list(self.listed(folder)):
                self.delete(path)

    def listed(self, folder: str) -> Iterator[str]:
        root = self.files._strip_protocol(folder).rstrip("/")
        found = self._ask(LISTING_BYTES, self.files.find, folder)
        return iter([folder + self.files._strip_protocol(path)[len(root) :] for path in found])

    def written(self, path: str) -> int:
        return int(self._ask(0, self.files.modified, path).timestamp() * 1_000_000)

    def size(self, path: str) -> int:
        return self._ask(0, self.files.size, path)


FilePlace = _Disk | _ObjectUrls
"""Where files of one kind of name are. All of it raises OSError, and FileNotFoundError."""


def sync_folder(folder: Path) -> None:
    """What its files are called now lasts, also where the power fails."""
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


def state_of(path: Path) -> tuple[int, bytes] | None:
    """Another one once a small file of this machine has changed; None where there is none.

    Its time alone does not tell: who writes a file in two goes may do so at one moment of the file
    system's clock, and what was read in between is half of it.
    """
    try:
        told = path.stat()
        # what comes through a pipe can be read once
        data = path.read_bytes() if stat.S_ISREG(told.st_mode) else b""
    except OSError:
        return None
    return told.st_mtime_ns, hashlib.sha256(data).digest()


def is_elsewhere(path: str) -> bool:
    """Is it no path of this machine?"""
    return "://" in path and not path.startswith("file:")


def full_name(path: str | Path) -> str:
    """A URL as it is; a path, or a `file:` URI, as an absolute path."""
    text = os.fspath(path)
    return text.rstrip("/") if is_elsewhere(text) else str(Path(path_of(text)).resolve())


def path_of(name: str) -> str:
    """The path that a `file:` URI names, read as Spark reads it, letter by letter: `%20` is no
    space. A path as it is."""
    if not name.startswith("file:"):
        return name
    rest = name.removeprefix("file:")
    return "/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest


def place_of(path: str) -> tuple[FilePlace, str]:
    """Who reads and writes a path, and the path as it knows it. Raises SpecError: a package that
    this kind of URL needs is missing, nobody knows the kind, its server does not answer, or the URL
    holds a password."""
    if not is_elsewhere(path):
        return _Disk(), path_of(path)
    kind, _, rest = path.partition("://")
    address, slash, below = rest.partition("/")
    user, at, host = address.rpartition("@")
    name, colon, _ = user.partition(":")
    if colon:  # a password would be stored with the names of files, and stand in errors
        raise SpecError(
            f"{kind}://{name}{at}{host}{slash}{below}: give the password in the environment "
            f"(FSSPEC_{kind.upper()}_PASSWORD), not in the URL of files"
        )
    try:
        from fsspec.core import url_to_fs  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise SpecError(
            f"{path}: files at a URL need fsspec: pip install 'muntin[objects]', and the package "
            "that fsspec names for this kind of URL (s3fs, gcsfs, adlfs, ...)"
        ) from None
    try:  # what was listed once says nothing of what others write
        return _ObjectUrls(url_to_fs(path, use_listings_cache=False)[0]), path
    except Exception as problem:
        remedy = "; pip install 'muntin[s3]'" if path.startswith(("s3:", "s3a:")) else ""
        raise SpecError(f"{path}: {problem}{remedy}") from None


def is_file(path: str) -> bool:
    """Is there a file that can be seen from here?"""
    place, full = place_of(path)
    try:
        place.size(full)
    except OSError:
        return False
    return True
