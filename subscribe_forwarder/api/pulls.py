"""Serves pulls, wherever the partitions of the subscription are owned.

Where all are here: one synchronous pass where messages are there, else a wait, which ends when the
client goes away. Leased messages are returned when the response could not leave.

Else the partitions here are asked first. Where they have nothing, one credit goes to every owner:
the first that has messages spends it and answers, the others return what they leased, uncounted.
While the pull waits, it follows partitions that change hands. Nothing is asked for again once the
first byte of an answer has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from edge.asgi import Receive, Scope, Send, header, read_body, respond
from edge.departure import departure, disconnected, ended_by, unwatch
from edge.problem import Problem, unavailable
from openapi.consume import OPERATIONS
from subscribe_forwarder import metrics
from subscribe_forwarder.api import requests
from subscribe_forwarder.api.hubs import hub_of, refuse_push
from subscribe_forwarder.api.places import query_of
from subscribe_forwarder.api.requests import PullRequest
from subscribe_forwarder.api.trace import DeliveryRecorder
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.pages import Encoding, encoding_of
from subscribe_forwarder.delivery.sending import to_send
from subscribe_forwarder.delivery.wait_list import Delivery, PullWaiter, Want
from subscribe_forwarder.fleet.proxy.attending import ATTENDS_S, Attending
from subscribe_forwarder.fleet.proxy.owner_order import OwnerOrder
from subscribe_forwarder.fleet.proxy.race import Contender, Race
from subscribe_forwarder.fleet.proxy.relay import Relay, part_of, receiving
from subscribe_forwarder.fleet.proxy.routing import HERE, Found, Routing, nowhere
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.peers import FORWARDED, RACE, PeerGone, is_misdirected

Watch = Callable[[], "asyncio.Future[None]"]
"""Begins to watch for the departure of a client, as `edge.departure.departure` does."""
NO_STORE = [(b"cache-control", b"no-store")]
BODY_READ = "packetboat.body_read"
"""Scope key of a pull whose body is read."""
MAX_GET_BODY_BYTES = 64 * 1024
OPERATION = OPERATIONS["pull"].route
"""The operation for which owners are asked, whatever form the client's pull has."""
HEAD_START_S = 0.02
"""Seconds by which the owners elsewhere are asked earlier, when it is their turn."""
REST_S = 0.05
"""Before an owner that did not serve is asked again."""
UNSERVED_REST_S = 0.25
"""Before one that said it cannot serve now is."""
UNAVAILABLE = unavailable("subscription", "").slug
EARLY_S = 0.05
"""An empty answer earlier than this before the end is of an owner that stops, not of one that
waited."""
PATIENCE_S = 0.25
"""Seconds a pull without a wait waits for a partition that has just changed hands."""
LOOK_S = 15.0
"""Seconds between two looks around where nothing happens; meanwhile backlogs are told to
the pull.
"""
LATE_S = 5.0
"""Seconds after the end of the wait at which an owner that has not answered is given up."""


