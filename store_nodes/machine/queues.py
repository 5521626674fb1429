"""Holds one queue of a group: its offsets, seal, kept set, sessions and staged messages."""

from __future__ import annotations

from typing import NamedTuple

from store_nodes.commands import Append, Discard, Release, Reschedule, StageExtras, Truncate
from store_nodes.errors import (
    DeadlinePassed,
    DedupKnown,
    OutcomeUnknown,
    Overloaded,
    QueueSealed,
    SequenceGap,
    TooLarge,
)
from store_nodes.machine.dedup import DedupTable, bucket_end
from store_nodes.machine.outcomes import (
    AppendDone,
    CommandRefused,
    Outcome,
    ReleaseDone,
    SealDone,
    StagedChanged,
    StageDone,
    TruncateDone,
)
from store_nodes.machine.sessions import MAX_DEADLINE_AHEAD_US, STAGED_COUNT, Session
from store_nodes.machine.stages import Readable, Stages

MAX_OFFSET = 2**63 - 1
"""The largest offset: readers hold offsets in signed 64-bit columns."""


class QueueOffsets(NamedTuple):
    """The part of a queue's state that readers may know.

    Every offset below `end` is readable, except the truncated ones.
    """

    first: int
    end: int
    stage_end: int
    sealed: bool
    successors: tuple[tuple[int, bytes], ...]
    stage_changes: int = 0
    """The number of reschedulings so far: see `Machine.stage_changes_since`."""


class QueueInfo(NamedTuple):
    """One line of the listing of a group's queues."""

    queue: bytes
    base: int
    meta: bytes
    offsets: QueueOffsets
    staged: int = 0
    """Messages staged and neither released nor discarded."""


