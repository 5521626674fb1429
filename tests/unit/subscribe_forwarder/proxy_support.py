"""Forwarders that know of each other, in one process: a directory that a test fills, and links that
are calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from edge.asgi import Handler, Receive, Scope, Send
from metadata.types import Subscription
from subscribe_forwarder.fleet.directory import OwnedElsewhere, UnitLocations
from subscribe_forwarder.peers import FORWARDED, RACE, Peer, PeerGone

PASSED_ON = (
    "method",
    "query_string",
    "headers",
    "path_params",
    "packetboat.tenant",
    "packetboat.caller",
)


class Map:
    """A map from partitions to owners, for all forwarders of a test."""

    def __init__(self, *owners: bytes | None) -> None:
        self.owners = dict(enumerate(owners))
        self.version = 1
        self._changed = asyncio.Event()

    def move(self, partition: int, owner: bytes | None) -> None:
        self.owners[partition] = owner
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, version: int) -> None:
        while self.version == version:
            await self._changed.wait()


class MapDirectory:
    """A map as one forwarder sees it."""

    def __init__(self, map_: Map, me: bytes) -> None:
        self._map = map_
        self._me = me

    def find(self, subscription: Subscription, partitions: Sequence[int]) -> UnitLocations:
        by_owner: dict[bytes | None, list[int]] = {}
        for partition in partitions:
            by_owner.setdefault(self._map.owners.get(partition), []).append(partition)
        here = tuple(by_owner.pop(self._me, ()))
        nowhere = tuple(by_owner.pop(None, ()))
        elsewhere = tuple(
            OwnedElsewhere(o, tuple(ps)) for o, ps in by_owner.items() if o is not None
        )
        return UnitLocations(here, elsewhere, nowhere, self._map.version)

    async def changed(self, subscription: Subscription, version: int) -> None:
        await self._map.changed(version)

    def owners(self) -> Mapping[bytes, int]:
        found: dict[bytes, int] = {}
        for owner in self._map.owners.values():
            if owner is not None:
                found[owner] = found.get(owner, 0) + 1
        return found


class CallLinks:
    """The links of one forwarder to others of `net`; `cut` ends what is under way."""

    def __init__(self, net: dict[bytes, CallLinks], me: bytes) -> None:
        self._net = net
        self.me = me
        self.handlers: dict[str, Handler] = {}
        self.asked: dict[str, Callable[[bytes, bytes], Awaitable[bytes]]] = {}
        self.heard: dict[str, Callable[[bytes, bytes], None]] = {}
        self.running: set[asyncio.Task[None]] = set()
        self.requests: list[str] = []
        """Operations that came from others."""
        self.gone = False
        net[me] = self

    def peer(self, incarnation: bytes) -> Peer | None:
        other = self._net.get(incarnation)
        return None if other is None or other.gone else CallPeer(self, other)

    def peers(self) -> list[Peer]:
        return [p for o in self._net if o != self.me and (p := self.peer(o)) is not None]

    def serve(self, operation: str, handler: Handler) -> None:
        self.handlers[operation] = handler

    def answers(self, subject: str, answer: Callable[[bytes, bytes], Awaitable[bytes]]) -> None:
        self.asked[subject] = answer

    def hears(self, subject: str, hear: Callable[[bytes, bytes], None]) -> None:
        self.heard[subject] = hear

    def on_peer(self, changed: Callable[[bytes, bool], None]) -> None:
        return

    def tell(self, subject: str, body: bytes) -> None:
        for peer in self.peers():
            peer.note(subject, body)

    def die(self) -> None:
        """End all links of this one, and the requests that it was serving."""
        self.gone = True
        for task in self.running:
            task.cancel()


class CallPeer:
    """Another forwarder of the net."""

    def __init__(self, mine: CallLinks, other: CallLinks) -> None:
        self._mine = mine
        self._other = other

    @property
    def incarnation(self) -> bytes:
        return self._other.me

    async def request(
        self,
        operation: str,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        race: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        other = self._other
        passed = {"type": "http", **{key: scope[key] for key in PASSED_ON if key in scope}}
        passed |= {FORWARDED: True, **({} if race is None else {RACE: race})}
        other.requests.append(operation)

        async def sent(message: Any) -> None:
            await asyncio.sleep(0)
            if other.gone:
                raise PeerGone
            await send(message)

        await asyncio.sleep(0)
        task = asyncio.ensure_future(other.handlers[operation](passed, receive, sent))
        other.running.add(task)  # type: ignore[arg-type]
        try:
            await task
        except asyncio.CancelledError:
            if other.gone:
                raise PeerGone from None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        finally:
            other.running.discard(task)  # type: ignore[arg-type]

    async def ask(self, subject: str, body: bytes, timeout_s: float) -> bytes:
        async with asyncio.timeout(timeout_s):
            await asyncio.sleep(0)
            if self._other.gone:
                raise PeerGone
            return await self._other.asked[subject](self._mine.me, body)

    def note(self, subject: str, body: bytes) -> bool:
        if subject in self._other.heard:
            self._other.heard[subject](self._mine.me, body)
        return True
