"""Rows of a vector matrix as (object, integer) pairs: what all sites must do alike."""

import hashlib
import json
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import plain_value
from muntin.errors import BadArgument
from muntin.topk import Object
from muntin.topk.messages import VALUE_MAX, Entries
from muntin.topk.objects import OBJECT_BYTES_MAX

_DIGEST_BYTES = 8
_KEPT_BYTES = OBJECT_BYTES_MAX - 2 * _DIGEST_BYTES - len("…".encode())


def ranked(
    table: pa.Table, key: tuple[str, ...], value: str, scale: float | None
) -> tuple[list[Object], np.ndarray]:
    """The objects of a table of sums and their values.

    `table`: the key's columns and the column `value`, one row for each value of the key.
    `scale`: values are multiplied by it and rounded; None: they are integers.

    Returns `objects` (list of str or int): a key of one column of text or integers is the object;
      any other is written as JSON, a combination as an array. A name of more than 256 bytes is cut,
      and its digest appended. A key that is null is left out, and so is a value of 0.
    Returns `values` (int64[n]).

    Raises BadArgument: values that are not integers without `scale`, or beyond +-2**50.
    """
    if len(key) == 1:  # before its sums, which may be what cannot be ranked
        table = table.filter(table.column(key[0]).is_valid())
    values = _integers(table.column(value), value, scale)
    kept = values != 0
    if not kept.all():
        table, values = table.filter(pa.array(kept)), values[kept]
    columns = [table.column(name) for name in key]
    if len(columns) == 1:
        return _single(columns[0]), values
    rows = zip(*map(_parts, columns), strict=True)
    return [
        _short(json.dumps(row, ensure_ascii=False, separators=(",", ":"))) for row in rows
    ], values


def type_of(entries: Entries) -> str:
    """Of the items that a site counts, "integers" or "text"; "" where none has a value there."""
    first = next((item for item, value in entries if value), None)
    return "" if first is None else "integers" if isinstance(first, int) else "text"


def _integers(column: pa.ChunkedArray, name: str, scale: float | None) -> np.ndarray:
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    whole = column.fill_null(0).to_numpy()
    if scale is None:
        if whole.dtype.kind not in "iu":
            raise BadArgument(
                f"sites.scale: is missing, and '{name}' is {column.type}: sums are ranked as "
                "integers, so say how many of them make 1, for example scale: 100 for cents"
            )
    else:
        with np.errstate(over="ignore"):
            whole = np.rint(whole.astype(np.float64) * scale)
        if not np.isfinite(whole).all() or (len(whole) and np.abs(whole).max() > VALUE_MAX):
            raise BadArgument(
                f"'{name}' has a sum that is not finite, or beyond 2**50 when multiplied by "
                f"scale: {scale:g}; make the scale smaller"
            )
    if len(whole) and max(int(whole.max()), -int(whole.min())) > VALUE_MAX:
        raise BadArgument(
            f"'{name}' has a sum beyond 2**50: rank it in a coarser unit, with a scale below 1"
        )
    return whole.astype(np.int64)


def _single(column: pa.ChunkedArray) -> list[Object]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_integer(kind):
        return column.to_pylist()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [_short(text) for text in column.to_pylist()]
    return [_short(str(part)) for part in _parts(column)]


def _short(text: str) -> str:
    """At most 256 bytes, different for different texts; "\\0" alone means something else."""
    if len(text) * 4 <= OBJECT_BYTES_MAX:
        return text if text != "\0" else "␀"
    data = text.encode()
    if len(data) <= OBJECT_BYTES_MAX:
        return text
    digest = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
    return data[:_KEPT_BYTES].decode(errors="ignore") + "…" + digest


def _parts(column: pa.ChunkedArray) -> list[Any]:
    """What JSON has; times and dates in ISO 8601, beyond the years 1 to 9999 as numbers."""
    try:
        return [_plain(part) for part in column.to_pylist()]
    except (OverflowError, ValueError):
        whole = column.combine_chunks()
        return [_plain(plain_value(whole.slice(at, 1))) for at in range(len(whole))]


def _plain(part: Any) -> Any:
    if part is None or isinstance(part, str | int | float):
        return part
    return part.isoformat() if hasattr(part, "isoformat") else str(part)
