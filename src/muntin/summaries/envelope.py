"""The bytes around every summary: typed, versioned, exactly sized and checked; read with care.

    offset  size  what
    0       4     magic "MNTN"
    4       1     version of the envelope (1)
    5       1     kind, from FAMILIES
    6       1     version of the kind's own format
    7       1     0
    8       4     length of the parameters, little endian
    12      8     length of the body, little endian
    20      -     parameters: canonical JSON object (sorted keys, no spaces, UTF-8)
    -       -     body
    -       4     CRC-32C of all that stands before

The checksum is for damage, not for attackers: each kind checks the meaning of its body as well.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import google_crc32c
import numpy as np

from muntin.errors import BadArgument, CorruptSummary
from muntin.summaries.checks import UINT64_MAX

Made = TypeVar("Made")
MAGIC = b"MNTN"
ENVELOPE_VERSION = 1
PARAMETERS_BYTES_MAX = 1 << 20
_CRC_BYTES = 1 << 18
_HEADER = struct.Struct("<4sBBBBIQ")
_CHECKSUM = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Family:
    """One kind's code and the version of its format, the only one that this release reads."""

    code: int
    version: int


# Codes are for ever: never reuse or renumber one.
FAMILIES: dict[str, Family] = {
    "vector_matrix": Family(1, 2),
    "count_min": Family(2, 2),
    "space_saving": Family(3, 2),
    "kll": Family(4, 1),
    "fixed_window_quantiles": Family(5, 1),
    "time_window_quantiles": Family(6, 1),
    "distinct": Family(7, 3),
    "dyadic_qdigest": Family(8, 1),
    "dynamic_bloom": Family(9, 3),
    "fingerprint": Family(10, 3),
    "hyper_bloom": Family(11, 2),
    "calm_space_saving": Family(12, 1),
    "hyper_calm": Family(13, 1),
    "sketched_matrix": Family(15, 2),
    "periodic_shard": Family(17, 1),
    "req": Family(18, 1),
}
_KIND_OF_CODE = {family.code: kind for kind, family in FAMILIES.items()}


def seal(kind: str, parameters: Mapping[str, Any], *body: bytes) -> bytes:
    """Put a body of `kind`, in one part or several, into the envelope."""
    family = FAMILIES[kind]
    described = canonical(parameters)
    size = sum(map(len, body))
    header = _HEADER.pack(
        MAGIC, ENVELOPE_VERSION, family.code, family.version, 0, len(described), size
    )
    crc = google_crc32c.value(header + described)
    for part in body:
        crc = google_crc32c.extend(crc, part)
    return b"".join((header, described, *body, _CHECKSUM.pack(crc)))


