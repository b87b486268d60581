"""How files of text begin and are encoded, against what all files of a source are read as.

Spark reads CSV by place, and passes over the first line of each file, whatever stands in it: a file
whose columns have another order would be read with one column's values as another's, and one
without a header would lose its first row. The rows of such files are rejected.
"""

import codecs
import csv
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

from pyarrow import types, uint64

from muntin.errors import SourceError
from muntin.spark.ddl import UNKNOWN, declared
from muntin.spark.files import local_path, partitions_of, unpacked
from muntin.spec import SourceSpec

LINE_BYTES_MAX = 1 << 20
_LINES = 100  # that tell how many fields all of a file have
_MAGIC = {b"PAR1": "parquet", b"ORC": "orc", b"Obj\x01": "avro"}
_GZIP = b"\x1f\x8b"
_UNREAD = {
    b"PK\x03\x04": (
        "a spreadsheet or another zip file, which Spark does not read: save its rows as CSV"
    ),
    b"\xfd7zX": "packed by xz, which Spark does not read: pack it by gzip or zstd",
}
OF_ONE_TYPE = re.compile(r"\w*int|float|double|boolean|date|timestamp|decimal\(.*\)")
"""Types of Spark that `holds` knows, as it calls them."""
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}  # of integers, by their bits
_SHOWN_CHARACTERS = 100
_MARK = "\ufffd".encode()
ESCAPED = {r"\t": "\t", r"\b": "\b", r"\f": "\f", r"\\": "\\"}
"""Separators as Spark lets them be written."""
_UNIT = "\x1f"
_UTF16 = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE
_NUMBER = re.compile(r"[+-]?\d")  # or a time: what hardly names a column
_TIME = re.compile(r"\d+[-/.]\d+[-/.]\d|\d{9}")


def has_headers(source: SourceSpec) -> bool:
    """Do the files of a source begin with the names of their columns, in a way known here?"""
    options = {name.lower(): value.lower() for name, value in source.options.items()}
    usual = not options.keys() & {"quote", "linesep"}
    return source.format == "csv" and options.get("header", "true") == "true" and usual


def form_of(source: SourceSpec, names: Sequence[str], files: Sequence[str]) -> dict[str, Any]:
    """How the local files of a source begin, what `wrong_start` compares one with; {} where nothing
    is known. Raises SourceError: the first begins with a row, of which Spark would lose one a file.
    """
    options = {name.lower(): value for name, value in source.options.items()}
    if source.format == "json" and not options.keys() & {"linesep", "encoding"}:
        whole = options.get("multiline", "false").lower() == "true"
        return {"lines": "json", "encoding": "utf-8", "comment": "", "whole": whole}
    encoding = options.get("encoding") or options.get("charset") or "utf-8"
    whole = options.keys() & {"multiline", "linesep"}
    separator = options.get("sep") or options.get("delimiter") or ","
    separator = ESCAPED.get(separator, separator)
    if source.format not in ("csv", "text"):
        return {}
    here = local_path(source.path or "")
    form: dict[str, Any] = {
        "encoding": encoding,
        "whole": bool(whole),
        "separator": separator,
        "null": options.get("nullvalue", ""),
        "folders": sorted(partitions_of(here, map(Path, files))) if here else [],
    }
    if not has_headers(source):
        return form
    form |= {"names": list(names), "comment": options.get("comment", "")}
    headers = (header_of(file, form) for file in files)
    first = next(filter(None, headers), [])
    is_other = names and not {*map(str.casefold, first)} & {*map(str.casefold, names)}
    if is_other and any(map(_TIME.match, first)):
        raise SourceError(
            f"source.path: {source.path} has no header: it begins with "
            f"{separator.join(first)[:_SHOWN_CHARACTERS]!r}: write  header: false  under source; "
            "where these are names, name one of the schema's columns as it is there"
        )
    return form | {"first": first}


def header_of(path: str, form: Mapping[str, Any]) -> list[str]:
    """The fields of a file's first line; none where it cannot be read here."""
    try:
        return fields_of(_first_line(path, form), form["separator"])
    except csv.Error:
        return []  # it is Spark that reads the file, and says what is wrong with it


def fields_of(line: str, separator: str) -> list[str]:
    """Of a record of CSV. Raises csv.Error: it is none."""
    if len(separator) > 1:  # Python's reader knows none of these
        line, separator = line.replace(separator, _UNIT), _UNIT
    return next(csv.reader([line], delimiter=separator), [])


def _first_line(path: str, form: Mapping[str, Any]) -> str:
    """The first line but blank ones and comments; "" where the file cannot be read here."""
    comment, line = form["comment"].encode(), b""
    with suppress(OSError, EOFError, LookupError), unpacked(path) or BytesIO() as stream:
        while not line.strip() or (comment and line.startswith(comment)):
            line = stream.readline(LINE_BYTES_MAX)
            if not line:
                return ""
        return line.decode(form["encoding"], "replace").removeprefix("\ufeff").rstrip("\r\n")
    return ""


def widths_of(path: str, form: Mapping[str, Any], *, is_headed: bool) -> set[int]:
    """How many fields the first lines of a CSV file have, but its header; none where that is not
    told here."""
    comment, found = form.get("comment", "").encode(), list[int]()
    with suppress(OSError, EOFError, LookupError, csv.Error), unpacked(path) or BytesIO() as stream:
        for line in islice(iter(partial(stream.readline, LINE_BYTES_MAX), b""), _LINES):
            if line.strip() and not (comment and line.startswith(comment)):
                text = line.decode(form["encoding"], "replace").rstrip("\r\n")
                found.append(len(fields_of(text, form["separator"])))
    return {*found[is_headed:]}


