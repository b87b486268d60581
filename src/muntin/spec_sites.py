"""What `sites:` in a pipeline file says: which ranking this site takes part in, and where."""

import os
import time
from collections.abc import Mapping
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from muntin.hosts import is_loopback, names_a_host
from muntin.kinds import SummarySpec
from muntin.kinds.base import Microseconds, Strict
from muntin.kinds.vector_matrix import Key, VectorMatrixSpec
from muntin.times import duration_text

TOKEN_VARIABLE = "MUNTIN_SITE_TOKEN"  # noqa: S105 (the name of a variable)
TOKEN_CHARACTERS_MIN = 16
UNITS_MAX = 100_000  # of a window; each is kept at the site, with its objects and values
SCALE_MAX = 1e15
SPEED_MAX = 1e9


def checked_token(value: str) -> str:
    """A token that cannot be guessed, and can be sent, or none; the message never shows it."""
    if value != value.strip() or not value.isprintable():
        raise ValueError("a token of several lines, or with blanks around it, cannot be sent")
    if value and (len(value) < TOKEN_CHARACTERS_MIN or not value.isascii()):
        raise ValueError(
            f"a token of {len(value)} characters can be guessed: use at least "
            f"{TOKEN_CHARACTERS_MIN} of ASCII, as `openssl rand -hex 16` gives"
        )
    return value


Token = Annotated[str, AfterValidator(checked_token), Field(repr=False)]


class TokenSpec(Strict):
    """A token, or the environment variable that holds it."""

    token: Token = ""
    token_env: str = Field(default="", description="Environment variable that holds the token")

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if self.token and self.token_env:
            raise ValueError("token and token_env are both given: give one of them")
        return self

    def given_token(self) -> str:
        """The token itself, or what the environment variable holds (by default TOKEN_VARIABLE).
        Raises ValueError: the variable that is named is not set, or holds no token."""
        if self.token:
            return self.token
        found = os.environ.get(self.token_env or TOKEN_VARIABLE, "")
        if self.token_env and not found:
            raise ValueError(f"token_env: the environment variable {self.token_env} is not set")
        return checked_token(found)


class Ranking(Strict):
    """What is ranked. Sites and coordinator say the same, or do not work together."""

    summary: str
    key: Key
    value: str = Field(default="count", description="count, or an indicator's sum")
    scale: float | None = Field(
        default=None,
        gt=0,
        le=SCALE_MAX,
        description="Values are multiplied by it and rounded to integers; float64 needs it",
    )
    window: Microseconds
    unit: Microseconds = Field(description="The window moves by units")
    speed: float = Field(
        default=1.0, gt=0, le=SPEED_MAX, description="Event time per clock time, in a replay"
    )

    @model_validator(mode="after")
    def _whole_units(self) -> Self:
        if self.window % self.unit:
            raise ValueError(
                f"window: {duration_text(self.window)} is not a whole number of units of "
                f"{duration_text(self.unit)}: give a multiple of the unit"
            )
        if self.units > UNITS_MAX:
            raise ValueError(
                f"window: {self.units:,} units are too many: at most {UNITS_MAX:,}; "
                "make the unit longer"
            )
        return self

    @property
    def units(self) -> int:
        """Units of a window."""
        return self.window // self.unit

    @property
    def clock_unit_seconds(self) -> float:
        """How long a unit takes on the clock."""
        return self.unit / 1e6 / self.speed

    def now(self) -> float:
        """The clock in window units."""
        return time.monotonic() / self.clock_unit_seconds

    def said(self) -> dict[str, Any]:
        """What both sides compare, as JSON values."""
        return {
            "summary": self.summary,
            "key": list(self.key),
            "value": self.value,
            "scale": self.scale,
            "window_us": self.window,
            "unit_us": self.unit,
        }


