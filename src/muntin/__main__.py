"""`python -m muntin`: the command line, where its script is not on the path."""

from muntin.cli import main

if __name__ == "__main__":
    main()
