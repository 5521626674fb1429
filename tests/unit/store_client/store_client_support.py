"""A store for the client to talk to: real sockets, the real state machine, no consensus.

All nodes of a `FakeStore` share one log per group, as if replication took no time. A node can be
killed, hung, made to lose its replies or to refuse, and leadership is moved by hand.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

from peering.shared_secret import SharedSecret
from peering.tls import PeerTls
from store_nodes.client import Durability, StoreClient
from store_nodes.commands import (
    CommandKind,
    Reconfigure,
    check,
    encode_membership,
    encode_value,
    parse,
)
from store_nodes.errors import NotLeader, QueueTruncated, StoreError
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import AppendDone, Outcome, StageDone
from store_nodes.node.client_service import FetchedEntry, FetchResult, GroupSnapshot, StagedBatch
from store_nodes.node.requests import CommandReply, answer
from store_nodes.node.server import StoreServer
from store_nodes.node.watches import Watch, Watches, WatchSink
from store_nodes.queue_id import QueueId
from store_nodes.transport.handshake import Identity
from store_nodes.wire import LeaderView, NodeView, QueueInfo, QueueOffsets, StagedInfo

SECRET = SharedSecret(b"a secret of the cluster")
CLUSTER = b"cluster uid 16 B"
GROUP = 3
QUEUE = QueueId(bytes(range(16)), 7)

Intercept = Callable[["FakeNode", int, bytes, CommandReply], bool]
"""Sees a command before it is proposed; True: it took care of it."""


class FakeLog:
    """One group: its machine, and the batches that were stored."""

    def __init__(self, group: int) -> None:
        self.group = group
        self.machine = Machine(group)
        self.batches: dict[bytes, list[FetchedEntry]] = {}
        self.staged: dict[bytes, list[StagedBatch]] = {}
        self.clock_ahead_us = 0
        self.watches = Watches(self._offsets_or_none)
        self.watchers: list[OpenWatch] = []

    def now_us(self) -> int:
        return max(self.machine.log_time_us + 1, time.time_ns() // 1000 + self.clock_ahead_us)

    def apply(self, raw: bytes) -> Outcome:
        if check(raw) is CommandKind.RECONFIGURE:
            value = encode_membership(cast(Reconfigure, parse(raw)), self.now_us())
        else:
            value = encode_value([raw], self.now_us())
        (outcome,) = self.machine.apply(self.machine.applied, value)
        if isinstance(outcome, StageDone) and not outcome.duplicate:
            at = outcome.batch_at
            batch = value[at : at + outcome.batch_bytes]
            staged = StagedBatch(outcome.base_stage, outcome.count, outcome.log_time_us, batch)
            self.staged.setdefault(outcome.queue, []).append(staged)
        if isinstance(outcome, AppendDone) and not outcome.duplicate:
            at = outcome.batch_at
            batch = value[at : at + outcome.batch_bytes]
            entry = FetchedEntry(outcome.base_offset, outcome.log_time_us, batch)
            self.batches.setdefault(outcome.queue, []).append(entry)
        self.watches.changed(self.group, [outcome.queue])
        return outcome

    def offsets(self, queue: bytes) -> QueueOffsets:
        found = self.machine.offsets(queue)
        return QueueOffsets(
            queue,
            found.first,
            found.end,
            found.stage_end,
            found.sealed,
            stage_changes=found.stage_changes,
        )

    def _offsets_or_none(self, _: int, queue: bytes) -> QueueOffsets | None:
        try:
            return self.offsets(queue)
        except StoreError:
            return None

    def stored(self, queue: QueueId = QUEUE) -> list[bytes]:
        return [bytes(entry.batch) for entry in self.batches.get(queue.pack(), [])]


class OpenWatch(Watch):
    """A watch that its log counts until it is closed."""

    def __init__(self, log: FakeLog, sink: WatchSink) -> None:
        super().__init__(log.watches, log.group, sink)
        self._watchers = log.watchers
        self._watchers.append(self)

    def close(self) -> None:
        super().close()
        self._watchers.remove(self)


class FakeNode:
    """A node with its server, which asks it what it asks a `ClientService`."""

    def __init__(self, store: FakeStore, node: int) -> None:
        self.store = store
        self.node = node
        self.port = 0
        self.server: StoreServer | None = None
        self.intercept: Intercept | None = None
        self.behind = False
        """Answers reads as a replica that has applied nothing lately."""
        self.commands: list[tuple[int, bytes]] = []
        self.fetches = 0

    async def start(self, tls: PeerTls | None = None) -> None:
        identity = Identity(self.store.secret, CLUSTER, self.node, b"incarnation")
        self.server = StoreServer(self, identity, tls=tls)
        self.port = await self.server.start("127.0.0.1", self.port)

    async def kill(self) -> None:
        """Stop the node, as the others see a kill -9."""
        assert self.server is not None
        self.server._listener.close()
        self.cut()
        self.server = None

    def cut(self) -> None:
        """Lose every connection, and with it the replies not yet written."""
        if self.server is not None:
            for connection in list(self.server._connections):
                connection.abort("cut by the test")

    def hang(self) -> None:
        """Neither reads nor answers, connections stay open: what SIGSTOP looks like."""
        assert self.server is not None
        for connection in self.server._connections:
            connection.pause_reading()

    def leaders(self) -> Sequence[LeaderView]:
        return [
            LeaderView(group, leader, ballot, self.store.logs[group].now_us())
            for group, (leader, ballot) in self.store.leadership.items()
        ]

    def nodes(self) -> Sequence[NodeView]:
        return self.store.members

    def announce(self) -> None:
        if self.server is not None:
            self.server.announce(self.leaders(), self.nodes())

    def command(
        self,
        group: int,
        raw: bytes,
        durability: Durability,
        timeout_ms: int,
        reply: CommandReply,
    ) -> None:
        self.commands.append((group, raw))
        if self.intercept is not None and self.intercept(self, group, raw, reply):
            return
        self.propose(group, raw, durability, reply)

    def propose(self, group: int, raw: bytes, durability: Durability, reply: CommandReply) -> None:
        leader, _ = self.store.leadership[group]
        if leader != self.node:
            reply.failed(NotLeader(leader), decided=False)
            return
        check(raw)
        if durability <= Durability.LEADER:
            reply.accepted()
        log = self.store.logs[group]
        answer(reply, log.apply(raw), log.machine.log_time_us)

    async def fetch(self, group: int, queue: bytes, offset: int, max_bytes: int) -> FetchResult:
        self.fetches += 1
        log = self.store.logs[group]
        found = log.machine.offsets(queue)
        if self.behind:
            return FetchResult([], found.first, found.first)
        if offset < found.first:
            raise QueueTruncated(found.first)
        entries = [e for e in log.batches.get(queue, []) if e.base_offset >= offset]
        return FetchResult(entries, found.first, found.end)

    async def offsets(self, group: int, queue: bytes, *, confirm: bool) -> tuple[QueueOffsets, int]:
        log = self.store.logs[group]
        if confirm and self.store.leadership[group][0] != self.node:
            raise NotLeader(self.store.leadership[group][0])
        return log.offsets(queue), log.machine.log_time_us

    async def offset_at(self, group: int, queue: bytes, time_us: int) -> int:
        log = self._led(group)
        for entry in log.batches.get(queue, []):
            if entry.log_time_us >= time_us:
                return entry.base_offset
        return log.machine.offsets(queue).end

    async def offset_back(self, group: int, queue: bytes, last_bytes: int) -> int:
        log = self._led(group)
        offset = log.machine.offsets(queue).end
        for entry in reversed(log.batches.get(queue, [])):
            last_bytes -= len(entry.batch)
            if last_bytes < 0:
                break
            offset = entry.base_offset
        return offset

    async def staged(
        self, group: int, queue: bytes, after: int, limit: int
    ) -> tuple[Sequence[StagedInfo], int]:
        machine = self._led(group).machine
        rows = machine.staged(queue, after, limit)
        return [StagedInfo(*row) for row in rows], machine.offsets(queue).stage_changes

    async def staged_changes(
        self, group: int, queue: bytes, changes: int
    ) -> tuple[Sequence[StagedInfo] | None, int]:
        machine = self._led(group).machine
        numbers, now = machine.stage_changes_since(queue, changes)
        if numbers is None:
            return None, now
        return [StagedInfo(*machine.staged(queue, n - 1, 1)[0]) for n in numbers], now

    async def locate(self, group: int, queue: bytes, stage_number: int) -> tuple[str, int | None]:
        return self._led(group).machine.locate(queue, stage_number)

    async def fetch_staged(
        self, group: int, queue: bytes, stage_number: int, max_bytes: int
    ) -> Sequence[StagedBatch]:
        held = self.store.logs[group].staged.get(queue, [])
        return [each for each in held if each.base_stage + each.messages > stage_number]

    async def snapshot(self, group: int, least: int = 0, *, confirm: bool) -> GroupSnapshot:
        machine = (self._led(group) if confirm else self.store.logs[group]).machine
        return GroupSnapshot(self.store.snapshot or machine.state_snapshot(), machine.applied, 0)

    def _led(self, group: int) -> FakeLog:
        leader, _ = self.store.leadership[group]
        if leader != self.node:
            raise NotLeader(leader)
        return self.store.logs[group]

    async def queues(self, group: int, after: bytes, limit: int) -> Sequence[QueueInfo]:
        rows = sorted(self._led(group).machine.queues())
        found = [
            QueueInfo(r.queue, r.base, r.offsets.first, r.offsets.end, r.offsets.sealed, r.meta)
            for r in rows
            if r.queue > after
        ]
        return found[:limit]

    async def status(self, *, groups: bool = True) -> dict[str, object]:
        return {"node": self.node}

    def watch(self, group: int, sink: WatchSink) -> OpenWatch:
        leader, _ = self.store.leadership[group]
        if leader != self.node:
            raise NotLeader(leader)
        return OpenWatch(self.store.logs[group], sink)


class FakeStore:
    """Three nodes, one group of which node 1 is the leader."""

    def __init__(self, *, secret: SharedSecret = SECRET) -> None:
        self.secret = secret
        self.logs = {GROUP: FakeLog(GROUP)}
        self.leadership: dict[int, tuple[int | None, int]] = {GROUP: (1, 1)}
        self.members: tuple[NodeView, ...] = ()
        self.snapshot = b""
        """The snapshot that nodes answer; if it is empty, they answer that of the machine."""
        self.nodes = {number: FakeNode(self, number) for number in (1, 2, 3)}

    @property
    def log(self) -> FakeLog:
        return self.logs[GROUP]

    @property
    def leader(self) -> FakeNode:
        number = self.leadership[GROUP][0]
        assert number is not None
        return self.nodes[number]

    async def start(self) -> None:
        for node in self.nodes.values():
            await node.start()

    async def close(self) -> None:
        for node in self.nodes.values():
            if node.server is not None:
                await node.server.close()

    def elect(self, node: int | None, group: int = GROUP, *, announce: bool = True) -> None:
        _, ballot = self.leadership[group]
        self.leadership[group] = (node, ballot + 1)
        if announce:
            for each in self.nodes.values():
                each.announce()

    def add_group(self, group: int) -> None:
        """Add a group that is led by node 1, and let the nodes announce it."""
        self.logs[group] = FakeLog(group)
        self.leadership[group] = (1, 1)
        for node in self.nodes.values():
            node.announce()

    def client(self, **options: object) -> StoreClient:
        addresses = {number: ("127.0.0.1", node.port) for number, node in self.nodes.items()}
        settings: dict[str, object] = {"groups": tuple(self.logs), "secret": SECRET, **options}
        return StoreClient(addresses, **settings)  # type: ignore[arg-type]


@asynccontextmanager
async def store_and_client(queues: Sequence[QueueId] = (QUEUE,)):
    """Yield a running store, and a client that knows the leader."""
    store = FakeStore()
    await store.start()
    client = store.client()
    await client.start()
    try:
        await client.wait_ready(5)
        for queue in queues:
            await client.create(GROUP, queue)
        for node in store.nodes.values():
            node.commands.clear()
        yield store, client
    finally:
        await client.close()
        await store.close()


def is_append(raw: bytes) -> bool:
    return raw[0] == CommandKind.APPEND


async def until(condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
    """Wait for it, by looking."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)
