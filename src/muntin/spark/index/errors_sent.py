"""Our own errors from the workers, as data: were they raised, each task would run four times."""

from __future__ import annotations

from muntin.errors import BadArgument, CorruptSummary, MuntinError, SourceError

_KINDS = {kind.__name__: kind for kind in (BadArgument, CorruptSummary, SourceError)}


def packed(problem: MuntinError) -> bytes:
    """An error as bytes."""
    kind = next((name for name, kind in _KINDS.items() if isinstance(problem, kind)), "")
    return f"{kind or BadArgument.__name__}\n{problem}".encode()


def unpacked(data: bytes) -> MuntinError:
    """The error that `packed` wrote."""
    name, _, message = data.decode().partition("\n")
    return _KINDS.get(name, MuntinError)(message)
