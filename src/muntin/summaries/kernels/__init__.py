"""The hot loops: free functions over NumPy buffers, compiled by Numba.

`kernel` is the one decorator. Its cache lives in a folder that only the user can write (Numba's
cache index is a pickle), named after the sources in every `kernels` folder: Numba itself does not
notice when a function in another file, which was compiled into a cached one, has changed. Where
the package is installed does not matter: another environment of the same Muntin, with the same
Numba, compiles nothing.
"""

import hashlib
import logging
import os
from collections.abc import Callable
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

PACKAGE = Path(__file__).parents[2]
_LOG = logging.getLogger("muntin")


def cache_folder(package: Path = PACKAGE) -> Path:
    """Where compiled kernels are kept: a folder of the user's own, named after the sources."""
    digest = hashlib.sha256()
    for source in sorted(package.glob("*/kernels/*.py")):
        digest.update(source.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "muntin" / f"kernels-{digest.hexdigest()[:16]}"


if "NUMBA_CACHE_DIR" not in os.environ:
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError):  # it cannot be written; there is no home
        pass  # Numba compiles anew in each process, slower but right
    else:
        os.environ["NUMBA_CACHE_DIR"] = str(folder)

import numba  # noqa: E402  (reads the environment when it is imported)
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache  # noqa: E402
from numba.core.runtime import rtsys  # noqa: E402

from muntin.summaries.kernels.turns import Turn  # noqa: E402

if "NUMBA_CACHE_DIR" in os.environ:
    numba.config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"]  # pyright: ignore


@cache
def _digest_of(source: str) -> str:
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()


class _Place:
    """Where what is compiled of a function is kept: by the name of its module. Numba's own places
    are named after the module's path, which differs in each environment. Another Numba has others:
    it would take the same names, and neither reads what the other has written."""

    def __init__(self, function: Callable[..., Any], source: str) -> None:
        self._line = function.__code__.co_firstlineno
        self._py_file = source
        name = f"{function.__module__}-{numba.__version__}"
        self._folder = Path(numba.config.CACHE_DIR) / name  # pyright: ignore

    @classmethod
    def from_function(cls, function: Callable[..., Any], source: str) -> "_Place | None":
        if not numba.config.CACHE_DIR:  # pyright: ignore
            return None
        place = cls(function, source)
        try:
            place.ensure_cache_path()
        except OSError:
            return None
        return place if os.access(place._folder, os.W_OK) else None  # one of Numba's, then

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return _digest_of(self._py_file)

    def get_disambiguator(self) -> str:
        return str(self._line)


class _Results(CompileResultCacheImpl):
    _locator_classes: ClassVar = [_Place, *CompileResultCacheImpl._locator_classes]


class _Compiled(FunctionCache):
    """What is compiled by one process is loaded by those that need it at the same time."""

    _impl_class = _Results
    _turn: Turn | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)
            if found is None and self._turn is None:
                self._turn = Turn(Path(self.cache_path) / f"{self._impl.filename_base}.turn")
                if self._turn.waited:
                    found = self._load_overload(sig, target_context)
            if found is not None:
                self._end_turn()
            return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:
            pass  # a full disk: it runs all the same, and the next process compiles it anew
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.end()
            self._turn = None


@cache
def _say_that_nothing_is_kept() -> None:
    _LOG.warning(
        "no folder can be written for compiled kernels: each process compiles them anew, which "
        "takes up to a minute; let NUMBA_CACHE_DIR name a folder that can be"
    )


class KernelCache:
    """Numba's cache of what was compiled before, loaded without what only compiling needs.

    Numba registers all that a function may call before it looks for a compiled one: 92 modules,
    half of the time in which a new process answers its first question. What is compiled has all
    of that in it but the allocator. And it looks for the folder of each function that is defined;
    most processes call few of them.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)

    @cached_property
    def _compiled(self) -> _Compiled | NullCache:
        try:
            return _Compiled(self._function)
        except RuntimeError:  # no folder can be written: not Numba's own either
            _say_that_nothing_is_kept()
            return NullCache()


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A decorator: compiled at the first call with arguments of each type, and kept."""
    if function is None:
        return partial(kernel, **options)
    settings = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy", **options}
    dispatcher = _once_for_numbers(numba.njit(**settings)(function))
    dispatcher._cache = KernelCache(function)  # as `cache=True`, with ours
    return dispatcher


def _once_for_numbers(dispatcher: Any) -> Any:
    """Numba would compile a function anew for each constant with which another one calls it."""
    template = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: template(
        [numba.types.unliteral(each) for each in args], kws
    )
    return dispatcher


# Kernels that allocate nothing: without it Numba counts references to every array at every call.
bare = partial(kernel, _nrt=False)


def inlined() -> Callable[[Callable[..., Any]], Any]:
    """A decorator of helpers of kernels, which allocate nothing and Python cannot call.

    LLVM puts them in their places; were it Numba (`inline`), it would type and lower them anew in
    each: twice the time to compile.
    """
    compiled = numba.njit(
        forceinline=True,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        _nrt=False,
        error_model="numpy",
    )
    return lambda function: _once_for_numbers(compiled(function))


from muntin.summaries.kernels import compiling as compiling  # noqa: E402  (hears of the first)
