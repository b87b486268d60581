"""The documentation site: every name of the reference is documented, and the build is strict."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import muntin.summaries

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = {
    name: page.name
    for page in sorted((ROOT / "docs" / "api").glob("*.md"))
    for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
}


def found(name: str) -> object:
    """A module, or what a module gives under a name."""
    try:
        return importlib.import_module(name)
    except ImportError:
        module, _, attribute = name.rpartition(".")
        return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("name", REFERENCE)
def test_what_the_reference_names_is_documented(name):
    owner = found(name)
    bare = [] if inspect.getdoc(owner) else [name]
    for member, value in inspect.getmembers(owner):
        ours = getattr(value, "__module__", None) or getattr(
            getattr(value, "fget", None), "__module__", ""
        )
        if member.startswith("_") or not str(ours).startswith("muntin"):
            continue
        if not inspect.getdoc(value):
            bare.append(f"{name}.{member}")
    assert bare == []


def test_what_the_packages_give_is_in_the_reference():
    given = {f"muntin.{name}" for name in muntin.__all__ if name[0] != "_"}
    given |= {f"muntin.summaries.{name}" for name in muntin.summaries.__all__}
    assert given - set(REFERENCE) == set()


def test_the_site_builds_without_a_dead_link():
    built = subprocess.run(
        [sys.executable, "scripts/site.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = (ROOT / "site" / "llms.txt").read_text(encoding="utf-8")
    assert "(choosing.md)" in pages
    assert (ROOT / "site" / "choosing.md").exists()
    reference = (ROOT / "site" / "api" / "summaries" / "index.html").read_text(encoding="utf-8")
    assert 'id="muntin.summaries.KLL.quantile"' in reference
