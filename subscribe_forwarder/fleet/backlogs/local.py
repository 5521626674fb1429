"""The backlogs of what this forwarder owns, counted when asked for: from the readers that are open,
else from the rows that came with the claim and the end of the tail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from metadata.delivery.cursors import CursorRepository
from metadata.types import Unit
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.owner import Owner
from subscribe_forwarder.fleet.backlogs.part import Share, Wanted

REFRESH_S = 0.5
"""Seconds between two questions to the store for the ends of partitions."""


class Seen(NamedTuple):
    """The present counts of one subscription here."""

    shares: tuple[Share, ...] = ()
    waiting: int = 0
    streams: int = 0
    delivered: int = 0
    """The messages delivered since its hub was opened."""
    paused: str | None = None
    missing: tuple[Unit, ...] = ()
    """Owned here and not counted: the subscription was made, or moved, since, or nobody has said
    yet where the partition ends."""


class Holdings:
    """The holdings of a SubscribeForwarder."""

    def __init__(
        self,
        owner_of: Callable[[Unit], Owner | None],
        hub_of: Callable[[bytes], Hub | None],
        cursors: CursorRepository,
    ) -> None:
        self._owner_of = owner_of
        self._hub_of = hub_of
        self._cursors = cursors

    def see(self, wanted: Wanted) -> Seen:
        """Return the present counts of a subscription; never waits."""
        shares: list[Share] = []
        missing: list[Unit] = []
        uid = wanted.subscription_uid
        for partition, owner in self._owners(wanted):
            counted = owner.backlog_of(uid)
            if counted is None:
                missing.append(owner.key)
            else:
                shares.append(Share(partition, *counted))
        hub = self._hub_of(uid)
        if hub is None:
            return Seen(tuple(shares), missing=tuple(missing))
        return Seen(
            tuple(shares),
            hub.waiting_pulls,
            len(hub.streams),
            hub.delivered,
            hub.paused_reason(),
            tuple(missing),
        )

    async def load(self, wanted: Sequence[Wanted]) -> set[bytes]:
        """Read what `see` calls missing; return the subscriptions of which cursors were found.

        Raises MetadataError.
        """
        missing = {one.subscription_uid: self.see(one).missing for one in wanted}
        owners = {
            unit: owner
            for units in missing.values()
            for unit in units
            if (owner := self._owner_of(unit)) is not None
        }
        await self._find_ends(owners.values())
        unknown = {
            unit
            for uid, units in missing.items()
            for unit in units
            if unit in owners and not owners[unit].knows(uid)
        }
        rows = await self._cursors.load(unknown) if unknown else []
        for unit in unknown:
            place = unit.topic_uid, unit.partition
            owners[unit].add_rows(r for r in rows if (r.topic_uid, r.key.partition) == place)
        found = {row.key.subscription_uid for row in rows}
        return found & missing.keys()

    @staticmethod
    async def _find_ends(owners: Iterable[Owner]) -> None:
        """Find the ends of partitions that are not known yet."""
        tails = [tail for owner in owners for tail in owner.tails.values() if tail.end is None]
        with suppress(TimeoutError):
            async with asyncio.timeout(REFRESH_S):
                await asyncio.gather(*(tail.refresh() for tail in tails))

    def _owners(self, wanted: Wanted) -> list[tuple[int, Owner]]:
        """Return the owners with their partitions; a subscription's split-off part counts
        by itself.
        """
        owned = []
        for partition in range(wanted.partitions):
            base = Unit(wanted.tenant_id, wanted.topic_uid, partition)
            split = base._replace(subscription_uid=wanted.subscription_uid)
            owner = self._owner_of(split) or self._owner_of(base)
            if owner is not None and wanted.subscription_uid not in owner.split_off:
                owned.append((partition, owner))
        return owned
