"""`muntin demo`: real flights, or generated taxi orders, through Spark, live."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from muntin.spec import Pipeline


SITES_MAX = 8  # each is a Java machine of its own


def register(app: typer.Typer) -> None:
    @app.command()
    def demo(
        taxi: bool = typer.Option(False, "--taxi", help="Generated taxi orders, not flights."),
        kafka: bool = typer.Option(
            False, "--kafka", help="Taxi orders through Apache Kafka, started here by Java."
        ),
        speed: str = typer.Option(
            "",
            help="Event time a second, e.g. '2 days' (flights), '20 seconds' (taxi), "
            "'2 hours' (sites).",
        ),
        drivers: int = typer.Option(20_000, min=1, max=10_000_000, help="Taxi drivers."),
        orders: int = typer.Option(
            2_000, min=1, max=1_000_000, help="Taxi orders a second of event time."
        ),
        sites: int = typer.Option(
            0,
            min=0,
            max=SITES_MAX,
            help="Flights at so many sites, each with its own Spark, and the top k over all: "
            "3 are the airports, else the carriers are shared out.",
        ),
        recorded: bool = typer.Option(
            False, "--replay", help="A recording that is played here, without Java and Spark."
        ),
        seconds: float = typer.Option(0, min=0, help="Stop after so many; 0: at the end."),
        show: bool = typer.Option(True, "--open/--no-open", help="Open the dashboard."),
        port: int | None = typer.Option(
            None, min=0, max=65535, help="Of the dashboard; by default 8787 or a free one."
        ),
        folder: Path = typer.Option(None, help="Where ledger and files go; default: temporary."),
    ) -> None:
        """Replay flights (or taxi orders) through Spark and watch windows open and close."""
        if recorded:
            from muntin.cli.demo_replay import run_replay

            if taxi or kafka or sites:
                raise typer.BadParameter("--replay plays flights, alone")
            return run_replay(seconds, port, _place(folder), show)
        from muntin.cli.serve import PORT
        from muntin.extras import needs
        from muntin.spark.settings import SHORT_RUN
        from muntin.spec import Pipeline

        needs("spark", "muntin demo")
        place = _place(folder)
        if sites:
            from muntin.cli.demo_sites import run_sites

            if taxi:
                raise typer.BadParameter("--sites shows flights: leave --taxi out")
            place.mkdir(parents=True, exist_ok=True)
            return run_sites(
                sites, speed, seconds, PORT if port is None else port, place.absolute(), show
            )
        if kafka:
            from muntin.cli.demo_kafka import run_kafka

            return run_kafka(orders, seconds, port, place.absolute(), show)
        slices, entries, schema = _taxi(speed, drivers, orders) if taxi else _flights(speed)
        spec = Pipeline.of(
            entries
            | {
                "ledger": f"sqlite:///{place}/demo.db",
                "source": {"format": "parquet", "path": f"{place}/events", "schema": schema},
                "spark": SHORT_RUN,
            }
        )
        return _play(spec, slices, place, seconds, port, show)


def _play(
    spec: Pipeline,
    slices: Iterator[pa.Table],
    place: Path,
    seconds: float,
    port: int | None,
    show: bool,
) -> None:
    """Write slices into a folder, from which Spark takes them, until they end or it is stopped."""
    import time
    from contextlib import ExitStack

    import muntin
    from muntin.background import in_background
    from muntin.cli.run import print_progress
    from muntin.cli.serve import beside
    from muntin.cli.stopping import stop_spark, stopping
    from muntin.cli.view import follow
    from muntin.demo.replay import Replay
    from muntin.ledger.open import open_ledger

    typer.echo(f"starting Spark; in another terminal, ask:\n\n  {_ask(spec)}\n")
    began = time.monotonic()
    ledger = open_ledger(spec.ledger_url or "")
    with stopping() as stop, ExitStack() as ending:
        ending.callback(beside(ledger, port, show=show).stop)  # or its port is taken
        ending.callback(stop_spark)
        replay = Replay(slices, place / "events")
        ending.callback(replay.stop)
        with in_background(replay.write_first):
            stream = muntin.stream(None, spec, ledger=ledger)
        ending.callback(stream.stop)
        stop.begun()

        def tick() -> None:
            over = seconds and time.monotonic() - began > seconds
            if stop.is_set() or over or (replay.finished.is_set() and stream.caught_up()):
                stream.stop()

        replay.start()
        follow(stream, spec, tick)
    print_progress(spec, stream.progress, time.monotonic() - began)
    typer.echo(f"\nThe ledger is still there:\n\n  {_ask(spec)}")


def _place(folder: Path | None) -> Path:
    import tempfile

    if folder is None:
        return Path(tempfile.mkdtemp(prefix="muntin-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder.absolute()


def _ask(spec: Pipeline) -> str:
    query = next(iter(spec.queries.values()))
    return f'muntin query --ledger {spec.ledger_url} "{query.select}"'


def _flights(speed: str) -> tuple[Iterator[pa.Table], dict, str]:
    from muntin.demo.flights import PIPELINE, SCHEMA, departures_file, flights
    from muntin.demo.replay import TICK_SECONDS, slices_of
    from muntin.times import duration_us

    event_seconds = duration_us(speed or "2 days") / 1e6
    departures_file()  # a missing package is reported at once

    def slices() -> Iterator[pa.Table]:
        yield from slices_of(flights(), event_seconds * TICK_SECONDS)

    return slices(), PIPELINE, SCHEMA


def _taxi(speed: str, drivers: int, orders: int) -> tuple[Iterator[pa.Table], dict, str]:
    from muntin.demo.replay import TICK_SECONDS
    from muntin.demo.taxi import PIPELINE, SCHEMA, order_stream
    from muntin.times import duration_us

    event_seconds = duration_us(speed or "20 seconds") / 1e6
    return order_stream(drivers, orders, event_seconds * TICK_SECONDS), PIPELINE, SCHEMA
