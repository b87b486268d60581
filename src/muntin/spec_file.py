"""The pipeline file: errors that name file, line, entry and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from muntin.errors import BadArgument, SourceError, SpecError, did_you_mean
from muntin.kinds import KINDS

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from muntin.yaml_file import Document

PIPELINE_REMEDY = "`muntin init DATA` writes one"
ERRORS_SHOWN_MAX = 5

Model = TypeVar("Model", bound=BaseModel)


def model_of(
    model: type[Model],
    given: Model | Mapping[str, Any] | str | Path,
    remedy: str = PIPELINE_REMEDY,
    context: Any = None,
) -> Model:
    """The model from itself, from keywords in a mapping, or from the path of a YAML file. Raises
    SpecError: names the entry, the line of the file, and what would be right; `remedy` where there
    is no file."""
    if isinstance(given, model):
        return given
    if isinstance(given, str | Path):
        from muntin.yaml_file import read

        document = read(Path(given), remedy)
        data = document.data
    elif isinstance(given, Mapping):
        document, data = None, given
    else:
        raise SpecError(f"give a file, a mapping or a {model.__name__}, not {type(given).__name__}")
    try:
        return model.model_validate(data, context=context)
    except ValidationError as problem:
        raise SpecError(explain(problem, model, document, data)) from None
    except BadArgument as problem:
        raise SpecError(str(problem)) from None


def explain(
    problem: ValidationError, model: type[BaseModel], document: Document | None, data: Any = None
) -> str:
    """Pydantic's errors as one line each: where, what, and what would be right.

    `data` is what was checked, where it does not come from a document.
    """
    data = document.data if document else data
    lines, meant = [], set()
    places = [error["loc"] for error in problem.errors()]
    for error in sorted(problem.errors(), key=lambda error: error["type"] == "missing"):
        place = [step for step in error["loc"] if not _is_internal(step)]
        if error["type"] == "missing" and tuple(place) in meant:
            continue
        at = error["loc"]
        if error["type"] == "too_short" and any(at == p[: len(at)] != p for p in places):
            continue  # what it has too few of is what is wrong in it
        said = _said(error, place, model, data)
        name = re.search(r"did you mean '(\w+)'", said)
        if name:
            meant.add((*place[:-1], name[1]))
        if place:
            said = f"{'.'.join(str(step) for step in place)}: {said}"
        prefix = f"{document.at(place or named_place(said))}: " if document else ""
        lines.append(prefix + said)
    more = len(lines) - ERRORS_SHOWN_MAX
    return "\n".join(lines[:ERRORS_SHOWN_MAX] + ([f"and {more} more"] if more > 0 else []))


def named_place(message: str) -> list[str]:
    """The place that a message names in front: "summaries.flights.window: ..."."""
    named = re.match(r"[a-z_][\w.-]*(?=: )", message)
    return named[0].split(".") if named else []


@contextmanager
def with_places(file: Path) -> Iterator[None]:
    """What goes wrong in the block with what a pipeline file says tells the line of the entry that
    it names in front."""
    from muntin.yaml_file import read

    document = read(file, PIPELINE_REMEDY)
    try:
        yield
    except (SpecError, SourceError) as problem:
        place = named_place(str(problem))
        if not place or place[0] not in document.data:
            raise
        raise type(problem)(f"{document.at(place)}: {problem}") from problem


def _said(error: Any, place: list[Any], model: type[BaseModel], data: Any) -> str:
    kind = error["type"]
    if kind == "extra_forbidden":
        known = _entries(place[:-1], model, data)
        return f"unknown entry; {did_you_mean(str(place[-1]), known, 'entries')}"
    if kind == "missing":
        field = _entries(place[:-1], model, data).get(str(place[-1])) if place else None
        return f"is missing ({field.description})" if field and field.description else "is missing"
    text = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    shown = repr(error.get("input"))
    if kind in ("too_long", "too_short"):
        most, least = error["ctx"].get("max_length"), error["ctx"].get("min_length")
        bound = f"at least {least}" if most is None else f"at most {most}"
        given = error["ctx"]["actual_length"] or len(error["input"])  # not told of mappings
        return f"takes {bound} of them, not {given}"
    wanted = _wanted(error, place, model, data)
    if wanted:
        return f"takes {wanted}, not {shown if len(shown) <= 80 else shown[:77] + '...'}"
    if kind == "value_error" or len(shown) > 80 or shown in text:
        return text
    return f"{text[:1].lower()}{text[1:]}, got {shown}"


def _wanted(error: Any, place: list[Any], model: type[BaseModel], data: Any) -> str:
    """What an entry takes whose value is of another type."""
    kind = error["type"]
    if kind in ("model_type", "model_attributes_type", "dict_type", "mapping_type"):
        known = _entries(place, model, data)
        return f"entries of its own ({', '.join(known)})" if known else "a mapping, {name: ...}"
    if kind == "literal_error":
        return str(error["ctx"]["expected"])
    return _KINDS.get(kind.partition("_")[0], "") if kind.endswith(_OF_TYPE) else ""


_OF_TYPE = ("_type", "_parsing", "_from_float")
_KINDS = {
    "tuple": "a list, [...]", "list": "a list, [...]", "string": "text", "float": "a number",
    "int": "a whole number", "bool": "true or false",
}  # fmt: skip
"""By pydantic's name of a type."""


def _entries(place: Sequence[Any], model: type[BaseModel], data: Any) -> dict[str, FieldInfo]:
    """The entries that are known at a place, by name."""
    current: Any = model
    at = data
    for step in place:
        at = at.get(step) if isinstance(at, Mapping) else None
        field = getattr(current, "model_fields", {}).get(step)
        if current is model and step == "summaries":
            current = "summaries"
        elif current == "summaries":
            kind = at.get("kind", "vector_matrix") if isinstance(at, Mapping) else "vector_matrix"
            current = KINDS.get(kind, next(iter(KINDS.values())))
        elif field is not None:
            current = _model_in(field.annotation)
    return {f.alias or name: f for name, f in getattr(current, "model_fields", {}).items()}


def _model_in(annotation: Any) -> Any:
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _is_internal(step: Any) -> bool:
    return isinstance(step, str) and ("[" in step or step.startswith("function-"))
