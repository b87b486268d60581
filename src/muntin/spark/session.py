"""The Spark session: a new one, or a copy of the one that runs."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from muntin.errors import SourceError, needs
from muntin.spark.failures import plainly, reason, worker_error
from muntin.spark.java import check_java, recorded
from muntin.spark.settings import READING, on_one_machine, said_outside, settings_for, worker_python

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_ours: set[str] = set()  # applications that were started here
_with_workers: set[str] = set()  # and those that have run a Python task
_lending = threading.Lock()
_usual: list[str] = []  # Spark's Python, for each block of `own_python` that is at work
_EVALUATING = {
    "spark.sql.session.timeZone": ("UTC", "Etc/UTC", "GMT", "Z", "+00:00"),
    "spark.sql.ansi.enabled": ("true",),
    "spark.sql.legacy.timeParserPolicy": ("CORRECTED",),
}
"""Of `READING`, what the values of fields depend on, and all texts that mean the same."""
_LOG = logging.getLogger("muntin.spark")


def session(name: str = "muntin", settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session to read sources with: of our own, or a copy of the one that runs.

    A new one has the pipeline's own settings, those that were said outside (spark-submit,
    PYSPARK_SUBMIT_ARGS, spark-defaults.conf), and `settings.SETTINGS` where nobody has said. One
    that runs is left as it is: its copy shares all but SQL settings. Raises SourceError: Java is
    missing or too old, or Spark does not start; names the remedy.
    """
    needs("spark", "this")
    from pyspark.sql import SparkSession

    own = dict(settings or {})
    running = _running()
    if running is not None:
        return _with_settings(running, own)
    check_startable()
    chosen = settings_for(own)
    said = {**said_outside(), **chosen}
    os.environ["PYSPARK_PYTHON"] = worker_python(said)
    if on_one_machine(said.get("spark.master", "")):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if os.environ.get("LC_ALL") in ("C", "POSIX"):  # Python reads names as UTF-8; Java then, too
        os.environ["LC_ALL"] = "C.UTF-8"
    if sys.platform == "darwin":  # else forked workers may be ended by macOS (SPARK-51558)
        os.environ.setdefault("OBJC_DISABLE_INITIALIZE_FORK_SAFETY", "YES")
    builder = SparkSession.builder.appName(said.get("spark.app.name", name))
    for key, value in chosen.items():
        builder = builder.config(key, value)
    try:
        with recorded(), _own_ctrl_c():
            started = builder.getOrCreate()
    except Exception as problem:
        raise SourceError(f"Spark does not start: {reason(problem)}") from None
    if is_classic(started):
        _ours.add(started.sparkContext.applicationId)
        _say_once_that_java_ended(started)
    return started


def _say_once_that_java_ended(spark: SparkSession) -> None:
    """We say it in a line; PySpark's server of accumulators would print 20 of its own."""
    server: Any = spark.sparkContext._accumulatorServer  # pyright: ignore
    usual = server.handle_error

    def handle_error(*given: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError):
            usual(*given)

    server.handle_error = handle_error


def check_startable() -> None:
    """SourceError where a Spark is to be started here, and there is no Java for it."""
    if not is_elsewhere() and _running() is None:
        check_java()


