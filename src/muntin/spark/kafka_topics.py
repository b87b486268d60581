"""Kafka's brokers, topics and offsets: are they still those that were read, and what waits?"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from muntin.errors import SourceError
from muntin.spark.java import class_of
from muntin.spark.session import is_classic
from muntin.spec import SourceSpec
from muntin.spec_secrets import hide_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15
_MINUTE = 60  # seconds that a client waits for an answer, as often as Spark asks
ALL = "all"  # of a topic's partitions
_PART_OF_LOGIN = re.compile(r"'.*'(?= in JAAS config$)", re.DOTALL)  # such as of a password
_NO_TOPIC = "UnknownTopicOrPartitionException"
_MISSING = (
    "source: Kafka has no topic '{}', or none any more: make it, or correct the names under "
    "subscribe: or assign:"
)
_WRONG_OPTION = (ValueError, TypeError, AttributeError, re.error)


def check_broker(source: SourceSpec) -> None:
    """SourceError where no broker takes a connection: Spark would try for ever, and say nothing."""
    if source.format == "kafka":
        option = "kafka.bootstrap.servers"
        check_servers(source.options.get(option, ""), f"source: {option}")


def check_servers(servers: str, option: str) -> None:
    """SourceError, which names the option, where none of these servers takes a connection."""
    if "${" in servers:
        return  # Kafka's clients know what stands for it
    given = [server.strip() for server in servers.split(",") if server.strip()]
    if not given:
        raise SourceError(f"{option} is missing: write for example localhost:9092")
    why = ""
    for server in given:
        host, _, port = server.rpartition("://")[2].rpartition(":")  # clients take PLAINTEXT://
        if not port.isdecimal():
            why = f"{server}: write host:port, such as localhost:9092"
            continue
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except (OSError, ValueError, OverflowError) as problem:
            why = f"{server}: {problem}"
            if isinstance(problem, TimeoutError):
                why += f" after {CONNECT_SECONDS:g} s"
        else:
            return
    raise SourceError(f"{option}: no broker is there ({why})")


def ids_of(spark: SparkSession, source: SourceSpec | None) -> dict[str, Any]:
    """`Topics.ids`, asked once."""
    with closing(Topics(spark, source)) as topics:
        return topics.ids()


class Topics:
    """Asks Kafka about the topics of a source, by one client: to make one takes far longer."""

    def __init__(self, spark: SparkSession, source: SourceSpec | None) -> None:
        self._source = source
        is_asked = source is not None and source.format == "kafka" and is_classic(spark)
        self._java: Any = spark._jvm if is_asked else None  # pyright: ignore[reportPrivateUsage]
        self._admin: Any = None

    def ids(self, *, patiently: bool = False) -> dict[str, Any]:
        """What Kafka calls its cluster and, since each was made, the topics that a source reads:
        {cluster: …, topics: {name: …}}; {} of another source, or by Spark Connect.

        `patiently`: a broker that is away is waited for as long as Spark does, and so may a topic
        be. Raises SourceError: Kafka does not answer, though a connection is taken: Spark would try
        for ever; or it has no topic of a name, which Spark does not name.
        """
        if self._source is None or self._java is None:
            return {}
        from py4j.protocol import Py4JError, Py4JJavaError

        seconds = ANSWER_SECONDS
        try:
            if patiently:
                seconds = _MINUTE * int(_said(self._source).get("fetchoffset.numretries", 3))
            return self._asked(self._source, seconds, patiently=patiently)
        except Py4JJavaError as problem:
            said = f"{class_of(_root(problem))}: {_root(problem).getMessage()}"
            said = _PART_OF_LOGIN.sub("'***'", hide_secrets(said, self._source.options))
            if said.startswith("TimeoutException"):
                said = f"no answer within {seconds} s: " + (
                    "what was committed stays; start again once it does"
                    if patiently
                    else "is kafka.security.protocol the listener's? One with TLS does not answer "
                    "a client without"
                )
            servers = self._source.options.get("kafka.bootstrap.servers", "")
            raise SourceError(f"source: kafka.bootstrap.servers: {servers}: {said}") from None
        except (Py4JError, *_WRONG_OPTION):
            return {}  # Spark says what is wrong; or the user's own client is too old to know

    def _asked(self, source: SourceSpec, seconds: int, *, patiently: bool) -> dict[str, Any]:
        from py4j.protocol import Py4JJavaError

        java, admin = self._java.java, self._java.org.apache.kafka.clients.admin
        if self._admin is None:
            settings = java.util.Properties()
            for name, value in source.options.items():
                if name.lower().startswith("kafka."):
                    settings.setProperty(name[len("kafka.") :], value)
            self._admin = admin.AdminClient.create(settings)
        wait = seconds, java.util.concurrent.TimeUnit.SECONDS
        within = admin.DescribeClusterOptions().timeoutMs(seconds * 1000)
        cluster = self._admin.describeCluster(within).clusterId().get(*wait)
        said = _said(source)
        if "subscribepattern" in said:
            there = java.lang.String.join(",", self._admin.listTopics().names().get(*wait))
            names = list(filter(_named_by(source), there.split(",")))
        else:
            names = [*said.get("subscribe", "").split(","), *json.loads(said.get("assign", "{}"))]
            names = [name.strip() for name in names if name.strip()]
        within = admin.DescribeTopicsOptions().timeoutMs(seconds * 1000)
        told = self._admin.describeTopics(names, within).topicNameValues()
        topics = {}
        for name in names:
            try:
                topics[name] = str(told[name].get(*wait).topicId())
            except Py4JJavaError as problem:
                if class_of(_root(problem)) != _NO_TOPIC:
                    raise
                if not patiently:  # else a batch that was planned before is read to its end
                    raise SourceError(_MISSING.format(name)) from None
        return {"cluster": cluster, "topics": topics}

    def close(self) -> None:
        """Let go of the client."""
        if self._admin is not None:
            self._admin.close(self._java.java.time.Duration.ZERO)


def _root(problem: Any) -> Any:
    """What Java's exceptions come from: "Failed to create new NetworkClient" tells nothing."""
    cause = problem.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return cause


