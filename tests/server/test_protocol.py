"""The protocol without I/O: a model of clients that stall and come back, and fuzz."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muntin.errors import BadArgument
from muntin.server import protocol
from muntin.server.auth import OPERATE, READ, Grant
from muntin.server.channel import BEGINNING, Channel, Frame, Place, Pushed, frame
from muntin.server.limits import ServerLimits
from muntin.server.messages import BadMessage, LiveCommand, Subscribe, parse
from muntin.server.protocol import Connection

LIMITS = ServerLimits(ring_messages_max=4, replay_messages_max=3, subscriptions_max=3)
SUBSCRIBE = {"type": "subscribe", "id": "w", "windows": True}
OPERATOR = Grant(OPERATE, "test")


class World(RuleBasedStateMachine):
    """A ledger, two feeds and one client, which reads when it likes."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.closed = []  # what the ledger holds, in order
        self.windows = Channel(1, "window", Place(1, 0), LIMITS)
        self.moves = Channel(2, "update", BEGINNING, LIMITS)
        self.after = None
        self.received = []  # windows that the client has, over all of its connections
        self.updates = []
        self.connect()

    def connect(self):
        self.connection = Connection(OPERATOR, "run", self.now, LIMITS)
        self.replays = []
        self.subscribed = self.moving = False
        self.answers = []

    def say(self, **message):
        effects = self.connection.receive(json.dumps(message), self.now)
        for effect in effects:
            if isinstance(effect, Subscribe):
                channel = self.windows if effect.topic.on == "window" else self.moves
                assert not self.connection.opened(effect, channel)
            if isinstance(effect, LiveCommand):
                assert not self.connection.answered(effect, {"done": True})
        return effects

    @rule()
    def a_window_closes(self):
        place = Place(1, len(self.closed) + 1)
        pushed = Pushed(place, frame({"type": "window", "after": str(place)}))
        self.closed.append(pushed)
        self.windows.close_window(place, pushed.frame)

    @rule(many=st.integers(1, 9))
    def windows_close_that_only_the_ledger_has(self, many):
        for _ in range(many):
            place = Place(1, len(self.closed) + 1)
            self.closed.append(Pushed(place, frame({"type": "window", "after": str(place)})))
        self.windows.skip_to(place)

    @rule()
    def it_moves(self):
        self.moves.update(frame({"type": "result", "seq": self.moves.seq + 1}))

    @precondition(lambda self: not self.subscribed and not self.connection.closed)
    @rule()
    def subscribe(self):
        if self.after is None:
            self.start = len(self.closed)
        self.say(**SUBSCRIBE, **({"after": self.after} if self.after else {}))
        self.subscribed = not self.connection.closed

    @precondition(lambda self: not self.moving and not self.connection.closed)
    @rule()
    def follow(self):
        self.say(type="subscribe", id="u", select="SELECT 1", on="update")
        self.moving = not self.connection.closed

    @precondition(lambda self: not self.connection.closed)
    @rule(action=st.sampled_from(["slow_down", "resume"]))
    def command(self, action):
        self.say(type=action, id="c")

    @rule(many=st.integers(1, 12))
    def read(self, many):
        for _ in range(many):
            item = self.connection.next_frame()
            if item is None:
                return
            if isinstance(item, protocol.ReplayWindows):
                missed = [p for p in self.closed if item.after < p.place <= item.channel.floor]
                self.replays.append((item, missed))  # the ledger answers later
            else:
                self.hear(json.loads(item.text))

    def hear(self, message):
        if message["type"] == "window":
            self.received.append(message["after"])
            self.after = message["after"]
        elif message["type"] == "result":
            self.updates.append(message["seq"])
        elif message["type"] == "subscribed" and message["on"] == "window":
            self.after = message.get("after", self.after)
        else:
            self.answers.append(message)

    @precondition(lambda self: self.replays)
    @rule()
    def the_ledger_answers(self):
        request, missed = self.replays.pop(0)
        self.connection.replayed(request, missed[: LIMITS.replay_messages_max], None)

    @precondition(lambda self: self.replays)
    @rule()
    def the_ledger_cannot_be_read(self):
        self.replays.pop(0)
        self.connection.replay_failed()

    @precondition(lambda self: not self.connection.closed)
    @rule(grant=st.sampled_from([OPERATOR, Grant(READ, "test"), None]))
    def the_token_is_looked_at_again(self, grant):
        effects = self.connection.rechecked(grant)
        if grant == OPERATOR:
            assert effects == []
            return
        assert effects[0].code == protocol.UNAUTHORISED
        assert len(effects) == 1 + self.subscribed + self.moving  # and leaves all channels
        assert self.connection.next_frame() is None
        assert not self.connection._subscriptions
        self.connect()

    @rule()
    def the_client_is_lost(self):
        self.connection.lost()
        assert not self.connection._subscriptions
        self.connect()

    @precondition(lambda self: not self.connection.closed)
    @rule(seconds=st.floats(0.1, 20))
    def it_stalls(self, seconds):
        news = self.connection.has_news()
        if news:
            self.connection.stalled(self.now)
        self.now += seconds
        effects = self.connection.tick(self.now)
        if news and seconds > LIMITS.write_stall_seconds + 0.001:
            assert effects
        if effects:
            assert effects[0].code == protocol.SLOW
            assert len(effects[0].reason.encode()) <= 120
            assert self.connection.next_frame() is None
            self.connect()

    @rule()
    def everything_is_read(self):
        """Whoever reads on has, in the end, every window that closed since it came."""
        while self.connection.has_news() or self.replays:
            self.read(1)
            while self.replays:
                self.the_ledger_answers()
        if self.subscribed:
            assert len(self.received) == len(self.closed) - self.start
        if self.moving and self.moves.seq:
            assert self.updates[-1] == self.moves.seq

    @invariant()
    def no_window_is_passed_over(self):
        start = getattr(self, "start", 0)
        expected = [str(p.place) for p in self.closed[start:]]
        assert self.received == expected[: len(self.received)]

    @invariant()
    def what_is_held_is_bounded(self):
        assert len(self.connection._answers) <= LIMITS.answers_waiting_max
        assert len(self.windows._ring) <= LIMITS.ring_messages_max
        held = [len(s.backlog) for s in self.connection._subscriptions.values()]
        assert sum(held) <= LIMITS.replay_messages_max + 2
        assert len(self.replays) + bool(sum(held)) <= 1


