"""The code in the documents: what there is, and a reader who does it in order.

As a program it runs samples that need Spark, one after the other, in the folder that it stands in.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r"(?:<!-- (?:not run here: (?P<why>[^\n]*?)|run by (?P<by>[^\n]*?)) -->\n)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Sample:
    page: str
    line: int
    language: str
    text: str
    why_not: str = ""
    """Why it is not run, as the page itself says."""
    by: str = ""
    """The test that runs the very text, as the page says."""

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def samples_of(page: Path) -> list[Sample]:
    """All blocks of code of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Sample(
            page.name,
            text.count("\n", 0, found.start("language")) + 1,
            found["language"],
            re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            found["why"] or "",
            found["by"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


def sample_of(page: str, *words: str) -> str:
    """The text of the one sample of a page (of docs) that has these words."""
    found = [s.text for s in samples_of(ROOT / "docs" / page) if all(w in s.text for w in words)]
    (text,) = found
    return text


def commands_of(sample: Sample) -> list[str]:
    """The lines of a shell sample, whole and without prompts."""
    lines = sample.text.replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if line.strip()]


def run_command(line: str) -> None:
    """A line of a shell: Muntin's own in this process, which has a Spark already."""
    words = shlex.split(line, comments=True)
    if words[0] != "muntin":
        subprocess.run(line, shell=True, check=True)  # noqa: S602 (from the documents)
        return
    from muntin import cli

    sys.argv = words
    try:
        cli.main()
    except SystemExit as end:
        if end.code:
            raise AssertionError(f"{line}: ended with {end.code}") from None


def enter(folder: str) -> None:
    """A folder for commands beside that for Python, with the same data: each has its ledgers."""
    here = Path.cwd()
    if here.name == folder:
        return
    (here / folder).mkdir()
    for shared in ("data", "flights.parquet"):
        (here / folder / shared).symlink_to(here / shared)
    os.chdir(here / folder)


def main() -> None:
    """Samples as JSON on standard input; one line for each on standard error."""
    names: dict[str, dict[str, object]] = {}
    for each in json.load(sys.stdin):
        sample = Sample(**each)
        began = time.monotonic()
        if sample.language == "python":
            source = compile(sample.text, sample.name, "exec")
            exec(source, names.setdefault(sample.page, {}))  # noqa: S102 (the documents' own)
        else:
            enter("commands")
            for line in commands_of(sample):
                run_command(line)
        print(f"ran {sample.name} in {time.monotonic() - began:.1f} s", file=sys.stderr)  # noqa: T201


def as_input(samples: list[Sample]) -> str:
    return json.dumps([asdict(sample) for sample in samples])


if __name__ == "__main__":
    main()
