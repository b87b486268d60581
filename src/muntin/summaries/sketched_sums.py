"""Names, types and totals of a sketched matrix, and what must hold of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from muntin.errors import BadArgument, CorruptSummary, SummaryOverflow
from muntin.summaries.reading import INT64_MAX
from muntin.summaries.vector_matrix.names import COUNT, IndicatorType, Key, refuse_both

LOWER = "_lower"


def refuse_names(keys: Sequence[Key], indicators: Iterable[str]) -> None:
    """A table of a key has one column of each name, the lower bounds included."""
    refuse_both(keys, indicators)
    names = {name for key in keys for name in key} | set(indicators)
    for name in (COUNT, *indicators):
        if name + LOWER in names:
            raise BadArgument(f"{name + LOWER!r} names the lower bounds of {name!r}: rename it")


def wider(mine: IndicatorType | None, theirs: IndicatorType | None) -> IndicatorType | None:
    return "float64" if "float64" in (mine, theirs) else mine or theirs


def added(name: str, total: Any, more: Any) -> Any:
    found = total + more
    if found > INT64_MAX if isinstance(found, int) else not math.isfinite(found):
        raise SummaryOverflow(f"the sum of {name!r} over all events leaves its range: {found}")
    return found


def check_totals(types: Sequence[IndicatorType | None], nulls: Any, totals: Any) -> None:
    if (
        not isinstance(nulls, list)
        or not isinstance(totals, list)
        or len(nulls) != len(types)
        or len(totals) != len(types) + 1
    ):
        raise CorruptSummary("sketched_matrix: nulls and totals of other indicators")
    for value, kind in zip((*nulls, *totals), (*[None] * (len(nulls) + 1), *types), strict=True):
        wanted = float if kind == "float64" else int
        if type(value) is not wanted or not 0 <= value <= (
            INT64_MAX if wanted is int else math.inf
        ):
            raise CorruptSummary(f"sketched_matrix: a total is {value!r}")
    if any(total for total, kind in zip(totals[1:], types, strict=True) if kind is None):
        raise CorruptSummary("sketched_matrix: a sum without a type")
    if any(value > totals[0] for value in nulls):
        raise CorruptSummary("sketched_matrix: more nulls than events")
