"""How payloads and rows are stored: compressed where that helps, checksummed always.

A row's checksum is the CRC-32C of its other columns as a JSON array (no spaces, ASCII), followed
by the stored payload's bytes where it has one. It covers keys as well as values, so that a row
that damage moved to another key is refused too.
"""

from __future__ import annotations

import json

import google_crc32c
import pyarrow as pa

from muntin.errors import LedgerError
from muntin.ledger.records import PAYLOAD_BYTES_MAX, Payload, Stored

RAW, ZSTD, IN_FILE = 0, 1, 2
_WORTH_TRYING_BYTES = 256  # below it, a frame's header eats the gain


def pack(payload: bytes) -> tuple[int, int, bytes]:
    """(size, codec, stored bytes) of a payload."""
    size = len(payload)
    if size > _WORTH_TRYING_BYTES:
        packed = pa.compress(payload, codec="zstd", asbytes=True)
        if len(packed) < size:
            return size, ZSTD, packed
    return size, RAW, payload


def as_it_is(payload: Payload) -> tuple[int, int, bytes]:
    """As `pack`, of what is compressed already, or lies in a file."""
    if isinstance(payload, Stored):
        named = payload.to_bytes()
        return len(named), IN_FILE, named
    return len(payload), RAW, payload


def unpack(size: int, codec: int, stored: bytes) -> Payload:
    """The payload; its row's checksum was right, so that a failure means foreign bytes."""
    if codec == RAW and size == len(stored):
        return stored
    if codec == IN_FILE:
        return Stored.from_bytes(stored)
    if codec != ZSTD or not 0 <= size <= PAYLOAD_BYTES_MAX:
        raise LedgerError(f"a payload says {size} bytes in codec {codec}: not written by Muntin")
    try:
        payload = pa.decompress(stored, decompressed_size=size, codec="zstd", asbytes=True)
    except (pa.ArrowException, OSError, MemoryError) as problem:
        raise LedgerError(f"a payload cannot be decompressed: {problem}") from None
    if len(payload) != size:
        raise LedgerError(f"a payload has {len(payload)} bytes, its row says {size}")
    return payload


def checksum(values: tuple[int | str | None, ...], stored: bytes = b"") -> int:
    """CRC-32C of a row."""
    described = json.dumps(values, separators=(",", ":")).encode("ascii")
    crc = google_crc32c.value(described)
    return google_crc32c.extend(crc, stored) if stored else crc
