"""What a standing query gave for a window, as the ledger keeps it: an Arrow IPC stream.

Beside the rows stands what is true of them whenever they are read: how exact they are, and what
they cover. Where the statement failed on that window, the stream has no columns, and says why.
"""

import hashlib
import json
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from muntin.arrow import ipc_bytes
from muntin.errors import SelectError
from muntin.ledger.records import ClosedWindow, TrendPoint
from muntin.select.catalog import TREND_ERROR, Note
from muntin.select.result import Result
from muntin.times import instant_text

_TRUE = b"muntin"
_OF = b"muntin.of"
_STORED = ("windows", "exact", "bounds", "notes", "late")
"""The rest is of the moment: two runs over the same events store the same, but for `late`."""
_COUNTED = b"muntin.counted"
_ERROR = b"muntin.error"
_BEFORE, _BETWEEN = b'{"windows": ', b', "exact": '
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of a stream
_LENGTH = struct.Struct("<I")
_LAYOUT_BYTES = 88  # of a stream: these differ where values take more bytes, and not with them
_SPACES = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*\n?|/\*.*?\*/)|\s+""", re.DOTALL)
_TEXT_MAX = 2_000  # characters of each part of an error


Counted = tuple[str, int, int, int]
"""Summary, start and end of what was read of it, microseconds, and how many events it held."""
ABOUT = pa.schema(
    {name: pa.dictionary(pa.int32(), pa.binary()) for name in ("said", "of")}
    | dict.fromkeys(("windows", "counted"), pa.binary())
)
"""What is true of stored results: what of `_STORED` follows its windows, JSON; the `digest` of the
statement; windows, and what was read beside the window, JSON. Null: it does not say, as where the
statement failed."""
EXACT = b'{"exact": true'  # with which what is true of an exact one begins


def stored_result(result: Result, statement: str, counted: Iterable[Counted]) -> bytes:
    """The bytes of a result, and of what it was made."""
    said = result.particulars()
    about = json.dumps({name: said[name] for name in _STORED}, ensure_ascii=False, allow_nan=False)
    metadata = {_TRUE: about.encode(), _OF: digest(statement)}
    if beside := sorted(set(counted)):
        metadata[_COUNTED] = json.dumps(beside, ensure_ascii=False).encode()
    return _stream(result.table.replace_schema_metadata(metadata))


def digest(statement: str) -> bytes:
    """Equal for statements that differ in spaces and line ends alone, outside of quotes."""
    plain = _SPACES.sub(lambda part: part[1] or " ", statement.strip())
    return (
        hashlib.blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest().encode()
    )


def _stream(table: pa.Table) -> bytes:
    return ipc_bytes(table.to_batches(), table.schema)


def outdated(result: bytes, summary: str) -> bytes:
    """What was stored of a window, where late events came after a part of what it is made of was
    dropped."""
    table = pa.ipc.open_stream(result).read_all()
    metadata = table.schema.metadata or {}
    if _TRUE not in metadata:
        return result
    said = json.loads(metadata[_TRUE]) | {"exact": False}
    message = (
        f"{summary}: late events came after retention had dropped a part of what was read: "
        "they are not in these rows"
    )
    notes = [note for note in said["notes"] if note["code"] != "outdated"]
    said["notes"] = [*notes, Note("outdated", summary, message).to_dict()]
    about = json.dumps(said, ensure_ascii=False, allow_nan=False)
    kept = {**metadata, _TRUE: about.encode()}
    kept.pop(_COUNTED, None)  # it says already that it lacks some
    return _stream(table.replace_schema_metadata(kept))


def stored_error(error: Exception) -> bytes:
    """The bytes that stand for a result where there is none."""
    said = str(error) or type(error).__name__
    found = error if isinstance(error, SelectError) else SelectError(said, code="standing")
    parts = {
        name: part[:_TEXT_MAX] if isinstance(part, str) else min(part, _TEXT_MAX)
        for name, part in found.parts.items()
    }
    empty = pa.schema([], {_ERROR: json.dumps(parts).encode()})
    return _stream(pa.Table.from_arrays([], schema=empty))


def error_of(stored: bytes) -> SelectError:
    """What `stored_error` kept."""
    parts = json.loads(stored)
    return SelectError(parts.pop("message"), **parts)


def read_result(point: TrendPoint, watermark: int | None, *, stale: bool) -> Result:
    """The result: as true as it was when it was stored, beside the watermark of now. Raises
    SelectError: the statement failed on that window."""
    table = pa.ipc.open_stream(point.result).read_all()
    metadata = table.schema.metadata or {}
    if _ERROR in metadata:
        raise error_of(metadata[_ERROR])
    said = json.loads(metadata[_TRUE])
    said |= {"watermark": instant_text(watermark), "revision": point.revision, "stale": stale}
    return Result.of(table.replace_schema_metadata(None), said)


def is_of(point: TrendPoint, window: ClosedWindow) -> bool:
    """Whether a result is that of this window: where the query ran on windows of another summary
    before, one of these may start at the same time. Of one that failed its ends alone tell."""
    metadata = pa.ipc.open_stream(point.result).schema.metadata or {}
    read = json.loads(metadata[_TRUE])["windows"] if _TRUE in metadata else []
    is_read = not read or window.summary in {each["source"] for each in read}
    return is_read and (point.start, point.end) == (window.start, window.end)


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Results that follow each other and have the same columns; or failed, and have none."""

    schema: pa.Schema
    stored: list[bytes]  # their record batches; or why they failed

    def rows(self) -> tuple[pa.Table, np.ndarray]:
        """The rows of all, and how many of them are of each: one that says why it failed."""
        if not self.schema.names:
            said = pa.table({TREND_ERROR: [error_of(each).message for each in self.stored]})
            return said, np.ones(len(said), np.int64)
        head = self.schema.serialize().to_pybytes()
        table = pa.ipc.open_stream(b"".join([head, *self.stored])).read_all()
        lengths = np.array([len(each) for each in self.stored])
        batches = [len(chunk) for chunk in table.column(0).chunks]
        if len(batches) == np.count_nonzero(lengths):  # most have one, those without rows none
            lengths[lengths > 0] = batches
            return table, lengths
        alone = [pa.ipc.open_stream(head + each).read_all() for each in self.stored]
        return table, np.array([len(each) for each in alone])


