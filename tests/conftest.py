"""Settings that all tests share."""

import contextlib
import functools
import gc
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from httpx import _config
from httpx._transports import default as transports
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

from tests import java_classes
from tests.store_servers import postgresql, redis_server  # noqa: F401  (fixtures)

SPARK = {"spark.master": "local[2,4]", "spark.sql.shuffle.partitions": "2"}

HOURS = 2  # that all tests may take

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # as a shell starts what is to run beside it; what tests start would not hear of Ctrl-C either
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("SPARK_SUBMIT_OPTS", java_classes.options())

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=40,  # the same each time; `nightly` has more, and others each time
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile(
    "quick",  # while working: few examples, and the first failure as it is
    derandomize=True,
    deadline=None,
    max_examples=10,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "nightly",
    deadline=None,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)
if PROFILE == "ci":
    # Hypothesis also draws from the constants of all modules that happen to be loaded, which
    # depends on how the files were spread over processes. Without them a run can be repeated.
    providers.is_local_module_file = lambda path: False

# An answer may wait for kernels that are compiled for the first time, on a machine with other work:
# 5 seconds, which is what httpx gives, is no sign of a fault.
for part in ("connect", "read", "write", "pool"):
    setattr(_config.DEFAULT_TIMEOUT_CONFIG, part, 180.0)

# Each question would read all authorities that this machine trusts anew: a twentieth of the time
# that all tests take.
transports.create_ssl_context = functools.cache(transports.create_ssl_context)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Nearly all that is made here stays: looking through it for what does not, again and again,
    took 40 % of the time, and went on taking its part of each test's."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_sessionfinish():
    gc.unfreeze()  # else what is left at the end is told as a leak, by nanobind's modules


def pytest_collection_modifyitems(items):
    """Files that kill processes come first, then those with Spark: the longest do not end alone.

    Processes take whole files, in this order (`--no-loadscope-reorder`); xdist's own order, by the
    number of tests in a file, leaves the few that take minutes for the end.
    """
    weight = {}
    for item in items:
        own = 2 if item.get_closest_marker("chaos") else bool(item.get_closest_marker("spark"))
        weight[item.path] = max(own, weight.get(item.path, 0))
    items.sort(key=lambda item: -weight[item.path])


@pytest.fixture(scope="session", autouse=True)
def nothing_is_said_of_kernels():
    """Which test compiles the first, on a machine that has none, is chance: what is said of it
    would stand in that test's log, or in what a process of its own prints."""
    from muntin.summaries import kernels  # which says where they are kept

    said = Path(os.environ.get("NUMBA_CACHE_DIR", kernels.cache_folder())) / "compiling"
    with contextlib.suppress(OSError):
        said.parent.mkdir(parents=True, exist_ok=True)
        said.touch()
        os.utime(said, (time.time() + HOURS * 3600,) * 2)


@pytest.fixture(scope="module", autouse=True)
def no_session_stays():
    """Whoever asks for a session is given the one that runs: not that of another file's tests.

    Which files share a process is chance, and how often a task is tried belongs to the session.
    """
    yield
    if "pyspark" in sys.modules:
        from muntin.cli.stopping import stop_spark

        stop_spark()


@pytest.fixture(scope="module")
def spark(no_session_stays):
    """A session of two cores, with Muntin's settings."""
    from muntin.spark.session import session

    found = session("muntin-tests", SPARK)
    assert found.sparkContext.master == SPARK["spark.master"]
    return found
