"""Messages of a unit that moves in an orderly way are not delivered twice for it."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from metadata.types import Epoch
from subscribe_forwarder.delivery import handover, ownership
from subscribe_forwarder.delivery.handover import Handover
from tests.unit.subscribe_forwarder.fleet_support import (
    FleetWorld,
    eventually,
    fleet,
    pulled_here,
)
from tests.unit.subscribe_forwarder.subscribe_support import SUBSCRIPTION_UID, World
from tests.unit.subscribe_forwarder.test_fleet import KEY, many, others, owner_of, settled

PART = KEY._replace(subscription_uid=SUBSCRIPTION_UID)


async def stopped(made: FleetWorld) -> tuple[World, World]:
    """The topic's owner is told to stop and hands over; it, and its heir."""
    leaver = owner_of(made, KEY)
    assert leaver is not None
    (heir,) = others(made, leaver)
    leaver.forwarder.drain()
    await eventually(lambda: KEY in heir.forwarder.owners)
    return leaver, heir


async def leased_and_ready(made: FleetWorld) -> tuple[list[dict[str, Any]], World]:
    """Two messages are out at the owner of a topic, a third is not."""
    made.store.publish(b"a", b"b", b"c")
    made.age()
    await settled(made)
    owner = owner_of(made, KEY)
    assert owner is not None
    return await pulled_here(owner, 2), owner


async def test_leases_go_over_with_their_unit() -> None:
    metadata = many(1, partitions=1)
    async with fleet(metadata, 2) as made:
        (first, second), _ = await leased_and_ready(made)
        _, heir = await stopped(made)
        assert [each["data"] for each in await pulled_here(heir)] == ["c"]
        reader = next(iter(heir.forwarder.owners.readers()))
        assert reader.ledger.leases.leased == 3
        # The very leases: their acks, nacks and deadlines are what they were.
        assert (await heir.post("ack", {"ack_id": first["ack_id"]})).json()["acked"] == 1
        nacked = await heir.post("nack", {"ack_id": second["ack_id"], "delay_seconds": 0})
        assert nacked.json()["done"] == 1
        again = await pulled_here(heir)
        assert [(each["data"], each["attempt"]) for each in again] == [("b", 2)]


async def test_an_ack_that_is_the_first_to_come_to_the_heir_ends_no_other_lease() -> None:
    metadata = many(1, partitions=1)
    async with fleet(metadata, 2) as made:
        (first, _), _ = await leased_and_ready(made)
        _, heir = await stopped(made)
        assert (await heir.post("ack", {"ack_id": first["ack_id"]})).json()["acked"] == 1
        assert [each["data"] for each in await pulled_here(heir)] == ["c"]


async def test_an_ack_too_late_to_be_flushed_is_still_to_come_to_the_heir(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ownership, "MAX_FLUSHES", 1)
    metadata = many(1, partitions=1)
    async with fleet(metadata, 2) as made:
        (first, _), owner = await leased_and_ready(made)
        gate = metadata.flush_gate = Gate()
        ack = {"ack_id": first["ack_id"]}
        leaver = asyncio.create_task(stopped(made))
        await eventually(lambda: gate.came == 1)
        late = asyncio.create_task(owner.post("ack", ack))
        await eventually(
            lambda: next(iter(owner.forwarder.owners.readers())).ledger.leases.leased == 1
        )
        gate.let_one_through()
        _, heir = await leaver
        metadata.flush_gate = None
        gate.let_one_through()
        assert (await late).status == 503
        assert [each["data"] for each in await pulled_here(heir)] == ["c"]
        assert (await heir.post("ack", ack)).json()["acked"] == 1


async def test_what_nobody_took_comes_back_with_its_leases() -> None:
    metadata = many(1, partitions=1)
    async with fleet(metadata, 2) as made:
        _, owner = await leased_and_ready(made)
        owners = owner.forwarder.owners
        before = next(iter(owners.readers()))
        await owners.release(await owners.give([KEY]))
        await eventually(lambda: KEY in owners)
        assert [each["data"] for each in await pulled_here(owner)] == ["c"]
        assert not owners.has(before)


