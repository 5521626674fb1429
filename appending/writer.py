"""Appends and stages for callers that wait for the answer, over the senders of a process.

The writer adds these promises to those of its queue senders:

1. **One session a queue.** Queue senders are kept for at most `MAX_SENDERS` queues; the least
   recently used is dropped first, but never with anything under way.
2. **Bounds.** More than `MAX_WAITING` batches waiting for one queue are refused with Overloaded.
3. **Cancellation.** A batch whose caller is cancelled is not sent, unless it was sent before.
4. **Outcomes.** A call ends in its receipt, in NotDone, or in OutcomeUnknown, by its timeout. The
   appender repeats a batch under its sequence until then; after that the caller may try again a
   batch that is not done. DedupKnown names the messages that the log has: nothing of that batch was
   stored.
5. **Sealed queues** (`put`). Messages that a sealed queue did not take go to its successors in
   order, each to the one that its key belongs to. Sealed queues are asked before the open one
   whether they know a message by its name. So a caller that names its messages stores each once,
   also while queues move and topics grow.

Staged batches (`stage`) have no order among each other until they are released, so up to
`STAGES_IN_FLIGHT` are sent at once; appends keep their order.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeVar

from appending.chunks import CHUNK_BYTES, message_bytes
from appending.sender import Name, QueueSender, Sweep
from edge.partition import partition_of
from store_nodes.client import StoreClient
from store_nodes.client.appender import WINDOW, Receipt
from store_nodes.commands import DEDUP_ENTRY, StageExtras
from store_nodes.errors import (
    DedupKnown,
    Known,
    Overloaded,
    QueueNotFound,
    QueueSealed,
    StoreError,
    Unavailable,
)
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from store_nodes.wire import Durability

MAX_SENDERS = 1000
MAX_WAITING = 1024
MAX_SUCCESSORS = 64
"""Successors, one after the other, to which a message may be led."""
STAGES_IN_FLIGHT = WINDOW
NAMES_KEPT_S = 86_400
"""Seconds for which the log remembers the names of messages that a writer put."""
STALL_S = 0.25
"""Seconds without an answer after which waiting callers are told at their deadlines."""
E = TypeVar("E")


class Target(NamedTuple):
    """A queue, and the group that holds it."""

    group: int
    queue: QueueId


class Batch(NamedTuple):
    """Messages that are stored together; `accepted_us` is when they were accepted, 0 for now."""

    messages: list[Message]
    names: Sequence[Name] = ()
    accepted_us: int = 0


class PutCaller(Protocol[E]):
    """The caller's side of `put`: what its entries become on their way."""

    def route(self, entry: E) -> str | None:
        """Return the key that decides an entry's partition; None lets any of those that follow take
        it.
        """
        ...

    def batch(self, entries: Sequence[E]) -> Batch:
        """Return the messages to store for these entries, in this order."""
        ...

    def stored(self, target: Target, entries: Sequence[E], base_offset: int) -> None:
        """Learn that the entries are stored from this offset on."""
        ...

    async def known(
        self, target: Target, entries: Sequence[E], known: dict[int, Known]
    ) -> Sequence[E]:
        """Learn that the log has the entries at these indices; return the entries to try again."""
        ...


class _Waited:
    """An append request whose caller waits: one batch."""

    __slots__ = ("batch", "deadline_s", "entries", "future", "messages", "size_bytes", "tag")

    def __init__(
        self,
        batch: Batch,
        tag: bytes | None,
        deadline_s: float,
        future: asyncio.Future[Receipt],
    ) -> None:
        self.batch = batch
        self.messages = batch.messages
        self.entries = batch.names
        self.tag = tag
        """The tag of a batch that is staged."""
        self.size_bytes = sum(map(message_bytes, batch.messages))
        self.deadline_s = deadline_s
        self.future = future

    @property
    def ids(self) -> _Waited | None:
        return self if self.entries else None

    @property
    def pinned(self) -> bool:
        return True

    @property
    def durability(self) -> Durability:
        return Durability.QUORUM


