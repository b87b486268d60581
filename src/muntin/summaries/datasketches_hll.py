"""Apache DataSketches' HLL sketch in its serial form, with checks: HLL_8 written, all types read.

offset  size  what (little endian)
0       1     words of preamble: 2 LIST, 3 SET, 10 HLL
1       1     serial version 1
2       1     family 7
3       1     lg_k
4       1     logarithm of the size of a LIST or SET table
5       1     flags: 4 empty, 8 compact, 16 out of order, 32 full size from the start
6       1     LIST: number of coupons; HLL: the least register (HLL_4), else 0
7       1     mode (0 LIST, 1 SET, 2 HLL) + 4 x type (0 HLL_4, 1 HLL_6, 2 HLL_8)
LIST    8     coupons: value << 26 | slot, 4 bytes each
SET     8     number of coupons; 12: coupons
HLL     8     three doubles: HIP accumulator, sums of 2**-value below and from 32 on;
        32    number of registers at the least; 36: exceptions; 40: registers, of HLL_8 a byte
              each, of HLL_6 six bits, of HLL_4 four bits above the least, 15 being an exception:
              a coupon behind the registers holds its value

Source: HllUtil, PreambleUtil and CouponList of Apache DataSketches (Java 6.2, C++ 5.2).
"""

import struct

import numpy as np

from muntin.errors import CorruptSummary

LIST, SET, HLL = 0, 1, 2
HLL_4, HLL_6, HLL_8 = 0, 1, 2
PREAMBLE_WORDS = {LIST: 2, SET: 3, HLL: 10}
EMPTY, COMPACT, OUT_OF_ORDER, FULL_SIZE = 4, 8, 16, 32
LG_K_MIN, LG_K_MAX, VALUE_MAX = 4, 21, 63
SERIAL_VERSION, FAMILY = 1, 7
LIST_LG = 3
SLOT_BITS = 26
EXCEPTION = 15  # a nibble that says that the value lies elsewhere
_PREAMBLE = struct.Struct("<8B")
_HLL = struct.Struct("<dddii")


def write(registers: np.ndarray) -> bytes:
    """An HLL_8 sketch; registers uint8[2**lg_k]."""
    lg_k = len(registers).bit_length() - 1
    kind = HLL_8 << 2
    used = registers[registers > 0]
    if not len(used):
        start = PREAMBLE_WORDS[LIST], SERIAL_VERSION, FAMILY, lg_k
        return _PREAMBLE.pack(*start, LIST_LG, EMPTY | COMPACT, 0, kind | LIST)
    # out of order: readers must not use the HIP accumulator, which merging cannot keep
    start = PREAMBLE_WORDS[HLL], SERIAL_VERSION, FAMILY, lg_k
    head = _PREAMBLE.pack(*start, 0, COMPACT | OUT_OF_ORDER, 0, kind | HLL)
    small, large = _inverse_powers(registers)
    zeros = len(registers) - len(used)
    return head + _HLL.pack(0.0, small, large, zeros, 0) + registers.tobytes()


