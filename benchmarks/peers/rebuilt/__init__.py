"""Sketches and filters that no package has, rebuilt in C from their papers and experiments.

The system's compiler makes a library of them, the first time that one is used. What is a crate is
called by way of sets.py.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_SOURCES = sorted(Path(__file__).parent.glob("*.[ch]"))
_FLAGS = ["-O3", "-march=native", "-shared", "-fPIC"]
_MAKES = {
    "spline": "q", "cooled": "qqQ", "cuckoo": "qdQ", "microscope": "qqqQ", "magnifier": "qdQ",
    "m4": "q", "burr64": "pqqd", "burr128": "pqqd",
}  # fmt: skip
_TYPES: dict[str, Any] = {
    "q": ctypes.c_int64, "Q": ctypes.c_uint64, "d": ctypes.c_double, "p": ctypes.c_void_p,
}  # fmt: skip


@cache
def library() -> Any:
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in _SOURCES)).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"muntin-sketches-{os.getuid()}-{digest}.so"
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}")
        compiler = os.environ.get("CC", "cc")
        sources = [str(path) for path in _SOURCES if path.suffix == ".c"]
        subprocess.run([compiler, *_FLAGS, "-o", str(made), *sources, "-lm"], check=True)
        made.rename(path)
    found = ctypes.CDLL(str(path))
    for name, types in _MAKES.items():
        make = getattr(found, f"{name}_new")
        make.restype, make.argtypes = ctypes.c_void_p, [_TYPES[kind] for kind in types]
    for name in ("cuckoo", "burr64", "burr128"):
        getattr(found, f"{name}_bytes").restype = ctypes.c_int64
    return found


class Rebuilt:
    """One sketch: what C keeps of it, called with arrays."""

    def __init__(self, kind: str, *arguments: Any) -> None:
        self.kind, self._c = kind, library()
        given = [_passed(one) if isinstance(one, np.ndarray) else one for one in arguments]
        self._at = ctypes.c_void_p(getattr(self._c, f"{kind}_new")(*given))

    def __del__(self) -> None:
        getattr(self._c, f"{self.kind}_free")(self._at)

    def call(self, name: str, *arguments: Any) -> None:
        """Arrays are passed as their memory; the length of the last but one follows by itself."""
        getattr(self._c, f"{self.kind}_{name}")(self._at, *map(_passed, arguments))

    def update(self, *columns: np.ndarray) -> None:
        self.call("update", *columns, len(columns[0]))

    def ask(self, what: np.ndarray, *more: float, dtype: type = np.float64) -> np.ndarray:
        out = np.empty(len(what), dtype)
        self.call("ask", what, len(what), *more, out)
        return out

    def merge(self, other: Rebuilt) -> None:
        getattr(self._c, f"{self.kind}_merge")(self._at, other._at)

    def next(self) -> None:
        self.call("next")

    @property
    def nbytes(self) -> int:
        """Of a cuckoo heavy keeper, whose tables have a power of two of buckets, or of a filter."""
        return int(getattr(self._c, f"{self.kind}_bytes")(self._at))


def _passed(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return np.ascontiguousarray(argument).ctypes.data_as(ctypes.c_void_p)
    return ctypes.c_double(argument) if isinstance(argument, float) else ctypes.c_int64(argument)
