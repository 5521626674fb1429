"""One test per rule of the protocol; the simulation explores what these spell out."""

from __future__ import annotations

import random

from store_nodes.commands import ValueKind, encode_value, value_head
from store_nodes.consensus import ballot as ballots
from store_nodes.consensus.acceptor import Recovered
from store_nodes.consensus.effects import (
    AcceptRecord,
    Halt,
    LeaderChanged,
    PromiseRecord,
    ReadFailed,
    ReadReady,
    Replicated,
    SteppedDown,
)
from store_nodes.consensus.messages import (
    Accept,
    Accepted,
    Flag,
    Heartbeat,
    HeartbeatReply,
    Learned,
    Message,
    Nack,
    Prepare,
    PreVote,
    PreVoteReply,
    Promise,
)
from store_nodes.consensus.replica import Replica
from store_nodes.consensus.state import ReplicaState
from store_nodes.membership import Membership
from tests.unit.consensus.bench import TIMING, WALL_US, Bench, Envelope, without

COMMAND = b"\x03\x00\x00\x00\x00\x00\x00\x00"


def command(number: int) -> bytes:
    return COMMAND + number.to_bytes(4, "little")


def test_the_preferred_node_is_elected_and_values_are_chosen_everywhere() -> None:
    bench = Bench()
    bench.elect(1)
    bench.propose(1, command(1))
    bench.run(400_000)
    assert bench.chosen[1]
    assert bench.chosen[1] == bench.chosen[2] == bench.chosen[3]


def test_a_promise_leaves_only_after_its_record_is_durable() -> None:
    bench = Bench()
    bench.held_disks[2] = []
    bench.replicas[2].receive(0, 3, Prepare(ballots.make(7, 3), 0))
    bench.collect(2)
    assert PromiseRecord(ballots.make(7, 3)) in bench.records[2]
    assert not [m for _, _, m in bench.wire if isinstance(m, Promise)]
    bench.replicas[2].persisted(0, bench.held_disks[2][-1])
    bench.collect(2)
    assert [m for _, _, m in bench.wire if isinstance(m, Promise)]


def test_an_accepted_leaves_only_after_its_record_is_durable() -> None:
    bench = Bench()
    bench.held_disks[2] = []
    value = encode_value([command(1)], 5)
    bench.replicas[2].receive(0, 1, Accept(ballots.make(1, 1), 0, value, 0))
    bench.collect(2)
    assert not [m for _, _, m in bench.wire if isinstance(m, Accepted)]
    bench.replicas[2].persisted(0, bench.held_disks[2][-1])
    bench.collect(2)
    assert [m.instances for _, _, m in bench.wire if isinstance(m, Accepted)] == [(0,)]


def test_a_candidate_prepares_only_after_its_own_promise_is_durable() -> None:
    bench = Bench()
    bench.held_disks[1] = []
    said: list[Message] = []

    def heard(envelope: Envelope) -> bool:
        said.append(envelope[2])
        return True

    bench.run(600_000, heard, nodes=(1,))
    assert any(isinstance(record, PromiseRecord) for record in bench.records[1])
    assert any(isinstance(message, PreVote) for message in said)
    assert not any(isinstance(message, Prepare) for message in said)


def test_an_acceptor_refuses_a_ballot_below_its_promise() -> None:
    bench = Bench()
    bench.replicas[2].receive(0, 3, Prepare(ballots.make(9, 3), 0))
    bench.collect(2)
    bench.wire.clear()
    value = encode_value([command(1)], 5)
    bench.replicas[2].receive(0, 1, Accept(ballots.make(8, 1), 0, value, 0))
    bench.collect(2)
    nacks = [message for _, _, message in bench.wire if isinstance(message, Nack)]
    assert [nack.promised for nack in nacks] == [ballots.make(9, 3)]
    assert not any(isinstance(record, AcceptRecord) for record in bench.records[2])


