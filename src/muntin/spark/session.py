"""The Spark session, with the settings that Muntin relies on, each with its reason."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

JAVA_MIN = 17
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
SETTINGS: dict[str, str] = {
    # four tries a task: a Python worker that dies does not end the query
    "spark.master": "local[*,4]",
    # nothing listens beyond this machine
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # over TCP each task waits 40 ms (Nagle's algorithm and delayed acknowledgement) for Python
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
    "spark.python.daemon.module": "muntin.spark.daemon",  # ends idle workers quietly
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # naive timestamps are UTC, on every machine
    "spark.sql.session.timeZone": "UTC",
    # with a limit in bytes, Spark adds up all columns after each row: half of the time that rows
    # take to Python; their number bounds a batch
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    # partials are collected; 1g would refuse some hundred thousand drivers a pane
    "spark.driver.maxResultSize": "4g",
    # above 1m, results would go through the block manager and its network
    "spark.task.maxDirectResultSize": "64m",
    "spark.driver.memory": "2g",
    # the default of 200 costs seconds a batch on a laptop; our own jobs do not shuffle
    "spark.sql.shuffle.partitions": "8",
    # flipped bits in checkpoints are refused
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "true",
    "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
    # names and values of a data source may be wrong: an error, not a null
    "spark.sql.caseSensitive": "true",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{LOG_SETTINGS}",
}
# For what runs for minutes: Java compiles once and quickly, which halves the work of a start.
SHORT_RUN = {
    "spark.driver.extraJavaOptions": (
        f"{SETTINGS['spark.driver.extraJavaOptions']} -XX:TieredStopAtLevel=1"
    )
}


def session(name: str = "muntin", settings: Mapping[str, str] | None = None) -> SparkSession:
    """The active session, or a new one with `SETTINGS` and then the pipeline's own settings.

    Raises
    ------
    SourceError
        Java is missing or too old; names the command that installs it.
    """
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None:  # asking Java for its version takes 0.1 s
        check_java()
    # workers must be this very Python, with this very Muntin
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if sys.platform == "darwin":  # else forked workers may be ended by macOS (SPARK-51558)
        os.environ.setdefault("OBJC_DISABLE_INITIALIZE_FORK_SAFETY", "YES")
    builder = SparkSession.builder.appName(name)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def start_worker(spark: SparkSession) -> None:
    """Run an empty task, so that the Python daemon is there when the first batch comes.

    Raises
    ------
    SourceError
        Spark cannot start Python: tells why, and which one it should take.
    """

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    try:
        spark.range(1, numPartitions=1).mapInArrow(same, "id bigint").toArrow()
    except Exception as problem:
        raise SourceError(
            f"Spark's Python workers do not start ({_why(str(problem))}): "
            f"unset PYSPARK_PYTHON, or set it to {sys.executable}"
        ) from None


def _why(told: str) -> str:
    """The line that says it, in Spark's account of a task that failed."""
    of_python, found, _ = told.partition("PYTHONPATH was:")  # stands behind Python's own trace
    lines = of_python if found else told.partition("Lost task")[2].partition("): ")[2] or told
    lines = lines.strip().splitlines()
    return lines[-1 if found else 0].strip()[:500]


def java_version() -> tuple[int | None, str]:
    """Major version of the Java that Spark will use (None where there is none), and its path."""
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not command or not os.path.exists(command):
        return None, command or ""
    try:
        said = subprocess.run(  # noqa: S603 (the user's own Java)
            [command, "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, command
    for word in (said.stderr + said.stdout).split('"')[1::2]:
        parts = word.split(".")
        major = parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0]
        if major.isdigit():
            return int(major), command
    return None, command


def java_remedy() -> str:
    """The one command that installs Java on this platform."""
    if sys.platform == "darwin":
        return "brew install --cask temurin@17"  # a plain openjdk would not be on the PATH
    for tool, command in (
        ("apt-get", "sudo apt-get install -y openjdk-17-jre-headless"),
        ("dnf", "sudo dnf install -y java-17-openjdk-headless"),
        ("pacman", "sudo pacman -S jre17-openjdk-headless"),
        ("apk", "sudo apk add openjdk17-jre-headless"),
        ("zypper", "sudo zypper install java-17-openjdk-headless"),
    ):
        if shutil.which(tool):
            return command
    return "install OpenJDK 17 with your package manager"


def check_java() -> None:
    """SourceError where there is no Java that Spark can use."""
    major, path = java_version()
    if major is None:
        where = f" (JAVA_HOME points to {path})" if os.environ.get("JAVA_HOME") else ""
        raise SourceError(
            f"Spark needs Java {JAVA_MIN}, and none was found{where}: {java_remedy()}"
        )
    if major < JAVA_MIN:
        raise SourceError(f"Spark needs Java {JAVA_MIN}; {path} is Java {major}: {java_remedy()}")
