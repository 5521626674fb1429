"""Moves delayed messages that are due out of a queue that was sealed before (moved or grown).

A sealed queue gives no more offsets. The message is copied to the queue that its key belongs to
now, as if published there. Its id stays the one under which it was staged, in the copy's `origin`,
and `forwarded` in Postgres leads from that id to its offset. The steps, each of which can be
repeated:

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
from typing import NamedTuple

import msgspec

from appending.chunks import chunks
from appending.writer import Batch, Target, Writer, names_of, spread
from edge import message_id
from metadata.delivery.forwarded import Forwarded, ForwardedRepository
from outbox import delayed
from scheduler import metrics
from scheduler.pending import StagedQueue
from store_nodes.client import StoreClient
from store_nodes.errors import Known, QueueNotFound, QueueSealed, Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode, peek

FORWARD_AT_ONCE = 200
FETCH_BYTES = 1024 * 1024

Successors = Sequence[tuple[int, bytes]]
"""Groups and packed queue ids."""


NOT_DUE = -1
"""The answer of a release for a message that is not due."""


class ForwardResult(NamedTuple):
    """The results for messages of a sealed queue: staged no more, or not due yet by log time."""

    done: set[int]
    not_due: set[int]


class _Staged(NamedTuple):
    number: int
    message: Message
    accepted_time_us: int
    turn: int = 0


class Forwarding:
    """Moves one queue's messages at a time, in order, so that the order of a key is kept."""

    def __init__(
        self, store: StoreClient, repository: ForwardedRepository, *, timeout_s: float
    ) -> None:
        self._store = store
        self._repository = repository
        self._timeout_s = timeout_s
        self._writer = Writer(store, timeout_s)

    async def forward(
        self, queue: StagedQueue, numbers: Sequence[int], successors: Successors
    ) -> ForwardResult:
        """Copy messages to the successors; return what became of them.

        Try again those that it does not name.

        Raises StoreError, MetadataError: then some may have been copied already, and are recognised
        the next time.
        """
        if not successors:
            # sealed for good, because its topic is being deleted
            return ForwardResult(set(numbers), set())
        course = _ForwardingPut(self, queue)
        # The bodies are read before the log is asked. A message that is cancelled in between is
        # then not copied, even if a publish forwarder of 0.2.0, which takes no turns, cancels it.
        first, bodies = await self._fetch(queue, numbers[:FORWARD_AT_ONCE])
        due = await self.due(course, first)
        if any(number not in bodies for number in due):
            raise Unavailable(f"no replica has all staged messages of {queue.id} now")
        copied = [bodies[number] for number in due]
        for target, some in spread(copied, course.route, queue.id, successors):
            await self._append(target, some, course)
        await self._repository.record(queue.key, course.moved)
        if course.moved:
            moved = [each.stage_number for each in course.moved]
            await self._store.discard(queue.group, queue.id, moved, timeout_s=self._timeout_s)
            metrics.forwarded.inc(len(course.moved))
            course.handed.done.update(moved)
        return course.handed

    async def _append(self, target: Target, staged: list[_Staged], course: _ForwardingPut) -> None:
        """Append copies, and note where they are, also those made before."""
        for chunk in chunks(staged, lambda each: each.message):
            try:
                await self._writer.put((target,), chunk, course)
            except QueueNotFound as error:
                # The queue in which the messages are staged exists.
                raise Unavailable(f"a successor of {course.queue.id} is gone") from error

    async def discard_turn(self, group: int, known: Known) -> None:
        """Discard the message that took a turn."""
        await delayed.discard_turn(self._store, group, known, self._timeout_s)

    async def due(self, course: _ForwardingPut, numbers: Sequence[int]) -> list[int]:
        """Return the messages that the log says are staged and due; note the state of the
        others.
        """
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
        """Return whether the log would release a message if its queue were not sealed, and its
        answer if not.
        """
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
        """Return the first of the messages that fit in `FETCH_BYTES`, with the bodies of staged
        ones.
        """
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
                    found[number_of] = _Staged(number_of, message, accepted_time_us)
        return numbers, found


class _ForwardingPut:
    """The results for the messages of one call."""

    def __init__(self, forwarding: Forwarding, queue: StagedQueue) -> None:
        self.queue = queue
        self.handed = ForwardResult(set(), set())
        self.moved: list[Forwarded] = []
        self._forwarding = forwarding

    def route(self, staged: _Staged) -> str | None:
        message = staged.message
        return message.key if message.key is not None else message.idempotency_key

    def batch(self, staged: Sequence[_Staged]) -> Batch:
        ids = b"".join(
            delayed.copy_ids(index, self.queue.id, each.number, each.turn)
            for index, each in enumerate(staged)
        )
        copies = [_copy(self.queue, each) for each in staged]
        return Batch(copies, names_of(ids), staged[0].accepted_time_us)

    def stored(self, target: Target, staged: Sequence[_Staged], base_offset: int) -> None:
        self.moved += [
            Forwarded(each.number, target.queue.partition, offset)
            for offset, each in enumerate(staged, base_offset)
        ]

    async def known(
        self, target: Target, staged: Sequence[_Staged], known: dict[int, Known]
    ) -> list[_Staged]:
        """Return messages that the log does not know, and those that are still due although a
        change took their turn.

        The latter get their next turn.
        """
        changed: list[int] = []
        for index, first in known.items():
            number = staged[index].number
            if first.staged:
                changed.append(number)
                await self._forwarding.discard_turn(target.group, first)
            else:
                partition = QueueId.unpack(first.queue).partition
                self.moved.append(Forwarded(number, partition, first.position))
        still_due = set(await self._forwarding.due(self, changed))
        again: list[_Staged] = []
        for index, each in enumerate(staged):
            if index not in known:
                again.append(each)
            elif each.number in still_due:
                again.append(each._replace(turn=each.turn + 1))
        return again


def _copy(queue: StagedQueue, staged: _Staged) -> Message:
    """Return a copy of a message with its id; a copy of a copy keeps the first id."""
    key = queue.key
    name = message_id.staged(
        key.topic_uid, key.partition, key.generation, staged.number, lane=key.lane
    )
    origin = {"stage_id": str(name)} | (staged.message.origin or {})
    return msgspec.structs.replace(staged.message, origin=origin)
