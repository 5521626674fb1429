"""Takes delayed messages that came due out of a queue that was sealed before (moved or grown).

A sealed queue gives no more offsets. The message is copied to the queue that its key belongs to
now, as if published there; its id stays the one it was staged under, in the copy's `origin`, and
`forwarded` in Postgres leads from that id to its offset. Each step can be repeated:

    still staged?                    the log says; else there is nothing to do
    append to the successor          with a dedup id made of the old name, so the copy is made once,
                                     also when a scheduler dies after it
    forwarded row                    committed before …
    discard in the sealed queue      … so an id is always found in one of the two places
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from edge import message_id
from edge.partition import partition_of
from metadata.delivery.forwarded import Forwarded, ForwardedRepository
from outbox import routing
from outbox.appenders import Appenders
from scheduler import metrics
from scheduler.pending import StagedQueue
from scheduler.ports import Appender, DueStore
from store_nodes.commands import DEDUP_ENTRY
from store_nodes.errors import DedupKnown, QueueSealed, Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode, encode, peek

MAX_TRIES = 4
FORWARD_AT_ONCE = 200
FETCH_BYTES = 1024 * 1024
DEDUP_WINDOW_S = 86_400
"""How long a scheduler may take from copying a message to recording that it did."""

Target = tuple[int, bytes]
"""A group and a packed queue id."""
Successors = Sequence[Target]


class _Staged(NamedTuple):
    number: int
    message: Message
    accepted_time_us: int
    size_bytes: int


class Forwarding:
    """One queue's messages at a time, in order: so the order of a key is kept."""

    def __init__(
        self, store: DueStore, repository: ForwardedRepository, *, timeout_s: float
    ) -> None:
        self._store = store
        self._repository = repository
        self._timeout_s = timeout_s
        self._appenders: Appenders[Appender] = Appenders(store.appender)

    async def forward(
        self, queue: StagedQueue, numbers: Sequence[int], successors: Successors
    ) -> set[int]:
        """Those that are staged no more: copied, or settled otherwise before; the others are to be
        tried again. Raises StoreError, MetadataError: then some may have been copied already, and
        are found copied the next time."""
        if not successors:
            return set(numbers)  # sealed for good: its topic is being deleted
        first = numbers[:FORWARD_AT_ONCE]
        locations = await asyncio.gather(*(self._locate(queue, number) for number in first))
        wanted = [n for n, state in zip(first, locations, strict=True) if state == "staged"]
        staged = await self._fetch(queue, wanted)
        moved: list[Forwarded] = []
        for target, some in _by_target(queue, staged, successors):
            moved += await self._append(queue, some, target, successors)
        await self._repository.record(queue.key, moved)
        if moved:
            copied = [each.stage_number for each in moved]
            await self._store.discard(queue.group, queue.id, copied, timeout_s=self._timeout_s)
            metrics.forwarded.inc(len(moved))
        return set(first) - set(wanted) | {each.stage_number for each in moved}

    async def _locate(self, queue: StagedQueue, number: int) -> str:
        location = await self._store.locate(
            queue.group, queue.id, number, timeout_s=self._timeout_s
        )
        return location.state

    async def _fetch(self, queue: StagedQueue, numbers: Sequence[int]) -> list[_Staged]:
        """In the order named, as far as `FETCH_BYTES` goes."""
        found: dict[int, _Staged] = {}
        size_bytes = 0
        for number in numbers:
            if number in found:
                continue
            if size_bytes >= FETCH_BYTES:
                break
            batches = await self._store.fetch_staged(
                queue.group, queue.id, number, FETCH_BYTES, timeout_s=self._timeout_s
            )
            for batch in batches:
                size_bytes += len(batch.batch)
                _, accepted_time_us = peek(batch.batch)
                for number_of, message in enumerate(decode(batch.batch), batch.base_stage):
                    size = len(message.data)
                    found[number_of] = _Staged(number_of, message, accepted_time_us, size)
            if number not in found:
                raise Unavailable(f"no replica has the staged message {number} of {queue.id} now")
        return [found[number] for number in numbers if number in found]

    async def _append(
        self,
        queue: StagedQueue,
        staged: list[_Staged],
        target: Target,
        successors: Successors,
    ) -> list[Forwarded]:
        """Where the copies are, also those made before."""
        moved: list[Forwarded] = []
        for _ in range(MAX_TRIES):
            if not staged:
                return moved
            group, raw = target
            at = routing.Target(group, QueueId.unpack(raw))
            try:
                receipt = await self._appenders.of(at).append(
                    encode([_copy(queue, each) for each in staged], staged[0].accepted_time_us),
                    len(staged),
                    timeout_s=self._timeout_s,
                    dedup=b"".join(_dedup(queue, n, each) for n, each in enumerate(staged)),
                    dedup_window_s=DEDUP_WINDOW_S,
                )
            except DedupKnown as error:
                for index, known in error.known.items():
                    partition = QueueId.unpack(known.queue).partition
                    moved.append(Forwarded(staged[index].number, partition, known.position))
                staged = [each for n, each in enumerate(staged) if n not in error.known]
            except QueueSealed as sealed:
                # Sealed again since: the same rule from there.
                self._appenders.forget(at)
                if not sealed.successors:
                    raise
                for further, some in _by_target(queue, staged, sealed.successors):
                    moved += await self._append(queue, some, further, sealed.successors)
                return moved
            else:
                partition = QueueId.unpack(raw).partition
                return moved + [
                    Forwarded(each.number, partition, receipt.base_offset + n)
                    for n, each in enumerate(staged)
                ]
        raise Unavailable(f"copies of {queue.id} came to no end")


