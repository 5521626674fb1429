"""Takes delayed messages that came due out of a queue that was sealed before (moved or grown).

A sealed queue gives no more offsets. The message is copied to the queue that its key belongs to
now, as if published there; its id stays the one it was staged under, in the copy's `origin`, and
`forwarded` in Postgres leads from that id to its offset. Each step can be repeated:

    its body is read
    the log is asked: is it due?     by a release, which a sealed queue refuses if and only if the
                                     message is staged and due at that point of the log
    append to the successor          under its name, so the copy is made once, also when a scheduler
                                     dies after it; and under its turn, so it is refused if the
                                     message was cancelled or rescheduled since the log was asked
                                     (`outbox/delayed.py`): then the log is asked again
    forwarded row                    committed before …
    discard in the sealed queue      … so an id is always found in one of the two places
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from edge import message_id
from edge.partition import partition_of
from metadata.delivery.forwarded import Forwarded, ForwardedRepository
from outbox import delayed, routing
from outbox.appenders import Appenders
from scheduler import metrics
from scheduler.pending import StagedQueue
from scheduler.ports import Appender, DueStore
from scheduler.releasing import NOT_DUE, Handed
from store_nodes.errors import DedupKnown, QueueNotFound, QueueSealed, Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode, encode, peek

FORWARD_AT_ONCE = 200
FETCH_BYTES = 1024 * 1024

Target = tuple[int, bytes]
"""A group and a packed queue id."""
Successors = Sequence[Target]


class _Staged(NamedTuple):
    number: int
    message: Message
    accepted_time_us: int
    size_bytes: int
    turn: int = 0


@dataclass
class _Round:
    """What became of the messages of one call."""

    queue: StagedQueue
    handed: Handed
    moved: list[Forwarded] = field(default_factory=list)


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
    ) -> Handed:
        """Those of neither kind are to be tried again. Raises StoreError, MetadataError: then some
        may have been copied already, and are found copied the next time."""
        if not successors:
            return Handed(set(numbers), set())  # sealed for good: its topic is being deleted
        course = _Round(queue, Handed(set(), set()))
        # Read before the log is asked: what is cancelled in between is then not copied, also where
        # a publish forwarder of 0.2.0, which takes no turns, cancels it.
        first, bodies = await self._fetch(queue, numbers[:FORWARD_AT_ONCE])
        due = await self._due(course, first)
        if any(number not in bodies for number in due):
            raise Unavailable(f"no replica has all staged messages of {queue.id} now")
        for target, some in _by_target(queue, [bodies[number] for number in due], successors):
            await self._append(course, some, target)
        await self._repository.record(queue.key, course.moved)
        if course.moved:
            copied = [each.stage_number for each in course.moved]
            await self._store.discard(queue.group, queue.id, copied, timeout_s=self._timeout_s)
            metrics.forwarded.inc(len(course.moved))
            course.handed.done.update(copied)
        return course.handed

    async def _due(self, course: _Round, numbers: Sequence[int]) -> list[int]:
        """Those that the log says are staged and due; what the others are is noted."""
        answers = await asyncio.gather(*(self._ask(course.queue, number) for number in numbers))
        due: list[int] = []
        for number, (is_due, answer) in zip(numbers, answers, strict=True):
            if is_due:
                due.append(number)
            elif answer == NOT_DUE:
                course.handed.not_due.add(number)
            else:
                course.handed.done.add(number)
        return due

    async def _ask(self, queue: StagedQueue, number: int) -> tuple[bool, int | None]:
        """Whether the log would release it, were the queue not sealed; else the log's answer."""
        try:
            (answer,) = await self._store.release(
                queue.group, queue.id, [number], timeout_s=self._timeout_s
            )
        except QueueSealed:
            return True, None
        return False, answer

    async def _locate(self, queue: StagedQueue, number: int) -> str:
        location = await self._store.locate(
            queue.group, queue.id, number, timeout_s=self._timeout_s
        )
        return location.state

    async def _fetch(
        self, queue: StagedQueue, numbers: Sequence[int]
    ) -> tuple[Sequence[int], dict[int, _Staged]]:
        """As many of the first as `FETCH_BYTES` go for, and what replicas have of those that seem
        to be staged."""
        found: dict[int, _Staged] = {}
        size_bytes = 0
        locations = await asyncio.gather(*(self._locate(queue, number) for number in numbers))
        for at, (number, state) in enumerate(zip(numbers, locations, strict=True)):
            if number in found or state != "staged":
                continue
            if size_bytes >= FETCH_BYTES:
                return numbers[:at], found
            batches = await self._store.fetch_staged(
                queue.group, queue.id, number, FETCH_BYTES, timeout_s=self._timeout_s
            )
            for batch in batches:
                size_bytes += len(batch.batch)
                _, accepted_time_us = peek(batch.batch)
                for number_of, message in enumerate(decode(batch.batch), batch.base_stage):
                    size = len(message.data)
                    found[number_of] = _Staged(number_of, message, accepted_time_us, size)
        return numbers, found

    async def _append(self, course: _Round, staged: list[_Staged], target: Target) -> None:
        """Notes where the copies are, also those made before."""
        queue = course.queue
        group, raw = target
        at = routing.Target(group, QueueId.unpack(raw))
        while staged:
            try:
                receipt = await self._appenders.of(at).append(
                    encode([_copy(queue, each) for each in staged], staged[0].accepted_time_us),
                    len(staged),
                    timeout_s=self._timeout_s,
                    dedup=b"".join(
                        delayed.copy_ids(index, queue.id, each.number, each.turn)
                        for index, each in enumerate(staged)
                    ),
                    dedup_window_s=delayed.WINDOW_S,
                )
            except DedupKnown as error:
                staged = await self._after_known(course, staged, group, error)
            except QueueSealed as sealed:
                # Sealed again since: the same rule from there.
                self._appenders.forget(at)
                if not sealed.successors:
                    raise
                for further, some in _by_target(queue, staged, sealed.successors):
                    await self._append(course, some, further)
                return
            except QueueNotFound as error:
                # The queue that the messages are staged in is there.
                raise Unavailable(f"{at.queue}, a successor of {queue.id}, is gone") from error
            else:
                partition = at.queue.partition
                course.moved += [
                    Forwarded(each.number, partition, receipt.base_offset + n)
                    for n, each in enumerate(staged)
                ]
                return

    async def _after_known(
        self, course: _Round, staged: Sequence[_Staged], group: int, error: DedupKnown
    ) -> list[_Staged]:
        """What is to be tried again: what nothing is known of, and under its next turn what is
        still due although a change took the last one."""
        changed: list[int] = []
        for index, known in error.known.items():
            number = staged[index].number
            if known.staged:
                changed.append(number)
                await delayed.discard_turn(self._store, group, known, self._timeout_s)
            else:
                partition = QueueId.unpack(known.queue).partition
                course.moved.append(Forwarded(number, partition, known.position))
        still_due = set(await self._due(course, changed))
        again: list[_Staged] = []
        for index, each in enumerate(staged):
            if index not in error.known:
                again.append(each)
            elif each.number in still_due:
                again.append(each._replace(turn=each.turn + 1))
        return again


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
