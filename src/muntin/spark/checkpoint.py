"""Spark's checkpoint of a pipeline: where it is by default, its checksums, what it planned."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from muntin.errors import LedgerConflict, SourceError, SpecError, with_remedy
from muntin.ledger.open import absolute
from muntin.spark.failures import reason
from muntin.spark.files import local_path
from muntin.spark.java import class_of, items_of
from muntin.spark.session import copied, is_classic
from muntin.spark.unchanged import states_of
from muntin.spec_secrets import shown_url

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

IGNORING = "spark.sql.files.ignoreMissingFiles"
_WAY = "spark.sql.streaming.checkpointFileManagerClass"
_ON_DISK = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_WRITTEN = ("metadata", "offsets/*", "commits/*", "sources/*/*")
_CHECKSUMS = struct.Struct(">4si")  # in front of them: a mark, and of how many bytes each is


def checkpoint_beside(url: str, name: str) -> str:
    """The default checkpoint folder of a pipeline: beside its ledger's file."""
    full = absolute(url)
    if full.startswith("sqlite:///"):
        path = full.removeprefix("sqlite:///").partition("?")[0]
        return f"{path}.checkpoints/{name}"
    raise SpecError(
        f"checkpoint: is missing, and a ledger {shown_url(url)} has no folder to put it beside: "
        f"write  checkpoint: /var/lib/muntin/{name}  for example (of a ledger that was moved, the "
        "folder of before)"
    )


def for_local_files(spark: SparkSession, location: str) -> SparkSession:
    """A copy of the session whose queries write a local checkpoint faster; the same one for others.

    Spark's usual way (`FileContext`) starts a program for each permission that it sets and each
    link that it looks for: ten a file, thirty a batch. This one starts two a file, and compares
    what it reads with checksums. Renaming is atomic with it on a local disk alone, and the setting
    is a whole session's: hence a copy.
    """
    if local_path(location) is None or not is_classic(spark):
        return spark
    hadoop: Any = spark.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
    usual = str(hadoop.hadoopConfiguration().get("fs.defaultFS"))
    where = location if location.startswith("file:") else usual
    if not where.startswith("file:") or spark.conf.get(_WAY, None) is not None:
        return spark
    copy = copied(spark)
    java: Any = copy._jsparkSession  # pyright: ignore[reportPrivateUsage]
    java.sessionState().conf().setConfString(
        _WAY, _ON_DISK
    )  # `conf.set` refuses: to Spark it is static
    return copy


def make_folders(spark: SparkSession, location: str) -> None:
    """Those of a local checkpoint: for each that Spark makes, it starts a program."""
    folder = local_path(location)
    if folder is not None and is_classic(spark) and spark.conf.get(_WAY, None) == _ON_DISK:
        try:
            for name in ("offsets", "commits", "sources/0"):
                (folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            told = with_remedy(problem)
            raise SourceError(f"checkpoint: {location} cannot be made: {told}") from None


def query_of(location: str) -> str | None:
    """Id of the query whose checkpoint it is; "" where there is none; None where only Spark sees.
    Raises SourceError: it is there and cannot be read."""
    path = local_path(location)
    if path is None:
        return None
    file = path / "metadata"
    try:
        return str(json.loads(file.read_bytes())["id"])
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as problem:
        raise SourceError(f"checkpoint: {with_remedy(problem)}") from None
    except (ValueError, LookupError, TypeError):
        raise SourceError(
            f"checkpoint: {file} is damaged: it does not hold the id of a query. Restore the "
            "checkpoint from a copy, or delete the pipeline's data and read all again with "
            'mode="overwrite" (--reset)'
        ) from None


def planned(location: str) -> list[str]:
    """Up to where the newest batch that is planned takes each source; [] where that is not seen."""
    path = local_path(location)
    if path is None:
        return []
    try:  # there is no file None
        return (path / "offsets" / str(_newest(path))).read_text("utf-8").splitlines()[2:]
    except (OSError, ValueError):
        return []


def next_batch(location: str) -> int:
    """The one behind those that are written down as done, 0 where that is not seen."""
    path = local_path(location)
    done = None if path is None else _newest(path, "commits")
    return 0 if done is None else done + 1


def _newest(folder: Path, what: str = "offsets") -> int | None:
    """The newest batch that is planned, or that is done (`commits`)."""
    names = (path.name for path in folder.glob(f"{what}/*"))
    return max((int(name) for name in names if name.isdigit()), default=None)


def check_not_older(location: str, last: int | None) -> None:
    """A local checkpoint must have planned all batches of its query that are stored, up to `last`.

    From an older one Spark would plan other events under numbers of batches that are stored, and
    these would be ignored. `last` must have been read before: another process may still write to
    both, and Spark plans a batch before it is stored. Raises LedgerConflict, with the remedies.
    """
    folder = local_path(location) if location else None
    newest = None if folder is None else _newest(folder)
    if folder is None or last is None or (newest is not None and newest >= last):
        return
    has = "no batch" if newest is None else f"batches up to {newest}"
    raise LedgerConflict(
        f"checkpoint: {location} has planned {has}, and those up to {last} are stored: it is older "
        "than the ledger, and what it plans anew would be taken for what is stored. Restore the "
        "one that the ledger was fed by; or name another folder under checkpoint: and start with "
        'mode="append" (--append), where nothing is read twice; or read all again with '
        'mode="overwrite" (--reset)'
    )


def check_undamaged(location: str) -> None:
    """The files of a local checkpoint must agree with the checksums that Hadoop wrote beside them.

    Spark does not look (`FileContext`): with one letter of a name changed, a file would count twice
    or never. Object stores, and the state of a user's own operators, have other checksums. Raises
    SourceError: one does not agree; names it, and the remedies.
    """
    folder = local_path(location) if location else None
    if folder is None:
        return
    for path in sorted(path for each in _WRITTEN for path in folder.glob(each)):
        sums = path.with_name(f".{path.name}.crc")
        if not path.name.startswith(".") and not _agree(path, sums):
            raise SourceError(
                f"checkpoint: {path} is damaged: its checksum is not the one in {sums.name}. "
                "Restore the checkpoint from a copy, or delete the pipeline's data and read all "
                'again with mode="overwrite" (--reset); where the file is right, delete '
                f"{sums.name}"
            )


def _agree(path: Path, sums: Path) -> bool:
    try:
        data, stored = path.read_bytes(), sums.read_bytes()
        mark, size = _CHECKSUMS.unpack_from(stored)
    except (OSError, struct.error):
        return True  # an older process deletes them, or died before it wrote the sums
    if mark != b"crc\0" or size < 1:
        return True
    parts = (data[at : at + size] for at in range(0, len(data), size))
    found = b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)
    return found == stored[_CHECKSUMS.size :]


