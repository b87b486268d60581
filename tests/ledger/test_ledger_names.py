"""Names and URLs: what is refused, and that no file appears for it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from ledger_helpers import SPEC

from muntin.errors import BadArgument, LedgerError
from muntin.ledger import check_name, open_ledger
from muntin.ledger.open import absolute
from muntin.ledger.temporary import _swept, forget, temporary
from tests.odd_names import WORDS

OTHERS = [None, 1, 1.5, True, b"abc", ["a"], ("a",), {"a"}, {"a": 1}, object(), Path("a")]


@pytest.mark.parametrize("name", [*WORDS, *OTHERS], ids=lambda name: ascii(name)[:20])
def test_odd_names_are_refused(name):
    with pytest.raises(BadArgument, match="cannot name a summary") as refusal:
        check_name(name, "summary")
    assert len(str(refusal.value)) < 300
    assert str(refusal.value).isascii()


@pytest.mark.parametrize("name", ["a", "a1", "a_b-c", "z" * 64, "con", "null", "select"])
def test_good_names_are_taken(name):
    assert check_name(name, "summary") == name


def _files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def test_odd_names_touch_no_file(tmp_path, monkeypatch):
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    ledger = open_ledger("sqlite:///x.db")
    before = _files(tmp_path)
    for word in WORDS:
        for spec, pipeline in (
            (SPEC, word),
            ({"pane_us": 1, "summaries": {word: {}}}, "p"),
            ({"pane_us": 1, "queries": [word]}, "p"),
        ):
            with pytest.raises(BadArgument):
                ledger.open_writer(pipeline, spec, query_id="A")
        assert ledger.pieces(word, 1, 0, 1) == []
        if word:
            with pytest.raises((BadArgument, LedgerError)):
                open_ledger(f"memory://{word}")
    assert ledger.pipelines() == []
    assert [name for name in _files(tmp_path) if not name.endswith(("-wal", "-shm"))] == [
        name for name in before if not name.endswith(("-wal", "-shm"))
    ]
    ledger.close()


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "x.txt", "redis://localhost?deadline=0", "redis://127.0.0.1:1/abc", "postgres://x/y?deadline=0",
        "http://x/y.db", "sqlite://x.db",
        "sqlite://", "sqlite:///", "sqlite:///x.db?mode=ro", "sqlite:///x.db?synchronous=off",
        "sqlite:///x.db?busy=-1", "sqlite:///a%00b.db", "a\0.db", "memory://A b",
        "sqlite:///none/x.db", "://", "x" * 5000, 5, None, b"x.db",
    ],
)  # fmt: skip
def test_odd_urls_are_refused_and_touch_nothing(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((LedgerError, BadArgument)):
        open_ledger(url)
    assert os.listdir(tmp_path) == []


def test_every_form_of_url_opens_the_same_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_ledger("sqlite:///x%20y.db").open_writer("p", SPEC, query_id="A").close()
    for url in (
        "x y.db", Path("x y.db"), f"sqlite:///{tmp_path}/x y.db", "./x y.db",
        "sqlite:///x%20y.db?synchronous=full&busy=3",
    ):  # fmt: skip
        ledger = open_ledger(url, create=False)
        assert [one.name for one in ledger.pipelines()] == ["p"]
        ledger.close()


@pytest.mark.parametrize("folder", ["plain", "50%41?"])
@pytest.mark.parametrize("url", ["a%41.db", "what?.db", "sqlite:///b%20c.db?busy=3", "file:x.db"])
def test_a_url_made_absolute_is_the_same_ledger(url, folder, tmp_path, monkeypatch):
    there = tmp_path / folder
    there.mkdir()
    monkeypatch.chdir(there)
    if url.startswith("file:"):  # refused, and not made good
        assert absolute(url) == url
        return
    with closing(open_ledger(url)) as ledger, closing(open_ledger(absolute(url))) as same:
        assert same.path.samefile(ledger.path)
    assert len(list(there.glob("*.db"))) == 1


def test_memory_ledgers_are_shared_by_name():
    first = open_ledger("memory://shared-one")
    first.open_writer("p", SPEC, query_id="A")
    assert len(open_ledger("memory://shared-one").pipelines()) == 1
    assert open_ledger("memory://shared-two").pipelines() == []
    assert open_ledger("memory://").pipelines() == []


def test_what_a_killed_process_leaves_goes_with_the_next(tmp_path, monkeypatch):
    """Its own folders, and those of processes that live, stay."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    program = (
        "import time\nfrom muntin.ledger.temporary import temporary\n"
        "kept = temporary()\nprint(kept.path.parent, flush=True)\ntime.sleep(600)\n"
    )
    folders, children = [], []
    for _ in range(2):
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        folders.append(Path(child.stdout.readline().strip()))
        children.append(child)
    for folder in folders:
        os.utime(folder, (0, 0))
    children[0].kill()
    children[0].wait()
    monkeypatch.setattr("tempfile.tempdir", None)
    _swept.cache_clear()
    mine = temporary()
    assert [folder.exists() for folder in folders] == [False, True]
    assert mine.path.exists()
    children[1].kill()
    for child in children:
        child.wait()
        child.stdout.close()


def test_a_fork_that_ends_takes_no_ledger_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    program = (
        "import os, sys\nfrom muntin.ledger.temporary import temporary\n"
        "kept = temporary()\nchild = os.fork()\nif child == 0:\n    sys.exit()\n"
        "os.waitpid(child, 0)\nassert kept.pipelines() == []\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert list(tmp_path.iterdir()) == []


def test_a_memory_ledgers_file_goes_with_it():
    ledger = temporary()
    folder = ledger.path.parent
    assert folder.exists()
    ledger.close()
    del ledger
    gc.collect()
    assert not folder.exists()
    kept = temporary("gone-soon")
    forget("gone-soon")
    assert temporary("gone-soon").path != kept.path  # who holds the old one keeps it
    assert kept.pipelines() == []
