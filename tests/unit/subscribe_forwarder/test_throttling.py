"""Deliveries of an overloaded process, and the effect of peers' notes on its book of flows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from metadata.subscriptions.flows import Flow
from metadata.types import Change, ChangeKind
from subscribe_forwarder.delivery.state.rate import RateLimits
from subscribe_forwarder.delivery.throttling.flows import FlowReports
from subscribe_forwarder.delivery.throttling.machine import MachineThrottle
from tests.unit.subscribe_forwarder.fleet_support import eventually

UID, TENANT = b"s" * 16, b"t" * 16


class Clock:
    def __init__(self) -> None:
        self.now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def hand_out(
    clock: Clock, machine: MachineThrottle, seconds: float, overloaded: float, wanted: int = 1000
) -> int:
    """Return how many messages were delivered of `wanted` a tick."""
    limits, went = RateLimits(machine), 0
    for _ in range(round(seconds * 10)):
        room = limits.room(wanted, clock())
        if room:
            limits.take("", room, clock())
        went += room
        clock.now_s += 0.1
        machine.tick(0.1, overloaded)
    return went


def test_nothing_is_held_back_while_all_is_on_time(clock: Clock) -> None:
    machine = MachineThrottle(clock)
    assert hand_out(clock, machine, 5, 0.0) == 50 * 1000
    assert (machine.active, machine.per_second) == (False, None)


def test_less_goes_the_longer_there_is_too_much_and_more_again_after_it(clock: Clock) -> None:
    machine = MachineThrottle(clock)
    hand_out(clock, machine, 5, 0.0)
    went = []
    for overloaded in (1.0, 1.0, 0.0):
        assert hand_out(clock, machine, 2, overloaded) > 0
        went.append(machine.per_second or 0.0)
    assert 0 < went[1] < went[0] < 10_000
    assert went[1] < went[2]
    hand_out(clock, machine, 20, 0.0)
    assert hand_out(clock, machine, 1, 0.0) == 10 * 1000


def test_few_hand_outs_end_it(clock: Clock) -> None:
    machine = MachineThrottle(clock)
    hand_out(clock, machine, 5, 0.0)
    hand_out(clock, machine, 1, 1.0)
    hand_out(clock, machine, 2, 0.0, wanted=1)
    assert not machine.active


def test_what_did_not_go_is_given_back(clock: Clock) -> None:
    machine = MachineThrottle(clock)
    hand_out(clock, machine, 1, 1.0)
    clock.now_s += 0.1
    limits = RateLimits(machine)
    room = limits.room(10**6, clock())
    limits.take("", room, clock())
    assert limits.room(10**6, clock()) == 0
    assert (limits.due_s(1, clock()) or 0) > clock()
    limits.give_back("", room, clock())
    assert limits.room(10**6, clock()) == room


# The book.


def flow(version: int, rate: float | None = 5.0, left_s: float = 10.0) -> Flow:
    return Flow(TENANT, UID, rate, None, "slow", "dev", datetime.now(UTC), left_s, version)


class Rows:
    """The rows, as Postgres has them."""

    def __init__(self, *rows: Flow) -> None:
        self.rows = list(rows)

    async def all(self) -> list[Flow]:
        return self.rows

    async def load(self, of: Any) -> list[Flow]:
        return self.rows


def rate(book: FlowReports) -> float | None:
    said = book.of(UID)
    return None if said is None else said.messages_per_second


def test_of_two_the_later_holds_in_whatever_order_they_come(clock: Clock) -> None:
    book = FlowReports(Rows(), clock=clock)
    changed: list[bytes] = []
    book.add_listener(changed.append)
    book.tell(flow(2, 7.0))
    book.tell(flow(1, 5.0))
    assert (rate(book), changed) == (7.0, [UID])


def test_it_is_over_when_its_time_is(clock: Clock) -> None:
    book = FlowReports(Rows(), clock=clock)
    book.tell(flow(1, left_s=10))
    clock.now_s += 9.9
    assert rate(book) == 5.0
    clock.now_s += 0.2
    assert rate(book) is None
    book.tell(flow(2))
    book.tell(flow(3, left_s=0))
    assert rate(book) is None


async def test_what_was_said_before_the_start_holds_and_a_reset_reads_all_again() -> None:
    rows = Rows(flow(1))
    book = FlowReports(rows)
    book.start()
    await eventually(lambda: rate(book) == 5.0, 10)
    rows.rows = [flow(2, 9.0)]
    await book.on_changes([Change(2, ChangeKind.FLOW, TENANT, UID, "reader")])
    await eventually(lambda: rate(book) == 9.0, 10)
    rows.rows = []
    await book.on_changes([Change(3, ChangeKind.RESET, b"", b"", "")])
    await eventually(lambda: rate(book) is None, 10)
    await book.close()
