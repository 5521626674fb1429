"""Reads of one replica: what it has applied, without asking anyone.

The log below the applied prefix never changes, so any replica may answer; one that is behind
answers with its own readable end, which is no error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from store_nodes.errors import QueueTruncated
from store_nodes.group import Group
from store_nodes.transport.service import FetchedEntry, FetchResult
from store_nodes.wal.position import Position
from store_nodes.wire import QueueInfo


def fetch(
    group: Group, read: Callable[[Position], bytes], queue: bytes, offset: int, max_bytes: int
) -> FetchResult:
    """Whole batches from the one that holds `offset` on; raises QueueNotFound, QueueTruncated.

    Of a kept offset below the first one, its batch alone.
    """
    offsets = group.machine.offsets(queue)
    if offset < offsets.first:
        if not group.machine.readable(queue, offset):
            raise QueueTruncated(offsets.first)
        max_bytes = 0
    entries = [
        FetchedEntry(entry.base_offset, entry.log_time_us, read(entry.position))
        for entry in group.batches.locate(queue, offset, max_bytes)
    ]
    return FetchResult(entries, offsets.first, offsets.end)


def offset_at(group: Group, queue: bytes, time_us: int) -> int:
    """The first offset not older than `time_us`, else the end; raises QueueNotFound."""
    offsets = group.machine.offsets(queue)
    found = group.batches.offset_at(queue, time_us)
    return offsets.end if found is None else max(found, offsets.first)


def queues(group: Group, after: bytes, limit: int) -> Sequence[QueueInfo]:
    """At most `limit` queues with an id above `after`, in id order."""
    rows = sorted(info for info in group.machine.queues() if info.queue > after)
    return [
        QueueInfo(
            queue=info.queue,
            base=info.base,
            first=info.offsets.first,
            end=info.offsets.end,
            sealed=info.offsets.sealed,
            meta=info.meta,
            successors=info.offsets.successors,
            stage_end=info.offsets.stage_end,
        )
        for info in rows[:limit]
    ]


def group_status(group: Group) -> dict[str, object]:
    """For people and dashboards."""
    replica = group.replica
    return {
        "group": group.id,
        "leader": replica.leader,
        "chosen": replica.acceptor.chosen,
        "applied": group.machine.applied,
        "log_time_us": group.machine.log_time_us,
        "digest": group.machine.digest.hex(),
        "queues": len(group.machine.queues()),
        "waiting": group.line.waiting,
    }
