"""An Iceberg table of a catalog that PyIceberg knows: a snapshot is a commit."""

from collections.abc import Iterator

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from muntin.errors import BadArgument
from muntin.exporting.target import ABOUT, KNOWN, Overtaken, about_of

_ONE_TRY = {"commit.retry.num-retries": "0"}
"""So that a snapshot that another export has made is not passed over."""


class Iceberg:
    """See `Target`. `place`: "namespace.table"; both are made where they are missing. `catalog`: as
    .pyiceberg.yaml or PYICEBERG_CATALOG__... name it."""

    def __init__(self, place: str, catalog: str) -> None:
        self._name = tuple(place.split("."))
        if len(self._name) < 2 or not all(self._name):
            raise BadArgument(f"'{place}' is no table of a catalog: give namespace.table")
        if {*place} & {*"?#"}:  # what its files' URLs would end at
            raise BadArgument(f"'{place}': PyIceberg takes no ? or # in a name: give another")
        try:
            self._catalog: Catalog = load_catalog(catalog)
        except ValueError as problem:
            raise BadArgument(
                f"catalog '{catalog}': {problem}; PyIceberg reads it from .pyiceberg.yaml or from "
                f"PYICEBERG_CATALOG__{catalog.upper()}__URI"
            ) from None
        self._table: Table | None = None

    def known(self) -> Iterator[pa.RecordBatch]:
        try:
            self._table = self._catalog.load_table(self._name)
        except NoSuchTableError:
            return
        yield from self._table.scan(selected_fields=KNOWN).to_arrow_batch_reader()

    def about(self) -> str | None:
        return None if self._table is None else self._table.properties.get(ABOUT)

    def schema(self) -> pa.Schema | None:
        return None if self._table is None else schema_to_pyarrow(self._table.schema())

    def append(self, rows: pa.RecordBatchReader) -> None:
        table = self._table or self._made(rows.schema)
        try:
            with table.transaction() as transaction:
                wanted = _properties(rows.schema)
                if not wanted.items() <= table.properties.items():
                    transaction.set_properties(wanted)
                # PyIceberg streams into no table with partitions
                transaction.append(rows.read_all() if len(table.spec().fields) else rows)
        except CommitFailedException as problem:
            raise Overtaken(str(problem)) from problem
        self._table = table

    def _made(self, schema: pa.Schema) -> Table:
        self._catalog.create_namespace_if_not_exists(self._name[:-1])
        try:
            return self._catalog.create_table(self._name, schema, properties=_properties(schema))
        except TableAlreadyExistsError as problem:
            raise Overtaken(str(problem)) from problem


def _properties(schema: pa.Schema) -> dict[str, str]:
    return {**_ONE_TRY, ABOUT: about_of(schema) or ""}
