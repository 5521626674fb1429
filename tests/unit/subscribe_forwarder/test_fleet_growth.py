"""A topic that grows while its partitions are served by two forwarders."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from metadata.types import ChangeKind, Subscription, Topic, Unit
from store_nodes.record_batch import Message
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
    world,
)
from tests.unit.subscribe_forwarder.test_generations import grown

NEW = Unit(TENANT, TOPIC_UID, 1)


async def apart(made: FleetWorld, one: Subscription | None = None) -> tuple[World, World]:
    """Grow the topic; return the owner of the old partition and that of the new one."""
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
    made.metadata.add_rows(one or subscription(), made.metadata.topics[TOPIC_UID])
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


async def test_what_another_forwarder_has_stepped_over_holds_up_what_is_new_in_order() -> None:
    """The cursor there is past the growth, and an open delivery below that is not settled."""
    one = replace(subscription(), ordered=True)
    async with fleet(FakeMetadata(topic(1), one), 2) as made:
        made.store.publish(Message(b"a1", "text/plain", "a"), Message(b"b1", "text/plain", "b"))
        old, other = await apart(made, one)
        made.store.publish(Message(b"a2", "text/plain", "a"), partition=1)
        a1, b1 = await pulled_here(old)
        hub = await old.forwarder.hub(TENANT, "reader", part=True)
        (reader,) = hub.readers.values()
        assert reader.ledger.fail(0, old.forwarder.now(), 600_000, None)
        reader.acked([1])
        await old.forwarder.flusher.commit([reader])
        row = made.metadata.row()
        assert (row.floor, [each.offset for each in row.stepped_over]) == (2, [0])
        waiting = asyncio.create_task(pulled_here(other, wait_s=8))
        await asyncio.sleep(2.5)
        assert not waiting.done(), "a1 is in back-off"
        reader.acked([0])
        await old.forwarder.flusher.commit([reader])
        assert data(await waiting) == ["a2"]
        assert data([a1, b1]) == ["a1", "b1"]


async def test_a_forwarder_that_has_not_heard_of_a_growth_opens_what_it_claims_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A peer may tell it of a free partition before the change feed tells of the growth. If it gave
    the partition back, it would be told again at once, and nobody would serve it until then."""
    metadata, before = FakeMetadata(topic(1), subscription()), topic(1)

    async def cached(tenant_id: bytes, uid: bytes) -> Topic:
        return before

    monkeypatch.setattr(metadata, "topic_by_uid", cached)
    async with world(metadata=metadata) as w:
        await eventually(w.forwarder.holds_lease)
        w.store.publish(b"old")
        grew = metadata.topics[TOPIC_UID] = grown(before, 2, {0: w.store.seal()})
        metadata.add_rows(subscription(), grew)
        await w.forwarder.owners.claim([NEW])
        assert NEW in w.forwarder.owners
        assert metadata.owners[NEW] == w.forwarder.incarnation
