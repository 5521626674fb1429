"""Elections: the pre-vote, phase 1, and a new leader's use of the values that phase 1 found.

A candidacy belongs to one membership: its promises are counted among the voters of that one, so it
ends when this node learns of another (reconfiguring.py says why). A Prepare leaves only once this
node's own promise of the ballot is durable, so that a ballot is never used twice.
"""

from __future__ import annotations

from store_nodes.commands import encode_noop, is_membership
from store_nodes.consensus import ballot as ballots
from store_nodes.consensus.ballot import CHOSEN
from store_nodes.consensus.election import Candidacy, Stage
from store_nodes.consensus.leadership import Leadership
from store_nodes.consensus.leading import Leading
from store_nodes.consensus.messages import Nack, Prepare, PreVote, PreVoteReply, Promise

MOST_DOUBLINGS = 5
"""Bound of how often the time that a candidate waits for promises is doubled."""


class Standing(Leading):
    """The part of a replica that stands as a candidate, and answers other candidates."""

    _ran_out = 0
    """Candidacies in a row that got past the pre-vote and ran out of time."""

    # -- candidate -----------------------------------------------------------------------------

    def _stand(self, stage: Stage) -> None:
        """Begin a candidacy, with a pre-vote or with the promise itself.

        It begins with the promise if the leader asked for it, or if a candidacy continues under
        another membership.
        """
        assert self._eligible, f"node {self.me} stands, and is no voter that may vote"
        self._set_leader(None)
        ballot = ballots.make(self._round_seen + 1, self.me)
        assert ballot > self.acceptor.promised, f"{ballot:#x} stood in, and promised already"
        standing = Candidacy(
            ballot=ballot,
            start=self.acceptor.chosen,
            deadline_us=self._now_us + self.timing.candidacy_us,
            stage=Stage.PRE_VOTE,
        )
        self._candidacy = standing
        if stage is Stage.PRE_VOTE:
            standing.granted.add(self.me)
            for voter in self.voters:
                if voter != self.me:
                    self._outbox.send(voter, PreVote(ballot, self.acceptor.chosen))
            if len(standing.granted) < self.majority:
                return
        self._promise_to_self(standing)

    def _promise_to_self(self, standing: Candidacy) -> None:
        if standing.ballot <= self.acceptor.promised:
            self._drop_candidacy()
            return
        self._round_seen = max(self._round_seen, ballots.round_of(standing.ballot))
        standing.stage = Stage.PROMISING
        # The time grows after each one that ran out: the promises may be on their way to slow
        # disks.
        patience = min(self._ran_out, MOST_DOUBLINGS)
        standing.deadline_us = self._now_us + (self.timing.candidacy_us << patience)
        standing.promise_number = self.acceptor.promise(standing.ballot)

    def _prepare(self, standing: Candidacy) -> None:
        standing.stage = Stage.PREPARING
        standing.granted = set()
        standing.start = self.acceptor.chosen
        standing.add_promise(self.me, self.acceptor.reported(standing.start))
        for voter in self.voters:
            if voter != self.me:
                self._outbox.send(voter, Prepare(standing.ballot, standing.start))
        self._lead_if_promised(standing)

    def _on_pre_vote_reply(self, source: int, message: PreVoteReply) -> None:
        self._round_seen = max(self._round_seen, ballots.round_of(message.promised))
        standing = self._candidacy
        if (
            standing is None
            or standing.stage is not Stage.PRE_VOTE
            or standing.ballot != message.ballot
        ):
            return
        if message.granted and source in self._voters:
            standing.granted.add(source)
            if len(standing.granted) >= self.majority:
                self._promise_to_self(standing)
        elif message.chosen > self.acceptor.chosen:
            self._ask_to_learn(source)

    def _on_promise(self, source: int, message: Promise) -> None:
        self._clock.report(source, message.wall_us, self._now_us)
        standing = self._candidacy
        if (
            standing is None
            or standing.stage is not Stage.PREPARING
            or standing.ballot != message.ballot
            or source not in self._voters
        ):
            return
        standing.add_promise(source, message.accepted)
        self._lead_if_promised(standing)

    def _on_nack(self, source: int, message: Nack) -> None:
        self._round_seen = max(self._round_seen, ballots.round_of(message.promised))
        led, standing = self.leadership, self._candidacy
        if led is not None and led.ballot == message.ballot and message.promised > led.ballot:
            self._step_down()
        elif standing is not None and standing.ballot == message.ballot:
            if message.chosen > self.acceptor.chosen:
                self._ask_to_learn(source)
            self._drop_candidacy()

    def _tick_candidate(self, standing: Candidacy) -> None:
        if self._now_us >= standing.deadline_us:
            self._ran_out += standing.stage is not Stage.PRE_VOTE
            self._drop_candidacy()

    def _drop_candidacy(self) -> None:
        self._candidacy = None
        self._election_us = self._now_us + self._backoff()

    # -- elected -------------------------------------------------------------------------------

    def _lead_if_promised(self, standing: Candidacy) -> None:
        if len(standing.granted) < self.majority:
            return
        acceptor = self.acceptor
        assert standing.ballot == acceptor.promised, (
            f"{standing.ballot:#x} would lead, {acceptor.promised:#x} is promised"
        )
        assert standing.granted <= self._voters, (
            f"promises of {sorted(standing.granted - self._voters)}, who are no voters"
        )
        reported = standing.reported
        while (held := reported.get(acceptor.chosen)) and held[0] == CHOSEN:
            acceptor.learn(acceptor.chosen, held[1])
        self._adopt_membership()
        if self._candidacy is not standing:
            # The promises were given under an older membership.
            self._stand_again()
            return
        self._candidacy = None
        self._lead(standing)

    def _lead(self, standing: Candidacy) -> None:
        """Propose again the values that phase 1 found, up to the first change of membership."""
        acceptor, reported = self.acceptor, standing.reported
        upto = max(max(reported, default=-1) + 1, acceptor.chosen)
        changes = [
            instance
            for instance, (_, value) in reported.items()
            if instance >= acceptor.chosen and is_membership(value)
        ]
        if changes:
            upto = min(changes) + 1
        led = Leadership(
            ballot=standing.ballot,
            since_us=self._now_us,
            next_instance=acceptor.chosen,
            recovered_upto=upto,
            heard_us=dict.fromkeys(standing.granted, self._now_us),
            next_transfer_us=self._now_us + self.timing.settle_us,
            finishing=bool(changes),
        )
        self.leadership = led
        self.leader_ballot = led.ballot
        self._ran_out = 0
        if not led.finishing:
            self._set_leader(self.me)
        for instance in range(acceptor.chosen, upto):
            held = reported.get(instance)
            self._open_next(led, held[1] if held else encode_noop(self._stamp()), False)
        self._heartbeat(led)

    def _stand_again(self) -> None:
        """Repeat phase 1 in a higher ballot, under the membership known now."""
        self._candidacy = None
        if self._eligible:
            self._stand(Stage.PROMISING)

    # -- asked by others -----------------------------------------------------------------------

    def _may_lead(self, node: int, chosen: int) -> bool:
        """Return whether `node`, which knows all below `chosen`, is a voter.

        A node that knows more than this one is believed, because its membership may be newer.
        """
        return node in self._voters or chosen > self.acceptor.chosen

    def _on_pre_vote(self, source: int, message: PreVote) -> None:
        acceptor = self.acceptor
        leader_alive = self.leadership is not None or (
            self._leader is not None
            and self._now_us - self._leader_heard_us < self.timing.election_us
        )
        granted = (
            self.voting
            and not leader_alive
            and message.ballot > acceptor.promised
            and message.chosen >= acceptor.floor
            and self._may_lead(source, message.chosen)
        )
        self._outbox.send(
            source,
            PreVoteReply(message.ballot, granted, acceptor.promised, acceptor.chosen),
        )

    def _on_prepare(self, source: int, message: Prepare) -> None:
        self._round_seen = max(self._round_seen, ballots.round_of(message.ballot))
        acceptor = self.acceptor
        if not self.voting:
            return
        if (
            message.ballot <= acceptor.promised
            or message.start < acceptor.floor
            or not self._may_lead(source, message.start)
        ):
            if message.ballot != acceptor.promised:
                self._nack(source, message.ballot)
            return
        if self.leadership is not None:
            self._step_down()
        self._candidacy = None
        self._set_leader(None)
        self._election_us = self._now_us + self._election_timeout()
        number = acceptor.promise(message.ballot)
        promise = Promise(
            message.ballot, acceptor.reported(message.start), acceptor.chosen, self._wall_us()
        )
        self._outbox.send_after(number, source, promise)
