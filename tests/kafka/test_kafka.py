"""A real broker, Spark's own connector: what was produced is counted, once, whatever it holds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from typer.testing import CliRunner

import muntin
from muntin.cli import app
from muntin.cli.stopping import stop_spark
from muntin.demo.broker import Broker, broker_jars
from muntin.demo.producing import produce
from muntin.demo.taxi import SCHEMA
from muntin.errors import SourceError
from muntin.spark.connector import pinned_jars
from muntin.spark.kafka import lag_of
from muntin.spark.values import value_schema
from tests.conftest import SPARK

pytestmark = pytest.mark.spark
WRONG = [
    b'{"time": "2026-01-01T00:00:05Z", "area": "x", "fare": 1}',
    b'{"time": "2026-01-01T00:00:05Z", "area": 1, "fare": "12,5"}',
    b"not json",
    b'{"time": "noon", "area": 1, "fare": 1}',
    b'\xff{"area": 1}',
]


@pytest.fixture(scope="module", autouse=True)
def own_java():
    """A Java process that other tests have left has no connector: Spark must start another."""
    from pyspark import SparkContext

    stop_spark()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    try:
        broker_jars()
        pinned_jars()
    except SourceError as why:
        pytest.skip(str(why))
    with Broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started


def orders(numbers: range) -> list[bytes]:
    return [
        json.dumps(
            {"time": f"2026-01-01T00:{i // 60 % 60:02d}:{i % 60:02d}Z", "area": i % 7, "fare": i}
        ).encode()
        for i in numbers
    ]


def spec_of(name: str, broker: Broker, folder: Path, **more) -> dict:
    return {
        "name": name,
        "source": {
            "format": "kafka",
            "options": {
                "kafka.bootstrap.servers": broker.servers,
                "subscribe": "orders",
                "startingOffsets": "earliest",
                # Kafka's own way to leave secrets out of a file
                "kafka.config.providers": "env",
                "kafka.config.providers.env.class": (
                    "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
                ),
                "kafka.client.dns.lookup": "${env:MUNTIN_TEST_LOOKUP}",
                "kafka.ssl.truststore.password": "not-shown",
            },
            "value": {"format": "json", "schema": "time timestamp, area int, fare bigint"},
        },
        "time": "time",
        "pane": "1 minute",
        "max_rejected": 1,
        "summaries": {
            "orders": {"kind": "vector_matrix", "keys": ["area"], "indicators": ["fare"]}
        },
        "ledger": f"sqlite:///{folder}/{name}.db",
        "spark": SPARK,
        **more,
    }


def run(spec: dict) -> muntin.spark.stream.Stream:
    stream = muntin.stream(None, spec, once=True)
    stream.await_termination()
    return stream


def counted(stream) -> dict[int, tuple[int, int]]:
    found = stream.sql("SELECT area, count, fare FROM orders(area) FOR ALL").rows
    return {int(area): (int(count), int(fare)) for area, count, fare in found}


def oracle(numbers: range) -> dict[int, tuple[int, int]]:
    counts, fares = Counter(i % 7 for i in numbers), Counter()
    for i in numbers:
        fares[i % 7] += i
    return {area: (counts[area], fares[area]) for area in counts}


def test_malformed_records_a_restart_and_exact_counts(broker, tmp_path, monkeypatch):
    monkeypatch.setenv("MUNTIN_TEST_LOOKUP", "use_all_dns_ips")
    options = {"bootstrap.servers": broker.servers}
    first = orders(range(400))
    assert produce([*first[:300], *WRONG, *first[300:]], "orders", options).sent == 405
    plain = spec_of("plain", broker, tmp_path)
    with_fields = spec_of("fields", broker, tmp_path, fields={"twice": "fare * 2"})
    with_fields["summaries"]["orders"]["indicators"] = ["fare", "twice"]

    stream = run(plain)
    assert counted(stream) == oracle(range(400))
    assert (stream.progress.read, stream.progress.rejected) == (405, len(WRONG))
    assert lag_of(stream.query.lastProgress) == {"orders": {"0": 0, "1": 0}}
    kept = {bytes(r.raw): r for _, r in stream.ledger.rejected("plain")}
    assert {r.reason for r in kept.values()} == {"malformed"}
    assert kept[WRONG[0]].detail == "column 'area': \"x\" is not int"
    assert kept[b'\\xff{"area": 1}'].detail == "byte 0 is not UTF-8"
    for record in kept.values():
        assert record.place.startswith(("orders[0]@", "orders[1]@"))
    assert len({record.place for record in kept.values()}) == len(WRONG)
    assert "not-shown" not in json.dumps(stream.ledger.pipelines()[0].spec)

    assert produce(orders(range(400, 700)), "orders", options).sent == 300
    again = run(plain)
    assert again.progress.read == 300
    assert counted(again) == oracle(range(700))

    by_spark = muntin.summarize(None, with_fields)  # a batch, whose fields Spark evaluates
    assert by_spark.sql("SELECT sum(twice) FROM orders(area) FOR ALL").rows == [
        [2 * sum(range(700))]
    ]
    assert counted(by_spark) == oracle(range(700))
    assert {(r.detail, r.place) for _, r in by_spark.ledger.rejected("fields")} == {
        (r.detail, r.place) for r in kept.values()
    }


def test_produce_sends_lines_as_they_are_and_orders_at_a_rate(broker, tmp_path):
    lines = tmp_path / "orders.jsonl"
    lines.write_bytes(b"\n".join([*orders(range(50)), b"not json", b""]))
    command = ["produce", str(lines), "--topic", "lines", "--servers", broker.servers]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    assert told.output.startswith("51 records in ")
    assert sorted(read_all(broker, "lines")) == sorted([*orders(range(50)), b"not json"])
    command = ["produce", "taxi", "-t", "taxi", "--servers", broker.servers, "-n", "200"]
    assert CliRunner().invoke(app, [*command, "--rate", "400"]).exit_code == 0
    made = [json.loads(value) for value in read_all(broker, "taxi")]
    assert len(made) == 200
    assert set(made[0]) == set(value_schema(SCHEMA).names)


def read_all(broker: Broker, topic: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.servers,
            "group.id": "tests",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    parts = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(2)]
    consumer.assign(parts)
    found, ended = [], 0
    while ended < len(parts):
        message = consumer.poll(30)
        assert message is not None, "the broker is silent"
        if message.error() is None:
            found.append(message.value())
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended += 1
    consumer.close()
    return found
