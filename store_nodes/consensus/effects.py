"""Collects the effects of a replica: records to persist, messages, chosen values, events.

The parts of a replica put them into the `Outbox`. A message that must not leave before a record is
durable is held here, bound to that record's number, until the shell reports the record as
persisted.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from store_nodes.consensus.ballot import Ballot
from store_nodes.consensus.messages import Message
from store_nodes.membership import Membership


class PromiseRecord(NamedTuple):
    """No ballot below this one is answered any more."""

    ballot: Ballot


class AcceptRecord(NamedTuple):
    """A value was accepted in a ballot."""

    instance: int
    ballot: Ballot
    value: bytes


class LearnRecord(NamedTuple):
    """A value is chosen; it was learned from a peer."""

    instance: int
    value: bytes


class ChosenRecord(NamedTuple):
    """All instances below `upto` are chosen.

    The record only helps a restart and never forces a flush.
    """

    upto: int


Record = PromiseRecord | AcceptRecord | LearnRecord | ChosenRecord


class LeaderChanged(NamedTuple):
    """The leader that this replica believes in has changed; None while there is none."""

    leader: int | None


class SteppedDown(NamedTuple):
    """This replica led and no longer does; the outcome of its undelivered proposals is unknown."""


class ReadReady(NamedTuple):
    """A read barrier holds: the state after applying all below `upto` is as new as the call."""

    token: int
    upto: int


class ReadFailed(NamedTuple):
    """Leadership was lost before a read barrier was confirmed."""

    token: int


class Replicated(NamedTuple):
    """Every connected voter has accepted an instance durably (asked for with `everywhere`)."""

    instance: int


class ReadChosen(NamedTuple):
    """A request for values from the log on disk: [start, upto) is older than memory.

    The shell sends them to `to` as a Learned message. If its log does not hold `start` any more, it
    calls `Replica.send_too_old`.
    """

    to: int
    start: int
    upto: int


class MembershipChanged(NamedTuple):
    """The chosen prefix reached a change of membership, which governs the group from now on."""

    membership: Membership


class InstallNeeded(NamedTuple):
    """This node cannot learn its missing values and needs a checkpoint, which `source` may give.

    Peers hold instances from `oldest` on; 0 means unknown, for a node without a membership.
    """

    source: int
    oldest: int


class VotingAllowed(NamedTuple):
    """A replica started with `voting=False` may vote: the membership that says so is on its disk.

    The shell answers with `Replica.set_voting()`.
    """


class Halt(NamedTuple):
    """This replica's state differs from a majority's: it must neither serve nor vote any more."""

    reason: str


Event = (
    LeaderChanged
    | SteppedDown
    | ReadReady
    | ReadFailed
    | Replicated
    | ReadChosen
    | MembershipChanged
    | InstallNeeded
    | VotingAllowed
    | Halt
)


@dataclass(slots=True)
class Effects:
    """All that one or more inputs asked for, in order.

    `persist_upto` is the number to report with `Replica.persisted` once every record here is on
    stable storage. Records go to the log in this order, after those of earlier effects.
    `must_sync` is false when the records may wait for a flush that others force.
    """

    records: list[Record] = field(default_factory=list)
    persist_upto: int = 0
    must_sync: bool = False
    sends: list[tuple[int, Message]] = field(default_factory=list)
    chosen: list[tuple[int, bytes]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.records or self.sends or self.chosen or self.events)


class _HeldSend(NamedTuple):
    number: int
    to: int
    message: Message


class Outbox:
    """Collects effects, numbers records, and holds messages until their record is durable."""

    def __init__(self) -> None:
        self._effects = Effects()
        self._number = 0
        self._held: deque[_HeldSend] = deque()

    def persist(self, record: Record) -> int:
        """Add a record; return its number, for `send_after`."""
        self._number += 1
        self._effects.records.append(record)
        self._effects.persist_upto = self._number
        self._effects.must_sync = True
        return self._number

    def persist_lazily(self, record: ChosenRecord) -> None:
        self._number += 1
        self._effects.records.append(record)
        self._effects.persist_upto = self._number

    def send(self, to: int, message: Message) -> None:
        self._effects.sends.append((to, message))

    def send_after(self, number: int, to: int, message: Message) -> None:
        assert not self._held or self._held[-1].number <= number, (
            f"a message that waits for record {number} comes after one of {self._held[-1].number}"
        )
        self._held.append(_HeldSend(number, to, message))

    def release(self, upto: int) -> None:
        """Release the messages that waited for records up to this number, which are durable now."""
        assert upto <= self._number, f"record {upto} is durable, {self._number} is the last"
        while self._held and self._held[0].number <= upto:
            held = self._held.popleft()
            self.send(held.to, held.message)

    def deliver(self, instance: int, value: bytes) -> None:
        """Add a chosen value, which is durable on this node, to be applied."""
        self._effects.chosen.append((instance, value))

    def report(self, event: Event) -> None:
        """Add an event for the shell."""
        self._effects.events.append(event)

    @property
    def has_records(self) -> bool:
        return bool(self._effects.records)

    def take(self) -> Effects:
        effects, self._effects = self._effects, Effects()
        return effects
