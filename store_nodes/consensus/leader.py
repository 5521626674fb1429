"""Leads a group: proposals and their votes, heartbeats, confirmed reads, check-quorum.

It begins with the values that phase 1 found, which it proposes again in its own ballot. It may send
an Accept before its own record of it is durable. Its own vote counts once it is.

The leader's present membership governs every instance that is open and not chosen, because a change
is proposed only while nothing is open, and nothing else is proposed until the change is chosen. So
the votes for one instance are always counted under one membership, and only its voters' count.

A change is chosen as any value is, in `advance`. From then on the leader leads under the new
membership, hands over because it left the voters, or stands again because its ballot served only to
finish the change (reconfiguration.py says why).
"""

from __future__ import annotations

from collections.abc import Sequence

from store_nodes.commands import encode_noop, is_membership
from store_nodes.consensus.ballot import Ballot
from store_nodes.consensus.candidate import Candidate
from store_nodes.consensus.effects import ReadFailed, ReadReady, Replicated
from store_nodes.consensus.handover import Handover
from store_nodes.consensus.messages import (
    Accept,
    Accepted,
    Flag,
    Heartbeat,
    HeartbeatReply,
    Nack,
)
from store_nodes.consensus.state import Leadership, OpenInstance, ReadRound, ReplicaState


