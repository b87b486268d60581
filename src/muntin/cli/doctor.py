"""`muntin doctor`: is everything here that Muntin needs? With the remedy where not."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

SERVER_PORT = 8787
PACKAGES: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None]] = {
    # name: (at least, below)
    "pyspark": ((4, 1), (5,)),
    "pandas": ((2, 2), (3,)),
    "pyarrow": ((18,), None),
    "numpy": ((2,), None),
    "numba": ((0, 61), None),
    "duckdb": ((2,), None),
    "sqlglot": ((30,), (31,)),
    "pydantic": ((2, 10), (3,)),
}

Finding = tuple[bool, str, str]
"""Good or not, what was looked at, and the remedy."""


def register(app: typer.Typer) -> None:
    @app.command()
    def doctor(
        ledger: str | None = typer.Option(
            None, help="Read and check all of this ledger too, such as sqlite:///flights.db."
        ),
    ) -> None:
        """Check Java, Python, packages, ports and folders; print the remedy for what is wrong."""
        wrong = 0
        for good, what, remedy in (*findings(), *(_ledger(ledger) if ledger else ())):
            mark = typer.style("ok   ", fg="green") if good else typer.style("WRONG", fg="red")
            typer.echo(f"{mark}  {what}")
            if not good:
                wrong += 1
                typer.echo(f"       remedy: {remedy}")
        if wrong:
            typer.echo(f"\n{wrong} thing{'s' if wrong > 1 else ''} to put right")
            raise typer.Exit(1)
        typer.echo("\nall is well")


def findings() -> Iterator[Finding]:
    """Everything that is looked at, in order."""
    yield from _java()
    yield _python()
    yield _worker_python()
    for name, (least, below) in PACKAGES.items():
        yield _package(name, least, below)
    yield _port(SERVER_PORT)
    for what, folder in _folders():
        yield _writable(what, folder)


def _java() -> Iterator[Finding]:
    from muntin.spark.session import JAVA_MIN, java_remedy, java_version

    major, path = java_version()
    if major is None:
        home = os.environ.get("JAVA_HOME")
        what = f"Java: none at JAVA_HOME={home}" if home else "Java: none on the PATH"
        yield False, what, java_remedy() + (" and unset JAVA_HOME" if home else "")
    else:
        yield major >= JAVA_MIN, f"Java {major} ({path})", java_remedy()


def _python() -> Finding:
    here = ".".join(map(str, sys.version_info[:3]))
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return good, f"Python {here} ({sys.executable})", "use Python 3.11, 3.12 or 3.13"


def _worker_python() -> Finding:
    asked = os.environ.get("PYSPARK_PYTHON")
    if not asked:
        return True, "PYSPARK_PYTHON: not set, workers use this Python", ""
    same = os.path.realpath(asked) == os.path.realpath(sys.executable)
    return same, f"PYSPARK_PYTHON={asked}", f"export PYSPARK_PYTHON={sys.executable}"


def _package(name: str, least: tuple[int, ...], below: tuple[int, ...] | None) -> Finding:
    wanted = f"{name}>={'.'.join(map(str, least))}"
    if below:
        wanted += f",<{'.'.join(map(str, below))}"
    remedy = f'{sys.executable} -m pip install "{wanted}"'
    try:
        found = version(name)
    except PackageNotFoundError:
        return False, f"{name}: not installed", remedy
    numbers = tuple(int(part) for part in found.split(".")[:3] if part.isdigit())
    good = numbers >= least and (below is None or numbers < below)
    return good, f"{name} {found}", remedy


def _ledger(url: str) -> Iterator[Finding]:
    from muntin.errors import MuntinError
    from muntin.ledger.open import open_ledger

    try:
        opened = open_ledger(url, create=False)
        try:
            damage = opened.verify()
        finally:
            opened.close()
    except MuntinError as problem:
        yield False, f"ledger {url}: {problem}", "give the ledger that a pipeline wrote"
        return
    for sentence in damage:
        what, _, remedy = sentence.partition("; ")
        yield False, what, remedy
    if not damage:
        yield True, f"ledger {url}: every payload and row is as it was written", ""


def _port(port: int) -> Finding:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False, f"port {port}: in use", "stop what uses it, or serve with --port"
    return True, f"port {port}: free", ""


def _folders() -> Iterator[tuple[str, Path]]:
    from muntin.summaries.kernels import cache_folder

    yield "working folder, for ledgers and checkpoints", Path.cwd()
    yield "temporary folder, for Spark", Path(tempfile.gettempdir())
    yield "cache of compiled kernels", Path(os.environ.get("NUMBA_CACHE_DIR") or cache_folder())


def _writable(what: str, folder: Path) -> Finding:
    remedy = f"make {folder} writable for you, with space left"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder) as probe:
            probe.write(b"muntin")
            probe.flush()
    except OSError as problem:
        return False, f"{what}: {folder}: {problem.strerror}", remedy
    return True, f"{what}: {folder}", remedy
