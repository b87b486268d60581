"""What a worker raised, without the JVM's and Python's traces around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from muntin import errors
from muntin.errors import MuntinError

_PREFIX = "muntin.errors."


@contextmanager
def plainly() -> Iterator[None]:
    """Turn an error of ours that Spark brings from a worker back into itself."""
    try:
        yield
    except MuntinError:
        raise
    except Exception as problem:
        ours = worker_error(problem)
        if ours is problem:
            raise
        raise ours from None


def worker_error(problem: Exception) -> Exception:
    """The MuntinError that a worker raised; or `problem` itself where it was none."""
    for line in reversed(str(problem).splitlines()):
        name, _, text = line.strip().partition(": ")
        if name.startswith(_PREFIX):
            kind = getattr(errors, name.removeprefix(_PREFIX), None)
            if isinstance(kind, type) and issubclass(kind, MuntinError):
                return kind(text)
    return problem
