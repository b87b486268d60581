"""A folder of Parquet files, numbered from 1: a file is a commit.

A file is written under a hidden name, and then linked to the next number, which only one process
can do. One that was killed leaves a hidden file, which readers pass over.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.errors import BadArgument
from muntin.exporting.target import KNOWN, Overtaken, about_of
from muntin.storage import sync_folder

ABANDONED_SECONDS = 86_400  # a hidden file of that age is of a process that was killed


class ParquetFolder:
    """See `Target`."""

    def __init__(self, place: str) -> None:
        if "://" in place:
            raise BadArgument(
                f"'{place}' is a URL: Parquet files go to a folder; in an object store use "
                "to='delta' or to='iceberg' (--to delta), whose commits are safe there"
            )
        self._folder = Path(place)
        if (self._folder / "_delta_log").is_dir():
            raise BadArgument(
                f"{place} is a Delta Lake table: use to='delta' (--to delta), or another folder"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        self._files = self._written()

    def known(self) -> Iterator[pa.Table]:
        self._files = self._written()
        for path in self._files:
            yield pq.ParquetFile(path).read(columns=list(KNOWN))

    def about(self) -> str | None:
        schema = self.schema()
        return None if schema is None else about_of(schema)

    def schema(self) -> pa.Schema | None:
        return pq.read_schema(self._files[0]) if self._files else None

    def append(self, rows: pa.RecordBatchReader) -> None:
        number = len(self._files) + 1
        path = self._folder / f"part-{number:08}.parquet"
        hidden = self._folder / f".{path.name}-{os.getpid()}-{time.time_ns()}.tmp"
        try:
            with hidden.open("wb") as file:
                with pq.ParquetWriter(file, rows.schema, compression="zstd") as writer:
                    for batch in rows:
                        writer.write_batch(batch)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(hidden, path)
            except FileExistsError:
                raise Overtaken(f"{path} is there already") from None
        finally:
            hidden.unlink(missing_ok=True)
        sync_folder(self._folder)
        self._files.append(path)

    def _written(self) -> list[Path]:
        before = time.time() - ABANDONED_SECONDS
        for hidden in self._folder.glob(".part-*.tmp"):
            with suppress(FileNotFoundError):  # who writes it may be done
                if hidden.stat().st_mtime < before:
                    hidden.unlink()
        files = sorted(self._folder.glob("part-*.parquet"))
        for number, path in enumerate(files, 1):
            if path.name != f"part-{number:08}.parquet":
                raise BadArgument(
                    f"{path} is not number {number} of the files here: export into another folder, "
                    "or bring the missing file back"
                )
        return files
