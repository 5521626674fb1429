"""The state machine of one group: chosen values in, outcomes out.

What holds, and what the rest of the store stands on:

* State is a function of the applied values alone: no clock, no randomness, no order of hashing.
  Two machines that applied the same values are equal, whether they did so in one life, after a
  restart from a snapshot, or on another computer.
* Values are applied in the order of their instances, each exactly once; anything else is a bug of
  the caller and stops the process before it does harm.
* Log time never goes back: that of an instance is max(log time before + 1, the value's stamp).
* Offsets of a queue are dense and never given twice.

A value that does not decode raises BadCommand: the leader checks every command before it proposes,
so this is damage or a newer version, and a replica must stop rather than skip it.
"""

from __future__ import annotations

import heapq
from hashlib import blake2b

from store_nodes.commands import (
    MAX_META_BYTES,
    Append,
    Command,
    Create,
    Delete,
    Seal,
    Stage,
    Truncate,
    decode_value,
    value_head,
)
from store_nodes.errors import Known, NotSupported, QueueExists, QueueNotFound, TooLarge
from store_nodes.machine import digest, snapshot
from store_nodes.machine.outcomes import CreateDone, DeleteDone, Outcome, Refused
from store_nodes.machine.queues import MAX_OFFSET, Queue, QueueInfo, QueueOffsets
from store_nodes.machine.sessions import Session
from store_nodes.machine.stages import StagedMessage
from store_nodes.membership import Membership

FIRST = Membership()
"""Of a machine that is told nothing: no members."""


