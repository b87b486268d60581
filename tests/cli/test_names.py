"""Names that are paths, commands or markup: no file is touched, and nothing worse than an error."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from muntin.cli import main
from muntin.ledger import open_ledger
from muntin.server.serving import Server
from muntin.spark.ingest import Ingest
from tests.odd_names import WORDS
from tests.pipeline.support import events, gather, pipeline

ROUTES = ("/static/{}", "/{}", "/panels/{}", "/windows?summary={}", "/rejected?pipeline={}")


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """A folder to work in, with a ledger, beside one that nobody may touch."""
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "x").write_text("not yours")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    ledger = open_ledger("sqlite:///kept.db")
    ingest = Ingest(pipeline(), ledger, query_id="q")
    ingest.take(0, gather([events([(1, "a", 0, 1, 1)])]))
    ingest.close()
    ledger.close()
    return tmp_path


def content(root: Path) -> dict[str, str]:
    """Of every file below; what SQLite keeps beside a database while it is open is its own."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(root.rglob("*"))
        if not path.name.startswith("kept.db")
    }


def test_a_server_touches_no_file_whatever_is_asked_for(root) -> None:
    ledger = open_ledger("sqlite:///kept.db")
    before = content(root)
    with Server(ledger, port=0) as server, httpx.Client(base_url=server.url, timeout=180) as http:
        for word in WORDS:
            quoted = quote(word.encode("utf-8", "surrogatepass"), safe="")
            for route in ROUTES:
                answer = http.get(route.format(quoted))
                assert answer.status_code < 500, (route, ascii(word), answer.text)
                assert "not yours" not in answer.text
            name = word.replace('"', '""')
            body = json.dumps({"select": f'SELECT * FROM "{name}"'})  # noqa: S608
            asked = http.post("/query", content=body, headers={"content-type": "application/json"})
            assert asked.status_code in (400, 413), (ascii(word), asked.text)
    ledger.close()
    assert content(root) == before


def test_a_command_touches_no_file_whatever_is_named(root, monkeypatch) -> None:
    before = content(root)
    for word in WORDS:
        for words in (
            ("query", "-l", word, "SELECT * FROM orders(driver)"),
            ("query", "-l", f"sqlite:///{word}", "SELECT * FROM orders(driver)"),
            ("query", "-l", "sqlite:///kept.db", f"SELECT * FROM {word}"),  # noqa: S608
            ("rejected", "-l", "sqlite:///kept.db", "--pipeline", word),
        ):
            said = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace")  # as Python's
            monkeypatch.setattr(sys, "stderr", said)
            monkeypatch.setattr(sys, "argv", ["muntin", *words])
            with pytest.raises(SystemExit) as end:
                main()
            said.flush()
            assert end.value.code in (1, 2), ascii(words)
            assert said.buffer.getvalue(), ascii(words)
    assert content(root) == before
