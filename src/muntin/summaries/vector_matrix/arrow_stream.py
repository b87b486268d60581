"""One Arrow IPC stream of one record batch, written byte for byte the same by every release.

The frame (schema, record batch, end of stream) is assembled here instead of by Arrow's writer,
whose output may change between releases: equal summaries must have equal bytes for ever. For the
reader it means that nothing hostile is interpreted: all but numbers must equal the expected frame.

Source: Apache Arrow columnar format 1.5, "IPC streaming format"; Schema.fbs and Message.fbs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

import numpy as np

from muntin.errors import CorruptSummary

LeafType = Literal[
    "null", "bool", "int64", "float64", "date32", "timestamp", "string", "large_string"
]
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_ALIGN = 8
_V5 = 4
_SCHEMA, _RECORD_BATCH = 1, 3
_LIST, _STRUCT = 12, 13
# type -> its code in Schema.fbs, and the fields of its table: slot -> (format, value)
_LEAVES: dict[str, tuple[int, dict[int, tuple[str, int]]]] = {
    "null": (1, {}),
    "int64": (2, {0: ("i", 64), 1: ("B", 1)}),
    "float64": (3, {0: ("h", 2)}),
    "string": (5, {}),
    "bool": (6, {}),
    "date32": (8, {0: ("h", 0)}),
    "timestamp": (10, {0: ("h", 2), 1: ("O", 0)}),
    "large_string": (20, {}),
}
_BUFFERS = {"null": 0, "string": 3, "large_string": 3}


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    type: LeafType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Rows:
    """A column of the stream: list<struct<leaves>>."""

    name: str
    leaves: tuple[Leaf, ...]


class _Flat:
    """A flatbuffer, written from front to back: what holds an offset stands before its target."""

    def __init__(self) -> None:
        self.out = bytearray(4)

    def align(self, size: int, before: int = 0) -> None:
        self.out += bytes(-(len(self.out) + before) % size)

    def point(self, at: int) -> None:
        """Make the offset at `at` point to what is written next."""
        struct.pack_into("<I", self.out, at, len(self.out) - at)

    def table(self, pointer: int, fields: dict[int, tuple[str, int]]) -> dict[int, int]:
        """Write a table that `pointer` points to; slot -> where its field stands."""
        slots = max(fields, default=-1) + 1
        places, size = {}, 4
        for slot, (form, _) in sorted(
            fields.items(), key=lambda field: -struct.calcsize(field[1][0].replace("O", "I"))
        ):
            width = struct.calcsize(form.replace("O", "I"))
            size += -size % width
            places[slot] = size
            size += width
        vtable_size = 4 + 2 * slots
        self.align(_ALIGN, vtable_size)
        offsets = [places.get(slot, 0) for slot in range(slots)]
        self.out += struct.pack(f"<HH{slots}H", vtable_size, size, *offsets)
        self.point(pointer)
        at = len(self.out)
        self.out += struct.pack("<i", vtable_size) + bytes(size - 4)
        for slot, (form, value) in fields.items():
            struct.pack_into("<" + form.replace("O", "I"), self.out, at + places[slot], value)
        return {slot: at + place for slot, place in places.items()}

    def text(self, pointer: int, value: str) -> None:
        encoded = value.encode("utf-8")
        self.align(4)
        self.point(pointer)
        self.out += struct.pack("<I", len(encoded)) + encoded + b"\0"

    def pointers(self, pointer: int, count: int) -> list[int]:
        """Write a vector of `count` offsets; where each stands."""
        self.align(4)
        self.point(pointer)
        at = len(self.out) + 4
        self.out += struct.pack("<I", count) + bytes(4 * count)
        return [at + 4 * i for i in range(count)]

    def pairs(self, pointer: int, count: int) -> int:
        """Write a vector of `count` structs of two int64; where the first stands."""
        self.align(_ALIGN, 4)
        self.point(pointer)
        at = len(self.out) + 4
        self.out += struct.pack("<I", count) + bytes(16 * count)
        return at


def _field(flat: _Flat, pointer: int, name: str, nullable: bool, code: int) -> dict[int, int]:
    fields = {0: ("O", 0), 1: ("B", int(nullable)), 2: ("B", code), 3: ("O", 0), 5: ("O", 0)}
    places = flat.table(pointer, fields)
    flat.text(places[0], name)
    return places


def _message(kind: int) -> tuple[_Flat, dict[int, int]]:
    flat = _Flat()
    places = flat.table(0, {0: ("h", _V5), 1: ("B", kind), 2: ("O", 0), 3: ("q", 0)})
    return flat, places


def _framed(flat: _Flat) -> bytes:
    flat.align(_ALIGN)
    return struct.pack("<II", 0xFFFFFFFF, len(flat.out)) + bytes(flat.out)


def schema_message(columns: tuple[Rows, ...]) -> bytes:
    """The stream's first message."""
    flat, message = _message(_SCHEMA)
    schema = flat.table(message[2], {0: ("h", 0), 1: ("O", 0)})
    for column, at in zip(columns, flat.pointers(schema[1], len(columns)), strict=True):
        outer = _field(flat, at, column.name, False, _LIST)
        flat.table(outer[3], {})
        (child,) = flat.pointers(outer[5], 1)
        item = _field(flat, child, "item", False, _STRUCT)
        flat.table(item[3], {})
        children = flat.pointers(item[5], len(column.leaves))
        for leaf, place in zip(column.leaves, children, strict=True):
            code, described = _LEAVES[leaf.type]
            inner = _field(flat, place, leaf.name, leaf.nullable, code)
            places = flat.table(inner[3], described)
            if leaf.type == "timestamp":
                flat.text(places[1], "UTC")
            flat.pointers(inner[5], 0)
    return _framed(flat)


