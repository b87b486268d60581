"""What a coordinator is: a YAML file and Python keywords give the same object."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from muntin import spec_file
from muntin.errors import SpecError
from muntin.spec import SpecName
from muntin.spec_sites import TOKEN_VARIABLE, Ranking, TokenSpec
from muntin.topk.messages import K_MAX, SITES_MAX, VALUE_MAX

PORT = 8790


def _as_entries(value: Any) -> Any:
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        if len(set(value)) < len(value):
            raise ValueError("a site stands twice: each needs a name of its own")
        return {name: {} for name in value}
    if isinstance(value, Mapping):
        return {name: {} if entry is None else entry for name, entry in value.items()}
    return value


class CoordinatorSpec(Ranking):
    """A coordinator: its sites, what they rank, and where it listens."""

    name: SpecName = Field(default="global", description="In SELECT: FROM top_k(global, 10)")
    sites: Annotated[dict[SpecName, TokenSpec], BeforeValidator(_as_entries)] = Field(
        min_length=1, max_length=SITES_MAX, description="Names, or name: {token_env: VARIABLE}"
    )
    k: int = Field(ge=1, le=K_MAX)
    epsilon: int = Field(default=0, ge=0, le=VALUE_MAX)
    policy: Literal["resolution", "even", "lsa", "gsa"] = "resolution"
    hybrid: Annotated[
        Literal["bytes", "messages"] | None,
        BeforeValidator(lambda said: None if said in ("none", False) else said),
    ] = Field(default="bytes", description="What pushing is to save; none: always resolve")
    retry: float = Field(default=2.0, gt=0, le=10_000, description="Units")
    missing_after: float = Field(default=18.0, gt=0, le=1_000_000, description="Units")
    gather: float | None = Field(
        default=None, ge=0, le=1_000_000, description="Units; missing_after where it is not given"
    )
    lease: float = Field(default=18.0, gt=0, le=1_000_000, description="Units")
    state: str = Field(default="", description="File that a restart goes on from")
    host: str = "127.0.0.1"
    port: int = Field(default=PORT, ge=0, le=65535)
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def tokens(self) -> dict[str, str]:
        """The token of each site; empty where none needs one. Raises SpecError: a variable is not
        set, or some sites have a token and others have none."""
        found = {}
        for name, entry in self.sites.items():
            try:
                found[name] = entry.given_token()
            except ValueError as problem:
                raise SpecError(f"sites.{name}.{problem}") from None
        bare = [name for name, token in found.items() if not token]
        if len(bare) == len(found):
            return {}
        if bare:
            raise SpecError(
                f"sites.{bare[0]}: has no token and others have: give token_env, or set "
                f"{TOKEN_VARIABLE} for all that name none"
            )
        return found

    @classmethod
    def of(cls, given: CoordinatorSpec | Mapping[str, Any] | str | Path) -> CoordinatorSpec:
        """From itself, from keywords in a mapping, or from the path of a YAML file. Raises
        SpecError: names the entry, the line of the file, and what would be right."""
        return spec_file.model_of(cls, given, "docs/topk.md shows what to write in it")
