"""What `alert:` of a standing query and `webhook:` of a pipeline say."""

import base64
import binascii
import os
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from muntin.errors import SpecError
from muntin.hosts import names_a_host
from muntin.kinds.base import MicrosecondsOrZero, Strict, as_tuple, distinct
from muntin.spec_sites import TOKEN_CHARACTERS_MIN, Token

SECRET_VARIABLE = "MUNTIN_WEBHOOK_SECRET"  # noqa: S105 (the name of a variable)
CONDITION_CHARACTERS_MAX = 1_000
COLUMNS_MAX = 8
_ENCODED = "whsec_"


class AlertSpec(Strict):
    """When a standing query's answer calls for somebody."""

    when: str = Field(
        min_length=1,
        max_length=CONDITION_CHARACTERS_MAX,
        description="A condition in SQL on the columns of the query; true for a row: it holds",
    )
    for_: MicrosecondsOrZero = Field(
        default=0, alias="for", description="How long it must have lasted before the alert fires"
    )
    by: Annotated[tuple[str, ...], BeforeValidator(as_tuple), AfterValidator(distinct)] = Field(
        default=(), max_length=COLUMNS_MAX, description="Columns: an alert for each of their values"
    )


class WebhookSpec(Strict):
    """Where alerts are pushed, and the secret that signs them."""

    url: str = Field(repr=False)
    secret: Token = ""
    secret_env: str = Field(default="", description="Environment variable that holds the secret")

    @field_validator("url")
    @classmethod
    def _address(cls, value: str) -> str:
        parts = urlsplit(value)
        fits = names_a_host(parts, "http", "https") and value.isascii() and value.isprintable()
        if not fits or " " in value or parts.username or parts.fragment:
            raise ValueError(
                "it is no address to push to: write for example https://alerts.example/muntin"
            )
        return value

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        if self.secret and self.secret_env:
            raise ValueError("secret and secret_env are both given: give one of them")
        return self

    def key(self) -> bytes:
        """What signs: the secret itself, or, of `whsec_…`, what follows in base64. Raises
        SpecError: there is no secret."""
        variable = self.secret_env or SECRET_VARIABLE
        given = self.secret or os.environ.get(variable, "")
        if len(given) < TOKEN_CHARACTERS_MIN:
            raise SpecError(
                "webhook: the secret that signs is missing, or has fewer than "
                f"{TOKEN_CHARACTERS_MIN} characters: set {variable}, for example to "
                "`openssl rand -hex 32`"
            )
        if not given.startswith(_ENCODED):
            return given.encode()
        try:
            return base64.b64decode(given.removeprefix(_ENCODED), validate=True)
        except binascii.Error:
            raise SpecError(
                f"webhook: what follows {_ENCODED} in the secret is not base64"
            ) from None
