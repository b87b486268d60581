"""One client's side of /live as a state machine: texts and times in, frames and effects out.

No I/O and no clock: the shell (`live.py`) feeds it, writes `next_frame()` while the socket takes
it, and carries out effects. docs/server.md describes the protocol.

A client holds places in channels instead of a queue of messages, so that "the newest wins" needs
no dropping, and a closed window is passed over only when it was sent or announced as a gap.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from muntin.server.auth import Grant
from muntin.server.channel import BEGINNING, Channel, Frame, Place, Pushed, frame
from muntin.server.limits import ServerLimits, TokenBucket
from muntin.server.messages import (
    PROTOCOL,
    BadMessage,
    LiveCommand,
    LiveHello,
    Subscribe,
    Unsubscribe,
    parse,
)
from muntin.server.problems import plain

GOING_AWAY = 1001
SILENT = 1011
BAD_MESSAGE = 4000
UNAUTHORISED = 4001
SLOW = 4008
TOO_FAST = 4029
NO_PONG = "no pong came in time"


@dataclass(frozen=True, slots=True)
class Close:
    """Send this close code, then end the connection."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """A channel has lost this subscriber."""

    channel: Channel


@dataclass(frozen=True, slots=True)
class ReplayWindows:
    """Read closed windows after a place, up to another, from the ledger; call `replayed`."""

    id: str
    channel: Channel
    after: Place
    until: Place


Effect = Close | Leave | LiveHello | Subscribe | LiveCommand
"""A message among them is for the shell to do: redeem the ticket, and call `redeemed`; find or make
the feed of a topic, and call `opened`, or put a command before the pipeline, and call `answered`;
or `failed`."""


@dataclass(slots=True)
class _FollowedQuery:
    id: str
    channel: Channel
    seq: int = 0
    """Of the newest update that was sent."""
    place: Place = BEGINNING
    """Of the newest closed window that was sent."""
    backlog: deque[Pushed | Frame] = field(default_factory=deque)
    """Replayed from the ledger; a few at a time."""


class Connection:
    """One client, which must say hello with a ticket first where it has no `grant`. `run`: tells
    one life of the server from the next. `now`: seconds, on any clock that does not go back."""

    def __init__(
        self, grant: Grant | None, run: str, now: float, limits: ServerLimits | None = None
    ) -> None:
        self.limits = limits or ServerLimits()
        self.grant = grant
        self.closed: Close | None = None
        self._run = run
        self._answers: deque[Frame] = deque()
        self._subscriptions: dict[str, _FollowedQuery] = {}
        self._opening: dict[str, Subscribe] = {}
        self._unopened = 0  # those that the client has left since among them
        self._asking = 0
        self._replaying: ReplayWindows | None = None
        """One at a time, and none before what the last one found is sent: else a client that reads
        nothing would have a copy of what it missed for each of its subscriptions."""
        self._turn: deque[str] = deque()
        self._since = now
        self._messages = TokenBucket(
            self.limits.messages_per_second, self.limits.messages_burst, now
        )
        self._stalled_since: float | None = None
        if grant is not None:
            self._welcome(grant)

    # what comes in

    def receive(self, text: str, now: float) -> list[Effect]:
        if self.closed:
            return []
        if not self._messages.spend(now):
            return self.leave(TOO_FAST, "too many messages a second")
        try:
            message = parse(text)
        except BadMessage as bad:
            if bad.fatal or self.grant is None:
                return self.leave(BAD_MESSAGE, str(bad))
            return self._fail(bad.id, "message", str(bad))
        if isinstance(message, LiveHello):
            if self.grant is not None:
                return self._fail("", "message", "hello: is said once")
            return [message]
        if self.grant is None:
            return self.leave(UNAUTHORISED, "say hello with a ticket first")
        if isinstance(message, Subscribe):
            return self.subscribe(message)
        if isinstance(message, Unsubscribe):
            return self._unsubscribe(message.id)
        if not self.grant.may_command:
            return self._fail(message.id, "forbidden", f"you may read, not {message.action}")
        if self._asking >= self.limits.commands_waiting_max:
            return self._fail(message.id, "busy", "earlier commands are not answered yet")
        self._asking += 1
        return [message]

    def redeemed(self, grant: Grant | None) -> list[Effect]:
        """What the ticket of its hello gives."""
        if grant is None:
            return self.leave(UNAUTHORISED, "the ticket is unknown, used or too old")
        self.grant = grant
        self._welcome(grant)
        return []

    def rechecked(self, grant: Grant | None) -> list[Effect]:
        """What auth says now of who came in: long connections outlive tokens."""
        if self.closed or self.grant is None or grant == self.grant:
            return []
        if grant is None:
            return self.leave(UNAUTHORISED, "the token is no longer valid")
        return self.leave(UNAUTHORISED, "your rights have changed: come in again")

    def subscribe(self, request: Subscribe) -> list[Effect]:
        """Follow a topic, as a message may ask for it."""
        if request.id in self._subscriptions or request.id in self._opening:
            return self._fail(request.id, "message", f"id {request.id!r} is subscribed already")
        if len(self._subscriptions) + self._unopened >= self.limits.subscriptions_max:
            most = f"at most {self.limits.subscriptions_max} subscriptions a client"
            return self._fail(request.id, "limit", most)
        self._opening[request.id] = request
        self._unopened += 1
        return [request]

    # what the shell found

    def opened(self, request: Subscribe, channel: Channel) -> list[Effect]:
        """The feed is there: from now on its messages are sent."""
        self._unopened -= 1
        if self.closed or self._opening.get(request.id) is not request:
            return self._left(channel)  # it has left since
        del self._opening[request.id]
        place = channel.head if request.after is None else request.after
        self._subscriptions[request.id] = _FollowedQuery(request.id, channel, place=place)
        self._turn.append(request.id)
        return self._answer(
            {
                "type": "subscribed",
                "id": request.id,
                "channel": channel.number,
                "on": channel.on,
                **({"after": str(place)} if channel.on == "window" else {}),
            }
        )

    def failed(self, request: Subscribe | LiveCommand, problem: dict[str, Any]) -> list[Effect]:
        if isinstance(request, LiveCommand):
            self._asking -= 1
        else:
            self._unopened -= 1
            if self._opening.get(request.id) is not request:
                return []
            del self._opening[request.id]
        return self._answer({"type": "error", "id": request.id, **problem})

    def answered(self, command: LiveCommand, answer: dict[str, Any]) -> list[Effect]:
        self._asking -= 1
        return self._answer(
            {"type": "done", "id": command.id, "action": command.action, "answer": answer}
        )

    def replayed(self, request: ReplayWindows, found: Sequence[Pushed], gap: Frame | None) -> None:
        """Closed windows after the place, oldest first; fewer than asked for: these are all."""
        self._replaying = None
        subscription = self._subscriptions.get(request.id)
        if subscription is None or subscription.channel is not request.channel:
            return
        if subscription.place != request.after:  # it has been subscribed anew since
            return
        if gap is not None:
            subscription.backlog.append(gap)
        subscription.backlog.extend(found)
        if len(found) < self.limits.replay_messages_max:
            # up to there, and not to the channel's floor, which may have moved on since
            if not subscription.backlog:
                subscription.place = request.until
            elif not found or found[-1].place != request.until:
                subscription.backlog.append(Pushed(request.until, _NOTHING))

    def replay_failed(self) -> None:
        """The ledger could not be read; it is asked for again."""
        self._replaying = None

    # what goes out

    def next_frame(self) -> Frame | ReplayWindows | None:
        """What to write next; None where there is no news. The shell does `ReplayWindows`."""
        self._stalled_since = None
        if self.closed:
            return None
        if self._answers:
            return self._answers.popleft()
        for _ in range(len(self._turn)):  # each subscription in turn, so that none starves
            identifier = self._turn[0]
            self._turn.rotate(-1)
            found = self._next_of(self._subscriptions[identifier])
            if found is not None:
                return found
        return None

    def has_news(self) -> bool:
        """Whether `next_frame` would give something."""
        return bool(self._answers) or any(
            s.backlog
            or (s.channel.on == "update" and s.channel.seq > s.seq)
            or (
                s.channel.on == "window"
                and s.place.precedes(s.channel.head)
                and not (self._replaying and s.place.precedes(s.channel.floor))
            )
            for s in self._subscriptions.values()
        )

    def stalled(self, now: float) -> None:
        """The socket takes nothing now."""
        if self._stalled_since is None:
            self._stalled_since = now

    def tick(self, now: float) -> list[Effect]:
        """Called about every second."""
        if self.closed:
            return []
        if self.grant is None and now - self._since > self.limits.handshake_seconds:
            return self.leave(UNAUTHORISED, "no ticket came")
        stalled = self._stalled_since
        if stalled is not None and now - stalled > self.limits.write_stall_seconds:
            return self.leave(SLOW, f"nothing read for {now - stalled:.0f} s; {self._last()}")
        return []

    def silent(self, *, unread: bool) -> list[Effect]:
        """No pong has come: of a client that reads, slowly or not at all, it waits behind what is
        `unread`; of another, nobody is there."""
        if unread or self.has_news():
            return self.leave(SLOW, f"no pong behind what is not read; {self._last()}")
        return self.leave(SILENT, NO_PONG)

    def leave(self, code: int = GOING_AWAY, reason: str = "the server stops") -> list[Effect]:
        """End it from this side."""
        if self.closed:
            return []
        self.closed = Close(code, reason.encode()[:120].decode(errors="ignore"))
        self._answers.clear()
        return [self.closed, *self._leave_all()]

    def lost(self) -> list[Effect]:
        self.closed = self.closed or Close(1006, "")
        return self._leave_all()

    # inside

    def _unsubscribe(self, identifier: str) -> list[Effect]:
        said = {"type": "unsubscribed", "id": identifier}
        if self._opening.pop(identifier, None) is not None:
            return self._answer(said)
        subscription = self._subscriptions.pop(identifier, None)
        if subscription is None:
            return self._fail(identifier, "message", f"{identifier!r} is not subscribed")
        self._turn.remove(identifier)
        return [*self._left(subscription.channel), *self._answer(said)]

    def _next_of(self, subscription: _FollowedQuery) -> Frame | ReplayWindows | None:
        channel = subscription.channel
        if channel.on == "update":
            if channel.seq > subscription.seq and channel.latest is not None:
                subscription.seq = channel.seq
                return channel.latest
            return None
        while subscription.backlog:
            item = subscription.backlog.popleft()
            if isinstance(item, Frame):
                return item
            subscription.place = item.place
            if item.frame is not _NOTHING:
                return item.frame
        place = subscription.place
        if not place.precedes(channel.head):
            return None
        if place.precedes(channel.floor):
            if self._replaying or any(s.backlog for s in self._subscriptions.values()):
                return None
            self._replaying = ReplayWindows(subscription.id, channel, place, channel.floor)
            return self._replaying
        pushed = channel.after(place)
        subscription.place = pushed.place
        return pushed.frame

    def _welcome(self, grant: Grant) -> None:
        self._answers.append(
            frame(
                {
                    "type": "welcome",
                    "protocol": PROTOCOL,
                    "run": self._run,
                    "rights": sorted(grant.rights),
                    "quiet_seconds": self.limits.quiet_seconds,
                }
            )
        )

    def _answer(self, message: dict[str, Any]) -> list[Effect]:
        if self.closed:
            return []
        if len(self._answers) >= self.limits.answers_waiting_max:
            return self.leave(SLOW, f"{len(self._answers)} answers not read; {self._last()}")
        self._answers.append(frame(message))
        return []

    def _fail(self, identifier: str, code: str, message: str) -> list[Effect]:
        return self._answer({"type": "error", "id": identifier, **plain(code, message)})

    def _left(self, channel: Channel) -> list[Effect]:
        """What follows where a subscription of a channel ends, which may not be the only one."""
        still = any(s.channel is channel for s in self._subscriptions.values())
        return [] if still else [Leave(channel)]

    def _leave_all(self) -> list[Effect]:
        left: list[Effect] = [Leave(s.channel) for s in self._subscriptions.values()]
        self._subscriptions.clear()
        self._turn.clear()
        return left

    def _last(self) -> str:
        """Where the client may go on; as long as a close reason allows."""
        places = [s.place for s in self._subscriptions.values() if s.channel.on == "window"]
        return f"after {min(places)}" if places else "no window missed"


_NOTHING = Frame("")
