"""Unaligned loads, copies of bytes and hardware prefetch: what Numba does not offer by itself."""

from __future__ import annotations

from functools import wraps

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

ARRAY = (types.Array,)
"""As a kind of `instruction`: an array of anything."""


def instruction(result, *kinds):
    """A decorator: what builds LLVM code of a builder and values becomes a function of kernels.

    `kinds` are Numba's types of the values. Of arrays they are tuples, of what their elements may
    be or `ARRAY`; what is built on is the address of the first element.
    """

    def decorator(build):
        @intrinsic
        @wraps(build)
        def function(typingctx, *given):
            if not all(map(_fits, kinds, given)):
                return None
            own = [
                one if isinstance(kind, tuple) else kind
                for kind, one in zip(kinds, given, strict=True)
            ]

            def codegen(context, builder, signature, arguments):
                values = [
                    context.make_array(kind)(context, builder, value).data
                    if isinstance(kind, types.Array)
                    else value
                    for kind, value in zip(own, arguments, strict=True)
                ]
                made = build(builder, *values)
                return context.get_dummy_value() if result is types.void else made

            return result(*own), codegen

        return function

    return decorator


def _fits(kind, given):
    if not isinstance(kind, tuple):
        return True
    return isinstance(given, types.Array) and (kind == ARRAY or given.dtype in kind)


def _load(bits):
    word = ir.IntType(bits).as_pointer()

    def load(builder, data, offset):
        return builder.load(builder.bitcast(byte_at(builder, data, offset), word), align=1)

    return load


def byte_at(builder, data, offset):
    return builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [offset])


# Little-endian loads from any byte offset of an array's buffer. The caller keeps them inside it.
load_u64 = instruction(types.uint64, ARRAY, types.intp)(_load(64))
load_u32 = instruction(types.uint32, ARRAY, types.intp)(_load(32))


@instruction(types.void, (types.uint8,), types.intp, (types.uint8,), types.intp, types.intp)
def copy_bytes(builder, target, at, source, start, length):
    """`target[at:at + length] = source[start:start + length]` of two uint8 arrays, or of one.

    8 to 16 bytes are their first and their last 8: a call would take several times as long.
    """
    to, of = builder.gep(target, [at]), builder.gep(source, [start])
    eight = length.type(8)
    last = builder.sub(length, eight)
    with builder.if_else(builder.icmp_unsigned("<=", last, eight)) as (few, many):
        with few:
            word = ir.IntType(64).as_pointer()
            pairs = [
                (builder.load(builder.bitcast(builder.gep(of, [offset]), word), align=1),
                 builder.bitcast(builder.gep(to, [offset]), word))
                for offset in (length.type(0), last)
            ]  # fmt: skip
            for value, pointer in pairs:
                builder.store(value, pointer, align=1)
        with many:
            cgutils.raw_memmove(builder, to, of, length, 1)


@instruction(types.void, ARRAY, types.intp)
def prefetch(builder, data, index):
    """Ask for the cache line of `array[index]`; index counts elements of a C-ordered array."""
    byte_pointer, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.VoidType(), [byte_pointer, integer, integer, integer]),
        "llvm.prefetch.p0",
    )
    pointer = builder.bitcast(builder.gep(data, [index]), byte_pointer)
    # for writing (1), keep in all caches (3), data (1)
    builder.call(function, [pointer, integer(1), integer(3), integer(1)])
