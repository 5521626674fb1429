"""A topic that grows while its partitions are served by two forwarders."""

from __future__ import annotations

import asyncio
from typing import Any

from metadata.types import ChangeKind, Unit
from tests.unit.subscribe_forwarder.fleet_support import (
    FleetWorld,
    eventually,
    fleet,
    pulled_here,
)
from tests.unit.subscribe_forwarder.subscribe_support import (
    SUBSCRIPTION_UID,
    TENANT,
    TOPIC_UID,
    FakeMetadata,
    World,
    subscription,
    topic,
)
from tests.unit.subscribe_forwarder.test_generations import grown

NEW = Unit(TENANT, TOPIC_UID, 1)


async def apart(made: FleetWorld) -> tuple[World, World]:
    """Who has the old partition, and who the new one once the topic has grown."""
    made.age()
    old, other = made.members
    if old.forwarder.owners.get(NEW._replace(partition=0)) is None:
        old, other = other, old
    made.hints.wanted = {
        NEW._replace(partition=0): old.forwarder.incarnation,
        NEW: other.forwarder.incarnation,
    }
    await asyncio.sleep(3.5)
    before = made.metadata.topics[TOPIC_UID]
    made.metadata.topics[TOPIC_UID] = grown(before, 2, {0: made.store.seal()})
    made.metadata.add_rows(subscription(), made.metadata.topics[TOPIC_UID])
    await made.metadata.changed(ChangeKind.TOPIC, TOPIC_UID)
    await eventually(lambda: NEW in other.forwarder.owners)
    return old, other


def data(messages: list[dict[str, Any]]) -> list[str]:
    return [message["data"] for message in messages]


async def test_what_is_new_waits_for_what_is_older_at_another_forwarder() -> None:
    metadata = FakeMetadata(topic(1), subscription())
    async with fleet(metadata, 2) as made:
        made.store.publish(b"old", b"old")
        old, other = await apart(made)
        made.store.publish(b"new", partition=1)
        assert await pulled_here(other) == []
        await asyncio.sleep(1.2)
        assert await pulled_here(other) == [], "what is older was looked at, and is not read"
        assert SUBSCRIPTION_UID in other.forwarder._hubs._growing
        waiting = asyncio.create_task(pulled_here(other, wait_s=8))
        assert data(await pulled_here(old)) == ["old", "old"]
        assert data(await waiting) == ["new"]
