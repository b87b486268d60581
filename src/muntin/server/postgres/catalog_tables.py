"""The tables of pg_catalog and information_schema, made of what there is to ask."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import pyarrow as pa

from muntin.server.postgres.relations import ShownTable
from muntin.server.postgres.rows import TYPES, PostgresType, modifier_of, type_of

Columns = Sequence[tuple[str, pa.DataType]]
CATALOGS = ("pg_catalog", "information_schema")
DATABASE, SCHEMA, USER = "muntin", "public", "muntin"
SERVER_VERSION = "15.0"
SETTINGS: dict[str, str] = {
    "server_version": SERVER_VERSION,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
    "session_authorization": USER,
    "default_transaction_read_only": "on",
    "in_hot_standby": "off",
    "application_name": "",
    "search_path": SCHEMA,
    "transaction_isolation": "repeatable read",
    "transaction_read_only": "on",
    "max_identifier_length": "1024",
    "server_version_num": "150000",
    "lc_collate": "C",
    "default_transaction_isolation": "repeatable read",
    "max_index_keys": "32",
    "statement_timeout": "0",
    "muntin.window": "OPEN",
}
"""What SHOW, `current_setting` and pg_settings tell."""
_FIRST_OID = 16_384
_NAME = PostgresType(19, "name", 1_025, "name", 1003)  # how long a name may be, with an end
_PUBLIC, _CATALOG, _INFORMATION = 2200, 11, 13_000
_KINDS = {"#": pa.int64(), "~": pa.float32(), "?": pa.bool_(), "*": pa.list_(pa.uint32()),
          "%": pa.list_(pa.string())}  # fmt: skip
"""Of a column, by the last sign of its entry in the file; others are texts."""
_NOTHING = {pa.int64(): 0, pa.float32(): 0.0, pa.bool_(): False}


@cache
def empty_catalogs() -> dict[str, pa.Table]:
    """Each catalog of PostgreSQL 15 with its columns, as the file beside this module lists them."""
    text = files("muntin.server.postgres").joinpath("catalog_columns.txt").read_text("utf-8")
    return {
        name: pa.schema(
            [(c.rstrip("#~?*%"), _KINDS.get(c[-1], pa.string())) for c in columns]
        ).empty_table()
        for name, *columns in map(str.split, text.splitlines())
    }


def catalog_tables(
    known: Mapping[str, ShownTable], columns: Mapping[str, Columns]
) -> dict[str, pa.Table]:
    """By name; those of information_schema with it in front.

    What PostgreSQL has beyond what is here is there without rows, since each tool asks for some of
    it. What a row leaves out is null; in pg_catalog, where PostgreSQL has something in each row,
    numbers are 0 and flags false.
    """
    empty = empty_catalogs()
    found = catalog_rows(known, columns)
    nothing = {
        name: {f.name: _NOTHING[f.type] for f in empty[name].schema if f.type in _NOTHING}
        for name in found
        if name.startswith("pg_")
    }
    return empty | {
        name: pa.Table.from_pylist(
            [{**nothing.get(name, {}), **row} for row in rows], empty[name].schema
        )
        for name, rows in found.items()
    }


def catalog_rows(
    known: Iterable[str], columns: Mapping[str, Columns]
) -> dict[str, list[dict[str, Any]]]:
    """Rows of the catalogs that have some."""
    oids = {name: _FIRST_OID + at for at, name in enumerate(known)}
    return {
        "pg_am": [{"oid": 2, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}],
        "pg_namespace": [
            {"oid": oid, "nspname": name, "nspowner": 10} for oid, name in namespaces()
        ],
        "pg_class": [_class(oids[name], name, columns[name]) for name in known],
        "pg_attribute": [
            _attribute(oids[name], at, column, kind)
            for name in known
            for at, (column, kind) in enumerate(columns[name], start=1)
        ],
        "pg_type": [row for kind in (*TYPES, _NAME) for row in _types(kind)],
        # JDBC has them among its own, and some who read that want one at least
        "pg_get_keywords": [{"word": word} for word in ("ilike", "limit", "qualify")],
        **_server_rows(known),
        **_information(known, columns),
    }


def namespaces() -> tuple[tuple[int, str], ...]:
    """The numbers and names of schemas."""
    return (_PUBLIC, SCHEMA), (_CATALOG, "pg_catalog"), (_INFORMATION, "information_schema")


def _server_rows(known: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    role = {"oid": 10, "rolname": USER, "rolinherit": True, "rolcanlogin": True,
            "rolconnlimit": -1}  # fmt: skip
    database = {"oid": 5, "datname": DATABASE, "datdba": 10, "encoding": 6, "datcollate": "C",
                "datctype": "C", "datallowconn": True, "datconnlimit": -1, "dattablespace": 1663,
                "datlocprovider": "c"}  # fmt: skip
    listed = [{"schemaname": SCHEMA, "tablename": name, "tableowner": USER} for name in known]
    return {
        "pg_roles": [role],
        "pg_authid": [role],
        "pg_user": [{"usename": USER, "usesysid": 10}],
        "pg_database": [database],
        "pg_tablespace": [{"oid": 1663, "spcname": "pg_default", "spcowner": 10}],
        "pg_settings": [
            {"name": n, "setting": value, "sourceline": None} for n, value in SETTINGS.items()
        ],
        "pg_tables": listed,
        "pg_proc": [_procedure(at, name) for at, name in enumerate(_PROCEDURES, start=1)],
    }


def _class(oid: int, name: str, columns: Columns) -> dict[str, Any]:
    return {
        "oid": oid, "relname": name, "relnamespace": _PUBLIC, "reltype": oid, "relowner": 10,
        "relam": 2, "reltuples": -1.0, "relpersistence": "p", "relkind": "r",
        "relnatts": len(columns), "relispopulated": True, "relreplident": "n",
    }  # fmt: skip


def _attribute(oid: int, at: int, name: str, kind: pa.DataType) -> dict[str, Any]:
    of = type_of(kind)
    return {
        "attrelid": oid, "attname": name, "atttypid": of.oid, "attstattarget": -1,
        "attlen": of.size, "attnum": at, "attcacheoff": -1, "attbyval": of.size > 0,
        "atttypmod": modifier_of(kind), "attstorage": "p", "attalign": "d", "attidentity": "",
        "attgenerated": "", "attislocal": True, "attcompression": "",
    }  # fmt: skip


def _types(kind: PostgresType) -> Iterator[dict[str, Any]]:
    """A type, and that of its arrays: clients look up what to send a list as (postgres.js)."""
    oid, short = kind.oid, kind.short
    category = {16: "B", 17: "U", 19: "S", 25: "S", 1186: "T"}.get(
        oid, "D" if 1082 <= oid <= 1184 else "N"
    )
    binary = short + ("_" if oid >= 1082 else "")  # date_recv, but int8recv
    row = {
        "oid": oid, "typname": short, "typnamespace": _CATALOG, "typowner": 10,
        "typlen": kind.size, "typbyval": kind.size > 0, "typtype": "b", "typcategory": category,
        "typisdefined": True, "typdelim": ",", "typarray": kind.lists, "typinput": binary + "in",
        "typtypmod": -1, "typreceive": binary + "recv", "typsend": binary + "send",
    }  # fmt: skip
    yield row
    yield row | {
        "oid": kind.lists, "typname": f"_{short}", "typlen": -1, "typbyval": False,
        "typcategory": "A", "typelem": oid, "typarray": 0, "typinput": "array_in",
        "typreceive": "array_recv", "typsend": "array_send",
    }  # fmt: skip


_PROCEDURES = dict.fromkeys(
    row[one] for kind in TYPES for row in _types(kind) for one in ("typinput", "typreceive")
)


def _procedure(oid: int, name: str) -> dict[str, Any]:
    """By the names of these Npgsql and Ruby's pg tell which types are lists."""
    return {"oid": oid, "proname": name, "pronamespace": _CATALOG, "prokind": "f", "pronargs": 1,
            "proargtypes": "2281"}  # fmt: skip


