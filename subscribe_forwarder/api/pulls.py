"""Pulling: one synchronous pass where messages are there, else a wait.

A wait owns one more task, which watches for the client going away. Whatever was leased is handed
back when the response could not leave.
"""

from __future__ import annotations

import asyncio
from typing import Any

from edge.asgi import (
    ClientGone,
    Receive,
    Scope,
    Send,
    path_param,
    read_body,
    respond,
    tenant_of,
)
from metadata import types
from subscribe_forwarder import metrics
from subscribe_forwarder.api import requests
from subscribe_forwarder.api.requests import PullRequest
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.line import Delivery, PullWaiter, Want
from subscribe_forwarder.delivery.sending import to_send
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
        body = await read_body(scope, receive, requests.MAX_BODY_BYTES)
        request = requests.pull_of_body(scope, body)
        await self._pull(scope, receive, send, request, body_read=True)

    async def _pull(
        self, scope: Scope, receive: Receive, send: Send, request: PullRequest, *, body_read: bool
    ) -> None:
        forwarder = self._forwarder
        topic = scope["path_params"].get("topic")
        hub = await forwarder.hub(tenant_of(scope), path_param(scope, "name"), topic)
        forwarder.require_lease()
        gathers = request.min_messages > 1 and request.wait_s > 0
        want = Want(request.max_messages, request.max_bytes, request.consumer)
        delivery = None if gathers else hub.pull_now(want)
        if delivery is None:
            if request.wait_s and not body_read:
                await read_body(scope, receive, _MAX_GET_BODY_BYTES)
            if gathers:
                # What comes first is held until the rest is there: its lease is to begin then.
                want = want._replace(lease_from_s=forwarder.now_ms() / 1000 + request.wait_s)
            delivery = await self._wait(hub, want, request, receive)
        if delivery is None:
            metrics.pulls.labels("empty").inc()
            await respond(send, 200, _EMPTY, headers=NO_STORE)
            return
        try:
            guarantee = hub.subscription.delivery
            body = pull_body(await to_send(delivery, guarantee, forwarder.flusher))
            forwarder.require_lease()
            await respond(send, 200, body, headers=NO_STORE)
        except BaseException:
            metrics.pulls.labels("unsent").inc()
            delivery.release()
            hub.dispatch()
            raise
        metrics.pulls.labels("messages").inc()
        metrics.delivered.inc(delivery.count)
        if gathers and guarantee is types.Delivery.AT_LEAST_ONCE:
            deadline_s = hub.subscription.ack_deadline_s
            delivery.start_leases(forwarder.now_ms() + int(deadline_s * 1000))

    async def _wait(
        self, hub: Hub, want: Want, request: PullRequest, receive: Receive
    ) -> Delivery | None:
        if not request.wait_s:
            await hub.refresh()
            delivery = hub.pull_now(want)
            if delivery is not None:
                return delivery
            fetch_s = self._forwarder.settings.fetch_timeout_s
            return await wait(hub, PullWaiter(want, 1, only_now=True), fetch_s)
        waiter = PullWaiter(want, request.min_messages, only_now=False)
        gone = asyncio.get_running_loop().create_task(disconnected(receive))
        try:
            return await wait(hub, waiter, request.wait_s, gone)
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)


async def wait(
    hub: Hub, waiter: PullWaiter, wait_s: float, gone: asyncio.Future[None] | None = None
) -> Delivery | None:
    """Leased messages, after `pull_now` gave none; None when there were none in time.

    A wait ends when `gone` is done, with ClientGone. That and cancelling it leave nothing leased.
    503 when messages may be there but out of reach; the Problem with which the line ended.
    """
    hub.join(waiter)
    waits: list[asyncio.Future[Any]] = [waiter.future]
    if gone is not None:
        waits.append(gone)
    metrics.waiting.inc()
    try:
        hub.dispatch()
        if not waiter.future.done():
            await asyncio.wait(waits, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        if gone is not None and gone.done():
            raise ClientGone
    except BaseException:
        if not _left(hub, waiter).exception():
            waiter.future.result().release()
            hub.dispatch()
        raise
    finally:
        metrics.waiting.dec()
    delivery = _left(hub, waiter).result()
    if delivery.count:
        return delivery
    if hub.closed is None:
        hub.check_served()
    return None


def _left(hub: Hub, waiter: PullWaiter) -> asyncio.Future[Delivery]:
    """Out of the line, and done: with what it has got by now, or with why the line ended."""
    hub.leave(waiter)
    waiter.end(None)
    return waiter.future


async def disconnected(receive: Receive) -> None:
    """Returns when the client has gone; the request was read before."""
    while (await receive())["type"] != "http.disconnect":
        pass