def wrong_encoding(path: str, form: Mapping[str, Any]) -> str:
    """Why there is no telling a file's lines; "" where there is. Text in UTF-16 begins with its
    mark, or with a sign of ASCII in two bytes."""
    start = b""
    with suppress(OSError, EOFError), unpacked(path) or BytesIO() as stream:
        start = stream.read(2)
    if form.get("whole") or not (start in _UTF16 or b"\0" in start):
        return ""
    return (
        "the file is UTF-16, whose lines Spark cannot tell apart: write it as UTF-8, for example "
        "by  iconv -f UTF-16 -t UTF-8"
    )


def is_replaced(path: str, form: Mapping[str, Any]) -> bool:
    """Does U+FFFD in texts of files stand for bytes that are not UTF-8? So Spark reads them.

    It does not where the file itself holds it, cannot be read here, or has another encoding. JSON
    with such bytes does not parse, and may write U+FFFD as an escape.
    """
    if "lines" in form or form["encoding"].lower() != "utf-8":
        return False
    last = b""
    with suppress(OSError, EOFError), unpacked(path) or BytesIO() as stream:
        while data := stream.read(LINE_BYTES_MAX):
            if _MARK in last + data:
                return False
            last = data[1 - len(_MARK) :]
        return True
    return False


def wrong_start(path: str, form: Mapping[str, Any]) -> str:
    """Why a file's rows cannot be read as those of its source; "" where they can."""
    if "orc" in form:
        return _wrong_type(path, form["orc"])
    if wrong := wrong_encoding(path, form):
        return wrong
    return _wrong_header(path, form) if "names" in form else ""


def _wrong_header(path: str, form: Mapping[str, Any]) -> str:
    found = header_of(path, form)
    header, names, first = (
        [name.casefold() for name in each] for each in (found, form["names"], form["first"])
    )
    if not header or header in (names, first):
        return ""
    shown = form["separator"].join(found)[:_SHOWN_CHARACTERS]
    for at, name in enumerate(header):
        if name in names and names[at : at + 1] != [name]:
            return (
                f"the file's header is {shown!r}: '{found[at]}' is column {at + 1} there, column "
                f"{names.index(name) + 1} of the source, and CSV goes by place"
            )
    if any(map(_NUMBER.match, header)) and not any(map(_NUMBER.match, first)):
        return f"the file has no header: it begins with {shown!r}"
    return ""


def _wrong_type(path: str, kinds: Mapping[str, str]) -> str:
    """Of a file of ORC: Spark would read it, cut values to its own type, or make nulls of them."""
    from pyarrow import ArrowInvalid, orc

    try:
        schema = orc.ORCFile(path).schema
    except (OSError, ArrowInvalid):
        return ""  # it is Spark that reads the file, and says what is wrong with it
    for name, there in zip(schema.names, schema.types, strict=True):
        kind = kinds.get(name, "")
        if OF_ONE_TYPE.fullmatch(kind) and not holds(declared(f"c {kind}")["c"], there):
            return (
                f"column '{name}' is {there} in this file and {kind} to Spark, which does not hold "
                "its values: write the files alike, or name the wider type as schema: under source"
            )
    return ""


def holds(wanted: Any, there: Any) -> bool:
    """Has one type of Arrow, or one that is Spark's to know, all values of another, as Spark reads
    them?"""
    unsigned = types.is_unsigned_integer(there)
    digits = 99
    if types.is_integer(there):
        digits = _DIGITS[there.bit_width] + (there == uint64())
    if types.is_decimal(there):
        digits = there.precision - there.scale
    if types.is_decimal(wanted):
        scale = there.scale if types.is_decimal(there) else 0
        return scale <= wanted.scale and digits <= wanted.precision - wanted.scale
    if types.is_floating(wanted) and types.is_integer(there):
        return not unsigned or there.bit_width < 32  # what is larger would have a sign
    if types.is_floating(wanted) or types.is_integer(wanted):
        alike = types.is_floating if types.is_floating(wanted) else types.is_integer
        return alike(there) and there.bit_width + unsigned <= wanted.bit_width
    is_time = types.is_timestamp(wanted) and types.is_temporal(there)
    return bool(there == wanted or is_time or wanted == UNKNOWN)


def check_content(source: SourceSpec, file: Path) -> None:
    """SourceError where a file is empty, or begins as one of another format."""
    with file.open("rb") as stream:
        head = stream.read(4)
    kind = next((form for magic, form in _MAGIC.items() if head.startswith(magic)), None)
    if head in _UNREAD:
        raise SourceError(f"source.path: {file} is {_UNREAD[head]}")
    if head.startswith(_GZIP) and file.suffix != ".gz":
        raise SourceError(
            f"source.path: {file} is packed by gzip, which Spark tells by a name's ending alone: "
            f"name it {file.name}.gz"
        )
    if not head:
        if source.schema_ is None:
            raise SourceError(f"source.path: {file} is empty: give its schema, or data")
    elif kind is not None and kind != source.format:
        raise SourceError(f"source.format: {file} is {kind}, not {source.format}: write {kind}")
    elif kind is None and source.format in _MAGIC.values():
        ending = file.suffix.lstrip(".")
        hint = f": write {ending}" if ending in ("csv", "json") else ": correct format or path"
        raise SourceError(f"source.format: {file} is not {source.format}{hint}")
