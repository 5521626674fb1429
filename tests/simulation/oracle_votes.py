"""The possible votes of each node: the part of the oracle that knows Paxos and memberships.

* A statement is on the disk of its node; a promise is kept, also over restarts.
* A node whose votes may be lost says neither Promise nor Accepted, until a membership made after
  the loss has left it out of the voters.
* A ballot proposes one value per instance, has one leader in one life, and that leader had the
  promises of a majority of the voters it goes by.
* Chosen means: a majority of the voters of the membership that governs the instance have voted for
  it in one ballot. Learners and those removed count for nothing.
* A ballot proposes nothing beyond a change of membership that it found, and no second change before
  an instance under the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from store_nodes.commands import is_membership
from store_nodes.consensus.ballot import node_of
from store_nodes.consensus.messages import (
    Accept,
    Accepted,
    HeartbeatReply,
    PreVoteReply,
    Promise,
    decode,
)
from store_nodes.membership import Membership
from tests.simulation.coverage import Coverage
from tests.simulation.disk import SimDisk

_SPOKEN = (2, 4, 6, 7, 9)
"""Tags of PreVoteReply, Promise, Accept, Accepted and HeartbeatReply."""


class Violation(Exception):
    """The run broke a promise; the text says which."""


class Votes:
    """Sees every message that leaves a node, and every change of membership."""

    def __init__(
        self,
        coverage: Coverage,
        disks: Mapping[int, SimDisk],
        prefix: Callable[[int], int],
    ) -> None:
        """Make it; `prefix`: returns the instance below which a node knows all to be chosen."""
        self._coverage = coverage
        self._prefix = prefix
        self._disks = disks
        self._promised: dict[int, int] = {}
        self._promises: dict[int, set[int]] = {}
        self._votes: dict[int, dict[int, set[int]]] = {}
        """The votes by instance and ballot."""
        self._proposed: dict[tuple[int, int], bytes] = {}
        self._changes: dict[int, list[int]] = {}
        """Instances in which a ballot proposed changes, by ballot."""
        self._found: dict[int, int] = {}
        """The change that the phase 1 of a ballot found: none of its own."""
        self._suspects: dict[int, int] = {}
        self._lost_at: dict[int, int] = {}
        self._leaders: dict[int, tuple[int, int]] = {}
        self._last_sent: bytes | None = None

    @property
    def ballots(self) -> int:
        return len(self._leaders)

    def lost(self, node: int, version: int) -> None:
        """A part of its log is gone, its promises perhaps with it, at this membership."""
        self._promised[node] = 0
        self._lost_at[node] = version

    def may_vote(self, node: int, membership: Membership) -> None:
        """Set a node that lost votes free to vote again."""
        if membership.version <= self._lost_at[node]:
            raise Violation(f"node {node} was set free by version {membership.version}")

    def sent(self, node: int, payload: bytes) -> None:
        """A node's message has just left it."""
        if payload is self._last_sent:
            return
        self._last_sent = payload
        if payload[1] in _SPOKEN:
            self._check_said(node, decode(payload))

    def _check_said(self, node: int, message: object) -> None:
        disk = self._disks[node]
        promised = self._promised.get(node, 0)
        match message:
            case Promise(ballot=ballot):
                if disk.promised < ballot:
                    raise Violation(f"node {node} promised {ballot} before its sync")
                if ballot <= promised:
                    raise Violation(f"node {node} promised {ballot} after {promised}")
                self._check_whole(node)
                self._promised[node] = ballot
                self._promises.setdefault(ballot, set()).add(node)
            case Accepted(ballot=ballot, instances=instances):
                if ballot < promised:
                    raise Violation(f"node {node} voted in {ballot}, having promised {promised}")
                self._check_whole(node)
                for instance in instances:
                    if ballot not in disk.accepted.get(instance, ()):
                        raise Violation(f"node {node} voted for {instance} before its sync")
                    self._vote(node, instance, ballot)
            case PreVoteReply(granted=False):
                self._coverage.hit("pre-vote refused")
            case HeartbeatReply(ballot=ballot):
                if ballot < promised:
                    raise Violation(f"node {node} obeyed {ballot}, having promised {promised}")
            case Accept(ballot=ballot, instance=instance, value=value):
                if node_of(ballot) != node:
                    raise Violation(f"node {node} proposed in a ballot of another")
                if self._proposed.setdefault((ballot, instance), value) != value:
                    raise Violation(f"ballot {ballot} proposed two values for {instance}")
                self._check_changes(node, ballot, instance, value)

    def _check_whole(self, node: int) -> None:
        if self._disks[node].damaged:
            raise Violation(f"node {node} spoke for a log that lost some of it")

    def _vote(self, node: int, instance: int, ballot: int) -> None:
        self._votes.setdefault(instance, {}).setdefault(ballot, set()).add(node)

    def _check_changes(self, node: int, ballot: int, instance: int, value: bytes) -> None:
        self._check_not_beyond(ballot, instance)
        changes = self._changes.setdefault(ballot, [])
        if not is_membership(value) or instance in changes:
            return
        if any(abs(instance - other) == 1 for other in changes):
            raise Violation(f"ballot {ballot} took two steps at once in {instance}")
        if self._prefix(node) < instance:
            self._suspects[ballot] = instance
            self._check_suspect(ballot)
        changes.append(instance)

    def _check_suspect(self, ballot: int) -> None:
        """A change was proposed while something below it was open: it must be one that phase 1
        found, which is known as soon as its leader is."""
        if ballot not in self._leaders or ballot not in self._suspects:
            return
        if self._found.get(ballot) != self._suspects.pop(ballot):
            raise Violation(f"ballot {ballot} proposed a change beside what it had open")

    def _check_not_beyond(self, ballot: int, instance: int) -> None:
        found = self._found.get(ballot)
        if found is not None and instance > found:
            raise Violation(f"ballot {ballot} went on beyond a change it found in {found}")

    def leads(
        self,
        node: int,
        life: int,
        ballot: int,
        membership: Membership,
        recovered: Mapping[int, bytes],
    ) -> None:
        """Note that a node has just become the leader of a ballot, by the promises of its voters.

        It proposes the values that phase 1 found again.
        """
        if self._leaders.setdefault(ballot, (node, life)) != (node, life):
            raise Violation(f"ballot {ballot} has two leaders")
        promised = {*self._promises.get(ballot, ()), node} & {*membership.voters}
        if len(promised) < membership.majority:
            raise Violation(f"ballot {ballot} leads, promised by {sorted(promised)} only")
        changes = [instance for instance, value in recovered.items() if is_membership(value)]
        if changes:
            self._found[ballot] = min(changes)
            self._check_not_beyond(ballot, max(recovered))
        self._check_suspect(ballot)

    def check_chosen(self, instance: int, governing: Membership) -> None:
        """Check an instance when it is applied somewhere for the first time."""
        ballots = self._votes.pop(instance, {})
        for node, disk in self._disks.items():
            for ballot in disk.accepted.get(instance, ()):
                if node_of(ballot) == node:
                    ballots.setdefault(ballot, set()).add(node)
        for voters in ballots.values():
            if len(voters & {*governing.voters}) >= governing.majority:
                return
        raise Violation(f"instance {instance} is applied, but no majority voted for it")
