"""One replica of one Paxos group: inputs in, effects out.

Inputs are messages, ticks, proposals, connections made and lost, and "this was persisted"; time
comes with them. After any input, `take()` returns the effects. The shell must

    1. append `Effects.records` to the log in order, after those of earlier effects,
    2. call `persisted(persist_upto)` once they are on stable storage, never before,
    3. send `Effects.sends` at once (what had to wait for a record was held back here),
    4. apply `Effects.chosen` in order.

What must be durable before what leaves
    * a Promise: the promise, and every accept made before it (one log, in order);
    * an Accepted: the accept record;
    * a Prepare: this node's own promise of that ballot, so that a ballot is never used twice;
    * an Accept may leave before the leader's own record: its own vote counts when it is durable;
    * a delivered value: its record on this node, and the votes of a majority.

Leadership: pre-vote keeps a returning or half-connected node from deposing a good leader, and
check-quorum makes a leader that hears no majority step down. Phase 1 runs once per leadership over
all open instances; it re-proposes what was reported, fills holes with no-ops, then takes new work.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from store_nodes.commands import encode_noop, encode_value
from store_nodes.consensus import ballot as ballots
from store_nodes.consensus.acceptor import Acceptor, Recovered
from store_nodes.consensus.ballot import CHOSEN, Ballot
from store_nodes.consensus.digests import DigestTable
from store_nodes.consensus.effects import (
    Effects,
    Halt,
    LeaderChanged,
    Outbox,
    ReadChosen,
    ReadFailed,
    ReadReady,
    Replicated,
    SteppedDown,
)
from store_nodes.consensus.election import Candidacy, Stage
from store_nodes.consensus.leadership import Leadership, OpenInstance, ReadRound
from store_nodes.consensus.log_time import LogClock
from store_nodes.consensus.messages import (
    Accept,
    Accepted,
    Heartbeat,
    HeartbeatReply,
    Learned,
    LearnRequest,
    Message,
    Nack,
    Prepare,
    PreVote,
    PreVoteReply,
    Promise,
    TransferLeadership,
)

MARK_EVERY_INSTANCES = 32


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations in µs. A hung leader is replaced within 2 × election timeout and some round trips;
    a leader whose connection closed, within `lost_leader_us` and some round trips."""

    heartbeat_us: int = 150_000
    election_us: int = 1_000_000
    candidacy_us: int = 400_000
    backoff_us: int = 60_000
    lost_leader_us: int = 15_000
    resend_us: int = 1_000_000
    learn_us: int = 500_000
    transfer_us: int = 500_000
    settle_us: int = 2_000_000
    """A leader keeps the group this long before it hands it to the preferred node."""
    mark_us: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a replica holds open."""

    open_instances: int = 32
    open_bytes: int = 32 * 1024 * 1024
    ahead_instances: int = 1024
    """How far above its chosen prefix a follower accepts: one that is further behind learns."""
    learn_bytes: int = 1024 * 1024
    watched_instances: int = 1024


class Replica:
    """The replica of `group` at node `me`. Every input takes `now_us`, monotonic."""

    def __init__(
        self,
        group: int,
        me: int,
        voters: Sequence[int],
        recovered: Recovered,
        rng: random.Random,
        *,
        now_us: int,
        preferred: int | None = None,
        timing: Timing | None = None,
        limits: Limits | None = None,
    ) -> None:
        assert me in voters
        assert len(set(voters)) == len(voters)
        self.group = group
        self.me = me
        self.voters = tuple(sorted(voters))
        self.peers = tuple(node for node in self.voters if node != me)
        self.majority = len(self.voters) // 2 + 1
        self.preferred = preferred
        self.timing = timing or Timing()
        self.limits = limits or Limits()
        self._rng = rng
        self._outbox = Outbox()
        self.acceptor = Acceptor(self._outbox, recovered)
        self._digests = DigestTable(me, self.majority)
        self._clock = LogClock(self.majority)
        self._now_us = now_us
        self._leader: int | None = None
        self._leader_heard_us = 0
        self.leader_ballot: Ballot = ballots.NO_BALLOT
        self._round_seen = ballots.round_of(recovered.promised)
        self.leadership: Leadership | None = None
        self._candidacy: Candidacy | None = None
        self._connected: set[int] = set()
        self._learn_deadline_us = 0
        self._next_mark_us = now_us + self.timing.mark_us
        self._halted = False
        early = preferred in (None, me)
        self._election_us = now_us + (self._backoff() if early else self._election_timeout())

    # -- what the shell asks -------------------------------------------------------------------

    @property
    def leader(self) -> int | None:
        return self._leader

    @property
    def leading(self) -> bool:
        return self.leadership is not None

    @property
    def can_propose(self) -> bool:
        """A leader with room in its window, not about to hand over, that has heard the clocks of
        a majority: a stamp made without them would date from before the last entry."""
        led = self.leadership
        return (
            led is not None
            and led.transfer_to is None
            and led.next_instance - self.acceptor.chosen < self.limits.open_instances
            and led.open_bytes < self.limits.open_bytes
            and self._clock.ready
        )

    def take(self) -> Effects:
        """The effects since the last call."""
        if (
            self._outbox.has_records
            and self.acceptor.delivered - self.acceptor.marked >= MARK_EVERY_INSTANCES
        ):
            self.acceptor.mark_lazily()
        return self._outbox.take()

    # -- inputs --------------------------------------------------------------------------------

    def tick(self, now_us: int, wall_us: int) -> None:
        """Time passed: call every 20 ms or so."""
        self._now_us = now_us
        if self._halted:
            return
        self._clock.report(self.me, wall_us, now_us)
        if now_us >= self._next_mark_us:
            self._next_mark_us = now_us + self.timing.mark_us
            self.acceptor.mark_lazily()
        if self.leadership is not None:
            self._tick_leader(self.leadership)
        elif self._candidacy is not None:
            if now_us >= self._candidacy.deadline_us:
                self._drop_candidacy()
        elif now_us >= self._election_us:
            self._stand(Stage.PRE_VOTE)

    def propose(self, now_us: int, commands: Sequence[bytes], *, everywhere: bool = False) -> int:
        """Propose whole commands as one value; the instance it was proposed in. Only while
        `can_propose`. With `everywhere`, Replicated follows once all connected voters have it."""
        self._now_us = now_us
        led = self.leadership
        assert led is not None
        assert self.can_propose
        return self._open_next(led, encode_value(commands, self._stamp()), everywhere)

    def persisted(self, now_us: int, upto: int) -> None:
        """Every record numbered up to `upto` is on stable storage."""
        self._now_us = now_us
        own = self.acceptor.persisted(upto, self.me)
        self._outbox.release(upto)
        led = self.leadership
        if led is not None:
            for instance, ballot in own:
                if ballot == led.ballot:
                    self._count_vote(led, instance, self.me)
        standing = self._candidacy
        if (
            standing is not None
            and standing.stage is Stage.PROMISING
            and standing.promise_number <= upto
        ):
            self._prepare(standing)

    def read_barrier(self, now_us: int, token: int) -> None:
        """Ask for ReadReady or ReadFailed: a quorum confirms that this node still leads."""
        self._now_us = now_us
        led = self.leadership
        if led is None:
            self._outbox.report(ReadFailed(token))
            return
        led.waiting_reads.append(token)
        if led.read_round is None:
            self._start_read_round(led)

    def transfer(self, now_us: int, to: int) -> None:
        """Hand the group to `to` once nothing is open; gives up after `transfer_us`."""
        self._now_us = now_us
        led = self.leadership
        if led is None or to == self.me or to not in self._connected:
            return
        led.transfer_to = to
        led.transfer_deadline_us = now_us + self.timing.transfer_us
        led.transfer_asked = False
        self._continue_transfer(led)

    def note_digest(self, instance: int, digest: bytes) -> None:
        """The state's chained digest after `instance`; same instances at every node."""
        self._digests.note(instance, digest)

    def peer_connected(self, now_us: int, node: int) -> None:
        self._now_us = now_us
        self._connected.add(node)
        led = self.leadership
        if led is not None:
            for instance, entry in led.open.items():
                if not entry.chosen and node not in entry.votes:
                    self._send_accept(led, node, instance, entry.value)
            self._outbox.send(node, self._heartbeat_message(led))
        elif self._leader is None and self._candidacy is None and self.preferred == self.me:
            self._election_us = min(self._election_us, now_us + self._backoff())

    def peer_lost(self, now_us: int, node: int) -> None:
        """Its connection closed: most likely the process is gone."""
        self._now_us = now_us
        self._connected.discard(node)
        led = self.leadership
        if led is not None:
            for instance in [i for i, entry in led.open.items() if entry.chosen]:
                self._check_everywhere(led, instance)
        if self._leader == node:
            self._set_leader(None)
            others = [voter for voter in self.voters if voter != node]
            turn = (others.index(self.me) + self.group // len(self.voters)) % len(others)
            wait = self.timing.lost_leader_us
            self._election_us = now_us + turn * 3 * wait + self._rng.randrange(wait)

    def receive(self, now_us: int, source: int, message: Message) -> None:
        """A message of peer `source`."""
        self._now_us = now_us
        if self._halted or source not in self.peers:
            return
        match message:
            case Accept():
                self._on_accept(source, message)
            case Accepted():
                self._on_accepted(source, message)
            case Heartbeat():
                self._on_heartbeat(source, message)
            case HeartbeatReply():
                self._on_heartbeat_reply(source, message)
            case PreVote():
                self._on_pre_vote(source, message)
            case PreVoteReply():
                self._on_pre_vote_reply(source, message)
            case Prepare():
                self._on_prepare(source, message)
            case Promise():
                self._on_promise(source, message)
            case Nack():
                self._on_nack(source, message)
            case LearnRequest():
                self._on_learn_request(source, message)
            case Learned():
                self._on_learned(source, message)
            case TransferLeadership():
                if message.ballot >= self.acceptor.promised and self.leadership is None:
                    self._stand(Stage.PROMISING)

    # -- follower ------------------------------------------------------------------------------

    def _on_accept(self, source: int, message: Accept) -> None:
        if not self._obey(source, message.ballot):
            return
        if message.instance < self.acceptor.chosen + self.limits.ahead_instances:
            self.acceptor.accept(message.instance, message.ballot, message.value, source)
        self._follow(source, message.ballot, message.chosen)

    def _on_heartbeat(self, source: int, message: Heartbeat) -> None:
        if not self._obey(source, message.ballot):
            return
        self._follow(source, message.ballot, message.chosen)
        self._compare_digests(message.digests)
        self._outbox.send(
            source,
            HeartbeatReply(
                message.ballot,
                message.sequence,
                self._wall_us(),
                self.acceptor.delivered,
                self._digests.own(),
            ),
        )

    def _obey(self, source: int, ballot: Ballot) -> bool:
        """Take `source` as the leader of `ballot`, unless a higher one was promised."""
        if ballot < self.acceptor.promised:
            self._nack(source, ballot)
            return False
        assert ballots.node_of(ballot) == source
        self._round_seen = max(self._round_seen, ballots.round_of(ballot))
        if self.leadership is not None:
            self._step_down()
        self._candidacy = None
        self.leader_ballot = ballot
        self._set_leader(source)
        self._leader_heard_us = self._now_us
        self._election_us = self._now_us + self._election_timeout()
        return True

    def _follow(self, source: int, ballot: Ballot, chosen: int) -> None:
        if not self.acceptor.follow(ballot, chosen):
            self._ask_to_learn(source)

    def _nack(self, to: int, ballot: Ballot) -> None:
        self._outbox.send(to, Nack(ballot, self.acceptor.promised, self.acceptor.chosen))

    # -- learning ------------------------------------------------------------------------------

    def _ask_to_learn(self, source: int) -> None:
        if self._now_us >= self._learn_deadline_us:
            self._learn_deadline_us = self._now_us + self.timing.learn_us
            self._outbox.send(source, LearnRequest(self.acceptor.chosen))

    def _on_learn_request(self, source: int, message: LearnRequest) -> None:
        acceptor = self.acceptor
        if message.start >= acceptor.chosen:
            return
        if message.start < acceptor.floor:
            self._outbox.report(ReadChosen(source, message.start, acceptor.floor))
            return
        values = acceptor.chosen_values(message.start, self.limits.learn_bytes)
        self._outbox.send(source, Learned(message.start, values, acceptor.chosen))

    def _on_learned(self, source: int, message: Learned) -> None:
        acceptor = self.acceptor
        known = acceptor.chosen - message.start
        if known < 0:
            return
        for instance, value in enumerate(message.values, message.start):
            # A leader's prefix can move on by its own votes while it learns.
            if instance == acceptor.chosen:
                self._learn(value)
        if message.chosen > acceptor.chosen and len(message.values) > known:
            self._learn_deadline_us = 0
            self._ask_to_learn(source)
        elif message.chosen <= acceptor.chosen:
            self._learn_deadline_us = 0

    def _learn(self, value: bytes) -> None:
        """The next unchosen instance holds `value`. A leader that proposed another value there,
        or none, has been replaced without knowing it; what it says is chosen in its ballot must
        stay what it proposed in it."""
        instance = self.acceptor.chosen
        led = self.leadership
        if led is not None:
            entry = led.open.get(instance)
            if entry is None or entry.value != value:
                self._step_down()
        self.acceptor.learn(instance, value)
        if self.leadership is not None:
            self._advance(self.leadership)

    # -- election ------------------------------------------------------------------------------

    def _stand(self, stage: Stage) -> None:
        """Begin a candidacy with a pre-vote, or (asked by the leader) with the promise itself."""
        self._set_leader(None)
        ballot = ballots.make(self._round_seen + 1, self.me)
        assert ballot > self.acceptor.promised
        standing = Candidacy(
            ballot=ballot,
            start=self.acceptor.chosen,
            deadline_us=self._now_us + self.timing.candidacy_us,
            stage=Stage.PRE_VOTE,
        )
        self._candidacy = standing
        if stage is Stage.PRE_VOTE:
            standing.granted.add(self.me)
            for peer in self.peers:
                self._outbox.send(peer, PreVote(ballot, self.acceptor.chosen))
            if len(standing.granted) < self.majority:
                return
        self._promise_to_self(standing)

    def _promise_to_self(self, standing: Candidacy) -> None:
        if standing.ballot <= self.acceptor.promised:
            self._drop_candidacy()
            return
        self._round_seen = max(self._round_seen, ballots.round_of(standing.ballot))
        standing.stage = Stage.PROMISING
        standing.deadline_us = self._now_us + self.timing.candidacy_us
        standing.promise_number = self.acceptor.promise(standing.ballot)

    def _prepare(self, standing: Candidacy) -> None:
        standing.stage = Stage.PREPARING
        standing.granted = set()
        standing.start = self.acceptor.chosen
        standing.add_promise(self.me, self.acceptor.reported(standing.start))
        for peer in self.peers:
            self._outbox.send(peer, Prepare(standing.ballot, standing.start))
        self._lead_if_promised(standing)

    def _on_pre_vote(self, source: int, message: PreVote) -> None:
        acceptor = self.acceptor
        leader_alive = self.leadership is not None or (
            self._leader is not None
            and self._now_us - self._leader_heard_us < self.timing.election_us
        )
        granted = (
            not leader_alive
            and message.ballot > acceptor.promised
            and message.chosen >= acceptor.floor
        )
        self._outbox.send(
            source,
            PreVoteReply(message.ballot, granted, acceptor.promised, acceptor.chosen),
        )

    def _on_pre_vote_reply(self, source: int, message: PreVoteReply) -> None:
        self._round_seen = max(self._round_seen, ballots.round_of(message.promised))
        standing = self._candidacy
        if (
            standing is None
            or standing.stage is not Stage.PRE_VOTE
            or standing.ballot != message.ballot
        ):
            return
        if message.granted:
            standing.granted.add(source)
            if len(standing.granted) >= self.majority:
                self._promise_to_self(standing)
        elif message.chosen > self.acceptor.chosen:
            self._ask_to_learn(source)

    def _on_prepare(self, source: int, message: Prepare) -> None:
        self._round_seen = max(self._round_seen, ballots.round_of(message.ballot))
        acceptor = self.acceptor
        if message.ballot <= acceptor.promised or message.start < acceptor.floor:
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

    def _on_promise(self, source: int, message: Promise) -> None:
        self._clock.report(source, message.wall_us, self._now_us)
        standing = self._candidacy
        if (
            standing is None
            or standing.stage is not Stage.PREPARING
            or standing.ballot != message.ballot
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

    def _drop_candidacy(self) -> None:
        self._candidacy = None
        self._election_us = self._now_us + self._backoff()

    def _lead_if_promised(self, standing: Candidacy) -> None:
        if len(standing.granted) < self.majority:
            return
        acceptor = self.acceptor
        assert standing.ballot == acceptor.promised
        self._candidacy = None
        reported = standing.reported
        while (held := reported.get(acceptor.chosen)) and held[0] == CHOSEN:
            acceptor.learn(acceptor.chosen, held[1])
        upto = max(max(reported, default=-1) + 1, acceptor.chosen)
        led = Leadership(
            ballot=standing.ballot,
            since_us=self._now_us,
            next_instance=acceptor.chosen,
            recovered_upto=upto,
            heard_us=dict.fromkeys(standing.granted, self._now_us),
            next_transfer_us=self._now_us + self.timing.settle_us,
        )
        self.leadership = led
        self.leader_ballot = led.ballot
        self._set_leader(self.me)
        for instance in range(acceptor.chosen, upto):
            held = reported.get(instance)
            self._open_next(led, held[1] if held else encode_noop(self._stamp()), False)
        self._heartbeat(led)

    # -- leader --------------------------------------------------------------------------------

    def _open_next(self, led: Leadership, value: bytes, everywhere: bool) -> int:
        instance = led.next_instance
        led.next_instance += 1
        led.open[instance] = OpenInstance(value, self._now_us, everywhere)
        led.open_bytes += len(value)
        # One message object for all peers: a shell may encode it once.
        message = Accept(led.ballot, instance, value, self.acceptor.chosen)
        self.acceptor.accept(instance, led.ballot, value, self.me)
        for peer in self.peers:
            if peer in self._connected:
                self._outbox.send(peer, message)
        return instance

    def _send_accept(self, led: Leadership, to: int, instance: int, value: bytes) -> None:
        self._outbox.send(to, Accept(led.ballot, instance, value, self.acceptor.chosen))

    def _on_accepted(self, source: int, message: Accepted) -> None:
        led = self.leadership
        if led is None or message.ballot != led.ballot:
            return
        led.heard_us[source] = self._now_us
        for instance in message.instances:
            self._count_vote(led, instance, source)

    def _count_vote(self, led: Leadership, instance: int, node: int) -> None:
        entry = led.open.get(instance)
        if entry is None:
            return
        entry.votes.add(node)
        if not entry.chosen and len(entry.votes) >= self.majority:
            entry.chosen = True
            self._advance(led)
        if entry.chosen:
            self._check_everywhere(led, instance)

    def _advance(self, led: Leadership) -> None:
        """Move the chosen prefix over what has its majority, and stop tracking it."""
        acceptor = self.acceptor
        while (entry := led.open.get(acceptor.chosen)) and entry.chosen:
            acceptor.mark_chosen(acceptor.chosen)
        led.drop_chosen(acceptor.chosen)
        if led.transfer_to is not None:
            self._continue_transfer(led)

    def _check_everywhere(self, led: Leadership, instance: int) -> None:
        entry = led.open.get(instance)
        if entry is None or not entry.everywhere or instance >= self.acceptor.chosen:
            return
        if self.me in entry.votes and self._connected <= entry.votes:
            del led.open[instance]
            self._outbox.report(Replicated(instance))
        elif len(led.open) > self.limits.watched_instances:
            del led.open[instance]

    def _count_delivered(self, led: Leadership, node: int, delivered: int) -> None:
        """A node that learned an instance has it as durably as one that voted for it."""
        for instance in [i for i, entry in led.open.items() if entry.chosen and i < delivered]:
            led.open[instance].votes.add(node)
            self._check_everywhere(led, instance)

    def _heartbeat(self, led: Leadership) -> None:
        led.next_heartbeat_us = self._now_us + self.timing.heartbeat_us
        message = self._heartbeat_message(led)
        for peer in self.peers:
            self._outbox.send(peer, message)

    def _heartbeat_message(self, led: Leadership) -> Heartbeat:
        return Heartbeat(led.ballot, self.acceptor.chosen, led.sequence, self._digests.known())

    def _on_heartbeat_reply(self, source: int, message: HeartbeatReply) -> None:
        self._clock.report(source, message.wall_us, self._now_us)
        led = self.leadership
        if led is None or message.ballot != led.ballot:
            return
        led.heard_us[source] = self._now_us
        led.peer_delivered[source] = message.delivered
        self._count_delivered(led, source, message.delivered)
        if message.digest is not None:
            self._compare_digests((message.digest,))
            if self.leadership is None:
                return
        if message.delivered > self.acceptor.chosen:
            self._ask_to_learn(source)
        if led.read_round is not None and message.sequence >= led.read_round.sequence:
            led.read_round.confirmed.add(source)
            self._finish_read_round(led, led.read_round)

    def _start_read_round(self, led: Leadership) -> None:
        led.sequence += 1
        index = max(self.acceptor.chosen, led.recovered_upto)
        round_ = ReadRound(led.sequence, led.waiting_reads, index, {self.me})
        led.waiting_reads = []
        led.read_round = round_
        self._heartbeat(led)
        self._finish_read_round(led, round_)

    def _finish_read_round(self, led: Leadership, round_: ReadRound) -> None:
        if len(round_.confirmed) < self.majority:
            return
        led.read_round = None
        for token in round_.tokens:
            self._outbox.report(ReadReady(token, round_.index))
        if led.waiting_reads:
            self._start_read_round(led)

    def _tick_leader(self, led: Leadership) -> None:
        heard = [
            peer
            for peer in self.peers
            if self._now_us - led.heard_us.get(peer, led.since_us) < self.timing.election_us
        ]
        if len(heard) + 1 < self.majority:
            self._step_down()
            return
        if self._now_us >= led.next_heartbeat_us:
            self._heartbeat(led)
        for instance, entry in led.open.items():
            if not entry.chosen and self._now_us - entry.sent_us >= self.timing.resend_us:
                entry.sent_us = self._now_us
                for peer in self.peers:
                    if peer not in entry.votes:
                        self._send_accept(led, peer, instance, entry.value)
        self._balance(led)

    def _balance(self, led: Leadership) -> None:
        """Hand the group to its preferred node once that one has caught up."""
        if led.transfer_to is not None:
            if self._now_us >= led.transfer_deadline_us:
                led.transfer_to = None
                led.next_transfer_us = self._now_us + self.timing.settle_us
            return
        to = self.preferred
        if to is None or to == self.me or self._now_us < led.next_transfer_us:
            return
        heard_us = led.heard_us.get(to, 0)
        caught_up = (
            led.peer_delivered.get(to, -1) >= self.acceptor.chosen - self.limits.open_instances
        )
        if caught_up and self._now_us - heard_us < 2 * self.timing.heartbeat_us:
            self.transfer(self._now_us, to)

    def _continue_transfer(self, led: Leadership) -> None:
        assert led.transfer_to is not None
        if led.next_instance == self.acceptor.chosen and not led.transfer_asked:
            led.transfer_asked = True
            self._outbox.send(led.transfer_to, TransferLeadership(led.ballot))

    def _step_down(self) -> None:
        led = self.leadership
        assert led is not None
        self.leadership = None
        tokens = led.waiting_reads + (led.read_round.tokens if led.read_round else [])
        for token in tokens:
            self._outbox.report(ReadFailed(token))
        self._outbox.report(SteppedDown())
        self._set_leader(None)
        self._election_us = self._now_us + self._election_timeout()

    # -- all roles -----------------------------------------------------------------------------

    def _compare_digests(self, heard: Sequence[tuple[int, int, bytes]]) -> None:
        reason = self._digests.compare(heard)
        if reason is None:
            return
        if self.leadership is not None:
            self._step_down()
        self._candidacy = None
        self._halted = True
        self._outbox.report(Halt(reason))

    def _set_leader(self, leader: int | None) -> None:
        if leader != self._leader:
            self._leader = leader
            self._outbox.report(LeaderChanged(leader))

    def log_time_us(self, now_us: int) -> int:
        """What an entry proposed now would be stamped; a guess where this node does not lead."""
        self._now_us = now_us
        return self._stamp()

    def _stamp(self) -> int:
        """Log time of the next entry: after the last one, near the median of the clocks."""
        median_us = self._clock.median_us(self._now_us, 2 * self.timing.election_us)
        return max(self.acceptor.log_time_us + 1, median_us)

    def _wall_us(self) -> int:
        return self._clock.of(self.me, self._now_us)

    def _election_timeout(self) -> int:
        return self.timing.election_us + self._rng.randrange(self.timing.election_us // 2)

    def _backoff(self) -> int:
        return self.timing.backoff_us // 4 + self._rng.randrange(self.timing.backoff_us)
