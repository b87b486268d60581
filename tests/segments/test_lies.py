"""What no events could have made is refused by name, however well it is sealed."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest

from muntin.errors import CorruptSummary
from muntin.segments.codec import decode, encode
from muntin.segments.columns import Ragged, frozen
from muntin.segments.key_streams import read_keys
from muntin.segments.keys import Keys
from muntin.segments.registry import algebra_of
from muntin.segments.shards import split
from muntin.segments.streams import StreamReader, StreamWriter
from muntin.segments.table import Segment, Table
from muntin.summaries.envelope import canonical
from tests.segments.examples import EXAMPLES, example

HEAD = 40
SIZES = slice(8, 16)  # of the head: bytes of the description


def refused(data: bytes, why: str) -> None:
    with pytest.raises(CorruptSummary, match=why):
        decode(data)


def with_table(segment: Segment, **changed: Any) -> Segment:
    (table,) = segment.tables
    return replace(segment, tables=(replace(table, **changed),))


def with_state(kind: str, name: str, change: Callable[[Any, Table], Any], rows: int = 60) -> bytes:
    segment = example(kind, rows)
    (table,) = segment.tables
    states = {**table.states, name: change(table.states[name], table)}
    return encode(with_table(segment, states=states))


def of_items(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any, Table], Any]:
    return lambda column, _: Ragged(column.starts, frozen(change(column.items.copy())))


def at(place: int, value: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(values: np.ndarray) -> np.ndarray:
        values = values.copy()
        values[place] = value
        return frozen(values)

    return change


SUMS = example("vector_matrix", 60)
TABLE = SUMS.tables[0]
SECOND = split(SUMS, 2)[1]
ONE_ROW = example("vector_matrix", 1)


def with_names(names: list[str]) -> Keys:
    """Their hashes are worked out where they are read."""
    return replace(TABLE.keys, columns=(pa.array(names, pa.large_string()),))


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (replace(SUMS, tables=(TABLE.at(0, 0),)), "a table has no rows"),
        (with_table(SUMS, keys=with_names(["Zürich", "LGA", "JFK", "EWR"])), "not in their order"),
        (with_table(SUMS, keys=with_names(["EWR", "EWR", "JFK", "LGA"])), "not in their order"),
        (with_table(SUMS, key=at(0, 9)(TABLE.key)), "a key is not there"),
        (with_table(SUMS, key=at(0, -1)(TABLE.key)), "a key is not there"),
        (with_table(SUMS, key=at(1, TABLE.key[0])(TABLE.key)), "does not ascend in its slice"),
        (with_table(ONE_ROW, keys=TABLE.keys), "a key is in no row"),
        (with_table(SUMS, key=at(3, 4)(TABLE.key)), "a key is of a rest that cannot be"),
        (replace(SUMS, shard=2), "a key is not of its shard"),
        (replace(SUMS, limit=1), "does not keep to its limit of 1 keys"),
        (with_table(SUMS, events=at(2, 0)(TABLE.events)), "a row has no events, or"),
        (with_table(SUMS, events=at(2, 1 << 62)(TABLE.events)), "a row has no events, or"),
        (replace(SUMS, tables=(TABLE, TABLE)), "two tables have the same key"),
        (replace(SECOND, events=SUMS.events), "a shard tells events that another one tells"),
        (replace(SUMS, events=frozen(0 * SUMS.events)), "a slice has no events, or"),
        (replace(SUMS, events=frozen(SUMS.events // SUMS.events)), "more events than there are"),
        (replace(SUMS, slices=frozen(SUMS.slices + 1)), "a slice that the segment has not"),
    ],
)
def test_rows_that_cannot_be(lie: Segment, why: str) -> None:
    refused(encode(lie), why)


def with_entries(data: bytes, change: Callable[[Any], Any], written: Any = canonical) -> bytes:
    """Sealed again with another description."""
    end = HEAD + int.from_bytes(data[SIZES], "little")
    description = written(change(json.loads(data[HEAD:end])))
    front, back = (int.from_bytes(data[place : place + 8], "little") for place in (16, 24))
    head = data[:8] + len(description).to_bytes(8, "little") + data[16:HEAD] + description
    head += data[end : end + front + back]
    rest = data[end + front + back + 4 : -4]
    sealed = head + google_crc32c.value(head).to_bytes(4, "little") + rest
    return sealed + google_crc32c.value(sealed).to_bytes(4, "little")


def in_table(**entries: Any) -> Callable[[Any], Any]:
    return lambda told: told | {"tables": [told["tables"][0] | entries]}


def in_items(**entries: Any) -> Callable[[Any], Any]:
    return lambda told: in_table(items=told["tables"][0]["items"] | entries)(told)


@pytest.mark.parametrize(
    ("kind", "change", "why"),
    [
        ("distinct", lambda _: [], "its description lacks entries"),
        ("distinct", lambda told: told | {"more": 1}, "its description lacks entries"),
        ("distinct", lambda told: told | {"tables": 1}, "its description lacks entries"),
        ("distinct", lambda told: told | {"tables": [1]}, "a table's description lacks entries"),
        ("distinct", in_table(more=1), "a table's description lacks entries"),
        ("distinct", lambda told: told | {"shard": 1}, "there is no shard 1"),
        ("distinct", lambda told: told | {"shard": "2"}, "'2' shard"),
        ("distinct", lambda told: told | {"kind": "x"}, "unknown kind 'x': written by a newer"),
        ("distinct", lambda told: told | {"kind": 7}, "unknown kind 7"),
        ("distinct", lambda told: told | {"parameters": 7}, "distinct without parameters"),
        ("distinct", lambda told: told | {"limit": True}, "True limit"),
        ("distinct", lambda told: told | {"slices": 1 << 40}, "1099511627776 slices"),
        ("distinct", lambda told: told | {"slices": 4}, "5 numbers where 4 should be"),
        ("distinct", in_table(slices=-1), "-1 slices"),
        ("distinct", in_table(keys=None), "None keys"),
        ("distinct", in_table(keys=5), "4 numbers where 5 should be"),
        ("distinct", in_table(by=["text", "text"]), "key columns have no types"),
        ("distinct", in_table(by=[], types=[]), "4 empty keys"),
        ("distinct", in_table(by=[7]), "key columns are not names"),
        ("distinct", in_table(types=["decimal"]), "key columns of types"),
        ("distinct", in_table(types=[7]), "key columns of types"),
        ("distinct", in_table(types=[None]), "a key without a type is not null"),
        ("distinct", in_table(types=["bool"]), "a key is outside its type"),
        ("top_k", in_items(more=1), "the items of a table lack entries"),
        ("top_k", in_table(items=7), "the items of a table lack entries"),
        ("top_k", in_items(names=[], types=[]), "items have no columns"),
        ("top_k", in_items(types=["int64"]), "."),  # its texts are streams that are too many
    ],
)  # fmt: skip
def test_descriptions_that_cannot_be(kind: str, change: Any, why: str) -> None:
    data = encode(example(kind, 60))
    assert with_entries(data, lambda told: told) == data
    refused(with_entries(data, change), why)


def test_a_description_in_another_form() -> None:
    data = encode(SUMS)
    refused(with_entries(data, lambda told: told, lambda told: json.dumps(told).encode()), "form")
    refused(with_entries(data, lambda told: told, lambda _: b"{"), "is not JSON")
    refused(with_entries(data, lambda told: told, lambda _: b"[" * 100_000), "is not JSON")
    refused("MSEG" * 99, "expected bytes, got str")  # type: ignore[arg-type]


def written(*streams: Any) -> StreamReader:
    """`uint8` as they are, all else as numbers."""
    out = StreamWriter()
    for values in streams:
        if isinstance(values, bytes):
            out.raw(frozen(np.frombuffer(values, np.uint8).copy()))
        else:
            out.numbers(np.array(values, np.int64))
    return StreamReader(*map(memoryview, out.written()))


@pytest.mark.parametrize(
    ("kind", "streams", "why"),
    [
        ("string", (b"\1\1", [1, 1], b"ab"), ""),
        ("string", (b"\1\1", [3, -1], b"ab"), "the length of a key is impossible"),
        ("string", (b"\1\1", [1 << 62, 1 << 62], b"ab"), "the length of a key is impossible"),
        ("string", (b"\1\1", [1, 1], b"a\xff"), "a key is not UTF-8"),
        ("binary", (b"\1\1", [1, 1], b"a\xff"), ""),
        ("string", (b"\1\2", [1, 1], b"ab"), "neither null nor not"),
        ("string", (b"\1\0", [1, 1], b"ab"), "a null key has a value"),
        ("bool", (b"\1\1", [0, 2]), "a key is outside its type"),
        ("bool", (b"\1\1", [-1, 1]), "a key is outside its type"),
        ("date32", (b"\1\1", [0, 1 << 31]), "a key is outside its type"),
        (None, (b"\0\1",), "a key without a type is not null"),
        ("int64", ([1, 1], [3, 4]), "segment: "),
        ("int64", (b"\1\1",), "a stream is missing"),
    ],
)
def test_keys_that_cannot_be(kind: str | None, streams: Sequence[Any], why: str) -> None:
    reader = written(*streams)
    if not why:
        assert len(read_keys(reader, ("k",), [kind], 2, {}, 1 << 20)) == 2
        return
    with pytest.raises(CorruptSummary, match=why):
        read_keys(reader, ("k",), [kind], 2, {}, 1 << 20)


def test_streams_that_cannot_be() -> None:
    with pytest.raises(CorruptSummary, match="the directory is cut"):
        StreamReader(memoryview(b"1234567"), memoryview(b""))
    with pytest.raises(CorruptSummary, match="not 3 zeros"):
        written([1, 2, 3]).zeros(3)
    with pytest.raises(CorruptSummary, match="bytes that are written as numbers"):
        written([1000, 2, 3]).raw(3)
    with pytest.raises(CorruptSummary, match="the length of a list is impossible"):
        written([2, -1], [7], []).lists(2, "int64", keys=False, left=1 << 20)
    with pytest.raises(CorruptSummary, match="more streams than it needs"):
        written([1], [2]).done()


@pytest.mark.parametrize(
    ("kind", "name", "change", "why"),
    [
        ("fingerprint", "prints", of_items(at(0, -1)), "is no set of at most"),
        ("fingerprint", "prints", of_items(at(0, 1 << 62)), "is no set of at most"),
        ("fingerprint", "unranked", lambda _, t: t.events + 1, "more keys without a number"),
        ("fingerprint", "nodes", of_items(at(0, 1 << 40)), "is no digest of its numbers"),
        ("fingerprint", "counts", lambda _, t: None, "nodes without counts"),
        ("frequency", "offset", lambda _, t: at(0, 1)(0 * t.events), "items that no events make"),
        ("frequency", "total", lambda c, _: c + 1, "items that no events make"),
        ("sketched_matrix", "total", lambda c, _: c + 1, "items that no events make"),
        ("sketched_matrix", "i.nulls", lambda _, t: t.events + 1, "'i' has too many nulls"),
        ("sketched_matrix", "i.list", lambda _, t: None, "the sums of 'i' are incomplete"),
        ("quantiles", "nulls", lambda _, t: t.events + 1, "more nulls than events"),
        ("distinct", "nulls", lambda _, t: -t.events, "more nulls than events"),
        ("top_k", "item", of_items(at(0, -1)), "an item is not there"),
        ("top_k", "item", of_items(at(0, 1 << 40)), "an item is not there"),
    ],
)  # fmt: skip
def test_states_that_cannot_be(kind: str, name: str, change: Any, why: str) -> None:
    refused(with_state(kind, name, change, 20), why)


def test_parameters_that_cannot_be() -> None:
    twice = {"indicators": [["i", "int64"], ["i", "float64"]]}
    with pytest.raises(CorruptSummary, match="an indicator stands twice"):
        algebra_of("vector_matrix", EXAMPLES["vector_matrix"].algebra.parameters() | twice)
    told = EXAMPLES["fingerprint"].algebra.parameters()
    with pytest.raises(CorruptSummary, match="domain"):
        algebra_of("fingerprint", told | {"domain": told["domain"] | {"more": 1}})
    keys = example("fingerprint", 20)
    nameless = replace(keys, algebra=replace(keys.algebra, items=None))  # type: ignore[call-arg]
    refused(encode(nameless), "keys without a type")
