"""`muntin tables`: what a ledger holds, and how to ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from muntin.cli.tables import FORMAT, LEDGER, Format

if TYPE_CHECKING:
    import pyarrow as pa

    from muntin.session import Session


def register(app: typer.Typer) -> None:
    @app.command()
    def tables(
        name: str = typer.Argument("", help="Only this summary or standing query: its columns."),
        ledger: str = LEDGER,
        format: Format = FORMAT,  # noqa: A002
    ) -> None:
        """List what a ledger holds: summaries and standing queries, and how to ask for them."""
        import muntin
        from muntin.cli.tables import print_rows

        with muntin.open(ledger) as session:
            print_rows(columns_of(session, name) if name else contents(session), format)


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
