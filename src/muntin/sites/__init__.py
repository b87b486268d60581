"""A top k over several sites, over the network: `Site` beside a pipeline, and the coordinator.

What they say to each other is `muntin.topk`; here are the panes that it is said about, the
sockets, and the clocks. docs/topk.md tells how to run them and what the answer promises.
"""

from muntin.sites.coordinating import CoordinatorServer
from muntin.sites.site import Site
from muntin.sites.spec import CoordinatorSpec

__all__ = ["CoordinatorServer", "CoordinatorSpec", "Site"]