def _information(
    known: Iterable[str], columns: Mapping[str, Columns]
) -> dict[str, list[dict[str, Any]]]:
    place = {"table_catalog": DATABASE, "table_schema": SCHEMA}
    rows = [
        {**place, "table_name": name, "table_type": "BASE TABLE", "is_insertable_into": "NO"}
        for name in known
    ]
    fields = [
        {**place, "table_name": name, "column_name": column, "ordinal_position": at,
         "is_nullable": "YES", "data_type": type_of(kind).name,
         "udt_catalog": DATABASE, "udt_schema": "pg_catalog",
         "udt_name": type_of(kind).short, "dtd_identifier": str(at), "is_updatable": "NO",
         "is_identity": "NO", "is_generated": "NEVER", **_digits(kind)}
        for name in known
        for at, (column, kind) in enumerate(columns[name], start=1)
    ]  # fmt: skip
    schemas = [
        {"catalog_name": DATABASE, "schema_name": name, "schema_owner": USER}
        for name in (SCHEMA, *CATALOGS)
    ]
    rights = [
        {**place, "table_name": name, "grantor": USER, "grantee": USER, "privilege_type": "SELECT",
         "is_grantable": "NO", "with_hierarchy": "YES"}
        for name in known
    ]  # fmt: skip
    return {
        "information_schema.table_privileges": rights,
        "information_schema.role_table_grants": rights,
        "information_schema.tables": rows,
        "information_schema.columns": fields,
        "information_schema.schemata": schemas,
    }


def _digits(kind: pa.DataType) -> dict[str, int | None]:
    """How exact values are, as information_schema.columns has it."""
    of, is_float = type_of(kind), pa.types.is_floating(kind)
    bits = {"int2": 16, "int4": 32, "int8": 64, "float4": 24, "float8": 53}.get(of.short)
    digits = getattr(kind, "precision", None)
    return {
        "numeric_precision": bits or digits,
        "numeric_precision_radix": 2 if bits else 10 if digits else None,
        "numeric_scale": 0 if bits and not is_float else getattr(kind, "scale", None),
        "datetime_precision": {1082: 0}.get(of.oid, 6) if 1082 <= of.oid <= 1186 else None,
    }
