"""An index's answers: where its files can be read, this needs no Spark.

`IndexReader.open` is what the command line uses; `FingerprintIndex` adds what a Spark session can
do: build, append, ask where the files are, prune a DataFrame.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, CorruptSummary, SourceError
from muntin.spark.index.files import HashGroups, ask_here, by_partition, opened, read_checked
from muntin.spark.index.manifest import Manifest
from muntin.storage import full_name
from muntin.summaries.base import Estimate
from muntin.summaries.dyadic_qdigest import DyadicQDigest
from muntin.summaries.dynamic_bloom import item_type
from muntin.summaries.items import given_items, hash_items
from muntin.summaries.static_filter import to_partitions
from muntin.summaries.weighted_view import check_fractions

T = TypeVar("T")


@dataclass(frozen=True)
class Revision:
    """What an index holds at one time: a question is answered of one, whatever comes meanwhile."""

    manifest: Manifest
    digest: DyadicQDigest | None

    @cached_property
    def names(self) -> dict[int, str]:
        """Each partition's file."""
        return {file.partition: file.file for file in self.manifest.files}

    @cached_property
    def zones(self) -> dict[int, tuple[int, int]]:
        """The range of hashes that each partition holds."""
        return {file.partition: (file.least, file.most) for file in self.manifest.files}

    @cached_property
    def rates(self) -> dict[int, float]:
        """Each partition's false-positive rate."""
        return {file.partition: file.false_positive_rate for file in self.manifest.files}


