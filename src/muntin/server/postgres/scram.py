"""SCRAM-SHA-256 (RFC 5802, 7677), the server's side: the token is the password. No I/O.

All tokens have one salt, so that a client's proof is compared with each of them, and any user
name will do. Only keys are kept, from which nobody can log in elsewhere.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096  # PostgreSQL's own; a token is long and random, so more would only cost
Owner = TypeVar("Owner")


class ScramError(Exception):
    """The client does not follow the protocol, or does not know a token."""


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """What the server knows of a token."""

    stored: bytes = field(repr=False)
    server: bytes = field(repr=False)

    @classmethod
    def of(cls, token: str, salt: bytes) -> Self:
        salted = hashlib.pbkdf2_hmac("sha256", token.encode(), salt, ITERATIONS)
        stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
        return cls(stored, hmac.digest(salted, b"Server Key", "sha256"))


class Exchange(Generic[Owner]):
    """One log-in: `first` answers the client's first message, `final` its last."""

    def __init__(self, salt: bytes, known: Sequence[tuple[ScramKeys, Owner]]) -> None:
        self._salt = salt
        self._known = known
        self._nonce = ""
        self._said = ""

    def first(self, message: bytes) -> bytes:
        """The challenge. Raises ScramError."""
        text = _text(message)
        flag, _, rest = text.partition(",")
        _, _, bare = rest.partition(",")
        if flag not in ("n", "y"):
            raise ScramError("channel binding is not offered")
        fields = _fields(bare)
        nonce = fields.get("r", "")
        if not nonce or "m" in fields:
            raise ScramError("the first message has no nonce")
        self._header = text[: len(text) - len(bare)]
        self._nonce = nonce + secrets.token_urlsafe(18)
        salt = base64.b64encode(self._salt).decode()
        challenge = f"r={self._nonce},s={salt},i={ITERATIONS}"
        self._said = f"{bare},{challenge}"
        return challenge.encode()

    def final(self, message: bytes) -> tuple[bytes, Owner]:
        """The server's proof, and whose token it was. Raises ScramError."""
        text = _text(message)
        without, mark, encoded = text.rpartition(",p=")
        fields = _fields(without)
        header = base64.b64encode(self._header.encode()).decode() if self._nonce else ""
        if not mark or fields.get("r") != self._nonce or fields.get("c") != header or not header:
            raise ScramError("the last message does not belong to the first")
        proof = _decoded(encoded)
        said = f"{self._said},{without}".encode()
        found: tuple[bytes, Owner] | None = None
        for keys, owner in self._known:  # all of them, so that time tells nothing
            signature = hmac.digest(keys.stored, said, "sha256")
            key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
            if hmac.compare_digest(hashlib.sha256(key).digest(), keys.stored):
                found = hmac.digest(keys.server, said, "sha256"), owner
        if found is None:
            raise ScramError("the password is no token of this server")
        return b"v=" + base64.b64encode(found[0]), found[1]


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("not UTF-8") from None


def _fields(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        proof = base64.b64decode(text, validate=True)
    except ValueError:
        raise ScramError("the proof is not Base64") from None
    if len(proof) != 32:
        raise ScramError("the proof has another length")
    return proof
