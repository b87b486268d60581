"""Files that are written anew, or grow, while they are read.

Of text, Spark reads as many bytes of a file as it had when the job was planned: what was added
since would be in no count, and a file in the place of another would be cut in a record. So what
was listed is compared with what is there once all rows have come, before a batch is committed.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from muntin.errors import SourceError
from muntin.spark.java import class_of, items_of

REMEDY = "write to another name, and rename it when it is whole"
_HERE = "file:"
# as Java writes many of them in one call; names may have any sign
_LISTED = re.compile(
    r"\{path=(.*?); isDirectory=\w+; length=(\d+);.*?; modification_time=(-?\d+);", re.DOTALL
)

States = Mapping[str, tuple[int, int]]  # path -> bytes, and when it was written, in milliseconds


def states_of(files: Iterable[str]) -> States:
    """Those that are there."""
    found = {}
    for file in files:
        with suppress(FileNotFoundError, NotADirectoryError):
            told = os.stat(file)
            found[file] = told.st_size, told.st_mtime_ns // 1_000_000
    return found


def check_unchanged(before: States, after: States) -> None:
    """One that is gone by now was read to its end, or Spark has said that it was not there. Raises
    SourceError: a file is another one than before; names it, and the remedy."""
    changed = sorted(file for file, state in before.items() if after.get(file, state) != state)
    if changed:
        more = f" and {len(changed) - 1:,} more were" if len(changed) > 1 else " was"
        raise SourceError(
            f"source: {changed[0]}{more} written anew, or grew, since it was listed to be read: "
            f"nothing of this batch is counted. To have it read whole, {REMEDY}; to read what is "
            "there now, start again"
        )


def check_as_planned(execution: Any, *, is_ours: bool) -> None:
    """`check_unchanged` for the files that a query of Spark has read, from its plan on.

    `is_ours`: nobody else has its list of files, so that those of an object store can be listed
    anew, at once as Spark lists them; of others, those of this machine are looked at. The plan is
    not part of Spark's public interface: where it has another form, nothing is checked.
    """
    from py4j.protocol import Py4JError

    try:
        for location in _locations(execution.executedPlan()):
            before = _listed(location)
            here = {file: at for file, at in before.items() if file.startswith("/")}
            check_unchanged(here, states_of(here))
            if is_ours and len(here) < len(before):
                location.refresh()
                check_unchanged(before, _listed(location))
    except (Py4JError, AttributeError):
        return


def _locations(plan: Any) -> Iterator[Any]:
    """Where a plan reads files; what it has in memory is left out."""
    if class_of(plan) == "AdaptiveSparkPlanExec":
        plan = plan.inputPlan()
    for leaf in items_of(plan.collectLeaves()):
        if class_of(leaf) == "FileSourceScanExec":
            location = leaf.relation().location()
            if class_of(location) == "InMemoryFileIndex":
                yield location


def _listed(location: Any) -> States:
    return {
        path.removeprefix(_HERE): (int(size), int(written))
        for path, size, written in _LISTED.findall(location.allFiles().mkString("\n"))
    }
