"""`muntin doctor`: is everything here that Muntin needs? With the remedy where not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from muntin.cli.serve import PORT
from muntin.cli.tables import coloured
from muntin.errors import MuntinError, how_many
from muntin.spec_secrets import shown_url

if TYPE_CHECKING:
    from packaging.requirements import Requirement

Finding = tuple[bool, str, str]  # good or not, what was looked at, and the remedy
PROBE_BYTES = 32 << 20  # written into each folder: what compiled kernels take, and more


def register(app: typer.Typer) -> None:
    @app.command()
    def doctor(
        ledger: str | None = typer.Option(
            None, "--ledger", "-l", help="Read and check all of it too, e.g. sqlite:///flights.db."
        ),
    ) -> None:
        """Check Java, Python, packages, ports and folders; print the remedy for what is wrong."""
        wrong = 0
        for good, what, remedy in (*findings(), *(_ledger(ledger) if ledger else ())):
            mark = coloured("ok   ", "green") if good else coloured("WRONG", "red")
            typer.echo(f"{mark}  {what}")
            wrong += not good
            if remedy and not good:
                typer.echo(f"       remedy: {remedy}")
        if wrong:
            typer.echo(f"\n{how_many(wrong, 'thing')} to put right")
            raise typer.Exit(1)
        typer.echo("\nall is well")


def findings() -> Iterator[Finding]:
    """Everything that is looked at, in order."""
    yield _python()
    if find_spec("pyspark") is None:
        yield True, "Spark: not installed (pip install 'muntin[spark]'); the rest needs none", ""
    else:
        yield from _java()
        yield _worker_python()
    yield from _packages()
    yield _port(PORT)
    for what, find, where_none in _folders():
        yield _writable(what, find, where_none)


def _java() -> Iterator[Finding]:
    from muntin.spark.java import (
        JAVA_MIN,
        UNSET_SPARK_HOME,
        java_remedy,
        java_version,
        spark_home_problem,
    )

    major, path = java_version()
    if major is None:
        home = os.environ.get("JAVA_HOME")
        what = f"Java: none at JAVA_HOME={home}" if home else "Java: none on the PATH"
        yield False, what, java_remedy()
    else:
        yield major >= JAVA_MIN, f"Java {major} ({path})", java_remedy()
    if problem := spark_home_problem():
        yield False, problem, UNSET_SPARK_HOME


def _python() -> Finding:
    here = ".".join(map(str, sys.version_info[:3]))
    good = (3, 11) <= sys.version_info[:2] <= (3, 14)
    return good, f"Python {here} ({sys.executable})", "use Python 3.11 to 3.14"


def _worker_python() -> Finding:
    """What Spark's workers run: they must have the same Muntin in the same Python."""
    asked = os.environ.get("PYSPARK_PYTHON")
    if not asked or os.path.realpath(asked) == os.path.realpath(sys.executable):
        said = f"={asked}" if asked else ": not set"
        return True, f"PYSPARK_PYTHON{said}, workers on this machine use this Python", ""
    remedy = f"export PYSPARK_PYTHON={sys.executable}"
    try:
        found = subprocess.run(  # noqa: S603 (what Spark would start)
            [asked, "-c", _WHO], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return False, f"PYSPARK_PYTHON={asked}: does not start: {problem}", remedy
    lines = (found.stdout if found.returncode == 0 else found.stderr).strip().splitlines()
    text = lines[-1] if lines else f"ended with {found.returncode}"
    mine = f"{sys.version_info[0]}.{sys.version_info[1]} {version('muntin')}"
    if found.returncode:
        return False, f"PYSPARK_PYTHON={asked}: {text}", remedy
    python, _, muntin = text.partition(" ")
    what = f"PYSPARK_PYTHON={asked}: Python {python} with Muntin {muntin}"
    return text == mine, what, remedy


_WHO = (
    "import sys, muntin, pyarrow, numba; "
    "print(f'{sys.version_info[0]}.{sys.version_info[1]} {muntin.__version__}')"
)


def _packages() -> Iterator[Finding]:
    """What this installation asks for, as its own metadata says: of Spark's extra where some of
    it is there."""
    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(text) for text in requires("muntin") or ()]
    except PackageNotFoundError:
        yield False, "muntin: not installed, only found", f"{sys.executable} -m pip install muntin"
        return
    extra = "" if find_spec("pyspark") is None else "spark"
    for requirement in wanted:
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield _package(requirement)


def _package(wanted: Requirement) -> Finding:
    remedy = f'{sys.executable} -m pip install "{wanted.name}{wanted.specifier}"'
    try:
        found = version(wanted.name)
    except PackageNotFoundError:
        return False, f"{wanted.name}: not installed", remedy
    text = f"{wanted.name} {found}"
    if not wanted.specifier.contains(found, prereleases=True):
        return False, f"{text}, and {wanted.specifier} is needed", remedy
    try:
        import_module(_MODULES.get(wanted.name, wanted.name.replace("-", "_")))
    except MuntinError as problem:
        return False, f"{text}: {problem}", ""
    except Exception as problem:
        anew = remedy.replace("install", "install --force-reinstall", 1)
        return False, f"{text}: cannot be imported: {problem}", anew
    return True, text, ""


# those that are imported by another name; Numba's settings may forbid what is compiled
_MODULES = {"pyyaml": "yaml", "numba": "muntin.summaries.kernels"}


def _ledger(url: str) -> Iterator[Finding]:
    from muntin.ledger.open import open_ledger
    from muntin.reading.agreement import disagreements

    shown = shown_url(url)
    try:
        with closing(open_ledger(url, create=False)) as opened:
            damage = opened.verify() or disagreements(opened)
    except (MuntinError, OSError) as problem:
        yield False, f"ledger {shown} cannot be opened", str(problem)
        return
    for sentence in damage:
        what, _, remedy = sentence.partition("; ")
        yield False, what, remedy
    if not damage:
        yield True, f"ledger {shown}: every payload and row is as it was written", ""


def _port(port: int) -> Finding:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False, f"port {port}: in use", "stop what uses it, or serve with --port"
    return True, f"port {port}: free", ""


def _folders() -> Iterator[tuple[str, Callable[[], Path], str]]:
    """What each is for, how it is found, and the remedy where there is none."""
    yield "working folder, for ledgers and checkpoints", Path.cwd, "cd to one that is there"
    yield (
        "temporary folder, for Spark",
        lambda: Path(tempfile.gettempdir()),
        "let TMPDIR name a folder that you can write",
    )
    try:
        from muntin.summaries.kernels import cache_folder
    except Exception:
        return  # of a package that cannot be imported, as was said
    yield (
        "cache of compiled kernels",
        lambda: Path(os.environ.get("NUMBA_CACHE_DIR") or cache_folder()),
        "let NUMBA_CACHE_DIR name a folder that you can write",
    )


def _writable(what: str, find: Callable[[], Path], where_none: str) -> Finding:
    try:
        folder = find()
    except (OSError, RuntimeError) as problem:
        return False, f"{what}: {getattr(problem, 'strerror', problem)}", where_none
    remedy = f"make {folder} writable for you, with {PROBE_BYTES >> 20} MiB of space left"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder) as probe:
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
    except OSError as problem:
        return False, f"{what}: {folder}: {problem.strerror}", remedy
    return True, f"{what}: {folder}", remedy
