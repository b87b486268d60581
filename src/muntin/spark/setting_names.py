"""Which settings Spark knows: read from the classes of the Spark that is installed.

A name that Spark does not know is no error, there or here: it may be anybody's own. One that is
nearly that of a setting is a slip of the pen.
"""

from __future__ import annotations

import difflib
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

SIMILAR_MIN = 0.9  # of difflib's ratio: one or two letters of a usual name
_CLASSES = re.compile(
    r".*(/config/.*|Conf(ig)?\$?|SparkLauncher|HiveUtils\$?|SqlApiConfHelper\$?)\.class"
)
# a class file's constant that is a text: a tag, the length, the text; after it, the next one's tag
_NAME = re.compile(rb"\x01(..)(spark(?:\.[A-Za-z][A-Za-z0-9_-]*)+)", re.DOTALL)


def slips(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that Spark does not know, with the one that was meant, where one is similar."""
    known = set(_known()) if settings else set()
    by_lower = {name.lower(): name for name in known}
    found = {}
    for name in sorted(settings.keys() - known):
        meant = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=SIMILAR_MIN)
        if meant:
            found[name] = by_lower[meant[0]]
    return found


def _known() -> Iterator[str]:
    for jar in _jars():
        with zipfile.ZipFile(jar) as classes:
            for name in classes.namelist():
                if _CLASSES.fullmatch(name):
                    for size, text in _NAME.findall(classes.read(name)):
                        if int.from_bytes(size) == len(text):
                            yield text.decode()


def _jars() -> Iterable[Path]:
    """Of the Spark that a session here would be; none where there is none."""
    installed = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (installed and Path(installed.origin or "").parent)
    return Path(home).glob("jars/spark-*.jar") if home else ()
