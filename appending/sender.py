"""Gathers the messages for one queue and appends them: the one way into the log.

Publishing, the outbox, staging and the forwarding of delayed messages all append through a
`QueueSender`. An append request (`Appendable`) holds messages that are stored together or not at
all. A queue sender promises:

1. **At once, or in a batch.** A request that comes while nothing is in flight is sent at the end of
   this turn of the loop; requests that come meanwhile go together in the next append. There is no
   timer.
2. **One wait list.** Requests wait here and nowhere else. The appender below holds only what was
   sent and is not answered yet, for which the log keeps receipts.
3. **Order.** The queue gets requests in the order in which they were added, also after failures:
   one append is in flight at a time, and requests that it did not store go back to the front. Only
   a sender whose requests need no order among each other has more in flight (`max_in_flight`).
4. **Bounds.** An append has at most `max_append_bytes` (a larger request goes alone) and
   `MAX_BATCH_MESSAGES`, one durability, and no id twice. `GroupWindow` bounds the bytes in flight
   to a group; the code that adds requests bounds how many wait.
5. **Outcomes.** The owner is told one outcome for each request: stored here, known to the log
   before, not done, or unknown. It is told “stored” only once the log's answer gives the durability
   that the request asks for.

A request whose append failed:

    not done, not pinned     goes to another sender at once, if the owner has one
    not done, pinned         waits in front and is sent again until its deadline, unless the
                             owner's appends are not to be repeated
    ids known to the log     the owner is told which; the rest goes again, first and in order
    queue sealed or gone     the owner says whether it continues (`Owner.ended`); else not done
    unknown                  the appender repeated it by sequence until its deadline without an
                             answer: it is not sent again, so nothing is stored twice

A request that was sent cannot be taken back; one that waits can (`withdraw`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

from appending.group_window import GroupWindow
from store_nodes.client import Appender
from store_nodes.client.appender import Receipt
from store_nodes.commands import DEDUP_ENTRY, DEDUP_WINDOW_S, StageExtras
from store_nodes.errors import (
    DedupKnown,
    DiskFull,
    Known,
    NotDone,
    NotSupported,
    OutcomeUnknown,
    Overloaded,
    QueueNotFound,
    QueueSealed,
    StoreError,
    TooLarge,
    Unavailable,
)
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import MAX_BATCH_MESSAGES, Message, encode
from store_nodes.wire import Durability

RETRY_FIRST_S = 0.02
RETRY_MAX_S = 0.1
SWEEP_S = 0.025
_LASTING = (QueueNotFound, QueueSealed, TooLarge, NotSupported)
"""Errors after which nothing is done and another try of the same append would fail again."""


class NotTaken(Unavailable):
    """The queue sender did not send the request, or gave it up; the text is a sentence with the
    reason.
    """


class Stopping(NotTaken):
    """The process is shutting down."""


class Name(NamedTuple):
    """The name under which the log remembers the message at index `at` of an append request, or the
    `covers` messages from there on.
    """

    at: int
    name: bytes
    fingerprint: int
    covers: int = 1


class Names(Protocol):
    """The names of the messages of an append request."""

    @property
    def entries(self) -> Sequence[Name]: ...


class Appendable(Protocol):
    """An append request: messages that are stored together or not at all, in one queue.

    It is tried until `deadline_s` of the loop's clock. A `pinned` one never changes its partition.
    """

    @property
    def messages(self) -> list[Message]: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def pinned(self) -> bool: ...
    @property
    def durability(self) -> Durability: ...
    @property
    def deadline_s(self) -> float: ...
    @property
    def ids(self) -> Names | None: ...


P = TypeVar("P", bound=Appendable)


class Owner(Protocol[P]):
    """The owner of a queue sender: it learns each request's outcome, and decides where the sender
    cannot.
    """

    repeats: bool
    """Whether requests that are not done are sent again until their deadlines."""

    def admits(self, group: int) -> bool:
        """Return whether one more request may wait for a group that has not answered for a
        while.
        """
        ...

    def reroute(self, request: P, away_from: QueueSender[P]) -> bool:
        """Return whether another queue sender took the request."""
        ...

    def waits(self, sender: QueueSender[P]) -> None:
        """Learn that requests wait in the sender: call its `sweep` every few ms until it is
        idle.
        """
        ...

    def accepted_us(self, requests: Sequence[P]) -> int:
        """Return the time at which the messages of these requests count as accepted."""
        ...

    def extras(self, requests: Sequence[P]) -> StageExtras | None:
        """Return the extra fields with which these requests are staged; None appends them."""
        ...

    def sent(self, batch_bytes: int) -> None:
        """Learn that an append is on its way."""
        ...

    def stored(
        self, requests: Sequence[P], receipt: Receipt, size_bytes: int, seconds: float
    ) -> None:
        """Learn that all messages of these requests are stored, one after the other from the
        receipt's offset.
        """
        ...

    def known(self, request: P, known: dict[int, Known]) -> P | None:
        """Learn that the log has the messages at these indices; return the rest that is to be
        stored.
        """
        ...

    def failed(self, request: P, error: StoreError) -> None:
        """Learn that the request is not stored and never will be (NotDone), or that this is
        unknown.
        """
        ...

    def ended(self, sender: QueueSender[P], requests: list[P], error: StoreError) -> bool:
        """Learn that the queue is sealed or gone; return whether the owner has taken care of the
        requests.
        """
        ...

    def quiet(self, sender: QueueSender[P]) -> None:
        """Learn that a closed sender has nothing in flight any more."""
        ...


class _Flight(Generic[P]):
    """One append without an answer so far."""

    __slots__ = ("requests", "sent_at_s", "size_bytes")

    def __init__(self, requests: list[P], sent_at_s: float, size_bytes: int) -> None:
        """Begin an append that has no answer yet."""
        self.requests = requests
        self.sent_at_s = sent_at_s
        self.size_bytes = size_bytes


class QueueSender(Generic[P]):
    """Appends to one queue, or stages in it."""

    __slots__ = (
        "_appender",
        "_awaits_since_s",
        "_joins",
        "_loop",
        "_max_append_bytes",
        "_max_in_flight",
        "_owner",
        "_retry",
        "_retry_s",
        "_scheduled",
        "_stall_s",
        "_stopped",
        "_window",
        "awaits_turn",
        "closed",
        "dedup_window_s",
        "group",
        "held",
        "in_flight",
        "pending",
        "queue",
        "stalled",
        "tenant_id",
        "waiting",
    )

    def __init__(
        self,
        group: int,
        queue: QueueId,
        appender: Appender,
        owner: Owner[P],
        *,
        max_append_bytes: int,
        stall_s: float,
        tenant_id: bytes = b"",
        window: GroupWindow | None = None,
        dedup_window_s: int = DEDUP_WINDOW_S,
        max_in_flight: int = 1,
        joins: Callable[[P, P], bool] | None = None,
    ) -> None:
        """Prepare a queue sender; `joins` tells whether the second request may share an append with
        the first.

        Without `joins`, all may.
        """
        self.group = group
        self.queue = queue
        self.tenant_id = tenant_id
        self.dedup_window_s = dedup_window_s
        self.pending: deque[P] = deque()
        self.in_flight: list[_Flight[P]] = []
        self.stalled = False
        """Whether requests wait too long here: those that may go elsewhere should."""
        self.closed = False
        """Whether sending has ended, because the queue is sealed or no longer the owner's.

        Once nothing is in flight either, the owner is told, so that it can move the pending
        requests.
        """
        self.held = False
        """Whether requests accepted earlier, for an older queue of the partition, have to go
        first.
        """
        self.waiting = False
        """Whether the sweep knows this sender."""
        self.awaits_turn = False
        """Whether the sender waits for its turn, because the group has its bound of bytes in
        flight.
        """
        self._appender = appender
        self._owner = owner
        self._window = window
        self._max_append_bytes = max_append_bytes
        self._max_in_flight = max_in_flight
        self._stall_s = stall_s
        self._joins = joins
        self._loop = asyncio.get_running_loop()
        self._awaits_since_s = 0.0
        self._scheduled = False
        self._retry: asyncio.TimerHandle | None = None
        self._retry_s = RETRY_FIRST_S
        self._stopped = False

    @property
    def partition(self) -> int:
        return self.queue.partition

    @property
    def idle(self) -> bool:
        """Whether no request waits and no append is in flight."""
        return not self.in_flight and not self.pending

    def add(self, request: P) -> None:
        """Add a request behind all others, and have it sent at the end of this turn of the loop."""
        if self.stalled and not (self.held or self.closed) and not self._owner.admits(self.group):
            self._turn_away(request)
            return
        self.pending.append(request)
        if len(self.in_flight) >= self._max_in_flight or self._retry is not None:
            if not self.waiting:
                self._owner.waits(self)
        elif not self._scheduled:
            # The call is delayed to the end of this turn of the loop: requests that arrived
            # together go together.
            self._scheduled = True
            self._loop.call_soon(self._send)

    def _turn_away(self, request: P) -> None:
        """Refuse or reroute a request, because the group has not answered for a while."""
        if request.pinned or not self._owner.reroute(request, self):
            error = NotTaken(f"Partition {self.partition} has taken nothing for a while.")
            self._owner.failed(request, error)

    def withdraw(self, request: P) -> bool:
        """Remove a request that still waits; return whether it did. Its owner is told nothing."""
        try:
            self.pending.remove(request)
        except ValueError:
            return False
        return True

    def put_first(self, requests: Iterable[P]) -> None:
        """Put requests that were accepted for an older queue before all that wait here."""
        self.pending.extendleft(reversed(list(requests)))
        self._wake()

    def hold(self) -> None:
        """Send nothing until `let_go`."""
        self.held = self.stalled = True

    def let_go(self) -> None:
        """Send again, because the requests accepted earlier have gone."""
        self.held = self.stalled = False
        self._wake()

    def close(self) -> None:
        """Send nothing any more; the owner's `quiet` follows, at once or when all is answered."""
        self.closed = self.stalled = True
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if not self.in_flight:
            self._owner.quiet(self)

    def wait_for_successor(self, requests: list[P]) -> None:
        """Keep requests that the sealed queue did not take in front, and close the sender; `quiet`
        follows.

        Those that another sender takes go there at once.
        """
        self.closed = self.stalled = True
        self._keep([p for p in requests if p.pinned or not self._owner.reroute(p, self)])

    def take_all(self) -> list[P]:
        """Take all waiting requests, so that they can be moved."""
        requests, self.pending = list(self.pending), deque()
        return requests

    def _wake(self) -> None:
        if self.pending and self._retry is None and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._send)

    def take_turn(self) -> None:
        """Send the waiting requests, if there are any."""
        self._send(in_turn=True)

    def _send(self, *, in_turn: bool = False) -> None:
        """Send waiting requests, unless the queue sender is held, is closed or has to wait its
        turn.
        """
        self._scheduled = False
        if in_turn:
            self.awaits_turn = False
        elif self.awaits_turn:
            return
        self._retry = None
        while self.pending and len(self.in_flight) < self._max_in_flight:
            if self.held or self.closed:
                self._stay()
                return
            window = self._window
            if (
                window is not None
                and not in_turn
                and not window.admits(self.tenant_id, self.take_turn)
            ):
                self._await_turn()
                return
            in_turn = False
            if not self._send_one():
                return

    def _send_one(self) -> bool:
        """Send one append of waiting requests; return whether it is on its way."""
        requests, messages, ids = self._take()
        now_s = self._loop.time()
        timeout_s = max(1.0, max(request.deadline_s for request in requests) - now_s)
        batch = encode(messages, self._owner.accepted_us(requests))
        flight = _Flight(requests, now_s, sum([request.size_bytes for request in requests]))
        self.in_flight.append(flight)
        if self._window is not None:
            self._window.begin(self.tenant_id, flight.size_bytes)
        try:
            future = self._appender.append(
                batch,
                len(messages),
                self._owner.extras(requests),
                durability=requests[0].durability,
                timeout_s=timeout_s,
                dedup=packed_ids(requests) if ids else b"",
                dedup_window_s=self.dedup_window_s,
            )
        except StoreError as error:
            self._land(flight)
            self._failed(requests, error)
            return False
        self._owner.sent(len(batch))
        future.add_done_callback(partial(self._answered, flight))
        return True

    def _await_turn(self) -> None:
        """Wait for the group's turn, as long as an unanswered append may; the sweep may move
        requests on.
        """
        self.awaits_turn = True
        self._awaits_since_s = self._loop.time()
        if not self.waiting:
            self._owner.waits(self)

    def _stay(self) -> None:
        """Send nothing now; the sweep still checks deadlines and other queue senders."""
        if not self.waiting:
            self._owner.waits(self)
        if self.closed:
            self._owner.quiet(self)

    def _take(self) -> tuple[list[P], list[Message], bool]:
        """Take the requests of the next append, oldest first.

        Returns them, their messages, and whether any message has an id.
        """
        pending = self.pending
        first = pending.popleft()
        requests = [first]
        if not pending:
            return requests, first.messages, first.ids is not None
        durability = first.durability
        names = _names_of(first)
        messages = list(first.messages)
        room = self._max_append_bytes - first.size_bytes
        joins = self._joins
        while pending:
            request = pending[0]
            if (
                request.size_bytes > room
                or len(messages) + len(request.messages) > MAX_BATCH_MESSAGES
                or request.durability != durability
                or (joins is not None and not joins(first, request))
            ):
                break
            if request.ids is not None:
                more = _names_of(request)
                if not names.isdisjoint(more):
                    break
                names |= more
            room -= request.size_bytes
            messages += request.messages
            requests.append(pending.popleft())
        return requests, messages, bool(names)

    def _land(self, flight: _Flight[P]) -> None:
        """Remove an answered append from those in flight, so that its bytes count no more."""
        self.in_flight.remove(flight)
        if self._window is not None:
            self._window.ended(flight.size_bytes)

    def _answered(self, flight: _Flight[P], future: asyncio.Future[Receipt]) -> None:
        """Tell the owner the outcome of an append, then send more.

        There is one callback for each append; per message only the receipt costs time.
        """
        self._land(flight)
        if not flight.requests:
            return  # `stop` has told the owner
        if future.cancelled():
            self._failed(flight.requests, OutcomeUnknown("the store client was closed"))
            return
        error = future.exception()
        if error is not None:
            if not isinstance(error, StoreError):
                error = OutcomeUnknown(f"{type(error).__name__}: {error}")
            self._failed(flight.requests, error)
            return
        self.stalled = self.held or self.closed
        self._retry_s = RETRY_FIRST_S
        seconds = self._loop.time() - flight.sent_at_s
        self._owner.stored(flight.requests, future.result(), flight.size_bytes, seconds)
        if self.pending:
            self._send()
        elif self.closed and not self.in_flight:
            self._owner.quiet(self)

    def _failed(self, requests: list[P], error: StoreError) -> None:
        self.stalled = self.held or self.closed
        if not self._goes_on(requests, error):
            if not isinstance(error, NotDone) or isinstance(error, _LASTING):
                self._give_up(requests, error)
            else:
                self._not_done(requests, error)
        if self.closed:
            if not self.in_flight:
                self._owner.quiet(self)
        else:
            self._wake()

    def _goes_on(self, requests: list[P], error: StoreError) -> bool:
        """Return whether the answer says where the requests are, or where they continue."""
        if isinstance(error, DedupKnown):
            return self._known(requests, error.known)
        if isinstance(error, QueueSealed | QueueNotFound):
            return self._owner.ended(self, requests, error)
        return False

    def _known(self, requests: list[P], known: dict[int, Known]) -> bool:
        """Tell the owner which messages the log has; the rest goes again, first and in order."""
        left: list[P] = []
        base = found = 0
        for request in requests:
            rest: P | None = request
            ids = request.ids.entries if request.ids is not None else ()
            hits = {e.at: known[base + e.at] for e in ids if base + e.at in known}
            base += len(request.messages)
            if hits:
                found += len(hits)
                rest = self._owner.known(request, hits)
            if rest is not None:
                left.append(rest)
        self.pending.extendleft(reversed(left))
        return found > 0

    def _not_done(self, requests: list[P], error: NotDone) -> None:
        """Reroute requests that are not in the log, or send them again in order until their
        deadlines.
        """
        now_s = self._loop.time()
        stay = []
        for request in requests:
            if not request.pinned and self._owner.reroute(request, self):
                continue
            if (
                request.deadline_s <= now_s
                or isinstance(error, DiskFull)  # another leader may have room, this one has none
                or (request.ids is not None and isinstance(error, Overloaded))  # of ids, for now
                or self._stopped
                or not self._owner.repeats
            ):
                self._owner.failed(request, error)
            else:
                stay.append(request)
        if stay and not self.closed:
            self._retry = self._loop.call_later(self._retry_s, self._send)
            self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)
        self._keep(stay)

    def _keep(self, requests: list[P]) -> None:
        """Put requests back in front."""
        self.pending.extendleft(reversed(requests))
        if requests and not self.waiting:
            self._owner.waits(self)

    def sweep(self, now_s: float, has_leader: bool) -> None:
        """Move on requests that need not wait here; called every few milliseconds while any
        wait.
        """
        slow = self.awaits_turn and now_s - self._awaits_since_s > self._stall_s
        if self.in_flight and now_s - self.in_flight[0].sent_at_s > self._stall_s:
            slow = True
        self.stalled = slow = slow or self.held or self.closed
        if not (slow or self._retry is not None or not has_leader):
            return
        kept: deque[P] = deque()
        for request in self.pending:
            if request.deadline_s <= now_s:
                text = f"Partition {self.partition} could not take the message in time."
                self._owner.failed(request, NotTaken(text))
            elif request.pinned or not self._owner.reroute(request, self):
                kept.append(request)
        self.pending = kept

    def stop(self) -> None:
        """Give everything up at shutdown, after the drain: unsent requests are not stored, sent
        ones are unknown.
        """
        self._stopped = True
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self.give_up_pending(Stopping("This process is shutting down."))
        for flight in self.in_flight:
            requests, flight.requests = flight.requests, []
            self._give_up(requests, OutcomeUnknown("this process is stopping"))

    def give_up_pending(self, error: NotDone) -> None:
        """Fail all waiting requests, because there is nowhere to move them."""
        self._give_up(self.take_all(), error)

    def _give_up(self, requests: list[P], error: StoreError) -> None:
        for request in requests:
            self._owner.failed(request, error)


