"""The fingerprint index: membership of keys and ranks of a number over a large table.

Records are placed by the hash range of their key, so that a key is asked for in one partition; the
range of hashes that a partition really holds is kept exactly. The driver keeps a global q-digest
of the number and the partition map; each partition's filter is a file that is mapped into memory
where it is asked.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, SourceError
from muntin.ledger.temporary import Folder
from muntin.spark.failures import plainly
from muntin.spark.index import build as building
from muntin.spark.index.build import HEADROOM, IndexPlan, new_digest
from muntin.spark.index.files import (
    HashGroups,
    ask_here,
    can_read,
    changing,
    forget,
    read_checked,
    same_content,
    write_once,
)
from muntin.spark.index.manifest import PARTITIONS_MAX, Manifest, PartitionFile, changed_meanwhile
from muntin.spark.index.reader import (
    IndexReader,
    Revision,
    check_key,
    check_type,
    keep_present,
    read_newest,
)
from muntin.spark.index.runs import remove_left, run_folder
from muntin.spark.index.sources import Source, source_of
from muntin.spark.progress import job_progress
from muntin.spark.rows import Row, tasks_of
from muntin.spark.session import own_python
from muntin.storage import full_name, place_of
from muntin.summaries.checks import check_seed, integer_in
from muntin.summaries.dyadic_qdigest import DyadicQDigest
from muntin.summaries.dynamic_bloom import HEADROOM_MAX, item_type
from muntin.summaries.order_maps import OrderMap, map_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Via = Literal["auto", "driver", "job"]


class FingerprintIndex(IndexReader):
    """Which keys a table holds, and between which ranks a number of it lies.

    Made by `build` or `load`. An index answers from its files, which stay
    in `folder`; a temporary one is deleted with the object.

    Examples
    --------
    >>> index = FingerprintIndex.build(df, key="url", rank="bytes", partitions=64)
    >>> index.contains(["a", "b"])
    >>> index.quantile([0.5, 0.95])
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: str,
        manifest: Manifest,
        digest: DyadicQDigest | None,
        sources: list[Source] | None = None,
        *,
        temporary: Folder | None = None,
    ) -> None:
        super().__init__(folder, manifest, digest)
        self._spark = spark
        self._sources = sources  # lineage; None where it is not known
        self._temporary = temporary  # goes with it
        if temporary is not None:
            weakref.finalize(self, _forget, folder, os.getpid())

    @classmethod
    def build(
        cls,
        df: DataFrame | str | Path,
        key: str,
        rank: str | None = None,
        partitions: int = 64,
        fpp: float = 0.001,
        error: float = 0.001,
        *,
        seed: int = 0,
        headroom: int = HEADROOM,
        domain: OrderMap | None = None,
        path: str | Path | None = None,
        overwrite: bool = False,
        spark: SparkSession | None = None,
        progress: bool | None = None,
    ) -> Self:
        """Index a table.

        Parameters
        ----------
        df : DataFrame, or path of Parquet files
            Files are read by Arrow in the workers, which saves the way through the JVM.
        key : str
            Column of text, binary, integers, dates or timestamps, without nulls.
        rank : str, optional
            Column of numbers, dates or timestamps, without nulls and NaN. A decimal counts as the
            double that is nearest to it, in answers as well.
        partitions : int
            Hash ranges, 1 to 65,536; a few hundred thousand to a few million keys each.
        fpp : float
            False-positive rate that a membership answer never exceeds.
        error : float
            Rank error that is never exceeded, as a fraction of the records.
        headroom : int
            Times that the index may grow by `append` at the least size; doubling it costs a bit a
            key now and halves the rate until then. Beyond, a key costs about half as much again.
        domain : OrderMap, optional
            Of the number; without it one that takes all floats, and integers and times within
            2**61 (62 bits): of greater integers, `FloatOrder()`. A tight one, such as
            `IntegerRange(20)`, makes a smaller digest that is built faster.
        path : str, optional
            Folder of the index, otherwise a temporary one: a path that the workers see, too, or
            the URL of an object store, by the name that Spark uses.
        overwrite : bool
            Replace the index that is in `path`; otherwise that is an error.
        spark : SparkSession, optional
            For a path; the active session otherwise.
        progress : bool, optional
            Show a progress bar; None: on a terminal.

        Raises
        ------
        BadArgument
            A parameter, a column or a value cannot be used; the message names it.
        SourceError
            Files cannot be read.
        """
        partitions = check_new(path, partitions, fpp, error, overwrite=overwrite)
        seed = check_seed(seed)
        headroom = integer_in("headroom", headroom, 1, HEADROOM_MAX)
        source = source_of(df, key, rank, spark)
        check_key(source.key_type, key)
        digest = None
        if rank is not None and source.rank_type is not None:
            digest = new_digest(error, domain or map_for(rank, source.rank_type))
        temporary = None
        if path is None:
            temporary = Folder()
            path = temporary.path
        folder = _folder_for(path)
        kind = item_type(source.key_type)
        with changing(folder):
            newest = _revision_to_replace(folder, overwrite=overwrite)
            manifest = Manifest(
                key, rank, kind, partitions, fpp, error, seed, headroom, revision=newest
            )
            made = cls(source.spark, folder, manifest, digest, [], temporary=temporary)
            old = Manifest.names_in(folder)
            remove_left(folder, old)
            made._add(source, {}, progress, "building")
            made._delete(old)
        return made

    @classmethod
    def load(cls, spark: SparkSession, path: str | Path) -> Self:
        """Open a saved index, as `IndexReader.open`, to append to it or to ask it by jobs."""
        folder = full_name(path)
        return cls(spark, folder, *read_newest(folder))

    def contains(self, keys: Any, via: Via = "auto") -> pa.Table:
        """As `IndexReader.contains`.

        `via` says who reads the files: "driver", "job", or "auto": the driver where it sees them,
        a job otherwise.
        """
        if via not in ("auto", "driver", "job"):
            raise BadArgument(f"via={via!r}: auto, driver or job")
        return self._contained(keys, via=via)

    def _ask(self, names: Mapping[int, str], groups: HashGroups, via: Via = "auto") -> np.ndarray:
        folder = self._folder
        asked = [names[partition] for partition, _ in groups]
        if via == "job" and self._sources is None:
            return self._ask_by_job(names, groups)
        is_here = can_read(folder, asked)
        if not is_here and names != self._now.names:
            raise SourceError(f"another thread has replaced files of {folder}")  # it is asked again
        if self._sources and not is_here:
            with changing(folder):
                self._rebuild([p for p, _ in groups if not can_read(folder, [names[p]])])
            names, is_here = self._now.names, True
        if via == "driver" or (via == "auto" and is_here):
            return ask_here(folder, names, groups)
        return self._ask_by_job(names, groups)

    def _ask_by_job(self, names: Mapping[int, str], groups: HashGroups) -> np.ndarray:
        """As `ask_here`, in one job of as many tasks as there are cores or partitions concerned.

        Hashes go out with the job, one byte a hash comes back. A task that is lost runs again: the
        files answer the same wherever they are read.
        """
        folder = self._folder
        count = min(len(groups), max(1, self._spark.sparkContext.defaultParallelism))
        asked = {partition: names[partition] for partition, _ in groups}

        def answer(number: int) -> Iterator[Row]:
            mine = groups[number * len(groups) // count : (number + 1) * len(groups) // count]
            yield 0, "", 0, ask_here(folder, asked, mine).tobytes()

        with plainly():
            rows = tasks_of(self._spark)(count, answer)
        return np.frombuffer(b"".join(found for *_, found in rows), np.bool_)

    def filter(self, df: DataFrame, column: str, *, keep: bool = True) -> DataFrame:
        """Rows of a DataFrame whose key may be in the index.

        A semi-join without a shuffle, up to `false_positive_rate`; `keep=False` gives the rows
        that are surely not in it. Use it before a join, to drop most rows that find no partner.
        Files are read when Spark computes the rows: keep a temporary index until then (the frame
        that comes back keeps it; those that are made of that one do not).
        """
        check_type(self.manifest, source_of(df, column, None, None).key_type, column)
        keeping = partial(
            keep_present,
            column=df.columns.index(column),
            folder=self._folder,
            manifest=self.manifest,
            keep=keep,
        )
        with own_python(df.sparkSession):
            plain = df.toDF(*(f"c{at}" for at in range(len(df.columns))))  # names with dots, too
            kept = plain.mapInArrow(keeping, df.schema)
        vars(kept)["_muntin_index"] = self
        return kept

    def append(
        self,
        df: DataFrame | str | Path,
        *,
        stream: str = "",
        batch_id: int | None = None,
        progress: bool | None = None,
    ) -> bool:
        """Add more records; only partitions that get some are written anew.

        Waits while another process appends; at a URL, the one that comes second is refused.

        Parameters
        ----------
        df : DataFrame, or path of Parquet files, with the same key and rank columns
        stream, batch_id : optional
            Of a streaming query, in `foreachBatch`: a batch that was added already is not added
            again. The index must have a `path` for that to outlive the process.

        Returns
        -------
        bool
            False where the batch was there already.

        Raises
        ------
        BadArgument
            A column or a value cannot be used; nothing was added.
        SourceError
            Files cannot be read, or the index at a URL was changed meanwhile; nothing was added.
        """
        with changing(self._folder):
            self.refresh()
            remove_left(self._folder, self.manifest.names())
            if batch_id is not None and batch_id <= self.manifest.batches.get(stream, -1):
                return False
            source = source_of(df, self.manifest.key, self.manifest.rank, self._spark)
            check_type(self.manifest, source.key_type, self.manifest.key)
            changes: dict[str, Any] = {}
            if batch_id is not None:
                changes["batches"] = {**self.manifest.batches, stream: batch_id}
                self._sources = None  # a micro-batch cannot be read again later
            self._add(source, changes, progress, "appending")
        return True

    def refresh(self) -> bool:
        """As `IndexReader.refresh`; what others appended cannot be built again from here."""
        if not super().refresh():
            return False
        self._sources = None
        return True

    def save(self, path: str | Path) -> None:
        """Copy the index to a folder, from which `load` opens it; one that is there is replaced.

        Raises
        ------
        SourceError
            Files of the index are gone (another process may have replaced them: `refresh`), the
            folder cannot be written, or another process changed the index in it meanwhile.
        CorruptSummary
            A file is damaged.
        """
        if full_name(path) == self._folder:
            return
        target = _folder_for(path)
        with changing(target):
            now, revision = self.manifest, Manifest.newest(target) + 1
            now.check_files(self._folder)
            old = Manifest.names_in(target)

            def copied(stem: str, name: str) -> str:
                data = read_checked(f"{self._folder}/{name}")
                return write_once(target, f"{stem}-{revision}", data)

            made = now.with_files(
                tuple(
                    replace(file, file=copied(f"part-{file.partition:05d}", file.file))
                    for file in now.files
                ),
                revision=revision,
                digest=copied("digest", now.digest) if now.digest else "",
            )
            made.commit(target)
            _delete(target, old)

    def _add(
        self, source: Source, changes: dict[str, Any], progress: bool | None, text: str
    ) -> None:
        try:
            files, digest = self._run(source, self._now.names, None, progress, text)
        except SourceError:  # it may be that files of the index are gone
            self._check_newest()
            raise
        self._check_newest()
        merged = self.digest
        if digest is not None and merged is not None:
            merged = merged.copy()
            merged.merge(digest)
        self._commit(files, changes, merged)
        if self._sources is not None:
            self._sources.append(source)

    def _run(
        self,
        source: Source,
        base: dict[int, str],
        only: frozenset[int] | None,
        progress: bool | None,
        text: str,
    ) -> building.Built:
        manifest = self.manifest
        building.warm()
        with (
            run_folder(self._folder) as runs,
            job_progress(progress, f"{text} the index"),
            plainly(),
        ):
            plan = IndexPlan(
                replace(manifest, files=()),
                self._folder,
                runs,
                tasks=min(
                    manifest.partitions, max(1, source.spark.sparkContext.defaultParallelism)
                ),
                domain=self.digest.domain if self.digest and only is None else None,
                base=base,
                only=only,
            )
            return building.run(tasks_of(source.spark), source.rows(plan), plan)

    def _commit(
        self,
        files: tuple[PartitionFile, ...],
        changes: dict[str, Any],
        digest: DyadicQDigest | None,
    ) -> None:
        """The next revision; what fails before it is written changes nothing."""
        before, revision = set(self.manifest.names()), self.manifest.revision + 1
        if digest is not None:
            changes["digest"] = write_once(self._folder, f"digest-{revision}", digest.to_bytes())
        made = self.manifest.with_files(files, **changes)
        records = sum(file.records for file in made.files)
        made = replace(made, records=records, revision=revision)
        made.commit(self._folder)
        self._now = Revision(made, digest)
        self._delete(before)

    def _delete(self, names: set[str]) -> None:
        """Those files that the manifest names no more."""
        _delete(self._folder, names - set(self.manifest.names()))

    def _check_newest(self) -> None:
        if Manifest.newest(self._folder) != self.manifest.revision:
            raise changed_meanwhile(self._folder)

    def _rebuild(self, partitions: list[int]) -> None:
        """Build lost partitions again from where the records came from, unless these have changed:
        they would say no to keys that were indexed."""
        self._check_newest()
        base = {p: name for p, name in self._now.names.items() if p not in partitions}
        made: dict[int, PartitionFile] = {}
        for source in self._sources or []:
            files, _ = self._run(source, base, frozenset(partitions), False, "rebuilding")
            made |= {file.partition: file for file in files}
            base |= {file.partition: file.file for file in files}
        for partition in partitions:
            lost = self._now.names[partition]
            if partition not in made or not same_content(made[partition].file, lost):
                self._delete({file.file for file in made.values()})
                raise SourceError(
                    f"the index lacks its file {self._folder}/{lost}, and the records that it was "
                    "made of have changed: restore it or build the index anew"
                )
        self._commit(tuple(made.values()), {}, self.digest)


def check_new(
    path: str | Path | None, partitions: Any, fpp: Any, error: Any, *, overwrite: bool
) -> int:
    """How many partitions a new index gets; BadArgument for what is wrong with it, so far as that
    can be seen before Spark has started."""
    _check_fraction("fpp", fpp)
    _check_fraction("error", error)
    if path is not None:
        _revision_to_replace(full_name(path), overwrite=overwrite)
    return integer_in("partitions", partitions, 1, PARTITIONS_MAX)


def _revision_to_replace(folder: str, *, overwrite: bool) -> int:
    """That of the index in a folder, 0 where there is none."""
    newest = Manifest.newest(folder)
    if newest and not overwrite:
        raise BadArgument(f"{folder} holds an index already: load it, or overwrite=True")
    return newest


def _check_fraction(name: str, value: Any) -> None:
    if not isinstance(value, float) or not 0 < value < 1:
        raise BadArgument(f"{name}={value!r}: a fraction between 0 and 1, both excluded")


def _folder_for(path: str | Path) -> str:
    """Where a new index goes."""
    if not str(path):
        raise BadArgument("path='': name a folder, or None for a temporary one")
    folder = full_name(path)
    where, full = place_of(folder)
    try:
        where.make_folder(full)
    except OSError as problem:
        raise SourceError(f"{folder}: no folder can be made there ({problem})") from None
    return folder


def _delete(folder: str, names: set[str]) -> None:
    where, path = place_of(folder)
    for name in names:
        with suppress(OSError):  # what was committed counts, though others stay
            where.delete(f"{path}/{name}")


def _forget(folder: str, process: int) -> None:
    if process == os.getpid():  # else a fork of the one that made it
        forget(folder)
