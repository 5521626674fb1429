"""The operations on backlogs that any forwarder serves, whatever it owns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    caller_of,
    header,
    path_param,
    read_body,
    tenant_of,
)
from edge.problem import FieldError, Problem, invalid
from edge.shares import SHARE, Shares
from metadata.types import Change, ChangeKind
from openapi.subscriptions import OPERATIONS
from subscribe_forwarder import metrics
from subscribe_forwarder.api.requests import MAX_DEADLINE_S, MAX_WAIT_S, Query
from subscribe_forwarder.api.stream_lines import format_of
from subscribe_forwarder.backlogs.backlogs import Backlogs
from subscribe_forwarder.backlogs.selection import Selected, Selection, Selector
from subscribe_forwarder.backlogs.stream import BacklogRequest, BacklogStream
from subscribe_forwarder.ports import Feed

_MAX_BODY_BYTES = 64 * 1024
_MAX_COUNT = 10**9 - 1
_RETRY_AFTER_S = 5.0
_ABOUT = (ChangeKind.SUBSCRIPTION, ChangeKind.TOPIC)


class BacklogRoutes:
    """Raises Problems, and MetadataError, which the dispatcher answers."""

    def __init__(
        self, backlogs: Backlogs, selector: Selector, feed: Feed, max_streams: int
    ) -> None:
        self._backlogs = backlogs
        self._selector = selector
        self._open = Shares(max_streams, name="backlog_streams")
        self._streams: dict[BacklogStream, bytes] = {}
        """Those that are open, each with its tenant."""
        self._draining = False
        feed.add_listener(self._on_changes)

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["streamBacklog"], self.one),
            Route(OPERATIONS["streamBacklogs"], self.several),
        ]

    def drain(self) -> None:
        """Ends all streams, and refuses others."""
        self._draining = True
        for stream in self._streams:
            stream.drain()

    async def one(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200 and its backlog, until it is deleted or somebody ends it."""
        name = path_param(scope, "name")
        await self._serve(scope, receive, send, Selection((name,)), name)

    async def several(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200 and the backlogs of those that match, also of those that come later."""
        query = parse_qs(scope["query_string"].decode("ascii", "replace"), keep_blank_values=True)
        selection = Selection.of(query.get("subscription", ()))
        caller = caller_of(scope)
        for name in selection.names:
            caller.require("read", "subscription", name)
        await self._serve(scope, receive, send, selection, None)

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, selection: Selection, alone: str | None
    ) -> None:
        request = _request(scope, alone)
        tenant_id = tenant_of(scope)
        with self._open.held_by(tenant_id) as refused:
            if self._draining or refused is not None:
                serving = self._open.of(tenant_id) if refused == SHARE else len(self._streams)
                raise Problem(
                    503,
                    "too-many-backlog-streams",
                    "Too many backlog streams",
                    f"This process serves {serving:g} of them already, or is stopping; ask again,"
                    " or open one for several subscriptions.",
                    retry_after_s=_RETRY_AFTER_S,
                )
            await self._stream(scope, receive, send, tenant_id, selection, request)

    async def _stream(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        tenant_id: bytes,
        selection: Selection,
        request: BacklogRequest,
    ) -> None:
        caller = caller_of(scope)
        found = await self._selector.find(tenant_id, selection, caller, strict=True)
        await read_body(scope, receive, _MAX_BODY_BYTES)

        async def look() -> Mapping[bytes, Selected]:
            return await self._selector.find(tenant_id, selection, caller, strict=False)

        watch = self._backlogs.watch()
        lines = format_of(header(scope, b"accept"))
        stream = BacklogStream(self._backlogs, watch, look, found, request, lines)
        self._streams[stream] = tenant_id
        metrics.backlog_streams.inc()
        try:
            await stream.run(receive, send)
        finally:
            metrics.backlog_streams.dec()
            del self._streams[stream]
            watch.close()

    async def _on_changes(self, changes: Sequence[Change]) -> None:
        reset = any(change.kind is ChangeKind.RESET for change in changes)
        tenants = {change.tenant_id for change in changes if change.kind in _ABOUT}
        for stream, tenant_id in self._streams.items():
            if reset or tenant_id in tenants:
                stream.look_again()


def _request(scope: Scope, alone: str | None) -> BacklogRequest:
    """400 naming the parameter that does not fit."""
    query = Query(scope)
    least = query.number("min_messages", 0)
    heartbeat_s = query.number("heartbeat_seconds", 10.0)
    max_s = query.number("max_seconds", 0.0)
    errors = []
    if not (0 <= least <= _MAX_COUNT and least == int(least)):
        errors.append(FieldError("min_messages", f"an integer from 0 to {_MAX_COUNT}"))
    if not 1 <= heartbeat_s <= MAX_WAIT_S:
        errors.append(FieldError("heartbeat_seconds", f"seconds from 1 to {MAX_WAIT_S:g}"))
    if not 0 <= max_s <= MAX_DEADLINE_S:
        errors.append(FieldError("max_seconds", f"seconds from 0 to {MAX_DEADLINE_S}"))
    if errors:
        raise invalid("A parameter of the stream does not fit.", errors, status=400)
    ends_after_s = max_s if query.text("max_seconds") is not None else math.inf
    return BacklogRequest(int(least), heartbeat_s, ends_after_s, alone)
