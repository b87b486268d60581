"""A client's question to the catalog, as DuckDB reads it: all of it allowed, and translated.

It is parsed as PostgreSQL's. Each table, function and type of it is looked up in an allow-list;
what is of the server itself (`version()`, rights, sizes) becomes a constant.
"""

import logging
import re
from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from muntin.errors import SelectError, did_you_mean
from muntin.select.allowed import words
from muntin.server.postgres.catalog_tables import (
    CATALOGS,
    DATABASE,
    SCHEMA,
    SERVER_VERSION,
    SETTINGS,
    USER,
    namespaces,
)
from muntin.server.postgres.rows import TYPES
from muntin.server.postgres.text import NAME, Edited, Rules, words_of

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns with the client's own text
VERSION = f"PostgreSQL {SERVER_VERSION} (Muntin)"
QUESTION_BYTES_MAX = 16 << 10
_NODES_MAX, _DEPTH_MAX = 2_000, 48
_TRUE, _NULL, _NO_NUMBER = "TRUE", "CAST(NULL AS VARCHAR)", "CAST(NULL AS BIGINT)"
_CALLS: dict[str, str] = {
    "version": f"'{VERSION}'",
    "current_schema": f"'{SCHEMA}'",
    "current_database": f"'{DATABASE}'",
    "current_catalog": f"'{DATABASE}'",
    "current_user": f"'{USER}'",
    "session_user": f"'{USER}'",
    "pg_get_userbyid": f"'{USER}'",
    "pg_encoding_to_char": "'UTF8'",
    "pg_is_in_recovery": "TRUE",
    "pg_advisory_unlock_all": "NULL",
    "inet_server_addr": _NULL,
    "inet_server_port": "CAST(NULL AS INTEGER)",
    "pg_relation_is_publishable": "FALSE",
    "pg_column_is_updatable": "FALSE",
    "getdatabaseencoding": "'UTF8'",
    "pg_char_to_encoding": "6",
    "pg_is_other_temp_schema": "FALSE",
    "pg_is_wal_replay_paused": "FALSE",
    "pg_indexam_has_property": "FALSE",
    "pg_index_column_has_property": "FALSE",
    "pg_postmaster_start_time": "CAST(NULL AS TIMESTAMP)",
}
_CALLS |= dict.fromkeys(("to_regtype", "age"), _NO_NUMBER)
_CALLS |= dict.fromkeys(
    ("pg_backend_pid", "txid_current", "pg_my_temp_schema", "pg_relation_is_updatable"), "0",
)  # fmt: skip
_CALLS |= dict.fromkeys(
    ("obj_description", "col_description", "shobj_description", "pg_size_pretty",
     "pg_tablespace_location", "current_setting", "set_config", "to_regclass",
     "json_build_object", "array_remove", "encode"), _NULL,
)  # fmt: skip
_ALIKE = {
    "has_.*_privilege|pg_has_role|pg_.*_is_visible": _TRUE,
    "pg_.*_size": "0",
    "pg_get_.*": _NULL,
    "pg_stat_get_.*|_pg_.*": _NO_NUMBER,
}
"""What all functions with such names answer."""
_FUNCTIONS = words(
    """
    And Or Xor Not Case If Cast TryCast Coalesce Count Max Min Sum Lower Upper Substring Concat
    ConcatWs ArrayAgg Array Exists Any All Nullif Length Trim SplitPart StrPosition Replace
    CurrentTimestamp CurrentDate Greatest Least RowNumber ArrayToString GroupConcat Abs RegexpLike
    RegexpILike LogicalAnd LogicalOr Unnest Explode GenerateSeries ArrayLength ArraySize Quote
    Extract Round Translate Pow Chr
    """
)
_NAMED = {
    "CurrentTimestamp": "now",
    "CurrentVersion": "version",
    "ExplodingGenerateSeries": "generate_series",
    "Explode": "unnest",
    "JSONObject": "json_build_object",
}
_SERIES = words(
    "unnest generate_series generate_subscripts pg_partition_ancestors pg_partition_tree "
    "regexp_split_to_table"
)
_TEXTS = words("regclass regtype regproc regnamespace regrole regprocedure")
_ENDS = {"array_lower": "CASE WHEN len(x) > 0 THEN 1 END", "array_upper": "nullif(len(x), 0)"}
_OIDS = ("oid", "typid", "relid")  # how columns of them end: a list of them has a type of its own
_OF_ROWS = words(
    "json_build_object age array_remove encode pg_partition_ancestors pg_partition_tree "
    "regexp_split_to_table"
)
"""Of tables without rows they are right: of constants they would not be."""
_PROCEDURES = words("typinput typreceive typsend")
_SYSTEM = words("xmin xmax cmin cmax ctid tableoid")
"""Columns that each table has, and that tools read to see what has changed."""
_KEPT_CASTS = words(
    "bool boolean int integer bigint smallint int2 int4 int8 real date timestamp timestamptz xid"
)
_NAMES = words("name char cstring")
_NO_DUMP = (
    "pg_dump has nothing to copy here: COPY (SELECT …) TO STDOUT writes rows, "
    "`muntin ledger copy` a whole ledger"
)
_RIGHTS = words("select usage connect execute")  # of everybody who came in


