"""GET /metrics: what the pipelines and the server do, for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from muntin.server import state
from muntin.server.reader import Reader
from muntin.times import US_PER_SECOND, now_us

if TYPE_CHECKING:
    from muntin.server.live import Hub

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_COUNTED = {
    "read": "Events read from the source",
    "counted": "Events counted in a pane",
    "late": "Events counted after their pane was sealed",
    "rejected": "Events that were not counted",
    "batches": "Batches committed",
    "missed": "Offsets of Kafka that were passed over without a record",
    "missing_batches": "Batches that the ledger lost and that were accepted as missing",
}
_MOMENTS = (
    ("watermark_seconds", "Watermark, seconds since 1970 UTC", "watermark"),
    ("newest_event_seconds", "Newest event time, seconds since 1970 UTC", "newest"),
    ("silent_seconds", "Since the pipeline was last heard of", "silent_us"),
)
_ALERT_STATES = ("firing", "pending")
_OUTCOMES = ("delivered", "refused", "failures", "dropped")
Rows = Iterable[tuple[Sequence[str], float]]  # values of the labels, and the metric's


class Metrics:
    """One registry a server, so that several in a process do not mix."""

    def __init__(self, reader: Reader, hub: Hub) -> None:
        self._reader = reader
        self._hub = hub
        self.registry = CollectorRegistry()
        self.more: Callable[[], Iterable[Metric]] = tuple
        """What is counted beside the ledger, if anything."""
        self.answers: Counter[str] = Counter()
        self.query_seconds = Histogram(
            "muntin_query_seconds",
            "Time to answer POST /query",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.registry.register(self)  # type: ignore[arg-type]

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """Prometheus' collector protocol."""
        yield from self._pipelines()
        yield from self._server()
        yield from self.more()

    def _pipelines(self) -> Iterator[Metric]:
        pipelines = state.read(self._reader, now_us())["pipelines"]
        for name, help_text in _COUNTED.items():
            rows = [([p["name"]], p[name]) for p in pipelines]
            yield counter(name, help_text, ["pipeline"], rows)
        for name, help_text, entry in _MOMENTS:
            rows = [
                ([p["name"]], p[entry] / US_PER_SECOND) for p in pipelines if p[entry] is not None
            ]
            yield gauge(name, help_text, ["pipeline"], rows)
        yield from _alerts(pipelines)
        stale = [([p["name"]], float(p["stale"])) for p in pipelines]
        yield gauge("stale", "1 where a pipeline is silent for too long", ["pipeline"], stale)
        lengths, fills, lags = [], [], []
        for pipeline in pipelines:
            for summary, window in pipeline["open"].items():
                labels = [pipeline["name"], summary]
                lengths.append((labels, window["length_us"] / US_PER_SECOND))
                fills += [([*labels, key], rows) for key, rows in window["fill"].items()]
            for topic, partitions in pipeline["lag"].items():
                lags += [([pipeline["name"], topic, p], lag) for p, lag in partitions.items()]
        said = "Length that open windows may have; above the usual while slowed down"
        yield gauge("window_length_seconds", said, ["pipeline", "summary"], lengths)
        said = "Rows in the open window"
        yield gauge("window_rows", said, ["pipeline", "summary", "key"], fills)
        said = "Records that the source is known to hold and that were not taken yet"
        yield gauge("lag_records", said, ["pipeline", "topic", "partition"], lags)

    def _server(self) -> Iterator[Metric]:
        hub = self._hub
        yield GaugeMetricFamily("muntin_clients", "WebSocket clients", len(hub.clients))
        yield GaugeMetricFamily("muntin_streams", "Server-Sent Events clients", len(hub.streams))
        yield GaugeMetricFamily("muntin_feeds", "Topics that are followed", hub.feeds.count)
        yield CounterMetricFamily("muntin_pushes", "Messages made", hub.feeds.pushed)
        yield CounterMetricFamily("muntin_frames", "Frames written to clients", hub.sent)
        yield CounterMetricFamily("muntin_frame_bytes", "Bytes of those frames", hub.sent_bytes)
        closed = [([str(code)], number) for code, number in sorted(hub.closings.items())]
        yield counter("closings", "Connections that the server closed", ["code"], closed)
        answers = [([outcome], number) for outcome, number in sorted(self.answers.items())]
        yield counter("queries", "Statements answered by POST /query", ["outcome"], answers)


def counter(name: str, said: str, labels: Sequence[str], rows: Rows) -> Metric:
    """`muntin_NAME`, which only grows; a row has a text for each label, and the number."""
    return _filled(CounterMetricFamily(f"muntin_{name}", said, labels=labels), rows)


def gauge(name: str, said: str, labels: Sequence[str], rows: Rows) -> Metric:
    """The same of what goes up and down."""
    return _filled(GaugeMetricFamily(f"muntin_{name}", said, labels=labels), rows)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, rows: Rows) -> Metric:
    for labels, value in rows:
        family.add_metric(labels, value)
    return family


def _alerts(pipelines: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    """Alerts of standing queries, and the webhook that they are pushed to."""
    states, failing, tries = [], [], []
    for pipeline in pipelines:
        name, shown = pipeline["name"], pipeline["alerts"]
        for alert in shown["alerts"]:
            states += [([name, alert["name"], which], alert[which]) for which in _ALERT_STATES]
            failing.append(([name, alert["name"]], float(bool(alert["error"]))))
        pushed = {**shown["webhook"], "dropped": shown["dropped"]}
        tries += [([name, outcome], pushed[outcome]) for outcome in _OUTCOMES if outcome in pushed]
    said = "Conditions that hold: firing, or pending until they have lasted long enough"
    yield gauge("alert", said, ["pipeline", "alert", "state"], states)
    yield gauge("alert_failing", "1 where it cannot be asked", ["pipeline", "alert"], failing)
    changes = [([p["name"]], p["alerts"]["number"]) for p in pipelines]
    yield counter("alert_changes", "Alerts that fired or were resolved", ["pipeline"], changes)
    waiting = [([p["name"]], p["alerts"]["waiting"]) for p in pipelines]
    said = "Changes that the webhook has yet to take"
    yield gauge("webhook_waiting", said, ["pipeline"], waiting)
    said = "Pushes since the pipeline started"
    yield counter("webhook_tries", said, ["pipeline", "outcome"], tries)
