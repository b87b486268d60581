"""Whether a DataFrame is nothing but local Parquet files, which Arrow reads faster than the JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def scanned_files(df: DataFrame) -> list[str]:
    """The files of a DataFrame that is a plain scan of them, or some of its columns; [] otherwise.

    A plain scan is what `spark.read.parquet(path)` gives where folders hold no partition columns.
    Reader options, filters, new names and cached frames are left to Spark.
    """
    frame: Any = getattr(df, "_jdf", None)  # a Connect session has none
    if frame is None:
        return []
    plan = frame.queryExecution().analyzed()
    while _name(plan) == "Project" and _only_picks(plan.projectList()):
        plan = plan.child()
    if _name(plan) != "LogicalRelation" or _name(plan.relation()) != "HadoopFsRelation":
        return []
    relation = plan.relation()
    options = set(relation.options().keySet().mkString("\n").split("\n"))
    if (
        relation.fileFormat().toString() != "Parquet"
        or not relation.partitionSchema().isEmpty()
        or options - {"path", "paths"}
    ):
        return []
    addresses = [urlsplit(name) for name in df.inputFiles()]  # none where the frame is cached
    if any(one.scheme not in ("", "file") or one.netloc for one in addresses):
        return []
    return sorted(unquote(one.path) for one in addresses)


def _only_picks(columns: Any) -> bool:
    return all(_name(columns.apply(at)) == "AttributeReference" for at in range(columns.size()))


def _name(node: Any) -> str:
    return node.getClass().getSimpleName()