def _by_target(
    queue: StagedQueue, staged: Sequence[_Staged], successors: Successors
) -> list[tuple[Target, list[_Staged]]]:
    """By the successor that each one belongs to, in appends of a bounded size."""
    parts: list[tuple[Target, list[_Staged]]] = []
    open_parts: dict[Target, tuple[list[_Staged], int]] = {}
    for each in staged:
        target = _target(queue, each.message, successors)
        some, size_bytes = open_parts.get(target, ([], 0))
        if not some or size_bytes + each.size_bytes > FETCH_BYTES:
            some, size_bytes = [], 0
            parts.append((target, some))
        some.append(each)
        open_parts[target] = (some, size_bytes + each.size_bytes)
    return parts


def _target(queue: StagedQueue, message: Message, successors: Successors) -> Target:
    """Where its key belongs; a message without one goes to the same partition, or else the first.

    Of a growth to m partitions a queue has those successors whose numbers are its own modulo some
    divisor of m (`gateway.topics.placement.successors`), so m can be told from them.
    """
    queues = {QueueId.unpack(raw).partition: (group, raw) for group, raw in successors}
    numbers = sorted(queues)
    key = message.key if message.key is not None else message.idempotency_key
    wanted = queue.key.partition
    if key is not None and len(numbers) > 1:
        wanted = partition_of(key, len(numbers) * (numbers[1] - numbers[0]))
    return queues.get(wanted, successors[0])


def _copy(queue: StagedQueue, staged: _Staged) -> Message:
    """The message as it was, and what it was called: of a copy's copy, the first name."""
    key = queue.key
    name = message_id.staged(
        key.topic_uid, key.partition, key.generation, staged.number, lane=key.lane
    )
    origin = {"stage_id": str(name)} | (staged.message.origin or {})
    return msgspec.structs.replace(staged.message, origin=origin)


def _dedup(queue: StagedQueue, index: int, staged: _Staged) -> bytes:
    name = queue.id.pack() + staged.number.to_bytes(8, "big")
    hashed = blake2b(name, digest_size=16, person=b"pb-forwarded").digest()
    return DEDUP_ENTRY.pack(index, hashed, int.from_bytes(hashed[:8], "little"))
