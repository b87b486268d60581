"""Frequent items beside other sketches: error at equal bytes, speed, merging.

    python benchmarks/peers/frequency.py [--short] [--keep] [--check]

Packages: benchmarks/peers/requirements.txt. Strings of a Zipf distribution, in Arrow batches for
ours and asap_sketchlib, a crate that Cargo makes a library of (asap/); the others take a list of
Python strings, made beforehand and not timed. Of RedisBloom the server's processor time alone
counts, with a thousand items a command. The error is that of the counts of the 1,000 truly most
frequent items, in parts per million of all events; recall is of the 100 most frequent among the
sketch's first 100. Cuckoo Heavy Keeper (arXiv 2412.12873), which no package has, is rebuilt in C
(rebuilt/sketches.c), and hashes as ours does; it keeps fingerprints of the names, and lists none.

Bytes are those of the serialized form (of Redis, of DUMP). Rows with a size have as many counters
as ours; those that are fitted as many as take no more bytes than ours in 100,000 events.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import datasketches
import numpy as np
import pyarrow as pa
from _redis_bloom import server
from asap import Asap, is_there
from crick import SpaceSaving as CrickSpaceSaving
from rebuilt import Rebuilt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from _record import Table, compared, main

from muntin.summaries import CountMin, SpaceSaving
from muntin.summaries.items import hash_items

AS_EXACT = "Muntin SpaceSaving, 1,300"  # as Cuckoo Heavy Keeper, at least
HEAVY, COUNTING = "Muntin SpaceSaving, 1,500", "Muntin Count-Min, 2,048 x 5"
NAMES = pa.array([f"item-{i:07d}" for i in range(10**6 + 1)])


class Peer(NamedTuple):
    make: Callable[[pa.Array, list[str]], Any]
    counts: Callable[[Any, list[str]], np.ndarray]
    size: Callable[[Any], int]
    first: Callable[[Any], list[str]] | None
    beside: str = HEAVY
    clock: Callable[[], float] = time.process_time


def ours(make: Callable[[], Any]) -> Callable[[pa.Array, list[str]], Any]:
    def made(column: pa.Array, items: list[str]) -> Any:
        del items
        summary = make()
        for at in range(0, len(column), 65_536):
            summary.update(column.slice(at, 65_536))
        return summary

    return made


def theirs(make: Callable[[], Any], add: str = "update") -> Callable[[pa.Array, list[str]], Any]:
    def made(column: pa.Array, items: list[str]) -> Any:
        del column
        sketch = make()
        update = getattr(sketch, add)
        for item in items:
            update(item)
        return sketch

    return made


def cuckoo(column: pa.Array, items: list[str]) -> Rebuilt:
    del items
    sketch = Rebuilt("cuckoo", 10_240, 1 / 1_500, 1)
    for at in range(0, len(column), 65_536):
        sketch.update(hash_items(column.slice(at, 65_536), 0))
    return sketch


def frequent(sketch: Any) -> list[str]:
    no_false = datasketches.frequent_items_error_type.NO_FALSE_NEGATIVES
    return [row[0] for row in sketch.get_frequent_items(no_false)][:100]


def of_crick(sketch: Any, asked: list[str]) -> np.ndarray:
    known = {counter["item"]: counter["count"] for counter in sketch.counters()}
    return np.array([known.get(item, 0) for item in asked])


def peers() -> dict[str, Peer]:
    heavy = {
        name: Peer(
            ours(partial(SpaceSaving, capacity)),
            lambda s, asked: s.estimate(asked).value,
            lambda s: len(s.to_bytes()),
            lambda s: s.top(100)["item"].to_pylist(),
        )
        for name, capacity in ((HEAVY, 1_500), (AS_EXACT, 1_300))
    }
    found = heavy | {
        "DataSketches frequent items, 2^11": Peer(
            theirs(lambda: datasketches.frequent_strings_sketch(11)),
            lambda s, asked: np.array([s.get_estimate(item) for item in asked]),
            lambda s: len(s.serialize()),
            frequent,
        ),
        "crick SpaceSaving, 1,500": Peer(
            theirs(lambda: CrickSpaceSaving(1_500, dtype="object"), "add"),
            of_crick,
            lambda s: sum(len(counter["item"]) + 16 for counter in s.counters()),
            lambda s: [found["item"] for found in s.topk(100)],
        ),
        "Cuckoo Heavy Keeper (rebuilt)": Peer(
            cuckoo,
            lambda s, asked: s.ask(hash_items(pa.array(asked), 0), dtype=np.int64),
            lambda s: s.nbytes,
            None,
        ),
        COUNTING: Peer(
            ours(lambda: CountMin(2_048, 5)),
            lambda s, asked: s.estimate(asked).value,
            lambda s: len(s.to_bytes()),
            None,
            COUNTING,
        ),
        "Muntin Count-Min, conservative": Peer(
            ours(lambda: CountMin(2_048, 5, conservative=True)),
            lambda s, asked: s.estimate(asked).value,
            lambda s: len(s.to_bytes()),
            None,
            COUNTING,
        ),
        "DataSketches Count-Min, 2,048 x 5": Peer(
            theirs(lambda: datasketches.count_min_sketch(5, 2_048)),
            lambda s, asked: np.array([s.get_estimate(item) for item in asked]),
            lambda s: len(s.serialize()),
            None,
            COUNTING,
        ),
    }
    return found | of_asap() | of_redis()


def of_asap() -> dict[str, Peer]:
    if not is_there():
        return {}

    def peer(beside: str, *arguments: Any) -> Peer:
        return Peer(
            ours(partial(Asap, *arguments)),
            lambda s, asked: s.ask(pa.array(asked)),
            lambda s: s.nbytes,
            (lambda s: s.first(100)) if beside == HEAVY else None,
            beside,
        )

    return {
        f"asap_sketchlib {name}": peer(beside, *arguments)
        for name, beside, *arguments in (
            ("SpaceSaving, 1,500", HEAVY, "space-saving", 1_500),
            ("SpaceSaving, fitted", HEAVY, "space-saving", 540),
            ("CMS and heap, fitted", HEAVY, "count-min-heap", 3, 2_048, 100),
            ("CS and heap, fitted", HEAVY, "count-heap", 5, 1_200, 100),
            ("Count-Min, 2,048 x 5", COUNTING, "count-min", 5, 2_048),
            ("Count-Min, fixed", COUNTING, "count-min-fixed", 5, 2_048),
            ("Count-Min, fitted", COUNTING, "count-min", 3, 2_200),
            ("Count Sketch, fitted", COUNTING, "count", 5, 1_200),
            ("Hydra, 2,048 x 5", COUNTING, "hydra", 5, 2_048),
        )
    }


def of_redis() -> dict[str, Peer]:
    redis = server()
    if redis is None:
        return {}

    def size(key: str) -> int:
        return len(redis.call("DUMP", key))

    return {
        "RedisBloom TopK, fitted": Peer(
            redis.makes("TOPK.RESERVE", "TOPK.ADD", 100, 460, 2, 0.9),
            lambda key, asked: np.array(redis.call("TOPK.COUNT", key, *asked)),
            size,
            lambda key: [name.decode() for name in redis.call("TOPK.LIST", key)],
            HEAVY,
            redis.seconds,
        ),
        "RedisBloom Count-Min, 2,048 x 5": Peer(
            redis.makes("CMS.INITBYDIM", "CMS.INCRBY", 2_048, 5, counts=True),
            lambda key, asked: np.array(redis.call("CMS.QUERY", key, *asked)),
            size,
            None,
            COUNTING,
            redis.seconds,
        ),
    }


def row_of(
    name: str, peer: Peer, mine: Peer, column: pa.Array, items: list[str], repeats: int
) -> list[Any]:
    truth = Counter(items).most_common(1_000)
    asked = [item for item, _ in truth]
    sketch = peer.make(column, items)
    off = np.asarray(peer.counts(sketch, asked), float) - [count for _, count in truth]
    first = peer.first(sketch) if peer.first else None

    def build() -> Any:
        return mine.make(column, items)

    built, seconds = compared(
        build,
        build if peer is mine else lambda: peer.make(column, items),
        repeats,
        peer.clock,
    )
    return [
        name,
        peer.size(sketch),
        round(1e6 * float(np.sqrt(np.mean(off**2))) / len(items), 2),
        "" if first is None else len(set(first) & set(asked[:100])) / 100,
        built,
        round(1e9 * seconds / len(items), 1),
    ]


def measure(short: bool) -> Iterable[Table]:
    count, repeats = (100_000, 3) if short else (1_000_000, 5)
    for exponent in (1.05, 1.2):
        rng = np.random.default_rng(1)
        column = NAMES.take(pa.array(np.minimum(rng.zipf(exponent, count), 10**6)))
        items = column.to_pylist()
        table = Table(
            f"zipf-{exponent}",
            f"{count:,} strings, Zipf {exponent}: times as long as ours to take in",
            ["sketch", "bytes", "error, ppm of events", "recall of 100", "build", "ns an item"],
            note="Above 1, ours is faster: each against ours of its kind. Fitted: as large as "
            "takes no more bytes than ours. CMS, CS: Count-Min and Count Sketch, which keep names "
            "in a heap. Fixed: 2,048 x 5 when compiled; no serialized form, so its memory.",
        )
        every = peers()
        for name, peer in every.items():
            mine = every[peer.beside]
            table.rows.append(row_of(name, peer, mine, column, items, repeats))
        yield table


if __name__ == "__main__":
    main("peers-frequency", measure, ["datasketches", "crick", "numpy"], __doc__)
