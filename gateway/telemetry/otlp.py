"""Spans and metrics to a collector of OpenTelemetry, by OTLP over HTTP.

The metrics are those of `/metrics`, by the same names. They are read on the event loop, and all
that is sent leaves in threads: where a collector is away or slow, spans and metrics are dropped,
and no request waits. It needs the extra `opentelemetry`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from queue import SimpleQueue
from threading import Thread
from typing import cast

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import export as points
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import REGISTRY
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from edge.tracing import Attributes, Kind, TraceContext
from gateway.telemetry.settings import TelemetrySettings

SERVICE = "packetboat"
CLOSE_S = 1.0
"""Seconds that a stop waits for the collector to take the rest."""
_KINDS = {
    Kind.SERVER: SpanKind.SERVER,
    Kind.CLIENT: SpanKind.CLIENT,
    Kind.PRODUCER: SpanKind.PRODUCER,
}
_CUMULATIVE = points.AggregationTemporality.CUMULATIVE
_propagator = TraceContextTextMapPropagator()


class Exporter:
    """Sends what one server process has to tell, from its making until `close`.

    Make it on the event loop that serves. Where the collector is, how it is spoken to, and which
    traces are recorded, the variables of OpenTelemetry say.
    """

    def __init__(
        self, settings: TelemetrySettings, role: str, registry: Collector = REGISTRY
    ) -> None:
        self._resource = _resource(role)
        self._provider: TracerProvider | None = None
        self.tracer: OtlpTracer | None = None
        """The tracer; None where only metrics are wanted."""
        if settings.traces:
            self._provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            self.tracer = OtlpTracer(self._provider.get_tracer(SERVICE))
        self._metrics = OTLPMetricExporter() if settings.metrics else None
        self._registry = registry
        self._every_s = settings.metrics_every_s
        self._began_ns = time.time_ns()
        self._loop = asyncio.get_running_loop()
        self._sent = asyncio.Event()
        """Everything that there was has left, or was dropped."""
        self._waiting: SimpleQueue[points.MetricsData | None] = SimpleQueue()
        self._timer: asyncio.TimerHandle | None = None
        # A daemon, as those of the libraries are: a process ends without asking a collector.
        Thread(target=self._send, name="telemetry", daemon=True).start()
        self._tick()

    async def close(self) -> None:
        """Send what there is, for CLOSE_S at most."""
        if self._timer is not None:
            self._timer.cancel()
        self._read_metrics()
        self._waiting.put(None)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._sent.wait(), CLOSE_S)

    def _tick(self) -> None:
        if self._metrics is None:
            return
        self._timer = self._loop.call_later(self._every_s, self._tick)
        # New metrics are not read before the collector has taken the last ones.
        if self._waiting.empty():
            self._read_metrics()

    def _read_metrics(self) -> None:
        if self._metrics is not None:
            self._waiting.put(metrics_data(self._registry, self._resource, self._began_ns))

    def _send(self) -> None:
        """Runs in a thread of its own. The libraries log what could not be sent."""
        while (data := self._waiting.get()) is not None:
            assert self._metrics is not None
            self._metrics.export(data)
        if self._provider is not None:
            self._provider.shutdown()
        with suppress(RuntimeError):  # the loop ended before
            self._loop.call_soon_threadsafe(self._sent.set)


class OtlpTracer:
    """A `Tracer` of `edge.tracing`."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def start(
        self,
        name: str,
        kind: Kind,
        parent: TraceContext,
        attributes: Attributes,
        links: Iterable[TraceContext] = (),
    ) -> OtlpSpan:
        contexts = (trace.get_current_span(_extracted(each)).get_span_context() for each in links)
        return OtlpSpan(
            self._tracer.start_span(
                name,
                _extracted(parent),
                _KINDS[kind],
                dict(attributes),
                [Link(context) for context in contexts if context.is_valid],
            )
        )