class IndexReader:
    """The answers of an index whose files this process can read.

    Examples
    --------
    >>> index = IndexReader.open("/data/urls.index")
    >>> index.contains(["a", "b"])
    >>> index.quantile([0.5, 0.95])
    """

    def __init__(self, folder: str, manifest: Manifest, digest: DyadicQDigest | None) -> None:
        self._folder = folder
        self._now = Revision(manifest, digest)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a saved index.

        Raises
        ------
        SourceError
            There is none, it is of another version, or files are missing (they are named).
        CorruptSummary
            A file is damaged. Filters are checked when they are first asked.
        """
        folder = full_name(path)
        return cls(folder, *read_newest(folder))

    def refresh(self) -> bool:
        """Answer from what the folder holds now; False where that is what was open already.

        Another process may have changed the index. Done unasked where files that were opened are
        gone.
        """
        if Manifest.stored(self._folder) == self.manifest:
            return False
        self._now = Revision(*read_newest(self._folder))
        return True

    @property
    def folder(self) -> str:
        """Where the files are: an absolute path, or a URL."""
        return self._folder

    @property
    def manifest(self) -> Manifest:
        """Parameters and partition map."""
        return self._now.manifest

    @property
    def digest(self) -> DyadicQDigest | None:
        """The global digest of the ranked column."""
        return self._now.digest

    @property
    def records(self) -> int:
        """How many records were indexed."""
        return self.manifest.records

    @property
    def fingerprints(self) -> int:
        """Different fingerprints: as many as keys, less those that were taken for others."""
        return sum(file.keys for file in self.manifest.files)

    @property
    def bits_per_key(self) -> float:
        """Size of the filters for each fingerprint; 0 while there are none."""
        filled = 8 * sum(file.filter_bytes for file in self.manifest.files)
        return filled / self.fingerprints if filled else 0.0

    def false_positive_rate(self) -> float:
        """Largest rate of a partition; `contains` reports that of the partition asked."""
        return max((f.false_positive_rate for f in self.manifest.files), default=0.0)

    def info(self) -> dict[str, Any]:
        """What the index is, for people and monitoring."""
        files = self.manifest.files
        return {
            "folder": self._folder,
            "revision": self.manifest.revision,
            "key": self.manifest.key,
            "key_type": self.manifest.item_type,
            "rank": self.manifest.rank,
            "records": self.records,
            "fingerprints": self.fingerprints,
            "partitions": self.manifest.partitions,
            "fpp": self.manifest.fpp,
            "false_positive_rate": self.false_positive_rate(),
            "bits_per_key": self.bits_per_key,
            "error": self.manifest.error,
            "rank_error_bound": self.digest.error_bound if self.digest else None,
            "digest_nodes": self.digest.size if self.digest else None,
            "file_bytes": sum(file.size for file in files),
        }

    def contains(self, keys: Any) -> pa.Table:
        """Which keys may be in the table.

        Parameters
        ----------
        keys : n keys of the index's type: list, NumPy or Arrow array

        Returns
        -------
        pyarrow.Table
            key; present: False is always right; false_positive_rate: probability that present is
            wrong for a key that is not there (0 where the range of hashes already rules it out).
        """
        return self._contained(keys)

    def _contained(self, keys: Any, **how: Any) -> pa.Table:
        array, _, present, rates = self._asked(keys, **how)
        columns = {"present": pa.array(present), "false_positive_rate": pa.array(rates)}
        return pa.table({"key": array, **columns})

    def _asked(self, keys: Any, **how: Any) -> tuple[pa.Array, np.ndarray, np.ndarray, np.ndarray]:
        """The keys, the partition of each, whether it may be there, and how often that is wrong."""

        def asked(now: Revision) -> tuple[pa.Array, np.ndarray, np.ndarray, np.ndarray]:
            array, hashes = self._hashed(keys, now.manifest)
            where, groups = by_partition(hashes, now.manifest.partitions, now.zones)
            present, rates = np.zeros(len(hashes), np.bool_), np.zeros(len(hashes))
            if groups:
                present[where] = self._ask(now.names, groups, **how)
                rates[where] = np.repeat(
                    [now.rates[p] for p, _ in groups], [len(g) for _, g in groups]
                )
            return array, to_partitions(hashes, now.manifest.partitions), present, rates

        return self._of_revision(asked)

    def _of_revision(self, answer: Callable[[Revision], T]) -> T:
        """The answer of what is open; where files of that are gone, of what there is now."""
        while True:
            now = self._now
            try:
                return answer(now)
            except SourceError:
                with suppress(SourceError):
                    self.refresh()
                if self._now is now:
                    raise

    def _ask(self, names: Mapping[int, str], groups: HashGroups) -> np.ndarray:
        return ask_here(self._folder, names, groups)

    def locate(self, keys: Any) -> pa.Table:
        """The partitions that may hold each key: none or one. Columns key, partitions."""
        array, placed, found, _ = self._asked(keys)
        ends = np.concatenate([[0], np.cumsum(found)]).astype(np.int32)
        lists = pa.ListArray.from_arrays(ends, pa.array(placed[found].astype(np.int32)))
        return pa.table({"key": array, "partitions": lists})

    def quantile(self, q: Any) -> pa.Table:
        """Quantiles of the ranked column: q, value, lower, upper, confidence (always 1).

        No rows while the index is empty.
        """
        asked = check_fractions(q)
        answer = self._ranked().quantile(asked)
        return _table({"q": asked[: len(answer.value)]}, answer)

    def rank(self, values: Any) -> pa.Table:
        """How many records are at most each value: x, value, lower, upper, confidence."""
        return _table({"x": _questions(values)}, self._ranked().rank(values))

    def count_between(self, low: Any, high: Any) -> pa.Table:
        """How many records lie between two values, both included: low, high, value, lower, ..."""
        digest = self._ranked()
        until, before = digest.rank(high), digest.rank(low, inclusive=False)
        lows, highs = _questions(low), _questions(high)
        if len(lows) != len(highs) or (np.asarray(highs) < np.asarray(lows)).any():
            raise BadArgument(f"low={low!r}, high={high!r}: as many of each, and low <= high")
        lower = np.maximum(until.lower - before.upper, 0)
        upper = until.upper - before.lower
        value = np.clip(until.value - before.value, lower, upper)
        return _table({"low": lows, "high": highs}, Estimate(value, lower, upper, 1.0))

    def warm(self) -> None:
        """Map and check all files now, not when they are first asked."""
        self._of_revision(lambda now: [opened(f"{self._folder}/{n}") for n in now.names.values()])

    def _ranked(self) -> DyadicQDigest:
        digest = self.digest
        if digest is None:
            raise BadArgument("this index was built without `rank`: it knows no quantiles")
        return digest

    def _hashed(self, keys: Any, manifest: Manifest) -> tuple[pa.Array, np.ndarray]:
        array = keys if isinstance(keys, pa.DictionaryArray) else given_items(keys)
        if len(array):
            check_type(manifest, array.type, "keys")
        return array, hash_items(array, manifest.seed)


def keep_present(
    batches: Iterator[pa.RecordBatch], *, column: int, folder: str, manifest: Manifest, keep: bool
) -> Iterator[pa.RecordBatch]:
    """Rows whose key may be in the index, or (keep False) is surely not in it. Nulls are not."""
    reader = IndexReader(folder, manifest, None)
    for batch in batches:
        keys = batch.column(column)
        kept = np.zeros(batch.num_rows, np.bool_)
        kept[np.asarray(keys.is_valid())] = reader.contains(keys.drop_null())["present"]
        yield batch.filter(pa.array(kept == keep))


def check_type(manifest: Manifest, kind: pa.DataType, name: str) -> None:
    """BadArgument where a column of that type has no keys of this index."""
    check_key(kind, name)
    if item_type(kind) != manifest.item_type:
        raise BadArgument(
            f"{name!r} is {kind}, but the keys of this index are {manifest.item_type}"
        )


def check_key(kind: pa.DataType, name: str) -> None:
    """BadArgument where a column of that type cannot be a key."""
    try:
        hash_items(pa.array([], kind))
    except BadArgument:
        raise BadArgument(
            f"column {name!r} is {kind}: a key is text, binary, an integer, a date or a timestamp"
        ) from None


def read_newest(folder: str) -> tuple[Manifest, DyadicQDigest | None]:
    """The manifest of a folder, whose files are all there with their sizes, and its digest."""
    while True:
        manifest = Manifest.stored(folder)
        try:
            manifest.check_files(folder)
            return manifest, _read_digest(folder, manifest)
        except SourceError:  # is it that another process made a newer one, and deletes the old?
            if Manifest.stored(folder) == manifest:  # or that one once more, after the newer one?
                manifest.check_files(folder)
                return manifest, _read_digest(folder, manifest)


def _read_digest(folder: str, manifest: Manifest) -> DyadicQDigest | None:
    if not manifest.digest:
        return None
    path = f"{folder}/{manifest.digest}"
    digest = DyadicQDigest.from_bytes(read_checked(path))
    if digest.count != manifest.records:
        raise CorruptSummary(f"{path} counted {digest.count} of {manifest.records} records")
    return digest


def _questions(values: Any) -> np.ndarray:
    """As an answer shows them: integers of more than 64 bits as the nearest floats."""
    if isinstance(values, pa.Scalar):
        values = values.as_py()
    if isinstance(values, pa.Array):
        values = values.to_numpy(zero_copy_only=False)
    elif isinstance(values, pa.ChunkedArray):
        values = values.to_numpy()
    asked = np.atleast_1d(np.asarray(values))
    long = asked.dtype == object and any(
        isinstance(each, int) and each.bit_length() > 64 for each in asked
    )
    return asked.astype(np.float64) if long else asked


def _table(asked: dict[str, Any], answer: Estimate) -> pa.Table:
    columns: dict[str, Any] = {name: pa.array(values) for name, values in asked.items()}
    for name in ("value", "lower", "upper"):
        columns[name] = pa.array(getattr(answer, name))
    columns["confidence"] = pa.array(np.full(len(answer.value), answer.confidence))
    return pa.table(columns)
