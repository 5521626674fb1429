"""Shorthand for the tests beside it: the repositories, a tenant, and topics made in one line."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from metadata.catalog import Catalog
from metadata.database import Database
from metadata.delivery.assignments import AssignmentRepository
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.leases import LeaseRepository
from metadata.feed import ChangeFeed
from metadata.ids import new_uid
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.tenancy.tenants import TenantRepository
from metadata.topics.topics import TopicRepository
from metadata.types import (
    Claim,
    Counters,
    CursorState,
    CursorUpdate,
    Range,
    Subscription,
    SubscriptionSpec,
    Topic,
    TopicSpec,
    Unit,
)

HELD_S = 3600.0
"""A lease of `World.forwarder`, which nobody renews: no test waits for its end."""


class World:
    def __init__(self, database: Database, tenant_id: bytes) -> None:
        self.database = database
        self.tenant_id = tenant_id
        self.tenants = TenantRepository(database)
        self.topics = TopicRepository(database)
        self.subscriptions = SubscriptionRepository(database)
        self.cursors = CursorRepository(database)
        self.assignments = AssignmentRepository(database)
        self.leases = LeaseRepository(database)
        self.feed = ChangeFeed(database, poll_every_s=0.2)
        self.catalog = Catalog(self.topics, self.subscriptions, self.feed)

    @classmethod
    async def open(cls, database: Database, tenant_id: bytes | None = None) -> World:
        world = cls(database, tenant_id or new_uid())
        await world.tenants.ensure(world.tenant_id, f"tenant-{world.tenant_id.hex()}")
        return world

    async def topic(self, name: str = "orders", partitions: int = 2) -> Topic:
        made = await self.topics.create(self.tenant_id, TopicSpec(name), range(partitions))
        return await self.topics.activate(self.tenant_id, made.uid)

    async def subscription(
        self, topic: Topic, name: str = "billing", floor: int = 0
    ) -> Subscription:
        floors = {(partition.number, partition.lane): floor for partition in topic.partitions}
        return await self.subscriptions.create(
            self.tenant_id, topic.uid, SubscriptionSpec(name), floors
        )

    async def forwarder(self, role: str = "subscribe") -> bytes:
        incarnation = new_uid()
        await self.leases.register(incarnation, role=role)
        await self._lease_ends_in(incarnation, HELD_S)
        return incarnation

    async def claim(self, incarnation: bytes, topic: Topic) -> dict[int, Claim]:
        claims = await self.assignments.claim(incarnation, keys_of(topic))
        return {key.partition: claim for key, claim in claims.items()}

    async def end_lease(self, incarnation: bytes) -> None:
        """End the lease, as if its owner had not renewed it for a while."""
        await self._lease_ends_in(incarnation, -0.001)

    async def _lease_ends_in(self, incarnation: bytes, seconds: float) -> None:
        async def work(connection: object) -> None:
            await connection.execute(  # type: ignore[attr-defined]
                "UPDATE forwarders SET lease_until = now() + $2 WHERE incarnation = $1",
                incarnation,
                timedelta(seconds=seconds),
            )

        await self.database.statement(work, writes=True)


def keys_of(topic: Topic) -> list[Unit]:
    return [Unit(topic.tenant_id, topic.uid, each.number) for each in topic.partitions]


def settled(
    cursor: CursorState, *, floor: int, read_to: int, acked: tuple[Range, ...] = ()
) -> CursorUpdate:
    """Return an update with everything below `floor` and in `acked` acked, and the rest pending."""
    count = floor - cursor.start + sum(high - low for low, high in acked)
    return CursorUpdate(
        key=cursor.key,
        epoch=cursor.epoch,
        generation=cursor.generation,
        floor=floor,
        read_to=read_to,
        acked=acked,
        counters=Counters(acked=count),
    )


def with_epoch(update: CursorUpdate, claim: Claim) -> CursorUpdate:
    return replace(update, epoch=claim.epoch)