class Sweep(Generic[P]):
    """Sweeps queue senders while requests wait in them, so that none waits where it need not."""

    def __init__(self, has_leader: Callable[[int], bool]) -> None:
        self._has_leader = has_leader
        self._senders: set[QueueSender[P]] = set()
        self._handle: asyncio.TimerHandle | None = None

    def add(self, sender: QueueSender[P]) -> None:
        """Call the sender's `sweep` regularly until it is idle."""
        sender.waiting = True
        self._senders.add(sender)
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(SWEEP_S, self._run)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _run(self) -> None:
        """Make a sweep, and set the timer of the next sweep even if an error ends this one."""
        self._handle = None
        loop = asyncio.get_running_loop()
        try:
            self._sweep(loop.time())
        finally:
            if self._senders and self._handle is None:
                self._handle = loop.call_later(SWEEP_S, self._run)

    def _sweep(self, now_s: float) -> None:
        for sender in list(self._senders):
            if sender.idle:
                sender.waiting = False
                self._senders.discard(sender)
            else:
                sender.sweep(now_s, self._has_leader(sender.group))


def packed_ids(requests: Iterable[Appendable]) -> bytes:
    """Return the dedup section of an append of these requests."""
    entries = []
    base = 0
    for request in requests:
        if request.ids is not None:
            entries += [
                DEDUP_ENTRY.pack(base + entry.at, entry.name, entry.fingerprint)
                for entry in request.ids.entries
            ]
        base += len(request.messages)
    return b"".join(entries)


def _names_of(request: Appendable) -> set[bytes]:
    return {entry.name for entry in request.ids.entries} if request.ids is not None else set()
