"""The one form of a segment in bytes, of every kind.

    offset  what
    0       magic "MSEG", version (1 byte), 3 zero bytes
    8       bytes of the description, of the directory, of the index, of the rest (u64 each)
    40      description: canonical JSON: kind, parameters, limit, the tables' names and sizes
    -       directory: form, width, base, numbers and stored bytes of each stream
    -       index streams: slices, events a slice; of each table slices and rows a slice
    -       CRC-32C of all before (4 bytes): the index is read and trusted without the rest
    -       the streams of shared texts, keys, events and states
    -       CRC-32C of all before (4 bytes)

Same segment, same bytes, with the same release of zstd. The checksum is for damage, not for
attackers: lengths are checked before they are believed, and each kind checks its states.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np

from muntin.errors import BadArgument, CorruptSummary
from muntin.segments.algebra import Algebra
from muntin.segments.checks import check_segment, check_table
from muntin.segments.columns import Ragged, Shape, frozen, laid_out
from muntin.segments.key_streams import read_keys, read_text, write_keys, write_text
from muntin.segments.keys import TEXT, TYPES
from muntin.segments.registry import algebra_of
from muntin.segments.shards import SHARDS_MAX, WHOLE_KEYS
from muntin.segments.streams import StreamReader, StreamWriter
from muntin.segments.table import Segment, Table
from muntin.segments.texts import Texts, coded
from muntin.summaries.envelope import canonical, crc_of

MAGIC, VERSION = b"MSEG", 1
DECODED_BYTES_MAX = 1 << 32
CUT_BYTES = 1 << 23  # of memory, of a segment as a ledger keeps it: opened in some 10 ms
DESCRIPTION_BYTES_MAX = 1 << 24
_HEAD = struct.Struct("<4sB3xQQQQ")
_CRC = struct.Struct("<I")


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """What a segment's first bytes tell: no state is decoded.

    Attributes
    ----------
    algebra : Algebra
    slices, events : int64[s]
        Slices with events, and how many.
    tables : tuple of (key columns, slices, rows of each slice)
    shard : int
    """

    algebra: Algebra
    limit: int | None
    slices: np.ndarray
    events: np.ndarray
    tables: tuple[tuple[tuple[str, ...], np.ndarray, np.ndarray], ...]
    shard: int = WHOLE_KEYS


def encode(segment: Segment) -> bytes:
    """The bytes of a segment. Raises BadArgument: it is larger than what is read at once."""
    index, rest = StreamWriter(), StreamWriter()
    index.numbers(_steps(segment.slices))
    index.numbers(segment.events)
    tables, nbytes = [], segment.nbytes
    shapes = segment.algebra.columns()
    texts = coded([keys for table in segment.tables for keys in table.dictionaries])
    for shared in texts.values():
        write_text(rest, shared.values)
        nbytes += shared.nbytes
    for table in segment.tables:
        index.numbers(_steps(table.slices))
        sizes = table.starts[1:] - table.starts[:-1]
        index.numbers(sizes)
        tables.append(_described(table))
        nbytes += sum(write_keys(rest, keys, texts) for keys in table.dictionaries)
        rest.lists(Ragged(table.starts, table.key), False, sizes)
        rest.numbers(table.events, *_alike(segment.events, len(table)))
        rest.columns(table.states, shapes, table.events, table.key)
    if nbytes > DECODED_BYTES_MAX // 2:
        raise BadArgument(
            f"{segment.rows:,} rows of {segment.algebra.kind} take {nbytes:,} bytes in one piece; "
            f"at most {DECODED_BYTES_MAX // 2:,}: give the summary (more) `shards:`"
        )
    described: dict[str, Any] = {
        "kind": segment.algebra.kind,
        "parameters": segment.algebra.parameters(),
        "limit": segment.limit,
        "slices": len(segment.slices),
        "tables": tables,
    }
    if segment.shard:
        described["shard"] = segment.shard
    if texts:
        described["texts"] = [[name, len(shared.values)] for name, shared in texts.items()]
    description = canonical(described)
    (first_lines, front), (lines, back) = index.written(), rest.written()
    sizes = len(description), len(first_lines) + len(lines), len(front), len(back)
    head = b"".join((_HEAD.pack(MAGIC, VERSION, *sizes), description, first_lines, lines, front))
    crc = google_crc32c.value(head)
    first = _CRC.pack(crc)
    crc = google_crc32c.extend(google_crc32c.extend(crc, first), back)
    return b"".join((head, first, back, _CRC.pack(crc)))


def _steps(slices: np.ndarray) -> np.ndarray:
    """The first slice, then the steps from each to the next: constant where none is missing."""
    steps = slices.copy()
    steps[1:] -= slices[:-1]
    return steps


def _described(table: Table) -> dict[str, Any]:
    described: dict[str, Any] = {
        "by": list(table.by),
        "types": list(table.keys.kinds),
        "keys": len(table.keys),
        "slices": len(table.slices),
    }
    if table.items is not None:
        described["items"] = {
            "names": list(table.items.names),
            "types": list(table.items.kinds),
            "size": len(table.items),
        }
    return described


def _alike(events: np.ndarray, rows: int) -> tuple[np.ndarray, ...]:
    """Events of each slice, where a table has one row of each."""
    return (events,) if len(events) == rows else ()


def read_index(data: bytes | memoryview) -> Index:
    """What a segment holds, from its first bytes; the rest is neither read nor checked."""
    return _opened(data, whole=False)[0]


def head_size(data: bytes | memoryview) -> int:
    """How many of a segment's first bytes `read_types` takes, as its first 40 tell."""
    return _sizes(memoryview(data).cast("B"))[2] + _CRC.size


