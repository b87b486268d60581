"""Columns of items: the different ones, once a batch, and the number of each row's."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import NO_BITS, decoded, is_text, used_values, validity
from muntin.errors import BadArgument
from muntin.segments.keys import NO_ITEMS, Keys, ordered
from muntin.summaries.indexes import IntegerIndex, TextIndex
from muntin.summaries.items import (
    ITEM_TYPES,
    as_items,
    hash_items,
    integers,
    item_kind,
    text_buffers,
)

_READ_IN_PLACE = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
"""With their nulls."""


def item_numbers(column: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Number of each row's item (of a null: any), and the different items, as `as_items` has them.
    Raises BadArgument: floats, lists and other values that are no items."""
    if pa.types.is_dictionary(column.type):
        if len(column.dictionary) <= len(column):
            codes, used = used_values(column)
            numbers, different = item_numbers(used)  # a dictionary may hold an item twice
            return np.append(numbers, 0)[codes], different
        column = decoded(column)
    items = column if column.type in _READ_IN_PLACE else as_items(column.drop_null())
    numbers = np.empty(len(items), np.int32)
    if is_text(items.type, or_binary=True):
        texts = TextIndex()
        texts.number(*text_buffers(items), *validity(items), numbers)
        different = texts.values(ITEM_TYPES[item_kind(items.type)])
        if items.null_count:
            different = different.drop_null()
            numbers -= numbers > texts.state[1]
            np.minimum(numbers, max(len(different) - 1, 0), out=numbers)
    else:
        index = IntegerIndex()
        index.number(integers(items), NO_BITS, 0, numbers)
        different = pa.array(index.known[: len(index)]).view(items.type)
    if len(items) < len(column):
        there = column.is_valid().to_numpy(zero_copy_only=False)
        numbers = np.append(numbers, np.int32(0))[np.where(there, np.cumsum(there) - 1, -1)]
    return numbers.astype(np.int64), different


def asked_items(items: Sequence[Any]) -> pa.Array:
    """The items of a question as a column. Raises BadArgument: they are of several types, or of
    none that items have."""
    beyond = any(type(item) is int and item >= 1 << 63 for item in items)
    try:
        return pa.array(list(items), pa.uint64() if beyond else None)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as problem:
        raise BadArgument(f"items are text, bytes or integers of 64 bits: {problem}") from None


def item_keys(column: pa.Array) -> tuple[np.ndarray, Keys]:
    """Number of each row's item (of a null: any), and the items in the order of their hashes."""
    codes, different = item_numbers(column)
    if not len(different):
        return codes, NO_ITEMS
    rows = np.arange(len(different))
    keys, order = ordered(("item",), [different], [rows], [hash_items(different, 0)])
    to = np.empty_like(rows)
    to[order] = rows
    return to[codes], keys