def translated(text: str, tables: Mapping[str, pa.Table], oids: Mapping[str, int]) -> exp.Expr:
    """The tree of a statement. `tables`: those that there are. `oids`: of relations. Raises
    SelectError: it is none, or asks for what there is not."""
    if len(text.encode("utf-8", "replace")) > QUESTION_BYTES_MAX:
        raise refused("a question to the catalog has at most 16 KiB", "limit")
    try:
        trees = parse(_plain(text), read="postgres")
    except (SqlglotError, RecursionError) as error:
        raise refused(
            f"this is no statement: {str(error).splitlines()[0][:200]}", "syntax"
        ) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        raise refused("only SELECT is answered", "statement")
    tree = trees[0]
    _find_paths(tree)
    for number, node in enumerate(tree.walk()):
        if number >= _NODES_MAX or node.depth > _DEPTH_MAX:
            raise refused("the statement is too large", "limit")
    ctes = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in [*tree.find_all(exp.Table)]:
        _check_table(table, tables, ctes)
    if not any(table.name in tables for table in tree.find_all(exp.Table)):
        for node in tree.find_all(exp.Func):
            name = _called(node)
            if name in _OF_ROWS:
                raise refused(f"no function {name}", "unknown_function")
            if isinstance(node, exp.Cast) and not _is_kept(_type_said(node)):
                raise refused(f"no type {_type_said(node)[:64]}", "not_allowed")
    _name_columns(tree)
    _order_columns(tree)
    for node in reversed([*tree.walk()]):  # what is inside first
        found = _translated(node, oids)
        if found is not node:
            node.replace(found)
    return tree


def _find_paths(tree: exp.Expr) -> None:
    """What is compared with the names on the search path, however that is taken apart (Grafana),
    is compared with the one name that is on it."""
    for node in [*tree.find_all(exp.In)]:
        inside = node.args.get("query")
        calls = () if inside is None else inside.find_all(exp.Anonymous)
        if any(str(c.this).lower() == "current_setting" and c.find(exp.Literal) and
               c.find(exp.Literal).name == "search_path" for c in calls):  # fmt: skip
            node.replace(exp.In(this=node.this, expressions=[exp.Literal.string(SCHEMA)]))


def _name_columns(tree: exp.Expr) -> None:
    """Columns without a name are called as PostgreSQL calls them."""
    selects = [*tree.find_all(exp.Select)]
    for select in selects:
        if not select.expressions:  # EXISTS (SELECT FROM …)
            select.select(exp.null(), copy=False)
    for column in [column for select in selects for column in select.expressions]:
        if isinstance(column, exp.Alias | exp.Star) or column.is_star:
            continue
        inside = column
        while isinstance(inside, exp.Cast | exp.Paren | exp.Window):
            inside = inside.this
        name = inside.name if isinstance(inside, exp.Column) else "?column?"
        if isinstance(inside, exp.Func) and not isinstance(inside, exp.Connector):
            name = _called(inside)
        column.replace(exp.alias_(column.copy(), name, quoted=True))


def _order_columns(tree: exp.Expr) -> None:
    """The columns of a table come as they stand in it, where a client counts on PostgreSQL for it
    (R's dbListFields): a join turns them round."""
    if not isinstance(tree, exp.Select) or tree.find(exp.AggFunc):
        return
    if any(tree.args.get(part) for part in ("order", "group", "distinct")):
        return
    for table in tree.find_all(exp.Table):
        if table.name == "pg_attribute" and table.parent_select is tree:
            alias = exp.to_identifier(table.alias, quoted=True)
            tree.order_by(
                *(exp.column(c, alias.copy()) for c in ("attrelid", "attnum")), copy=False
            )
            return


