"""The ticks of the reconciler look at what has something out, and at nothing else."""

from __future__ import annotations

import asyncio

import pytest

from metadata.types import Unit
from subscribe_forwarder.delivery.state.ledger import Ledger, Now
from tests.unit.subscribe_forwarder.subscribe_support import TENANT, TOPIC_UID, World, world

SHORT_S = 0.01
FIRST = Unit(TENANT, TOPIC_UID, 0)


async def until_attempts(w: World, attempts: int) -> None:
    """The row of the only message says so."""
    async with asyncio.timeout(5):
        while [each.attempts for each in w.metadata.row().stepped_over] != [attempts]:
            await asyncio.sleep(0.002)


async def test_a_lease_ends_also_where_nobody_asks() -> None:
    async with world(ack_deadline_s=SHORT_S) as w:
        w.store.publish(b"a")
        await w.pulled()
        await asyncio.sleep(2 * SHORT_S)
        w.forwarder.reconciler.tick()
        await until_attempts(w, 1)


async def test_what_became_idle_is_looked_at_again_once_something_is_out() -> None:
    async with world(ack_deadline_s=SHORT_S) as w:
        w.store.publish(b"a")
        await w.ack(*await w.pulled())
        for _ in range(2):
            w.forwarder.reconciler.tick()
        assert not w.forwarder.reconciler._outstanding
        w.store.publish(b"b")
        await w.pulled(wait_s=5)
        await asyncio.sleep(2 * SHORT_S)
        w.forwarder.reconciler.tick()
        await until_attempts(w, 1)


async def test_a_unit_claimed_again_keeps_what_it_has_out() -> None:
    async with world(ack_deadline_s=SHORT_S) as w:
        w.store.publish(b"a")
        await w.pulled()
        w.forwarder.owners.freeze([FIRST])
        await asyncio.sleep(2 * SHORT_S)
        w.forwarder.reconciler.tick()
        assert not w.metadata.row().stepped_over, "it is not ours to change now"
        await w.forwarder.owners.claim_again()
        w.forwarder.reconciler.tick()
        await until_attempts(w, 1)


async def test_what_the_row_says_is_out_counts_too() -> None:
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        await w.post("nack", {"ack_id": message["ack_id"]})
        await until_attempts(w, 1)
        await w.forwarder.owners.drop(FIRST)
        await w.forwarder.owners.claim([FIRST])
        await w.forwarder.hub(TENANT, "reader")
        (reader,) = w.forwarder.owners.readers()
        assert w.forwarder.reconciler._outstanding >= {reader}


async def test_what_is_not_ours_any_more_is_forgotten() -> None:
    async with world() as w:
        w.store.publish(b"a")
        await w.pulled()
        assert len(w.forwarder.reconciler._outstanding) == 1
        await w.forwarder.owners.drop(FIRST)
        w.forwarder.reconciler.tick()
        assert not w.forwarder.reconciler._outstanding


async def test_a_cursor_that_contradicts_itself_does_not_keep_the_leases_of_others() -> None:
    """The error ended the task that expires leases, for the whole process."""
    async with world(ack_deadline_s=SHORT_S, partitions=2) as w:
        w.store.publish(b"a", partition=0)
        w.store.publish(b"b", partition=1)
        while len(w.forwarder.reconciler._outstanding) < 2:
            await w.pulled(wait_s=5)
        damaged, sound = w.forwarder.reconciler._outstanding  # in the order of the ticks
        expired = []

        def expire(ledger: Ledger, now: Now) -> int:
            assert ledger is not damaged.ledger, "the cursor contradicts itself"
            expired.append(ledger)
            return 0

        with pytest.MonkeyPatch.context() as broken:
            broken.setattr(Ledger, "expire", expire)
            w.forwarder.reconciler.tick()
        assert (damaged.frozen, sound.frozen) == (True, False)
        assert expired == [sound.ledger]
