"""Apache Kafka on this machine, as a plain Java process: one node, KRaft, loopback only."""

import os
import random
import shutil
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from contextlib import suppress
from pathlib import Path
from typing import Self

from muntin.errors import SourceError
from muntin.spark.connector import cache_folder

VERSION = "4.1.0"
START_SECONDS_MAX = 180.0  # of a machine with much other work
FETCH_SECONDS_MAX = 300
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>muntin</groupId><artifactId>broker</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
<version>{VERSION}</version></dependency></dependencies></project>
"""


def broker_jars() -> Path:
    """The folder with Kafka's jars, which Maven fetches the first time. Raises SourceError: there
    is no Maven, or it cannot fetch them."""
    folder = cache_folder().parent / f"kafka-{VERSION}"
    if (folder / f"kafka_2.13-{VERSION}.jar").is_file():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise SourceError("Kafka's jars are fetched by Maven, and there is no mvn: install maven")
    fetched = folder.with_name(f"{folder.name}-{os.getpid()}")
    fetched.mkdir(parents=True, exist_ok=True)
    (fetched / "pom.xml").write_text(_POM)
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={fetched}"]
    try:
        done = subprocess.run(  # noqa: S603 (our own arguments)
            [maven, "-q", "-B", "-f", str(fetched / "pom.xml"), *goal],
            capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False,
        )  # fmt: skip
        if done.returncode:
            error = next((s for s in done.stdout.splitlines() if "ERROR" in s), "it says nothing")
            raise SourceError(f"Maven cannot fetch Kafka {VERSION}: {error[:300]}")
        if not folder.exists():  # else another process was quicker
            fetched.rename(folder)
    except subprocess.TimeoutExpired:
        raise SourceError(f"Maven did not fetch Kafka {VERSION} in time") from None
    finally:
        shutil.rmtree(fetched, ignore_errors=True)
    return folder


class Broker:
    """A broker for the length of a `with` block; its data are in `folder`.

    Data of an earlier broker that are there are gone on with. `servers` is what clients take as
    `bootstrap.servers`, `process` the broker, while it runs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        port, controller = free_ports(2)
        self.servers = f"127.0.0.1:{port}"
        self._settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "num.partitions": "2",
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Start it, the first time or again; returns once it takes connections."""
        jars = broker_jars()
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = self._folder / "server.properties"
        settings.write_text("".join(f"{k}={v}\n" for k, v in self._settings.items()))
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
        if not (self._folder / "data").exists():
            format_ = "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)
            self._java(jars, *format_).wait(START_SECONDS_MAX)
        self.process = self._java(jars, "kafka.Kafka", str(settings))
        self._wait()

    def kill(self) -> None:
        """As a power cut of the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _java(self, jars: Path, *words: str) -> subprocess.Popen[bytes]:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home, "bin", "java")) if home else "java"
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        with (self._folder / "broker.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 (our own arguments)
                [java, *options, "-cp", f"{jars}/*", *words], stdout=log, stderr=log
            )

    def _wait(self) -> None:
        """Until the broker takes connections, which it does once it is ready."""
        host, port = self.servers.split(":")
        end = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < end:
            if self.process is not None and self.process.poll() is not None:
                break
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        self.kill()
        raise SourceError(f"Kafka does not start: see {self._folder / 'broker.log'}")


def free_ports(n: int) -> list[int]:
    """Ports of loopback that nobody has, nor is given by the system before, or while, a server
    listens there: those that it gives, and those of outgoing connections, begin at 32768."""
    found: list[int] = []
    for port in random.SystemRandom().sample(range(20_000, 32_000), 50 + n):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == n:
            return found
    raise SourceError(
        "no port of 127.0.0.1 is free between 20000 and 32000: end what listens there"
    )
