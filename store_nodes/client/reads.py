"""Reads from the store: from the leader, from any replica, or from one node by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from store_nodes.client import calls
from store_nodes.client.connections import expect
from store_nodes.client.guarded import GuardedCalls
from store_nodes.client.link import NodeLink
from store_nodes.errors import Conflict, Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.wire import (
    Fetch,
    Fetched,
    FetchStaged,
    Locate,
    LocationIs,
    OffsetAt,
    OffsetIs,
    Offsets,
    OffsetsAre,
    QueueInfo,
    QueueOffsets,
    Queues,
    QueuesAre,
    Reply,
    Snapshot,
    SnapshotPart,
    Staged,
    StagedAre,
    StagedBatches,
    StagedInfo,
    Status,
)

QUEUES_PER_PAGE = 1000
PART_TIMEOUT_S = 10.0
"""Seconds for one part of a snapshot."""


class Entry(NamedTuple):
    """One whole stored batch; `batch` is a view into the answer.

    `stage` is None for appended messages, else the stage number of the batch's first. `indices`
    says which messages of the batch were released at this offset; None means all.
    """

    base_offset: int
    log_time_us: int
    stage: int | None
    indices: tuple[int, ...] | None
    batch: memoryview


class FetchedEntries(NamedTuple):
    """Batches of a queue, which may start before the offset asked for; none at `readable_end`."""

    entries: list[Entry]
    first_offset: int
    readable_end: int


class StagedEntry(NamedTuple):
    """One whole staged batch: its messages have stage numbers from `base_stage` on."""

    base_stage: int
    messages: int
    log_time_us: int
    batch: memoryview


class StagedPage(NamedTuple):
    """Staged messages, by number; `changes` is the count of reschedules that the answer covers.

    `overrun` says that the node has forgotten some of those asked for: list all instead.
    """

    staged: tuple[StagedInfo, ...]
    changes: int
    overrun: bool


class Location(NamedTuple):
    """The state of a staged message: "staged", "offset" (with it), "discarded" or "truncated"."""

    state: str
    offset: int | None


class SnapshotImage(NamedTuple):
    """A group's machine as one node has it.

    `applied` is the number of instances it covers, `oldest` the first instance that the node can
    still send by itself.
    """

    raw: bytes
    applied: int
    oldest: int


class ReadCalls(GuardedCalls):
    """Reads by name; with `node`, only that node is asked, and answers from its applied state.

    Batches may come from any replica. All other reads are confirmed: the leader answers, after a
    majority confirmed it since the call began, with everything that was chosen by then.
    """

    async def fetch(
        self,
        group: int,
        queue: QueueId,
        offset: int,
        max_bytes: int,
        *,
        min_end: int | None = None,
        node: int | None = None,
        timeout_s: float = 5.0,
    ) -> FetchedEntries:
        """Return whole batches from the one with `offset` on, from the leader or any other replica.

        `min_end` is the readable end that the caller knows; a replica that is not as far is passed
        over for another, if there is one. Raises QueueTruncated, QueueNotFound.
        """
        raw = queue.pack()

        def good(reply: Reply) -> bool:
            """Return whether a reply has messages, or its replica is as far as the caller knows."""
            found = expect(reply, Fetched)
            return bool(found.entries) or min_end is None or found.readable_end >= min_end

        def head(request_id: int, _: int) -> Fetch:
            """Return the head of the request."""
            return Fetch(request_id, group, raw, offset, max_bytes)

        reply, body = await self._fetch(group, head, good, node, timeout_s)
        fetched = expect(reply, Fetched)
        return FetchedEntries(_slice(fetched, body), fetched.first_offset, fetched.readable_end)

    async def fetch_staged(
        self,
        group: int,
        queue: QueueId,
        stage_number: int,
        max_bytes: int,
        *,
        node: int | None = None,
        timeout_s: float = 5.0,
    ) -> list[StagedEntry]:
        """Return whole staged batches from the one with `stage_number` on, in order.

        Batches of released messages that are not truncated are included; after the last, there are
        none. If the leader does not answer, another replica does, from its applied state.
        """
        raw = queue.pack()

        def head(request_id: int, _: int) -> FetchStaged:
            return FetchStaged(request_id, group, raw, stage_number, max_bytes)

        reply, body = await self._fetch(group, head, lambda _: True, node, timeout_s)
        return _slice_staged(expect(reply, StagedBatches), body)

    async def _fetch(
        self,
        group: int,
        head: calls.MakeHead,
        good: Callable[[Reply], bool],
        node: int | None,
        timeout_s: float,
    ) -> calls.Answer:
        """Fetch from one node, or from any replica with a good reply; few fetches run at once."""
        self.dial()
        async with self._fetching:
            if node is not None:
                return await calls.ask_node(self, node, head, timeout_s=timeout_s)
            return await calls.ask_replicas(self, group, head, good, timeout_s=timeout_s)

    async def offsets(self, group: int, queue: QueueId, *, timeout_s: float = 5.0) -> QueueOffsets:
        """Return the latest offsets of a queue, confirmed by a majority."""
        raw = queue.pack()
        reply, _ = await self._ask_leader(
            group,
            lambda request_id, left_ms: Offsets(request_id, group, raw, True, left_ms),
            timeout_s=timeout_s,
        )
        return expect(reply, OffsetsAre).offsets

    async def offset_at(
        self, group: int, queue: QueueId, time_us: int, *, timeout_s: float = 5.0
    ) -> int:
        """Return the first offset whose log time is at or after `time_us`, else the end."""
        return await self._offset_of(group, queue, time_us, None, timeout_s)

    async def offset_back(
        self, group: int, queue: QueueId, last_bytes: int, *, timeout_s: float = 5.0
    ) -> int:
        """Return the lowest offset from which at most `last_bytes` are stored.

        Kept offsets below the first do not count. If the last batch alone is larger, it is the end.
        """
        return await self._offset_of(group, queue, 0, last_bytes, timeout_s)

    async def _offset_of(
        self, group: int, queue: QueueId, time_us: int, last_bytes: int | None, timeout_s: float
    ) -> int:
        raw = queue.pack()
        reply, _ = await self._ask_leader(
            group,
            lambda request_id, _: OffsetAt(request_id, group, raw, time_us, last_bytes),
            timeout_s=timeout_s,
        )
        return expect(reply, OffsetIs).offset

    async def queues(self, group: int, *, timeout_s: float = 5.0) -> list[QueueInfo]:
        """Return every queue of the group, in id order."""
        found: list[QueueInfo] = []
        after = b""
        while True:

            def head(request_id: int, _: int, after: bytes = after) -> Queues:
                return Queues(request_id, group, after, QUEUES_PER_PAGE)

            reply, _ = await self._ask_leader(group, head, timeout_s=timeout_s)
            page = expect(reply, QueuesAre).queues
            found += page
            if len(page) < QUEUES_PER_PAGE:
                return found
            after = page[-1].queue

    async def staged(
        self,
        group: int,
        queue: QueueId,
        after: int = -1,
        limit: int = 1000,
        *,
        timeout_s: float = 5.0,
    ) -> StagedPage:
        """Return at most `limit` messages neither released nor discarded, with numbers above
        `after`.

        Fewer than `limit` are the last.
        """
        return await self._staged(group, queue, after, limit, None, timeout_s)

    async def staged_changes(
        self, group: int, queue: QueueId, changes: int, *, timeout_s: float = 5.0
    ) -> StagedPage:
        """Return the messages rescheduled since the count `changes` that are still staged."""
        return await self._staged(group, queue, -1, 0, changes, timeout_s)

    async def _staged(
        self,
        group: int,
        queue: QueueId,
        after: int,
        limit: int,
        changes: int | None,
        timeout_s: float,
    ) -> StagedPage:
        raw = queue.pack()
        reply, _ = await self._ask_leader(
            group,
            lambda request_id, _: Staged(request_id, group, raw, after, limit, changes),
            timeout_s=timeout_s,
        )
        found = expect(reply, StagedAre)
        return StagedPage(found.staged, found.changes, found.overrun)

    async def locate(
        self, group: int, queue: QueueId, stage_number: int, *, timeout_s: float = 5.0
    ) -> Location:
        """Return the state of a staged message."""
        raw = queue.pack()
        reply, _ = await self._ask_leader(
            group,
            lambda request_id, _: Locate(request_id, group, raw, stage_number),
            timeout_s=timeout_s,
        )
        found = expect(reply, LocationIs)
        return Location(found.state, found.offset)

    async def snapshot(
        self, group: int, node: int | None = None, *, least: int = 0, timeout_s: float = 60.0
    ) -> SnapshotImage:
        """Return the whole machine of a group, from `node` or confirmed by the leader.

        Raises NotLeader, or Unavailable if the node is lost on the way or covers fewer than `least`
        instances.
        """
        try:
            async with asyncio.timeout(timeout_s):
                image = await self._snapshot(group, node, least)
        except TimeoutError:
            raise Unavailable(f"no snapshot of group {group} in {timeout_s:g} s") from None
        if image.applied < least:
            # A node of release 0.2.0 does not read `least`.
            raise Unavailable(f"that node is at instance {image.applied}, not at {least}")
        return image

    async def _snapshot(self, group: int, node: int | None, least: int) -> SnapshotImage:
        self.dial()
        chosen = self.leader(group) if node is None else node
        if chosen is None:
            raise Unavailable(f"group {group} has no leader that we know of")
        parts: list[bytes] = []
        number, got_bytes = 0, 0
        while True:

            def head(
                request_id: int, _: int, number: int = number, at: int = got_bytes
            ) -> Snapshot:
                return Snapshot(request_id, group, number, at, least, node is None)

            try:
                reply, body = await calls.ask_node(self, chosen, head, timeout_s=PART_TIMEOUT_S)
            except Conflict:
                raise Unavailable("the snapshot was replaced by another") from None
            part = expect(reply, SnapshotPart)
            parts.append(body)
            number, got_bytes = part.number, got_bytes + len(body)
            if got_bytes >= part.total_bytes:
                return SnapshotImage(b"".join(parts), part.applied, part.oldest)
            if not body:
                raise Unavailable("a part of the snapshot was empty")

    async def status(
        self, *, groups: bool = True, timeout_s: float = 2.0
    ) -> dict[int, dict[str, object]]:
        """Return each node's status, with its groups; `{"error": why}` for a node without an
        answer.
        """
        self.dial()
        links = list(self._links.values())
        asked = (self._status_of(link, groups, timeout_s) for link in links)
        answers = await asyncio.gather(*asked)
        return {link.node: answer for link, answer in zip(links, answers, strict=True)}

    async def node_status(self, node: int, *, timeout_s: float = 2.0) -> dict[str, object]:
        """Return the status of one node; raises Unavailable."""
        self.dial()
        _, body = await calls.ask_node(
            self, node, lambda request_id, _: Status(request_id), timeout_s=timeout_s
        )
        return msgspec.msgpack.decode(body, type=dict[str, object])

    async def _status_of(self, link: NodeLink, groups: bool, timeout_s: float) -> dict[str, object]:
        if not link.up:
            return {"error": link.last_failure}
        try:
            _, body = await calls.ask(
                link, lambda request_id, _: Status(request_id, groups), (), timeout_s
            )
        except calls.Failure as failure:
            return {"error": str(failure.error)}
        except (calls.Lost, TimeoutError):
            return {"error": "no answer"}
        return msgspec.msgpack.decode(body, type=dict[str, object])


def _slice(fetched: Fetched, body: bytes) -> list[Entry]:
    """Return the entries of a reply, with their batches cut from its body."""
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


def _slice_staged(found: StagedBatches, body: bytes) -> list[StagedEntry]:
    view = memoryview(body)
    entries = []
    at = 0
    for head in found.entries:
        end = at + head.batch_bytes
        entries.append(StagedEntry(head.base_stage, head.count, head.log_time_us, view[at:end]))
        at = end
    return entries
