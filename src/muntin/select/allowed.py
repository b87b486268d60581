"""The allow-list: what a syntax tree may hold. Everything that is not named here is refused.

It is a list of node types and, for each, of the parts it may have: a new version of the parser
that learns a new clause finds it refused here.

Functions are all DuckDB's. Left out on purpose: whatever reads or reports about the machine (files,
environment, settings), whatever makes rows or long strings out of nothing (generate_series, unnest,
repeat, lpad, replace, string_agg, format), random numbers, and lists and structures.
"""

from sqlglot import exp


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATES = words(
    """
    sum avg min max count median mode quantile quantile_cont quantile_disc stddev stddev_pop
    stddev_samp variance var_pop var_samp skewness kurtosis entropy first last any_value arg_min
    arg_max min_by max_by bool_and bool_or count_if corr covar_pop covar_samp regr_slope
    regr_intercept regr_r2 fsum
    """
)
NOT_OVER = {
    "entropy": "SELECT entropy(x) FROM ... GROUP BY ...",
    "fsum": "write sum(x) OVER",
    "mode": "SELECT mode(x) FROM ... GROUP BY ...",
}
"""Aggregates that DuckDB works out from all rows of each frame, without looking whether it is to
stop (a minute for 60,000 rows), and what to write instead."""
WINDOW_FUNCTIONS = words(
    """
    row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value
    nth_value
    """
)
NUMBERS = words(
    """
    abs round floor ceil ceiling trunc sign ln log log2 log10 exp sqrt cbrt power pow greatest least
    isnan isfinite isinf pi sin cos tan asin acos atan atan2 radians degrees
    """
)
TEXT = words(
    """
    lower upper length strlen substr substring left right trim ltrim rtrim concat starts_with
    ends_with contains strpos instr split_part reverse regexp_matches regexp_full_match
    regexp_extract
    """
)
TIME = words(
    """
    now date_trunc date_part date_diff datediff strftime time_bucket epoch epoch_ms epoch_us year
    quarter month week day dayofweek isodow dayofyear hour minute second dayname monthname
    make_date make_timestamp to_timestamp last_day
    """
)
CHOICE = frozenset(("coalesce", "nullif", "ifnull", "if"))

FUNCTIONS = AGGREGATES | WINDOW_FUNCTIONS | NUMBERS | TEXT | TIME | CHOICE

OTHER_NAMES = {
    **dict.fromkeys(
        ("array_agg", "group_concat", "list", "listagg", "string_agg"),
        "rows are not put together in one value: ask for the rows",
    ),
    **dict.fromkeys(
        words(
            "row_to_json to_json to_jsonb json_agg jsonb_agg json_build_object json_object "
            "jsonb_build_object"
        ),
        "ask for the columns: POST /query answers in JSON, so does muntin query --format jsonl",
    ),
    **dict.fromkeys(
        words("lpad rpad repeat replace translate regexp_replace initcap ascii chr format printf"),
        "change the text where it is shown, or under fields in the pipeline file",
    ),
    **dict.fromkeys(("dateadd", "date_add", "date_sub"), "write x + INTERVAL '1 day'"),
    **dict.fromkeys(("char_length", "character_length", "len"), "write length(x)"),
    **dict.fromkeys(("isnull", "nvl"), "write x IS NULL, or coalesce(x, 0)"),
    **dict.fromkeys(("std", "stdev"), "write stddev(x)"),
    **dict.fromkeys(("date", "to_date"), "write CAST(x AS DATE)"),
    **dict.fromkeys(("any", "all", "some"), "write x IN (1, 2), or x NOT IN (1, 2)"),
    "approx_count_distinct": "write count(DISTINCT x)",
    "concat_ws": "write a || '-' || b",
    "every": "write bool_and(x)",
    "lcase": "write lower(x)",
    "log1p": "write ln(1 + x)",
    "mean": "write avg(x), or sum(x) / sum(count) of an indicator",
    "strptime": "write CAST(x AS TIMESTAMP)",
    "ucase": "write upper(x)",
    "weekofyear": "write week(x)",
    "mod": "write a % b",
    "percentile_cont": "write quantile_cont(x, 0.5)",
    "percentile_disc": "write quantile_disc(x, 0.5)",
    "position": "write strpos(text, part)",
    "row": "write (a, b)",
    **dict.fromkeys(
        ("date_format", "to_char"),
        "write strftime(x, '%Y-%m-%d'), or CAST(x AS VARCHAR) of a number",
    ),
    "date_bin": "write time_bucket(INTERVAL '5 minutes', x)",
}
"""What others call it, or what to do without it."""
CONSTANTS = {
    **dict.fromkeys(("regexp_matches", "regexp_full_match", "regexp_extract", "strftime"), 1),
    **dict.fromkeys(("date_trunc", "date_part", "date_diff", "datediff"), 0),
}
"""Functions whose argument (counted from 0) must be a constant: a pattern is compiled once, and
what is no unit would be an error of the first row that has it."""


