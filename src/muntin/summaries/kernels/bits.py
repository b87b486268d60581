"""Bit counting and the high half of a product: single instructions that Numba does not name."""

import numpy as np
from llvmlite import ir
from numba import types

from muntin.summaries.kernels import inlined
from muntin.summaries.kernels.memory import instruction

_WIDE, _WORD = ir.IntType(128), ir.IntType(64)
_DEFINED = ir.Constant(ir.IntType(1), 0)  # what zeros are counted of may be zero

_of_word = instruction(types.uint64, types.uint64)
popcount = _of_word(lambda builder, word: builder.ctpop(word))  # number of one bits
leading_zeros = _of_word(lambda builder, word: builder.ctlz(word, _DEFINED))  # 64 of 0
trailing_zeros = _of_word(lambda builder, word: builder.cttz(word, _DEFINED))  # 64 of 0


@instruction(types.uint64, types.uint64, types.uint64)
def multiply_high(builder, left, right):
    """`(left * right) >> 64` of two uint64: maps a hash to [0, right), order kept."""
    return _halves(builder, left, right)[1]


@instruction(types.uint64, types.uint64, types.uint64)
def multiply_fold(builder, left, right):
    """Both halves of the 128-bit product of two uint64, one XOR the other."""
    return builder.xor(*_halves(builder, left, right))


def _halves(builder, left, right):
    product = builder.mul(builder.zext(left, _WIDE), builder.zext(right, _WIDE))
    return builder.trunc(product, _WORD), builder.trunc(builder.lshr(product, _WIDE(64)), _WORD)


@inlined()
def select(word, index):
    """Position of the one bit number `index` (from 0) of a uint64 that has more than that."""
    position = np.uint64(0)
    left = np.uint64(index)
    for width in (32, 16, 8, 4, 2, 1):
        low = (word >> position) & np.uint64((1 << width) - 1)
        below = popcount(low)
        if left >= below:
            left -= below
            position += np.uint64(width)
    return position
