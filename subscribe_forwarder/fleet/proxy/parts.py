"""A call that every owner of a subscription answers for its own partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from edge.asgi import Handler, Receive, Scope, Send, respond
from edge.problem import Problem
from subscribe_forwarder.fleet.proxy.relay import Captured, part_of, receiving
from subscribe_forwarder.fleet.proxy.routing import HERE, Found, Routing, nowhere
from subscribe_forwarder.peers import PeerGone, is_misdirected

PATIENCE_S = 1.0
"""Seconds a partition may have no owner."""
REST_S = 0.02
NO_STORE = [(b"cache-control", b"no-store")]
Answer = TypeVar("Answer", bound=msgspec.Struct)


class Parts(Generic[Answer]):
    """The answers of all owners to one operation; `local` is this process' own, for its part."""

    def __init__(
        self, operation: str, local: Handler, routing: Routing, answer: type[Answer]
    ) -> None:
        """Serve `local` to peers too; its answers are `answer` in JSON."""
        routing.serve(operation, local)
        self.operation = operation
        self.local = local
        self.routing = routing
        self._decoder = msgspec.json.Decoder(answer)

    async def view(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        merge: Callable[[Sequence[Answer]], Answer],
    ) -> None:
        """Answer a view of the subscription; `merge` makes one answer of several owners'."""
        if await self.routing.served_here(scope, lambda: self.local(scope, receive, send)):
            return
        body = msgspec.json.encode(merge(await self.of_all(scope)))
        await respond(send, 200, body, headers=NO_STORE)

    async def of_all(self, scope: Scope, body: bytes = b"") -> list[Answer]:
        """Return the answers of the owners that have all of it between them.

        Raises the 503 where nobody answers within a second, and the Problem of any owner. An owner
        may be asked twice.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + PATIENCE_S
        while True:
            found = await self.routing.find(scope)
            if found.whole:
                answers = await self.ask(found, scope, body)
                failures = [one for one in answers if isinstance(one, Exception)]
                worse = [one for one in failures if not lost(one)]
                if worse:
                    raise worse[0]
                if not failures:
                    return [one for one in answers if not isinstance(one, Exception)]
            left_s = until_s - loop.time()
            if left_s <= 0:
                raise nowhere()
            await self.routing.changed_within(found, min(left_s, REST_S) if found.whole else left_s)

    async def ask(
        self, found: Found, scope: Scope, body: bytes = b""
    ) -> Sequence[Answer | Exception]:
        """Return answers in the order of `found.partitions`."""
        asked = (self._one(owner, scope, body) for owner in found.partitions)
        return await asyncio.gather(*asked)

    async def _one(self, owner: bytes, scope: Scope, body: bytes) -> Answer | Exception:
        captured = Captured()
        try:
            if owner == HERE:
                await self.local(part_of(scope), receiving(body), captured.send)
            else:
                peer = self.routing.peer(owner)
                if peer is None:
                    return PeerGone("there is no link to the owner")
                await peer.request(self.operation, part_of(scope), receiving(body), captured.send)
            return self._decoder.decode(captured.body)
        except Exception as error:
            return error


def lost(error: Exception) -> bool:
    """Return whether nothing was answered and another owner may have messages."""
    return isinstance(error, PeerGone) or is_misdirected(error)


def is_not_found(error: Exception) -> bool:
    return isinstance(error, Problem) and error.status == 404
