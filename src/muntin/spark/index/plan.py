"""What the workers of a build need to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muntin.spark.index.manifest import Manifest
from muntin.summaries.dyadic_qdigest import DyadicQDigest
from muntin.summaries.order_maps import OrderMap

HEADROOM = 2  # times that an index may grow by `append` before a second run is begun
CAPACITY_MIN = 1024


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """One build, append or rebuild."""

    index: Manifest
    """What it is, without its files."""
    folder: str
    runs: str
    """Folder of what the first stage leaves for the second; removed when both are done."""
    tasks: int
    """Of the second stage."""
    domain: OrderMap | None
    """Of the numbers; None: no digest is made."""
    base: Mapping[int, str]
    """Files of partitions that are extended."""
    only: frozenset[int] | None = None
    """Partitions to build; None: all."""

    def partitions_of(self, task: int) -> range:
        """The hash ranges that a task of the second stage makes files of."""
        partitions = self.index.partitions
        return range(task * partitions // self.tasks, (task + 1) * partitions // self.tasks)

    def new_digest(self) -> DyadicQDigest | None:
        return new_digest(self.index.error, self.domain) if self.domain else None


def new_digest(error: float, domain: OrderMap) -> DyadicQDigest:
    """For half the error that was asked: twice the size, some hundred KB, and tighter bounds."""
    return DyadicQDigest.for_error(error / 2, domain=domain)
