"""`muntin run`: run a pipeline."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import muntin
from muntin.cli.counting import check_counting
from muntin.cli.log import logged
from muntin.cli.serve import beside
from muntin.cli.stopping import stop_spark, stopping
from muntin.errors import (
    LedgerConflict,
    LedgerError,
    MuntinError,
    SourceError,
    SpecError,
    needs,
)
from muntin.spec_secrets import shown_url
from muntin.storage import state_of

if TYPE_CHECKING:
    from muntin.cli.stopping import Stop
    from muntin.ledger.base import Mode
    from muntin.progress import Progress
    from muntin.spark.sink_stream import SinkStream
    from muntin.spark.stream import Stream
    from muntin.spec import Pipeline

AGAIN_SECONDS = 10.0


def register(app: typer.Typer) -> None:
    @app.command()
    def run(
        context: typer.Context,
        pipeline: Path = typer.Argument(help="The pipeline file."),
        once: bool = typer.Option(False, "--once", help="Take all that is there, then stop."),
        append: bool = typer.Option(
            False, "--append", help="Add to what is there, by a new checkpoint: you vouch for it."
        ),
        reset: bool = typer.Option(
            False, "--reset", help="Delete the pipeline's data and checkpoint first."
        ),
        live: bool = typer.Option(True, help="Show the live view, where this is a terminal."),
        serve: bool = typer.Option(False, "--serve", help="Serve the dashboard beside it."),
        port: int | None = typer.Option(
            None, min=0, max=65535, help="Of the dashboard; by default 8787 or a free one."
        ),
        ledger: str | None = typer.Option(None, "--ledger", "-l", hidden=True),  # to say where
    ) -> None:
        """Run a pipeline: summarise its source until stopped, or --once.

        Ctrl-C and SIGTERM end it after the batch at hand. Its exit status is not 0 where more
        records were rejected than the file's `max_rejected` allows, or with --once where it was
        stopped.
        """
        from muntin.spec_file import with_places

        check_counting(
            context, port=(serve, "with --serve"), live=(not (once and live), "without --once")
        )
        with logged(), stopping() as stop:
            if ledger is not None:
                raise SpecError(
                    f"--ledger: the pipeline file says where its ledger is: write the entry "
                    f"ledger: {shown_url(ledger)} into {pipeline}"
                )
            if append and reset:
                raise SpecError("--append keeps the data and --reset deletes them: choose one")
            mode = "append" if append else "overwrite" if reset else "continue"
            with with_places(pipeline):
                spec, progress = _run(
                    pipeline, stop, mode, once=once, live=live, serve=serve, port=port
                )
        check_rejected(spec, progress)
        if once and stop.is_set():  # what a scheduler would start next waits for all that is there
            raise typer.Exit(128 + stop.signal)


def _run(
    file: Path, stop: Stop, mode: Mode, *, once: bool, live: bool, serve: bool, port: int | None
) -> tuple[Pipeline, Progress]:
    from muntin.cli.view import follow
    from muntin.ledger.open import open_ledger
    from muntin.spec import Pipeline

    needs("spark", "muntin run")
    from muntin.spark.source import check_source

    watched = PipelineFile(file)  # as it is before it is read: Spark takes its time to start
    spec = Pipeline.of(file)
    if spec.sites is not None:
        from muntin.sites.site import token_for

        token_for(spec.sites)  # a missing one is an error now, not after Spark has started
    began = time.monotonic()
    ledger = None
    with ExitStack() as ending:
        if serve:
            check_source(spec.source)  # before a ledger is made, as where a stream makes it
            ledger = open_ledger(spec.ledger_url)
            ending.callback(beside(ledger, port, begun=stop.has_begun).stop)
        ending.callback(stop_spark)
        stream = muntin.stream(None, spec, ledger=ledger, once=once, mode=mode)
        ending.callback(stream.stop)
        if stream.ingest is None:  # by Spark Connect: the view does not wait for the first batch
            open_ledger(spec.ledger_url).close()
        stop.begun(stream.ending)
        for name in spec.sites.names if spec.sites else ():
            from muntin.sites.site import Site

            site = Site(stream.ledger, spec, name)
            site.start()
            ending.callback(site.stop)

        def tick() -> None:
            watched.take_over(stream)
            if stop.is_set():
                stream.stop()

        follow(stream, tick, live=live and not once)
    print_progress(stream.pipeline, stream.progress, time.monotonic() - began)
    return stream.pipeline, stream.progress


class PipelineFile:
    """A pipeline file, which is taken over where it has changed since it was read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = state_of(path)
        self._again_at = math.inf

    def take_over(self, stream: Stream | SinkStream) -> None:
        """A wrong one is reported and not taken; where a store is away, it is taken later."""
        path, state = self._path, state_of(self._path)
        if state is None:  # who replaces it may have taken it away for a moment
            return
        known = state == self._seen
        if known and time.monotonic() < self._again_at:
            return
        self._seen, self._again_at = state, math.inf
        try:
            stream.reconfigure(path)
            typer.echo(f"{path}: taken over, as it is now", err=True)
        except MuntinError as problem:
            later = ""
            if isinstance(problem, LedgerError) and not isinstance(problem, LedgerConflict):
                self._again_at = time.monotonic() + AGAIN_SECONDS
                later = " (it is tried again)"
            said = f"{path} is not taken over, the pipeline goes on as before{later}: {problem}"
            if not known or not later:
                typer.echo(said, err=True)


def check_rejected(spec: Pipeline, progress: Progress) -> None:
    """An error where a larger share was rejected than the file allows."""
    share = progress.rejected / progress.read if progress.read else 0.0
    if share <= spec.max_rejected:
        return
    raise SourceError(
        f"{progress.rejected:,} of {progress.read:,} records were rejected ({share:.1%}), more "
        f"than max_rejected: {spec.max_rejected:g} allows; the others are in the ledger. See why:  "
        f"muntin rejected --ledger {shown_url(spec.ledger_url)}"
    )


def print_progress(spec: Pipeline, progress: Progress, seconds: float) -> None:
    rate = progress.read / progress.seconds if progress.seconds else 0.0
    closed = ", ".join(f"{n:,} {reason}" for reason, n in sorted(progress.windows.items()))
    for name, value in (
        ("events", f"{progress.read:,}"),
        ("windows closed", closed or "0"),
        ("late", f"{progress.late:,}"),
        ("rejected", f"{progress.rejected:,}"),
        ("seconds", f"{progress.seconds:.2f} in batches, {seconds:.2f} in all"),
        ("events a second", f"{rate:,.0f}"),
    ):
        typer.echo(f"{name:>16}  {value}")
    if progress.rejected and progress.rejected <= progress.read * spec.max_rejected:
        typer.echo(f"see why:  muntin rejected --ledger {shown_url(spec.ledger_url)}")
