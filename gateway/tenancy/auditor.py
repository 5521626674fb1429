"""Records changes in the audit, around the handlers of the routes that make them.

    row committed, without a status → the handler runs → its status committed → the answer is sent

So there is no change without its row, whichever process dies when: a row without a status tells
of a change that may have been made. A change whose row cannot be written is not begun (503). A
status that cannot be written keeps nobody from the answer: the change has its row. Under overload
requests are refused before they come here; nothing is queued that could be lost.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import structlog
from prometheus_client import Counter

from auth.permissions import Permission
from edge.asgi import (
    REQUEST_ID,
    ClientGone,
    Handler,
    Receive,
    Route,
    Scope,
    Send,
    header,
    subject_of,
    tenant_of,
)
from edge.parameters import Query
from gateway.http.decoding import MAX_BODY_BYTES
from gateway.middleware.errors import problem_of
from gateway.tenancy.redaction import MAX_CHARS, members_of, redacted, storable
from metadata.errors import MetadataError, MetadataUnavailable, OutcomeUnknown
from metadata.ids import new_uid
from metadata.tenancy.audit import AuditEntry, AuditLog

CHANGING = (Permission.MANAGE.value, Permission.ADMINISTER.value, Permission.OPERATE.value)
MAX_RESOURCE_CHARS = 512
_FAILURES = Counter(
    "packetboat_audit_failures_total",
    "Rows of the audit that could not be written; step=begin: nothing was changed",
    ["step"],
)
_log = structlog.get_logger("packetboat.audit")


class Auditor:
    """Wraps the handlers of one process."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    def audited(self, route: Route) -> Route:
        """Return the route as it is served: with the audit around it if it changes something."""
        if route.method == "GET" or route.permission not in CHANGING:
            return route
        return route.around(_Audited(self._log, route))


class _Audited:
    """The handler of one route."""

    def __init__(self, log: AuditLog, route: Route) -> None:
        self._log = log
        self._path = route.path
        self._handler: Handler = route.handler
        self._action = route.operation.id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = _Body(receive)
        entry = self._entry(scope, await body.begin())
        await self._begin(entry)
        answered = False

        async def send_audited(message: MutableMapping[str, Any]) -> None:
            nonlocal answered
            if message["type"] == "http.response.start" and not answered:
                answered = True
                await self._finish(entry, message["status"])
            await send(message)

        try:
            await self._handler(scope, body.receive, send_audited)
        except Exception as error:
            if not answered and not isinstance(error, ClientGone):
                problem = problem_of(error)
                await self._finish(entry, 500 if problem is None else problem.status)
            raise

    def _entry(self, scope: Scope, body: bytes) -> AuditEntry:
        members = members_of(body)
        query = Query(scope).all()
        detail: dict[str, Any] = {"members": members, "source": _source(scope)}
        if query:
            detail["query"] = redacted(query)
        return AuditEntry(
            tenant_id=tenant_of(scope),
            id=new_uid(),
            actor=storable(subject_of(scope)),
            action=self._action,
            resource=resource_of(self._path, scope["path_params"], members.get("name")),
            status=None,
            request_id=scope[REQUEST_ID].decode("ascii"),
            detail=detail,
        )

    async def _begin(self, entry: AuditEntry) -> None:
        try:
            await self._log.append([entry])
        except MetadataError as error:
            _FAILURES.labels("begin").inc()
            if isinstance(error, OutcomeUnknown):
                # The outcome of the row alone is unknown: the change is not begun.
                raise MetadataUnavailable(str(error)) from error
            raise

    async def _finish(self, entry: AuditEntry, status: int) -> None:
        try:
            await self._log.finish(entry, status)
        except MetadataError as error:
            _FAILURES.labels("finish").inc()
            _log.warning(
                "the status of an audited change is not recorded",
                action=entry.action,
                resource=entry.resource,
                status=status,
                request_id=entry.request_id,
                error=str(error),
            )


class _Body:
    """Reads a body before its handler does, who then gets the same messages."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: list[MutableMapping[str, Any]] = []

    async def begin(self) -> bytes:
        """Return the whole body, or nothing of one that is too long for any handler.

        Raises ClientGone.
        """
        chunks: list[bytes] = []
        total = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            self._messages.append(message)
            chunks.append(message.get("body", b""))
            total += len(chunks[-1])
            if total > MAX_BODY_BYTES:
                chunks = []
                break
            if not message.get("more_body", False):
                break
        self._messages.reverse()
        return b"".join(chunks)

    async def receive(self) -> MutableMapping[str, Any]:
        return self._messages.pop() if self._messages else await self._receive()


def resource_of(path: str, params: dict[str, str], name: object) -> str:
    """Return the resource that the path names, without its first slash and the action.

    A name in the body is added if the path has none: `POST /topics` of orders is about
    `topics/orders`.
    """
    parts = []
    for segment in path.split("/")[1:]:
        if segment.startswith("{"):
            parts.append(params[segment[1 : segment.index("}")]])
        else:
            parts.append(segment)
    if not path.rpartition("/")[2].startswith("{") and isinstance(name, str):
        parts.append(name)
    return storable("/".join(parts))[:MAX_RESOURCE_CHARS]


def _source(scope: Scope) -> dict[str, str]:
    """Return the source of a request: the connection's other end, and the client for which a proxy
    speaks.

    The latter is a claim of the request, and worth as much as the proxy.
    """
    client = scope.get("client")
    source = {"address": str(client[0])} if client else {}
    forwarded = header(scope, b"x-forwarded-for")
    if forwarded is not None:
        source["forwarded_for"] = storable(forwarded.decode("latin-1"))[:MAX_CHARS]
    return source
