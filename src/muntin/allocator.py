"""What the processes that Muntin starts do with memory that is free again: keep some of it.

By default the C library gives large arrays back to the system as they are freed, and all that is
freed in other threads than the first. The system then gives memory anew, page by page, a
microsecond or so each: half of the time of a batch whose summaries are large.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h


def keep_memory(kept_bytes: int = 256 << 20, large_bytes: int = 32 << 20) -> None:
    """Keep up to `kept_bytes` that were freed, of any thread, but for arrays from `large_bytes` on.

    For NumPy's memory, and where the C library is glibc; Arrow has an allocator of its own.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, large_bytes)
        mallopt(_TRIM_THRESHOLD, kept_bytes)
