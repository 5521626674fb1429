"""Serves requests whose heads came before without a task, a scope or an exchange.

The operation, the token and the fields of a head are kept with it (`Known`). A `Known` is made of a
head that the parser accepted, and holds only what follows from its bytes. All else is asked again
for each request, as the dispatcher asks it: whose the token is, what the caller may do, what is
left of the tenant's rates, whether the request is admitted, and the topic. So a token that is
revoked or expires, and any change of a policy, a topic, a quota or a limit, holds from the next
request on. A request that needs more than that is dispatched like any other.

One append may hold the messages of a thousand requests. Their answers are made and written over
several passes of the event loop, so that no callback has them all, and tenants take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

import structlog

from auth.errors import TokenRefused
from auth.principal import Principal
from auth.verifier import CachingVerifier
from edge.asgi import JSON, PROBLEM_JSON, Header, problem_headers
from edge.direct import Accept, Answer, Prepare
from edge.problem import Problem
from gateway.admission.request_admission import PRIORITY, body_bytes
from gateway.http.cors import Cors
from gateway.http.request import Head
from gateway.http.round_robin import RoundRobin
from gateway.http.router import Router
from gateway.http.running import Call, RunningRequests
from gateway.middleware.auth import bearer_token
from gateway.middleware.errors import answer_to, forget, instance_of
from gateway.middleware.request_id import HEADER as REQUEST_ID_HEADER
from gateway.middleware.request_id import request_id

CLIENT_GONE = 499
Write = Callable[[int, Sequence[Header], bytes], bool]
"""Writes a whole response; returns whether its client is still there."""
_log = structlog.get_logger("packetboat.gateway")


class Known(NamedTuple):
    """The facts that follow from the bytes of a head."""

    call: Call
    prepare: Prepare
    token: bytes
    length: int
    """The bytes of a body."""
    request_id: bytes | None
    """The id that the client offers."""
    path: str
    headers: tuple[Header, ...]
    """Headers that are added to those of each answer."""


class DirectRequests:
    """Begins the requests that are served directly; one for each dispatcher."""

    def __init__(
        self,
        router: Router,
        verifier: CachingVerifier,
        running: RunningRequests,
        cors: Cors | None,
    ) -> None:
        self._running = running
        self._router = router
        self._verifier = verifier
        self._cors = cors

    def known(self, head: Head) -> Known | None:
        """Return what a head says to requests that are served directly; None if its requests are
        dispatched.
        """
        if head.close or head.chunked or head.expects or head.query:
            return None
        fields = dict(head.headers)
        path = head.path.decode("latin-1")
        try:
            match = self._router.match(head.method, path)
            token = bearer_token(fields.get(b"authorization"))
        except (Problem, TokenRefused):
            return None
        if match is None:
            return None
        endpoint, params = match
        plan = endpoint.direct
        prepare = None if plan is None else plan(params, head.headers)
        if prepare is None:
            return None
        admission, cors = self._running.admission, self._cors
        kind = None if admission is None else admission.kind(endpoint, fields.get(PRIORITY))
        size = body_bytes(fields.get(b"content-length"), chunked=False)
        return Known(
            Call(endpoint, params, b"", kind, size),
            prepare,
            token,
            head.content_length,
            fields.get(REQUEST_ID_HEADER),
            unquote(path),
            () if cors is None else cors.headers(fields.get(b"origin")),
        )

    def begin(
        self, known: Known, waited_s: float, write: Write, turns: RoundRobin
    ) -> DirectRequest | None:
        """Return a request with a known head; None if it must be dispatched.

        Nothing is done for it yet; `DirectRequest.serve` begins with its body.
        """
        principal = self._verifier.cached(known.token)
        if principal is None or principal.caller.slow:
            return None
        accept = known.prepare(principal.tenant_id)
        if accept is None:
            return None
        return DirectRequest(self._running, known, principal, accept, waited_s, write, turns)


class DirectRequest:
    """One request that is served directly: the connection has it until it is answered."""

    __slots__ = (
        "_accept",
        "_admitted",
        "_known",
        "_principal",
        "_request_id",
        "_running",
        "_shed",
        "_started_s",
        "_turns",
        "_write",
        "tenant_id",
    )
    whole = True
    """The body of a direct request is here before it begins."""
    buffered_bytes = 0

    def __init__(
        self,
        running: RunningRequests,
        known: Known,
        principal: Principal,
        accept: Accept,
        waited_s: float,
        write: Write,
        turns: RoundRobin,
    ) -> None:
        """Prepare a request that has waited `waited_s` for its turn; its answer waits in
        `turns`.
        """
        self._running = running
        self._known = known
        self._principal = principal
        self._accept = accept
        self._write = write
        self._turns = turns
        self._started_s = time.perf_counter() - waited_s
        self._request_id = request_id(known.request_id)
        self._admitted: Call | None = None
        self._shed = False
        self.tenant_id = principal.tenant_id

    def serve(self, body: bytes) -> None:
        """Run the operation if the request may run, and answer it if not."""
        running, call = self._running, self._known.call
        running.count += 1
        try:
            refusal = running.admit(call, self._principal)
            if refusal is not None:
                self._shed = True
                self._end(refusal)
                return
            self._admitted = call
            self._accept(body, self._reply)
        except Exception as error:
            self._end(error)
            forget(error)

    def _reply(self, answer: Callable[[], Answer]) -> None:
        """Answer in turn.

        The sender of the message calls it for all messages of its append, one after the other.
        """
        if self._turns.admits(partial(self._take_turn, answer), self.tenant_id):
            self._take_turn(answer)

    def _take_turn(self, answer: Callable[[], Answer]) -> None:
        try:
            made = answer()
        except Exception as error:
            self._end(error)
            forget(error)
            return
        self._end(made)

    def _end(self, answer: Answer | Exception) -> None:
        """Write the answer, and note the end of the request.

        Errors of the connection end here: others have their turns after this request.
        """
        name, known, endpoint = self._request_id, self._known, self._known.call.endpoint
        if isinstance(answer, Answer):
            status, body, kind, headers = answer.status, answer.body, JSON, answer.headers
        else:
            problem = answer_to(answer, endpoint.method, known.path, name)
            status, kind, headers = problem.status, PROBLEM_JSON, problem_headers(problem)
            body = problem.to_json(instance_of(name))
        try:
            there = self._write(
                status,
                (
                    (b"content-type", kind),
                    (b"content-length", b"%d" % len(body)),
                    *headers,
                    (REQUEST_ID_HEADER, name),
                    *known.headers,
                ),
                body,
            )
        except Exception:
            _log.exception("an answer was not written")
            there = False
        if not there and status < 300:
            status = CLIENT_GONE
        self._running.end(
            endpoint.method, known.path, endpoint.template, status, self._started_s, name,
            shed=self._shed, admitted=self._admitted, tenant_id=self.tenant_id,
        )  # fmt: skip
