"""Columns of items: the different ones, once a batch, and the number of each row's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrow import decoded, used_values
from muntin.errors import BadArgument
from muntin.segments.keys import NO_ITEMS, Keys, ordered
from muntin.summaries.items import as_items, hash_items

_compute: Any = pc


def item_numbers(column: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Number of each row's item (of a null: any), and the different items, as `as_items` has them.

    Raises
    ------
    BadArgument
        Floats, lists and other values that are no items.
    """
    if pa.types.is_dictionary(column.type):
        if len(column.dictionary) <= len(column):
            codes, used = used_values(column)
            numbers, different = item_numbers(used)  # a dictionary may hold an item twice
            return np.append(numbers, 0)[codes], different
        column = decoded(column)
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64), pa.array([], pa.int64())
    encoded = _compute.dictionary_encode(column)
    codes = _compute.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), as_items(encoded.dictionary)


def asked_items(items: Sequence[Any]) -> pa.Array:
    """The items of a question as a column.

    Raises
    ------
    BadArgument
        They are of several types, or of none that items have.
    """
    beyond = any(type(item) is int and item >= 1 << 63 for item in items)
    try:
        return pa.array(list(items), pa.uint64() if beyond else None)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as problem:
        raise BadArgument(f"items are text, bytes or integers of 64 bits: {problem}") from None


def item_keys(column: pa.Array) -> tuple[np.ndarray, Keys]:
    """Number of each row's item (of a null: any), and the items in the order of their hashes."""
    codes, different = item_numbers(column)
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    different = different.cast(wide.get(different.type, different.type))
    if not len(different):
        return codes, NO_ITEMS
    rows = np.arange(len(different))
    keys, order = ordered(("item",), [different], [rows], [hash_items(different, 0)])
    to = np.empty_like(rows)
    to[order] = rows
    return to[codes], keys
