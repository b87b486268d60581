"""`muntin capacity`: how many bytes and cores a pipeline will take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from muntin.cli.counting import no_nan
from muntin.errors import BadArgument, SourceError
from muntin.times import duration_text, duration_us

if TYPE_CHECKING:
    from muntin.spec import Pipeline

KEYS_MAX = 10_000_000


def register(app: typer.Typer) -> None:
    @app.command()
    def capacity(
        pipeline: Path = typer.Argument(help="The pipeline file."),
        rate: float = typer.Option(
            ..., "--rate", "-r", min=0.001, max=1e12, callback=no_nan, help="Events a second."
        ),
        keys: list[str] = typer.Option(
            [],
            "--keys",
            "-k",
            help="Different values of a column, e.g. user=200000; else 1000, "
            "but 2 of booleans, and of floats no two alike.",
        ),
        keep: str = typer.Option(
            "30 days", help="How long things are kept that `retention` does not name."
        ),
    ) -> None:
        """Estimate the bytes and cores that a pipeline will take, from random events."""
        from muntin.assembly.capacity import capacity as found_for
        from muntin.assembly.capacity import missing
        from muntin.spec import Pipeline

        spec = Pipeline.of(pipeline)
        given: dict[str, int] = {}
        for each in keys:
            name, _, number = each.partition("=")
            if not number.isdecimal() or not 0 < int(number) <= KEYS_MAX or name in given:
                how = f"write for example user=200000, {KEYS_MAX:,} at most, a column once"
                raise BadArgument(f"--keys {each!r}: {how}")
            given[name] = int(number)
        unknown = set(given) - set(spec.columns())
        if unknown:
            known = ", ".join(spec.columns())
            raise BadArgument(f"--keys: no summary reads '{min(unknown)}'; they read {known}")
        given = dict.fromkeys(_booleans(spec) & {*spec.columns()}, 2) | given
        found = found_for(spec, rate, given, duration_of("--keep", keep))
        for line in found.lines:
            typer.echo(
                f"{line.summary:20} slices of {duration_text(line.length_us):12} "
                f"{line.slices:>9,} of {line.slice_bytes:>12,.0f} bytes  {_size(line.nbytes):>10}"
            )
        for line in found.closed:
            what = "windows" if line.name in spec.summaries else "results"
            typer.echo(
                f"{line.name:20} {what} of {duration_text(line.length_us):11} "
                f"{line.count:>9,} of {line.each_bytes:>12,.0f} bytes  {_size(line.nbytes):>10}"
            )
        typer.echo(f"ledger:  {_size(found.ledger_bytes)}")
        for name, nbytes in found.window_bytes.items():
            typer.echo(f"memory:  a window of {name} {_size(nbytes)}; as much again to merge it")
        cores = f"{found.fold_seconds:.3g}" if found.fold_seconds >= 0.001 else "less than 0.001"
        typer.echo(f"cores:   {cores} to fold, beside what Spark takes to read")
        followed = [name for name, each in spec.summaries.items() if each.sequential]
        if followed:
            typer.echo(f"not counted, since the file says its memory: {', '.join(followed)}")
        texts, floats = missing(spec, given)
        if texts:
            typer.echo(f"1,000 different values were taken for: {', '.join(texts)}")
        if floats:
            typer.echo(f"no two values alike were taken for: {', '.join(floats)}")


def _booleans(spec: Pipeline) -> set[str]:
    """Columns of yes and no, where the source can be looked at."""
    from muntin.cli.check_source import look

    try:
        seen = look(spec.source, spec.time.column).columns if spec.source else None
    except SourceError:  # nothing needs to be there yet
        seen = None
    return {name for name, kind in (seen or {}).items() if str(kind) == "bool"}


def duration_of(option: str, text: str) -> int:
    """Microseconds of an option; BadArgument that names it."""
    try:
        return duration_us(text)
    except BadArgument as problem:
        raise BadArgument(f"{option}: {problem}") from None


def _size(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return f"{nbytes:,.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:,.1f} TiB"
