"""Dispatches each request to its operation: the outermost ASGI application.

Every request of the product passes here and nothing else is wrapped around a handler, so the cost
of the edge is this one function. Paths the router does not know (health, the API's
own description) go to the Starlette application behind it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import structlog

from auth.errors import TokenRefused
from auth.permissions import Permission
from auth.principal import Principal
from auth.verifier import CachingVerifier
from edge.asgi import (
    CALLER,
    EXPECTS,
    REQUEST_ID,
    SUBJECT,
    TENANT,
    WAITED,
    ClientGone,
    Handler,
    Receive,
    Scope,
    Send,
    respond_problem,
)
from edge.problem import Problem
from edge.quota import NO_LIMITS, Quotas, Usage
from gateway.access_watch import AccessWatch
from gateway.admission.admission import ANONYMOUS, overloaded
from gateway.admission.kinds import Kind
from gateway.admission.request_admission import (
    CHECK,
    MOST_BYTES,
    PRIORITY,
    PreparedResponse,
    RequestAdmission,
    body_bytes,
)
from gateway.http.cors import Cors, allow
from gateway.http.direct import CLIENT_GONE, DirectRequests
from gateway.http.request import (
    MAX_FIELDS,
    MAX_KNOWN_BYTES,
    MAX_KNOWN_HEADS,
    Malformed,
    parse_head,
)
from gateway.http.router import Endpoint, Router
from gateway.http.running import Call, RunningRequests
from gateway.metrics import RequestMetrics
from gateway.middleware.access_log import AccessLog
from gateway.middleware.auth import PRINCIPAL, bearer_token
from gateway.middleware.errors import (
    answer_to,
    body_timeout,
    forget,
    instance_of,
    too_many_fields,
)
from gateway.middleware.exchange import Exchange
from gateway.middleware.request_id import HEADER as REQUEST_ID_HEADER
from gateway.middleware.request_id import request_id
from gateway.stream_tickets import StreamTickets

PROXY_HEADERS = frozenset((b"forwarded", b"via", b"x-forwarded-for"))
_log = structlog.get_logger("packetboat.gateway")


class TurnedAway(NamedTuple):
    """The refusal to answer and its request id; the length of the body; whether the
    connection is to be closed; and whether no proxy shares it, so that nothing more need be
    read from it yet.
    """

    refusal: PreparedResponse
    request_id: bytes
    tenant_id: bytes
    length: int
    close: bool
    own: bool


class _Asked(NamedTuple):
    """The request that a head describes."""

    endpoint: Endpoint
    kind: Kind
    token: bytes
    length: int
    request_id: bytes | None
    close: bool
    own: bool
    """No proxy has sent it: what comes next on its connection is the same asker's."""


