"""A span for each request of an operation, around its handler.

A request that is refused before its handler runs has none: one without a valid token, or over a
limit, or that overload sheds.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from auth.permissions import Permission
from edge.asgi import REQUEST_ID, ClientGone, Handler, Receive, Route, Scope, Send
from edge.tracing import REQUEST, Kind, Span, TraceContext, Tracer, context_of
from gateway.middleware.errors import problem_of

TRACE_HEADERS = (b"traceparent", b"tracestate")
_CLIENT_GONE = 499


def traced(tracer: Tracer, route: Route) -> Route:
    """Return the route with a span `METHOD PATH-TEMPLATE`, which continues the request's trace."""
    handler, name = route.handler, f"{route.method} {route.path}"
    # A publish keeps the publisher's context in the message.
    publishes = route.permission == Permission.PUBLISH.value

    async def traced_handler(scope: Scope, receive: Receive, send: Send) -> None:
        span = tracer.start(name, Kind.SERVER, context_of(scope["headers"]), _said(route, scope))
        if not publishes:
            scope["headers"] = _within(scope["headers"], span.context)
        ending = _Ending(send)
        entered = REQUEST.set(span.context)
        try:
            await handler(scope, receive, ending.send)
        except BaseException as error:
            ending.failed(error)
            raise
        finally:
            REQUEST.reset(entered)
            ending.end(span)

    return route.around(traced_handler)


def continued(handler: Handler) -> Handler:
    """Return the handler as peers ask for it: its spans are of the request that their headers
    name."""

    async def continued_handler(scope: Scope, receive: Receive, send: Send) -> None:
        entered = REQUEST.set(context_of(scope["headers"]))
        try:
            await handler(scope, receive, send)
        finally:
            REQUEST.reset(entered)

    return continued_handler


class _Ending:
    """The answer to a request, or its other end."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status = 0
        self._error = ""

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self._status = message.get("status", self._status)
        await self._send(message)

    def failed(self, error: BaseException) -> None:
        if isinstance(error, ClientGone):
            self._status = _CLIENT_GONE
        elif not isinstance(error, Exception):
            self._error = type(error).__name__
        elif (problem := problem_of(error)) is not None:
            self._status = self._status or problem.status
            self._error = problem.slug
        else:
            self._status, self._error = self._status or 500, type(error).__name__

    def end(self, span: Span) -> None:
        """End the span of a request. A refusal is the client's to mend, so it is no error of the
        span.
        """
        if self._status:
            span.set("http.response.status_code", self._status)
        if self._error:
            span.set("error.type", self._error)
        failed = not 0 < self._status < 500
        span.end((self._error or f"HTTP {self._status}") if failed else "")


def _said(route: Route, scope: Scope) -> dict[str, str | int]:
    said: dict[str, str | int] = {
        "http.request.method": route.method,
        "http.route": route.path,
        "url.path": scope["path"],
    }
    params = scope["path_params"]
    if "topic" in params:
        said["messaging.destination.name"] = params["topic"]
    if "name" in params and "/subscriptions/{name}" in route.path:
        said["messaging.destination.subscription.name"] = params["name"]
    if REQUEST_ID in scope:
        said["packetboat.request_id"] = scope[REQUEST_ID].decode("ascii")
    return said


def _within(headers: list[tuple[bytes, bytes]], context: TraceContext) -> list[tuple[bytes, bytes]]:
    """Return the headers with this trace context in place of theirs."""
    kept = [pair for pair in headers if pair[0] not in TRACE_HEADERS]
    for name, text in zip(TRACE_HEADERS, context, strict=True):
        if text is not None:
            kept.append((name, text.encode("latin-1")))
    return kept
