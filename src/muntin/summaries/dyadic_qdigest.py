"""Dyadic q-digest: ranks and quantiles with bounds that always hold.

State       nodes of the binary tree over 2**bits cells: number and count; ascending
Error       rank: upper - lower <= bits * floor(n / k), always; the value is off by half of it at
            most. Values of ranks and quantiles lie between their bounds where a node's values would
            lie evenly in its cells: of smooth values, many times nearer
Merge       with equal k and map; bounds hold for the whole (floor(a/k) + floor(b/k) <= floor(n/k))
Duplicates  count each time
Source      Shrivastava, Buragohain, Agrawal, Suri: Medians and Beyond, SenSys 2004
Limits      bits <= 62; after `compress` at most 3k nodes and the leaves that are counted exactly

One pass of compression, from the leaves to the root, keeps constraint (1), a node that is no leaf
counts at most floor(n / k), from which the bound follows. A family moves up where nothing of it
stays below, so that what a node counts is spread over all of its cells; where more than 3k nodes
would be left, as with few heavy leaves, a second pass moves all that it can. Constraint (2), that a
family counts more, makes the digest smaller and its answers worse, and is not needed.
"""

import math
import struct
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from muntin.errors import BadArgument, CorruptSummary
from muntin.summaries.base import Copied, Estimate
from muntin.summaries.checks import boolean, check_alike, integer_in
from muntin.summaries.envelope import opened, seal
from muntin.summaries.kernels import qdigest as kernels
from muntin.summaries.kernels.compaction import merge_runs
from muntin.summaries.kernels.sorting import sort_run
from muntin.summaries.order_maps import IntegerRange, OrderMap, order_map
from muntin.summaries.weighted_view import check_fractions
from muntin.summaries.weights import as_weights, exact_sum

K_MAX = 1 << 26
COUNT_MAX = 1 << 61
_PENDING_MAX = 1 << 20  # values that wait to be counted: 8 MiB
_DENSE_BITS_MAX = 22  # a table of all cells up to here (32 MiB, only while counting)
_HEADER = struct.Struct("<QQQBB6x")  # nodes, first and last cell, widths of numbers and counts


