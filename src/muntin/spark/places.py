"""Where rows stand in the files that Spark reads: the file, and the row's number in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa

from muntin.arrow import pc
from muntin.spark.partials import Placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE, BLOCK, ROW = "_muntin_file", "_muntin_block", "_muntin_row"
FILE_COLUMNS = (FILE, BLOCK, ROW)
_METADATA = {FILE: "file_path", BLOCK: "file_block_start", ROW: "row_index"}


def with_files(df: DataFrame, file_format: str) -> DataFrame:
    """A frame of files, with where its rows stand.

    Spark numbers the rows of Parquet files alone. Of other formats it reads a file in blocks: rows
    are counted from where the block begins.
    """
    from pyspark.sql import functions as sf

    chosen = (FILE, ROW) if file_format == "parquet" else (FILE, BLOCK)
    return df.select("*", *[sf.col(f"_metadata.{_METADATA[name]}").alias(name) for name in chosen])


def in_files(batches: Iterable[pa.RecordBatch]) -> Iterator[Placed]:
    """Batches without the columns that tell their rows' places, and these: path, row 12."""
    block, counted = None, 0
    for batch in batches:
        columns = [n for n in batch.schema.names if n not in FILE_COLUMNS]
        if ROW in batch.schema.names:
            yield batch.select(columns), partial(_numbered, batch.column(FILE), batch.column(ROW))
            continue
        for part in _by_block(batch):
            begins = part.column(FILE)[0].as_py(), part.column(BLOCK)[0].as_py()
            counted = counted if begins == block else 0
            block = begins
            yield part.select(columns), partial(_counted, *begins, counted)
            counted += part.num_rows


def _by_block(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The parts of a batch that lie in one block of one file."""
    if not batch.num_rows:
        return
    changes = np.zeros(batch.num_rows - 1, bool)
    for name in (FILE, BLOCK):
        column = batch.column(name)
        changes |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    at = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
    for first, last in pairwise(at):
        yield batch.slice(first, last - first)


def _counted(path: str, begins: int, before: int, row: int) -> str:
    place = f"{_shown(path)}, row {before + row + 1}"
    return f"{place} from byte {begins:,}" if begins else place


def _numbered(paths: pa.Array, rows: pa.Array, row: int) -> str:
    return f"{_shown(paths[row].as_py())}, row {rows[row].as_py() + 1}"


def _shown(path: str) -> str:
    return unquote(urlsplit(path).path) if path.startswith("file:") else path
