"""What a coordinator saves for its restart, as canonical JSON."""

import json
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from muntin.errors import CorruptMessage
from muntin.topk.membership import check_sites
from muntin.topk.messages import K_MAX, VALUE_MAX, Object
from muntin.topk.objects import check_object


class Saved(BaseModel):
    """Enough to go on with: a survey finds the rest anew."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal[1]
    epoch: int = Field(ge=0, lt=1 << 62)
    k: int = Field(ge=1, le=K_MAX)
    epsilon: int = Field(ge=0, le=VALUE_MAX)
    sites: Annotated[list[str], AfterValidator(check_sites)]
    top: list[Annotated[Object, AfterValidator(check_object)]]

    def to_bytes(self) -> bytes:
        """Canonical JSON: the same state is the same bytes."""
        return json.dumps(self.model_dump(), sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read it; `CorruptMessage` where the bytes are not such a state."""
        try:
            return cls.model_validate_json(bytes(data))
        except ValidationError as problem:
            first = problem.errors()[0]
            said = ".".join(map(str, first["loc"])) or "it"
            raise CorruptMessage(
                f"not the state of a coordinator: {said}: {first['msg']}"
            ) from None
