"""Which lines of a CSV file mean the same to every parser."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.summaries.kernels import kernel

_LF, _CR, _QUOTE, _BACKSLASH, _MINUS, _ZERO = (ord(c) for c in '\n\r"\\-0')


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a chunk that are not blank.

    Attributes
    ----------
    begins, ends : int64[n]
        Where they stand in the chunk, with the line's end.
    numbers : int64[n]
        Which of all lines of the chunk they are.
    plain : bool[n]
        Fields are as many as columns, quotes only around whole fields, and nothing else is there
        that parsers see differently.
    total : int
        All lines, also blank ones.
    """

    begins: np.ndarray
    ends: np.ndarray
    numbers: np.ndarray
    plain: np.ndarray
    total: int


def lines_of(data: np.ndarray, columns: int, separator: str, escape: str) -> Lines:
    """Find the lines of a chunk: uint8[m] that ends with a line's end, or with the file.

    `separator` and `escape` are one ASCII character each; with a quote as escape, a quote within
    quotes is written twice.
    """
    size = int(np.count_nonzero(data == _LF)) + 1
    begins, ends, numbers = np.empty((3, size), np.int64)
    plain = np.empty(size, np.bool_)
    kept, total = _find_lines(
        data, columns, ord(separator), ord(escape), begins, ends, numbers, plain
    )
    return Lines(begins[:kept], ends[:kept], numbers[:kept], plain[:kept], total)


@kernel()
def _find_lines(data, columns, separator, escape, begins, ends, numbers, plain):
    size = data.shape[0]
    i = kept = total = 0
    while i < size:
        begin = i
        fields = 1
        usual = True
        while usual:
            start = i
            if i < size and data[i] == _QUOTE:
                i = _quoted(data, i + 1, escape)
                usual = i >= 0
                start += 1
                stop = i - 1
                if usual and i + 1 < size and data[i] == _CR and data[i + 1] == _LF:
                    i += 1
                if usual and i < size and data[i] != _LF and data[i] != separator:
                    usual = False
                usual = usual and stop > start
            else:
                while i < size and data[i] != separator and data[i] != _LF:
                    byte = data[i]
                    if byte == _QUOTE or byte == 0 or (byte == _BACKSLASH and escape == byte):
                        usual = False
                    if byte == _CR and not (i + 1 < size and data[i + 1] == _LF):
                        usual = False
                    i += 1
                stop = i
                if stop > start and data[stop - 1] == _CR:
                    stop -= 1
            if not usual:
                break
            if stop > start:
                # spaces around numbers, and hexadecimal ones, are taken by some
                if data[start] <= 32 or data[stop - 1] <= 32:
                    usual = False
                sign = 1 if data[start] == _MINUS else 0
                if stop > start + sign + 1 and data[start + sign] == _ZERO:
                    usual = usual and (data[start + sign + 1] | 32) != 120
            if i < size and data[i] == separator:
                fields += 1
                i += 1
            else:
                break
        if not usual:
            i = begin
        while i < size and data[i] != _LF:
            i += 1
        blank = True
        for at in range(begin, i):
            if data[at] > 32:
                blank = False
                break
        i += 1
        if not blank:
            begins[kept] = begin
            ends[kept] = min(i, size)
            numbers[kept] = total
            plain[kept] = usual and fields == columns
            kept += 1
        total += 1
    return kept, total


@kernel()
def _quoted(data, i, escape):
    """After the quote that ends a field; -1 where something unusual is in it."""
    size = data.shape[0]
    first = i
    while i < size:
        byte = data[i]
        if byte == _QUOTE:
            doubled = i + 1 < size and data[i + 1] == _QUOTE
            if not doubled:
                return i + 1
            if escape != _QUOTE or i == first:
                return -1
            i += 1
        elif byte in (_LF, _CR, 0) or (byte == _BACKSLASH and escape == byte):
            return -1
        i += 1
    return -1
