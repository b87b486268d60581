"""Bytes of full HyperLogLog registers as a ledger stores them: zstd leaves their entropy.

    python benchmarks/characterize/stored_registers.py

"Bits x error squared" is bits of a row times the relative variance of its estimate after merges,
(3 ln 2 - 1) / registers: what a sketch pays for accuracy, whatever its size. Of sketches with a
plain array: one byte a register 8.64, six bits 6.48, UltraLogLog 4.63, ExaLogLog(2, 20) 3.67
(arXiv:2402.13726, table 1 and section 2).
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from muntin.segments.building import build
from muntin.segments.codec import encode
from muntin.segments.distinct import DistinctItems

ROWS = 20
LG_KS, LOADS = (10, 12, 14), (1, 4, 30)


def main() -> None:
    rng = np.random.default_rng(1)
    for lg_k in LG_KS:
        m = 1 << lg_k
        for load in LOADS:
            items = pa.array(rng.integers(-(2**63), 2**63 - 1, ROWS * load * m))
            slices = np.repeat(np.arange(ROWS), load * m)
            size = len(encode(build(DistinctItems(lg_k), slices, [items]))) / ROWS
            bits = 8 * size / m
            print(
                f"2^{lg_k} registers, {load * m:>7,} items: {size:6,.0f} bytes a row, "
                f"{bits:.2f} bits a register, bits x error squared "
                f"{bits * (3 * math.log(2) - 1):.2f}"
            )


if __name__ == "__main__":
    main()
