"""Appends to one queue, in order and exactly once, with one session, its sequence and retries.

The rules:

1. A sequence is sent with the same bytes until the log has answered it. An append that was lost on
   the way (a cut connection, a replaced leader) is sent again to the present leader, under the same
   session and sequence, and the session's receipts make that harmless.
2. Sending starts again from the lowest unanswered sequence, so the log sees no gap; at most
   `WINDOW` sequences are unanswered, for which the log keeps receipts.
3. At its deadline a caller learns the outcome: *not done* if no transmission can have been
   proposed, else *unknown*. An unknown append stays in the window until the log answers it.
4. A new session replaces the old one only when a sequence will never be used: its append was
   refused without a decision of the log (then nothing after it can ever be applied), or the log
   stayed silent until the append's own deadline in log time. Before the new session sends anything,
   each append of the old one that could still be applied is answered or past its deadline in log
   time.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from store_nodes.client.link import NodeLink
from store_nodes.commands import (
    DEDUP_WINDOW_S,
    SESSION_BYTES,
    StageExtras,
    encode_append,
)
from store_nodes.errors import (
    DedupKnown,
    NotDone,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    QueueNotFound,
    QueueSealed,
    SequenceGap,
    StoreError,
    Unavailable,
)
from store_nodes.queue_id import QueueId
from store_nodes.transport import failures
from store_nodes.wire import Accepted, Appended, Command, Durability, Failed, Reply

if TYPE_CHECKING:
    from store_nodes.client.connections import Connections

WINDOW = 64
MAX_WAITING = 1024
PAST_DEADLINE_MARGIN_US = 1_000_000
"""Microseconds by which our estimate of log time may be wrong."""


class Receipt(NamedTuple):
    """The place of a stored batch.

    An append with durability leader or none has offset -1 and time 0. For a stage, `base_offset` is
    the base stage number.
    """

    base_offset: int
    log_time_us: int
    duplicate: bool


_EARLY = Receipt(-1, 0, False)


class _Entry:
    """One append.

    It may be applied (in the future or already) while a transmission is unanswered (`pending`), or
    after an answer was lost (`limbo`).
    """

    __slots__ = (
        "attempt",
        "batch",
        "count",
        "deadline_s",
        "deadline_us",
        "dedup",
        "dedup_window_s",
        "durability",
        "early",
        "extras",
        "future",
        "limbo",
        "pending",
        "raw",
        "resolved",
        "seq",
        "trouble",
        "under_way",
    )

    def __init__(
        self,
        batch: bytes,
        count: int,
        durability: Durability,
        deadline_s: float,
        future: asyncio.Future[Receipt],
        dedup: bytes,
        dedup_window_s: int,
        extras: StageExtras | None,
    ) -> None:
        """Begin an append that has no sequence yet."""
        self.batch = batch
        self.count = count
        self.dedup = dedup
        self.dedup_window_s = dedup_window_s
        self.extras = extras
        self.durability = durability
        self.deadline_s = deadline_s
        self.deadline_us = 0
        self.future = future
        self.seq = 0
        self.attempt = 0
        self.raw = b""
        self.pending = 0
        self.limbo = False
        self.early = False
        self.resolved = False
        self.under_way = False
        """Whether the last transmission is unanswered, on the connection now in use."""
        self.trouble: StoreError | None = None

    @property
    def maybe_applied(self) -> bool:
        return self.limbo or self.pending > 0


class _Transmission(NamedTuple):
    """One transmission of an append, to which replies come."""

    entry: _Entry
    link: NodeLink
    attempt: int
    session: bytes


class Appender:
    """Appends to one queue; made by `StoreClient.appender`, not shared between loops."""

    def __init__(
        self,
        owner: Connections,
        group: int,
        queue: QueueId,
        on_append: Callable[[asyncio.Future[Receipt]], None] | None = None,
    ) -> None:
        """Prepare an appender; `on_append` is called with each append as it begins."""
        self.group = group
        self.queue = queue
        self._owner = owner
        self._on_append = on_append
        self._clock = owner.clock(group)
        self._queue_raw = queue.pack()
        self._session = os.urandom(SESSION_BYTES)
        self._next_seq = 1
        self._waiting: deque[_Entry] = deque()
        self._window: deque[_Entry] = deque()
        self._sent = 0
        """Number of entries of the window, from its left, that were sent in this attempt."""
        self._attempt = 0
        self._link: NodeLink | None = None
        self._link_generation = 0
        self._stalled = False
        """Whether something must be sent again at the next kick or sweep, and nothing before."""
        self._broken = False
        """Whether the session is to be replaced (rule 4)."""
        self._hole = 0
        """The sequence of a broken session that no append has or will have; 0 if none is known."""
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether every append is answered."""
        return not self._window and not self._waiting

    @property
    def in_flight(self) -> int:
        """Number of appends that the log has not answered, with those not sent yet."""
        return len(self._window) + len(self._waiting)

    def append(
        self,
        batch: bytes,
        count: int,
        extras: StageExtras | None = None,
        *,
        durability: Durability = Durability.QUORUM,
        timeout_s: float = 5.0,
        dedup: bytes = b"",
        dedup_window_s: int = DEDUP_WINDOW_S,
    ) -> asyncio.Future[Receipt]:
        """Store a record batch of `count` messages, and return the future of its receipt.

        With `extras` the messages are staged: they get their offsets when they are released, and
        the receipt has the base stage number. Appends and stages take effect in the order of these
        calls.

        `dedup` is packed `commands.DEDUP_ENTRY` of the messages that have an id, remembered for
        `dedup_window_s`; a batch with a known id is refused whole (DedupKnown).

        Raises Overloaded at once when `MAX_WAITING` wait already; the future has NotDone or
        OutcomeUnknown. Cancelling it does not take back a batch that was sent.
        """
        if self._closed:
            raise Unavailable("the appender is closed")
        if len(self._waiting) >= MAX_WAITING:
            raise Overloaded(f"{MAX_WAITING} appends wait for this queue")
        if self.idle:
            self._owner.busy(self)
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        if self._on_append is not None:
            self._on_append(future)
        deadline_s = self._owner.now_s() + timeout_s
        self._waiting.append(
            _Entry(batch, count, durability, deadline_s, future, dedup, dedup_window_s, extras)
        )
        self._pump()
        return future

    def close(self) -> None:
        """Take no more appends; those not sent yet fail as not done, those sent as unknown."""
        self._closed = True
        for entry in self._waiting:
            self._resolve_future(entry, Unavailable("the appender was closed"))
        for entry in self._window:
            maybe = entry.maybe_applied
            error = OutcomeUnknown if maybe else Unavailable
            self._resolve_future(entry, error("the appender was closed"))
            entry.resolved = True
        self._waiting.clear()
        self._window.clear()

    # Called by the client.

    def kick(self) -> None:
        """Send again if the leader, or the connection to it, is another."""
        self._pump()

    def sweep(self, now_s: float) -> None:
        """Fail appends whose time is over, drop those that log time has passed, and try again."""
        log_now_us = self._clock.now_us()
        while self._waiting and self._overdue_unsent(self._waiting[0], now_s):
            self._waiting.popleft()
        if any(now_s >= entry.deadline_s for entry in self._waiting):
            self._waiting = deque(
                entry for entry in self._waiting if not self._overdue_unsent(entry, now_s)
            )
        for entry in list(self._window):
            if not entry.resolved and now_s >= entry.deadline_s:
                self._overdue_sent(entry, log_now_us)
        self._trim()
        if self._stalled:
            self._stalled = False
            self._send_again()
        self._pump()

    # Sending.

    def _pump(self) -> None:
        """Send all appends that may be sent now, in order; repeat the unanswered ones on a new
        link.
        """
        if self._broken:
            self._replace_session()
        link = self._owner.leader_link(self.group)
        if link is None:
            return
        if link is not self._link or link.generation != self._link_generation:
            self._link, self._link_generation = link, link.generation
            self._stalled = False
            self._restart()
        if self._stalled:
            return
        while self._sent < len(self._window):
            entry = self._window[self._sent]
            if not entry.resolved and not self._transmit(link, entry):
                return
            self._sent += 1
        while self._waiting and len(self._window) < WINDOW and not self._broken:
            entry = self._waiting.popleft()
            if entry.future.cancelled():
                continue
            self._number(entry)
            last = self._window[-1] if self._window else None
            assert last is None or last.resolved or entry.seq == last.seq + 1, (
                f"sequence {entry.seq} after {last.seq}"
            )
            self._window.append(entry)
            if not self._transmit(link, entry):
                return
            self._sent += 1

    def _number(self, entry: _Entry) -> None:
        """Give an append the next sequence of the session, and encode it."""
        if entry.deadline_us == 0:
            left_s = max(0.0, entry.deadline_s - self._owner.now_s())
            entry.deadline_us = self._clock.now_us() + int(left_s * 1e6)
        entry.seq = self._next_seq
        entry.raw = encode_append(
            self._queue_raw,
            self._session,
            entry.seq,
            entry.deadline_us,
            entry.count,
            entry.batch,
            entry.dedup,
            entry.extras,
            dedup_window_s=entry.dedup_window_s,
        )
        entry.pending = 0
        entry.limbo = False
        self._next_seq += 1

    def _transmit(self, link: NodeLink, entry: _Entry) -> bool:
        """Send an append once; return False if the link takes no more."""
        left_ms = max(1, int((entry.deadline_s - self._owner.now_s()) * 1000))
        request_id = link.next_id()
        head = Command(request_id, self.group, entry.durability, left_ms)
        sent = _Transmission(entry, link, self._attempt, self._session)
        if not link.request(request_id, head, (entry.raw,), partial(self._replied, sent)):
            self._stalled = True
            return False
        entry.pending += 1
        entry.attempt = self._attempt
        entry.under_way = True
        if entry.durability is Durability.NONE:
            self._resolve_early(entry)
        return True

    def _restart(self) -> None:
        """Send the whole window again, from its start."""
        self._attempt += 1
        self._sent = 0

    def _send_again(self) -> None:
        """Send again from the first that is not under way; later ones were sent in vain."""
        for index, entry in enumerate(self._window):
            if not entry.resolved and not entry.under_way:
                self._attempt += 1
                self._sent = min(self._sent, index)
                return

    # Answers.

    def _replied(self, sent: _Transmission, reply: Reply | None, body: bytes) -> None:
        """Handle a reply to a transmission: resolve the append, fail it or send it again.

        No reply means that the connection was lost.
        """
        entry = sent.entry
        if type(reply) is Accepted:
            if entry.durability is Durability.LEADER:
                self._resolve_early(entry)
            return
        if sent.session == self._session:
            entry.pending -= 1
        if sent.attempt == entry.attempt:
            entry.under_way = False
        if entry.resolved:
            return
        stored = b""
        if type(reply) is Appended:
            self._clock.at_least(reply.log_time_us)
            receipt = Receipt(reply.base_offset, reply.log_time_us, reply.duplicate)
            if entry.extras is None and not reply.duplicate:
                stored = entry.batch
            self._resolve(entry, receipt)
        elif sent.session != self._session:
            return  # the session was replaced: none of its appends can be applied any more
        elif isinstance(reply, Failed):
            self._failed(sent, failures.decode(reply), reply.decided)
        else:
            entry.limbo = True
            self._retry(sent)
        self._trim()
        self._pump()
        if stored:
            self._owner.appended(self._queue_raw, receipt, stored)

    def _failed(self, sent: _Transmission, error: StoreError, decided: bool) -> None:
        entry = sent.entry
        entry.trouble = error
        if isinstance(error, SequenceGap):
            self._gap(sent, error.expected)
        elif isinstance(error, OutcomeUnknown):
            if decided:
                self._resolve(entry, error)
            else:
                entry.limbo = True
                self._retry(sent)
        elif isinstance(error, NotLeader):
            self._retry(sent)
            if sent.attempt == entry.attempt:
                self._owner.refused_by(sent.link, self.group, error.hint)
        elif isinstance(error, Unavailable | Overloaded) and not decided:
            self._retry(sent)
        elif isinstance(error, DedupKnown) and not decided:
            self._known(entry, error)
        elif decided:
            unused = isinstance(error, QueueSealed | QueueNotFound)
            if isinstance(error, QueueNotFound) and entry.maybe_applied:
                error = OutcomeUnknown("the queue was deleted meanwhile")
            self._resolve(entry, error)
            if unused:
                self._break(entry.seq)
        elif entry.maybe_applied:
            self._retry(sent)  # this transmission did nothing, but an earlier one may have
        else:
            self._resolve(entry, error)
            self._break(entry.seq)

    def _known(self, entry: _Entry, error: DedupKnown) -> None:
        """Resolve an append whose ids the leader knows, so that it proposed nothing.

        An earlier transmission that may be in the log can only be refused for the same reason, so
        this is the answer. Whether it used its sequence shows when the next one is sent (`_gap`).
        """
        self._resolve(entry, error)
        if entry.maybe_applied:
            return
        if entry is self._window[-1] and entry.seq == self._next_seq - 1:
            self._next_seq = entry.seq
        else:
            self._break(entry.seq)

    def _gap(self, sent: _Transmission, expected: int) -> None:
        """Handle a gap: the log has not seen a sequence before this one; this transmission did
        nothing.
        """
        entry = sent.entry
        if expected > entry.seq:
            self._resolve(entry, OutcomeUnknown("its receipt is gone"))
            return
        self._retry(sent)
        if self._broken or sent.attempt != entry.attempt:
            return
        if any(other.seq == expected and not other.resolved for other in self._window):
            return
        # Nobody will send the sequence that the log expects. It has forgotten the session, which it
        # does only when no append in the window can have been applied (their deadlines are not
        # over).
        self._break(expected)

    def _retry(self, sent: _Transmission) -> None:
        if sent.attempt == sent.entry.attempt:
            self._stalled = True

    def _resolve(self, entry: _Entry, result: Receipt | StoreError) -> None:
        """End an append with the log's answer, or with an error that is as final."""
        entry.resolved = True
        if entry.early and isinstance(result, StoreError):
            self._owner.lost_after_accept += 1
        self._resolve_future(entry, result)
        entry.raw = entry.batch = b""

    def _resolve_future(self, entry: _Entry, result: Receipt | StoreError) -> None:
        """Give the caller the result, unless it has one or waits no more."""
        if entry.future.done():
            return
        if isinstance(result, StoreError):
            entry.future.set_exception(result)
        else:
            entry.future.set_result(result)

    def _resolve_early(self, entry: _Entry) -> None:
        entry.early = True
        self._resolve_future(entry, _EARLY)

    def _trim(self) -> None:
        """Drop the resolved appends at the front of the window."""
        while self._window and self._window[0].resolved:
            self._window.popleft()
            self._sent = max(0, self._sent - 1)

    # Deadlines and the end of a session.

    def _overdue_unsent(self, entry: _Entry, now_s: float) -> bool:
        if now_s < entry.deadline_s:
            return entry.future.cancelled()
        self._resolve_future(entry, Unavailable("no leader took it in time"))
        return True

    def _overdue_sent(self, entry: _Entry, log_now_us: int) -> None:
        if not entry.maybe_applied:
            error = entry.trouble
            if not isinstance(error, NotDone) or isinstance(error, SequenceGap | NotLeader):
                error = Unavailable("no leader took it in time")
            self._resolve(entry, error)
            self._break(entry.seq)
            return
        self._resolve_future(entry, OutcomeUnknown("sent, and not answered in time"))
        if log_now_us > entry.deadline_us + PAST_DEADLINE_MARGIN_US:
            self._resolve(entry, OutcomeUnknown("not answered in time"))
            self._break(0)

    def _break(self, hole: int) -> None:
        """Replace the session as soon as rule 4 allows it.

        No append of it with a sequence above `hole` can be applied; 0 makes no such claim.
        """
        self._broken = True
        if hole and (not self._hole or hole < self._hole):
            self._hole = hole

    def _replace_session(self) -> None:
        move: list[_Entry] = []
        for entry in self._window:
            if entry.resolved:
                continue
            if entry.maybe_applied and not (self._hole and entry.seq > self._hole):
                return  # may still be applied, so nothing may overtake it
            move.append(entry)
        self._session = os.urandom(SESSION_BYTES)
        self._next_seq = 1
        self._broken = False
        self._hole = 0
        self._stalled = False
        for entry in move:
            self._number(entry)
        self._window = deque(move)
        self._restart()
