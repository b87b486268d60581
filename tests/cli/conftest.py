"""Commands, as a user types them."""

import io
import sys

import pytest

from muntin import cli


@pytest.fixture
def muntin(monkeypatch, capsys):
    """Run a command; (exit code, standard output, standard error)."""

    def command(*words, stdin=None):
        monkeypatch.setattr(sys, "argv", ["muntin", *map(str, words)])
        if stdin is not None:
            given = stdin if isinstance(stdin, bytes) else stdin.encode()
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), "utf-8"))
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        said = capsys.readouterr()
        return code, said.out, said.err

    return command
