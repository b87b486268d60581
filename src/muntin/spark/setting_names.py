"""Which settings Spark knows: read from the classes of the Spark that is installed.

A name that Spark does not know is no error, there or here: it may be anybody's own. One that is
nearly that of a setting is a slip of the pen.
"""

from __future__ import annotations

import difflib
import os
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

SIMILAR_MIN = 0.9  # of difflib's ratio: one or two letters of a usual name
_CLASSES = re.compile(
    r".*(/config/.*|Conf(ig)?\$?|SparkLauncher|HiveUtils\$?|SqlApiConfHelper\$?)\.class"
)
_NAME = re.compile(rb"spark(?:\.[A-Za-z][A-Za-z0-9_-]*)+")
# of the constants of a class file, the bytes of each that is no text, with its tag
_SIZES = {7: 3, 8: 3, 16: 3, 19: 3, 20: 3, 15: 4, 5: 9, 6: 9}
_TEXT = 1


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
                    texts = _texts(classes.read(name))
                    yield from (text.decode() for text in texts if _NAME.fullmatch(text))


def _jars() -> Iterable[Path]:
    """Of the Spark that a session here would be; none where there is none."""
    installed = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (installed and Path(installed.origin or "").parent)
    return Path(home).glob("jars/spark-*.jar") if home else ()


def _texts(data: bytes) -> Iterator[bytes]:
    """Constants of a class that are texts: its names are among them."""
    count, at, number = struct.unpack_from(">H", data, 8)[0], 10, 1
    while number < count:
        tag = data[at]
        if tag == _TEXT:
            size = struct.unpack_from(">H", data, at + 1)[0]
            yield data[at + 3 : at + 3 + size]
            at += 3 + size
        else:
            at += _SIZES.get(tag, 5)
            number += tag in (5, 6)  # what takes eight bytes counts as two
        number += 1
