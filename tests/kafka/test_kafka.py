"""A real broker, Spark's own connector: what was produced is counted, once, whatever it holds."""

from __future__ import annotations

import io
import json
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import fastavro
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from typer.testing import CliRunner

import muntin
from muntin.cli import app
from muntin.cli.stopping import stop_spark
from muntin.demo import producing
from muntin.demo.broker import Broker, broker_jars
from muntin.demo.producing import produce
from muntin.demo.taxi import SCHEMA
from muntin.errors import SourceError
from muntin.spark import kafka_topics, pipeline_status
from muntin.spark.connector import pinned_jars, with_connector
from muntin.spark.kafka import columns_of, parsed
from muntin.spark.session import session
from muntin.spark.source import stream_source
from muntin.spark.values import value_schema
from muntin.spec import Pipeline
from tests.conftest import SPARK
from tests.docs_samples import sample_of
from tests.kafka.secure import PASSWORD, SecureBroker, pipeline_of_docs, recipe, secure_broker

pytestmark = pytest.mark.spark
WRONG = [
    b'{"time": "2026-01-01T00:00:05Z", "area": "x", "fare": 1}',
    b'{"time": "2026-01-01T00:00:05Z", "area": 1, "fare": "12,5"}',
    b"not json",
    b'{"time": "noon", "area": 1, "fare": 1}',
    b'\xff{"area": 1}',
    b"",
]


SECRETS = {
    "MUNTIN_TEST_LOOKUP": "use_all_dns_ips",
    **dict.fromkeys(("KAFKA_PASSWORD", "KAFKA_KEY_PASSWORD", "KAFKA_SECRET"), PASSWORD),
}


@pytest.fixture(scope="module", autouse=True)
def own_java():
    """A Java process that other tests have left has no connector, and another environment."""
    from pyspark import SparkContext

    stop_spark()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    try:
        broker_jars()
        pinned_jars()
    except SourceError as why:
        pytest.skip(str(why))
    with secure_broker(tmp_path_factory.mktemp("kafka")) as started:
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


def oracle(numbers: Iterable[int]) -> dict[int, tuple[int, int]]:
    numbers = list(numbers)
    counts, fares = Counter(i % 7 for i in numbers), Counter()
    for i in numbers:
        fares[i % 7] += i
    return {area: (counts[area], fares[area]) for area in counts}


def test_malformed_records_a_restart_and_exact_counts(broker, tmp_path):
    options = {"bootstrap.servers": broker.servers}
    first = orders(range(400))
    assert produce([*first[:300], *WRONG, *first[300:]], "orders", options).sent == 400 + len(WRONG)
    plain = spec_of("plain", broker, tmp_path)
    with_fields = spec_of("fields", broker, tmp_path, fields={"twice": "fare * 2"})
    with_fields["summaries"]["orders"]["indicators"] = ["fare", "twice"]

    stream = run(plain)
    assert counted(stream) == oracle(range(400))
    assert (stream.progress.read, stream.progress.rejected) == (400 + len(WRONG), len(WRONG))
    assert stream.lag() == {"orders": {"0": 0, "1": 0}}  # also after its end
    assert stream.ledger.status("plain")["lag"] == stream.lag()
    kept = {bytes(r.raw): r for _, r in stream.ledger.rejected("plain")}
    assert {r.reason for r in kept.values()} == {"malformed"}
    assert kept[WRONG[0]].detail == "column 'area': \"x\" is not int"
    assert kept[b""].detail == "not JSON: Expecting value: line 1 column 1 (char 0)"
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


