"""Spark's connector to Kafka: jars that Spark does not bring.

Those of one version do not always fit together, or are not all to be had (of 4.2.0, the part for
tokens was never published). So a set of versions that was tried is pinned here with its checksums.
It is fetched once, by the resolver that Spark brings (Apache Ivy), into a cache folder.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from muntin.errors import SourceError
from muntin.spark.session import is_elsewhere
from muntin.spark.settings import said_outside
from muntin.spec import Pipeline, SourceSpec

FETCH_SECONDS_MAX = 180
CONNECTOR = "spark-sql-kafka-0-10"
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar by its Maven coordinates."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


# by the version of Spark with which they were tried
PINNED: dict[str, tuple[Jar, ...]] = {
    "4.3": (
        Jar(
            "org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0",
            "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
        ),
        Jar(
            "org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0",
            "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
        ),
        Jar(
            "org.apache.kafka", "kafka-clients", "3.9.1",
            "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
        ),
        Jar(
            "org.apache.commons", "commons-pool2", "2.12.0",
            "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
        ),
    ),
}  # fmt: skip


def with_connector(source: SourceSpec | None, own: Mapping[str, str]) -> dict[str, str]:
    """A program's own Spark settings; for Kafka also, where nothing else is said, the connector's
    jars and a limit in bytes of what is sent to Python at once: 16,384 records may end Java. Raises
    SourceError: the jars are not to be had, or damaged; names the two ways to give them."""
    settings = dict(own)
    if source and source.format == "kafka" and BATCH_BYTES not in said_outside():
        settings.setdefault(BATCH_BYTES, str(64 << 20))
    jars = _own_jars(source, settings)
    if jars is None:
        jars = pinned_jars(settings)
    before = {**said_outside(), **settings}.get("spark.jars", "")
    named = [name for name in before.split(",") if name.strip()]
    return settings | ({"spark.jars": ",".join([*named, *map(str, jars)])} if jars else {})


def is_to_be_fetched(pipeline: Pipeline) -> bool:
    """Does the first run of this pipeline fetch a connector? Fetches nothing itself."""
    return _own_jars(pipeline.source, pipeline.spark) is None and not _are_kept(_pinned())


def _own_jars(source: SourceSpec | None, settings: Mapping[str, str]) -> list[Path] | None:
    """Those to be added that are here; None: the pinned ones are."""
    if source is None or source.format != "kafka" or is_elsewhere():
        return []  # a server of Spark Connect was started with its jars
    if source.jars is not None:
        return _in_folder(Path(source.jars))
    return [] if is_named(CONNECTOR, settings) else None


def is_named(jar: str, settings: Mapping[str, str]) -> bool:
    """Is a jar among Spark's own, or named in its settings or outside?"""
    import pyspark

    said = " ".join({**said_outside(), **settings}.values())
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    said += os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    return jar in said or any((home / "jars").glob(f"{jar}*.jar"))


def cache_folder() -> Path:
    """Where jars that were fetched are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "muntin" / "jars"


def pinned_jars(settings: Mapping[str, str] | None = None) -> list[Path]:
    """The connector's jars for the Spark that is installed: from the cache, or fetched into it. Of
    the settings, `spark.jars.ivySettings` is used, which may name a mirror."""
    jars = _pinned()
    folder = cache_folder()
    if not _are_kept(jars):
        own = {**said_outside(), **(settings or {})}.get("spark.jars.ivySettings")
        _fetch(jars, folder, own)
    return [folder / jar.file for jar in jars]


def _pinned() -> tuple[Jar, ...]:
    import pyspark

    version = ".".join(pyspark.__version__.split(".")[:2])
    if version not in PINNED:
        raise SourceError(
            f"source.format: kafka: no connector was tried with Spark {pyspark.__version__} (but "
            f"with {', '.join(PINNED)}): name one by spark.jars.packages under spark:, or a folder "
            "of its jars as source.jars"
        )
    return PINNED[version]


def _fetch(jars: tuple[Jar, ...], folder: Path, ivy_settings: str | None) -> None:
    """All of them into the folder, which other processes may be doing as well."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        here = Path(temporary)
        _run_ivy(jars, here, ivy_settings)
        for jar in jars:
            if not _is_whole(here / jar.file, jar):
                raise _not_had(jars, f"{jar.file} came with another checksum than the pinned one")
        for jar in jars:
            shutil.move(here / jar.file, folder / jar.file)


def _run_ivy(jars: tuple[Jar, ...], here: Path, ivy_settings: str | None) -> None:
    import pyspark

    wanted = "".join(
        f'<dependency org="{jar.group}" name="{jar.name}" rev="{jar.version}" '
        'transitive="false" conf="default->master"/>'
        for jar in jars
    )
    (here / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="muntin" module="kafka"/>'
        f'<configurations><conf name="default"/></configurations>'
        f"<dependencies>{wanted}</dependencies></ivy-module>"
    )
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    command = [
        str(java), "-cp", str(home / "jars" / "*"), "org.apache.ivy.Main", "-warn",
        "-ivy", str(here / "ivy.xml"), "-cache", str(here / "cache"),
        "-retrieve", f"{here}/[artifact]-[revision].[ext]",
        *(["-settings", ivy_settings] if ivy_settings else []),
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603 (our own arguments)
            command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise _not_had(jars, f"{type(problem).__name__}: {problem}"[:200]) from None
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        lines = [line for line in lines if "not found" in line or "xception" in line] or lines[-1:]
        raise _not_had(jars, lines[0][:200] if lines else f"Ivy ended with {done.returncode}")


def _in_folder(folder: Path) -> list[Path]:
    folder = folder.absolute()
    found = sorted(folder.glob("*.jar"))
    if not any(CONNECTOR in file.name for file in found):
        raise SourceError(
            f"source.jars: {folder}: no {CONNECTOR} jar is there: put the connector's jars into it"
        )
    return found


def _are_kept(jars: tuple[Jar, ...]) -> bool:
    return all(_is_whole(cache_folder() / jar.file, jar) for jar in jars)


def _is_whole(file: Path, jar: Jar) -> bool:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == jar.sha256
    except OSError:
        return False


def _not_had(jars: tuple[Jar, ...], why: str) -> SourceError:
    names = " ".join(f"{jar.group}:{jar.name}:{jar.version}" for jar in jars)
    return SourceError(
        f"source.format: kafka: Spark's connector cannot be fetched from Maven Central: {why}. "
        "Two ways: a network or mirror (spark.jars.ivySettings names one), or a folder as "
        f"source.jars with {names}"
    )
