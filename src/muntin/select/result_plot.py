"""A first chart of a result, chosen by its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.errors import BadArgument

if TYPE_CHECKING:
    from muntin.select.result import Result

_BARS_MAX = 40


def plot(result: Result, *, x: str | None = None, y: str | list[str] | None = None) -> Any:
    """Lines over time where there is a time column, else bars; bounds as a band.

    Parameters
    ----------
    x : str, optional
        Default: the first time column, else the first column.
    y : str or list of str, optional
        Default: all columns of numbers but x (but for `lower` and `upper`, which make the band).

    Returns
    -------
    matplotlib.axes.Axes
    """
    import matplotlib.pyplot as plt

    table = result.table
    if not table.num_columns or not table.num_rows:
        raise BadArgument("there is nothing to plot: the result is empty")
    kinds = {f.name: f.type for f in table.schema}
    times = [n for n, kind in kinds.items() if pa.types.is_temporal(kind)]
    x = x or (times[0] if times else table.column_names[0])
    wanted = [y] if isinstance(y, str) else y
    if wanted is None:
        wanted = [n for n, k in kinds.items() if _numeric(k) and n not in (x, "lower", "upper")]
        wanted = ["value"] if "value" in wanted else wanted
    for name in (x, *wanted):
        if name not in kinds:
            raise BadArgument(f"no column '{name}' to plot: there are {', '.join(kinds)}")
    if not wanted:
        raise BadArgument("there is no column of numbers to plot")
    axes = plt.subplots()[1]
    along = table[x].to_pandas()
    if x in times or _numeric(kinds[x]):
        for name in wanted:
            axes.plot(along, table[name].to_pandas(), label=name)
        if wanted == ["value"] and {"lower", "upper"} <= set(kinds):
            axes.fill_between(
                along, table["lower"].to_pandas(), table["upper"].to_pandas(), alpha=0.25
            )
        if len(wanted) > 1:
            axes.legend()
    else:
        name = wanted[0]
        axes.barh(along.astype(str)[:_BARS_MAX][::-1], table[name].to_pandas()[:_BARS_MAX][::-1])
        axes.set_xlabel(name)
    axes.set_title(result.footer(), fontsize="x-small")
    return axes


def _numeric(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
