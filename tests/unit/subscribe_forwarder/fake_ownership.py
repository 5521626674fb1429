"""Assignments and leases in memory, with the cursors that a claim fences."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace

from metadata.delivery.leases import LEAVING, Lease
from metadata.errors import LeaseLost
from metadata.lease import MARGIN_S
from metadata.types import (
    WHOLE,
    Claim,
    CursorKey,
    CursorState,
    Epoch,
    Forwarder,
    Subscription,
    Topic,
    Unit,
)

TENANT = uuid.UUID(int=1).bytes


class FakeOwnership:
    """The part of the metadata store that says who owns what."""

    topics: dict[bytes, Topic]
    subscriptions: dict[str, Subscription]

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now_s = clock
        self.rows: dict[CursorKey, CursorState] = {}
        self.epochs: dict[Unit, int] = {}
        self.last_epoch = 0
        self.split_units: set[Unit] = set()
        self.owners: dict[Unit, bytes] = {}
        self.leases: dict[bytes, float] = {}
        self.lease_s = 100_000.0
        """Longer than tests let time leap; LEASE_S where the lease is what is tested."""
        self.forwarders: dict[bytes, Forwarder] = {}
        self.registered_s: dict[bytes, float] = {}
        self.loads: dict[bytes, bytes | None] = {}

    def _check(self) -> None:
        """Raises what the store is to fail with."""
        raise NotImplementedError

    def _live(self, incarnation: bytes) -> bool:
        return self.leases.get(incarnation, 0.0) > self.now_s()

    def partition_row(self, key: Unit) -> bool:
        """Return whether a unit of that name exists."""
        topic_ = self.topics.get(key.topic_uid)
        if topic_ is None or not 0 <= key.partition < topic_.partition_count:
            return False
        return key.subscription_uid == WHOLE or key in self.split_units

    def _fence(self, key: Unit) -> tuple[CursorState, ...]:
        """Return the rows of a unit, under its new epoch."""
        self.last_epoch = 1 + max([self.last_epoch, *self.epochs.values()])
        fenced = []
        for cursor, row in self.rows.items():
            mine = key._replace(subscription_uid=cursor.subscription_uid)
            if (row.topic_uid, cursor.partition) != (key.topic_uid, key.partition):
                continue
            if key in (mine, mine.base) and (key == mine or mine not in self.split_units):
                self.rows[cursor] = replace(row, epoch=Epoch(0, self.last_epoch))
                fenced.append(self.rows[cursor])
        return tuple(fenced)

    def taken(self, key: Unit) -> None:
        """Somebody else has claimed it."""
        self._fence(key)
        self.epochs[key] = self.last_epoch

    async def claim(self, incarnation: bytes, keys: Iterable[Unit]) -> dict[Unit, Claim]:
        await asyncio.sleep(0)
        self._check()
        if not self._live(incarnation):
            raise LeaseLost
        claims = {}
        for key in keys:
            owner = self.owners.get(key)
            if not self.partition_row(key):
                continue
            if owner is not None and owner != incarnation and self._live(owner):
                continue
            previous = Epoch(0, self.epochs.get(key, 0))
            rows = self._fence(key)
            self.owners[key], self.epochs[key] = incarnation, self.last_epoch
            split_off = frozenset(
                u.subscription_uid for u in self.split_units if u.base == key and u != key
            )
            claims[key] = Claim(key, Epoch(0, self.last_epoch), rows, previous, split_off)
        return claims

    async def claimable(self, incarnation: bytes) -> list[Unit]:
        self._check()
        wholes = {
            Unit(TENANT, topic.uid, partition.number)
            for topic in self.topics.values()
            for partition in topic.partitions
        }
        return [
            unit
            for unit in sorted(wholes | self.split_units)
            if (owner := self.owners.get(unit)) is None
            or (owner != incarnation and not self._live(owner))
        ]

    async def split(self, incarnation: bytes, unit: Unit) -> bool:
        await asyncio.sleep(0)
        self._check()
        if self.owners.get(unit.base) != incarnation:
            return False
        if unit.subscription_uid not in {one.uid for one in self.subscriptions.values()}:
            return False
        if unit not in self.split_units:
            self.split_units.add(unit)
            self._fence(unit)
            self.epochs[unit] = self.last_epoch
        return True

    async def merge(self, incarnation: bytes, unit: Unit) -> tuple[CursorState, ...] | None:
        await asyncio.sleep(0)
        self._check()
        owner = self.owners.get(unit)
        if self.owners.get(unit.base) != incarnation:
            return None
        if owner is not None and owner != incarnation and self._live(owner):
            return None
        self.split_units.discard(unit)
        self.owners.pop(unit, None)
        self.epochs.pop(unit, None)
        return self._fence(unit)

    async def register(
        self, incarnation: bytes, *, role: str, address: str = "", weight: float = 1.0
    ) -> Lease:
        self._check()
        now = self.now_s()
        self.forwarders[incarnation] = Forwarder(incarnation, role, address, 0.0, weight)
        self.registered_s[incarnation] = now
        return self._granted(incarnation, now)

    async def renew(
        self, incarnation: bytes, *, role: str = "subscribe", load: bytes | None = None
    ) -> Lease:
        self._check()
        now = self.now_s()
        if not self._live(incarnation):
            raise LeaseLost
        self.loads[incarnation] = load
        return self._granted(incarnation, now)

    def _granted(self, incarnation: bytes, now: float) -> Lease:
        self.leases[incarnation] = now + self.lease_s
        live = [
            replace(
                self.forwarders.get(one) or Forwarder(one, "subscribe", "", 0.0),
                remaining_s=until - now,
                age_s=now - self.registered_s.get(one, now - 60.0),
            )
            for one, until in self.leases.items()
            if until > now
        ]
        return Lease(incarnation, now + self.lease_s - MARGIN_S, tuple(live))

    async def release(self, incarnation: bytes, keys: Iterable[Unit] | None = None) -> int:
        """Release these units of the forwarder; without `keys`, release all of them and the
        lease.
        """
        self._check()
        if keys is None:
            self.leases.pop(incarnation, None)
        released = set(self.owners if keys is None else keys)
        for key in released:
            if self.owners.get(key) == incarnation:
                del self.owners[key]
        return len(released)

    async def leave(self, incarnation: bytes) -> None:
        self._check()
        one = self.forwarders[incarnation]
        self.forwarders[incarnation] = replace(one, role=one.role + LEAVING)
        self.owners = {k: o for k, o in self.owners.items() if o != incarnation}
