"""`fingerprint`: which keys there were, and between which ranks a number lies.

=========== =================================================================================
State       a row: `prints`, the different fingerprints of keys, ascending; of the numbers, if
            there are any, the nodes of a q-digest (`node`, `count`) and their extreme cells
            (`ends`); `nulls`, events without a key. An event without a number has no rank
Error       membership: never a wrong no; a wrong yes with probability keys / universe, below
            `fpp` up to 64 times `capacity` keys; it is told. Ranks: as `DyadicQDigest`
Merge       union of fingerprints, exact; q-digests add up, and are compressed where they are large
Duplicates  harmless for membership, count each time for rank
Source      see `muntin.summaries.fingerprint_index`
Limits      fingerprints do not depend on how events were spread; of more than 4 k different
            numbers, the nodes do
=========== =================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, CorruptSummary
from muntin.segments.algebra import Algebra, Shape
from muntin.segments.columns import NOTHING, Column, Ragged, States, frozen, lists
from muntin.segments.items import item_numbers
from muntin.segments.kernels import fingerprint as _kernels
from muntin.segments.keys import Keys
from muntin.segments.nulls import check_nulls, counts_of, merged_nulls, without_nulls
from muntin.segments.table import Table
from muntin.summaries.dyadic_qdigest import K_MAX, DyadicQDigest
from muntin.summaries.items import hash_items
from muntin.summaries.kernels.placement import spread
from muntin.summaries.kernels.static_filter import to_fingerprints
from muntin.summaries.order_maps import OrderMap, order_map
from muntin.summaries.with_nulls import absent

kernels: Any = _kernels  # lists of columns are unpacked into their calls
HEADROOM = 64
SHARE = 0.95  # of `fpp`, that the plan uses
CAPACITY_MAX = 1 << 40
UNIVERSE_MAX = 1 << 56


@dataclass(frozen=True)
class Members:
    """The question: whether keys were there."""

    keys: tuple[Any, ...]


@dataclass(frozen=True)
class NumbersAt:
    """The question: the numbers at fractions in [0, 1]."""

    fractions: tuple[float, ...]


@dataclass(frozen=True)
class RanksWithin:
    """The question: how many numbers are at most (or less than) points."""

    points: tuple[Any, ...]
    inclusive: bool = True


@dataclass(frozen=True)
class Fingerprints(Algebra):
    """Membership of keys, and ranks of a number. `fold` takes the keys and, if there is a domain,
    the numbers.

    Parameters
    ----------
    capacity : int
        Keys a row is planned to hold.
    fpp : float
        Wrong yes of a row of up to 64 times as many.
    domain : tuple of (name, value), optional
        Parameters of the numbers' `OrderMap`, sorted; None: keys only.
    k : int
        Nodes of the q-digest, up to a factor.
    """

    capacity: int = 100_000
    fpp: float = 0.01
    domain: tuple[tuple[str, Any], ...] | None = None
    k: int = 3100

    kind: ClassVar[str] = "fingerprint"
    order_free: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not _possible(self.capacity, self.fpp, self.k):
            raise BadArgument(f"fingerprint: {self.parameters()} is out of range")
        if self.universe > UNIVERSE_MAX:
            raise BadArgument(f"fpp {self.fpp} for {self.capacity:,} keys is beyond 56 bits")
        if self.domain is not None:
            order_map(dict(self.domain))

    @classmethod
    def over(
        cls, domain: OrderMap, error: float, capacity: int = 100_000, fpp: float = 0.01
    ) -> Self:
        """With the numbers of a domain, at a rank error that is never exceeded."""
        k = math.ceil(domain.bits / (2 * error))
        return cls(capacity, fpp, tuple(sorted(domain.parameters().items())), k)

    @property
    def universe(self) -> int:
        """Fingerprints that there are."""
        return math.ceil(self.capacity * HEADROOM / (self.fpp * SHARE))

    @property
    def _map(self) -> OrderMap:
        assert self.domain is not None  # noqa: S101
        return order_map(dict(self.domain))

    def parameters(self) -> dict[str, Any]:
        domain = None if self.domain is None else dict(self.domain)
        return {"capacity": self.capacity, "fpp": self.fpp, "domain": domain, "k": self.k}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        names = ("capacity", "fpp", "k")
        domain = parameters.get("domain")
        found = [parameters.get(name) for name in names]
        if (
            set(parameters) != {*names, "domain"}
            or not _possible(*found)
            or not (domain is None or isinstance(domain, dict))
        ):
            raise CorruptSummary(f"fingerprint: parameters {dict(parameters)!r:.200}")
        try:
            pairs = None if domain is None else tuple(sorted(domain.items()))
            made = cls(parameters["capacity"], parameters["fpp"], pairs, parameters["k"])
            known = domain is None or made._map.parameters() == domain
        except (BadArgument, TypeError) as problem:
            raise CorruptSummary(f"fingerprint: {problem}") from None
        if not known:
            raise CorruptSummary(f"fingerprint: domain {domain!r:.200}")
        return made

    def columns(self) -> dict[str, Shape]:
        shapes = {"nulls": Shape(), "prints": Shape(ragged=True)}
        if self.domain is not None:
            shapes |= {name: Shape(ragged=True) for name in ("node", "count", "ends")}
        return shapes

    def fold(
        self,
        values: Sequence[Any],
        order: np.ndarray,
        bounds: np.ndarray,
        items: Keys | None,  # noqa: ARG002
    ) -> States:
        numbers = values[1:]
        order, bounds, nulls, _ = without_nulls(values[:1], order, bounds)
        codes, different = item_numbers(values[0])
        of_item = self._prints(different)
        prints = of_item[codes] if len(of_item) else np.zeros(len(codes), np.int64)
        states: dict[str, Column] = {
            "nulls": nulls,
            "prints": _united(prints, NOTHING, order, bounds),
        }
        if self.domain is not None:
            if len(numbers) != 1:
                raise BadArgument("this fingerprint counts numbers, too: give their column")
            missing = absent(numbers)
            order, bounds, _, _ = without_nulls(numbers, order, bounds)
            leaves = np.zeros(len(codes), np.int64)
            there = slice(None) if missing is None else ~missing
            kept = numbers[0] if missing is None else numbers[0].filter(pa.array(there))
            cells = self._map.cells(kept)
            leaves[there] = (cells + np.uint64(1 << self._map.bits)).view(np.int64)
            flat = (NOTHING, frozen(leaves), NOTHING, NOTHING, NOTHING)
            states |= self._merged(flat, len(order), order, bounds)
        return states

    def merge(
        self,
        states: States,
        order: np.ndarray,
        bounds: np.ndarray,
        items: Keys | None,  # noqa: ARG002
    ) -> States:
        held = lists(states["prints"], len(order))
        out: dict[str, Column] = {
            "nulls": merged_nulls(states, order, bounds),
            "prints": _united(held.items, held.starts, order, bounds),
        }
        if self.domain is not None:
            flat = _nodes(states, len(order))
            out |= self._merged(flat, len(flat[1]), order, bounds)
        return out

    def _merged(
        self, flat: Any, size: int, order: np.ndarray, bounds: np.ndarray
    ) -> dict[str, Column]:
        groups = len(bounds) - 1
        starts, end_starts = np.empty(groups + 1, np.int64), np.empty(groups + 1, np.int64)
        nodes, counts, ends = (
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            np.empty(2 * groups, np.int64),
        )
        kernels.merge_nodes(
            *flat, order, bounds, self.k, self._map.bits,
            starts, nodes, counts, end_starts, ends,
        )  # fmt: skip
        used, at = int(starts[-1]), frozen(starts)
        if not used:
            return {"node": None, "count": None, "ends": None}
        return {
            "node": Ragged(at, frozen(nodes[:used].copy())),
            "count": Ragged(at, frozen(counts[:used].copy())),
            "ends": Ragged(frozen(end_starts), frozen(ends[: int(end_starts[-1])].copy())),
        }

    def check(self, table: Table) -> None:
        check_nulls(table)
        counts = counts_of(table)
        held = lists(table.states["prints"], len(table))
        row = kernels.check_prints(held.starts, held.items, counts, self.universe)
        if row < 0 and self.domain is not None:
            flat = _nodes(table.states, len(table))
            beside = lists(table.states["count"], len(table))
            if not np.array_equal(flat[0], beside.starts):
                raise CorruptSummary("fingerprint: nodes without counts")
            row = kernels.check_nodes(*flat, counts, self.k, self._map.bits)
        if row >= 0:
            raise CorruptSummary(f"fingerprint: row {row} is of no records")

    def answer(self, table: Table, question: Any) -> pa.Table:
        """Of `Members`: `key`, `value` (bool), `false_positive_rate`. Of `NumbersAt`: `q`, and of
        `RanksWithin`: `x`, each with `value`, `lower`, `upper` (certain), of rows with numbers."""
        if isinstance(question, Members):
            return self._members(table, question)
        if self.domain is None or not isinstance(question, NumbersAt | RanksWithin):
            raise BadArgument(f"this fingerprint cannot answer {question!r:.100}")
        # rows are windows here, and few: the kind has no keys to split by
        sizes = lists(table.states["node"], len(table)).sizes
        rows, asked, found = [], [], []
        for row in np.flatnonzero(sizes).tolist():
            digest = self._digest(table, row)
            if isinstance(question, NumbersAt):
                answer, points = digest.quantile(question.fractions), question.fractions
            else:
                points = question.points
                answer = digest.rank(list(points), inclusive=question.inclusive)
            rows += [row] * len(points)
            asked += points
            found.append((answer.value, answer.lower, answer.upper))
        columns = {
            name: np.concatenate([parts[at] for parts in found]) if found else np.empty(0)
            for at, name in enumerate(("value", "lower", "upper"))
        }
        name = "q" if isinstance(question, NumbersAt) else "x"
        return pa.table({"row": pa.array(rows, pa.int64()), name: pa.array(asked), **columns})

    def _members(self, table: Table, question: Members) -> pa.Table:
        codes, different = item_numbers(pa.array(list(question.keys)))
        asked = self._prints(different)[codes]
        held = lists(table.states["prints"], len(table))
        found = np.empty((len(table), len(asked)), np.bool_)
        kernels.find_members(held.starts, held.items, frozen(asked), found)
        return pa.table(
            {
                "row": np.repeat(np.arange(len(table)), len(asked)),
                "key": pa.array(list(question.keys) * len(table)),
                "value": found.ravel(),
                "false_positive_rate": np.repeat(held.sizes / self.universe, len(asked)),
            }
        )

    def _prints(self, keys: pa.Array) -> np.ndarray:
        hashes = hash_items(keys, 0)
        spread(hashes, hashes)
        out = np.empty(len(hashes), np.uint64)
        to_fingerprints(hashes, self.universe, out)
        return out.view(np.int64)

    def _digest(self, table: Table, row: int) -> DyadicQDigest:
        """One row as the class that people use alone."""
        node, count, ends = (lists(table.states[n], len(table)) for n in ("node", "count", "ends"))
        at = slice(int(node.starts[row]), int(node.starts[row + 1]))
        digest = DyadicQDigest(k=self.k, domain=self._map)
        digest._ids, digest._counts = node.items[at].view(np.uint64), count.items[at]
        digest._total = int(digest._counts.sum())
        first = int(ends.starts[row])
        digest._first, digest._last = int(ends.items[first]), int(ends.items[first + 1])
        return digest


def _possible(capacity: Any, fpp: Any, k: Any) -> bool:
    return (
        type(capacity) is int
        and 1 <= capacity <= CAPACITY_MAX
        and type(fpp) is float
        and 0 < fpp < 1
        and type(k) is int
        and 1 <= k <= K_MAX
    )


def _united(
    prints: np.ndarray, starts: np.ndarray, order: np.ndarray, bounds: np.ndarray
) -> Column:
    out_starts = np.empty(len(bounds), np.int64)
    size = len(prints) if len(starts) else len(order)
    out = np.empty(size, np.int64)
    kernels.unite_sets(frozen(prints), starts, order, bounds, out_starts, out)
    used = int(out_starts[-1])
    return Ragged(frozen(out_starts), frozen(out[:used].copy())) if used else None


def _nodes(states: States, rows: int) -> Any:
    node, count, ends = (lists(states[name], rows) for name in ("node", "count", "ends"))
    return node.starts, node.items, count.items, ends.starts, ends.items
