"""Reads of one replica: they return what it has applied, without asking any other node.

The log below the applied prefix never changes, so any replica may answer. One that is behind
answers with its own readable end, which is no error. A replica never skips data that it should have
and lacks (its index or its bytes are lost): it answers Unavailable, and the client asks another
one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from store_nodes.errors import QueueTruncated, Unavailable
from store_nodes.node.group import Group
from store_nodes.record_batch import BadBatch, peek
from store_nodes.transport.service import FetchedEntry, FetchResult, GroupSnapshot, StagedBatch
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.position import Position
from store_nodes.wire import QueueInfo, StagedInfo

ReadBatch = Callable[[Position], bytes]
"""Returns the bytes of a batch, not verified; raises WalDamaged if there are none."""
OnBadBatch = Callable[[Position], None]
"""Called with the position of a batch whose bytes fail their checks."""


class Lost(Exception):
    """This node does not have the bytes of a batch any more."""


def fetch(
    group: Group,
    read: ReadBatch,
    on_bad: OnBadBatch,
    queue: bytes,
    offset: int,
    max_bytes: int,
) -> FetchResult:
    """Return whole batches from the one with `offset` on.

    For a kept offset below the first one, only its batch is returned. Raises QueueNotFound,
    QueueTruncated, or Unavailable for batches that this node has lost.
    """
    offsets = group.machine.offsets(queue)
    if offset < offsets.first:
        if not group.machine.readable(queue, offset):
            raise QueueTruncated(offsets.first)
        max_bytes = 0
    elif offset >= offsets.end:
        return FetchResult((), offsets.first, offsets.end)
    located = group.batches.locate(queue, offset, max_bytes)
    if not located or located[0].base_offset > offset:
        upto = located[0].base_offset if located else offsets.end
        raise _lost(queue, "offsets", offset, upto)
    entries: list[FetchedEntry] = []
    for found in located:
        try:
            batch = _read(read, on_bad, found.position)
        except Lost:
            if entries:
                break
            upto = found.base_offset + found.messages
            raise _lost(queue, "offsets", found.base_offset, upto) from None
        entries.append(
            FetchedEntry(found.base_offset, found.log_time_us, batch, found.stage, found.indices)
        )
    return FetchResult(entries, offsets.first, offsets.end)


def fetch_staged(
    group: Group,
    read: ReadBatch,
    on_bad: OnBadBatch,
    queue: bytes,
    stage_number: int,
    max_bytes: int,
) -> list[StagedBatch]:
    """Return whole staged batches from the one with `stage_number` on.

    Each has a message that is staged or readable. Raises QueueNotFound, or Unavailable like
    `fetch`.
    """
    machine = group.machine
    machine.offsets(queue)
    found = group.batches.staged_batches(queue, stage_number, max_bytes)
    wanted = machine.batch_of_stage(queue, stage_number)
    if wanted is not None and (not found or found[0].base_offset > wanted[0]):
        raise _lost(queue, "stage numbers", wanted[0], wanted[0] + wanted[1])
    batches: list[StagedBatch] = []
    for row in found:
        if not machine.staged_live(queue, row.base_offset, row.messages):
            continue
        try:
            batch = _read(read, on_bad, row.position)
        except Lost:
            if batches:
                break
            upto = row.base_offset + row.messages
            raise _lost(queue, "stage numbers", row.base_offset, upto) from None
        batches.append(StagedBatch(row.base_offset, row.messages, row.log_time_us, batch))
    return batches


def _read(read: ReadBatch, on_bad: OnBadBatch, position: Position) -> bytes:
    """Return a batch whose own CRC was checked; raises Lost."""
    if not position.length:
        raise Lost
    try:
        batch = read(position)
        peek(batch)
    except (BadBatch, WalDamaged):
        on_bad(position)
        raise Lost from None
    return batch


def _lost(queue: bytes, what: str, first: int, upto: int) -> Unavailable:
    return Unavailable(f"{what} {first} to {upto - 1} of queue {queue.hex()} are lost on this node")


def offset_at(group: Group, queue: bytes, time_us: int) -> int:
    """Return the first offset not older than `time_us`, else the end.

    Raises QueueNotFound, and Unavailable if lost offsets before the found one may be not older.
    """
    offsets = group.machine.offsets(queue)
    found = group.batches.offset_at(queue, time_us)
    at = offsets.end if found is None else max(found, offsets.first)
    if at > offsets.first and group.batches.missing(queue, at - 1, at):
        raise _lost(queue, "offsets", *group.batches.missing(queue, offsets.first, at)[-1])
    return at


def offset_back(group: Group, queue: bytes, last_bytes: int) -> int:
    """Return the lowest offset from which at most `last_bytes` are stored; raises QueueNotFound."""
    offsets = group.machine.offsets(queue)
    return max(offsets.first, group.batches.offset_back(queue, offsets.end, last_bytes))


def staged(group: Group, queue: bytes, after: int, limit: int) -> tuple[list[StagedInfo], int]:
    """Return at most `limit` staged messages above `after`, and the count of changes that they
    cover.
    """
    changes = group.machine.offsets(queue).stage_changes
    rows = group.machine.staged(queue, after, limit)
    return [StagedInfo(*row) for row in rows], changes


def staged_changes(group: Group, queue: bytes, changes: int) -> tuple[list[StagedInfo] | None, int]:
    """Return the messages rescheduled since the count `changes` that are still staged, and the
    count now.

    Instead of the messages, None is returned if some are forgotten.
    """
    machine = group.machine
    numbers, now = machine.stage_changes_since(queue, changes)
    if numbers is None:
        return None, now
    found: list[StagedInfo] = []
    for number in dict.fromkeys(numbers):
        rows = machine.staged(queue, number - 1, 1)
        if rows and rows[0].stage_number == number:
            found.append(StagedInfo(*rows[0]))
    return found, now


def queues(group: Group, after: bytes, limit: int) -> Sequence[QueueInfo]:
    """Return at most `limit` queues with an id above `after`, in id order."""
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
            stored_bytes=group.batches.stored_bytes(info.queue),
            staged=info.staged,
        )
        for info in rows[:limit]
    ]


def snapshot(group: Group, least: int = 0) -> GroupSnapshot:
    """Return the present machine; raises Unavailable if it covers fewer than `least` instances.

    A node that installed such a machine would go back.
    """
    if group.machine.applied < least:
        raise Unavailable(f"this node is at instance {group.machine.applied}, not at {least}")
    return GroupSnapshot(
        group.machine.state_snapshot(), group.machine.applied, group.instances.oldest
    )


def group_status(group: Group) -> dict[str, object]:
    """Return the status of a group for people and dashboards."""
    replica, machine = group.replica, group.machine
    membership = machine.membership
    names = [info.queue for info in machine.queues()]
    return {
        "group": group.id,
        "leader": replica.leader,
        "voting": replica.voting,
        "slow": replica.slow,
        "preferred_leader": replica.preferred,
        "wished_leader": machine.preferred_leader,
        "membership": membership.version,
        "members": [
            {
                "node": member.node,
                "role": member.role,
                "address": member.address,
                "labels": member.labels,
            }
            for member in membership.members
        ],
        "removed": list(membership.removed),
        "chosen": replica.acceptor.chosen,
        "applied": machine.applied,
        "log_time_us": machine.log_time_us,
        "digest": machine.digest.hex(),
        "queues": len(names),
        "stored_bytes": sum(group.batches.stored_bytes(name) for name in names),
        "waiting": group.line.waiting,
    }
