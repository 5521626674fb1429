"""Answers clients of a node from its groups.

There are two kinds of read. The batches of a queue never change, so any replica returns those that
it has applied (`fetch`, `fetch_staged`), without asking any other node. One that is behind answers
with its own readable end, which is no error. Callers base decisions on all other reads. So a leader
answers those, after a majority has confirmed it since the call came in, and after it has applied
everything that was chosen by then; other nodes raise NotLeader. Calls that come during such a
quorum round share the next one.

A replica never skips data that it should have and lacks (its index or its bytes are lost): it
answers Unavailable, and the client asks another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from peering.rpc.frames import Buffer
from store_nodes.errors import QueueTruncated, StoreError, Unavailable
from store_nodes.node.group import Group
from store_nodes.node.requests import CommandReply
from store_nodes.node.watches import Watch, Watches, WatchSink
from store_nodes.record_batch import BadBatch, peek
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.position import Position
from store_nodes.wire import (
    Durability,
    LeaderView,
    NodeView,
    QueueInfo,
    QueueOffsets,
    StagedInfo,
)

ReadBatch = Callable[[Position], bytes]
"""Returns the bytes of a batch, not verified; raises WalDamaged if there are none."""
OnBadBatch = Callable[[Position], None]
"""Called with the position of a batch that a client was told of, and whose bytes fail their checks
or are gone."""


@dataclass(frozen=True, slots=True)
class FetchedEntry:
    """One whole stored batch; `stage` is None for appended messages, `indices` None for all."""

    base_offset: int
    log_time_us: int
    batch: Buffer
    stage: int | None = None
    indices: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class FetchResult:
    """Entries in offset order; none if this replica has nothing at or after the offset yet."""

    entries: Sequence[FetchedEntry]
    first_offset: int
    readable_end: int


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """One whole staged batch: stage numbers `base_stage` … `base_stage + messages - 1`."""

    base_stage: int
    messages: int
    log_time_us: int
    batch: Buffer


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A machine as bytes (machine/snapshot.py).

    `applied` is the number of instances it covers, `oldest` the first instance that this node can
    still send by itself.
    """

    raw: bytes
    applied: int
    oldest: int


