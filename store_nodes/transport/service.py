"""What the transport asks of a store node, and how the node answers.

The transport owns sockets, frames, the handshake and flow control; the node behind it owns
everything else and never sees a frame. `NodeService` is called on the event loop only.

A command is the hot path, so it has no task and no future: `command` returns at once and the node
answers through the `CommandReply` it was given, from any later callback on the loop. Replies of
one loop iteration leave in one write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from peering.rpc.frames import Buffer
from store_nodes.errors import StoreError
from store_nodes.wire import (
    Durability,
    LeaderView,
    NodeView,
    QueueInfo,
    QueueOffsets,
    StagedInfo,
)

WatchSink = Callable[[Sequence[QueueOffsets]], None]
"""Takes changed queues, each with its latest state. Never blocks and never fails; what a slow
client has not read yet is coalesced to the latest per queue, so a node may call it freely."""


@dataclass(frozen=True, slots=True)
class FetchedEntry:
    """One whole stored batch. `stage` is None for appended messages, `indices` None for all."""

    base_offset: int
    log_time_us: int
    batch: Buffer
    stage: int | None = None
    indices: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class FetchResult:
    """Entries in offset order; none where this replica has nothing at or after the offset yet."""

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
    """A machine as bytes (machine/snapshot.py). `applied`: the instances it covers; `oldest`: the
    first instance this node can still send by itself."""

    raw: bytes
    applied: int
    oldest: int


class CommandReply(Protocol):
    """Answers one command. `accepted` may be called once, before the final answer; exactly one of
    the others is the final answer. Calling it after the client has gone does nothing."""

    def accepted(self) -> None:
        """Early answer, for durability LEADER (synced here) and NONE (proposed)."""

    def appended(
        self, base_offset: int, count: int, log_time_us: int, *, duplicate: bool = False
    ) -> None:
        """An append took effect."""

    def released(self, offsets: tuple[int | None, ...], log_time_us: int) -> None:
        """A release took effect; `offsets`: see wire.Released."""

    def finished(self, value: int, log_time_us: int) -> None:
        """Another command took effect; `value`: see wire.Finished."""

    def failed(self, error: StoreError, *, decided: bool) -> None:
        """`decided`: the log decided it (a machine's Refused), for every transmission of the
        command. Not decided: refused here and never proposed, such as NotLeader and Overloaded.
        A command that was proposed and then lost track of is `OutcomeUnknown`, not decided."""


class WatchHandle(Protocol):
    """One open watch. For each queue added, the sink soon gets its present state."""

    def add(self, queue: bytes) -> None:
        """Watch one more queue; one that does not exist (yet) is reported once it does."""

    def remove(self, queue: bytes) -> None:
        """Stop watching it."""

    def close(self) -> None:
        """The sink is not called again."""


class NodeService(Protocol):
    """A store node, as the server of its clients sees it. The async calls raise StoreError.

    *Confirmed* calls are answered only as the leader, after a quorum round that began after the
    call: NotLeader otherwise. Calls that come during a round share the next one.
    """

    def leaders(self) -> Sequence[LeaderView]:
        """What this node knows of every group, cheaply: sent in each welcome and pong. On each
        change call `StoreServer.announce` too."""

    def nodes(self) -> Sequence[NodeView]:
        """The members of all groups, as this node has applied them: sent in each welcome. On each
        change call `StoreServer.announce` too."""

    def command(
        self,
        group: int,
        raw: bytes,
        durability: Durability,
        timeout_ms: int,
        reply: CommandReply,
    ) -> None:
        """Propose one whole command; after `timeout_ms` nobody waits for the answer. Bytes that
        are no command are answered, not raised: an exception here ends the connection."""

    async def fetch(self, group: int, queue: bytes, offset: int, max_bytes: int) -> FetchResult:
        """Whole stored batches from the one holding `offset` on; at least one if there is any."""

    async def offsets(self, group: int, queue: bytes, *, confirm: bool) -> tuple[QueueOffsets, int]:
        """(offsets, log time of the last entry applied); with `confirm`, only as the leader, after
        a quorum round begun after the call."""

    async def offset_at(self, group: int, queue: bytes, time_us: int) -> int:
        """The first offset with a log time at or after `time_us`, else the end; confirmed."""

    async def offset_back(self, group: int, queue: bytes, last_bytes: int) -> int:
        """The lowest offset from which on at most `last_bytes` are stored; confirmed."""

    async def staged(
        self, group: int, queue: bytes, after: int, limit: int
    ) -> tuple[Sequence[StagedInfo], int]:
        """(at most `limit` staged messages above `after`, the count of changes they cover);
        confirmed."""

    async def staged_changes(
        self, group: int, queue: bytes, changes: int
    ) -> tuple[Sequence[StagedInfo] | None, int]:
        """(those rescheduled since the count `changes` and still staged, the count now); None
        where some of them are forgotten. Confirmed."""

    async def locate(self, group: int, queue: bytes, stage_number: int) -> tuple[str, int | None]:
        """(state, offset): see wire.LocationIs; confirmed."""

    async def fetch_staged(
        self, group: int, queue: bytes, stage_number: int, max_bytes: int
    ) -> Sequence[StagedBatch]:
        """Whole staged batches from the one holding `stage_number` on."""

    async def snapshot(self, group: int, least: int = 0, *, confirm: bool) -> GroupSnapshot:
        """Return the machine of the group as it is now; with `confirm`, a confirmed leader's.
        Unavailable where it covers fewer than `least` instances."""

    async def queues(self, group: int, after: bytes, limit: int) -> Sequence[QueueInfo]:
        """At most `limit` queues with an id above `after`, in id order; confirmed."""

    async def status(self, *, groups: bool = True) -> Mapping[str, object]:
        """What msgpack can hold, for people and dashboards."""

    def watch(self, group: int, sink: WatchSink) -> WatchHandle:
        """A stream of queue changes; raises NotLeader where this node does not lead. When the
        leadership is lost later, the watch simply falls silent: the client follows the leader."""
