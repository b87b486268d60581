"""What a key or an indicator that was added later has not counted, as an answer says it."""

from __future__ import annotations

from collections.abc import Mapping

from muntin.select.bind import Bound
from muntin.select.catalog import Note, Part, SummaryInfo, Uncounted
from muntin.times import instant_text


def lacking(
    bound: Bound,
    info: SummaryInfo,
    uncounted: Mapping[Part, Uncounted],
    names: frozenset[str] | None,
) -> dict[str, Uncounted]:
    """Of the key and the indicators that a FROM item reads, those that lack events.

    Parameters
    ----------
    names : frozenset of str or None
        Columns that the statement reads; None: all.
    """
    if not uncounted or bound.kind not in ("key", "total"):
        return {}
    found: dict[str, Uncounted] = {}
    if bound.kind == "key" and bound.key is not None and bound.key in uncounted:
        found[", ".join(bound.key)] = uncounted[bound.key]
    if bound.kind == "total" and all(key in uncounted for key in info.keys):
        # the totals are those of the key that has counted most
        best = min(info.keys, key=lambda key: uncounted[key].events)
        found[", ".join(best)] = uncounted[best]
    for name in bound.indicators:
        read = name in bound.columns and (names is None or name in names)
        if read and name in uncounted:
            found[name] = uncounted[name]
    return found


def lacking_note(bound: Bound, short: Mapping[str, Uncounted]) -> Note:
    """The sentence about them."""
    said = []
    for what, each in short.items():
        since = "" if each.since is None else f", and all since {instant_text(each.since)}"
        said.append(f"{what} has counted {each.of - each.events:,} of {each.of:,} events{since}")
    return Note("uncounted", bound.source, f"{bound.shown}: added later: {'; '.join(said)}")
