"""Reports are made again as they were, and belong to the hour they were counted in."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from gateway.quotas import metering
from gateway.quotas.metering import Meter
from metadata.errors import MetadataUnavailable, OutcomeUnknown
from metadata.tenancy.usage_reports import Counted

ONE, OTHER = b"1" * 16, b"2" * 16
NOON_S = 1_767_268_800.0
"""2026-01-01, 12:00 UTC."""


class Reports:
    """The rows of usage_hours, as the statement sees them; the next `unknown` calls add, and
    fail.
    """

    def __init__(self) -> None:
        self.last: dict[bytes, int] = {}
        self.hours: Counter[tuple[bytes, str, int]] = Counter()
        self.away = False
        self.unknown = 0
        self.added = 0

    async def add(
        self, incarnation: bytes, sequence: int, hour: datetime, counted: Sequence[Counted]
    ) -> bool:
        if self.away:
            raise MetadataUnavailable("away")
        new = sequence > self.last.get(incarnation, 0)
        if new:
            self.last[incarnation] = sequence
            self.added += 1
            for tenant_id, metric, value in counted:
                self.hours[tenant_id, metric, hour.hour] += value
        if self.unknown:
            self.unknown -= 1
            raise OutcomeUnknown("lost the answer")
        return new

    async def prune(self) -> None:
        return None


class Wall:
    def __init__(self) -> None:
        self.now_s = NOON_S

    def __call__(self) -> float:
        return self.now_s


def test_noon_is_noon() -> None:
    assert datetime.fromtimestamp(NOON_S, UTC).hour == 12


async def test_what_is_counted_is_added_once_whatever_is_known_of_it() -> None:
    reports = Reports()
    meter = Meter(reports, 10.0, wall_s=Wall())
    meter.count(ONE, "acks", 3)
    reports.unknown = 2
    await meter.flush()
    meter.count(ONE, "acks", 4)
    await meter.flush()
    await meter.flush()
    await meter.flush()
    assert reports.hours == {(ONE, "acks", 12): 7}
    await meter.flush()
    assert reports.added == 2


async def test_without_postgres_it_is_kept_by_its_hour() -> None:
    reports, wall = Reports(), Wall()
    meter = Meter(reports, 10.0, wall_s=wall)
    reports.away = True
    for hour in range(3):
        wall.now_s = NOON_S + hour * 3600
        await meter.flush()
        meter.count(ONE, "acks", 10**hour)
        meter.count(OTHER, "requests", 1)
        await meter.flush()
    reports.away = False
    await meter.flush()
    await meter.flush()
    acks = {hour: value for (_, metric, hour), value in reports.hours.items() if metric == "acks"}
    assert acks == {12: 1, 13: 10, 14: 100}


async def test_large_reports_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metering, "MAX_ROWS", 10)
    reports = Reports()
    meter = Meter(reports, 10.0, wall_s=Wall())
    for number in range(35):
        meter.count(number.to_bytes(16, "big"), "requests", 1)
    await meter.flush()
    assert reports.added == 4
    assert sum(reports.hours.values()) == 35


async def test_the_last_is_reported_at_the_end() -> None:
    reports = Reports()
    meter = Meter(reports, 3600.0, wall_s=Wall())
    running = asyncio.ensure_future(meter.run())
    await asyncio.sleep(0)
    meter.count(ONE, "acks", 3)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await meter.close()
    assert reports.hours == {(ONE, "acks", 12): 3}


async def test_what_was_withdrawn_is_not_reported() -> None:
    reports = Reports()
    meter = Meter(reports, 10.0, wall_s=Wall())
    meter.count(ONE, "delivered_messages", 3)
    meter.count(ONE, "delivered_messages", -3)
    await meter.flush()
    assert reports.added == 0
