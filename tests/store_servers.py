"""Real servers for tests, PostgreSQL and Redis: local processes, on loopback, in own folders."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from muntin.demo.broker import free_ports
from tests.disks import remounted, small_disk

if TYPE_CHECKING:
    import trustme

START_SECONDS = 60
PASSWORD = "p@ss:word/3f9c"  # noqa: S105  (of a server on loopback that ends with its test)


class Server(ABC):
    """A process with a folder; `kill` and `start` as often as one likes."""

    store = ""
    """The module of Muntin that uses it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="muntin-store-"))
        (self.port,) = free_ports(1)
        self.process: subprocess.Popen[bytes] | None = None
        self.tls = False

    def encrypt(self, certificate: trustme.LeafCert) -> None:
        """Take TLS connections with this certificate; before it starts."""
        self.tls = True
        certificate.private_key_pem.write_to_path(self.folder / "key.pem")
        for pem in certificate.cert_chain_pems:
            pem.write_to_path(self.folder / "chain.pem", append=True)
        (self.folder / "key.pem").chmod(0o600)

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def answers(self) -> bool: ...

    def start(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [*self.command(), *options], cwd=self.folder, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=self.log(), stderr=subprocess.STDOUT,
        )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def log(self):
        return open(self.folder / "log", "ab")

    def signal(self, number: int) -> None:
        """To the server and all of its processes."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def pids(self) -> list[int]:
        """The server's processes, the first one first."""
        import psutil

        assert self.process is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            first = psutil.Process(self.process.pid)
            return [first.pid, *(child.pid for child in first.children(recursive=True))]
        return []

    def kill(self) -> None:
        """As a power cut of the process: none of them writes another byte."""
        if self.process is None:
            return
        import psutil

        stopped: list[int] = []
        while (found := self.pids()) != stopped:  # what the first one started meanwhile as well
            self.signal(signal.SIGSTOP)
            stopped = found
        others = [psutil.Process(pid) for pid in stopped[1:] if psutil.pid_exists(pid)]
        self.signal(signal.SIGKILL)
        self.process.wait()
        # One that still ends holds the shared memory, with which PostgreSQL would not start again.
        psutil.wait_procs(others, timeout=2)  # for ever where nobody reaps what has ended

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _binary(name: str) -> str:
    found = [*glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), shutil.which(name)]
    if not found[0]:
        pytest.skip(f"{name} is not installed")
    return found[0]


def _as_other_user(folder: Path) -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid():
        return []
    shutil.chown(folder, "postgres", "postgres")
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]


def granted_in(begin: str, first: str = "") -> str:
    """The sample of docs/ledger.md that begins so."""
    text = (Path(__file__).parent.parent / "docs/ledger.md").read_text("utf-8")
    return first + text.partition(begin)[2].partition("```")[0]


