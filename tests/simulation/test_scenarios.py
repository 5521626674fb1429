"""RELIABILITY.md §10 on the simulated cluster: each row's fault at a chosen moment, many seeds.

The oracle of every run holds in each (oracle.py); a test adds what its row asks for beyond that.
One of three seeds is run, another at each commit; test_every_scenario.py, a long test, runs all.
"""

from __future__ import annotations

import pytest

from store_nodes.membership import LEARNER, REMOVED, VOTER
from tests import parts
from tests.parts import of_this_turn
from tests.simulation.clock import WALL_START_US
from tests.simulation.options import MS, SECOND
from tests.simulation.scenarios import FIRST_US, Scenario, quiet_options

SEEDS = of_this_turn(parts.SEEDS).choose(range(3))


@pytest.mark.parametrize("seed", SEEDS)
def test_row_4_nats_7567_power_cut_of_one_while_others_pause_then_an_odd_restart_order(
    seed: int,
) -> None:
    """One node loses power while others stand still; then all do, and the one that led comes back
    last: the others form a quorum without it."""
    scenario = Scenario(quiet_options(seed), seed)
    faults = scenario.cluster.faults

    def first_cut() -> None:
        leader, follower = scenario.leader, scenario.follower
        faults.pause(follower, 300 * MS)
        scenario.power_cut(leader, 100 * MS)

    def cut_of_all() -> None:
        leader = scenario.leader
        for n in (1, 2, 3):
            scenario.power_cut(n, 900 * MS if n == leader else (30 + 50 * n) * MS)

    for moment in range(3):
        scenario.at(FIRST_US + moment * 200 * MS, first_cut)
    scenario.at(FIRST_US + 1000 * MS, cut_of_all)
    scenario.mark(FIRST_US + 1400 * MS, "without it")
    scenario.mark(FIRST_US + 1850 * MS, "before it is back")
    scenario.run()
    assert scenario.between("without it", "before it is back").acked > 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("nodes", [3, 5])
def test_row_9_nats_7549_bit_errors_on_a_minority(seed: int, nodes: int) -> None:
    """A minority loses parts of what it had synced: nothing acknowledged is missing, and it never
    leads nor votes before it is whole (the oracle's rule)."""
    scenario = Scenario(quiet_options(seed, nodes=nodes), seed)
    cluster = scenario.cluster

    def damage() -> None:
        for n in ({1, 2} if nodes == 5 else {1}) if seed % 2 else {scenario.leader}:
            if cluster.may_lose(n):
                scenario.power_cut(n, 20 * MS)
                cluster.faults.damage(n)

    scenario.at(FIRST_US, damage)
    scenario.at(FIRST_US + 1200 * MS, damage)
    scenario.run()
    assert cluster.coverage.hits["damaged voter demoted"]
    assert cluster.coverage.hits["damaged voter promoted again"]


def test_row_10_damage_on_a_majority_is_not_papered_over() -> None:
    """Two of three may have lost votes: nobody leads any more, nothing is answered."""
    scenario = Scenario(quiet_options(1), 1)
    cluster = scenario.cluster

    def damage() -> None:
        for n in (1, 2):
            scenario.power_cut(n, 20 * MS)
            cluster.faults.damage(n)

    scenario.at(FIRST_US, damage)
    scenario.mark(FIRST_US + 200 * MS, "damaged")
    scenario.mark(FIRST_US + 2 * SECOND, "later")
    cluster.scheduler.run_until(FIRST_US + 2 * SECOND)
    assert scenario.between("damaged", "later").acked == 0
    assert not any(node.leading for node in cluster.nodes.values())


@pytest.mark.parametrize("direction", ["both", "send", "receive"])
@pytest.mark.parametrize("who", ["leader", "follower"])
def test_row_12_one_node_is_cut_off(who: str, direction: str) -> None:
    """The majority serves again within a moment, and ballots do not run away."""
    for seed in SEEDS:
        scenario = Scenario(quiet_options(seed), seed)

        def cut(scenario: Scenario = scenario) -> None:
            n = scenario.leader if who == "leader" else scenario.follower
            scenario.isolate(n, direction)

        scenario.at(FIRST_US, cut)
        scenario.mark(FIRST_US, "cut")
        scenario.mark(FIRST_US + 1000 * MS, "served by the rest")
        scenario.mark(FIRST_US + 1800 * MS, "still")
        scenario.at(FIRST_US + 1800 * MS, scenario.heal)
        scenario.run()
        assert scenario.between("served by the rest", "still").acked > 20
        assert scenario.between("cut", "still").ballots <= 3