def read_types(data: bytes | memoryview) -> tuple[Algebra, dict[tuple[str, ...], str]]:
    """The kind of a segment, and the types of the columns of its keys and items that are known.

    Types are by the table's key columns and the name of the column. `data` is a segment, or its
    first bytes: see `head_size`.
    """
    _, header, _ = _head_of(data)
    found = {
        (*entry["by"], name): kind
        for entry in header["tables"]
        for names, types, _ in _dictionaries(entry)
        for name, kind in zip(names, types, strict=True)
        if kind is not None
    }
    return algebra_of(header["kind"], header["parameters"]), found


def decode(data: bytes | memoryview, keys: Sequence[tuple[str, ...]] | None = None) -> Segment:
    """The segment that `encode` wrote.

    Parameters
    ----------
    keys : sequence of tuples of names, optional
        Tables to read; the others are passed over.

    Raises
    ------
    CorruptSummary
        Anything else: damaged, cut, of a newer version, or states that no events could have made.
    """
    index, reader, header, view = _opened(data, whole=keys is None)
    (expected,) = _CRC.unpack(view[-_CRC.size :])
    if crc_of(view[: -_CRC.size]) != expected:
        raise CorruptSummary("segment: checksum does not match, the bytes are damaged")
    shapes = index.algebra.columns()
    tables = []
    budget = DECODED_BYTES_MAX
    texts = {
        name: Texts(read_text(reader, TEXT, reader.numbers(size), None, budget))
        for name, size in header.get("texts", [])
    }
    for (by, slices, rows), entry in zip(index.tables, header["tables"], strict=True):
        if keys is not None and by not in keys:
            of_states = sum(shape.streams for shape in shapes.values())
            reader.skip(of_states + _streams(entry, texts))
            continue
        table = _read_table(reader, entry, slices, rows, index.events, shapes, texts, budget)
        budget -= table.nbytes
        check_table(table, index.limit, index.shard)
        index.algebra.check(table)
        tables.append(table)
    reader.done()
    segment = Segment(
        index.algebra, index.slices, index.events, tuple(tables), index.limit, index.shard
    )
    check_segment(segment)
    return segment


def _opened(
    data: bytes | memoryview, *, whole: bool
) -> tuple[Index, StreamReader, dict[str, Any], memoryview]:
    view, header, (at, directory, head, size) = _head_of(data)
    if len(view) != size:
        raise CorruptSummary(f"segment: {len(view)} bytes are not what its head says")
    payload = memoryview(
        b"".join((view[at + directory : head], view[head + _CRC.size : -_CRC.size]))
    )
    reader = StreamReader(view[at : at + directory], payload, whole=whole)
    return _read_index(header, reader), reader, header, view


