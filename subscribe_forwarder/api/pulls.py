"""Pulling: one synchronous pass where messages are there, else a wait.

A wait owns one more task, which watches for the client going away. Whatever was leased is handed
back when the response could not leave.
"""

from __future__ import annotations

import asyncio

from edge.asgi import (
    Receive,
    Scope,
    Send,
    path_param,
    read_body,
    respond,
    tenant_of,
)
from subscribe_forwarder import metrics
from subscribe_forwarder.api import requests
from subscribe_forwarder.api.requests import PullRequest
from subscribe_forwarder.delivery.hub import Delivery, Hub
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.reading.render import pull_body

NO_STORE = [(b"cache-control", b"no-store")]
_MAX_GET_BODY_BYTES = 64 * 1024
_EMPTY = pull_body([])


class Pulls:
    def __init__(self, forwarder: SubscribeForwarder) -> None:
        self._forwarder = forwarder

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200 with leased messages, or with none after the wait."""
        request = requests.pull_of_query(scope)
        await self._pull(scope, receive, send, request, body_read=False)

    async def post(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = requests.pull_of_body(await read_body(scope, receive, requests.MAX_BODY_BYTES))
        await self._pull(scope, receive, send, request, body_read=True)

    async def _pull(
        self, scope: Scope, receive: Receive, send: Send, request: PullRequest, *, body_read: bool
    ) -> None:
        forwarder = self._forwarder
        topic = scope["path_params"].get("topic")
        hub = await forwarder.hub(tenant_of(scope), path_param(scope, "name"), topic)
        forwarder.require_lease()
        delivery = hub.pull_now(request.max_messages, request.max_bytes)
        if delivery is None:
            if request.wait_s and not body_read:
                await read_body(scope, receive, _MAX_GET_BODY_BYTES)
            delivery = await self._wait(hub, request, receive)
        if delivery is None:
            metrics.pulls.labels("empty").inc()
            await respond(send, 200, _EMPTY, headers=NO_STORE)
            return
        try:
            body = pull_body(delivery.render())
            forwarder.require_lease()
            await respond(send, 200, body, headers=NO_STORE)
        except BaseException:
            metrics.pulls.labels("unsent").inc()
            delivery.release()
            hub.dispatch()
            raise
        metrics.pulls.labels("messages").inc()
        metrics.delivered.inc(delivery.count)

    async def _wait(self, hub: Hub, request: PullRequest, receive: Receive) -> Delivery | None:
        limits = (request.max_messages, request.max_bytes, request.wait_s)
        if not request.wait_s:
            return await self._forwarder.pull(hub, *limits)
        gone = asyncio.get_running_loop().create_task(_disconnected(receive))
        try:
            return await self._forwarder.pull(hub, *limits, gone)
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