def test_decimals_are_summed_exactly_in_batches_and_at_once(broker, tmp_path):
    """As a type of the schema, and as a field makes them of text."""
    cents = [(-1) ** i * (10**15 // (i + 1) + i) for i in range(400)]
    written = [f"{'-' * (c < 0)}{abs(c) // 100}.{abs(c) % 100:02d}" for c in cents]
    records = [
        f'{{"time": "2026-01-01T00:00:01Z", "area": {i % 7}, "number": {w}, "text": "{w}"}}'
        for i, w in enumerate(written)
    ]
    records = [record.encode() for record in records]
    records.append(b'{"time": "2026-01-01T00:00:01Z", "area": 1, "number": 0.125, "text": "x"}')
    sent = produce(records, "amounts", {"bootstrap.servers": broker.servers}).sent
    made = spec_of("streamed", broker, tmp_path)
    made["source"]["options"] |= {"subscribe": "amounts", "maxOffsetsPerTrigger": "150"}
    ddl = "time timestamp, area int, number decimal(18, 2), text string"
    made["source"]["value"]["schema"] = ddl
    sums = {area: sum(cents[area::7]) for area in range(7)}
    for fields in ({}, {"text": "TRY_CAST(text AS DECIMAL(18, 2))"}):
        made |= {"fields": fields, "name": f"sums{len(fields)}"}
        made["summaries"]["orders"]["indicators"] = ["number", *fields]
        streamed = run(made | {"ledger": f"sqlite:///{tmp_path}/stream{len(fields)}.db"})
        at_once = muntin.summarize(
            None, made | {"ledger": f"sqlite:///{tmp_path}/{len(fields)}.db"}
        )
        for each in (streamed, at_once):
            assert (each.progress.read, each.progress.rejected) == (sent, 1)
            found = each.sql("SELECT area, (number * 100)::BIGINT FROM orders(area) FOR ALL")
            assert found.exact
            assert dict(found.rows) == sums
            total = each.sql("SELECT sum(number)::VARCHAR FROM orders(area) FOR ALL").rows
            assert Decimal(total[0][0]) == Decimal(sum(cents)) / 100
            if fields:
                of_text = each.sql("SELECT sum(text)::VARCHAR FROM orders(area) FOR ALL")
                assert of_text.rows == total


def test_a_topic_goes_on_where_its_avro_schema_has_grown(broker, tmp_path):
    time = {"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}}
    area, fare = {"name": "area", "type": "int"}, {"name": "fare", "type": "int"}
    tip = {"name": "tip", "type": ["null", "long"], "default": None}
    before, after = [
        {"type": "record", "name": "Order", "fields": fields}
        for fields in ([time, area, fare], [tip, fare | {"type": "long"}, time, area])
    ]

    def written(number: int, schema: dict, numbers: range) -> list[bytes]:
        made = []
        for i in numbers:
            out = io.BytesIO(b"\0" + number.to_bytes(4))
            out.seek(0, io.SEEK_END)
            row = {"time": 1_767_225_600_000_000 + i, "area": i % 7, "fare": i, "tip": 1}
            fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
            made.append(out.getvalue())
        return made

    spec = spec_of("grown", broker, tmp_path)
    spec["source"]["options"]["subscribe"] = "grown"
    file = tmp_path / "before.avsc"
    file.write_text(json.dumps(before))
    spec["source"]["value"] = {"format": "avro", "schema": {12: str(file)}}
    options = {"bootstrap.servers": broker.servers}
    produce(written(12, before, range(300)), "grown", options)
    assert counted(run(spec)) == oracle(range(300))

    late = written(15, after, range(300, 500)) + written(12, before, range(500, 600))
    produce([*late, written(16, after, range(1))[0]], "grown", options)
    spec["source"]["value"]["schema"][15] = json.dumps(after)
    spec["summaries"]["orders"]["indicators"] = ["fare", "tip"]
    stream = run(spec)
    assert counted(stream) == oracle(range(600))
    assert stream.sql("SELECT sum(tip) FROM orders(area) FOR ALL").rows == [[200]]
    (record,) = [record for _, record in stream.ledger.rejected("grown")]
    assert record.detail.startswith("its schema's number is 16, not 12 or 15: give source.value.")


def secured(broker: SecureBroker, folder: Path, way: str) -> dict:
    """The documentation's pipeline, by one of its recipes, at the listener of this test."""
    spec = pipeline_of_docs() | {"name": way, "spark": SPARK, "pane": "1 minute", "max_rejected": 1}
    spec["ledger"] = f"sqlite:///{folder}/{way}.db"
    spec["source"]["value"]["schema"] = "time timestamp, area int, fare bigint"
    options = spec["source"]["options"]
    if way != "scram":
        options = {k: v for k, v in options.items() if not k.startswith(("kafka.sa", "kafka.se"))}
        options |= recipe({"mutual": "Mutual TLS", "oauth": "OAUTHBEARER"}[way])
    options = recipe("TLS") | options  # a recipe's own protocol
    places = {
        "broker:9093": broker.listeners[way],
        "/etc/kafka": str(broker.folder),
        "https://identity.example": broker.identity.url,
    }
    for name, value in options.items():
        for there, here in places.items():
            value = value.replace(there, here)
        options[name] = value
    spec["source"]["options"] = options | {
        "startingOffsets": "earliest",
        "subscribe": f"secured-{way}",
    }
    return spec


@pytest.mark.parametrize("way", ["scram", "mutual", "oauth"])
def test_the_recipes_of_the_documentation(broker, tmp_path, way):
    login = {} if way != "scram" else {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "muntin", "sasl.password": PASSWORD,
        "ssl.ca.location": str(broker.folder / "ca.pem"),
    }  # fmt: skip
    server = broker.listeners[way] if login else broker.servers
    sent = produce(orders(range(70)), f"secured-{way}", {"bootstrap.servers": server, **login})
    assert (sent.sent, sent.failed) == (70, 0)
    assert counted(muntin.summarize(None, secured(broker, tmp_path, way))) == oracle(range(70))


def test_a_wrong_password_is_told_and_none_is_shown(broker, tmp_path, monkeypatch):
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
    login |= {"sasl.username": "muntin", "sasl.password": "wr0ng-77"}
    login |= {"ssl.ca.location": str(broker.folder / "ca.pem")}
    monkeypatch.setattr(producing, "FLUSH_SECONDS_MAX", 3.0)
    login["bootstrap.servers"] = broker.listeners["scram"]
    sent = produce(orders(range(1)), "secured-scram", login)
    assert (sent.sent, sent.failed) == (0, 1)
    assert "SASL authentication error" in sent.why
    spec = secured(broker, tmp_path, "scram")
    options = spec["source"]["options"]
    login = options["kafka.sasl.jaas.config"]
    options["kafka.sasl.jaas.config"] = login.replace("${env:KAFKA_PASSWORD}", PASSWORD)
    options["subscribe"] = "of-a-wrong-password"
    produce(orders(range(1)), options["subscribe"], {"bootstrap.servers": broker.servers})
    file = tmp_path / "scram.yaml"
    file.write_text(json.dumps(spec))
    told = CliRunner().invoke(app, ["check", str(file)])
    assert told.exit_code == 0, told.output
    done = muntin.summarize(None, spec)
    assert PASSWORD not in told.output + json.dumps(done.ledger.pipelines()[0].spec)
    options["kafka.sasl.jaas.config"] = login.replace("${env:KAFKA_PASSWORD}", "wr0ng-77")
    with pytest.raises(SourceError, match=r"SaslAuthenticationException.*SCRAM-SHA-512") as refused:
        muntin.summarize(None, spec | {"ledger": "memory://wrong"})
    assert "wr0ng-77" not in str(refused.value)
    for name, value, said in (
        ("kafka.ssl.truststore.location", "/no/ca.pem", "NoSuchFileException: /no/ca.pem"),
        ("kafka.sasl.jaas.config", login.replace('"${env:KAFKA_PASSWORD}"', f"a {PASSWORD}"),
         "Value not specified for key '***' in JAAS config"),
    ):  # fmt: skip
        wrong = spec["source"] | {"options": options | {name: value}}
        with pytest.raises(SourceError, match=re.escape(said)):
            muntin.summarize(None, spec | {"ledger": "memory://login", "source": wrong})
    plain = {n: v for n, v in options.items() if not n.startswith(("kafka.sa", "kafka.se"))}
    monkeypatch.setattr(kafka_topics, "ANSWER_SECONDS", 2)
    with pytest.raises(SourceError, match=r"no answer within 2 s: is kafka\.security\.protocol"):
        muntin.summarize(
            None,
            spec | {"ledger": "memory://plain", "source": spec["source"] | {"options": plain}},
        )


def test_records_that_retention_took_end_the_run_and_partitions_may_grow(
    broker, tmp_path, monkeypatch
):
    server = {"bootstrap.servers": broker.servers}
    spec = spec_of("growing", broker, tmp_path)
    spec["source"]["options"] |= {"subscribe": "growing"}
    produce(orders(range(100)), "growing", server)
    run(spec)
    grow(broker, "growing", 5)
    produce(orders(range(100, 300)), "growing", server)
    assert counted(run(spec)) == oracle(range(300))

    produce(orders(range(300, 500)), "growing", server)
    delete_records(broker, [TopicPartition("growing", n, OFFSET_END) for n in range(5)])
    produce(orders(range(500, 600)), "growing", server)
    with pytest.raises(
        SourceError, match=r"are gone from Kafka.*growing-\d.*failOnDataLoss: false"
    ):
        run(spec)
    spec["source"]["options"]["subscribe"] = "grown"
    with pytest.raises(SourceError, match=r"growing\[0\] was read.*name it as before"):
        run(spec)
    spec["source"]["options"] |= {"subscribe": "growing", "failOnDataLoss": "false"}
    monkeypatch.setattr(pipeline_status, "BEAT_SECONDS", 0.1)
    stream = muntin.stream(None, spec)
    while (stream.ledger.status("growing") or {}).get("missed") != 200:  # no batch follows
        assert not stream.await_termination(0.1)
    stream.stop()
    assert stream.progress.read == 100
    assert run(spec).ledger.status("growing")["missed"] == 200
    assert counted(stream) == oracle([*range(300), *range(500, 600)])

    make_again(broker, "growing")
    produce(orders(range(900)), "growing", server)  # more than the older one held
    spec["source"]["options"]["failOnDataLoss"] = "true"
    with pytest.raises(SourceError, match=r"topic growing was deleted and made again"):
        run(spec)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_topic_that_is_made_again_while_it_is_read_loses_nothing_unsaid(
    broker, tmp_path, monkeypatch, goes_on
):
    name = f"again-{int(goes_on)}"
    server = {"bootstrap.servers": broker.servers}
    spec = spec_of(name, broker, tmp_path)
    spec["source"]["options"] |= {"subscribe": name, "failOnDataLoss": str(not goes_on)}
    produce(orders(range(100)), name, server)

    def taken(_):
        if not anew.done:
            anew.done = True
            make_again(broker, name, 2)
            produce(orders(range(100, 500)), name, server)  # each part holds more than both did

    anew = SimpleNamespace(done=False)
    monkeypatch.setattr(pipeline_status, "BEAT_SECONDS", 0.1)
    stream = muntin.stream(None, spec, on_batch=taken)
    if goes_on:
        while not stream.ledger.status(name).get("missed"):
            assert not stream.await_termination(0.1)
        stream.stop()
        assert run(spec).ledger.status(name)["missed"] + stream.progress.read == 100 + 400
        return
    told = f"topic {name} was deleted and made again"
    # Spark tells it itself, where it looks before the new topic holds more than the old one did.
    with pytest.raises(SourceError, match=f"{told}|gone from Kafka .*, or with their topic"):
        stream.await_termination()
    with pytest.raises(SourceError, match=told):
        run(spec)
    spec["checkpoint"] = str(tmp_path / "anew")  # as the error says
    again = muntin.stream(None, spec, once=True, mode="append")
    again.await_termination()
    assert counted(again) == oracle(range(500))


def test_a_topic_that_there_is_not_is_named(broker, tmp_path):
    produce(orders(range(10)), "there", {"bootstrap.servers": broker.servers})
    spec = spec_of("missing", broker, tmp_path)
    spec["source"]["options"] |= {"subscribe": "there,no-such"}
    for begin in (muntin.stream, muntin.summarize):
        with pytest.raises(SourceError, match="no topic 'no-such', or none any more: make"):
            begin(None, spec)
    assert not (tmp_path / "missing.db").exists()


def test_a_topic_that_is_deleted_while_it_is_read_is_named(broker, tmp_path):
    server = {"bootstrap.servers": broker.servers}
    for name in ("stays", "goes"):
        produce(orders(range(10)), name, server)
    spec = spec_of("deleted", broker, tmp_path)
    spec["source"]["options"] |= {"subscribe": "stays,goes"}
    stream = muntin.stream(None, spec, on_batch=lambda _: delete(broker, "goes"))
    with pytest.raises(SourceError, match="no topic 'goes', or none any more"):
        stream.await_termination()
    assert "'goes'" in stream.ledger.status("deleted")["reason"]


def grow(broker: Broker, topic: str, partitions: int) -> None:
    """In a function of its own: a client that outlives the broker calls for it on stderr, and an
    error that a test expects holds what stands in the test until it is collected."""
    admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 3})
    for done in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        done.result()
    while len(admin.list_topics(topic).topics[topic].partitions) < partitions:
        time.sleep(0.1)


def delete(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 3})
    if topic in admin.list_topics().topics:
        admin.delete_topics([topic])[topic].result()
    while topic in admin.list_topics().topics:
        time.sleep(0.1)