class PostgresServer(Server):
    store = "muntin.ledger.postgres"

    def __init__(self) -> None:
        super().__init__()
        binary = _binary("initdb")
        self.prefix = _as_other_user(self.folder)
        self.data = self.folder / "data"
        secret = self.folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        initdb = [binary, "-D", str(self.data), "-U", "muntin", "--no-sync", "-E", "UTF8"]
        initdb += ["--locale=C", "--auth=scram-sha-256", f"--pwfile={secret}"]
        subprocess.run([*self.prefix, *initdb], check=True, capture_output=True, cwd=self.folder)

    def standby(self) -> PostgresServer:
        """A server, not started, that follows this one: hot standby, asynchronous."""
        made = PostgresServer()
        shutil.rmtree(made.data)
        copied = [
            _binary("pg_basebackup"),
            "-D",
            str(made.data),
            "-d",
            self.url(),
            "-R",
            "-c",
            "fast",
        ]
        subprocess.run([*made.prefix, *copied], check=True, capture_output=True, cwd=made.folder)
        return made

    def command(self) -> list[str]:
        said = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.folder,
            "fsync": "off",  # kill -9 does not ask for it
            "shared_buffers": "32MB",
            "max_connections": 50,
        }
        if self.tls:
            chain, key = self.folder / "chain.pem", self.folder / "key.pem"
            said |= {"ssl": "on", "ssl_cert_file": chain, "ssl_key_file": key}
            if not os.geteuid():
                shutil.chown(key, "postgres", "postgres")
        options = [part for name, value in said.items() for part in ("-c", f"{name}={value}")]
        return [*self.prefix, _binary("postgres"), "-D", str(self.data), *options]

    def url(self, **options: object) -> str:
        if "ca" in options:
            options |= {"sslmode": "verify-full", "sslrootcert": options.pop("ca")}
        asked = "&".join(f"{name}={value}" for name, value in options.items())
        secret = quote(PASSWORD, safe="")
        return f"postgresql://muntin:{secret}@127.0.0.1:{self.port}/postgres?{asked}"

    def answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def ask(self, *statements: str) -> None:
        """As the owner of the server."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def grant(self, schema: str) -> tuple[str, str]:
        """URLs of a writer and a reader, by what docs/ledger.md says."""
        users = f"writer_{schema}", f"reader_{schema}"
        granted = granted_in("```sql\n")
        for user, name in zip(("muntin_reader", "muntin"), users[::-1], strict=True):
            granted = granted.replace(f"ROLE {user} ", f"ROLE {name} ").replace(
                f"TO {user};", f"TO {name};"
            )
        granted = granted.replace("AUTHORIZATION muntin", f"AUTHORIZATION {users[0]}")
        self.ask(granted.replace("SCHEMA muntin", f"SCHEMA {schema}"))
        for user in users:
            self.ask(f"ALTER ROLE {user} PASSWORD '{PASSWORD}'")
        urls = [self.url(schema=schema).replace("muntin:", f"{user}:", 1) for user in users]
        return urls[0], urls[1]

    def read_only(self, on: bool) -> None:
        """New connections may not write."""
        self.ask(
            f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}",
            "SELECT pg_reload_conf()",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'",
        )

    @contextlib.contextmanager
    def little_space(self, folder: Path, schema: str):
        """Options of a URL, and what gives more: a tablespace on a small disk."""
        within = Path(tempfile.mkdtemp(dir=self.folder))
        space = f"small{os.getpid()}"
        with small_disk(folder, "4m") as disk:
            try:
                subprocess.run(["mount", "--bind", disk, within], check=True)
                (within / "data").mkdir()
                for path in (within, within / "data"):
                    shutil.chown(path, "postgres", "postgres")
                self.ask(f"CREATE TABLESPACE {space} LOCATION '{within / 'data'}'")
                options = {"options": f"-cdefault_tablespace%3D{space}"}
                yield options, lambda: remounted(disk, "size=30m")
            finally:
                self.ask(f"DROP SCHEMA {schema} CASCADE", f"DROP TABLESPACE {space}")
                subprocess.run(["umount", "-l", str(within)], check=False)

    def log_bytes(self, schema: str) -> int:
        """Of all changes that the log holds."""
        import psycopg

        size = f"SELECT sum(octet_length(body)) FROM {schema}.log, unnest(bodies) AS b (body)"  # noqa: S608
        with psycopg.connect(self.url()) as connection:
            (found,) = connection.execute(size).fetchone()  # pyright: ignore[reportArgumentType, reportCallIssue, reportGeneralTypeIssues]
        return found

    def damage(self, schema: str, piece: int) -> None:
        """Flip a bit of a payload, and of a window."""
        flipped = "set_byte(body, length(body) - 1, get_byte(body, length(body) - 1) # 1)"
        of_windows = "convert_to(replace(convert_from(body, 'UTF8'), 'full', 'fuel'), 'UTF8')"
        self.ask(
            f"SET search_path = {schema}",
            f"UPDATE payloads SET body = {flipped} WHERE piece = {piece}",  # noqa: S608
            f"UPDATE rows SET body = {of_windows} WHERE key LIKE 'windows:%'",  # noqa: S608
        )

    def kept(self, schema: str) -> Callable[[], None]:
        """What puts the ledger back as it is now: all that comes until then is lost."""
        tables = ("ledger", "rows", "payloads", "log")
        self.ask(*(f"DROP TABLE IF EXISTS {schema}.old_{t}" for t in tables))
        self.ask(*(f"CREATE TABLE {schema}.old_{t} AS TABLE {schema}.{t}" for t in tables))
        return lambda: self.ask(
            *(
                f"TRUNCATE {schema}.{t}; INSERT INTO {schema}.{t} TABLE {schema}.old_{t}"
                for t in tables
            )
        )

    def wipe(self, schema: str, key: str = "") -> None:
        """All rows of a ledger, or those of which the keys begin so."""
        self.ask(f"DELETE FROM {schema}.rows WHERE key LIKE '{key}%'")  # noqa: S608


class RedisServer(Server):
    store = "muntin.ledger.redis"

    def command(self) -> list[str]:
        named = os.environ.get("MUNTIN_REDIS_SERVER", "")  # or Valkey's
        binary = named or shutil.which("redis-server") or shutil.which("valkey-server")
        if binary is None:
            pytest.skip("neither redis-server nor valkey-server is installed")
        said = {
            "port": self.port, "bind": "127.0.0.1", "dir": self.folder, "requirepass": PASSWORD,
            "appendonly": "yes", "save": "", "maxmemory-policy": "noeviction",
            "appendfsync": "always",  # else kill -9 may lose what waits for a slow disk
        }  # fmt: skip
        if self.tls:
            chain, key = self.folder / "chain.pem", self.folder / "key.pem"
            said |= {"port": 0, "tls-port": self.port, "tls-auth-clients": "no"}
            said |= {"tls-cert-file": chain, "tls-key-file": key, "tls-ca-cert-file": chain}
        options = [part for name, value in said.items() for part in (f"--{name}", str(value))]
        return [binary, *options]

    def url(self, **options: object) -> str:
        theirs = {"schema": "name", "ca": "ssl_ca_certs"}
        options = {theirs.get(name, name): value for name, value in options.items()}
        asked = "&".join(f"{name}={value}" for name, value in options.items())
        secret = quote(PASSWORD, safe="")
        return f"redis{'s' * self.tls}://:{secret}@127.0.0.1:{self.port}/0?{asked}"

    def client(self):
        import redis

        plain = {"ssl": True, "ssl_cert_reqs": "none"} if self.tls else {}
        return redis.Redis(host="127.0.0.1", port=self.port, password=PASSWORD, **plain)

    def answers(self) -> bool:
        import redis

        with contextlib.suppress(redis.RedisError):
            return bool(self.client().ping())
        return False

    def grant(self, schema: str) -> tuple[str, str]:
        """As of PostgreSQL."""
        users = f"writer_{schema}", f"reader_{schema}"
        lines = granted_in("```\nACL ", "ACL ").splitlines()
        for line, user in zip(lines, users, strict=True):
            _, _, _, rules = line.split(" ", 3)
            rules = rules.replace("{muntin}", f"{{{schema}}}").replace("…", PASSWORD)
            self.client().execute_command("ACL", "SETUSER", user, *rules.split())
        urls = [self.url(schema=schema).replace("redis://:", f"redis://{user}:") for user in users]
        return urls[0], urls[1]

    def read_only(self, on: bool) -> None:
        """A replica of nobody."""
        self.client().replicaof(*(("127.0.0.1", "1") if on else ("NO", "ONE")))

    @contextlib.contextmanager
    def little_space(self, folder: Path, schema: str):
        """Options of a URL, and what gives more."""
        used = int(self.client().info("memory")["used_memory"])  # pyright: ignore[reportIndexIssue]
        self.client().config_set("maxmemory", str(used + (2 << 20)))
        try:
            yield {}, lambda: self.client().config_set("maxmemory", "0")
        finally:
            self.client().config_set("maxmemory", "0")

    def log_bytes(self, schema: str) -> int:
        """As of PostgreSQL."""
        entries = self.client().xrange(f"muntin:{{{schema}}}:log")
        return sum(len(fields[b"changes"]) for _, fields in entries)

    def damage(self, schema: str, piece: int) -> None:
        """Flip a bit of a payload, and of a window."""
        client, keys = self.client(), f"muntin:{{{schema}}}:"
        payload = client.get(f"{keys}payload:{piece}")
        client.set(f"{keys}payload:{piece}", payload[:-1] + bytes([payload[-1] ^ 1]))
        for key, row in client.hscan_iter(f"{keys}rows", "windows:*"):
            client.hset(f"{keys}rows", key, row.replace(b"full", b"fuel"))

    def kept(self, schema: str) -> Callable[[], None]:
        """As of PostgreSQL."""
        client = self.client()
        old = {key: client.dump(key) for key in client.keys(f"muntin:{{{schema}}}:*")}

        def put_back() -> None:
            client.delete(*client.keys(f"muntin:{{{schema}}}:*"))
            for key, value in old.items():
                client.restore(key, 0, value)

        return put_back

    def wipe(self, schema: str, key: str = "") -> None:
        """As of PostgreSQL: what a server does that deletes keys where its memory is full."""
        rows = f"muntin:{{{schema}}}:rows"
        client = self.client()
        client.hdel(rows, *(name for name, _ in client.hscan_iter(rows, f"{key}*")))


KINDS: list[type[Server]] = [PostgresServer, RedisServer]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    """One server for all tests of a process; each ledger has a schema of its own."""
    server = PostgresServer()
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """As `postgresql`; each ledger has a name of its own."""
    server = RedisServer()
    server.start()
    yield server
    server.close()
