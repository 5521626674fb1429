"""Fetches stored batches that this node should have and lacks, from nodes that have them.

A batch that a machine says is live and the index lacks is fetched, checked by its own CRC, written
to the log as a BATCH frame, synced, and only then indexed. So batches that were fetched before a
crash are held after it, and are not fetched again. Staged batches come before released runs, which
have no bytes of their own. A batch that every peer lost may be in a value that this node has
accepted and not applied (storage/traces.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import structlog

from store_nodes.client import Entry, StagedEntry, StoreClient
from store_nodes.errors import QueueNotFound, QueueTruncated, StoreError
from store_nodes.machine.machine import Machine
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import BadBatch, peek
from store_nodes.storage import traces
from store_nodes.storage.rows import pack_run
from store_nodes.storage.traces import Accepted, Trace
from store_nodes.wal.footer import APPENDED, RELEASED, STAGED, BatchEntry
from store_nodes.wal.position import Position

FETCH_BYTES = 1024 * 1024
FETCH_TIMEOUT_S = 5.0
TRACED_S = 5.0
"""Seconds for which a peer that is looking for the traces of its losses is asked again."""
TRACING_S = 0.1
SCAN_AT_ONCE = 4096
LINK_TRIES = 40

log = structlog.get_logger()
_Found = list[tuple[BatchEntry, bytes]]
_NOWHERE = Position(0, 0, 0)


class Missing(NamedTuple):
    """Offsets, or stage numbers, [first, end) of a queue that no node gave."""

    group: int
    queue: bytes
    staged: bool
    first: int
    end: int


class PeerAnswers(NamedTuple):
    """The answers of peers about a number that none of them gave."""

    ends: list[int]
    """The ends of what they lack from there on, and where other batches begin that they lost."""
    traces: list[Trace]


class Lack(NamedTuple):
    """The result of a fill: the batches and truncations that it left open."""

    missing: list[Missing]
    outdated: bool
    """Whether a source had truncated a queue further than the machine that was filled for.

    Only a newer machine names the offsets that this truncation keeps.
    """

    def __bool__(self) -> bool:
        return self.outdated or bool(self.missing)


class Had(Protocol):
    """The batches of this node's index."""

    def missing(
        self, queue: bytes, first: int, end: int, *, staged: bool = False
    ) -> list[tuple[int, int]]:
        """Return the parts of the offsets, or stage numbers, [first, end) that no batch has."""


class BatchStorage(Protocol):
    """The storage that takes fetched batches."""

    @property
    def batches(self) -> Had: ...

    async def keep(self, group: int, found: Sequence[tuple[BatchEntry, bytes]]) -> None:
        """Write, sync and index batches; return when all of them are on disk."""

    def accepted(self, group: int) -> Accepted:
        """Return the values of a group that this node has accepted and may not have applied."""


class Sources:
    """The peers that one attempt asks.

    A call to a peer that is down waits for it until the time-out. So each is waited for once, not
    for every batch: a node that is being replaced is dead.
    """

    def __init__(self, client: StoreClient, nodes: Iterable[int]) -> None:
        """Take the `nodes` to ask, the best first."""
        self.client = client
        self._nodes = tuple(nodes)
        self._waited: set[int] = set()
        """Nodes that were waited for and have not been up since."""

    def in_turn(self) -> Iterator[int]:
        """Yield the nodes to ask for one thing: those that are up, then others not waited for
        yet.
        """
        up = [node for node in self._nodes if self._is_up(node)]
        self._waited.difference_update(up)
        yield from up
        for node in self._nodes:
            if node not in up and node not in self._waited:
                self._waited.add(node)
                yield node

    async def linked(self) -> None:
        """Wait until all nodes can be asked, for a limited time."""
        for _ in range(LINK_TRIES):
            if all(map(self._is_up, self._nodes)):
                return
            await asyncio.sleep(0.05)

    def _is_up(self, node: int) -> bool:
        link = self.client.node_link(node)
        return link is not None and link.up


