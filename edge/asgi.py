"""Helps handlers in plain ASGI: `async (scope, receive, send)`, without request objects."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from edge.caller import Caller
from edge.problem import Problem
from openapi.contract import Operation

if TYPE_CHECKING:
    from edge.direct import Plan

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Handler = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON = b"application/json"
PROBLEM_JSON = b"application/problem+json"
WAITED = "packetboat.waited"
"""Scope key: the seconds that a request waited in this process before it was looked at."""
EXPECTS = "packetboat.expects"
"""Scope key: whether the client sends the body only when it is asked to (Expect: 100-continue)."""
TENANT = "packetboat.tenant"
"""Scope key: the 16-byte tenant id, put there by the auth middleware from the verified token."""
SUBJECT = "packetboat.subject"
"""Scope key: the caller's name, as audits have it."""
CALLER = "packetboat.caller"
"""Scope key: the permissions of the caller; there wherever TENANT is."""
REQUEST_ID = "packetboat.request_id"
"""Scope key: the request's id, as bytes; there wherever TENANT is."""
AUTHORISED = Caller((permission, "*", "*") for permission in ("publish", "consume", "read"))
"""The caller of a request that another forwarder has checked and passed on over a link."""
DRAIN_BYTES = 64 * 1024 * 1024


class ClientGone(Exception):
    """The client closed the connection before its request was complete; nobody waits for an
    answer.
    """


class Route(NamedTuple):
    """A row of the API contract's table, and the handler that carries it out.

    The row says which permission the caller needs, and on what. Without a row there is no route.
    """

    operation: Operation
    handler: Handler
    direct: Plan | None = None
    """Serves requests whose head came before, without a task; None if nothing does."""

    def around(self, handler: Handler) -> Route:
        """Return the route with a handler that runs in place of its own, and serves all of its
        requests.
        """
        return self._replace(handler=handler, direct=None)

    @property
    def method(self) -> str:
        return self.operation.method

    @property
    def path(self) -> str:
        return self.operation.path

    @property
    def permission(self) -> str:
        return self.operation.permission


def tenant_of(scope: Scope) -> bytes:
    """Return the id of the caller's tenant."""
    return cast(bytes, scope[TENANT])


def subject_of(scope: Scope) -> str:
    return cast(str, scope[SUBJECT])


def caller_of(scope: Scope) -> Caller:
    """Return the caller, for handlers that ask about names that are not in the path."""
    return cast(Caller, scope[CALLER])


def path_param(scope: Scope, name: str) -> str:
    """Return the decoded value of a parameter in the path."""
    return cast(str, scope["path_params"][name])


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first header of a lower-case name, or None."""
    for key, value in cast(Iterable[Header], scope["headers"]):
        if key == name:
            return value
    return None


async def read_body(scope: Scope, receive: Receive, limit_bytes: int) -> bytes:
    """Return the whole body, at most `limit_bytes` long; raise a 413 Problem or ClientGone.

    An oversized body is read to its end first, up to `DRAIN_BYTES`: answering HTTP/2 before the
    request has ended breaks the whole connection in Hypercorn, and HTTP/1.1 clients see a reset
    instead of the 413.
    """
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    body = cast(bytes, message.get("body", b""))
    if not message.get("more_body", False) and len(body) <= limit_bytes:
        return body
    chunks, total = [body], len(body)
    while message.get("more_body", False) and total <= DRAIN_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body = cast(bytes, message.get("body", b""))
        total += len(body)
        if total <= limit_bytes:
            chunks.append(body)
    if total > limit_bytes:
        raise Problem.of(
            "body-too-large",
            f"The body is over the limit of {limit_bytes} bytes.",
            extra={"limit_bytes": limit_bytes},
        )
    return b"".join(chunks)


async def respond(
    send: Send,
    status: int,
    body: bytes | bytearray,
    content_type: bytes = JSON,
    headers: Iterable[Header] = (),
) -> None:
    """Send a whole response with one body."""
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", content_type),
                (b"content-length", str(len(body)).encode()),
                *headers,
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def respond_problem(send: Send, problem: Problem, instance: str | None = None) -> None:
    body = problem.to_json(instance)
    await respond(send, problem.status, body, PROBLEM_JSON, problem_headers(problem))


def problem_headers(problem: Problem) -> list[Header]:
    """Return the headers that only a response with this problem has."""
    headers = [(k.lower().encode(), v.encode()) for k, v in problem.headers.items()]
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", str(max(1, math.ceil(problem.retry_after_s))).encode()))
    return headers
