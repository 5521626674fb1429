"""Ends open requests, such as long-polls and streams, once their caller may no longer go on.

A request is judged when it begins. One that then waits is kept here, and judged again as soon as
the verifier drops its entry for the token (a key, client, policy, issuer or tenant has changed, or
the token was revoked) and when its token expires. If the next request of that token would be
refused, `receive` raises that Problem in the handler, and the future of the client's departure
fails with it. The handler answers with it, or with the last line of a stream. Invariant: GRACE_S
later nothing is written any more, whatever the handler does.

A token that cannot be checked now ends nothing: the check is repeated each second. Only operations
that may wait come by here, and the watch keeps a request only once it waits.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

import structlog
from prometheus_client import Counter

from auth.errors import TenantSuspended, TokenRefused, VerifierUnavailable
from auth.principal import Principal
from auth.verifier import CachingVerifier
from edge.asgi import Handler, Receive, Scope, Send, header
from edge.departure import DEPARTURE
from edge.problem import Problem, unavailable
from gateway.admission.kinds import kind_of
from gateway.http.router import Endpoint
from gateway.middleware.auth import PRINCIPAL, bearer_token
from gateway.middleware.errors import tenant_suspended, unauthenticated

LOOK_EVERY_S = 1.0
GRACE_S = 5.0
"""Seconds that a handler has to end; then it is cancelled."""
LEEWAY_EVERY_S = 5.0
"""Seconds between two checks of an expired token that the leeway of clocks still accepts."""
CHECKED_AT_A_TIME = 8
"""The number of tokens that are checked at once; it leaves room for requests that begin."""
_REPLAY = "GET /topics/{topic}/partitions/{partition}/messages"
"""A replay costs more than waiting does, but may take as long."""
ENDED = Counter(
    "packetboat_gateway_waits_ended_total",
    "Long-polls and streams that were ended because their caller may not go on.",
)


_log = structlog.get_logger("packetboat.gateway")


class OpenRequest:
    """One request of an operation that may wait, from its beginning to its end."""

    __slots__ = (
        "_asking",
        "_body_read",
        "_cut",
        "_departure",
        "_interrupted",
        "_receive",
        "_task",
        "_watch",
        "due_s",
        "endpoint",
        "principal",
        "refusal",
        "refused_s",
        "scope",
    )

    def __init__(
        self, watch: AccessWatch, endpoint: Endpoint, scope: Scope, receive: Receive
    ) -> None:
        """Begin to watch a request in the current task."""
        self._watch = watch
        self._receive = receive
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._asking: asyncio.Task[Any] | None = None
        self._departure: asyncio.Future[None] | None = None
        self._body_read = self._interrupted = self._cut = False
        self.endpoint = endpoint
        self.scope = scope
        self.principal: Principal = scope[PRINCIPAL]
        self.due_s = math.inf
        """The time of the next judgement, in seconds of the epoch."""
        self.refusal: Problem | None = None
        self.refused_s = 0.0

    @property
    def token(self) -> bytes:
        return bearer_token(header(self.scope, b"authorization"))

    async def run(self, handler: Handler, send: Send) -> None:
        """Run the handler; raise the refusal if it had to be cancelled for that."""
        offered = self.scope.get(DEPARTURE)
        if offered is not None:
            self.scope[DEPARTURE] = partial(self.departure, offered)
        try:
            await handler(self.scope, self.receive, send)
        except asyncio.CancelledError:
            if self._cut and not self._task.uncancel():
                raise self._why() from None
            raise

    async def receive(self) -> MutableMapping[str, Any]:
        """Receive as in ASGI; raise the refusal as soon as there is one."""
        if not self._body_read:
            message = await self._receive()
            self._body_read = not message.get("more_body", False)
            return message
        if self.refusal is not None:
            raise self.refusal
        self._watch.keep(self)
        asking = self._asking = cast("asyncio.Task[Any]", asyncio.current_task())
        try:
            return await self._receive()
        except asyncio.CancelledError:
            if self._interrupted and not asking.uncancel():
                raise self._why() from None
            raise
        finally:
            self._asking, self._interrupted = None, False
            del asking

    def departure(self, offered: Callable[[], asyncio.Future[None]]) -> asyncio.Future[None]:
        """Return the future of the client's departure; it fails with the refusal as soon as there
        is one.
        """
        self._watch.keep(self)
        self._departure = offered()
        if self.refusal is not None:
            self._fail(self.refusal)
        return self._departure

    def refuse(self, refusal: Problem) -> None:
        """End the request's wait with a refusal; the handler learns of it even while it waits."""
        self.refusal, self.refused_s = refusal, time.monotonic()
        self._fail(refusal)
        if self._asking is not None:
            self._interrupted = True
            self._asking.cancel()

    def cut(self) -> None:
        """Cancel the handler, which was told of the refusal and goes on."""
        self._cut = True
        self._task.cancel()

    def _fail(self, refusal: Problem) -> None:
        """Have the future of the departure fail, if the handler has it and it is not done."""
        departure = self._departure
        if departure is not None and not departure.done():
            departure.set_exception(refusal)
            departure.exception()  # it counts as known: the handler may just have ended its wait

    def _why(self) -> Problem:
        assert self.refusal is not None, "only who is refused is interrupted"
        return self.refusal


