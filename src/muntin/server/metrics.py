"""GET /metrics: what the pipelines and the server do, for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from muntin.server.reader import Reader
from muntin.server.state import StateReader
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
}


class Metrics:
    """One registry a server, so that several in a process do not mix."""

    def __init__(self, reader: Reader, hub: Hub) -> None:
        self._reader = reader
        self._state = StateReader(reader)
        self._hub = hub
        self.registry = CollectorRegistry()
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

    def _pipelines(self) -> Iterator[Metric]:
        pipelines = self._state.read(now_us())["pipelines"]
        for name, help_text in _COUNTED.items():
            family = CounterMetricFamily(f"muntin_{name}", help_text, labels=["pipeline"])
            for pipeline in pipelines:
                family.add_metric([pipeline["name"]], pipeline[name])
            yield family
        gauges = (
            ("watermark_seconds", "Watermark, seconds since 1970 UTC", "watermark"),
            ("newest_event_seconds", "Newest event time, seconds since 1970 UTC", "newest"),
            ("silent_seconds", "Since the pipeline was last heard of", "silent_us"),
        )
        for name, help_text, entry in gauges:
            family = GaugeMetricFamily(f"muntin_{name}", help_text, labels=["pipeline"])
            for pipeline in pipelines:
                if pipeline[entry] is not None:
                    family.add_metric([pipeline["name"]], pipeline[entry] / US_PER_SECOND)
            yield family
        stale = GaugeMetricFamily(
            "muntin_stale", "1 where a pipeline is silent for too long", labels=["pipeline"]
        )
        length = GaugeMetricFamily(
            "muntin_window_length_seconds",
            "Length that open windows may have; above the usual while slowed down",
            labels=["pipeline", "summary"],
        )
        fill = GaugeMetricFamily(
            "muntin_window_rows", "Rows in the open window", labels=["pipeline", "summary", "key"]
        )
        lag = GaugeMetricFamily(
            "muntin_lag_records",
            "Records that the source is known to hold and that were not taken yet",
            labels=["pipeline", "topic", "partition"],
        )
        yield from _alerts(pipelines)
        for pipeline in pipelines:
            for topic, partitions in pipeline["lag"].items():
                for partition, records in partitions.items():
                    lag.add_metric([pipeline["name"], topic, partition], records)
            stale.add_metric([pipeline["name"]], float(pipeline["stale"]))
            for summary, window in pipeline["open"].items():
                labels = [pipeline["name"], summary]
                length.add_metric(labels, window["length_us"] / US_PER_SECOND)
                for key, rows in window["fill"].items():
                    fill.add_metric([*labels, key], rows)
        yield from (stale, length, fill, lag)

    def _server(self) -> Iterator[Metric]:
        hub = self._hub
        yield GaugeMetricFamily("muntin_clients", "WebSocket clients", len(hub.clients))
        yield GaugeMetricFamily("muntin_streams", "Server-Sent Events clients", len(hub.streams))
        yield GaugeMetricFamily("muntin_feeds", "Topics that are followed", hub.feeds.count)
        yield CounterMetricFamily("muntin_pushes", "Messages made", hub.feeds.pushed)
        yield CounterMetricFamily("muntin_frames", "Frames written to clients", hub.sent)
        yield CounterMetricFamily("muntin_frame_bytes", "Bytes of those frames", hub.sent_bytes)
        closed = CounterMetricFamily(
            "muntin_closings", "Connections that the server closed", labels=["code"]
        )
        for code, number in sorted(hub.closings.items()):
            closed.add_metric([str(code)], number)
        yield closed
        answers = CounterMetricFamily(
            "muntin_queries", "Statements answered by POST /query", labels=["outcome"]
        )
        for outcome, number in sorted(self.answers.items()):
            answers.add_metric([outcome], number)
        yield answers


def _alerts(pipelines: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    """Alerts of standing queries, and the webhook that they are pushed to."""
    state = GaugeMetricFamily(
        "muntin_alert",
        "Conditions that hold: firing, or pending until they have lasted long enough",
        labels=["pipeline", "alert", "state"],
    )
    failing = GaugeMetricFamily(
        "muntin_alert_failing", "1 where it cannot be asked", labels=["pipeline", "alert"]
    )
    changes = CounterMetricFamily(
        "muntin_alert_changes", "Alerts that fired or were resolved", labels=["pipeline"]
    )
    waiting = GaugeMetricFamily(
        "muntin_webhook_waiting", "Changes that the webhook has yet to take", labels=["pipeline"]
    )
    tries = CounterMetricFamily(
        "muntin_webhook_tries", "Pushes since the pipeline started", labels=["pipeline", "outcome"]
    )
    for pipeline in pipelines:
        name, shown = pipeline["name"], pipeline["alerts"]
        for alert in shown["alerts"]:
            for which in ("firing", "pending"):
                state.add_metric([name, alert["name"], which], alert[which])
            failing.add_metric([name, alert["name"]], float(bool(alert["error"])))
        changes.add_metric([name], shown["number"])
        waiting.add_metric([name], shown["waiting"])
        for outcome in ("delivered", "refused", "failures"):
            if outcome in shown["webhook"]:
                tries.add_metric([name, outcome], shown["webhook"][outcome])
        tries.add_metric([name, "dropped"], shown["dropped"])
    yield from (state, failing, changes, waiting, tries)