@pytest.mark.parametrize("seed", SEEDS)
def test_row_13_a_rotating_bridge_partition_leaves_a_stable_leader(seed: int) -> None:
    """Two of three cannot see each other, another pair each 500 ms: service goes on, and at most a
    few ballots are begun for each turn."""
    scenario = Scenario(quiet_options(seed), seed)
    cluster = scenario.cluster

    def bridge(n: int) -> None:
        scenario.heal()
        a, b = (other for other in (1, 2, 3) if other != n)
        scenario.cut([a, b], [a, b])

    for turn in range(4):
        scenario.at(FIRST_US + turn * 500 * MS, bridge, 1 + turn % 3)
    scenario.mark(FIRST_US, "first")
    scenario.mark(FIRST_US + 2000 * MS, "last")
    scenario.at(FIRST_US + 2000 * MS, scenario.heal)
    scenario.run()
    progress = scenario.between("first", "last")
    assert progress.acked > 50
    assert progress.ballots <= 3 * 4
    assert cluster.coverage.hits["pre-vote refused"]


@pytest.mark.parametrize("seed", SEEDS)
def test_row_13_a_flapping_link_does_not_hold_the_group(seed: int) -> None:
    """One follower's links break and mend each 200 ms: the leader stays."""
    scenario = Scenario(quiet_options(seed), seed)

    def flap() -> None:
        scenario.isolate(scenario.follower, "both")

    for turn in range(5):
        scenario.at(FIRST_US + turn * 400 * MS, flap)
        scenario.at(FIRST_US + turn * 400 * MS + 200 * MS, scenario.heal)
    scenario.mark(FIRST_US, "first")
    scenario.mark(FIRST_US + 2000 * MS, "last")
    scenario.run()
    progress = scenario.between("first", "last")
    assert progress.acked > 100
    assert progress.ballots <= 2


