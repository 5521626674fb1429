"""The faults that the simulation found, each as the smallest case that shows it."""

from __future__ import annotations

import random
from itertools import count

from store_nodes.commands import encode_noop
from store_nodes.consensus.acceptor import Acceptor, Recovered
from store_nodes.consensus.ballot import CHOSEN, make
from store_nodes.consensus.effects import AcceptRecord, Outbox
from store_nodes.consensus.log_time import LogClock
from store_nodes.consensus.messages import Accepted, Learned, PreVote, PreVoteReply, Promise
from store_nodes.consensus.replica import Replica
from store_nodes.consensus.state import ReplicaState, Timing
from tests.unit.consensus.bench import Bench, first_membership

OLD, NEW = make(1, 1), make(2, 2)
MINE, OTHER = encode_noop(7), encode_noop(8)


def restarted(outbox: Outbox) -> Acceptor:
    """Instance 0 is open, 1 was lost, 2 had been learned as chosen."""
    held = {0: (OLD, MINE), 2: (CHOSEN, MINE)}
    return Acceptor(outbox, Recovered(promised=OLD, accepted=held), first_membership(3))


def test_a_value_learned_above_the_prefix_gets_a_vote() -> None:
    outbox = Outbox()
    acceptor = restarted(outbox)
    acceptor.accept(2, NEW, MINE, leader=2, vote=True)
    effects = outbox.take()
    assert effects.records == [AcceptRecord(2, NEW, MINE)]
    assert effects.sends == []
    acceptor.persisted(effects.persist_upto, me=1)
    assert outbox.take().sends == [(2, Accepted(NEW, (2,)))]


def test_a_late_proposal_of_another_value_is_refused_there() -> None:
    outbox = Outbox()
    acceptor = restarted(outbox)
    acceptor.accept(2, NEW, OTHER, leader=2, vote=True)
    effects = outbox.take()
    assert effects.records == []
    assert effects.sends == [(2, Learned(2, (MINE,), 0))]
    assert acceptor.accepted[2] == (CHOSEN, MINE)


def test_one_clock_is_not_the_time() -> None:
    """Log time was moved by an hour by a new leader whose clock was an hour ahead."""
    clock = LogClock(voters=(1, 2, 3))
    clock.report(1, 3_600_000_000, 0)
    assert clock.median_us(0, 1000) == 0
    assert not clock.ready
    clock.report(2, 1_000, 0)
    assert clock.median_us(0, 1000) == 1_000
    assert clock.ready
    assert clock.median_us(5000, 1000) == 0, "too old to count"


def test_a_clock_that_nobody_looked_at_is_no_report() -> None:
    clock = LogClock(voters=(1,))
    clock.report(1, 0, 0)
    assert not clock.ready


def test_nothing_is_proposed_before_the_clocks_are_known() -> None:
    """The first values of a brand-new leader were stamped with the year 1970."""
    replica = Replica(
        ReplicaState(
            0, 1, first_membership(3), Recovered(), random.Random(1), now_us=0, preferred=1
        )
    )
    replica.tick(1_000_000, wall_us=5_000_000)
    for peer in (2, 3):
        replica.peer_connected(1_000_000, peer)
    [(_, pre_vote), *_] = [send for send in replica.take().sends if send[0] == 2]
    replica.receive(1_000_000, 2, granted(pre_vote))
    replica.persisted(1_000_000, replica.take().persist_upto)
    ballot = make(1, 1)
    replica.receive(1_000_000, 2, Promise(ballot, (), 0, wall_us=0))
    assert replica.state.leading
    assert not replica.state.can_propose
    replica.receive(1_000_000, 3, Promise(ballot, (), 0, wall_us=5_000_100))
    assert replica.state.can_propose
    assert replica.log_time_us(1_000_000) == 5_000_000


def granted(pre_vote: object) -> PreVoteReply:
    assert isinstance(pre_vote, PreVote)
    return PreVoteReply(pre_vote.ballot, True, 0, 0)


def test_a_leader_whose_heartbeats_reads_send_is_due_all_the_same() -> None:
    """While reads came all the time, a node that was whole again never got its vote back: each
    read sent a heartbeat, the leader was due at its next heartbeat, and no tick ever came.
    """
    bench = Bench()
    leader = bench.elect(1)
    bench.run(2_000_000)
    bench.tick(1)
    ticked_us = bench.now_us
    tokens = count()
    while leader.due_us > bench.now_us:
        bench.now_us += 5_000
        leader.read_barrier(bench.now_us, next(tokens))
        bench.collect(1)
        while bench.wire:
            bench.deliver()
        assert bench.now_us <= ticked_us + Timing().heartbeat_us
