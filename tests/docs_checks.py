"""What can be wrong in a sample that cannot be run here: its syntax, and the names that it uses."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyspark
import yaml

from tests.docs_samples import ROOT, Sample, commands_of

FOLDERS = ("benchmarks", "deploy", "docs", "examples", "scripts", "src", "tests")
INSTRUCTIONS = {"ARG", "COPY", "ENV", "FROM", "RUN", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}
CHART = ROOT / "deploy" / "helm" / "muntin"


def check(sample: Sample) -> None:
    CHECKS[sample.language](sample)


def shell(sample: Sample) -> None:
    """The shell reads it; files, extras, targets, options and settings that it names are there."""
    subprocess.run(["sh", "-n"], input=sample.text, text=True, check=True)
    folder = ROOT
    for line in commands_of(sample):
        for words in split(line):
            if words[0] == "cd":
                folder = ROOT / words[1]
            for word in words:
                if word.split("/")[0] in FOLDERS and "/" in word:
                    assert (ROOT / word).exists(), word
            if words[0] in COMMANDS:
                COMMANDS[words[0]](words, folder)
            for setting in after("--conf", words):
                assert is_setting(setting.split("=")[0]), setting
    if "docker compose" in sample.text:
        needed = re.findall(r"\$\{(\w+):\?", (folder / "compose.yaml").read_text("utf-8"))
        assert set(re.findall(r"(\w+)=", sample.text)) == set(needed)


def split(line: str) -> Iterator[list[str]]:
    """The programs of a line, each with its words, without the variables that it begins with."""
    lexer = shlex.shlex(re.sub(r"\$\(.*?\)", "VALUE", line), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word.startswith("#"):
            continue
        if set(word) <= set(";&|"):
            while words and re.match(r"[A-Z_]+=", words[0]):
                words.pop(0)
            if words:
                yield [words[0].rpartition("/")[2], *words[1:]]
            words = []
        else:
            words.append(word)


def after(option: str, words: list[str]) -> list[str]:
    return [word for before, word in pairwise(words) if before == option]


def pip(words: list[str], folder: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for word in words:
        if found := re.fullmatch(r"muntin\[(.*)\]", word):
            assert set(found[1].split(",")) <= set(extras["optional-dependencies"]), word
    for file in after("-r", words):
        assert (folder / file).exists(), file


def helm(words: list[str], folder: Path) -> None:
    for option in ("--set", "--set-file"):
        for said in after(option, words):
            values: Any = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
            for part in said.split("=")[0].split("."):
                assert part in values, said
                values = values[part]


def kubectl(words: list[str], folder: Path) -> None:
    """A secret has the keys that the chart asks for."""
    keys = {word.split("=")[1] for word in words if word.startswith("--from-literal=")}
    asked = "".join(path.read_text("utf-8") for path in (CHART / "templates").iterdir())
    assert keys == set(re.findall(r"\bkey: ([\w-]+)", asked))


COMMANDS: dict[str, Callable[[list[str], Path], None]] = {
    "pip": pip,
    "helm": helm,
    "kubectl": kubectl,
}
_KNOWN: set[str] = set()
OPEN_SETTINGS = re.compile(  # a part of them is what the reader names
    r"spark\.(executorEnv|yarn\.appMasterEnv)\.\w+"
    r"|spark\.kubernetes\.(driver|executor)\.volumes"
    r"\.(hostPath|persistentVolumeClaim|emptyDir|nfs)\.\w+"
    r"\.(mount\.(path|readOnly|subPath)|options\.\w+)"
)


def is_setting(name: str) -> bool:
    if not _KNOWN:
        _KNOWN.update(_settings())
    return name in _KNOWN or bool(OPEN_SETTINGS.fullmatch(name))


_CLASSES = re.compile(
    r".*(/config/.*|Conf(ig)?\$?|SparkLauncher|HiveUtils\$?|SqlApiConfHelper\$?)\.class"
)
# a class file's constant that is a text: a tag, the length, the text; after it, the next one's tag
_NAME = re.compile(rb"\x01(..)(spark(?:\.[A-Za-z][A-Za-z0-9_-]*)+)", re.DOTALL)


def _settings() -> Iterator[str]:
    """Those that the installed Spark knows, read from its classes."""
    for jar in Path(pyspark.__file__).parent.glob("jars/spark-*.jar"):
        with zipfile.ZipFile(jar) as classes:
            for name in filter(_CLASSES.fullmatch, classes.namelist()):
                for size, text in _NAME.findall(classes.read(name)):
                    if int.from_bytes(size) == len(text):
                        yield text.decode()


def image(sample: Sample) -> None:
    """Instructions, and the Spark that there is."""
    for line in sample.text.splitlines():
        assert line.split()[0] in INSTRUCTIONS, line
        subprocess.run(["sh", "-n"], input=line.partition("RUN ")[2], text=True, check=True)
    (spark,) = re.findall(r"^FROM apache/spark:(\d+\.\d+)", sample.text)
    assert f"pyspark>={spark}" in (ROOT / "pyproject.toml").read_text("utf-8").replace(" ", "")


CHECKS: dict[str, Callable[[Sample], None]] = {
    "sh": shell,
    "console": shell,
    "dockerfile": image,
}
