"""ExaLogLog and Ribbon filters of crates (sets-rs), called with whole columns of integers."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_CRATE = Path(__file__).with_name("sets-rs")
_POINTER, _SIZE, _NUMBER = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "ell_new": (_POINTER, [_NUMBER]),
    "ell_free": (None, [_POINTER]),
    "ell_update": (None, [_POINTER, _POINTER, _SIZE]),
    "ell_estimate": (ctypes.c_double, [_POINTER]),
    "ell_martingale": (ctypes.c_double, [_POINTER]),
    "ell_write": (_SIZE, [_POINTER, _POINTER, _SIZE]),
    "ell_merged": (_POINTER, [_POINTER, _SIZE]),
    "ribbon_of": (_POINTER, [_POINTER, _SIZE, _NUMBER, _NUMBER]),
    "ribbon_free": (None, [_POINTER]),
    "ribbon_bytes": (_SIZE, [_POINTER]),
    "ribbon_ask": (None, [_POINTER, _POINTER, _SIZE, _POINTER]),
}


@cache
def library() -> Any:
    """None, and one line, where there is no cargo."""
    if not shutil.which("cargo"):
        print("There is no cargo (rustup.rs): the rows of crates are left out.")
        return None
    flags = {"RUSTFLAGS": "-C target-cpu=native"}
    build = ["cargo", "build", "--release", "--locked", "--quiet"]
    subprocess.run(build, cwd=_CRATE, env=os.environ | flags, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", _CRATE / "target")
    [path] = (Path(target) / "release").glob("*sets.[sd][oy]*")  # .so, .dylib
    found = ctypes.CDLL(str(path))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


def crate(name: str) -> str:
    """Its name and its version."""
    for package in tomllib.loads((_CRATE / "Cargo.lock").read_text())["package"]:
        if package["name"] == name:
            return f"crate `{name}` {package['version']}"
    raise LookupError(name)


class ExaLogLog:
    """ELL(2, 20) of 2**p registers."""

    def __init__(self, p: int, at: Any = None) -> None:
        self._c = library()
        self._at = at or self._c.ell_new(p)

    def __del__(self) -> None:
        self._c.ell_free(self._at)

    def update(self, values: np.ndarray) -> None:
        self._c.ell_update(self._at, *_column(values))

    def estimate(self) -> float:
        """The likeliest count."""
        return self._c.ell_estimate(self._at)

    def martingale(self) -> float:
        """From what was seen while the stream went through; not a number once merged."""
        return self._c.ell_martingale(self._at)

    def to_bytes(self) -> bytes:
        data = ctypes.create_string_buffer(self._c.ell_write(self._at, None, 0))
        self._c.ell_write(self._at, data, len(data))
        return data.raw

    @classmethod
    def merged(cls, sketches: Sequence[ExaLogLog]) -> ExaLogLog:
        """All of them in one call."""
        every = (_POINTER * len(sketches))(*[sketch._at for sketch in sketches])
        return cls(0, library().ell_merged(every, len(sketches)))


class Ribbon:
    """A Ribbon filter: rows of 64 bits, homogeneous, or of 128, standard."""

    def __init__(self, keys: np.ndarray, width: int, bits: int) -> None:
        self._c = library()
        self._at = self._c.ribbon_of(*_column(keys), width, bits)

    def __del__(self) -> None:
        self._c.ribbon_free(self._at)

    def ask(self, keys: np.ndarray) -> np.ndarray:
        found = np.empty(len(keys), np.bool_)
        self._c.ribbon_ask(self._at, *_column(keys), found.ctypes.data)
        return found

    @property
    def nbytes(self) -> int:
        return self._c.ribbon_bytes(self._at)


def _column(values: np.ndarray) -> tuple[Any, int]:
    column = np.ascontiguousarray(values)
    return column.ctypes.data_as(_POINTER), len(column)