def _check_table(table: exp.Table, tables: Mapping[str, pa.Table], ctes: set[str]) -> None:
    called = _called(table.this) if isinstance(table.this, exp.Func) else ""
    called = "pg_settings" if called == "pg_show_all_settings" else called
    if called in _SERIES:
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(called)))
        return
    if called in _CALLS:  # TypeORM: FROM current_schema()
        value = exp.alias_(_sql(_CALLS[called]), called)
        table.replace(exp.select(value).subquery(table.alias or called))
        return
    if not isinstance(table.this, exp.Identifier) and called not in tables:
        raise refused("functions are no tables of the catalog", "not_allowed")
    if table.name in ctes and not table.db:
        return
    name = called or table.name.lower()
    if table.db.lower() == "information_schema":
        name = f"information_schema.{name}"
    if name not in tables or table.db.lower() not in ("", *CATALOGS):
        raise refused(
            f"no table '{table.name[:64]}' in the catalog",
            "unknown_name",
            did_you_mean(name, tables),
        )
    if not table.alias:  # its columns are asked by its own name, without the schema
        own = exp.to_identifier(called) if called else table.this.copy()
        table.set("alias", exp.TableAlias(this=own))
    table.set("this", exp.to_identifier(name))
    table.set("db", None)
    table.set("catalog", None)


_INFORMATION_SCHEMA = '(?i:"?information_schema"?)'
_SIMPLIFIED = Rules(
    (r"(?<= AS )(SELECT|COLLATE)", lambda found: f'"{found[1].lower()}"'),  # a column's name
    (r"OPERATOR \( \S+ \. (\S+(?: \S+)*?) \)", lambda found: f" {found[1].replace(' ', '')} "),
    (rf"COLLATE (?:{NAME} \. )?{NAME}", ""),
    ('(?i:"?pg_catalog"?) [.]', ""),
    (rf"{_INFORMATION_SCHEMA} \.(?= {NAME} \( )|(?<= :: ){_INFORMATION_SCHEMA} \.", ""),
    (rf'(?i:"?(?:{"|".join(_TEXTS)})"?)(?= \[ \] )', "text"),
)


def _plain(text: str) -> str:
    """Without what only PostgreSQL writes: OPERATOR(pg_catalog.~), COLLATE, a schema before a
    function or type, AS select."""
    return Edited(text, _SIMPLIFIED.edits(words_of(text))).text


def _translated(node: exp.Expr, oids: Mapping[str, int]) -> exp.Expr:
    """A node as DuckDB reads it. Raises SelectError for what is not in the allow-list."""
    if isinstance(node, exp.Cast):
        return _cast(node, oids)
    if isinstance(node, exp.NEQ | exp.EQ):
        for one, part, other in (
            (node.this, "expression", node.expression),
            (node.expression, "this", node.this),
        ):
            if one.name not in _PROCEDURES:
                continue
            if other.is_number:  # 0: there is none
                node.set(part, exp.Literal.string("-"))
            elif isinstance(other, exp.Column) and other.name == "oid":  # they are told by name
                other.set("this", exp.to_identifier("proname"))
        return node
    if isinstance(node, exp.Any):  # of the rows of a SELECT, without a list of them
        inside = node.this.unnest()
        rows = inside.expressions[:1] if isinstance(inside, exp.Array) else []
        if rows and isinstance(rows[0], exp.Query):
            node.set("this", rows[0].subquery())
        return node
    if isinstance(node, exp.ArrayAgg):
        item = node.this.this if isinstance(node.this, exp.Order) else node.this
        if isinstance(item, exp.Column) and item.name.endswith(_OIDS):
            item.replace(exp.cast(item.copy(), "UINT"))
        return node
    if isinstance(node, exp.CurrentTimestamp | exp.CurrentDate):  # DuckDB's words are also names
        now = exp.Anonymous(this="now")
        return now if isinstance(node, exp.CurrentTimestamp) else exp.cast(now, "DATE")
    if isinstance(node, exp.AtTimeZone):  # all times are in UTC
        return node.this
    if isinstance(node, exp.Like | exp.ILike) and not isinstance(node.parent, exp.Escape):
        texts = node.expression.find_all(exp.Literal)
        if any("\\" in text.name for text in texts):  # JDBC: 'my\_table'
            return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))
    if isinstance(node, exp.Unnest) and len(node.expressions) > 1 and node.args.get("alias"):
        return _side_by_side(node)
    if isinstance(node, exp.Unnest | exp.Explode):
        return node
    if isinstance(node, exp.Format) and node.this.is_string:
        texts = [exp.Literal.string(node.this.name.replace("%I", "%s")), *node.expressions]
        return exp.Anonymous(this="printf", expressions=texts)
    if isinstance(node, exp.CurrentSchemas):
        implicit = not (isinstance(node.this, exp.Boolean) and not node.this.this)
        return _sql("['pg_catalog', 'public']" if implicit else "['public']")
    if isinstance(node, exp.Func) and _called(node) in _SERIES:
        return exp.Anonymous(this="unnest", expressions=[_series(node)])
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return _call(node, oids)
    if (
        isinstance(node, exp.Div)
        and isinstance(node.this, exp.Cast)
        and node.this.to.is_type("int")
    ):
        return exp.IntDiv(this=node.this, expression=node.expression)
    if isinstance(node, exp.Func) and type(node).__name__ not in _FUNCTIONS:
        known = _answer_of(_called(node))
        if known is None:
            raise refused(f"no function {node.sql_name()[:64]} in the catalog", "unknown_function")
        return _sql(known)
    if isinstance(node, exp.Parameter | exp.Command | exp.Into | exp.Lock | exp.Placeholder):
        raise refused("this cannot be part of a question to the catalog", "not_allowed")
    if isinstance(node, exp.Column) and not node.table and node.name.lower() in _CALLS:
        quoted = isinstance(node.this, exp.Identifier) and node.this.quoted
        if not quoted and node.name.lower().startswith(("current_", "session_")):
            return _sql(_CALLS[node.name.lower()])
    if isinstance(node, exp.Column) and node.name.lower() in _SYSTEM:
        return exp.Literal.number(0)
    if isinstance(node, exp.Column):
        node.set("db", None)
    return node


