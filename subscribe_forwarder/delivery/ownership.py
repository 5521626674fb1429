"""The partitions this process owns: claimed under its lease, frozen while that is in doubt.

A partition is claimed when first used, when its last owner let it go or died, and again after a
flush that may or may not have happened: the claim fences whatever is still under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from edge.problem import unavailable
from metadata.leases import Lease
from metadata.types import Claim, PartitionKey
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.owner import Owner
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.ports import Assignments

CLAIM_AT_ONCE = 500


class Partitions(Protocol):
    """What is done with partitions as they come and go."""

    async def open_partition(self, claim: Claim) -> Owner | None:
        """A new one; None where its topic is gone."""
        ...

    async def close_partition(self, owner: Owner) -> None:
        """It is ours no more, and its readers are dropped."""
        ...

    def partition_adopted(self, owner: Owner) -> None:
        """It goes on under a new epoch."""
        ...

    def dropped(self, reader: Reader) -> None:
        """Its partition or its cursor is ours no more."""
        ...


class Ownership:
    """One per process. `lease` is the present one, whatever our clock says; `require_lease` raises
    a 503 Problem where there is none by our clock."""

    def __init__(
        self,
        assignments: Assignments,
        partitions: Partitions,
        lease: Callable[[], Lease | None],
        require_lease: Callable[[], None],
    ) -> None:
        self._assignments = assignments
        self._partitions = partitions
        self._lease = lease
        self._require_lease = require_lease
        self._owners: dict[PartitionKey, Owner] = {}
        self._claiming = asyncio.Lock()
        self._again: set[PartitionKey] = set()

    def __iter__(self) -> Iterator[Owner]:
        return iter(list(self._owners.values()))

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._owners

    def get(self, key: PartitionKey) -> Owner | None:
        return self._owners.get(key)

    def of_topic(self, topic_uid: bytes) -> list[Owner]:
        return [owner for key, owner in self._owners.items() if key.topic_uid == topic_uid]

    def readers(self) -> Iterator[Reader]:
        """Of all partitions."""
        for owner in self:
            yield from owner.readers()

    async def owner(self, key: PartitionKey) -> Owner:
        """Claims the partition if need be; a 503 Problem when it is another's."""
        if key not in self._owners:
            await self.claim([key])
        owner = self._owners.get(key)
        if owner is None:
            raise unavailable(
                "subscription", "Another forwarder owns a partition of this topic; ask again."
            )
        return owner

    async def claim(self, keys: Iterable[PartitionKey]) -> None:
        """Claims them and takes over what was granted; drops what was not."""
        async with self._claiming:
            lease = self._lease()
            if lease is None:
                self._require_lease()
                return
            wanted = [k for k in keys if k not in self._owners or self._owners[k].frozen]
            for at in range(0, len(wanted), CLAIM_AT_ONCE):
                part = wanted[at : at + CLAIM_AT_ONCE]
                claims = await self._assignments.claim(lease.incarnation, part)
                for key in part:
                    claim = claims.get(key)
                    if claim is None:
                        await self.drop(key)
                    else:
                        await self._take_over(claim)
        metrics.owned.set(len(self._owners))

    async def claim_new(self, incarnation: bytes) -> None:
        """All that nobody has."""
        await self.claim(await self._assignments.claimable(incarnation))

    async def claim_again(self) -> None:
        """Those that are frozen."""
        if self._again:
            keys = list(self._again)
            await self.claim(keys)
            self._again.difference_update(keys)

    def freeze(self, keys: Iterable[PartitionKey] | None = None) -> None:
        """Their ownership, or that of all, is in doubt until `claim_again`."""
        for key in list(self._owners) if keys is None else keys:
            owner = self._owners.get(key)
            if owner is not None:
                owner.freeze()
                self._again.add(key)

    async def drop(self, key: PartitionKey) -> None:
        """It is another's, or gone."""
        owner = self._owners.pop(key, None)
        if owner is None:
            return
        owner.freeze()
        for reader in owner.readers():
            self._partitions.dropped(reader)
        await self._partitions.close_partition(owner)
        metrics.owned.set(len(self._owners))

    def clear(self) -> None:
        self._owners.clear()

    async def _take_over(self, claim: Claim) -> None:
        owner = self._owners.get(claim.key)
        if owner is None:
            owner = await self._partitions.open_partition(claim)
            if owner is not None:
                self._owners[claim.key] = owner
            return
        owner.adopt(claim, self._partitions.dropped)
        self._partitions.partition_adopted(owner)
