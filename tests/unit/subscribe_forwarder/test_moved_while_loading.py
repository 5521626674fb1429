"""A subscription that is moved while its rows are on their way: the old ones never count."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from msgspec import structs

from metadata.subscriptions.seeks import ERA_SHIFT
from metadata.types import Claim, Counters, CursorKey, CursorState, Subscription, Unit
from subscribe_forwarder.delivery.moves import MAX_MOVES, Moves
from tests.unit.subscribe_forwarder.subscribe_support import (
    SUBSCRIPTION_UID,
    TENANT,
    TOPIC_UID,
    FakeMetadata,
    FakeStore,
    World,
    subscription,
    topic,
    world,
)


class Slow(FakeMetadata):
    """Fake metadata whose rows arrive when `arrives` is set."""

    def __init__(self, partitions: int = 1, slow_partition: int = 0) -> None:
        super().__init__(topic(partitions))
        self.slow_partition = slow_partition
        self.slow_claims = False
        self.reading = asyncio.Event()
        self.arrives = asyncio.Event()

    async def load(self, keys: Iterable[Unit]) -> list[CursorState]:
        wanted = list(keys)
        rows = await super().load(wanted)
        if wanted[0].partition == self.slow_partition:
            self.reading.set()
            await self.arrives.wait()
        return rows

    async def claim(self, incarnation: bytes, keys: Iterable[Unit]) -> dict[Unit, Claim]:
        claims = await super().claim(incarnation, keys)
        if self.slow_claims:
            self.reading.set()
            await self.arrives.wait()
        return claims

    def seek(self, to: int) -> Subscription:
        """Seek in all partitions, as a commit of a seek does it; return the moved subscription."""
        before = self.subscriptions["reader"]
        moved = structs.replace(
            before, generation=before.generation + 1, version=before.version + 1
        )
        self.subscriptions["reader"] = moved
        for number in range(len(self.topics[TOPIC_UID].partitions)):
            key = CursorKey(TENANT, SUBSCRIPTION_UID, number)
            self.rows[key] = replace(
                self.rows[key],
                generation=moved.generation,
                start=to,
                floor=to,
                read_to=to,
                acked=(),
                counters=Counters(),
            )
        return moved

    def subscribe(self) -> None:
        self.add_rows(subscription(), self.topics[TOPIC_UID])


async def moved_while_reading(w: World, metadata: Slow, to: int) -> list[int]:
    """Move the subscription while a pull is reading; return the offsets that the pull gets."""
    pull = asyncio.create_task(w.pulled())
    await metadata.reading.wait()
    await w.forwarder.reload(metadata.seek(to))
    metadata.arrives.set()
    return [m["offset"] for m in await pull]


async def test_a_row_that_was_loaded_before_the_move() -> None:
    metadata = Slow()
    async with world(FakeStore(), metadata) as w:
        await w.ready()
        w.store.publish(b"a", b"b", b"c")
        metadata.subscribe()  # after the claim, so that its rows are loaded
        assert await moved_while_reading(w, metadata, 2) == [2]
        assert metadata.row().generation == 2


async def test_a_reader_that_was_dropped_while_others_were_loaded() -> None:
    metadata = Slow(partitions=2, slow_partition=1)
    async with world(FakeStore(), metadata, partitions=2) as w:
        await w.ready()
        w.store.publish(b"a", b"b", partition=0)
        w.store.publish(b"c", b"d", partition=1)
        metadata.subscribe()
        assert await moved_while_reading(w, metadata, 1) == [1, 1]


async def test_a_claim_that_was_made_before_the_move() -> None:
    metadata = Slow()
    metadata.subscribe()
    metadata.slow_claims = True
    async with world(FakeStore(), metadata) as w:
        w.store.publish(b"a", b"b", b"c")
        await metadata.reading.wait()
        await w.forwarder.reload(metadata.seek(2))
        metadata.arrives.set()
        await w.ready()
        assert [m["offset"] for m in await w.pulled()] == [2]


def test_moves_are_remembered_for_a_while_only() -> None:
    moves = Moves()
    moves.moved(b"a", 3)
    moves.moved(b"a", 2)
    assert moves.is_past(b"a", 2, 0)
    assert not moves.is_past(b"a", 3, 0)
    for n in range(MAX_MOVES):
        moves.moved(n.to_bytes(4, "big"), 2)
    assert not moves.is_past(b"a", 2, 0)


def test_a_move_that_postgres_lost_is_none() -> None:
    moves = Moves()
    moves.moved(b"a", 3)
    assert not moves.is_past(b"a", 2, 1)
    moves.moved(b"a", 1 << ERA_SHIFT)
    assert moves.is_past(b"a", 2, 1)
