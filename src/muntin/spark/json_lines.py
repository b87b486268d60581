"""JSON that Spark reads otherwise than it stands there: values that it passes over, since it reads
the first of each line, or of a whole file, and halves of characters, which it replaces."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO

import numpy as np

from muntin.ledger.records import RAW_BYTES_MAX
from muntin.spark.files import unpacked
from muntin.summaries.kernels import kernel

CHUNK_BYTES = 8 << 20
_LF, _CR, _QUOTE, _BACKSLASH, _OPEN, _CLOSE = (ord(c) for c in '\n\r"\\{}')
_ESCAPED = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]|\\u[dD]([89a-fA-F])")
"""What is escaped: a backslash, a pair of surrogates, or one alone."""
_STRING = json.JSONDecoder(strict=False)
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_OBJECT = 32  # the bit that makes a [ a {, and a ] a }


def passed_over(
    path: str, begins: int, length: int, broken: set[str], *, whole: bool = False
) -> Iterator[tuple[int, int, bytes]]:
    """What follows the first value of each line that Spark reads as this block of a file, or of the
    `whole` file: which line, how many values, their first bytes; none where the file cannot be read
    here. `broken` gets texts with half a character, as Spark has them."""
    packed = path.endswith(".gz")
    # where it cannot be read, it is Spark that says what is wrong with it
    with suppress(OSError, EOFError), unpacked(path) or BytesIO() as stream:
        stream.seek(begins)
        if begins:
            stream.readline()  # it began in the block before
        left = begins + length + 1 - stream.tell()  # a line may begin at the block's end
        number = 0
        many = -1 if whole else CHUNK_BYTES  # as Spark, which has it in memory, too
        while data := stream.read(many if packed or whole else max(0, min(left, many))):
            if not data.endswith(b"\n"):
                data += stream.readline()
            left -= len(data)
            broken.update(_broken(data, whole))
            at = 0
            for first, values in zip(*_later_values(data, whole), strict=True):
                number, at = number + data.count(b"\n", at, first), first
                end = -1 if whole else data.find(b"\n", first, first + RAW_BYTES_MAX)
                end = end if end >= 0 else first + RAW_BYTES_MAX
                yield number + 1, values, data[first:end]
            number += data.count(b"\n", at)


def _broken(data: bytes, whole: bool) -> Iterator[str]:
    """Texts with half a character, for which Spark has a question mark."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return
    for record in [data] if whole else data.splitlines():
        if any(found[1] for found in _ESCAPED.finditer(record)):
            for text in (each for each in _TEXT.findall(record) if b"\\u" in each):
                with suppress(ValueError):  # it is Spark that says what is wrong with it
                    value = _STRING.decode(text.decode())
                    if (read := value.encode("utf-8", "replace").decode()) != value:
                        yield read


def _later_values(data: bytes, whole: bool) -> tuple[list[int], list[int]]:
    """Of lines with several objects or lists: where the second begins, how many there are more."""
    size = data.count(b"\n") + data.count(b"\r") + 1
    firsts, values = np.empty((2, size), np.int64)
    found = _find_later(np.frombuffer(data, np.uint8), firsts, values, whole)
    return firsts[:found].tolist(), values[:found].tolist()


@kernel()
def _find_later(data, firsts, values, whole):
    """Fill `firsts` and `values` (int64[lines]); returns how many lines have more than one value.

    Values are counted by the brackets that open them, outside of strings. What is no JSON must not
    spoil the next line: a line's end ends all that is open, unless the data are one `whole` record.
    """
    found = depth = seen = second = 0
    quoted = False
    i = 0
    while i <= data.shape[0]:
        byte = data[i] if i < data.shape[0] else _LF
        if (byte in (_LF, _CR) and not whole) or i == data.shape[0]:
            if seen > 1:
                firsts[found] = second
                values[found] = seen - 1
                found += 1
            depth = seen = 0
            quoted = False
        elif quoted:
            if byte == _BACKSLASH:
                i += 1
                if i == data.shape[0] or data[i] in (_LF, _CR):
                    continue
            elif byte == _QUOTE:
                quoted = False
        elif byte == _QUOTE:
            quoted = True
        elif byte | _OBJECT == _OPEN:
            if depth == 0:
                seen += 1
                if seen == 2:
                    second = i
            depth += 1
        elif byte | _OBJECT == _CLOSE and depth > 0:
            depth -= 1
        i += 1
    return found
