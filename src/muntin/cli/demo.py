"""`muntin demo`: real flights, or generated taxi orders, through Spark, live."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from math import inf
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import typer

import muntin
from muntin.cli.capacity import duration_of
from muntin.cli.counting import check_counting
from muntin.cli.log import logged
from muntin.cli.run import print_progress
from muntin.cli.serve import PORT, beside, open_page
from muntin.cli.stopping import stop_spark, stopping
from muntin.errors import needs
from muntin.times import now_us

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from muntin.cli.stopping import Stop
    from muntin.demo.replay import Replay
    from muntin.spec import Pipeline


SITES_MAX = 8  # each is a Java machine of its own
TOPIC = "orders"


def register(app: typer.Typer) -> None:
    @app.command()
    def demo(
        context: typer.Context,
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
        seconds: float = typer.Option(0, min=0, help="Stop after so many seconds; 0: at the end."),
        show: bool = typer.Option(True, "--open/--no-open", help="Open the dashboard."),
        port: int | None = typer.Option(
            None, min=0, max=65535, help="Of the dashboard; by default 8787 or a free one."
        ),
        folder: Path = typer.Option(None, help="Where ledger and files go; default: temporary."),
    ) -> None:
        """Replay flights (or taxi orders) through Spark and watch windows open and close."""
        alone = not recorded, "without --replay, which plays flights at its own speed"
        of_taxi = taxi or kafka, "with --taxi or --kafka"
        check_counting(
            context,
            taxi=alone,
            kafka=alone,
            sites=(not (recorded or taxi or kafka), "with flights through Spark"),
            drivers=(taxi and not kafka, "with --taxi"),
            orders=of_taxi,
            speed=(not (recorded or kafka), "without --replay and --kafka"),
        )
        if not recorded:
            needs("kafka" if kafka else "spark" if taxi else "demo", "muntin demo", "pyspark")
        if kafka:
            needs("kafka", "muntin demo --kafka")
        place = Path(folder or tempfile.mkdtemp(prefix="muntin-demo-")).absolute()
        place.mkdir(parents=True, exist_ok=True)
        asked = _Shown(place, seconds, port, show)
        with logged():
            if recorded:
                _recorded(asked)
            elif sites:
                _sites(sites, speed, asked)
            elif kafka:
                _kafka(orders, asked)
            else:
                _play(*(_taxi(speed, drivers, orders) if taxi else _flights(speed)), asked)


@dataclass(frozen=True, slots=True)
class _Shown:
    """Where the files of a demonstration go, how long it lasts, and how it is shown."""

    place: Path
    seconds: float
    port: int | None
    show: bool

    def end(self) -> float:
        """When to stop, by the monotonic clock, of what begins now."""
        return time.monotonic() + (self.seconds or inf)


def _spec(entries: dict, asked: _Shown, source: dict) -> Pipeline:
    from muntin.spark.settings import SHORT_RUN
    from muntin.spec import Pipeline

    more = {"ledger": f"sqlite:///{asked.place}/demo.db", "source": source, "spark": SHORT_RUN}
    return Pipeline.of(entries | more)


def _run(spec: Pipeline, source: Replay | _Orders, stop: Stop, asked: _Shown) -> None:
    """Run a pipeline until its source ends, so many seconds are over, or it is stopped."""
    from muntin.background import in_background
    from muntin.cli.view import follow
    from muntin.ledger.open import open_ledger

    began, end = time.monotonic(), asked.end()
    ledger = open_ledger(spec.ledger_url)
    with ExitStack() as ending:
        # at once, for its port may be taken
        server = beside(ledger, asked.port, show=asked.show, begun=stop.has_begun)
        ending.callback(server.stop)
        ending.callback(stop_spark)
        ending.callback(source.stop)
        with in_background(source.write_first):
            stream = muntin.stream(None, spec, ledger=ledger)
        ending.callback(stream.stop)
        stop.begun(stream.ending)

        def tick() -> None:
            over = time.monotonic() > end
            if stop.is_set() or over or (source.finished.is_set() and stream.caught_up()):
                stream.stop()

        source.start()
        follow(stream, tick)
    print_progress(spec, stream.progress, time.monotonic() - began)


def _play(slices: Iterator[pa.Table], entries: dict, schema: str, asked: _Shown) -> None:
    """Write slices into a folder, from which Spark takes them."""
    from muntin.demo.replay import Replay

    events = asked.place / "events"
    spec = _spec(entries, asked, {"format": "parquet", "path": str(events), "schema": schema})
    typer.echo(f"starting Spark; in another terminal, ask:\n\n  {_ask(spec)}\n")
    with stopping() as stop:
        _run(spec, Replay(slices, events), stop, asked)
    typer.echo(f"\nThe ledger is still there:\n\n  {_ask(spec)}")


def _ask(spec: Pipeline) -> str:
    query = next(iter(spec.queries.values()))
    return f'muntin query --ledger {spec.ledger_url} "{query.select}"'


def _flights(speed: str) -> tuple[Iterator[pa.Table], dict, str]:
    from muntin.demo.flights import PIPELINE, SCHEMA, departures_file, flights
    from muntin.demo.replay import TICK_SECONDS, slices_of

    event_seconds = duration_of("--speed", speed or "2 days") / 1e6
    departures_file()  # a missing package is reported at once

    def slices() -> Iterator[pa.Table]:
        yield from slices_of(flights(), event_seconds * TICK_SECONDS)

    return slices(), PIPELINE, SCHEMA


def _taxi(speed: str, drivers: int, orders: int) -> tuple[Iterator[pa.Table], dict, str]:
    from muntin.demo.replay import TICK_SECONDS
    from muntin.demo.taxi import PIPELINE, SCHEMA, order_stream

    event_seconds = duration_of("--speed", speed or "20 seconds") / 1e6
    return order_stream(drivers, orders, event_seconds * TICK_SECONDS), PIPELINE, SCHEMA


def _recorded(asked: _Shown) -> None:
    """The recording that the package carries, without Java and Spark, until it is stopped."""
    from muntin.demo.recorded import PIPELINE, Recording
    from muntin.ledger.open import open_ledger
    from muntin.spark.ingest import Ingest
    from muntin.spark.partials import fold
    from muntin.spec import Pipeline

    spec = Pipeline.of(PIPELINE | {"ledger": f"sqlite:///{asked.place}/demo.db"})
    with stopping() as stop, ExitStack() as ending:
        ledger = open_ledger(spec.ledger_url)
        ending.callback(ledger.close)
        ingest = Ingest(spec, ledger, query_id=f"replay-{time.time_ns()}", mode="overwrite")
        ending.callback(ingest.close)
        stop.begun()
        ending.callback(beside(ledger, asked.port, show=asked.show).stop)
        typer.echo(
            "real flights of January 2013, an hour of theirs in two seconds of yours; "
            f"ask:\n\n  {_ask(spec)}\n\nCtrl-C ends it"
        )
        recording = Recording(now_us())
        batch, end = 0, asked.end()
        while not stop.is_set() and time.monotonic() <= end:
            events = recording.until(now_us())
            if events.num_rows:
                ingest.take(batch, lambda plan, events=events: [*fold(plan, events.to_batches())])
                batch += 1
            stop.wait(0.5)
        ingest.finish(ended=False)


class _Orders:
    """Taxi orders into a topic of Kafka, until it is stopped."""

    def __init__(self, servers: str, rate: int) -> None:
        from muntin.demo.producing import produce, values_of

        client = {"bootstrap.servers": servers}
        produce([], TOPIC, client)  # a client that is not installed is reported at once
        self.finished = Event()
        self._stop = Event()
        values, stopped = values_of("taxi", per_second=rate), self._stop.is_set
        self._thread = Thread(
            target=lambda: produce(values, TOPIC, client, rate=rate, stopped=stopped),
            name="muntin-producer",
        )

    def write_first(self) -> None:
        """The topic must be there when the pipeline begins."""
        self._thread.start()

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()


def _kafka(rate: int, asked: _Shown) -> None:
    """Start Apache Kafka on this machine, fill a topic, and watch it until stopped."""
    from muntin.demo.broker import Broker
    from muntin.demo.taxi import PIPELINE, SCHEMA

    typer.echo("starting Kafka and Spark; the first time, their jars are fetched")
    with stopping() as stop, Broker(asked.place / "kafka") as broker:
        options = {"kafka.bootstrap.servers": broker.servers, "subscribe": TOPIC}
        source = {
            "format": "kafka",
            "options": options | {"startingOffsets": "earliest"},
            "value": {"schema": SCHEMA},
        }
        spec = _spec(PIPELINE, asked, source)
        _run(spec, _Orders(broker.servers, rate), stop, asked)


def _sites(sites: int, speed: str, asked: _Shown) -> None:
    """Sites in processes of their own and a coordinator in this one, until Ctrl-C."""
    import logging

    import yaml

    from muntin.demo import sites as demo
    from muntin.demo.flights import flights
    from muntin.demo.replay import TICK_SECONDS, slices_of
    from muntin.sites import CoordinatorServer

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.ERROR)
    folder, port = asked.place, PORT if asked.port is None else asked.port
    event_seconds = duration_of("--speed", speed or demo.SPEED) / 1e6
    table, names = demo.at_sites(flights(), sites)
    slices = slices_of(table, event_seconds * TICK_SECONDS)
    replay = demo.SplitReplay(slices, folder / "events", names)
    replay.write_first()
    entries = demo.coordinator_entries(names, folder, port, event_seconds)
    server = CoordinatorServer(entries)
    (folder / "coordinator.yaml").write_text(yaml.safe_dump(entries, sort_keys=False), "utf-8")
    processes, end = None, asked.end()
    try:
        with stopping() as stop:
            stop.begun()
            server.start()
            typer.echo(f"the race:  {server.url}\nfiles and logs:  {folder}")
            files = {
                name: demo.site_entries(name, server.address, folder, event_seconds)
                for name in names
            }
            processes = demo.SiteProcesses(files, folder)
            typer.echo(f"starting Spark at {len(names)} sites: {', '.join(names)}")
            open_page(server.url, show=asked.show)

            said = ""
            while time.monotonic() <= end and not stop.wait(0.5):
                if not replay.started and len(server.service.sessions) == len(names):
                    replay.start()  # once all sites are there, so that none is behind
                processes.check()
                now = line(server.service.status.state)
                if now != said:
                    typer.echo(now)
                said = now
    finally:
        replay.stop()
        if processes:
            processes.stop()
        server.stop()
        traffic = server.service.status.state["traffic"]
        for what in ("messages", "bytes"):
            sent, naive = traffic["sent"][what], traffic["naive"][what]
            typer.echo(f"{what:>10}  {sent:,} sent; pushing every change: {naive:,}")


def line(state: Mapping[str, Any]) -> str:
    """Who is largest, and whether it holds; the page shows the race."""
    answer = state["answer"]
    as_of = f", as of {answer['as_of']}" if answer["as_of"] else ""
    verdict = f"{'stale' if answer['stale'] else 'valid'}{as_of}"
    if not (answer["stale"] or answer["valid"]):
        missing = ", ".join(answer["missing_sites"])
        bound = "" if answer["bound"] is None else f", off by {answer['bound']:,} at most"
        verdict = f"unsure{as_of}{bound}" + (f", missing: {missing}" if missing else "")
    values = ((one["item"], one["value"]) for one in answer["items"])
    top = ", ".join(f"{item} {'-' if value is None else f'{value:,}'}" for item, value in values)
    return f"{verdict}: {top or 'nothing yet'}"
