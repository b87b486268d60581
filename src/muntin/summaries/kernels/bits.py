"""Bit counting and the high half of a product: single instructions that Numba does not name."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from muntin.summaries.kernels import inlined

_WIDE = ir.IntType(128)


@intrinsic
def popcount(typingctx, word):
    """Number of one bits of a uint64."""
    signature = types.uint64(types.uint64)

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return signature, codegen


@intrinsic
def trailing_zeros(typingctx, word):
    """Position of the lowest one bit of a uint64; 64 where there is none."""
    signature = types.uint64(types.uint64)

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return signature, codegen


@intrinsic
def multiply_high(typingctx, left, right):
    """`(left * right) >> 64` of two uint64: maps a hash to [0, right), order kept."""
    signature = types.uint64(types.uint64, types.uint64)

    def codegen(context, builder, signature, arguments):
        left, right = (builder.zext(argument, _WIDE) for argument in arguments)
        product = builder.lshr(builder.mul(left, right), ir.Constant(_WIDE, 64))
        return builder.trunc(product, ir.IntType(64))

    return signature, codegen


@inlined()
def select(word, index):
    """Position of the one bit number `index` (from 0) of a uint64 that has more than that."""
    position = np.uint64(0)
    left = np.uint64(index)
    for width in (32, 16, 8):
        low = (word >> position) & np.uint64((1 << width) - 1)
        below = popcount(low)
        if left >= below:
            left -= below
            position += np.uint64(width)
    rest = word >> position
    while left > np.uint64(0):
        rest &= rest - np.uint64(1)
        left -= np.uint64(1)
    return position + trailing_zeros(rest)
