"""What must hold in every run, checked as it happens.

* A value is applied only if a majority of disks held it durably in one ballot by then.
* A promise and an accept are on the disk before they are said; what was promised is kept, also over
  restarts; a ballot proposes one value per instance.
* One value per instance, ever: every node applies the same value there, with the same digest.
* Offsets of a queue are gap-free; a batch is in the log at most once; batches of one session are in
  the order of their sequences.
* Every acknowledged append is in the log where its receipt says, and its receipt never changes.
* What the log refused is not in the log; nothing follows a seal.
* Log time grows with each instance and no clock of a minority drives it ahead.
* A ballot has one leader, in one of its lives.
* A confirmed read is no older than what was acknowledged before it was asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from store_nodes import commands as c
from store_nodes.consensus.ballot import node_of
from store_nodes.consensus.messages import Accept, Accepted, HeartbeatReply, Promise, decode
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import AppendDone, CreateDone, SealDone
from tests.simulation.clock import SANE_SKEW_US, WALL_START_US
from tests.simulation.coverage import Coverage
from tests.simulation.disk import SimDisk
from tests.simulation.scheduler import Scheduler

CLOCK_SLACK_US = 250_000
"""Drift between two reports of a clock, and the skew of sane ones, with room."""
STATE_EVERY_INSTANCES = 50
_SPOKEN = (4, 6, 7, 9)
"""Tags of Promise, Accept, Accepted and HeartbeatReply."""


class Violation(Exception):
    """The run broke a promise; the text says which."""


class Place:
    """Where a batch is in the log."""

    __slots__ = ("base_offset", "count", "log_time_us", "queue")

    def __init__(self, queue: bytes, base_offset: int, count: int, log_time_us: int) -> None:
        self.queue = queue
        self.base_offset = base_offset
        self.count = count
        self.log_time_us = log_time_us


class Oracle:
    """Sees every apply, every acknowledgement and every leader."""

    def __init__(
        self,
        scheduler: Scheduler,
        coverage: Coverage,
        group: int,
        disks: Mapping[int, SimDisk],
    ) -> None:
        self._scheduler = scheduler
        self._coverage = coverage
        self._reference = Machine(group)
        self._values: list[bytes] = []
        self._digests: list[bytes] = []
        self._states: dict[int, bytes] = {}
        self._ends: dict[bytes, int] = {}
        self._sealed: dict[bytes, int] = {}
        self._places: dict[bytes, Place] = {}
        self._last_seq: dict[tuple[bytes, bytes], int] = {}
        self._refused: dict[bytes, str] = {}
        self._leaders: dict[int, tuple[int, int]] = {}
        self._disks = disks
        self._promised = dict.fromkeys(disks, 0)
        self._proposed: dict[tuple[int, int], bytes] = {}
        self._last_sent: bytes | None = None
        self.acked = 0
        self.acked_ends: dict[bytes, int] = {}

    @property
    def instances(self) -> int:
        return len(self._values)

    def sent(self, node: int, payload: bytes) -> None:
        """A node's message has just left it."""
        if payload is self._last_sent:
            return
        self._last_sent = payload
        tag = payload[1]
        if tag in _SPOKEN:
            self._check_said(node, decode(payload))

    def _check_said(self, node: int, message: object) -> None:
        disk, promised = self._disks[node], self._promised[node]
        match message:
            case Promise(ballot=ballot):
                if ballot <= promised:
                    raise Violation(f"node {node} promised {ballot}, having promised {promised}")
                if disk.promised < ballot:
                    raise Violation(f"node {node} promised {ballot} before its sync")
                self._promised[node] = ballot
            case Accepted(ballot=ballot, instances=instances):
                if ballot < promised:
                    raise Violation(f"node {node} voted in {ballot}, having promised {promised}")
                for instance in instances:
                    if ballot not in disk.accepted.get(instance, ()):
                        raise Violation(f"node {node} voted for {instance} before its sync")
            case HeartbeatReply(ballot=ballot):
                if ballot < promised:
                    raise Violation(f"node {node} obeyed {ballot}, having promised {promised}")
            case Accept(ballot=ballot, instance=instance, value=value):
                if node_of(ballot) != node:
                    raise Violation(f"node {node} proposed in a ballot of another")
                if self._proposed.setdefault((ballot, instance), value) != value:
                    raise Violation(f"ballot {ballot} proposed two values for {instance}")

    def _check_chosen(self, instance: int) -> None:
        """One ballot whose accept a majority of disks hold: the definition of chosen."""
        holders: dict[int, int] = {}
        for disk in self._disks.values():
            for ballot in dict.fromkeys(disk.accepted.get(instance, ())):
                holders[ballot] = holders.get(ballot, 0) + 1
        if 2 * max(holders.values(), default=0) <= len(self._disks):
            raise Violation(f"instance {instance} is applied, but no majority accepted it")

    def applied(self, node: int, instance: int, value: bytes, machine: Machine) -> None:
        """A node has just applied this."""
        if instance == len(self._values):
            self._apply_first(instance, value)
        if self._values[instance] != value:
            raise Violation(f"instance {instance}: node {node} applied another value")
        if self._digests[instance] != machine.digest:
            raise Violation(f"instance {instance}: node {node} has another digest")
        if instance % STATE_EVERY_INSTANCES == 0:
            state = machine.state_digest()
            if self._states.setdefault(instance, state) != state:
                raise Violation(f"instance {instance}: node {node} has another state")

    def _apply_first(self, instance: int, value: bytes) -> None:
        self._check_chosen(instance)
        before_us = self._reference.log_time_us
        outcomes = self._reference.apply(instance, value)
        self._values.append(value)
        self._digests.append(self._reference.digest)
        self._scheduler.note(self._reference.digest)
        self._check_log_time(instance, before_us)
        decoded = c.decode_value(value)
        if not decoded:
            self._coverage.hit("hole recovered as no-op")
        for (_, command), outcome in zip(decoded, outcomes, strict=True):
            match outcome:
                case CreateDone(queue, end):
                    self._ends.setdefault(queue, end)
                case SealDone(queue, offset):
                    self._sealed[queue] = offset
                case AppendDone(duplicate=False):
                    assert isinstance(command, c.Append)
                    self._append(command, outcome, value)
                case _:
                    pass

    def _check_log_time(self, instance: int, before_us: int) -> None:
        now_us = self._reference.log_time_us
        if now_us <= before_us:
            raise Violation(f"instance {instance}: log time did not grow")
        ahead = WALL_START_US + self._scheduler.now + SANE_SKEW_US + CLOCK_SLACK_US
        if now_us > max(before_us + 1, ahead):
            raise Violation(f"instance {instance}: log time runs ahead of the sane clocks")

    def _append(self, command: c.Append, done: AppendDone, value: bytes) -> None:
        queue = done.queue
        batch = value[done.batch_at : done.batch_at + done.batch_bytes]
        if self._ends.get(queue) != done.base_offset:
            raise Violation(f"offset {done.base_offset} given, {self._ends.get(queue)} is next")
        self._ends[queue] = done.base_offset + done.count
        if queue in self._sealed:
            raise Violation("an append after the seal")
        if batch in self._places:
            raise Violation(f"batch {batch!r} is in the log twice")
        if batch in self._refused:
            raise Violation(f"batch {batch!r} was refused, but is in the log")
        self._places[batch] = Place(queue, done.base_offset, done.count, done.log_time_us)
        session = (queue, command.session)
        if command.seq <= self._last_seq.get(session, 0):
            raise Violation(f"sequence {command.seq} is out of order")
        self._last_seq[session] = command.seq

    def ack(self, batch: bytes, base_offset: int, count: int, log_time_us: int) -> None:
        """A client was told that this batch is stored."""
        place = self._places.get(batch)
        if place is None:
            raise Violation(f"batch {batch!r} was acknowledged, but is not in the log")
        told = (base_offset, count, log_time_us)
        if told != (place.base_offset, place.count, place.log_time_us):
            raise Violation(f"batch {batch!r}: the receipt {told} does not match the log")
        self.acked += 1
        end = base_offset + count
        if end > self.acked_ends.get(place.queue, 0):
            self.acked_ends[place.queue] = end

    def refuse(self, batch: bytes, why: str) -> None:
        """A client was told that this batch is not stored and never will be."""
        if batch in self._places:
            raise Violation(f"batch {batch!r} was refused ({why}), but is in the log")
        self._refused[batch] = why

    def read(self, queue: bytes, end: int, at_least: int) -> None:
        """A confirmed read was answered; `at_least` was acknowledged when it was asked."""
        if end < at_least:
            raise Violation(f"a confirmed read answered {end}, {at_least} was acknowledged before")

    def sealed(self, queue: bytes, offset: int) -> None:
        """A client was told that the queue ends there."""
        if self._sealed.get(queue) != offset:
            raise Violation(f"seal answered {offset}, the log says {self._sealed.get(queue)}")

    def leads(self, node: int, life: int, ballot: int) -> None:
        if self._leaders.setdefault(ballot, (node, life)) != (node, life):
            raise Violation(f"ballot {ballot} has two leaders")

    @property
    def ballots(self) -> int:
        return len(self._leaders)
