"""One node of the core simulation: the product's replica, machine and group, and effects for them.

Effects are a clock, a log that is written by group commit, messages, and what a group tells its
node. Nothing is ever dropped from a log, so no node needs a checkpoint, its own or another's:
checkpoints, installs and files are what tests/simulation/store is for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from store_nodes.commands import ValueKind, value_head
from store_nodes.consensus.acceptor import Recovered
from store_nodes.consensus.effects import ReadFailed, ReadReady, Replicated, SteppedDown
from store_nodes.consensus.replica import Replica
from store_nodes.consensus.state import Leadership, ReplicaState
from store_nodes.machine.machine import Machine
from store_nodes.membership import VOTER
from store_nodes.node.group import Group
from store_nodes.node.requests import Budget, PendingCommands
from store_nodes.node.start import GroupStart
from store_nodes.storage.batch_index import BatchIndex
from store_nodes.wal.frame import HEADER_BYTES, Record
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Damage
from tests.simulation.oracle_votes import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

TRANSFER_TAG = 12
"""The tag of `TransferLeadership`, the second byte of its encoding."""
RECORD_BYTES = 1000
"""Every simulated record takes this much room: an offset is an index."""


class SimGroup(Group):
    """The product's group, watched."""

    node: SimNode

    def _apply(self, chosen: Sequence[tuple[int, bytes]]) -> None:
        for instance, value in chosen:
            super()._apply([(instance, value)])
            self.node.cluster.oracle.applied(self.node.id, instance, value, self.machine)
            self.node.disk.reached = max(self.node.disk.reached, self.machine.applied)

    def _on_event(self, event: object) -> None:
        match event:
            case ReadReady(token, upto):
                self.node.reads.append((upto, token))
            case ReadFailed(token):
                self.node.cluster.read_failed(token)
            case SteppedDown():
                self.node.cluster.coverage.hit("leader stepped down")
                super()._on_event(event)
            case Replicated():
                self.node.cluster.coverage.hit("replicated everywhere")
                super()._on_event(event)
            case _:
                super()._on_event(event)