def test_who_leaves_before_the_feed_is_there_has_left():
    connection = Connection(OPERATOR, "run", 0.0, ServerLimits(subscriptions_max=2))
    say = lambda message: connection.receive(json.dumps(message), 0.0)  # noqa: E731
    (first,) = say(SUBSCRIBE)
    assert say({"type": "unsubscribe", "id": "w"}) == []
    (second,) = say({**SUBSCRIBE, "windows": "orders"})
    assert say({**SUBSCRIBE, "id": "x"}) == []  # what is being opened counts until it is there
    channels = [Channel(n, "window", Place(1, 0), LIMITS) for n in (1, 2)]
    assert connection.opened(first, channels[0]) == [protocol.Leave(channels[0])]
    assert connection.opened(second, channels[1]) == []
    assert [s.channel for s in connection._subscriptions.values()] == [channels[1]]
    said = [json.loads(connection.next_frame().text)["type"] for _ in range(4)]
    assert said == ["welcome", "unsubscribed", "error", "subscribed"]
    assert connection.next_frame() is None


def test_a_channel_is_left_with_the_last_of_its_subscriptions():
    connection, channel = Connection(OPERATOR, "run", 0.0, LIMITS), Channel(1, "window")
    say = lambda message: connection.receive(json.dumps(message), 0.0)  # noqa: E731
    for name in "ab":
        (opening,) = say({**SUBSCRIBE, "id": name})
        connection.opened(opening, channel)
    assert say({"type": "unsubscribe", "id": "a"}) == []
    assert say({"type": "unsubscribe", "id": "b"}) == [protocol.Leave(channel)]


def test_what_was_missed_is_held_for_one_subscription_at_a_time():
    """And each of them hears all of it, in order."""
    connection = Connection(OPERATOR, "run", 0.0, LIMITS)
    channels = [Channel(n, "window", BEGINNING, LIMITS) for n in range(3)]
    closed = [Pushed(Place(1, n), frame({"after": f"1.{n}"})) for n in range(1, 12)]
    for n, channel in enumerate(channels):
        (opening,) = connection.receive(json.dumps({**SUBSCRIBE, "id": str(n), "after": "0"}), 0.0)
        connection.opened(opening, channel)
        channel.skip_to(closed[-1].place)
    heard, asked = [], []
    while connection.has_news() or asked:
        item = connection.next_frame()
        if isinstance(item, Frame):
            heard += [item.after] if item.after else []
            continue
        asked += [item] if item else []
        assert len(asked) == 1
        held = [len(s.backlog) for s in connection._subscriptions.values()]
        assert sum(held) == 0
        request = asked.pop()
        missed = [p for p in closed if p.place > request.after]
        connection.replayed(request, missed[: LIMITS.replay_messages_max], None)
    for pushed in closed:
        assert heard.count(pushed.frame.after) == len(channels)


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


# An operator's message may hold any JSON; only messages are messages.
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
entries = st.dictionaries(
    st.sampled_from(["type", "id", "select", "query", "windows", "state", "on", "after",
                     "ticket", "pipeline", "summary", "x"]),
    json_values
    | st.sampled_from(["hello", "subscribe", "unsubscribe", "slow_down", "resume", "window",
                       "update", True, "1.s.2.3", "9" * 400]),
)  # fmt: skip