class Dispatcher:
    """Dispatches every request of a process, and knows which of them run.

    So a stop knows when the last was answered.
    """

    def __init__(
        self,
        router: Router,
        verifier: CachingVerifier,
        fallback: Handler,
        *,
        access_log: AccessLog | None = None,
        body_timeout_s: float = 30.0,
        admission: RequestAdmission | None = None,
        cors: Cors | None = None,
        tickets: StreamTickets | None = None,
        quotas: Quotas = NO_LIMITS,
        usage: Usage = NO_LIMITS,
    ) -> None:
        """Create the dispatcher.

        An `admission` of None lets every request in, `cors` of None lets pages of no other origin
        read answers, `tickets` of None takes no tickets of streams. `quotas` are asked for, and
        `usage` told of, each request of a tenant.
        """
        self._router = router
        self._verifier = verifier
        self._fallback = fallback
        self._metrics = RequestMetrics(router.endpoints)
        self._body_timeout_s = body_timeout_s
        self._admission = admission
        self._cors = cors
        self._tickets = tickets
        self._asked: dict[bytes, _Asked] = {}
        self._turned_away: Counter[Endpoint] = Counter()
        self._reading: set[Exchange] = set()
        self._watch = AccessWatch(verifier)
        self._watch.guard(router.endpoints)
        log = access_log or AccessLog()
        self.running = RunningRequests(admission, quotas, usage, self._metrics, log)
        self.direct = DirectRequests(router, verifier, self.running, cors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request: find its operation, check the caller, admit it and run the handler."""
        if scope["type"] != "http":
            await self._fallback(scope, receive, send)
            return
        authorization, offered, length, priority, origin, chunked = _fields(scope["headers"])
        if len(scope["headers"]) > MAX_FIELDS:
            await respond_problem(send, too_many_fields(MAX_FIELDS))
            return
        method = scope["method"]
        exchange = Exchange(
            receive, send, request_id(offered), self._reading, bodiless=method == "HEAD"
        )
        exchange.started_s -= scope.get(WAITED, 0.0)
        cors = self._cors
        if cors is not None:
            exchange.headers = cors.headers(origin)
        running, admission, tenant_id = self.running, self._admission, ANONYMOUS
        template, admitted, principal, shed = "other", None, None, False
        running.count += 1
        try:
            if cors is not None and cors.is_preflight(scope, origin):
                await allow(scope, exchange.send)
                return
            match = self._router.match(method, _path(scope))
            if match is None:
                await self._fallback(scope, exchange.receive, exchange.send)
            else:
                endpoint, scope["path_params"] = match
                scope["method"] = endpoint.method
                template = endpoint.template
                if endpoint.permission is not Permission.PUBLIC:
                    principal = await self._authenticate(scope, exchange, endpoint, authorization)
                    tenant_id = principal.tenant_id
                kind = None if admission is None else admission.kind(endpoint, priority)
                size = body_bytes(length, chunked=chunked)
                call = Call(endpoint, scope["path_params"], scope["query_string"], kind, size)
                refusal = running.admit(call, principal)
                if refusal is not None:
                    shed = True
                    await self._answer_error(scope, exchange, refusal)
                    return
                admitted = call
                await endpoint.handler(scope, exchange.receive, exchange.send)
        except ClientGone:
            exchange.status = CLIENT_GONE
        except Exception as error:
            await self._answer_error(scope, exchange, error)
            forget(error)
        except asyncio.CancelledError:
            if not exchange.timed_out or exchange.status:
                raise
            assert exchange.task is not None
            exchange.task.uncancel()
            await self._answer_error(scope, exchange, body_timeout(self._body_timeout_s))
        finally:
            running.end(
                method, scope["path"], template, exchange.status, exchange.started_s,
                exchange.request_id, shed=shed, admitted=admitted, tenant_id=tenant_id,
            )  # fmt: skip

    def _token(self, scope: Scope, template: str, authorization: bytes | None) -> bytes:
        """Return the token of the header or of a ticket; raise TokenRefused if there is neither."""
        if authorization is None and self._tickets is not None:
            authorization = self._tickets.authorization(template, scope)
        return bearer_token(authorization)

    async def _authenticate(
        self, scope: Scope, exchange: Exchange, endpoint: Endpoint, authorization: bytes | None
    ) -> Principal:
        """Put the caller into the scope, and return it; raise TokenRefused if there is none."""
        token = self._token(scope, endpoint.template, authorization)
        principal = self._verifier.cached(token) or await self._verify(token)
        if principal.caller.slow:
            await endpoint.learn(principal.caller, scope["path_params"])
        scope[TENANT] = principal.tenant_id
        scope[SUBJECT] = principal.subject
        scope[CALLER] = principal.caller
        scope[PRINCIPAL] = principal
        scope[REQUEST_ID] = exchange.request_id
        return principal

    def turned_away(self, raw: bytes, body_bytes: int) -> TurnedAway | None:
        """Return the answer to a request that is refused by its head alone; None if it is not
        refused.

        `raw` is its head, and `body_bytes` of its body are here. Returns None if it is to be
        dispatched, which may still refuse it.
        """
        admission = self._admission
        if admission is None or not admission.process.pressed:
            return None
        asked = self._asked.get(raw)
        if asked is None:
            asked = self._look(admission, raw)
            if asked is None:
                return None
            # A flooding client sends the same head each time: it is looked at once.
            if len(self._asked) >= MAX_KNOWN_HEADS:
                self._asked.clear()
            if len(raw) <= MAX_KNOWN_BYTES:
                self._asked[raw] = asked
        if body_bytes < asked.length:
            return None
        principal = self._verifier.cached(asked.token)
        if principal is None:
            return None
        size = min(asked.length, MOST_BYTES)
        refusal = admission.turned_away(principal.tenant_id, asked.kind, size)
        if refusal is None:
            return None
        self._turned_away[asked.endpoint] += 1
        offered = request_id(asked.request_id)
        tenant_id = principal.tenant_id
        return TurnedAway(refusal, offered, tenant_id, asked.length, asked.close, asked.own)

    def _look(self, admission: RequestAdmission, raw: bytes) -> _Asked | None:
        try:
            head = parse_head(raw)
        except Malformed:
            return None
        if head.method == "HEAD" or head.chunked or head.expects:
            return None  # the answer that is made ahead has a body, and follows a whole request
        fields = dict(head.headers)
        if self._cors is not None and b"origin" in fields:
            return None  # and does not say which origins may read it
        try:
            match = self._router.match(head.method, head.path.decode("latin-1"))
            token = bearer_token(fields.get(b"authorization"))
        except (Problem, TokenRefused):
            return None
        if match is None:
            return None
        kind = admission.kind(match[0], fields.get(PRIORITY))
        offered = fields.get(REQUEST_ID_HEADER)
        own = fields.keys().isdisjoint(PROXY_HEADERS)
        return _Asked(match[0], kind, token, head.content_length, offered, head.close, own)

    async def _verify(self, token: bytes) -> Principal:
        """Verify a token that is not known: work that no tenant pays for yet."""
        admission = self._admission
        if admission is None:
            return await self._verifier.verify(token)
        if admission.process.enter(ANONYMOUS, CHECK) is not None:
            raise overloaded(1)
        try:
            return await self._verifier.verify(token)
        finally:
            admission.process.leave(ANONYMOUS, CHECK)

    async def _answer_error(self, scope: Scope, exchange: Exchange, error: Exception) -> None:
        problem = answer_to(error, scope["method"], scope["path"], exchange.request_id)
        if exchange.status:
            # The response has begun; only breaking the connection tells the client it is not whole.
            raise error
        unasked = scope.get(EXPECTS) and not exchange.asked
        if not exchange.body_complete and not exchange.timed_out and not unasked:
            await exchange.drain()
        if exchange.gone:
            exchange.status = CLIENT_GONE
            return
        with suppress(ClientGone):
            await _send_problem(exchange, problem)

    async def sweep(self) -> None:
        """Runs for the life of the application: ends requests whose body has stalled, and those
        that wait for what their caller may not have any more."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sweep_bodies())
            tasks.create_task(self._watch.run())

    async def _sweep_bodies(self) -> None:
        while True:
            await asyncio.sleep(min(1.0, self._body_timeout_s / 4))
            for endpoint, count in self._turned_away.items():
                self._metrics.refused(endpoint.method, endpoint.template, count)
            self._turned_away.clear()
            now_s, pause_s = time.perf_counter(), self._body_timeout_s
            for exchange in [e for e in self._reading if e.stalled(now_s, pause_s)]:
                exchange.timed_out = True
                if exchange.task is not None:
                    exchange.task.cancel()


async def _send_problem(exchange: Exchange, problem: Problem) -> None:
    await respond_problem(exchange.send, problem, instance_of(exchange.request_id))


def _path(scope: Scope) -> str:
    """Return the path as the client wrote it, with its escapes."""
    raw_path = scope.get("raw_path")
    path: str = raw_path.decode("latin-1") if raw_path else scope["path"]
    return path


def _fields(
    headers: Iterable[tuple[bytes, bytes]],
) -> tuple[bytes | None, bytes | None, bytes | None, bytes | None, bytes | None, bool]:
    """Return the authorization, request id, length, priority and origin, and whether the body is
    chunked.
    """
    authorization = offered = length = priority = origin = None
    chunked = False
    for name, value in headers:
        if name == b"authorization":
            authorization = value
        elif name == REQUEST_ID_HEADER:
            offered = value
        elif name == b"content-length":
            length = value
        elif name == PRIORITY:
            priority = value
        elif name == b"origin":
            origin = value
        elif name == b"transfer-encoding":
            chunked = True
    return authorization, offered, length, priority, origin, chunked
