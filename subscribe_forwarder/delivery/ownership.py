"""Keeps the units of this process: claimed under its lease, frozen while that is in doubt.

A unit is claimed when it is wanted here and nobody owns it, and again after a flush that may or may
not have happened: the claim fences whatever is still under way. It is given away in this order: its
deliveries stop, the changes of its acks are flushed, it is forgotten here, and only then released,
so that the next owner finds all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from edge.problem import Problem
from metadata.delivery.assignments import AssignmentRepository
from metadata.delivery.leases import Lease
from metadata.errors import MetadataError
from metadata.types import Claim, Epoch, Unit
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.flush import Commit
from subscribe_forwarder.delivery.owner import Owner
from subscribe_forwarder.delivery.reader import Reader

if TYPE_CHECKING:
    from subscribe_forwarder.delivery.partitions import OwnedPartitions

CLAIM_AT_ONCE = 500
MAX_FLUSHES = 4
"""The limit of flushes while a unit is given away.

If it is acked all the time, the last acks are not answered, and pass on as unacked.
"""
_T = TypeVar("_T")


class Owned(NamedTuple):
    """A unit, the epoch of its claim, and the subscriptions that are split off it."""

    unit: Unit
    epoch: Epoch
    split_off: frozenset[bytes] = frozenset()


class OwnershipListener(Protocol):
    """Hears of the units that are owned here."""

    def own(self, owned: Sequence[Owned]) -> None: ...
    def disown(self, units: Sequence[Unit]) -> None:
        """Note units that are not ours any more; nobody else can have them yet."""
        ...

    def released(self, units: Sequence[Unit]) -> None:
        """Note units that any forwarder may claim now."""
        ...


class Ownership:
    """Claims, keeps and releases the units of one process. `lease` is the present one, whatever our
    clock says; `require_lease` raises a 503 Problem where there is none by our clock; `flush`
    returns once what these readers hold is committed, or raises a Problem.
    """

    def __init__(
        self,
        assignments: AssignmentRepository,
        partitions: OwnedPartitions,
        told: OwnershipListener,
        lease: Callable[[], Lease | None],
        require_lease: Callable[[], None],
        flush: Commit,
    ) -> None:
        self._assignments = assignments
        self._partitions = partitions
        self._told = told
        self._lease = lease
        self._require_lease = require_lease
        self._flush = flush
        self._owners: dict[Unit, Owner] = {}
        self._of_base: dict[Unit, set[Unit]] = {}
        self._changing = asyncio.Lock()
        self._again: set[Unit] = set()
        """Units whose claim is in doubt or under way."""
        self._unreleased: set[Unit] = set()
        self.version = 0
        """Another one means that something came, went, or was split."""

    def __iter__(self) -> Iterator[Owner]:
        return iter(list(self._owners.values()))

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, key: Unit) -> bool:
        return key in self._owners

    def get(self, key: Unit) -> Owner | None:
        return self._owners.get(key)

    def serving(self, base: Unit, subscription_uid: bytes) -> Owner | None:
        """Return the owner that serves the subscription in this partition here."""
        part = self._owners.get(base._replace(subscription_uid=subscription_uid))
        if part is not None:
            return part
        whole = self._owners.get(base)
        return None if whole is None or subscription_uid in whole.split_off else whole

    def of_partition(self, base: Unit) -> list[Owner]:
        """Return the owned unit of a whole partition, or the owned parts of it."""
        return [self._owners[unit] for unit in self._of_base.get(base, ())]

    def parts_of(self, subscription_uid: bytes) -> list[Unit]:
        """Return the units split off for the subscription that are ours."""
        return [unit for unit in self._owners if unit.subscription_uid == subscription_uid]

    def of_topic(self, topic_uid: bytes) -> list[Owner]:
        return [owner for key, owner in self._owners.items() if key.topic_uid == topic_uid]

    def split_off(self) -> dict[Unit, frozenset[bytes]]:
        """Return our units with the subscriptions that are split off each, without units in
        doubt.
        """
        return {key: owner.split_off for key, owner in self._owners.items() if not owner.frozen}

    def readers(self) -> Iterator[Reader]:
        """Iterate over the readers of all units."""
        for owner in self:
            yield from owner.readers()

    def has(self, reader: Reader) -> bool:
        """Return whether the reader is of one of our units, and was not dropped meanwhile."""
        owner = self._owners.get(reader.partition)
        return owner is not None and owner.has(reader)

    async def claim(self, keys: Iterable[Unit]) -> None:
        """Claims them and takes over what was granted; drops what was not. Where that fails or is
        cancelled, what was taken over by then is ours like any, and `claim_again` does the rest."""
        gained: list[Owner] = []
        try:
            async with self._changing:
                lease = self._lease()
                if lease is None:
                    self._require_lease()
                    return
                wanted = [k for k in keys if k not in self._owners or self._owners[k].frozen]
                for at in range(0, len(wanted), CLAIM_AT_ONCE):
                    part = wanted[at : at + CLAIM_AT_ONCE]
                    # Ours by Postgres, perhaps, from now on: then nobody else lists them as free.
                    self._again.update(part)
                    claims = await self._assignments.claim(lease.incarnation, part)
                    await self._take_over(part, claims, gained)
        finally:
            metrics.owned.set(len(self._owners))
            for owner in gained:
                await self._partitions.partition_gained(owner)

    async def claim_again(self) -> None:
        """Claim frozen units again, and units of interrupted claims."""
        if self._again:
            await self.claim(list(self._again))

    def freeze(self, keys: Iterable[Unit] | None = None) -> None:
        """Put the ownership of these units, or of all, in doubt until `claim_again`."""
        for key in list(self._owners) if keys is None else keys:
            owner = self._owners.get(key)
            if owner is not None:
                owner.freeze()
                self._again.add(key)

    async def drop(self, key: Unit) -> None:
        """Forget a unit that is another's, or gone."""
        owner = self._forget(key)
        if owner is not None:
            await self._partitions.close_partition(owner)
            metrics.owned.set(len(self._owners))

    async def give(self, units: Iterable[Unit]) -> list[Unit]:
        """Stops handing out, flushes and forgets; those of them that can be released now. Those
        that could not be flushed go on here."""
        given = await self._let_go([o for unit in units if (o := self._owners.get(unit))])
        for owner in given:
            await self._partitions.close_partition(owner)
        metrics.owned.set(len(self._owners))
        return [owner.key for owner in given]

    def tell_leases(self) -> None:
        """Report the leases of units that could not be given away because they are in doubt."""
        self._partitions.handing_over(
            list(self.readers()), [key for owner in self for key in owner.unread()]
        )

    async def release(self, units: Iterable[Unit] = ()) -> None:
        """Give away these units, and those that could not be released before.

        Raises MetadataError; the next call tries again.
        """
        async with self._changing:
            self._unreleased.update(units)
            self._unreleased.difference_update(self._owners)
            lease = self._lease()
            if not self._unreleased or lease is None:
                return
            released = sorted(self._unreleased)
            await self._assignments.release(lease.incarnation, released)
            self._unreleased.difference_update(released)
            self._told.released(released)

    async def split(self, unit: Unit) -> bool:
        """Makes a part of a partition of ours a unit of its own, which is nobody's then; False
        where it cannot be one."""
        async with self._changing:
            owner, lease = self._owners.get(unit.base), self._lease()
            if owner is None or owner.frozen or lease is None:
                return True
            uid = unit.subscription_uid
            readers = [r for r in owner.readers() if r.cursor.key.subscription_uid == uid]
            if not await self._flushed(owner, readers):
                return True
            unread = [key for key in owner.unread() if key.subscription_uid == uid]
            self._partitions.handing_over(readers, unread)
            owner.split(uid)
            self._drop_readers(readers)
            self._changed(owner)
            made = self._assignments.split(lease.incarnation, unit)
            if not await self._or_claim_again(owner, made):
                return False
        self._told.released([unit])
        return True

    async def merge(self, unit: Unit) -> None:
        """Merge units that are split off our partition and owned by nobody back into it."""
        async with self._changing:
            owner, lease = self._owners.get(unit.base), self._lease()
            if owner is None or owner.frozen or lease is None:
                return
            rows = await self._or_claim_again(
                owner, self._assignments.merge(lease.incarnation, unit)
            )
            if rows is None:
                return
            owner.merge(unit.subscription_uid, rows)
            self._changed(owner)
        await self._partitions.partition_gained(owner)

    def clear(self) -> None:
        self._owners.clear()
        self._of_base.clear()

    async def _take_over(
        self, keys: Sequence[Unit], claims: dict[Unit, Claim], gained: list[Owner]
    ) -> None:
        """Open claimed units, and add new ones to `gained`.

        Units that were taken over are announced, also if the next one fails.
        """
        taken: list[Owner] = []
        try:
            for key in keys:
                claim, owner = claims.get(key), self._owners.get(key)
                if claim is None:
                    await self.drop(key)
                elif owner is not None:
                    owner.adopt(claim, self._partitions.hubs.dropped)
                    self._partitions.partition_adopted(owner)
                    taken.append(owner)
                elif (owner := await self._open(claim)) is not None:
                    taken.append(owner)
                    gained.append(owner)
                self._again.discard(key)
        finally:
            self._changed(*taken)

    async def _open(self, claim: Claim) -> Owner | None:
        owner = await self._partitions.open_partition(claim)
        if owner is None:
            self._unreleased.add(claim.key)
            return None
        self._owners[claim.key] = owner
        self._of_base.setdefault(claim.key.base, set()).add(claim.key)
        self._unreleased.discard(claim.key)
        return owner

    def _changed(self, *owners: Owner) -> None:
        self.version += 1
        self._told.own([Owned(o.key, o.epoch, o.split_off) for o in owners])

    def _forget(self, key: Unit) -> Owner | None:
        """Forget a unit, drop its readers and return its owner."""
        owner = self._owners.pop(key, None)
        if owner is None:
            return None
        units = self._of_base[key.base]
        units.discard(key)
        if not units:
            del self._of_base[key.base]
        self.version += 1
        owner.freeze()
        self._told.disown([key])
        self._drop_readers(owner.readers())
        return owner

    def _drop_readers(self, readers: Iterable[Reader]) -> None:
        dropped = list(readers)
        for reader in dropped:
            self._partitions.hubs.dropped(reader)
        self._partitions.hubs.lost(dropped)

    async def _let_go(self, owners: Sequence[Owner]) -> list[Owner]:
        """Return the owners that were flushed, and are forgotten by now."""
        going = [owner for owner in owners if not owner.frozen]
        for owner in going:
            owner.leaving = True
        try:
            await self._flush_all(going)
            whole = [o for o in going if not o.frozen and self._owners.get(o.key) is o]
            self._partitions.handing_over(
                [reader for owner in whole for reader in owner.readers()],
                [key for owner in whole for key in owner.unread()],
            )
        except (Problem, MetadataError):
            return []
        finally:
            for owner in going:
                owner.leaving = False
        for owner in whole:
            self._forget(owner.key)
        return whole

    async def _flush_all(self, owners: Iterable[Owner]) -> None:
        """Flush everything that they hold, acks that come meanwhile included."""
        for _ in range(MAX_FLUSHES):
            dirty = [r for o in owners for r in o.readers() if r.cursor.dirty and not r.frozen]
            if not dirty:
                return
            await self._flush(dirty)

    async def _flushed(self, owner: Owner, readers: Sequence[Reader]) -> bool:
        """Return whether everything in these readers is committed, while nothing is delivered."""
        for reader in readers:
            reader.leaving = True
        try:
            for _ in range(MAX_FLUSHES):
                await self._flush([r for r in readers if r.cursor.dirty and not r.frozen])
        except Problem:
            pass
        finally:
            for reader in readers:
                reader.leaving = False
        return not owner.frozen and not any(reader.cursor.dirty for reader in readers)

    async def _or_claim_again(self, owner: Owner, done: Awaitable[_T]) -> _T:
        """Where that fails, or says no, only a claim tells what belongs to the partition."""
        try:
            result = await done
        except BaseException:
            self.freeze([owner.key])
            raise
        if result is False or result is None:
            self.freeze([owner.key])
        return result
