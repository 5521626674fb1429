"""The queues in the store: the answer of each group's leader, the last one while there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import structlog

from metadata.topics.retention import Generation, LaneKey
from scheduler import metrics
from store_nodes.client import QueueInfo, StoreClient
from store_nodes.errors import StoreError
from store_nodes.queue_id import pack_queue_id

_log = structlog.get_logger("packetboat.scheduler")


class Sizes:
    """The sizes of queues, read again by `measure`; `fresh` has the groups that answered last
    time.
    """

    def __init__(self, store: StoreClient, timeout_s: float) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._groups: dict[int, dict[bytes, QueueInfo]] = {}
        self.fresh: set[int] = set()

    async def measure(self) -> None:
        """Ask every group; one without a leader keeps its last answer."""
        groups = self._store.groups
        answers = await asyncio.gather(*(self._ask(group) for group in groups))
        self.fresh = {group for group, there in zip(groups, answers, strict=True) if there}

    async def _ask(self, group: int) -> bool:
        try:
            infos = await self._store.queues(group, timeout_s=self._timeout_s)
        except StoreError as error:
            metrics.failures.labels("sizes").inc()
            _log.debug("a group has no leader to ask", group=group, error=str(error))
            return False
        self._groups[group] = {info.queue: info for info in infos}
        return True

    def of(self, key: LaneKey, generation: Generation) -> QueueInfo | None:
        """Return a queue; None if it isn't known: not made yet, deleted, or its group never
        answered.
        """
        infos = self._groups.get(generation.group)
        if infos is None:
            return None
        return infos.get(pack_queue_id(key.topic_uid, key.partition, key.lane, generation.number))

    def led_to(self) -> set[bytes]:
        """Return the queues that staged messages of sealed queues go to, or through.

        Each of them knows which copies it has and where the others are.
        """
        infos = {raw: info for group in self._groups.values() for raw, info in group.items()}
        open_infos = [info for info in infos.values() if info.sealed and info.staged]
        found: set[bytes] = set()
        while open_infos:
            for _, raw in open_infos.pop().successors:
                if raw not in found:
                    found.add(raw)
                    open_infos += [infos[raw]] if raw in infos else []
        return found

    def totals(
        self, lanes: Mapping[LaneKey, Iterable[Generation]]
    ) -> dict[tuple[bytes, bytes], tuple[int, int]]:
        """Return the (stored bytes, staged messages) by (tenant, topic)."""
        totals: dict[tuple[bytes, bytes], tuple[int, int]] = {}
        for key, generations in lanes.items():
            stored, staged = totals.setdefault((key.tenant_id, key.topic_uid), (0, 0))
            for generation in generations:
                info = self.of(key, generation)
                if info is not None and (info.stored_bytes or info.staged):
                    stored += info.stored_bytes
                    staged += info.staged
                    totals[key.tenant_id, key.topic_uid] = (stored, staged)
        return totals


def by_tenant(totals: Mapping[tuple[bytes, bytes], tuple[int, int]]) -> dict[bytes, int]:
    """Return the stored bytes by tenant."""
    stored_of: dict[bytes, int] = {}
    for (tenant_id, _), (stored, _) in totals.items():
        stored_of[tenant_id] = stored_of.get(tenant_id, 0) + stored
    return stored_of
