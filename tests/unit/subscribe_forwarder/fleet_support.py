"""Forwarders that share fake stores and metadata, with links in memory between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from edge.asgi import Handler, Receive, Scope, Send
from metadata.types import Unit
from subscribe_forwarder.api.pulls import wait
from subscribe_forwarder.delivery.pages import json_parts
from subscribe_forwarder.delivery.reading.render import pull_body
from subscribe_forwarder.delivery.wait_list import PullWaiter, Want
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.peers import FORWARDED, RACE, Peer, PeerGone
from subscribe_forwarder.settings import SubscribeSettings
from tests.unit.subscribe_forwarder.subscribe_support import (
    ACK_KEY,
    TENANT,
    FakeMetadata,
    FakeStore,
    World,
)


class Network:
    """The links between forwarders.

    Between two that are in `cut`, notes are lost and no link opens.
    """

    def __init__(self) -> None:
        self.ends: dict[bytes, FakeLinks] = {}
        self.cut: set[frozenset[bytes]] = set()


class FakePeer:
    def __init__(self, network: Network, me: bytes, incarnation: bytes) -> None:
        self._network = network
        self._me = me
        self.incarnation = incarnation

    def note(self, subject: str, body: bytes) -> bool:
        asyncio.get_running_loop().call_soon(self._arrive, subject, body)
        return True

    def _arrive(self, subject: str, body: bytes) -> None:
        there = self._network.ends.get(self.incarnation)
        if there is not None and self._me in there.linked:
            there.hearers[subject](self._me, body)

    async def ask(self, subject: str, body: bytes, timeout_s: float) -> bytes:
        raise NotImplementedError

    async def request(
        self,
        operation: str,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        race: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        there = self._network.ends.get(self.incarnation)
        if there is None or self._me not in there.linked:
            raise PeerGone
        racing = {} if race is None else {RACE: race}
        await there.handlers[operation]({**scope, FORWARDED: True} | racing, receive, send)


class FakeLinks:
    """The part of `fleet.links.network.LinkNetwork` that owning needs."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.me = b""
        self.linked: dict[bytes, FakePeer] = {}
        self.handlers: dict[str, Handler] = {}
        self.hearers: dict[str, Callable[[bytes, bytes], None]] = {}
        self._changed: list[Callable[[bytes, bool], None]] = []

    def identify(self, incarnation: bytes) -> None:
        self.close()
        self.me = incarnation
        self._network.ends[incarnation] = self

    def follow(self, live: Mapping[bytes, tuple[str, int]]) -> None:
        for other in set(self.linked) - live.keys():
            self._part(other)
        for other in live.keys() - self.linked.keys():
            there = self._network.ends.get(other)
            if there is not None and frozenset((self.me, other)) not in self._network.cut:
                for one, two in ((self, there), (there, self)):
                    one.linked[two.me] = FakePeer(self._network, one.me, two.me)
                for one, two in ((self, there), (there, self)):
                    one.changed(two.me, True)

    def close(self) -> None:
        for other in list(self.linked):
            self._part(other)
        self._network.ends.pop(self.me, None)

    def _part(self, other: bytes) -> None:
        there = self._network.ends.get(other)
        for one, gone in ((self, other), (there, self.me)):
            if one is not None and one.linked.pop(gone, None) is not None:
                one.changed(gone, False)

    def changed(self, other: bytes, opened: bool) -> None:
        for changed in self._changed:
            changed(other, opened)

    def peer(self, incarnation: bytes) -> Peer | None:
        return self.linked.get(incarnation)

    def peers(self) -> list[Peer]:
        return list(self.linked.values())

    def serve(self, operation: str, handler: Handler) -> None:
        self.handlers[operation] = handler

    def answers(self, subject: str, answer: Callable[[bytes, bytes], Awaitable[bytes]]) -> None:
        """Nobody asks."""

    def hears(self, subject: str, hear: Callable[[bytes, bytes], None]) -> None:
        self.hearers[subject] = hear

    def on_peer(self, changed: Callable[[bytes, bool], None]) -> None:
        self._changed.append(changed)

    def tell(self, subject: str, body: bytes) -> None:
        for peer in list(self.linked.values()):
            peer.note(subject, body)


class FakeHints:
    def __init__(self) -> None:
        self.wanted: dict[Unit, bytes] = {}

    async def all(self) -> Mapping[Unit, bytes]:
        return dict(self.wanted)


class FleetWorld:
    """A fleet that a test grows and shrinks."""

    def __init__(self, metadata: FakeMetadata, store: FakeStore | None = None) -> None:
        self.metadata = metadata
        self.store = store or FakeStore()
        self.network = Network()
        self.hints = FakeHints()
        self.members: list[World] = []

    async def add(self, **settings: Any) -> World:
        """Add another forwarder; return it when it is ready."""
        links = FakeLinks(self.network)
        forwarder = SubscribeForwarder(
            store=self.store,
            catalog=self.metadata,
            feed=self.metadata,
            cursors=self.metadata,
            assignments=self.metadata,
            leases=self.metadata,
            forwarded=self.metadata,
            ack_key=ACK_KEY,
            settings=SubscribeSettings(**({"drain_s": 1.0} | settings)),
            address="h:1",
            links=links,
            hints=self.hints,
            clock=self.metadata.clock,
        )
        await forwarder.start()
        world = World(self.store, self.metadata, forwarder)
        self.members.append(world)
        async with asyncio.timeout(5):
            await world.ready()
        return world

    async def kill(self, world: World) -> None:
        """Stop a forwarder as SIGKILL would; its lease goes on in Postgres until it ends."""
        self.members.remove(world)
        forwarder = world.forwarder
        fleet = forwarder._fleet
        for task in (fleet.lease._task, fleet.claims._task, forwarder.flusher._task):
            assert task is not None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await forwarder.reconciler.close()
        await forwarder._hubs.close()
        assert isinstance(forwarder.links, FakeLinks)
        forwarder.links.close()

    def age(self, seconds: float = 60.0) -> None:
        """All have lived for so much longer."""
        for incarnation in self.metadata.registered_s:
            self.metadata.registered_s[incarnation] -= seconds

    async def close(self) -> None:
        for world in self.members:
            await world.forwarder.close()


@asynccontextmanager
async def fleet(metadata: FakeMetadata, count: int = 2) -> AsyncIterator[FleetWorld]:
    made = FleetWorld(metadata)
    try:
        for _ in range(count):
            await made.add()
        yield made
    finally:
        await made.close()


async def pulled_here(
    world: World, max_messages: int = 10, name: str = "reader", wait_s: float = 1.0
) -> list[dict[str, Any]]:
    """Pull the messages that the forwarder itself serves, not those of other owners."""
    hub = await world.forwarder.hub(TENANT, name, part=True)
    want = Want(max_messages, 1 << 20)
    delivery = hub.pull_now(want)
    if delivery is None:
        delivery = await wait(hub, PullWaiter(want, 1, only_now=wait_s <= 1), wait_s)
    if delivery is None:
        return []
    parts = [one for part in delivery.taken for one in json_parts(part, True)]
    return list(msgspec.json.decode(pull_body(parts))["messages"])


async def eventually(condition: Callable[[], object], limit_s: float = 8.0) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.01)
