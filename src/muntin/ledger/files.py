"""Payloads in files: written by executors, named by a commit, fetched and checked by readers.

A file is written once, under a name that no other try uses, and is never changed. It counts from
the commit that names it; until then, and after the last row that named it has gone, it is garbage,
which the pipeline's writer deletes when it is old enough (`sweep`): a try that runs, and a reader
of an older snapshot, keep what they need.

Two kinds of place: the ledger's own folder, whose files are named relative to it, so that ledger
and folder move together; or one that the pipeline names (`payloads:`), a folder or an object store
that fsspec knows, whose files are named by their URLs.
"""

import logging
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import google_crc32c

from muntin.errors import LedgerError, SpecError, with_remedy
from muntin.ledger.records import Stored
from muntin.storage import path_of, place_of

_LOG = logging.getLogger("muntin.ledger")
ENDING = ".mseg"
GARBAGE_AGE_US = 3_600_000_000  # of a file that nobody names: an hour, longer than a try takes
_LOST = "restore it from a backup, or run the pipeline again over its source"


@dataclass(frozen=True, slots=True)
class PayloadFolder:
    """Where the payload files of one pipeline are written. Goes to executors.

    `home`: the ledger's own folder; "" where files are named by URLs.
    `path`: the pipeline's folder below it, or its URL.
    """

    home: str
    path: str

    def write(self, name: str, payload: bytes, *, lasting: bool = True) -> Stored:
        """A new file; `name` is for those who look into the folder."""
        path = f"{self.path}/{name}-{secrets.token_hex(8)}{ENDING}"
        place, full = place_of(self.full(path))
        try:
            place.write(full, payload, lasting)
        except OSError as problem:
            told = with_remedy(problem)
            raise LedgerError(f"{full}: the payload cannot be written: {told}") from problem
        return Stored(path, len(payload), google_crc32c.value(payload))

    def full(self, path: str) -> str:
        return f"{self.home}/{path}" if self.home else path

    def read_part(self, path: str, begin: int, size: int) -> bytes:
        """Some bytes of a file, unchecked."""
        place, full = place_of(self.full(path))
        try:
            return place.read(full, begin, begin + size)
        except OSError as problem:
            raise LedgerError(f"{full} cannot be read: {with_remedy(problem)}") from problem

    def check_seen(self, path: str, nbytes: int) -> None:
        """LedgerError where a file that another machine has written is not seen from here."""
        place, full = place_of(self.full(path))
        try:
            found = place.size(full)
        except FileNotFoundError:
            found = None
        except OSError as problem:
            raise LedgerError(f"{full} cannot be looked up: {with_remedy(problem)}") from problem
        if found != nbytes:
            raise LedgerError(
                f"an executor wrote {full}, {nbytes:,} bytes, and here "
                f"{'it is not' if found is None else f'it has {found:,}'}: name a folder that all "
                "machines see, or a URL such as s3://bucket/folder, under payloads:"
            )

    def delete(self, paths: Collection[str]) -> None:
        """Those that are there."""
        for path in paths:
            place, full = place_of(self.full(path))
            try:
                place.delete(full)
            except TimeoutError:  # nor will the others be in time
                return
            except OSError:
                continue  # gone already, or not to be deleted now: the next time

    def sweep(self, named: Collection[str], given_up: Mapping[str, int], before: int) -> int:
        """Delete what nobody names; how many files.

        `named`: of all rows of the ledger.
        `given_up` (mapping of path -> microseconds): when the last row that named a file went.
        `before`: a file goes when it was given up, or where no row ever named it was written,
          before.
        """
        place, folder = place_of(self.full(self.path))
        found = []
        try:
            for full in place.listed(folder):
                path = self.path + "/" + full.rpartition("/")[2]
                if path in named or given_up.get(path, before - 1) >= before:
                    continue
                with suppress(FileNotFoundError):  # another one deletes as well
                    if path in given_up or place.written(full) < before:
                        found.append(path)
        except FileNotFoundError:  # nothing was ever written
            pass
        except OSError as problem:  # no reason to stop: the next time
            _LOG.warning(
                "%s cannot be listed, so that payload files which nobody needs stay: %s",
                folder, with_remedy(problem),
            )  # fmt: skip
        self.delete(found)
        return len(found)


def payload_folder(home: str, place: str, pipeline: str, number: int) -> PayloadFolder:
    """The folder of a pipeline: `number` keeps apart ledgers that share a place.

    `home`: the ledger's own folder; "" where it has none. `place`: what the pipeline names, "" for
    the ledger's own. Raises SpecError: neither is there, or fsspec cannot use the URL.
    """
    folder = f"{pipeline}-{number:x}"
    if place:
        url = place if "://" in place else f"file://{Path(path_of(place)).resolve()}"
        place_of(url)
        return PayloadFolder("", f"{url.rstrip('/')}/{folder}")
    if not home:
        raise SpecError(
            "payloads: this ledger has no folder of its own: name a folder that all executors "
            "see, or a URL such as s3://bucket/folder"
        )
    return PayloadFolder(home, folder)


def beside(stored: Stored, number: int) -> Stored:
    """A file at a URL once more, in another ledger's folder at the same place."""
    place, named, name = stored.path.rsplit("/", 2)
    folder = payload_folder("", place, named.rpartition("-")[0], number)
    return folder.write(name.partition("-")[0], fetch(stored, ""))


def fetch(stored: Stored, home: str) -> bytes:
    """The bytes of a payload file. Raises LedgerError: it is gone, or its bytes are not those that
    were committed."""
    payload = fetch_part(stored, home, stored.nbytes + 1)  # one that has grown is damaged as well
    if len(payload) != stored.nbytes or google_crc32c.value(payload) != stored.crc:
        raise LedgerError(
            f"the payload file {_full_of(stored, home)} is damaged (its size or checksum is not "
            f"the one that was committed): {_LOST}"
        )
    return payload


def fetch_part(stored: Stored, home: str, nbytes: int) -> bytes:
    """The first bytes of a payload file, unchecked. Raises LedgerError: it is gone, or cannot be
    read."""
    path = _full_of(stored, home)
    place, full = place_of(path)
    try:
        return place.read(full, 0, nbytes)
    except FileNotFoundError:
        raise LedgerError(f"the payload file {path} is gone: {_LOST}") from None
    except OSError as problem:
        told = with_remedy(problem)
        raise LedgerError(f"the payload file {path} cannot be read: {told}") from problem


def _full_of(stored: Stored, home: str) -> str:
    path = stored.path
    if "://" in path:
        return path
    if not home or path.startswith("/") or ".." in path.split("/"):
        raise LedgerError(f"{path!a} is no file of this ledger: its row is not Muntin's")
    return f"{home}/{path}"