def written_anew(location: str) -> list[str]:
    """Local files that a query's sources have taken, and that were written at another time since.

    Spark takes each once, by its name: what they hold now is in no count. Of a checkpoint that is
    not local, or has another form, nothing is told.
    """
    folder = local_path(location)
    found = []
    for log in sorted(folder.glob("sources/*")) if folder is not None else ():
        try:
            files = {file: at for file, at in _log_of(log) if file is not None}
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue
        for file, (_, now) in states_of(map(str, files)).items():
            if now != files[Path(file)]:
                found.append(file)
    return found


def _log_of(log: Path) -> Iterator[tuple[Path | None, int]]:
    """The files of a source's list, and when they were written, in milliseconds."""
    names = [path.name for path in log.glob("*") if path.name.removesuffix(".compact").isdigit()]
    whole = max((int(name[:-8]) for name in names if name.endswith(".compact")), default=-1)
    later = [name for name in names if name.isdigit() and int(name) > whole]
    for name in [f"{whole}.compact"] * (whole >= 0) + later:  # which holds all that were before
        for line in (log / name).read_text("utf-8").splitlines()[1:]:
            entry = json.loads(line)
            yield local_path(unquote(entry["path"])), entry["timestamp"]


def delete_checkpoint(spark: SparkSession, location: str) -> None:
    """Delete a checkpoint wherever Spark would find it: `s3a://`, `hdfs://`, `file:///`, a path. A
    query that begins anew with an old one would leave out what the old one has read."""
    context: Any = spark.sparkContext
    try:
        path = context._jvm.org.apache.hadoop.fs.Path(location)
        files = path.getFileSystem(context._jsc.hadoopConfiguration())
        files.delete(path, True)
        is_left = files.exists(path)
    except Exception as problem:
        cause = getattr(problem, "java_exception", None)
        why = str(cause.getMessage()) if cause is not None else reason(problem)
        raise SourceError(
            f"checkpoint: {location} cannot be deleted ({why.splitlines()[0][:300]}): delete it by "
            "hand, or correct the entry"
        ) from None
    if is_left:
        raise SourceError(f"checkpoint: {location} cannot be deleted: delete it by hand")


def check_there(query: StreamingQuery) -> None:
    """Of the batch at hand, all planned files must be there, each once.

    Where a batch runs again after a crash, Spark leaves out a file that is gone, without a word and
    whatever `spark.sql.files.ignoreMissingFiles` says. The batch's plan tells, which is not public:
    where that has another form, nothing is checked. Raises SourceError: one is gone, or would be
    read again; names it, and the remedies.
    """
    from py4j.protocol import Py4JError

    try:
        gone = _gone(query)
    except (Py4JError, AttributeError):
        return
    if gone:
        more = f" and {len(gone) - 1:,} more are" if len(gone) > 1 else " is"
        raise SourceError(
            f"source: {gone[0]}{more} gone, since this batch was planned: its events are not "
            f"counted yet. Put it back, or go on without it by  spark: {{{IGNORING}: true}}"
        )


