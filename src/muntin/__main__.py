"""`python -m muntin`: the command line, where its script is not on the path."""

from muntin.cli import command_line

if __name__ == "__main__":
    command_line()
