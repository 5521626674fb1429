"""The `NodeService` of the transport: a node's answers to clients, over its groups."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from store_nodes.errors import StoreError
from store_nodes.node import reads
from store_nodes.node.group import Group
from store_nodes.node.watches import Watches
from store_nodes.transport.service import (
    CommandReply,
    FetchResult,
    GroupSnapshot,
    StagedBatch,
    WatchHandle,
    WatchSink,
)
from store_nodes.wal.position import Position
from store_nodes.wire import (
    Durability,
    LeaderView,
    NodeView,
    QueueInfo,
    QueueOffsets,
    StagedInfo,
)


class ClientService(ABC):
    """Answers clients from the state that this node has applied, and passes commands to the groups.

    The node itself is a subclass and says which groups it serves.

    There are two kinds of read. The batches of a queue never change, so any replica returns them
    (`fetch`, `fetch_staged`). Callers base decisions on all other reads. So a leader answers those,
    after a majority has confirmed it since the call came in, and after it has applied everything
    that was chosen by then.
    """

    def __init__(self) -> None:
        self.watches = Watches(self._offsets_or_none)

    @abstractmethod
    def group(self, group: int) -> Group:
        """Return a group; raises Unavailable if this node does not serve it."""

    @abstractmethod
    def groups(self) -> Iterable[Group]:
        """Return the groups that this node serves."""

    @abstractmethod
    def read_batch(self, position: Position) -> bytes:
        """Return the bytes of a batch, not verified; raises WalDamaged if there are none."""

    @abstractmethod
    def bad_batch(self, position: Position) -> None:
        """Note that a client was told of a batch whose bytes fail their checks, or are gone."""

    @abstractmethod
    async def status(self, *, groups: bool = True) -> Mapping[str, object]:
        """Return the status for people and dashboards, in values that MessagePack has."""

    def leaders(self) -> Sequence[LeaderView]:
        return [group.view() for group in self.groups()]

    def nodes(self) -> Sequence[NodeView]:
        """Return the members of the groups; for each node, those of the latest membership count."""
        latest: dict[int, tuple[int, NodeView]] = {}
        for group in self.groups():
            membership = group.machine.membership
            for member in membership.members:
                known = latest.get(member.node)
                if known is None or known[0] < membership.version:
                    view = NodeView(member.node, member.address, member.labels)
                    latest[member.node] = membership.version, view
        return [view for _, (_, view) in sorted(latest.items())]

    def command(
        self,
        group: int,
        raw: bytes,
        durability: Durability,
        timeout_ms: int,
        reply: CommandReply,
    ) -> None:
        try:
            found = self.group(group)
        except StoreError as error:
            reply.failed(error, decided=False)
            return
        found.command(raw, durability, timeout_ms, reply)

    async def fetch(self, group: int, queue: bytes, offset: int, max_bytes: int) -> FetchResult:
        found = self.group(group)
        return reads.fetch(found, self.read_batch, self.bad_batch, queue, offset, max_bytes)

    async def fetch_staged(
        self, group: int, queue: bytes, stage_number: int, max_bytes: int
    ) -> Sequence[StagedBatch]:
        found = self.group(group)
        return reads.fetch_staged(
            found, self.read_batch, self.bad_batch, queue, stage_number, max_bytes
        )

    async def offsets(self, group: int, queue: bytes, *, confirm: bool) -> tuple[QueueOffsets, int]:
        found = await self._confirmed(group) if confirm else self.group(group)
        return found.offsets(queue), found.machine.log_time_us

    async def offset_at(self, group: int, queue: bytes, time_us: int) -> int:
        return reads.offset_at(await self._confirmed(group), queue, time_us)

    async def offset_back(self, group: int, queue: bytes, last_bytes: int) -> int:
        return reads.offset_back(await self._confirmed(group), queue, last_bytes)

    async def staged(
        self, group: int, queue: bytes, after: int, limit: int
    ) -> tuple[Sequence[StagedInfo], int]:
        return reads.staged(await self._confirmed(group), queue, after, limit)

    async def staged_changes(
        self, group: int, queue: bytes, changes: int
    ) -> tuple[Sequence[StagedInfo] | None, int]:
        return reads.staged_changes(await self._confirmed(group), queue, changes)

    async def locate(self, group: int, queue: bytes, stage_number: int) -> tuple[str, int | None]:
        return (await self._confirmed(group)).machine.locate(queue, stage_number)

    async def queues(self, group: int, after: bytes, limit: int) -> Sequence[QueueInfo]:
        return reads.queues(await self._confirmed(group), after, limit)

    async def snapshot(self, group: int, least: int = 0, *, confirm: bool) -> GroupSnapshot:
        found = await self._confirmed(group) if confirm else self.group(group)
        return reads.snapshot(found, least)

    def watch(self, group: int, sink: WatchSink) -> WatchHandle:
        self.group(group)
        return self.watches.open(group, sink)

    async def _confirmed(self, group: int) -> Group:
        """Return the group once a majority has confirmed that this node leads it; raises NotLeader.

        A node that was replaced as leader, or has not applied the values that it recovered, is
        behind.
        """
        found = self.group(group)
        await found.read_index()
        return found

    def _offsets_or_none(self, group: int, queue: bytes) -> QueueOffsets | None:
        try:
            return self.group(group).offsets(queue)
        except StoreError:
            return None
