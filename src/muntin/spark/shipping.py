"""`muntin.ship`: the package goes to the workers with the job, where it is not installed.

Beside its sources the archive holds what Numba has compiled here, so that workers of the same kind
of processor compile nothing, and the small packages that tasks need. NumPy, Numba and PyArrow are
too large to send: the workers' Python must have them.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution, version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.errors import SourceError, needs
from muntin.ledger.temporary import Folder
from muntin.spark.failures import reason
from muntin.spark.session import is_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from muntin.spec import Pipeline

PACKAGE = Path(__file__).parents[1]
SENT_ALONG = (
    "annotated-types", "google-crc32c", "pydantic", "pydantic-core", "pyyaml",
    "typing-extensions", "typing-inspection",
)  # fmt: skip
_SUFFIXES = (".py", ".properties")
_COMPILED = ("*.nbi", "*.nbc")
_NOT_FOR_WORKERS = ("server", "demo", "cli", "sites", "client")
_TIME = (1980, 1, 1, 0, 0, 0)  # the same files make the same archive
_served: list[Folder] = []
"""Until this process ends: executors fetch what a classic session was given when they start."""


def ship(
    spark: SparkSession, spec: Pipeline | Mapping[str, Any] | str | Path | None = None
) -> None:
    """Send Muntin to the workers of a session whose Python does not have it.

    Call it once, before the first job of a pipeline. Workers unpack it into the application's own
    folder; where they have a Muntin of their own, the one that was sent is used.

    Parameters
    ----------
    spark : SparkSession
        Classic, or of Spark Connect, which your program has started: one that Muntin starts for a
        cluster expects Muntin there. Of the same version of Python and the same platform as this
        process; the workers' Python has NumPy, Numba and PyArrow.
    spec : Pipeline, mapping or path, optional
        A pipeline whose kernels are compiled here first, if they were not, so that no worker
        has to.

    Raises
    ------
    SourceError
        Spark does not take the archive; says why.

    Examples
    --------
    >>> muntin.ship(spark, "flights.yaml")
    >>> muntin.summarize(spark.read.parquet("s3a://bucket/flights"), "flights.yaml")
    """
    needs("spark", "muntin.ship")
    if spec is not None:
        from muntin.reading.warm import warm
        from muntin.spec import Pipeline

        warm(Pipeline.of(spec))
    folder = Folder()
    archive = str(packed(folder.path))
    try:
        if is_classic(spark):
            spark.sparkContext.addPyFile(archive)
            _served.append(folder)
        else:
            spark.addArtifacts(archive, pyfile=True)
    except Exception as problem:
        raise SourceError(f"Spark does not take {archive}: {reason(problem)}") from None


def packed(folder: Path) -> Path:
    """The archive, in a folder; named after its content."""
    files = dict(sorted(_files()))
    made = folder / "muntin.zip"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, data: bytes) -> None:
            info = zipfile.ZipInfo(name, _TIME)
            info.external_attr = 0o644 << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)

        add("muntin/__init__.py", Path(__file__).with_name("shipped.py").read_bytes())
        for name, path in files.items():
            add(name, path.read_bytes())
    digest = hashlib.sha256(made.read_bytes()).hexdigest()[:16]
    return made.rename(folder / f"muntin-{version('muntin')}-{digest}.zip")


def _files() -> Iterator[tuple[str, Path]]:
    """What goes into it: name in the archive, path here."""
    import muntin.summaries.kernels  # noqa: F401  (which says where compiled ones are kept)

    for path in PACKAGE.rglob("*"):
        name = path.relative_to(PACKAGE)
        if path.suffix in _SUFFIXES and name.parts[0] not in _NOT_FOR_WORKERS:
            yield f"src/muntin/{name.as_posix()}", path
    if cache := os.environ.get("NUMBA_CACHE_DIR"):
        for folder in Path(cache).glob("muntin.*"):
            for kept in chain.from_iterable(map(folder.glob, _COMPILED)):
                yield f"kernels/{folder.name}/{kept.name}", kept
    for package in SENT_ALONG:
        try:
            found = distribution(package).files or []
        except PackageNotFoundError:
            continue
        for file in found:
            path = Path(str(file.locate()))
            if path.suffix != ".pyc" and ".." not in file.parts and path.is_file():
                yield f"lib/{file.as_posix()}", path
