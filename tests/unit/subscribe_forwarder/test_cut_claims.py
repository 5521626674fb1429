"""Claims that are cut while they are made: what Postgres says is ours is served, and soon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from metadata.errors import MetadataUnavailable
from metadata.types import Claim, Unit
from subscribe_forwarder.delivery.owner import Owner
from subscribe_forwarder.delivery.partitions import OwnedPartitions
from tests.unit.subscribe_forwarder.fleet_support import eventually
from tests.unit.subscribe_forwarder.linked_fleet import LinkedFleet, everything, linked
from tests.unit.subscribe_forwarder.subscribe_support import (
    TENANT,
    TOPIC_UID,
    World,
    subscription,
    topic,
)

KEYS = [Unit(TENANT, TOPIC_UID, number) for number in range(3)]
Opening = Callable[[OwnedPartitions, Claim], Awaitable[Owner | None]]


def before_opening(
    monkeypatch: pytest.MonkeyPatch, number: int, instead: Callable[[], Awaitable[None]]
) -> None:
    """Await `instead` once, before a partition of that number is opened."""
    opening: Opening = OwnedPartitions.open_partition
    done = False

    async def opened(partitions: OwnedPartitions, claim: Claim) -> Owner | None:
        nonlocal done
        if claim.key.partition == number and not done:
            done = True
            await instead()
        return await opening(partitions, claim)

    monkeypatch.setattr(OwnedPartitions, "open_partition", opened)


async def test_a_claim_that_postgres_cuts_short_leaves_no_subscription_unserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A caller that was refused before the owner was known finds the owner here later."""
    fleet = LinkedFleet(len(KEYS), subscription())
    metadata = fleet.metadata

    async def unavailable() -> None:
        raise MetadataUnavailable("killed")

    before_opening(monkeypatch, 2, unavailable)
    metadata.leases[b"dead"] = metadata.clock() + 1.0
    metadata.owners |= dict.fromkeys(KEYS, b"dead")
    adding = asyncio.create_task(fleet.add())
    try:
        await eventually(lambda: fleet.members and fleet.members[0].forwarder.holds_lease())
        assert (await fleet.members[0].pull()).status == 503
        w = await adding
        for key in KEYS:
            fleet.store.publish(b"x", partition=key.partition)
        await eventually(lambda: sorted(o.unit for o in w.forwarder.directory.mine()) == KEYS)
        answer = await w.ack(*await everything(w, len(KEYS)))
        assert (answer.status, answer.json()["acked"]) == (200, len(KEYS))
    finally:
        adding.cancel()
        await fleet.close()


async def of_a_new_topic(w: World) -> list[Unit]:
    """Units that nobody owns, and nobody has told of."""
    made = topic(2, "new", b"n" * 16)
    w.metadata.topics[made.uid] = made
    return [Unit(TENANT, made.uid, number) for number in range(2)]


async def test_a_claim_whose_caller_goes_away_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    async with linked(0, 0, 0) as fleet:
        (w,) = fleet.members
        units = await of_a_new_topic(w)
        opening = asyncio.Event()

        async def hang() -> None:
            opening.set()
            await asyncio.get_running_loop().create_future()

        before_opening(monkeypatch, 1, hang)
        caller = asyncio.create_task(w.forwarder.owners.claim(units))
        await opening.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert units[0] in {owned.unit for owned in w.forwarder.directory.mine()}
        await eventually(lambda: set(units) <= {o.unit for o in w.forwarder.directory.mine()})


async def test_a_claim_that_is_not_waited_for_is_known_to_have_been_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else Postgres says that they are ours, and nobody serves them nor may claim them."""
    async with linked(0, 0, 0) as fleet:
        (w,) = fleet.members
        units = await of_a_new_topic(w)
        claim, claimed = w.metadata.claim, asyncio.Event()

        async def unheard(*args: Any) -> None:
            await claim(*args)
            claimed.set()
            await asyncio.get_running_loop().create_future()

        with monkeypatch.context() as patched:
            patched.setattr(w.metadata, "claim", unheard)
            caller = asyncio.create_task(w.forwarder.owners.claim(units))
            await claimed.wait()
            caller.cancel()
            await asyncio.gather(caller, return_exceptions=True)
        assert w.metadata.owners[units[0]] == w.forwarder.incarnation
        await eventually(lambda: all(unit in w.forwarder.owners for unit in units))


async def test_what_comes_into_doubt_while_others_are_claimed_again_is_claimed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every ack of the unit was a 503, because it was frozen for as long as the lease was held."""
    async with linked(0, 0, 0) as fleet:
        (w,) = fleet.members
        owners = w.forwarder.owners
        gained = OwnedPartitions.partition_gained

        async def in_doubt(partitions: OwnedPartitions, owner: Owner) -> None:
            monkeypatch.undo()
            w.forwarder._freeze(KEYS[:1])
            await gained(partitions, owner)

        monkeypatch.setattr(OwnedPartitions, "partition_gained", in_doubt)
        owners.freeze(KEYS[:2])
        await owners.drop(KEYS[1])
        w.forwarder._fleet.claims.kick()
        await eventually(lambda: KEYS[1] in owners and not any(o.frozen for o in owners))


async def test_a_claim_that_is_cut_at_its_end_is_known_to_every_subscription(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Acks of gained partitions were misdirected for ever in a subscription that was served
    here in part.
    """
    async with linked(0, 0, 0) as fleet:
        (w,) = fleet.members
        w.metadata.leases[b"other"] = w.metadata.clock() + 1000
        for key in KEYS[1:]:
            w.metadata.owners[key] = b"other"
            await w.forwarder.owners.drop(key)
        hub = await w.forwarder.hub(TENANT, "reader", part=True)
        assert {place.partition for place in hub.readers} == {0}
        del w.metadata.leases[b"other"]
        gaining = asyncio.Event()

        async def hang(*_: object) -> None:
            monkeypatch.undo()
            gaining.set()
            await asyncio.get_running_loop().create_future()

        monkeypatch.setattr(OwnedPartitions, "partition_gained", hang)
        caller = asyncio.create_task(w.forwarder.owners.claim(KEYS))
        await gaining.wait()
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        hub = await w.forwarder.hub(TENANT, "reader", part=True)
        assert {place.partition for place in hub.readers} == {0, 1, 2}
