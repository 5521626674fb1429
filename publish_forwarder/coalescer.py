"""Per partition: send at once when nothing is in flight, batch while something is. No timer.

The order of a partition is the order in which parcels were added: one append is in flight at a
time, and what an append could not store goes back to the front. So messages of one key are stored
in publish order also over failures.

What happens to a parcel whose append failed:

    not done, unkeyed        to another partition at once, while one is left to try
    not done, keyed          waits in front, and is sent again when its group has a leader
    not done, past deadline  503: not stored, and never will be
    unknown                  504: the Appender repeated it by sequence until its deadline, and still
                             does not know; it is not sent again, so nothing is stored twice
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from edge.problem import Problem
from publish_forwarder.budget import Share
from publish_forwarder.failures import is_lasting, is_of_node, problem_of, waited_too_long
from publish_forwarder.metrics import PublishMetrics
from publish_forwarder.ports import Appender
from publish_forwarder.receipts import ReceiptWriter
from publish_forwarder.settings import PublishSettings
from store_nodes.client.appender import Receipt
from store_nodes.errors import NotDone, OutcomeUnknown, StoreError
from store_nodes.record_batch import MAX_BATCH_MESSAGES, Message, encode
from store_nodes.wire import Durability

RETRY_FIRST_S = 0.02
RETRY_MAX_S = 0.1


class Placed(NamedTuple):
    """A parcel is stored: `receipts` writes what its messages are answered."""

    receipts: ReceiptWriter
    partition: int
    base_offset: int
    log_time_us: int
    duplicate: bool = False

    def receipts_json(self, count: int) -> list[str]:
        return self.receipts.write(self.base_offset, count, self.log_time_us, self.duplicate)


Outcome = Placed | Problem


class Parcel(msgspec.Struct, eq=False):
    """Messages of one request that are stored together or not at all, in one partition.

    `pinned` ones (of a key or an idempotency key) never change partition. Whoever waits for the
    outcome waits on `future`; it may be cancelled, what was accepted is appended all the same.
    """

    messages: list[Message]
    size_bytes: int
    pinned: bool
    durability: Durability
    deadline_s: float
    share: Share
    future: asyncio.Future[Outcome] | None
    publish_id: str = ""
    reroutes: int = 0

    def settle(self, outcome: Outcome) -> None:
        """Gives back what the parcel held, and answers whoever still waits."""
        self.share.release(self.size_bytes, len(self.messages))
        future = self.future
        if future is not None and not future.done():
            future.set_result(outcome)


class Lane:
    """One partition's way into the log."""

    __slots__ = (
        "_appender",
        "_loop",
        "_metrics",
        "_on_lasting",
        "_on_waiting",
        "_retry",
        "_retry_s",
        "_scheduled",
        "_settings",
        "_stopped",
        "group",
        "in_flight",
        "partition",
        "pending",
        "receipts",
        "reroute",
        "sent_at_s",
        "stalled",
        "waiting",
    )

    def __init__(
        self,
        partition: int,
        group: int,
        appender: Appender,
        receipts: ReceiptWriter,
        settings: PublishSettings,
        metrics: PublishMetrics,
        *,
        on_waiting: Callable[[Lane], None],
        on_lasting: Callable[[StoreError], None],
    ) -> None:
        self.partition = partition
        self.group = group
        self.receipts = receipts
        self.reroute: Callable[[Parcel, Lane], bool] = _nowhere
        """Set by the topic's routes: whether another lane took the parcel."""
        self.pending: deque[Parcel] = deque()
        self.in_flight: list[Parcel] = []
        self.sent_at_s = 0.0
        self.stalled = False
        """The append in flight takes too long: unkeyed messages had better go elsewhere."""
        self.waiting = False
        """Known to the forwarder's sweep."""
        self._appender = appender
        self._settings = settings
        self._metrics = metrics
        self._on_waiting = on_waiting
        self._on_lasting = on_lasting
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._retry: asyncio.TimerHandle | None = None
        self._retry_s = RETRY_FIRST_S
        self._stopped = False

    @property
    def idle(self) -> bool:
        return not self.in_flight and not self.pending

    def add(self, parcel: Parcel) -> None:
        self.pending.append(parcel)
        if self.in_flight or self._retry is not None:
            if not self.waiting:
                self._on_waiting(self)
        elif not self._scheduled:
            # At the end of this turn of the loop: requests that arrived together go together.
            self._scheduled = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._scheduled = False
        self._retry = None
        if self.in_flight or not self.pending:
            return
        parcels, messages, durability = self._take()
        self.in_flight = parcels
        self.sent_at_s = now_s = self._loop.time()
        timeout_s = max(1.0, max(parcel.deadline_s for parcel in parcels) - now_s)
        batch = encode(messages, time.time_ns() // 1000)
        try:
            future = self._appender.append_nowait(
                batch, len(messages), durability=durability, timeout_s=timeout_s
            )
        except StoreError as error:
            self._failed(error)
            return
        metrics = self._metrics
        metrics.appends += 1
        metrics.append_bytes += len(batch)
        future.add_done_callback(self._answered)

    def _take(self) -> tuple[list[Parcel], list[Message], Durability]:
        """The parcels of the next append, oldest first; all of one durability."""
        pending = self.pending
        first = pending.popleft()
        parcels = [first]
        if not pending:
            return parcels, first.messages, _wire(first.durability)
        durability = _wire(first.durability)
        messages = list(first.messages)
        room = self._settings.max_append_bytes - first.size_bytes
        while pending:
            parcel = pending[0]
            if (
                parcel.size_bytes > room
                or len(messages) + len(parcel.messages) > MAX_BATCH_MESSAGES
                or _wire(parcel.durability) != durability
            ):
                break
            room -= parcel.size_bytes
            messages += parcel.messages
            parcels.append(pending.popleft())
        return parcels, messages, durability

    def _answered(self, future: asyncio.Future[Receipt]) -> None:
        """One callback per append; what it does per message is the receipt."""
        if future.cancelled():
            self._failed(OutcomeUnknown("the store client was closed"))
            return
        error = future.exception()
        if error is not None:
            if not isinstance(error, StoreError):
                error = OutcomeUnknown(f"{type(error).__name__}: {error}")
            self._failed(error)
            return
        receipt = future.result()
        now_s = self._loop.time()
        parcels, self.in_flight = self.in_flight, []
        self.stalled = False
        self._retry_s = RETRY_FIRST_S
        offset, metrics = receipt.base_offset, self._metrics
        for parcel in parcels:
            # A receipt that an earlier transmission earned is no duplicate to the publisher.
            parcel.settle(Placed(self.receipts, self.partition, offset, receipt.log_time_us))
            offset += len(parcel.messages)
        metrics.messages += offset - receipt.base_offset
        metrics.append_seconds.observe(now_s - self.sent_at_s)
        if self.pending:
            self._send()

    def _failed(self, error: StoreError) -> None:
        parcels, self.in_flight = self.in_flight, []
        self.stalled = False
        if not isinstance(error, NotDone):
            self._metrics.unknown += sum(len(parcel.messages) for parcel in parcels)
            self._settle_all(parcels, problem_of(error))
        elif is_lasting(error):
            self._metrics.refused += sum(len(parcel.messages) for parcel in parcels)
            self._settle_all(parcels, problem_of(error))
            self._on_lasting(error)
        else:
            self._not_done(parcels, error)
        if self.pending and self._retry is None and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._send)

    def _not_done(self, parcels: list[Parcel], error: NotDone) -> None:
        """Nothing of it is in the log: others may take it, or it is sent again, in order."""
        now_s = self._loop.time()
        stay = []
        for parcel in parcels:
            if not parcel.pinned and self.reroute(parcel, self):
                self._metrics.rerouted += len(parcel.messages)
            elif parcel.deadline_s <= now_s or is_of_node(error) or self._stopped:
                self._metrics.refused += len(parcel.messages)
                self._settle(parcel, problem_of(error))
            else:
                stay.append(parcel)
        self.pending.extendleft(reversed(stay))
        if stay:
            self._retry = self._loop.call_later(self._retry_s, self._send)
            self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)
            if not self.waiting:
                self._on_waiting(self)

    def sweep(self, now_s: float, has_leader: bool) -> None:
        """Every few milliseconds while something waits: move on what need not wait here."""
        slow = bool(self.in_flight) and now_s - self.sent_at_s > self._settings.stall_s
        self.stalled = slow
        if not (slow or self._retry is not None or not has_leader):
            return
        kept: deque[Parcel] = deque()
        for parcel in self.pending:
            if parcel.deadline_s <= now_s:
                self._metrics.refused += len(parcel.messages)
                self._settle(parcel, waited_too_long(self.partition))
            elif not parcel.pinned and self.reroute(parcel, self):
                self._metrics.rerouted += len(parcel.messages)
            else:
                kept.append(parcel)
        self.pending = kept

    def stop(self, problem: Problem) -> None:
        """At shutdown, past the drain: what was never sent is not stored, the rest is unknown."""
        self._stopped = True
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        pending, self.pending = self.pending, deque()
        self._settle_all(pending, problem)
        in_flight, self.in_flight = self.in_flight, []
        self._settle_all(in_flight, problem_of(OutcomeUnknown("this forwarder is stopping")))

    def _settle_all(self, parcels: list[Parcel] | deque[Parcel], problem: Problem) -> None:
        for parcel in parcels:
            self._settle(parcel, problem)

    def _settle(self, parcel: Parcel, problem: Problem) -> None:
        if parcel.publish_id:
            self._metrics.lost_after_202(parcel.publish_id, len(parcel.messages), problem)
        parcel.settle(problem)


def _wire(durability: Durability) -> Durability:
    """What the store is asked for: NONE is answered here, and its append watched like others."""
    return Durability.QUORUM if durability is Durability.NONE else durability


def _nowhere(parcel: Parcel, away_from: Lane) -> bool:
    return False
