"""The functions that a statement may call, by what they are for. All are DuckDB's.

Left out on purpose: whatever reads or reports about the machine (files, environment, settings),
whatever makes rows or long strings out of nothing (generate_series, unnest, repeat, lpad, replace,
string_agg, format), random numbers, and lists and structures.
"""

from __future__ import annotations


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

LITERAL_PATTERN = {"regexp_matches": 1, "regexp_full_match": 1, "regexp_extract": 1}
"""Functions whose argument (counted from 0) must be a constant: a pattern is compiled once."""