def _sizes(view: memoryview) -> tuple[int, int, int, int]:
    """Where the directory begins, its bytes, where the first checksum is, and the bytes of all."""
    if len(view) < _HEAD.size or view[:4] != MAGIC:
        raise CorruptSummary("not a segment: the bytes do not begin with MSEG")
    _, version, described, directory, front, back = _HEAD.unpack_from(view)
    if version != VERSION or any(view[5:8]):
        raise CorruptSummary(f"segment of version {version}: upgrade Muntin to read it")
    at = _HEAD.size + described
    head = at + directory + front
    if described > DESCRIPTION_BYTES_MAX or max(directory, front, back) > DECODED_BYTES_MAX:
        raise CorruptSummary(f"segment: {len(view)} bytes are not what its head says")
    return at, directory, head, head + back + 2 * _CRC.size


def _head_of(
    data: bytes | memoryview,
) -> tuple[memoryview, dict[str, Any], tuple[int, int, int, int]]:
    """All that is there, its description, and `_sizes`: the head is there, and undamaged."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CorruptSummary(f"segment: expected bytes, got {type(data).__name__}")
    view = memoryview(data).cast("B")
    sizes = _sizes(view)
    at, _, head, _ = sizes
    if len(view) < head + _CRC.size:
        raise CorruptSummary(f"segment: {len(view)} bytes are not what its head says")
    (crc,) = _CRC.unpack_from(view, head)
    if crc_of(view[:head]) != crc:
        raise CorruptSummary("segment: checksum does not match, the bytes are damaged")
    try:
        header = json.loads(bytes(view[_HEAD.size : at]).decode())
        is_canonical = canonical(header) == view[_HEAD.size : at]
    except (ValueError, RecursionError) as problem:
        raise CorruptSummary(f"segment: its description is not JSON ({problem})") from None
    if not is_canonical:
        raise CorruptSummary("segment: its description is not in canonical form")
    _check_header(header)
    return view, header, sizes


def _check_header(header: Any) -> None:
    names = {"kind", "parameters", "limit", "slices", "tables"}
    if (
        not isinstance(header, dict)
        or set(header) - {"shard", "texts"} != names
        or not isinstance(header["tables"], list)
    ):
        raise CorruptSummary("segment: its description lacks entries")
    if "texts" in header:
        _check_texts(header["texts"])
    for table in header["tables"]:
        _check_described(table)


def _read_index(header: dict[str, Any], reader: StreamReader) -> Index:
    shard = header.get("shard", WHOLE_KEYS)
    if "shard" in header and not 2 <= _size(shard, "shard") < 2 * SHARDS_MAX:
        raise CorruptSummary(f"segment: there is no shard {shard}")
    algebra = algebra_of(header["kind"], header["parameters"])
    limit = header["limit"]
    if limit is not None:
        _size(limit, "limit")
    slices = _slices(reader, _size(header["slices"], "slices"))
    events = reader.numbers(len(slices))
    tables = []
    for table in header["tables"]:
        by = tuple(table["by"])
        own = _slices(reader, _size(table["slices"], "slices"))
        if algebra.keys_are_items and "items" in table:
            by = tuple(table["items"]["names"])
        tables.append((by, own, reader.numbers(len(own))))
    return Index(algebra, limit, slices, events, tuple(tables), shard)


def _check_texts(texts: Any) -> None:
    if not isinstance(texts, list) or not texts:
        raise CorruptSummary("segment: its texts are no list")
    for entry in texts:
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
            raise CorruptSummary("segment: texts have no column")
        _size(entry[1], "texts")
    if len({name for name, _ in texts}) < len(texts):
        raise CorruptSummary("segment: texts of a column are there twice")


def _check_described(table: Any) -> None:
    names = {"by", "types", "keys", "slices"}
    if not isinstance(table, dict) or set(table) not in (names, names | {"items"}):
        raise CorruptSummary("segment: a table's description lacks entries")
    if "items" in table:
        items = table["items"]
        if not isinstance(items, dict) or set(items) != {"names", "types", "size"}:
            raise CorruptSummary("segment: the items of a table lack entries")
        _check_names(items["names"], items["types"])
        if not items["names"]:
            raise CorruptSummary("segment: items have no columns")
    _check_names(table["by"], table["types"])


def _check_names(names: Any, types: Any) -> None:
    if not isinstance(names, list) or not isinstance(types, list) or len(names) != len(types):
        raise CorruptSummary("segment: a table's key columns have no types")
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise CorruptSummary("segment: a table's key columns are not names")
    if not all(kind is None or (isinstance(kind, str) and kind in TYPES) for kind in types):
        raise CorruptSummary(f"segment: key columns of types {types!r:.100}")


def _size(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value <= DECODED_BYTES_MAX // 8:
        raise CorruptSummary(f"segment: {value!r:.50} {what}")
    return value


def _slices(reader: StreamReader, count: int) -> np.ndarray:
    steps = reader.numbers(count)
    if count < 2:
        return steps
    if (steps[1:] <= 0).any():
        raise CorruptSummary("segment: slices do not ascend")
    slices = np.cumsum(steps)
    if (slices[1:] <= slices[:-1]).any():
        raise CorruptSummary("segment: slices are beyond int64")
    return frozen(slices)


def _streams(entry: dict[str, Any], texts: Mapping[str, Texts]) -> int:
    """How many streams a table has beside those of its states."""
    count = 4
    for names, types, _ in _dictionaries(entry):
        for name, kind in zip(names, types, strict=True):
            own = kind == "binary" or (kind == "string" and name not in texts)
            count += 1 if kind is None else 2 + own
    return count


def _dictionaries(entry: dict[str, Any]) -> list[tuple[tuple[str, ...], list[Any], int]]:
    """Names, types and size of a table's keys, and of its items."""
    found = [(tuple(entry["by"]), entry["types"], entry["keys"])]
    if "items" in entry:
        items = entry["items"]
        found.append((tuple(items["names"]), items["types"], items["size"]))
    return found


