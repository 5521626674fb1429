"""Keeps a replica's promise, its accepted values and its chosen prefix: acceptor and learner.

A vote for a value leaves only once the record of the accept is durable, and a promise only once its
record is. A value counts as delivered once it is chosen and its record is durable on this node.

Invariants
    * `promised` never falls; every accept is in a ballot ≥ the promise of its time.
    * An instance is *stored* when the record of its current accepted ballot is durable.
    * Values are delivered in instance order, once, and only when chosen and stored here: whatever
      a node can show it has on its own disk.
    * `membership` is the one that governs the next unchosen instance.
    * Memory holds the values from `floor` on: all not yet delivered, and a tail of delivered ones
      for peers that are a little behind. What is below the floor is read from disk.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from store_nodes.commands import Reconfigure, decode_value, is_membership, value_head
from store_nodes.consensus.ballot import CHOSEN, NO_BALLOT, Ballot
from store_nodes.consensus.effects import (
    AcceptRecord,
    ChosenRecord,
    LearnRecord,
    Outbox,
    PromiseRecord,
)
from store_nodes.consensus.messages import Accepted, Learned
from store_nodes.errors import Conflict, NotAllowed
from store_nodes.membership import Membership

TAIL_INSTANCES = 512
TAIL_BYTES = 8 * 1024 * 1024


class Recovered(NamedTuple):
    """The content of a node's disk for one group.

    `accepted` maps instance → (ballot, value) for every instance ≥ `applied`; a learned value has
    the ballot CHOSEN. `chosen` is the highest mark found; `applied` is the first instance that the
    state does not include.
    """

    promised: Ballot = NO_BALLOT
    chosen: int = 0
    applied: int = 0
    accepted: dict[int, tuple[Ballot, bytes]] | None = None

    def without_votes(self) -> Recovered:
        """Return the rest of a log that may have lost records: values known to be chosen.

        An accept says nothing any more, because a later one of the same instance may be among the
        lost records. A mark above it says nothing either.
        """
        known = {i: held for i, held in (self.accepted or {}).items() if held[0] == CHOSEN}
        return self._replace(chosen=self.applied, accepted=known)


class _Pending(NamedTuple):
    """A record on its way to disk, with the vote to send once it is there (leader 0: none)."""

    number: int
    instance: int
    ballot: Ballot
    leader: int


class Acceptor:
    """Promises, accepted values and the chosen prefix of one group at one node."""

    def __init__(self, outbox: Outbox, recovered: Recovered, membership: Membership) -> None:
        self._outbox = outbox
        self.membership = membership
        """The membership as of the chosen prefix; at the start, as of `recovered.applied`."""
        self.member_since = recovered.applied
        """The first instance that the membership governs, as far as this node knows."""
        self.promised = recovered.promised
        self.accepted = dict(recovered.accepted or {})
        self.delivered = recovered.applied
        self.chosen = recovered.applied
        self.floor = recovered.applied
        self._stored = {instance: ballot for instance, (ballot, _) in self.accepted.items()}
        self._pending: deque[_Pending] = deque()
        self._tail_bytes = 0
        self.marked = recovered.chosen
        self.log_time_us = max(
            (value_head(value)[2] for _, value in self.accepted.values()), default=0
        )
        assert all(instance >= recovered.applied for instance in self.accepted), (
            "an accept below the state was found"
        )
        assert all(
            ballot <= self.promised or ballot == CHOSEN for ballot, _ in self.accepted.values()
        ), f"an accept above the promise {self.promised:#x} was found"
        for instance in range(recovered.applied, recovered.chosen):
            if instance not in self.accepted:
                break
            self.mark_chosen(instance)
        while (entry := self.accepted.get(self.chosen)) and entry[0] == CHOSEN:
            self.mark_chosen(self.chosen)
        self._deliver()

    # -- accepting ---------------------------------------------------------------------------

    def promise(self, ballot: Ballot) -> int:
        """Raise the promise; return the number of the record that a reply must wait for."""
        assert ballot > self.promised, f"{ballot:#x} promised after {self.promised:#x}"
        self.promised = ballot
        return self._outbox.persist(PromiseRecord(ballot))

    def accept(self, instance: int, ballot: Ballot, value: bytes, leader: int, vote: bool) -> None:
        """Store a value that the promise allows, and vote for it at `leader` once it is durable.

        Without `vote`, only store it. For an instance known to be chosen, the value is sent instead
        of a vote: that tells the leader more, and binds this node to nothing. (Above the prefix, a
        restart can leave single values known to be chosen: a late proposal of another value is
        refused, the same value gets a vote.)
        """
        assert ballot >= self.promised, f"{ballot:#x} accepted after {self.promised:#x}"
        held = self.accepted.get(instance)
        if instance < self.chosen or (held is not None and held[0] == CHOSEN and held[1] != value):
            if held is not None:
                self._outbox.send(leader, Learned(instance, (held[1],), self.chosen))
            return
        self.promised = ballot
        if held is not None and held[0] == ballot:
            if vote and self._stored.get(instance) == ballot:
                self._outbox.send(leader, Accepted(ballot, (instance,)))
            return
        assert held is None or held[0] < ballot or held == (CHOSEN, value), (
            f"instance {instance} goes back from ballot {held[0]:#x} to {ballot:#x}"
        )
        self._store(instance, ballot, value, leader if vote else 0)

    def learn(self, instance: int, value: bytes) -> None:
        """Store a value that a peer reports as chosen in the next unchosen instance."""
        assert instance == self.chosen, f"{instance} learned, {self.chosen} is next"
        held = self.accepted.get(instance)
        if held is None or held[1] != value:
            self._store(instance, CHOSEN, value, leader=0)
        self.mark_chosen(instance)

    def _store(self, instance: int, ballot: Ballot, value: bytes, leader: int) -> None:
        """Keep a value, and queue its record; a vote for it leaves once that is durable."""
        self.accepted[instance] = (ballot, value)
        self.log_time_us = max(self.log_time_us, value_head(value)[2])
        if ballot == CHOSEN:
            number = self._outbox.persist(LearnRecord(instance, value))
        else:
            number = self._outbox.persist(AcceptRecord(instance, ballot, value))
        self._pending.append(_Pending(number, instance, ballot, leader))

    def persisted(self, upto: int, me: int) -> list[tuple[int, Ballot]]:
        """Send the votes for records up to this number, which are durable now.

        Return this node's votes for its own proposals as (instance, ballot).
        """
        votes: dict[tuple[int, Ballot], list[int]] = {}
        own: list[tuple[int, Ballot]] = []
        while self._pending and self._pending[0].number <= upto:
            _, instance, ballot, leader = self._pending.popleft()
            if instance >= self.floor:
                self._stored[instance] = ballot
            if leader == me:
                own.append((instance, ballot))
            elif leader:
                votes.setdefault((leader, ballot), []).append(instance)
        for (leader, ballot), instances in votes.items():
            self._outbox.send(leader, Accepted(ballot, tuple(instances)))
        self._deliver()
        return own

    # -- choosing ----------------------------------------------------------------------------

    def mark_chosen(self, instance: int) -> None:
        """Extend the chosen prefix by the next instance, whose accepted value is chosen."""
        assert instance == self.chosen, f"{instance} chosen, {self.chosen} is next"
        assert instance in self.accepted, f"{instance} chosen and not held"
        self.chosen = instance + 1
        value = self.accepted[instance][1]
        if is_membership(value):
            self._reconfigure(instance, value)
        self._deliver()

    def _reconfigure(self, instance: int, value: bytes) -> None:
        """Apply a chosen change, which governs the instances after it.

        A change that the rules refuse changes nothing, here as in the machine.
        """
        [(_, step)] = decode_value(value)
        assert isinstance(step, Reconfigure)
        try:
            self.membership = self.membership.after(step)
        except (Conflict, NotAllowed):
            return
        self.member_since = instance + 1

    def follow(self, ballot: Ballot, upto: int) -> bool:
        """Mark as chosen the values below `upto` that this node accepted in `ballot`; return
        whether all were.

        The leader of `ballot` says that all below `upto` is chosen. A ballot proposes one value per
        instance, and its leader calls chosen only that one. So a value accepted in the same ballot
        is the chosen one. If the result is False, a value must be learned from a peer.
        """
        while self.chosen < upto:
            held = self.accepted.get(self.chosen)
            if held is None or held[0] != ballot:
                return False
            self.mark_chosen(self.chosen)
        return True

    def _deliver(self) -> None:
        """Deliver chosen values that are durable here, in order; drop old ones from memory."""
        while self.delivered < self.chosen:
            instance = self.delivered
            ballot, value = self.accepted[instance]
            if self._stored.get(instance) != ballot:
                break
            self._outbox.deliver(instance, value)
            self._tail_bytes += len(value)
            self.delivered = instance + 1
            if is_membership(value) and self.delivered > self.marked:
                self._mark_change()
        while self.floor < self.delivered and (
            self.delivered - self.floor > TAIL_INSTANCES or self._tail_bytes > TAIL_BYTES
        ):
            _, value = self.accepted.pop(self.floor)
            self._stored.pop(self.floor, None)
            self._tail_bytes -= len(value)
            self.floor += 1
        assert self.floor <= self.delivered <= self.chosen, (
            f"floor {self.floor}, delivered {self.delivered}, chosen {self.chosen}"
        )
        assert self.member_since <= self.chosen, (
            f"the membership of {self.member_since} governs {self.chosen}"
        )

    def mark_lazily(self) -> None:
        """Write a mark of the chosen prefix for the next restart; it forces no sync."""
        if self.delivered > self.marked:
            self.marked = self.delivered
            self._outbox.persist_lazily(ChosenRecord(self.delivered))

    def _mark_change(self) -> None:
        """Write a mark of a change of membership at once, and have it synced.

        A restart must not fall back behind the change: finding it again takes a majority of voters,
        which the change may have removed.
        """
        self.marked = self.delivered
        self._outbox.persist(ChosenRecord(self.delivered))

    # -- reading -----------------------------------------------------------------------------

    def reported(self, start: int) -> tuple[tuple[int, Ballot, bytes], ...]:
        """Return everything accepted from `start` on, for a promise."""
        assert start >= self.floor, f"reported from {start}, memory begins at {self.floor}"
        return tuple(
            (instance, CHOSEN if instance < self.chosen else ballot, value)
            for instance, (ballot, value) in sorted(self.accepted.items())
            if instance >= start
        )

    def chosen_values(self, start: int, max_bytes: int) -> tuple[bytes, ...]:
        """Return chosen values from `start` (≥ floor) on, at least one if there is one."""
        values: list[bytes] = []
        total = 0
        for instance in range(start, self.chosen):
            value = self.accepted[instance][1]
            total += len(value)
            if values and total > max_bytes:
                break
            values.append(value)
        return tuple(values)
