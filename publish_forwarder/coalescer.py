"""Per partition: send at once when nothing is in flight, batch while something is. No timer.

The order of a partition is the order in which parcels were added: one append is in flight at a
time, and what an append could not store goes back to the front. So messages of one key are stored
in publish order also over failures.

What happens to a parcel whose append failed:

    not done, unkeyed        to another partition at once, while one is left to try
    not done, keyed          waits in front, and is sent again when its group has a leader
    not done, past deadline  503: not stored, and never will be
    ids known to the log     these are answered with the first message; the rest is sent at once
    queue sealed             all wait, in order, for the queue that comes after it (`moves`)
    unknown                  504: the Appender repeated it by sequence until its deadline, and still
                             does not know; it is not sent again, so nothing is stored twice
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable

from edge.problem import Problem
from publish_forwarder.failures import (
    is_full,
    is_lasting,
    is_of_node,
    not_answering,
    problem_of,
    waited_too_long,
)
from publish_forwarder.metrics import PublishMetrics
from publish_forwarder.outcomes import Placed, Single, known_as
from publish_forwarder.parcel import Parcel
from publish_forwarder.ports import Appender
from publish_forwarder.receipts import ReceiptWriter
from publish_forwarder.settings import PublishSettings
from publish_forwarder.turns import GroupTurns
from store_nodes.client.appender import Receipt
from store_nodes.commands import DEDUP_ENTRY
from store_nodes.errors import (
    DedupKnown,
    Known,
    NotDone,
    OutcomeUnknown,
    QueueSealed,
    StoreError,
)
from store_nodes.record_batch import MAX_BATCH_MESSAGES, Message, encode

RETRY_FIRST_S = 0.02
RETRY_MAX_S = 0.1


class Lane:
    """One partition's way into the log: appends to one queue."""

    __slots__ = (
        "_admits",
        "_appender",
        "_loop",
        "_metrics",
        "_on_lasting",
        "_on_quiet",
        "_on_stored",
        "_on_waiting",
        "_retry",
        "_retry_s",
        "_scheduled",
        "_sent_bytes",
        "_settings",
        "_stopped",
        "_turns",
        "closed",
        "dedup_window_s",
        "group",
        "held",
        "in_flight",
        "in_line",
        "partition",
        "pending",
        "receipts",
        "reroute",
        "sent_at_s",
        "stalled",
        "tenant_id",
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
        tenant_id: bytes,
        turns: GroupTurns,
        dedup_window_s: int,
        on_waiting: Callable[[Lane], None],
        on_lasting: Callable[[StoreError], None],
        on_quiet: Callable[[Lane], None],
        admits: Callable[[int], bool] = lambda _: True,
        on_stored: Callable[[int, int], None] = lambda messages, size_bytes: None,
    ) -> None:
        self.partition = partition
        self.group = group
        self.tenant_id = tenant_id
        self.receipts = receipts
        self.dedup_window_s = dedup_window_s
        self.reroute: Callable[[Parcel, Lane], bool] = _nowhere
        """Set by the topic's routes: whether another lane took the parcel."""
        self.pending: deque[Parcel] = deque()
        self.in_flight: list[Parcel] = []
        self.sent_at_s = 0.0
        self.stalled = False
        """What waits here waits too long: unkeyed messages had better go elsewhere."""
        self.closed = False
        """The queue is sealed, or no longer the topic's: nothing is sent any more. When nothing is
        in flight either, `on_quiet` is told, for what is pending to be moved."""
        self.held = False
        """What was accepted before, for an older queue of the partition, is to go first."""
        self.waiting = False
        """Known to the forwarder's sweep."""
        self.in_line = False
        """More goes to the group than it takes: it is not this lane's turn yet."""
        self._turns = turns
        self._sent_bytes = 0
        self._admits = admits
        self._on_stored = on_stored
        self._appender = appender
        self._settings = settings
        self._metrics = metrics
        self._on_waiting = on_waiting
        self._on_lasting = on_lasting
        self._on_quiet = on_quiet
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._retry: asyncio.TimerHandle | None = None
        self._retry_s = RETRY_FIRST_S
        self._stopped = False

    @property
    def idle(self) -> bool:
        return not self.in_flight and not self.pending

    def add(self, parcel: Parcel) -> None:
        if self.stalled and not (self.held or self.closed) and not self._admits(self.group):
            self._turn_away(parcel)
            return
        self.pending.append(parcel)
        if self.in_flight or self._retry is not None:
            if not self.waiting:
                self._on_waiting(self)
        elif not self._scheduled:
            # At the end of this turn of the loop: requests that arrived together go together.
            self._scheduled = True
            self._loop.call_soon(self._send)

    def _turn_away(self, parcel: Parcel) -> None:
        """The group has not answered for a while: it would only wait with the others."""
        if not parcel.pinned and self.reroute(parcel, self):
            self._metrics.rerouted += len(parcel.messages)
        else:
            self._metrics.refused += len(parcel.messages)
            self._settle(parcel, not_answering(self.partition))

    def put_first(self, parcels: Iterable[Parcel]) -> None:
        """What was accepted for an older queue goes before all that waits here."""
        self.pending.extendleft(reversed(list(parcels)))
        self._wake()

    def hold(self) -> None:
        """Send nothing until `let_go`."""
        self.held = self.stalled = True

    def let_go(self) -> None:
        """What was accepted before has gone."""
        self.held = self.stalled = False
        self._wake()

    def close(self) -> None:
        """Send nothing any more; `on_quiet` follows, at once or when the append is answered."""
        self.closed = self.stalled = True
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if not self.in_flight:
            self._on_quiet(self)

    def take_all(self) -> list[Parcel]:
        """What waits here, to be moved."""
        parcels, self.pending = list(self.pending), deque()
        return parcels

    def _wake(self) -> None:
        if self.pending and self._retry is None and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._send)

    def take_turn(self) -> None:
        """Sends what waits, if anything does."""
        self._send(in_turn=True)

    def _send(self, *, in_turn: bool = False) -> None:
        if in_turn:
            self.in_line = False
        elif self.in_line:
            self._scheduled = False
            return
        self._scheduled = False
        self._retry = None
        if self.in_flight or not self.pending:
            return
        if self.held or self.closed:
            self._stay()
            return
        if not in_turn and not self._turns.admits(self):
            self._get_in_line()
            return
        parcels, messages, ids = self._take()
        self.in_flight = parcels
        self.sent_at_s = now_s = self._loop.time()
        timeout_s = max(1.0, max(parcel.deadline_s for parcel in parcels) - now_s)
        batch = encode(messages, time.time_ns() // 1000)
        self._sent_bytes = size_bytes = sum([parcel.size_bytes for parcel in parcels])
        self._turns.begin(self, size_bytes)
        try:
            future = self._append(
                batch, parcels, len(messages), timeout_s, packed_ids(parcels) if ids else b""
            )
        except StoreError as error:
            self._turns.ended(size_bytes)
            self._failed(error)
            return
        metrics = self._metrics
        metrics.appends += 1
        metrics.append_bytes += len(batch)
        future.add_done_callback(self._answered)

    def _get_in_line(self) -> None:
        """As long as an append that is not answered: what need not wait here may go elsewhere."""
        self.in_line = True
        self.sent_at_s = self._loop.time()
        if not self.waiting:
            self._on_waiting(self)

    def _stay(self) -> None:
        """Nothing is sent now; parcels still have their deadlines, and other lanes to go to."""
        if not self.waiting:
            self._on_waiting(self)
        if self.closed:
            self._on_quiet(self)

    def _append(
        self, batch: bytes, parcels: list[Parcel], count: int, timeout_s: float, dedup: bytes
    ) -> asyncio.Future[Receipt]:
        return self._appender.append_nowait(
            batch,
            count,
            durability=parcels[0].durability,
            timeout_s=timeout_s,
            dedup=dedup,
            dedup_window_s=self.dedup_window_s,
        )

    def _take(self) -> tuple[list[Parcel], list[Message], bool]:
        """The parcels of the next append, oldest first, all of one durability; their messages; and
        whether any has ids."""
        pending = self.pending
        first = pending.popleft()
        parcels = [first]
        ids = first.ids is not None
        if not pending:
            return parcels, first.messages, ids
        durability = first.durability
        messages = list(first.messages)
        room = self._settings.max_append_bytes - first.size_bytes
        while pending:
            parcel = pending[0]
            if (
                parcel.size_bytes > room
                or len(messages) + len(parcel.messages) > MAX_BATCH_MESSAGES
                or parcel.durability != durability
            ):
                break
            room -= parcel.size_bytes
            messages += parcel.messages
            if parcel.ids is not None:
                ids = True
            parcels.append(pending.popleft())
        return parcels, messages, ids

    def _answered(self, future: asyncio.Future[Receipt]) -> None:
        """One callback per append; what it does per message is the receipt."""
        size_bytes = self._sent_bytes
        self._turns.ended(size_bytes)
        if future.cancelled():
            self._failed(OutcomeUnknown("the store client was closed"))
            return
        error = future.exception()
        if error is not None:
            if not isinstance(error, StoreError):
                error = OutcomeUnknown(f"{type(error).__name__}: {error}")
            self._failed(error)
            return
        now_s = self._loop.time()
        parcels, self.in_flight = self.in_flight, []
        self.stalled = self.held or self.closed
        self._retry_s = RETRY_FIRST_S
        metrics = self._metrics
        count = self._settle_stored(parcels, future.result())
        metrics.messages += count
        self._on_stored(count, size_bytes)
        metrics.append_seconds.observe(now_s - self.sent_at_s)
        if self.pending:
            self._send()
        elif self.closed:
            self._on_quiet(self)

    def _settle_stored(self, parcels: list[Parcel], receipt: Receipt) -> int:
        """Tells each parcel where it is; how many messages that were."""
        offset = receipt.base_offset
        for parcel in parcels:
            # A receipt that an earlier transmission earned is no duplicate to the publisher.
            parcel.settle(Placed(self.receipts, self.partition, offset, receipt.log_time_us))
            offset += len(parcel.messages)
        return offset - receipt.base_offset

    def _failed(self, error: StoreError) -> None:
        parcels, self.in_flight = self.in_flight, []
        self.stalled = self.held or self.closed
        if isinstance(error, DedupKnown) and self._known(parcels, error.known):
            pass
        elif not isinstance(error, NotDone):
            for parcel in parcels:
                self._metrics.unknown += len(parcel.messages)
                self._settle(parcel, problem_of(error, repeatable=parcel.ids is not None))
        elif isinstance(error, QueueSealed) and error.successors:
            self._sealed(parcels)
        elif is_lasting(error):
            self._metrics.refused += sum(len(parcel.messages) for parcel in parcels)
            self._settle_all(parcels, problem_of(error))
            self._on_lasting(error)
        else:
            self._not_done(parcels, error)
        if self.closed:
            self._on_quiet(self)
        else:
            self._wake()

    def _known(self, parcels: list[Parcel], known: dict[int, Known]) -> bool:
        """Answers the messages that the log has; what is left goes again, first and in order."""
        left: list[Parcel] = []
        base = found = 0
        for parcel in parcels:
            rest: Parcel | None = parcel
            ids = parcel.ids.entries if parcel.ids is not None else ()
            hits = {e.at: known[base + e.at] for e in ids if base + e.at in known}
            base += len(parcel.messages)
            if hits:
                found += len(hits)
                rest = parcel.learn(hits, self._known_as)
            if rest is not None:
                left.append(rest)
        self.pending.extendleft(reversed(left))
        self._metrics.duplicates += found
        return found > 0

    def _known_as(self, known: Known) -> Single:
        return known_as(known, self.receipts)

    def _sealed(self, parcels: list[Parcel]) -> None:
        """The partition goes on in another queue."""
        self.closed = self.stalled = True
        stay = [parcel for parcel in parcels if parcel.pinned or not self.reroute(parcel, self)]
        self._metrics.rerouted += sum(len(p.messages) for p in parcels) - sum(
            len(p.messages) for p in stay
        )
        self.pending.extendleft(reversed(stay))
        if not self.waiting:
            self._on_waiting(self)

    def _not_done(self, parcels: list[Parcel], error: NotDone) -> None:
        """Nothing of it is in the log: others may take it, or it is sent again, in order."""
        now_s = self._loop.time()
        stay = []
        for parcel in parcels:
            if not parcel.pinned and self.reroute(parcel, self):
                self._metrics.rerouted += len(parcel.messages)
            elif (
                parcel.deadline_s <= now_s
                or is_of_node(error)
                or (parcel.ids is not None and is_full(error))
                or self._stopped
            ):
                self._metrics.refused += len(parcel.messages)
                self._settle(parcel, problem_of(error))
            else:
                stay.append(parcel)
        self.pending.extendleft(reversed(stay))
        if stay and not self.closed:
            self._retry = self._loop.call_later(self._retry_s, self._send)
            self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)
        if stay and not self.waiting:
            self._on_waiting(self)

    def sweep(self, now_s: float, has_leader: bool) -> None:
        """Every few milliseconds while something waits: move on what need not wait here."""
        slow = (
            bool(self.in_flight) or self.in_line
        ) and now_s - self.sent_at_s > self._settings.stall_s
        self.stalled = slow = slow or self.held or self.closed
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

    def refuse_all(self, problem: Problem) -> None:
        """What waits here has nowhere to go."""
        self._metrics.refused += sum(len(parcel.messages) for parcel in self.pending)
        self._settle_all(self.take_all(), problem)

    def _settle_all(self, parcels: list[Parcel] | deque[Parcel], problem: Problem) -> None:
        for parcel in parcels:
            self._settle(parcel, problem)

    def _settle(self, parcel: Parcel, problem: Problem) -> None:
        if parcel.publish_id:
            self._metrics.lost_after_202(parcel.publish_id, len(parcel.messages), problem)
        parcel.settle(problem)


def packed_ids(parcels: list[Parcel]) -> bytes:
    """The dedup section of an append of these."""
    entries = []
    base = 0
    for parcel in parcels:
        if parcel.ids is not None:
            entries += [
                DEDUP_ENTRY.pack(base + entry.at, entry.name, entry.fingerprint)
                for entry in parcel.ids.entries
            ]
        base += len(parcel.messages)
    return b"".join(entries)


def _nowhere(parcel: Parcel, away_from: Lane) -> bool:
    return False