@pytest.mark.parametrize("loss", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("seed", SEEDS)
def test_row_14_loss_duplication_and_reordering(seed: int, loss: float) -> None:
    """Lose single messages; some come twice, some late."""
    options = quiet_options(seed, tcp=False, loss=loss, duplication=0.2, spike=0.05)
    scenario = Scenario(options, seed)
    cluster = scenario.run()
    assert cluster.network.duplicated
    assert cluster.oracle.acked > 20


@pytest.mark.parametrize("seed", SEEDS)
def test_row_16_a_paused_leader_serves_nothing_old(seed: int) -> None:
    """Pause the leader until another leads; then it goes on as if nothing had been.

    Its reads are not confirmed (the oracle knows the acknowledged appends), its proposals not
    chosen.
    """
    scenario = Scenario(quiet_options(seed, read_every_us=2 * MS), seed)
    cluster = scenario.cluster

    def pause() -> None:
        cluster.faults.pause(scenario.leader, 900 * MS)

    scenario.at(FIRST_US, pause)
    scenario.at(FIRST_US + 1200 * MS, pause)
    scenario.run()
    assert cluster.oracle.votes.ballots >= 2
    assert cluster.coverage.hits["stale read refused"]


@pytest.mark.parametrize("seed", SEEDS)
def test_row_17_one_bad_clock_does_not_move_log_time(seed: int) -> None:
    """A clock jumps by up to an hour, again and again, all clocks run up to 5 % off: stamps stay
    near the sane clocks (the oracle's rule)."""
    options = quiet_options(seed, clock_jump_every_us=50 * MS, drift_ppm=50_000)
    scenario = Scenario(options, seed)

    def depose() -> None:
        scenario.power_cut(scenario.leader, 100 * MS)

    for turn in range(4):
        scenario.at(FIRST_US + turn * 500 * MS, depose)
    cluster = scenario.run()
    assert cluster.coverage.hits["clock jumped"] > 20


@pytest.mark.parametrize("seed", SEEDS)
def test_row_17_a_bad_clock_moves_log_time_once_its_node_is_the_only_voter(seed: int) -> None:
    """The clock of one voter is half an hour ahead. It moves nothing while it is one of three, or
    of two; alone it is the majority, and the log keeps the time that it gave when others vote
    again (the oracle's rule)."""
    scenario = Scenario(quiet_options(seed, safety_us=3500 * MS), seed)
    cluster = scenario.cluster
    do, bad = cluster.reconfigurer.do, 1 + seed
    others = [n for n in (1, 2, 3) if n != bad]
    ahead: dict[int, list[int]] = {1: [], 2: [], 3: []}

    def look() -> None:
        reference = cluster.oracle.reference
        seconds = (reference.log_time_us - WALL_START_US - cluster.scheduler.now) // SECOND
        ahead[len(reference.membership.voters)].append(seconds)

    scenario.at(FIRST_US, cluster.reconfigurer.watch)
    scenario.at(FIRST_US, cluster.clocks[bad].set, 1800 * SECOND)
    scenario.at(FIRST_US + 300 * MS, do, "voter demoted and promoted", (others[0], LEARNER))
    scenario.at(FIRST_US + 900 * MS, do, "voter demoted and promoted", (others[1], LEARNER))
    back = [(n, VOTER) for n in others]
    scenario.at(FIRST_US + 1800 * MS, do, "voter demoted and promoted", *back)
    for moment in range(28):
        scenario.at(FIRST_US + moment * 100 * MS, look)
    scenario.run()
    alone = ahead[1].index(1799)
    assert alone < 5
    assert {*ahead[2][: len(ahead[2]) // 2], *ahead[3][:3]} <= {-1, 0}
    assert {*ahead[1][alone:], ahead[3][-1]} <= {1796, 1797, 1798, 1799, 1800}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("moment_us", [0, 2 * MS, 10 * MS, 30 * MS])
def test_row_18_the_leader_dies_in_the_middle_of_a_change(seed: int, moment_us: int) -> None:
    """A node replaces the leader, which loses power some time after the step began; again for
    each step."""
    scenario = Scenario(quiet_options(seed), seed)
    cluster = scenario.cluster

    def replace_leader() -> None:
        new, old = cluster.add_node(), scenario.leader
        cluster.reconfigurer.do("node removed", (new, LEARNER), (new, VOTER), (old, REMOVED))

    def kill() -> None:
        scenario.power_cut(scenario.leader, 200 * MS)

    scenario.at(FIRST_US, cluster.reconfigurer.watch)
    scenario.at(FIRST_US, replace_leader)
    for step in range(4):
        scenario.at(FIRST_US + moment_us + step * 350 * MS, kill)
    scenario.run()
    assert cluster.oracle.reference.membership.version >= 3
    assert len(cluster.oracle.reference.membership.voters) == 3
    assert cluster.coverage.hits["change of membership during a crash"]


@pytest.mark.parametrize("seed", SEEDS)
def test_row_18_the_leader_is_removed_under_load(seed: int) -> None:
    """Remove the leader: it commits its own removal, hands over, and leads no more."""
    scenario = Scenario(quiet_options(seed, nodes=5), seed)
    cluster = scenario.cluster
    removed: list[int] = []

    def remove() -> None:
        removed.append(scenario.leader)
        cluster.reconfigurer.do("node removed", (removed[0], REMOVED))

    scenario.at(FIRST_US, cluster.reconfigurer.watch)
    scenario.at(FIRST_US, remove)
    scenario.mark(FIRST_US + 1000 * MS, "removed")
    scenario.mark(FIRST_US + 2000 * MS, "later")
    scenario.run()
    assert cluster.oracle.reference.membership.removed == tuple(removed)
    assert scenario.between("removed", "later").acked > 50


@pytest.mark.parametrize("seed", SEEDS)
def test_row_18_a_dead_node_is_replaced(seed: int) -> None:
    """Replace a node that never comes back; the new one takes its place while work goes on."""
    scenario = Scenario(quiet_options(seed), seed)
    cluster = scenario.cluster

    def replace_dead() -> None:
        dead = scenario.follower
        assert cluster.kill_for_good(dead)
        new = cluster.add_node()
        cluster.reconfigurer.do("dead node replaced", (new, LEARNER), (new, VOTER), (dead, REMOVED))

    scenario.at(FIRST_US, cluster.reconfigurer.watch)
    scenario.at(FIRST_US, replace_dead)
    scenario.run()
    assert cluster.coverage.hits["dead node replaced"]


@pytest.mark.parametrize("seed", SEEDS)
def test_row_7_a_leader_with_a_slow_disk_hands_over(seed: int) -> None:
    """Slow the leader's disk to 300 ms for a flush: another leads soon, and stays."""
    scenario = Scenario(quiet_options(seed), seed)
    cluster = scenario.cluster
    slow: list[int] = []

    def slow_down() -> None:
        slow.append(scenario.leader)
        cluster.disks[slow[0]].slowness = 600

    scenario.at(FIRST_US, slow_down)
    scenario.mark(FIRST_US + 1200 * MS, "handed over")
    scenario.mark(FIRST_US + 2200 * MS, "later")
    scenario.at(FIRST_US + 2200 * MS, lambda: slow.append(scenario.leader))
    scenario.run()
    assert slow[0] != slow[1]
    assert cluster.coverage.hits["slow disk handed the group over"]
    assert scenario.between("handed over", "later").acked > 50


@pytest.mark.parametrize("seed", SEEDS)
def test_row_7_a_follower_with_a_slow_disk_slows_nobody(seed: int) -> None:
    scenario = Scenario(quiet_options(seed), seed)
    cluster = scenario.cluster

    def slow_down() -> None:
        cluster.disks[scenario.follower].slowness = 600

    scenario.mark(FIRST_US - 500 * MS, "before")
    scenario.at(FIRST_US, slow_down)
    scenario.mark(FIRST_US, "slow")
    scenario.mark(FIRST_US + 1000 * MS, "later")
    scenario.run()
    assert scenario.between("slow", "later").acked > scenario.between("before", "slow").acked
    assert "slow disk handed the group over" not in cluster.coverage.hits
