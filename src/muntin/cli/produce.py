"""`muntin produce`: a file, or generated taxi orders, into a Kafka topic."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    @app.command()
    def produce(
        what: str = typer.Argument(help="A .parquet, .csv, .json or .jsonl file, or taxi."),
        topic: str = typer.Option(..., "--topic", "-t", help="Where to."),
        servers: str = typer.Option("localhost:9092", "--servers", help="The broker's addresses."),
        rate: float | None = typer.Option(
            None, "--rate", min=0.001, help="Records a second; by default as many as it takes."
        ),
        records: int | None = typer.Option(None, "--records", "-n", min=0, help="At most so many."),
        option: list[str] = typer.Option(
            [], "--option", "-o", help="name=value of librdkafka, such as security.protocol=SSL."
        ),
        seed: int = typer.Option(1, help="Of taxi: the same seed, the same orders."),
    ) -> None:
        """Replay a file, or made taxi orders, into a Kafka topic at a chosen rate."""
        import time
        from itertools import islice

        from muntin.cli.stopping import stopping
        from muntin.demo.producing import produce as send
        from muntin.demo.producing import values_of

        options = {"bootstrap.servers": servers}
        for given in option:
            name, equals, value = given.partition("=")
            if not equals:
                raise typer.BadParameter("an option is name=value")
            options[name] = value
        began = time.monotonic()
        with stopping() as stop:
            stop.begun()
            values = islice(values_of(what, seed, rate or 2_000.0), records)
            done = send(values, topic, options, rate=rate, stopped=stop.is_set)
        seconds = max(time.monotonic() - began, 1e-9)
        typer.echo(f"{done.sent:,} records in {seconds:.1f} s, {done.sent / seconds:,.0f} a second")
        if done.failed:
            typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
            typer.echo(f"{done.failed:,} records were not taken: {done.why}", err=True)
            raise typer.Exit(1)
