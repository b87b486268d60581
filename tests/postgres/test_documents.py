"""The statements of docs/postgres.md, asked by psycopg."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from muntin.errors import SelectError
from muntin.server.postgres.reports import error_fields
from tests.docs_samples import ROOT, samples_of

SAMPLES = samples_of(ROOT / "docs" / "postgres.md")
STATEMENTS = [s.text for s in SAMPLES if s.language == "sql" and not s.how]


@pytest.mark.parametrize("text", STATEMENTS)
def test_statements(fed, text):
    with psycopg.connect(fed.postgres_url, autocommit=True) as connected:
        cursor = connected.execute(text)
        while cursor.nextset():
            pass
        assert cursor.fetchall()


def test_what_is_shown_is_what_comes(fed):
    (shown,) = (s.text for s in SAMPLES if not s.language and s.text.startswith("muntin=>"))
    asked, notice, *_, first, second = shown.splitlines()
    said = []
    with psycopg.connect(fed.postgres_url, autocommit=True) as connected:
        connected.add_notice_handler(lambda given: said.append(given.message_primary))
        found = connected.execute(asked.removeprefix("muntin=> ")).fetchall()
    assert said == [notice.removeprefix("NOTICE:  ")]
    assert [[str(v) for v in row] for row in found] == [
        [part.strip() for part in line.split("|")] for line in (first, second)
    ]


def test_each_code_of_an_error_has_a_state():
    """None is told as an error inside the server, which XX000 is."""
    page = (ROOT / "docs" / "select.md").read_text("utf-8").split("\n## Errors\n")[1]
    table = page.split("\n## ")[0]
    codes = [
        code for line in re.findall(r"^\| (`.*?) \|", table, re.M) for code in line.split(", ")
    ]
    assert len(codes) >= 20
    for code in codes:
        fields = error_fields(SelectError("", code=code.strip("`")))
        assert fields["C"] != "XX000", code


DUCKDB = """
import sys
import duckdb
from duckdb_extensions import import_extension
duckdb.execute("SET enable_progress_bar = false")  # which is printed after two seconds
import_extension("postgres_scanner")
print(sorted(duckdb.execute(sys.argv[1]).fetchall()))
"""
FROM_PYPI = ("duckdb", "duckdb-extensions", "duckdb-extension-postgres-scanner")
VERSION = "1.5.5"  # the page has it as well: the newest whose extension is a package


def test_duckdb_attaches_it(fed):
    """By a DuckDB of its own: its extension is of one version of it."""
    (text,) = (s.text for s in SAMPLES if s.text.startswith("ATTACH"))
    here = text.replace("port=5433", f"port={urlsplit(fed.postgres_url).port}")
    uv = Path(sys.executable).with_name("uv")
    uv = uv if uv.exists() else shutil.which("uv")
    needs = [word for name in FROM_PYPI for word in ("--with", f"{name}=={VERSION}")]
    command = [uv, "run", "-q", "--no-project", "--python", sys.executable, *needs, "python", "-c"]
    done = subprocess.run(
        [*map(str, command), DUCKDB, here], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    with psycopg.connect(fed.postgres_url) as connected:
        asked = "SELECT driver, fare FROM orders(driver) WHERE fare > 5 AND driver > 'a'"
        expected = connected.execute(asked).fetchall()
    assert expected
    assert done.stdout.strip() == str(sorted(expected))