def make_again(broker: Broker, topic: str, partitions: int = 1) -> None:
    delete(broker, topic)
    admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 3})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result()


def delete_records(broker: Broker, until: list[TopicPartition]) -> None:
    """As retention does."""
    admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 3})
    for done in admin.delete_records(until).values():
        done.result()


def test_produce_sends_lines_as_they_are_and_orders_at_a_rate(broker, tmp_path):
    """As docs/kafka.md does it."""
    lines = tmp_path / "orders.jsonl"
    lines.write_bytes(b"\n".join([*orders(range(50)), b"not json", b""]))
    made, sent = (
        shlex.split(line.replace("broker:9092", broker.servers), comments=True)[1:]
        for line in sample_of("kafka.md", "muntin produce").splitlines()
        if line.startswith("muntin produce")
    )
    sent[sent.index("orders.jsonl")], sent[sent.index("orders")] = str(lines), "lines"
    told = CliRunner().invoke(app, sent)
    assert told.exit_code == 0, told.output
    assert told.output.startswith("51 records in ")
    assert sorted(read_all(broker, "lines")) == sorted([*orders(range(50)), b"not json"])
    made[made.index("orders")] = "taxi"
    made += ["--servers", broker.servers, "-n", "200"]
    assert CliRunner().invoke(app, made).exit_code == 0
    records = [json.loads(value) for value in read_all(broker, "taxi")]
    assert len(records) == 200
    assert set(records[0]) == set(value_schema(SCHEMA).names)


@pytest.mark.parametrize("ddl", [None, "time timestamp, key string"])
def test_all_columns_that_are_known_beforehand_are_there(broker, tmp_path, ddl):
    spec = spec_of("known", broker, tmp_path)
    spec["source"]["value"] = ddl and {"schema": ddl}
    pipeline = Pipeline.of(
        spec | {"time": "timestamp", "summaries": {"t": {"kind": "top_k", "item": "key"}}}
    )
    spark = session(settings=with_connector(pipeline.source, pipeline.spark))
    there = parsed(stream_source(spark, pipeline.source), pipeline).columns
    assert set(columns_of(pipeline.source)) <= set(there)


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