def _series(node: exp.Func) -> exp.Expr:
    """The list whose items a function gives as rows; one of a list's places has no other name."""
    if _called(node) == "generate_series":
        ends = (node.args.get(name) for name in ("start", "end", "step"))
        return exp.GenerateSeries(**dict(zip(("start", "end", "step"), ends, strict=True)))
    if _called(node) == "generate_subscripts" and node.expressions:
        return _with(_sql("generate_series(1, len(x))"), x=node.expressions[0])
    kind = "VARCHAR" if _called(node) == "regexp_split_to_table" else "BIGINT"
    return _sql(f"CAST([] AS {kind}[])")  # partitions, or sources of functions: there are none


def _side_by_side(node: exp.Unnest) -> exp.Expr:
    """Several lists as the columns of rows: DuckDB has them only in a SELECT of their own."""
    alias, number = node.args["alias"], node.args.get("offset")
    columns = [_with(_sql("unnest(x)"), x=each) for each in node.expressions]
    if number:
        columns.append(_with(_sql("generate_subscripts(x, 1)"), x=node.expressions[0]))
        alias.append("columns", number)
    return exp.select(*columns).subquery(alias)


def _answer_of(name: str) -> str | None:
    alike = (value for names, value in _ALIKE.items() if re.fullmatch(names, name))
    return _CALLS.get(name) or next(alike, None)


def _called(node: exp.Func) -> str:
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return node.name.lower()
    return _NAMED.get(type(node).__name__, node.sql_name().lower())


def _call(node: exp.Expr, oids: Mapping[str, int]) -> exp.Expr:
    name = node.name.lower()
    given = list(node.expressions)
    if name == "format_type" and given:
        return _type_names(*given[:2])
    if name in ("to_regclass", "to_regtype") and given and isinstance(given[0], exp.Literal):
        return _regclass(given[0].name, oids) if name == "to_regclass" else _regtype(given[0])
    if name == "current_setting" and given and isinstance(given[0], exp.Literal):
        found = SETTINGS.get(given[0].name)
        return exp.null() if found is None else exp.Literal.string(found)
    if name == "quote_ident" and len(given) == 1:
        plain = _sql(
            "CASE WHEN regexp_full_match(x, '[a-z_][a-z0-9_$]*') THEN x "
            "ELSE '\"' || replace(x, '\"', '\"\"') || '\"' END"
        )
        return _with(plain, x=given[0])
    if name == "parse_ident" and given and isinstance(given[0], exp.Literal):
        parts = [word.value for word in words_of(given[0].name) if word.is_name]
        return exp.Array(expressions=[exp.Literal.string(part) for part in parts])
    if name in _ENDS and given:
        return _with(_sql(_ENDS[name]), x=given[0])
    if name == "_pg_expandarray":  # of the columns of an index, and there are none
        return _sql("{'x': CAST(NULL AS INTEGER), 'n': CAST(NULL AS INTEGER)}")
    value = _answer_of(name)
    if value and name.startswith("has_") and given and given[-1].is_string:
        wanted = given[-1].name.lower().split(",")  # one of them will do
        return exp.Boolean(this=not _RIGHTS.isdisjoint(right.strip() for right in wanted))
    if value:
        return _sql(value)
    remedy = "" if name != "acldefault" else _NO_DUMP
    raise refused(f"no function {name[:64]} in the catalog", "unknown_function", remedy)


