"""Names in the package: each class has one of its own."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import muntin
from muntin.ledger.sqlite import SqliteLedger


def test_a_class_name_stands_once():
    files = Path(muntin.__file__).parent.rglob("*.py")
    texts = [file.read_text("utf-8") for file in files]
    counts = Counter(
        name for text in texts for name in re.findall(r"^ *class (\w+)[(:]", text, re.MULTILINE)
    )
    assert len(counts) > 300
    assert [name for name, times in counts.items() if times > 1] == []


def test_a_misspelt_name_is_told_by_type_checkers_and_by_python(tmp_path):
    user = tmp_path / "user.py"
    user.write_text("import muntin\nfrom muntin.summaries import KLL, KLLL\nmuntin.sumarize\n")
    checker = Path(sys.executable).with_name("basedpyright")
    command = [checker, "--outputjson", "--pythonpath", sys.executable, user]
    ran = subprocess.run(command, capture_output=True, check=False)
    told = [
        one for one in json.loads(ran.stdout)["generalDiagnostics"] if one["severity"] == "error"
    ]
    assert [one["message"].split(maxsplit=1)[0] for one in told] == ['"KLLL"', '"sumarize"']
    with pytest.raises(AttributeError, match="no attribute 'sumarize'; did you mean 'summarize'"):
        _ = muntin.sumarize


def test_what_is_open_says_of_what(tmp_path):
    with muntin.connect("http://localhost:1") as client:
        assert repr(client) == "<muntin.Client of http://localhost:1>"
    url = f"sqlite:///{tmp_path}/x.db"
    SqliteLedger(tmp_path / "x.db").close()
    with muntin.open(url) as session:
        assert repr(session) == f"<muntin.Session of {url}>"


def test_an_error_that_python_may_see_says_what_its_caller_can_do():
    """`--reset` and `--append` are of the command line alone."""
    package = Path(muntin.__file__).parent
    modes = {"--reset": 'mode="overwrite" (--reset)', "--append": 'mode="append" (--append)'}
    texts = [
        node.value
        for file in package.rglob("*.py")
        if file.relative_to(package).parts[0] != "cli"
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    told = [(flag, text) for text in texts for flag in modes if flag in text]
    assert len(told) > 10
    assert [text for flag, text in told if text.count(flag) != text.count(modes[flag])] == []
