"""Follows a group's leader, answers candidates, and learns the values that it missed.

Learners do the same. So do voters that may not vote: they store values and vote for none. A leader
or a candidate is a follower at once when it hears of a higher ballot; the answers to other nodes'
questions (a pre-vote, a Prepare, a LearnRequest) are the same in every role.

A promise leaves once its record is durable, and reports every value accepted before it: this node
promises nothing to a candidate that asks for instances below its memory.
"""

from __future__ import annotations

from store_nodes.consensus import ballot as ballots
from store_nodes.consensus.ballot import Ballot
from store_nodes.consensus.effects import InstallNeeded, ReadChosen
from store_nodes.consensus.leader import Leader
from store_nodes.consensus.messages import (
    Accept,
    Flag,
    Heartbeat,
    HeartbeatReply,
    Learned,
    LearnRequest,
    Prepare,
    PreVote,
    PreVoteReply,
    Promise,
    TooOld,
)
from store_nodes.consensus.state import ReplicaState


class Follower:
    """The role of a replica while another one leads, or none does."""

    def __init__(self, state: ReplicaState, leader: Leader) -> None:
        self._state = state
        self._leader = leader

    # -- a leader ------------------------------------------------------------------------------

    def on_accept(self, source: int, message: Accept) -> None:
        """Accept a leader's value if the promise allows it; the vote leaves once it is durable."""
        if not self._obey(source, message.ballot):
            return
        state = self._state
        ahead = message.instance - state.acceptor.chosen
        if ahead < state.limits.ahead_instances and state.membership.members:
            state.acceptor.accept(
                message.instance, message.ballot, message.value, source, vote=state.voting
            )
        self._follow(source, message.ballot, message.chosen)

    def on_heartbeat(self, source: int, message: Heartbeat) -> None:
        if not self._obey(source, message.ballot):
            return
        state = self._state
        self._follow(source, message.ballot, message.chosen)
        state.compare_digests(message.digests)
        state.everywhere = max(state.everywhere, message.everywhere)
        state.outbox.send(
            source,
            HeartbeatReply(
                message.ballot,
                message.sequence,
                state.wall_us(),
                state.acceptor.delivered,
                state.digests.own(),
                self._flags(),
                state.repair_token,
            ),
        )

    def _flags(self) -> int:
        state = self._state
        flags = 0 if state.voting else Flag.DAMAGED
        if state.slow:
            flags |= Flag.SLOW
        if state.installing or not state.membership.members:
            flags |= Flag.INSTALLING
        return int(flags)

    def _obey(self, source: int, ballot: Ballot) -> bool:
        """Take `source` as the leader of `ballot`, unless a higher ballot was promised."""
        state = self._state
        if ballot < state.acceptor.promised:
            state.nack(source, ballot)
            return False
        assert ballots.node_of(ballot) == source, f"node {source} leads {ballot:#x} of another"
        state.round_seen = max(state.round_seen, ballots.round_of(ballot))
        state.ran_out = 0
        state.leader_ballot = ballot
        state.leader_heard_us = state.now_us
        state.become_follower(source)
        return True

    def _follow(self, source: int, ballot: Ballot, chosen: int) -> None:
        state = self._state
        if not state.acceptor.follow(ballot, chosen):
            state.ask_to_learn(source)
        state.adopt_membership()

    def lose(self, node: int) -> None:
        """Stand soon if the node that was lost is the leader: one voter after the other."""
        state = self._state
        if state.leader != node:
            return
        state.set_leader(None)
        others = [voter for voter in state.voters if voter != node]
        if state.me in others:
            turn = (others.index(state.me) + state.group // len(state.voters)) % len(others)
            wait = state.timing.lost_leader_us
            state.election_us = state.now_us + turn * 3 * wait + state.rng.randrange(wait)

    def miss_a_leader(self) -> None:
        """Ask a peer about the group, because this node hears of no leader and cannot stand.

        From the answer it learns that it was removed, or who the members are now.
        """
        state = self._state
        state.set_leader(None)
        state.reset_election_timer()
        if state.peers and state.membership.members:
            state.ask_to_learn(state.rng.choice(state.peers))

    # -- candidates ----------------------------------------------------------------------------

    def _may_lead(self, node: int, chosen: int) -> bool:
        """Return whether `node`, which knows all below `chosen`, is a voter.

        A node that knows more than this one is believed, because its membership may be newer.
        """
        return node in self._state.voter_set or chosen > self._state.acceptor.chosen

    def on_pre_vote(self, source: int, message: PreVote) -> None:
        state, acceptor = self._state, self._state.acceptor
        leader_alive = state.leadership is not None or (
            state.leader is not None
            and state.now_us - state.leader_heard_us < state.timing.election_us
        )
        granted = (
            state.voting
            and not leader_alive
            and message.ballot > acceptor.promised
            and message.chosen >= acceptor.floor
            and self._may_lead(source, message.chosen)
        )
        state.outbox.send(
            source,
            PreVoteReply(message.ballot, granted, acceptor.promised, acceptor.chosen),
        )

    def on_prepare(self, source: int, message: Prepare) -> None:
        state, acceptor = self._state, self._state.acceptor
        state.round_seen = max(state.round_seen, ballots.round_of(message.ballot))
        if not state.voting:
            return
        if (
            message.ballot <= acceptor.promised
            or message.start < acceptor.floor
            or not self._may_lead(source, message.start)
        ):
            if message.ballot != acceptor.promised:
                state.nack(source, message.ballot)
            return
        state.become_follower(None)
        number = acceptor.promise(message.ballot)
        promise = Promise(
            message.ballot, acceptor.reported(message.start), acceptor.chosen, state.wall_us()
        )
        state.outbox.send_after(number, source, promise)

    # -- learning ------------------------------------------------------------------------------

    def on_learn_request(self, source: int, message: LearnRequest) -> None:
        state, acceptor = self._state, self._state.acceptor
        if message.start >= acceptor.chosen:
            return
        if message.start < acceptor.floor:
            state.outbox.report(ReadChosen(source, message.start, acceptor.floor))
            return
        values = acceptor.chosen_values(message.start, state.limits.learn_bytes)
        state.outbox.send(source, Learned(message.start, values, acceptor.chosen))

    def on_too_old(self, source: int, message: TooOld) -> None:
        state = self._state
        if message.oldest > state.acceptor.chosen:
            state.outbox.report(InstallNeeded(source, message.oldest))

    def on_learned(self, source: int, message: Learned) -> None:
        state, acceptor = self._state, self._state.acceptor
        known = acceptor.chosen - message.start
        if known < 0 or not state.membership.members:
            return
        for instance, value in enumerate(message.values, message.start):
            # A leader's prefix can grow by its own votes while it learns.
            if instance == acceptor.chosen:
                self._learn(value)
        if message.chosen > acceptor.chosen and len(message.values) > known:
            state.learn_deadline_us = 0
            state.ask_to_learn(source)
        elif message.chosen <= acceptor.chosen:
            state.learn_deadline_us = 0

    def _learn(self, value: bytes) -> None:
        """Learn the value of the next unchosen instance.

        A leader that proposed another value there, or none, has been replaced without knowing it.
        It steps down, because a value that it calls chosen in its ballot must stay the one that it
        proposed in it.
        """
        state = self._state
        instance = state.acceptor.chosen
        led = state.leadership
        if led is not None:
            entry = led.open.get(instance)
            if entry is None or entry.value != value:
                state.step_down()
        state.acceptor.learn(instance, value)
        if state.leadership is not None:
            self._leader.advance(state.leadership)
        else:
            state.adopt_membership()