def test_a_node_promises_nothing_that_it_cannot_report_from_memory() -> None:
    """A candidate that asks for what is below the floor must learn it first: no promise tells of
    it, and the candidate would fill it with other values."""
    bench = Bench()
    bench.start(2, bench.membership, recovered=Recovered(chosen=10, applied=10))
    below, at = ballots.make(50, 3), ballots.make(51, 3)
    bench.replicas[2].receive(0, 3, Prepare(below, 9))
    bench.collect(2)
    assert [m.ballot for _, to, m in bench.wire if isinstance(m, Nack) and to == 3] == [below]
    assert not bench.records[2]
    bench.replicas[2].receive(0, 3, Prepare(at, 10))
    bench.collect(2)
    assert PromiseRecord(at) in bench.records[2]


def test_the_leaders_own_vote_counts_only_when_durable() -> None:
    bench = Bench()
    bench.elect(1)
    bench.held_disks[1] = []
    instance = bench.propose(1, command(1))
    bench.deliver(lambda envelope: envelope[1] == 2)
    bench.deliver(lambda envelope: envelope[0] == 2)
    assert bench.replicas[1].state.acceptor.chosen == instance
    assert bench.chosen[1] == []
    bench.replicas[1].persisted(bench.now_us, bench.held_disks[1][-1])
    bench.collect(1)
    assert len(bench.chosen[1]) == 1


def test_a_new_leader_proposes_again_what_was_accepted_and_fills_the_hole() -> None:
    bench = Bench()
    bench.elect(1)
    bench.wire.clear()
    first, second = bench.propose(1, command(1)), bench.propose(1, command(2))
    reaches_two = [e for e in bench.wire if e[1] == 2 and e[2].instance == second]
    bench.wire = []
    for envelope in reaches_two:
        bench.hand(envelope)
    bench.wire.clear()
    for node in (2, 3):
        bench.replicas[node].peer_lost(bench.now_us, 1)
        bench.collect(node)
    bench.run(800_000, without(1), nodes=(2, 3))
    values = dict(bench.chosen[2])
    assert value_head(values[first])[0] is ValueKind.NOOP
    assert command(2) in values[second]
    assert dict(bench.chosen[3]) == values


def test_pre_vote_keeps_a_returning_node_from_deposing_a_good_leader() -> None:
    bench = Bench()
    leader = bench.elect(1)
    ballot = leader.state.leader_ballot
    bench.run(5_000_000, without(3))
    assert not bench.replicas[3].state.leading
    bench.run(3_000_000)
    assert leader.state.leading
    assert leader.state.leader_ballot == ballot
    assert bench.replicas[3].state.leader == 1


def test_a_pre_vote_is_denied_to_a_node_that_is_too_far_behind() -> None:
    bench = Bench()
    acceptor = bench.replicas[2].state.acceptor
    acceptor.floor = acceptor.delivered = acceptor.chosen = 100
    bench.replicas[2].receive(0, 3, PreVote(ballots.make(5, 3), 99))
    bench.collect(2)
    reply = next(message for _, _, message in bench.wire if isinstance(message, PreVoteReply))
    assert not reply.granted
    assert reply.chosen == 100


def test_check_quorum_makes_an_isolated_leader_step_down() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.propose(1, command(1))
    bench.run(TIMING.election_us + 100_000, without(1))
    assert not leader.state.leading
    assert SteppedDown() in bench.events[1]


def test_a_hung_leader_is_replaced_within_three_seconds() -> None:
    bench = Bench()
    bench.elect(1)
    bench.run(3_000_000, without(1), nodes=(2, 3))
    assert bench.replicas[2].state.leading or bench.replicas[3].state.leading


def test_a_lost_connection_brings_a_new_leader_at_once() -> None:
    bench = Bench()
    bench.elect(1)
    for node in (2, 3):
        bench.replicas[node].peer_lost(bench.now_us, 1)
    bench.run(200_000, without(1), nodes=(2, 3))
    assert bench.replicas[2].state.leading or bench.replicas[3].state.leading


def test_leadership_returns_to_the_preferred_node_without_losing_a_proposal() -> None:
    bench = Bench()
    bench.elect(1)
    for replica in bench.replicas.values():
        replica.state.preferred = 2
    instance = bench.propose(1, command(1))
    bench.run(4_000_000)
    assert bench.replicas[2].state.leading
    assert command(1) in dict(bench.chosen[3])[instance]