def each_once(query: StreamingQuery, spark: SparkSession) -> DataFrame | None:
    """The rows of the batch at hand of a source of files, where Spark would read some again.

    For each file with a sign of patterns in its path, such as [, it plans all files of the batch
    once more. None where it does not, or its plan has another form.
    """
    from py4j.protocol import Py4JError
    from pyspark.sql import DataFrame

    try:
        for relation in _relations_of_files(query):
            if _repeated(relation):
                java: Any = spark._jsparkSession  # pyright: ignore[reportPrivateUsage]
                read = DataFrame(java.baseRelationToDataFrame(relation), spark)
                location = relation.location()
                told = location.getClass().getDeclaredField("rootPaths")
                told.setAccessible(True)
                told.set(location, location.rootPaths().distinct())  # the job is planned later
                return read
    except (Py4JError, AttributeError):
        pass
    return None


def _repeated(relation: Any) -> list[str]:
    """Files that are read more than once."""
    location = relation.location()
    roots = location.rootPaths()
    if roots.distinct().size() == roots.size():
        return []
    return [file for file, times in Counter(location.inputFiles()).items() if times > 1]


def check_read_once(location: str, batch_id: int) -> None:
    """As `check_there`, of files that are read again: for who sees the checkpoint alone.

    A source of files writes down there which it takes. Others have no such list, and of a
    checkpoint that is not local, or has another form, nothing is checked. Raises SourceError: Spark
    has read files of the batch several times.
    """
    folder = local_path(location) if location else None
    if folder is None:
        return
    try:
        ends = _offsets(folder, batch_id)
        begins = _offsets(folder, batch_id - 1) if batch_id else {}
    except (OSError, ValueError):
        return
    for source, end in ends.items():
        try:
            files = _taken(folder / "sources" / source, begins.get(source, "-"), end)
        except (OSError, ValueError, LookupError, TypeError):
            continue
        odd = next((file for file in files if re.search(r"[][{}*?\\]", file)), None)
        if odd is not None and len(files) > 1:
            raise _read_again(odd)


def _offsets(folder: Path, batch_id: int) -> dict[str, str]:
    """Up to where a batch takes each source, by the name of its folder: in order, or named."""
    version, _, *lines = (folder / "offsets" / str(batch_id)).read_text("utf-8").splitlines()
    if version == "v1":
        return {str(number): line for number, line in enumerate(lines)}
    return {name: at for name, _, at in (line.partition(":") for line in lines)}


def _taken(log: Path, begin: str, end: str) -> list[str]:
    """The files that a source's list has between two of its offsets."""
    first, last = (-1 if at == "-" else json.loads(at)["logOffset"] for at in (begin, end))
    found = set()
    for number in range(first + 1, last + 1):
        file = log / str(number)
        text = (file if file.exists() else log / f"{number}.compact").read_text("utf-8")
        for entry in map(json.loads, text.splitlines()[1:]):
            if first < entry["batchId"] <= last:  # a compact one holds all that were before
                found.add((entry["batchId"], entry["path"]))
    return [unquote(path) for _, path in sorted(found)]


def _read_again(file: str, other: str = "") -> SourceError:
    return SourceError(
        f"source: Spark would read {file} again, since it, or another file of its batch, has one "
        f"of the signs {{}}[]*?\\ in its path; nothing was counted. {other}Begin anew with "
        "maxFilesPerTrigger: 1, or with other names"
    )


def _relations_of_files(query: StreamingQuery) -> Iterator[Any]:
    """Of the batch at hand."""
    java: Any = query._jsq  # pyright: ignore[reportPrivateUsage]
    for leaf in items_of(java.streamingQuery().lastExecution().logical().collectLeaves()):
        if class_of(leaf) == "LogicalRelation":
            relation = leaf.relation()
            if class_of(relation) == "HadoopFsRelation":
                yield relation


def _gone(query: StreamingQuery) -> list[str]:
    java: Any = query._jsq  # pyright: ignore[reportPrivateUsage]
    session = java.streamingQuery().lastExecution().sparkSession()
    gone: list[str] = []
    for relation in _relations_of_files(query):
        if again := _repeated(relation):
            raise _read_again(again[0], "Let the pipeline's file name the source. ")
        roots = relation.location().rootPaths()
        if roots.size() == len(relation.location().inputFiles()):
            continue
        said = relation.options().get("ignoreMissingFiles")
        said = said.get() if said.isDefined() else session.conf().get(IGNORING, "false")
        if said.lower() != "true":
            settings = session.sessionState().newHadoopConf()
            missing = (p for p in items_of(roots) if not p.getFileSystem(settings).exists(p))
            gone += [str(path.toString()) for path in missing]
    return gone
