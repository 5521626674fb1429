"""Makes the row of an orphaned topic again: its uid, partitions and generations, from its queues.

The things that only Postgres knew are gone: subscriptions, retention, schema, labels.
"""

from __future__ import annotations

import time

from gateway.recovery.history import Queues, begun_with, first_offset
from gateway.recovery.orphans import Orphan, times
from gateway.recovery.rebuild import Report, replay
from metadata.recovery import RecoveryRepository
from metadata.tenancy.tenants import TenantRepository
from metadata.topics.placements import LaneOf, PlacementRepository
from metadata.types import Partition, Retention, Topic, TopicSpec
from store_nodes.client import StoreClient

DEFAULT_AGE_S = 7 * 24 * 3600
"""Seconds for which a topic is kept whose retention is not known: an adopted one is not
trimmed at once.
"""


class NotAdoptable(Exception):
    """The text says why."""


class Adoption:
    """An adoption that an operator asks for. It can be interrupted and asked again."""

    def __init__(
        self,
        store: StoreClient,
        rows: RecoveryRepository,
        placements: PlacementRepository,
        tenants: TenantRepository,
    ) -> None:
        self._store = store
        self._rows = rows
        self._placements = placements
        self._tenants = tenants

    async def adopt(self, orphan: Orphan, name: str) -> Topic:
        """Return the topic, active under that name. NotAdoptable; Conflict if the name is taken."""
        if not orphan.tenant_id:
            raise NotAdoptable("its queues do not say whose it is")
        if orphan.deleting:
            raise NotAdoptable("its deletion had begun")
        oldest = begun_with(orphan.queues)
        if not oldest:
            raise NotAdoptable("its first queue is missing")
        await self._tenants.ensure(orphan.tenant_id, f"adopted-{orphan.tenant_id.hex()}")
        spec = TopicSpec(
            name,
            retention=Retention(seconds=await self._age_s(orphan)),
            priorities=orphan.queues.lanes,
        )
        parts = [
            Partition(
                one.queue.partition,
                one.group,
                one.queue.lane,
                one.queue.generation,
                one.info.base,
            )
            for one in oldest
        ]
        trimmed_to = _trimmed(orphan.queues, parts)
        topic = await self._rows.adopt(orphan.tenant_id, orphan.uid, spec, parts, trimmed_to)
        return await replay(topic, orphan.queues, self._placements, self._store, Report())

    async def _age_s(self, orphan: Orphan) -> int | None:
        """Return the retention, or None for the default; old messages are kept for another week."""
        found = await times(self._store, orphan)
        if found is None:
            return None
        age_s = int(time.time() - found[0] / 1e6)
        return None if age_s < DEFAULT_AGE_S // 2 else age_s + DEFAULT_AGE_S


def _trimmed(queues: Queues, parts: list[Partition]) -> dict[LaneOf, int]:
    """Return the starts of the adopted generations; the truncator raises those of later ones."""
    places = {(part.number, part.lane): part for part in parts}
    found = {}
    for place, part in places.items():
        own = queues.of(part)
        assert own is not None
        found[place] = min(first_offset(queues.chain(*place)), own.info.end)
    return found
