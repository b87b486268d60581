"""Jars of the connector: pinned by checksum, from a cache, a folder or a resolver."""

from __future__ import annotations

import hashlib
import os
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

import muntin
from muntin.errors import SourceError, SpecError
from muntin.spark import connector
from muntin.spark.connector import Jar, is_to_be_fetched, pinned_jars, with_connector
from muntin.spark.failures import worker_error
from muntin.spark.kafka import columns_of
from muntin.spark.kafka_topics import MissedOffsets, check_ids, lag_of, with_ids
from muntin.spec import Pipeline


def pipeline(source=None, **more) -> Pipeline:
    return Pipeline.of(
        {
            "name": "orders",
            "source": {"format": "kafka", "subscribe": "orders", **(source or {})},
            "time": "time",
            "pane": "1 minute",
            "summaries": {"n": {"kind": "vector_matrix", "keys": ["area"], "indicators": []}},
            **more,
        }
    )


def with_connector_of(pipeline: Pipeline) -> dict[str, str]:
    return with_connector(pipeline.source, pipeline.spark)


@pytest.fixture
def no_jars(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    return tmp_path


def test_a_jar_with_another_checksum_is_not_taken(no_jars, monkeypatch):
    jar = Jar("org.example", "thing", "1.0", "0" * 64)
    monkeypatch.setattr(connector, "_pinned", lambda: (jar,))
    place = no_jars / "mirror" / "org" / "example" / "thing" / "1.0"
    place.mkdir(parents=True)
    (place / "thing-1.0.jar").write_bytes(b"not what was pinned")
    (place / "thing-1.0.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
        "<artifactId>thing</artifactId><version>1.0</version></project>"
    )
    settings = no_jars / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="m"/><resolvers>'
        f'<ibiblio name="m" m2compatible="true" root="file://{no_jars}/mirror/"/>'
        "</resolvers></ivysettings>"
    )
    mirror = {"spark.jars.ivySettings": str(settings)}
    with pytest.raises(SourceError, match=r"thing-1\.0\.jar came with another checksum") as refused:
        pinned_jars(mirror)
    assert "spark.jars.ivySettings" in str(refused.value)
    assert "source.jars with org.example:thing:1.0" in str(refused.value)
    kept = connector.cache_folder()
    assert os.listdir(kept) == []

    good = hashlib.sha256(b"not what was pinned").hexdigest()
    monkeypatch.setattr(connector, "_pinned", lambda: (replace(jar, sha256=good),))
    (kept / "thing-1.0.jar").write_bytes(b"flipped since")
    assert [file.read_bytes() for file in pinned_jars(mirror)] == [b"not what was pinned"]


def test_jars_of_a_folder_stand_beside_those_of_the_user(no_jars):
    folder = no_jars / "jars"
    folder.mkdir()
    with pytest.raises(SourceError, match="no spark-sql-kafka-0-10 jar is there"):
        with_connector_of(pipeline({"jars": str(folder)}))
    jar = folder / "spark-sql-kafka-0-10_2.13-9.jar"
    jar.touch()
    found = with_connector_of(pipeline({"jars": str(folder)}, spark={"spark.jars": "own.jar"}))
    assert found["spark.jars"] == f"own.jar,{jar}"


