"""`muntin` in a shell, and `python -m muntin`, where its script is not on the path."""

import sys


def main() -> None:
    """The command line, which may be stopped while it is still imported, too."""
    try:
        from muntin.cli import command_line

        command_line()
    except (KeyboardInterrupt, RuntimeError) as end:
        # before Python 3.12, one that comes while a class is made is only the cause
        if KeyboardInterrupt not in (type(end), type(end.__cause__)):
            raise
        sys.stderr.write("\nstopped\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