class OtlpSpan:
    """A `Span` of `edge.tracing`."""

    __slots__ = ("_span", "context")

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        here = span.get_span_context()
        self.context = TraceContext(
            f"00-{here.trace_id:032x}-{here.span_id:016x}-{here.trace_flags:02x}",
            here.trace_state.to_header() or None,
        )

    def set(self, name: str, value: str | int) -> None:
        self._span.set_attribute(name, value)

    def end(self, error: str = "") -> None:
        if error:
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()


def _extracted(context: TraceContext) -> Context:
    """Return the context of the libraries; an invalid text gives an empty one."""
    carrier = {name: text for name, text in context._asdict().items() if text is not None}
    return _propagator.extract(carrier, Context())


def _resource(role: str) -> Resource:
    """Return the resource of this role.

    The environment (OTEL_SERVICE_NAME, …) overrides our values.
    """
    ours = {
        "service.name": SERVICE,
        "service.instance.id": f"{socket.gethostname()}/{os.getpid()}",
        "packetboat.role": role,
    }
    with suppress(PackageNotFoundError):
        ours["service.version"] = version("packetboat-server")
    said = {
        name: value
        for name, value in Resource.create().attributes.items()
        if not str(value).startswith("unknown_service")
    }
    return Resource(ours).merge(Resource(said))


def metrics_data(registry: Collector, resource: Resource, began_ns: int) -> points.MetricsData:
    """Return all that a registry of Prometheus holds now."""
    now_ns = time.time_ns()
    found = (_metric(family, began_ns, now_ns) for family in registry.collect())
    metrics = [metric for metric in found if metric is not None]
    scope = points.ScopeMetrics(InstrumentationScope(SERVICE), metrics, "")
    return points.MetricsData([points.ResourceMetrics(resource, [scope], "")])


def _metric(family: Metric, began_ns: int, now_ns: int) -> points.Metric | None:
    """Return a family of Prometheus as a metric; None if it is empty, or of a type that
    none of ours has.
    """
    data: points.Sum | points.Gauge | points.Histogram
    if family.type == "histogram":
        data = points.Histogram(list(_histograms(family, began_ns, now_ns)), _CUMULATIVE)
    elif family.type == "counter":
        numbers = _numbers(family, f"{family.name}_total", began_ns, now_ns)
        data = points.Sum(numbers, _CUMULATIVE, is_monotonic=True)
    else:
        data = points.Gauge(_numbers(family, family.name, began_ns, now_ns))
    if not data.data_points:
        return None
    return points.Metric(family.name, family.documentation, "", data)


def _numbers(family: Metric, name: str, began_ns: int, now_ns: int) -> list[points.NumberDataPoint]:
    return [
        points.NumberDataPoint(sample.labels, began_ns, now_ns, sample.value)
        for sample in family.samples
        if sample.name == name
    ]


def _histograms(family: Metric, began_ns: int, now_ns: int) -> Iterator[points.HistogramDataPoint]:
    """Prometheus counts what is at most a bound, OpenTelemetry what lies between two bounds."""
    found: dict[tuple[tuple[str, str], ...], tuple[dict[float, float], float]] = {}
    for sample in family.samples:
        labels = tuple((name, text) for name, text in sample.labels.items() if name != "le")
        buckets, total = found.get(labels, ({}, 0.0))
        if sample.name.endswith("_bucket"):
            buckets[float(sample.labels["le"])] = sample.value
        elif sample.name.endswith("_sum"):
            total = sample.value
        found[labels] = buckets, total
    for labels, (buckets, total) in found.items():
        bounds = sorted(buckets)
        counts = [0.0, *(buckets[bound] for bound in bounds)]
        between = [int(upto - before) for before, upto in pairwise(counts)]
        yield points.HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=began_ns,
            time_unix_nano=now_ns,
            count=sum(between),
            sum=total,
            bucket_counts=between,
            explicit_bounds=bounds[:-1],
            # Left out, as the protocol allows: Prometheus keeps neither.
            min=cast(float, None),
            max=cast(float, None),
        )
