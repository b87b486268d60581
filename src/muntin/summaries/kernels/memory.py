"""Unaligned loads, copies of bytes and hardware prefetch: what Numba does not offer by itself."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _address(context, builder, array_type, array, offset):
    data = context.make_array(array_type)(context, builder, array).data
    base = builder.bitcast(data, ir.IntType(8).as_pointer())
    return builder.gep(base, [offset])


def _load(bits: int, result):
    @intrinsic
    def load(typingctx, array, offset):
        signature = result(array, types.intp)

        def codegen(context, builder, signature, arguments):
            pointer = _address(context, builder, signature.args[0], *arguments)
            return builder.load(builder.bitcast(pointer, ir.IntType(bits).as_pointer()), align=1)

        return signature, codegen

    return load


# Little-endian loads from any byte offset of an array's buffer. The caller keeps them inside it.
load_u64 = _load(64, types.uint64)
load_u32 = _load(32, types.uint32)


@intrinsic
def copy_bytes(typingctx, target, at, source, start, length):
    """`target[at:at + length] = source[start:start + length]` of two uint8 arrays, or of one. 8 to
    16 bytes are their first and their last 8: a call would take several times as long."""
    signature = types.void(target, types.intp, source, types.intp, types.intp)

    def codegen(context, builder, signature, arguments):
        target, at, source, start, length = arguments
        to = _address(context, builder, signature.args[0], target, at)
        of = _address(context, builder, signature.args[2], source, start)
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
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def prefetch(typingctx, array, index):
    """Ask for the cache line of `array[index]`; index counts elements of a C-ordered array."""
    signature = types.void(array, types.intp)

    def codegen(context, builder, signature, arguments):
        array_type = signature.args[0]
        item_bytes = context.get_constant(types.intp, array_type.dtype.bitwidth // 8)
        offset = builder.mul(arguments[1], item_bytes)
        pointer = _address(context, builder, array_type, arguments[0], offset)
        byte_pointer = ir.IntType(8).as_pointer()
        integer = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte_pointer, integer, integer, integer]),
            "llvm.prefetch.p0",
        )
        # for writing (1), keep in all caches (3), data (1)
        builder.call(function, [pointer, integer(1), integer(3), integer(1)])
        return context.get_dummy_value()

    return signature, codegen