@contextmanager
def _own_ctrl_c() -> Iterator[None]:
    """Spark's handler of Ctrl-C cancels the batch at hand: not where somebody else has theirs. Nor
    for the second between the context and the session: it is never put in."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or handler is signal.default_int_handler:
        yield
        return
    from pyspark.core import context as found

    context: Any = found
    before = context.signal
    context.signal = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: handler)
    try:
        yield
    finally:
        context.signal = before


def is_classic(spark: SparkSession) -> bool:
    """Has the session a SparkContext in this process? One of Spark Connect has none."""
    return hasattr(spark, "_jsparkSession")


def is_elsewhere(data: DataFrame | None = None) -> bool:
    """Is a DataFrame, or the session that would be taken, one of Spark Connect?"""
    if data is not None:
        return not is_classic(data.sparkSession)
    return bool({"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"} & os.environ.keys())


@contextmanager
def own_python(spark: SparkSession) -> Iterator[None]:
    """Functions that are sent to tasks in this block run in the Python that was asked for, or, in
    local mode, in this very one.

    For a session that the user has started Spark takes the `python3` of the PATH, which may lack
    Muntin, even against the session's `spark.pyspark.python`, unless spark-submit has seen that.
    """
    context = spark.sparkContext if is_classic(spark) else None
    if context is None or os.environ.get("PYSPARK_PYTHON"):
        yield
        return
    with _lending:
        _usual.append(_usual[0] if _usual else context.pythonExec)  # threads' blocks overlap
        here = sys.executable if on_one_machine(context.master or "") else _usual[0]
        context.pythonExec = context.getConf().get("spark.pyspark.python") or here
    try:
        yield
    finally:
        with _lending:
            usual = _usual.pop()
            if not _usual:
                context.pythonExec = usual


def register(spark: SparkSession) -> None:
    """Make `format("muntin")` known to a session: for `read`, `write` and `writeStream`.

    Parameters
    ----------
    spark : SparkSession
        Classic, or of Spark Connect. The Python of its driver and of its workers must have Muntin.

    Examples
    --------
    >>> muntin.register(spark)
    >>> spark.read.format("muntin").option("ledger", "sqlite:////var/flights.db").option(
    ...     "select", "SELECT origin, count FROM flights(origin) FOR ALL").load()
    >>> df.writeStream.format("muntin").option("spec", "flights.yaml").option(
    ...     "checkpointLocation", "/var/flights").start()
    """
    needs("spark", "muntin.register")
    from muntin.spark.data_source import MuntinSource

    with plainly(), own_python(spark):
        spark.dataSource.register(MuntinSource)


def _running() -> SparkSession | None:
    """This thread's session, or that of another one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is not None:
        return found
    found = SparkSession._instantiatedSession
    if found is not None and found._sc._jsc is not None:
        return found
    context = SparkContext._active_spark_context
    return SparkSession(context) if context is not None else None


def copied(running: SparkSession) -> SparkSession:
    """Another one of the same application, with settings of its own."""
    from pyspark.sql import SparkSession

    java: Any = running._jsparkSession
    return SparkSession(running.sparkContext, jsparkSession=java.cloneSession())


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A table as a DataFrame of a copy."""
    with as_active(spark):  # Spark makes it so, and leaves it
        return spark.createDataFrame(table)


@contextmanager
def as_active(spark: SparkSession) -> Iterator[None]:
    """Spark parses types and expressions by the settings of the thread's active session: in this
    block, that is this one; behind it, as before, the user's.

    What the user does next (a format that they registered, `getOrCreate`) would be of a copy.
    """
    if not is_classic(spark):  # of Connect, which makes none active
        yield
        return
    kind: Any = type(spark)
    before = kind.getActiveSession()  # none in a thread that has asked for none
    known = kind._activeSession
    java: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    active = java.org.apache.spark.sql.classic.SparkSession
    active.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        kind._activeSession = known
        if before is None:
            active.clearActiveSession()
        else:
            active.setActiveSession(before._jsparkSession)


def _with_settings(running: SparkSession, own: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException

    if not is_classic(running):
        return running
    is_ours = running.sparkContext.applicationId in _ours
    if is_ours and not own:
        return running
    copy = copied(running)
    ignored = []
    for key, value in {**({} if is_ours else READING), **own}.items():
        if key in READING or copy.conf.isModifiable(key):
            try:
                copy.conf.set(key, value)
            except PySparkException as problem:
                raise SourceError(f"spark: {key}: {value}: {reason(problem)}") from None
        elif running.sparkContext.getConf().get(key) != value:
            ignored.append(key)
    if ignored:
        _LOG.warning("spark: %s: not applied, as Spark runs already", ", ".join(ignored))
    return copy


def check_evaluates(spark: SparkSession, fields: Mapping[str, str]) -> None:
    """SourceError where fields would come out otherwise than with our settings: of a session of
    Spark Connect no copy is made."""
    if not fields or is_classic(spark):
        return
    for key, same in _EVALUATING.items():
        value = str(spark.conf.get(key))
        if value not in same:
            raise SourceError(
                f"fields: {key} of your session is {value}, which would change what they are: "
                f'spark.conf.set("{key}", "{same[0]}")'
            )


def start_worker(spark: SparkSession) -> None:
    """Run an empty task, so that the Python daemon is there when the first batch comes, or an error
    tells why there is none: once for an application, whose daemon stays."""
    application = spark.sparkContext.applicationId if is_classic(spark) else None
    if application in _with_workers:
        return

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    try:
        with own_python(spark):
            spark.range(1, numPartitions=1).mapInArrow(same, "id bigint").toArrow()
    except Exception as problem:
        raise worker_error(problem) from None
    if application is not None:
        _with_workers.add(application)
