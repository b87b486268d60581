"""A ledger's store in Redis 7, or Valkey: `redis://user@host:6379/0?name=muntin`.

Five kinds of keys, all with the tag `{NAME}`, so that they lie in one slot of a cluster: `ledger`
(a hash: the head and the format), `rows` (a hash), `log` (a stream whose ids are the heads) and
`payload:ID`. A transaction is one function: it looks whether the head is where the client saw it,
and writes all or nothing. Readers wait on the stream.
"""

import logging
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from muntin.errors import LedgerError, LedgerMissing
from muntin.ledger.records import FORMAT_VERSION, check_name
from muntin.ledger.schema import check_format
from muntin.ledger.store import (
    GONE_SECONDS,
    META,
    ROWS_GONE,
    Change,
    Entry,
    Head,
    StoreAway,
    StoreError,
)

NAME = "muntin"
QUICK_SECONDS = 1.0
ROWS_AT_ONCE = 1_000
REDIS_OLDEST = 7
_FIRST = Head(0, 1)  # a stream has no id 0-0
_GONE = 0xFFFFFFFF
_SIZES = struct.Struct("<II")
_LIBRARY = "muntin_2"  # another number where the function changes
_FUNCTION = f"""#!lua name={_LIBRARY}
-- keys: ledger, rows, log, payloads to be set, payloads that may go
-- args: head, newer head, changes, seconds that payloads stay, length of the log, payloads
local function append(keys, args)
    if redis.call('HGET', keys[1], 'head') ~= args[1] then
        return 0
    end
    if redis.call('HEXISTS', keys[2], '{META}') == 0 then
        return redis.error_reply('ROWSGONE of the ledger')
    end
    local changes, at = args[3], 1
    while at <= #changes do
        local key_size, size
        key_size, size, at = struct.unpack('<I4I4', changes, at)
        local key = string.sub(changes, at, at + key_size - 1)
        at = at + key_size
        if size == {_GONE} then
            redis.call('HDEL', keys[2], key)
        else
            redis.call('HSET', keys[2], key, string.sub(changes, at, at + size - 1))
            at = at + size
        end
    end
    local payloads = #args - 5
    for i = 1, payloads do
        redis.call('SET', keys[3 + i], args[5 + i])
    end
    for i = 4 + payloads, #keys do
        redis.call('EXPIRE', keys[i], args[4])
    end
    redis.call('XADD', keys[3], 'MAXLEN', args[5], args[2], 'changes', changes)
    redis.call('HSET', keys[1], 'head', args[2])
    return 1
end
redis.register_function('{_LIBRARY}_append', append)
"""
_LOG = logging.getLogger("muntin.ledger")
Outcome = TypeVar("Outcome")


