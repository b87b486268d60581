"""Dynamic Bloom filter: is a key among those seen? Never a wrong no, at any number of keys.

State       sorted fingerprints, Elias-Fano coded, one run a generation; hashes that wait for it
Error       a wrong yes with the sum of the runs' rates at most: a run takes in what those before
            say no to, so that they overlap little; below `fpp` at any number of keys, but after
            merges beyond capacity * headroom of them
Merge       union of fingerprints, the same as one filter over both up to capacity * headroom
            keys; beyond, rates add up
Duplicates  harmless
Source      Guo, Wu, Chen, Yuan, Luo: The Dynamic Bloom Filters, TKDE 2010 (as published:
            `benchmarks/published`); Almeida et al.: Scalable Bloom Filters, IPL 2007 (shrinking
            budget); `static_filter` for the runs
Limits      a filter that does not know how many keys will come pays for it: Omega(log log n) bits
            a key (Pagh, Segev, Wieder: FOCS 2013). Here `headroom`: a key's fingerprint is long
            enough for headroom * capacity keys, log2(headroom) bits more than at the plan, and
            until then the rate is that much lower, too

Generation 0 is one run with a universe for `headroom` times the planned keys, so that up to there
the set of fingerprints is one set, whatever the order of updates and merges. Later generations
are 8 times as large each and get a twentieth of the error budget of the one before: the rates of
all that will ever exist add up to less than what was asked.
"""

import math
import struct
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import pyarrow as pa

from muntin.arrow import is_text, value_type
from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.summaries.base import Copied
from muntin.summaries.checks import INT64_MAX, check_alike, check_seed, integer_in, one_of
from muntin.summaries.envelope import opened, seal
from muntin.summaries.items import given_items, hash_items
from muntin.summaries.kernels.static_filter import spread
from muntin.summaries.static_filter import (
    RUN_KEYS_MAX,
    UNIVERSE_MAX,
    FingerprintRun,
    sorted_hashes,
    to_fingerprints,
)
from muntin.summaries.weights import added

ItemType = Literal["text", "integers", "dates", "times"]
CAPACITY_MAX = 1 << 40
HEADROOM = 64
HEADROOM_MAX = 1 << 20
GROWTH = 8
DECAY = 0.05  # budget of a generation, as a part of the one before
_WAITING_MIN = 1 << 16  # hashes that wait before runs are rebuilt: 512 KiB
_OUTWARDS = np.array([[-(2.0**13)], [2.0**13]])  # more than a hash as a float is off
_LAST = 2.0**64 - 2.0**11  # the greatest float that is a hash
_WIDE = 1 << 49  # of so many fingerprints each has more hashes than lie between two ends
_COUNT = struct.Struct("<Q")


class Mapped(Copied, ABC):
    """What can be read in place, as a file is mapped into memory."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` gave; CorruptSummary for anything else."""
        return cls._read(data, copy=True)

    @classmethod
    def mapped(cls, data: memoryview) -> Self:
        """As `from_bytes`, but filters are read in place; `data` must never change."""
        return cls._read(data, copy=False)

    @classmethod
    @abstractmethod
    def _read(cls, data: bytes | memoryview, *, copy: bool) -> Self: ...


