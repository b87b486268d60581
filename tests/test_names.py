"""Names in the package: each class has one of its own."""

from __future__ import annotations

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
