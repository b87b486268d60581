"""What a signal asks for, whenever it comes."""

import os
import signal
import subprocess
import sys
import threading

import psutil
import pytest

SECOND = """
import os, signal, sys
from muntin.cli.stopping import stopping

def between(frame, event, argument):
    # the second signal comes in the middle of the first one's handler, wherever that is
    name = frame.f_code.co_name if event == "call" else getattr(argument, "__name__", "")
    if f"{event} {name}" == sys.argv[1]:
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGTERM)

with stopping() as stop:
    stop.begun(lambda: None)
    sys.setprofile(between)
    stop.on_signal(signal.SIGTERM, None)
    sys.setprofile(None)
    print("asked", stop.is_set(), stop.wait(60), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print("still there", flush=True)
"""


LOOKING = """
import os, signal, sys
from muntin.cli.stopping import stopping
from muntin.spark.java import _Machine

def looking(frame, event, argument):
    # PySpark looks every now and then whether the Java that it has started is still there
    if event == "c_return" and argument.__name__ == "waitpid":
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGTERM)

machine = _Machine([sys.executable, "-c", "import time; time.sleep(600)"])
print(machine.pid, flush=True)
with stopping():
    sys.setprofile(looking)
    machine.poll()
"""


def test_a_signal_while_somebody_looks_at_java_ends_it():
    made = subprocess.run(
        [sys.executable, "-c", LOOKING], capture_output=True, text=True, timeout=60, check=False
    )
    assert made.returncode == 128 + signal.SIGTERM, made
    assert not psutil.pid_exists(int(made.stdout))


ENDING = """
from muntin.cli.stopping import stop_spark
from muntin.spark.session import session

java = session("ending", {"spark.master": "local[1]"}).sparkContext._jvm
of = java.org.apache.logging.log4j.LogManager.getLogger
log = of("org.apache.spark.scheduler.TaskSchedulerImpl")
log.error("while it works")
stop_spark()
log.error("as it ends")
"""


@pytest.mark.spark
def test_what_tasks_miss_as_spark_ends_is_not_said():
    """Those that still run then have no thread to tell their end, no blocks, no environment."""
    made = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=300, check=True
    )
    assert "while it works" in made.stderr
    assert "as it ends" not in made.stderr


def test_two_signals_at_once_do_not_wait_for_each_other():
    for place in ("call on_signal", "c_return __enter__", "c_return put", "call _say"):
        made = subprocess.run(
            [sys.executable, "-c", SECOND, place],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert made.returncode == 128 + signal.SIGTERM, (place, made)
        assert "still there" not in made.stdout, place


def test_a_signal_stops_where_the_log_has_no_room():
    with open("/dev/full", "w") as full:
        made = subprocess.run(
            [sys.executable, "-c", SECOND, ""],
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            timeout=60,
            check=False,
        )
    assert (made.returncode, made.stdout) == (128 + signal.SIGTERM, "asked True True\n")


def test_who_waits_hears_of_a_signal_at_once():
    from muntin.cli.stopping import stopping

    with stopping() as stop:
        stop.begun()
        assert not stop.wait(0.01)
        timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGTERM])
        timer.start()
        assert stop.wait(60)
        assert stop.wait(60)
        timer.join()
