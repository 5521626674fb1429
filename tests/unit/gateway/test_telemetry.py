"""Spans and metrics: nothing where they are off, and OpenTelemetry's protocol where they are on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from edge.asgi import ClientGone, Receive, Scope, Send, respond
from edge.environment import SettingsError
from edge.problem import Problem
from edge.tracing import NOWHERE, REQUEST, Kind, TraceContext
from gateway.configuration import every_setting
from gateway.telemetry import settings as telemetry_settings
from gateway.telemetry.opening import open_telemetry
from gateway.telemetry.otlp import Exporter
from gateway.telemetry.requests import continued, traced
from gateway.telemetry.settings import TelemetrySettings, load
from harness.made_up_routes import made_up
from tests.collector import Collector, attributes_of
from tests.unit.gateway.test_settings import NEEDED
from tests.unit.span_recorder import PARENT, TRACE, TRACEPARENT, SpanRecorder

ON = TelemetrySettings(traces=True, metrics=True, metrics_every_s=3600)
GIVEN = TraceContext(TRACEPARENT, "a=1,b=2")

LOOK = """
import asyncio, sys
from gateway import server
from gateway.telemetry.opening import open_telemetry

async def look():
    async with open_telemetry("all") as tracer:
        assert tracer is None

asyncio.run(look())
print(sorted(name for name in sys.modules if name.startswith(("opentelemetry", "google"))))
"""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    made = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.endpoint)
    yield made
    made.close()


# Off.


def test_a_server_that_has_it_off_imports_nothing_of_it() -> None:
    command = [sys.executable, "-c", LOOK]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "[]\n"


def test_what_is_switched_on_and_not_installed_is_told_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> ModuleSpec | None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(telemetry_settings, "find_spec", missing)
    assert load({}) == load({"PACKETBOAT_OPENTELEMETRY": "0"}) == TelemetrySettings()
    with pytest.raises(SettingsError) as refused:
        every_setting.of_server(NEEDED | {"PACKETBOAT_OPENTELEMETRY": "1"})
    (fault,) = [one for one in refused.value.faults if "OPENTELEMETRY" in one]
    assert fault.startswith("PACKETBOAT_OPENTELEMETRY='1': the extra `opentelemetry` is not")
    assert "`make opentelemetry`" in fault


def test_it_is_on_where_its_switch_is() -> None:
    on = {"PACKETBOAT_OPENTELEMETRY": "1"}
    assert load(on) == TelemetrySettings(True, True, 60.0)
    assert load({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1"}) == TelemetrySettings()
    assert not load(on | {"OTEL_SDK_DISABLED": "TRUE"}).on
    only = load(on | {"OTEL_METRICS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": ""})
    assert (only.on, only.traces, only.metrics) == (True, True, False)
    assert load(on | {"OTEL_METRIC_EXPORT_INTERVAL": "500"}).metrics_every_s == 0.5


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PACKETBOAT_OPENTELEMETRY", "maybe"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "often"),
    ],
)
def test_a_variable_that_does_not_fit_is_named(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{name}='{text}': "):
        load({"PACKETBOAT_OPENTELEMETRY": "1"} | {name: text})


# Spans as a collector has them.


async def test_a_span_continues_the_trace_that_it_is_given(collector: Collector) -> None:
    exporter = Exporter(ON, "all", CollectorRegistry())
    assert exporter.tracer is not None
    start = exporter.tracer.start
    span = start("push s", Kind.CLIENT, GIVEN, {"server.address": "a.example", "n": 7})
    assert span.context.tracestate == "a=1,b=2"
    span.set("http.response.status_code", 500)
    span.end("HTTP 500")
    links = [TraceContext(TRACEPARENT), TraceContext("no traceparent"), NOWHERE]
    start("deliver s", Kind.PRODUCER, TraceContext("no traceparent"), {}, links).end()
    unsampled = start("push t", Kind.CLIENT, TraceContext(TRACEPARENT[:-1] + "0"), {})
    unsampled.end()
    assert (unsampled.context.traceparent or "").startswith(f"00-{TRACE}-")
    await exporter.close()
    by_name = {one.name: one for one in collector.spans}
    assert by_name.keys() == {"push s", "deliver s"}
    push, deliver = by_name["push s"], by_name["deliver s"]
    assert (push.trace_id.hex(), push.parent_span_id.hex()) == (TRACE, PARENT)
    assert span.context.traceparent == f"00-{TRACE}-{push.span_id.hex()}-01"
    assert (push.kind, push.status.code, push.status.message) == (3, 2, "HTTP 500")
    said = attributes_of(push)
    assert said == {"server.address": "a.example", "n": 7, "http.response.status_code": 500}
    assert (deliver.parent_span_id, deliver.kind, deliver.status.code) == (b"", 4, 0)
    assert [(one.trace_id.hex(), one.span_id.hex()) for one in deliver.links] == [(TRACE, PARENT)]
    assert (
        collector.resources[0].items()
        >= {
            "service.name": "packetboat",
            "packetboat.role": "all",
        }.items()
    )


async def test_variables_of_opentelemetry_are_over_what_we_say(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    exporter = Exporter(ON, "publish", CollectorRegistry())
    assert exporter.tracer is not None
    exporter.tracer.start("of nobody", Kind.CLIENT, NOWHERE, {}).end()
    exporter.tracer.start("of somebody", Kind.CLIENT, GIVEN, {}).end()
    await exporter.close()
    assert [one.name for one in collector.spans] == ["of somebody"]
    assert {one["service.name"] for one in collector.resources} == {"orders"}


async def test_a_collector_that_is_away_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    away = Collector()
    away.close()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", away.endpoint)
    monkeypatch.setenv("PACKETBOAT_OPENTELEMETRY", "1")
    async with asyncio.timeout(10), open_telemetry("all") as tracer:
        assert tracer is not None
        tracer.start("a", Kind.CLIENT, NOWHERE, {}).end()


# Metrics as a collector has them.


async def test_metrics_are_those_of_the_page(collector: Collector) -> None:
    registry = CollectorRegistry()
    Counter("packetboat_a", "A counter.", ["of"], registry=registry).labels("x").inc(3)
    Gauge("packetboat_b", "A gauge.", registry=registry).set(1.5)
    timed = Histogram("packetboat_c_seconds", "Times.", buckets=(0.1, 1.0), registry=registry)
    for seconds in (0.05, 0.5, 0.6, 7.0):
        timed.observe(seconds)
    exporter = Exporter(TelemetrySettings(metrics=True, metrics_every_s=0.05), "all", registry)
    assert exporter.tracer is None
    seen = await asyncio.to_thread(
        collector.until, lambda: collector.metrics if len(collector.metrics) >= 6 else None
    )
    await exporter.close()
    assert collector.paths == {"/v1/metrics"}
    found = {one.name: one for one in seen}
    assert found.keys() == {"packetboat_a", "packetboat_b", "packetboat_c_seconds"}
    (counted,) = found["packetboat_a"].sum.data_points
    assert (counted.as_double, attributes_of(counted)) == (3.0, {"of": "x"})
    assert (found["packetboat_a"].sum.is_monotonic, counted.time_unix_nano > 0) == (True, True)
    assert found["packetboat_b"].gauge.data_points[0].as_double == 1.5
    (of_times,) = found["packetboat_c_seconds"].histogram.data_points
    assert (list(of_times.explicit_bounds), list(of_times.bucket_counts)) == ([0.1, 1.0], [1, 2, 1])
    assert (of_times.count, of_times.sum) == (4, pytest.approx(8.15))
    assert not of_times.HasField("min")


# Spans of requests.


def _scope(**more: Any) -> Scope:
    return {
        "type": "http",
        "path": "/topics/orders/messages",
        "path_params": {"topic": "orders"},
        "headers": [(b"traceparent", TRACEPARENT.encode()), (b"tracestate", b"a=1,b=2")],
        "packetboat.request_id": b"r1",
    } | more


async def _nothing(message: Any = None) -> Any:
    """Takes it."""


async def test_a_request_has_a_span_and_what_it_does_is_within() -> None:
    within: list[Any] = []

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        within.append((REQUEST.get(), scope["headers"]))
        await respond(send, 201, b"{}")

    recorder = SpanRecorder()
    publish = made_up("POST", "/topics/{topic}/messages", handler, "publish", "topic:topic")
    pull = made_up("GET", "/subscriptions/{name}/messages", handler, "consume", "subscription:name")
    scope = _scope()
    await traced(recorder, publish).handler(scope, _nothing, _nothing)
    span = recorder.named("POST /topics/{topic}/messages")
    assert (span.kind, span.parent, span.error) == (Kind.SERVER, GIVEN, "")
    assert span.attributes == {
        "http.request.method": "POST",
        "http.route": "/topics/{topic}/messages",
        "url.path": "/topics/orders/messages",
        "messaging.destination.name": "orders",
        "packetboat.request_id": "r1",
        "http.response.status_code": 201,
    }
    # A publish stores the publisher's own position in the trace in the message.
    assert within.pop() == (span.context, _scope()["headers"])
    assert REQUEST.get() is NOWHERE
    await traced(recorder, pull).handler(_scope(path_params={"name": "s"}), _nothing, _nothing)
    span = recorder.named("GET /subscriptions/{name}/messages")
    assert span.attributes["messaging.destination.subscription.name"] == "s"
    told = [
        (b"traceparent", (span.context.traceparent or "").encode()),
        (b"tracestate", b"a=1,b=2"),
    ]
    assert within.pop() == (span.context, told)


@pytest.mark.parametrize(
    ("error", "status", "kind", "failed"),
    [
        (Problem(404, "topic-not-found", "t", "d"), 404, "topic-not-found", ""),
        (Problem(507, "disk-full", "t", "d"), 507, "disk-full", "disk-full"),
        (ZeroDivisionError(), 500, "ZeroDivisionError", "ZeroDivisionError"),
        (ClientGone(), 499, None, ""),
        (asyncio.CancelledError(), None, "CancelledError", "CancelledError"),
    ],
)
async def test_a_span_tells_how_its_request_failed(
    error: BaseException, status: int | None, kind: str | None, failed: str
) -> None:
    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        raise error

    recorder = SpanRecorder()
    route = made_up("POST", "/topics/{topic}/messages", handler, "publish", "topic:topic")
    with pytest.raises(type(error)):
        await traced(recorder, route).handler(_scope(), _nothing, _nothing)
    (span,) = recorder.spans
    assert span.attributes.get("http.response.status_code") == status
    assert (span.attributes.get("error.type"), span.ended, span.error) == (kind, True, failed)


async def test_what_a_peer_is_asked_for_is_within_the_span_that_its_headers_name() -> None:
    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        assert REQUEST.get() == GIVEN

    await continued(handler)(_scope(), _nothing, _nothing)
    assert REQUEST.get() is NOWHERE
