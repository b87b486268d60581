"""`muntin demo --kafka`: a broker of its own, taxi orders into it, and a pipeline out of it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread

import typer

TOPIC = "orders"


def run_kafka(rate: int, seconds: float, port: int | None, place: Path, show: bool) -> None:
    """Start Apache Kafka on this machine, fill a topic, and watch it until stopped."""
    import muntin
    from muntin.cli.run import print_progress
    from muntin.cli.serve import beside
    from muntin.cli.stopping import stop_spark, stopping
    from muntin.cli.view import follow
    from muntin.demo.broker import Broker
    from muntin.demo.producing import produce, values_of
    from muntin.demo.taxi import PIPELINE, SCHEMA
    from muntin.ledger.open import open_ledger
    from muntin.spark.settings import SHORT_RUN
    from muntin.spec import Pipeline

    typer.echo("starting Kafka and Spark; the first time, their jars are fetched")
    with stopping() as stop, Broker(place / "kafka") as broker:
        options = {"kafka.bootstrap.servers": broker.servers, "subscribe": TOPIC}
        spec = Pipeline.of(
            PIPELINE
            | {
                "ledger": f"sqlite:///{place}/demo.db",
                "source": {
                    "format": "kafka",
                    "options": options | {"startingOffsets": "earliest"},
                    "value": {"schema": SCHEMA},
                },
                "spark": SHORT_RUN,
            }
        )
        client = {"bootstrap.servers": broker.servers}
        produce([], TOPIC, client)  # a client that is not installed is reported at once
        ended = Event()
        producer = Thread(
            target=lambda: produce(
                values_of("taxi", per_second=rate), TOPIC, client, rate=rate, stopped=ended.is_set
            ),
            name="muntin-producer",
        )
        began = time.monotonic()
        with ExitStack() as ending:
            ending.callback(stop_spark)
            producer.start()
            ending.callback(producer.join)
            ending.callback(ended.set)
            ledger = open_ledger(spec.ledger_url or "")
            # a taken port ends it before Spark starts
            ending.callback(beside(ledger, port, show=show).stop)
            stream = muntin.stream(None, spec, ledger=ledger)
            ending.callback(stream.stop)
            stop.begun()

            def tick() -> None:
                if stop.is_set() or (seconds and time.monotonic() - began > seconds):
                    stream.stop()

            follow(stream, spec, tick)
        print_progress(spec, stream.progress, time.monotonic() - began)