class Pulls:
    """The pulls of clients, served from what is owned here or by other owners."""

    def __init__(
        self, here: PullsHere, routing: Routing, attending: Attending | None = None
    ) -> None:
        """`here` is served to peers too."""
        routing.serve(OPERATION, here.get)
        self.here = here
        self.routing = routing
        self.attending = attending
        self.turns = OwnerOrder(lambda: asyncio.get_running_loop().time())

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a pull with leased messages, or with none after the wait."""
        request = requests.pull_of_query(scope)
        await self._pull(scope, receive, send, request, body_read=False)

    async def post(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(scope, receive, requests.MAX_BODY_BYTES)
        request = requests.pull_of_body(scope, body)
        await self._pull(scope, receive, send, request, body_read=True)

    async def _pull(
        self, scope: Scope, receive: Receive, send: Send, request: PullRequest, *, body_read: bool
    ) -> None:
        """Serve a pull from the units owned here, or route it to their owners."""
        began_s = asyncio.get_running_loop().time()
        if await self.routing.served_here(
            scope,
            lambda: self.here.serve(scope, receive, send, request, body_read=body_read),
        ):
            return
        if not (body_read or BODY_READ in scope):
            await read_body(scope, receive, MAX_GET_BODY_BYTES)
        await RoutedPull(self, scope, send, request, began_s).run(receive)


class RoutedPull:
    """One pull of several owners, from finding them to the answer."""

    def __init__(
        self, pulls: Pulls, scope: Scope, send: Send, request: PullRequest, began_s: float
    ) -> None:
        self._here, self._routing, self._turns = pulls.here, pulls.routing, pulls.turns
        self._attending = pulls.attending
        self._scope = scope
        self._send = send
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._ends_s = began_s + request.wait_s
        self._patient_until_s = max(self._ends_s, began_s + PATIENCE_S)
        self._race = Race()
        self._contenders: dict[bytes, Contender] = {}
        self._answered: set[bytes] = set()
        """Owners that have had their say: there was nothing in time, or there is a problem."""
        self._rests_until_s: dict[bytes, float] = {}
        self._problems: dict[bytes, Problem] = {}
        """The reason why an owner cannot know whether it has something."""
        self._begun = False
        self._events: list[asyncio.Task[Any]] = []

    async def run(self, receive: Receive) -> None:
        """Raises ClientGone, and the Problem why there is no answer."""
        gone = self._loop.create_task(disconnected(receive))
        stopping = self._loop.create_task(self._routing.until_stopping())
        self._events = [gone, stopping]
        try:
            while not await self._step(gone, stopping):
                pass
        finally:
            self._race.over = True
            for event in self._events:
                event.cancel()
            await asyncio.gather(*self._events, return_exceptions=True)
            await self._cancel(list(self._contenders.values()))

    async def _step(self, gone: asyncio.Task[None], stopping: asyncio.Task[None]) -> bool:
        """Look once who has what, and wait for a result of it. True: it is answered."""
        found = await self._routing.find(self._scope, self._request.places)
        refuse_push(found.subscription)
        self._attend(found)
        if not self._begun and await self._first(found):
            return True
        await self._ask(found)
        await self._routing.look_for(found)
        await self._wait(found, gone, stopping)
        if self._race.winner is not None:
            return await self._finish(self._race.winner, gone)
        if gone.done():
            raise ended_by(gone)
        self._sort_out(found)
        if not stopping.done() and not self._over(found):
            return False
        self._race.over = True
        self._raise_problem(found)
        guarantee = found.subscription.delivery
        await empty(self._send, encoding_of(header(self._scope, b"accept"), guarantee))
        return True

    def _attend(self, found: Found) -> None:
        if self._attending is not None:
            wait_s = max(0.0, self._ends_s - self._loop.time())
            self._attending.tell(found, self._request.consumer, self._request.places, wait_s)

    async def _first(self, found: Found) -> bool:
        """Ask locally first, except in the turns of the owners elsewhere."""
        self._begun = True
        if HERE not in found.partitions:
            return False
        if self._turns.elsewhere_first(found):
            self._rests_until_s[HERE] = self._loop.time() + HEAD_START_S
            return False
        try:
            return await self._here.now(part_of(self._scope), self._send, self._request)
        except Problem as problem:
            if not is_misdirected(problem):
                raise
            return False

    async def _ask(self, found: Found) -> None:
        """Ask every owner that was not asked yet, and end the requests to former owners."""
        lost = [one for owner, one in self._contenders.items() if owner not in found.partitions]
        if lost and self._race.winner is None:
            for one in lost:
                del self._contenders[one.owner]
            await self._cancel(lost)
        now_s = self._loop.time()
        for owner in self._routing.in_order(found):
            if owner in self._contenders or owner in self._answered:
                continue
            if self._rests_until_s.get(owner, 0.0) > now_s:
                continue
            if self._rests_until_s.pop(owner, None) and owner == HERE:
                self._turns.nothing_elsewhere(found)
            relay = Relay(self._send, self._routing.holds_lease)
            self._contenders[owner] = Contender(owner, self._race, relay, self._asked)

    async def _asked(self, contender: Contender) -> None:
        wait_s = max(0.0, self._ends_s - self._loop.time())
        if contender.owner == HERE:
            request = msgspec.structs.replace(self._request, wait_s=wait_s)
            scope = part_of(self._scope, {RACE: contender.race})
            receive = receiving(b"")
            await self._here.serve(scope, receive, contender.send, request, body_read=True)
            return
        peer = self._routing.peer(contender.owner)
        if peer is None:
            raise PeerGone
        scope = part_of(self._scope, {"method": "GET"}, query=_query(self._request, wait_s))
        await peer.request(OPERATION, scope, receiving(b""), contender.send, race=contender.race)

    async def _wait(
        self, found: Found, gone: asyncio.Task[None], stopping: asyncio.Task[None]
    ) -> None:
        running = [one.task for one in self._contenders.values()]
        resting = [at for owner, at in self._rests_until_s.items() if owner in found.partitions]
        now_s = self._loop.time()
        due_s = [*resting, self._ends_s + LATE_S if running else self._ends_s, now_s + LOOK_S]
        timeout_s = min([at - now_s for at in due_s if at > now_s], default=0.0)
        changed = self._loop.create_task(self._routing.changed(found))
        try:
            await asyncio.wait(
                [*running, gone, stopping, changed],
                timeout=timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            changed.cancel()
            await asyncio.gather(changed, return_exceptions=True)

    async def _finish(self, winner: Contender, gone: asyncio.Task[None]) -> bool:
        """Finish with the winner; False: its messages are lost again, and all are asked anew."""
        del self._contenders[winner.owner]
        losers, self._contenders = list(self._contenders.values()), {winner.owner: winner}
        await self._cancel(losers)
        await asyncio.wait([winner.task, gone], return_when=asyncio.FIRST_COMPLETED)
        if not winner.task.done():
            raise ended_by(gone)
        if winner.relay.refused:
            raise unavailable("subscription", "This forwarder lost its lease; ask again.")
        error = winner.failed
        if winner.relay.begun or not (error is None or _may_be_elsewhere(error)):
            if error is not None:
                raise error
            return True
        self._race = Race()
        self._contenders.clear()
        self._rests_until_s[winner.owner] = self._loop.time() + REST_S
        return False

    def _sort_out(self, found: Found) -> None:
        """Sort out the contenders that are done without having won."""
        now_s = self._loop.time()
        for owner, one in list(self._contenders.items()):
            if not one.task.done():
                continue
            del self._contenders[owner]
            error = one.failed
            if error is None and self._ends_s - now_s <= EARLY_S:
                self._answered.add(owner)
            elif error is None or _may_be_elsewhere(error):
                self._rests_until_s[owner] = now_s + REST_S
            elif isinstance(error, Problem) and error.status == 503:
                self._problems[owner] = error
                if error.slug == UNAVAILABLE:
                    self._rests_until_s[owner] = now_s + UNSERVED_REST_S
                else:
                    self._answered.add(owner)
            else:
                raise error

    def _over(self, found: Found) -> bool:
        """Return whether nothing can come any more; raises the 503 for partitions that
        nobody could answer for.
        """
        now_s = self._loop.time()
        if now_s >= self._ends_s + LATE_S:
            raise nowhere()
        if self._contenders:
            return False
        unasked = [owner for owner in found.partitions if owner not in self._answered]
        if not unasked and found.whole:
            return True
        if now_s < (self._patient_until_s if unasked else self._ends_s):
            return False
        self._raise_problem(found)
        raise nowhere()

    def _raise_problem(self, found: Found) -> None:
        """Raise the Problem of an owner that owns something now."""
        for owner in found.partitions:
            if owner in self._problems:
                raise self._problems[owner]

    async def _cancel(self, contenders: list[Contender]) -> None:
        await asyncio.gather(*(one.cancel() for one in contenders))


class PullsHere:
    """Serves what is owned here, to clients and to peers."""

    def __init__(
        self, forwarder: SubscribeForwarder, trace: DeliveryRecorder | None = None
    ) -> None:
        self._forwarder = forwarder
        self._trace = trace

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 with leased messages, or with none after the wait."""
        request = requests.pull_of_query(scope)
        await self.serve(scope, receive, send, request, body_read=False)

    async def serve(
        self, scope: Scope, receive: Receive, send: Send, request: PullRequest, *, body_read: bool
    ) -> None:
        """Answer a pull from the units owned here.

        `body_read` says that the body was read before. If the pull has to wait, this reads the body
        and leaves BODY_READ in the scope.
        """
        forwarder = self._forwarder
        hub = await hub_of(forwarder, scope)
        refuse_push(hub.subscription)
        forwarder.require_lease()
        want = _want_of(request, hub)
        if request.wait_s:
            if not body_read:
                await read_body(scope, receive, MAX_GET_BODY_BYTES)
                scope[BODY_READ] = True
            delivery = await self._waited(hub, want, request, partial(departure, scope, receive))
        else:
            delivery = hub.pull_now(want) or await self._looked(hub, want)
        if delivery is None:
            await empty(send, encoding_of(header(scope, b"accept"), hub.subscription.delivery))
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
        """Answer with the messages; withdraw or release them if the answer cannot leave.

        Nothing is committed, or sent, for a credit that another owner has spent.
        """
        forwarder, trace = self._forwarder, self._trace
        guarantee = hub.subscription.delivery
        encoding = encoding_of(header(scope, b"accept"), guarantee)
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
            messages = await to_send(delivery, guarantee, forwarder.flusher, encoding)
            forwarder.require_lease()
            body = encoding.body(messages)
            await respond(send, 200, body, encoding.content_type, NO_STORE)
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

    async def _waited(
        self, hub: Hub, want: Want, request: PullRequest, watch: Watch
    ) -> Delivery | None:
        """Return what is there, or comes as long as the request allows and the client is there."""
        if request.gathers:
            # Hold the first messages until the rest is there: their lease begins then.
            want = want._replace(lease_from_s=self._forwarder.now_ms() / 1000 + request.wait_s)
        waiter = PullWaiter(want, request.min_messages, only_now=False)
        return await wait(hub, waiter, request.wait_s, watch)

    async def _looked(self, hub: Hub, want: Want) -> Delivery | None:
        """Return what the store has, for a pull that does not wait."""
        await hub.refresh()
        delivery = hub.pull_now(want)
        if delivery is not None:
            return delivery
        fetch_s = self._forwarder.settings.fetch_timeout_s
        return await wait(hub, PullWaiter(want, 1, only_now=True), fetch_s)


