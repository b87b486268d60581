"""Real PostgreSQL servers for tests: local processes, on loopback, in folders of their own."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

START_SECONDS = 60
PASSWORD = "p@ss:word/3f9c"  # noqa: S105  (of a server on loopback that ends with its test)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A process with a folder; `kill` and `start` as often as one likes."""

    store = ""
    """The module of Muntin that uses it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="muntin-store-"))
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        raise NotImplementedError

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
        if self.process is not None:
            self.signal(signal.SIGSTOP)
            self.signal(signal.SIGKILL)
            self.process.wait()

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

    def command(self) -> list[str]:
        said = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.folder,
            "fsync": "off",  # kill -9 does not ask for it
            "shared_buffers": "32MB",
            "max_connections": 50,
        }
        options = [part for name, value in said.items() for part in ("-c", f"{name}={value}")]
        return [*self.prefix, _binary("postgres"), "-D", str(self.data), *options]

    def url(self, **options: object) -> str:
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

    def read_only(self, on: bool) -> None:
        """New connections may not write."""
        self.ask(
            f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}",
            "SELECT pg_reload_conf()",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'",
        )

    def damage(self, schema: str, piece: int) -> None:
        """Flip a bit of a payload, and of a window."""
        flipped = "set_byte(body, length(body) - 1, get_byte(body, length(body) - 1) # 1)"
        of_windows = "convert_to(replace(convert_from(body, 'UTF8'), 'full', 'fuel'), 'UTF8')"
        self.ask(
            f"SET search_path = {schema}",
            f"UPDATE payloads SET body = {flipped} WHERE piece = {piece}",  # noqa: S608
            f"UPDATE rows SET body = {of_windows} WHERE key LIKE 'windows:%'",  # noqa: S608
        )


KINDS: list[type[Server]] = [PostgresServer]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    """One server for all tests of a process; each ledger has a schema of its own."""
    server = PostgresServer()
    server.start()
    yield server
    server.close()
