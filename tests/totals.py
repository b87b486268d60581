"""How much the long forms of tests do, and from which seed: see `make chaos`."""

from __future__ import annotations

import os
import secrets

SEED = int(os.environ.get("MUNTIN_SEED", "0")) or secrets.randbelow(1 << 40)
"""Another in each run; whoever uses it says it where it fails."""


def total(what: str, usual: int) -> int:
    """MUNTIN_<what> of the environment."""
    return int(os.environ.get(f"MUNTIN_{what}", usual))
