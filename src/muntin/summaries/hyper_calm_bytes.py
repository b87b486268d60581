"""The body of a HyperCalm's bytes: written, and read back with everything in it checked."""

from __future__ import annotations

import numpy as np

from muntin.errors import CorruptSummary
from muntin.summaries.aligned import aligned_zeros
from muntin.summaries.calm_tables import decode, encode, named_slots
from muntin.summaries.hyper_calm_plan import BLOOM_BLOCK_BYTES, HyperCalmParameters
from muntin.summaries.kernels.calm_space_saving import INTERVAL, LAST, CalmTables
from muntin.summaries.kernels.recorder import HALF_TICKS, WAYS, Recorder
from muntin.summaries.named_pairs import LOW

State = tuple[np.ndarray, np.ndarray, Recorder, CalmTables]


def encode_state(
    words: np.ndarray, stamps: np.ndarray, recorder: Recorder, tables: CalmTables
) -> bytes:
    """HyperBloom, recorder, tables of pairs."""
    parts = [words.astype("<u8"), stamps.astype("<u4")]
    parts += [part.astype("<u4") for part in recorder]
    return b"".join([*(part.tobytes() for part in parts), encode(tables)])


def decode_state(
    kind: str,
    body: memoryview,
    parameters: HyperCalmParameters,
    items: str | None,
    last: int | None,
) -> State:
    """What `encode_state` wrote; sizes are compared before anything is allocated.

    Parameters
    ----------
    items : str or None
        Type of the items, None before the first event.
    last : int or None
        Time of the last event.

    Raises
    ------
    CorruptSummary
        Another length, or a state that no stream leads to.
    """
    blocks = parameters.bloom_blocks
    sizes = parameters.recorder_sizes()
    fixed = blocks * BLOOM_BLOCK_BYTES + 4 * sum(sizes)
    if len(body) < fixed:
        raise CorruptSummary(f"{kind}: {len(body)} bytes of state, expected {fixed} and more")
    tables = decode(kind, body[fixed:], parameters.shape, items, parameters.promote)
    words = aligned_zeros(blocks * 8, np.uint64)
    words[:] = np.frombuffer(body[: blocks * 64], "<u8")
    at = blocks * BLOOM_BLOCK_BYTES
    stamps = np.frombuffer(body[blocks * 64 : at], "<u4").astype(np.uint32)
    recorder = parameters.make_recorder()
    for part, size in zip(recorder, sizes, strict=True):
        part[:] = np.frombuffer(body[at : at + 4 * size], "<u4")
        at += 4 * size
    free = _check_recorder(kind, recorder, parameters)
    if last is None and (words.any() or stamps.any() or not free.all()):
        raise CorruptSummary(f"{kind}: items are followed, but no event was taken")
    _check_named(kind, tables, parameters, 0 if last is None else last)
    return words, stamps, recorder, tables


def _check_recorder(kind: str, recorder: Recorder, parameters: HyperCalmParameters) -> np.ndarray:
    """Which places are free."""
    lines = recorder.lines.reshape(-1, 2 * WAYS)
    free = lines[:, :WAYS].ravel() == 0
    for part in (lines[:, WAYS:].ravel(), *recorder[1:]):
        if len(part) and part[free].any():
            raise CorruptSummary(f"{kind}: a free place of the recorder is not empty")
    sizes = recorder.sizes
    if len(sizes) and ((sizes > parameters.batch_size).any() or (sizes[~free] == 0).any()):
        raise CorruptSummary(f"{kind}: a batch of the recorder has an impossible size")
    return free


def _check_named(kind: str, tables: CalmTables, parameters: HyperCalmParameters, last: int) -> None:
    named = tables.slots[named_slots(tables)]
    usual = named[:, INTERVAL] >> 32
    good = (named[:, INTERVAL] >= 0) & (usual >= 1) & (named[:, LAST] <= last)
    if good.all():
        longest = int(HALF_TICKS) * parameters.resolution
        low, _ = parameters.edges(named[:, INTERVAL] & LOW, aligned=True)
        good = low < longest
    if not good.all():
        raise CorruptSummary(f"{kind}: a named pair with impossible times")
