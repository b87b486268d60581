"""Real sites and a coordinator as processes: killed, frozen, cut off, and right all the while."""

from __future__ import annotations

import signal

import pytest

from tests.sites.processes import Cluster
from tests.sites.stream import MISSING_AFTER, check_top

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

# Of a quarter of a second. Heartbeat, 2 retries and 8 round trips are about 20; the rest is for
# processes that start, for pauses between attempts to connect, and for a busy machine.
HEALED_UNITS = 480


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    found = Cluster(tmp_path_factory.mktemp("sites"))
    try:
        found.start_all()
        found.until(lambda answer: answer["valid"])
        yield found
    finally:
        found.close()


def heal(cluster):
    """Wait until the answer is valid for a unit that no site has reached yet."""
    reached = max(site["unit"] or 0 for site in cluster.state()["sites"])

    def holds(answer):
        return answer["valid"] and answer["unit"] > reached

    found = cluster.until(holds, HEALED_UNITS)
    check_top([item["item"] for item in found["items"]], found["unit"], cluster.start_pane)
    return found["unit"]


def test_answers_are_exact(cluster):
    seen = [heal(cluster) for _ in range(3)]
    assert seen == sorted(set(seen))
    state = cluster.state()
    assert [site["connected"] for site in state["sites"]] == [True, True]
    assert state["traffic"]["sent"]["messages"] > 0


def test_kill_a_site(cluster):
    cluster.kill("north")
    gone = cluster.until(lambda answer: answer["missing_sites"] == ["north"])
    assert not gone["valid"]
    cluster.start("north")
    cluster.until(lambda answer: answer["missing_sites"] == [])
    heal(cluster)


def test_kill_the_coordinator(cluster):
    epoch = cluster.state()["epoch"]
    cluster.kill("coordinator")
    cluster.start("coordinator")
    cluster.until(lambda answer: answer["missing_sites"] == [])
    assert cluster.state()["epoch"] > epoch
    heal(cluster)


def test_freeze_a_site(cluster):
    cluster.signal("south", signal.SIGSTOP)
    gone = cluster.until(lambda answer: answer["missing_sites"] == ["south"])
    assert not gone["valid"]
    cluster.signal("south", signal.SIGCONT)
    cluster.until(lambda answer: answer["missing_sites"] == [])
    heal(cluster)


def test_freeze_the_coordinator(cluster):
    before = cluster.state()["epoch"]
    cluster.signal("coordinator", signal.SIGSTOP)
    unit = cluster.now() + 2 * MISSING_AFTER
    while cluster.now() < unit:
        signal.sigtimedwait([], 0.1)
    cluster.signal("coordinator", signal.SIGCONT)
    heal(cluster)
    assert cluster.state()["epoch"] >= before


def test_a_network_that_cuts_and_delays(cluster):
    proxy = cluster.proxies["north"]
    proxy.delay = 0.2
    proxy.cut()
    cluster.until(lambda answer: answer["missing_sites"] == ["north"])
    proxy.heal()
    cluster.until(lambda answer: answer["missing_sites"] == [])
    heal(cluster)
    proxy.delay = 0.0


def test_no_answer_was_wrong(cluster):
    """Runs last, over all that the others have heard; alone, over what it hears itself."""
    while cluster.check_answers() < 5:
        heal(cluster)
