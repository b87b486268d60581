"""Count-Min: the weight of any item of a stream, in fixed memory.

=========== =================================================================================
State       cells: int64 or int32 [depth, width]; total weight and number of events: int
Error       truth <= upper always; upper - truth <= ceil(e / width * total) with probability
            1 - exp(-depth), for each item asked for (not for all items at once)
Merge       with the same width, depth, conservative, cells, seed and track. Exact: the cells
            of the whole stream; conservative: a bound as above, but looser than one sketch's
Duplicates  count again
Source      Cormode & Muthukrishnan, J. Algorithms 55 (2005), section 3; conservative update:
            Estan & Varghese, SIGCOMM 2002; the value: Ting, KDD 2018 (its median)
Limits      weights >= 0; no item can be taken back; items are not kept (but see `track`).
            The error is a share of the whole stream: rare items drown in it
=========== =================================================================================

**The lower bound.** Count-Min alone bounds an item's weight only from above. `lower` is
`upper - ceil(e / width * total)`, or 0: it holds with the stated probability and no more. Some
libraries return the least cell itself as lower bound, which is false for every item that collides.

**The value.** The least cell, as is the custom, is above the truth for nearly all items, and by
nearly as much for each: by what others add to the least of an item's cells. How much that is the
cells themselves tell, and half of the items get less: taken away, a sixth of the error is left.
Conservative updates leave hardly any of it in the cells of heavy items: there the least is given.
"""

import math
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, CorruptSummary
from muntin.segments.streams import ENTRY_BYTES, StreamReader, StreamWriter
from muntin.summaries.base import Estimate, Weighed
from muntin.summaries.checks import INT64_MAX, boolean, check_alike, check_seed, integer_in, one_of
from muntin.summaries.envelope import opened, seal
from muntin.summaries.items import as_items, hash_items
from muntin.summaries.kernels import count_min as kernels
from muntin.summaries.space_saving import SpaceSaving
from muntin.summaries.weights import added, as_weights, exact_sum, total_of

DEPTH_MAX = 32  # a failure probability of exp(-32): no use has more rows
CELLS_MAX = 1 << 28  # 2 GiB of int64 cells: past that, a width was mistyped
TRACK_MAX = 1 << 20

Cells = Literal["int64", "int32"]
_CELLS = ("int64", "int32")
_E_NUMERATOR, _E_DENOMINATOR = 2_718_281_828_459_046, 10**15  # e, rounded up


