"""A follower: it obeys a leader, and learns the values that it missed.

Learners do the same. So do voters that may not vote: they store values and vote for none.
"""

from __future__ import annotations

from store_nodes.consensus import ballot as ballots
from store_nodes.consensus.ballot import Ballot
from store_nodes.consensus.effects import InstallNeeded, ReadChosen
from store_nodes.consensus.messages import (
    Accept,
    Flag,
    Heartbeat,
    HeartbeatReply,
    Learned,
    LearnRequest,
    TooOld,
)
from store_nodes.consensus.reconfiguring import Reconfiguring


class Following(Reconfiguring):
    """The part of a replica that acts while another one leads."""

    def _on_accept(self, source: int, message: Accept) -> None:
        if not self._obey(source, message.ballot):
            return
        ahead = message.instance - self.acceptor.chosen
        if ahead < self.limits.ahead_instances and self.membership.members:
            self.acceptor.accept(
                message.instance, message.ballot, message.value, source, vote=self.voting
            )
        self._follow(source, message.ballot, message.chosen)

    def _on_heartbeat(self, source: int, message: Heartbeat) -> None:
        if not self._obey(source, message.ballot):
            return
        self._follow(source, message.ballot, message.chosen)
        self._compare_digests(message.digests)
        self.everywhere = max(self.everywhere, message.everywhere)
        self._outbox.send(
            source,
            HeartbeatReply(
                message.ballot,
                message.sequence,
                self._wall_us(),
                self.acceptor.delivered,
                self._digests.own(),
                self._flags(),
                self.repair_token,
            ),
        )

    def _flags(self) -> int:
        flags = 0 if self.voting else Flag.DAMAGED
        if self.slow:
            flags |= Flag.SLOW
        if self.installing or not self.membership.members:
            flags |= Flag.INSTALLING
        return int(flags)

    def _obey(self, source: int, ballot: Ballot) -> bool:
        """Take `source` as the leader of `ballot`, unless a higher ballot was promised."""
        if ballot < self.acceptor.promised:
            self._nack(source, ballot)
            return False
        assert ballots.node_of(ballot) == source, f"node {source} leads {ballot:#x} of another"
        self._round_seen = max(self._round_seen, ballots.round_of(ballot))
        if self.leadership is not None:
            self._step_down()
        self._candidacy = None
        self._ran_out = 0
        self.leader_ballot = ballot
        self._set_leader(source)
        self._leader_heard_us = self._now_us
        self._election_us = self._now_us + self._election_timeout()
        return True

    def _follow(self, source: int, ballot: Ballot, chosen: int) -> None:
        if not self.acceptor.follow(ballot, chosen):
            self._ask_to_learn(source)
        self._adopt_membership()

    def _miss_a_leader(self) -> None:
        """Ask a peer about the group, because this node hears of no leader and cannot stand.

        From the answer it learns that it was removed, or who the members are now.
        """
        self._set_leader(None)
        self._election_us = self._now_us + self._election_timeout()
        if self.peers and self.membership.members:
            self._ask_to_learn(self._rng.choice(self.peers))

    # -- learning ------------------------------------------------------------------------------

    def _on_learn_request(self, source: int, message: LearnRequest) -> None:
        acceptor = self.acceptor
        if message.start >= acceptor.chosen:
            return
        if message.start < acceptor.floor:
            self._outbox.report(ReadChosen(source, message.start, acceptor.floor))
            return
        values = acceptor.chosen_values(message.start, self.limits.learn_bytes)
        self._outbox.send(source, Learned(message.start, values, acceptor.chosen))

    def send_too_old(self, to: int, oldest: int | None = None) -> None:
        """Answer a ReadChosen that the log cannot serve any more.

        `oldest` is the first instance that it can serve; the default is the first in memory.
        """
        self._outbox.send(to, TooOld(self.acceptor.floor if oldest is None else oldest))

    def _on_too_old(self, source: int, message: TooOld) -> None:
        if message.oldest > self.acceptor.chosen:
            self._outbox.report(InstallNeeded(source, message.oldest))

    def _on_learned(self, source: int, message: Learned) -> None:
        acceptor = self.acceptor
        known = acceptor.chosen - message.start
        if known < 0 or not self.membership.members:
            return
        for instance, value in enumerate(message.values, message.start):
            # A leader's prefix can grow by its own votes while it learns.
            if instance == acceptor.chosen:
                self._learn(value)
        if message.chosen > acceptor.chosen and len(message.values) > known:
            self._learn_deadline_us = 0
            self._ask_to_learn(source)
        elif message.chosen <= acceptor.chosen:
            self._learn_deadline_us = 0

    def _learn(self, value: bytes) -> None:
        """Learn the value of the next unchosen instance.

        A leader that proposed another value there, or none, has been replaced without knowing it.
        It steps down, because a value that it calls chosen in its ballot must stay the one that it
        proposed in it.
        """
        instance = self.acceptor.chosen
        led = self.leadership
        if led is not None:
            entry = led.open.get(instance)
            if entry is None or entry.value != value:
                self._step_down()
        self.acceptor.learn(instance, value)
        if self.leadership is not None:
            self._advance(self.leadership)
        else:
            self._adopt_membership()
