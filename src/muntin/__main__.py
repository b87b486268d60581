"""`muntin` in a shell, and `python -m muntin`, where its script is not on the path."""

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    """The command line, which may be stopped while it is still imported, too."""
    try:
        handler = signal.getsignal(signal.SIGINT)
        if handler is signal.default_int_handler:  # not where whoever started it left it out
            signal.signal(signal.SIGINT, _stopped)
        from muntin.cli import command_line

        signal.signal(signal.SIGINT, handler)
        command_line()
    except (KeyboardInterrupt, RuntimeError) as end:
        # before Python 3.12, one that comes while a class is made is only the cause
        if KeyboardInterrupt not in (type(end), type(end.__cause__)):
            raise
        sys.stderr.write("\nstopped\n")
        sys.exit(130)


def _stopped(*_: object) -> None:
    """An exception would be lost where Python is just in a callback of its imports."""
    with suppress(OSError):
        os.write(2, b"\nstopped\n")
    os._exit(130)


if __name__ == "__main__":
    main()