class DyadicQDigest(Copied):
    """Counts over a dyadic domain, compressed to at most 3k nodes.

    Parameters
    ----------
    bits : int
        Values are integers in [0, 2**bits); 1 to 62. Where `domain` is given, its bits count.
    k : int
        Nodes that the digest may keep, up to a factor 3; rank error <= bits / k of the count
        between the bounds, half of it for the value. Measured errors are about ten times
        smaller.
    domain : OrderMap, optional
        Floats, timestamps or other integers: `FloatOrder`, `TimestampRange`, `IntegerRange` of
        `muntin.summaries.order_maps`.

    Examples
    --------
    >>> digest = DyadicQDigest(bits=10, k=100)
    >>> digest.update(range(1000))
    >>> digest.quantile(0.5).value
    array([499])
    """

    kind: ClassVar[str] = "dyadic_qdigest"

    def __init__(self, bits: int = 20, k: int = 1000, domain: OrderMap | None = None) -> None:
        self._map = _map_of(bits, domain)
        self._k = integer_in("k", k, 1, K_MAX)
        self._nodes_max = 8 * self._k + 4096  # more are compressed at once
        self._ids = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)
        self._total = 0
        self._first = 0
        self._last = 0
        self._pending: list[np.ndarray] = []
        self._waiting = 0
        self._table: np.ndarray | None = None  # counts of all cells, while many values come
        self._is_compressed = True
        self._index: tuple[Any, ...] | None = None

    @classmethod
    def for_error(cls, error: float, bits: int = 20, domain: OrderMap | None = None) -> Self:
        """A digest whose rank is never off by more than `error` of the count."""
        if not isinstance(error, float) or not 0 < error < 1:
            raise BadArgument(f"error={error!r}: a fraction between 0 and 1, both excluded")
        domain = _map_of(bits, domain)
        k = math.ceil(domain.bits / (2 * error))
        if k > K_MAX:
            raise BadArgument(f"error={error!r} needs k={k}, more than {K_MAX}")
        return cls(k=k, domain=domain)

    @property
    def bits(self) -> int:
        """The domain is 0 to 2**bits - 1."""
        return self._map.bits

    @property
    def k(self) -> int:
        """At most 3 k nodes stay; bounds of a rank are at most bits * (n // k) apart."""
        return self._k

    @property
    def domain(self) -> OrderMap:
        """How numbers are mapped to the domain, in order."""
        return self._map

    @property
    def parameters(self) -> dict[str, Any]:
        """What two digests must share to be merged."""
        return {"k": self._k, "domain": self._map.parameters()}

    @property
    def count(self) -> int:
        """Values counted, with their weights."""
        return self._total

    @property
    def size(self) -> int:
        """Nodes stored now."""
        self._collect()
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        """Memory of the digest and what waits to be added to it."""
        table = 0 if self._table is None else self._table.nbytes
        return self._ids.nbytes + self._counts.nbytes + 8 * self._waiting + table

    @property
    def error_bound(self) -> int:
        """No rank's bounds lie further apart than this: bits * floor(count / k)."""
        return self.bits * (self._total // self._k)

    def update(self, values: Any, weights: Any = None) -> None:
        """Count values.

        Parameters
        ----------
        values : array of n values of the domain, or one
        weights : int64[n], optional
            How often each value counts, 0 or more; 1 where absent.

        Raises
        ------
        BadArgument
            A value outside the domain, NaN or null; a negative weight. Nothing is counted then.
        """
        leaves = self._map.cells(values).view(np.int64) + (1 << self.bits)
        if weights is not None:
            self._update_weighted(leaves, weights)
            return
        if not leaves.size:
            return
        self._grow(leaves, len(leaves))
        self._pending.append(leaves)
        self._waiting += len(leaves)
        if self._waiting >= _PENDING_MAX:
            self._count_waiting()

    def _update_weighted(self, leaves: np.ndarray, weights: Any) -> None:
        given = np.broadcast_to(as_weights(weights, len(leaves)), leaves.shape)
        leaves, given = leaves[given > 0], given[given > 0]
        if not leaves.size:
            return
        self._grow(leaves, exact_sum(given))
        left = kernels.add_up(leaves, given)
        self._join(leaves[:left], given[:left])

    def merge(self, other: Self) -> None:
        """Count what `other` counted; its k and domain must be the same."""
        check_alike(self, other)
        if other._total == 0:
            return
        if self._total + other._total > COUNT_MAX:
            raise BadArgument(f"together they count more than {COUNT_MAX}")
        self._collect()
        other._collect()
        self._span(other._first, other._last)
        self._total += other._total
        self._join(other._ids, other._counts)

    def compress(self) -> None:
        """Move small counts up; at most 3k nodes and exact leaves remain."""
        self._collect()
        if self._is_compressed:
            return
        for whole in (True, False):  # the second keeps the bound on the nodes, whatever the data
            leaf, limit = 1 << self.bits, self._total // self._k
            left = kernels.compress(self._ids, self._counts, leaf, limit, whole)
            self._ids, self._counts = self._ids[:left].copy(), self._counts[:left].copy()
            leaves = int((self._ids >= leaf).sum())
            if len(self._ids) <= 3 * self._k + leaves:
                break
        self._is_compressed = True
        self._index = None
        assert len(self._ids) <= 3 * self._k + leaves, "q-digest larger than its bound"  # noqa: S101

    def rank(self, values: Any, *, inclusive: bool = True) -> Estimate:
        """How many counted values are at most each value.

        Parameters
        ----------
        values : array of n values, or one; also outside the domain
        inclusive : bool
            False: how many are less.

        Returns
        -------
        Estimate
            `value` (float64[n]), `lower` and `upper` (int64[n]). The truth lies between, always:
            confidence 1. upper - lower <= `error_bound`, and `value` is off by half of that at
            most; where the map is not exact, values in the same cell as the question are between
            the bounds, too, and for `value` they are equal to it.
        """
        inclusive = boolean("inclusive", inclusive)
        cells, beyond = self._map.place(values, inclusive)
        value, bounds = np.zeros(len(cells)), np.zeros((2, len(cells)), np.int64)
        if self._total:
            margin, exact = self.error_bound / 2, self._map.exact
            kernels.ranks(*self._indexed(), margin, cells, beyond, inclusive, exact, value, bounds)
        return Estimate(value, bounds[0], bounds[1], 1.0)

    def quantile(self, q: Any) -> Estimate:
        """The smallest value whose rank is at least q * count.

        Parameters
        ----------
        q : float or array of n floats in [0, 1]

        Returns
        -------
        Estimate
            Values of the domain: int64, float64 or datetime64[us]. The true quantile lies between
            `lower` and `upper`, always: confidence 1. No entries while nothing was counted.

        Raises
        ------
        BadArgument
            q outside [0, 1] or NaN.
        """
        asked = check_fractions(q)
        if self._total == 0:
            nothing = self._map.lowest(np.empty(0, np.uint64))
            return Estimate(nothing, nothing, nothing, 1.0)
        # As it is written: 0.7 means 7/10, so that of 10 values it is the seventh.
        targets = np.array(
            [max(1, math.ceil(Fraction(str(float(x))) * self._total)) for x in asked], np.int64
        )
        found = np.empty((3, len(targets)), np.int64)
        edges, sums, masses, _, *ends = self._indexed()
        kernels.quantiles(edges, sums, masses, *ends, targets, found)
        middle, low, high = found.view(np.uint64)
        domain = self._map
        return Estimate(domain.typical(middle), domain.lowest(low), domain.highest(high), 1.0)

    def to_bytes(self) -> bytes:
        """Sealed bytes; compresses first."""
        self.compress()
        id_width, count_width = _widths(self._ids, self._counts)
        header = _HEADER.pack(len(self._ids), self._first, self._last, id_width, count_width)
        ids = self._ids.astype(f"<u{id_width}").tobytes()
        counts = self._counts.astype(f"<u{count_width}").tobytes()
        return seal(self.kind, self.parameters, header + ids + counts)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Of `to_bytes`; raises CorruptSummary where the bytes are not of one."""
        fields, body = opened(data, cls.kind)
        made = fields.made(lambda k, domain: cls(k=k, domain=order_map(domain)), "k", "domain")
        fields.done()
        nodes, first, last, id_width, count_width = _HEADER.unpack(body.view(_HEADER.size))
        if id_width not in (4, 8) or count_width not in (1, 2, 4, 8):
            raise CorruptSummary(f"dyadic_qdigest: widths {id_width} and {count_width}")
        made._ids = body.array(f"<u{id_width}", nodes).astype(np.int64)
        raw = body.array(f"<u{count_width}", nodes)
        body.done()
        if nodes and (int(raw.min()) < 1 or float(raw.sum(dtype=np.float64)) > COUNT_MAX):
            raise CorruptSummary("dyadic_qdigest: counts are not from 1 to the largest total")
        made._counts = raw.astype(np.int64)
        made._total, made._first, made._last = int(made._counts.sum()), first, last
        made._check()
        if made.to_bytes() != data:
            raise CorruptSummary("dyadic_qdigest: not in the form that to_bytes writes")
        return made

    def _check(self) -> None:
        """The meaning of a body: ordered nodes of the tree that keep constraint (1)."""
        bits, ids = self.bits, self._ids
        if not len(ids):
            if self._first or self._last:
                raise CorruptSummary("dyadic_qdigest: extremes of nothing")
            return
        if int(ids[0]) < 1 or int(ids[-1]) >> (bits + 1) or (ids[1:] <= ids[:-1]).any():
            raise CorruptSummary("dyadic_qdigest: nodes are not ascending numbers of the tree")
        is_inner = ids < 1 << bits
        if (self._counts[is_inner] > self._total // self._k).any():
            raise CorruptSummary("dyadic_qdigest: an inner node counts more than count / k")
        if len(ids) > 3 * self._k + int((~is_inner).sum()):
            raise CorruptSummary(f"dyadic_qdigest: {len(ids)} nodes are too many for k")
        begins, ends = kernels.index(ids, self._counts, 1 << bits, 0, (1 << bits) - 1)[0][:2]
        if not begins[0] <= self._first <= ends[0] or not (
            max(self._first, begins[-1]) <= self._last <= ends[-1]
        ):
            raise CorruptSummary("dyadic_qdigest: extremes do not fit the nodes")

    def _grow(self, leaves: np.ndarray, weight: int) -> None:
        if self._total + weight > COUNT_MAX:
            raise BadArgument(f"values, or their weights, add up to more than {COUNT_MAX}")
        offset = 1 << self.bits
        self._span(int(leaves.min()) - offset, int(leaves.max()) - offset)
        self._total += weight
        self._index = None
        self._is_compressed = False

    def _span(self, first: int, last: int) -> None:
        self._first = first if self._total == 0 else min(self._first, first)
        self._last = last if self._total == 0 else max(self._last, last)

    def _collect(self) -> None:
        """Bring all that was counted into the nodes."""
        self._count_waiting()
        if self._table is not None:
            table, self._table = self._table, None
            cells = np.flatnonzero(table)
            self._join(cells + len(table), table[cells])

    def _count_waiting(self) -> None:
        """Count the values that wait: in a table of all cells where the domain is small."""
        waiting, self._pending = self._pending, []
        is_dense = self._waiting >= (1 << self.bits) // 4 or self._table is not None
        self._waiting = 0
        if not waiting:
            return
        if self.bits <= _DENSE_BITS_MAX and is_dense:
            if self._table is None:
                self._table = np.zeros(1 << self.bits, np.int64)
            for values in waiting:
                kernels.count_dense(values, self._table)
            return
        values = waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
        sort_run(values)
        counts = np.empty(len(values), np.int64)
        runs = kernels.count_sorted(values, values, counts)
        self._join(values[:runs], counts[:runs])

    def _join(self, ids: np.ndarray, counts: np.ndarray) -> None:
        """Add an ascending list of nodes."""
        own, size = len(self._ids), len(ids)
        both, held = np.empty((2, own + size), np.int64)
        merge_runs(self._ids, self._counts, 0, own, ids, counts, 0, size, both, held)
        left = kernels.combine(both, held)
        self._ids, self._counts = both[:left].copy(), held[:left].copy()
        self._index, self._is_compressed = None, False
        if left > self._nodes_max:
            self.compress()

    def _indexed(self) -> tuple[Any, ...]:
        """What `kernels.ranks` takes first: `kernels.index`, first and last cell."""
        self._collect()
        if self._index is None:
            ends = self._first, self._last
            leaf = 1 << self.bits
            self._index = (*kernels.index(self._ids, self._counts, leaf, *ends), *ends)
        return self._index


def _map_of(bits: Any, domain: Any) -> OrderMap:
    if not isinstance(domain, OrderMap | None):
        raise BadArgument(f"domain={domain!r:.80}: give a map of muntin.summaries.order_maps")
    return IntegerRange(bits) if domain is None else domain


def _widths(ids: np.ndarray, counts: np.ndarray) -> tuple[int, int]:
    """Bytes of a stored number and count: the least that hold all of them."""
    if not len(ids):
        return 4, 1
    most = int(counts.max())
    count_width = next(width for width in (1, 2, 4, 8) if most < 1 << (8 * width))
    return (4 if int(ids[-1]) < 1 << 32 else 8), count_width
