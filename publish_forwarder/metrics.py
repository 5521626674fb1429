"""Counts the work of the publish role in plain ints, which Prometheus reads at a scrape."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

import structlog
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from edge.problem import Problem
from publish_forwarder.budget import Budget

_log = structlog.get_logger("publish_forwarder")

BUCKETS_S = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_PART = "packetboat_publish_"


class Histogram:
    """Counts per bucket; observing costs one bisect."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration in its bucket."""
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.total += seconds

    def family(self, name: str, text: str) -> HistogramMetricFamily:
        buckets, running = [], 0
        bounds = [*map(str, BUCKETS_S), "+Inf"]
        for bound, count in zip(bounds, self.counts, strict=True):
            running += count
            buckets.append((bound, float(running)))
        return HistogramMetricFamily(name, text, buckets=buckets, sum_value=self.total)


class PublishMetrics(Collector):
    """`refused`, `unknown`, `lost` count messages that were accepted first; a request refused
    before that counts in `overload_refusals` or in the gateway's statuses."""

    def __init__(self, budget: Budget, topics: Callable[[], int]) -> None:
        self.messages = 0
        self.appends = 0
        self.append_bytes = 0
        self.rerouted = 0
        self.refused = 0
        self.unknown = 0
        self.lost = 0
        self.duplicates = 0
        self.scheduled = 0
        self.append_seconds = Histogram()
        self._budget = budget
        self._topics = topics

    def lost_after_202(self, publish_id: str, count: int, problem: Problem) -> None:
        """Count and log messages that were lost after a 202, which promised nothing."""
        self.lost += count
        _log.warning(
            "publish answered 202 was not stored",
            publish_id=publish_id,
            messages=count,
            problem=problem.slug,
        )

    def collect(self) -> Iterable[Metric]:
        counters = (
            ("messages", self.messages, "Messages stored."),
            ("appends", self.appends, "Batches sent to the store."),
            ("append_bytes", self.append_bytes, "Bytes of the batches sent to the store."),
            ("rerouted_messages", self.rerouted, "Messages moved to another partition."),
            ("refused_messages", self.refused, "Messages accepted, then answered: not stored."),
            ("unknown_messages", self.unknown, "Messages answered with an unknown outcome."),
            ("lost_messages", self.lost, "Messages answered 202 and seen not to be stored."),
            ("duplicate_messages", self.duplicates, "Ids that the log knew already."),
            ("scheduled_messages", self.scheduled, "Messages stored to be released when due."),
            ("overload_refusals", self._budget.refusals, "Requests refused with 429 or 503."),
        )
        for name, value, text in counters:
            yield CounterMetricFamily(_PART + name, text, value=value)
        gauges = (
            ("in_flight_bytes", self._budget.held_bytes, "Bytes held until they are answered."),
            ("in_flight_messages", self._budget.held_messages, "Messages not answered yet."),
            ("cached_topics", self._topics(), "Topics with open queue senders."),
        )
        for name, value, text in gauges:
            yield GaugeMetricFamily(_PART + name, text, value=value)
        yield self.append_seconds.family(_PART + "append_seconds", "Append sent to answered.")
