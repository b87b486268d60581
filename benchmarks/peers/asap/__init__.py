"""asap_sketchlib, a Rust crate that no Python package has, called with whole columns (src/lib.rs).

Cargo makes a library of it, the first time that one is used; that takes a minute.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.summaries.items import text_buffers

_CRATE = Path(__file__).parent
_SOURCES = ["Cargo.toml", "Cargo.lock", "src/lib.rs"]
_KINDS = ["kll", "dd", "count-min", "count", "count-min-heap", "count-heap", "space-saving"]
_KINDS += ["hydra", "count-min-fixed"]


@cache
def is_there() -> bool:
    """Whether cargo can make it; says what is missing where it cannot."""
    if shutil.which("cargo"):
        return True
    print("no rows of asap_sketchlib: cargo (Rust 1.85 or later) is missing", file=sys.stderr)
    return False


@cache
def library() -> Any:
    digest = hashlib.sha256(b"".join((_CRATE / name).read_bytes() for name in _SOURCES))
    name = f"muntin-asap-{os.getuid()}-{digest.hexdigest()[:16]}.so"
    path = Path(tempfile.gettempdir()) / name
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            command = ["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", folder]
            flags = os.environ | {"RUSTFLAGS": "-C target-cpu=native"}
            subprocess.run(command, cwd=_CRATE, env=flags, check=True)
            made = path.with_suffix(f".{os.getpid()}")
            shutil.copy(Path(folder) / "release" / "libasap.so", made)
        made.rename(path)
    found = ctypes.CDLL(str(path))
    at, size = ctypes.c_void_p, ctypes.c_size_t
    found.asap_new.restype = at
    found.asap_new.argtypes = [ctypes.c_int64, *[ctypes.c_uint64] * 3]
    for name, arguments in {
        "free": [at],
        "update_values": [at, at, size],
        "ask_values": [at, at, size, at],
        "update_names": [at, at, at, size],
        "ask_names": [at, at, at, size, at],
        "first": [at, size, at],
        "bytes": [at],
        "merge": [at, at, size],
    }.items():
        getattr(found, f"asap_{name}").argtypes = arguments
        getattr(found, f"asap_{name}").restype = size
    return found


class Asap:
    """One sketch: what Rust keeps of it, called with arrays or with Arrow strings."""

    def __init__(self, kind: str, first: int, second: int = 0, kept: int = 0) -> None:
        self.made_of = kind, first, second, kept
        self._rust = library()
        self._at = self._rust.asap_new(_KINDS.index(kind), first, second, kept)

    def __del__(self) -> None:
        self._rust.asap_free(self._at)

    def update(self, column: np.ndarray | pa.Array) -> None:
        if isinstance(column, np.ndarray):
            self._rust.asap_update_values(self._at, column.ctypes.data, len(column))
            return
        data, offsets = text_buffers(column)
        self._rust.asap_update_names(self._at, offsets.ctypes.data, data.ctypes.data, len(column))

    def ask(self, what: np.ndarray | pa.Array) -> np.ndarray:
        out = np.empty(len(what))
        if isinstance(what, np.ndarray):
            self._rust.asap_ask_values(self._at, what.ctypes.data, len(what), out.ctypes.data)
            return out
        data, offsets = text_buffers(what)
        asked = offsets.ctypes.data, data.ctypes.data, len(what)
        self._rust.asap_ask_names(self._at, *asked, out.ctypes.data)
        return out

    def first(self, k: int) -> list[str]:
        """The names that it has counted most, of at most 100 bytes each."""
        out = np.empty(101 * k, np.uint8)
        size = self._rust.asap_first(self._at, k, out.ctypes.data)
        return out[:size].tobytes().decode().split("\n")

    @property
    def nbytes(self) -> int:
        return self._rust.asap_bytes(self._at)

    @staticmethod
    def merged(sketches: list[Asap]) -> Asap:
        total = Asap(*sketches[0].made_of)
        held = np.array([sketch._at for sketch in sketches], np.uintp)
        total._rust.asap_merge(total._at, held.ctypes.data, len(held))
        return total