def check_ids(source: SourceSpec | None, read: Mapping[str, Any], there: Mapping[str, Any]) -> None:
    """SourceError where the offsets of a checkpoint are of another cluster, or of topics that were
    made again: Spark would read on from there, whatever stands there now.

    `read`, `there`: as `Topics.ids` gave them when the checkpoint was written, and gives them now.
    """
    anew = (
        'name another folder under checkpoint: and start with mode="append" (--append), to add all '
        "that"
    )
    if read.get("cluster") != there.get("cluster") and read.get("cluster") and there:
        raise SourceError(
            f"source: kafka.bootstrap.servers are those of cluster {there['cluster']}, and the "
            f"checkpoint has read cluster {read['cluster']}: name its servers; or {anew} the other "
            "one holds to what is stored"
        )
    if _goes_on(source):
        return
    for name in made_again(read, there):
        raise SourceError(
            f"source: topic {name} was deleted and made again since the checkpoint has read "
            f"it: {anew} it holds now to what is stored; or, to leave out what it holds up to "
            "the offset where the older one was read, write failOnDataLoss: false"
        )


def made_again(read: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Topics that are others under a name that was read; both as `Topics.ids` gives them."""
    now = there.get("topics", {})
    return [name for name, known in read.get("topics", {}).items() if now.get(name, known) != known]


def with_ids(
    source: SourceSpec | None, read: Mapping[str, Any], there: Mapping[str, Any]
) -> dict[str, Any]:
    """The ids to keep: those there are, and the last known ones of topics that are away."""
    if not there:
        return dict(read)
    named_by = _named_by(source)
    known = {name: known for name, known in read.get("topics", {}).items() if named_by(name)}
    return {**there, "topics": known | there["topics"]}


def check_topics(source: SourceSpec | None, planned: Iterable[str]) -> None:
    """SourceError where the source asks no more for a topic that `planned` offsets of its
    checkpoint hold.

    Spark plans a batch without it, and then refuses: the checkpoint has forgotten the topic by
    then, so that it is read again from its beginning once it is named again.
    """
    if _goes_on(source):
        return
    try:
        named_by = _named_by(source)
        for topic, ends in _offsets(next(iter(planned), None)).items():
            assigned = named_by(topic)
            left = () if assigned == ALL else ends.keys() - set(map(str, assigned))
            if left:
                raise SourceError(
                    f"source: the checkpoint knows up to where {topic}[{min(left)}] was read, and "
                    "the options name it no more: name it as before. To leave it out, write "
                    "failOnDataLoss: false: it is forgotten, and read from its beginning where it "
                    "comes back"
                )
    except _WRONG_OPTION:
        return  # Spark says what is wrong


def lag_of(progress: Mapping[str, Any] | None) -> dict[str, dict[str, int]]:
    """Records that are in Kafka and not yet taken, by topic and partition, of a query's progress.
    {} where nothing is known: before the first batch, or of another source."""
    found: dict[str, dict[str, int]] = {}
    for source in (progress or {}).get("sources", ()):
        taken, newest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        for topic, ends in newest.items():
            for partition, end in ends.items():
                begun = taken.get(topic, {}).get(partition)
                if begun is not None:
                    found.setdefault(topic, {})[partition] = max(0, end - begun)
    return found


class MissedOffsets:
    """Offsets that were passed over: retention had taken their records, or they never had one, as
    in topics that are compacted or written in transactions. Told by a query's progress, where
    Spark goes on without them (`failOnDataLoss: false`).
    """

    def __init__(self, source: SourceSpec | None, before: int = 0) -> None:
        self._wanted = _goes_on(source)
        self._read: dict[int, tuple[int, Collection[str]]] = {}
        self._looking = threading.Lock()  # batches and signs of life come in threads of their own
        self.count = before

    def took(self, batch_id: int, records: int, anew: Collection[str] = ()) -> None:
        """A batch was committed. `anew`: topics that were made again since the batch before. This
        one passes over what they hold up to where the older ones were read."""
        if self._wanted:
            self._read[batch_id] = records, anew

    def look(self, query: StreamingQuery) -> int:
        """How many in all; those of a batch once Spark has reported it."""
        with self._looking:
            for progress in query.recentProgress if self._read else ():
                reported: Mapping[str, Any] = progress  # pyright: ignore[reportAssignmentType]
                records, anew = self._read.pop(reported["batchId"], (None, ()))
                if records is not None:
                    self.count += max(0, _passed(reported, anew) - records)
        return self.count


def _passed(progress: Mapping[str, Any], anew: Collection[str]) -> int:
    """Offsets from a batch's begin to its end; from 0 of a partition that is new, or was made
    again, of which Spark reads nothing up to there, or up to where the older one was read."""
    passed = 0
    for source in progress.get("sources", ()):
        begun, ended = _offsets(source.get("startOffset")), _offsets(source.get("endOffset"))
        for topic, ends in ended.items() if begun else ():
            for part, end in ends.items():
                begin = 0 if topic in anew else begun.get(topic, {}).get(part, 0)
                passed += end - begin if begin <= end else end
    return passed


def _said(source: SourceSpec | None) -> dict[str, str]:
    """Kafka's options, whose names Spark takes in any case; {} of another source."""
    options = source.options if source is not None and source.format == "kafka" else {}
    return {name.lower(): value for name, value in options.items()}


def _goes_on(source: SourceSpec | None) -> bool:
    """Without records that are gone."""
    return _said(source).get("failondataloss", "").lower() == "false"


def _named_by(source: SourceSpec | None) -> Callable[[str], Any]:
    """Which partitions of a topic the options name: `ALL`, or a list."""
    said = _said(source)
    assigned = json.loads(said.get("assign", "{}"))
    pattern = re.compile(said.get("subscribepattern", "(?!)"))
    topics = {name.strip() for name in said.get("subscribe", "").split(",")}
    return lambda topic: (
        ALL if topic in topics or pattern.fullmatch(topic) else assigned.get(topic, ())
    )


def _offsets(given: Any) -> dict[str, dict[str, int]]:
    try:
        found = json.loads(given) if isinstance(given, str) else given
        return {t: {p: int(at) for p, at in ends.items()} for t, ends in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
