"""A progress bar over the tasks of a Spark job."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from muntin.spark.failures import unless_java_is_gone
from muntin.spark.session import is_classic

if TYPE_CHECKING:
    from pyspark import SparkStageInfo
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.2


def tasks_at_hand(spark: SparkSession) -> tuple[int, int]:
    """Tasks of the stages that run: those that are done, and all; none where Java is gone."""
    stages: list[SparkStageInfo | None] = []
    with unless_java_is_gone():
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    running = [stage for stage in stages if stage is not None]
    return sum(s.numCompletedTasks for s in running), sum(s.numTasks for s in running)


def _is_shown() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # none, as of a service; one that only writes; closed
        return False


@contextmanager
def job_progress(show: bool | None, text: str) -> Iterator[None]:
    """Show the share of finished tasks while the block runs a job; `show` None: if a terminal."""
    if show is None:
        show = _is_shown()
    if not show or "pyspark" not in sys.modules:  # a table in memory is no job
        yield
        return
    from pyspark.sql import SparkSession
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    spark = SparkSession.getActiveSession()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} tasks"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=False,
    )
    done = threading.Event()

    def follow() -> None:
        item = bar.add_task(text, total=1)
        total = 1
        while not done.wait(POLL_SECONDS):
            completed, running = tasks_at_hand(spark) if spark and is_classic(spark) else (0, 0)
            if running:
                total = running
                bar.update(item, total=total, completed=completed)
        bar.update(item, total=total, completed=total)

    with bar:
        thread = threading.Thread(target=follow, name="muntin-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