# sqlglot notes with / how the dialect divides; DuckDB's own way is what we render.
PARTS: dict[type, frozenset[str]] = {
    kind: words(parts)
    for parts, kinds in {
        "": (exp.Star, exp.Null, exp.CurrentTimestamp, exp.CurrentDate),
        "this": (
            exp.From, exp.TableAlias, exp.Where, exp.Having, exp.Qualify, exp.Boolean, exp.Paren,
            exp.Neg, exp.Not, exp.Exists, exp.DataTypeParam, exp.Var,
        ),
        "expression": (exp.Limit, exp.Offset),
        "expressions": (exp.With, exp.Order, exp.Distinct, exp.Tuple),
        "this expression": (
            exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod, exp.EQ, exp.NEQ, exp.GT, exp.GTE,
            exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.And, exp.Or, exp.Is, exp.Filter,
        ),
        "this expression typed safe": (exp.Div,),
        "this expression safe": (exp.DPipe,),
        "this expression negate": (exp.Like, exp.ILike),
        "with_ expressions distinct from_ joins where group having qualify order limit offset": (
            exp.Select,
        ),
        "with_ this expression distinct by_name order limit offset": (
            exp.Union, exp.Except, exp.Intersect,
        ),
        "this alias materialized": (exp.CTE,),
        "this alias with_ order limit offset": (exp.Subquery,),
        "this alias": (exp.Table, exp.Alias),
        "this on using side kind": (exp.Join,),
        "expressions all": (exp.Group,),
        "this desc nulls_first": (exp.Ordered,),
        "this table": (exp.Column,),
        "this quoted": (exp.Identifier,),
        "this is_string": (exp.Literal,),
        "this ifs default": (exp.Case,),
        "this true": (exp.If,),
        "this low high": (exp.Between,),
        "this expressions query": (exp.In,),
        "this to": (exp.Cast,),
        "this to safe requires_string": (exp.TryCast,),
        "this expressions nested kind": (exp.DataType,),
        "this unit": (exp.Interval,),
        "this expressions": (exp.Anonymous,),
        "this partition_by order spec over": (exp.Window,),
        "kind start start_side end end_side": (exp.WindowSpec,),
    }.items()
    for kind in kinds
}  # fmt: skip
TYPES = words(
    "BOOLEAN TINYINT SMALLINT INT BIGINT INT128 UTINYINT USMALLINT UINT UBIGINT FLOAT DOUBLE "
    "DECIMAL TEXT VARCHAR DATE TIME TIMESTAMP TIMESTAMPNTZ INTERVAL"
)
TYPES_SHOWN = (
    "there are BOOLEAN, the integers, FLOAT, DOUBLE, DECIMAL, VARCHAR, DATE, TIME, TIMESTAMP (UTC) "
    "and INTERVAL"
)
SIZED = frozenset(("DECIMAL", "TEXT", "VARCHAR"))
JOINS = frozenset(("", "INNER", "CROSS", "SEMI", "ANTI", "LEFT SEMI", "LEFT ANTI"))
JOINS |= {f"{side}{outer}" for side in ("LEFT", "RIGHT", "FULL") for outer in ("", " OUTER")}
UNITS = frozenset(
    f"{unit}{ending}"
    for unit in words("MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR")
    for ending in ("", "S")
)
INSTEAD: dict[type | str, tuple[str, str]] = {
    exp.All: ("ALL (...)", "compare with the largest or the smallest: (SELECT max(x) FROM ...)"),
    exp.Any: ("ANY (...)", "write x IN (SELECT ...)"),
    exp.AtTimeZone: ("AT TIME ZONE", "times are UTC: add or take off an INTERVAL"),
    exp.Cube: ("CUBE", "write a SELECT for each, with UNION ALL between them"),
    exp.Collate: ("COLLATE", "texts are compared by their bytes: lower(x) takes all cases for one"),
    exp.Concat: ("a text behind a text", "join them by ||"),
    exp.Distinct: ("DISTINCT ON", "QUALIFY row_number() OVER (PARTITION BY x ORDER BY y) = 1"),
    exp.Fetch: ("PERCENT or WITH TIES", "QUALIFY rank() OVER (ORDER BY x) <= 3"),
    exp.Glob: ("GLOB", "write LIKE, whose signs are % and _"),
    exp.GroupingSets: ("GROUPING SETS", "write a SELECT for each, with UNION ALL between them"),
    exp.In: ("IN without brackets", "write x IN (1, 2), or x IN (SELECT ...)"),
    exp.JSONExtract: ("->", "there are no lists and structures in SELECT here"),
    exp.Order: ("ORDER BY in this place", "the first is arg_min(x, y), the last arg_max"),
    exp.Rollup: ("ROLLUP", "write a SELECT for each, with UNION ALL between them"),
    exp.SimilarTo: ("SIMILAR TO", "write regexp_full_match(x, '...')"),
    exp.WithinGroup: (
        "this WITHIN GROUP",
        "write percentile_cont(0.5) WITHIN GROUP (ORDER BY x), or quantile_cont(x, 0.5)",
    ),
    "into": ("SELECT ... INTO", "a SELECT only reads"),
    "hint": ("a hint", ""),
    "laterals": ("LATERAL", "name what it works out in a WITH query"),
    "sample": ("a sample", "LIMIT takes some of the rows"),
    "pivots": ("PIVOT", "write sum(x) FILTER (WHERE y = 'a') for each column"),
    "locks": ("FOR UPDATE", "a SELECT only reads"),
    "recursive": ("WITH RECURSIVE", ""),
    "columns": ("a list of column names after an alias", "name each with AS where it is made"),
    "windows": ("a WINDOW clause", "write it in each OVER (...)"),
    "except_": ("* EXCLUDE", "name the columns"),
    "replace": ("* REPLACE", "name the columns"),
    "method": ("this kind of join", "write JOIN ... ON"),
    "exclude": ("EXCLUDE in a window frame", "write one that ends before the row"),
    "limit_options": ("LIMIT of a share of the rows", "write a number"),
    "db": ("a name of three parts", "write <alias>.<column>"),
}
"""What is refused by its type, or by a part that it has, as it is written; and what to write."""
