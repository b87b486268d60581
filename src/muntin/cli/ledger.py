"""Commands that read a ledger: `query`, `tables`, `rejected`, `export`, `ledger copy`."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Literal

import typer

import muntin
from muntin.cli.counting import check_counting
from muntin.cli.index import lines_of
from muntin.cli.tables import FORMAT, LEDGER, Format, print_result, print_rows, print_table
from muntin.errors import UnknownName, did_you_mean, how_many
from muntin.times import instant_text

if TYPE_CHECKING:
    import pyarrow as pa

    from muntin.ledger.records import Rejected


def register(app: typer.Typer) -> None:
    @app.command()
    def query(
        statement: str = typer.Argument(help="The SELECT; - reads it from standard input."),
        ledger: str = LEDGER,
        format: Format = FORMAT,  # noqa: A002
    ) -> None:
        """Answer a SELECT over what a ledger holds; `muntin tables` lists what that is."""
        if statement == "-":
            statement = "\n".join(lines_of("-"))
        with muntin.open(ledger) as session:
            print_result(session.sql(statement), format)

    @app.command()
    def tables(
        name: str = typer.Argument("", help="Only this summary or standing query: its columns."),
        ledger: str = LEDGER,
        format: Format = FORMAT,  # noqa: A002
    ) -> None:
        """List what a ledger holds: summaries and standing queries, and how to ask for them."""
        from muntin.select.syntax import quoted

        with muntin.open(ledger) as session:
            statement = f"DESCRIBE {quoted(name)}" if name else "SHOW TABLES"
            print_rows(session.sql(statement).table, format)

    @app.command()
    def rejected(
        ledger: str = LEDGER,
        pipeline: str | None = typer.Option(None, help="Only this pipeline's."),
        limit: int = typer.Option(20, min=1, max=100_000),
        after: int = typer.Option(0, min=0, help="Only those after this number: the next page."),
        newest: bool = typer.Option(False, "--newest", help="The newest first, not the oldest."),
        format: Format = FORMAT,  # noqa: A002
    ) -> None:
        """Show the records that were rejected, with their reason."""
        from muntin.ledger.open import open_ledger

        with closing(open_ledger(ledger, create=False)) as opened:
            known = {info.name: info for info in opened.pipelines()}
            if pipeline is not None and pipeline not in known:
                remedy = did_you_mean(pipeline, known)
                raise UnknownName(f"no pipeline '{pipeline[:64]}' in this ledger; {remedy}")
            asked = list(known.values()) if pipeline is None else [known[pipeline]]

            def page(name: str) -> list[tuple[int, Rejected]]:
                return list(opened.rejected(name, limit=limit, after=after, newest_first=newest))

            if format != "table":
                kept = [(info.name, *one) for info in asked for one in page(info.name)]
                print_rows(_rejected_rows(kept), format)
                return
            for info in asked:
                typer.echo(f"{info.name}: {info.rejected:,} of {info.read:,} events rejected")
                if not info.rejected:
                    continue
                reasons = opened.rejected_reasons(info.name)
                each = ", ".join(f"{why} {count:,}" for why, count in reasons.items())
                typer.echo(f"{sum(reasons.values()):,} of them are kept: {each}")
                rows = page(info.name)
                shown = _rejected_rows([(info.name, *one) for one in rows], characters=200)
                print_table(shown.drop_columns("pipeline"))
                if len(rows) == limit and len(rows) < sum(reasons.values()):
                    more = "--limit shows more" if newest else f"--after {rows[-1][0]} the next"
                    which = "newest" if newest else "oldest"
                    typer.echo(f"the {limit:,} {which} of those that are kept; {more}")

    @app.command()
    def export(
        context: typer.Context,
        summary: str = typer.Argument(help="Of kind quantiles or distinct."),
        place: str = typer.Argument(help="A folder, a Delta table, or namespace.table of Iceberg."),
        ledger: str = LEDGER,
        to: Literal["parquet", "delta", "iceberg"] = typer.Option(
            "parquet", help="delta and iceberg: pip install 'muntin\\[export]'."
        ),
        panes: bool = typer.Option(False, "--panes", help="Sealed panes, not closed windows."),
        catalog: str = typer.Option("default", help="Of Iceberg, as PyIceberg names it."),
    ) -> None:
        """Write the new windows of a summary as sketches of Apache DataSketches, each once."""
        from muntin.exporting import export
        from muntin.ledger.open import open_ledger

        check_counting(context, catalog=(to == "iceberg", "with --to iceberg"))
        what = "panes" if panes else "windows"
        with closing(open_ledger(ledger, create=False)) as opened:
            said = export(opened, summary, to, place, of=what, catalog=catalog)
        units, rows = how_many(said.units, what[:-1]), how_many(said.rows, "row")
        typer.echo(f"{units} in {rows}, {how_many(said.commits, 'commit')}")
        if said.waiting:
            waiting = how_many(said.waiting, "window")
            typer.echo(f"{waiting} left for the revision that has their late events")
        if said.dropped:
            typer.echo(f"{how_many(said.dropped, 'window')} left out: retention has dropped panes")
        if said.lost:
            lost = how_many(said.lost, "event")
            typer.echo(f"{lost} in no row: retention dropped their {what} before they were out")
        if said.lacking_before is not None:
            until = instant_text(said.lacking_before)
            typer.echo(f"what begins before {until} may lack events: {summary} was not there then")

    group = typer.Typer(no_args_is_help=True)
    app.add_typer(group, name="ledger", help="Copy or move a ledger.")

    @group.command()
    def copy(
        source: str = typer.Argument(..., help="For example sqlite:///flights.db"),
        target: str = typer.Argument(..., help="For example postgresql://user@host/database"),
    ) -> None:
        """Copy all of a ledger, as it is now, to one without pipelines; to move, stop it before."""
        from muntin.ledger.copying import copy_ledger
        from muntin.ledger.open import open_ledger

        with (
            closing(open_ledger(source, create=False)) as opened,
            closing(open_ledger(target)) as made,
        ):
            rows = copy_ledger(opened, made)
            typer.echo(f"{how_many(rows, 'row')} copied to {made.url}")


def _rejected_rows(
    kept: list[tuple[str, int, Rejected]], characters: int | None = None
) -> pa.Table:
    """Of rejected records; their record cut where a table has no room for all of it."""
    import pyarrow as pa

    rows = [
        (name, n, one.reason, one.detail, one.place, one.raw.decode("utf-8", "replace"))
        for name, n, one in kept
    ]
    if characters is not None:
        rows = [(*row[:-1], row[-1][:characters]) for row in rows]
    names = ("pipeline", "number", "reason", "detail", "where", "record")
    kinds = (pa.string(), pa.int64(), *[pa.string()] * 4)
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return pa.table([*map(pa.array, columns, kinds)], names)
