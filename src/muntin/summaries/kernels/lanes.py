"""Eight 64-bit or 32-bit lanes at once, as portable LLVM vectors: what plain loops did not become.

LLVM lowers them to AVX-512, AVX2, NEON or scalar code, whatever the machine has. All offsets
count elements; the caller keeps them inside the arrays.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_LANES = 8


def _splat(builder, scalar):
    kind = ir.VectorType(scalar.type, _LANES)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, _LANES), [0] * _LANES)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def _each(element, values):
    return ir.Constant(ir.VectorType(element, _LANES), [int(value) for value in values])


def _all(element, value):
    return _each(element, [value] * _LANES)


def _pointer(context, builder, array_type, array, offset, element):
    data = context.make_array(array_type)(context, builder, array).data
    data = builder.bitcast(data, element.as_pointer())
    start = builder.gep(data, [offset])
    return builder.bitcast(start, ir.VectorType(element, _LANES).as_pointer())


@intrinsic
def visit_block(typingctx, words, offset, cells, then, now):
    """Clean, query and fill one HyperBloom block; true where any of the eight cells was empty.

    `words` is uint64, a block its eight words from `offset`: word i is array i, its low half the
    cells filled in the present time slice, its high half those of the slice before. `cells` has
    five bits for each array, array 0 lowest. `then` and `now` (uint64) are eighths of a slice: of
    the last visit and of this one. Array i's slices begin i eighths early, so that its word moves
    on by `(now + i) // 8 - (then + i) // 8` slices: half a word each.
    """
    signature = types.boolean(words, types.intp, types.uint64, types.uint64, types.uint64)

    def codegen(context, builder, signature, arguments):
        array, offset, cells, then, now = arguments
        pointer = _pointer(context, builder, signature.args[0], array, offset, _I64)
        word = builder.load(pointer, align=8)
        lane = _each(_I64, range(_LANES))
        three = _all(_I64, 3)
        slices = builder.sub(
            builder.lshr(builder.add(_splat(builder, now), lane), three),
            builder.lshr(builder.add(_splat(builder, then), lane), three),
        )
        few = builder.icmp_unsigned("<", slices, _all(_I64, 2))
        slices = builder.select(few, slices, _all(_I64, 2))
        half = builder.shl(slices, _all(_I64, 4))  # applied twice: 64 bits at once are undefined
        word = builder.shl(builder.shl(word, half), half)
        spread = builder.lshr(_splat(builder, cells), _each(_I64, range(0, 40, 5)))
        bit = builder.shl(_all(_I64, 1), builder.and_(spread, _all(_I64, 31)))
        seen = builder.and_(builder.or_(word, builder.lshr(word, _all(_I64, 32))), bit)
        empty = builder.icmp_unsigned("==", seen, _all(_I64, 0))
        builder.store(builder.or_(word, bit), pointer, align=8)
        return builder.icmp_unsigned("!=", builder.bitcast(empty, _I8), ir.Constant(_I8, 0))

    return signature, codegen


@intrinsic
def find_lane(typingctx, numbers, offset, value, mask):
    """Which of eight uint32 from `offset`, masked, equals `value`: the first; 8 where none does."""
    signature = types.intp(numbers, types.intp, types.uint32, types.uint32)

    def codegen(context, builder, signature, arguments):
        array, offset, value, mask = arguments
        pointer = _pointer(context, builder, signature.args[0], array, offset, _I32)
        masked = builder.and_(builder.load(pointer, align=4), _splat(builder, mask))
        equal = builder.icmp_unsigned("==", masked, _splat(builder, value))
        bits = builder.zext(builder.bitcast(equal, _I8), _I64)
        bits = builder.or_(bits, ir.Constant(_I64, 1 << _LANES))
        return builder.cttz(bits, ir.Constant(_I1, 1))

    return signature, codegen


@intrinsic
def push_lane(typingctx, numbers, offset, value, last):
    """Put `value` in front of eight uint32; lanes up to `last` move on, its old value returns."""
    signature = types.uint32(numbers, types.intp, types.uint32, types.intp)

    def codegen(context, builder, signature, arguments):
        array, offset, value, last = arguments
        pointer = _pointer(context, builder, signature.args[0], array, offset, _I32)
        lanes = builder.load(pointer, align=4)
        last = builder.trunc(last, _I32)
        fallen = builder.extract_element(lanes, last)
        moved = builder.shuffle_vector(
            lanes, _splat(builder, value), _each(_I32, [_LANES, *range(_LANES - 1)])
        )
        upto = builder.icmp_unsigned("<=", _each(_I32, range(_LANES)), _splat(builder, last))
        builder.store(builder.select(upto, moved, lanes), pointer, align=4)
        return fallen

    return signature, codegen


@intrinsic
def pick_lane(typingctx, numbers, offset, tick, gap, patience):
    """Which of a recorder's eight ways to give away; 8 where all are inside a batch.

    From `offset` there are eight marks (0: free; the top bit: proven), then eight last times. A
    free way goes first, then the one silent longest, where the silence of a proven one is halved
    `patience` times.
    """
    signature = types.intp(numbers, types.intp, types.uint32, types.uint32, types.uint32)

    def codegen(context, builder, signature, arguments):
        array, offset, tick, gap, patience = arguments
        kind = signature.args[0]
        marks = builder.load(_pointer(context, builder, kind, array, offset, _I32), align=4)
        after = builder.add(offset, ir.Constant(offset.type, _LANES))
        times = builder.load(_pointer(context, builder, kind, array, after, _I32), align=4)
        silent = builder.sub(_splat(builder, tick), times)
        proven = builder.icmp_signed("<", marks, _all(_I32, 0))
        halvings = builder.select(proven, _splat(builder, patience), _all(_I32, 0))
        score = builder.lshr(silent, halvings)
        score = builder.or_(score, _all(_I32, 1))  # halved to 0 it would count as inside a batch
        idle = builder.icmp_unsigned(">", silent, _splat(builder, gap))
        score = builder.select(idle, score, _all(_I32, 0))
        free = builder.icmp_unsigned("==", marks, _all(_I32, 0))
        score = builder.select(free, _all(_I32, 0xFFFFFFFF), score)
        reduce = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(_I32, [ir.VectorType(_I32, _LANES)]),
            "llvm.vector.reduce.umax.v8i32",
        )
        highest = builder.call(reduce, [score])
        best = builder.icmp_unsigned("==", score, _splat(builder, highest))
        lane = builder.cttz(builder.zext(builder.bitcast(best, _I8), _I64), ir.Constant(_I1, 0))
        none = builder.icmp_unsigned("==", highest, ir.Constant(_I32, 0))
        return builder.select(none, ir.Constant(_I64, _LANES), lane)

    return signature, codegen
