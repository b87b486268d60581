"""The tables of pg_catalog and information_schema, made of what there is to ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from muntin.server.postgres.relations import ShownTable
from muntin.server.postgres.rows import TYPES, PostgresType, modifier_of, type_of

Columns = Sequence[tuple[str, pa.DataType]]
CATALOGS = ("pg_catalog", "information_schema")
DATABASE, SCHEMA, USER = "muntin", "public", "muntin"
_FIRST_OID = 16_384
_NAME = PostgresType(19, "name", 1_025, "name", 1003)  # how long a name may be, with an end
_PUBLIC, _CATALOG, _INFORMATION = 2200, 11, 13_000
# Tables that are always empty: column names, those with "#" are numbers, with "?" booleans,
# with "*" lists of numbers, with "%" lists of texts.
_EMPTY = {
    "pg_attrdef": "oid# adrelid# adnum# adbin",
    "pg_auth_members": "roleid# member# grantor# admin_option?",
    "pg_collation": "oid# collname collnamespace#",
    "pg_constraint": "oid# conname connamespace# contype condeferrable? condeferred? convalidated? "
    "conrelid# contypid# conindid# conparentid# confrelid# confupdtype confdeltype confmatchtype "
    "conkey* confkey* conbin",
    "pg_depend": "classid# objid# objsubid# refclassid# refobjid# refobjsubid# deptype",
    "pg_description": "objoid# classoid# objsubid# description",
    "pg_enum": "oid# enumtypid# enumsortorder# enumlabel",
    "pg_extension": "oid# extname extversion extnamespace#",
    "pg_foreign_server": "oid# srvname",
    "pg_foreign_table": "ftrelid# ftserver# ftoptions",
    "pg_index": "indexrelid# indrelid# indnatts# indnkeyatts# indisunique? indisprimary? "
    "indisexclusion? indisclustered? indisvalid? indisreplident? indisready? indkey* indoption* "
    "indclass* indexprs indpred indnullsnotdistinct? indcollation*",
    "pg_indexes": "schemaname tablename indexname tablespace indexdef",
    "pg_inherits": "inhrelid# inhparent# inhseqno# inhdetachpending?",
    "pg_locks": "locktype database# relation# pid# mode granted? transactionid",
    "pg_matviews": "schemaname matviewname matviewowner definition",
    "pg_opclass": "oid# opcname opcdefault?",
    "pg_partitioned_table": "partrelid# partstrat partnatts#",
    "pg_policy": "oid# polname polrelid# polpermissive? polroles* polcmd polqual polwithcheck",
    "pg_proc": "oid# proname pronamespace# prokind prorettype# proretset? pronargs# proargtypes "
    "proargnames% proargmodes% proallargtypes*",
    "pg_publication": "oid# pubname puballtables?",
    "pg_publication_namespace": "oid# pnpubid# pnnspid#",
    "pg_publication_rel": "oid# prpubid# prrelid# prqual prattrs*",
    "pg_range": "rngtypid# rngsubtype# rngmultitypid#",
    "pg_rewrite": "oid# rulename ev_class# ev_type ev_enabled is_instead?",
    "pg_sequence": "seqrelid# seqtypid# seqstart# seqincrement# seqmax# seqmin# seqcache# "
    "seqcycle?",
    "pg_sequences": "schemaname sequencename",
    "pg_shdescription": "objoid# classoid# description",
    "pg_stat_activity": "datid# datname pid# usename application_name state query",
    "pg_stat_user_tables": "relid# schemaname relname n_live_tup# n_dead_tup#",
    "pg_statistic_ext": "oid# stxrelid# stxname stxnamespace# stxkind% stxkeys* stxstattarget#",
    "pg_tablespace": "oid# spcname",
    "pg_trigger": "oid# tgrelid# tgname tgenabled tgisinternal? tgparentid# tgconstraint# "
    "tgdeferrable? tginitdeferred? tgfoid# tgtype#",
    "pg_views": "schemaname viewname viewowner definition",
    "information_schema.views": "table_catalog table_schema table_name view_definition",
    "information_schema.character_sets": "character_set_name",
    "information_schema.table_constraints": "constraint_catalog constraint_schema constraint_name "
    "table_catalog table_schema table_name constraint_type",
    "information_schema.key_column_usage": "constraint_catalog constraint_schema constraint_name "
    "table_catalog table_schema table_name column_name ordinal_position#",
    "information_schema.referential_constraints": "constraint_catalog constraint_schema "
    "constraint_name unique_constraint_schema unique_constraint_name",
    "information_schema.routines": "routine_schema routine_name",
    "information_schema.sequences": "sequence_schema sequence_name",
}


def catalog_tables(
    known: Mapping[str, ShownTable], columns: Mapping[str, Columns]
) -> dict[str, pa.Table]:
    """By name; those of information_schema with it in front."""
    oids = {name: _FIRST_OID + at for at, name in enumerate(known)}
    tables = {name: _empty(columns_of) for name, columns_of in _EMPTY.items()}
    tables["pg_am"] = _table([{"oid": 2, "amname": "heap", "amhandler": 3, "amtype": "t"}])
    tables["pg_namespace"] = _table(
        [
            {"oid": oid, "nspname": name, "nspowner": 10, "nspacl": None}
            for oid, name in (
                (_PUBLIC, SCHEMA), (_CATALOG, "pg_catalog"), (_INFORMATION, "information_schema"),
            )
        ]
    )  # fmt: skip
    tables["pg_class"] = _table(
        [_class(oids[name], name, columns[name]) for name in known], _class()
    )
    tables["pg_attribute"] = _table(
        [
            _attribute(oids[name], at, column, kind)
            for name in known
            for at, (column, kind) in enumerate(columns[name], start=1)
        ],
        _attribute(),
    )
    tables["pg_type"] = _table([row for kind in (*TYPES, _NAME) for row in _types(kind)])
    # JDBC has them among its own, and some who read that want one at least
    tables["pg_get_keywords"] = _table([{"word": word} for word in ("ilike", "limit", "qualify")])
    tables |= _server_tables(known)
    return tables | _information(known, columns)


def _server_tables(known: Mapping[str, ShownTable]) -> dict[str, pa.Table]:
    role = {"oid": 10, "rolname": USER, "rolsuper": False, "rolinherit": True,
            "rolcreaterole": False, "rolcreatedb": False, "rolcanlogin": True,
            "rolreplication": False, "rolconnlimit": -1, "rolvaliduntil": None,
            "rolbypassrls": False}  # fmt: skip
    database = {"oid": 5, "datname": DATABASE, "datdba": 10, "encoding": 6, "datcollate": "C",
                "datctype": "C", "datistemplate": False, "datallowconn": True, "datacl": None,
                "dattablespace": 1663, "datlocprovider": "c", "daticulocale": None}  # fmt: skip
    listed = [
        {"schemaname": SCHEMA, "tablename": name, "tableowner": USER, "tablespace": None,
         "hasindexes": False, "hasrules": False, "hastriggers": False, "rowsecurity": False}
        for name in known
    ]  # fmt: skip
    return {
        "pg_roles": _table([role]),
        "pg_authid": _table([role]),
        "pg_user": _table([{"usename": USER, "usesysid": 10, "usesuper": False}]),
        "pg_database": _table([database]),
        "pg_settings": _table(
            [
                {"name": "server_version", "setting": "15.0"},
                {"name": "max_index_keys", "setting": "32"},  # JDBC asks for it
                {"name": "default_transaction_isolation", "setting": "repeatable read"},
            ]
        ),
        "pg_tables": _table(listed, {"schemaname": "", "tablename": "", "tableowner": ""}),
    }


def _class(oid: int = 0, name: str = "", columns: Columns = ()) -> dict[str, Any]:
    return {
        "oid": oid, "relname": name, "relnamespace": _PUBLIC, "reltype": 0, "reloftype": 0,
        "relowner": 10, "relam": 2, "relfilenode": 0, "reltablespace": 0, "relpages": 0,
        "reltuples": -1.0, "relallvisible": 0, "reltoastrelid": 0, "relhasindex": False,
        "relisshared": False, "relpersistence": "p", "relkind": "r", "relnatts": len(columns),
        "relchecks": 0, "relhasrules": False, "relhastriggers": False, "relhassubclass": False,
        "relrowsecurity": False, "relforcerowsecurity": False, "relispopulated": True,
        "relreplident": "n", "relispartition": False, "relrewrite": 0, "relacl": None,
        "reloptions": None, "relpartbound": None, "relhasoids": False,
    }  # fmt: skip


def _attribute(
    oid: int = 0, at: int = 0, name: str = "", kind: pa.DataType | None = None
) -> dict[str, Any]:
    of = type_of(kind or pa.string())
    return {
        "attrelid": oid, "attname": name, "atttypid": of.oid, "attstattarget": -1,
        "attlen": of.size,
        "attnum": at, "attndims": 0, "attcacheoff": -1, "attbyval": of.size > 0,
        "atttypmod": modifier_of(kind or pa.string()),
        "attstorage": "p", "attalign": "d", "attnotnull": False, "atthasdef": False,
        "atthasmissing": False, "attidentity": "", "attgenerated": "", "attisdropped": False,
        "attislocal": True, "attinhcount": 0, "attcollation": 0, "attcompression": "",
        "attacl": None, "attoptions": None, "attfdwoptions": None,
    }  # fmt: skip


def _types(kind: PostgresType) -> Iterator[dict[str, Any]]:
    """A type, and that of its arrays: clients look up what to send a list as (postgres.js)."""
    oid, short = kind.oid, kind.short
    category = {16: "B", 19: "S", 25: "S", 1186: "T"}.get(oid, "D" if 1082 <= oid <= 1184 else "N")
    binary = short + ("_" if oid >= 1082 else "")  # date_recv, but int8recv
    row = {
        "oid": oid, "typname": short, "typnamespace": _CATALOG, "typowner": 10,
        "typlen": kind.size,
        "typbyval": kind.size > 0, "typtype": "b", "typcategory": category,
        "typispreferred": False,
        "typisdefined": True, "typdelim": ",", "typrelid": 0, "typelem": 0,
        "typarray": kind.lists,
        "typinput": short + "in", "typnotnull": False, "typbasetype": 0, "typtypmod": -1,
        "typndims": 0, "typcollation": 0, "typdefault": None, "typreceive": binary + "recv",
        "typsend": binary + "send",
    }  # fmt: skip
    yield row
    yield row | {
        "oid": kind.lists, "typname": f"_{short}", "typlen": -1, "typbyval": False,
        "typcategory": "A", "typelem": oid, "typarray": 0, "typinput": "array_in",
        "typreceive": "array_recv", "typsend": "array_send",
    }  # fmt: skip


def _information(
    known: Mapping[str, ShownTable], columns: Mapping[str, Columns]
) -> dict[str, pa.Table]:
    place = {"table_catalog": DATABASE, "table_schema": SCHEMA}
    names = {"table_catalog": "", "table_schema": "", "table_name": ""}
    rows = [
        {**place, "table_name": name, "table_type": "BASE TABLE", "is_insertable_into": "NO"}
        for name in known
    ]
    fields = [
        {**place, "table_name": name, "column_name": column, "ordinal_position": at,
         "column_default": None, "is_nullable": "YES", "data_type": type_of(kind).name,
         "character_maximum_length": None, "numeric_precision": getattr(kind, "precision", None),
         "numeric_scale": getattr(kind, "scale", None),
         "datetime_precision": None, "udt_schema": "pg_catalog",
         "udt_name": type_of(kind).short, "is_updatable": "NO", "is_identity": "NO"}
        for name in known
        for at, (column, kind) in enumerate(columns[name], start=1)
    ]  # fmt: skip
    schemas = [
        {"catalog_name": DATABASE, "schema_name": name, "schema_owner": USER}
        for name in (SCHEMA, *CATALOGS)
    ]
    return {
        "information_schema.tables": _table(rows, {**names, "table_type": ""}),
        "information_schema.columns": _table(fields, {**names, "column_name": "", "data_type": ""}),
        "information_schema.schemata": _table(schemas),
    }


def _table(rows: Sequence[Mapping[str, Any]], like: Mapping[str, Any] | None = None) -> pa.Table:
    """Rows of one form; where there are none, of that of `like`."""
    found = pa.Table.from_pylist([*rows] or [like or {}])
    for at, field in enumerate(found.schema):
        if pa.types.is_null(field.type):
            listed = field.name == "reloptions" or field.name.endswith("acl")
            kind = pa.list_(pa.string()) if listed else pa.string()
            found = found.set_column(at, field.name, found[at].cast(kind))
    return found.slice(0, len(rows))


def _empty(columns: str) -> pa.Table:
    kinds = {
        "#": pa.int64(),
        "?": pa.bool_(),
        "*": pa.list_(pa.int64()),
        "%": pa.list_(pa.string()),
    }
    fields = [(name.rstrip("#?*%"), kinds.get(name[-1], pa.string())) for name in columns.split()]
    return pa.schema(fields).empty_table()
