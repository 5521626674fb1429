"""Applies the chosen values of one group to its replicated state, and returns their outcomes.

The rest of the store relies on these rules:

* State is a function of the applied values alone: no clock, no randomness, no order of hashing. Two
  machines that applied the same values are equal, with or without a restart from a snapshot in
  between, and on any computer.
* Values are applied in the order of their instances, each exactly once; anything else is a bug of
  the caller and stops the process before it does harm.
* Log time never goes back: that of an instance is max(log time before + 1, the value's stamp).
* Offsets of a queue have no gaps and are never given twice.

A value that does not decode raises BadCommand: the leader checks every command before it proposes
it, so the value is damaged or of a newer version, and a replica must stop rather than skip it.
"""

from __future__ import annotations

import heapq
from hashlib import blake2b

from store_nodes.commands import (
    MAX_META_BYTES,
    Append,
    Checkpoint,
    Command,
    CompareAndSet,
    ControlCommand,
    Create,
    Delete,
    Discard,
    Reconfigure,
    Release,
    Reschedule,
    Seal,
    Stage,
    StageExtras,
    Transfer,
    Truncate,
    ValueKind,
    decode_value,
    value_head,
)
from store_nodes.errors import (
    Conflict,
    Known,
    NotAllowed,
    QueueExists,
    QueueNotFound,
    QueueSealed,
    TooLarge,
)
from store_nodes.machine import digest, snapshot
from store_nodes.machine.counters import compare_and_set
from store_nodes.machine.dedup import DedupTable
from store_nodes.machine.outcomes import (
    CheckpointWanted,
    CommandRefused,
    CreateDone,
    DeleteDone,
    LeaderWished,
    MembershipSet,
    Outcome,
)
from store_nodes.machine.queues import MAX_OFFSET, Queue, QueueInfo, QueueOffsets
from store_nodes.machine.sessions import Session
from store_nodes.machine.stages import StagedMessage
from store_nodes.membership import Membership

FIRST = Membership()
"""The membership of a machine that is given none: it has no members."""


