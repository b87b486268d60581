"""A first chart of a result, chosen by its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.arrow import is_number
from muntin.errors import BadArgument, needs
from muntin.select.result_text import CONTROLS

if TYPE_CHECKING:
    from muntin.select.result import Result

_BARS_MAX = 40
_LINES_MAX = 10
_ABOUT_ROWS = frozenset({"lower", "upper", "confidence", "revision"})  # of no use as a line


def plot(
    result: Result, *, x: str | None = None, y: str | list[str] | None = None, by: str | None = None
) -> Any:
    """Lines over time where there is a time column, else bars; bounds as a band.

    Parameters
    ----------
    x : str, optional
        Default: the first time column, else the first column.
    y : str or list of str, optional
        Default: all columns of numbers but x (but for `lower` and `upper`, which make the band).
    by : str, optional
        One line for each value of this column (the ten with the largest sums). Default: the
        columns of text, where rows share a time.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    BadArgument
        There is nothing to plot, or no such column.
    """
    needs("notebook", "plot", "matplotlib")
    import matplotlib.pyplot as plt

    table = result.table
    if not table.num_columns or not table.num_rows:
        raise BadArgument("there is nothing to plot: the result is empty")
    kinds = {f.name: f.type for f in table.schema}
    times = [n for n, kind in kinds.items() if _is_time(kind)]
    x = x or (times[0] if times else table.column_names[0])
    wanted = [y] if isinstance(y, str) else y
    if wanted is None:
        wanted = [n for n, k in kinds.items() if _numeric(k) and n not in {x, *_ABOUT_ROWS}]
        wanted = ["value"] if "value" in wanted else wanted
    for name in (x, *wanted, *([by] if by else [])):
        if name not in kinds:
            raise BadArgument(f"no column '{name}' to plot: there are {', '.join(kinds)}")
        if name in wanted and not _numeric(kinds[name]):
            raise BadArgument(f"'{name}' holds no numbers: y takes columns of them")
    if not wanted:
        raise BadArgument("there is no column of numbers to plot")
    frame = _plottable(result.to_pandas(), kinds)
    axes = plt.subplots(layout="constrained")[1]
    if x in times or _numeric(kinds[x]):
        names = [by] if by else [n for n in kinds if n != x and _is_name(kinds[n])]
        _lines(axes, frame.sort_values(by=x), x, wanted, names)
        if x in times:
            _time_axis(axes, x)
        else:
            axes.set_xlabel(x)
    else:
        names = [n for n in kinds if n not in times and not _numeric(kinds[n])]
        _bars(axes, frame, [x, *[n for n in names if n != x and _is_name(kinds[n])]], wanted[0])
    axes.set_title(result.footer().replace(" | ", "\n", 1), fontsize="x-small")
    return axes


def _lines(axes: Any, frame: Any, x: str, wanted: list[str], names: list[str]) -> None:
    """A line for each column, or of the first column for each name."""
    if names and frame[x].duplicated().any():
        label = _labels(frame, names)
        name = wanted[0]
        sums = frame[name].abs().groupby(label).sum().sort_values(ascending=False)
        for key in list(sums.index)[:_LINES_MAX]:
            of_key = frame.loc[label == key]
            axes.plot(of_key[x], of_key[name], label=key, marker=_marker(len(of_key)))
        more = len(sums) - _LINES_MAX
        title = ", ".join(names) + (f" ({more} more left out)" if more > 0 else "")
        axes.legend(title=title, fontsize="small", title_fontsize="small")
        axes.set_ylabel(name)
        return
    for name in wanted:
        axes.plot(frame[x], frame[name], label=name, marker=_marker(len(frame)))
    if wanted == ["value"] and {"lower", "upper"} <= set(frame.columns):
        axes.fill_between(frame[x], frame["lower"], frame["upper"], alpha=0.25)
    if len(wanted) > 1:
        axes.legend()
    else:
        axes.set_ylabel(wanted[0])


def _labels(frame: Any, names: list[str]) -> Any:
    return frame[names].astype(str).agg(" · ".join, axis=1).str.translate(CONTROLS)


def _bars(axes: Any, frame: Any, names: list[str], wanted: str) -> None:
    shown = frame.iloc[:_BARS_MAX][::-1]
    labels = _labels(shown, names)
    places = range(len(shown))
    axes.barh(places, shown[wanted])
    axes.set_yticks(places, labels, fontsize="small")
    axes.set_ylabel(", ".join(names))
    axes.set_xlabel(wanted)
    if len(frame) > _BARS_MAX:
        axes.text(
            1, 0, f"{len(frame) - _BARS_MAX:,} more rows", transform=axes.transAxes, ha="right"
        )


def _time_axis(axes: Any, x: str) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_xlabel(f"{x}, UTC")


def _plottable(frame: Any, kinds: dict[str, pa.DataType]) -> Any:
    """Numbers as floats (null is a gap in a line), days as times; null is a name, too."""
    import pandas as pd

    for name, kind in kinds.items():
        if pa.types.is_duration(kind):
            frame[name] = frame[name].dt.total_seconds()
        elif _numeric(kind):
            frame[name] = frame[name].astype("float64")
        elif _is_time(kind):
            frame[name] = pd.to_datetime(frame[name], utc=True)
        else:
            frame[name] = frame[name].fillna("null")
    return frame


def _marker(points: int) -> str | None:
    return "o" if points <= 2 else None  # a line of one point cannot be seen


def _numeric(kind: pa.DataType) -> bool:
    return is_number(kind) or pa.types.is_duration(kind)


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _is_name(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind)
