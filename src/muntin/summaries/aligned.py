"""Memory for tables: aligned, so that large ones lie in the system's large pages whole.

The first touch of a page costs the system a microsecond or more, of a large page as much as of a
small one. NumPy asks for large pages where an array has 4 MB; its ragged ends get small ones.
"""

from typing import Any

import numpy as np

_LINE_BYTES = 64
_PAGE_BYTES = 1 << 21


def aligned_zeros(size: int, dtype: Any) -> np.ndarray:
    """Zeros, [size], that begin at a cache line, or, where they are many, at a large page."""
    wanted = size * np.dtype(dtype).itemsize
    step = _PAGE_BYTES if wanted >= _PAGE_BYTES else _LINE_BYTES
    raw = np.zeros(-(-wanted // step) * step + step, np.uint8)
    start = -raw.ctypes.data % step
    return raw[start : start + wanted].view(dtype)


def grown(array: np.ndarray, size: int) -> np.ndarray:
    """The same numbers, in front of room for as many as make `size`."""
    longer = np.empty(size, array.dtype)
    longer[: len(array)] = array
    return longer


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """An independent equal, as `aligned_zeros` lays it out."""
    twin = aligned_zeros(array.size, array.dtype).reshape(array.shape)
    twin[...] = array
    return twin