def _read_table(
    reader: StreamReader,
    entry: dict[str, Any],
    slices: np.ndarray,
    sizes: np.ndarray,
    all_events: np.ndarray,
    shapes: Mapping[str, Shape],
    texts: Mapping[str, Texts],
    left: int,
) -> Table:
    starts = laid_out(sizes, left // 8, least=1)
    if starts is None:
        raise CorruptSummary("segment: a slice of a table has no rows, or too many")
    rows = int(starts[-1])
    if rows * (2 + len(shapes)) * 8 > left:
        raise CorruptSummary(f"segment: {rows} rows are more than are read at once")
    keys, *items = [
        read_keys(reader, names, types, _size(size, "keys"), texts, left)
        for names, types, size in _dictionaries(entry)
    ]
    key = reader.lists(len(slices), "int64", False, 8 * rows, sizes)
    if not np.array_equal(key.starts, starts):
        raise CorruptSummary("segment: the rows of a table differ from its index")
    events = reader.numbers(rows, *_alike(all_events, rows))
    states = reader.columns(events, shapes, left, key.items)
    return Table(keys, slices, starts, key.items, events, states, *items)


def cut(segment: Segment, nbytes: int = CUT_BYTES) -> list[Segment]:
    """Runs of slices of about `nbytes` in memory each, as a ledger keeps them. The states that were
    measured are 4 to 12 times smaller in bytes."""
    if segment.nbytes <= nbytes or len(segment.slices) < 2:
        return [segment]
    rows = np.zeros(len(segment.slices), np.int64)
    for table in segment.tables:
        rows[np.searchsorted(segment.slices, table.slices)] += np.diff(table.starts)
    share = np.cumsum(rows) * (segment.nbytes / (nbytes * max(segment.rows, 1)))
    edges = np.flatnonzero(np.diff(share.astype(np.int64), prepend=0))
    ends = [*segment.slices[edges[edges > 0]].tolist(), int(segment.slices[-1]) + 1]
    firsts = [int(segment.slices[0]), *ends[:-1]]
    return [segment.between(a, b) for a, b in zip(firsts, ends, strict=True) if a < b]