class Leader:
    """The role of a replica while `leadership` is set."""

    def __init__(self, state: ReplicaState, candidate: Candidate, handover: Handover) -> None:
        self._state = state
        self._candidate = candidate
        self._handover = handover

    def lead(self) -> None:
        """Take over the candidacy that is won.

        Propose again the values that phase 1 found, up to the first change of membership.
        """
        state, acceptor = self._state, self._state.acceptor
        standing, state.candidacy = state.candidacy, None
        assert standing is not None
        assert state.leadership is None, f"node {state.me} leads twice"
        reported = standing.reported
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
            since_us=state.now_us,
            next_instance=acceptor.chosen,
            recovered_upto=upto,
            heard_us=dict.fromkeys(standing.granted, state.now_us),
            next_transfer_us=state.now_us + state.timing.keep_us,
            finishing=bool(changes),
        )
        state.leadership = led
        state.leader_ballot = led.ballot
        state.ran_out = 0
        if not led.finishing:
            state.set_leader(state.me)
        for instance in range(acceptor.chosen, upto):
            held = reported.get(instance)
            self.open_next(led, held[1] if held else encode_noop(state.stamp()), False)
        self.heartbeat(led)

    # -- proposing -----------------------------------------------------------------------------

    def open_next(self, led: Leadership, value: bytes, everywhere: bool) -> int:
        """Propose a value in the next instance, and send it to all connected peers; return the
        instance.
        """
        state, acceptor = self._state, self._state.acceptor
        instance = led.next_instance
        assert led.change_at < acceptor.chosen or led.change_at == instance, (
            f"{instance} proposed beside the change of membership in {led.change_at}"
        )
        led.next_instance += 1
        led.open[instance] = OpenInstance(value, state.now_us, everywhere)
        self._beat_soon(led)
        led.open_bytes += len(value)
        # All peers get the same message object, so that a shell may encode it once.
        message = Accept(led.ballot, instance, value, acceptor.chosen)
        acceptor.accept(instance, led.ballot, value, state.me, vote=True)
        for peer in state.peers:
            if peer in state.connected:
                state.outbox.send(peer, message)
        return instance

    def _send_accept(self, led: Leadership, to: int, instance: int, value: bytes) -> None:
        state = self._state
        state.outbox.send(to, Accept(led.ballot, instance, value, state.acceptor.chosen))

    def _resend_open(self, led: Leadership) -> None:
        state = self._state
        for instance, entry in led.open.items():
            if not entry.chosen and state.now_us - entry.sent_us >= state.timing.resend_us:
                entry.sent_us = state.now_us
                for peer in state.peers:
                    if peer not in entry.votes:
                        self._send_accept(led, peer, instance, entry.value)

    # -- votes ---------------------------------------------------------------------------------

    def on_accepted(self, source: int, message: Accepted) -> None:
        """Count the votes of a peer, whose records are durable there."""
        led = self._state.leadership
        if led is None or message.ballot != led.ballot:
            return
        led.heard_us[source] = self._state.now_us
        for instance in message.instances:
            self._count_vote(led, instance, source)

    def persisted(self, led: Leadership, own: Sequence[tuple[int, Ballot]]) -> None:
        """Count this node's own votes, whose records are durable now."""
        for instance, ballot in own:
            if ballot == led.ballot:
                self._count_vote(led, instance, self._state.me)
        self._handover.watch_own_disk(led)

    def _count_vote(self, led: Leadership, instance: int, node: int) -> None:
        """Count a voter's vote; the value is chosen once a majority has voted."""
        entry = led.open.get(instance)
        if entry is None or node not in self._state.voter_set:
            return
        entry.votes.add(node)
        if not entry.chosen and len(entry.votes) >= self._state.majority:
            entry.chosen = True
            self.advance(led)
        if entry.chosen:
            self._check_everywhere(led, instance)

    def _check_everywhere(self, led: Leadership, instance: int) -> None:
        """Report an instance that all connected voters have; stop watching when too many are
        watched.
        """
        state = self._state
        entry = led.open.get(instance)
        if entry is None or not entry.everywhere or instance >= state.acceptor.chosen:
            return
        if state.me in entry.votes and state.connected & state.voter_set <= entry.votes:
            del led.open[instance]
            state.outbox.report(Replicated(instance))
        elif len(led.open) > state.limits.watched_instances:
            del led.open[instance]

    def _count_delivered(self, led: Leadership, node: int, delivered: int) -> None:
        """Count a node's delivered instances as votes: it has them as durably as a voter."""
        for instance in [i for i, entry in led.open.items() if entry.chosen and i < delivered]:
            led.open[instance].votes.add(node)
            self._check_everywhere(led, instance)

    # -- chosen values -------------------------------------------------------------------------

    def advance(self, led: Leadership) -> None:
        """Extend the chosen prefix by the instances that have a majority, and follow a change of
        members.
        """
        state, acceptor = self._state, self._state.acceptor
        assert state.leadership is led, f"{acceptor.chosen} is chosen by a leader that stepped down"
        while (entry := led.open.get(acceptor.chosen)) and entry.chosen:
            assert acceptor.accepted[acceptor.chosen][1] == entry.value, (
                f"{acceptor.chosen} is chosen, and another value is held"
            )
            acceptor.mark_chosen(acceptor.chosen)
        led.drop_chosen(acceptor.chosen)
        self._handover.watch_own_disk(led)
        before = state.peers
        if state.adopt_membership() and not led.finishing:
            self._lead_on(led, before)
        if led.finishing and acceptor.chosen >= led.recovered_upto:
            # This holds even if the rules refused the change: this ballot proposes nothing further.
            self.heartbeat(led)
            state.step_down()
            self._candidate.stand_again()
        if led.transfer_to is not None:
            self._handover.continue_transfer(led)

    def _lead_on(self, led: Leadership, before: tuple[int, ...]) -> None:
        """Lead under the new membership, and tell the nodes that left, too."""
        state = self._state
        assert led.next_instance == state.acceptor.chosen, (
            f"instances up to {led.next_instance} are open under two memberships"
        )
        message = self._heartbeat_message(led)
        for node in sorted({*before, *state.peers}):
            state.outbox.send(node, message)
        if state.me in state.voter_set:
            led.confirm_at = self.open_next(led, encode_noop(state.stamp()), False)
        else:
            led.leaving = True
            led.leave_by_us = state.now_us + state.timing.election_us
            self._leave(led)

    def _leave(self, led: Leadership) -> None:
        """Hand over, as this node is no voter any more, once the change is on the disk here.

        Until then, the caller that asked for the change has no answer.
        """
        state = self._state
        if state.acceptor.delivered < state.acceptor.chosen and state.now_us < led.leave_by_us:
            return
        to = self._handover.successor(led)
        if to is not None:
            self._handover.transfer(to)
        state.step_down()

    # -- heartbeats ----------------------------------------------------------------------------

    def heartbeat(self, led: Leadership) -> None:
        state = self._state
        led.next_heartbeat_us = state.next_beat_us(state.now_us, idle=self.is_idle(led))
        message = self._heartbeat_message(led)
        for peer in state.peers:
            state.outbox.send(peer, message)

    def _beat_soon(self, led: Leadership) -> None:
        """Send the next heartbeat as a leader that is not idle does."""
        beat_us = self._state.next_beat_us(self._state.now_us, idle=False)
        led.next_heartbeat_us = min(led.next_heartbeat_us, beat_us)

    def _heartbeat_message(self, led: Leadership) -> Heartbeat:
        state = self._state
        slowest = min((led.peer_delivered.get(peer, 0) for peer in state.peers), default=1 << 63)
        state.everywhere = max(state.everywhere, min(slowest, state.acceptor.delivered))
        return Heartbeat(
            led.ballot,
            state.acceptor.chosen,
            led.sequence,
            state.digests.known(),
            state.everywhere,
        )

    def on_heartbeat_reply(self, source: int, message: HeartbeatReply) -> None:
        state, led = self._state, self._state.leadership
        state.clock.report(source, message.wall_us, state.now_us)
        if led is None or message.ballot != led.ballot:
            return
        led.peer_delivered[source] = message.delivered
        led.flags[source] = message.flags
        led.repairs[source] = message.repair
        self._count_delivered(led, source, message.delivered)
        if message.delivered < state.acceptor.chosen:
            self._beat_soon(led)
        if message.digest is not None:
            state.compare_digests((message.digest,))
            if state.leadership is None:
                return
        if message.delivered > state.acceptor.chosen:
            state.ask_to_learn(source)
        if message.flags & Flag.DAMAGED:
            # It may have lost a promise to another leader: it confirms nothing.
            return
        led.heard_us[source] = state.now_us
        if led.read_round is not None and message.sequence >= led.read_round.sequence:
            led.read_round.confirmed.add(source)
            self._finish_read_round(led, led.read_round)

    def on_nack(self, message: Nack) -> None:
        """Step down if the node promised a higher ballot than this one's."""
        led = self._state.leadership
        if led is not None and led.ballot == message.ballot and message.promised > led.ballot:
            self._state.step_down()

    # -- reads ---------------------------------------------------------------------------------

    def read_barrier(self, token: int) -> None:
        """Ask a quorum whether this node still leads; ReadReady or ReadFailed follows."""
        led = self._state.leadership
        if led is None or led.finishing:
            self._state.outbox.report(ReadFailed(token))
            return
        led.waiting_reads.append(token)
        if led.read_round is None:
            self._start_read_round(led)

    def _start_read_round(self, led: Leadership) -> None:
        """Ask all voters by a heartbeat whether this node still leads, for all waiting reads."""
        state = self._state
        led.sequence += 1
        index = max(state.acceptor.chosen, led.recovered_upto)
        round_ = ReadRound(led.sequence, led.waiting_reads, index, {state.me})
        led.waiting_reads = []
        led.read_round = round_
        self.heartbeat(led)
        self._finish_read_round(led, round_)

    def _finish_read_round(self, led: Leadership, round_: ReadRound) -> None:
        """Report the reads of a round as ready once a majority has confirmed it."""
        if len(round_.confirmed & self._state.voter_set) < self._state.majority:
            return
        led.read_round = None
        for token in round_.tokens:
            self._state.outbox.report(ReadReady(token, round_.index))
        if led.waiting_reads:
            self._start_read_round(led)

    # -- connections and time ------------------------------------------------------------------

    def greet(self, led: Leadership, node: int) -> None:
        """Send a node that connected the instances which it has not voted for, and a heartbeat."""
        if node not in self._state.peers:
            return
        for instance, entry in led.open.items():
            if not entry.chosen and node not in entry.votes:
                self._send_accept(led, node, instance, entry.value)
        self._state.outbox.send(node, self._heartbeat_message(led))

    def lose(self, led: Leadership) -> None:
        """Report what is replicated everywhere now that a node is lost."""
        for instance in [i for i, entry in led.open.items() if entry.chosen]:
            self._check_everywhere(led, instance)

    def is_idle(self, led: Leadership) -> bool:
        """Return whether nothing is under way, and all connected members have all that is chosen on
        their disks.
        """
        state = self._state
        chosen = state.acceptor.chosen
        return (
            not led.open
            and state.acceptor.delivered == chosen
            and all(
                led.peer_delivered.get(peer, 0) >= chosen
                for peer in state.peers
                if peer in state.connected
            )
        )

    def due_us(self, led: Leadership) -> int:
        """Return the time by which this leader steps down without a quorum, sends an open instance
        again, or finds its disk stuck; 0 if it waits for something whose deadline only ticks check.
        """
        state, timing = self._state, self._state.timing
        waits = led.transfer_to is not None or led.leaving or led.quiet_until_us > state.now_us
        if waits or any(led.repairs.values()) or not state.voters:
            return 0
        heard_us = sorted(
            state.now_us if voter == state.me else led.heard_us.get(voter, led.since_us)
            for voter in state.voters
        )
        # The leader steps down when the latest of these is no majority any more.
        due_us = heard_us[-state.majority] + timing.election_us
        for entry in led.open.values():
            if not entry.chosen:
                due_us = min(due_us, entry.sent_us + timing.resend_us)
        return min(due_us, self._handover.stuck_us(led)) if led.behind_since_us else due_us

    def tick(self, led: Leadership) -> None:
        state = self._state
        heard = [
            voter
            for voter in state.voters
            if voter == state.me
            or state.now_us - led.heard_us.get(voter, led.since_us) < state.timing.election_us
        ]
        if len(heard) < state.majority:
            state.step_down()
            return
        if state.now_us >= led.next_heartbeat_us:
            self.heartbeat(led)
        self._resend_open(led)
        self._handover.watch_own_disk(led)
        self._handover.balance(led)
        if led.leaving:
            self._leave(led)
