"""Messages as bytes: there and back, and hostile bytes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.errors import BadArgument, CorruptMessage
from muntin.topk import messages as m
from muntin.topk.codec import KINDS, MESSAGE_BYTES_MAX, OBJECTS_MAX, decode, encode

GOLDEN = Path(__file__).parent.parent / "golden" / "topk-messages-v2.bin"
OLD = GOLDEN.with_name("topk-messages-v1.bin")

EXAMPLES: list[m.Message] = [
    m.Hello(0, 7),
    m.Hello(3, -7, 1_700_000_000_000),
    m.Alert(3, 2, 1_700_000_000, 12, 40, 7, ((-4, 9), (5, 0), ("ATL", 1 << 50), ("Zürich", -3))),
    m.Reply(3, 2, 9, -1, 0, -5, (("\0", 0), ("a", 1))),
    m.Calm(1, 1, -2, 300),
    m.Push(65_537, 4, 12, (), -3),
    m.Busy(1, 2, 3, 900, 16),
    m.Request(1, 0, 1, (), 10, None),
    m.Request(1, 0, 2, (1, 2, 3, "x"), 0, 17),
    m.Factors(1, 0, 1, (1, "b"), ((1, -(1 << 62)), ("b", 5))),
    m.Factors(1, 1, 2, None, ()),
    m.Watch(1, 2, 3, 44, ("a", "b"), (("a", 1),)),
]

objects = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
unsigned = st.integers(0, (1 << 63) - 1)
signed = st.integers(-(1 << 63), (1 << 63) - 1)
sets = st.lists(objects, max_size=6, unique=True).map(
    lambda items: tuple(sorted(items, key=m.order))
)
entries = st.dictionaries(objects, signed, max_size=6).map(
    lambda pairs: tuple(sorted(pairs.items(), key=lambda pair: m.order(pair[0])))
)
any_message = st.one_of(
    st.builds(m.Hello, unsigned, signed, unsigned),
    st.builds(m.Alert, unsigned, unsigned, signed, signed, unsigned, unsigned, entries),
    st.builds(m.Reply, unsigned, unsigned, unsigned, signed, signed, signed, entries),
    st.builds(m.Calm, unsigned, unsigned, signed, signed),
    st.builds(m.Push, unsigned, unsigned, signed, entries, signed),
    st.builds(m.Busy, unsigned, unsigned, signed, unsigned, unsigned),
    st.builds(m.Request, unsigned, unsigned, unsigned, sets, unsigned, st.none() | signed),
    st.builds(m.Factors, unsigned, unsigned, unsigned, st.none() | sets, entries),
    st.builds(m.Watch, unsigned, unsigned, unsigned, signed, sets, entries),
)


def test_every_message_has_a_code() -> None:
    assert set(KINDS.values()) == set(get_args(m.Message))


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_examples_there_and_back(message: m.Message) -> None:
    assert decode(encode(message)) == message


@settings(deadline=None)
@given(any_message)
def test_any_message_there_and_back(message: m.Message) -> None:
    data = encode(message)
    assert decode(data) == message
    assert encode(decode(data)) == data


def golden(path: Path) -> list[bytes]:
    data, found = path.read_bytes(), []
    while data:
        size = int.from_bytes(data[:2], "little")
        found.append(data[2 : 2 + size])
        data = data[2 + size :]
    return found


def test_golden_bytes() -> None:
    found = golden(GOLDEN)
    assert [decode(one) for one in found] == EXAMPLES
    assert [encode(message) for message in EXAMPLES] == found


@pytest.mark.parametrize("data", golden(OLD))
def test_an_older_format_is_refused_by_its_number(data: bytes) -> None:
    with pytest.raises(CorruptMessage, match="message format 1 is not 2"):
        decode(data)


def test_hostile_bytes_are_one_error() -> None:
    random_ = random.Random(5)
    blobs = [encode(message) for message in EXAMPLES]
    refused = 0
    for _ in range(5000):
        data = bytearray(random_.choice(blobs))
        for _ in range(random_.randint(1, 4)):
            what = random_.randrange(5)
            at = random_.randrange(len(data)) if data else 0
            if what == 0 and data:
                data[at] = random_.randrange(256)
            elif what == 1:
                del data[at:]
            elif what == 2:
                data.insert(at, random_.randrange(256))
            elif what == 3:
                data += random_.randbytes(random_.randint(1, 12))
            else:
                data[at:at] = b"\xff" * random_.randint(1, 11)
        try:
            message = decode(bytes(data))
        except CorruptMessage:
            refused += 1
        else:
            assert encode(message) == bytes(data)
    assert refused > 2000


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "0 bytes"),
        (b"\x03\x01\x00\x00", "format 3"),
        (b"\x02\x63\x00\x00", "unknown kind 99"),
        (b"\x02\x01\x00", "cut off"),
        (b"\x02\x01\x00\x00\x00\x00", "too many"),
        (b"\x02\x01\x80\x00\x00", "shortest"),
        (b"\x02\x01" + b"\xff" * 12, "64 bits"),
        (b"\x02\x05\x01\x01\x00\xff\xff\xff\x7f", "cannot be in"),
        (b"\x02\x05\x01\x01\x00\x00\x01\x02\xff\xff\x00", "UTF-8"),
        (b"\x02\x05\x01\x01\x00\x00\x02\x01b\x01a\x00\x00", "not sorted"),
        (bytes(MESSAGE_BYTES_MAX + 1), "bytes are no message"),
    ],
)
def test_named_bad_bytes(data: bytes, said: str) -> None:
    with pytest.raises(CorruptMessage, match=said):
        decode(data)


def test_no_message_takes_long_to_read() -> None:
    with pytest.raises(BadArgument, match="419,430 at most"):
        encode(m.Request(1, 0, 1, (*range(OBJECTS_MAX + 1),)))
    count = b"\xe7\xcc\x19"  # 419,431
    with pytest.raises(CorruptMessage, match="419431 objects cannot be"):
        decode(b"\x02\x06\x01\x00\x01" + count + bytes(OBJECTS_MAX + 100))


def test_what_is_not_bytes_is_refused() -> None:
    with pytest.raises(CorruptMessage, match="expected bytes"):
        decode("text")  # pyright: ignore


@pytest.mark.parametrize(
    "message",
    [
        m.Hello(-1, 0),
        m.Hello(0, 1 << 63),
        m.Hello(0, 0, -1),
        m.Push(0, 0, 0, ((2, 0), (1, 0))),
        m.Push(0, 0, 0, (("a", 0), ("a", 0))),
        m.Push(0, 0, 0, (("a", 0), (1, 0))),
    ],
)
def test_fields_that_cannot_be_sent(message: m.Message) -> None:
    with pytest.raises(BadArgument):
        encode(message)
