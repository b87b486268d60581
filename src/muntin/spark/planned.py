"""A micro-batch of files: those that it was planned with, and those that Spark has found.

Spark writes down which files a batch takes, then looks for them, also where the batch runs again
after a crash. One that is gone by then is left out without a word, whatever
`spark.sql.files.ignoreMissingFiles` says, since each of them is the root of a search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muntin.errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

IGNORING = "spark.sql.files.ignoreMissingFiles"


def check_there(query: StreamingQuery) -> None:
    """Of the batch at hand, all planned files must be there.

    Spark tells it in the batch's plan, which is not part of its public interface: where that has
    another form, nothing is checked.

    Raises
    ------
    SourceError
        One is gone; names it, and the two remedies.
    """
    from py4j.protocol import Py4JError

    try:
        gone = _gone(query)
    except (Py4JError, AttributeError):
        return
    if gone:
        more = f" and {len(gone) - 1:,} more are" if len(gone) > 1 else " is"
        raise SourceError(
            f"source: {gone[0]}{more} gone, since this batch was planned: its events are not "
            f"counted yet. Put it back, or go on without it by  spark: {{{IGNORING}: true}}"
        )


def _gone(query: StreamingQuery) -> list[str]:
    java: Any = query._jsq  # pyright: ignore[reportPrivateUsage]
    execution = java.streamingQuery().lastExecution()
    leaves = execution.logical().collectLeaves()
    gone: list[str] = []
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.getClass().getSimpleName() != "LogicalRelation":
            continue
        relation = leaf.relation()
        if relation.getClass().getSimpleName() != "HadoopFsRelation":
            continue
        roots = relation.location().rootPaths()
        if roots.size() == len(relation.location().inputFiles()):
            continue
        session = execution.sparkSession()
        said = relation.options().get("ignoreMissingFiles")
        said = said.get() if said.isDefined() else session.conf().get(IGNORING, "false")
        if said.lower() != "true":
            settings = session.sessionState().newHadoopConf()
            for at in range(roots.size()):
                path = roots.apply(at)
                if not path.getFileSystem(settings).exists(path):
                    gone.append(str(path.toString()))
    return gone