def test_a_lagging_node_learns_what_it_missed() -> None:
    bench = Bench()
    bench.elect(1)
    bench.run(100_000)
    for number in range(20):
        bench.propose(1, command(number))
        bench.run(20_000, without(3))
    bench.run(2_000_000)
    assert bench.chosen[3] == bench.chosen[1]
    assert bench.learned(3)


def test_an_idle_leader_is_due_at_the_next_heartbeat_of_all_groups() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.run(2_000_000)
    bench.tick(1)
    assert leader.due_us == next_beat_us(bench, TIMING.idle_heartbeat_us)
    bench.propose(1, command(1))
    assert leader.due_us == next_beat_us(bench, TIMING.heartbeat_us)


def test_a_leader_is_due_when_it_sends_an_open_instance_again() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.run(2_000_000)
    bench.wire.clear()
    instance = bench.propose(1, command(1))
    sent_us = bench.now_us
    bench.wire.clear()
    while not (again := [m for _, _, m in bench.wire if isinstance(m, Accept)]):
        while bench.wire:
            bench.deliver(lambda envelope: not isinstance(envelope[2], Accept))
        assert leader.due_us <= sent_us + TIMING.resend_us
        bench.now_us = leader.due_us
        bench.tick(1)
    assert bench.now_us == sent_us + TIMING.resend_us
    assert [message.instance for message in again] == [instance, instance]


def test_a_leader_is_due_when_its_disk_is_stuck() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.run(2_000_000)
    bench.held_disks[1] = []
    bench.propose(1, command(1))
    while bench.wire:
        bench.deliver()
    chosen_us = bench.now_us
    while not leader.state.slow:
        bench.now_us = max(leader.due_us, bench.now_us + 1)
        for node in bench.replicas:
            bench.tick(node)
        while bench.wire:
            bench.deliver()
    assert bench.now_us == chosen_us + 2 * TIMING.slow_us + 1


def test_heartbeats_come_at_the_usual_pace_until_all_members_are_level() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.run(2_000_000)
    while bench.now_us % TIMING.idle_heartbeat_us:
        bench.run(20_000)
    bench.propose(1, command(1))
    bench.deliver(without(3))
    bench.deliver(without(3))
    assert leader.state.leadership is not None
    assert not leader.state.leadership.open
    assert leader.due_us <= leader.state.leadership.next_heartbeat_us
    assert leader.state.leadership.next_heartbeat_us == next_beat_us(bench, TIMING.heartbeat_us)
    bench.run(500_000)
    bench.tick(1)
    assert leader.due_us == next_beat_us(bench, TIMING.idle_heartbeat_us)


def next_beat_us(bench: Bench, every_us: int) -> int:
    return bench.now_us + every_us - bench.now_us % every_us


def test_a_leader_alone_is_due_when_its_quorum_is_lost() -> None:
    bench = Bench()
    leader = bench.elect(1)
    bench.run(2_000_000)
    assert leader.state.leadership is not None
    heard_us = max(leader.state.leadership.heard_us.values())
    while leader.state.leading:
        assert leader.due_us <= heard_us + TIMING.election_us
        bench.now_us = leader.due_us
        bench.tick(1)
        bench.wire.clear()
    assert bench.now_us == heard_us + TIMING.election_us


def test_a_follower_is_due_when_it_stands() -> None:
    bench = Bench()
    bench.elect(1)
    follower = bench.replicas[2]
    stands_us = follower.state.election_us
    while follower.state.candidacy is None:
        bench.now_us = follower.due_us
        bench.tick(2)
    assert bench.now_us == stands_us
    assert follower.due_us <= follower.state.candidacy.deadline_us


def test_a_follower_looks_at_its_clock_however_often_it_hears_of_a_leader() -> None:
    bench = Bench()
    bench.elect(1)
    follower = bench.replicas[2]
    bench.tick(2)
    looks_us = next_beat_us(bench, TIMING.look_us)
    for _ in range(10):
        bench.now_us += TIMING.heartbeat_us
        follower.state.now_us = bench.now_us
        follower.state.reset_election_timer()
        assert follower.due_us == looks_us


