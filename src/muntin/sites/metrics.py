"""GET /metrics of a coordinator: validity, sites, what is sent against naive push."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from muntin.sites.picture import Picture

_DIRECTIONS = ("up", "down", "reports", "naive")


class Collector:
    """Prometheus' collector protocol."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def collect(self) -> Iterator[Metric]:
        state = self._picture.state
        answer, resolutions = state["answer"], state["resolutions"]
        for name, text, value in (
            ("valid", "1 where the answer is valid", float(answer["valid"])),
            ("missing_sites", "Sites that take no part", len(answer["missing_sites"])),
            ("unit", "Newest unit at which the answer was valid", answer["unit"] or 0),
        ):
            yield GaugeMetricFamily(f"muntin_topk_{name}", text, value)
        for name, text, value in (
            ("changes", "How often T changed", state["changes"]),
            ("surveys", "Surveys of all sites", state["surveys"]),
            ("resolutions_partial", "Resolutions among some sites", resolutions["partial"]),
            ("resolutions_full", "Resolutions among all sites", resolutions["full"]),
        ):
            yield CounterMetricFamily(f"muntin_topk_{name}", text, value)
        connected = GaugeMetricFamily(
            "muntin_topk_connected", "1 where the site is connected", labels=["site"]
        )
        messages = CounterMetricFamily(
            "muntin_topk_messages", "Messages, by direction", labels=["site", "direction"]
        )
        sizes = CounterMetricFamily(
            "muntin_topk_bytes", "Bytes of their frames", labels=["site", "direction"]
        )
        for site in state["sites"]:
            connected.add_metric([site["name"]], float(site["connected"]))
            for direction in _DIRECTIONS:
                messages.add_metric([site["name"], direction], site[direction]["messages"])
                sizes.add_metric([site["name"], direction], site[direction]["bytes"])
        refused = CounterMetricFamily(
            "muntin_topk_refused", "Connections of sites that were closed", labels=["code"]
        )
        for code, number in state["refused"].items():
            refused.add_metric([code], number)
        yield from (connected, messages, sizes, refused)
