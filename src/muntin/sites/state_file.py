"""What a coordinator's restart goes on from: one small file, replaced as a whole."""

import contextlib
import fcntl
import logging
import os
import time
from pathlib import Path
from typing import IO

import google_crc32c

from muntin.errors import LedgerError
from muntin.storage import place_of

MAGIC = b"MNTNTOPK"
STATE_BYTES_MAX = 64 << 20
_CHECKSUM_BYTES = 4
_EPOCHS_A_SECOND = 1 << 16  # more than are used; a restart from a state skips as many
_LOG = logging.getLogger("muntin.sites")


class StateFile:
    """Magic, the state as `Coordinator.to_bytes` gives it, CRC-32C. One coordinator has it open.
    Raises LedgerError: another process has it open, or its folder cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[bytes] | None = None
        guard = path.with_name(path.name + ".lock")
        try:
            self._lock = guard.open("ab")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise LedgerError(
                f"{path} is another coordinator's, which runs: stop it, or name another state"
            ) from None
        except OSError as problem:
            self.close()
            raise LedgerError(f"{guard}: {problem.strerror}; name another state file") from None

    def load(self) -> bytes | None:
        """The state saved last; None where there is none, or it was damaged (and put aside)."""
        try:
            with self.path.open("rb") as file:
                data = file.read(STATE_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise LedgerError(f"{self.path}: {problem.strerror}; name another state file") from None
        body, checksum = data[len(MAGIC) : -_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
        sound = data.startswith(MAGIC) and len(data) <= STATE_BYTES_MAX
        if sound and google_crc32c.value(body) == int.from_bytes(checksum, "little"):
            return body
        self.put_aside()
        return None

    def put_aside(self) -> None:
        """The file is not what was written: keep it for whoever wants to know, and go on."""
        aside = self.path.with_name(self.path.name + ".damaged")
        try:
            os.replace(self.path, aside)
        except OSError as problem:
            raise LedgerError(
                f"{self.path} is damaged, and cannot become {aside}: {problem.strerror}; move it "
                "away, or name another state file"
            ) from None
        _LOG.error("%s is damaged; it is now %s, and the sites are asked anew", self.path, aside)

    def save(self, state: bytes) -> None:
        """Replace the file; whoever reads it sees the old state or the new one. Raises LedgerError:
        the disk is full, or the file cannot be written. The old state is still there."""
        checksum = int(google_crc32c.value(state)).to_bytes(_CHECKSUM_BYTES, "little")
        place, path = place_of(str(self.path))
        try:
            place.write(path, MAGIC + state + checksum, lasting=True)
        except OSError as problem:
            raise LedgerError(f"{self.path}: {problem.strerror}") from None

    def close(self) -> None:
        """Let another coordinator have it."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._lock.close()
            self._lock = None


def clock_epoch() -> int:
    """An epoch above all that a coordinator whose state is lost may have used."""
    return int(time.time() * _EPOCHS_A_SECOND)