class RedisStore:
    """A `Store` under a name in a Redis database.

    `url`: as redis-py takes it, with the password where it has one. `place`: the same without a
    password, for people. `deadline`: of two waits for an answer, seconds. Raises LedgerError: the
    database is no number, or answers would be texts.
    """

    def __init__(self, url: str, place: str, name: str = NAME, deadline: float = 10.0) -> None:
        if not re.fullmatch(r"(/\d*)?", urlsplit(url).path):  # redis-py would take database 0
            raise LedgerError(f"{place}: Redis' databases are numbers: write for example /0")
        if "decode_responses=" in urlsplit(url).query:
            raise LedgerError(f"{place}: a ledger's rows are bytes: leave decode_responses out")
        self.place = place
        self._url = url
        self._deadline = deadline
        self._keys = f"muntin:{{{check_name(name, 'ledger')}}}:"
        self._ledger, self._rows, self._log = (
            self._keys + key for key in ("ledger", "rows", "log")
        )
        self._clients: dict[float, redis.Redis] = {}

    def _client(self, patience: float) -> redis.Redis:
        seconds = QUICK_SECONDS if patience <= QUICK_SECONDS else self._deadline / 2
        if seconds not in self._clients:
            is_tls = urlsplit(self._url).scheme == "rediss"
            tls: Any = {"ssl_check_hostname": True} if is_tls else {}  # redis-py 5 does not
            self._clients[seconds] = redis.Redis.from_url(
                self._url, socket_timeout=seconds, socket_connect_timeout=seconds,
                socket_keepalive=True, retry=Retry(NoBackoff(), 0), client_name="muntin", **tls,
            )  # fmt: skip
        return self._clients[seconds]

    def _ask(self, patience: float, ask: Callable[[redis.Redis], Outcome]) -> Outcome:
        try:
            return ask(self._client(patience))
        except (exceptions.RedisError, ValueError, TypeError) as problem:
            if isinstance(problem, exceptions.ConnectionError | exceptions.TimeoutError):
                for client in [*self._clients.values()]:  # others may have gone silent as well
                    client.connection_pool.disconnect(inuse_connections=False)
            raise self._as_ours(problem) from problem

    def _as_ours(self, problem: Exception) -> LedgerError | StoreAway:
        """What an error of the server, or of the URL, means."""
        said = " ".join(str(problem).split())
        kind = type(problem).__name__
        for words, remedy in _REMEDIES.items():
            if words in said or words == kind:
                return StoreError(f"{self.place}: {remedy} ({said})")
        if isinstance(problem, exceptions.ConnectionError | exceptions.TimeoutError):
            return StoreAway(said)
        away = exceptions.ClusterDownError | exceptions.TryAgainError  # the former: MASTERDOWN, too
        if isinstance(problem, away) or said.startswith(("LOADING", "BUSY", "NOREPLICAS")):
            return StoreAway(said)
        return StoreError(f"{self.place}: Redis says: {said}")

    # What the ledger asks

    def begin(self, create: bool, meta: bytes, patience: float) -> None:
        def look(client: redis.Redis) -> Any:
            return client.hget(self._ledger, "format")

        found = self._ask(patience, look)
        if create:
            self._ask(patience, self._check_server)
        if found is None:
            self._ask(patience, _check_synced)
            if not create:
                raise LedgerMissing(
                    f"there is no ledger under {self._keys} in {self.place}: correct the URL"
                )
            self._ask(patience, lambda client: self._create(client, meta))
            found = self._ask(patience, look)
        check_format(int(found), self.place)

    def _check_server(self, client: redis.Redis) -> None:
        """Refuse a server that would lose what was committed."""
        with suppress(exceptions.NoPermissionError):
            info: Any = client.info()
            if int(str(info["redis_version"]).split(".")[0]) < REDIS_OLDEST:
                raise StoreError(
                    f"{self.place} is Redis {info['redis_version']}; a ledger needs Redis 7 or "
                    "newer, or Valkey"
                )
            if info.get("maxmemory") and str(info["maxmemory_policy"]).startswith("allkeys"):
                raise StoreError(
                    f"{self.place} deletes keys when its memory is full (maxmemory-policy "
                    f"{info['maxmemory_policy']}): set it to noeviction"
                )
            if not info.get("aof_enabled"):
                _LOG.warning(
                    "%s keeps no append-only file: a crash of the server loses commits, and the "
                    "next batch is then refused; set appendonly yes",
                    self.place,
                )

    def _create(self, client: redis.Redis, meta: bytes) -> None:
        """Two may do so at once: the second finds it made."""
        with client.pipeline() as together:
            together.watch(self._ledger)
            if together.exists(self._ledger):
                return
            if together.exists(self._rows):
                raise StoreError(
                    f"{self.place} has lost the key {self._ledger} of a ledger whose rows are "
                    f"there: restore it from a backup, or delete all keys that begin {self._keys}"
                )
            together.multi()
            together.delete(self._log)
            together.hset(self._rows, META, meta)  # pyright: ignore[reportArgumentType]
            together.xadd(self._log, {"changes": b""}, id=_identifier(_FIRST))
            about: dict[Any, Any] = {"head": _identifier(_FIRST), "format": FORMAT_VERSION}
            together.hset(self._ledger, mapping=about)
            with suppress(exceptions.WatchError):
                together.execute()

    def since(self, head: Head, patience: float) -> list[tuple[Head, Sequence[Change]]] | None:
        known = _identifier(head)
        if self._head(patience) == known:
            return []
        if head.number < 0:
            return None
        found: Any = self._ask(patience, lambda client: client.xrange(self._log, known, "+"))
        if not found or found[0][0] != known.encode():
            return None
        return [(_head(number), _unpacked(fields[b"changes"])) for number, fields in found[1:]]

    def _head(self, patience: float) -> str:
        found: Any = self._ask(patience, lambda client: client.hget(self._ledger, "head"))
        if found is None:
            self._ask(patience, _check_synced)
            raise StoreError(
                f"{self.place} holds no ledger any more: was it deleted, or the server started "
                "without its data?"
            )
        return found.decode()

    def load(self, patience: float) -> tuple[Head, Iterator[Sequence[Change]]]:
        head = _head(self._head(patience).encode())
        return head, self._loaded(patience)

    def _loaded(self, patience: float) -> Iterator[Sequence[Change]]:
        cursor: Any = 0
        while True:
            found: Any = self._ask(
                patience,
                lambda client: client.hscan(self._rows, cursor, count=ROWS_AT_ONCE),  # noqa: B023
            )
            cursor, rows = found
            yield [(key.decode(), row) for key, row in rows.items()]
            if not cursor:
                return

    def append(self, head: Head, newer: Head, entry: Entry, patience: float) -> bool:
        pieces = (*entry.payloads, *entry.gone)
        keys = [self._ledger, self._rows, self._log, *map(self._payload, pieces)]
        given = [
            _identifier(head), _identifier(newer), _packed(entry.changes), GONE_SECONDS,
            entry.log_kept, *entry.payloads.values(),
        ]  # fmt: skip

        def call(client: redis.Redis) -> Any:
            try:
                return client.fcall(f"{_LIBRARY}_append", len(keys), *keys, *given)
            except exceptions.ResponseError as problem:
                if "Function not found" not in str(problem):
                    raise
            client.function_load(_FUNCTION, replace=True)
            return client.fcall(f"{_LIBRARY}_append", len(keys), *keys, *given)

        return self._ask(patience, call) == 1

    def _payload(self, piece: int) -> str:
        return f"{self._keys}payload:{piece}"

    def payloads(self, ids: Sequence[int], patience: float) -> Mapping[int, bytes]:
        names = [self._payload(piece) for piece in ids]
        found: Any = self._ask(patience, lambda client: client.mget(names)) if names else []
        return {piece: row for piece, row in zip(ids, found, strict=True) if row is not None}

    def wait(self, head: Head, seconds: float) -> None:
        block = max(1, round(1000 * min(seconds, QUICK_SECONDS / 2)))
        streams: Any = {self._log: _identifier(head)}
        self._ask(0.0, lambda client: client.xread(streams, count=1, block=block))

    def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()


