"""The store, as a forwarder sees it: one connection to every node, calls that find the leader.

A call ends in its result, in `NotDone` (it did not and will not take effect) or in
`OutcomeUnknown`. Nothing here blocks on one node: a silent one is suspected after 0.75 s, dropped
after 2 s, and left at once when another node says that the group has a new leader.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar, cast

import msgspec

from store_nodes import commands
from store_nodes.client import calls
from store_nodes.client.appender import Appender
from store_nodes.client.leaders import LeaderTable, LogClock
from store_nodes.client.link import NodeLink
from store_nodes.client.watch import OnChange, Watch
from store_nodes.errors import StoreError, Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.transport.handshake import Address, Identity
from store_nodes.wire import (
    Command,
    Durability,
    Fetch,
    Fetched,
    Finished,
    LeaderView,
    OffsetAt,
    OffsetIs,
    Offsets,
    OffsetsAre,
    QueueInfo,
    QueueOffsets,
    Queues,
    QueuesAre,
    Reply,
    Status,
)

SWEEP_EVERY_S = 0.025
TICK_EVERY_S = 0.1
MAX_FETCHES_AT_ONCE = 32
QUEUES_PER_PAGE = 1000

_Kind = TypeVar("_Kind")


class Entry(NamedTuple):
    """One stored batch, whole. `stage` is None for appended messages; `indices` says which of the
    batch were released at this offset, None: all. `batch` is a view into the answer."""

    base_offset: int
    log_time_us: int
    stage: int | None
    indices: tuple[int, ...] | None
    batch: memoryview


class FetchedEntries(NamedTuple):
    """`entries` may start before the offset asked for; it is empty at `readable_end`."""

    entries: list[Entry]
    first_offset: int
    readable_end: int


class StoreClient:
    """All of one process's talk with the store nodes. Use it on one event loop."""

    def __init__(
        self,
        addresses: Mapping[int, Address],
        *,
        groups: Sequence[int],
        secret: bytes,
        cluster_uid: bytes = b"",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        identity = Identity(secret=secret, cluster_uid=cluster_uid)
        self.groups = tuple(groups)
        self.lost_after_accept = 0
        """Appends of durability leader or none that were answered early and then failed."""
        self._links = {
            node: NodeLink(node, address, identity, self, tls=tls)
            for node, address in addresses.items()
        }
        self._table = LeaderTable(groups, len(addresses))
        self._busy: set[Appender] = set()
        self._watches: set[Watch] = set()
        self._changes: dict[int, asyncio.Event] = {group: asyncio.Event() for group in groups}
        self._fetching = asyncio.Semaphore(MAX_FETCHES_AT_ONCE)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Dial every node, now and whenever one is lost; returns without waiting for any."""
        self._loop = asyncio.get_running_loop()
        for link in self._links.values():
            link.start()
        self._sweeper = self._loop.create_task(self._sweep())

    async def close(self) -> None:
        """Appends under way end as unknown or not done; watches fall silent."""
        for appender in list(self._busy):
            appender.close()
        for watch in list(self._watches):
            watch.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()))

    async def wait_ready(self, timeout_s: float = 30.0) -> None:
        """Until every group has a leader that we are connected to; raises Unavailable."""
        try:
            async with asyncio.timeout(timeout_s):
                for group in self.groups:
                    while not self.has_leader(group):
                        await self.next_change(group).wait()
        except TimeoutError:
            missing = [group for group in self.groups if not self.has_leader(group)]
            failures = {link.node: link.last_failure for link in self._links.values()}
            raise Unavailable(f"no leader in groups {missing}; nodes: {failures}") from None

    # What is known of the leaders.

    def has_leader(self, group: int) -> bool:
        """A publish to the group would be sent at once, to a node that speaks."""
        link = self.leader_link(group)
        return link is not None and link.responsive

    def leader(self, group: int) -> int | None:
        """The node that leads, as far as is known."""
        return self._table.leader(group)

    def log_time_us(self, group: int) -> int:
        """The group's log time now, as estimated from its leader's readings."""
        return self._table.clocks[group].now_us()

    # Commands.

    async def create(
        self,
        group: int,
        queue: QueueId,
        base: int = 0,
        meta: bytes = b"",
        *,
        timeout_s: float = 5.0,
    ) -> None:
        """Make a queue; a second time is no error. Raises QueueExists for another base or meta."""
        await self._command(group, commands.Create(queue.pack(), base, meta), timeout_s)

    async def seal(
        self,
        group: int,
        queue: QueueId,
        successors: Sequence[tuple[int, QueueId]] = (),
        *,
        timeout_s: float = 5.0,
    ) -> int:
        """End a queue; its end offset."""
        packed = tuple((of_group, successor.pack()) for of_group, successor in successors)
        return await self._command(group, commands.Seal(queue.pack(), packed), timeout_s)

    async def delete(self, group: int, queue: QueueId, *, timeout_s: float = 5.0) -> None:
        """Forget a queue; of one that is deleted already, or never was, no error."""
        await self._command(group, commands.Delete(queue.pack()), timeout_s)

    async def truncate(
        self,
        group: int,
        queue: QueueId,
        upto: int,
        keep: Iterable[int] = (),
        *,
        timeout_s: float = 5.0,
    ) -> int:
        """Drop the offsets below `upto` but `keep`; the first offset now."""
        command = commands.Truncate(queue.pack(), upto, tuple(keep))
        return await self._command(group, command, timeout_s)

    def appender(self, group: int, queue: QueueId) -> Appender:
        """A new session of appends to the queue."""
        return Appender(self, group, queue)

    async def _command(self, group: int, command: commands.ControlCommand, timeout_s: float) -> int:
        raw = commands.encode(command)
        reply, _ = await calls.ask_leader(
            self,
            group,
            lambda request_id, left_ms: Command(request_id, group, Durability.QUORUM, left_ms),
            (raw,),
            timeout_s=timeout_s,
        )
        finished = _expect(reply, Finished)
        self._table.clocks[group].at_least(finished.log_time_us)
        return finished.value

    # Reads.

    async def fetch(
        self,
        group: int,
        queue: QueueId,
        offset: int,
        max_bytes: int,
        *,
        min_end: int | None = None,
        timeout_s: float = 5.0,
    ) -> FetchedEntries:
        """Whole batches from the one holding `offset` on, of the leader or any other replica.
        `min_end`: the readable end that the caller knows of; a replica that is not as far is
        passed over for another, if there is one. Raises QueueTruncated, QueueNotFound."""
        raw = queue.pack()

        def good(reply: Reply) -> bool:
            found = _expect(reply, Fetched)
            return bool(found.entries) or min_end is None or found.readable_end >= min_end

        async with self._fetching:
            reply, body = await calls.ask_replicas(
                self,
                group,
                lambda request_id, _: Fetch(request_id, group, raw, offset, max_bytes),
                good,
                timeout_s=timeout_s,
            )
        fetched = _expect(reply, Fetched)
        return FetchedEntries(_slice(fetched, body), fetched.first_offset, fetched.readable_end)

    async def offsets(self, group: int, queue: QueueId, *, timeout_s: float = 5.0) -> QueueOffsets:
        """The latest, confirmed by a majority after the call began."""
        raw = queue.pack()
        reply, _ = await calls.ask_leader(
            self,
            group,
            lambda request_id, left_ms: Offsets(request_id, group, raw, True, left_ms),
            timeout_s=timeout_s,
        )
        return _expect(reply, OffsetsAre).offsets

    async def offset_at(
        self, group: int, queue: QueueId, time_us: int, *, timeout_s: float = 5.0
    ) -> int:
        """The first offset whose log time is at or after `time_us`, else the end."""
        raw = queue.pack()
        reply, _ = await calls.ask_replicas(
            self,
            group,
            lambda request_id, _: OffsetAt(request_id, group, raw, time_us),
            lambda _: True,
            timeout_s=timeout_s,
        )
        return _expect(reply, OffsetIs).offset

    async def queues(self, group: int, *, timeout_s: float = 5.0) -> list[QueueInfo]:
        """Every queue of the group, in id order."""
        found: list[QueueInfo] = []
        after = b""
        while True:
            reply, _ = await calls.ask_leader(
                self,
                group,
                lambda request_id, _, after=after: Queues(  # type: ignore[misc]
                    request_id, group, after, QUEUES_PER_PAGE
                ),
                timeout_s=timeout_s,
            )
            page = _expect(reply, QueuesAre).queues
            found += page
            if len(page) < QUEUES_PER_PAGE:
                return found
            after = page[-1].queue

    async def status(self, *, timeout_s: float = 2.0) -> dict[int, dict[str, object]]:
        """What each node says of itself; of one that says nothing, `{"error": why}`."""
        links = list(self._links.values())
        answers = await asyncio.gather(*(self._status_of(link, timeout_s) for link in links))
        return {link.node: answer for link, answer in zip(links, answers, strict=True)}

    async def _status_of(self, link: NodeLink, timeout_s: float) -> dict[str, object]:
        if not link.up:
            return {"error": link.last_failure}
        try:
            _, body = await calls.ask(link, lambda request_id, _: Status(request_id), (), timeout_s)
        except calls.Failure as failure:
            return {"error": str(failure.error)}
        except (calls.Lost, TimeoutError):
            return {"error": "no answer"}
        return msgspec.msgpack.decode(body, type=dict[str, object])

    def watch(self, group: int, on_change: OnChange) -> Watch:
        """A stream of changes of the queues added to it; see `Watch`."""
        watch = Watch(self, group, on_change)
        self._watches.add(watch)
        watch.kick()
        return watch

    # What links, appenders, watches and calls ask of their owner.

    def leader_link(self, group: int) -> NodeLink | None:
        """The connection to the group's leader, if both are known and up."""
        node = self._table.leader(group)
        link = self._links.get(node) if node is not None else None
        return link if link is not None and link.up else None

    def replica_links(self, group: int) -> list[NodeLink]:
        """Open connections, the best to ask first."""
        leader = self.leader_link(group)
        up = [link for link in self._links.values() if link.up]
        return sorted(up, key=lambda link: (not link.responsive, link is not leader))

    def clock(self, group: int) -> LogClock:
        """The group's log time."""
        return self._table.clocks[group]

    def now_s(self) -> float:
        """The loop's clock."""
        return cast(asyncio.AbstractEventLoop, self._loop).time()

    def busy(self, appender: Appender) -> None:
        """It has appends under way."""
        self._busy.add(appender)

    def drop_watch(self, watch: Watch) -> None:
        """It is closed."""
        self._watches.discard(watch)

    def next_change(self, group: int) -> asyncio.Event:
        """Set once the group's leader, or the connection to it, is another than now."""
        return self._changes[group]

    def refused_by(self, link: NodeLink, group: int, hint: int | None) -> None:
        """The node says that it does not lead."""
        self._changed(self._table.refused(link.node, group, hint))

    def link_up(self, link: NodeLink) -> None:
        """Requests can be sent to it."""
        self._changed([g for g in self.groups if self._table.leader(g) == link.node])

    def link_down(self, link: NodeLink) -> None:
        """Its connection is lost."""
        led = [g for g in self.groups if self._table.leader(g) == link.node]
        self._changed({*led, *self._table.disconnected(link.node)})

    def leaders_claimed(self, link: NodeLink, views: Iterable[LeaderView]) -> None:
        """A node told what it knows of the leaders."""
        self._changed(self._table.claimed(link.node, views))

    def responsiveness_changed(self, link: NodeLink) -> None:
        """It fell silent, or speaks again."""
        self._changed([g for g in self.groups if self._table.leader(g) == link.node])

    def _changed(self, groups: Iterable[int]) -> None:
        for group in groups:
            event, self._changes[group] = self._changes[group], asyncio.Event()
            event.set()
            for appender in [a for a in self._busy if a.group == group]:
                appender.kick()
            for watch in [w for w in self._watches if w.group == group]:
                watch.kick()

    async def _sweep(self) -> None:
        """Deadlines, retries and pings, a few dozen times a second."""
        loop = asyncio.get_running_loop()
        ticked_s = loop.time()
        while True:
            before_s = loop.time()
            await asyncio.sleep(SWEEP_EVERY_S)
            now_s = loop.time()
            own_pause_s = max(0.0, now_s - before_s - 4 * SWEEP_EVERY_S)
            for appender in list(self._busy):
                appender.sweep(now_s)
                if appender.idle:
                    self._busy.discard(appender)
            if now_s - ticked_s >= TICK_EVERY_S or own_pause_s:
                ticked_s = now_s
                for link in self._links.values():
                    link.tick(now_s, own_pause_s)
                for watch in list(self._watches):
                    watch.kick()


def _expect(reply: Reply, kind: type[_Kind]) -> _Kind:
    if not isinstance(reply, kind):
        raise StoreError(f"the node answered {type(reply).__name__}, not {kind.__name__}")
    return reply


def _slice(fetched: Fetched, body: bytes) -> list[Entry]:
    view = memoryview(body)
    entries = []
    at = 0
    for head in fetched.entries:
        end = at + head.batch_bytes
        entries.append(
            Entry(head.base_offset, head.log_time_us, head.stage, head.indices, view[at:end])
        )
        at = end
    return entries