def _batch_message(nodes: int, buffers: int) -> tuple[bytes, int, int, int]:
    """The second message, numbers 0; where body length, nodes and buffers stand in it."""
    flat, message = _message(_RECORD_BATCH)
    batch = flat.table(message[2], {0: ("q", 1), 1: ("O", 0), 2: ("O", 0)})
    nodes_at = flat.pairs(batch[1], nodes)
    buffers_at = flat.pairs(batch[2], buffers)
    return _framed(flat), message[3] + 8, nodes_at + 8, buffers_at + 8


def counts(columns: tuple[Rows, ...]) -> tuple[int, int]:
    """Nodes and buffers of a stream: a list and a struct each have a node; buffers 2 and 1."""
    leaves = [leaf for column in columns for leaf in column.leaves]
    return (
        2 * len(columns) + len(leaves),
        3 * len(columns) + sum(_BUFFERS.get(leaf.type, 2) for leaf in leaves),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """All of a stream that does not depend on its rows; made once for the same columns."""

    schema: bytes
    head: bytes
    """The second message, its numbers 0."""
    nodes: int
    buffers: int
    length_at: int
    nodes_at: int
    buffers_at: int


def frame_of(columns: tuple[Rows, ...]) -> Frame:
    nodes, buffers = counts(columns)
    head, length_at, nodes_at, buffers_at = _batch_message(nodes, buffers)
    return Frame(schema_message(columns), head, nodes, buffers, length_at, nodes_at, buffers_at)


def write_stream(frame: Frame, nodes: np.ndarray, places: np.ndarray, rows: np.ndarray) -> bytes:
    """The stream of one row.

    Parameters
    ----------
    nodes, places : int64[nodes, 2], int64[buffers, 2]
        (length, nulls), and (offset, size) in `rows`, in Arrow's order.
    rows : uint8[bytes]
        All buffers, each filled up to 8 bytes with zeros.
    """
    message = bytearray(frame.head)
    struct.pack_into("<q", message, frame.length_at, len(rows))
    message[frame.nodes_at : frame.nodes_at + nodes.nbytes] = nodes.tobytes()
    message[frame.buffers_at : frame.buffers_at + places.nbytes] = places.tobytes()
    return b"".join((frame.schema, message, rows.data, END))


def read_stream(frame: Frame, body: memoryview) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes, places and a copy of the rows, as `write_stream` takes them, of what it wrote.

    What nodes and places say is not looked at.

    Raises
    ------
    CorruptSummary
        The frame is not that of these columns.
    """
    schema, head = frame.schema, frame.head
    start = len(schema) + len(head)
    room = len(body) - len(END) - start
    if room < 0 or bytes(body[: len(schema)]) != schema:
        raise CorruptSummary("vector_matrix: the Arrow stream is not of the summary's columns")
    if bytes(body[-len(END) :]) != END:
        raise CorruptSummary("vector_matrix: the Arrow stream has no end")
    message = bytearray(body[len(schema) : start])
    (length,) = struct.unpack_from("<q", message, frame.length_at)
    if length != room or room % _ALIGN:
        raise CorruptSummary("vector_matrix: the Arrow stream's lengths disagree")
    nodes = np.frombuffer(message, np.int64, 2 * frame.nodes, frame.nodes_at).copy()
    places = np.frombuffer(message, np.int64, 2 * frame.buffers, frame.buffers_at).copy()
    message[frame.length_at : frame.length_at + 8] = bytes(8)
    message[frame.nodes_at : frame.nodes_at + nodes.nbytes] = bytes(nodes.nbytes)
    message[frame.buffers_at : frame.buffers_at + places.nbytes] = bytes(places.nbytes)
    if message != head:
        raise CorruptSummary("vector_matrix: the Arrow stream's frame is damaged")
    rows = np.frombuffer(body[start : start + room], np.uint8).copy()
    return nodes.reshape(-1, 2), places.reshape(-1, 2), rows
