"""Publishing with spans: one for each append request of a publish."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from edge.problem import Problem
from edge.tracing import NOWHERE, REQUEST, Kind, Span, Tracer, message_attributes
from publish_forwarder.append_request import AppendRequest, Sink
from publish_forwarder.budget import Share
from publish_forwarder.delays import Delay
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.idempotency import Producer
from publish_forwarder.outcomes import Mixed, Outcome, StoredRange
from publish_forwarder.router import TopicRoutes
from store_nodes.record_batch import Message
from store_nodes.wire import Durability


class TracedPublishForwarder(PublishForwarder):
    """A PublishForwarder that makes a span `append TOPIC` for each append request.

    The span lasts from its acceptance to the store's answer, including the wait for a place in an
    append. An append request without a waiting caller, of durability `none`, has no span; neither
    has one that no HTTP request publishes.
    """

    def __init__(self, tracer: Tracer, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._tracer = tracer

    def publish_nowait(
        self,
        routes: TopicRoutes,
        share: Share,
        message: Message,
        durability: Durability,
        delay: Delay | None = None,
        sink: Sink | None = None,
    ) -> AppendRequest:
        append_request = super().publish_nowait(routes, share, message, durability, delay, sink)
        self._follow(routes.topic.name, append_request)
        return append_request

    def publish_many_nowait(
        self,
        routes: TopicRoutes,
        share: Share,
        messages: Sequence[Message],
        durability: Durability,
        delays: Mapping[int, Delay] | None = None,
        producer: Producer | None = None,
    ) -> list[tuple[AppendRequest, Sequence[int]]]:
        append_requests = super().publish_many_nowait(
            routes, share, messages, durability, delays, producer
        )
        for append_request, _ in append_requests:
            self._follow(routes.topic.name, append_request)
        return append_requests

    def _follow(self, topic: str, append_request: AppendRequest) -> None:
        request, future = REQUEST.get(), append_request.future
        if future is None or request is NOWHERE:
            return
        attributes = message_attributes("append", topic)
        attributes["messaging.batch.message_count"] = len(append_request.messages)
        span = self._tracer.start(f"append {topic}", Kind.CLIENT, request, attributes)
        future.add_done_callback(partial(_end, span))


def _end(span: Span, future: asyncio.Future[Outcome]) -> None:
    if future.cancelled():
        span.end("the request ended before the store answered")
        return
    if (error := future.exception()) is not None:
        span.end(str(error))
        return
    outcome = future.result()
    if isinstance(outcome, StoredRange):
        span.set("messaging.destination.partition.id", str(outcome.partition))
        span.set("packetboat.offset", outcome.base_offset)
    problems = outcome.outcomes if isinstance(outcome, Mixed) else (outcome,)
    refused = [each.slug for each in problems if isinstance(each, Problem)]
    span.end(refused[0] if refused else "")
