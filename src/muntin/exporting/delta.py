"""A Delta Lake table: a version is a commit."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from muntin.errors import BadArgument
from muntin.exporting.target import ABOUT, KNOWN, Overtaken, about_of

_ONE_TRY = CommitProperties(max_commit_retries=0)
"""So that a version that another export has written is not passed over."""

_SOON = {"retry_timeout": "15s"}
"""How long a store is asked again; deltalake would do so for three minutes."""

_ODD = frozenset("%[\\]^|")


class DeltaLake:
    """See `Target`."""

    def __init__(self, place: str) -> None:
        odd = "" if "://" in place else set(os.path.abspath(place)) & _ODD
        if odd:
            raise BadArgument(
                f"'{place}': deltalake does not find a folder again whose path has "
                f"{' '.join(sorted(odd))}: give another folder"
            )
        self._place = place
        self._table: DeltaTable | None = None

    def known(self) -> Iterator[pa.RecordBatch]:
        try:
            self._table = DeltaTable(self._place, storage_options=_SOON)
        except TableNotFoundError:
            if Path(self._place, "part-00000001.parquet").exists():  # who reads files reads both
                raise BadArgument(
                    f"{self._place} holds Parquet files of an export: use to='parquet' (--to "
                    "parquet), or another folder"
                ) from None
            return
        yield from self._table.to_pyarrow_dataset().to_batches(columns=list(KNOWN))

    def about(self) -> str | None:
        return None if self._table is None else self._table.metadata().configuration.get(ABOUT)

    def schema(self) -> pa.Schema | None:
        return None if self._table is None else self._table.to_pyarrow_dataset().schema

    def append(self, rows: pa.RecordBatchReader) -> None:
        table = self._table
        if table is None:
            try:
                table = DeltaTable.create(
                    self._place,
                    rows.schema,
                    mode="error",
                    configuration={ABOUT: about_of(rows.schema)},
                    storage_options=_SOON,
                    raise_if_key_not_exists=False,
                )
            except DeltaError as problem:
                if not DeltaTable.is_deltatable(self._place, _SOON):
                    raise
                raise Overtaken(str(problem)) from problem
        elif ABOUT not in table.metadata().configuration:
            said = {ABOUT: about_of(rows.schema) or ""}
            table.alter.set_table_properties(said, raise_if_not_exists=False)
        try:
            write_deltalake(table, rows, mode="append", commit_properties=_ONE_TRY)
        except CommitFailedError as problem:
            raise Overtaken(str(problem)) from problem
        self._table = table
