"""What a pipeline is. A YAML file and Python keywords give the same object, `Pipeline`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from os.path import expanduser
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from muntin import spec_file
from muntin.errors import BadArgument, SpecError, did_you_mean
from muntin.kinds import KINDS, SummarySpec
from muntin.kinds.base import STORED, Microseconds, MicrosecondsOrZero, Strict
from muntin.spec_alerts import AlertSpec, WebhookSpec
from muntin.spec_secrets import shown_url, without_secrets
from muntin.spec_sites import SiteSpec
from muntin.times import US_PER_SECOND, duration_text

NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
PANE_US_MIN = 1_000
HOUR_US = 3_600_000_000
_RUNGS = tuple(
    seconds * US_PER_SECOND
    for seconds in (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 28 * 86_400)
)
FORMER, AWAY, GONE = "former", "away", "gone"
"""What a ledger keeps beside a spec: see `assembly.changes.spec_to_store`."""
PACE_OPTIONS = {"maxfilespertrigger", "maxbytespertrigger", "maxfileage", "latestfirst"}
"""Of file sources, case-folded: which files a batch has, not how one is read."""


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError(
            f"'{value}' is not a name: a to z first, then a to z, 0 to 9, _ or -, at most 64"
        )
    return value


def _texts(given: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each text of plain data, names too, with the names of the entries around it."""
    if isinstance(given, str):
        yield place, given
    elif len(place) < _DEPTH_MAX and isinstance(given, Mapping):
        for name, value in given.items():
            yield place, str(name)
            yield from _texts(value, (*place, str(name)))
    elif len(place) < _DEPTH_MAX and isinstance(given, list | tuple):
        for value in given:
            yield from _texts(value, (*place, ""))


_DEPTH_MAX = 8  # no entry stands deeper


def _setting(name: str, value: Any) -> Any:
    """A Spark setting as text."""
    if not name.startswith("spark."):
        raise ValueError(
            f"'{name}' is not a Spark setting: their names begin with spark., for example "
            "spark.sql.shuffle.partitions"
        )
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _summary(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, SummarySpec) or not isinstance(value, Mapping):
        return value
    kind = value.get("kind", "vector_matrix")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}; {did_you_mean(str(kind), KINDS, 'kinds')}")
    return KINDS[kind].model_validate(value, context=info.context)


class _AnyKind:
    """In the JSON schema: the entries of one of the kinds, not of what all have in common."""

    def __get_pydantic_json_schema__(self, _: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(kind.__pydantic_core_schema__) for kind in KINDS.values()]}


SpecName = Annotated[str, AfterValidator(_name)]
Summaries = dict[
    SpecName, Annotated[SerializeAsAny[SummarySpec], BeforeValidator(_summary), _AnyKind()]
]


def ladder(pane: int) -> tuple[int, ...]:
    """Default lengths of rollups above a pane: steps of 4 to 10, ending at 28 days, so that a
    window of any length is a few slices of each rung."""
    rungs: list[int] = []
    below = pane
    for rung in _RUNGS:
        if rung % below == 0 and rung // below >= 4:
            rungs.append(rung)
            below = rung
    return tuple(rungs)


def check_ladder(pane: int, rungs: Sequence[int]) -> None:
    """BadArgument where one is no proper multiple of the one below, the pane first."""
    for below, above in pairwise((pane, *rungs)):
        if above <= below or above % below:
            raise BadArgument(
                f"rollups: {duration_text(above)} is not a multiple of {duration_text(below)}, the "
                "length before it: each must be, the first of the pane"
            )


def _value_schema(given: Any) -> Any:
    """One message in place of those of each type that it may have."""
    by_number = given if isinstance(given, Mapping) else {}
    if not isinstance(given, str) and not (by_number and all(
        str(number).isdecimal() and int(number) < 1 << 32 and isinstance(one, str)
        for number, one in by_number.items()
    )):  # fmt: skip
        raise ValueError(
            f"takes text, or text by the numbers of a registry, {{12: orders.avsc}}, not {given!r}"
        )
    return given


class ValueSpec(Strict):
    """What the values of Kafka's records hold; workers parse them in bulk."""

    format: Literal["json", "avro"] = "json"
    schema_: Annotated[str | dict[int, str], BeforeValidator(_value_schema)] = Field(
        alias="schema",
        description="json: its columns as SQL DDL; avro: Avro's JSON, or the path of such a file, "
        "or several of these by the numbers that a registry gave them",
    )

    @model_validator(mode="after")
    def _of_avro(self) -> Self:
        if not isinstance(self.schema_, str) and self.format != "avro":
            raise ValueError(f"schema: by number is for format: avro, not {self.format}")
        return self


_FORMATS = {
    ".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json",
    ".ndjson": "json", ".orc": "orc", ".avro": "avro",
}  # fmt: skip
COMPRESSED = (".gz", ".bz2", ".deflate", ".lz4", ".snappy", ".zst", ".zstd", ".xz")
"""Endings behind that of a text's format."""


