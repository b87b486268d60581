"""What a standing query gave for a window, as the ledger keeps it: an Arrow IPC stream.

Where the statement failed on that window, the stream has no columns, and its schema says why.
"""

from __future__ import annotations

import json

import pyarrow as pa

from muntin.errors import SelectError

_ERROR = b"muntin.error"
_TEXT_MAX = 2_000  # characters of each part of an error


def stored_result(table: pa.Table) -> bytes:
    """The bytes of a result."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def stored_error(error: Exception) -> bytes:
    """The bytes that stand for a result where there is none."""
    found = error if isinstance(error, SelectError) else SelectError(_plain(error), code="standing")
    parts = {
        "message": found.message[:_TEXT_MAX],
        "code": found.code,
        "text": found.text[:_TEXT_MAX],
        "position": min(found.position, _TEXT_MAX),
        "length": found.length,
        "remedy": found.remedy[:_TEXT_MAX],
    }
    empty = pa.schema([], {_ERROR: json.dumps(parts).encode()})
    return stored_result(pa.Table.from_arrays([], schema=empty))


def read_result(stored: bytes) -> pa.Table:
    """The result.

    Raises
    ------
    SelectError
        The statement failed on that window.
    """
    table = pa.ipc.open_stream(stored).read_all()
    parts = (table.schema.metadata or {}).get(_ERROR)
    if parts is None:
        return table
    about = json.loads(parts)
    raise SelectError(about.pop("message"), **about)


def _plain(error: Exception) -> str:
    return str(error) or type(error).__name__