class Machine:
    """The replicated state of one group."""

    __slots__ = (
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
        """The node that a transfer wished for; 0: whoever the balance says."""
        self.counters: dict[str, int] = {}
        self.applied = 0
        """The next instance to apply."""
        self.log_time_us = 0
        self.digest = digest.EMPTY
        self._queues: dict[bytes, Queue] = {}
        self._tombstones: dict[bytes, None] = {}
        # One entry per session, never later than the session's real expiry: a session that was
        # used since is pushed again when its entry comes up, so an append does not touch the heap.
        self._expiries: list[tuple[int, bytes, bytes]] = []

    def apply(self, instance: int, value: bytes) -> list[Outcome]:
        """One outcome per command of the value (none for a no-op)."""
        assert instance == self.applied, f"instance {instance} applied, {self.applied} is next"
        commands = decode_value(value)
        stamp_us = value_head(value)[2]
        # Nothing is changed before here: a value that does not decode leaves the state whole.
        log_time_us = self.log_time_us + 1
        if stamp_us > log_time_us:
            log_time_us = stamp_us
        self.log_time_us = log_time_us
        self.digest = digest.chain(self.digest, instance, value)
        self.applied = instance + 1
        if self._expiries and self._expiries[0][0] < log_time_us:
            self._forget_sessions()
        outcomes: list[Outcome] = []
        for _, command in commands:
            if isinstance(command, Append):
                outcomes.append(self._append(command))
            else:
                outcomes.append(self._control(command))
        return outcomes

    def _append(self, command: Append) -> Outcome:
        queue = self._queues.get(command.queue)
        if queue is None:
            return Refused(command.queue, QueueNotFound())
        outcome, made = queue.append(command, self.log_time_us)
        if made is not None:
            self._expire(queue, command.session, made)
        return outcome

    def _control(self, command: Command) -> Outcome:
        if isinstance(command, Create):
            return self._create(command)
        if isinstance(command, Delete):
            self._queues.pop(command.queue, None)
            # Also of a queue never seen: a create that was delayed must not bring it to life.
            self._tombstones[command.queue] = None
            return DeleteDone(command.queue)
        if isinstance(command, Seal | Truncate):
            queue = self._queues.get(command.queue)
            if queue is None:
                return Refused(command.queue, QueueNotFound())
            if isinstance(command, Seal):
                return queue.seal(command.successors)
            return queue.truncate(command)
        named = command.append if isinstance(command, Stage) else command
        return Refused(getattr(named, "queue", b""), NotSupported(type(command).__name__))

    def _create(self, command: Create) -> Outcome:
        if len(command.meta) > MAX_META_BYTES or not 0 <= command.base <= MAX_OFFSET:
            return Refused(command.queue, TooLarge())
        if command.queue in self._tombstones:
            return Refused(command.queue, QueueExists("the queue id was used and deleted"))
        queue = self._queues.get(command.queue)
        if queue is None:
            queue = self._queues[command.queue] = Queue(command.queue, command.base, command.meta)
        elif (queue.base, queue.meta) != (command.base, command.meta):
            return Refused(command.queue, QueueExists("created with another base or meta"))
        return CreateDone(command.queue, queue.end)

    def _expire(self, queue: Queue, session_id: bytes, session: Session) -> None:
        heapq.heappush(self._expiries, (session.forget_after_us, queue.queue, session_id))

    def _forget_sessions(self) -> None:
        """Forget every session whose time is over, so that which are known depends on the log
        alone, never on which entries this heap happens to hold."""
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

    # Queries: what a reader may ask of the state as it is now.

    def offsets(self, queue: bytes) -> QueueOffsets:
        """Raises QueueNotFound, also for a deleted queue."""
        return self._queue(queue).offsets

    def readable(self, queue: bytes, offset: int) -> bool:
        """Whether the offset can be fetched: applied, and not truncated or else kept."""
        found = self._queue(queue)
        return found.first <= offset < found.end or found.is_kept(offset)

    def kept(self, queue: bytes) -> tuple[int, ...]:
        """The offsets below the first one that are still readable, ascending."""
        return self._queue(queue).kept

    def queues(self) -> list[QueueInfo]:
        """All queues but the deleted, in the order they were created."""
        return [QueueInfo(q.queue, q.base, q.meta, q.offsets) for q in self._queues.values()]

    def staged(self, queue: bytes, after: int, limit: int) -> list[StagedMessage]:
        """At most `limit` staged messages with a number above `after`, in order; raises
        QueueNotFound."""
        return []

    def stage_changes_since(self, queue: bytes, changes: int) -> tuple[list[int] | None, int]:
        """The numbers rescheduled since the count `changes` (None: no longer known, list all), and
        the count now; raises QueueNotFound."""
        return [], 0

    def locate(self, queue: bytes, stage_number: int) -> tuple[str, int | None]:
        """("staged" | "offset" | "discarded" | "truncated", its offset); raises QueueNotFound."""
        return "truncated", None

    def batch_of_stage(self, queue: bytes, stage_number: int) -> tuple[int, int] | None:
        """(base, count) of the staged batch a message is of; None once nothing of it is live."""
        return None

    def staged_live(self, queue: bytes, base: int, count: int) -> bool:
        """Whether a message of this staged batch is staged, or released and readable; False also
        for a deleted queue."""
        return False

    def dedup_known(self, append: Append | bytes) -> dict[int, Known]:
        """What an append or stage (also as a whole command) would be refused for: index in its
        batch → the first message with that id. Empty where its sequence is applied already."""
        return {}

    def is_deleted(self, queue: bytes) -> bool:
        return queue in self._tombstones

    def _queue(self, queue: bytes) -> Queue:
        found = self._queues.get(queue)
        if found is None:
            raise QueueNotFound(queue.hex())
        return found

    # Snapshots.

    def state_snapshot(self) -> bytes:
        """All of the state; equal states give equal bytes."""
        return snapshot.encode(
            snapshot.State(
                self.group,
                self.applied,
                self.log_time_us,
                self.digest,
                list(self._queues.values()),
                list(self._tombstones),
            )
        )

    def state_digest(self) -> bytes:
        """16 bytes over all of the state: stronger than `digest`, too slow for each value."""
        return blake2b(self.state_snapshot(), digest_size=digest.DIGEST_BYTES).digest()

    @classmethod
    def restore(cls, group: int, raw: bytes, membership: Membership = FIRST) -> Machine:
        """The machine a snapshot was taken of; raises BadSnapshot. `membership` is the bootstrap
        one, for a snapshot of version 1, which holds none."""
        state = snapshot.decode(raw)
        if state.group != group:
            raise snapshot.BadSnapshot(f"of group {state.group}, not {group}")
        machine = cls(group, membership)
        machine.applied = state.applied
        machine.log_time_us = state.log_time_us
        machine.digest = state.digest
        machine._tombstones = dict.fromkeys(state.tombstones)
        for queue in state.queues:
            machine._queues[queue.queue] = queue
            for session_id, session in queue.sessions.items():
                machine._expire(queue, session_id, session)
        return machine