class Writer:
    """Appends and stages batches; one for each process and purpose, used on one event loop.

    It needs no closing, because callers that are cancelled take their waiting batches back.
    """

    def __init__(
        self,
        store: StoreClient,
        timeout_s: float = 5.0,
        *,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._owner = _Owner(wall_us)
        self._senders: OrderedDict[tuple[Target, bool], QueueSender[_Waited]] = OrderedDict()

    async def append(self, target: Target, batch: Batch) -> Receipt:
        """Append a batch at the end of the queue. Raises StoreError."""
        return await self._wait(target, batch, None)

    async def stage(self, target: Target, batch: Batch, tag: bytes) -> Receipt:
        """Store a batch to be released by number; the receipt has the first number.

        Raises StoreError.
        """
        return await self._wait(target, batch, tag)

    async def put(self, way: Sequence[Target], entries: Iterable[E], course: PutCaller[E]) -> None:
        """Append entries to the last queue of the way, or its successors, unless an earlier queue
        knows them.

        The entries fit one batch; those of one partition are stored in their order. Raises
        StoreError: then some entries may be stored, as `course` was told.
        """
        left = list(entries)
        for asked in way[:-1]:
            with suppress(QueueSealed, QueueNotFound):
                await self._put_here(asked, left, course)
        await self._put_there(way[-1], left, course, MAX_SUCCESSORS)

    async def _put_there(
        self, target: Target, left: list[E], course: PutCaller[E], successors: int
    ) -> None:
        try:
            await self._put_here(target, left, course)
        except QueueSealed as sealed:
            self._senders.pop((target, False), None)
            if not sealed.successors:
                raise
            if not successors:
                raise Unavailable(f"the successors of {target.queue} come to no end") from sealed
            for further, some in spread(left, course.route, target.queue, sealed.successors):
                await self._put_there(further, some, course, successors - 1)

    async def _put_here(self, target: Target, left: list[E], course: PutCaller[E]) -> None:
        """Append to one queue until nothing is left; an exception leaves the rest in `left`."""
        while left:
            try:
                receipt = await self.append(target, course.batch(left))
            except DedupKnown as error:
                left[:] = await course.known(target, left, error.known)
            else:
                course.stored(target, left, receipt.base_offset)
                left.clear()

    async def _wait(self, target: Target, batch: Batch, tag: bytes | None) -> Receipt:
        sender = self._sender(target, staging=tag is not None)
        if len(sender.pending) >= MAX_WAITING:
            raise Overloaded(f"{MAX_WAITING} batches wait for {target.queue}")
        loop = asyncio.get_running_loop()
        request = _Waited(batch, tag, loop.time() + self._timeout_s, loop.create_future())
        sender.add(request)
        try:
            return await request.future
        except asyncio.CancelledError:
            sender.withdraw(request)
            raise

    def _sender(self, target: Target, *, staging: bool) -> QueueSender[_Waited]:
        sender = self._senders.pop((target, staging), None)
        if sender is None:
            sender = QueueSender(
                target.group,
                target.queue,
                self._store.appender(*target),
                self._owner,
                max_append_bytes=CHUNK_BYTES,
                stall_s=STALL_S,
                dedup_window_s=NAMES_KEPT_S,
                max_in_flight=STAGES_IN_FLIGHT if staging else 1,
                joins=_join,
            )
        self._senders[target, staging] = sender
        if len(self._senders) > MAX_SENDERS:
            oldest = next(iter(self._senders))
            if self._senders[oldest].idle:
                del self._senders[oldest]
            else:
                self._senders.move_to_end(oldest)
        return sender


class _Owner:
    """The owner of all queue senders of a writer: it answers the callers."""

    def __init__(self, wall_us: Callable[[], int]) -> None:
        self.repeats = False
        self._wall_us = wall_us
        self._sweep: Sweep[_Waited] = Sweep(lambda group: True)

    def admits(self, group: int) -> bool:
        return True

    def reroute(self, request: _Waited, away_from: QueueSender[_Waited]) -> bool:
        return False

    def waits(self, sender: QueueSender[_Waited]) -> None:
        self._sweep.add(sender)

    def accepted_us(self, requests: Sequence[_Waited]) -> int:
        return requests[0].batch.accepted_us or self._wall_us()

    def extras(self, requests: Sequence[_Waited]) -> StageExtras | None:
        tag = requests[0].tag
        return None if tag is None else StageExtras(None, tag)

    def sent(self, batch_bytes: int) -> None:
        return

    def stored(
        self, requests: Sequence[_Waited], receipt: Receipt, size_bytes: int, seconds: float
    ) -> None:
        base = receipt.base_offset
        for request in requests:
            if not request.future.done():
                request.future.set_result(receipt._replace(base_offset=base))
            base += len(request.messages)

    def known(self, request: _Waited, known: dict[int, Known]) -> None:
        self.failed(request, DedupKnown(known))

    def failed(self, request: _Waited, error: StoreError) -> None:
        if not request.future.done():
            request.future.set_exception(error)

    def ended(
        self, sender: QueueSender[_Waited], requests: list[_Waited], error: StoreError
    ) -> bool:
        return False

    def quiet(self, sender: QueueSender[_Waited]) -> None:
        return


def _join(first: _Waited, request: _Waited) -> bool:
    return first.tag == request.tag and first.batch.accepted_us == request.batch.accepted_us


def successor_of(
    route: str | None, queue: QueueId, successors: Sequence[tuple[int, bytes]]
) -> Target:
    """Return the queue where a message of a sealed queue goes: the one that its key belongs to.

    A message without a key goes to the same partition, or else to the first. When a topic grows to
    m partitions, a queue's successors are those whose numbers are its own modulo some divisor of m
    (`gateway.topics.placement.successors`), so m can be told from them.
    """
    targets = {
        target.queue.partition: target
        for target in (Target(group, QueueId.unpack(raw)) for group, raw in successors)
    }
    numbers = sorted(targets)
    wanted = queue.partition
    if route is not None and len(numbers) > 1:
        wanted = partition_of(route, len(numbers) * (numbers[1] - numbers[0]))
    return targets.get(wanted) or targets[numbers[0]]


def spread(
    entries: Iterable[E],
    route: Callable[[E], str | None],
    queue: QueueId,
    successors: Sequence[tuple[int, bytes]],
) -> list[tuple[Target, list[E]]]:
    """Return the entries by the successor that each of them goes to, in order."""
    onward: dict[Target, list[E]] = {}
    for entry in entries:
        onward.setdefault(successor_of(route(entry), queue, successors), []).append(entry)
    return list(onward.items())


def names_of(packed: bytes) -> list[Name]:
    """Return the names in a packed dedup section."""
    return [Name(*entry) for entry in DEDUP_ENTRY.iter_unpack(packed)]
