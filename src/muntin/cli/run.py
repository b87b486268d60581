"""`muntin run`: run a pipeline."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from muntin.progress import Progress
    from muntin.sites.site import Site
    from muntin.spark.stream import Stream
    from muntin.spec import Pipeline

WATCH_SECONDS = 1.0


def register(app: typer.Typer) -> None:
    @app.command()
    def run(
        pipeline: Path = typer.Argument(help="The pipeline file."),
        once: bool = typer.Option(False, "--once", help="Take all that is there, then stop."),
        append: bool = typer.Option(
            False, "--append", help="Let a new query add to a ledger that another has fed."
        ),
        reset: bool = typer.Option(
            False, "--reset", help="Delete the pipeline's data and checkpoint first."
        ),
        live: bool = typer.Option(True, help="Show the live view, where this is a terminal."),
        serve: bool = typer.Option(False, "--serve", help="Serve the dashboard beside it."),
        port: int = typer.Option(8787, min=0, max=65535, help="Of --serve; 0 takes a free one."),
    ) -> None:
        """Run a pipeline: summarise its source until stopped, or --once."""
        import time

        import muntin
        from muntin.cli.view import follow
        from muntin.errors import SpecError
        from muntin.spark.stream import checkpoint_beside
        from muntin.spec import Pipeline

        spec = Pipeline.of(pipeline)
        if append and reset:
            raise SpecError("--append keeps the data and --reset deletes them: choose one")
        if reset:
            _delete(Path(spec.checkpoint or checkpoint_beside(spec.ledger_url, spec.name)))
        if spec.sites is not None:
            from muntin.sites.site import token_for

            token_for(spec)  # a missing one is an error now, not after Spark has started
        began = time.monotonic()
        stream = muntin.stream(
            None,
            spec,
            once=once,
            mode="append" if append else "overwrite" if reset else "continue",
        )
        from muntin.cli.serve import beside

        server = beside(stream.ledger, port) if serve else None
        sites = _sites(spec, stream)
        try:
            with ctrl_c() as asked:

                def tick() -> None:
                    _reread(pipeline, stream)
                    if asked.is_set():
                        stream.stop()

                if live and not once:
                    follow(stream, spec, tick)
                else:
                    while not stream.await_termination(WATCH_SECONDS):
                        tick()
        except KeyboardInterrupt:
            typer.echo("stopping now", err=True)
        finally:
            for site in sites:
                site.stop()
            if server:
                server.stop()
            stream.stop()
            stop_spark()
        print_progress(spec, stream.progress, time.monotonic() - began)


def _sites(spec: Pipeline, stream: Stream) -> list[Site]:
    """This pipeline's part in a top k over several sites, where it has one."""
    if spec.sites is None:
        return []
    from muntin.sites.site import Site

    sites = [Site(stream.ledger, spec, name) for name in spec.sites.names]
    for site in sites:
        site.start()
    return sites


@contextmanager
def ctrl_c() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second one interrupts.

    An exception would come in the middle of a call to Java, and Spark's own handler also cancels
    the batch at hand.
    """
    asked = threading.Event()

    def first(*_: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        said = "\nstopping after the batch at hand; what was committed stays\n"
        os.write(2, said.encode())  # a handler may not wait for a lock that a print holds

    before = signal.signal(signal.SIGINT, first)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def stop_spark() -> None:
    """End Spark's processes now, in order, rather than when this one ends."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()


_read_at: dict[Path, float] = {}


def _reread(path: Path, stream: Stream) -> None:
    """Take over a pipeline file that has changed; a wrong one is reported and not taken."""
    from muntin.errors import MuntinError

    changed = path.stat().st_mtime if path.exists() else None
    last = _read_at.setdefault(path, changed or 0.0)
    if changed is None or changed == last:
        return
    _read_at[path] = changed
    try:
        stream.reconfigure(path)
        typer.echo(f"{path}: read again", err=True)
    except MuntinError as problem:
        typer.echo(f"{path} has changed and is not taken over: {problem}", err=True)


def _delete(checkpoint: Path) -> None:
    import shutil

    if checkpoint.is_dir():
        shutil.rmtree(checkpoint)


def print_progress(spec: Pipeline, progress: Progress, seconds: float) -> None:
    """What a run did."""
    rate = progress.read / progress.seconds if progress.seconds else 0.0
    closed = ", ".join(f"{n:,} {reason}" for reason, n in sorted(progress.windows.items()))
    for name, value in (
        ("events", f"{progress.read:,}"),
        ("panes", f"{len(progress.panes):,}"),
        ("windows closed", closed or "0"),
        ("late", f"{progress.late:,}"),
        ("rejected", f"{progress.rejected:,}"),
        ("seconds", f"{progress.seconds:.2f} in batches, {seconds:.2f} in all"),
        ("events a second", f"{rate:,.0f}"),
    ):
        typer.echo(f"{name:>16}  {value}")
    if progress.rejected:
        typer.echo(f"see why:  muntin rejected --ledger {spec.ledger_url}")