def _check_synced(client: redis.Redis) -> None:
    """A replica that has nothing yet from its primary answers as a server that holds no ledger."""
    with suppress(exceptions.NoPermissionError):
        info: Any = client.info("replication")
        if info["role"] == "slave" and info["master_link_status"] != "up":
            raise StoreAway("a replica that is not in sync with its primary")


def _identifier(head: Head) -> str:
    """A head as a stream's id."""
    return f"{max(head.number, 0)}-{head.token}"


def _head(identifier: bytes) -> Head:
    return Head(*map(int, identifier.split(b"-")))


def _packed(changes: Sequence[Change]) -> bytes:
    parts: list[bytes] = []
    for name, row in changes:
        key = name.encode()
        parts += [_SIZES.pack(len(key), _GONE if row is None else len(row)), key, row or b""]
    return b"".join(parts)


def _unpacked(changes: bytes) -> list[Change]:
    found: list[Change] = []
    at = 0
    while at < len(changes):
        key_size, size = _SIZES.unpack_from(changes, at)
        at += _SIZES.size + key_size
        key = changes[at - key_size : at].decode()
        found.append((key, None if size == _GONE else changes[at : at + size]))
        at += 0 if size == _GONE else size
    return found


_REMEDIES = {
    "AuthenticationError": "the server refuses this user or password: correct the URL",
    "NoPermissionError": "this user lacks a right: docs/ledger.md says what to grant",
    "ReadOnlyError": (
        "the server is a read-only replica; what was committed stays: name the primary, then start "
        "again"
    ),
    "OutOfMemoryError": (
        "the server's memory is full (maxmemory); what was committed stays: give it more, then "
        "start again"
    ),
    "MovedError": "the ledger lies on another node of the cluster: name that one",
    "ROWSGONE": ROWS_GONE,
    "MISCONF": (
        "the server cannot write to its disk and takes no writes; what was committed stays: free "
        "space, then start again"
    ),
    "unknown command": "a ledger needs Redis 7 or newer, or Valkey",
    "CERTIFICATE_VERIFY_FAILED": "the server's certificate is not trusted: give ssl_ca_certs",
    "No such file": "a certificate or key that the URL names is not there: correct the URL",
    "Name or service not known": "there is no such host: correct the URL",
    "unexpected keyword argument": "an option of the URL is unknown: correct it",
    "Invalid value for": "an option of the URL is wrong: correct it",
}
