"""Records into a Kafka topic at a chosen rate: the lines of a file, its rows, or taxi orders."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import pyarrow as pa

from muntin.errors import BadArgument, SourceError, needs
from muntin.times import now_us

TICK_SECONDS = 0.05
FLUSH_SECONDS_MAX = 60.0
ROWS_AT_ONCE = 4_096


@dataclass(slots=True)
class Produced:
    """What the broker has acknowledged, and what it has not."""

    sent: int = 0
    failed: int = 0
    why: str = ""


def values_of(what: str, seed: int = 1, per_second: float = 2_000.0) -> Iterator[bytes]:
    """Values of records: `taxi` without end, or of a .parquet, .csv or .json(l) file.

    Lines of JSON are taken as they are, whatever they hold. Orders bear the time from now on, and
    so many come in a second of it. Raises BadArgument: there is no such file, or it is of another
    kind.
    """
    if what == "taxi":
        return _taxi(seed, per_second)
    file = Path(what)
    if not file.is_file():
        raise BadArgument(f"{what}: no such file; or write taxi, for generated orders")
    if file.suffix in (".json", ".jsonl", ".ndjson"):
        return _lines(file)
    if file.suffix not in (".parquet", ".csv"):
        raise BadArgument(f"{what}: a file is .parquet, .csv, .json or .jsonl")
    return _rows(file)


def produce(
    values: Iterable[bytes],
    topic: str,
    options: Mapping[str, str],
    *,
    rate: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Produced:
    """Send values to a topic, each once it is due; returns when all are acknowledged.

    `options`: librdkafka's, such as `bootstrap.servers`. `rate`: records a second; by default as
    many as the broker takes. `stopped` ends it early. Raises SourceError: the client is not
    installed, an option is wrong, or no broker is there.
    """
    needs("kafka", "muntin produce")
    from confluent_kafka import KafkaException, Producer

    from muntin.spark.kafka_topics import check_servers

    done = Produced()

    def said(problem: object) -> None:
        done.why = str(problem)  # a wrong password, say: the records would only wait

    try:
        quiet = {"log_level": 2, "error_cb": said}
        producer = Producer({"linger.ms": 5, "enable.idempotence": True, **quiet, **options})
    except (KafkaException, TypeError, ValueError) as problem:
        raise SourceError(f"kafka: {problem}") from None
    servers = options.get("bootstrap.servers", "")
    check_servers(servers, "bootstrap.servers")  # the client would wait for one

    def acknowledged(problem: object, _: object) -> None:
        if problem is None:
            done.sent += 1
        else:
            done.failed += 1
            done.why = str(problem)

    def send(value: bytes) -> bool:
        """Hand it over; False where it was stopped while the client's queue was full."""
        while not stopped():
            try:
                producer.produce(topic, value, on_delivery=acknowledged)
                return True
            except BufferError:  # as many wait as may
                producer.poll(0.1)
        return False

    begun = time.monotonic()
    given = 0
    rest = iter(values)
    while not stopped():
        due = ROWS_AT_ONCE
        if rate is not None:
            due = min(due, int((time.monotonic() - begun) * rate) + 1 - given)
        taken = 0
        for value in islice(rest, max(0, due)):
            taken += 1
            if not send(value):
                break
        given += taken
        producer.poll(0)
        if due > 0 and not taken:
            break
        if rate is not None and due < ROWS_AT_ONCE:
            time.sleep(max(0.0, min(TICK_SECONDS, begun + given / rate - time.monotonic())))
    left = producer.flush(FLUSH_SECONDS_MAX)
    if left:
        done.failed += left
        done.why = done.why or f"{servers}: no answer for {FLUSH_SECONDS_MAX:g} s: is it there?"
    return done


def _taxi(seed: int, per_second: float) -> Iterator[bytes]:
    from muntin.demo.taxi import orders

    begun = now_us()
    for number in count():
        start = begun + int(number * ROWS_AT_ONCE * 1e6 / per_second)
        batch = orders(ROWS_AT_ONCE, seed=seed + number, start_us=start, per_second=per_second)
        yield from json_values(batch)


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as lines:
        for line in lines:
            if line.strip():
                yield line.rstrip(b"\r\n")


def _rows(file: Path) -> Iterator[bytes]:
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    try:
        if file.suffix == ".csv":
            with pc.open_csv(file) as batches:
                for batch in batches:
                    yield from json_values(batch)
            return
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(ROWS_AT_ONCE):
                yield from json_values(batch)
    except (pa.ArrowException, OSError) as problem:
        raise BadArgument(f"{file}: {problem}") from None


def json_values(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Rows as JSON; times in ISO 8601, what JSON does not have as text."""
    for row in batch.to_pylist():
        yield json.dumps(row, default=_text).encode()


def _text(value: object) -> str:
    shown = getattr(value, "isoformat", None)
    return shown() if shown is not None else str(value)