def read(data: bytes) -> np.ndarray:
    """Registers, uint8[2**lg_k], of a sketch of any type in any of its three modes."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CorruptSummary(f"an HLL sketch is bytes, got {type(data).__name__}")
    view = memoryview(bytes(data))
    if len(view) < _PREAMBLE.size:
        raise CorruptSummary(f"HLL sketch: {len(view)} bytes are too few")
    words, version, family, lg_k, lg_table, flags, coupons, modes = _PREAMBLE.unpack_from(view)
    mode, kind = modes & 3, modes >> 2
    if version != SERIAL_VERSION or family != FAMILY or PREAMBLE_WORDS.get(mode) != words:
        raise CorruptSummary("not an Apache DataSketches HLL sketch")
    if kind not in (HLL_4, HLL_6, HLL_8):
        raise CorruptSummary(f"HLL sketch: type {kind} is unknown")
    if not LG_K_MIN <= lg_k <= LG_K_MAX:
        raise CorruptSummary(f"HLL sketch: lg_k {lg_k} is not in {LG_K_MIN} ... {LG_K_MAX}")
    if flags & ~(EMPTY | COMPACT | OUT_OF_ORDER | FULL_SIZE):
        raise CorruptSummary(f"HLL sketch: unknown flags {flags:#x}")
    body = view[_PREAMBLE.size :]
    if mode == HLL:
        least = coupons if kind == HLL_4 else 0
        registers = _dense(body, lg_k, kind, least, lg_table, bool(flags & COMPACT))
        if flags & EMPTY and registers.any():
            raise CorruptSummary("HLL sketch: said to be empty, but has registers")
        return registers
    if mode == SET:
        if len(body) < 4:
            raise CorruptSummary("HLL sketch: cut before its coupons")
        coupons = int.from_bytes(body[:4], "little")
        body = body[4:]
    return _from_coupons(body, coupons, lg_table, flags, lg_k)


def _dense(
    body: memoryview, lg_k: int, kind: int, least: int, lg_table: int, compact: bool
) -> np.ndarray:
    m = 1 << lg_k
    size = {HLL_4: m // 2, HLL_6: m * 3 // 4 + 1, HLL_8: m}[kind]
    if len(body) < _HLL.size + size:
        raise CorruptSummary(f"HLL sketch: {len(body)} bytes do not hold 2**{lg_k} registers")
    _, small, large, at_least, exceptions = _HLL.unpack_from(body)
    packed = np.frombuffer(body[_HLL.size : _HLL.size + size], np.uint8)
    rest = body[_HLL.size + size :]
    if kind == HLL_4:
        registers = _of_nibbles(packed, rest, least, exceptions, compact, lg_table)
    elif exceptions or len(rest):
        raise CorruptSummary("HLL sketch: a register is impossible")
    else:
        registers = packed.copy() if kind == HLL_8 else _of_six_bits(packed, m)
    if registers.max() > VALUE_MAX:
        raise CorruptSummary("HLL sketch: a register is impossible")
    if at_least != np.count_nonzero(registers == least) or registers.min() < least:
        raise CorruptSummary(f"HLL sketch: it does not have {at_least} registers at {least}")
    if not np.allclose((small, large), _inverse_powers(registers), rtol=1e-9, atol=1e-12):
        raise CorruptSummary("HLL sketch: registers contradict their sums")
    return registers


def _of_six_bits(packed: np.ndarray, m: int) -> np.ndarray:
    bits = np.unpackbits(packed, bitorder="little")[: 6 * m].reshape(m, 6)
    return np.packbits(bits, axis=1, bitorder="little")[:, 0]


def _of_nibbles(
    packed: np.ndarray, rest: memoryview, least: int, exceptions: int, compact: bool, lg_table: int
) -> np.ndarray:
    nibbles = np.stack([packed & 15, packed >> 4], axis=1).ravel()
    words = exceptions if compact or not exceptions else 1 << min(lg_table, 30)
    if not 0 <= exceptions <= len(nibbles) or len(rest) != 4 * words:
        if compact or exceptions or len(rest) % 4 or any(rest):
            raise CorruptSummary(f"HLL sketch: {len(rest)} bytes do not hold {words} exceptions")
        rest = rest[:0]
    coupons = np.frombuffer(rest, "<u4")
    coupons = coupons[coupons > 0]
    slots = coupons & (len(nibbles) - 1)
    above = np.flatnonzero(nibbles == EXCEPTION)
    if len(coupons) != exceptions or not np.array_equal(np.sort(slots), above):
        raise CorruptSummary(f"HLL sketch: it does not have {exceptions} exceptions")
    registers = nibbles.astype(np.int64) + least
    registers[slots] = coupons >> SLOT_BITS
    if (registers[slots] < least + EXCEPTION).any() or registers.max() > VALUE_MAX:
        raise CorruptSummary("HLL sketch: a register is impossible")
    return registers.astype(np.uint8)


def _from_coupons(
    body: memoryview, coupons: int, lg_table: int, flags: int, lg_k: int
) -> np.ndarray:
    words = coupons if flags & COMPACT else 1 << min(lg_table, 30)
    if len(body) != 4 * words:
        raise CorruptSummary(f"HLL sketch: {len(body)} bytes do not hold {words} coupons")
    found = np.frombuffer(body, "<u4")
    found = found[found > 0]
    values = found >> SLOT_BITS
    if len(found) != coupons or len(np.unique(found)) != coupons or (values == 0).any():
        raise CorruptSummary(f"HLL sketch: it does not have {coupons} coupons")
    if bool(flags & EMPTY) != (coupons == 0):
        raise CorruptSummary(f"HLL sketch: {coupons} coupons contradict its flags")
    registers = np.zeros(1 << lg_k, np.uint8)
    np.maximum.at(registers, found & ((1 << lg_k) - 1), values.astype(np.uint8))
    return registers


def _inverse_powers(registers: np.ndarray) -> tuple[float, float]:
    """Sums of 2**-value over the registers below 32, and over the others."""
    counts = np.bincount(registers, minlength=VALUE_MAX + 1)
    terms = counts * 0.5 ** np.arange(VALUE_MAX + 1)
    return float(terms[:32].sum()), float(terms[32:].sum())
