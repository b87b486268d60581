"""Commands that read a ledger: `query`, `tables`, `rejected`, `export`, `ledger copy`."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Literal

import typer

from muntin.cli.tables import FORMAT, LEDGER, Format, print_result, print_rows, print_table
from muntin.errors import how_many

if TYPE_CHECKING:
    import pyarrow as pa

    from muntin.session import Session


def register(app: typer.Typer) -> None:
    @app.command()
    def query(
        statement: str = typer.Argument(help="The SELECT; - reads it from standard input."),
        ledger: str = LEDGER,
        format: Format = FORMAT,  # noqa: A002
    ) -> None:
        """Answer a SELECT over what a ledger holds; `muntin tables` lists what that is."""
        import muntin

        if statement == "-":
            statement = sys.stdin.read()
        with muntin.open(ledger) as session:
            print_result(session.sql(statement), format)

    @app.command()
    def tables(
        name: str = typer.Argument("", help="Only this summary or standing query: its columns."),
        ledger: str = LEDGER,
        format: Format = FORMAT,  # noqa: A002
    ) -> None:
        """List what a ledger holds: summaries and standing queries, and how to ask for them."""
        import muntin

        with muntin.open(ledger) as session:
            print_rows(columns_of(session, name) if name else contents(session), format)

    @app.command()
    def rejected(
        ledger: str = LEDGER,
        pipeline: str | None = typer.Option(None, help="Only this pipeline's."),
        limit: int = typer.Option(20, min=1, max=100_000),
    ) -> None:
        """Show the records that were rejected, with their reason."""
        import pyarrow as pa

        from muntin.errors import UnknownName
        from muntin.ledger.open import open_ledger
        from muntin.suggestions import did_you_mean

        with closing(open_ledger(ledger, create=False)) as opened:
            known = {info.name: info for info in opened.pipelines()}
            if pipeline is not None and pipeline not in known:
                remedy = did_you_mean(pipeline, known)
                raise UnknownName(f"no pipeline '{pipeline[:64]}' in this ledger; {remedy}")
            for info in known.values() if pipeline is None else [known[pipeline]]:
                typer.echo(f"{info.name}: {info.rejected:,} of {info.read:,} events rejected")
                if not info.rejected:
                    continue
                records = [record for _, record in opened.rejected(info.name, limit=limit)]
                columns = {
                    "reason": [record.reason for record in records],
                    "detail": [record.detail for record in records],
                    "where": [record.place for record in records],
                    "record": [r.raw.decode("utf-8", "replace")[:200] for r in records],
                }
                print_table(pa.table({n: pa.array(v, pa.string()) for n, v in columns.items()}))

    @app.command()
    def export(
        summary: str = typer.Argument(help="Of kind quantiles or distinct."),
        place: str = typer.Argument(help="A folder, a Delta table, or namespace.table of Iceberg."),
        ledger: str = LEDGER,
        to: Literal["parquet", "delta", "iceberg"] = typer.Option(
            "parquet", help="delta and iceberg: pip install 'muntin\\[export]'."
        ),
        panes: bool = typer.Option(False, "--panes", help="Sealed panes, not closed windows."),
        catalog: str = typer.Option("default", help="Of Iceberg, as PyIceberg names it."),
    ) -> None:
        """Append what is new of a summary, as sketches of Apache DataSketches, each window once."""
        from muntin.exporting import export
        from muntin.ledger.open import open_ledger

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

    group = typer.Typer(no_args_is_help=True)
    app.add_typer(group, name="ledger", help="Move a ledger.")

    @group.callback()
    def _group() -> None:
        pass

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


def contents(session: Session) -> pa.Table:
    """A row for each summary and each standing query."""
    import pyarrow as pa

    from muntin.select.listing import asked
    from muntin.select.syntax import in_select

    moment = pa.timestamp("us", "UTC")
    rows = []
    infos = session.summaries()
    for pipeline in session.ledger.pipelines():
        for name in pipeline.spec.get("summaries", {}):
            if name in infos:
                span = session.span_of(name) or (None, None)
                ask = _select(f"{asked(infos[name])} FOR ALL")
                rows.append((name, infos[name].kind, pipeline.name, *span, ask))
        for name in pipeline.spec.get("queries", {}):
            closed = session.ledger.trend(name, limit=1)
            ask = _select(f"trend({in_select(name)})") if closed else ""
            rows.append((name, "query", pipeline.name, None, None, ask))
    columns = list(zip(*rows, strict=True)) or [()] * 6
    kinds = [pa.string(), pa.string(), pa.string(), moment, moment, pa.string()]
    names = ["name", "kind", "pipeline", "from", "to", "ask"]
    return pa.table(
        {
            name: pa.array(list(values), pa.int64() if kind == moment else kind).cast(kind)
            for name, values, kind in zip(names, columns, kinds, strict=True)
        }
    )


def _select(item: str) -> str:
    return f"SELECT * FROM {item}"  # noqa: S608 (shown, and run by whoever reads it)


def columns_of(session: Session, name: str) -> pa.Table:
    """A row for each column of a summary, or of a standing query's trend.

    Raises
    ------
    UnknownName
        There is none of this name; the message lists those that there are.
    """
    from muntin.errors import UnknownName
    from muntin.select.bind import named
    from muntin.select.listing import asked
    from muntin.select.syntax import quoted

    infos = session.summaries()
    info = named(name, infos)
    if info is None:
        specs = [pipeline.spec for pipeline in session.ledger.pipelines()]
        queries = {query: query for spec in specs for query in spec.get("queries", {})}
        query = named(name, queries)
        if query is None:
            there = ", ".join([*infos, *queries]) or "none yet"
            raise UnknownName(
                f"no summary or standing query '{name}' in this ledger: there are {there}"
            )
        described = session.sql(f"DESCRIBE {quoted(query)}").rows
        rows = [("", column, what) for _, column, what in described]
        rows.append(("", "", _select(described[0][0])))
        return _columns(rows)
    rows = [(f"X{at}", ", ".join(key), "key") for at, key in enumerate(info.keys, 1)]
    rows += [("", column, "one summary for each value") for column in (*info.by, *info.parts)]
    if info.keys:
        bounds = ", an upper bound beside count_lower" if info.sketched else ""
        rows.append(("", "count", f"events{bounds}"))
    rows += [(f"Y{at}", column, "sum") for at, column in enumerate(info.indicators, 1)]
    rows.append(("", "", _select(f"{asked(info)} FOR ALL")))
    return _columns(rows)


def _columns(rows: list[tuple[str, str, str]]) -> pa.Table:
    import pyarrow as pa

    short, column, what = map(list, zip(*rows, strict=True))
    return pa.table({"short": short, "column": column, "what": what})
