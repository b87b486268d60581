"""`muntin demo --kafka`: a broker of its own, taxi orders into it, and a pipeline out of it."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Thread

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
        ended: list[bool] = []
        producer = Thread(
            target=lambda: produce(
                values_of("taxi", per_second=rate),
                TOPIC,
                client,
                rate=rate,
                stopped=lambda: bool(ended),
            ),
            name="muntin-producer",
        )
        producer.start()
        server = None
        began = time.monotonic()
        stream = None
        try:
            ledger = open_ledger(spec.ledger_url or "")
            server = beside(ledger, port, show=show)  # a taken port ends it before Spark starts
            stream = muntin.stream(None, spec, ledger=ledger)
            stop.begun()

            def tick() -> None:
                if stop.is_set() or (seconds and time.monotonic() - began > seconds):
                    stream.stop()

            follow(stream, spec, tick)
        finally:
            ended.append(True)
            producer.join()
            if server:
                server.stop()
            if stream is not None:
                stream.stop()
            stop_spark()
            if stream is not None:
                print_progress(spec, stream.progress, time.monotonic() - began)
