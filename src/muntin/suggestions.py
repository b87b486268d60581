"""What the writer may have meant: close matches for names that do not exist.

Pipeline files, sources and SELECT all say it in the same words.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

NAMES_SHOWN_MAX = 12


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is closest, if one is close."""
    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower()[:64], by_lower, n=1, cutoff=0.6)
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
