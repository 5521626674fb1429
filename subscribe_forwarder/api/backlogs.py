"""Streams backlogs. Any forwarder serves them, with or without partitions of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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
from edge.parameters import Query, number_of
from edge.problem import Problem
from edge.shares import SHARE, Shares
from metadata.feed import ChangeFeed
from metadata.types import Change, ChangeKind
from openapi import subscriptions as contract
from openapi.common import HEARTBEAT_SECONDS, MAX_SECONDS
from subscribe_forwarder import metrics
from subscribe_forwarder.api.backlog_selection import Selected, Selection, Selector
from subscribe_forwarder.api.backlog_stream import BacklogRequest, BacklogStream
from subscribe_forwarder.api.stream_lines import format_of
from subscribe_forwarder.fleet.backlogs.backlogs import Backlogs

_MAX_BODY_BYTES = 64 * 1024
_RETRY_AFTER_S = 5.0
_ABOUT = (ChangeKind.SUBSCRIPTION, ChangeKind.TOPIC)


class BacklogRoutes:
    """The handlers. They raise Problems, and MetadataError, which the dispatcher answers."""

    def __init__(
        self, backlogs: Backlogs, selector: Selector, feed: ChangeFeed, max_streams: int
    ) -> None:
        self._backlogs = backlogs
        self._selector = selector
        self._open = Shares(max_streams, name="backlog_streams")
        self._streams: dict[BacklogStream, bytes] = {}
        """The streams that are open, each with its tenant."""
        self._draining = False
        feed.add_listener(self._on_changes)

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["streamBacklog"], self.one),
            Route(contract.OPERATIONS["streamBacklogs"], self.several),
        ]

    def drain(self) -> None:
        """End all streams, and refuse others."""
        self._draining = True
        for stream in self._streams:
            stream.drain()

    async def one(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 and a backlog, until the subscription is deleted."""
        name = path_param(scope, "name")
        await self._serve(scope, receive, send, Selection((name,)), name)

    async def several(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 and the backlogs of the subscriptions that match, now or later."""
        selection = Selection.of(Query(scope).several("subscription"))
        caller = caller_of(scope)
        for name in selection.names:
            await caller.require("read", "subscription", name)
        await self._serve(scope, receive, send, selection, None)

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, selection: Selection, alone: str | None
    ) -> None:
        request = _request(scope, alone)
        tenant_id = tenant_of(scope)
        with self._open.held_by(tenant_id) as refused:
            if self._draining or refused is not None:
                serving = self._open.of(tenant_id) if refused == SHARE else len(self._streams)
                raise Problem.of(
                    "too-many-backlog-streams",
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
    """Return what a query asks for. Raise a 400 Problem that names the parameter."""
    query = Query(scope)
    ends_after_s = number_of(MAX_SECONDS, query.text(MAX_SECONDS.name))
    return BacklogRequest(
        query.integer(contract.MIN_MESSAGES_OF_BACKLOG),
        query.number(HEARTBEAT_SECONDS),
        math.inf if ends_after_s is None else ends_after_s,
        alone,
    )
