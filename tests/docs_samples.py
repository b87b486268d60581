"""The code in the documents: what there is, and a reader who does it in order.

A comment above a sample says how it is run where it is not simply run, `HOW` what there is to say.
As a program it runs samples that need Spark, one after the other, in the folder that it stands in.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from muntin.demo.broker import free_ports

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r"(?:<!-- (?P<how>checked: |run by |until stopped)(?P<more>[^\n]*?) -->\n)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)


HOW = ("", "checked: ", "run by ", "until stopped")
"""Run as it stands; not run, for the reason that follows, but checked (tests/docs_checks.py); run
by the test that follows, which reads it from the page; commands that end with Ctrl-C."""


@dataclass(frozen=True)
class Sample:
    page: str
    line: int
    language: str
    text: str
    how: str = ""
    more: str = ""

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def samples_of(page: Path) -> list[Sample]:
    """All blocks of code of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Sample(
            page.name,
            text.count("\n", 0, found.start("language")) + 1,
            found["language"],
            re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            found["how"] or "",
            found["more"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


def sample_of(page: str, *words: str) -> str:
    """The text of the one sample of a page (of docs) that has these words."""
    found = [s.text for s in samples_of(ROOT / "docs" / page) if all(w in s.text for w in words)]
    (text,) = found
    return text


def commands_of(sample: Sample) -> list[str]:
    """The lines of a shell sample, whole and without prompts."""
    lines = sample.text.replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if line.strip()]


CTRL_C = 130


def run_command(line: str, *, stopped: bool = False) -> None:
    """A line of a shell: Muntin's own in this process, which has a Spark already."""
    variables, words = split(line)
    if words[0] != "muntin":
        subprocess.run(line, shell=True, check=True)  # noqa: S602 (from the documents)
        return
    from muntin import cli

    os.environ |= variables
    sys.argv = words
    # as in a process of its own: PySpark leaves a handler that 4.1 cannot run without a context
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        cli.main()
    except SystemExit as end:
        if end.code and not (stopped and end.code == CTRL_C):
            raise AssertionError(f"{line}: ended with {end.code}") from None


def split(line: str) -> tuple[dict[str, str], list[str]]:
    """The variables that a line begins with, and its words; `uvx` is what is installed here."""
    words = shlex.split(re.sub(r"(^|\s)#.*", "", line))
    count = next((n for n, word in enumerate(words) if not re.match(r"[A-Z_]+=", word)), 0)
    variables = dict(word.split("=", 1) for word in words[:count])
    words = words[count:]
    return variables, words[words.index("muntin") :] if words[:1] == ["uvx"] else words


READY_SECONDS = 300.0  # of a busy machine, with a Spark to start
TOKEN = "0123456789abcdef0123"  # noqa: S105 (of servers on loopback that end with their test)


def run_until_stopped(sample: Sample, places: Mapping[str, str]) -> None:
    """Each command of Muntin's until it serves and the lines after it have been run beside it."""
    text, port = sample.text, str(free_ports(1)[0])
    there_is = {**places, "0.0.0.0:": "127.0.0.1:", "db.example:": "localhost:"}
    for there, here in there_is.items():
        text = text.replace(there, here)
    text = text.replace(":5433", f":{port}").replace("TOKEN=…", f"TOKEN={TOKEN}")
    lines = commands_of(Sample(sample.page, sample.line, sample.language, text))
    serving: list[tuple[str, list[str]]] = []
    for line in lines:
        if split(line)[1][0] == "muntin":
            serving.append((line, []))
        elif not line.startswith(("pip ", "uv build ")):  # what these ask for is checked
            serving[-1][1].append(line)
    for line, asked in serving:
        seen = str(free_ports(1)[0])
        beside = [each.replace(":8787", f":{seen}") for each in asked]
        more = [] if "--port" in line else ["--port", seen]
        more += ["--serve"] * (" run " in line and "--serve" not in line)
        more += ["--no-open"] * (" demo" in line)
        problems: list[str] = []
        ends = threading.Thread(target=_end_when_it_serves, args=(seen, beside, problems))
        ends.start()
        run_command(f"{line.partition(' #')[0]} {shlex.join(more)}", stopped=True)
        ends.join()
        assert not problems, (line, problems)


def _end_when_it_serves(port: str, beside: list[str], problems: list[str]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not _serves(port):
        if time.monotonic() > deadline:
            problems.append("it does not serve")
            break
        time.sleep(0.1)
    else:
        for line in beside:
            done = subprocess.run(  # noqa: S602 (from the documents)
                line,
                shell=True,
                input="SELECT count(*) FROM pg_class;\n",  # what a person would type
                text=True,
                capture_output=True,
                timeout=READY_SECONDS,
                check=False,
                env=os.environ | {"PGPASSWORD": TOKEN},
            )
            if done.returncode or not done.stdout:
                problems.append(f"{line}: {done.stderr or 'nothing was printed'}")
    os.kill(os.getpid(), signal.SIGINT)


def _serves(port: str) -> bool:
    """Whether it answers, for a pipeline that has begun (an earlier run's batches do not say so)
    and taken a batch: before, Ctrl-C ends a start."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            states = json.load(answer)["pipelines"]
    except OSError:
        return False
    return any(count for state, count in states.items() if state != "unknown")


def enter(folder: str, shared: list[Path]) -> None:
    """A folder for commands beside that for Python, with the same data: each has its ledgers."""
    here = Path.cwd()
    if here.name == folder:
        return
    (here / folder).mkdir()
    for each in shared:
        (here / folder / each.name).symlink_to(each)
    os.chdir(here / folder)


def run_python(sample: Sample, places: Mapping[str, str], names: dict[str, object]) -> None:
    """As it stands, at the places that there are here, and without what only a notebook has."""
    text = re.sub(r"^(?:%|dbutils\.).*$", "", sample.text, flags=re.MULTILINE)
    for there, here in places.items():
        text = text.replace(there, here)
    exec(compile(text, sample.name, "exec"), names)  # noqa: S102 (the documents' own)
    spark = names.get("spark")
    for query in spark.streams.active if spark else ():  # pyright: ignore[reportAttributeAccessIssue]
        query.processAllAvailable()
        query.stop()


def submit(sample: Sample) -> None:
    """Spark's own reading of each `spark-submit`, beside a Spark that there was."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    for line in commands_of(sample):
        words = split(line)[1]
        if words[0] == "spark-submit":
            given = jvm.scala.jdk.javaapi.CollectionConverters.asScala(words[1:]).toSeq()
            there = jvm.scala.collection.immutable.HashMap()
            there = there.updated("HADOOP_CONF_DIR", "/etc/hadoop")  # YARN's machines have it
            read = jvm.org.apache.spark.deploy.SparkSubmitArguments(given, there)
            assert read.primaryResource().endswith(words[-1].rpartition("/")[2])


def main() -> None:
    """`docs_samples.py FILE`: samples and places as JSON; one line for each on standard error."""
    given = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    shared = sorted(Path.cwd().iterdir())
    names: dict[str, dict[str, object]] = {}
    for each in given["samples"]:
        sample = Sample(**each)
        began = time.monotonic()
        if sample.language == "python":
            run_python(sample, given["places"], names.setdefault(sample.page, {}))
        else:
            enter("commands", shared)
            if sample.how == "until stopped":
                run_until_stopped(sample, given["places"])
            elif sample.how == "checked: ":
                submit(sample)
            else:
                for line in commands_of(sample):
                    run_command(line)
        print(f"ran {sample.name} in {time.monotonic() - began:.1f} s", file=sys.stderr)  # noqa: T201


def as_input(samples: list[Sample], places: Mapping[str, str]) -> str:
    return json.dumps({"samples": [asdict(s) for s in samples], "places": places})


if __name__ == "__main__":
    main()
