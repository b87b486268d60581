"""Build the documentation site: HTML, each page's Markdown beside it, and llms.txt.

Fails on a link that leads nowhere, and on a page of docs/ that the navigation leaves out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS, SITE = ROOT / "docs", ROOT / "site"


def main() -> int:
    project = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    pages = list(in_order(project["nav"]))
    named = {page for _, page in pages}
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    if named != there:
        left, gone = sorted(there - named), sorted(named - there)
        print(f"zensical.toml: nav lacks {left}, and names {gone} that docs/ has not")
        return 1
    zensical = Path(sys.executable).with_name("zensical")
    built = subprocess.run([zensical, "build", "--clean", "--strict"], cwd=ROOT, check=False)
    if built.returncode:
        return built.returncode
    for _, page in pages:
        (SITE / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DOCS / page, SITE / page)
    head = f"# {project['site_name']}\n\n> {project['site_description']}\n\n## Pages\n\n"
    lines = "".join(f"- [{title}]({page})\n" for title, page in pages)
    (SITE / "llms.txt").write_text(head + lines, encoding="utf-8")
    return 0


def in_order(entries: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Titles and pages of a navigation, sections opened up."""
    for entry in entries:
        for title, inner in entry.items():
            if isinstance(inner, str):
                yield title, inner
            else:
                yield from in_order(inner)


if __name__ == "__main__":
    sys.exit(main())