class CountMin(Weighed):
    """Weights of items, each with an upper bound that is certain.

    Parameters
    ----------
    width : int
        Columns, at least 2. The error is e / width of the total weight.
    depth : int
        Rows, 1 ... 32. An estimate breaks its bound with probability exp(-depth).
    conservative : bool
        Raise an item's cells no further than its new estimate: errors shrink several times on
        skewed streams, at two to three times the time. Depends on the order of the items.
    cells : "int64" or "int32"
        int32 halves the memory; a cell that would pass 2**31 - 1 stays there and `saturated`
        says so. Estimates then keep true bounds (see `estimate`).
    seed : int
        Of the hash, 0 ... 2**64 - 1.
    track : int
        Also keep the heaviest items themselves, in a SpaceSaving of this many counters, for
        `top` and for closer bounds. 0: keep none.

    Raises
    ------
    BadArgument
        A parameter out of its range.

    Examples
    --------
    >>> sketch = CountMin(width=2048, depth=5, track=16)
    >>> sketch.update(["JFK", "EWR", "JFK"])
    >>> int(sketch.estimate("JFK").value[0])
    2
    """

    kind: ClassVar[str] = "count_min"

    def __init__(
        self,
        width: int = 2048,
        depth: int = 5,
        conservative: bool = False,
        cells: Cells = "int64",
        seed: int = 0,
        track: int = 0,
    ) -> None:
        self.width = integer_in("width", width, 2, CELLS_MAX)
        self.depth = integer_in("depth", depth, 1, DEPTH_MAX)
        self.seed = check_seed(seed)
        self.track = integer_in("track", track, 0, TRACK_MAX)
        if self.width * self.depth > CELLS_MAX:
            raise BadArgument(
                f"{width} x {depth} cells are too many: at most {CELLS_MAX} are allowed"
            )
        self.conservative = boolean("conservative", conservative)
        self.cells: Cells = one_of("cells", cells, _CELLS)
        self._cells = np.zeros((self.depth, self.width), cells)
        self._events = 0
        self._total = 0
        self._saturated = False
        self._heavy = SpaceSaving(self.track, seed=self.seed) if track else None

    @classmethod
    def for_error(cls, epsilon: float, delta: float, **parameters: Any) -> Self:
        """The smallest sketch with error <= epsilon * total at probability 1 - delta.

        Parameters
        ----------
        epsilon : float
            Share of the total weight, above 0 and below 1.
        delta : float
            Probability that one estimate is further off, above 0 and below 1.
        **parameters
            `conservative`, `cells`, `seed`, `track`.
        """
        for name, value in (("epsilon", epsilon), ("delta", delta)):
            if not isinstance(value, Real) or not 0 < value < 1:
                raise BadArgument(f"{name} must lie between 0 and 1, got {value!r}")
        return cls(*size_for(epsilon, delta), **parameters)

    @property
    def saturated(self) -> bool:
        """A cell is at its type's maximum."""
        return self._saturated

    @property
    def confidence(self) -> float:
        """Probability that `lower` of one estimate holds."""
        return -math.expm1(-self.depth)

    @property
    def error(self) -> int:
        """ceil(e / width * total), at most the total: by how much an estimate may be high."""
        return error_of(self._total, self.width)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._cells.nbytes + (self._heavy.nbytes if self._heavy else 0)

    def update(self, items: Any, weights: Any = None) -> None:
        """Count items.

        Parameters
        ----------
        items : array of str, bytes or int [n], or one item
            What `muntin.summaries.items.as_items` takes: Arrow, NumPy or Python, all of one type.
        weights : int64[n] or int, optional
            0 ... 2**63 - 1; 1 each where none are given.

        Raises
        ------
        BadArgument
            Null or float items; weights that are negative or not one for each item.
        SummaryOverflow
            The total weight would leave int64. Nothing was counted.
        """
        if not isinstance(items, pa.DictionaryArray):
            items = as_items(items)  # read once: the second time, an iterator has nothing left
        hashes = hash_items(items, self.seed)
        amounts = as_weights(weights, len(hashes))
        total = added(self._total, total_of(amounts, len(hashes)), "count_min")
        if self._heavy is not None:
            self._heavy._update_hashed(items, hashes, amounts)
        limit = self._limit if total > self._limit else kernels.LIMIT_MAX
        clamped = kernels.add(self._cells, hashes, amounts, limit, self.conservative)
        self._saturated |= bool(clamped)
        self._total = total
        self._events += len(hashes)

    def estimate(self, items: Any) -> Estimate:
        """Weight of each item, with its bound.

        Parameters
        ----------
        items : array of str, bytes or int [n], or one item

        Returns
        -------
        Estimate
            int64[n]. `upper`, the least of the item's cells, is never below the truth. `lower` =
            `upper - error`, not below 0, at probability `confidence` = 1 - exp(-depth) for each
            item. `value` is `upper`, less what others add to the least cell at the median (but
            with conservative updates). Where all the item's cells are saturated (int32), `value`
            is the cells' maximum and `upper` the total weight, all that is certain then.

            With `track`, all three are brought within the interval of the tracked items, which
            is certain. While these are all items that came, it is exact, at `confidence` 1.
        """
        if self._heavy is None:
            return self._of_cells(items)
        items = as_items(items)
        hashes = hash_items(items, self.seed)
        known = self._of_hashes(hashes)
        try:
            listed = self._heavy._estimate_hashed(items, hashes)
        except BadArgument:  # of another type than those tracked, which cells take as well
            return known
        upper = np.minimum(known.upper, listed.upper)
        lower = np.clip(known.lower, listed.lower, upper)
        confidence = known.confidence if self._heavy.offset else 1.0
        return Estimate(np.clip(known.value, lower, upper), lower, upper, confidence)

    def _of_cells(self, items: Any) -> Estimate:
        """As `estimate`, by the cells alone."""
        return self._of_hashes(hash_items(items, self.seed))

    def _of_hashes(self, hashes: np.ndarray) -> Estimate:
        upper = np.empty(len(hashes), np.int64)
        kernels.estimate(self._cells, hashes, upper)
        lower = np.maximum(upper - self.error, 0)
        value = upper.copy()
        if not self.conservative:
            cells = self._cells.ravel().astype(np.int64, copy=False)
            value = np.maximum(upper - kernels.noise(cells, self.depth), lower)
        if self._saturated:
            full = upper == self._limit
            value[full], upper[full] = self._limit, self._total
        return Estimate(value, lower, upper, self.confidence)

    def top(self, k: int | None = None) -> pa.Table:
        """The heaviest items, as `SpaceSaving.top`, with Count-Min's bound where it is tighter.

        Returns
        -------
        pyarrow.Table
            item, value, lower, upper (int64), guaranteed (bool); heaviest first. All bounds here
            are certain: they do not use Count-Min's lower bound, which is not.

        Raises
        ------
        BadArgument
            The sketch keeps no items: it was made with `track=0`.
        """
        if self._heavy is None:
            raise BadArgument("this CountMin keeps no items: make it with track=k, k above 0")
        return self._heavy._ranked(k, self._of_cells)

    def merge(self, other: Self) -> None:
        """Add another sketch of the same parameters and seed.

        Raises
        ------
        IncompatibleSummary
            Other parameters, seed or kind.
        SummaryOverflow
            The total weight would leave int64. Nothing was changed.
        """
        check_alike(self, other)
        total = added(self._total, other._total, "count_min")
        events = added(self._events, other._events, "count_min", "events")
        if self._heavy is not None and other._heavy is not None:
            self._heavy.merge(other._heavy)
        self._cells += other._cells
        self._saturated |= other._saturated
        if self.cells == "int32" and (over := self._cells < 0).any():  # int64 never is
            self._cells[over] = self._limit
            self._saturated = True
        self._total = total
        self._events = events

    @property
    def parameters(self) -> dict[str, Any]:
        """What two sketches must share to be merged."""
        return {
            "width": self.width,
            "depth": self.depth,
            "conservative": self.conservative,
            "cells": self.cells,
            "seed": self.seed,
            "track": self.track,
        }

    def to_bytes(self) -> bytes:
        """The sketch in Muntin's envelope: cells as a stream of a segment, compressed."""
        out = StreamWriter()
        out.numbers(self._cells.ravel().astype(np.int64, copy=False))
        described = self.parameters | {
            "events": self._events,
            "total": self._total,
            "saturated": self._saturated,
        }
        heavy = self._heavy.to_bytes() if self._heavy else b""
        return seal(self.kind, described, *out.written(), heavy)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The sketch that `to_bytes` wrote.

        Raises
        ------
        CorruptSummary
            Anything else: damaged, cut, of another kind, cells that contradict the total, or more
            than so few bytes can hold, unless all are 0.
        """
        fields, body = opened(data, cls.kind)
        names = ("width", "depth", "conservative", "cells", "seed", "track")
        sketch = fields.made(cls, *names)  # without memory, before something is counted
        sketch._events = fields.integer("events", 0, INT64_MAX)
        sketch._total = fields.integer("total", 0, INT64_MAX)
        sketch._saturated = fields.choice("saturated", [True, False])
        fields.done()
        reader, size = StreamReader(body.view(ENTRY_BYTES), body.rest()), sketch._cells.size
        if sketch._total:
            numbers = reader.numbers(size)
            if numbers.min() < 0 or numbers.max() > sketch._limit:
                raise CorruptSummary("count_min: a cell is beyond its type")
            sketch._cells = numbers.astype(sketch.cells).reshape(sketch.depth, sketch.width)
        else:
            reader.zeros(size)
        sketch._heavy = SpaceSaving.from_bytes(bytes(reader.rest())) if sketch.track else None
        reader.done()
        sketch._check()
        return sketch

    def _check(self) -> None:
        """What is true of every sketch that `update` and `merge` can make."""
        rows = self._cells.astype(np.int64, copy=False) if self._total else [np.zeros(1, np.int64)]
        sums = [exact_sum(row) for row in rows]
        if max(sums) > self._total or (self._total > 0) != (min(sums) > 0):
            raise CorruptSummary(f"count_min: rows sum to {sums}, the total is {self._total}")
        if not (self.conservative or self._saturated) and min(sums) != self._total:
            raise CorruptSummary(f"count_min: rows sum to {sums}, not to {self._total}")
        if self._saturated and int(self._cells.max()) != self._limit:
            raise CorruptSummary("count_min: said to be saturated, but no cell is")
        if self._total and not self._events:
            raise CorruptSummary("count_min: weight without an event")
        heavy = self._heavy
        if heavy is not None and (
            (heavy.capacity, heavy.seed, heavy.total, heavy.count)
            != (self.track, self.seed, self._total, self._events)
        ):
            raise CorruptSummary("count_min: the tracked items belong to another sketch")
        if heavy is not None:
            counts, errors = heavy._weights()
            least = np.empty(len(counts), np.int64)
            kernels.estimate(self._cells, heavy._hashes[: len(counts)], least)
            if (least < np.minimum(counts - errors, self._limit)).any():
                raise CorruptSummary("count_min: a tracked item weighs more than its cells have")

    @property
    def _limit(self) -> int:
        return (1 << (31 if self.cells == "int32" else 63)) - 1

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"CountMin({shown}): {self._events} events, error {self.error} of {self._total}"


def size_for(epsilon: float, delta: float) -> tuple[int, int]:
    """Width and depth whose error is at most epsilon * total at probability 1 - delta."""
    return max(2, math.ceil(math.e / epsilon)), max(1, math.ceil(-math.log(delta)))


def error_of(total: int, width: int) -> int:
    """ceil(e / width * total), at most the total: how far an estimate may lie above the truth."""
    return min(-(-total * _E_NUMERATOR // (width * _E_DENOMINATOR)), total)
