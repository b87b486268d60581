"""Java: is it there, which command installs it, and the machines that Spark has started here."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from muntin.errors import SourceError

JAVA_MIN = 17
UNSET_SPARK_HOME = "unset SPARK_HOME: pyspark brings its own Spark"
END_SECONDS = 8.0  # for Java to delete its temporary files
_ADDRESS_FILE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_INSTALL = {
    "apt-get": "install -y openjdk-17-jre-headless",
    "dnf": "install -y java-17-openjdk-headless",
    "pacman": "-S jre17-openjdk-headless",
    "apk": "add openjdk17-jre-headless",
    "zypper": "install java-17-openjdk-headless",
}


class _Machine(subprocess.Popen[bytes]):
    """A process of Java's that PySpark starts; it keeps no hold of it until it is up."""

    _waitpid_lock: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address_file = (kwargs.get("env") or {}).get(_ADDRESS_FILE)
        _machines.append(self)


_machines: list[_Machine] = []


@contextmanager
def recorded() -> Iterator[None]:
    """Know the machines that are started in the block, from their first moment."""
    from pyspark import java_gateway as found

    java_gateway: Any = found
    before = java_gateway.Popen
    java_gateway.Popen = _Machine
    try:
        yield
    finally:
        java_gateway.Popen = before


def end_all() -> None:
    """End all machines that were recorded, and wait until they have ended. For a handler of
    signals, after which nothing else runs here."""
    for machine in _machines:
        machine._waitpid_lock = Lock()  # whoever was interrupted may hold the one before
        machine.terminate()
    for machine in _machines:
        try:
            machine.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            machine.kill()
            machine.wait()
        if machine.address_file:
            shutil.rmtree(os.path.dirname(machine.address_file), ignore_errors=True)


def class_of(thing: Any) -> str:
    """What Java calls an object's class, without its package."""
    return thing.getClass().getSimpleName()


def items_of(sequence: Any) -> Iterator[Any]:
    """Of a sequence of Scala's."""
    return map(sequence.apply, range(sequence.size()))


def java_version() -> tuple[int | None, str]:
    """Major version of the Java that Spark will use (None where there is none), and its path."""
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not command or not os.path.exists(command):
        return None, command or ""
    try:
        said = subprocess.run(  # noqa: S603 (the user's own Java)
            [command, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, command
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return (int(found[1]) if found else None), command


def spark_home_problem() -> str:
    """What is wrong with SPARK_HOME, whose Spark PySpark would start; "" where nothing is."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        return ""
    if not Path(home, "bin", "spark-submit").exists():
        return f"SPARK_HOME={home} holds no Spark"
    from pyspark import __version__

    for core in Path(home, "jars").glob("spark-core_*.jar"):
        there = core.stem.split("-")[2]
        if there.split(".")[:2] != __version__.split(".")[:2]:
            return f"SPARK_HOME={home} holds Spark {there}, and pyspark is {__version__}"
    return ""


def java_remedy() -> str:
    """The one command that installs Java on this platform, and has Spark find it."""
    if sys.platform == "darwin":
        found = "brew install --cask temurin@17"  # a plain openjdk would not be on the PATH
    else:
        there = (f"sudo {tool} {words}" for tool, words in _INSTALL.items() if shutil.which(tool))
        found = next(there, "install OpenJDK 17 with your package manager")
    return found + (" and unset JAVA_HOME" if os.environ.get("JAVA_HOME") else "")


@cache  # where there is one: to ask takes 0.1 s
def check_java() -> None:
    """SourceError where there is no Java that Spark can use, or another Spark."""
    if problem := spark_home_problem():
        raise SourceError(f"{problem}: {UNSET_SPARK_HOME}")
    major, path = java_version()
    if major is None:
        where = f" (JAVA_HOME points to {path})" if os.environ.get("JAVA_HOME") else ""
        raise SourceError(
            f"Spark needs Java {JAVA_MIN}, and none was found{where}: {java_remedy()}"
        )
    if major < JAVA_MIN:
        raise SourceError(f"Spark needs Java {JAVA_MIN}; {path} is Java {major}: {java_remedy()}")
