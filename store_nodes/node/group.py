"""Runs one Paxos group on one node: joins its pure replica and machine to log, peers, clients.

A group never writes, sends or sleeps by itself: it hands records to the node's group commit,
messages to the node's peers, and answers to the replies it was given. All of it happens in
`pump()`, which the node calls once per event-loop iteration for every group that was touched.

The replica holds back each message that has to wait for a record; the group sends the others at
once. A command is answered, except for durability leader and none, after its value is chosen,
durable here and applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec
import structlog

from store_nodes import commands
from store_nodes.commands import Append, BadCommand, Command, Reconfigure, Stage
from store_nodes.consensus import messages
from store_nodes.consensus.effects import (
    AcceptRecord,
    ChosenRecord,
    Effects,
    Halt,
    InstallNeeded,
    LeaderChanged,
    LearnRecord,
    MembershipChanged,
    PromiseRecord,
    ReadChosen,
    ReadFailed,
    ReadReady,
    Replicated,
    SteppedDown,
    VotingAllowed,
)
from store_nodes.consensus.effects import Record as CoreRecord
from store_nodes.consensus.messages import Accept, Learned
from store_nodes.consensus.replica import Replica
from store_nodes.errors import (
    DedupKnown,
    DiskFull,
    Known,
    NotDone,
    NotLeader,
    Overloaded,
    QueueSealed,
    TooLarge,
)
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import (
    AppendDone,
    CheckpointWanted,
    CommandRefused,
    CounterSet,
    DeleteDone,
    LeaderWished,
    Outcome,
    ReleaseDone,
    StageDone,
    TruncateDone,
)
from store_nodes.node.requests import CommandReply, PendingCommand, PendingCommands
from store_nodes.storage.batch_index import BatchIndex
from store_nodes.storage.instance_index import InstanceIndex
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.footer import STAGED, BatchEntry
from store_nodes.wal.frame import FrameKind, Record
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Damage
from store_nodes.wire import Durability, LeaderView, QueueOffsets

DIGEST_EVERY_INSTANCES = 64
LEARN_FROM_DISK_BYTES = 1024 * 1024
FULL_LINE = "too many commands are waiting"

log = structlog.get_logger()


class Shell(Protocol):
    """The part of its node that a group needs."""

    def now_us(self) -> int: ...

    def touch(self, group: Group) -> None:
        """Call `pump()` later in this loop iteration."""

    def submit(
        self, records: Sequence[Record], must_sync: bool, done: Callable[[list[Position]], None]
    ) -> None: ...

    def send(self, node: int, group: int, payload: bytes) -> None: ...

    def read(self, position: Position) -> bytes:
        """Return a whole value, verified; raises WalDamaged."""

    def damaged(self, damage: Damage) -> None:
        """Learn that stored bytes do not verify."""

    def note_batch(self, entry: BatchEntry) -> None:
        """Add a row to the footer of the segment that is being written."""

    def checkpoint_wanted(self, group: Group, reason: str) -> None: ...

    def counter_set(self, group: Group, name: str, value: int) -> None:
        """Learn that a counter was set; called while the instance is applied, so the machine is as
        of it.
        """

    def leader_changed(self, group: Group) -> None: ...

    def queues_changed(self, group: Group, queues: Sequence[bytes]) -> None: ...

    def membership_changed(self, group: Group) -> None:
        """Learn that the chosen prefix reached a change; the machine applies it once it is
        durable.
        """

    def install_needed(self, group: Group, source: int, oldest: int) -> None:
        """Learn that the group needs a checkpoint, which `source` may give, because it cannot learn
        its gap.
        """

    def voting_allowed(self, group: Group) -> None:
        """Learn that a group that started with `voting=False` may vote: call
        `replica.set_voting()`.
        """

    def disk_without_room(self) -> str | None:
        """Return why appends are refused, if there is too little free space; else None."""

    def disk_is_critical(self) -> bool:
        """Return whether half of the reserve is gone, too, so that values of peers are refused as
        well.
        """

    def halt(self, reason: str) -> None: ...


class Group:
    """Runs one replica of a group on its node."""

    def __init__(
        self,
        replica: Replica,
        machine: Machine,
        shell: Shell,
        line: PendingCommands,
        batches: BatchIndex,
        instances: InstanceIndex,
        positions: dict[int, Position],
    ) -> None:
        self.id = replica.state.group
        self.replica = replica
        self.machine = machine
        self.line = line
        self.batches = batches
        self.instances = instances
        self.positions = positions
        """The place of the latest durable record of each instance that is not applied yet."""
        self._shell = shell
        self._reads: dict[int, asyncio.Future[int]] = {}
        self._applied_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._next_token = 0
        self.next_tick_us = 0
        """The time of the next tick that this group needs, which the node notes; 0 for any tick."""

    # -- clients -------------------------------------------------------------------------------

    def command(
        self, raw: bytes, durability: Durability, timeout_ms: int, reply: CommandReply
    ) -> None:
        """Put a command into the wait list to be proposed, or refuse it at once."""
        if not self.replica.state.leading:
            reply.failed(NotLeader(self.replica.state.leader), decided=False)
            return
        try:
            command = commands.parse(raw)
        except BadCommand as error:
            reply.failed(TooLarge(str(error)), decided=False)
            return
        refusal = self._refusal(command) if self.line.admits(raw) else Overloaded(FULL_LINE)
        if refusal is not None:
            # A seal is final: the log would give the same answer to every transmission.
            reply.failed(refusal, decided=isinstance(refusal, QueueSealed))
            return
        deadline_us = self._shell.now_us() + timeout_ms * 1000
        pending = PendingCommand(raw, durability, reply, deadline_us)
        if isinstance(command, Reconfigure):
            self.line.add_step(pending, command)
        else:
            self.line.add(pending)
        self._shell.touch(self)

    def _refusal(self, command: Command) -> NotDone | None:
        """Return the reason not to propose a command, by the applied state, or None."""
        if isinstance(command, Append | Stage):
            append = command if isinstance(command, Append) else command.append
            if append.dedup:
                log_time_us = self.replica.log_time_us(self._shell.now_us())
                if known := self.machine.dedup_known(append, log_time_us):
                    return DedupKnown(self._dated(known))
            if sealed := self.machine.sealed_for(append):
                return sealed
            if (reason := self._shell.disk_without_room()) is not None:
                return DiskFull(reason)
        return None

    async def read_index(self) -> None:
        """Wait until this node is confirmed as leader and has applied all that was chosen by then.

        The confirmation is later than the call. Raises NotLeader or Unavailable.
        """
        if not self.replica.state.leading:
            raise NotLeader(self.replica.state.leader)
        token = self._next_token
        self._next_token += 1
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._reads[token] = future
        self.replica.read_barrier(self._shell.now_us(), token)
        self._shell.touch(self)
        try:
            upto = await future
        finally:
            self._reads.pop(token, None)
        if self.machine.applied < upto:
            applied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._applied_waiters.append((upto, applied))
            await applied

    def view(self) -> LeaderView:
        replica = self.replica
        return LeaderView(
            self.id,
            replica.state.leader,
            replica.state.leader_ballot,
            replica.log_time_us(self._shell.now_us()),
        )

    def offsets(self, queue: bytes) -> QueueOffsets:
        """Return the applied state of a queue; raise QueueNotFound."""
        found = self.machine.offsets(queue)
        return QueueOffsets(
            queue,
            found.first,
            found.end,
            found.stage_end,
            found.sealed,
            self.batches.stored_bytes(queue),
            found.stage_changes,
        )

    # -- the node's events ---------------------------------------------------------------------

    def receive(self, source: int, payload: bytes) -> None:
        try:
            message = messages.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.error("not a message of this version", group=self.id, peer=source, error=str(error))
            return
        if isinstance(message, Accept | Learned) and self._shell.disk_is_critical():
            # A node that does not vote keeps the rest of the disk for promises and checkpoints. It
            # learns the missed values once there is room.
            return
        self.replica.receive(self._shell.now_us(), source, message)
        self._shell.touch(self)

    def tick(self, now_us: int, wall_us: int) -> None:
        self.replica.tick(now_us, wall_us)
        self.line.expire(now_us)
        self._shell.touch(self)

    @property
    def due_us(self) -> int:
        """Return the time by which this group needs a tick, unless an input comes before."""
        return 0 if self.line.waiting or self.line.steps else self.replica.due_us

    def pump(self) -> None:
        """Propose waiting commands and carry out the replica's effects, until there are none."""
        replica, line = self.replica, self.line
        while True:
            if line.steps and replica.state.leading:
                self._take_step()
            while line.waiting and replica.state.can_propose:
                taken = line.next_value()
                everywhere = any(pending.durability is Durability.ALL for pending in taken)
                instance = replica.propose(
                    self._shell.now_us(), [pending.raw for pending in taken], everywhere=everywhere
                )
                line.proposed(instance, taken)
            effects = replica.take()
            if not effects:
                return
            self._carry_out(effects)

    def _take_step(self) -> None:
        """Propose the first waiting step of membership, once the last is confirmed and nothing is
        open.

        A busy group takes no new commands for that.
        """
        pending, step = self.line.steps[0]
        now_us = self._shell.now_us()
        try:
            if not self.replica.quiesce(now_us, step):
                return
            instance = self.replica.propose_membership(now_us, step)
        except NotDone as error:
            self.line.drop_step()
            pending.reply.failed(error, decided=False)
            return
        self.line.drop_step()
        self.line.proposed(instance, [pending])

    def _carry_out(self, effects: Effects) -> None:
        if effects.records:
            self._write(effects)
        encoded: tuple[messages.Message, bytes] | None = None
        for to, message in effects.sends:
            if encoded is None or encoded[0] is not message:
                encoded = (message, messages.encode(message))
            self._shell.send(to, self.id, encoded[1])
        if effects.chosen:
            self._apply(effects.chosen)
        for event in effects.events:
            self._on_event(event)

    # -- the log -------------------------------------------------------------------------------

    def _write(self, effects: Effects) -> None:
        records, upto = effects.records, effects.persist_upto

        def done(positions: list[Position]) -> None:
            """Report written records to the replica."""
            self._on_persisted(records, positions, upto)

        self._shell.submit([self._record(r) for r in records], effects.must_sync, done)

    def _record(self, record: CoreRecord) -> Record:
        match record:
            case AcceptRecord(instance, ballot, value):
                return Record(FrameKind.ACCEPT, self.id, instance, ballot, value)
            case LearnRecord(instance, value):
                return Record(FrameKind.LEARN, self.id, instance, 0, value)
            case PromiseRecord(ballot):
                return Record(FrameKind.PROMISE, self.id, 0, ballot, b"")
            case ChosenRecord(upto):
                return Record(FrameKind.CHOSEN, self.id, upto, 0, b"")

    def _on_persisted(
        self, records: Sequence[CoreRecord], positions: list[Position], upto: int
    ) -> None:
        """Note where durable records are in the log, and tell the replica that they are durable."""
        synced: list[int] = []
        for record, position in zip(records, positions, strict=True):
            if isinstance(record, AcceptRecord | LearnRecord):
                self.positions[record.instance] = position
                synced.append(record.instance)
        self.line.synced_here(synced)
        self.replica.persisted(self._shell.now_us(), upto)
        self._shell.touch(self)

    # -- the state -----------------------------------------------------------------------------

    def _apply(self, chosen: Sequence[tuple[int, bytes]]) -> None:
        """Apply chosen values in order, index their batches, and answer their commands."""
        for instance, value in chosen:
            outcomes = self.machine.apply(instance, value)
            position = self.positions.pop(instance)
            self.instances.put(instance, position)
            for outcome in outcomes:
                self._take_outcome(outcome, position)
            # Before the commands are answered: so the watches are told in the same write.
            self._shell.queues_changed(self, [outcome.queue for outcome in outcomes])
            self.line.applied(instance, outcomes, self.machine.log_time_us)
            if (instance + 1) % DIGEST_EVERY_INSTANCES == 0:
                self.replica.note_digest(instance, self.machine.digest)
        if self._applied_waiters:
            self._wake_readers()

    def _take_outcome(self, outcome: Outcome, position: Position) -> None:
        """Carry an outcome of the machine over to the other parts, above all to the index."""
        match outcome:
            case AppendDone(queue, base, count, log_time_us, batch_at, batch_bytes):
                if batch_bytes:
                    at = Position(position.segment, position.offset + batch_at, batch_bytes)
                    if self.batches.add(queue, base, count, log_time_us, at):
                        self._shell.note_batch(BatchEntry(queue, base, count, log_time_us, at))
            case StageDone(queue, base, count, log_time_us, batch_at, batch_bytes):
                if batch_bytes:
                    at = Position(position.segment, position.offset + batch_at, batch_bytes)
                    entry = BatchEntry(queue, base, count, log_time_us, at, STAGED)
                    if self.batches.add_entry(entry):
                        self._shell.note_batch(entry)
            case ReleaseDone(queue, _, runs, log_time_us):
                for base, stage_base, indices in runs:
                    entry = self.batches.released_entry(
                        queue, base, log_time_us, stage_base, indices
                    )
                    if self.batches.add_entry(entry):
                        self._shell.note_batch(entry)
            case TruncateDone(queue, first_offset, kept):
                self.batches.truncate(queue, first_offset, kept)
            case DeleteDone(queue):
                self.batches.drop(queue)
            case LeaderWished(node):
                self.replica.prefer(self._shell.now_us(), node or None)
            case CounterSet(name, value):
                self._shell.counter_set(self, name, value)
            case CheckpointWanted(reason):
                self._shell.checkpoint_wanted(self, reason)
            case CommandRefused(_, DedupKnown() as error):
                error.known = self._dated(error.known)

    def _dated(self, known: Mapping[int, Known]) -> dict[int, Known]:
        """Return the known ids with the log times of the first messages, which the machine does not
        keep.
        """
        time_of = self.batches.log_time_of
        return {
            index: each._replace(log_time_us=time_of(each.queue, each.position, each.staged))
            for index, each in known.items()
        }

    def _wake_readers(self) -> None:
        waiting = []
        for upto, future in self._applied_waiters:
            if self.machine.applied < upto:
                waiting.append((upto, future))
            elif not future.done():
                future.set_result(None)
        self._applied_waiters = waiting

    # -- news of the replica -------------------------------------------------------------------

    def _on_event(self, event: object) -> None:
        """Act on an event of the replica, such as a new leader or a confirmed read."""
        match event:
            case LeaderChanged(leader):
                log.info("leader", group=self.id, leader=leader)
                self._shell.leader_changed(self)
            case SteppedDown():
                self.line.lose_leadership(NotLeader(self.replica.state.leader))
                self._fail_readers()
            case ReadReady(token, upto):
                future = self._reads.get(token)
                if future is not None and not future.done():
                    future.set_result(upto)
            case ReadFailed(token):
                future = self._reads.get(token)
                if future is not None and not future.done():
                    future.set_exception(NotLeader(self.replica.state.leader))
            case MembershipChanged(membership):
                log.info(
                    "membership",
                    group=self.id,
                    version=membership.version,
                    voters=membership.voters,
                    learners=membership.learners,
                )
                self._shell.membership_changed(self)
            case InstallNeeded(source, oldest):
                self._shell.install_needed(self, source, oldest)
            case VotingAllowed():
                self._shell.voting_allowed(self)
            case Replicated(instance):
                self.line.replicated(instance, self.machine.log_time_us)
            case ReadChosen(to, start, upto):
                self._send_from_disk(to, start, upto)
            case Halt(reason):
                self._shell.halt(f"group {self.id}: {reason}")

    def _fail_readers(self) -> None:
        for _, future in self._applied_waiters:
            if not future.done():
                future.set_exception(NotLeader(self.replica.state.leader))
        self._applied_waiters = []

    def _send_from_disk(self, to: int, start: int, upto: int) -> None:
        values: list[bytes] = []
        total_bytes = 0
        for instance in range(start, upto):
            try:
                position = self.instances.get(instance)
                if position is None or total_bytes > LEARN_FROM_DISK_BYTES:
                    break
                values.append(self._shell.read(position))
            except WalDamaged as error:
                # The peer asks another node, or installs.
                self._shell.damaged(error.damage)
                break
            total_bytes += len(values[-1])
        if not values:
            log.warning("a peer asks for instances this log does not hold", group=self.id, to=to)
            self.replica.send_too_old(to, upto)
            self._shell.touch(self)
            return
        learned = Learned(start, tuple(values), self.replica.state.acceptor.chosen)
        self._shell.send(to, self.id, messages.encode(learned))
