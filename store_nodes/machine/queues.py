"""One queue of a group: its offsets, its seal, its kept set and its sessions."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from store_nodes.commands import Append, Truncate
from store_nodes.errors import (
    DeadlinePassed,
    NotSupported,
    OutcomeUnknown,
    QueueSealed,
    SequenceGap,
    TooLarge,
)
from store_nodes.machine.outcomes import AppendDone, Outcome, Refused, SealDone, TruncateDone
from store_nodes.machine.sessions import MAX_DEADLINE_AHEAD_US, Session

MAX_OFFSET = 2**63 - 1
"""What a signed 64-bit column of a reader can hold."""


class QueueOffsets(NamedTuple):
    """What a reader may know of a queue; all below `end` but what was truncated is readable."""

    first: int
    end: int
    stage_end: int
    sealed: bool
    successors: tuple[tuple[int, bytes], ...]
    stage_changes: int = 0
    """How many messages were rescheduled so far: see `Machine.stage_changes_since`."""


class QueueInfo(NamedTuple):
    """One line of the listing of a group's queues."""

    queue: bytes
    base: int
    meta: bytes
    offsets: QueueOffsets
    staged: int = 0
    """Messages staged and neither released nor discarded."""


class Queue:
    """Mutable state of one queue; only `Machine` changes it, only while it applies."""

    __slots__ = (
        "base",
        "end",
        "first",
        "kept",
        "meta",
        "queue",
        "sealed",
        "sessions",
        "stage_end",
        "successors",
    )

    def __init__(self, queue: bytes, base: int, meta: bytes) -> None:
        self.queue = queue
        self.base = base
        self.meta = meta
        self.first = base
        self.end = base
        self.stage_end = 0
        self.sealed = False
        self.successors: tuple[tuple[int, bytes], ...] = ()
        self.kept: tuple[int, ...] = ()
        self.sessions: dict[bytes, Session] = {}

    @property
    def offsets(self) -> QueueOffsets:
        return QueueOffsets(self.first, self.end, self.stage_end, self.sealed, self.successors)

    def append(self, append: Append, log_time_us: int) -> tuple[Outcome, Session | None]:
        """The outcome, and the session if this made it."""
        session = self.sessions.get(append.session)
        last_seq = 0 if session is None else session.last_seq
        # A repeat is answered before the seal is looked at: what was stored was stored.
        if session is not None and append.seq <= last_seq:
            return self._repeat(session, append.seq), None
        if self.sealed:
            return Refused(self.queue, QueueSealed(self.end, self.successors)), None
        if append.seq != last_seq + 1:
            return Refused(self.queue, SequenceGap(last_seq + 1)), None
        if append.dedup:
            return Refused(self.queue, NotSupported("dedup entries in an append")), None
        made = None
        if session is None:
            session = made = self.sessions[append.session] = Session()
        if append.deadline_us < log_time_us:
            session.refused(DeadlinePassed, log_time_us)
            return Refused(self.queue, DeadlinePassed()), made
        base_offset = self.end
        if (
            base_offset + append.messages > MAX_OFFSET
            or append.deadline_us > log_time_us + MAX_DEADLINE_AHEAD_US
        ):
            session.refused(TooLarge, log_time_us)
            return Refused(self.queue, TooLarge()), made
        self.end = base_offset + append.messages
        session.stored(base_offset, append.messages, log_time_us, append.deadline_us)
        done = AppendDone(
            self.queue,
            base_offset,
            append.messages,
            log_time_us,
            append.batch_at,
            append.batch_bytes,
        )
        return done, made

    def _repeat(self, session: Session, seq: int) -> Outcome:
        receipt = session.receipt(seq) if seq > 0 else None
        if receipt is None:
            return Refused(self.queue, OutcomeUnknown("the receipt is no longer kept"), True)
        if isinstance(receipt, tuple):
            return AppendDone(self.queue, *receipt, duplicate=True)
        return Refused(self.queue, receipt, True)

    def seal(self, successors: tuple[tuple[int, bytes], ...]) -> Outcome:
        """Idempotent for the same successors; others are refused with the ones that hold."""
        if self.sealed and successors != self.successors:
            return Refused(self.queue, QueueSealed(self.end, self.successors))
        self.sealed = True
        self.successors = successors
        return SealDone(self.queue, self.end)

    def truncate(self, command: Truncate) -> Outcome:
        """Move `first` up and replace the kept set; one that would move it down changes nothing.

        Only what is still there can be kept, so a late or repeated command revives no offset.
        """
        upto = min(command.upto, self.end)
        if upto >= self.first:
            self.kept = tuple(
                offset
                for offset in sorted(set(command.keep))
                if offset < upto and (offset >= self.first or self.is_kept(offset))
            )
            self.first = upto
        return TruncateDone(self.queue, self.first, self.kept)

    def is_kept(self, offset: int) -> bool:
        """Whether an offset below `first` is in the kept set."""
        at = bisect_left(self.kept, offset)
        return at < len(self.kept) and self.kept[at] == offset
