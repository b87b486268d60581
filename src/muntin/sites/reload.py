"""A coordinator's file that changes while it runs: k and epsilon are taken over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from muntin.errors import MuntinError
from muntin.sites.spec import CoordinatorSpec

LOOK_SECONDS = 1.0
_LOG = logging.getLogger("muntin.sites")


async def follow(
    path: Path, seen: int | None, spec: CoordinatorSpec, set_k: Callable[[int, int], None]
) -> None:
    """Look at the file until cancelled; a wrong one is reported and not taken over.

    `seen` is what `changed_at` said before `spec` was read.
    """
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = changed_at(path)
        if now is None or now == seen:
            continue
        seen = now
        try:
            fresh = await asyncio.to_thread(CoordinatorSpec.of, path)
        except MuntinError as problem:
            _LOG.warning("%s has changed and is not taken over: %s", path, problem)
            continue
        if (fresh.k, fresh.epsilon) != (spec.k, spec.epsilon):
            set_k(fresh.k, fresh.epsilon)
            _LOG.warning("%s: k is %s and epsilon %s from now on", path, fresh.k, fresh.epsilon)
        taken = {"k": fresh.k, "epsilon": fresh.epsilon}
        if fresh != spec.model_copy(update=taken):
            _LOG.warning("%s: what else has changed is taken over at the next start", path)
        spec = spec.model_copy(update=taken)


def changed_at(path: Path) -> int | None:
    """When the file was written last, in nanoseconds; None where there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
