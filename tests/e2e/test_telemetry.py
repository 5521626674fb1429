"""Messages' ways through a real server, as a collector of OpenTelemetry is told of them."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
import requests

from tests.collector import Collector, attributes_of
from tests.e2e.installation import Installation
from tests.e2e.servers import StartServer, until_taken, wait_for

TOPICS = [f"telemetry-{number}" for number in range(16)]
"""Each is served either by the server that has spans on or by one that has them off."""
ROUNDS, ROUND_S = 15, 2.0
SERVER, CLIENT = 2, 3
"""Kinds of spans, as the protocol numbers them."""
COUNTED = "packetboat_gateway_requests"
CONSUMER = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01"
PUBLISH = "POST /topics/{topic}/messages"
PULL = "GET /subscriptions/{name}/messages"
ACK = "POST /subscriptions/{name}/ack"


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


class Webhook(NamedTuple):
    """The URL of an endpoint, and the `traceparent` of each request to it."""

    url: str
    came: queue.Queue[str]

    def until(self, traceparent: str) -> None:
        """Raises Empty where no request brings it."""
        while self.came.get(timeout=20) != traceparent:
            pass


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    came: queue.Queue[str] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()
            came.put(self.headers["traceparent"])

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Webhook(f"http://127.0.0.1:{server.server_address[1]}/", came)
    server.shutdown()
    server.server_close()


def context(span: Any) -> str:
    return f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"


class Way(NamedTuple):
    """The spans of one message's way."""

    topic: str
    publish: Any
    append: Any
    push: Any


class Traced:
    """A server that has spans on, beside one that has them off, and what its collector has."""

    def __init__(self, url: str, http: requests.Session, collector: Collector) -> None:
        self.url = url
        self.http = http
        self.collector = collector

    def create(self, topic: str, webhook: Webhook) -> None:
        """Make a topic with a subscription that is pulled and one that is pushed."""
        self._call("PUT", f"/topics/{topic}", {})
        self._call("PUT", f"/subscriptions/{topic}", {"topic": topic})
        push = {"topic": topic, "type": "push", "push": {"url": webhook.url, "verify": False}}
        self._call("PUT", f"/subscriptions/{topic}-push", push)

    def publish(self, topic: str) -> None:
        """Publish a message with a trace of its own."""
        parent = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
        self._call("POST", f"/topics/{topic}/messages", {"order": 1}, parent)

    def consume(self, topic: str) -> list[dict[str, Any]]:
        """Pull and ack all ready messages within the trace of a consumer."""
        path = f"/subscriptions/{topic}"
        pulled = self._call(
            "GET", f"{path}/messages?wait_seconds=10&max_messages=99", None, CONSUMER
        )
        messages: list[dict[str, Any]] = pulled.json()["messages"]
        ack_ids = [one["ack_id"] for one in messages]
        self._call("POST", f"{path}/ack", {"ack_ids": ack_ids}, CONSUMER)
        return messages

    def _call(
        self, method: str, path: str, body: object, traceparent: str | None = None
    ) -> requests.Response:
        headers = {} if traceparent is None else {"traceparent": traceparent}
        url = self.url + path
        return until_taken(
            partial(self.http.request, method, url, json=body, headers=headers, timeout=30)
        )

    def spans(self, name: str) -> list[Any]:
        return [span for span in self.collector.spans if span.name == name]

    def way(self) -> Way | None:
        """Return the way of a message that this server published and pushed."""
        for publish in self.spans(PUBLISH):
            topic = attributes_of(publish)["messaging.destination.name"]
            within = {s.name: s for s in self.collector.spans if s.trace_id == publish.trace_id}
            if {f"append {topic}", f"push {topic}-push"} <= within.keys():
                return Way(
                    str(topic), publish, within[f"append {topic}"], within[f"push {topic}-push"]
                )
        return None


@pytest.fixture
def server(running: Installation, start_server: StartServer, collector: Collector) -> Traced:
    settings = {
        "PACKETBOAT_OPENTELEMETRY": "1",
        "PACKETBOAT_EGRESS_ALLOWED": "http://127.0.0.1:*",
        "PACKETBOAT_SUBSCRIBE_WEIGHT": "2",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_METRIC_EXPORT_INTERVAL": "500",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    url = start_server("all", settings=settings)
    wait_for(url, 200)
    return Traced(url, running.session(), collector)


def test_a_message_is_one_trace_from_its_publisher_to_a_webhook_and_linked_from_its_pull(
    server: Traced, collector: Collector, webhook: Webhook
) -> None:
    for topic in TOPICS:
        server.create(topic, webhook)
    way: Way | None = None
    for _ in range(ROUNDS):
        for topic in TOPICS:
            server.publish(topic)
        with suppress(TimeoutError):
            way = collector.until(server.way, ROUND_S)
            break
    assert way is not None, sorted({span.name for span in collector.spans})

    # The publisher's span has two children: the request that published, and the push.
    publish, append, push = way.publish, way.append, way.push
    assert publish.parent_span_id == push.parent_span_id != b""
    assert (append.parent_span_id, append.kind, publish.kind, push.kind) == (
        publish.span_id,
        *(CLIENT, SERVER, CLIENT),
    )
    assert publish.start_time_unix_nano <= append.start_time_unix_nano
    webhook.until(context(push))

    # A pull is of its consumer's trace, and has links to where its messages were published. Which
    # of both servers hands out what changes while they share it out, so every topic is pulled.
    pulled = [one for topic in TOPICS for one in server.consume(topic)]
    publishers = {one["traceparent"] for one in pulled}
    assert f"00-{publish.trace_id.hex()}-{publish.parent_span_id.hex()}-01" in publishers
    deliver = collector.until(
        lambda: next((s for s in collector.spans if s.name.startswith("deliver ")), None)
    )
    assert deliver.links
    assert {context(link) for link in deliver.links} <= publishers
    pull = collector.until(
        lambda: next((s for s in server.spans(PULL) if s.span_id == deliver.parent_span_id), None)
    )
    ack = collector.until(lambda: next(iter(server.spans(ACK)), None))
    for span in (pull, ack):
        assert f"00-{span.trace_id.hex()}-{span.parent_span_id.hex()}-01" == CONSUMER
        assert attributes_of(span)["messaging.destination.subscription.name"] in TOPICS

    # The metrics are those of /metrics.
    counted = collector.until(
        lambda: next((m for m in collector.metrics if m.name == COUNTED), None)
    )
    assert counted.sum.is_monotonic
    assert {
        (one["service.name"], one["packetboat.role"], one["deployment.environment.name"])
        for one in collector.resources
    } == {("packetboat", "all", "test")}
