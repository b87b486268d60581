"""The fingerprint index: membership of keys and ranks of a number over a large table.

Records are placed by the hash range of their key, so that a key is asked for in one partition; the
range of hashes that a partition really holds is kept exactly. The driver keeps a global q-digest
of the number and the partition map; each partition's filter is a file that is mapped into memory
where it is asked.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument
from muntin.spark.index import build as building
from muntin.spark.index.build import Plan
from muntin.spark.index.files import by_partition, forget, opened, write_once
from muntin.spark.index.manifest import MANIFEST, PARTITIONS_MAX, Manifest, PartitionFile
from muntin.spark.index.query import ask_by_job, ask_here, can_read, keep_present
from muntin.spark.index.sources import Source, source_of
from muntin.spark.progress import job_progress
from muntin.summaries.base import Estimate
from muntin.summaries.dyadic_qdigest import DyadicQDigest
from muntin.summaries.dynamic_bloom import item_type
from muntin.summaries.items import as_items, hash_items
from muntin.summaries.order_maps import OrderMap, map_for
from muntin.summaries.static_filter import to_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Via = Literal["auto", "driver", "job"]


class FingerprintIndex:
    """Which keys a table holds, and between which ranks a number of it lies.

    Made by `build`, `build_from_parquet` or `load`. An index answers from its files, which stay
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
        folder: Path,
        manifest: Manifest,
        digest: DyadicQDigest | None,
        sources: list[Source] | None = None,
        *,
        is_temporary: bool = False,
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._manifest = manifest
        self._digest = digest
        self._sources = sources  # lineage; None where it is not known
        self._tasks: Any = None
        self._follow()
        if is_temporary:
            weakref.finalize(self, _remove, folder)

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
            Column of text, binary or integers, without nulls.
        rank : str, optional
            Column of numbers, dates or timestamps, without nulls and NaN.
        partitions : int
            Hash ranges, 1 to 65,536; a few hundred thousand to a few million keys each.
        fpp : float
            False-positive rate that a membership answer never exceeds.
        error : float
            Rank error that is never exceeded, as a fraction of the records.
        domain : OrderMap, optional
            Of the number; without it one that takes all values (62 bits). A tight one, such as
            `IntegerRange(20)`, makes a smaller digest that is built faster.
        path : str, optional
            Folder of the index, on storage that the workers see, too; otherwise a temporary one.
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
        source = source_of(df, key, rank, spark)
        if not isinstance(partitions, int) or not 1 <= partitions <= PARTITIONS_MAX:
            raise BadArgument(f"partitions={partitions!r}: an integer from 1 to {PARTITIONS_MAX}")
        building.check_key(source.key_type, key)
        _check_fraction("fpp", fpp)
        _check_fraction("error", error)
        digest = None
        if source.rank_type is not None:
            digest = building.new_digest(error, domain or map_for(source.rank_type))
        if not isinstance(seed, int) or not 0 <= seed < 2**64:
            raise BadArgument(f"seed={seed!r}: an integer from 0 to 2**64 - 1")
        folder = Path(path) if path is not None else Path(tempfile.mkdtemp(prefix="muntin-index-"))
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / MANIFEST).exists() and not overwrite:
            raise BadArgument(f"{folder} holds an index already: load it, or overwrite=True")
        old = Manifest.names_in(folder)
        made = cls(
            source.spark,
            folder.resolve(),
            Manifest(key, rank, item_type(source.key_type), partitions, fpp, error, seed),
            digest,
            [],
            is_temporary=path is None,
        )
        made._add(source, {}, progress, "building")
        for name in old - set(made._manifest.names()):
            (folder / name).unlink(missing_ok=True)
        return made

    @classmethod
    def build_from_parquet(
        cls, path: str | Path, key: str, rank: str | None = None, **options: Any
    ) -> Self:
        """`build` over Parquet files; `options` are those of `build`."""
        return cls.build(str(path), key, rank, **options)

    @classmethod
    def load(cls, spark: SparkSession, path: str | Path) -> Self:
        """Open a saved index.

        Raises
        ------
        SourceError
            There is none, it is of another version, or files are missing (they are named).
        CorruptSummary
            A file is damaged. Filters are checked when they are first asked.
        """
        folder = Path(path).resolve()
        manifest = Manifest.read(folder)
        digest = None
        if manifest.digest:
            digest = DyadicQDigest.from_bytes((folder / manifest.digest).read_bytes())
        return cls(spark, folder, manifest, digest)

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._folder

    @property
    def manifest(self) -> Manifest:
        """Parameters and partition map."""
        return self._manifest

    @property
    def digest(self) -> DyadicQDigest | None:
        """The global digest of the ranked column."""
        return self._digest

    @property
    def records(self) -> int:
        return self._manifest.records

    @property
    def keys(self) -> int:
        """Different keys (but those that were taken for others)."""
        return sum(file.keys for file in self._manifest.files)

    @property
    def bits_per_key(self) -> float:
        """Size of the filters for each key; 0 while there are none."""
        keys = self.keys
        return 8 * sum(f.filter_bytes for f in self._manifest.files) / keys if keys else 0.0

    def false_positive_rate(self) -> float:
        """Largest rate of a partition; `contains` reports that of the partition asked."""
        return max((f.false_positive_rate for f in self._manifest.files), default=0.0)

    def info(self) -> dict[str, Any]:
        """What the index is, for people and monitoring."""
        files = self._manifest.files
        return {
            "folder": str(self._folder),
            "revision": self._manifest.revision,
            "key": self._manifest.key,
            "rank": self._manifest.rank,
            "records": self.records,
            "keys": self.keys,
            "partitions": self._manifest.partitions,
            "fpp": self._manifest.fpp,
            "false_positive_rate": self.false_positive_rate(),
            "bits_per_key": self.bits_per_key,
            "error": self._manifest.error,
            "rank_error_bound": self._digest.error_bound if self._digest else None,
            "digest_nodes": self._digest.size if self._digest else None,
            "file_bytes": sum(file.size for file in files),
        }

    def contains(self, keys: Any, via: Via = "auto") -> pa.Table:
        """Which keys may be in the table.

        Parameters
        ----------
        keys : n keys of the index's type: list, NumPy or Arrow array
        via : {"auto", "driver", "job"}
            Who reads the files. auto: the driver where it sees them, a job otherwise.

        Returns
        -------
        pyarrow.Table
            key; present: False is always right; false_positive_rate: probability that present is
            wrong for a key that is not there (0 where the range of hashes already rules it out).
        """
        array, hashes = self._hashed(keys)
        where, groups = by_partition(hashes, self._manifest.partitions, self._zones)
        present = np.zeros(len(hashes), np.bool_)
        rates = np.zeros(len(hashes))
        if groups:
            present[where] = self._ask(groups, via)
            rates[where] = np.repeat(
                [self._rates[partition] for partition, _ in groups],
                [len(part) for _, part in groups],
            )
        return pa.table(
            {
                "key": array,
                "present": pa.array(present),
                "false_positive_rate": pa.array(rates),
            }
        )

    def _ask(self, groups: list[tuple[int, np.ndarray]], via: Via) -> np.ndarray:
        if via not in ("auto", "driver", "job"):
            raise BadArgument(f"via={via!r}: auto, driver or job")
        folder, names = str(self._folder), self._names
        asked = [names[partition] for partition, _ in groups]
        if self._sources and not can_read(folder, asked):
            self._rebuild([p for p, _ in groups if not can_read(folder, [names[p]])])
            names = self._names
        if via == "driver" or (via == "auto" and can_read(folder, asked)):
            return ask_here(folder, names, groups)
        return ask_by_job(self._spark.sparkContext, self._job_tasks(), folder, names, groups)

    def _job_tasks(self) -> Any:
        """One task a core, made once: a job that is sent to part of them starts no others."""
        if self._tasks is None:
            context = self._spark.sparkContext
            cores = max(1, context.defaultParallelism)
            self._tasks = context.parallelize(range(cores), cores)
        return self._tasks

    def locate(self, keys: Any) -> pa.Table:
        """The partitions that may hold each key: none or one. Columns key, partitions."""
        array, hashes = self._hashed(keys)
        where, groups = by_partition(hashes, self._manifest.partitions, self._zones)
        found = np.zeros(len(hashes), np.bool_)
        if groups:
            found[where] = self._ask(groups, "auto")
        placed = to_partitions(hashes, self._manifest.partitions)
        lists = [[int(p)] if is_in else [] for p, is_in in zip(placed, found, strict=True)]
        return pa.table({"key": array, "partitions": pa.array(lists, pa.list_(pa.int32()))})

    def quantile(self, q: Any) -> pa.Table:
        """Quantiles of the ranked column: q, value, lower, upper, confidence (always 1).

        No rows while the index is empty.
        """
        asked = np.atleast_1d(np.asarray(q, np.float64))
        answer = self._ranked().quantile(asked)
        return _table({"q": asked[: len(answer.value)]}, answer)

    def rank(self, values: Any) -> pa.Table:
        """How many records are at most each value: x, value, lower, upper, confidence."""
        return _table({"x": _questions(values)}, self._ranked().rank(values))

    def count_between(self, low: Any, high: Any) -> pa.Table:
        """How many records lie between two values, both included: low, high, value, lower, ..."""
        digest = self._ranked()
        lows, highs = _questions(low), _questions(high)
        if len(lows) != len(highs) or (np.asarray(highs) < np.asarray(lows)).any():
            raise BadArgument(f"low={low!r}, high={high!r}: as many of each, and low <= high")
        until, before = digest.rank(high), digest.rank(low, inclusive=False)
        lower = np.maximum(until.lower - before.upper, 0)
        upper = until.upper - before.lower
        value = np.clip(until.value - before.value, lower, upper)
        return _table({"low": lows, "high": highs}, Estimate(value, lower, upper, 1.0))

    def filter(self, df: DataFrame, column: str, *, keep: bool = True) -> DataFrame:
        """Rows of a DataFrame whose key may be in the index.

        A semi-join without a shuffle, up to `false_positive_rate`; `keep=False` gives the rows
        that are surely not in it. Use it before a join, to drop most rows that find no partner.
        """
        kind = source_of(df, column, None, None).key_type
        self._check_type(kind, column)
        keeping = partial(
            keep_present,
            column=df.columns.index(column),
            folder=str(self._folder),
            names=self._names,
            zones=self._zones,
            partitions=self._manifest.partitions,
            seed=self._manifest.seed,
            keep=keep,
        )
        return df.mapInArrow(keeping, df.schema)

    def append(
        self,
        df: DataFrame | str | Path,
        *,
        stream: str = "",
        batch_id: int | None = None,
        progress: bool | None = None,
    ) -> bool:
        """Add more records; only partitions that get some are written anew.

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
        """
        if batch_id is not None and batch_id <= self._manifest.batches.get(stream, -1):
            return False
        source = source_of(df, self._manifest.key, self._manifest.rank, self._spark)
        self._check_type(source.key_type, self._manifest.key)
        changes: dict[str, Any] = {}
        if batch_id is not None:
            changes["batches"] = {**self._manifest.batches, stream: batch_id}
            self._sources = None  # a micro-batch cannot be read again later
        self._add(source, changes, progress, "appending")
        return True

    def save(self, path: str | Path) -> None:
        """Copy the index to a folder, from which `load` opens it."""
        target = Path(path).resolve()
        target.mkdir(parents=True, exist_ok=True)
        if target == self._folder:
            return
        self._manifest.check_files(self._folder)
        for name in self._manifest.names():
            partial_file = target / f".{name}"
            shutil.copyfile(self._folder / name, partial_file)
            partial_file.replace(target / name)
        self._manifest.write(target)

    def _add(
        self, source: Source, changes: dict[str, Any], progress: bool | None, text: str
    ) -> None:
        files, digest = self._run(source, self._names, None, progress, text)
        if digest is not None and self._digest is not None:
            merged = self._digest.copy()
            merged.merge(digest)
            self._digest = merged
        if self._sources is not None:
            self._sources.append(source)
        self._commit(files, changes)

    def _run(
        self,
        source: Source,
        base: dict[int, str],
        only: frozenset[int] | None,
        progress: bool | None,
        text: str,
    ) -> tuple[tuple[PartitionFile, ...], DyadicQDigest | None]:
        manifest = self._manifest
        cores = max(1, source.spark.sparkContext.defaultParallelism)
        plan = Plan(
            folder=str(self._folder),
            partitions=manifest.partitions,
            tasks=min(manifest.partitions, 2 * cores),
            fpp=manifest.fpp,
            seed=manifest.seed,
            item_type="text" if manifest.item_type == "text" else "integers",
            domain=self._digest.domain if self._digest and only is None else None,
            error=manifest.error,
            base=base,
            only=only,
        )
        building.warm()
        with job_progress(progress, f"{text} the index"):
            return building.run(source.pieces(plan), plan)

    def _commit(self, files: tuple[PartitionFile, ...], changes: dict[str, Any]) -> None:
        before = set(self._manifest.names())
        if self._digest is not None:
            changes["digest"] = write_once(self._folder, "digest", self._digest.to_bytes())
        made = self._manifest.with_files(files, **changes)
        self._manifest = replace(
            made,
            records=sum(file.records for file in made.files),
            revision=self._manifest.revision + 1,
        )
        self._manifest.write(self._folder)
        self._follow()
        for name in before - set(self._manifest.names()):
            (self._folder / name).unlink(missing_ok=True)

    def _rebuild(self, partitions: list[int]) -> None:
        """Build lost partitions again from where the records came from."""
        base = {p: name for p, name in self._names.items() if p not in partitions}
        for source in self._sources or []:
            files, _ = self._run(source, base, frozenset(partitions), False, "rebuilding")
            base.update({file.partition: file.file for file in files})
            self._manifest = self._manifest.with_files(files)
            self._follow()
        self._commit((), {})

    def _follow(self) -> None:
        """What questions need of the manifest."""
        files = self._manifest.by_partition()
        self._names = {partition: file.file for partition, file in files.items()}
        self._zones = {partition: (file.least, file.most) for partition, file in files.items()}
        self._rates = {partition: file.false_positive_rate for partition, file in files.items()}

    def _ranked(self) -> DyadicQDigest:
        if self._digest is None:
            raise BadArgument("this index was built without `rank`: it knows no quantiles")
        return self._digest

    def _hashed(self, keys: Any) -> tuple[pa.Array, np.ndarray]:
        array = keys if isinstance(keys, pa.DictionaryArray) else as_items(keys)
        if len(array):
            self._check_type(array.type, "keys")
        return array, hash_items(array, self._manifest.seed)

    def _check_type(self, kind: pa.DataType, name: str) -> None:
        building.check_key(kind, name)
        if item_type(kind) != self._manifest.item_type:
            raise BadArgument(
                f"{name!r} is {kind}, but the keys of this index are {self._manifest.item_type}"
            )

    def warm(self) -> None:
        """Map and check all files now, not when they are first asked."""
        for name in self._names.values():
            opened(str(self._folder / name))


def _check_fraction(name: str, value: Any) -> None:
    if not isinstance(value, float) or not 0 < value < 1:
        raise BadArgument(f"{name}={value!r}: a fraction between 0 and 1, both excluded")


def _questions(values: Any) -> np.ndarray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = (
            values.to_numpy(zero_copy_only=False)
            if isinstance(values, pa.Array)
            else (values.to_numpy())
        )
    return np.atleast_1d(np.asarray(values))


def _table(asked: dict[str, Any], answer: Estimate) -> pa.Table:
    columns: dict[str, Any] = {name: pa.array(values) for name, values in asked.items()}
    for name in ("value", "lower", "upper"):
        columns[name] = pa.array(getattr(answer, name))
    columns["confidence"] = pa.array(np.full(len(answer.value), answer.confidence))
    return pa.table(columns)


def _remove(folder: Path) -> None:
    forget(folder)
    shutil.rmtree(folder, ignore_errors=True)
