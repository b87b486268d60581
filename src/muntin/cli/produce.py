"""`muntin produce`: a file, or generated taxi orders, into a Kafka topic."""

import os
import re
import time
from itertools import islice

import typer

from muntin.cli.counting import check_counting, no_nan
from muntin.cli.stopping import stopping
from muntin.errors import BadArgument, SourceError, how_many
from muntin.spec_secrets import is_secret

_OF_ENVIRONMENT = re.compile(r"\$\{env:([^}]*)\}")  # as Kafka's EnvVarConfigProvider


def register(app: typer.Typer) -> None:
    @app.command()
    def produce(
        context: typer.Context,
        what: str = typer.Argument(help="A .parquet, .csv, .json or .jsonl file, or taxi."),
        topic: str = typer.Option(..., "--topic", "-t", help="The topic to write to."),
        servers: str = typer.Option("localhost:9092", "--servers", help="The broker's addresses."),
        rate: float | None = typer.Option(
            None,
            "--rate",
            min=0.001,
            max=1e9,
            callback=no_nan,
            help="Records a second; by default as many as it takes.",
        ),
        records: int | None = typer.Option(None, "--records", "-n", min=0, help="At most so many."),
        option: list[str] = typer.Option(
            [], "--option", "-o", help="name=value of librdkafka; ${env:NAME} is a variable."
        ),
        seed: int = typer.Option(1, help="Of taxi orders: the same seed, the same orders."),
    ) -> None:
        """Replay a file, or made taxi orders, into a Kafka topic at a chosen rate."""
        from muntin.demo.producing import produce as send
        from muntin.demo.producing import values_of

        check_counting(context, seed=(what == "taxi", "with taxi"))
        options = {"bootstrap.servers": servers, **options_of(option)}
        began = time.monotonic()
        with stopping() as stop:
            stop.begun()
            values = islice(values_of(what, seed, rate or 2_000.0), records)
            done = send(values, topic, options, rate=rate, stopped=stop.is_set)
        sent = how_many(done.sent, "record")
        seconds = max(time.monotonic() - began, 1e-9)
        typer.echo(f"{sent} in {seconds:.1f} s, {done.sent / seconds:,.0f} a second")
        if done.failed:
            raise SourceError(f"not taken: {how_many(done.failed, 'record')}: {done.why}")


def options_of(given: list[str]) -> dict[str, str]:
    """Options of the client, by name. Raises BadArgument: one is not name=value, names a variable
    that is not set, or shows a secret."""
    options = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise BadArgument(f"--option {ascii(name)[:80]}: an option is name=value")
        if is_secret(name) and not name.endswith(".url") and not _OF_ENVIRONMENT.search(value):
            raise BadArgument(
                f"--option {name}: a command line can be read by every process: put the secret "
                f"into the environment, and write '{name}=${{env:NAME}}'"
            )
        options[name] = _OF_ENVIRONMENT.sub(_variable, value)
    return options


def _variable(found: re.Match[str]) -> str:
    try:
        return os.environ[found[1]]
    except KeyError:
        raise BadArgument(f"--option: {found[0]}: the environment has no such variable") from None
