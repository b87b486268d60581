"""What a standing query gave for a window, as the ledger keeps it: an Arrow IPC stream.

Beside the rows stands what is true of them whenever they are read: how exact they are, and what
they cover. Where the statement failed on that window, the stream has no columns, and says why.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from muntin.arrow import ipc_bytes
from muntin.errors import SelectError
from muntin.ledger.records import TrendPoint
from muntin.select.catalog import Note
from muntin.select.result import Result
from muntin.times import instant_text

_TRUE = b"muntin"
_OF = b"muntin.of"
_STORED = ("windows", "exact", "bounds", "notes", "late")
"""The rest is of the moment: two runs over the same events store the same, but for `late`."""
_COUNTED = b"muntin.counted"
_ERROR = b"muntin.error"
_SPACES = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*\n?|/\*.*?\*/)|\s+""", re.DOTALL)
_NO_ROWS = pa.table({})
_TEXT_MAX = 2_000  # characters of each part of an error


Counted = tuple[str, int, int, int]
"""Summary, start and end of what was read of it, microseconds, and how many events it held."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a stored result was made of."""

    statement: bytes | None
    """The `digest` of the statement; None: it does not say."""
    counted: tuple[Counted, ...]
    """Of what was read beside the window."""


def stored_result(result: Result, statement: str, counted: Iterable[Counted]) -> bytes:
    """The bytes of a result, and of what it was made."""
    said = result.particulars()
    about = json.dumps({name: said[name] for name in _STORED}, ensure_ascii=False, allow_nan=False)
    metadata = {_TRUE: about.encode(), _OF: digest(statement)}
    if beside := sorted(set(counted)):
        metadata[_COUNTED] = json.dumps(beside, ensure_ascii=False).encode()
    return _stream(result.table.replace_schema_metadata(metadata))


def _lineage(metadata: Mapping[bytes, bytes]) -> Lineage:
    """What a stored result was made of, as far as it says so."""
    counted = json.loads(metadata[_COUNTED]) if _COUNTED in metadata else ()
    return Lineage(metadata.get(_OF), tuple(tuple(each) for each in counted))


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


def read_result(point: TrendPoint, watermark: int | None, *, stale: bool) -> Result:
    """The result: as true as it was when it was stored, beside the watermark of now. Raises
    SelectError: the statement failed on that window."""
    table, said, _ = read_stored(point, watermark, stale=stale)
    if isinstance(said, SelectError):
        raise said
    return replace(said, table=table)


def read_stored(
    point: TrendPoint, watermark: int | None, *, stale: bool
) -> tuple[pa.Table, Result | SelectError, Lineage]:
    """The rows; what is true of them, without rows, or why there are none; what they are of."""
    table = pa.ipc.open_stream(point.result).read_all()
    metadata = table.schema.metadata or {}
    table = table.replace_schema_metadata(None)
    if _ERROR in metadata:
        about = json.loads(metadata[_ERROR])
        return table, SelectError(about.pop("message"), **about), _lineage(metadata)
    said = json.loads(metadata[_TRUE])
    said |= {"watermark": instant_text(watermark), "revision": point.revision, "stale": stale}
    return table, Result.of(_NO_ROWS, said), _lineage(metadata)
