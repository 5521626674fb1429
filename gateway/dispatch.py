"""The outermost ASGI application: request id, authentication, errors, metrics, drain.

Every request of the product passes here and nothing else is wrapped around a handler, so the cost
of the edge is this one function. Paths the router does not know (health, the API's
own description) go to the Starlette application behind it.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import structlog

from auth.permissions import Permission
from edge.asgi import SUBJECT, TENANT, ClientGone, Handler, Receive, Scope, Send, respond_problem
from edge.problem import Problem
from gateway.metrics import RequestMetrics
from gateway.middleware.access_log import AccessLog
from gateway.middleware.auth import Authenticator
from gateway.middleware.errors import body_timeout, internal, problem_of
from gateway.middleware.exchange import Exchange
from gateway.middleware.request_id import HEADER as REQUEST_ID
from gateway.middleware.request_id import request_id
from gateway.router import Router

CLIENT_GONE = 499
_log = structlog.get_logger("packetboat.gateway")


class Dispatcher:
    """Owns the set of running exchanges, by which a stop knows when the last was answered."""

    def __init__(
        self,
        router: Router,
        authenticator: Authenticator,
        fallback: Handler,
        *,
        access_log: AccessLog | None = None,
        body_timeout_s: float = 30.0,
    ) -> None:
        self._router = router
        self._authenticator = authenticator
        self._fallback = fallback
        self._metrics = RequestMetrics(router.endpoints)
        self._access_log = access_log or AccessLog()
        self._body_timeout_s = body_timeout_s
        self._reading: set[Exchange] = set()
        self._idle = asyncio.Event()
        self.in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._fallback(scope, receive, send)
            return
        authorization = offered = None
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorization = value
            elif name == REQUEST_ID:
                offered = value
        exchange = Exchange(receive, send, request_id(offered), self._reading)
        template = "other"
        self.in_flight += 1
        try:
            raw_path = scope.get("raw_path")
            path = raw_path.decode("latin-1") if raw_path else scope["path"]
            match = self._router.match(scope["method"], path)
            if match is None:
                await self._fallback(scope, exchange.receive, exchange.send)
            else:
                endpoint, scope["path_params"] = match
                template = endpoint.template
                if endpoint.permission is not Permission.PUBLIC:
                    principal = await self._authenticator.principal(
                        authorization, endpoint.permission
                    )
                    scope[TENANT] = principal.tenant_id
                    scope[SUBJECT] = principal.subject
                await endpoint.handler(scope, exchange.receive, exchange.send)
        except ClientGone:
            exchange.status = CLIENT_GONE
        except Exception as error:
            await self._answer_error(scope, exchange, error)
        except asyncio.CancelledError:
            if not exchange.timed_out or exchange.status:
                raise
            assert exchange.task is not None
            exchange.task.uncancel()
            await self._answer_error(scope, exchange, body_timeout(self._body_timeout_s))
        finally:
            self._finished(scope, exchange, template)

    def _finished(self, scope: Scope, exchange: Exchange, template: str) -> None:
        self.in_flight -= 1
        if not self.in_flight:
            self._idle.set()
        seconds = time.perf_counter() - exchange.started_s
        self._metrics.observe(scope["method"], template, exchange.status, seconds)
        self._access_log.note(
            scope["method"], scope["path"], exchange.status, seconds, exchange.request_id
        )

    async def _answer_error(self, scope: Scope, exchange: Exchange, error: Exception) -> None:
        problem = problem_of(error)
        if problem is None:
            problem = internal()
            _log.error(
                "handler failed",
                method=scope["method"],
                path=scope["path"],
                request_id=exchange.request_id.decode("ascii"),
                exc_info=error,
            )
        if exchange.status:
            # The response has begun; only breaking the connection tells the client it is not whole.
            raise error
        if not exchange.body_complete and not exchange.timed_out:
            await exchange.drain()
        if exchange.gone:
            exchange.status = CLIENT_GONE
            return
        with suppress(ClientGone):
            await _send_problem(exchange, problem)

    async def sweep(self) -> None:
        """Runs for the life of the application: ends requests whose body has stalled."""
        while True:
            await asyncio.sleep(min(1.0, self._body_timeout_s / 4))
            oldest_s = time.perf_counter() - self._body_timeout_s
            for exchange in [e for e in self._reading if e.waiting_since_s < oldest_s]:
                exchange.timed_out = True
                if exchange.task is not None:
                    exchange.task.cancel()

    async def until_idle(self) -> None:
        """Returns when no request is running."""
        while self.in_flight:
            self._idle.clear()
            await self._idle.wait()


async def _send_problem(exchange: Exchange, problem: Problem) -> None:
    instance = "urn:packetboat:request:" + exchange.request_id.decode("ascii")
    await respond_problem(exchange.send, problem, instance)
