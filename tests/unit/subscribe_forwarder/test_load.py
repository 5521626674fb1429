"""Test the load that a forwarder reports of itself."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from metadata.delivery import loads
from metadata.delivery.loads import MAX_UNITS, Load
from metadata.ids import new_uid
from metadata.types import CursorKey, Unit
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.reading.batch import BatchRange
from subscribe_forwarder.fleet.activity import Activity
from subscribe_forwarder.fleet.load import LoadReporter

TENANT, TOPIC = new_uid(), new_uid()


@dataclass(eq=False)
class FakeReader:
    """The part of a reader that the load looks at."""

    partition: Unit
    cursor: Any
    backlog: int = 0
    frozen: bool = False


def reader(subscription_uid: bytes, number: int = 0, lane: int = 0, *, split: bool = False) -> Any:
    unit = Unit(TENANT, TOPIC, number)
    if split:
        unit = unit._replace(subscription_uid=subscription_uid)
    key = CursorKey(TENANT, subscription_uid, number, lane)
    return FakeReader(unit, SimpleNamespace(key=key))


class Reporting:
    """A reporter that is asked each second."""

    def __init__(self) -> None:
        self.activity = Activity()
        self.now_s = 100.0
        self.used_s = 50.0
        self.asked: list[bytes] = []
        self.reporter = LoadReporter(
            self.activity,
            units=lambda: 7,
            waiting_of=self._waiting_of,
            longest_lag_s=lambda: 0.25,
            connections=lambda: 3,
            cpu_s=lambda: self.used_s,
        )
        self.report()

    def hand_out(self, reader: Any, count: int) -> None:
        batch: Any = SimpleNamespace(mean_bytes=100.0)
        part: Any = SimpleNamespace(
            reader=reader, message_count=count, ranges=[BatchRange(batch, 0, count)]
        )
        self.activity.delivered([part])

    def report(self, *, cpu: float = 0.0, took_s: float = 1.0) -> Load:
        self.now_s += took_s
        self.used_s += cpu * took_s
        self.asked.clear()
        load = loads.decode(self.reporter.report(self.now_s))
        assert load is not None
        return load

    def _waiting_of(self, uid: bytes) -> int:
        self.asked.append(uid)
        return 2


def test_rates_settle_at_what_goes_on() -> None:
    reporting, one = Reporting(), reader(new_uid())
    for _ in range(60):
        reporting.hand_out(one, 30)
        reporting.hand_out(one, 20)
        one.backlog += 10
        load = reporting.report(cpu=0.4)
    assert load.cpu == pytest.approx(0.4, abs=0.01)
    assert load.per_second == pytest.approx(50, abs=0.1)
    assert load.bytes_per_second == pytest.approx(5000, abs=10)
    assert (load.units, load.waiting, load.lag_s) == (7, 3, 0.25)
    (whole,), (part,) = load.partitions, load.subscriptions
    assert whole.unit == one.partition
    assert part.unit == one.partition._replace(subscription_uid=one.cursor.key.subscription_uid)
    for each in (whole, part):
        assert each.per_second == pytest.approx(50, abs=0.1)
        assert each.growth_per_s == pytest.approx(10, abs=0.1)
        assert (each.backlog, each.waiting) == (600, 2)


def test_a_burst_is_smoothed() -> None:
    reporting, one = Reporting(), reader(new_uid())
    reporting.hand_out(one, 1000)
    load = reporting.report(cpu=1.0)
    assert load.per_second < 250
    assert load.cpu < 0.25


def test_lanes_are_one_unit_and_what_is_split_off_is_not_in_its_partition() -> None:
    reporting, billing, audit = Reporting(), new_uid(), new_uid()
    lanes = [reader(billing, lane=lane) for lane in (0, 1)]
    split = reader(audit, split=True)
    for one in (*lanes, split):
        reporting.hand_out(one, 10)
    load = reporting.report()
    (whole,) = load.partitions
    assert whole.unit == lanes[0].partition
    assert whole.waiting == 2
    by_unit = {each.unit: each for each in load.subscriptions}
    assert set(by_unit) == {whole.unit._replace(subscription_uid=uid) for uid in (billing, audit)}
    part = by_unit[whole.unit._replace(subscription_uid=billing)]
    assert part.per_second == whole.per_second
    assert by_unit[split.partition].per_second == pytest.approx(part.per_second / 2, abs=0.1)


def test_who_gets_nothing_is_forgotten_and_not_looked_at() -> None:
    reporting, one = Reporting(), reader(new_uid())
    reporting.hand_out(one, 10)
    assert reporting.report().subscriptions
    for _ in range(60):
        load = reporting.report()
    assert (load.partitions, load.subscriptions, load.per_second) == ((), (), 0)
    assert reporting.asked == []


def test_a_reader_whose_unit_went_elsewhere_is_let_go() -> None:
    reporting, one = Reporting(), reader(new_uid())
    reporting.hand_out(one, 1000)
    assert reporting.report().subscriptions
    one.frozen = True
    assert reporting.report().subscriptions == ()


def test_only_the_costliest_are_told() -> None:
    reporting = Reporting()
    readers = [reader(new_uid(), number) for number in range(2 * MAX_UNITS)]
    for cost, one in enumerate(readers, 1):
        reporting.hand_out(one, 10 * cost)
    load = reporting.report()
    assert [each.partition for each in load.partitions] == list(
        range(2 * MAX_UNITS - 1, MAX_UNITS - 1, -1)
    )
    assert load.per_second > sum(each.per_second for each in load.partitions)


def test_a_clock_that_stands_still_changes_nothing() -> None:
    reporting, one = Reporting(), reader(new_uid())
    reporting.hand_out(one, 10)
    before = reporting.report(cpu=0.5)
    assert reporting.report(took_s=0.0) == before


def test_connections_are_those_of_the_process() -> None:
    reporter = LoadReporter(Activity(), units=lambda: 0, waiting_of=lambda _: 0)

    def waiting() -> int:
        load = loads.decode(reporter.report(0.0))
        assert load is not None
        return load.waiting

    before = waiting()
    metrics.waiting.inc(2)
    metrics.streams.inc(3)
    try:
        assert waiting() == before + 5
    finally:
        metrics.waiting.dec(2)
        metrics.streams.dec(3)


def test_a_backlog_counts_for_scaling_only_while_somebody_takes_of_it() -> None:
    reporting, taken, left = Reporting(), reader(new_uid()), reader(new_uid())
    taken.backlog, left.backlog = 500, 900
    reporting.hand_out(taken, 10)
    reporting.report()
    assert consumed_backlog() == 500
    for _ in range(60):
        reporting.report()
    assert consumed_backlog() == 0


def consumed_backlog() -> float:
    return float(metrics.consumed_backlog.collect()[0].samples[0].value)
