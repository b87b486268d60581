"""Payloads on their way from a worker to the driver: compressed where they are large.

A payload crosses the JVM, which copies it several times: a hundred megabytes took two seconds, and
a quarter of that compressed, zstd's own time included.
"""

from __future__ import annotations

import pyarrow as pa

PLAIN, COMPRESSED = b"\x00", b"\x01"
COMPRESSED_FROM_BYTES = 4096
_CODEC = pa.Codec("zstd", compression_level=1)


def packed(payload: bytes) -> bytes:
    """A payload as it travels."""
    if len(payload) < COMPRESSED_FROM_BYTES:
        return PLAIN + payload
    size = len(payload).to_bytes(8, "little")
    return b"".join((COMPRESSED, size, _CODEC.compress(payload, asbytes=True)))


def unpacked(travelled: bytes) -> bytes:
    """The payload that `packed` was given."""
    if travelled[:1] == PLAIN:
        return travelled[1:]
    size = int.from_bytes(travelled[1:9], "little")
    return _CODEC.decompress(memoryview(travelled)[9:], size, asbytes=True)
