"""Forwarders over real links, with fake stores and metadata, and who owns what of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from edge.asgi import Handler
from metadata.types import Subscription, Unit
from subscribe_forwarder.api.trace import DeliveryRecorder
from subscribe_forwarder.fleet import claims
from subscribe_forwarder.fleet.links.network import LinkNetwork
from subscribe_forwarder.fleet.proxy.routing import Routing
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.settings import SubscribeSettings
from tests.unit.subscribe_forwarder.fleet_support import FakeHints, eventually
from tests.unit.subscribe_forwarder.link_pair import SECRET
from tests.unit.subscribe_forwarder.subscribe_support import (
    ACK_KEY,
    TENANT,
    TOPIC_UID,
    FakeMetadata,
    FakeStore,
    World,
    routes_of,
    subscription,
    topic,
)


class LinkedFleet:
    """Forwarders over real links, and who is to own what."""

    def __init__(
        self,
        partitions: int,
        subscription_: Subscription,
        around: Callable[[Handler], Handler] | None = None,
    ) -> None:
        self.metadata = FakeMetadata(topic(partitions), subscription_)
        self.store = FakeStore()
        self.hints = FakeHints()
        self.members: list[World] = []
        self.networks: list[LinkNetwork] = []
        self.routings: list[Routing] = []
        self.partitions = partitions
        self.around = around

    async def add(self, trace: DeliveryRecorder | None = None) -> World:
        network = LinkNetwork(SECRET, around=self.around)
        port = await network.start("127.0.0.1", 0)
        forwarder = SubscribeForwarder(
            store=self.store,
            catalog=self.metadata,
            feed=self.metadata,
            cursors=self.metadata,
            assignments=self.metadata,
            leases=self.metadata,
            forwarded=self.metadata,
            ack_key=ACK_KEY,
            settings=SubscribeSettings(drain_s=1.0),
            address=f"127.0.0.1:{port}",
            links=network,
            hints=self.hints,
            clock=self.metadata.clock,
        )
        world = World(self.store, self.metadata, forwarder)
        routing = forwarder.make_routing()
        world._routes = routes_of(world, routing, trace)
        self.routings.append(routing)
        await forwarder.start()
        self.members.append(world)
        self.networks.append(network)
        async with asyncio.timeout(10):
            await world.ready()
        return world

    async def spread(self, *owners: int) -> None:
        """Give each partition to an owner, named by its index in `members`; return when
        every forwarder knows.
        """
        for partition, owner in enumerate(owners):
            unit = Unit(TENANT, TOPIC_UID, partition)
            self.hints.wanted[unit] = self.members[owner].forwarder.incarnation
        for incarnation in self.metadata.registered_s:
            self.metadata.registered_s[incarnation] -= 60.0
        await eventually(lambda: all(self._known(world, owners) for world in self.members), 15)

    def _known(self, world: World, owners: tuple[int, ...]) -> bool:
        known = self.metadata.subscriptions["reader"]
        where = world.forwarder.directory.find(known, range(self.partitions))
        me = self.members.index(world)
        mine = tuple(p for p, owner in enumerate(owners) if owner == me)
        return where.here == mine and not where.nowhere

    async def close(self) -> None:
        for world in self.members:
            await world.forwarder.close()
        for network in self.networks:
            await network.close(0.1)


@asynccontextmanager
async def linked(
    *owners: int,
    trace: DeliveryRecorder | None = None,
    around: Callable[[Handler], Handler] | None = None,
    **spec: Any,
) -> AsyncIterator[LinkedFleet]:
    """Yield a fleet with an owner for each partition, as `owners` name them; the first has the
    trace.

    Hints are read as soon as anything happens.
    """
    fleet = LinkedFleet(len(owners), replace(subscription(), **spec), around)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claims, "HINTS_EVERY_S", 0.0)
        try:
            for number in range(max(owners) + 1):
                await fleet.add(None if number else trace)
            await fleet.spread(*owners)
            yield fleet
        finally:
            await fleet.close()


async def everything(world: World, count: int) -> list[dict[str, Any]]:
    """Pull `count` messages, a few at a time and with patience."""
    got: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        while len(got) < count:
            got += await world.pulled(3, wait_s=2)
    return got
