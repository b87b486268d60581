"""What a worker raised or Spark refused, without the JVM's and Python's traces around it."""

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from muntin import errors
from muntin.errors import MuntinError, SourceError

_PREFIX = "muntin.errors."
_TOLD_MAX = 500  # characters
AS_IT_IS = (
    ", or let Arrow read each as it is: without fields, and where no file lacks a column that the "
    "pipeline reads"
)
ONE_TYPE = (
    "{0}: column '{1}' is {3} there, {2} to Spark, which knows one type: write the files alike, "
    "name the wider type as schema: under source" + AS_IT_IS
)
DAMAGED = (
    ". Where it is damaged, or not written to its end, put a whole one in its place, under its "
    "name; or delete it, and go on without its events by  "
    "spark: {spark.sql.files.ignoreMissingFiles: true}"
)
_COLON = (
    ". Spark cannot open a file with ':' in its name: give it another; where a run that ended had "
    "planned to read it, start with  spark: {spark.sql.files.ignoreMissingFiles: true}"
)
ON_A_ROW = (
    ". Where a row does that to an expression (under fields, or the DataFrame's own), it ends each "
    "run: write try_cast, try_divide, try_add and the like, which give null (a field that is "
    "stored keeps its expression: take it out, and name the new one anew)"
)
NO_TOPIC = (
    "source: Kafka has no such topic, or none any more: make it, or correct the name under "
    "subscribe: or assign:"
)
# advice by which sums would wrap unseen
_OF_NO_ROW = ".CHARSET", "CONF_VALUE.TYPE_MISMATCH"  # but of a reader's option, or of a setting
_ANSI = re.compile(r' If necessary set "spark\.sql\.ansi\.enabled" .*?(?= SQLSTATE)')
# Python's own account of what a user's files may do to a worker
_OF_FILES = re.compile(
    r"^(?:\w+\.)*(FileNotFoundError|PermissionError|IsADirectoryError|OSError|ArrowInvalid): (.+)$",
    re.MULTILINE,
)
_NO_MUNTIN = re.compile(
    r"No module named '?((numba|pyarrow|numpy)|muntin|pydantic|pydantic_core|google_crc32c|yaml)\b"
)
_NAMED = r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)?)\] "
_OF_SPARK = re.compile(rf"{_NAMED}(.+?)(?= {_NAMED}|$)", re.MULTILINE)
_QUERY = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")
_CAUSE = re.compile(r"^\s*Caused by: (?:\w+\.)*(\w+: .+)$", re.MULTILINE)
# of Kafka, by Spark's check and by the client's
_LOST = re.compile(
    r"(?:KAFKA_DATA_LOSS|not available in Kafka any more)"
    r".*?Reason:\s+(?P<said>.*?)\s*(?:SQLSTATE|\n\s+at |$)"
    r"|OffsetOutOfRangeException: .*?offset=(?P<offset>\d+).*? for partition (?P<part>\S+)",
    re.DOTALL,
)
_MEANT = {
    # of a table whose older snapshots were dropped before a stream went on
    r"snapshot (\d+),? the snapshot was expired or removed": (
        "source: Iceberg's snapshot {0}, up to which the checkpoint has read, has expired: name "
        'another folder under checkpoint: and start with mode="append" (--append) and the option '
        "stream-from-timestamp, from which on nothing was counted; or count all anew"
    ),
    "UnknownTopicOrPartitionException": NO_TOPIC,
    r"kafka\.common\.errors\.TimeoutException": (
        "source: Kafka does not answer any more. What was committed stays; start again once it "
        "does. To wait longer for it, a minute a try, write  fetchOffset.numRetries: 60"
    ),
    # of files that a checkpoint names, where the source is another folder now
    r"Wrong basePath (.+?) for the root path: (.+?)(?: SQLSTATE|\n|$)": (
        "source.path: is {0} now, and the checkpoint is that of a query that has read {1}: leave "
        "the path as it was; or name another folder under checkpoint: and start with "
        'mode="append" (--append), to add the files that lie there to what is stored, also those '
        "that were counted by another path"
    ),
    # of a Parquet file whose column is of another type than in the first
    r"DATA_TYPE_MISMATCH\].*? reading file (?:file://)?(\S+)\. .*? Parquet column "
    r"\[(.*?)\]\. Expected Spark type (\w.*?), actual Parquet type (\w+)": ONE_TYPE,
    r"IllegalArgumentException: nanos > 999999999 or < 0": (
        "source: Spark cannot read times before 1970 with parts of a second from ORC files that "
        "others wrote, such as Arrow: write the files by Spark, or as Parquet; or leave their "
        "column out, by a schema of the others"
    ),
    r"UnsupportedOperationException: org\.apache\.parquet\.column\.values\.dictionary": (
        "source: in one of the Parquet files a column has integers without a sign, and in the "
        "first one others, and Spark, which does not say where, knows one type: write the files "
        "alike, read them with a schema of a wider type (decimal(20, 0) holds those of 64 bits, "
        "bigint all others)" + AS_IT_IS
    ),
}
"""What Spark and its connectors say, and what it means."""
_JAVA_GONE = (
    "Spark's process of Java has ended: by a signal, or because memory was short (the system's log "
    "tells, or what it wrote above). What was committed stays; start again to go on from there"
)
_WORKER_GONE = (
    "one of Spark's Python workers has ended, as often as its task may fail "
    "(spark.task.maxFailures): by a signal, or because memory was short (the system's log tells). "
    "What was committed stays; start again to go on from there"
)
_STOPPED = re.compile("Cannot call methods on a stopped SparkContext|RpcEnv already stopped")
_UNREAD = ("FAILED_READ_FILE.NO_HINT", "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER")
_DENIED = "(Permission denied)"
_FULL = "No space left on device"
_SAYS_NOTHING = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR")


