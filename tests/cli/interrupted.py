"""The command line, with Ctrl-C between Spark's context and its session."""

import os
import signal

from pyspark.sql import SparkSession

from muntin.cli import main

_make = SparkSession.__init__


def _interrupted(self, *arguments, **named):
    os.kill(os.getpid(), signal.SIGINT)
    _make(self, *arguments, **named)


if __name__ == "__main__":
    SparkSession.__init__ = _interrupted
    main()
