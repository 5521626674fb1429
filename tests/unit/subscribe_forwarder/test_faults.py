"""Consumers at work while flushes, fetches, leases and claims fail at random: nothing is lost."""

from __future__ import annotations

import asyncio
import random

from metadata.errors import MetadataUnavailable, OutcomeUnknown
from metadata.types import Unit
from store_nodes.errors import Unavailable
from tests.unit.subscribe_forwarder.subscribe_support import (
    TENANT,
    TOPIC_UID,
    FakeMetadata,
    FakeStore,
    World,
    subscription,
    topic,
    world,
)

PARTITIONS = 3


class Run:
    """The state that the consumers and the saboteur share."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.done = False
        self.acked: set[str] = set()
        """Acks that were answered: these must never be delivered again."""
        self.offered: set[str] = set()
        """Acks that were sent: these may or may not have taken effect."""
        self.deliveries = 0
        self.unknown = 0

    async def consume(self, w: World) -> None:
        while not self.done:
            acked = set(self.acked)
            answer = await w.pull(self.rng.randrange(1, 12), self.rng.choice([0, 0, 0.02]))
            if answer.status != 200:
                await asyncio.sleep(0.002)
                continue
            messages = answer.json()["messages"]
            self.deliveries += len(messages)
            assert not acked & {m["message_id"] for m in messages}, "acked and delivered again"
            kept = [m for m in messages if self.rng.random() < 0.7]
            for message in messages:
                if message not in kept and self.rng.random() < 0.7:
                    await w.post("nack", {"ack_id": message["ack_id"]})
            if kept:
                self.offered |= {m["message_id"] for m in kept}
                answer = await w.ack(*kept)
                if answer.status == 200:
                    assert answer.json()["acked"] == len(kept)
                    self.acked |= {m["message_id"] for m in kept}
                else:
                    self.unknown += 1

    async def sabotage(self, w: World) -> None:
        metadata, store = w.metadata, w.store
        for _ in range(40):
            await asyncio.sleep(0.005)
            what = self.rng.randrange(6)
            if what == 0:
                metadata.flush_failure = OutcomeUnknown("cut")
                metadata.flush_happens = self.rng.random() < 0.5
            elif what == 1:
                metadata.flush_failure = MetadataUnavailable("down")
                metadata.flush_happens = False
            elif what == 2:
                store.failure = Unavailable("no leader")
            elif what == 3:
                metadata.leases.clear()
            elif what == 4:
                number = self.rng.randrange(PARTITIONS)
                metadata.taken(Unit(TENANT, TOPIC_UID, number))
            await asyncio.sleep(0.01)
            metadata.flush_failure, store.failure = None, None


async def test_nothing_acked_comes_again_and_nothing_is_lost() -> None:
    runs = [await one_run(seed) for seed in range(4)]
    # How many a single run meets depends on how busy the machine is.
    assert sum(run.unknown for run in runs), "the faults were met"


async def one_run(seed: int) -> Run:
    store, metadata = FakeStore(), FakeMetadata(topic(PARTITIONS), subscription())
    run = Run(seed)
    async with world(store, metadata, lazy_flush_s=0.01, flush_timeout_s=0.5) as w:
        await w.ready()
        total = 0
        for _ in range(60):
            bodies = [b"%d" % n for n in range(run.rng.randrange(1, 15))]
            total += len(store.publish(*bodies, partition=run.rng.randrange(PARTITIONS)))
        consumers = [asyncio.create_task(run.consume(w)) for _ in range(4)]
        await run.sabotage(w)
        run.done = True
        await asyncio.gather(*consumers)
        async with asyncio.timeout(10):
            await w.ready()
            seen: set[str] = set(run.offered)
            while sum(metadata.row(n).counters.acked for n in range(PARTITIONS)) < total:
                answer = await w.pull(100)
                messages = answer.json()["messages"] if answer.status == 200 else []
                assert not run.acked & {m["message_id"] for m in messages}
                seen |= {m["message_id"] for m in messages}
                for message in messages:
                    await w.ack(message)
                if not messages:
                    w.clock.added_s += 31  # forgotten leases end
                    await asyncio.sleep(0.02)
        assert len(seen) == total
        assert run.deliveries
    return run
