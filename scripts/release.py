"""Do a tag, the package and the changelog name one version? `python scripts/release.py v0.1.0`"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def versions(root: Path) -> dict[str, str]:
    """What each place says; of the changelog its newest version, if that has a date."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    module = re.search(
        r'^__version__ = "(.*)"$', (root / "src/muntin/__init__.py").read_text(), re.M
    )
    newest = re.search(r"^## (\S+) \((.*)\)$", (root / "CHANGELOG.md").read_text(), re.M)
    dated = newest and re.fullmatch(r"\d{4}-\d\d-\d\d", newest[2])
    return {
        "pyproject.toml": project,
        "muntin.__version__": module[1] if module else "nothing",
        "CHANGELOG.md": newest[1] if newest and dated else "no version with a date",
    }


def main() -> None:
    """Ends with status 1 where they differ."""
    tag = sys.argv[1].removeprefix("v")
    wrong = {place: said for place, said in versions(ROOT).items() if said != tag}
    for place, said in wrong.items():
        print(f"{place} says {said}, the tag {tag}", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
