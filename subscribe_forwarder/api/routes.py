"""The consume operations as plain ASGI handlers. Problems are raised; the dispatcher answers them.

A pull that finds messages is one synchronous pass; a wait owns one more task, which watches for the
client going away. Whatever was leased is handed back when the response could not leave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from edge import message_id
from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    path_param,
    read_body,
    respond,
    tenant_of,
)
from edge.message_id import BadMessageId, MessageId
from edge.problem import TYPE_BASE, not_found, unavailable
from metadata.types import Topic
from subscribe_forwarder import metrics
from subscribe_forwarder.api import requests, status
from subscribe_forwarder.api.items import (
    Failure,
    Ids,
    Named,
    Place,
    bad_message_id,
    lease_expired,
    lease_of,
    resolve,
)
from subscribe_forwarder.api.requests import PullRequest
from subscribe_forwarder.api.waiting import waiting
from subscribe_forwarder.delivery.hub import Delivery, Hub
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.reading.render import pull_body
from subscribe_forwarder.reading.staged import Nowhere, Where

NO_STORE = [(b"cache-control", b"no-store")]
_MAX_GET_BODY_BYTES = 64 * 1024
_EMPTY = pull_body([])
_encode = msgspec.json.encode


def routes(forwarder: SubscribeForwarder) -> list[Route]:
    """What the gateway mounts."""
    pulls, acks, views = _Pulls(forwarder), _Acks(forwarder), _Views(forwarder)
    return [
        Route("GET", "/subscriptions/{name}/messages", pulls.get, "consume"),
        Route("GET", "/topics/{topic}/subscriptions/{name}/messages", pulls.get, "consume"),
        Route("POST", "/subscriptions/{name}:pull", pulls.post, "consume"),
        Route("POST", "/subscriptions/{name}/ack", acks.ack, "consume"),
        Route("POST", "/subscriptions/{name}/nack", acks.nack, "consume"),
        Route("POST", "/subscriptions/{name}/release", acks.release, "consume"),
        Route("POST", "/subscriptions/{name}/modify_ack_deadline", acks.modify, "consume"),
        Route("GET", "/subscriptions/{name}/backlog", views.backlog, "read"),
        Route("GET", "/topics/{topic}/messages/{id}", views.message, "read"),
        Route("GET", "/topics/{topic}/messages/{id}/ack", views.ack_states, "read"),
    ]


class _Pulls:
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


class _Acks:
    def __init__(self, forwarder: SubscribeForwarder) -> None:
        self._forwarder = forwarder

    async def ack(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200 once the acks are committed; items already acked count."""
        body = await read_body(scope, receive, requests.MAX_BODY_BYTES)
        ids = requests.decode(body, requests.ACK).ids()
        forwarder = self._forwarder
        hub = await forwarder.hub(tenant_of(scope), path_param(scope, "name"))
        readers = hub.readers.copy()
        named = await self._named(hub, readers, ids)
        new = 0
        touched = [readers[partition] for partition in named.places]
        for reader, places in zip(touched, named.places.values(), strict=True):
            new += reader.acked(sorted([place.offset for place in places]))
        if hub.waiting:
            hub.dispatch()  # fewer outstanding messages, or ranges, may end a pause
        await forwarder.flusher.commit(touched)
        metrics.acked.inc(new)
        await respond(send, 200, _results("acked", ids, named.failures))

    async def nack(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handed out again after the delay; the attempt counts."""
        body = await read_body(scope, receive, requests.MAX_BODY_BYTES)
        request = requests.decode(body, requests.NACK)
        due_ms = self._forwarder.now_ms() + int(request.delay_seconds * 1000)
        due = due_ms if request.delay_seconds else None

        def nack(reader: Reader, place: Place) -> bool:
            return reader.ledger.fail(place.offset, due)

        await self._each(scope, send, request.ids(), nack, "nack")

    async def release(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handed out again at once; no attempt counts."""
        body = await read_body(scope, receive, requests.MAX_BODY_BYTES)
        ids = requests.decode(body, requests.RELEASE).ids()

        def release(reader: Reader, place: Place) -> bool:
            return reader.ledger.give_back(place.offset)

        await self._each(scope, send, ids, release, "released")

    async def modify(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The lease ends that many seconds from now; 0 is a nack."""
        body = await read_body(scope, receive, requests.MAX_BODY_BYTES)
        request = requests.decode(body, requests.MODIFY)
        deadline_ms = self._forwarder.now_ms() + int(request.deadline_seconds * 1000)

        def modify(reader: Reader, place: Place) -> bool:
            if not request.deadline_seconds:
                return reader.ledger.fail(place.offset, None)
            return reader.ledger.extend(place.offset, deadline_ms)

        ended = None if request.deadline_seconds else "nack"
        await self._each(scope, send, request.ids(), modify, ended)

    async def _each(
        self,
        scope: Scope,
        send: Send,
        ids: Ids,
        act: Callable[[Reader, Place], bool],
        ended: str | None,
    ) -> None:
        """Acts on each item whose lease is the present one."""
        forwarder = self._forwarder
        hub = await forwarder.hub(tenant_of(scope), path_param(scope, "name"))
        forwarder.require_lease()
        readers = hub.readers.copy()
        named = await self._named(hub, readers, ids)
        named.failures.extend(Failure(item, lease_expired()) for item in named.gone)
        now_ms = forwarder.now_ms()
        done = 0
        for partition, places in named.places.items():
            reader = readers[partition]
            if reader.frozen:
                raise unavailable("subscription", "A partition is being taken over; ask again.")
            reader.ledger.expire(now_ms)
            for place in places:
                problem = lease_of(reader, place)
                if problem is None and not act(reader, place):
                    problem = lease_expired()
                if problem is None:
                    done += 1
                else:
                    named.failures.append(Failure(place.item, problem))
        if ended is not None:
            metrics.lease_ended.labels(ended).inc(done)
        hub.dispatch()
        await respond(send, 200, _results("done", ids, named.failures))

    async def _named(self, hub: Hub, readers: Mapping[int, Reader], ids: Ids) -> Named:
        forwarder = self._forwarder
        return await resolve(
            ids,
            hub.subscription,
            readers,
            forwarder.ack_key,
            lambda wanted: forwarder.locate(hub.subscription, wanted),
        )


def _results(count_name: str, ids: Ids, failures: list[Failure]) -> bytes:
    results = [
        {
            "index": failure.item,
            ids.field: ids.texts[failure.item],
            "status": failure.problem.status,
            "type": TYPE_BASE + failure.problem.slug,
            "detail": failure.problem.detail,
        }
        for failure in sorted(failures, key=lambda failure: failure.item)
    ]
    return _encode({count_name: len(ids.texts) - len(failures), "results": results})


class _Views:
    def __init__(self, forwarder: SubscribeForwarder) -> None:
        self._forwarder = forwarder

    async def backlog(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What is there to do, and why nothing is handed out if so."""
        hub = await self._forwarder.hub(tenant_of(scope), path_param(scope, "name"))
        await hub.refresh()
        await respond(send, 200, _encode(status.backlog(hub)), headers=NO_STORE)

    async def message(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The message as stored, published or not."""
        topic, wanted, where = await self._look(scope)
        store = self._forwarder.store
        if isinstance(where, Nowhere):
            body = await waiting(store, topic, wanted, where)
        else:
            fragment = await status.message(store, topic, where)
            body = b'{"state":"published",%b}' % fragment if fragment is not None else None
        if body is None:
            raise not_found("message", path_param(scope, "id"))
        await respond(send, 200, body)

    async def ack_states(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Per subscription of the topic, from what is committed, and the leases held here."""
        topic, where = await self._find(scope)
        states = await status.ack_states(self._forwarder, topic, where)
        if states is None:
            raise not_found("message", path_param(scope, "id"))
        await respond(send, 200, _encode({"subscriptions": states}), headers=NO_STORE)

    async def _find(self, scope: Scope) -> tuple[Topic, Where]:
        """404 for an id of another topic or of a message that is not published, 400 for no id."""
        topic, wanted, where = await self._look(scope)
        if isinstance(where, Nowhere):
            raise not_found("message", str(wanted))
        return topic, where

    async def _look(self, scope: Scope) -> tuple[Topic, MessageId, Where | Nowhere]:
        topic = await self._forwarder.catalog.topic(tenant_of(scope), path_param(scope, "topic"))
        text = path_param(scope, "id")
        try:
            parsed = message_id.parse(text)
        except BadMessageId as error:
            raise bad_message_id(str(error)) from error
        if parsed.topic_uid != topic.uid or parsed.lane:
            raise not_found("message", text)
        if parsed.form == message_id.FORM_OFFSET:
            return topic, parsed, Where(parsed.partition, parsed.number)
        return topic, parsed, await self._forwarder.staged.locate(topic, parsed)