class ClientService:
    """Answers clients from the state that the groups have applied, and passes commands to them.

    It is called on the event loop only. Each call raises StoreError: Unavailable for a group that
    this node does not serve, QueueNotFound for a queue that the group does not have.
    """

    def __init__(
        self,
        groups: Mapping[int, Group],
        summary: Callable[[], Mapping[str, object]],
        read_batch: ReadBatch,
        on_bad_batch: OnBadBatch,
    ) -> None:
        """Prepare the service; `groups` may grow later, and `summary` is the node's status."""
        self.watches = Watches(self._offsets_or_none)
        self._groups = groups
        self._summary = summary
        self._read_batch = read_batch
        self._on_bad_batch = on_bad_batch

    def group(self, group: int) -> Group:
        """Return a group of this node; raise Unavailable if it is not here."""
        found = self._groups.get(group)
        if found is None:
            raise Unavailable(f"no group {group}")
        return found

    def leaders(self) -> Sequence[LeaderView]:
        """Return this node's knowledge of every group, for each welcome and pong; it is cheap."""
        return [group.view() for group in self._groups.values()]

    def nodes(self) -> Sequence[NodeView]:
        """Return the members of all groups, as this node has applied them, for each welcome.

        For each node, those of the latest membership count.
        """
        latest: dict[int, tuple[int, NodeView]] = {}
        for group in self._groups.values():
            membership = group.machine.membership
            for member in membership.members:
                known = latest.get(member.node)
                if known is None or known[0] < membership.version:
                    view = NodeView(member.node, member.address, member.labels)
                    latest[member.node] = membership.version, view
        return [view for _, (_, view) in sorted(latest.items())]

    async def status(self, *, groups: bool = True) -> Mapping[str, object]:
        """Return the status for people and dashboards, in values that MessagePack has."""
        if not groups:
            return self._summary()
        return {
            **self._summary(),
            "groups": [_group_status(group) for group in self._groups.values()],
        }

    def command(
        self,
        group: int,
        raw: bytes,
        durability: Durability,
        timeout_ms: int,
        reply: CommandReply,
    ) -> None:
        """Pass one whole command to its group; after `timeout_ms` nobody waits for the answer.

        Commands are the most frequent requests, so they have no task and no future: this returns at
        once, and `reply` is called from any later callback on the loop. Bytes that are no command
        get an answer, not an exception, which would end the connection.
        """
        try:
            found = self.group(group)
        except StoreError as error:
            reply.failed(error, decided=False)
            return
        found.command(raw, durability, timeout_ms, reply)

    def watch(self, group: int, sink: WatchSink) -> Watch:
        """Open a stream of queue changes.

        When the leadership is lost later, the watch falls silent: the client follows the leader.
        """
        self.group(group)
        return self.watches.open(group, sink)

    # -- batches: any replica ------------------------------------------------------------------

    async def fetch(self, group: int, queue: bytes, offset: int, max_bytes: int) -> FetchResult:
        """Return whole stored batches, from the one with `offset` on; at least one if there is any.

        For a kept offset below the first one, only its batch is returned. Raises QueueTruncated,
        and Unavailable for batches that this node has lost.
        """
        found = self.group(group)
        offsets = found.machine.offsets(queue)
        if offset < offsets.first:
            if not found.machine.readable(queue, offset):
                raise QueueTruncated(offsets.first)
            max_bytes = 0
        elif offset >= offsets.end:
            return FetchResult((), offsets.first, offsets.end)
        located = found.batches.locate(queue, offset, max_bytes)
        if not located or located[0].base_offset > offset:
            upto = located[0].base_offset if located else offsets.end
            raise _lost(queue, "offsets", offset, upto)
        entries: list[FetchedEntry] = []
        for row in located:
            batch = self._batch(row.position)
            if batch is None:
                if entries:
                    break
                raise _lost(queue, "offsets", row.base_offset, row.base_offset + row.messages)
            entries.append(
                FetchedEntry(row.base_offset, row.log_time_us, batch, row.stage, row.indices)
            )
        return FetchResult(entries, offsets.first, offsets.end)

    async def fetch_staged(
        self, group: int, queue: bytes, stage_number: int, max_bytes: int
    ) -> Sequence[StagedBatch]:
        """Return whole staged batches from the one with `stage_number` on.

        Each has a message that is staged or readable. Raises Unavailable like `fetch`.
        """
        found = self.group(group)
        machine = found.machine
        machine.offsets(queue)
        rows = found.batches.staged_batches(queue, stage_number, max_bytes)
        wanted = machine.batch_of_stage(queue, stage_number)
        if wanted is not None and (not rows or rows[0].base_offset > wanted[0]):
            raise _lost(queue, "stage numbers", wanted[0], wanted[0] + wanted[1])
        batches: list[StagedBatch] = []
        for row in rows:
            if not machine.staged_live(queue, row.base_offset, row.messages):
                continue
            batch = self._batch(row.position)
            if batch is None:
                if batches:
                    break
                upto = row.base_offset + row.messages
                raise _lost(queue, "stage numbers", row.base_offset, upto)
            batches.append(StagedBatch(row.base_offset, row.messages, row.log_time_us, batch))
        return batches

    def _batch(self, position: Position) -> bytes | None:
        """Return a batch after a check of its CRC; None if this node has lost its bytes."""
        if not position.length:
            return None
        try:
            batch = self._read_batch(position)
            peek(batch)
        except (BadBatch, WalDamaged):
            self._on_bad_batch(position)
            return None
        return batch

    # -- decisions: a confirmed leader ---------------------------------------------------------

    async def _confirmed(self, group: int) -> Group:
        """Return the group once a majority has confirmed that this node leads it; raise NotLeader.

        A node that was replaced as leader, or has not applied the values that it recovered, is
        behind.
        """
        found = self.group(group)
        await found.read_index()
        return found

    async def offsets(self, group: int, queue: bytes, *, confirm: bool) -> tuple[QueueOffsets, int]:
        """Return the offsets of a queue, and the log time of the last entry applied.

        Without `confirm`, any replica answers.
        """
        found = await self._confirmed(group) if confirm else self.group(group)
        return found.offsets(queue), found.machine.log_time_us

    async def offset_at(self, group: int, queue: bytes, time_us: int) -> int:
        """Return the first offset with a log time at or after `time_us`, else the end.

        Raises Unavailable if lost offsets before the found one may be not older.
        """
        found = await self._confirmed(group)
        offsets, batches = found.machine.offsets(queue), found.batches
        dated = batches.offset_at(queue, time_us)
        at = offsets.end if dated is None else max(dated, offsets.first)
        if at > offsets.first and batches.missing(queue, at - 1, at):
            raise _lost(queue, "offsets", *batches.missing(queue, offsets.first, at)[-1])
        return at

    async def offset_back(self, group: int, queue: bytes, last_bytes: int) -> int:
        """Return the lowest offset from which at most `last_bytes` are stored."""
        found = await self._confirmed(group)
        offsets = found.machine.offsets(queue)
        return max(offsets.first, found.batches.offset_back(queue, offsets.end, last_bytes))

    async def staged(
        self, group: int, queue: bytes, after: int, limit: int
    ) -> tuple[Sequence[StagedInfo], int]:
        """Return at most `limit` staged messages above `after`, and the count of changes that they
        cover.
        """
        machine = (await self._confirmed(group)).machine
        changes = machine.offsets(queue).stage_changes
        rows = machine.staged(queue, after, limit)
        return [StagedInfo(*row) for row in rows], changes

    async def staged_changes(
        self, group: int, queue: bytes, changes: int
    ) -> tuple[Sequence[StagedInfo] | None, int]:
        """Return the messages rescheduled since the count `changes` that are still staged, and the
        count now.

        Instead of the messages, None is returned if some are forgotten.
        """
        machine = (await self._confirmed(group)).machine
        numbers, now = machine.stage_changes_since(queue, changes)
        if numbers is None:
            return None, now
        found: list[StagedInfo] = []
        for number in dict.fromkeys(numbers):
            rows = machine.staged(queue, number - 1, 1)
            if rows and rows[0].stage_number == number:
                found.append(StagedInfo(*rows[0]))
        return found, now

    async def locate(self, group: int, queue: bytes, stage_number: int) -> tuple[str, int | None]:
        """Return the (state, offset) of wire.LocationIs."""
        return (await self._confirmed(group)).machine.locate(queue, stage_number)

    async def queues(self, group: int, after: bytes, limit: int) -> Sequence[QueueInfo]:
        """Return at most `limit` queues with an id above `after`, in id order."""
        found = await self._confirmed(group)
        rows = sorted(info for info in found.machine.queues() if info.queue > after)
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
                stored_bytes=found.batches.stored_bytes(info.queue),
                staged=info.staged,
            )
            for info in rows[:limit]
        ]

    async def snapshot(self, group: int, least: int = 0, *, confirm: bool) -> GroupSnapshot:
        """Return the present machine of a group; without `confirm`, any replica's.

        Raises Unavailable if it covers fewer than `least` instances: a node that installed such a
        machine would go back.
        """
        found = await self._confirmed(group) if confirm else self.group(group)
        machine = found.machine
        if machine.applied < least:
            raise Unavailable(f"this node is at instance {machine.applied}, not at {least}")
        return GroupSnapshot(machine.state_snapshot(), machine.applied, found.instances.oldest)

    # -- help ----------------------------------------------------------------------------------

    def _offsets_or_none(self, group: int, queue: bytes) -> QueueOffsets | None:
        """Return the applied offsets of a queue, or None if the group or queue is not here."""
        try:
            return self.group(group).offsets(queue)
        except StoreError:
            return None


def _lost(queue: bytes, what: str, first: int, upto: int) -> Unavailable:
    return Unavailable(f"{what} {first} to {upto - 1} of queue {queue.hex()} are lost on this node")


def _group_status(group: Group) -> dict[str, object]:
    """Return the status of a group for people and dashboards."""
    replica, machine = group.replica, group.machine
    membership = machine.membership
    names = [info.queue for info in machine.queues()]
    return {
        "group": group.id,
        "leader": replica.state.leader,
        "voting": replica.state.voting,
        "slow": replica.state.slow,
        "preferred_leader": replica.state.preferred,
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
        "chosen": replica.state.acceptor.chosen,
        "applied": machine.applied,
        "log_time_us": machine.log_time_us,
        "digest": machine.digest.hex(),
        "queues": len(names),
        "stored_bytes": sum(group.batches.stored_bytes(name) for name in names),
        "waiting": group.line.waiting,
    }
