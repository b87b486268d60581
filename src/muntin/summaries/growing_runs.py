"""Static runs that grow: what the dynamic Bloom filter is made of.

Generation 0 is one run with a universe for `headroom` times the planned keys, so that up to there
the set of fingerprints is one set, whatever the order of updates and merges. Later generations
are 8 times as large each and get a twentieth of the error budget of the one before: the rates of
all that will ever exist add up to less than what was asked.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Self

import numpy as np

from muntin.errors import BadArgument, CorruptSummary
from muntin.summaries.static_filter import (
    RUN_KEYS_MAX,
    UNIVERSE_MAX,
    FingerprintRun,
    sorted_hashes,
    to_fingerprints,
)

GROWTH = 8
DECAY = 0.05  # budget of a generation, as a part of the one before
_WAITING_MIN = 1 << 16  # hashes that wait before runs are rebuilt: 512 KiB
_RUN = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class RunPlan:
    """How many keys each generation takes, and in which universe."""

    capacity: int
    fpp: float
    headroom: int

    def keys(self, generation: int) -> int:
        return min(self.capacity * self.headroom * GROWTH**generation, RUN_KEYS_MAX)

    def universe(self, generation: int) -> int:
        """0 where there is no such generation: the one before takes all that comes."""
        budget = self.fpp * (1 - DECAY) * DECAY**generation
        wanted = self.keys(generation) / budget
        return math.ceil(wanted) if wanted <= UNIVERSE_MAX else 0


class GrowingRuns:
    """At most one run a generation, and hashes that wait to be taken into the newest."""

    def __init__(self, plan: RunPlan) -> None:
        if plan.universe(0) == 0:
            raise BadArgument(
                f"fpp={plan.fpp} for {plan.capacity} keys is beyond what fingerprints of "
                f"56 bits can tell apart: ask for a higher fpp or fewer keys"
            )
        self._plan = plan
        self._runs: list[FingerprintRun] = []
        self._waiting: list[np.ndarray] = []
        self._waiting_count = 0

    @property
    def keys(self) -> int:
        """Distinct fingerprints."""
        self.settle()
        return sum(run.count for run in self._runs)

    @property
    def rates(self) -> list[float]:
        self.settle()
        return [run.rate for run in self._runs]

    @property
    def filter_bytes(self) -> int:
        self.settle()
        return sum(run.nbytes for run in self._runs)

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self._runs) + 8 * self._waiting_count

    def add(self, hashes: np.ndarray) -> None:
        self._waiting.append(hashes)
        self._waiting_count += len(hashes)
        newest = self._runs[-1].count if self._runs else 0
        if self._waiting_count >= max(_WAITING_MIN, newest // 4):
            self.settle()

    def find(self, hashes: np.ndarray, out: np.ndarray) -> None:
        self.settle()
        for run in self._runs:
            run.find(hashes, out)

    def settle(self) -> None:
        """Take the waiting hashes into the runs."""
        if not self._waiting:
            return
        hashes = sorted_hashes(np.concatenate(self._waiting))
        self._waiting, self._waiting_count = [], 0
        self.fill(hashes)

    def fill(self, hashes: np.ndarray) -> None:
        """Take ascending hashes into the runs at once."""
        for run in self._runs[:-1]:
            hashes = _unknown(run, hashes)
        generation = max(0, len(self._runs) - 1)
        while len(hashes):
            universe = self._plan.universe(generation)
            run = self._runs[generation] if generation < len(self._runs) else None
            free = max(0, self._plan.keys(generation) - (run.count if run else 0))
            fresh, taken = to_fingerprints(hashes, universe), np.ones(len(hashes), np.bool_)
            if len(fresh) > free and self._plan.universe(generation + 1):
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

    def merge(self, other: Self) -> None:
        """Union, generation by generation; a generation may then hold more than it plans."""
        self.settle()
        other.settle()
        for generation, theirs in enumerate(other._runs):
            if generation == len(self._runs):
                self._runs.append(theirs)
            else:
                ours = self._runs[generation]
                self._runs[generation] = ours.union(theirs.fingerprints())

    def copy(self) -> Self:
        twin = type(self)(self._plan)
        twin._runs = list(self._runs)  # runs never change
        twin._waiting = list(self._waiting)
        twin._waiting_count = self._waiting_count
        return twin

    def write(self) -> bytes:
        self.settle()
        parts = []
        for run in self._runs:
            parts += [_RUN.pack(run.count), *run.parts()]
        return b"".join(parts)

    @classmethod
    def read(cls, data: memoryview, plan: RunPlan, *, copy: bool) -> Self:
        made = cls(plan)
        while len(data):
            universe = plan.universe(len(made._runs))
            if universe == 0 or len(data) < _RUN.size:
                raise CorruptSummary("dynamic_bloom: bytes behind the last run")
            (count,) = _RUN.unpack_from(data)
            run, used = FingerprintRun.read(data[_RUN.size :], universe, count, copy=copy)
            made._runs.append(run)
            data = data[_RUN.size + used :]
        return made


def _unknown(run: FingerprintRun, hashes: np.ndarray) -> np.ndarray:
    """The hashes that a run does not find."""
    known = np.zeros(len(hashes), np.bool_)
    run.find(hashes, known)
    return hashes[~known] if known.any() else hashes
