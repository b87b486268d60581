"""Rows of segments as the bytes of Apache DataSketches, and such bytes as rows.

============== ============================ ==================================================
algebra        bytes                        of rows
============== ============================ ==================================================
quantiles      KLL: doubles, floats, longs  of float64, float32, int64
tail_quantiles REQ of floats                of float32 only: the form has no other type
distinct       HLL_8                        any; HLL_4 and HLL_6 are read as well
============== ============================ ==================================================

One row after the other, at some 20 us each: a sketch stands for many events.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from muntin.errors import BadArgument, CorruptSummary
from muntin.segments.algebra import Algebra
from muntin.segments.columns import Column, frozen, lists, present, ragged
from muntin.segments.distinct import DistinctItems
from muntin.segments.kernels.distinct import ENTRY_BYTES, REGISTER_BITS
from muntin.segments.quantiles import Quantiles
from muntin.segments.table import Table
from muntin.segments.tail import TailQuantiles
from muntin.summaries import datasketches_hll, datasketches_kll, datasketches_req
from muntin.summaries.level_stack import level_capacities
from muntin.summaries.order_keys import from_keys, to_keys

VALUES_MAX = 1 << 40  # of one sketch that others made, so that a million of them stay below 2^60


def sketch_bytes(algebra: Algebra, table: Table) -> Iterator[bytes]:
    """Each row of a table as the bytes of a sketch, without its nulls. Raises BadArgument:
    DataSketches has no sketch for this kind, or not for this type of values."""
    check_exchanged(algebra)
    if isinstance(algebra, Quantiles):
        return _of_quantiles(algebra, table)
    if isinstance(algebra, TailQuantiles):
        return _of_tail(algebra, table)
    assert isinstance(algebra, DistinctItems)  # noqa: S101 (checked)
    return _of_distinct(algebra, table)


def check_exchanged(algebra: Algebra) -> None:
    """BadArgument where `sketch_bytes` has none for rows of this kind."""
    if not isinstance(algebra, Quantiles | TailQuantiles | DistinctItems):
        raise BadArgument(
            f"Apache DataSketches has no sketch for {algebra.kind}: quantiles and distinct have one"
        )
    if isinstance(algebra, TailQuantiles) and algebra.dtype != "float32":
        raise BadArgument(
            f"DataSketches' REQ holds float32, not {algebra.dtype}: give the summary "
            "type: float32, or leave out accuracy: tail"
        )


def tail_bytes(k: int, values: np.ndarray, levels: np.ndarray, least: np.ndarray) -> bytes:
    """A row of tail quantiles of float32: its items, levels and minimum as columns hold them."""
    if not len(values):
        none = datasketches_req.ReqParts(k, 0.0, [values], [0])
        return datasketches_req.encode(none)
    pairs = levels.reshape(-1, 2) if len(levels) else np.array([[len(values), 0]])
    low = least if len(least) else values[:1]
    parts = np.split(values, np.cumsum(pairs[:-1, 0]))
    turns = (pairs[:, 1] >> 2).tolist()
    return datasketches_req.encode(datasketches_req.ReqParts(k, float(low[0]), parts, turns))


def _of_quantiles(algebra: Quantiles, table: Table) -> Iterator[bytes]:
    k, totals = algebra.k, level_capacities(algebra.k)[1]
    items, ends = (_lists_of(table, name, algebra.dtype) for name in ("items", "ends"))
    rows = zip(algebra.counts(table).tolist(), items, _lists_of(table, "levels"), ends, strict=True)
    for count, own, sizes, two in rows:
        if not len(sizes):
            sizes, two = np.array([len(own)]), own[[0, -1]] if len(own) else np.zeros(2)
        free = max(int(totals[len(sizes)]) - len(own), 0)
        offsets = free + np.concatenate(([0], np.cumsum(sizes)))
        parts = datasketches_kll.Parts(k, k, count, offsets, own, two[:1], two[1:])
        yield datasketches_kll.encode(parts, algebra.dtype)


def _of_tail(algebra: TailQuantiles, table: Table) -> Iterator[bytes]:
    items, least = (_lists_of(table, name, algebra.dtype) for name in ("items", "least"))
    for row in zip(items, _lists_of(table, "levels"), least, strict=True):
        yield tail_bytes(algebra.k, *row)


def _of_distinct(algebra: DistinctItems, table: Table) -> Iterator[bytes]:
    dense = _lists_of(table, "registers")
    for used, registers in zip(_lists_of(table, "entries"), dense, strict=True):
        if not len(registers):
            registers = np.zeros(1 << algebra.lg_k, np.uint8)
            registers[used >> REGISTER_BITS] = used & ((1 << REGISTER_BITS) - 1)
        yield datasketches_hll.write(registers >> 2)


def _lists_of(table: Table, name: str, dtype: str | None = None) -> list[np.ndarray]:
    """The list of each row; `dtype`: of the values whose keys these are."""
    column = lists(table.states[name], len(table))
    items = column.items if dtype is None else from_keys(column.items, dtype)
    return [items[first:end] for first, end in pairwise(column.starts.tolist())]


def kll_parts(data: Any, k: int, dtype: str) -> datasketches_kll.Parts:
    """The parts of KLL bytes that rows of this k and dtype can take. Raises CorruptSummary: other
    bytes, another k, a sketch into which one of a lower k was merged, or more values than
    `VALUES_MAX`."""
    parts = datasketches_kll.decode(data, dtype)
    if parts.count > VALUES_MAX:
        raise CorruptSummary(f"KLL: of {parts.count:,} values; at most {VALUES_MAX:,} are merged")
    if parts.k != k or parts.min_k != k:
        least = "" if parts.min_k == parts.k else f", merged with one of k={parts.min_k}"
        raise CorruptSummary(f"KLL: of k={parts.k}{least}, not {k}")
    return parts


def hll_registers(data: Any, lg_k: int) -> np.ndarray:
    """The registers of HLL bytes of this precision: uint8[2**lg_k]. Raises CorruptSummary: other
    bytes, or another precision."""
    registers = datasketches_hll.read(data) << 2
    if len(registers) != 1 << lg_k:
        raise CorruptSummary(f"HLL sketch: of lg_k {len(registers).bit_length() - 1}, not {lg_k}")
    return registers


def rows_of_kll(sketches: Sequence[datasketches_kll.Parts]) -> dict[str, Column]:
    """The states of sketches, and `values`: how many each has seen; those of none are nulls."""
    counts = np.array([part.count for part in sketches], np.int64)
    items = [part.items for part in sketches]
    levels = [np.diff(part.offsets) if len(part.offsets) > 2 else () for part in sketches]
    sizes = _lengths(levels)
    high = (part for part, size in zip(sketches, sizes, strict=True) if size)
    ends = [edge for part in high for edge in (part.low, part.high)]
    return {
        "nulls": present((counts == 0).astype(np.int64)),
        "values": frozen(counts),
        "items": ragged(_lengths(items), _keys(items)),
        "levels": ragged(sizes, np.concatenate([*levels, ()]).astype(np.int64)),
        "ends": ragged(2 * (sizes > 0), _keys(ends)),
    }


def rows_of_hll(sketches: Iterable[np.ndarray]) -> dict[str, Column]:
    """The states of sketches, given by their registers; those of no item are nulls."""
    entries: list[np.ndarray] = []
    dense: list[np.ndarray] = []
    for registers in sketches:  # one by one: all registers take far more than what is kept
        used = np.flatnonzero(registers)
        small = ENTRY_BYTES * len(used) < len(registers)
        entries.append((used << REGISTER_BITS) | registers[used] if small else used[:0])
        dense.append(np.empty(0, np.uint8) if small else registers)
    few, many = _lengths(entries), _lengths(dense)
    return {
        "nulls": present((few + many == 0).astype(np.int64)),
        "entries": ragged(few, np.concatenate(entries)),
        "registers": ragged(many, np.concatenate(dense)),
    }


def _lengths(parts: Sequence[Any]) -> np.ndarray:
    return np.array([len(part) for part in parts], np.int64)


def _keys(parts: Sequence[np.ndarray]) -> np.ndarray:
    there = [part for part in parts if len(part)]  # those of nulls have no type
    values = np.concatenate(there) if there else np.empty(0)
    return to_keys(values if values.dtype == np.int64 else values.astype(np.float64))
