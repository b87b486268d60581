"""Messages as bytes: compact, one form for one message, and hostile bytes are one typed error.

    offset  size  what
    0       1     format version (2)
    1       1     kind, from KINDS
    2       -     the message's fields in their order

Integers are LEB128 varints, signed ones zigzagged first, and of the shortest length. Objects
come sorted and without repeats: the number of integers, the integers (the first zigzagged, then
the distance to the next less 1), the number of strings, the strings (bytes, UTF-8). Entries are
objects followed by one signed value each. An optional field is a byte 0 (absent) or 1 before it.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from muntin.errors import BadArgument, CorruptMessage
from muntin.topk import messages as m
from muntin.topk.objects import OBJECT_BYTES_MAX

FORMAT_VERSION = 2
MESSAGE_BYTES_MAX = 8 << 20  # 16,384 entries with names of the longest kind are 4.4 MB
_NUMBER_BYTES_MAX = 20  # of an object beside its name: a length or a number, and a value
_HEAD_BYTES_MAX = 100
OBJECTS_MAX = MESSAGE_BYTES_MAX // _NUMBER_BYTES_MAX  # more take seconds to read, and never `fits`
_UNSIGNED_MAX = (1 << 63) - 1


class _Encoder:
    def __init__(self) -> None:
        self.out = bytearray()

    def unsigned(self, value: int) -> None:
        if not 0 <= value <= _UNSIGNED_MAX:
            raise BadArgument(f"{value} does not fit the message: 0 to 2**63-1")
        self._varint(value)

    def signed(self, value: int) -> None:
        if not -_UNSIGNED_MAX - 1 <= value <= _UNSIGNED_MAX:
            raise BadArgument(f"{value} does not fit the message: int64")
        self._varint((value << 1) ^ (value >> 63))

    def _varint(self, value: int) -> None:
        out = self.out
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)

    def objects(self, items: Sequence[m.Object]) -> None:
        if len(items) > OBJECTS_MAX:
            raise BadArgument(f"a message of {len(items):,} objects: {OBJECTS_MAX:,} at most")
        split = next((n for n, item in enumerate(items) if isinstance(item, str)), len(items))
        self.unsigned(split)
        before: int | None = None
        for item in items[:split]:
            if before is None:
                self.signed(int(item))
            elif int(item) <= before:
                raise BadArgument("objects of a message must be sorted and without repeats")
            else:
                self._varint(int(item) - before - 1)
            before = int(item)
        self.unsigned(len(items) - split)
        last: str | None = None
        for item in items[split:]:
            if not isinstance(item, str) or (last is not None and item <= last):
                raise BadArgument("objects of a message must be sorted and without repeats")
            data = item.encode()
            self.unsigned(len(data))
            self.out += data
            last = item

    def entries(self, entries: m.Entries) -> None:
        self.objects([item for item, _ in entries])
        for _, value in entries:
            self.signed(value)


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 2

    def unsigned(self) -> int:
        value = self._varint()
        if value > _UNSIGNED_MAX:
            raise CorruptMessage(f"number {value} at byte {self.at} is beyond 2**63-1")
        return value

    def signed(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        data = self.data
        while True:
            if self.at >= len(data):
                raise CorruptMessage(f"the message is cut off at byte {self.at}")
            byte = data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise CorruptMessage(f"a number at byte {self.at} is longer than 64 bits")
        if (byte == 0 and shift) or value >= 1 << 64:
            raise CorruptMessage(f"a number at byte {self.at} is not in its shortest form")
        return value

    def flag(self) -> bool:
        value = self._varint()
        if value > 1:
            raise CorruptMessage(f"flag {value} at byte {self.at} is neither 0 nor 1")
        return bool(value)

    def objects(self) -> tuple[m.Object, ...]:
        found: list[m.Object] = []
        value = 0
        for n in range(self._count()):
            value = self.signed() if n == 0 else value + 1 + self._varint()
            if value > _UNSIGNED_MAX:
                raise CorruptMessage(f"object {value} at byte {self.at} is not an int64")
            found.append(value)
        before: str | None = None
        for _ in range(self._count()):
            size = self.unsigned()
            if size > OBJECT_BYTES_MAX or size > len(self.data) - self.at:
                raise CorruptMessage(f"an object's name of {size} bytes at byte {self.at}")
            try:
                name = self.data[self.at : self.at + size].decode()
            except UnicodeDecodeError:
                raise CorruptMessage(f"an object's name at byte {self.at} is not UTF-8") from None
            self.at += size
            if before is not None and name <= before:
                raise CorruptMessage(f"objects are not sorted at byte {self.at}")
            found.append(name)
            before = name
        return tuple(found)

    def _count(self) -> int:
        count = self.unsigned()
        if count > min(OBJECTS_MAX, len(self.data) - self.at):  # each takes a byte at least
            raise CorruptMessage(f"{count} objects cannot be in {len(self.data)} bytes")
        return count

    def entries(self) -> m.Entries:
        return tuple([(item, self.signed()) for item in self.objects()])


_Field = tuple[Callable[[_Encoder, Any], None], Callable[[_Decoder], Any]]
_UNSIGNED: _Field = (_Encoder.unsigned, _Decoder.unsigned)
_SIGNED: _Field = (_Encoder.signed, _Decoder.signed)
_OBJECTS: _Field = (_Encoder.objects, _Decoder.objects)


def _maybe(form: _Field) -> _Field:
    write, read = form

    def write_maybe(writer: _Encoder, value: Any) -> None:
        writer.out.append(value is not None)
        if value is not None:
            write(writer, value)

    return write_maybe, lambda reader: read(reader) if reader.flag() else None


# How a field of each name is written, in whatever message.
_FORMS: dict[str, _Field] = {
    **dict.fromkeys(("epoch", "version", "base", "round", "life", "busy", "slides"), _UNSIGNED),
    **dict.fromkeys(("unit", "since", "border", "least", "line", "number"), _SIGNED),
    "more": _UNSIGNED,
    "at_least": _maybe(_SIGNED),
    "objects": _OBJECTS,
    "top": _maybe(_OBJECTS),
    "entries": (_Encoder.entries, _Decoder.entries),
}
# Codes, and the fields of each class in their order, are for ever.
KINDS: dict[int, type[m.Message]] = dict(
    enumerate(
        (m.Hello, m.Alert, m.Reply, m.Calm, m.Push, m.Request, m.Factors, m.Watch, m.Busy), start=1
    )
)
_CODES = {kind: code for code, kind in KINDS.items()}
_FIELDS = {kind: [(one.name, *_FORMS[one.name]) for one in fields(kind)] for kind in _CODES}


def fits(items: Sequence[m.Object]) -> bool:
    """Whether a message holds these objects, whatever their values."""
    names = sum(len(item.encode()) for item in items if isinstance(item, str))
    return _HEAD_BYTES_MAX + names + _NUMBER_BYTES_MAX * len(items) <= MESSAGE_BYTES_MAX


def encode(message: m.Message) -> bytes:
    """The message's bytes. `BadArgument` where a field cannot be in a message."""
    kind = type(message)
    writer = _Encoder()
    writer.out += bytes((FORMAT_VERSION, _CODES[kind]))
    for name, write, _ in _FIELDS[kind]:
        write(writer, getattr(message, name))
    if len(writer.out) > MESSAGE_BYTES_MAX:
        raise BadArgument(f"a message of {len(writer.out)} bytes: {MESSAGE_BYTES_MAX} at most")
    return bytes(writer.out)


def decode(data: bytes) -> m.Message:
    """The message that `encode` made the bytes of.

    Raises
    ------
    CorruptMessage
        Anything else, and nothing but this: another version, cut or padded bytes, numbers not
        in shortest form, objects out of order. Memory stays within a small multiple of the data.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CorruptMessage(f"expected bytes, got {type(data).__name__}")
    if not 2 <= len(data) <= MESSAGE_BYTES_MAX:
        raise CorruptMessage(f"{len(data)} bytes are no message: 2 to {MESSAGE_BYTES_MAX}")
    data = bytes(data)
    if data[0] != FORMAT_VERSION:
        raise CorruptMessage(f"message format {data[0]} is not {FORMAT_VERSION}: another Muntin?")
    kind = KINDS.get(data[1])
    if kind is None:
        raise CorruptMessage(f"message of unknown kind {data[1]}: a newer Muntin?")
    reader = _Decoder(data)
    found = {name: read(reader) for name, _, read in _FIELDS[kind]}
    if reader.at != len(data):
        raise CorruptMessage(f"{len(data) - reader.at} bytes too many after the message")
    return kind(**found)