class AccessWatch:
    """Judges the waiting requests of a process again when access changes; `run` it."""

    def __init__(self, verifier: CachingVerifier, *, wall: Callable[[], float] = time.time) -> None:
        self._verifier = verifier
        self._wall = wall
        self._open: set[OpenRequest] = set()
        self._stale: set[OpenRequest] = set()
        """The open requests for which something has changed since they were judged."""
        self._refused: set[OpenRequest] = set()
        self._wake = asyncio.Event()
        self._checks = asyncio.Semaphore(CHECKED_AT_A_TIME)
        verifier.tell_dropped(self._dropped)

    def guard(self, endpoints: Iterable[Endpoint]) -> None:
        """Wraps the handlers of those that may wait."""
        for endpoint in endpoints:
            operation = f"{endpoint.method} {endpoint.template}"
            if operation == _REPLAY or kind_of(endpoint.method, endpoint.template).waits:
                endpoint.handler = self._guarded(endpoint, endpoint.handler)

    def _guarded(self, endpoint: Endpoint, handler: Handler) -> Handler:
        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            """Run the handler, and end it if the caller loses its access meanwhile."""
            request = OpenRequest(self, endpoint, scope, receive)
            try:
                await request.run(handler, send)
            finally:
                self._forget(request)

        return guarded

    def keep(self, request: OpenRequest) -> None:
        """Watch the request, which waits from now on, and look for changes since it was judged."""
        if request in self._open:
            return
        self._open.add(request)
        self._note_expiry(request)
        if self._verifier.cached(request.token) is not request.principal:
            self._stale.add(request)
            self._wake.set()

    def _forget(self, request: OpenRequest) -> None:
        """Stop watching a request that has ended."""
        for requests in (self._open, self._stale, self._refused):
            requests.discard(request)

    def _dropped(self, concerned: Callable[[Principal], bool]) -> None:
        stale = [request for request in self._open if concerned(request.principal)]
        if stale:
            self._stale.update(stale)
            self._wake.set()

    async def run(self) -> None:
        """Judge requests until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self.look()
            except Exception:
                # One token's fault must not keep the others open.
                _log.exception("open requests could not be judged")
                self._stale.update(self._open)

    async def look(self) -> None:
        """Judges whom there is a reason to judge, and ends who may not go on."""
        now_s = self._wall()
        stale, self._stale = self._stale, set()
        stale.update(request for request in self._open if request.due_s <= now_s)
        by_token: dict[bytes, list[OpenRequest]] = {}
        for request in stale - self._refused:
            by_token.setdefault(request.token, []).append(request)
        await asyncio.gather(*(self._judge(*each) for each in by_token.items()))
        for request in list(self._refused):
            if time.monotonic() - request.refused_s > GRACE_S:
                self._forget(request)
                request.cut()

    async def _judge(self, token: bytes, requests: Iterable[OpenRequest]) -> None:
        principal, refused = None, unauthenticated
        async with self._checks:
            try:
                principal = await self._verifier.verify(token)
            except VerifierUnavailable:
                self._stale.update(self._open.intersection(requests))
                return
            except TokenRefused:
                pass
            except TenantSuspended:
                refused = tenant_suspended
        if principal is not None and principal.caller.slow:
            for request in self._open.intersection(requests):
                await request.endpoint.learn(principal.caller, request.scope["path_params"])
        for request in self._open.intersection(requests):
            refusal = refused() if principal is None else _refusal(request, principal)
            if refusal is not None:
                self._refused.add(request)
                ENDED.inc()
                request.refuse(refusal)
            elif principal is not None:
                request.principal = principal
                self._note_expiry(request)

    def _note_expiry(self, request: OpenRequest) -> None:
        expires_s, now_s = request.principal.expires_at, self._wall()
        if expires_s is not None:
            request.due_s = expires_s if expires_s > now_s else now_s + LEEWAY_EVERY_S


def _refusal(request: OpenRequest, principal: Principal) -> Problem | None:
    """Return the refusal that a request like this one would get now, or None."""
    endpoint = request.endpoint
    try:
        endpoint.check(principal.caller, request.scope["path_params"])
    except Problem as problem:
        return problem
    if endpoint.leaves_names and principal.grants != request.principal.grants:
        # The answer shows names chosen by the grants with which the request began.
        return unavailable("auth", "The permissions of this token have changed; try again.")
    return None
