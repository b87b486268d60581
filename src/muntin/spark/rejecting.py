"""How a record that was not counted is shown: whatever it holds, in plain text."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from muntin.arrow import plain_value
from muntin.ledger.records import RAW_BYTES_MAX

_LONG = 1_000  # characters of one value


def shown_record(record: pa.RecordBatch) -> tuple[dict[str, str | None], bytes]:
    """The values of a single row as text (null is None), and the record as JSON, cut.

    Python has no date beyond the year 9999 and no text that is not UTF-8; Arrow and Parquet have.
    """
    plain = {name: plain_value(record.column(at)) for at, name in enumerate(record.schema.names)}
    shown = {name: None if v is None else str(v)[:_LONG] for name, v in plain.items()}
    text = json.dumps(plain, default=str, ensure_ascii=False)
    return shown, text.encode("utf-8", "replace")[:RAW_BYTES_MAX]


def shown_value(column: Any) -> str | None:
    """The single value of a column as text."""
    value = None if column is None else plain_value(column)
    return None if value is None else str(value)