def test_a_read_barrier_waits_for_a_quorum() -> None:
    bench = Bench()
    leader = bench.elect(1)
    leader.read_barrier(bench.now_us, 7)
    bench.collect(1)
    assert not any(isinstance(event, ReadReady) for event in bench.events[1])
    bench.deliver()
    bench.deliver()
    assert ReadReady(7, leader.state.acceptor.chosen) in bench.events[1]


def test_reads_that_come_during_a_round_share_the_next_one() -> None:
    bench = Bench()
    leader = bench.elect(1)
    leader.read_barrier(bench.now_us, 1)
    asked = leader.state.leadership.sequence  # type: ignore[union-attr]
    for token in range(2, 100):
        leader.read_barrier(bench.now_us, token)
    bench.collect(1)
    for _ in range(4):
        bench.deliver()
    ready = [event.token for event in bench.events[1] if isinstance(event, ReadReady)]
    assert ready == list(range(1, 100))
    assert leader.state.leadership is not None
    assert leader.state.leadership.sequence == asked + 1


def test_a_read_barrier_fails_with_the_leadership() -> None:
    bench = Bench()
    leader = bench.elect(1)
    leader.read_barrier(bench.now_us, 7)
    bench.run(TIMING.election_us + 200_000, without(1))
    assert ReadFailed(7) in bench.events[1]


def test_a_read_waits_for_the_values_that_phase_1_found() -> None:
    """The leader before may have answered them."""
    bench = Bench()
    bench.elect(1)
    bench.wire.clear()
    instance = bench.propose(1, command(1))
    bench.deliver(lambda envelope: envelope[1] == 2)
    bench.wire.clear()
    for node in (2, 3):
        bench.replicas[node].peer_lost(bench.now_us, 1)
        bench.collect(node)
    bench.run(
        800_000, lambda e: without(1)(e) and not isinstance(e[2], Accept | Accepted), nodes=(2, 3)
    )
    (leader,) = [node for node in (2, 3) if bench.replicas[node].state.leading]
    assert bench.replicas[leader].state.acceptor.chosen == instance
    bench.replicas[leader].read_barrier(bench.now_us, 7)
    bench.collect(leader)
    bench.deliver(without(1))
    bench.deliver(without(1))
    assert ReadReady(7, instance + 1) in bench.events[leader]


def test_everywhere_waits_for_every_connected_voter() -> None:
    bench = Bench()
    bench.elect(1)
    bench.wire.clear()
    instance = bench.propose(1, command(1), everywhere=True)
    bench.deliver(without(3))
    bench.deliver(without(3))
    assert bench.chosen[1][-1][0] == instance
    assert Replicated(instance) not in bench.events[1]
    bench.replicas[1].peer_lost(bench.now_us, 3)
    bench.collect(1)
    assert Replicated(instance) in bench.events[1]


def test_everywhere_counts_a_voter_that_learned_the_instance() -> None:
    bench = Bench()
    bench.elect(1)
    bench.wire.clear()
    instance = bench.propose(1, command(1), everywhere=True)
    bench.deliver(without(3))
    bench.deliver(without(3))
    assert Replicated(instance) not in bench.events[1]
    bench.run(400_000)
    assert bench.learned(3)
    assert Replicated(instance) in bench.events[1]


def test_log_time_is_the_median_of_the_clocks() -> None:
    bench = Bench()
    bench.wall_skew_us = {1: 3_600_000_000}
    bench.elect(1)
    bench.run(400_000)
    instance = bench.propose(1, command(1))
    bench.run(100_000)
    stamp_us = value_head(dict(bench.chosen[1])[instance])[2]
    assert abs(stamp_us - WALL_US - bench.now_us) < 1_000_000


def test_a_replica_halts_on_a_majoritys_other_digest_but_never_on_one_peers_word() -> None:
    bench = Bench()
    replica = bench.replicas[3]
    replica.note_digest(63, b"mine")
    ballot = ballots.make(1, 1)
    replica.receive(0, 1, Heartbeat(ballot, 0, 0, ((1, 63, b"theirs"),)))
    bench.collect(3)
    assert not any(isinstance(event, Halt) for event in bench.events[3])
    replica.receive(0, 1, Heartbeat(ballot, 0, 0, ((2, 63, b"theirs"),)))
    bench.collect(3)
    assert any(isinstance(event, Halt) for event in bench.events[3])