async def _won(scope: Scope) -> bool:
    """Return whether this owner may spend the pull's credit."""
    race = scope.get(RACE)
    return race is None or bool(await race())


async def empty(send: Send, encoding: Encoding) -> None:
    """Answer a pull that got nothing in time."""
    metrics.pulls.labels("empty").inc()
    await respond(send, 200, encoding.body([]), encoding.content_type, NO_STORE)


async def wait(
    hub: Hub, waiter: PullWaiter, wait_s: float, watch: Watch | None = None
) -> Delivery | None:
    """Return leased messages as soon as there are some; None when none came in time.

    A wait ends when the future of `watch` is done, with the reason that it has. That and cancelling
    the wait leave nothing leased. Raises a 503 when messages may be there but out of reach, and the
    Problem with which the wait list ended.
    """
    hub.join(waiter)
    metrics.waiting.inc()
    try:
        hub.dispatch()
        if not waiter.future.done():
            await _until_served(waiter, wait_s, watch)
    except BaseException:
        hub.leave(waiter)
        abandoned = waiter.abandon()
        if abandoned.count:
            abandoned.withdraw()
            hub.dispatch()
        raise
    finally:
        metrics.waiting.dec()
    hub.leave(waiter)
    delivery = waiter.future.result()
    if delivery.count:
        return delivery
    if hub.closed is None:
        hub.check_served()
    return None


