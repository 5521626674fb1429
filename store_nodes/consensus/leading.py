"""The leader: proposals and their votes, heartbeats, confirmed reads, check-quorum.

The leader's present membership governs every instance that is open and not chosen, because a change
is proposed only while nothing is open, and nothing else is proposed until the change is chosen. So
the votes for one instance are always counted under one membership, and only its voters' count.

A leader may send an Accept before its own record of it is durable. Its own vote counts once it is.
"""

from __future__ import annotations

from store_nodes.consensus.effects import ReadFailed, ReadReady, Replicated
from store_nodes.consensus.handover import HandingOver
from store_nodes.consensus.leadership import Leadership, OpenInstance, ReadRound
from store_nodes.consensus.messages import (
    Accept,
    Accepted,
    Flag,
    Heartbeat,
    HeartbeatReply,
)


class Leading(HandingOver):
    """The part of a replica that acts while `leadership` is set."""

    @property
    def can_propose(self) -> bool:
        """Whether a leader may propose now.

        It needs room in its window, no pending handover or change of membership, and the clocks of
        a majority: a stamp made without them would date from before the last entry.
        """
        led = self.leadership
        return (
            led is not None
            and led.transfer_to is None
            and not led.finishing
            and not led.leaving
            and led.change_at < self.acceptor.chosen
            and led.quiet_until_us <= self._now_us
            and led.next_instance - self.acceptor.chosen < self.limits.open_instances
            and led.open_bytes < self.limits.open_bytes
            and self._clock.ready
        )

    # -- proposing -----------------------------------------------------------------------------

    def _open_next(self, led: Leadership, value: bytes, everywhere: bool) -> int:
        instance = led.next_instance
        assert led.change_at < self.acceptor.chosen or led.change_at == instance, (
            f"{instance} proposed beside the change of membership in {led.change_at}"
        )
        led.next_instance += 1
        led.open[instance] = OpenInstance(value, self._now_us, everywhere)
        led.open_bytes += len(value)
        # All peers get the same message object, so that a shell may encode it once.
        message = Accept(led.ballot, instance, value, self.acceptor.chosen)
        self.acceptor.accept(instance, led.ballot, value, self.me, vote=True)
        for peer in self.peers:
            if peer in self._connected:
                self._outbox.send(peer, message)
        return instance

    def _send_accept(self, led: Leadership, to: int, instance: int, value: bytes) -> None:
        self._outbox.send(to, Accept(led.ballot, instance, value, self.acceptor.chosen))

    def _resend_open(self, led: Leadership) -> None:
        for instance, entry in led.open.items():
            if not entry.chosen and self._now_us - entry.sent_us >= self.timing.resend_us:
                entry.sent_us = self._now_us
                for peer in self.peers:
                    if peer not in entry.votes:
                        self._send_accept(led, peer, instance, entry.value)

    # -- votes ---------------------------------------------------------------------------------

    def _on_accepted(self, source: int, message: Accepted) -> None:
        led = self.leadership
        if led is None or message.ballot != led.ballot:
            return
        led.heard_us[source] = self._now_us
        for instance in message.instances:
            self._count_vote(led, instance, source)

    def _count_vote(self, led: Leadership, instance: int, node: int) -> None:
        entry = led.open.get(instance)
        if entry is None or node not in self._voters:
            return
        entry.votes.add(node)
        if not entry.chosen and len(entry.votes) >= self.majority:
            entry.chosen = True
            self._advance(led)
        if entry.chosen:
            self._check_everywhere(led, instance)

    def _advance(self, led: Leadership) -> None:
        """Extend the chosen prefix by the instances that have a majority, and drop those."""
        acceptor = self.acceptor
        while (entry := led.open.get(acceptor.chosen)) and entry.chosen:
            assert acceptor.accepted[acceptor.chosen][1] == entry.value, (
                f"{acceptor.chosen} is chosen, and another value is held"
            )
            acceptor.mark_chosen(acceptor.chosen)
        led.drop_chosen(acceptor.chosen)
        self._watch_own_disk(led)
        self._adopt_membership()
        if led.transfer_to is not None:
            self._continue_transfer(led)

    def _check_everywhere(self, led: Leadership, instance: int) -> None:
        entry = led.open.get(instance)
        if entry is None or not entry.everywhere or instance >= self.acceptor.chosen:
            return
        if self.me in entry.votes and self._connected & self._voters <= entry.votes:
            del led.open[instance]
            self._outbox.report(Replicated(instance))
        elif len(led.open) > self.limits.watched_instances:
            del led.open[instance]

    def _count_delivered(self, led: Leadership, node: int, delivered: int) -> None:
        """Count a node's delivered instances as votes: it has them as durably as a voter."""
        for instance in [i for i, entry in led.open.items() if entry.chosen and i < delivered]:
            led.open[instance].votes.add(node)
            self._check_everywhere(led, instance)

    # -- heartbeats ----------------------------------------------------------------------------

    def _heartbeat(self, led: Leadership) -> None:
        led.next_heartbeat_us = self._now_us + self.timing.heartbeat_us
        message = self._heartbeat_message(led)
        for peer in self.peers:
            self._outbox.send(peer, message)

    def _heartbeat_message(self, led: Leadership) -> Heartbeat:
        slowest = min((led.peer_delivered.get(peer, 0) for peer in self.peers), default=1 << 63)
        self.everywhere = max(self.everywhere, min(slowest, self.acceptor.delivered))
        return Heartbeat(
            led.ballot,
            self.acceptor.chosen,
            led.sequence,
            self._digests.known(),
            self.everywhere,
        )

    def _on_heartbeat_reply(self, source: int, message: HeartbeatReply) -> None:
        self._clock.report(source, message.wall_us, self._now_us)
        led = self.leadership
        if led is None or message.ballot != led.ballot:
            return
        led.peer_delivered[source] = message.delivered
        led.flags[source] = message.flags
        led.repairs[source] = message.repair
        self._count_delivered(led, source, message.delivered)
        if message.digest is not None:
            self._compare_digests((message.digest,))
            if self.leadership is None:
                return
        if message.delivered > self.acceptor.chosen:
            self._ask_to_learn(source)
        if message.flags & Flag.DAMAGED:
            # It may have lost a promise to another leader: it confirms nothing.
            return
        led.heard_us[source] = self._now_us
        if led.read_round is not None and message.sequence >= led.read_round.sequence:
            led.read_round.confirmed.add(source)
            self._finish_read_round(led, led.read_round)

    # -- reads ---------------------------------------------------------------------------------

    def read_barrier(self, now_us: int, token: int) -> None:
        """Ask a quorum whether this node still leads; ReadReady or ReadFailed follows."""
        self._now_us = now_us
        led = self.leadership
        if led is None or led.finishing:
            self._outbox.report(ReadFailed(token))
            return
        led.waiting_reads.append(token)
        if led.read_round is None:
            self._start_read_round(led)

    def _start_read_round(self, led: Leadership) -> None:
        led.sequence += 1
        index = max(self.acceptor.chosen, led.recovered_upto)
        round_ = ReadRound(led.sequence, led.waiting_reads, index, {self.me})
        led.waiting_reads = []
        led.read_round = round_
        self._heartbeat(led)
        self._finish_read_round(led, round_)

    def _finish_read_round(self, led: Leadership, round_: ReadRound) -> None:
        if len(round_.confirmed & self._voters) < self.majority:
            return
        led.read_round = None
        for token in round_.tokens:
            self._outbox.report(ReadReady(token, round_.index))
        if led.waiting_reads:
            self._start_read_round(led)

    # -- time ----------------------------------------------------------------------------------

    def _tick_leader(self, led: Leadership) -> None:
        heard = [
            voter
            for voter in self.voters
            if voter == self.me
            or self._now_us - led.heard_us.get(voter, led.since_us) < self.timing.election_us
        ]
        if len(heard) < self.majority:
            self._step_down()
            return
        if self._now_us >= led.next_heartbeat_us:
            self._heartbeat(led)
        self._resend_open(led)
        self._watch_own_disk(led)
        self._balance(led)