def format_of(file: str | Path) -> str | None:
    """A source's format, where the ending of a file's name tells it."""
    name = Path(file)
    if name.suffix.lower() in COMPRESSED:
        name = name.with_suffix("")
    return _FORMATS.get(name.suffix.lower())


class SourceSpec(Strict):
    """Where events come from: any Spark source; further entries are its options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    format: str = Field(description="parquet, csv, json, rate, kafka, ...")
    path: str | None = None
    schema_: str | None = Field(default=None, alias="schema", description="Columns as SQL DDL")
    options_: dict[str, Any] = Field(
        default_factory=dict, alias="options", description="Its options, which may stand here"
    )
    value: ValueSpec | None = Field(default=None, description="Of Kafka's records")
    jars: str | None = Field(
        default=None, description="A folder with the connector's jars, where there is no network"
    )

    @field_validator("path")
    @classmethod
    def _whole(cls, path: str | None) -> str | None:
        """Spark would not know what ~ is."""
        return None if path is None else expanduser(path)

    @model_validator(mode="after")
    def _of_kafka(self) -> Self:
        for entry in ("value", "jars"):
            if getattr(self, entry) is not None and self.format != "kafka":
                raise ValueError(f"{entry}: is for format: kafka, not {self.format}")
        if self.format == "kafka" and self.schema_ is not None:  # Spark passes over it, or fails
            raise ValueError("schema: is for files: write Kafka's as  value: {schema: …}")
        return self

    @property
    def is_plain_parquet(self) -> bool:
        """Parquet files with no options but of pace, which any reader reads alike."""
        others = [name for name in self.options if name.casefold() not in PACE_OPTIONS]
        return self.format == "parquet" and bool(self.path) and not (others or self.schema_)

    @property
    def options(self) -> dict[str, str]:
        """Spark's options, as text."""
        extra = {**(self.model_extra or {}), **self.options_}
        return {name: _option(value) for name, value in extra.items()}