@contextmanager
def plainly() -> Iterator[None]:
    """Turn an error of ours that Spark brings from a worker back into itself."""
    try:
        yield
    except MuntinError:
        raise
    except Exception as problem:
        ours = worker_error(problem)
        if ours is problem:
            raise
        raise ours from None


def worker_error(problem: Exception) -> Exception:
    """The MuntinError that a worker raised, or that says in a line why no worker could. `problem`
    itself where it is something else: then its trace is worth having."""
    if is_java_gone(problem):
        return SourceError(_JAVA_GONE)
    text = str(problem)
    if isinstance(problem, FileNotFoundError):  # of this process: elsewhere its trace names it
        text = f"FileNotFoundError: {text}"
    for line in reversed(text.splitlines()):
        name, _, message = line.strip().partition(": ")
        if name.startswith(_PREFIX):
            kind = getattr(errors, name.removeprefix(_PREFIX), None)
            if isinstance(kind, type) and issubclass(kind, MuntinError):
                return kind(message)
    if "Python worker exited unexpectedly" in text:
        return SourceError(_WORKER_GONE)
    return _start_error(text) or _source_error(problem, text) or problem


def is_java_gone(problem: Exception) -> bool:
    """Did a call fail because Spark's process of Java has ended?"""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    if isinstance(problem, Py4JJavaError):
        try:
            str(problem)  # which asks Java, that may have ended since
        except (ConnectionError, Py4JError):
            return True
        return False
    if isinstance(problem, PySparkException):  # PySpark may say what it could not do without
        before = problem.__context__
        return isinstance(before, Exception) and is_java_gone(before)
    return isinstance(problem, ConnectionError | Py4JError)


def told_once() -> None:
    """Leave out what Py4J logs with all traces: a stream's own error says it in a line."""
    for name in ("", "py4j.clientserver"):  # filters are not inherited
        logging.getLogger(name).addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    problem = record.exc_info and record.exc_info[1]
    is_ours = isinstance(problem, MuntinError)
    is_told = is_ours or (isinstance(problem, Exception) and is_java_gone(problem))
    return not (is_told and "py4j" in record.pathname)


@contextmanager
def unless_java_is_gone() -> Iterator[None]:
    """For calls that let go of what Java has: it has none of it any more, or is letting go."""
    try:
        yield
    except Exception as problem:
        if not is_java_gone(problem) and not _STOPPED.search(str(problem)):
            raise