async def _until_served(waiter: PullWaiter, wait_s: float, watch: Watch | None) -> None:
    """Return once the waiter has ended; at the latest after `wait_s`, with what it has by then.

    Raises the reason that the future of `watch` has.
    """

    def end(_: object) -> None:
        waiter.end(None)

    timer = asyncio.get_running_loop().call_later(wait_s, waiter.end, None)
    gone = None if watch is None else watch()
    try:
        if gone is not None:
            gone.add_done_callback(end)
        await waiter.future
        if gone is not None and gone.done():
            raise ended_by(gone)
    finally:
        timer.cancel()
        if gone is not None:
            gone.remove_done_callback(end)
            await unwatch(gone)


def _want_of(request: PullRequest, hub: Hub) -> Want:
    """Return the want of a request.

    A consumer that asks for partitions of its own attends by asking.
    """
    places = request.places
    if places is not None and places.affinity:
        hub.attend(request.consumer, max(request.wait_s, ATTENDS_S))
    return Want(request.max_messages, request.max_bytes, request.consumer, places=places)


def _may_be_elsewhere(error: Exception) -> bool:
    """Return whether nothing was answered here and another owner may have messages."""
    return isinstance(error, PeerGone) or is_misdirected(error)


def _query(request: PullRequest, wait_s: float) -> dict[str, object]:
    query: dict[str, object] = {
        "max_messages": request.max_messages,
        "max_bytes": request.max_bytes,
        "wait_seconds": f"{wait_s:.3f}",
        "min_messages": request.min_messages,
    }
    if request.consumer:
        query["consumer"] = request.consumer
    return query | query_of(request.places)
