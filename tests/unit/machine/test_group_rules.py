"""Test the state of the whole group: counters, membership, the preferred leader, checkpoints."""

from __future__ import annotations

import pytest

from store_nodes import commands as c
from store_nodes import errors
from store_nodes.machine import counters
from store_nodes.machine.outcomes import (
    CheckpointWanted,
    CounterSet,
    LeaderWished,
    MembershipSet,
    Outcome,
)
from store_nodes.membership import LEARNER, REMOVED, VOTER, Membership
from tests.unit.machine.driver import Driver, refusal

FIRST = Membership.first({1: ("a:1", "x"), 2: ("b:1", "y"), 3: ("c:1", "z")})


@pytest.fixture
def d() -> Driver:
    return Driver(FIRST)


def step(d: Driver, version: int, node: int, role: str, address: str = "") -> Outcome:
    value = c.encode_membership(c.Reconfigure(version, node, role, address, {}), d.now)
    [outcome] = d.machine.apply(d.machine.applied, value)
    return outcome


def conflict(outcome: Outcome) -> int:
    error = refusal(outcome)
    assert isinstance(error, errors.Conflict)
    return error.current


def test_compare_and_set(d: Driver) -> None:
    assert d.one(c.CompareAndSet("era", 0, 7)) == CounterSet("era", 7)
    assert conflict(d.one(c.CompareAndSet("era", 0, 8))) == 7
    assert conflict(d.one(c.CompareAndSet("other", 7, 8))) == 0
    assert d.one(c.CompareAndSet("era", 7, 9)) == CounterSet("era", 9)
    assert d.machine.counters == {"era": 9}


def test_a_counter_at_0_takes_no_place(d: Driver) -> None:
    """Comparing 0 with 0 in order to read leaves nothing behind."""
    assert d.one(c.CompareAndSet("era", 0, 0)) == CounterSet("era", 0)
    assert d.machine.counters == {}
    d.one(c.CompareAndSet("era", 0, 1))
    d.one(c.CompareAndSet("era", 1, 0))
    assert d.machine.counters == {}


def test_counters_are_bounded(d: Driver) -> None:
    assert isinstance(refusal(d.one(c.CompareAndSet("n" * 65, 0, 1))), errors.TooLarge)
    assert isinstance(refusal(d.one(c.CompareAndSet("é" * 33, 0, 1))), errors.TooLarge)
    for number in range(counters.MAX_COUNTERS):
        d.one(c.CompareAndSet(f"{number}".rjust(64, "n"), 0, 1))
    assert len(d.machine.counters) == counters.MAX_COUNTERS
    assert isinstance(refusal(d.one(c.CompareAndSet("one more", 0, 1))), errors.TooLarge)
    assert d.one(c.CompareAndSet("0".rjust(64, "n"), 1, 2)) == CounterSet("0".rjust(64, "n"), 2)


def test_the_order_of_counters_is_no_state() -> None:
    one, other = Driver(), Driver()
    for driver, names in ((one, "ab"), (other, "ba")):
        for name in names:
            driver.one(c.CompareAndSet(name, 0, 1))
        driver.machine.digest = b"=" * 16
    assert one.machine.state_snapshot() == other.machine.state_snapshot()


def test_membership_goes_step_by_step(d: Driver) -> None:
    assert step(d, 1, 4, LEARNER, "d:1") == MembershipSet(1)
    assert step(d, 2, 4, VOTER) == MembershipSet(2)
    assert step(d, 3, 1, REMOVED) == MembershipSet(3)
    assert d.machine.membership.voters == (2, 3, 4)
    assert d.machine.membership.removed == (1,)
    d.reload()
    assert d.machine.membership.voters == (2, 3, 4)
    assert conflict(step(d, 3, 5, LEARNER, "e:1")) == 3
    for node, role in ((1, LEARNER), (5, VOTER), (6, REMOVED), (2, "king")):
        assert isinstance(refusal(step(d, 4, node, role, "f:1")), errors.NotAllowed)
    assert d.machine.membership.version == 3


def test_a_reconfigure_among_other_commands_is_refused(d: Driver) -> None:
    """Consensus looks for it in a value of its own; here it would change the machine alone."""
    outcome = d.one(c.Reconfigure(1, 4, LEARNER, "d:1", {}))
    assert isinstance(refusal(outcome), errors.NotAllowed)
    assert d.machine.membership == FIRST


def test_a_membership_value_is_one_step(d: Driver) -> None:
    one = c.encode(c.Reconfigure(1, 4, LEARNER, "d:1", {}))
    other = c.encode(c.Transfer(1))
    for commands in ((), (one, one), (other,)):
        value = bytearray(c.encode_value(commands or (one,), d.now))
        if not commands:
            value = bytearray(c.encode_noop(d.now))
        value[1] = c.ValueKind.MEMBERSHIP
        before = d.machine.state_snapshot()
        with pytest.raises(c.BadCommand):
            d.machine.apply(d.machine.applied, bytes(value))
        assert d.machine.state_snapshot() == before


def test_transfer(d: Driver) -> None:
    assert d.machine.preferred_leader == 0
    assert d.one(c.Transfer(2)) == LeaderWished(2)
    assert d.machine.preferred_leader == 2
    step(d, 1, 4, LEARNER, "d:1")
    for node in (4, 9):
        assert isinstance(refusal(d.one(c.Transfer(node))), errors.NotAllowed)
    d.reload()
    assert d.machine.preferred_leader == 2
    assert d.one(c.Transfer(0)) == LeaderWished(0)


def test_checkpoint(d: Driver) -> None:
    assert d.one(c.Checkpoint("move")) == CheckpointWanted("move")
