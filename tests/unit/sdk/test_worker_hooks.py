"""Prometheus and OpenTelemetry."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from packetboat.models import Message
from packetboat.worker.emit import Emit
from packetboat.worker.opentelemetry import OpenTelemetryMiddleware
from packetboat.worker.prometheus import PrometheusEvents
from prometheus_client import CollectorRegistry

from tests.unit.sdk.worker_support import FakeSubscription, Lease, Running


async def test_figures_for_prometheus() -> None:
    registry = CollectorRegistry()
    fake = FakeSubscription(Lease(ack_deadline_seconds=1.5))
    fake.add(*range(3))

    async def handle(message: Message) -> None:
        await asyncio.sleep(1.2 if message.json() == 0 else 0)
        if message.json() == 1 and message.attempt == 1:
            raise RuntimeError

    async with Running(fake, handle, events=PrometheusEvents(registry)) as running:
        await running.until_settled()

    def figure(name: str, **labels: str) -> float | None:
        labels["subscription"] = "orders"
        return registry.get_sample_value(f"packetboat_worker_{name}", labels)

    assert figure("received_total") == 4
    assert figure("settled_total", verb="ack") == 3
    assert figure("settled_total", verb="nack") == 1
    assert figure("handler_seconds_count", verb="ack") == 3
    assert figure("handling") == 0
    assert (figure("leases_extended_total") or 0) >= 1
    assert figure("leases_lost_total") is None


class Span(trace.NonRecordingSpan):
    """Remembers what it is told."""

    def __init__(self, parent: trace.SpanContext) -> None:
        super().__init__(parent)
        self.status: Any = None
        self.errors: list[BaseException] = []

    def record_exception(self, exception: BaseException, *_: Any, **__: Any) -> None:
        self.errors.append(exception)

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = status


class Tracer(trace.NoOpTracer):
    def __init__(self) -> None:
        self.spans: list[tuple[str, Span, dict[str, Any]]] = []

    @contextmanager
    def start_as_current_span(self, name: str, **given: Any) -> Iterator[Span]:  # type: ignore[override]
        parent = trace.get_current_span(given["context"]).get_span_context()
        span = Span(parent)
        self.spans.append((name, span, given))
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            yield span


TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_a_span_goes_on_with_the_trace_of_the_message_and_into_what_is_emitted() -> None:
    fake, tracer = FakeSubscription(), Tracer()
    fake.add("a")
    fake.attributes = {"traceparent": TRACEPARENT}  # where an older SDK put it

    async def handle(message: Message) -> Emit:
        if message.attempt == 1:
            raise KeyError("bad luck")
        return Emit("next", "b", attributes={"colour": "red"})

    async with Running(fake, handle, middleware=[OpenTelemetryMiddleware(tracer)]) as running:
        await running.until_settled()
    (name, first, given), (_, second, _) = tracer.spans
    assert name == "process orders"
    assert given["attributes"]["messaging.message.id"] == "0"
    assert format(first.get_span_context().trace_id, "032x") in TRACEPARENT
    assert [type(error) for error in first.errors] == [KeyError]
    assert first.status.status_code is trace.StatusCode.ERROR
    assert second.status is None
    assert fake.outputs[0].attributes == {"colour": "red"}
    assert fake.outputs[0].traceparent == TRACEPARENT


async def test_a_batch_is_linked_to_the_traces_of_its_messages() -> None:
    fake, tracer = FakeSubscription(), Tracer()
    fake.add("a", "b")
    fake.attributes = {"traceparent": TRACEPARENT}
    middleware = [OpenTelemetryMiddleware(tracer)]
    options = {"batch_size": 2, "concurrency": 1}
    async with Running(fake, lambda batch: None, middleware=middleware, **options) as running:
        await running.until_settled()
    ((_, _, given),) = tracer.spans
    assert len(given["links"]) == 2
    assert given["attributes"]["messaging.batch.message_count"] == 2


async def test_the_span_is_the_current_one_in_a_thread_too() -> None:
    fake, tracer = FakeSubscription(), Tracer()
    fake.add("a")
    seen: list[trace.Span] = []

    def handle(message: Message) -> None:
        seen.append(trace.get_current_span())

    async with Running(fake, handle, middleware=[OpenTelemetryMiddleware(tracer)]) as running:
        await running.until_settled()
    assert seen == [tracer.spans[0][1]]