class Copier:
    """One attempt to fill in missing batches; it makes no more than `bytes_per_s` of traffic."""

    def __init__(self, store: BatchStorage, sources: Sources, bytes_per_s: int) -> None:
        self.copied_bytes = 0
        self._store = store
        self._client = sources.client
        self._sources = sources
        self._bytes_per_s = bytes_per_s
        self._free_at_s = 0.0
        self._outdated = False

    async def fill(self, machine: Machine) -> Lack:
        """Copy everything that is live by this machine; return the rest that stays open."""
        self._outdated = False
        missing: list[Missing] = []
        for info in machine.queues():
            first, end, stage_end = info.offsets[:3]
            for low, high in self._store.batches.missing(info.queue, 0, stage_end, staged=True):
                missing += await self._fill_staged(machine, info.queue, low, high)
            kept = [(offset, offset + 1) for offset in machine.kept(info.queue)]
            for low, high in [*kept, (first, end)]:
                for gap in self._store.batches.missing(info.queue, low, high):
                    missing += await self._fill_offsets(machine.group, info.queue, *gap)
        return Lack(missing, self._outdated)

    async def _fill_offsets(self, group: int, queue: bytes, first: int, end: int) -> list[Missing]:
        missing: list[Missing] = []
        name = QueueId.unpack(queue)
        at = first
        while at < end:

            async def fetch(node: int, at: int = at) -> _Found:
                answer = await self._client.fetch(
                    group, name, at, FETCH_BYTES, node=node, timeout_s=FETCH_TIMEOUT_S
                )
                return [_of_offsets(queue, each) for each in answer.entries]

            try:
                found = [each for each in await self._ask(fetch) if each[0].base_offset < end]
            except QueueTruncated as error:
                self._outdated = True
                at = max(at + 1, error.first_offset)
                continue
            if not found:
                told = await self._told(queue, False, at)
                found = self._own(group, told)
                if not found:
                    upto = max(at + 1, min([end, *told.ends]))
                    missing.append(Missing(group, queue, False, at, upto))
                    at = upto
                    continue
            await self._keep(group, found)
            at = max(_end(entry) for entry, _ in found)
        return missing

    async def _fill_staged(
        self, machine: Machine, queue: bytes, first: int, end: int
    ) -> list[Missing]:
        """Fill a gap in the stage numbers; only live messages of it are missing, the others are
        gone for good.
        """
        missing: list[Missing] = []
        name = QueueId.unpack(queue)
        at = first
        while (live := await next_live(machine, queue, at, end)) is not None:
            base, messages = live

            async def fetch(node: int, base: int = base) -> _Found:
                answer = await self._client.fetch_staged(
                    machine.group, name, base, FETCH_BYTES, node=node, timeout_s=FETCH_TIMEOUT_S
                )
                return [_of_stages(queue, each) for each in answer]

            found = [each for each in await self._ask(fetch) if each[0].base_offset < end]
            if not found or found[0][0].base_offset > base:
                found = self._own(machine.group, await self._told(queue, True, base))
            if not found:
                missing.append(Missing(machine.group, queue, True, base, base + messages))
                at = base + messages
                continue
            await self._keep(machine.group, found)
            at = max(_end(entry) for entry, _ in found)
        return missing

    async def _ask(self, fetch: Callable[[int], Awaitable[_Found]]) -> _Found:
        """Return the first answer that is not empty; raises QueueTruncated."""
        for node in self._sources.in_turn():
            try:
                found = await fetch(node)
            except QueueTruncated:
                raise
            except QueueNotFound:
                continue
            except (StoreError, BadBatch) as error:
                log.info("a peer does not have it either", peer=node, reason=str(error))
                continue
            if found:
                return found
        return []

    async def _told(self, queue: bytes, staged: bool, at: int) -> PeerAnswers:
        """Ask the peers, of which none gave the number `at`, what they know of what they lost."""
        told = PeerAnswers([], [])
        for node in self._sources.in_turn():
            try:
                status = await self._status(node)
            except StoreError:
                continue
            rows = status.get("lost")
            for row in rows if isinstance(rows, list) else []:
                name, of_stages, first, stop = row["queue"], row["staged"], row["first"], row["end"]
                if name == queue.hex() and of_stages == staged and first <= at < stop:
                    told.ends.append(stop)
            for one in traces.told(status):
                if (one.queue, one.staged) == (queue, staged):
                    if one.base > at:
                        told.ends.append(one.base)
                    elif at < one.base + one.messages:
                        told.traces.append(one)
        return told

    async def _status(self, node: int) -> Mapping[str, object]:
        """Return a peer's status, once it has the traces of what it lost, or after `TRACED_S`."""
        until_s = time.monotonic() + TRACED_S
        while True:
            status = await self._client.node_status(node, timeout_s=FETCH_TIMEOUT_S)
            if not status.get("tracing") or time.monotonic() >= until_s:
                return status
            await asyncio.sleep(TRACING_S)

    def _own(self, group: int, told: PeerAnswers) -> _Found:
        """Return the batch that every peer lost, if it is among the values accepted here."""
        accepted = self._store.accepted(group)
        for trace in told.traces:
            found = trace.found(accepted)
            if found is not None:
                log.info("found among accepted values", **trace.row())
                return [found]
        return []

    async def _keep(self, group: int, found: Sequence[tuple[BatchEntry, bytes]]) -> None:
        size = sum(len(batch) for _, batch in found)
        await self._store.keep(group, found)
        self.copied_bytes += size
        now_s = time.monotonic()
        self._free_at_s = max(now_s, self._free_at_s) + size / self._bytes_per_s
        await asyncio.sleep(self._free_at_s - now_s)


async def next_live(machine: Machine, queue: bytes, at: int, end: int) -> tuple[int, int] | None:
    """Return the (base, messages) of the first live staged batch from `at` on."""
    while at < end:
        found = machine.batch_of_stage(queue, at)
        if found is not None:
            return found
        at += 1
        if at % SCAN_AT_ONCE == 0:
            await asyncio.sleep(0)
    return None


def _of_offsets(queue: bytes, each: Entry) -> tuple[BatchEntry, bytes]:
    """Return the entry and the bytes of a fetched batch; raises BadBatch."""
    batch = bytes(each.batch)
    count, _ = peek(batch)
    base, time_us = each.base_offset, each.log_time_us
    if each.stage is None:
        return BatchEntry(queue, base, count, time_us, _NOWHERE, APPENDED), batch
    chosen = tuple(range(count)) if each.indices is None else each.indices
    extra = pack_run(each.stage, chosen, len(batch) * len(chosen) // count)
    return BatchEntry(queue, base, len(chosen), time_us, _NOWHERE, RELEASED, extra), b""


def _of_stages(queue: bytes, each: StagedEntry) -> tuple[BatchEntry, bytes]:
    """Return the entry and the bytes of a fetched staged batch; raises BadBatch."""
    batch = bytes(each.batch)
    count, _ = peek(batch)
    if count != each.messages:
        raise BadBatch(f"{count} messages, {each.messages} were meant")
    return BatchEntry(queue, each.base_stage, count, each.log_time_us, _NOWHERE, STAGED), batch


def _end(entry: BatchEntry) -> int:
    return entry.base_offset + entry.messages