@pytest.mark.parametrize(("text", "said", "identifier", "fatal"), [
    (r'{"type":"subscribe","id":"\ud800","state":true}', "id: holds half a surrogate", "", False),
    (r'{"type":"subscribe","id":"a","select":"\udfff"}', "select: holds half", "a", False),
    (r'{"type":"unsubscribe","id":"a","\ud800":1}', r"'\ud800': there is no such", "a", False),
    ('{"type":"unsubscribe","id":"a","id":"b"}', "'id': stands twice", "", False),
    ('{"type":"unsubscribe","id":"a","x":{"y":1,"y":2}}', "'y': stands twice", "", False),
    ('{"type":"unsubscribe","id":1e999}', "id: text of at most", "", False),
    ('{"type":"unsubscribe","id":-0}', "id: text of at most", "", False),
    ('{"type":"unsubscribe","id":null}', "id: text of at most", "", False),
    ('{"type":["unsubscribe"],"id":"a"}', "type: one of", "a", False),
    ('{"type":"subscribe","id":"a","windows":1}', "windows: text", "a", False),
    ('{"type":"subscribe","id":"a","state":1e400}', "state: true", "a", False),
    ('{"type":"unsubscribe","id":NaN}', "a message is one JSON object", "", True),
    ('{"type":"unsubscribe","id":-Infinity}', "a message is one JSON object", "", True),
    ('{"type":"unsubscribe","id":%s}' % ("9" * 5_000), "a message is one JSON object", "", True),
    ("[" * 60_000, "a message is one JSON object", "", True),
    ('{"a":' * 12_000, "a message is one JSON object", "", True),
    ('"x"', "a message is one JSON object", "", True),
    ("", "a message is one JSON object", "", True),
    ("\ufeff{}", "a message is one JSON object", "", True),
    ('{"id":"\x00"}', "a message is one JSON object", "", True),
], ids=range(20))  # fmt: skip
def test_odd_json_is_one_clear_error(text, said, identifier, fatal):
    with pytest.raises(BadMessage) as bad:
        parse(text)
    assert str(bad.value).startswith(said)
    assert (bad.value.id, bad.value.fatal) == (identifier, fatal)
    connection = Connection(Grant(READ, "x"), "run", 0.0, LIMITS)
    connection.next_frame()
    effects = connection.receive(text, 0.0)
    if fatal:
        assert effects[0].code == 4000
    else:
        answer = json.loads(connection.next_frame().text)
        assert (answer["type"], answer["code"], answer["id"]) == ("error", "message", identifier)


@given(entries)
@settings(max_examples=300)
def test_any_json_is_a_message_or_refused(given_entries):
    with contextlib.suppress(BadMessage):
        parse(json.dumps(given_entries))


@given(st.text() | st.binary().map(lambda b: b.decode("latin-1")))
@settings(max_examples=200)
def test_any_text_is_a_message_or_refused(text):
    with pytest.raises(BadMessage):
        parse(text)


@given(st.lists(entries, max_size=60), st.lists(st.floats(0, 3), min_size=60, max_size=60))
@settings(max_examples=150)
def test_no_conversation_breaks_the_machine(conversation, pauses):
    connection, now = Connection(Grant(READ, "x"), "run", 0.0, LIMITS), 0.0
    for said, pause in zip(conversation, pauses, strict=False):
        now += pause
        for effect in connection.receive(json.dumps(said), now):
            if isinstance(effect, Subscribe):
                connection.opened(effect, Channel(1, effect.topic.on))
            assert not isinstance(effect, LiveCommand)  # a reader may not command
        connection.tick(now)
        connection.next_frame()


def test_the_rate_is_limited():
    connection = Connection(OPERATOR, "run", 0.0, LIMITS)
    effects = [connection.receive('{"type":"unsubscribe","id":"x"}', 0.0) for _ in range(41)]
    assert effects[-1][0].code == protocol.TOO_FAST
    assert not any(effects[:-1])


def test_answers_that_nobody_reads_are_bounded():
    limits = ServerLimits(answers_waiting_max=3)
    connection = Connection(OPERATOR, "run", 0.0, limits)
    for _ in range(3):
        effects = connection.receive("{}", 0.0)
    assert effects[0].code == protocol.SLOW


def test_commands_that_nobody_answers_are_bounded():
    connection = Connection(OPERATOR, "run", 0.0, LIMITS)
    asked = [connection.receive('{"type":"resume"}', 0.0) for _ in range(9)]
    assert [bool(effects) for effects in asked] == [True] * 8 + [False]


@given(st.text(max_size=70_000))
@settings(max_examples=60)
def test_frames_are_websocket_frames(text):
    from websockets.frames import Frame as TheirFrame
    from websockets.frames import Opcode

    assert Frame(text).wire == TheirFrame(Opcode.TEXT, text.encode()).serialize(mask=False)
    assert Frame(text).text == text


def test_places_only_grow_and_read_back():
    channel = Channel(1, "window")
    place = Place(5, 3)
    channel.close_window(place, frame({}))
    with pytest.raises(BadArgument, match="only grow"):
        channel.close_window(place, frame({}))
    assert Place.parse(str(place)) == place
    for text in ("", "1.x", "1.S.2.3", "x.s.2.3", "1.s.2.3 ", "1.s.2.3\n", "١.s.2.3"):
        with pytest.raises(BadArgument):
            Place.parse(text)
