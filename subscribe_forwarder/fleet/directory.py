"""Keeps the directory: the units that are owned here, and those that peers have announced.

Pure but for its waits. The owner with the higher epoch is right, whatever came first. A
peer's announcements end with the link over which they came. Whether a subscription is split off a
partition, the partition's owner says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from metadata.types import WHOLE, Epoch, Subscription, Unit
from subscribe_forwarder.delivery.ownership import Owned
from subscribe_forwarder.fleet.announcement import Announcement

MAX_FOUND = 100_000
"""Answers kept; more are found anew."""


class OwnedElsewhere(NamedTuple):
    """Some partitions of a subscription, at one forwarder."""

    forwarder: bytes
    """The incarnation of the forwarder."""
    partitions: tuple[int, ...]


class UnitLocations(NamedTuple):
    """The places where the partitions of a subscription are served now."""

    here: tuple[int, ...]
    """Owned by this process."""
    elsewhere: tuple[OwnedElsewhere, ...]
    nowhere: tuple[int, ...]
    """The partitions between two owners, or of one without a link to us: soon somewhere."""
    version: int
    """The version of the knowledge; another one means that it may have changed."""

    @property
    def all_here(self) -> bool:
        return not self.elsewhere and not self.nowhere


class _Entry(NamedTuple):
    owner: bytes
    epoch: Epoch
    split_off: frozenset[bytes]


class _Found(NamedTuple):
    partitions: tuple[int, ...]
    where: UnitLocations


class _Topic:
    """The knowledge of one topic, and the event for those that wait for it to change."""

    __slots__ = ("changed", "entries", "version")

    def __init__(self) -> None:
        self.entries: dict[Unit, _Entry] = {}
        self.version = 0
        self.changed: asyncio.Event | None = None


class OwnerDirectory:
    """The units that this process owns and that its peers have announced; one per process."""

    def __init__(self) -> None:
        self._me = b""
        self._topics: dict[bytes, _Topic] = {}
        self._found: dict[bytes, _Found] = {}
        self._units: dict[bytes, set[Unit]] = {}

    # Calls that tell it something.

    def began(self, incarnation: bytes) -> None:
        """We own what we do under another lease from now on."""
        before, self._me = self._me, incarnation
        for unit in list(self._units.get(before, ())):
            topic = self._topics[unit.topic_uid]
            self._put(unit, topic.entries[unit]._replace(owner=incarnation))

    def own(self, owned: Owned) -> None:
        """We own it, or it is another's no more than we say."""
        self._put(owned.unit, _Entry(self._me, owned.epoch, owned.split_off))

    def disown(self, unit: Unit) -> None:
        """Note that the unit is ours no more."""
        self._drop(unit, self._me)

    def hear(self, peer: bytes, told: Announcement) -> None:
        """Take an announcement, in the order in which the peer told it."""
        if told.full:
            named = {one.unit for one in told.owned}
            for unit in self._units.get(peer, set()) - named:
                self._drop(unit, peer)
        for unit in told.released:
            self._drop(unit, peer)
        for one in told.owned:
            known = self._entry(one.unit)
            if known is None or known.epoch < one.epoch or known.owner == peer:
                self._put(one.unit, _Entry(peer, one.epoch, one.split_off))

    def lose(self, peer: bytes) -> None:
        """Forget what the peer announced: its link has ended."""
        for unit in list(self._units.get(peer, ())):
            self._drop(unit, peer)

    # Questions to it.

    def find(self, subscription: Subscription, partitions: Sequence[int]) -> UnitLocations:
        topic = self._topics.get(subscription.topic_uid)
        version = 0 if topic is None else topic.version
        known = self._found.get(subscription.uid)
        wanted = tuple(partitions)
        if known is not None and known.where.version == version and known.partitions == wanted:
            return known.where
        where = self._find(topic, subscription, wanted, version)
        if len(self._found) >= MAX_FOUND:
            self._found.clear()
        self._found[subscription.uid] = _Found(wanted, where)
        return where

    async def changed(self, subscription: Subscription, version: int) -> None:
        topic = self._topics.setdefault(subscription.topic_uid, _Topic())
        if topic.version != version:
            return
        if topic.changed is None:
            topic.changed = asyncio.Event()
        await topic.changed.wait()

    def owners(self) -> Mapping[bytes, int]:
        return {owner: len(units) for owner, units in self._units.items() if units}

    def owner_of(self, unit: Unit) -> bytes | None:
        """Return the forwarder that announced the unit last."""
        entry = self._entry(unit)
        return None if entry is None else entry.owner

    def mine(self) -> list[Owned]:
        """Return all that we own, as it is announced."""
        found = []
        for unit in sorted(self._units.get(self._me, ())):
            entry = self._topics[unit.topic_uid].entries[unit]
            found.append(Owned(unit, entry.epoch, entry.split_off))
        return found

    def forget_topic(self, topic_uid: bytes) -> None:
        """Forget a deleted topic; callers that wait for it find that out."""
        topic = self._topics.get(topic_uid)
        for unit, entry in list(topic.entries.items()) if topic is not None else ():
            self._drop(unit, entry.owner)

    # Within.

    def _find(
        self,
        topic: _Topic | None,
        subscription: Subscription,
        partitions: Iterable[int],
        version: int,
    ) -> UnitLocations:
        here: list[int] = []
        nowhere: list[int] = []
        elsewhere: dict[bytes, list[int]] = {}
        for number in partitions:
            unit = Unit(subscription.tenant_id, subscription.topic_uid, number)
            entry = None if topic is None else _serving(topic, unit, subscription.uid)
            if entry is None:
                nowhere.append(number)
            elif entry.owner == self._me:
                here.append(number)
            else:
                elsewhere.setdefault(entry.owner, []).append(number)
        places = tuple(OwnedElsewhere(owner, tuple(those)) for owner, those in elsewhere.items())
        return UnitLocations(tuple(here), places, tuple(nowhere), version)

    def _entry(self, unit: Unit) -> _Entry | None:
        topic = self._topics.get(unit.topic_uid)
        return None if topic is None else topic.entries.get(unit)

    def _put(self, unit: Unit, entry: _Entry) -> None:
        topic = self._topics.setdefault(unit.topic_uid, _Topic())
        known = topic.entries.get(unit)
        if known == entry:
            return
        if known is not None:
            self._let_go(unit, known.owner)
        topic.entries[unit] = entry
        self._units.setdefault(entry.owner, set()).add(unit)
        self._changed(topic)

    def _drop(self, unit: Unit, owner: bytes) -> None:
        topic = self._topics.get(unit.topic_uid)
        known = None if topic is None else topic.entries.get(unit)
        if topic is None or known is None or known.owner != owner:
            return
        del topic.entries[unit]
        self._let_go(unit, owner)
        self._changed(topic)

    def _let_go(self, unit: Unit, owner: bytes) -> None:
        units = self._units[owner]
        units.discard(unit)
        if not units:
            del self._units[owner]

    def _changed(self, topic: _Topic) -> None:
        topic.version += 1
        if topic.changed is not None:
            topic.changed.set()
            topic.changed = None


def _serving(topic: _Topic, unit: Unit, subscription_uid: bytes) -> _Entry | None:
    """Return the entry that serves the subscription there.

    It is the entry of the partition's owner, unless that says that the subscription is split off or
    no owner is known.
    """
    whole = topic.entries.get(unit)
    if whole is not None and subscription_uid not in whole.split_off:
        return whole
    assert unit.subscription_uid == WHOLE
    return topic.entries.get(unit._replace(subscription_uid=subscription_uid))