def opened(results: Iterable[bytes]) -> tuple[pa.Table, list[Alike]]:
    """What is true of each (`ABOUT`), and their rows, of many at once."""
    about: dict[str, list[bytes | None]] = {name: [] for name in ABOUT.names}
    runs: list[Alike] = []
    forms: dict[bytes, _Form] = {}
    schemas: list[pa.Schema] = []
    for result in results:
        layout = result[:_LAYOUT_BYTES]
        form = forms.get(layout)
        values = None if form is None else form.values(result)
        if form is None or values is None:
            form = forms[layout] = _Form.of(result, schemas)
            values = form.values(result) or {}
        windows, found, said = values.get(_TRUE, b"").partition(_BETWEEN)
        about["windows"].append(windows[len(_BEFORE) :] if found else None)
        about["said"].append(b"{" + found[2:] + said if found else None)
        about["of"].append(values.get(_OF))
        about["counted"].append(values.get(_COUNTED))
        if not runs or runs[-1].schema is not form.schema:
            runs.append(Alike(form.schema, []))
        runs[-1].stored.append(values.get(_ERROR) or result[form.parts.size : -len(_END)])
    columns = [pa.array(about[field.name], pa.binary()).cast(field.type) for field in ABOUT]
    return pa.table(columns, schema=ABOUT), runs


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """A stream's first message, which says its columns, but for the values of its metadata.

    Arrow's own reader takes most of its time for it, and those of a query are the same. Where all
    else is the same, byte by byte, a value is where it was in the one that Arrow has read: its
    length, its bytes, and as many zeros as make them a multiple of 4.
    """

    schema: pa.Schema
    parts: struct.Struct
    """What is the same, then length and bytes of a value, and so on, and what is the same."""
    same: tuple[bytes, ...]
    keys: tuple[bytes, ...]
    known: Mapping[bytes, bytes]
    """Values that are the same as well."""

    @classmethod
    def of(cls, result: bytes, schemas: list[pa.Schema]) -> Self:
        """The one of a stream. `schemas`: those that were met, which stay one object each."""
        head = result[: 8 + _LENGTH.unpack_from(result, 4)[0]]
        read = pa.ipc.read_schema(pa.py_buffer(head))
        known, places = dict(read.metadata or {}), {}
        for key, value in [*known.items()]:
            stored = _LENGTH.pack(len(value)) + value
            if head.count(stored) == 1:
                places[head.index(stored)] = key, len(known.pop(key)) // 4 * 4 + 4
        layout, end = "<", 0
        for at, (_, size) in sorted(places.items()):
            layout += f"{at - end}sI{size}s"
            end = at + 4 + size
        parts = struct.Struct(f"{layout}{len(head) - end}s")
        keys = tuple(key for _, (key, _) in sorted(places.items()))
        plain = read.remove_metadata()
        schema = next((one for one in schemas if one.equals(plain, check_metadata=True)), plain)
        if schema is plain:
            schemas.append(plain)
        return cls(schema, parts, parts.unpack(head)[::3], keys, known)

    def values(self, result: bytes) -> dict[bytes, bytes] | None:
        """The metadata of a stream; None where it begins in another way."""
        parts = self.parts.unpack_from(result)
        if parts[::3] != self.same:
            return None
        found = dict(self.known)
        for key, length, value in zip(self.keys, parts[1::3], parts[2::3], strict=True):
            if length >= len(value):
                return None
            found[key] = value[:length]
        return found
