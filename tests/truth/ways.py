"""All ways to an answer: in the process, over HTTP, as events, by PostgreSQL's protocol; pushed."""

from __future__ import annotations

import datetime as dt
import http.client
import json
import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
import pytest

import muntin
from muntin.client import Subscription, Update
from muntin.errors import SelectError
from muntin.ledger.base import Ledger
from muntin.server.serving import Server
from muntin.session import Session
from tests.truth.world import STANDING

PATIENCE_SECONDS = 120.0
Said = dict[str, Any]


class Ways:
    """A server over a ledger, and who asks it."""

    def __init__(self, ledger: Ledger) -> None:
        self._here = Session(ledger)
        self._server = Server(ledger, port=0, postgres="127.0.0.1:0")
        self._server.start()
        self._client = muntin.connect(self._server.url, timeout=PATIENCE_SECONDS)
        self._notices: list[str] = []
        self._postgres = psycopg.connect(self._server.postgres_url, autocommit=True)
        self._postgres.add_notice_handler(lambda n: self._notices.append(str(n.message_primary)))

    def close(self) -> None:
        self._postgres.close()
        self._server.stop()

    def ask(self, text: str, *, all_ways: bool) -> Said:
        """The answer, which is the same by every way: else AssertionError.

        Raises
        ------
        SelectError
            That, too, by every way.
        """
        try:
            said = self._here.sql(text).to_dict()
        except SelectError as error:
            self._check_refused(text, error)
            raise
        del said["stale"]  # tells of the moment
        same = [self._posted(text), self._fetched(text)]
        if all_ways:
            same += [self._event(text), self._live(text)]
        for other in same:
            assert {n: other[n] for n in said} == said, (text, other, said)
        self._check_postgres(text, said)
        return said

    def events(self, topic: str) -> Generator[dict[str, Any]]:
        """Messages of GET /events, from now on."""
        connection = self._connection()
        connection.request("GET", f"/events?{topic}")
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()

        def messages() -> Generator[dict[str, Any]]:
            try:
                while line := answer.readline():
                    if line.startswith(b"data: "):
                        yield json.loads(line[6:])
            finally:
                connection.close()

        return messages()

    def subscribe(self, **topic: Any) -> Subscription:
        return self._client.subscribe(**topic)

    def _connection(self) -> http.client.HTTPConnection:
        address = urlsplit(self._server.url)
        assert address.hostname is not None
        return http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE_SECONDS)

    def _posted(self, text: str) -> Said:
        status, said = self._post(text)
        assert status == 200, said
        return said

    def _post(self, text: str) -> tuple[int, Said]:
        body = json.dumps({"select": text})
        with closing(self._connection()) as connection:
            connection.request("POST", "/query", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def _fetched(self, text: str) -> Said:
        return self._client.sql(text).to_dict()

    def _event(self, text: str) -> Said:
        messages = self.events(f"on=update&select={quote(text)}")
        try:
            return next(messages)["result"]
        finally:
            messages.close()

    def _live(self, text: str) -> Said:
        with self.subscribe(statement=text, on="update") as updates:
            result = next(updates).result
        assert result is not None
        return result.to_dict()

    def _check_refused(self, text: str, error: SelectError) -> None:
        status, said = self._post(text)
        assert status == 400, said
        assert (said["error"]["code"], said["error"]["message"]) == (error.code, error.message)
        for other in (self._client.sql, self._executed):
            with pytest.raises((SelectError, psycopg.Error)) as same:
                other(text)
            assert error.message in str(same.value)

    def _executed(self, text: str) -> list[tuple[Any, ...]]:
        return self._postgres.execute(text.encode()).fetchall()

    def _check_postgres(self, text: str, said: Said) -> None:
        """The rows, and what the notice says of them."""
        self._notices.clear()
        rows = self._executed(text)
        assert [[_plain(value) for value in row] for row in rows] == said["rows"], text
        notice = self._notices[0].split("; ")
        assert notice[0] == ("exact" if said["exact"] else "not exact"), notice
        bounds = [json.loads(part.removeprefix("bounds ")) for part in notice if "bounds " in part]
        assert bounds == ([said["bounds"]] if said["bounds"] else []), notice
        assert (f"late events {said['late']}" in notice) == bool(said["late"]), notice
        covers = [part for part in notice if " covers " in part]
        assert len(covers) == len(said["windows"])
        for part, window in zip(covers, said["windows"], strict=True):
            covered = window["covered"]
            span = f"{covered['start']} to {covered['end']}" if covered else "nothing"
            assert part == f"{window['source']} covers {span}"


def _plain(value: Any) -> Any:
    """A value of psycopg as JSON has it, but for intervals."""
    if isinstance(value, dt.datetime):
        text = value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
        return text.rstrip("0").rstrip(".") + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return f"PT{int(value.total_seconds())}S"
    return int(value) if isinstance(value, Decimal) else value


class Followers:
    """Threads that follow what is pushed; `heard(name, n)` waits for so many more messages."""

    def __init__(self, ways: Ways, names: list[str]) -> None:
        self._queues: dict[str, queue.Queue[Any]] = {}
        self._subscriptions: list[Subscription] = []
        for name in names:
            query = f"query=by_{name}&on=window"
            self._start(f"events {name}", ways.events(query))
            followed = {"live": {"query": f"by_{name}"}, "asked": {"statement": STANDING[name]}}
            for way, topic in followed.items():
                subscription = ways.subscribe(on="window", **topic)
                self._subscriptions.append(subscription)
                self._start(f"{way} {name}", map(_as_message, subscription))

    def _start(self, name: str, messages: Iterator[Any]) -> None:
        heard = self._queues[name] = queue.Queue()

        def follow() -> None:
            try:
                for message in messages:
                    heard.put(message)
            except Exception as error:
                heard.put({"failed": repr(error)})

        threading.Thread(target=follow, daemon=True).start()

    def heard(self, summary: str) -> list[tuple[str, Any]]:
        """The next message of each way by which a summary is followed."""
        named = [n for n in self._queues if n.endswith(f" {summary}")]
        return [(name, self._queues[name].get(timeout=PATIENCE_SECONDS)) for name in named]

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()


def _as_message(update: Update) -> dict[str, Any]:
    """As the server sent it."""
    result = None if update.result is None else update.result.to_dict()
    return {"window": update.window, "result": result, "error": update.error, "gap": update.gap}
