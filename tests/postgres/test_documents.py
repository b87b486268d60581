"""The statements of docs/postgres.md, asked by psycopg."""

from __future__ import annotations

import psycopg
import pytest

from tests.docs_samples import ROOT, samples_of

SAMPLES = samples_of(ROOT / "docs" / "postgres.md")
STATEMENTS = [s.text for s in SAMPLES if s.language == "sql" and not s.how]


@pytest.mark.parametrize("text", STATEMENTS)
def test_statements(fed, text):
    with psycopg.connect(fed.postgres_url, autocommit=True) as connected:
        assert connected.execute(text).fetchall()


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
