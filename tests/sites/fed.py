"""Two sites in this process that are fed a pane at a time, and what their coordinator says."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager

from muntin.ledger.temporary import temporary
from muntin.sites import CoordinatorServer, Site
from muntin.spark.ingest import Ingest
from tests.pipeline.support import gather
from tests.sites.conftest import get, until
from tests.sites.stream import SITES, events, pipeline

START = 6_800_000_000  # a pane


class Fed:
    """A site in this process, fed a pane at a time."""

    def __init__(self, name, address, **sites):
        self.name = name
        spec = pipeline(name, address, sites=sites)
        self.ledger = temporary()
        self.ingest = Ingest(spec, self.ledger, query_id="q")
        self.panes = self.more_batches = 0
        self.site = Site(self.ledger, spec)

    def feed(self, panes):
        """The newest pane stays open: the one before it is sealed."""
        for _ in range(panes):
            table = events(self.name, START + self.panes)
            self.ingest.take(self.panes + self.more_batches, gather([table]))
            self.panes += 1

    def close(self):
        self.site.stop()
        self.ingest.close()


@contextmanager
def coordinated(spec):
    """A coordinator and its sites, `server.fed`, that have sealed 20 panes."""
    with ExitStack() as stack:
        server = CoordinatorServer(spec, reader_token="", operator_token="")
        stack.enter_context(server)
        server.fed = [Fed(name, server.address) for name in SITES]
        for each in server.fed:
            stack.callback(each.close)
            each.feed(21)
            each.site.start()
        settled(server)
        yield server


def top(server):
    return get(server, "/top_k").json()


def valid(server):
    """The answer, once it is valid."""
    return until(lambda: found if (found := top(server))["valid"] else None)


def settled(server):
    """The state, once every site has acknowledged its factors and the answer is valid."""

    def rests():
        state = get(server, "/sites").json()
        phases = {site["phase"] for site in state["sites"]}
        calm = phases <= {"calm", "watching"} and state["answer"]["valid"]
        newest = {site["unit"] for site in state["sites"]} == {state["answer"]["unit"]}
        return state if calm and newest else None

    return until(rests)


def sites(server):
    return get(server, "/sites").json()["sites"]