def _option(value: Any) -> str:
    """As Spark takes it: lists are separated by commas, mappings are JSON."""
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, list):
        return ",".join(map(_option, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


class TimeSpec(Strict):
    """The event time: a timestamp, a date, ISO 8601 text (naive is UTC), or a number of units."""

    column: str
    unit: Literal["us", "ms", "s", "ns"] | None = Field(
        default=None, description="Of a numeric column; counted from 1970 UTC"
    )


class QuerySpec(Strict):
    """A standing query: its result for each closed window is kept as a trend."""

    select: str
    on: Literal["window", "update"] = "window"
    alert: AlertSpec | None = Field(default=None, description="When somebody is to be alerted")


class RetentionSpec(Strict):
    """How long things are kept, counted back from the watermark. Nothing is dropped by default."""

    panes: Microseconds | None = Field(default=None, description="Panes; rollups answer beyond")
    rollups: Microseconds | None = None
    history: Microseconds | None = Field(default=None, description="Windows and trends")


class Pipeline(Strict):
    """A pipeline: source, event time, panes, summaries, standing queries, ledger."""

    name: SpecName
    source: SourceSpec | None = None
    time: TimeSpec
    pane: Microseconds
    lateness: MicrosecondsOrZero = 0
    max_future_skew: MicrosecondsOrZero = HOUR_US
    max_rejected: float = Field(
        default=0.1, ge=0, le=1, description="Share of rejected records beyond which a run fails"
    )
    fields: dict[str, str] = Field(
        default_factory=dict, description="Further columns: SQL expressions, evaluated by Spark"
    )
    summaries: Summaries = Field(min_length=1)
    queries: dict[SpecName, QuerySpec] = Field(default_factory=dict)
    ledger: str = ""
    payloads: str = Field(
        default="", description="Folder or URL of the payloads of shards; default: at the ledger"
    )
    checkpoint: str | None = None
    rollups: tuple[Microseconds, ...] | None = None
    retention: RetentionSpec = RetentionSpec()
    trigger: MicrosecondsOrZero = Field(default=1_000_000, description="Time between micro-batches")
    spark: dict[str, str] = Field(default_factory=dict, description="Spark settings")
    sites: SiteSpec | None = Field(default=None, description="Part in a top k over several sites")
    webhook: WebhookSpec | None = Field(default=None, description="Where alerts are pushed")

    def __init__(self, *given: Any, **entries: Any) -> None:
        """A pipeline from its entries by name; `Pipeline.of` takes a mapping or a file.

        Raises
        ------
        SpecError
            Names the entry, and what would be right.
        """
        if given:
            raise SpecError(
                "Pipeline takes entries by name, Pipeline(name=..., ...); "
                "a mapping or a file goes to Pipeline.of(...)"
            )
        try:
            super().__init__(**entries)
        except ValidationError as problem:
            raise SpecError(spec_file.explain(problem, type(self), None, entries)) from None
        except BadArgument as problem:
            raise SpecError(str(problem)) from None

    # pydantic's own way in (model_validate) does not pass here: its errors have places inside
    __init__.__pydantic_base_init__ = True  # pyright: ignore[reportFunctionMemberAccess]

    @model_validator(mode="before")
    @classmethod
    def _whole_characters(cls, value: Any) -> Any:
        """No ledger, file or statement can hold half a character."""
        for place, text in _texts(value):
            try:
                text.encode()
            except UnicodeEncodeError:
                where = "".join(f"{name}." for name in place if name)[:-1] or "an entry's name"
                raise ValueError(
                    f"{where}: {ascii(text)[:80]} holds half a character (a lone surrogate): "
                    "write the character itself"
                ) from None
        return value

    @field_validator("time", mode="before")
    @classmethod
    def _time(cls, value: Any) -> Any:
        return {"column": value} if isinstance(value, str) else value

    @field_validator("source", mode="before")
    @classmethod
    def _source(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "format" not in value and "path" in value:
            form = format_of(str(value["path"]))
            if form is not None:
                return {"format": form, **value}
        return value

    @field_validator("spark", mode="before")
    @classmethod
    def _settings(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {name: _setting(str(name), given) for name, given in value.items()}

    @field_validator("queries", mode="before")
    @classmethod
    def _queries(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {k: {"select": v} if isinstance(v, str) else v for k, v in value.items()}
        return value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.pane < PANE_US_MIN:
            raise ValueError(f"pane: {duration_text(self.pane)} is below 1 millisecond")
        clash = set(self.summaries) & set(self.queries)
        if clash:
            raise ValueError(f"'{min(clash)}' names both a summary and a query: rename one")
        for name, summary in self.summaries.items():
            if summary.window is None:
                continue
            for entry in ("length", "every", "limit"):
                value = getattr(summary.window, entry)
                if value is not None and value % self.pane:
                    raise ValueError(
                        f"summaries.{name}.window.{entry}: {duration_text(value)} is not a whole "
                        f"number of panes of {duration_text(self.pane)}"
                    )
        if self.rollups is not None:
            check_ladder(self.pane, self.rollups)
        for entry in type(self.retention).model_fields:
            kept = getattr(self.retention, entry)
            if kept is not None and kept < self.pane:
                raise ValueError(
                    f"retention.{entry}: {duration_text(kept)} is shorter than a pane of "
                    f"{duration_text(self.pane)}: keep at least a pane"
                )
        if self.sites is not None:
            for site in self.sites.names:
                _name(site)
            self.sites.check_fits(self.summaries, self.pane, self.retention.panes)
        return self

    @property
    def rungs(self) -> tuple[int, ...]:
        """Lengths of the rollups, microseconds, shortest first."""
        return ladder(self.pane) if self.rollups is None else self.rollups

    @property
    def ledger_url(self) -> str:
        """Where the summaries are kept: `ledger`, or a SQLite file named after the pipeline."""
        return self.ledger or f"sqlite:///{self.name}.db"

    def columns(self) -> list[str]:
        """Columns and fields that the summaries read, without the time."""
        return list(dict.fromkeys(c for s in self.summaries.values() for c in s.columns()))

    def columns_read(self) -> list[str]:
        """The same, behind that of the time."""
        return list(dict.fromkeys([self.time.column, *self.columns()]))

    def as_json(self) -> dict[str, Any]:
        """The pipeline as plain data, with what readers of the ledger need to know.

        `sites` and `webhook` are left out: they hold secrets, and readers do not need them. Options
        that hold one, such as passwords, are hidden.
        """
        plain = self.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, exclude={"sites", "webhook"}
        )
        for entry in ("source", "spark"):
            if entry in plain:
                plain[entry] = without_secrets(plain[entry])
        if self.ledger:
            plain["ledger"] = shown_url(self.ledger)
        plain["summaries"] = {
            name: summary.model_dump(mode="json", exclude_defaults=True) | {"kind": summary.kind}
            for name, summary in self.summaries.items()
        }
        return plain | {"pane_us": self.pane, "rungs_us": list(self.rungs)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Pipeline:
        """What `as_json` gave, or a ledger keeps of it."""
        beside = ("pane_us", "rungs_us", FORMER, AWAY, GONE)
        given = {k: v for k, v in plain.items() if k not in beside}
        return spec_file.model_of(cls, given, context=STORED)

    @classmethod
    def of(cls, given: Pipeline | Mapping[str, Any] | str | Path) -> Pipeline:
        """A pipeline from itself, from keywords in a mapping, or from the path of a YAML file.

        Raises
        ------
        SpecError
            Names the entry, the line of the file, and what would be right.
        """
        return spec_file.model_of(cls, given)
