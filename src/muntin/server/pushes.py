"""Messages of feeds, made from the ledger. Called in threads of the feeds' pool."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from muntin.errors import MuntinError, UnknownName
from muntin.ledger.records import ClosedWindow
from muntin.select.result import Result
from muntin.server.channel import Place, Pushed
from muntin.server.closings import CLOSED_AT_ONCE_MAX, Closing
from muntin.server.frames import Frame, compact, frame, joined
from muntin.server.limits import ServerLimits
from muntin.server.messages import Topic
from muntin.server.problems import plain, problem
from muntin.server.reader import Reader
from muntin.server.state import StateReader
from muntin.times import instant_text

_LOG = logging.getLogger("muntin.server")


class Pushes:
    """Thread-safe."""

    def __init__(self, reader: Reader, limits: ServerLimits) -> None:
        self._reader = reader
        self._limits = limits
        self._state = StateReader(reader)

    def checked(self, topic: Topic) -> str:
        """The summary whose windows a topic follows, or "" for all or none.

        Raises
        ------
        MuntinError
            The topic names something that does not exist, or its statement is wrong.
        """
        if topic.kind == "state":
            return ""
        if topic.kind == "windows":
            if topic.text:
                self._reader.pipeline_of(topic.text)
            return topic.text
        text = self._statement(topic)
        if topic.on == "update":
            self._reader.check(text)
            return ""
        return self._reader.followed(text)

    def update(self, topic: Topic, channel: int, seq: int) -> tuple[str, Frame]:
        """The message of a topic that moves, and what to compare to know whether it moved."""
        about = {"type": "result", "channel": channel, "seq": seq}
        try:
            if topic.kind == "state":
                state = self._state.read(time.time_ns() // 1000)
                return "", joined(about | {"type": "state"}, "state", compact(state))
            said = self._reader.sql(self._statement(topic)).to_json()
        except MuntinError as error:
            said = compact(problem(error))
            return said, joined(about, "error", said)
        except Exception as error:  # a bug of ours must not end the feed of others
            _LOG.exception("cannot answer %s", topic)
            said = compact(problem(error))
            return said, joined(about, "error", said)
        if len(said) > self._limits.push_bytes_max:
            said = compact(self._too_large(len(said)))
            return said, joined(about, "error", said)
        return said, joined(about, "result", said)

    def closed(
        self, topic: Topic, channel: int, seq: int, closings: Sequence[Closing]
    ) -> list[Pushed]:
        """Messages of windows that have just closed."""
        made = []
        for place, window in closings:
            seq += 1
            made.append(Pushed(place, self._window(topic, channel, seq, place, window)))
        return made

    def replay(
        self, topic: Topic, channel: int, followed: str, after: Place, until: Place
    ) -> tuple[list[Pushed], Frame | None]:
        """The next closed windows after a place that a client missed, and what it cannot get."""
        windows = self._reader.ledger.windows(
            followed or None, since=after.closed_at, limit=CLOSED_AT_ONCE_MAX
        )
        missed = sorted((Place.of(w), w) for w in windows if after < Place.of(w) <= until)
        gap = None
        most = self._limits.replay_windows_max
        if len(missed) > most:
            cut, missed = missed[:-most], missed[-most:]
            gap = self._gap(channel, len(cut), cut[0][1].start, cut[-1][1].end)
        elif after.summary and self._dropped(after):
            gap = self._gap(channel, None, after.start, missed[0][1].start if missed else None)
        return [
            Pushed(place, self._window(topic, channel, None, place, window))
            for place, window in missed[: self._limits.replay_messages_max]
        ], gap

    def _dropped(self, after: Place) -> bool:
        """Whether retention has dropped windows that closed after a place."""
        oldest = self._reader.ledger.windows(after.summary, limit=1)
        return not oldest or oldest[0].start > after.start

    def _gap(self, channel: int, windows: int | None, start: int, end: int | None) -> Frame:
        message = {"type": "gap", "channel": channel, "windows": windows}
        return frame(message | {"start": instant_text(start), "end": instant_text(end)})

    def _window(
        self, topic: Topic, channel: int, seq: int | None, place: Place, window: ClosedWindow
    ) -> Frame:
        about: dict[str, Any] = {"type": "window", "channel": channel, "seq": seq}
        about |= {"after": str(place), "window": window_json(window)}
        if topic.kind == "windows":
            return frame(about)
        try:
            said = self._result(topic, window).to_json()
        except MuntinError as error:
            return joined(about, "error", compact(problem(error)))
        except Exception as error:
            _LOG.exception("cannot answer %s", topic)
            return joined(about, "error", compact(problem(error)))
        if len(said) > self._limits.push_bytes_max:
            return joined(about, "error", compact(self._too_large(len(said))))
        return joined(about, "result", said)

    def _result(self, topic: Topic, window: ClosedWindow) -> Result:
        if topic.kind == "query":
            stored = self._reader.standing(topic.text, window)
            if stored is not None:
                return stored
        return self._reader.on_window(self._statement(topic), window)

    def _statement(self, topic: Topic) -> str:
        if topic.kind == "select":
            return topic.text
        queries = self._reader.queries()
        if topic.text not in queries:
            known = ", ".join(sorted(queries)) or "none"
            raise UnknownName(f"there is no standing query '{topic.text}'; there are: {known}")
        return queries[topic.text].select

    def _too_large(self, size: int) -> dict[str, Any]:
        most = self._limits.push_bytes_max
        message = f"the result has {size:,} characters; at most {most:,} are pushed"
        return plain("too_large", message, "add LIMIT, or ask POST /query")


def window_json(window: ClosedWindow) -> dict[str, Any]:
    """A closed window as JSON values, times as ISO 8601."""
    plain = asdict(window)
    plain["fill"] = dict(window.fill)
    for name in ("start", "end", "closed_at"):
        plain[name] = instant_text(plain[name])
    return plain