def reason(problem: Exception) -> str:
    """The line of Spark's account that says it."""
    text = str(problem)
    causes = _CAUSE.findall(text)
    for name, message, _ in _OF_SPARK.findall(text):
        cause = causes[-1] if causes else ""
        if name.startswith("FAILED_READ_FILE") and _DENIED in cause:
            return _cut(f"{cause.partition(': ')[2]}: let this user read it")
        if name in _UNREAD and causes:
            message = f"{message.partition('SQLSTATE')[0].rstrip(' .')}: {cause}"
            if "Relative path in absolute URI" in cause:
                return _cut(f"[{name}] {message}") + _COLON
        if "SQLSTATE: 22" in message and not name.endswith(_OF_NO_ROW):
            return _cut(_ANSI.sub("", f"[{name}] {message}")) + ON_A_ROW
        if name not in _SAYS_NOTHING:
            return _cut(f"[{name}] {message}") + (DAMAGED if name in _UNREAD else "")
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith("An error occurred while calling")]
    if causes and (not said or said[0].endswith("awaitResult:")):
        said = causes[-1:]
    line = said[0] if said else type(problem).__name__
    if _QUERY.match(line):  # of several lines, perhaps
        whole = re.split(r" SQLSTATE|\n=== |\n\s+at ", text[text.index(line) :])[0]
        line = _QUERY.sub("", " ".join(whole.split()))
        causes = _CAUSE.findall(str(getattr(problem, "_stackTrace", "")))  # as PySpark has it
        if causes and causes[-1].partition(": ")[2] not in line:
            line += f": {causes[-1]}"
    return _cut(line)


def _start_error(text: str) -> SourceError | None:
    """Why Spark could not start Python with all that tasks need."""
    missing = _NO_MUNTIN.search(text)
    if missing:  # missing[2] does not go along
        ship = "" if missing[2] else "send it along from a session of yours by muntin.ship(spark); "
        return SourceError(
            f"Spark's workers have no {missing[1]}: pip install muntin=={version('muntin')} in the "
            "Python that they run, on each machine, which PYSPARK_PYTHON or spark.pyspark.python "
            f"names; or {ship}in local mode, unset PYSPARK_PYTHON or set it to {sys.executable}"
        )
    is_start = "Cannot run program" in text or "Error from python worker" in text
    other = re.search(r"\[PYTHON_VERSION_MISMATCH\] (.+?),", text)
    if is_start or other:
        return SourceError(
            f"Spark's Python workers do not start ({other[1] if other else _why(text)}): "
            f"unset PYSPARK_PYTHON, or set it to {sys.executable}"
        )
    return None


def _source_error(problem: Exception, text: str) -> SourceError | None:
    """What is wrong with the files, or with what Spark was asked for."""
    from pyspark.errors import PySparkException

    of_files = _OF_FILES.findall(text)
    if _FULL in text:
        place = "the disk of Spark's checkpoint, or of its own files (spark.local.dir), is full"
        said = _cut(of_files[-1][1]) if of_files else f"{place}: {_FULL}"
        return SourceError(f"{said}. What was committed stays: free space, then start again")
    if of_files:
        name, message = of_files[-1]
        gone = name == "FileNotFoundError" or "No such file" in message
        remedy = ": is it gone? It must stay, where all workers see it, until it was read"
        return SourceError(_cut(message) + remedy if gone else _cut(f"{name}: {message}"))
    lost = _LOST.search(text)
    if lost:
        said = f"{lost['part']} has no offset {lost['offset']} any more."
        if lost["said"]:
            said = _cut(" ".join(lost["said"].split()).partition(" This could be")[0])
        again = ""
        if "was changed from" in said:  # failOnDataLoss: false would pass over what is there now
            again = (
                ". Where the topic was made again, is another one, or never held what "
                "startingOffsets say, name another folder under checkpoint: and start with "
                'mode="append" (--append), to add all that it holds to what is stored. Where the '
                "servers were those of another cluster, name the right ones again and delete the "
                "newest file under offsets/ in the checkpoint: it plans a batch that was not "
                "counted, by which records would be counted twice"
            )
        return SourceError(
            "source: records that were not taken yet are gone from Kafka (by its retention, or "
            f"with their topic): {said} To go on without them, write failOnDataLoss: false{again}"
        )
    for words, meant in _MEANT.items():
        if found := re.search(words, text):
            return SourceError(meant.format(*found.groups()))
    from_java = isinstance(problem, PySparkException) or type(problem).__module__.startswith("py4j")
    if not from_java or "Traceback (most recent call last)" in text:
        return None
    return SourceError(f"Spark: {reason(problem)}")


def _why(text: str) -> str:
    """The line that says it, in Spark's account of a task that failed."""
    of_python, found, _ = text.partition("PYTHONPATH was:")  # stands behind Python's own trace
    lines = of_python if found else text.partition("Lost task")[2].partition("): ")[2] or text
    return _cut(lines.strip().splitlines()[-1 if found else 0])


def _cut(line: str) -> str:
    return line.strip()[:_TOLD_MAX]
