"""The common state of a replica's roles: its membership, its clock and its timers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from store_nodes.consensus import ballot as ballots
from store_nodes.consensus.acceptor import Acceptor, Recovered
from store_nodes.consensus.ballot import Ballot
from store_nodes.consensus.digests import DigestTable
from store_nodes.consensus.effects import (
    Halt,
    InstallNeeded,
    LeaderChanged,
    Outbox,
    ReadFailed,
    SteppedDown,
)
from store_nodes.consensus.election import Candidacy
from store_nodes.consensus.leadership import Leadership
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
    election_us: int = 1_000_000
    candidacy_us: int = 400_000
    backoff_us: int = 60_000
    lost_leader_us: int = 15_000
    resend_us: int = 1_000_000
    learn_us: int = 500_000
    transfer_us: int = 500_000
    settle_us: int = 2_000_000
    """Time that a leader keeps the group before it hands it to the preferred node."""
    slow_us: int = 400_000
    """Time by which a leader's own disk is later than a majority's; several times in a row, it
    hands over.
    """
    slow_mark_us: int = 60_000_000
    """Time for which such a leader is no candidate for the balance."""
    mark_us: int = 1_000_000


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


class ReplicaCore:
    """The state that the roles share; each role is a class on top of it (replica.py)."""

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
        self.voting = voting
        self.repair_token = 0 if voting else rng.getrandbits(48) | 1
        """The name of this start of a node that may not vote; 0 for a node that may."""
        self.installing = False
        """Whether the shell fetches a checkpoint now; the leader is told."""
        self.everywhere = 0
        """The instance below which all is on the disk of every member, as far as this node was
        told.
        """
        self._rng = rng
        self._outbox = Outbox()
        self.acceptor = Acceptor(
            self._outbox, recovered if voting else recovered.without_votes(), membership
        )
        self.wish = preferred
        """The node that should lead, if one is named; otherwise the balance decides."""
        self._clock = LogClock(())
        self._digests = DigestTable(me, ())
        self._take_membership()
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
        self._slow_until_us = 0
        self._halted = False
        early = self.preferred in (None, me)
        self._election_us = now_us + (self._backoff() if early else self._election_timeout())

    # -- membership ----------------------------------------------------------------------------

    def _take_membership(self) -> None:
        """Use the membership that governs the next unchosen instance."""
        self.membership: Membership = self.acceptor.membership
        self.voters: tuple[int, ...] = self.membership.voters
        self._voters = frozenset(self.voters)
        self.peers: tuple[int, ...] = tuple(
            member.node for member in self.membership.members if member.node != self.me
        )
        self.majority: int = self.membership.majority
        self._clock.count(self.voters)
        self._digests.count(self.voters)
        self._take_preference()

    def _take_preference(self) -> None:
        self.preferred: int | None = self.wish if self.wish in self._voters else None
        if self.preferred is None and self.voters:
            self.preferred = self.voters[self.group % len(self.voters)]

    @property
    def _eligible(self) -> bool:
        """Whether this node may stand and vote, as far as it knows."""
        return self.voting and self.me in self._voters

    def _adopt_membership(self) -> None:
        """Follow the chosen prefix over a change of membership (reconfiguring.py)."""
        raise NotImplementedError

    # -- leaders, present and past ---------------------------------------------------------------

    @property
    def leader(self) -> int | None:
        return self._leader

    @property
    def leading(self) -> bool:
        """Whether this node serves as the leader."""
        return self.leadership is not None and not self.leadership.finishing

    def _set_leader(self, leader: int | None) -> None:
        if leader != self._leader:
            self._leader = leader
            self._outbox.report(LeaderChanged(leader))

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

    def _compare_digests(self, heard: Sequence[tuple[int, int, bytes]]) -> None:
        reason = self._digests.compare(heard)
        if reason is None:
            return
        if self.leadership is not None:
            self._step_down()
        self._candidacy = None
        self._halted = True
        self._outbox.report(Halt(reason))

    # -- small messages that several roles send --------------------------------------------------

    def _nack(self, to: int, ballot: Ballot) -> None:
        self._outbox.send(to, Nack(ballot, self.acceptor.promised, self.acceptor.chosen))

    def _ask_to_learn(self, source: int) -> None:
        if self._now_us < self._learn_deadline_us:
            return
        self._learn_deadline_us = self._now_us + self.timing.learn_us
        if self.membership.members:
            self._outbox.send(source, LearnRequest(self.acceptor.chosen))
        else:
            # The first members are named in no instance, and without them changes mean nothing.
            self._outbox.report(InstallNeeded(source, 0))

    # -- time ----------------------------------------------------------------------------------

    def log_time_us(self, now_us: int) -> int:
        """Return the stamp for an entry proposed now; a guess if this node does not lead."""
        self._now_us = now_us
        return self._stamp()

    def _stamp(self) -> int:
        """Return the log time of the next entry: after the last one, near the median of the
        clocks.
        """
        median_us = self._clock.median_us(self._now_us, 2 * self.timing.election_us)
        return max(self.acceptor.log_time_us + 1, median_us)

    def _wall_us(self) -> int:
        return self._clock.of(self.me, self._now_us)

    def _election_timeout(self) -> int:
        return self.timing.election_us + self._rng.randrange(self.timing.election_us // 2)

    def _backoff(self) -> int:
        return self.timing.backoff_us // 4 + self._rng.randrange(self.timing.backoff_us)
