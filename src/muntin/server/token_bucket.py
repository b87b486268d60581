"""How often, or how much, somebody may send."""

from __future__ import annotations


class TokenBucket:
    """Fills at a steady rate up to a burst; what is sent is taken out of it.

    Parameters
    ----------
    per_second, burst : float
        In one unit: messages, frames, bytes.
    now : float
        Seconds, on any clock; one that goes back fills nothing.

    Examples
    --------
    >>> bucket = TokenBucket(2.0, 3.0, now=0.0)
    >>> [bucket.spend(0.0) for _ in range(4)], bucket.spend(0.5)
    ([True, True, True, False], True)
    """

    __slots__ = ("_at", "_burst", "_per_second", "_tokens")

    def __init__(self, per_second: float, burst: float, now: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = burst
        self._at = now

    def spend(self, now: float, cost: float = 1.0) -> bool:
        """Whether so much may be sent now; where not, nothing is taken."""
        earned = max(0.0, now - self._at) * self._per_second
        self._tokens = min(self._burst, self._tokens + earned)
        self._at = max(self._at, now)
        if self._tokens < cost:
            return False
        self._tokens -= cost
        return True
