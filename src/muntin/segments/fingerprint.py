"""`fingerprint`: which keys there were, and between which ranks a number lies.

=========== =================================================================================
State       a row: `prints`, the different keys as ascending fingerprints; `nulls`, events
            without a key. With a number: `nodes` and `counts` of a dyadic q-digest, `ends`, its
            first and last cell where it has a node that is no leaf, and `unranked`, events with
            a key that have no number, or one outside the domain
Error       never a wrong no; a wrong yes with probability keys / 2**print_bits, which is at
            most `fpp` up to 2**30 keys: no segment holds more. Rank: bounds that always hold, a
            value off by at most bits / 2k; 0 while there are few values
Merge       sets: the set of all keys, bit by bit. Digests: equal nodes add up, then small
            counts move up; the bound is that of one digest of all
Duplicates  harmless for membership, count each time for ranks
Source      see `muntin.summaries.static_filter` and `dyadic_qdigest`
Limits      while a digest has at most 4k nodes, bytes do not depend on how events were spread;
            after that which nodes there are does, within the same bound
=========== =================================================================================

Fingerprints are as long as the largest set that can be needs, whatever number of keys is planned:
a set of small panes then keeps to its rate however many of them are merged. What that costs is
what growing costs any filter (see docs/fingerprint-index.md): log2(2**30 / keys) bits a key.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, get_args

import numpy as np
import pyarrow as pa

from muntin.arrow import decoded, pc
from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.segments.algebra import Algebra, Shape
from muntin.segments.columns import Column, States, frozen, lists, room, taken, trimmed
from muntin.segments.grouping import Groups, each_alone
from muntin.segments.items import asked_items
from muntin.segments.kernels import fingerprint as kernels
from muntin.segments.keys import Keys
from muntin.segments.nulls import (
    absent,
    check_counts,
    check_nulls,
    counts_of,
    less,
    summed,
    without,
    without_nulls,
)
from muntin.segments.ranked import QuantilesAt, RanksOf, answer_table, asked_numbers
from muntin.segments.table import Table
from muntin.summaries.dyadic_qdigest import K_MAX
from muntin.summaries.dynamic_bloom import ItemType, item_type
from muntin.summaries.items import hash_items
from muntin.summaries.kernels.static_filter import spread
from muntin.summaries.order_maps import IntegerRange, OrderMap, order_map
from muntin.summaries.weighted_view import check_fractions

KEYS_LG_MAX = 30  # of one row: a segment of more is not read
FPP_MIN = 2.0 ** (KEYS_LG_MAX - 62)  # fingerprints are below 2**62


@dataclass(frozen=True)
class Contains:
    """The question: whether items are among the keys."""

    items: tuple[Any, ...]


@dataclass(frozen=True)
class Fingerprints(Algebra):
    """Membership of keys, and ranks of a number. `fold` takes the column of keys (text, binary
    or integers) and, if there is a domain, that of the number: whole ones for an `IntegerRange`.

    Parameters
    ----------
    fpp : float
        False-positive rate that is never passed; 2**-32 to 1, which is excluded.
    domain : tuple of (name, value), optional
        Parameters of the number's `OrderMap`, sorted; None: keys only. See `over`.
    k : int
        Of the digest: a rank is off by at most bits / 2k.
    items : "text", "integers", "dates" or "times", optional
        What the keys are. None: the first that there are decide it.
    """

    fpp: float = 0.01
    domain: tuple[tuple[str, Any], ...] | None = None
    k: int = 3100
    items: ItemType | None = None

    kind: ClassVar[str] = "fingerprint"
    order_free: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if (
            not FPP_MIN <= self.fpp < 1
            or not 1 <= self.k <= K_MAX
            or self.items not in (None, *get_args(ItemType))
        ):
            raise BadArgument(f"fingerprint: {self.parameters()} is out of range")
        if self.domain is not None:
            order_map(dict(self.domain))

    @classmethod
    def over(cls, domain: OrderMap, error: float, fpp: float = 0.01) -> Self:
        """With ranks of the numbers of a domain, off by at most a fraction `error` of them."""
        pairs = tuple(sorted(domain.parameters().items()))
        return cls(fpp, pairs, math.ceil(domain.bits / (2 * error)))

    @property
    def print_bits(self) -> int:
        return KEYS_LG_MAX + max(math.ceil(-math.log2(self.fpp)), 1)

    @cached_property
    def _map(self) -> OrderMap:
        assert self.domain is not None  # noqa: S101
        return order_map(dict(self.domain))

    @property
    def rank_error(self) -> float:
        """Fraction of the numbers by which no rank is further off."""
        return self._map.bits / (2 * self.k)

    def parameters(self) -> dict[str, Any]:
        domain = None if self.domain is None else dict(self.domain)
        return {**super().parameters(), "domain": domain}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        domain = parameters.get("domain", "")
        if domain is not None and not isinstance(domain, dict):
            raise CorruptSummary(f"fingerprint: parameters {dict(parameters)!r:.200}")
        pairs = None if domain is None else tuple(sorted(domain.items()))
        made = super().from_parameters({**parameters, "domain": pairs})
        if domain is not None and made._map.parameters() != domain:
            raise CorruptSummary(f"fingerprint: domain {domain!r:.200}")
        return made

    def columns(self) -> dict[str, Shape]:
        found = {"nulls": Shape(), "prints": Shape(ragged=True)}
        if self.domain is not None:
            lists = ("nodes", "counts", "ends")
            found |= {"unranked": Shape(), **dict.fromkeys(lists, Shape(ragged=True))}
        return found

    def fitted(self, values: Sequence[pa.Array]) -> Self:
        column = values[0]
        if pa.types.is_null(column.type) or column.null_count == len(column):
            return self
        found = item_type(column.type)
        self._check_type(found)
        return replace(self, items=found)

    def united(self, other: Algebra) -> Algebra:
        if isinstance(other, Fingerprints):
            found = self.items or other.items
            whole = replace(self, items=found)
            if other.items in (None, found) and whole == replace(other, items=found):
                return whole
        raise IncompatibleSummary(
            f"fingerprint of {other.parameters()} cannot join {self.parameters()}"
        )

    def _check_type(self, found: ItemType) -> None:
        if self.items not in (None, found):
            raise BadArgument(f"these keys are {found}, those seen before are {self.items}")

    def _prints(self, items: Any) -> np.ndarray:
        """Fingerprint of each item, of which none is null: int64[n]."""
        hashes = hash_items(items)
        out = np.empty_like(hashes)
        spread(hashes, out)
        return (out >> np.uint64(64 - self.print_bits)).view(np.int64)

    def fold(self, values: Sequence[Any], groups: Groups, items: Keys | None) -> States:
        keys = values[0]
        if len(values) != (1 if self.domain is None else 2):
            raise BadArgument("a fingerprint takes keys and, with a domain, their numbers")
        groups, nulls, missing = without_nulls([keys], groups)
        if missing is None:
            prints = self._prints(keys)[groups.order]
        else:
            all_prints = np.zeros(len(keys), np.int64)
            all_prints[~missing] = self._prints(keys.filter(pa.array(~missing)))
            prints = all_prints[groups.order]
        starts = np.empty(groups.size + 1, np.int64)
        kernels.fold_sets(prints, groups.bounds, starts)
        states: dict[str, Column] = {"nulls": nulls, "prints": trimmed(starts, prints)}
        if self.domain is None:
            return states
        cells, unranked = self._cells(values[1])
        counts: Column = None
        if unranked.any():
            groups, counts = without(unranked, groups)
        leaf = 1 << self._map.bits
        leaves = cells[groups.order] + np.int64(leaf)
        starts, nodes, sizes = room(groups.size + 1, len(leaves), len(leaves))
        most: Any = kernels.fold_leaves(leaves, groups.bounds, starts, nodes, sizes)
        states |= {"unranked": counts, "nodes": trimmed(starts, nodes)}
        states |= {"counts": trimmed(starts, sizes), "ends": None}
        if most <= 4 * self.k:
            return states
        return states | self._merged_digests(states, each_alone(groups.size))

    def _cells(self, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Cell of each number, and which have none: int64[n], bool[n]."""
        column = _numbers_of(column, self._map)
        found = absent([column])
        if found is not None:
            filler = pa.scalar(0, pa.int64()).cast(column.type)
            column = pc.if_else(pa.array(found), filler, column)
        cells, sides = self._map.place(column.to_numpy(zero_copy_only=False))
        outside = sides != 0
        return cells, outside if found is None else found | outside

    def merge(self, states: States, groups: Groups, items: Keys | None) -> States:
        prints = lists(states["prints"], len(groups.order))
        starts, union = room(groups.size + 1, len(prints.items))
        kernels.merge_sets(prints.starts, prints.items, *groups, starts, union)
        merged: dict[str, Column] = {
            "nulls": summed(states["nulls"], groups),
            "prints": trimmed(starts, union),
        }
        if self.domain is None:
            return merged
        merged["unranked"] = summed(states["unranked"], groups)
        return merged | self._merged_digests(states, groups)

    def _merged_digests(self, states: States, groups: Groups) -> dict[str, Column]:
        stored = _digests(states, len(groups.order))
        sizes = groups.size + 1, len(stored[1]), len(stored[1]), groups.size + 1, 2 * groups.size
        starts, nodes, counts, end_starts, ends = out = room(*sizes)
        kernels.merge_nodes(*stored, *groups, self.k, 1 << self._map.bits, *out)
        return {
            "nodes": trimmed(starts, nodes),
            "counts": trimmed(starts, counts),
            "ends": trimmed(end_starts, ends),
        }

    def check(self, table: Table) -> None:
        check_nulls(table)
        counts = counts_of(table)
        prints = lists(table.states["prints"], len(table))
        row = kernels.check_sets(prints.starts, prints.items, counts, 1 << self.print_bits)
        if row >= 0:
            raise CorruptSummary(f"fingerprint: row {row} is no set of at most {counts[row]} keys")
        if len(prints.items) and self.items is None:
            raise CorruptSummary("fingerprint: keys without a type")
        if self.domain is None:
            return
        problem = "fingerprint: more keys without a number than keys"
        check_counts(table.states["unranked"], counts, problem)
        nodes, weights = (lists(table.states[name], len(table)) for name in ("nodes", "counts"))
        if not np.array_equal(nodes.starts, weights.starts):
            raise CorruptSummary("fingerprint: nodes without counts")
        stored = _digests(table.states, len(table))
        leaf = 1 << self._map.bits
        row = kernels.check_nodes(*stored, self.ranked(table), self.k, leaf)
        if row >= 0:
            raise CorruptSummary(f"fingerprint: row {row} is no digest of its numbers")

    def rate(self, table: Table) -> float:
        """The highest false-positive rate of a row, as it is now."""
        keys = lists(table.states["prints"], len(table)).sizes.max(initial=0)
        return float(keys) / 2.0**self.print_bits

    def ranked(self, table: Table) -> np.ndarray:
        """Events with a number of each row."""
        return less(counts_of(table), table.states.get("unranked"))

    def answer(self, table: Table, question: Any) -> pa.Table:
        """Of `Contains`, each row and item: `item`, `present`, `false_positive_rate` (of an item
        that is not there, as it is now). Of `QuantilesAt` and `RanksOf`, each row with a number:
        `q` or `x`, `value`, `lower`, `upper`, `confidence`, which is 1."""
        if isinstance(question, Contains):
            return self._contains(table, question.items)
        if not isinstance(question, QuantilesAt | RanksOf):
            raise BadArgument(
                f"fingerprint cannot answer {question!r:.100}: ask Contains, QuantilesAt, RanksOf"
            )
        if self.domain is None:
            raise BadArgument("this fingerprint ranks no number: it has no domain")
        ranked = self.ranked(table)
        filled = np.flatnonzero(ranked)
        stored = _digests(taken(table.states, filled, len(table)), len(filled))
        leaf, domain = 1 << self._map.bits, self._map
        if isinstance(question, QuantilesAt):
            asked = check_fractions(question.fractions)
            out = np.empty((len(filled), 3, len(asked)), np.int64)
            kernels.quantile_cells(*stored, leaf, frozen(asked), out)
            middle, low, high = (out[:, end].ravel().view(np.uint64) for end in range(3))
            found = domain.typical(middle), domain.lowest(low), domain.highest(high)
            return answer_table("q", asked, filled, found, 1.0)
        asked = asked_numbers(question.points)
        points = question.points if isinstance(domain, IntegerRange) else asked
        where = domain.place(points, question.inclusive)
        values = np.empty((len(filled), len(asked)))
        bounds = np.empty((len(filled), 2, len(asked)), np.int64)
        kernels.cell_ranks(
            *stored, leaf, domain.bits, self.k,
            *(frozen(part) for part in where), question.inclusive, domain.exact, values, bounds,
        )  # fmt: skip
        share = ranked[filled][:, None]
        found = tuple((part / share).ravel() for part in (values, bounds[:, 0], bounds[:, 1]))
        return answer_table("x", asked, filled, found, 1.0)

    def _contains(self, table: Table, items: Sequence[Any]) -> pa.Table:
        asked = asked_items(items)
        if len(asked) and self.items is not None:
            self._check_type(item_type(asked.type))
        prints = lists(table.states["prints"], len(table))
        there = np.zeros((len(table), len(asked)), bool)
        if len(asked):
            kernels.contains(prints.starts, prints.items, frozen(self._prints(asked)), there)
        rates = prints.sizes / 2.0**self.print_bits
        return pa.table(
            {
                "row": np.repeat(np.arange(len(table)), len(asked)),
                "item": pa.concat_arrays([asked] * len(table)) if len(table) else asked[:0],
                "present": there.ravel(),
                "false_positive_rate": np.repeat(rates, len(asked)),
            }
        )


def _numbers_of(column: pa.Array, domain: OrderMap) -> pa.Array:
    """The column in the type that the domain places; null where a number is beyond int64."""
    column = decoded(column)
    if not isinstance(domain, IntegerRange):
        return column.cast(pa.float64(), safe=False)
    if pa.types.is_uint64(column.type):
        inside = pc.less(column, pa.scalar(1 << 63, pa.uint64()))
        column = pc.if_else(inside, column, None)
    return column.cast(pa.int64())


def _digests(states: States, rows: int) -> tuple[np.ndarray, ...]:
    nodes, counts, ends = (lists(states[name], rows) for name in ("nodes", "counts", "ends"))
    return nodes.starts, nodes.items, counts.items, ends.starts, ends.items
