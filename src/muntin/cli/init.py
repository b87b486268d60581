"""`muntin init`: write a commented pipeline file by looking at a data file."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from muntin.cli.tables import coloured

if TYPE_CHECKING:
    from muntin.cli.inspect_data import Found

_EXPRESSION = r"[A-Za-z](?!.*(: | #)).*"  # of SQL, that YAML reads as it is


def register(app: typer.Typer) -> None:
    @app.command()
    def init(
        data: Path = typer.Argument(help="A Parquet, CSV or JSON file, or a folder of them."),
        output: Path = typer.Option(Path("pipeline.yaml"), "--output", "-o"),
        force: bool = typer.Option(False, "--force", help="Overwrite the output."),
    ) -> None:
        """Write a commented pipeline file by looking at DATA."""
        from muntin.cli.inspect_data import inspect
        from muntin.errors import SpecError
        from muntin.spec import Pipeline

        is_new = not output.exists()
        if not (is_new or force):
            raise SpecError(f"{output} is there already: choose --output, or --force")
        found = inspect(data)
        try:
            output.write_text(pipeline_text(found), encoding="utf-8")
        except OSError as problem:
            if is_new:
                output.unlink(missing_ok=True)
            raise OSError(problem.errno, problem.strerror, str(output)) from None
        for warning in found.warnings:
            typer.echo(coloured("note: ", "yellow") + warning, err=True)
        Pipeline.of(output)
        command = f"muntin run {shlex.quote(str(output))} --once"
        typer.echo(f"{output}: written. Read it, then:  {command}")


def pipeline_text(found: Found) -> str:
    from muntin.cli.inspect_data import WINDOWS_US
    from muntin.select.syntax import in_select
    from muntin.times import duration_text

    name = re.sub(r"[^a-z0-9_-]+", "_", Path(found.path).stem.lower()).strip("_-") or "events"
    name = name if name[0].isalpha() else f"s_{name}"
    pane = found.pane_us
    window = WINDOWS_US[pane]
    pair = found.keys[:2]
    keys = ", ".join(
        [*map(_quoted, found.keys), f"[{', '.join(map(_quoted, pair))}]"]
        if len(pair) == 2
        else map(_quoted, found.keys)
    )
    fields = "".join(
        f"  {_quoted(n)}: {_quoted(text, _EXPRESSION)}\n" for n, text in found.fields.items()
    )
    if fields:
        fields = f"\n# Columns made or replaced, by Spark's SQL.\nfields:\n{fields}"
    warnings = "".join(f"# Note: {warning}.\n" for warning in found.warnings)
    left_out = "".join(f"#   {column}: {why}\n" for column, why in found.left_out.items())
    time = (
        _quoted(found.time)
        if found.unit is None
        else f"{{column: {_quoted(found.time)}, unit: {found.unit}}}"
    )
    more = f", {in_select(found.indicators[0])}" if found.indicators else ""
    key = in_select(found.keys[0])
    select = f"SELECT {key}, count{more} FROM {in_select(name)}({key}) ORDER BY count DESC LIMIT 10"
    entries = {"format": found.format, "path": found.path, **found.options}
    source = ", ".join(f"{entry}: {_quoted(text)}" for entry, text in entries.items())
    return f"""\
# Written by `muntin init {found.path}`. Check it with `muntin check`, run it with `muntin run`.
{warnings}name: {name}

# Where events come from: any Spark source; further entries here are its options.
source: {{{source}}}

# The event time: a timestamp, ISO 8601 text (without a zone it is UTC), or a number with its unit.
time: {time}
{fields}
# The smallest slice of time that is kept. Any window is made of whole panes.
pane: {duration_text(pane)}

# How late an event may come and still count towards where its window ends.
lateness: {duration_text(found.lateness_us)}

# The durable table of summaries.
ledger: sqlite:///{name}.db

summaries:
  {name}:
    kind: vector_matrix        # exact sums per key and key combination
    keys: [{keys}]
    indicators: [{", ".join(map(_quoted, found.indicators))}]
    capacity: 100000           # rows per key; a window closes early before it would pass this
    window: {{kind: floating, length: {duration_text(window)}}}
{"# Columns left out:" + chr(10) + left_out if left_out else ""}
# Run on each window that closes; the results are kept as a trend.
queries:
  busiest: {{select: '{select}', on: window}}
"""


def _quoted(text: str, plain: str = r"[A-Za-z_][\w./-]*") -> str:
    """A text in YAML: as it is, where it is plain."""
    if re.fullmatch(plain, text) and text.lower() not in ("true", "false", "null"):
        return text
    return json.dumps(text, ensure_ascii=False)  # YAML reads it alike
