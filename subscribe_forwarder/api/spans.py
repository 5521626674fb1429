"""A span for each response, or part of a stream, that carried messages to a consumer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from edge.tracing import MAX_LINKS, REQUEST, Kind, TraceContext, Tracer, message_attributes
from subscribe_forwarder.api.trace import DeliveryRecorder
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.wait_list import Delivery


class DeliverySpans:
    """Records a span `deliver SUBSCRIPTION` when messages have left, within that of the request.

    Its links lead to where each message was published. `beside` is told all the same.
    """

    def __init__(self, tracer: Tracer, beside: DeliveryRecorder | None = None) -> None:
        self._tracer = tracer
        self._beside = beside

    def note(
        self, hub: Hub, delivery: Delivery, consumer: str, forwarded: bool, *, sent: bool
    ) -> None:
        """Record messages that were sent; those that were not are ready again, and have no span."""
        if self._beside is not None:
            self._beside.note(hub, delivery, consumer, forwarded, sent=sent)
        if not sent:
            return
        subscription = hub.subscription
        attributes = message_attributes("deliver", subscription.topic_name)
        attributes["messaging.destination.subscription.name"] = subscription.name
        attributes["messaging.batch.message_count"] = delivery.count
        name, links = f"deliver {subscription.name}", islice(_publishers(delivery), MAX_LINKS)
        self._tracer.start(name, Kind.PRODUCER, REQUEST.get(), attributes, links).end()


def _publishers(delivery: Delivery) -> Iterator[TraceContext]:
    for part in delivery.taken:
        for batch, index in part.messages():
            message = batch.messages()[index]
            if message.traceparent is not None:
                yield TraceContext(message.traceparent, message.tracestate)
