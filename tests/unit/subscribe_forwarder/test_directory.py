"""The directory: what peers announce, in whatever order it comes."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from metadata.types import Epoch, Unit
from subscribe_forwarder.delivery.ownership import Owned
from subscribe_forwarder.fleet.announcement import (
    MAX_UNITS,
    Announcement,
    announcements,
    decode,
)
from subscribe_forwarder.fleet.directory import OwnedElsewhere, OwnerDirectory, UnitLocations
from tests.unit.subscribe_forwarder.subscribe_support import (
    SUBSCRIPTION_UID,
    TENANT,
    TOPIC_UID,
    subscription,
)

ME, ONE, TWO = b"m" * 16, b"1" * 16, b"2" * 16
READER = subscription()
OTHER = replace(READER, uid=b"o" * 16, name="other")


def unit(partition: int = 0, subscription_uid: bytes = bytes(16)) -> Unit:
    return Unit(TENANT, TOPIC_UID, partition, subscription_uid)


def directory() -> OwnerDirectory:
    made = OwnerDirectory()
    made.began(ME)
    return made


def owned(n: int, partition: int = 0, *split_off: bytes, part_of: bytes = bytes(16)) -> Owned:
    return Owned(unit(partition, part_of), Epoch(0, n), frozenset(split_off))


def where(known: OwnerDirectory, count: int = 1) -> UnitLocations:
    return known.find(READER, range(count))


def test_here_elsewhere_and_nowhere() -> None:
    known = directory()
    known.own(owned(1))
    known.hear(ONE, Announcement(owned=(owned(2, 1), owned(3, 3))))
    found = where(known, 5)
    assert found[:3] == ((0,), (OwnedElsewhere(ONE, (1, 3)),), (2, 4))
    assert not found.all_here
    assert where(known, 1).all_here
    assert known.owners() == {ME: 1, ONE: 2}


def test_the_higher_epoch_is_right_whatever_came_first() -> None:
    for order in ((ONE, TWO), (TWO, ONE)):
        known = directory()
        for peer in order:
            known.hear(peer, Announcement(owned=(owned(5 if peer == TWO else 4),)))
        known.hear(ONE, Announcement(released=(unit(),)))
        assert where(known).elsewhere == (OwnedElsewhere(TWO, (0,)),)


def test_a_claim_of_ours_is_taken_over_by_a_later_one_only() -> None:
    known = directory()
    known.own(owned(5))
    known.hear(ONE, Announcement(owned=(owned(4),)))
    assert where(known).all_here
    known.hear(ONE, Announcement(owned=(owned(6),)))
    assert where(known).elsewhere == (OwnedElsewhere(ONE, (0,)),)
    known.disown(unit())
    assert where(known).elsewhere == (OwnedElsewhere(ONE, (0,)),)


def test_what_a_peer_announced_dies_with_its_link() -> None:
    known = directory()
    known.hear(ONE, Announcement(owned=(owned(1), owned(2, 1))))
    known.lose(ONE)
    assert where(known, 2).nowhere == (0, 1)
    assert known.owners() == {}


def test_a_full_announcement_replaces_what_came_before() -> None:
    known = directory()
    known.hear(ONE, Announcement(owned=(owned(1), owned(2, 1))))
    known.hear(ONE, Announcement(full=True, owned=(owned(2, 1),)))
    assert where(known, 2)[1:3] == ((OwnedElsewhere(ONE, (1,)),), (0,))


def test_what_is_split_off_is_where_it_says_and_nowhere_until_then() -> None:
    known = directory()
    known.own(owned(1, 0, SUBSCRIPTION_UID))
    assert where(known).nowhere == (0,)
    assert known.find(OTHER, [0]).all_here
    known.hear(ONE, Announcement(owned=(owned(2, part_of=SUBSCRIPTION_UID),)))
    assert where(known).elsewhere == (OwnedElsewhere(ONE, (0,)),)
    known.own(owned(1, 0))
    assert where(known).all_here, "the partition's owner says what is split off it"


def test_a_new_lease_of_ours_keeps_what_we_own() -> None:
    known = directory()
    known.own(owned(1))
    known.began(b"n" * 16)
    assert where(known).all_here
    assert known.owners() == {b"n" * 16: 1}


async def test_a_wait_ends_with_a_change_of_its_topic_only() -> None:
    known = directory()
    version = where(known).version
    waiting = asyncio.create_task(known.changed(READER, version))
    elsewhere = Unit(TENANT, b"x" * 16, 0)
    known.own(Owned(elsewhere, Epoch(0, 1)))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    known.own(owned(1))
    await asyncio.wait_for(waiting, 1)
    await asyncio.wait_for(known.changed(READER, version), 1)
    again = asyncio.create_task(known.changed(READER, where(known).version))
    known.own(owned(1))
    await asyncio.sleep(0.01)
    assert not again.done(), "nothing is new"
    again.cancel()


def test_announcements_as_bytes() -> None:
    many = [owned(n, n, b"s" * 16) for n in range(MAX_UNITS + 1)]
    told = [decode(body) for body in announcements(many, full=True)]
    assert [one.full for one in told] == [True, False]
    assert [each for one in told for each in one.owned] == many
    (released,) = [decode(body) for body in announcements(released=[unit(3)])]
    assert released == Announcement(released=(unit(3),))
    (nothing,) = [decode(body) for body in announcements(full=True)]
    assert nothing == Announcement(full=True)
    assert list(announcements()) == []
