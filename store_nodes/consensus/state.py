"""Holds the one state that the roles of a replica share: log, members, leader, open instances.

A replica follows, stands or leads. `Candidacy` is one attempt of it to lead, `Leadership` all that
it keeps as a leader. Each role takes some of the steps from one to another, so those are here:
`become_follower`, `step_down`, `drop_candidacy`, and `adopt_membership`, which may end a candidacy.
None of them calls a role. replica.py lists the roles; only they and the replica change the state,
and the shell reads it.

Invariants
    * A replica never leads and stands at once: `candidacy` is None while `leadership` is set.
    * `membership` is the one of the acceptor, which governs the next unchosen instance, whenever an
      input is done with: a role that extends the chosen prefix adopts the membership at once.
    * A leader steps down, and a candidate gives up, before this node promises another ballot.

Candidacy
    PRE_VOTE   asks whether a majority would promise; changes nothing anywhere
    PROMISING  this node's own promise is on its way to its disk
    PREPARING  Prepare is out; promises are coming in

    It ends in leadership (a majority promised), or is dropped: on a Nack, on hearing of a higher
    ballot, or when its time is over.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from store_nodes.beats import BEAT_US, ROUND_US, next_multiple
from store_nodes.consensus import ballot as ballots
from store_nodes.consensus.acceptor import Acceptor, Recovered
from store_nodes.consensus.ballot import Ballot
from store_nodes.consensus.digests import DigestTable
from store_nodes.consensus.effects import (
    Halt,
    InstallNeeded,
    LeaderChanged,
    MembershipChanged,
    Outbox,
    ReadFailed,
    SteppedDown,
)
from store_nodes.consensus.log_time import LogClock
from store_nodes.consensus.messages import LearnRequest, Nack
from store_nodes.membership import Membership


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations in µs.

    A leader that hangs is replaced within 2 × election timeout and some round trips; one whose
    connection closed, within `lost_leader_us` and some round trips.
    """

    heartbeat_us: int = 150_000
    idle_heartbeat_us: int = BEAT_US
    """Time between heartbeats while every member is level: several `heartbeat_us`, and a small part
    of `election_us`.
    """
    election_us: int = 1_000_000
    candidacy_us: int = 400_000
    backoff_us: int = 60_000
    lost_leader_us: int = 15_000
    resend_us: int = 1_000_000
    learn_us: int = 500_000
    transfer_us: int = 500_000
    keep_us: int = 2_000_000
    """Time that a leader keeps the group before it hands it to the preferred node."""
    slow_us: int = 400_000
    """Time by which a leader's own disk is later than a majority's; several times in a row, it
    hands over.
    """
    slow_mark_us: int = 60_000_000
    """Time for which such a leader is no candidate for the balance."""
    mark_us: int = 1_000_000
    look_us: int = ROUND_US
    """Longest time between two looks at the wall clock while another node leads; a leader looks
    with each heartbeat.
    """


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a replica holds open."""

    open_instances: int = 32
    open_bytes: int = 32 * 1024 * 1024
    ahead_instances: int = 1024
    """Instances above its chosen prefix that a follower accepts; one that is further behind
    learns.
    """
    learn_bytes: int = 1024 * 1024
    watched_instances: int = 1024

    def __post_init__(self) -> None:
        # Otherwise a follower that is level with its leader would refuse instances the leader has
        # open.
        assert self.ahead_instances >= self.open_instances


class Stage(enum.Enum):
    """PRE_VOTE → PROMISING → PREPARING; a transfer starts at PROMISING."""

    PRE_VOTE = "pre_vote"
    PROMISING = "promising"
    PREPARING = "preparing"


@dataclass(slots=True)
class Candidacy:
    """One attempt of this node to lead in `ballot`."""

    ballot: Ballot
    start: int
    deadline_us: int
    stage: Stage
    promise_number: int = 0
    granted: set[int] = field(default_factory=set)
    reported: dict[int, tuple[Ballot, bytes]] = field(default_factory=dict)

    def add_promise(self, node: int, accepted: tuple[tuple[int, Ballot, bytes], ...]) -> None:
        """Keep, per instance, the value of the highest ballot any promiser reported."""
        assert self.stage is Stage.PREPARING, f"a promise counted while {self.stage.value}"
        self.granted.add(node)
        for instance, ballot, value in accepted:
            held = self.reported.get(instance)
            if held is None or ballot > held[0]:
                self.reported[instance] = (ballot, value)


@dataclass(slots=True)
class OpenInstance:
    """A proposal that is not chosen here yet, or not on every voter's disk if that was asked
    for.
    """

    value: bytes
    sent_us: int
    everywhere: bool = False
    chosen: bool = False
    votes: set[int] = field(default_factory=set)


@dataclass(slots=True)
class ReadRound:
    """One heartbeat round that confirms leadership for every reader that waited for it."""

    sequence: int
    tokens: list[int]
    index: int
    confirmed: set[int]


@dataclass(slots=True)
class Leadership:
    """The state of a leader in one ballot; it is dropped as a whole when the leader steps down."""

    ballot: Ballot
    since_us: int
    next_instance: int
    recovered_upto: int
    """The instance up to which phase 1 found values; reads wait until those are applied."""
    open: dict[int, OpenInstance] = field(default_factory=dict)
    open_bytes: int = 0
    heard_us: dict[int, int] = field(default_factory=dict)
    peer_delivered: dict[int, int] = field(default_factory=dict)
    sequence: int = 0
    next_heartbeat_us: int = 0
    waiting_reads: list[int] = field(default_factory=list)
    read_round: ReadRound | None = None
    transfer_to: int | None = None
    transfer_deadline_us: int = 0
    transfer_asked: bool = False
    next_transfer_us: int = 0
    finishing: bool = False
    """Whether phase 1 found a change of membership: this ballot only carries it out
    (reconfiguration.py).
    """
    change_at: int = -1
    """The instance of the latest proposed change; until it is chosen, nothing else is proposed."""
    confirm_at: int = -1
    """The first instance under the new membership; until it is chosen, no further change is
    proposed.
    """
    leaving: bool = False
    """Whether the latest change removed this node from the voters, so that it hands over."""
    leave_by_us: int = 0
    quiet_until_us: int = 0
    """The time until which new work is refused, so that a change can be proposed."""
    quiet_asked: bool = False
    behind_for: int = 0
    behind_since_us: int = 0
    """The time since which `behind_for` is chosen and not on the disk here; 0 if the disk is
    level.
    """
    late_in_a_row: int = 0
    flags: dict[int, int] = field(default_factory=dict)
    repairs: dict[int, int] = field(default_factory=dict)
    """Repair tokens as last reported by peers, like `flags`."""

    def drop_chosen(self, chosen: int) -> None:
        """Count instances below `chosen` as chosen; forget those that no caller waits for."""
        for instance in [i for i, entry in self.open.items() if i < chosen]:
            entry = self.open[instance]
            entry.chosen = True
            self.open_bytes -= len(entry.value)
            entry.value = b""
            if not entry.everywhere:
                del self.open[instance]


class ReplicaState:
    """All that the replica of `group` at node `me` knows; the node need be no voter, nor a member.

    `membership` is the one as of `recovered.applied`. `voting=False` is for a node whose log may
    have lost votes (reconfiguration.py).
    """

    def __init__(
        self,
        group: int,
        me: int,
        membership: Membership,
        recovered: Recovered,
        rng: random.Random,
        *,
        now_us: int,
        voting: bool = True,
        preferred: int | None = None,
        timing: Timing | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.group = group
        self.me = me
        self.timing = timing or Timing()
        self.limits = limits or Limits()
        self.now_us = now_us
        """The time of the latest input."""
        self.rng = rng
        self.outbox = Outbox()
        self.acceptor = Acceptor(
            self.outbox, recovered if voting else recovered.without_votes(), membership
        )
        self.voting = voting
        self.repair_token = 0 if voting else rng.getrandbits(48) | 1
        """The name of this start of a node that may not vote; 0 for a node that may."""
        self.installing = False
        """Whether the shell fetches a checkpoint now; the leader is told."""
        self.everywhere = 0
        """The instance below which all is on the disk of every member, as far as this node was
        told.
        """
        self.wish = preferred
        """The node that should lead, if one is named; otherwise the balance decides."""
        self.clock = LogClock(())
        self.digests = DigestTable(me, ())
        self._take_membership()
        self.connected: set[int] = set()
        self.learn_deadline_us = 0
        """The time until which an answer to the latest LearnRequest is awaited."""
        self.leader: int | None = None
        self.leader_ballot: Ballot = ballots.NO_BALLOT
        self.leader_heard_us = 0
        self.round_seen = ballots.round_of(recovered.promised)
        self.leadership: Leadership | None = None
        self.candidacy: Candidacy | None = None
        self.ran_out = 0
        """Candidacies in a row that got past the pre-vote and ran out of time."""
        self.slow_until_us = 0
        self.halted = False
        self.election_us = 0
        """The time at which this node stands, unless it hears of a leader before."""
        if self.preferred in (None, me):
            self.election_us = now_us + self.backoff()
        else:
            self.reset_election_timer()

    # -- membership ----------------------------------------------------------------------------

    def adopt_membership(self) -> bool:
        """Follow the chosen prefix over a change of membership; return whether there was one.

        A candidacy under the membership before ends.
        """
        if self.acceptor.membership is self.membership:
            return False
        self._take_membership()
        self.outbox.report(MembershipChanged(self.membership))
        if self.candidacy is not None:
            self.drop_candidacy()
        return True

    def _take_membership(self) -> None:
        """Use the membership that governs the next unchosen instance."""
        self.membership: Membership = self.acceptor.membership
        self.voters: tuple[int, ...] = self.membership.voters
        self.voter_set = frozenset(self.voters)
        self.peers: tuple[int, ...] = tuple(
            member.node for member in self.membership.members if member.node != self.me
        )
        self.majority: int = self.membership.majority
        self.clock.count(self.voters)
        self.digests.count(self.voters)
        self._take_preference()

    def prefer(self, node: int | None) -> None:
        """Name the node that should lead; None lets the balance spread the groups over the
        voters.
        """
        self.wish = node
        self._take_preference()

    def _take_preference(self) -> None:
        self.preferred: int | None = self.wish if self.wish in self.voter_set else None
        if self.preferred is None and self.voters:
            self.preferred = self.voters[self.group % len(self.voters)]

    @property
    def eligible(self) -> bool:
        """Whether this node may stand and vote, as far as it knows."""
        return self.voting and self.me in self.voter_set

    # -- from one role to another --------------------------------------------------------------

    @property
    def leading(self) -> bool:
        """Whether this node serves as the leader."""
        return self.leadership is not None and not self.leadership.finishing

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
            and led.quiet_until_us <= self.now_us
            and led.next_instance - self.acceptor.chosen < self.limits.open_instances
            and led.open_bytes < self.limits.open_bytes
            and self.clock.ready
        )

    @property
    def slow(self) -> bool:
        """Whether this node recently handed groups over because of its disk."""
        return self.now_us < self.slow_until_us

    def set_leader(self, leader: int | None) -> None:
        if leader != self.leader:
            self.leader = leader
            self.outbox.report(LeaderChanged(leader))

    def become_follower(self, leader: int | None) -> None:
        """Stop leading or standing, because there is a higher ballot; its leader may be unknown
        yet.
        """
        if self.leadership is not None:
            self.step_down()
        self.candidacy = None
        self.set_leader(leader)
        self.reset_election_timer()

    def step_down(self) -> None:
        led = self.leadership
        assert led is not None
        self.leadership = None
        tokens = led.waiting_reads + (led.read_round.tokens if led.read_round else [])
        for token in tokens:
            self.outbox.report(ReadFailed(token))
        self.outbox.report(SteppedDown())
        self.set_leader(None)
        self.reset_election_timer()

    def drop_candidacy(self) -> None:
        self.candidacy = None
        self.election_us = self.now_us + self.backoff()

    def compare_digests(self, heard: Sequence[tuple[int, int, bytes]]) -> None:
        """Stop for good if a majority's state differs from the one here."""
        reason = self.digests.compare(heard)
        if reason is None:
            return
        if self.leadership is not None:
            self.step_down()
        self.candidacy = None
        self.halted = True
        self.outbox.report(Halt(reason))

    # -- small messages that several roles send ------------------------------------------------

    def nack(self, to: int, ballot: Ballot) -> None:
        self.outbox.send(to, Nack(ballot, self.acceptor.promised, self.acceptor.chosen))

    def ask_to_learn(self, source: int) -> None:
        """Ask a node for the chosen values that this one lacks, unless an answer is awaited."""
        if self.now_us < self.learn_deadline_us:
            return
        self.learn_deadline_us = self.now_us + self.timing.learn_us
        if self.membership.members:
            self.outbox.send(source, LearnRequest(self.acceptor.chosen))
        else:
            # The first members are named in no instance, and without them changes mean nothing.
            self.outbox.report(InstallNeeded(source, 0))

    # -- time ----------------------------------------------------------------------------------

    def stamp(self) -> int:
        """Return the log time of the next entry: after the last one, near the median of the
        clocks.
        """
        median_us = self.clock.median_us(self.now_us, 2 * self.timing.election_us)
        return max(self.acceptor.log_time_us + 1, median_us)

    def next_beat_us(self, after_us: int, *, idle: bool) -> int:
        """Return the first time after `after_us` at which leaders of idle, or of other, groups send
        heartbeats.

        It is the same for all such groups of a node, so that their messages leave together.
        """
        every_us = self.timing.idle_heartbeat_us if idle else self.timing.heartbeat_us
        return next_multiple(after_us, every_us)

    def wall_us(self) -> int:
        return self.clock.of(self.me, self.now_us)

    def reset_election_timer(self) -> None:
        """Give a leader up to one and a half election timeouts to be heard of."""
        timeout_us = self.timing.election_us
        self.election_us = self.now_us + timeout_us + self.rng.randrange(timeout_us // 2)

    def backoff(self) -> int:
        return self.timing.backoff_us // 4 + self.rng.randrange(self.timing.backoff_us)