def test_a_connector_that_is_named_is_left_alone(no_jars):
    named = {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0"}
    limit = "spark.sql.execution.arrow.maxBytesPerBatch"
    assert with_connector_of(pipeline(spark=named)) == named | {limit: str(64 << 20)}
    named[limit] = "1000000"
    assert with_connector_of(pipeline(spark=named)) == named


def test_a_server_of_spark_connect_has_its_own_jars(no_jars, monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:15002")
    assert "spark.jars" not in with_connector_of(pipeline())
    assert not is_to_be_fetched(pipeline())


def test_secrets_are_not_in_the_spec_that_readers_see():
    secret = pipeline(
        {
            "options": {
                "kafka.sasl.jaas.config": "Login password='hunter2';",
                "kafka.ssl.keystore.password": "hunter2",
                "kafka.ssl.keystore.key": "hunter2",
            },
            "kafka.ssl.key.password": "hunter2",
        },
        spark={"spark.hadoop.fs.s3a.secret.key": "hunter2"},
    )
    assert secret.source is not None
    assert secret.source.options["kafka.ssl.keystore.key"] == "hunter2"
    assert "hunter2" not in str(secret.as_json())
    assert "subscribe" in str(secret.as_json())


def test_columns_of_a_value_hide_those_of_the_record():
    source = pipeline({"value": {"schema": "timestamp string, fare double"}}).source
    assert source is not None
    kinds = {name: str(kind) for name, kind in columns_of(source).items()}
    assert kinds["timestamp"] == "string"
    assert kinds["fare"] == "double"
    assert kinds["offset"] == "int64"
    assert "value" not in kinds
    own = pipeline({"value": {"schema": "fare double, _muntin_topic string"}}).source
    assert own is not None
    with pytest.raises(SourceError, match="column '_muntin_topic' has a name of Muntin's own"):
        columns_of(own)


def test_lists_and_mappings_are_as_spark_takes_them():
    given = {"subscribe": ["a", "b"], "startingOffsets": {"a": {0: 3}}, "failOnDataLoss": False}
    source = pipeline({"options": given}).source
    assert source is not None
    assert source.options == {
        "subscribe": "a,b", "startingOffsets": '{"a": {"0": 3}}', "failOnDataLoss": "false"
    }  # fmt: skip


def test_value_and_jars_are_for_kafka_only():
    with pytest.raises(SpecError, match="value: is for format: kafka, not csv"):
        pipeline({"format": "csv", "value": {"schema": "a int"}})
    with pytest.raises(SpecError, match=r"schema: is for files: write Kafka's as  value: \{schema"):
        pipeline({"format": "kafka", "schema": "a int"})


@pytest.mark.parametrize(
    ("servers", "more", "said"),
    [
        ("127.0.0.1:1", {}, r"kafka\.bootstrap\.servers: no broker is there \("),
        ("no.such.host.invalid:9092,x", {}, r"kafka\.bootstrap\.servers: no broker is there \("),
        ("PLAINTEXT://[::1]:1", {}, r"no broker is there \(PLAINTEXT://\[::1\]:1: \[Errno (?!-)"),
        ("", {"maxOffsetsPerTrigger": "0"}, r"maxOffsetsPerTrigger: '0' is no whole number above"),
    ],
)
def test_what_cannot_run_is_told_before_spark_starts(servers, more, said, tmp_path):
    spec = pipeline(
        more
        | {"kafka.bootstrap.servers": servers, "value": {"schema": "time timestamp, area int"}},
        ledger=f"sqlite:///{tmp_path}/orders.db",
    )
    with pytest.raises(SourceError, match=said):
        muntin.stream(None, spec)
    assert not list(tmp_path.iterdir())


AGAIN = """[STREAM_FAILED] Query [id = 4b] terminated with exception: Some data may have been lost \
because they are not available in Kafka any more;
either the data was aged out by Kafka or the topic may have been deleted
Reason: Partition orders-0 offset was changed from 20 to 5.
This could be either 1) a user error, or 2) the topic is deleted and re-created. SQLSTATE: XXKST
=== Streaming Query ==="""


def test_what_is_gone_from_kafka_is_told_with_what_helps():
    told = str(worker_error(Exception(AGAIN)))
    assert "(by its retention, or with their topic): Partition orders-0 offset was changed" in told
    assert " from 20 to 5. To go on without them, write failOnDataLoss: false. Where the" in told
    assert "or never held what startingOffsets say, name another folder" in told
    assert 'another folder under checkpoint: and start with mode="append" (--append)' in told
    assert "name the right ones again and delete the newest file under offsets/" in told
    none = "Caused by: a.b.UnknownTopicOrPartitionException: This server does not host this topic"
    assert "Kafka has no such topic" in str(worker_error(Exception(none)))
    away = "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node"
    assert "start again once it does" in str(worker_error(Exception(away)))


@pytest.mark.parametrize(
    ("there", "goes_on", "told"),
    [
        ({"cluster": "c", "topics": {"orders": "1", "new": "2"}}, False, ""),
        ({"cluster": "c", "topics": {}}, False, ""),  # Spark says that it is gone
        ({}, False, ""),  # a client that cannot ask
        ({"cluster": "c", "topics": {"orders": "9"}}, False, "topic orders was deleted and made"),
        ({"cluster": "c", "topics": {"orders": "9"}}, True, ""),
        ({"cluster": "d", "topics": {"orders": "9"}}, True, "are those of cluster d, and"),
    ],
)
def test_offsets_of_another_cluster_or_topic_are_told(there, goes_on, told):
    source = pipeline({"options": {"failOnDataLoss": not goes_on}}).source
    with pytest.raises(SourceError, match=told) if told else nullcontext():
        check_ids(source, {"cluster": "c", "topics": {"orders": "1"}}, there)
    check_ids(source, {}, there)  # an older checkpoint


def test_which_topic_it_was_is_known_while_it_is_not_there():
    both = pipeline({"options": {"subscribe": "orders,new"}}).source
    read = {"cluster": "c", "topics": {"orders": "1", "other": "5"}}
    known = with_ids(both, read, {"cluster": "c", "topics": {"new": "2"}})
    assert known == {"cluster": "c", "topics": {"orders": "1", "new": "2"}}
    assert with_ids(both, known, {}) == known  # a client that cannot ask
    with pytest.raises(SourceError, match="topic orders was deleted and made again"):
        check_ids(both, known, {"cluster": "c", "topics": {"orders": "9", "new": "2"}})


def test_lag_is_what_kafka_has_beyond_what_was_taken():
    ends = {
        "endOffset": '{"orders": {"0": 90, "1": 5}}',
        "latestOffset": '{"orders": {"0": 100, "1": 5, "2": 7}}',
    }
    assert lag_of({"sources": [ends]}) == {"orders": {"0": 10, "1": 0}}
    assert lag_of(None) == {}
    assert lag_of({"sources": [{"endOffset": "3", "latestOffset": None}]}) == {}


def test_offsets_that_a_batch_passed_over_are_counted_once_it_is_told_of():
    def told(batch, begun, ended):
        return {"batchId": batch, "sources": [{"startOffset": begun, "endOffset": ended}]}

    first = told(0, None, '{"orders": {"0": 500}}')  # from where it began nobody says
    then = told(1, {"orders": {"0": 500}}, {"orders": {"0": 510, "1": 7}})
    query = SimpleNamespace(recentProgress=[first])
    missed_of = pipeline({"options": {"failOnDataLoss": False}}).source
    missed = MissedOffsets(missed_of, before=3)
    missed.took(0, 20)
    missed.took(1, 12)
    assert missed.look(query) == 3
    query.recentProgress.append(then)
    assert missed.look(query) == missed.look(query) == 3 + 5
    again = told(2, {"orders": {"0": 510, "1": 7}}, {"orders": {"0": 4, "1": 8}})
    query.recentProgress.append(again)  # a topic that was made again: Spark reads none of its 4
    missed.took(2, 1)
    assert missed.look(query) == 3 + 5 + 4
    ends = {"orders": {"0": 600, "1": 9}}
    query.recentProgress = [
        told(3, {"orders": {"0": 510, "1": 7}}, ends),
        told(4, ends, {"orders": {"0": 610, "1": 9}}),
    ]
    anew = MissedOffsets(missed_of)
    anew.took(3, 90 + 2, ["orders"])  # and holds more: it is read from where the older was
    anew.took(4, 10)
    assert anew.look(query) == 510 + 7
    unasked = MissedOffsets(pipeline().source)
    unasked.took(1, 12)
    assert unasked.look(query) == 0
