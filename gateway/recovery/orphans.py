"""Queues whose topic Postgres does not know: kept, counted, shown, and adopted when asked.

Nothing deletes a queue for want of a row. The queues of an orphan tell all that is known of it: its
tenant and name (their `meta`), its partitions and priorities (their ids), and its messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import msgspec
import structlog
from prometheus_client import Gauge

from gateway.recovery.history import Found, Queues
from metadata.errors import MetadataError
from metadata.recovery import RecoveryRepository
from store_nodes.client import StoreClient
from store_nodes.errors import StoreError
from store_nodes.queue_id import QueueId

SURVEY_EVERY_S = 300.0
_log = structlog.get_logger("packetboat.recovery")
_ORPHANS = Gauge(
    "packetboat_store_orphaned_topics", "Topics of the store that Postgres does not know."
)


@dataclass(frozen=True, slots=True)
class Orphan:
    """A topic that only the store knows. `tenant_id` and `name` are of its queues' meta, empty
    where that is none of ours."""

    uid: bytes
    tenant_id: bytes
    name: str
    queues: Queues

    @property
    def deleting(self) -> bool:
        """Whether its deletion had begun: the rest is of no use to anyone."""
        return any(one.info.sealed and not one.info.successors for one in self.queues)

    @property
    def messages(self) -> int:
        return sum(one.info.end - one.info.first for one in self.queues)

    @property
    def staged(self) -> int:
        """Messages that are not due yet."""
        return sum(one.info.staged for one in self.queues)

    @property
    def stored_bytes(self) -> int:
        return sum(one.info.stored_bytes for one in self.queues)


async def find(store: StoreClient, rows: RecoveryRepository) -> list[Orphan]:
    """Return the orphans by name.

    The store is asked first: a topic that is created meanwhile has its row before its queues.
    """
    found: dict[bytes, list[Found]] = {}
    for group in store.groups:
        for info in await store.queues(group):
            queue = QueueId.unpack(info.queue)
            found.setdefault(queue.topic_uid, []).append(Found(group, queue, info))
    known = {topic.uid for topic in await rows.topics()}
    return sorted(_orphans(found.items(), known), key=lambda one: (one.tenant_id, one.name))


def _orphans(
    found: Iterable[tuple[bytes, list[Found]]], known: Collection[bytes]
) -> Iterable[Orphan]:
    for uid, queues in found:
        if uid not in known:
            tenant_id, name = _of_meta(queues[0].info.meta)
            yield Orphan(uid, tenant_id, name, Queues(queues))


def _of_meta(meta: bytes) -> tuple[bytes, str]:
    try:
        tenant_id, name = msgspec.msgpack.decode(meta, type=tuple[bytes, str])
    except msgspec.MsgspecError:
        return b"", ""
    return tenant_id, name


async def times(store: StoreClient, orphan: Orphan) -> tuple[int, int] | None:
    """Return the (first, last) publish time in µs; None if it has no messages."""
    filled = [one for one in orphan.queues if one.info.first < one.info.end]
    if not filled:
        return None
    firsts = await asyncio.gather(*(_time(store, one, one.info.first) for one in filled))
    lasts = await asyncio.gather(*(_time(store, one, one.info.end - 1) for one in filled))
    return min(firsts), max(lasts)


async def _time(store: StoreClient, found: Found, offset: int) -> int:
    fetched = await store.fetch(found.group, found.queue, offset, 1)
    return fetched.entries[0].log_time_us


async def survey(store: StoreClient, rows: RecoveryRepository) -> None:
    """Runs for the life of the process: the gauge, and a line for each that is new."""
    told: set[bytes] = set()
    while True:
        try:
            orphans = [one for one in await find(store, rows) if not one.deleting]
        except (StoreError, MetadataError) as error:
            _log.info("survey put off", error=str(error))
        else:
            _ORPHANS.set(len(orphans))
            for one in orphans:
                if one.uid not in told:
                    _log.warning(
                        "a topic of the store is not known to Postgres",
                        topic=one.name,
                        uid=one.uid.hex(),
                        messages=one.messages,
                    )
            told = {one.uid for one in orphans}
        await asyncio.sleep(SURVEY_EVERY_S)
