"""Bytes of full UltraLogLog registers as a ledger stores them: zstd leaves their entropy.

    python benchmarks/characterize/stored_registers.py [--keep] [--check]

"Bits x error squared" is bits of a row times the relative variance of its estimate after merges,
0.58 / registers: what a sketch pays for accuracy, whatever its size. Of sketches with a plain
array: HyperLogLog of six bits 6.48, UltraLogLog 4.63, ExaLogLog(2, 20) 3.67 (arXiv:2402.13726,
table 1 and section 2).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import Table, main

from muntin.segments.building import build
from muntin.segments.codec import encode
from muntin.segments.distinct import DistinctItems
from muntin.summaries.distinct import standard_error
from muntin.summaries.kernels.distinct import ULTRA

ROWS = 20
LG_KS, LOADS = (10, 12, 14), (1, 4, 30)


def measure(short: bool) -> Iterable[Table]:
    del short
    rng = np.random.default_rng(1)
    table = Table(
        "registers",
        "Full UltraLogLog registers in a ledger",
        ["registers, items", "bytes of a row", "bits a register", "bits x error squared"],
        note="Plain arrays: HyperLogLog of six bits 6.48, UltraLogLog 4.63, ExaLogLog(2, 20) 3.67 "
        "([their paper](https://arxiv.org/abs/2402.13726)).",
    )
    for lg_k in LG_KS:
        m = 1 << lg_k
        for load in LOADS:
            items = pa.array(rng.integers(-(2**63), 2**63 - 1, ROWS * load * m))
            slices = np.repeat(np.arange(ROWS), load * m)
            size = len(encode(build(DistinctItems(lg_k), slices, [items]))) / ROWS
            bits = 8 * size / m
            row = [f"2^{lg_k}, {load * m:,}", round(size), round(bits, 2)]
            table.rows.append([*row, round(bits * standard_error(1, ULTRA) ** 2, 2)])
    yield table


if __name__ == "__main__":
    main("stored-registers", measure, ["numpy", "pyarrow"], __doc__)
