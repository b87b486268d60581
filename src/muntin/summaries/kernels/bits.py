"""Bit counting and the high half of a product: single instructions that Numba does not name."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from muntin.summaries.kernels import inlined

_WIDE = ir.IntType(128)
_DEFINED = ir.Constant(ir.IntType(1), 0)  # what zeros are counted of may be zero


def _of_word(instruct):
    """A function of a uint64 that is one instruction."""

    @intrinsic
    def of_word(typingctx, word):
        def codegen(context, builder, signature, arguments):
            return instruct(builder, *arguments)

        return types.uint64(types.uint64), codegen

    return of_word


popcount = _of_word(lambda builder, word: builder.ctpop(word))  # number of one bits
leading_zeros = _of_word(lambda builder, word: builder.ctlz(word, _DEFINED))  # 64 of 0
trailing_zeros = _of_word(lambda builder, word: builder.cttz(word, _DEFINED))  # 64 of 0


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
def select_by_halves(word, index):
    """As `select`, on any machine."""
    position = np.uint64(0)
    left = np.uint64(index)
    for width in (32, 16, 8, 4, 2, 1):
        low = (word >> position) & np.uint64((1 << width) - 1)
        below = popcount(low)
        if left >= below:
            left -= below
            position += np.uint64(width)
    return position


@intrinsic
def select(typingctx, word, index):
    """Position of the one bit number `index` (from 0) of a uint64 that has more than that."""
    signature = types.uint64(types.uint64, types.uint64)

    def codegen(context, builder, signature, arguments):
        word, index = arguments
        _, _, features = context.codegen().magic_tuple()
        if "+bmi2" not in features:
            by_halves = select_by_halves.py_func
            return context.compile_internal(builder, by_halves, signature, arguments)
        # PDEP puts bit i of its first operand to the place of one bit number i of its second.
        number = ir.IntType(64)
        put = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(number, [number, number]), "llvm.x86.bmi.pdep.64"
        )
        return builder.cttz(builder.call(put, [builder.shl(number(1), index), word]), _DEFINED)

    return signature, codegen
