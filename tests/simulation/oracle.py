"""The rules of every run, checked as it happens.

* An applied value was chosen by votes that were cast and could be cast (oracle_votes.py).
* One value per instance, ever: every node applies the same value there, with the same digest.
* Offsets of a queue are gap-free; a batch is in the log at most once; batches of one session are in
  the order of their sequences.
* Every acknowledged append is in the log where its receipt says, and its receipt never changes.
* A refused append is not in the log; nothing follows a seal.
* Log time grows with each instance, and no clock of a minority of the voters that govern the
  instance drives it ahead. A lone voter is a majority: its clock may.
* A confirmed read is no older than the appends acknowledged before it was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from store_nodes import commands as c
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import AppendDone, CreateDone, MembershipSet, SealDone
from store_nodes.membership import Membership
from tests.simulation.clock import WALL_START_US, SimClock
from tests.simulation.coverage import Coverage
from tests.simulation.disk import SimDisk
from tests.simulation.oracle_votes import Violation, Votes
from tests.simulation.scheduler import Scheduler

CLOCK_SLACK_US = 250_000
"""Drift between two reports of a clock, with room."""
STATE_EVERY_INSTANCES = 50


class Place:
    """The place of a batch in the log."""

    __slots__ = ("base_offset", "count", "log_time_us", "queue")

    def __init__(self, queue: bytes, base_offset: int, count: int, log_time_us: int) -> None:
        self.queue = queue
        self.base_offset = base_offset
        self.count = count
        self.log_time_us = log_time_us


class Oracle:
    """An oracle that sees every apply, every receipt and every leader."""

    def __init__(
        self,
        scheduler: Scheduler,
        coverage: Coverage,
        group: int,
        membership: Membership,
        disks: Mapping[int, SimDisk],
        clocks: Mapping[int, SimClock],
        prefix: Callable[[int], int],
    ) -> None:
        self._scheduler = scheduler
        self._clocks = clocks
        self._coverage = coverage
        self.reference = Machine(group, membership)
        """The chosen values, applied as soon as any node does."""
        self._values: list[bytes] = []
        self._digests: list[bytes] = []
        self._states: dict[int, bytes] = {}
        self._ends: dict[bytes, int] = {}
        self._sealed: dict[bytes, int] = {}
        self._places: dict[bytes, Place] = {}
        self._last_seq: dict[tuple[bytes, bytes], int] = {}
        self._refused: dict[bytes, str] = {}
        self.votes = Votes(coverage, disks, prefix)
        self.changed_at = 0
        """The first instance that the present membership governs."""
        self.acked = 0
        self.acked_us = -(10**9)
        """The time at which the last was told."""
        self.acked_ends: dict[bytes, int] = {}

    @property
    def instances(self) -> int:
        return len(self._values)

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
        self.votes.check_chosen(instance, self.reference.membership)
        before_us = self.reference.log_time_us
        governing = self.reference.membership
        outcomes = self.reference.apply(instance, value)
        self._values.append(value)
        self._digests.append(self.reference.digest)
        self._scheduler.note(self.reference.digest)
        self._check_log_time(instance, before_us, governing)
        decoded = c.decode_value(value)
        confirms = instance > 0 and c.is_membership(self._values[instance - 1])
        if not decoded and not confirms:
            self._coverage.hit("hole recovered as no-op")
        for (_, command), outcome in zip(decoded, outcomes, strict=True):
            match outcome:
                case MembershipSet():
                    self.changed_at = instance + 1
                case CreateDone(queue, end):
                    self._ends.setdefault(queue, end)
                case SealDone(queue, offset):
                    self._sealed[queue] = offset
                case AppendDone(duplicate=False):
                    assert isinstance(command, c.Append)
                    self._append(command, outcome, value)

    def _check_log_time(self, instance: int, before_us: int, governing: Membership) -> None:
        """A stamp is the lower median of what a majority of the voters say, or follows the last.

        The furthest that such a median comes is where the fewest report, those that are ahead:
        the median of a majority of two or three is the second furthest, that of one its own."""
        now_us = self.reference.log_time_us
        if now_us <= before_us:
            raise Violation(f"instance {instance}: log time did not grow")
        furthest = sorted((self._clocks[n].furthest_us for n in governing.voters), reverse=True)
        skew_us = furthest[governing.majority // 2]
        ahead = WALL_START_US + self._scheduler.now + skew_us + CLOCK_SLACK_US
        if now_us > max(before_us + 1, ahead):
            raise Violation(f"instance {instance}: log time runs ahead of the clocks of a majority")

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
        self.acked_us = self._scheduler.now
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
