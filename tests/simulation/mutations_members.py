"""Seeded bugs in memberships and in voters that lost votes (see mutations.py)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest import mock

from store_nodes.consensus.acceptor import Acceptor
from store_nodes.consensus.effects import VotingAllowed
from store_nodes.consensus.follower import Follower
from store_nodes.consensus.leader import Leader
from store_nodes.consensus.messages import Prepare
from store_nodes.consensus.reconfiguration import Reconfiguration
from store_nodes.consensus.state import Leadership, ReplicaState
from store_nodes.membership import LEARNER

Mutation = Callable[[], AbstractContextManager[object]]


def a_learner_counts() -> AbstractContextManager[object]:
    """Count its vote as a voter's (P1)."""
    original = Leader._count_vote

    def mutated(self: Leader, led: Leadership, instance: int, node: int) -> None:
        state = self._state
        voters, state.voter_set = state.voter_set, state.voter_set | {node}
        try:
            original(self, led, instance, node)
        finally:
            if state.voter_set == voters | {node}:
                state.voter_set = voters

    return mock.patch.object(Leader, "_count_vote", mutated)


def the_next_step_comes_before_the_last_is_confirmed() -> AbstractContextManager[object]:
    """The leader takes it as soon as the last is chosen (P1)."""
    original = Leader._lead_on

    def mutated(self: Leader, led: Leadership, before: tuple[int, ...]) -> None:
        state = self._state
        if state.me not in state.voter_set:
            original(self, led, before)
            return
        for node in sorted({*before, *state.peers}):
            state.outbox.send(node, self._heartbeat_message(led))

    return mock.patch.object(Leader, "_lead_on", mutated)


def a_change_is_proposed_beside_other_work() -> AbstractContextManager[object]:
    """Propose without waiting until nothing is open (P1)."""

    def mutated(self: Reconfiguration) -> bool:
        led, chosen = self._state.leadership, self._state.acceptor.chosen
        return led is not None and not led.finishing and led.change_at < chosen

    return mock.patch.object(Reconfiguration, "can_reconfigure", property(mutated))


def a_new_leader_goes_on_beyond_a_change_it_found() -> AbstractContextManager[object]:
    """Keep the phase 1 of the membership before (P1)."""
    original = Leader.lead

    def mutated(self: Leader) -> None:
        with mock.patch("store_nodes.consensus.leader.is_membership", return_value=False):
            original(self)

    return mock.patch.object(Leader, "lead", mutated)


def a_candidate_keeps_its_promises_over_a_change() -> AbstractContextManager[object]:
    """Learn of another membership, and count promises of the one before (P1)."""
    original = ReplicaState.adopt_membership

    def mutated(self: ReplicaState) -> bool:
        standing, self.candidacy = self.candidacy, None
        majority = self.majority
        changed = original(self)
        if standing is not None:
            self.candidacy = standing
            self.majority = min(majority, self.majority)
        return changed

    return mock.patch.object(ReplicaState, "adopt_membership", mutated)


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
    original = Follower.on_prepare

    def mutated(self: Follower, source: int, message: Prepare) -> None:
        state = self._state
        voting, state.voting = state.voting, True
        original(self, source, message)
        state.voting = voting

    return mock.patch.object(Follower, "on_prepare", mutated)


def an_old_demotion_sets_a_damaged_node_free() -> AbstractContextManager[object]:
    """Any membership in which it is a learner will do (P1)."""

    def mutated(self: Reconfiguration) -> None:
        state = self._state
        mine = state.membership.member(state.me)
        if not state.voting and mine is not None and mine.role == LEARNER:
            state.outbox.report(VotingAllowed())

    return mock.patch.object(Reconfiguration, "watch_repair", mutated)


MUTATIONS_OF_MEMBERS: tuple[Mutation, ...] = (
    a_learner_counts,
    the_next_step_comes_before_the_last_is_confirmed,
    a_change_is_proposed_beside_other_work,
    a_new_leader_goes_on_beyond_a_change_it_found,
    a_candidate_keeps_its_promises_over_a_change,
    a_damaged_node_votes,
    a_damaged_node_promises,
    an_old_demotion_sets_a_damaged_node_free,
)