class SiteSpec(Ranking, TokenSpec):
    """`sites:`: this site's part in a global top k."""

    coordinator: str = Field(description="For example ws://127.0.0.1:8790")
    site: str = Field(default="", description="This site's name in the coordinator's list")
    site_column: str = Field(
        default="", description="Instead of site: a column that says which site a record belongs to"
    )
    site_values: dict[str, str] = Field(
        default_factory=dict, description="Name of each site -> its value in site_column"
    )
    k: int | None = Field(default=None, ge=1, description="What the coordinator should keep")
    epsilon: int | None = Field(default=None, ge=0, description="The same")
    heartbeat: int = Field(default=6, ge=1, le=10_000, description="Units of silence at most")
    idle: Microseconds | None = Field(
        default=None, description="Without events for so long, the window moves with the clock"
    )

    @field_validator("coordinator")
    @classmethod
    def _address(cls, value: str) -> str:
        parts = urlsplit(value)
        if (
            not names_a_host(parts, "ws", "wss")
            or parts.query
            or parts.fragment
            or parts.username
            or parts.path not in "/"
        ):
            raise ValueError(
                f"'{value}' is no coordinator: write for example ws://127.0.0.1:8790 or "
                "wss://topk.example"
            )
        return value.rstrip("/")

    @property
    def is_open(self) -> bool:
        """Whether what is sent can be read on the way."""
        return urlsplit(self.coordinator).scheme == "ws" and not self.is_local

    @property
    def is_local(self) -> bool:
        """Whether the coordinator is on this machine."""
        return is_loopback(urlsplit(self.coordinator).hostname or "")

    @model_validator(mode="after")
    def _token_stays_secret(self) -> Self:
        if self.is_open and (self.token or self.token_env):
            raise ValueError(
                f"coordinator: {self.coordinator} would send the token in the open: use wss://"
            )
        return self

    @model_validator(mode="after")
    def _one_or_column(self) -> Self:
        if bool(self.site) == bool(self.site_column):
            raise ValueError(
                "site: give the name of this site, or a site_column whose values are sites"
            )
        if bool(self.site_column) != bool(self.site_values):
            raise ValueError(
                "site_values: goes with site_column: write for example "
                "site_values: {north: N, south: S}"
            )
        if len(set(self.site_values.values())) < len(self.site_values):
            raise ValueError("site_values: a value stands twice: it can belong to one site only")
        if self.site_column in self.key:
            raise ValueError(f"key: {self.site_column} is the site_column: rank something else")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that this pipeline feeds."""
        return tuple(self.site_values) or (self.site,)

    @property
    def stored_key(self) -> tuple[str, ...]:
        """What the summary must be kept by."""
        return (*self.key, self.site_column) if self.site_column else self.key

    def of_site(self, name: str) -> Self:
        """The part of one of `names`: `site` is its name, `site_values` holds only its value."""
        if not self.site_column:
            return self
        return self.model_copy(update={"site": name, "site_values": {name: self.site_values[name]}})

    def check_fits(self, summaries: Mapping[str, SummarySpec], pane: int, kept: int | None) -> None:
        """Raise ValueError where the pipeline cannot give what is ranked.

        `pane`, `kept` (int, microseconds): the pipeline's pane, and how long retention keeps panes
          (None: for ever).
        """
        summary = summaries.get(self.summary)
        if summary is None:
            there = ", ".join(summaries)
            raise ValueError(f"sites.summary: there is no '{self.summary}'; there are {there}")
        if not isinstance(summary, VectorMatrixSpec) or summary.sketch is not None:
            shown = "sketched" if isinstance(summary, VectorMatrixSpec) else summary.kind
            raise ValueError(
                f"sites.summary: '{self.summary}' is {shown}: name a vector_matrix without sketch, "
                "whose sums are exact"
            )
        stored = self.stored_key
        if sorted(stored) not in [sorted(key) for key in summary.keys]:
            shown = "; ".join(", ".join(key) for key in summary.keys)
            raise ValueError(
                f"sites.key: '{self.summary}' is not kept by {', '.join(stored)}; its keys are "
                f"{shown}"
            )
        if self.value != "count" and self.value not in summary.indicators:
            there = ", ".join(["count", *summary.indicators])
            raise ValueError(f"sites.value: there is no '{self.value}'; there are {there}")
        if summary.indicators.get(self.value) == "float64" and self.scale is None:
            raise ValueError(
                f"sites.scale: is missing, and '{self.value}' is float64: sums are ranked as "
                "integers, so say how many of them make 1, for example scale: 100 for cents"
            )
        if self.unit % pane:
            raise ValueError(
                f"sites.unit: {duration_text(self.unit)} is not a whole number of panes of "
                f"{duration_text(pane)}: give a multiple of the pane"
            )
        if kept is not None and kept < self.window + self.unit:
            raise ValueError(
                f"retention.panes: {duration_text(kept)} are shorter than the window of sites, "
                f"{duration_text(self.window)}, and a unit: keep the panes longer"
            )
