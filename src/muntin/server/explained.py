"""What an answer is true of, in sentences: for those who did not read about sketches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def sentences_of(about: Mapping[str, Any]) -> list[str]:
    """Of the particulars of an answer, as `POST /query` gives them.

    Parameters
    ----------
    about : mapping
        `exact`, `bounds`, `windows`, `watermark`, `late`, `stale`, `notes`.
    """
    said = [
        "The answer is exact."
        if about["exact"]
        else "The answer is not exact: where rows have lower and upper, the truth lies between "
        "them with the probability that confidence says."
    ]
    for source, bounds in about["bounds"].items():
        said += [f"{source}: {part}" for part in _parts(bounds)]
    for window in about["windows"]:
        covered = window["covered"]
        span = f"from {covered['start']} to {covered['end']}" if covered else "nothing"
        said.append(f"{window['source']} ({window['asked']}) was read {span}.")
    if about["watermark"]:
        said.append(
            f"Events up to {about['watermark']} were counted when they came; later ones may come."
        )
    if about["late"]:
        said.append(f"{about['late']:,} late events are counted in it.")
    if about["stale"]:
        said.append("It is stale: the pipeline has not been heard of for longer than it should.")
    return [*said, *(note["message"] for note in about["notes"])]


def _parts(bounds: Mapping[str, Any]) -> list[str]:
    sure = bounds.get("confidence")
    with_it = "" if sure is None else f" with probability {sure:g}"
    known = {
        "rank_error": lambda v: f"a rank is off by at most {v:g} of all values{with_it}.",
        "tail_error": lambda v: (
            f"a rank is off by at most {v:g} of the values above it{with_it}, if that is less."
        ),
        "exact_top": lambda v: f"the {v:,} largest values hold their places exactly.",
        "relative": lambda v: f"at worst the relative error is {v:g}{with_it}.",
        "error": lambda v: f"an item's weight is off by at most {v:,}{with_it}.",
        "false_positive_rate": lambda v: f"of items that never came, {v:g} are said to have come.",
        "nulls": lambda v: f"{v:,} events had no value." if v else "",
        "other": lambda v: f"{v:,} events are of keys beyond the limit." if v else "",
        "left_out_late": lambda v: f"{v:,} late events were left out." if v else "",
        "uncounted": lambda v: (
            "events that came before a part was declared are not in it: "
            + ", ".join(f"{name} lacks {count:,}" for name, count in v.items())
            + "."
        ),
        "confidence": lambda _: "",
    }
    said = [
        known[name](value) if name in known else f"{name} is {value}."
        for name, value in bounds.items()
    ]
    return [part for part in said if part]