class Machine:
    """The replicated state of one group."""

    __slots__ = (
        "_dedup",
        "_expiries",
        "_queues",
        "_tombstones",
        "applied",
        "counters",
        "digest",
        "group",
        "log_time_us",
        "membership",
        "preferred_leader",
    )

    def __init__(self, group: int, membership: Membership = FIRST) -> None:
        self.group = group
        self.membership = membership
        self.preferred_leader = 0
        """The node that a transfer named as leader; 0 leaves it to the balance."""
        self.counters: dict[str, int] = {}
        self.applied = 0
        """The next instance to apply."""
        self.log_time_us = 0
        self.digest = digest.EMPTY
        self._queues: dict[bytes, Queue] = {}
        self._tombstones: dict[bytes, None] = {}
        self._dedup = DedupTable()
        # There is one entry per session, never later than the session's real expiry. A session that
        # was used since is pushed again when its entry comes up, so an append does not touch the
        # heap.
        self._expiries: list[tuple[int, bytes, bytes]] = []

    def apply(self, instance: int, value: bytes) -> list[Outcome]:
        """Apply a value; return one outcome per command (none for a no-op)."""
        assert instance == self.applied, f"instance {instance} applied, {self.applied} is next"
        commands = decode_value(value)
        kind, _, stamp_us = value_head(value)
        # Nothing is changed above this line: a value that does not decode leaves the state whole.
        log_time_us = self.log_time_us + 1
        if stamp_us > log_time_us:
            log_time_us = stamp_us
        assert log_time_us > self.log_time_us, f"log time {log_time_us} after {self.log_time_us}"
        self.log_time_us = log_time_us
        self.digest = digest.chain(self.digest, instance, value)
        self.applied = instance + 1
        if self._expiries and self._expiries[0][0] < log_time_us:
            self._forget_sessions()
        if self._dedup.next_end_us <= log_time_us:
            self._dedup.forget(log_time_us)
        if kind is ValueKind.MEMBERSHIP:
            return [self._reconfigure(command) for _, command in commands]
        outcomes: list[Outcome] = []
        for _, command in commands:
            if isinstance(command, Append):
                outcomes.append(self._append(command, None))
            elif isinstance(command, Stage):
                outcomes.append(self._append(command.append, command.extras))
            else:
                outcomes.append(self._control(command))
        return outcomes

    def _append(self, command: Append, extras: StageExtras | None) -> Outcome:
        """Append or stage messages in a queue; refuse them if the queue is not there."""
        queue = self._queues.get(command.queue)
        if queue is None:
            return CommandRefused(command.queue, QueueNotFound())
        outcome, made = queue.append(command, self.log_time_us, self._dedup, extras)
        if made is not None:
            self._expire(queue, command.session, made)
        return outcome

    def _control(self, command: ControlCommand) -> Outcome:
        match command:
            case Create():
                return self._create(command)
            case Delete(name):
                self._queues.pop(name, None)
                # This holds also for an unknown queue: a delayed create must not bring it back to
                # life.
                self._tombstones[name] = None
                return DeleteDone(name)
            case CompareAndSet():
                return compare_and_set(self.counters, command)
            case Transfer(node):
                return self._transfer(node)
            case Checkpoint(reason):
                return CheckpointWanted(reason)
            case Reconfigure():
                return CommandRefused(b"", NotAllowed("a membership changes in a value of its own"))
        queue = self._queues.get(command.queue)
        if queue is None:
            return CommandRefused(command.queue, QueueNotFound())
        match command:
            case Seal(_, successors):
                return queue.seal(successors)
            case Truncate():
                return queue.truncate(command)
            case Release():
                return queue.release(command, self.log_time_us)
            case Reschedule():
                return queue.reschedule(command)
            case Discard():
                return queue.discard(command)

    def _reconfigure(self, step: Command) -> Outcome:
        assert isinstance(step, Reconfigure), "decode_value lets nothing else through"
        try:
            self.membership = self.membership.after(step)
        except (Conflict, NotAllowed) as error:
            return CommandRefused(b"", error)
        return MembershipSet(self.membership.version)

    def _transfer(self, node: int) -> Outcome:
        if node and self.membership.members and node not in self.membership.voters:
            return CommandRefused(b"", NotAllowed(f"node {node} is no voter of this group"))
        self.preferred_leader = node
        return LeaderWished(node)

    def _create(self, command: Create) -> Outcome:
        if len(command.meta) > MAX_META_BYTES or not 0 <= command.base <= MAX_OFFSET:
            return CommandRefused(command.queue, TooLarge())
        if command.queue in self._tombstones:
            return CommandRefused(command.queue, QueueExists("the queue id was used and deleted"))
        queue = self._queues.get(command.queue)
        if queue is None:
            queue = self._queues[command.queue] = Queue(command.queue, command.base, command.meta)
        elif (queue.base, queue.meta) != (command.base, command.meta):
            return CommandRefused(command.queue, QueueExists("created with another base or meta"))
        return CreateDone(command.queue, queue.end)

    def _expire(self, queue: Queue, session_id: bytes, session: Session) -> None:
        heapq.heappush(self._expiries, (session.forget_after_us, queue.queue, session_id))

    def _forget_sessions(self) -> None:
        """Forget every session whose time is over.

        So the known sessions depend on the log alone, never on the entries that this heap happens
        to hold.
        """
        expiries = self._expiries
        while expiries and expiries[0][0] < self.log_time_us:
            _, name, session_id = heapq.heappop(expiries)
            queue = self._queues.get(name)
            session = None if queue is None else queue.sessions.get(session_id)
            if queue is None or session is None:
                continue
            if session.forget_after_us < self.log_time_us:
                del queue.sessions[session_id]
            else:
                self._expire(queue, session_id, session)

    # Queries about the present state. Each raises QueueNotFound, also for a deleted queue, unless
    # its docstring says otherwise.

    def offsets(self, queue: bytes) -> QueueOffsets:
        """Return the offsets of a queue; raise QueueNotFound."""
        return self._queue(queue).offsets

    def readable(self, queue: bytes, offset: int) -> bool:
        """Return whether the offset can be fetched: it is applied, and not truncated or else
        kept.
        """
        found = self._queue(queue)
        return offset < found.end and offset in found.readable

    def kept(self, queue: bytes) -> tuple[int, ...]:
        """Return the offsets below the first one that are still readable, ascending."""
        return self._queue(queue).kept

    def staged(self, queue: bytes, after: int, limit: int) -> list[StagedMessage]:
        """Return at most `limit` staged messages with a number above `after` (−1: from the
        first).
        """
        stages = self._queue(queue).stages
        return [] if stages is None else stages.listing(after, limit)

    def stage_changes_since(self, queue: bytes, changes: int) -> tuple[list[int] | None, int]:
        """Return the numbers rescheduled since the count `changes`, and the count now.

        The numbers are None if they are no longer known; then list all staged messages.
        """
        stages = self._queue(queue).stages
        if stages is None:
            return ([] if changes == 0 else None), 0
        return stages.changes_since(changes), stages.changes

    def locate(self, queue: bytes, stage_number: int) -> tuple[str, int | None]:
        """Return the state of a stage number and its offset, if it has one.

        The state is "staged", "offset", "discarded" or "truncated". It is "truncated", too, for a
        number that was never given, and for one discarded very long ago (MAX_DISCARDED_RANGES).
        """
        found = self._queue(queue)
        if found.stages is None:
            return "truncated", None
        return found.stages.locate(stage_number, found.readable)

    def batch_of_stage(self, queue: bytes, stage_number: int) -> tuple[int, int] | None:
        """Return the (base, count) of a message's staged batch; None unless `staged_live`."""
        found = self._queue(queue)
        return None if found.stages is None else found.stages.batch_of(stage_number, found.readable)

    def staged_live(self, queue: bytes, base: int, count: int) -> bool:
        """Return whether a message of this staged batch is staged, or released and readable.

        The result is False for a deleted queue.
        """
        found = self._queues.get(queue)
        if found is None or found.stages is None:
            return False
        return found.stages.is_live(base, count, found.readable)

    def batch_live(self, queue: bytes, base: int, count: int, *, staged: bool) -> bool:
        """Return whether a reader may still ask for a message of this batch or released run.

        The result is False for a deleted queue.
        """
        if staged:
            return self.staged_live(queue, base, count)
        found = self._queues.get(queue)
        if found is None:
            return False
        end = base + count
        return end > found.first or any(base <= kept < end for kept in found.kept)

    def dedup_known(self, append: Append, log_time_us: int = 0) -> dict[int, Known]:
        """Return the ids for which an append, or that of a stage, would be refused at that log
        time.

        They are by index in its batch; each is the first message with that id, without its log
        time, which the machine does not know (0). The result is empty if the append's sequence is
        applied already or its queue is unknown.

        Ids are forgotten only when a value is applied. A leader that refuses appends because of
        known ids applies no value, so in an idle group it has to pass the time, or no window would
        ever end.
        """
        queue = self._queues.get(append.queue) if append.dedup else None
        if queue is None:
            return {}
        session = queue.sessions.get(append.session)
        if session is not None and append.seq <= session.last_seq:
            return {}
        return self._dedup.known(append.dedup, log_time_us)

    def sealed_for(self, append: Append) -> QueueSealed | None:
        """Return the refusal of an append or a stage to a sealed queue; it is as final as the seal.

        The result is None if the queue is not sealed, or the append's sequence was applied before
        the seal.
        """
        queue = self._queues.get(append.queue)
        if queue is None or not queue.sealed:
            return None
        session = queue.sessions.get(append.session)
        if session is not None and append.seq <= session.last_seq:
            return None
        return QueueSealed(queue.end, queue.successors)

    @property
    def dedup_entries(self) -> int:
        """The number of ids that are remembered."""
        return self._dedup.entries

    def queues(self) -> list[QueueInfo]:
        """Return all queues but the deleted ones, in the order in which they were created."""
        return [queue.info for queue in self._queues.values()]

    def is_deleted(self, queue: bytes) -> bool:
        return queue in self._tombstones

    def _queue(self, queue: bytes) -> Queue:
        """Return a queue; raise QueueNotFound."""
        found = self._queues.get(queue)
        if found is None:
            raise QueueNotFound(queue.hex())
        return found

    # Snapshots.

    def state_snapshot(self) -> bytes:
        """Return the whole state as bytes; equal states give equal bytes."""
        return snapshot.encode(
            snapshot.State(
                self.group,
                self.applied,
                self.log_time_us,
                self.digest,
                list(self._queues.values()),
                list(self._tombstones),
                self.membership,
                self.counters,
                self.preferred_leader,
                self._dedup,
            )
        )

    def state_digest(self) -> bytes:
        """Return 16 bytes over the whole state: stronger than `digest`, but too slow for each
        value.
        """
        return blake2b(self.state_snapshot(), digest_size=digest.DIGEST_BYTES).digest()

    @classmethod
    def restore(
        cls, group: int, raw: bytes | memoryview, membership: Membership = FIRST
    ) -> Machine:
        """Return the machine of a snapshot; raises BadSnapshot.

        `membership` is the bootstrap one, for a snapshot of version 1, which has none.
        """
        state = snapshot.decode(raw)
        if state.group != group:
            raise snapshot.BadSnapshot(f"of group {state.group}, not {group}")
        machine = cls(group, state.membership or membership)
        machine.applied = state.applied
        machine.log_time_us = state.log_time_us
        machine.digest = state.digest
        machine.counters = dict(state.counters)
        machine.preferred_leader = state.preferred_leader
        machine._dedup = state.dedup
        machine._tombstones = dict.fromkeys(state.tombstones)
        for queue in state.queues:
            machine._queues[queue.queue] = queue
            for session_id, session in queue.sessions.items():
                machine._expire(queue, session_id, session)
        return machine
