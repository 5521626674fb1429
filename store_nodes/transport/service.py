"""The interface between the transport and a store node: requests, and the node's answers.

The transport owns sockets, frames, the handshake and flow control; the node behind it owns
everything else and never sees a frame. `NodeService` is called on the event loop only.

Commands are the most frequent requests, so they have no task and no future: `command` returns at
once, and the node answers through its `CommandReply`, from any later callback on the loop. Replies
of one loop iteration leave in one write.
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
"""Takes changed queues, each with its latest state; it never blocks and never fails.

States that a slow client has not read yet are reduced to the latest per queue, so a node may call
it at any time.
"""


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


class CommandReply(Protocol):
    """Answers one command.

    `accepted` may be called once, before the final answer; exactly one of the others is the final
    answer. Calls after the client has gone do nothing.
    """

    def accepted(self) -> None:
        """Send the early answer, for durability LEADER (synced here) and NONE (proposed)."""

    def appended(
        self, base_offset: int, count: int, log_time_us: int, *, duplicate: bool = False
    ) -> None:
        """Answer that an append took effect."""

    def released(self, offsets: tuple[int | None, ...], log_time_us: int) -> None:
        """Answer that a release took effect; `offsets` are those of wire.Released."""

    def finished(self, value: int, log_time_us: int) -> None:
        """Answer that another command took effect; `value` is that of wire.Finished."""

    def failed(self, error: StoreError, *, decided: bool) -> None:
        """Answer that the command failed.

        With `decided`, the log decided it (a machine's Refused), for every transmission of the
        command. Otherwise it was refused here and never proposed, such as NotLeader and Overloaded.
        A command that was proposed and whose outcome is not known is `OutcomeUnknown`, not decided.
        """


class WatchHandle(Protocol):
    """One open watch; soon after a queue is added, `WatchSink` gets its present state."""

    def add(self, queue: bytes) -> None:
        """Watch one more queue; one that does not exist (yet) is reported once it does."""

    def remove(self, queue: bytes) -> None:
        """Stop watching a queue."""

    def close(self) -> None:
        """End the watch; `WatchSink` is not called again."""


class NodeService(Protocol):
    """A store node, as the server of its clients sees it.

    The async calls raise StoreError.

    Only a leader answers *confirmed* calls, after a quorum round that began after the call; other
    nodes raise NotLeader. Calls that come during a round share the next one.
    """

    def leaders(self) -> Sequence[LeaderView]:
        """Return this node's knowledge of every group, for each welcome and pong; it must be cheap.

        Call `StoreServer.announce`, too, on each change.
        """

    def nodes(self) -> Sequence[NodeView]:
        """Return the members of all groups, as this node has applied them, for each welcome.

        Call `StoreServer.announce`, too, on each change.
        """

    def command(
        self,
        group: int,
        raw: bytes,
        durability: Durability,
        timeout_ms: int,
        reply: CommandReply,
    ) -> None:
        """Propose one whole command; after `timeout_ms` nobody waits for the answer.

        Bytes that are no command get an answer, not an exception, which would end the connection.
        """

    async def fetch(self, group: int, queue: bytes, offset: int, max_bytes: int) -> FetchResult:
        """Return whole stored batches from the one with `offset` on; at least one if there is
        any.
        """

    async def offsets(self, group: int, queue: bytes, *, confirm: bool) -> tuple[QueueOffsets, int]:
        """Return the offsets of a queue, and the log time of the last entry applied.

        With `confirm`, only a leader answers, after a quorum round begun after the call.
        """

    async def offset_at(self, group: int, queue: bytes, time_us: int) -> int:
        """Return the first offset with a log time at or after `time_us`, else the end;
        confirmed.
        """

    async def offset_back(self, group: int, queue: bytes, last_bytes: int) -> int:
        """Return the lowest offset from which at most `last_bytes` are stored; confirmed."""

    async def staged(
        self, group: int, queue: bytes, after: int, limit: int
    ) -> tuple[Sequence[StagedInfo], int]:
        """Return at most `limit` staged messages above `after`, and the count of changes covered;
        confirmed.
        """

    async def staged_changes(
        self, group: int, queue: bytes, changes: int
    ) -> tuple[Sequence[StagedInfo] | None, int]:
        """Return the messages rescheduled since the count `changes` and still staged, and the count
        now.

        Instead of the messages, None is returned if some are forgotten. Confirmed.
        """

    async def locate(self, group: int, queue: bytes, stage_number: int) -> tuple[str, int | None]:
        """Return the (state, offset) of wire.LocationIs; confirmed."""

    async def fetch_staged(
        self, group: int, queue: bytes, stage_number: int, max_bytes: int
    ) -> Sequence[StagedBatch]:
        """Return whole staged batches from the one with `stage_number` on."""

    async def snapshot(self, group: int, least: int = 0, *, confirm: bool) -> GroupSnapshot:
        """Return the present machine of a group; with `confirm`, a confirmed leader's.

        Raises Unavailable if it covers fewer than `least` instances.
        """

    async def queues(self, group: int, after: bytes, limit: int) -> Sequence[QueueInfo]:
        """Return at most `limit` queues with an id above `after`, in id order; confirmed."""

    async def status(self, *, groups: bool = True) -> Mapping[str, object]:
        """Return the status for people and dashboards, in values that MessagePack has."""

    def watch(self, group: int, sink: WatchSink) -> WatchHandle:
        """Open a stream of queue changes; raises NotLeader if this node does not lead.

        When the leadership is lost later, the watch falls silent: the client follows the leader.
        """
