"""The command line in a process of its own: `python -m tests.sites.command coordinator FILE`."""

from muntin.cli import main

if __name__ == "__main__":
    main()
