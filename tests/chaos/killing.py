"""A function in whose midst an executor is killed, once."""

import os
import signal
import sys

import psutil
from pyspark import cloudpickle

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not have the tests


def executor_of(worker):
    """The JVM above a Python worker: worker, daemon, executor."""
    _daemon, executor, *_ = psutil.Process(worker).parents()
    return executor.pid


def killing_once(function, mark):
    """`function`, but the first worker that calls it kills its executor on the way."""
    find = executor_of

    def killing(*arguments):
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return function(*arguments)
        os.kill(find(os.getpid()), signal.SIGKILL)
        signal.pause()  # Spark ends what is left of the executor
        raise AssertionError

    return killing