class DynamicBloom(Mapped):
    """Which keys were seen.

    Parameters
    ----------
    capacity : int
        Keys that are planned for; more may come.
    fpp : float
        False-positive rate between 0 and 1, which updates never exceed, however many; nor do
        merges, up to capacity * headroom keys. Beyond, `false_positive_rate` says what it is.
    seed : int
        Of the hash, 0 ... 2**64 - 1.
    headroom : int
        Times the planned keys that one run has fingerprints for. 1 saves 6 bits a
        key against 64, where `capacity` is known not to be passed by much.

    Examples
    --------
    >>> seen = DynamicBloom(capacity=1000, fpp=0.01)
    >>> seen.update(["a", "b"])
    >>> seen.contains(["a", "x"])
    array([ True, False])
    """

    kind: ClassVar[str] = "dynamic_bloom"

    def __init__(
        self, capacity: int = 100_000, fpp: float = 0.01, seed: int = 0, headroom: int = HEADROOM
    ) -> None:
        capacity = integer_in("capacity", capacity, 1, CAPACITY_MAX)
        seed = check_seed(seed)
        headroom = integer_in("headroom", headroom, 1, HEADROOM_MAX)
        if isinstance(fpp, bool) or not isinstance(fpp, float) or not 0 < fpp < 1:
            raise BadArgument(f"fpp={fpp!r}: a probability between 0 and 1, both excluded")
        self.parameters: dict[str, Any] = {
            "capacity": capacity,
            "fpp": fpp,
            "headroom": headroom,
            "seed": seed,
        }
        self._seed = seed
        self._type: ItemType | None = None
        self._count = 0
        if self._universe(0) == 0:
            raise BadArgument(
                f"fpp={fpp} for {capacity} keys is beyond what fingerprints of "
                f"56 bits can tell apart: ask for a higher fpp or fewer keys"
            )
        self._runs: list[FingerprintRun] = []
        self._waiting: list[np.ndarray] = []
        self._waiting_count = 0

    @classmethod
    def of_hashes(
        cls,
        hashes: np.ndarray,
        fpp: float = 0.01,
        seed: int = 0,
        *,
        item_type: ItemType | None = None,
        capacity_min: int = 1,
        headroom: int = 1,
    ) -> Self:
        """The filter of these keys, planned for as many as there are.

        The same as a filter of that capacity that is updated with `hashes`, in one sort of them.

        Parameters
        ----------
        hashes : uint64[n]
            XXH64 of the keys with `seed`, in any order; repeats are harmless.
        item_type : {"text", "integers", "dates", "times"}, optional
            What the keys are, where it is known.
        capacity_min : int
            Planned keys where there are fewer.
        """
        ordered = sorted_hashes(_spread(_as_hashes(hashes)))
        least = integer_in("capacity_min", capacity_min, 1, CAPACITY_MAX)
        made = cls(max(least, len(ordered)), fpp, seed, headroom)
        made._check_type(item_type)
        made._type = item_type if len(hashes) else None
        made._count = len(hashes)
        made._fill(ordered)
        return made

    @property
    def capacity(self) -> int:
        """Keys that it was planned for."""
        return self.parameters["capacity"]

    @property
    def fpp(self) -> float:
        """The rate that was asked for; `false_positive_rate()` is what it is now."""
        return self.parameters["fpp"]

    @property
    def seed(self) -> int:
        """Of the hashes; filters of different seeds do not merge."""
        return self._seed

    @property
    def item_type(self) -> ItemType | None:
        """What the keys are; None while that is not known."""
        return self._type

    @property
    def count(self) -> int:
        """Items seen, repeats included."""
        return self._count

    @property
    def keys(self) -> int:
        """Different items seen (but those that were taken for others)."""
        return sum(run.count for run in self._settled())

    @property
    def filters(self) -> int:
        """Filters that a question goes through."""
        return len(self._settled())

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(run.nbytes for run in self._runs) + 8 * self._waiting_count

    @property
    def bits_per_key(self) -> float:
        """Size of the filters for each of `keys`; 0 while there are none."""
        keys = self.keys
        return 8 * sum(run.nbytes for run in self._runs) / keys if keys else 0.0

    def false_positive_rate(self) -> float:
        """Probability at most that `contains` says yes to a key that was not seen, as it is now."""
        return min(sum(run.rate for run in self._settled()), 1.0)

    def update(self, items: Any) -> None:
        """See items: strings or binary, integers, dates, or times (in whatever unit), all of one
        of these types for the life of the filter.

        Raises
        ------
        BadArgument
            Null items, floats, or items of another type than were seen before.
        """
        self.update_hashes(*self._hashed(items))

    def hashes(self, items: Any) -> np.ndarray:
        """XXH64 of items with this filter's seed, uint64[n]; refused as by `update`."""
        return self._hashed(items)[0]

    def update_hashes(self, hashes: np.ndarray, item_type: ItemType | None = None) -> None:
        """See items by what `hashes` gave for them, and their type where it is known."""
        hashes = _as_hashes(hashes)
        self._check_type(item_type)
        self._count = added(self._count, len(hashes), self.kind, "items")
        if len(hashes) and item_type:
            self._type = item_type
        self._take(_spread(hashes))

    def contains(self, items: Any) -> np.ndarray:
        """bool[n]: False means never seen; True is wrong with `false_positive_rate()`.

        Items are refused as by `update`.
        """
        return self.contains_hashes(self.hashes(items))

    def contains_hashes(self, hashes: np.ndarray) -> np.ndarray:
        """As `contains`, for hashes."""
        hashes = _as_hashes(hashes)
        out = np.zeros(len(hashes), np.bool_)
        asked = _spread(hashes)
        for run in self._settled():
            run.find(asked, out)
        return out

    def merge(self, other: Self) -> None:
        """See what `other` saw. Parameters and the type of items must be the same."""
        check_alike(self, other)
        if self._type and other._type and self._type != other._type:
            raise IncompatibleSummary(f"one filter saw {self._type}, the other {other._type}")
        count = added(self._count, other._count, self.kind, "items")
        runs = self._settled()
        for generation, theirs in enumerate(other._settled()):
            if generation == len(runs):
                runs.append(theirs)
            else:  # which may then hold more than it plans
                runs[generation] = runs[generation].union(theirs.fingerprints())
        self._runs = _once(runs)
        self._type = self._type or other._type
        self._count = count

    def copy(self) -> Self:
        """A filter of its own over the same keys."""
        twin = self._shallow()
        twin._runs, twin._waiting = list(self._runs), list(self._waiting)  # of what never changes
        return twin

    def to_bytes(self) -> bytes:
        """Versioned bytes with a checksum."""
        parameters = {**self.parameters, "items": self._type or ""}
        parts = [_COUNT.pack(self._count)]
        for run in self._settled():
            parts += [_COUNT.pack(run.count), *run.parts()]
        return seal(self.kind, parameters, b"".join(parts))

    @classmethod
    def _read(cls, data: bytes | memoryview, *, copy: bool) -> Self:
        fields, body = opened(data, cls.kind)
        kind = fields.choice("items", ("", *get_args(ItemType)))
        made = fields.made(cls, "capacity", "fpp", "headroom", "seed")
        fields.done()
        made._type = kind or None
        made._count = body.number()
        while body.left:
            universe = made._universe(len(made._runs))
            if universe == 0:
                raise CorruptSummary("dynamic_bloom: bytes behind the last run")
            made._runs.append(FingerprintRun.read(body, universe, body.number(), copy=copy))
        keys = made.keys
        if not keys <= made._count <= INT64_MAX or (made._count > 0) != (keys > 0):
            raise CorruptSummary(f"dynamic_bloom: {keys} keys of {made._count} items")
        return made

    def _planned(self, generation: int) -> int:
        first = self.parameters["capacity"] * self.parameters["headroom"]
        return min(first * GROWTH**generation, RUN_KEYS_MAX)

    def _universe(self, generation: int) -> int:
        """0 where there is no such generation: the one before takes all that comes."""
        budget = self.parameters["fpp"] * (1 - DECAY) * DECAY**generation
        wanted = self._planned(generation) / budget
        return math.ceil(wanted) if wanted <= UNIVERSE_MAX else 0

    def _take(self, hashes: np.ndarray) -> None:
        self._waiting.append(hashes)
        self._waiting_count += len(hashes)
        newest = self._runs[-1].count if self._runs else 0
        if self._waiting_count >= max(_WAITING_MIN, newest // 4):
            self._settled()

    def _settled(self) -> list[FingerprintRun]:
        """The runs, with the hashes that waited in them."""
        if self._waiting:
            hashes = sorted_hashes(np.concatenate(self._waiting))
            self._waiting, self._waiting_count = [], 0
            self._fill(hashes)
        return self._runs

    def _fill(self, hashes: np.ndarray) -> None:
        """Take ascending hashes into the runs."""
        for run in self._runs[:-1]:
            hashes = _unknown(run, hashes)
        generation = max(0, len(self._runs) - 1)
        while len(hashes):
            universe = self._universe(generation)
            run = self._runs[generation] if generation < len(self._runs) else None
            free = max(0, self._planned(generation) - (run.count if run else 0))
            fresh, taken = to_fingerprints(hashes, universe), np.ones(len(hashes), np.bool_)
            if len(fresh) > free and self._universe(generation + 1):
                hashes = hashes if run is None else _unknown(run, hashes)
                taken = np.ones(len(hashes), np.bool_)
                if len(hashes) > free:  # evenly spaced ones, so that both runs stay uniform
                    taken[:] = False
                    taken[(np.arange(free) * len(hashes)) // max(free, 1)] = True
                fresh = to_fingerprints(hashes[taken], universe)
            if len(fresh):
                made = run.union(fresh) if run else FingerprintRun.of(fresh, universe)
                self._runs[generation:] = [made]
            hashes = hashes[~taken]
            generation += 1

    def _hashed(self, items: Any) -> tuple[np.ndarray, ItemType | None]:
        if not isinstance(items, pa.DictionaryArray):
            items = given_items(items)
        found = item_type(items.type) if len(items) else None
        self._check_type(found)
        return hash_items(items, self._seed), found

    def _check_type(self, found: ItemType | None) -> None:
        if found is not None:
            one_of("item_type", found, get_args(ItemType))
        if self._type and found and found != self._type:
            raise BadArgument(f"these keys are {found}, those seen before are {self._type}")


def item_type(kind: pa.DataType) -> ItemType:
    """What items are: within one of these types equal ones hash alike, whatever their width."""
    kind = value_type(kind)
    if pa.types.is_date(kind):
        return "dates"
    if pa.types.is_timestamp(kind):
        return "times"
    return "text" if is_text(kind, or_binary=True) else "integers"


def _unknown(run: FingerprintRun, hashes: np.ndarray) -> np.ndarray:
    known = np.zeros(len(hashes), np.bool_)
    run.find(hashes, known)
    return hashes[~known] if known.any() else hashes


def _once(runs: list[FingerprintRun]) -> list[FingerprintRun]:
    """Runs without the fingerprints for all hashes of which an earlier one says yes."""
    kept = runs[:1]
    for run in runs[1:]:
        prints = run.fingerprints()
        ends = (prints + np.array([[0], [1]], np.uint64)) * (2.0**64 / run.universe)  # of hashes
        ends = np.clip(ends + _OUTWARDS, 0, _LAST).astype(np.uint64)
        known = np.zeros(len(prints), np.bool_)
        for earlier in kept:
            # what lies between two ends is of one of two fingerprints
            if earlier.universe <= _WIDE:
                found = np.zeros(ends.shape, np.bool_)
                earlier.find(ends[0], found[0])
                earlier.find(ends[1], found[1])
                known |= found.all(axis=0)
        if not known.all():
            kept.append(FingerprintRun.of(prints[~known], run.universe))
        elif run is not runs[-1]:
            kept.append(run)  # a generation is told by its place
    return kept


def _spread(hashes: np.ndarray) -> np.ndarray:
    out = np.empty_like(hashes)
    spread(hashes, out)
    return out


def _as_hashes(hashes: np.ndarray) -> np.ndarray:
    if not isinstance(hashes, np.ndarray) or hashes.dtype != np.uint64 or hashes.ndim != 1:
        raise BadArgument("hashes are a one-dimensional array of uint64")
    return np.ascontiguousarray(hashes)
