"""Seeded bugs in memberships and in voters that lost votes (see mutations.py)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest import mock

from store_nodes.consensus.acceptor import Acceptor
from store_nodes.consensus.effects import VotingAllowed
from store_nodes.consensus.election import Candidacy
from store_nodes.consensus.leadership import Leadership
from store_nodes.consensus.messages import Prepare
from store_nodes.consensus.replica import Replica
from store_nodes.membership import LEARNER

Mutation = Callable[[], AbstractContextManager[object]]


def a_learner_counts() -> AbstractContextManager[object]:
    """Count its vote as a voter's (P1)."""
    original = Replica._count_vote

    def mutated(self: Replica, led: Leadership, instance: int, node: int) -> None:
        voters, self._voters = self._voters, self._voters | {node}
        try:
            original(self, led, instance, node)
        finally:
            if self._voters == voters | {node}:
                self._voters = voters

    return mock.patch.object(Replica, "_count_vote", mutated)


def the_next_step_comes_before_the_last_is_settled() -> AbstractContextManager[object]:
    """The leader takes it as soon as the last is chosen (P1)."""
    original = Replica._lead_on

    def mutated(self: Replica, led: Leadership, before: tuple[int, ...]) -> None:
        if self.me not in self._voters:
            original(self, led, before)
            return
        for node in sorted({*before, *self.peers}):
            self._outbox.send(node, self._heartbeat_message(led))

    return mock.patch.object(Replica, "_lead_on", mutated)


def a_change_is_proposed_beside_other_work() -> AbstractContextManager[object]:
    """Propose without waiting until nothing is open (P1)."""

    def mutated(self: Replica) -> bool:
        led = self.leadership
        return led is not None and not led.finishing and led.change_at < self.acceptor.chosen

    return mock.patch.object(Replica, "can_reconfigure", property(mutated))


def a_new_leader_goes_on_beyond_a_change_it_found() -> AbstractContextManager[object]:
    """Keep the phase 1 of the membership before (P1)."""
    original = Replica._lead

    def mutated(self: Replica, standing: Candidacy) -> None:
        with mock.patch("store_nodes.consensus.standing.is_membership", return_value=False):
            original(self, standing)

    return mock.patch.object(Replica, "_lead", mutated)


def a_candidate_keeps_its_promises_over_a_change() -> AbstractContextManager[object]:
    """Learn of another membership, and count promises of the one before (P1)."""
    original = Replica._adopt_membership

    def mutated(self: Replica) -> None:
        standing, self._candidacy = self._candidacy, None
        majority = self.majority
        original(self)
        if standing is not None:
            self._candidacy = standing
            self.majority = min(majority, self.majority)

    return mock.patch.object(Replica, "_adopt_membership", mutated)


def a_damaged_node_votes() -> AbstractContextManager[object]:
    """Give a vote for each value that it accepts now, whatever it forgot (P1)."""
    original = Acceptor.accept

    def mutated(
        self: Acceptor, instance: int, ballot: int, value: bytes, leader: int, vote: bool
    ) -> None:
        original(self, instance, ballot, value, leader, vote=True)

    return mock.patch.object(Acceptor, "accept", mutated)


def a_damaged_node_promises() -> AbstractContextManager[object]:
    """Take part in elections, without the values that it accepted before (P1)."""
    original = Replica._on_prepare

    def mutated(self: Replica, source: int, message: Prepare) -> None:
        voting, self.voting = self.voting, True
        original(self, source, message)
        self.voting = voting

    return mock.patch.object(Replica, "_on_prepare", mutated)


def an_old_demotion_sets_a_damaged_node_free() -> AbstractContextManager[object]:
    """Any membership in which it is a learner will do (P1)."""

    def mutated(self: Replica) -> None:
        mine = self.membership.member(self.me)
        if not self.voting and mine is not None and mine.role == LEARNER:
            self._outbox.report(VotingAllowed())

    return mock.patch.object(Replica, "_watch_repair", mutated)


MUTATIONS_OF_MEMBERS: tuple[Mutation, ...] = (
    a_learner_counts,
    the_next_step_comes_before_the_last_is_settled,
    a_change_is_proposed_beside_other_work,
    a_new_leader_goes_on_beyond_a_change_it_found,
    a_candidate_keeps_its_promises_over_a_change,
    a_damaged_node_votes,
    a_damaged_node_promises,
    an_old_demotion_sets_a_damaged_node_free,
)
