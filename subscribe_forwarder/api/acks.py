"""Ack, nack, release and modify_ack_deadline, each by item."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from edge.asgi import (
    Receive,
    Scope,
    Send,
    path_param,
    read_body,
    respond,
    tenant_of,
)
from edge.problem import TYPE_BASE, unavailable
from subscribe_forwarder import metrics
from subscribe_forwarder.api import requests
from subscribe_forwarder.api.items import (
    Failure,
    Ids,
    Named,
    Place,
    lease_expired,
    lease_of,
    resolve,
)
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.state.lanes import Lane

_encode = msgspec.json.encode


class Acks:
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
        touched = [readers[place] for place in named.places]
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
        for lane, places in named.places.items():
            reader = readers[lane]
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

    async def _named(self, hub: Hub, readers: Mapping[Lane, Reader], ids: Ids) -> Named:
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