async def test_leases_go_on_through_an_owner_that_was_never_asked() -> None:
    metadata = many(1, partitions=1)
    async with fleet(metadata, 2) as made:
        await leased_and_ready(made)
        leaver, between = await stopped(made)
        await leaver.forwarder.close()
        made.members.remove(leaver)
        heir = await made.add()  # it has heard nothing of the first
        between.forwarder.drain()
        await eventually(lambda: KEY in heir.forwarder.owners)
        assert [each["data"] for each in await pulled_here(heir)] == ["c"]


async def test_leases_end_at_the_heir_when_they_would_have() -> None:
    metadata = many(1, partitions=1)
    async with fleet(metadata, 2) as made:
        await leased_and_ready(made)
        _, heir = await stopped(made)
        await pulled_here(heir)
        metadata.clock.added_s += 31
        await heir.ready()
        again: set[str] = set()
        async with asyncio.timeout(10):
            while not again >= {"a", "b"}:
                again |= {each["data"] for each in await pulled_here(heir, wait_s=2)}


async def test_leases_go_over_with_what_is_split_off_and_back() -> None:
    metadata = many(1, partitions=1)
    async with fleet(metadata, 2) as made:
        _, owner = await leased_and_ready(made)
        (other,) = others(made, owner)
        made.hints.wanted = {PART: other.forwarder.incarnation}
        await eventually(lambda: PART in other.forwarder.owners)
        assert [each["data"] for each in await pulled_here(other)] == ["c"]
        made.hints.wanted = {}
        await eventually(lambda: not metadata.split_units)
        assert await pulled_here(owner, wait_s=0.2) == []


async def test_without_a_word_of_the_leases_their_messages_go_out_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handover, "KEEP_MS", -1)  # the note is too old
    metadata = many(1, partitions=1)
    async with fleet(metadata, 2) as made:
        await leased_and_ready(made)
        _, heir = await stopped(made)
        assert [each["data"] for each in await pulled_here(heir)] == ["a", "b", "c"]


def test_what_is_kept_is_bounded_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    kept = Handover(None, lambda: now[0])
    body = note(3, [1, 2, 3])
    key = PART_KEY
    kept._hear(b"p", body)
    kept._hear(b"p", b"\xc1 nonsense")
    assert [each.offset for each in kept.take(key, 1)] == [1, 2, 3]
    assert not kept.take(key, 1)
    kept._hear(b"p", body)
    assert not kept.take(key, 2)  # of another generation
    kept._hear(b"p", body)
    now[0] = handover.KEEP_MS + 1
    assert not kept.take(key, 1)
    monkeypatch.setattr(handover, "MAX_KEPT", 4)
    kept._hear(b"p", body)
    kept._hear(b"p", body)
    assert len(kept.take(key, 1)) == 3
    assert kept._kept == 0


def test_the_word_of_the_last_owner_counts() -> None:
    now = [0]
    kept = Handover(None, lambda: now[0])
    kept._hear(b"p", note(3, [1, 2]))
    kept._hear(b"q", note(4, [2, 3]))
    kept._hear(b"p", note(3, [5]))  # late
    kept._hear(b"q", note(4, [4]))  # another part
    assert [each.offset for each in kept.take(PART_KEY, 1)] == [2, 3, 4]
    assert kept._kept == 0


def test_what_is_told_again_is_kept_as_long_as_what_is_new() -> None:
    now = [0]
    kept = Handover(None, lambda: now[0])
    kept._hear(b"p", note(3, [1]))
    now[0] = handover.KEEP_MS - 1
    kept._hear(b"q", note(4, [2]))
    now[0] = handover.KEEP_MS + 1
    assert [each.offset for each in kept.take(PART_KEY, 1)] == [2]


PART_KEY = handover.CursorKey(b"t" * 16, b"s" * 16, 0, 0)


def note(epoch_n: int, offsets: list[int]) -> bytes:
    """Return a note of leases under generation 1."""
    groups = [handover._Group(50, epoch_n, offsets)]
    return handover._encode(handover._Note(*PART_KEY, 1, Epoch(0, epoch_n), groups))


class Gate(asyncio.Event):
    """Flushes wait at it, and go through one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.came = 0
        self._through = asyncio.Semaphore(0)

    async def wait(self) -> Literal[True]:
        self.came += 1
        return await self._through.acquire()

    def let_one_through(self) -> None:
        self._through.release()
