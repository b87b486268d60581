"""Two sites and a coordinator as processes, and what happens to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import yaml

from muntin.demo.broker import free_ports
from tests.sites.proxy import Proxy
from tests.sites.stream import (
    LEASE,
    MISSING_AFTER,
    PANE_US,
    RANKING,
    RETRY,
    SITES,
    TOKENS,
    K,
    check_top,
)

ROOT = Path(__file__).parents[2]
START_SECONDS = 120.0  # of a process on a busy machine


class Cluster:
    """`answers` is every answer that was ever given, asked for ten times a second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self.start_pane = time.time_ns() // 1000 // PANE_US
        self.proxies = {name: Proxy(self.port) for name in SITES}
        self.processes: dict[str, subprocess.Popen] = {}
        self.answers: list[dict] = []
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=5)
        entries = {
            "sites": {name: {"token_env": f"TOKEN_{name.upper()}"} for name in SITES},
            "k": K,
            "retry": RETRY,
            "missing_after": MISSING_AFTER,
            "lease": LEASE,
            "port": self.port,
            "state": str(folder / "coordinator.state"),
            **RANKING,
        }
        self.file = folder / "coordinator.yaml"
        self.file.write_text(yaml.safe_dump(entries))
        self._stopped = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)

    def start_all(self) -> None:
        self.start("coordinator")
        for name in SITES:
            self.start(name)
        self._watching.start()

    def start(self, name: str) -> None:
        if name == "coordinator":
            command = ["-m", "tests.sites.command", "coordinator", str(self.file)]
        else:
            url = f"ws://127.0.0.1:{self.proxies[name].port}"
            command = ["-m", "tests.sites.site_process", str(self.folder), name, url]
            command.append(str(self.start_pane))
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {f"TOKEN_{n.upper()}": token for n, token in TOKENS.items()},
            )

    def signal(self, name: str, number: signal.Signals) -> None:
        self.processes[name].send_signal(number)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        self.processes[name].wait()

    def get(self, path: str) -> dict | None:
        """None where nobody answers."""
        try:
            return self._client.get(path).json()
        except httpx.HTTPError:
            return None

    def state(self) -> dict:
        """What /sites says, as soon as it says anything."""
        deadline = time.monotonic() + START_SECONDS
        while (found := self.get("/sites")) is None:
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.02)
        return found

    def until(self, condition, units: float = START_SECONDS * 1e6 / PANE_US) -> dict:
        """Wait for an answer with which a condition holds, at most so many units."""
        deadline = time.monotonic() + units * PANE_US / 1e6
        while True:
            answer = self.get("/top_k")
            if answer is not None and condition(answer):
                return answer
            assert time.monotonic() < deadline, (answer, self.logs())
            time.sleep(0.02)

    def now(self) -> int:
        """The unit that begins now."""
        return time.time_ns() // 1000 // PANE_US

    def logs(self) -> str:
        return "\n".join(p.read_text()[-1500:] for p in sorted(self.folder.glob("*.log")))

    def check_answers(self) -> int:
        """That every answer that claimed to be valid was; how many did."""
        claims = {
            (a["unit"], tuple(sorted(i["item"] for i in a["items"])))
            for a in self.answers
            if a["valid"]
        }
        for unit, items in claims:
            check_top(list(items), unit, self.start_pane)
        return len(claims)

    def close(self) -> None:
        self._stopped.set()
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        for proxy in self.proxies.values():
            proxy.close()

    def _watch(self) -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=5) as client:
            while not self._stopped.wait(0.1):
                try:
                    self.answers.append(client.get("/top_k").json())
                except httpx.HTTPError:
                    continue
