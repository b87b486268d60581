"""Keys whose rows are sums of the rows of a combination that holds them.

Every event of driver "a" is in one row of (driver, car) whose driver is "a". So as long as both
keys have seen the same events, the shorter one's rows need not be kept: they are added up from
the combination's, which are fewer than the events, once somebody asks (J. Gray et al., "Data
Cube", 1997: sums of the smallest parent).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from muntin.summaries.vector_matrix.key_table import KeyTable
from muntin.summaries.vector_matrix.names import Key
from muntin.summaries.vector_matrix.numbering import Numbering


def derivable(keys: Sequence[Key]) -> tuple[Key, ...]:
    """Keys that some longer one holds, as its beginning or one of its columns; longest first."""
    found = [key for key in keys if any(_holds(parent, key) for parent in keys)]
    return tuple(sorted(found, key=len, reverse=True))


def derive(
    keys: Iterable[Key], tables: Mapping[Key, KeyTable], numbering: Numbering, *, checked: bool
) -> None:
    """Add up the rows of these keys, whose tables are empty, in the order of `derivable`.

    Raises
    ------
    SummaryOverflow
        A sum would leave its range; not looked for unless `checked`.
    """
    for key in keys:
        parents = [parent for parent in tables if _holds(parent, key)]
        parent = min(parents, key=numbering.rows)
        table, vectors = tables[key], tables[parent].matrix[: numbering.rows(parent)]
        table.reserve(numbering.rows(key))
        add = table.add_checked if checked else table.add
        add(numbering.rows_within(parent, key), vectors)


def _holds(parent: Key, key: Key) -> bool:
    return len(key) < len(parent) and (
        key == parent[: len(key)] or (len(key) == 1 and key[0] in parent)
    )
