"""What a coordinator saves for its restart, as canonical JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from muntin.errors import CorruptMessage
from muntin.topk.messages import Object
from muntin.topk.objects import check_object
from muntin.topk.roster import check_k, check_sites

STATE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Saved:
    """Enough to go on with: a survey finds the rest anew."""

    epoch: int
    k: int
    epsilon: int
    sites: list[str]
    top: list[Object]

    def to_bytes(self) -> bytes:
        """Canonical JSON: the same state is the same bytes."""
        state = {"format": STATE_FORMAT} | asdict(self)
        return json.dumps(state, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Saved:
        """Read it; `CorruptMessage` where the bytes are not such a state."""
        try:
            state = json.loads(bytes(data))
            known = state.pop("format") == STATE_FORMAT
            found = cls(**{field.name: state.pop(field.name) for field in fields(cls)})
            problem = "another format or unknown entries: another Muntin?"
            problem = found.wrong() if known and not state else problem
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as problem:
            raise CorruptMessage(f"not the state of a coordinator: {problem}") from None
        if problem:
            raise CorruptMessage(f"not the state of a coordinator: {problem}")
        return found

    def wrong(self) -> str | None:
        """What is not as it should be; ValueError where a value is out of bounds."""
        numbers = (self.epoch, self.k, self.epsilon)
        if not all(type(number) is int for number in numbers) or not 0 <= self.epoch < 1 << 62:
            return f"epoch, k and epsilon are {numbers}"
        if not isinstance(self.top, list) or not isinstance(self.sites, list):
            return "sites and T must be lists"
        if not all(isinstance(name, str) for name in self.sites):
            return "sites are not names"
        check_sites(self.sites)
        check_k(self.k, self.epsilon)
        for item in self.top:
            check_object(item)
        return None