def unseal(data: bytes | memoryview, kind: str) -> tuple[dict[str, Any], memoryview]:
    """Parameters and body of sealed bytes of `kind`. Raises CorruptSummary: another kind, another
    version, a wrong length, a wrong checksum, or parameters that are not in canonical form."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CorruptSummary(f"expected bytes, got {type(data).__name__}")
    view = memoryview(data)
    view = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
    size = len(view)
    if size < _HEADER.size + _CHECKSUM.size:
        raise CorruptSummary(f"{size} bytes are too few for a summary")
    magic, envelope, code, version, zero, described_size, body_size = _HEADER.unpack_from(view)
    if magic != MAGIC:
        raise CorruptSummary("not a Muntin summary: the bytes do not begin with MNTN")
    if envelope != ENVELOPE_VERSION or zero != 0:
        raise CorruptSummary(f"envelope version {envelope} is not {ENVELOPE_VERSION}")
    family = FAMILIES[kind]
    if code != family.code:
        found = _KIND_OF_CODE.get(code, f"unknown kind {code}")
        raise CorruptSummary(f"expected a {kind}, found a {found}")
    if version != family.version:
        remedy = "upgrade Muntin" if version > family.version else "make it anew"
        raise CorruptSummary(
            f"{kind} format version {version}, and this Muntin reads {family.version}: {remedy}"
        )
    if described_size > PARAMETERS_BYTES_MAX:
        raise CorruptSummary(f"{described_size} bytes of parameters are too many")
    expected = _HEADER.size + described_size + body_size + _CHECKSUM.size
    if size != expected:
        raise CorruptSummary(f"{kind}: {size} bytes, its header says {expected}")
    (checksum,) = _CHECKSUM.unpack_from(view, size - _CHECKSUM.size)
    if crc_of(view[: size - _CHECKSUM.size]) != checksum:
        raise CorruptSummary(f"{kind}: checksum does not match, the bytes are damaged")
    described = bytes(view[_HEADER.size : _HEADER.size + described_size])
    try:
        parameters = _DECODER.decode(described.decode("utf-8"))
        is_canonical = isinstance(parameters, dict) and canonical(parameters) == described
    except (ValueError, RecursionError) as problem:
        raise CorruptSummary(f"{kind}: parameters are not JSON ({problem})") from None
    if not is_canonical:
        raise CorruptSummary(f"{kind}: parameters are not in canonical form")
    return parameters, view[_HEADER.size + described_size : size - _CHECKSUM.size]


def crc_of(view: memoryview) -> int:
    """CRC-32C, piece by piece: it takes only `bytes`, and a copy of all of it would be dear."""
    crc = 0
    for at in range(0, len(view), _CRC_BYTES):
        crc = google_crc32c.extend(crc, bytes(view[at : at + _CRC_BYTES]))
    return crc


def canonical(parameters: Any) -> bytes:
    """The one JSON of a value; ValueError where it has none."""
    return _ENCODER.encode(parameters).encode("utf-8")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not allowed")


# made once: to make them takes longer than to use them
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


class Fields:
    """Parameters of sealed bytes, each taken once with its type and range. Everything wrong raises
    CorruptSummary; so does, in `done`, a name that nobody took."""

    def __init__(self, kind: str, parameters: Mapping[str, Any]) -> None:
        self._kind = kind
        self._left = dict(parameters)

    def integer(self, name: str, low: int, high: int) -> int:
        value = self.value(name)
        if type(value) is not int or not low <= value <= high:
            raise CorruptSummary(f"{self._kind}: {name} {value!r} is not in {low} ... {high}")
        return value

    def made(self, make: Callable[..., Made], *names: str) -> Made:
        """What is made of these parameters by something that checks them itself."""
        given = {name: self.value(name) for name in names}
        try:
            return make(**given)
        except BadArgument as problem:
            raise CorruptSummary(f"{self._kind}: {problem}") from None

    def seed(self) -> int:
        return self.integer("seed", 0, UINT64_MAX)

    def choice(self, name: str, choices: Sequence[Any]) -> Any:
        value = self.value(name)
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise CorruptSummary(f"{self._kind}: {name} {value!r} is none of {list(choices)}")
        return value

    def integer_or_none(self, name: str, low: int, high: int) -> int | None:
        if self._left.get(name, 0) is None:
            return self.value(name)
        return self.integer(name, low, high)

    def rows(self, name: str, *kinds: Any) -> list[list[Any]]:
        """A list of lists, each of values of these types; the caller checks what they are."""
        rows = self.value(name)
        for row in rows if isinstance(rows, list) else [rows]:
            if (
                not isinstance(row, list)
                or len(row) != len(kinds)
                or not all(
                    isinstance(value, kind) and type(value) is not bool
                    for value, kind in zip(row, kinds, strict=True)
                )
            ):
                raise CorruptSummary(f"{self._kind}: {row!r:.80} cannot be in its {name}")
        return rows

    def has(self, name: str) -> bool:
        return name in self._left

    def done(self) -> None:
        if self._left:
            raise CorruptSummary(f"{self._kind}: unknown parameters {sorted(self._left)}")

    def value(self, name: str) -> Any:
        """Anything that JSON holds: the caller checks it."""
        if name not in self._left:
            raise CorruptSummary(f"{self._kind}: parameter {name} is missing")
        return self._left.pop(name)


def opened(data: bytes | memoryview, kind: str) -> tuple[Fields, Body]:
    """Parameters and body of sealed bytes of `kind`; CorruptSummary."""
    parameters, body = unseal(data, kind)
    return Fields(kind, parameters), Body(kind, body)


class Body:
    """A body, read from front to back; each piece is checked to be there before it is copied."""

    def __init__(self, kind: str, body: memoryview) -> None:
        self._kind = kind
        self._body = body
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._body) - self._at

    def array(self, dtype: str, count: int) -> np.ndarray:
        """The next `count` numbers, copied, in the machine's byte order."""
        kind = np.dtype(dtype)
        piece = self.view(count * kind.itemsize)
        return np.frombuffer(piece, kind).astype(kind.newbyteorder("="), copy=True)

    def number(self) -> int:
        """The next 8 bytes, without a sign."""
        return _LENGTH.unpack(self.view(_LENGTH.size))[0]

    def block(self) -> memoryview:
        """The next block: its length in 8 bytes, then its bytes (not copied)."""
        return self.view(self.number())

    def rest(self) -> memoryview:
        return self.view(self.left)

    def done(self) -> None:
        if self.left:
            raise CorruptSummary(f"{self._kind}: {self.left} bytes too many in the body")

    def view(self, size: int) -> memoryview:
        """The next `size` bytes (not copied)."""
        if size > self.left:
            raise CorruptSummary(f"{self._kind}: the body ends {size - self.left} bytes early")
        piece = self._body[self._at : self._at + size]
        self._at += size
        return piece


def block(data: bytes) -> bytes:
    """Bytes with their length in front, as `Body.block` reads them."""
    return _LENGTH.pack(len(data)) + data