def _type_names(oid: exp.Expr, modifier: exp.Expr | None = None) -> exp.Expr:
    whens = " ".join(
        f"WHEN {kind.oid} THEN '{kind.name}' WHEN {kind.lists} THEN '{kind.name}[]'"
        for kind in TYPES
    )
    digits = "CASE WHEN modifier > 4 THEN printf('(%d,%d)', modifier >> 16, modifier % 65536 - 4)"
    chosen = _sql(
        f"CASE oid {whens} ELSE CASE WHEN oid >= 0 THEN 'text' END END || {digits} ELSE '' END"
    )
    return _with(chosen, oid=oid, modifier=modifier or exp.null())


def _cast(node: exp.Cast, oids: Mapping[str, int]) -> exp.Expr:
    to = _type_said(node)
    if to == "oid":
        if node.this.is_string and not node.this.name.isdecimal():  # what psql asks for \sf
            remedy = "the catalog lists tables and types, no functions"
            raise refused(f"nothing here is called {node.this.name[:64]!r}", "unknown_name", remedy)
        return exp.TryCast(this=node.this, to=exp.DataType.build("BIGINT"))  # procedures have none
    if to in _TEXTS:
        if isinstance(node.this, exp.Literal) and node.this.is_string and to == "regclass":
            return _regclass(node.this.name, oids)
        if to == "regnamespace":
            return _regnamespace(node.this)
        return _regtype(node.this) if to == "regtype" else node.this
    if not _is_kept(to):
        return node.this
    if to in _KEPT_CASTS:
        return node if to != "xid" else exp.cast(node.this, "BIGINT")
    return exp.cast(node.this, "VARCHAR[]" if to.endswith("[]") else "VARCHAR")


def _type_said(node: exp.Cast) -> str:
    return node.to.sql("postgres").lower().strip('"')


def _is_kept(to: str) -> bool:
    if to.endswith("[]"):
        return to in ("name[]", "text[]", "char[]", "varchar[]")
    known = to in _KEPT_CASTS or to in _NAMES or to in _TEXTS or to == "oid"
    return known or to.startswith(("char", "bpchar", "varchar", "text"))


def _regclass(name: str, oids: Mapping[str, int]) -> exp.Expr:
    plain = name.removeprefix(f"{SCHEMA}.").removeprefix("pg_catalog.").strip('"')
    if plain.isdigit():
        return exp.Literal.number(plain)
    known = {"pg_class": 1259, "pg_namespace": 2615, "pg_type": 1247}
    found = oids.get(plain, known.get(plain))
    return _sql(_NO_NUMBER) if found is None else exp.Literal.number(found)


def _regnamespace(given: exp.Expr) -> exp.Expr:
    """The number of a schema whose name is written; the name of one that a column has."""
    names = dict(namespaces())
    if given.is_string:
        found = {name: oid for oid, name in names.items()}.get(given.name.strip('"'))
        return exp.null() if found is None else exp.Literal.number(found)
    whens = " ".join(f"WHEN {oid} THEN '{name}'" for oid, name in names.items())
    return _with(_sql(f"CASE x {whens} END"), x=given)


def _with(written: exp.Expr, **given: exp.Expr) -> exp.Expr:
    """SQL whose columns stand for something else."""
    return written.transform(
        lambda part: given[part.name].copy() if isinstance(part, exp.Column) else part
    )


def _regtype(given: exp.Expr) -> exp.Expr:
    """The number of a type whose name is written; the name of one that a column has."""
    names = {
        name: (oid, kind.name + brackets)
        for kind in TYPES
        for oid, short, brackets in (
            (kind.oid, kind.short, ""),
            (kind.lists, f"_{kind.short}", "[]"),
        )
        for name in (str(oid), short, kind.name + brackets)
    }
    if given.is_string:
        found = names.get(given.name.rpartition(".")[2].strip('"').lower())
        return exp.null() if found is None else exp.Literal.number(found[0])
    whens = " ".join(f"WHEN '{name}' THEN '{said}'" for name, (_, said) in names.items())
    written = f"CASE regexp_replace(x::VARCHAR, '^.*[.]|\"', '', 'g') {whens} ELSE x::VARCHAR END"
    return _with(_sql(written), x=given)


def _sql(text: str) -> exp.Expr:
    found = parse(text, read="duckdb")[0]
    assert found is not None  # noqa: S101 (ours)
    return found


def refused(message: str, code: str, remedy: str = "") -> SelectError:
    return SelectError(message, code=code, remedy=remedy or "ask information_schema or pg_catalog")
