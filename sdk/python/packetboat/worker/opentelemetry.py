"""Traces of workers: `Worker(…, middleware=[OpenTelemetryMiddleware()])`.

Needs `opentelemetry-api` (the extra `opentelemetry`) and, to see anything, an SDK.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from opentelemetry import propagate, trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, Tracer

from packetboat.tracing import TraceContext, context_of
from packetboat.worker.context import Context
from packetboat.worker.emit import Emit
from packetboat.worker.outcomes import Release, RetryLater


class OpenTelemetryMiddleware:
    """A span around each call of the handler, a child of the span that published the message; of a
    batch, linked to those of its messages. It is the current span in the handler, also in a thread,
    and what the handler publishes or emits carries it on. A message that was published without a
    trace context may have one among its attributes.
    """

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("packetboat.worker")

    async def __call__(
        self, given: Context | list[Context], call_next: Callable[[], Awaitable[Any]]
    ) -> Any:
        contexts = given if isinstance(given, list) else [given]
        parents = [propagate.extract(_carrier(context)) for context in contexts]
        links = [Link(trace.get_current_span(each).get_span_context()) for each in parents]
        with self._tracer.start_as_current_span(
            f"process {contexts[0].subscription}",
            context=None if isinstance(given, list) else parents[0],
            kind=SpanKind.CONSUMER,
            links=links if isinstance(given, list) else (),
            attributes=_attributes(contexts),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                value = await call_next()
            except (RetryLater, Release) as error:
                span.add_event(type(error).__name__, {"reason": str(error)})
                raise
            except Exception as error:
                span.record_exception(error)
                span.set_status(Status(StatusCode.ERROR, str(error)))
                raise
            return _carrying(value)


def _attributes(contexts: list[Context]) -> dict[str, Any]:
    first = contexts[0]
    common: dict[str, Any] = {
        "messaging.system": "packetboat",
        "messaging.operation.type": "process",
        "messaging.destination.subscription.name": first.subscription,
    }
    if len(contexts) > 1:
        return common | {"messaging.batch.message_count": len(contexts)}
    return common | {
        "messaging.message.id": first.message.message_id,
        "packetboat.attempt": first.attempt,
    }


def _carrier(context: Context) -> dict[str, str]:
    message = context.message
    return {**message.attributes, **TraceContext(message.traceparent, message.tracestate).members()}


def _carrying(value: Any) -> Any:
    """Return the emitted value with the current span as its trace context."""
    if isinstance(value, list | tuple):
        return [_carrying(each) for each in value]
    if not isinstance(value, Emit):
        return value
    parent, state = context_of(value.traceparent, value.tracestate)
    return msgspec.structs.replace(value, traceparent=parent, tracestate=state)
