"""A publish with spans on: one for the way into the store, within that of the request."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from edge.tracing import REQUEST, Kind, TraceContext
from publish_forwarder.tracing import TracedPublishForwarder
from store_nodes.errors import DiskFull
from tests.unit.publish_forwarder.publish_support import (
    FakeCatalog,
    FakeStore,
    post,
    post_batch,
    run_ready,
    running,
    topic,
)
from tests.unit.span_recorder import TRACEPARENT, SpanRecorder

WITHIN = TraceContext(TRACEPARENT)


@pytest.fixture
def recorder() -> SpanRecorder:
    return SpanRecorder()


async def test_a_publish_has_a_span_from_acceptance_to_the_answer(recorder: SpanRecorder) -> None:
    kind = partial(TracedPublishForwarder, recorder)
    async with running(FakeStore(), FakeCatalog(topic(partitions=1)), kind=kind) as forwarder:
        await post(forwarder, b"outside of any request")
        assert recorder.spans == []
        REQUEST.set(WITHIN)
        assert (await post(forwarder, b"x", {"traceparent": "given"})).status == 201
        await run_ready()
        span = recorder.named("append orders")
        assert (span.kind, span.parent, span.error) == (Kind.CLIENT, WITHIN, "")
        assert span.attributes == {
            "messaging.system": "packetboat",
            "messaging.operation.name": "append",
            "messaging.destination.name": "orders",
            "messaging.batch.message_count": 1,
            "messaging.destination.partition.id": "0",
            "packetboat.offset": 1,
        }
        early = {"Packetboat-Durability": "none"}
        assert (await post(forwarder, b"x", early)).status == 202
        assert len(recorder.spans) == 1, "nobody waits for it"


async def test_a_batch_has_a_span_for_each_way_it_takes(recorder: SpanRecorder) -> None:
    kind = partial(TracedPublishForwarder, recorder)
    async with running(FakeStore(), FakeCatalog(topic(partitions=4)), kind=kind) as forwarder:
        REQUEST.set(WITHIN)
        items = [{"data": n, "key": f"k{n}"} for n in range(20)]
        assert (await post_batch(forwarder, items)).status == 200
        await run_ready()
        counts = [span.attributes["messaging.batch.message_count"] for span in recorder.spans]
        assert (len(counts), sum(map(int, counts))) == (4, 20)
        assert all(span.ended and span.parent == WITHIN for span in recorder.spans)


async def test_a_refusal_of_the_store_is_the_error_of_its_span(recorder: SpanRecorder) -> None:
    kind, store = partial(TracedPublishForwarder, recorder), FakeStore()
    async with running(store, FakeCatalog(topic(partitions=1)), kind=kind) as forwarder:
        store.hold(0)
        REQUEST.set(WITHIN)
        answer = asyncio.create_task(post(forwarder, b"x", {"Packetboat-Key": "k"}))
        await run_ready()
        store.partition(0).fail(DiskFull("full"))
        assert (await answer).status == 507
        assert recorder.named("append orders").error == "storage-full"
