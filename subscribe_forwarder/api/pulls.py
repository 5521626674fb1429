"""Pulling: one synchronous pass where messages are there, else a wait.

A wait owns one more task, which watches for the client going away. Leased messages are returned
when the response could not leave.
"""

from __future__ import annotations

import asyncio
from typing import Any

from edge.asgi import Receive, Scope, Send, read_body, respond
from edge.departure import disconnected, ended_by
from subscribe_forwarder import metrics
from subscribe_forwarder.api import requests
from subscribe_forwarder.api.hubs import hub_of, refuse_push
from subscribe_forwarder.api.requests import PullRequest
from subscribe_forwarder.api.trace import HandOuts
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.line import Delivery, PullWaiter, Want
from subscribe_forwarder.delivery.sending import to_send
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.links.ports import FORWARDED, RACE
from subscribe_forwarder.reading.render import pull_body

NO_STORE = [(b"cache-control", b"no-store")]
ATTENDS_S = 10.0
"""Seconds after a pull for which its consumer keeps the partitions assigned to it."""
BODY_READ = "packetboat.body_read"
"""Scope key of a pull whose body is read."""
MAX_GET_BODY_BYTES = 64 * 1024
_EMPTY = pull_body([])


class Pulls:
    """Serves what is owned here."""

    def __init__(self, forwarder: SubscribeForwarder, trace: HandOuts | None = None) -> None:
        self._forwarder = forwarder
        self._trace = trace

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 with leased messages, or with none after the wait."""
        request = requests.pull_of_query(scope)
        await self.serve(scope, receive, send, request, body_read=False)

    async def serve(
        self, scope: Scope, receive: Receive, send: Send, request: PullRequest, *, body_read: bool
    ) -> None:
        """Answers the pull; `body_read` says that the body was read before. Where it has to wait,
        it reads the body itself and leaves BODY_READ in the scope."""
        forwarder = self._forwarder
        hub = await hub_of(forwarder, scope)
        refuse_push(hub.subscription)
        forwarder.require_lease()
        want = _want_of(request, hub)
        delivery = None if request.gathers else hub.pull_now(want)
        if delivery is None:
            if request.wait_s and not body_read:
                await read_body(scope, receive, MAX_GET_BODY_BYTES)
                scope[BODY_READ] = True
            if request.gathers:
                # Hold the first messages until the rest is there: their lease begins then.
                want = want._replace(lease_from_s=forwarder.now_ms() / 1000 + request.wait_s)
            delivery = await self._wait(hub, want, request, receive)
        if delivery is None:
            await empty(send)
        else:
            await self._answer(scope, send, request, hub, delivery)

    async def now(self, scope: Scope, send: Send, request: PullRequest) -> bool:
        """Answers with what is in memory; False, and nothing is sent, where that is nothing."""
        forwarder = self._forwarder
        hub = await hub_of(forwarder, scope)
        refuse_push(hub.subscription)
        forwarder.require_lease()
        want = _want_of(request, hub)
        delivery = None if request.gathers else hub.pull_now(want)
        if delivery is None:
            return False
        await self._answer(scope, send, request, hub, delivery)
        return True

    async def _answer(
        self, scope: Scope, send: Send, request: PullRequest, hub: Hub, delivery: Delivery
    ) -> None:
        """Nothing is committed, or sent, for a credit that another owner has spent."""
        forwarder, trace = self._forwarder, self._trace
        guarantee = hub.subscription.delivery
        try:
            if not await _won(scope):
                metrics.pulls.labels("lost").inc()
                delivery.withdraw()
                hub.dispatch()
                return
        except BaseException:
            delivery.withdraw()
            hub.dispatch()
            raise
        try:
            body = pull_body(await to_send(delivery, guarantee, forwarder.flusher))
            forwarder.require_lease()
            await respond(send, 200, body, headers=NO_STORE)
        except BaseException:
            metrics.pulls.labels("unsent").inc()
            if trace is not None:
                trace.note(hub, delivery, request.consumer, FORWARDED in scope, sent=False)
            delivery.release()
            hub.dispatch()
            raise
        metrics.pulls.labels("messages").inc()
        metrics.delivered.inc(delivery.count)
        if trace is not None:
            trace.note(hub, delivery, request.consumer, FORWARDED in scope, sent=True)
        if request.gathers and guarantee == "at_least_once":
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
        delivery = None
        try:
            delivery = await wait(hub, waiter, request.wait_s, gone)
        finally:
            gone.cancel()
            try:
                await asyncio.gather(gone, return_exceptions=True)
            except BaseException:  # cancelled just as its messages came
                if delivery is not None:
                    delivery.withdraw()
                    hub.dispatch()
                raise
        return delivery


async def _won(scope: Scope) -> bool:
    """Return whether this owner may spend the credit."""
    race = scope.get(RACE)
    return race is None or bool(await race())


async def empty(send: Send) -> None:
    """There was nothing in time."""
    metrics.pulls.labels("empty").inc()
    await respond(send, 200, _EMPTY, headers=NO_STORE)


async def wait(
    hub: Hub, waiter: PullWaiter, wait_s: float, gone: asyncio.Future[None] | None = None
) -> Delivery | None:
    """Return leased messages, after `pull_now` gave none; None when none came in time.

    A wait ends when `gone` is done, with the reason that `gone` has. That and cancelling it leave
    nothing leased. Raises a 503 when messages may be there but out of reach, and the Problem with
    which the wait list ended.
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
            raise ended_by(gone)
    except BaseException:
        if not _left(hub, waiter).exception():
            waiter.future.result().withdraw()
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
    """Leave the wait list.

    The returned future is done: with the messages that it has got by now, or with the reason why
    the wait list ended.
    """
    hub.leave(waiter)
    waiter.end(None)
    return waiter.future


def _want_of(request: PullRequest, hub: Hub) -> Want:
    """Return the want of a request; a consumer that asks for partitions of its own attends
    by asking.
    """
    places = request.places
    if places is not None and places.affinity:
        hub.attend(request.consumer, max(request.wait_s, ATTENDS_S))
    return Want(request.max_messages, request.max_bytes, request.consumer, places=places)
