"""`muntin demo --replay`: the recording that the package carries, without Java and Spark."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import typer

TICK_SECONDS = 0.5


def run_replay(seconds: float, port: int | None, folder: Path, show: bool) -> None:
    """Play it until it is stopped, or for so many seconds."""
    from muntin.cli.serve import beside
    from muntin.cli.stopping import stopping
    from muntin.demo.recorded import PIPELINE, Recording
    from muntin.ledger.open import open_ledger
    from muntin.spark.ingest import Ingest
    from muntin.spark.partials import fold
    from muntin.spec import Pipeline
    from muntin.times import now_us

    spec = Pipeline.of(PIPELINE | {"ledger": f"sqlite:///{folder}/demo.db"})
    ask = next(iter(spec.queries.values())).select
    with stopping() as stop, ExitStack() as ending:
        ledger = open_ledger(spec.ledger_url or "")
        ending.callback(ledger.close)
        ingest = Ingest(spec, ledger, query_id=f"replay-{time.time_ns()}", mode="overwrite")
        ending.callback(ingest.close)
        stop.begun()
        ending.callback(beside(ledger, port, show=show).stop)
        typer.echo(
            f"real flights of January 2013, an hour of theirs in two seconds of yours; "
            f'ask:\n\n  muntin query --ledger {spec.ledger_url} "{ask}"\n\nCtrl-C ends it'
        )
        recording = Recording(now_us())
        batch, began = 0, time.monotonic()
        while not stop.is_set() and not (seconds and time.monotonic() - began > seconds):
            events = recording.until(now_us())
            if events.num_rows:
                ingest.take(batch, lambda plan, events=events: [*fold(plan, events.to_batches())])
                batch += 1
            stop.wait(TICK_SECONDS)
        ingest.finish(ended=False)
