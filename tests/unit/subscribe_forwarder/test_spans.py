"""Deliveries and pushes with spans on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from edge.tracing import MAX_LINKS, NOWHERE, REQUEST, Kind, TraceContext
from gateway.telemetry.requests import continued, traced
from store_nodes.record_batch import Message
from subscribe_forwarder.api.spans import DeliverySpans
from subscribe_forwarder.api.trace import DeliveryTrace
from subscribe_forwarder.push.spans import PushSpans
from subscribe_forwarder.push.verdict import Answer
from tests.unit.span_recorder import TRACEPARENT, RecordedSpan, SpanRecorder
from tests.unit.subscribe_forwarder.linked_fleet import linked
from tests.unit.subscribe_forwarder.push_support import answer, pushing
from tests.unit.subscribe_forwarder.stream_support import stream
from tests.unit.subscribe_forwarder.subscribe_support import World, routes_of, world

OTHER = "00-11111111111111111111111111111111-2222222222222222-01"
TEXT = "text/plain"
PUBLISHED = (
    Message(b"a", TEXT, traceparent=TRACEPARENT, tracestate="a=1"),
    Message(b"of no trace", TEXT),
    Message(b"b", TEXT, traceparent=OTHER),
)
LINKS = [TraceContext(TRACEPARENT, "a=1"), TraceContext(OTHER)]


def observe(w: World, recorder: SpanRecorder, path: Path | None = None) -> DeliveryTrace | None:
    """Give the consumer the routes of a server with spans."""
    told = None if path is None else DeliveryTrace(path)
    spans = DeliverySpans(recorder, told)
    w._routes = [traced(recorder, route) for route in routes_of(w, trace=spans)]
    return told


async def test_what_a_pull_hands_out_is_linked_to_where_it_was_published(tmp_path: Path) -> None:
    recorder = SpanRecorder()
    async with world() as w:
        told = observe(w, recorder, tmp_path / "trace")
        w.store.publish(*PUBLISHED)
        assert len(await w.pulled(10)) == 3
        assert await w.pulled(10) == []
        (first, _, _) = recorder.spans
        span = recorder.named("deliver reader")
        assert (span.kind, span.parent, span.links) == (Kind.PRODUCER, first.context, LINKS)
        assert first.name == "GET /subscriptions/{name}/messages"
        assert span.attributes == {
            "messaging.system": "packetboat",
            "messaging.operation.name": "deliver",
            "messaging.destination.name": "orders",
            "messaging.destination.subscription.name": "reader",
            "messaging.batch.message_count": 3,
        }
    assert told is not None
    told.close()
    (line,) = (tmp_path / "trace").read_bytes().splitlines()
    assert len(msgspec.json.decode(line)["messages"]) == 3


async def test_a_delivery_has_so_many_links_and_no_more() -> None:
    recorder = SpanRecorder()
    async with world() as w:
        observe(w, recorder)
        w.store.publish(*[Message(b"a", traceparent=TRACEPARENT)] * (MAX_LINKS + 1))
        assert len(await w.pulled(500)) == MAX_LINKS + 1
        assert len(recorder.named("deliver reader").links) == MAX_LINKS


async def test_each_part_of_a_stream_has_its_span() -> None:
    recorder = SpanRecorder()
    async with world() as w:
        observe(w, recorder)
        async with stream(w) as s:
            w.store.publish(PUBLISHED[0])
            await s.until(1)
            w.store.publish(PUBLISHED[2])
            await s.until(2)
        request, *parts = recorder.spans
        assert request.name == "GET /subscriptions/{name}/messages:stream"
        assert [part.name for part in parts] == ["deliver reader"] * 2
        assert [part.links for part in parts] == [LINKS[:1], LINKS[1:]]
        assert {part.parent for part in parts} == {request.context}


async def test_what_another_forwarder_hands_out_is_within_the_request_all_the_same() -> None:
    recorder = SpanRecorder()
    spans = DeliverySpans(recorder)
    async with linked(0, 1, trace=spans, around=continued) as fleet:
        front = fleet.members[1]
        front._routes = [traced(recorder, route) for route in front._routes]
        fleet.store.publish(PUBLISHED[0])
        assert len(await front.pulled(1, wait_s=2)) == 1
        request, delivered = recorder.spans
        assert delivered.name == "deliver reader"
        assert delivered.parent == request.context
        assert REQUEST.get() is NOWHERE


def pushed(recorder: SpanRecorder) -> list[RecordedSpan]:
    assert {(one.name, one.kind, one.ended) for one in recorder.spans} == {
        ("push reader", Kind.CLIENT, True)
    }
    return recorder.spans


async def test_a_push_continues_the_trace_of_its_message_and_the_endpoint_the_push() -> None:
    recorder = SpanRecorder()
    async with pushing(spans=PushSpans(recorder)) as p:
        p.w.store.publish(PUBLISHED[0])
        await p.arrived(1)
        await p.settled()
        (span,) = pushed(recorder)
        assert (span.parent, span.links, span.error) == (LINKS[0], [], "")
        (one,) = p.sender.arrived
        assert TraceContext(one.headers["traceparent"], one.headers["tracestate"]) == span.context
        assert one.messages[0]["traceparent"] == TRACEPARENT, "the message is as it was published"
        message_id = one.headers["Packetboat-Message-Id"]
        assert span.attributes == {
            "messaging.system": "packetboat",
            "messaging.operation.name": "push",
            "messaging.destination.name": "orders",
            "messaging.destination.subscription.name": "reader",
            "http.request.method": "POST",
            "server.address": "hooks.example",
            "messaging.message.id": message_id,
            "packetboat.attempt": 1,
            "http.response.status_code": 200,
        }


async def test_a_push_of_several_messages_is_linked_to_all_of_their_traces() -> None:
    recorder = SpanRecorder()
    async with pushing(spans=PushSpans(recorder), max_batch=10) as p:
        p.w.store.publish(*PUBLISHED)
        await p.arrived(3)
        await p.settled()
        (span,) = pushed(recorder)
        assert (span.parent, span.links) == (NOWHERE, LINKS)
        assert span.attributes["messaging.batch.message_count"] == 3
        assert p.sender.arrived[0].headers["traceparent"] == span.context.traceparent


@pytest.mark.parametrize(
    ("refusal", "error"),
    [(answer(503), "HTTP 503"), (answer(None, "timeout"), "timeout")],
)
async def test_what_an_endpoint_refuses_is_an_error_of_its_span(
    refusal: Answer, error: str
) -> None:
    recorder = SpanRecorder()
    async with pushing(lambda _: refusal, spans=PushSpans(recorder)) as p:
        p.w.store.publish(PUBLISHED[0])
        await p.until(lambda: any(span.ended for span in recorder.spans))
        span = recorder.spans[0]
        assert (span.error, span.attributes["packetboat.attempt"]) == (error, 1)
        assert span.attributes.get("http.response.status_code") == refusal.status
