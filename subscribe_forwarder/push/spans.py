"""A span for each request to an endpoint, of which the endpoint is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

from edge.tracing import NOWHERE, Kind, Span, TraceContext, Tracer, message_attributes
from metadata.types import Subscription
from subscribe_forwarder.push.outgoing import Outgoing
from subscribe_forwarder.push.requests import PushRequest
from subscribe_forwarder.push.verdict import Answer

Post = Callable[[PushRequest, float], Awaitable[Answer]]


class PushSpans:
    """Sends requests with a span `push SUBSCRIPTION` around each.

    The span of one message continues the trace that the message was published in. That of several
    begins a trace, with links to those of its messages.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    async def send(
        self,
        post: Post,
        subscription: Subscription,
        outgoing: Sequence[Outgoing],
        request: PushRequest,
        timeout_s: float,
    ) -> Answer:
        """Do what `post` does; the endpoint's `traceparent` is that of the span."""
        span = self._start(subscription, outgoing, request)
        try:
            answer = await post(_continuing(request, span.context), timeout_s)
        except BaseException as error:
            span.end(type(error).__name__)
            raise
        if answer.status is not None:
            span.set("http.response.status_code", answer.status)
        span.end("" if answer.delivered else answer.failure or f"HTTP {answer.status}")
        return answer

    def _start(
        self, subscription: Subscription, outgoing: Sequence[Outgoing], request: PushRequest
    ) -> Span:
        attributes = message_attributes("push", subscription.topic_name) | {
            "messaging.destination.subscription.name": subscription.name,
            "http.request.method": "POST",
            "server.address": urlsplit(request.url).hostname or "",
        }
        published = [
            TraceContext(one.message.traceparent, one.message.tracestate)
            for one in outgoing
            if one.message.traceparent is not None
        ]
        name, parent = f"push {subscription.name}", NOWHERE
        if len(outgoing) == 1:
            only = outgoing[0]
            attributes["messaging.message.id"] = only.message_id
            attributes["packetboat.attempt"] = only.attempt
            parent, published = (published or [NOWHERE])[0], []
        else:
            attributes["messaging.batch.message_count"] = len(outgoing)
        return self._tracer.start(name, Kind.CLIENT, parent, attributes, published)


def _continuing(request: PushRequest, context: TraceContext) -> PushRequest:
    """Return the request with the span's place in the trace, in place of the publisher's."""
    if context.traceparent is None:
        return request
    headers = [pair for pair in request.headers if pair[0] not in ("traceparent", "tracestate")]
    headers.append(("traceparent", context.traceparent))
    if context.tracestate is not None:
        headers.append(("tracestate", context.tracestate))
    return request._replace(headers=headers)
