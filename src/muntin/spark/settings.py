"""What a Spark session of ours is started with: defaults, each with its reason, under what the
user has said elsewhere (spark-submit, PYSPARK_SUBMIT_ARGS, spark-defaults.conf, the pipeline)."""

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
SETTINGS: dict[str, str] = {
    # four tries a task: a Python worker that dies does not end the query
    "spark.master": "local[*,4]",
    # over TCP each task waits 40 ms (Nagle's algorithm and delayed acknowledgement) for Python
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # it asks Java at each column where in the program it was made, and imports IPython where it is
    # there: most of a second of each start, to name a line of ours in Spark's errors
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # above 1m, results would go through the block manager and its network
    "spark.task.maxDirectResultSize": "64m",
    # the default of 200 costs seconds a batch on a laptop; our own jobs do not shuffle
    "spark.sql.shuffle.partitions": "8",
    # flipped bits in the state of a user's own operators are refused
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "true",
    "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{LOG_SETTINGS}",
    # ORC's times without a zone are read in Java's, whatever the session's
    "spark.driver.defaultJavaOptions": "-Duser.timezone=UTC",
    "spark.executor.defaultJavaOptions": "-Duser.timezone=UTC",
}
# Spark keeps what its page would show of a thousand batches, page or not: megabytes of plans.
NO_PAGE: dict[str, str] = {
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.sql.ui.retainedExecutions": "20",
}
READING: dict[str, str] = {
    # naive timestamps are UTC, on every machine
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # names and values of a data source may be wrong: an error, not a null
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "true",
    # a text is that time or date, or none: to the older parser 05:60 is 06:00
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # dates before 1582 are those that stand in the file, as Arrow reads them
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    # what stands in JSON for a text, else 12.50 would be 12.5; and what Spark adds to its columns
    "spark.sql.json.enableExactStringParsing": "true",
    "spark.sql.columnNameOfCorruptRecord": "_corrupt_record",
    # fields are read as Spark reads them by itself: "x" is a text, \\d in one is d
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    # Spark has no nanoseconds and would refuse the file: `source` makes timestamps of them
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    # with a limit in bytes, Spark adds up all columns after each row: half of the time that rows
    # take to Python; their number bounds a batch
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    # a worker that is given rows and answers nothing for so long hangs: the task runs again; what
    # a task sends last, it makes in seconds
    "spark.sql.execution.pyspark.udf.idleTimeoutSeconds": "300",
    "spark.sql.execution.pyspark.udf.killOnIdleTimeout": "true",
}
"""On which it depends how a source is read: also where the session is the user's, in a copy."""
ONE_MACHINE: dict[str, str] = {
    # nothing listens beyond this machine
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # else a batch of 20,000 files begins with 10,000 tasks that each look for two
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
}
DAEMON: dict[str, str] = {
    "spark.python.daemon.module": "muntin.spark.daemon",  # ends idle workers quietly
}
# For what runs for minutes: Java compiles once and quickly, which halves the work of a start.
SHORT_RUN = {
    "spark.driver.extraJavaOptions": (
        f"{SETTINGS['spark.driver.extraJavaOptions']} -XX:TieredStopAtLevel=1"
    )
}
_OF_OPTION = {
    "--master": "spark.master",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--name": "spark.app.name",
    "--py-files": "spark.submit.pyFiles",
    "--archives": "spark.archives",
}
_GIB = 1 << 30
_UNITS = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": _GIB, "t": 1 << 40}


def settings_for(own: Mapping[str, str]) -> dict[str, str]:
    """What to start a session with: `own`, and our defaults for what nobody has said. What was said
    outside is left out: Spark knows it."""
    outside = said_outside()
    said = {**outside, **own}
    if "SPARK_REMOTE" in os.environ or "spark.remote" in said:
        return {**READING, **own}  # the rest was decided where that session's server was started
    found = {**SETTINGS, **READING}
    if on_one_machine(said.get("spark.master", SETTINGS["spark.master"])):
        found |= ONE_MACHINE | DAEMON
    elif not (said.get("spark.submit.pyFiles") or said.get("spark.archives")):
        found |= DAEMON  # with those, it starts before they are there
    if said.get("spark.ui.enabled", "false").lower() == "false":
        found |= NO_PAGE
    found |= _memory(said)
    return {key: value for key, value in found.items() if key not in outside} | dict(own)


def on_one_machine(master: str) -> bool:
    """Does all of Spark run here? `local[2]`, `local-cluster[2,1,1024]`."""
    return master.startswith("local")


def worker_python(said: Mapping[str, str]) -> str:
    """The Python for tasks: as Spark looks for it, and this very one where nobody has said."""
    return said.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable


def said_outside() -> dict[str, str]:
    """Settings from spark-submit, from PYSPARK_SUBMIT_ARGS, and from spark-defaults.conf."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started this process
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()  # pyright: ignore
        return dict(SparkConf().getAll())
    submitted = list(_submitted(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))))
    files = [Path(value) for option, value in submitted if option == "--properties-file"]
    usual = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", ""), "conf")
    found = _read_properties(files[-1] if files else Path(usual, "spark-defaults.conf"))
    for option, value in submitted:
        if option in ("--conf", "-c"):
            name, _, text = value.partition("=")
            found[name.strip()] = text.strip()
    for option, value in submitted:  # these win over --conf
        if option in _OF_OPTION:
            found[_OF_OPTION[option]] = value
    return found


def _submitted(words: list[str]) -> Iterator[tuple[str, str]]:
    rest = iter(words)
    for word in rest:
        option, joined, value = word.partition("=")
        if option in (*_OF_OPTION, "--conf", "-c", "--properties-file"):
            yield option, value if joined else next(rest, "")


def _read_properties(file: Path) -> dict[str, str]:
    """As Java reads them, without its escapes."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        parts = re.match(r"\s*(spark\.[^\s=:]+)\s*[\s=:]\s*(.*?)\s*$", line)
        if parts:
            found[parts[1]] = parts[2]
    return found


def _memory(said: Mapping[str, str]) -> dict[str, str]:
    """The driver's memory, and how much of it results of tasks may take.

    Partials are collected. They are there twice until they are in Python: a job is refused
    rather than that the driver runs out of memory.
    """
    memory = said.get("spark.driver.memory")
    if memory is None and "PYSPARK_GATEWAY_PORT" in os.environ:
        memory = "1g"  # the driver runs already, with Spark's default
    size = _bytes_of(memory) if memory else min(8 * _GIB, max(2 * _GIB, _machine_bytes() // 4))
    found = {"spark.driver.maxResultSize": f"{max(64, size // 3 >> 20)}m"}
    return found if memory else {"spark.driver.memory": f"{size >> 20}m", **found}


def _bytes_of(text: str) -> int:
    parts = re.fullmatch(r"\s*(\d+)\s*([bkmgt]?)b?\s*", text.lower())
    return int(parts[1]) * _UNITS[parts[2]] if parts else _GIB


def _machine_bytes() -> int:
    try:
        here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0
    try:  # a container's share
        return min(here, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):
        return here
