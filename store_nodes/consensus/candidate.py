"""A candidate: the pre-vote, and phase 1 over every open instance at once.

`stand` asks for pre-votes. With those of a majority this node promises its own ballot; once that
promise is durable, `prepare` asks the voters for theirs. With the promises of a majority the
candidacy is won, and leader.py takes it over. How other nodes answer is in follower.py.

A candidacy belongs to one membership: its promises are counted among the voters of that one, so it
ends when this node learns of another (reconfiguration.py says why). A Prepare leaves only once this
node's own promise of the ballot is durable, so that a ballot is never used twice.
"""

from __future__ import annotations

from store_nodes.consensus import ballot as ballots
from store_nodes.consensus.ballot import CHOSEN
from store_nodes.consensus.messages import Nack, Prepare, PreVote, PreVoteReply, Promise
from store_nodes.consensus.state import Candidacy, ReplicaState, Stage

MOST_DOUBLINGS = 5
"""Bound of how often the time that a candidate waits for promises is doubled."""


class Candidate:
    """The role of a replica that wants to lead."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state

    def stand(self, stage: Stage) -> None:
        """Begin a candidacy, with a pre-vote or with the promise itself.

        It begins with the promise if the leader asked for it, or if a candidacy continues under
        another membership.
        """
        state = self._state
        assert state.eligible, f"node {state.me} stands, and is no voter that may vote"
        assert state.leadership is None, f"node {state.me} stands, and leads already"
        state.set_leader(None)
        ballot = ballots.make(state.round_seen + 1, state.me)
        assert ballot > state.acceptor.promised, f"{ballot:#x} stood in, and promised already"
        standing = Candidacy(
            ballot=ballot,
            start=state.acceptor.chosen,
            deadline_us=state.now_us + state.timing.candidacy_us,
            stage=Stage.PRE_VOTE,
        )
        state.candidacy = standing
        if stage is Stage.PRE_VOTE:
            standing.granted.add(state.me)
            for voter in state.voters:
                if voter != state.me:
                    state.outbox.send(voter, PreVote(ballot, state.acceptor.chosen))
            if len(standing.granted) < state.majority:
                return
        self._promise_to_self(standing)

    def stand_again(self) -> None:
        """Repeat phase 1 in a higher ballot, under the membership known now."""
        self._state.candidacy = None
        if self._state.eligible:
            self.stand(Stage.PROMISING)

    def on_pre_vote_reply(self, source: int, message: PreVoteReply) -> None:
        state = self._state
        state.round_seen = max(state.round_seen, ballots.round_of(message.promised))
        standing = state.candidacy
        if (
            standing is None
            or standing.stage is not Stage.PRE_VOTE
            or standing.ballot != message.ballot
        ):
            return
        if message.granted and source in state.voter_set:
            standing.granted.add(source)
            if len(standing.granted) >= state.majority:
                self._promise_to_self(standing)
        elif message.chosen > state.acceptor.chosen:
            state.ask_to_learn(source)

    def _promise_to_self(self, standing: Candidacy) -> None:
        state = self._state
        if standing.ballot <= state.acceptor.promised:
            state.drop_candidacy()
            return
        state.round_seen = max(state.round_seen, ballots.round_of(standing.ballot))
        standing.stage = Stage.PROMISING
        # The time grows after each one that ran out: the promises may be on their way to slow
        # disks.
        patience = min(state.ran_out, MOST_DOUBLINGS)
        standing.deadline_us = state.now_us + (state.timing.candidacy_us << patience)
        standing.promise_number = state.acceptor.promise(standing.ballot)

    def persisted(self, standing: Candidacy, upto: int) -> bool:
        """Ask for promises once this node's own is durable; return whether that one is enough."""
        if standing.stage is Stage.PROMISING and standing.promise_number <= upto:
            return self._prepare(standing)
        return False

    def _prepare(self, standing: Candidacy) -> bool:
        state = self._state
        standing.stage = Stage.PREPARING
        standing.granted = set()
        standing.start = state.acceptor.chosen
        standing.add_promise(state.me, state.acceptor.reported(standing.start))
        for voter in state.voters:
            if voter != state.me:
                state.outbox.send(voter, Prepare(standing.ballot, standing.start))
        return self._is_won(standing)

    def on_promise(self, source: int, message: Promise) -> bool:
        """Count a promise; return whether the candidacy is won by it."""
        state, standing = self._state, self._state.candidacy
        state.clock.report(source, message.wall_us, state.now_us)
        if (
            standing is None
            or standing.stage is not Stage.PREPARING
            or standing.ballot != message.ballot
            or source not in state.voter_set
        ):
            return False
        standing.add_promise(source, message.accepted)
        return self._is_won(standing)

    def _is_won(self, standing: Candidacy) -> bool:
        """Return whether a majority promised under the present membership.

        Before that, learn the chosen values that the promises report. If they change the
        membership, phase 1 begins again under the new one.
        """
        state, acceptor = self._state, self._state.acceptor
        if len(standing.granted) < state.majority:
            return False
        assert standing.ballot == acceptor.promised, (
            f"{standing.ballot:#x} would lead, {acceptor.promised:#x} is promised"
        )
        assert standing.granted <= state.voter_set, (
            f"promises of {sorted(standing.granted - state.voter_set)}, who are no voters"
        )
        reported = standing.reported
        while (held := reported.get(acceptor.chosen)) and held[0] == CHOSEN:
            acceptor.learn(acceptor.chosen, held[1])
        state.adopt_membership()
        if state.candidacy is not standing:
            # The promises were given under an older membership.
            self.stand_again()
            return False
        return True

    def on_nack(self, source: int, message: Nack) -> None:
        """Give up a candidacy whose ballot the node refused."""
        state, standing = self._state, self._state.candidacy
        state.round_seen = max(state.round_seen, ballots.round_of(message.promised))
        if standing is not None and standing.ballot == message.ballot:
            if message.chosen > state.acceptor.chosen:
                state.ask_to_learn(source)
            state.drop_candidacy()

    def tick(self, standing: Candidacy) -> None:
        state = self._state
        if state.now_us >= standing.deadline_us:
            state.ran_out += standing.stage is not Stage.PRE_VOTE
            state.drop_candidacy()
