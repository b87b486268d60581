"""Why Spark's readers did not take a record of CSV or JSON, which they do not say themselves."""

import csv
import json
from collections.abc import Collection, Mapping
from typing import Any

from muntin.errors import how_many
from muntin.spark.file_starts import fields_of

_SHOWN_CHARACTERS = 100


def misfit(text: str, form: Mapping[str, Any], nulls: Collection[str]) -> str | None:
    """What is wrong with a record; None where that is not seen.

    `form`: how the source's files are read, with the types of its columns, `kinds`. `nulls`:
    columns of which Spark has read no value: of one that it cannot read it makes a null, and reads
    on.
    """
    kinds: Mapping[str, str] = form["kinds"]
    try:
        values = json.loads(text) if "lines" in form else fields_of(text, form["separator"])
    except (ValueError, csv.Error, RecursionError):
        return None
    is_line = isinstance(values, list) and "lines" not in form
    named = dict(zip(kinds, values, strict=False)) if is_line else values
    for name, value in named.items() if isinstance(named, dict) else ():
        if name in nulls and value not in (None, "", form.get("null")) and kinds[name] != "string":
            return (
                f"column '{name}': {repr(value)[:_SHOWN_CHARACTERS]} is not {kinds[name]}: "
                "where it is right, declare the column as string, and take a field that reads it"
            )
    if is_line and len(values) != len(kinds):
        return f"the line has {how_many(len(values), 'field')}, and the source {len(kinds):,}"
    return None
