"""Options that count only beside others, and numbers that are none: both are refused."""

import math

import typer

from muntin.errors import BadArgument


def check_counting(context: typer.Context, **conditions: tuple[bool, str]) -> None:
    """Refuse what was given to a command, and would do nothing. `conditions`: whether it counts
    beside the others, and when it does: "with --serve". Raises BadArgument, which says so."""
    for parameter in context.command.params:
        name = parameter.name or ""
        counts, when = conditions.get(name, (True, ""))
        source = context.get_parameter_source(name)
        if not counts and source is not None and source.name == "COMMANDLINE":
            raise BadArgument(f"{parameter.opts[0]} counts only {when}")


def no_nan(value: float | None) -> float | None:
    """A callback of options: NaN is within any limits to some versions of typer."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is no number")
    return value