class Queue:
    """The state of one queue; only `Machine` changes it, and only while it applies a value."""

    __slots__ = (
        "base",
        "end",
        "first",
        "kept",
        "meta",
        "queue",
        "sealed",
        "sessions",
        "stages",
        "successors",
    )

    def __init__(self, queue: bytes, base: int, meta: bytes) -> None:
        self.queue = queue
        self.base = base
        self.meta = meta
        self.first = base
        self.end = base
        self.sealed = False
        self.successors: tuple[tuple[int, bytes], ...] = ()
        self.kept: tuple[int, ...] = ()
        self.sessions: dict[bytes, Session] = {}
        self.stages: Stages | None = None
        """The staged messages; None until the first one."""

    @property
    def offsets(self) -> QueueOffsets:
        """The present offsets of the queue."""
        stages = self.stages
        return QueueOffsets(
            self.first,
            self.end,
            0 if stages is None else stages.end,
            self.sealed,
            self.successors,
            0 if stages is None else stages.changes,
        )

    @property
    def info(self) -> QueueInfo:
        staged = 0 if self.stages is None else self.stages.staged
        return QueueInfo(self.queue, self.base, self.meta, self.offsets, staged)

    @property
    def stage_end(self) -> int:
        return 0 if self.stages is None else self.stages.end

    @property
    def readable(self) -> Readable:
        return Readable(self.first, self.kept)

    def append(
        self,
        append: Append,
        log_time_us: int,
        dedup: DedupTable,
        extras: StageExtras | None = None,
    ) -> tuple[Outcome, Session | None]:
        """Append messages, or stage them with `extras`; return the outcome, and a session if it is
        new.
        """
        session = self.sessions.get(append.session)
        last_seq = 0 if session is None else session.last_seq
        # A repeat is answered before the seal is checked, because it may have been stored before.
        if session is not None and append.seq <= last_seq:
            return self._repeat(session, append, dedup), None
        if self.sealed:
            # An id stored before the seal is known after it, too. Nothing here takes a sequence.
            known = dedup.known(append.dedup) if append.dedup else None
            error = DedupKnown(known) if known else QueueSealed(self.end, self.successors)
            return CommandRefused(self.queue, error), None
        if append.seq != last_seq + 1:
            return CommandRefused(self.queue, SequenceGap(last_seq + 1)), None
        made = None
        if session is None:
            session = made = self.sessions[append.session] = Session()
        if append.dedup:
            known = dedup.known(append.dedup)
            if known:
                session.refused(DedupKnown, log_time_us)
                return CommandRefused(self.queue, DedupKnown(known)), made
        if append.deadline_us < log_time_us:
            session.refused(DeadlinePassed, log_time_us)
            return CommandRefused(self.queue, DeadlinePassed()), made
        base = self.end if extras is None else self.stage_end
        if (
            base + append.messages > MAX_OFFSET
            or append.deadline_us > log_time_us + MAX_DEADLINE_AHEAD_US
        ):
            session.refused(TooLarge, log_time_us)
            return CommandRefused(self.queue, TooLarge()), made
        if append.dedup:
            if not dedup.has_room(append.dedup):
                session.refused(Overloaded, log_time_us)
                return CommandRefused(self.queue, Overloaded("too many ids are remembered")), made
            dedup.remember(
                append.dedup,
                self.queue,
                base,
                staged=extras is not None,
                until_us=bucket_end(log_time_us, append.dedup_window_us),
            )
        assert append.seq == session.last_seq + 1, f"{append.seq} after {session.last_seq}"
        if extras is not None:
            return self._stage(session, append, extras, log_time_us), made
        self._give_offsets(base, append.messages)
        session.stored(base, append.messages, log_time_us, append.deadline_us)
        done = AppendDone(
            self.queue, base, append.messages, log_time_us, append.batch_at, append.batch_bytes
        )
        return done, made

    def _give_offsets(self, base: int, count: int) -> None:
        """Assign the next offsets: they have no gaps, are never assigned twice, and none follows a
        seal.
        """
        assert not self.sealed, f"offset {base} given after the seal at {self.end}"
        assert base == self.end, f"offset {base} given, {self.end} is next"
        self.end = base + count

    def _stage(
        self, session: Session, append: Append, extras: StageExtras, log_time_us: int
    ) -> StageDone:
        if self.stages is None:
            self.stages = Stages()
        base = self.stages.stage(append.messages, extras, log_time_us)
        self.stages.tidy(self.readable)
        count = append.messages + STAGED_COUNT
        session.stored(base, count, log_time_us, append.deadline_us)
        return StageDone(
            self.queue, base, append.messages, log_time_us, append.batch_at, append.batch_bytes
        )

    def _repeat(self, session: Session, append: Append, dedup: DedupTable) -> Outcome:
        receipt = session.receipt(append.seq) if append.seq > 0 else None
        if receipt is None:
            return CommandRefused(self.queue, OutcomeUnknown("the receipt is no longer kept"), True)
        if isinstance(receipt, tuple):
            base, count, log_time_us = receipt
            if count >= STAGED_COUNT:
                count -= STAGED_COUNT
                return StageDone(self.queue, base, count, log_time_us, duplicate=True)
            return AppendDone(self.queue, base, count, log_time_us, duplicate=True)
        if issubclass(receipt, DedupKnown):
            # The ids are looked up again: those known then are known now, except for ids forgotten
            # since.
            return CommandRefused(self.queue, DedupKnown(dedup.known(append.dedup)), True)
        return CommandRefused(self.queue, receipt(), True)

    def release(self, command: Release, log_time_us: int) -> Outcome:
        """Release staged messages; a sealed queue gives no new offset, but returns those given
        before.
        """
        numbers, stages = command.stage_numbers, self.stages
        if stages is None:
            return ReleaseDone(self.queue, (None,) * len(numbers), (), log_time_us)
        if self.sealed and stages.would_release(numbers, log_time_us):
            return CommandRefused(self.queue, QueueSealed(self.end, self.successors))
        if self.end + len(numbers) > MAX_OFFSET:
            return CommandRefused(self.queue, TooLarge())
        readable = self.readable
        offsets, runs = stages.release(numbers, self.end, readable, log_time_us)
        if runs:
            self._give_offsets(runs[0].base_offset, sum(len(run.indices) for run in runs))
        stages.tidy(readable)
        return ReleaseDone(self.queue, offsets, runs, log_time_us)

    def reschedule(self, command: Reschedule) -> Outcome:
        changed = 0
        if self.stages is not None:
            changed = self.stages.reschedule(command.stage_numbers, command.due_us)
        return StagedChanged(self.queue, changed)

    def discard(self, command: Discard) -> Outcome:
        changed = 0
        if self.stages is not None:
            changed = self.stages.discard(command.stage_numbers)
            self.stages.tidy(self.readable)
        return StagedChanged(self.queue, changed)

    def seal(self, successors: tuple[tuple[int, bytes], ...]) -> Outcome:
        """Seal the queue; repeating it with the same successors succeeds, other successors are
        refused.
        """
        if self.sealed and successors != self.successors:
            return CommandRefused(self.queue, QueueSealed(self.end, self.successors))
        self.sealed = True
        self.successors = successors
        return SealDone(self.queue, self.end)

    def truncate(self, command: Truncate) -> Outcome:
        """Move `first` up and replace the kept set; a command that would move it down changes
        nothing.

        Only offsets that are still readable can be kept, so a late or repeated command revives
        none.
        """
        upto = min(command.upto, self.end)
        if upto >= self.first:
            readable = self.readable
            self.kept = tuple(
                offset
                for offset in sorted(set(command.keep))
                if offset < upto and offset in readable
            )
            assert not self.kept or self.kept[-1] < upto <= self.end, (
                f"{self.kept[-1]} kept below {upto} of {self.end}"
            )
            self.first = upto
            if self.stages is not None:
                self.stages.truncate(self.readable)
        return TruncateDone(self.queue, self.first, self.kept)