def test_a_single_node_is_its_own_majority() -> None:
    bench = Bench(1)
    bench.elect(1)
    bench.propose(1, command(1))
    assert len(bench.chosen[1]) == 1


def test_the_window_is_bounded() -> None:
    bench = Bench()
    leader = bench.elect(1)
    for number in range(leader.state.limits.open_instances):
        assert leader.state.can_propose
        bench.propose(1, command(number))
    assert not leader.state.can_propose


def test_a_leader_that_hears_of_a_higher_ballot_reports_no_leader() -> None:
    bench = Bench()
    leader = bench.elect(1)
    leader.receive(bench.now_us, 2, Nack(leader.state.leader_ballot, ballots.make(50, 2), 0))
    bench.collect(1)
    assert not leader.state.leading
    assert bench.events[1][-1] == LeaderChanged(None)


def test_regression_a_leader_that_learns_while_its_own_votes_arrive_keeps_instances_apart() -> None:
    """Learning moved the prefix over instances chosen by votes, and the rest of the learned
    values were then taken for later instances than they were of."""
    bench = Bench()
    leader = bench.elect(1)
    bench.wire.clear()
    instances = [bench.propose(1, command(number)) for number in range(3)]
    values = [leader.state.acceptor.accepted[instance][1] for instance in instances]
    bench.wire.clear()
    leader.receive(bench.now_us, 2, Accepted(leader.state.leader_ballot, (instances[1],)))
    leader.receive(bench.now_us, 3, Learned(instances[0], tuple(values), instances[2] + 1))
    bench.collect(1)
    assert bench.chosen[1][-3:] == list(zip(instances, values, strict=True))


def test_a_follower_takes_only_its_leaders_ballot_for_chosen() -> None:
    bench = Bench()
    replica = bench.replicas[2]
    value = encode_value([command(1)], 5)
    replica.receive(0, 1, Accept(ballots.make(1, 1), 0, value, 0))
    replica.receive(0, 3, Heartbeat(ballots.make(2, 3), 1, 0, ()))
    bench.collect(2)
    assert bench.chosen[2] == []
    other = encode_value([command(2)], 6)
    replica.receive(0, 3, Learned(0, (other,), 1))
    bench.collect(2)
    assert bench.chosen[2] == [(0, other)]


def test_heartbeats_are_answered_with_the_wall_clock() -> None:
    bench = Bench()
    bench.tick(2)
    bench.wire.clear()
    bench.hand((1, 2, Heartbeat(ballots.make(1, 1), 0, 4, ())))
    reply = bench.wire[0][2]
    assert isinstance(reply, HeartbeatReply)
    assert reply.sequence == 4
    assert reply.wall_us == WALL_US


def test_a_node_that_knows_no_members_says_that_it_is_not_level() -> None:
    """Or it is made a voter before its checkpoint is there, when the group is young."""
    new = Replica(ReplicaState(0, 4, Membership(), Recovered(), random.Random(1), now_us=0))
    new.receive(0, 1, Heartbeat(ballots.make(1, 1), 1, 0, ()))
    ((_, reply),) = [s for s in new.take().sends if isinstance(s[1], HeartbeatReply)]
    assert reply.flags & Flag.INSTALLING


def test_members_of_an_idle_group_stay_level_between_heartbeats() -> None:
    """Idle heartbeats come so seldom that a node once counted as not heard just before each."""
    bench = Bench()
    leader = bench.elect(1)
    bench.run(2_000_000)
    led = leader.state.leadership
    assert led is not None
    handed_late: list[Envelope] = []
    for _ in range(100):
        bench.now_us += 10_000
        for envelope in handed_late:
            bench.hand(envelope)
        for node in bench.replicas:
            bench.tick(node)
        handed_late, bench.wire = bench.wire, []
        assert [leader._handover.is_level(led, node) for node in (2, 3)] == [True, True]