class SimNode:
    """One life of a node's process, from a start to a crash. It is the `Shell` of its group."""

    def __init__(self, cluster: Cluster, node_id: int, life: int) -> None:
        self.cluster = cluster
        self.id = node_id
        self.life = life
        self.alive = True
        self.disk = cluster.disks[node_id]
        self.clock = cluster.clocks[node_id]
        self.reads: list[tuple[int, int]] = []
        self.paused_until = 0
        self._was_damaged = self._was_slow = False
        self._rng = cluster.scheduler.fork(f"node {node_id} life {life}")
        self._flushing = False
        self._sync_wanted = False
        self._done: list[tuple[int, Callable[[list[Position]], None]]] = []
        self._touched = False
        self._led: Leadership | None = None
        self.group = self._start()

    # -- starting ------------------------------------------------------------------------------

    def _start(self) -> SimGroup:
        """Start from the log.

        A node that joins knows the first members, as one does that was given a machine to which
        nothing was applied yet.
        """
        options = self.cluster.options
        self.disk.open()
        found = GroupStart(Machine(options.group, options.membership))
        for index, record in enumerate(self.disk.log):
            found.replay(record, self._position(index))
        if found.promised < self.disk.promised:
            raise Violation(f"node {self.id} forgot that it promised {self.disk.promised}")
        held = 0
        while held in found.accepted:
            held += 1
        if held < self.disk.reached:
            raise Violation(f"node {self.id} is back at {held}, it had applied {self.disk.reached}")
        recovered = Recovered(found.promised, found.chosen, 0, found.accepted)
        replica = Replica(
            ReplicaState(
                options.group,
                self.id,
                found.machine.membership,
                recovered,
                self._rng,
                now_us=self.now_us(),
                voting=not self.disk.damaged,
                preferred=options.preferred,
                timing=options.timing,
                limits=options.limits,
            )
        )
        line = PendingCommands(Budget(100_000))
        group = SimGroup(
            replica,
            found.machine,
            self,
            line,
            BatchIndex(),
            found.instances,
            found.positions,
        )
        group.node = self
        if self.disk.damaged and not self.disk.log_holds_anything:
            self.cluster.coverage.hit("all of a node's disk lost")
        return group

    @property
    def leading(self) -> bool:
        return self.alive and self.group.replica.state.leading

    def membership_changed(self, group: Group) -> None:
        replica, coverage = group.replica, self.cluster.coverage
        member = replica.state.membership.member(self.id)
        if member is None and not self._led:
            coverage.hit("node learned that it was removed")
        if member is not None and member.role == VOTER and self._was_damaged:
            coverage.hit("damaged voter promoted again")
            self._was_damaged = False
        self.cluster.scheduler.note("membership", self.id, group.replica.state.membership.version)

    def voting_allowed(self, group: Group) -> None:
        self.cluster.oracle.votes.may_vote(self.id, group.replica.state.membership)
        self.disk.damaged = False
        self._was_damaged = True
        self.cluster.coverage.hit("damaged voter demoted")
        group.replica.set_voting()

    def counter_set(self, *counter: object) -> None:
        """Groups are not made while a cluster is simulated."""

    def checkpoint_wanted(self, group: Group, reason: str) -> None:
        """A start reads the whole log."""

    def install_needed(self, group: Group, source: int, oldest: int) -> None:
        raise Violation(f"node {self.id} cannot learn from {source}, whose log holds everything")

    # -- inputs --------------------------------------------------------------------------------

    def tick(self) -> None:
        """Tick the group if that is due, as a node does."""
        now = self.cluster.scheduler.now
        if self.group.due_us <= self.now_us():
            self.group.tick(self.now_us(), self.clock.wall_us(now))
        self._pump_if_touched()

    def receive(self, source: int, payload: bytes) -> None:
        if payload[1] == TRANSFER_TAG:
            self.cluster.coverage.hit("leadership transferred")
        self.group.receive(source, payload)
        self._pump_if_touched()

    def connected(self, node: int) -> None:
        self.group.replica.peer_connected(self.now_us(), node)
        self.touch(self.group)
        self._pump_if_touched()

    def lost(self, node: int) -> None:
        self.group.replica.peer_lost(self.now_us(), node)
        self.touch(self.group)
        self._pump_if_touched()

    def call(self, request: Callable[[SimGroup], None]) -> None:
        """Take a client's request."""
        request(self.group)
        self._pump_if_touched()

    def start_read(self, token: int) -> None:
        self.group.replica.read_barrier(self.now_us(), token)
        self.touch(self.group)
        self._pump_if_touched()

    def _pump_if_touched(self) -> None:
        if self._touched and self.cluster.options.pump_us == 0:
            self.pump()

    def pump(self) -> None:
        self._touched = False
        self.group.pump()
        if self.group.replica.state.slow and not self._was_slow:
            self._was_slow = True
            self.cluster.coverage.hit("slow disk handed the group over")
        self._watch_leadership()
        if self.reads:
            self._answer_reads()

    def _watch_leadership(self) -> None:
        led = self.group.replica.state.leadership
        if led is self._led:
            return
        self._led = led
        if led is None:
            return
        cluster = self.cluster
        recovered = {i: e.value for i, e in led.open.items() if i < led.recovered_upto and e.value}
        membership = self.group.replica.state.membership
        cluster.oracle.votes.leads(self.id, self.life, led.ballot, membership, recovered)
        cluster.scheduler.note("leads", self.id, led.ballot)
        if cluster.network.duplicated:
            cluster.coverage.hit("message delivered twice")
        before, cluster.last_leader = cluster.last_leader, self.id
        if before and before != self.id and not cluster.alive(before):
            cluster.coverage.hit("elected while the leader before was down")
        if led.finishing:
            cluster.coverage.hit("change of membership finished by a new leader")
        if len(recovered) >= 2:
            cluster.coverage.hit("leader change with two or more open instances")
        assert all(isinstance(value_head(value)[0], ValueKind) for value in recovered.values())

    def _answer_reads(self) -> None:
        waiting = []
        for upto, token in self.reads:
            if self.group.machine.applied >= upto:
                self.cluster.read_done(token, self.group.machine)
            else:
                waiting.append((upto, token))
        self.reads = waiting

    # -- the group's shell ---------------------------------------------------------------------

    def now_us(self) -> int:
        return self.clock.monotonic_us(self.cluster.scheduler.now)

    def touch(self, group: Group) -> None:
        if self._touched:
            return
        self._touched = True
        if self.cluster.options.pump_us:
            self.cluster.for_node(self, self.cluster.options.pump_us, "pump", self.pump)

    def submit(
        self, records: Sequence[Record], must_sync: bool, done: Callable[[list[Position]], None]
    ) -> None:
        self.disk.write(records)
        self._done.append((len(records), done))
        self._sync_wanted = self._sync_wanted or must_sync
        if self._sync_wanted and not self._flushing:
            self._flush()

    def _flush(self) -> None:
        self._flushing = True
        self._sync_wanted = False
        taken, self._done = self._done, []
        options = self.cluster.options
        delay = options.flush_us // 2 + self._rng.randrange(options.flush_us)
        delay *= self.disk.slowness
        if self._rng.random() < options.slow_flush and not self.cluster.calm:
            delay += 100_000 + self._rng.randrange(300_000)
        self.cluster.for_node(self, delay, "flushed", self._flushed, len(self.disk.log), taken)

    def _flushed(
        self, upto: int, taken: list[tuple[int, Callable[[list[Position]], None]]]
    ) -> None:
        self.disk.sync(upto)
        self._flushing = False
        at = upto - sum(count for count, _ in taken)
        for count, done in taken:
            positions = [self._position(index) for index in range(at, at + count)]
            at += count
            done(positions)
        if self._sync_wanted and not self._flushing:
            self._flush()
        self._pump_if_touched()

    def _position(self, index: int) -> Position:
        at = index * RECORD_BYTES + HEADER_BYTES
        return Position(0, at, len(self.disk.log[index].payload))

    def send(self, node: int, group: int, payload: bytes) -> None:
        self.cluster.oracle.votes.sent(self.id, payload)
        self.cluster.network.send(self.id, node, payload)

    def read(self, position: Position) -> bytes:
        self.cluster.coverage.hit("caught up from the log on disk")
        return self.disk.log[position.offset // RECORD_BYTES].payload

    def damaged(self, damage: Damage) -> None:
        raise AssertionError(f"no disk rots here: {damage}")

    def note_batch(self, *entry: object) -> None:
        """Footers are not simulated."""

    def leader_changed(self, group: Group) -> None:
        self.cluster.scheduler.note("leader", self.id, group.replica.state.leader)

    def queues_changed(self, group: Group, queues: Sequence[bytes]) -> None:
        """Watches are not simulated."""

    def disk_without_room(self) -> str | None:
        return None

    def disk_is_critical(self) -> bool:
        return False

    def halt(self, reason: str) -> None:
        self.cluster.halted(self, reason)
