"""What one server and one client may cost. Each limit names what reaching it does."""

from dataclasses import dataclass

from muntin.select.limits import Limits

KIB = 1024


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """All bounded; reaching one never ends the process."""

    body_bytes_max: int = 64 * KIB
    """Of an HTTP request; HTTP 413. A statement has at most 32 KiB."""
    head_bytes_max: int = 16 * KIB
    """Request line and headers together; HTTP 431."""
    headers_max: int = 64
    """HTTP 431."""
    handshake_seconds: float = 10.0
    """From connection to whole request, and from upgrade to ticket; the connection is closed."""
    message_bytes_max: int = 64 * KIB
    """From a client, in all fragments; close 1009. Centrifugo has the same."""
    push_bytes_max: int = 256 * KIB
    """To a client: a longer result is replaced by an error that says so."""
    answers_waiting_max: int = 64
    """Answers to a client's own requests that it has not read; close 4008."""
    write_stall_seconds: float = 10.0
    """A client takes no byte for so long while there is news: close 4008. NATS has 10 s."""
    close_seconds: float = 3.0
    """From the close frame to cutting the connection."""
    ping_seconds: float = 20.0
    """Between pings."""
    pong_seconds: float = 20.0
    """For the answer to a ping; close 1011, or 4008 where there is more that was not read."""
    subscriptions_max: int = 64
    """Of one client; an error answers the next."""
    clients_max: int = 5_000
    """WebSocket and SSE together; HTTP 503."""
    clients_per_address_max: int = 256
    """From one address beyond loopback; HTTP 503."""
    connections_max: int = 6_000
    """Of all kinds; fewer where the system gives fewer descriptors. Beyond, only /healthz answers:
    HTTP 503."""
    connections_per_address_max: int = 1_024
    """From one address beyond loopback; the same."""
    feeds_max: int = 1_000
    """Different statements that are followed; an error answers the next."""
    messages_per_second: float = 20.0
    messages_burst: int = 40
    """From one client; close 4029."""
    frames_per_second: float = 100.0
    frames_burst: int = 400
    """WebSocket frames of one client, pings and pieces of messages among them; close 4029."""
    received_bytes_per_second: float = 512.0 * KIB
    received_bytes_burst: int = 2048 * KIB
    """The same for bytes."""
    body_pieces_max: int = 1_024
    """Of an HTTP request's body: each costs as much, though it be one byte; HTTP 400."""
    statements_at_once: int = 2
    """Each in a process of its own. One client has at most all but one of them."""
    statements_waiting_max: int = 64
    """More than these: HTTP 503 with Retry-After."""
    statements_of_client_max: int = 16
    """That wait or run; HTTP 503 with Retry-After."""
    statement_seconds: float = 10.0
    """In DuckDB; the statement is interrupted."""
    statement_end_seconds: float = 15.0
    """For reading, running and writing, once kernels are loaded; its process is killed."""
    statements_memory_bytes: int = 256 << 20
    """Of all statements together beyond what their processes have when idle; the largest process
    is killed. Caches have a quarter of it, a result too, DuckDB a half."""
    postgres_connections_max: int = 256
    """Of PostgreSQL's clients; 64 of one address beyond loopback. More are refused."""
    postgres_connections_per_address_max: int = 64
    json_rows_max: int = 100_000
    """Of a JSON answer; more come as Arrow."""
    answer_bytes_max: int = 128 << 20
    """Of one answer; error."""
    answers_bytes_max: int = 512 << 20
    answers_unread_max: int = 64
    """Answers that clients have not read yet, in files; HTTP 503 with Retry-After."""
    answer_bytes_per_second: int = 32 * KIB
    """A client that reads slower, or nothing for `write_stall_seconds`, is cut."""
    ring_messages_max: int = 64
    ring_bytes_max: int = 1 << 20
    """Pushed closed windows that a feed keeps at hand; older ones are read from the ledger."""
    replay_messages_max: int = 8
    """Read at once from the ledger for a client that missed closed windows."""
    replay_windows_max: int = 1_000
    """Of one subscription; what is older is announced as a gap."""
    commands_waiting_max: int = 8
    """Of one client; an error answers the next."""
    command_seconds: float = 10.0
    """How long a command's answer is waited for."""
    recheck_seconds: float = 60.0
    """How often the rights of long connections are looked at again; close 4001."""
    tickets_max: int = 10_000
    ticket_seconds: float = 30.0
    state_seconds: float = 0.5
    """Shortest time between two pushes of the pipelines' state."""
    update_seconds: float = 0.1
    """Shortest time between two pushes of a statement that moves."""
    quiet_seconds: float = 2.0
    """The state is pushed at least so often: silence means that the connection is lost."""

    def of_statement(self, concurrent: int) -> Limits:
        """Where so many statements are answered at the same time by one process."""
        share = self.statements_memory_bytes // 4
        return Limits(
            seconds=self.statement_seconds,
            memory_bytes=2 * share,
            result_bytes=share,
            cache_bytes=share,
            concurrent=concurrent,
        )


class TokenBucket:
    """Fills at a steady rate up to a burst; what is sent is taken out of it. `per_second`, `burst`:
    in one unit: messages, frames, bytes. `now`: seconds, on any clock; one that goes back fills
    nothing.

    Examples
    --------
    >>> bucket = TokenBucket(2.0, 3.0, now=0.0)
    >>> [bucket.spend(0.0) for _ in range(4)], bucket.spend(0.5)
    ([True, True, True, False], True)
    """

    __slots__ = ("_at", "_burst", "_per_second", "_tokens")

    def __init__(self, per_second: float, burst: float, now: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = burst
        self._at = now

    def spend(self, now: float, cost: float = 1.0) -> bool:
        """Whether so much may be sent now; where not, nothing is taken."""
        earned = max(0.0, now - self._at) * self._per_second
        self._tokens = min(self._burst, self._tokens + earned)
        self._at = max(self._at, now)
        if self._tokens < cost:
            return False
        self._tokens -= cost
        return True
