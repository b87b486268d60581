"""Which columns a summary can take, and what to do about one that it cannot."""

import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from muntin.arrow import is_text, unviewed
from muntin.errors import BadArgument
from muntin.summaries.key_columns import can_be_key

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_numeric(kind: pa.DataType) -> bool:
    """Numbers, booleans, or nothing but nulls."""
    return is_whole(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def is_whole(kind: pa.DataType) -> bool:
    """Integers or booleans, or nothing but nulls."""
    return pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)


def without_views(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """These columns; text in views, for which Arrow cannot filter rows, as plain text.

    So are dictionaries with a null among their values, which Arrow before 26 counts as valid.
    """
    columns = [batch.column(name) for name in names]
    for at, column in enumerate(columns):
        columns[at] = column = unviewed(column)
        if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
            columns[at] = column.dictionary_decode()
    return pa.RecordBatch.from_arrays(columns, list(names))


def check_keys(names: Iterable[str], types: Mapping[str, pa.DataType], what: str = "key") -> None:
    """BadArgument where a column cannot be a key."""
    for name in dict.fromkeys(names):
        kind = types[name]
        if not can_be_key(kind):
            raise BadArgument(
                f"{what} '{name}' is {kind}: a key is text, an integer, a boolean, a date or a "
                f"timestamp; cast it under fields, for example  {name}: {_as_text(name, kind)}"
            )


def check_item(name: str, kind: pa.DataType, what: str = "item", *, hashed: bool = False) -> None:
    """BadArgument where a column cannot be items.

    `hashed`: only their hashes are kept, so that they may also be of a type in which no question
    can name one.
    """
    plain = is_text(kind, or_binary=True) or pa.types.is_integer(kind) or pa.types.is_null(kind)
    also = pa.types.is_boolean(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    if not (plain or (hashed and also)):
        more = ", an integer, a boolean, a date or a timestamp" if hashed else " or an integer"
        raise BadArgument(
            f"{what} '{name}' is {kind}, which cannot be one: use text, binary{more}; cast it "
            f"under fields, for example  {name}: {_as_text(name, kind)}"
        )


def in_backticks(name: str) -> str:
    """A column's name as Spark's SQL takes any: with dots, blanks, or backticks of its own."""
    return f"`{name.replace('`', '``')}`"


def in_sql(name: str) -> str:
    """A column's name as somebody would write it in Spark's SQL."""
    return name if _PLAIN_NAME.fullmatch(name) else in_backticks(name)


def _as_text(name: str, kind: pa.DataType) -> str:
    """A column as text, in SQL; bytes are rarely UTF-8."""
    name = in_sql(name)
    stored = getattr(kind, "storage_type", kind)  # of an extension, such as UUIDs
    is_bytes = is_text(stored, or_binary=True) and not is_text(stored)
    return f"HEX({name})" if is_bytes else f"CAST({name} AS STRING)"


def check_sketches(name: str, kind: pa.DataType) -> None:
    """BadArgument where a column cannot be the bytes of sketches."""
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_null(kind)):
        raise BadArgument(
            f"'{name}' is {kind}, and must be the bytes of sketches (merge: column): give a binary "
            "column, or leave out merge"
        )


def check_number(name: str, kind: pa.DataType, what: str, *, whole: bool = False) -> None:
    """BadArgument where a column is not numbers, or not whole numbers."""
    if whole and not is_whole(kind):
        raise BadArgument(
            f"{what} '{name}' is {kind}, and must be whole numbers: cast it under fields, "
            f"for example  {name}: {_as_number(name, kind, 'BIGINT')}"
        )
    if not is_numeric(kind):
        raise BadArgument(
            f"{what} '{name}' is {kind}, and must be a number: cast it under fields, "
            f"for example  {name}: {_as_number(name, kind, 'DOUBLE')}"
        )


def _as_number(name: str, kind: pa.DataType, number: str) -> str:
    """A column as numbers, in SQL, which casts no dates, and of times whole seconds. Of many
    values in one how many there are, of a struct the first field that is a number."""
    name = in_sql(name)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return f"{'UNIX_DATE' if pa.types.is_date(kind) else 'UNIX_MICROS'}({name})"
    if pa.types.is_map(kind):
        return f"size({name})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array_size({name})"
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = sorted(kind, key=lambda field: not is_numeric(field.type))
        name = f"{name}.{in_sql(fields[0].name)}"
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        name = f"CAST({name} AS STRING)"
    return f"TRY_CAST({name} AS {number})"
