"""Ticks of exports: each makes one run, however many schedulers look, and whatever clocks do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from metadata.database import Database
from metadata.errors import MetadataUnavailable
from metadata.exports.run_machine import Tick
from metadata.exports.ticks import DueExport, ExportTickRepository, Ticks
from metadata.exports.types import Export, Run
from metadata.types import TenantSpec
from scheduler.export_ticks import ExportTicks
from tests.integration.exports.conftest import OpenHarbour
from tests.integration.exports.export_support import Harbour

START = datetime(2026, 3, 28, 23, 0, tzinfo=UTC)


class Clock(ExportTickRepository):
    """Postgres' clock as the test has it; `gate`: what every scheduler waits for once it has
    looked."""

    def __init__(self, database: Database, now: datetime, gate: asyncio.Barrier | None = None):
        super().__init__(database)
        self._asked = database
        self.now = now
        self.gate = gate

    async def due(self, limit: int, besides: Sequence[bytes] = ()) -> list[DueExport]:
        async def work(connection: Any) -> list[DueExport]:
            columns = (
                "tenant_id, uid, name, {kind}, {cron}, time_zone, {missed}, {at}, $1::timestamptz"
            )
            found = []
            for kind, cron, missed, at in (
                ("'export'", "cron", "missed_runs", "next_at"),
                ("'maintain'", "maintain_cron", "'latest'", "maintain_next_at"),
            ):
                chosen = columns.format(kind=kind, cron=cron, missed=missed, at=at)
                found += await connection.fetch(
                    f"SELECT {chosen} FROM exports WHERE {at} <= $1 AND NOT paused", self.now
                )
            return [DueExport(*row) for row in found]

        due = await self._asked.statement(work, writes=False)
        if self.gate is not None:
            await self.gate.wait()
        return due


async def scheduled(harbour: Harbour, **options: Any) -> Export:
    await harbour.topic()
    options = {"cron": "0 * * * *", "next_at": START + timedelta(hours=1), **options}
    return await harbour.export(**options)


def times(runs: Sequence[Run]) -> list[tuple[str, str]]:
    return [
        (run.kind, f"{run.scheduled_for.astimezone(UTC):%d %H:%M}")
        for run in runs
        if run.scheduled_for is not None
    ]


async def finish_all(harbour: Harbour) -> None:
    while (claimed := await harbour.claim()) is not None:
        await harbour.succeed(claimed)


async def test_each_tick_makes_its_run_once_whoever_looks(open_harbour: OpenHarbour) -> None:
    """Six schedulers see the same ticks at the same moment, hour after hour."""
    sites = [await open_harbour() for _ in range(6)]
    first = sites[0]
    await scheduled(
        first, maintain_cron="30 * * * *", maintain_next_at=START + timedelta(hours=1.5)
    )
    gate = asyncio.Barrier(len(sites))
    clocks = [Clock(site.database, START, gate) for site in sites]
    for hour in range(1, 6):
        for clock in clocks:
            clock.now = START + timedelta(hours=hour, minutes=40)
        await asyncio.gather(*(ExportTicks(clock).round() for clock in clocks))
        await finish_all(first)
    made = times(await first.all_runs())
    assert sorted(made) == sorted(set(made))
    assert [at for kind, at in made if kind == "export"] == [f"29 0{hour}:00" for hour in range(5)]
    assert [at for kind, at in made if kind == "maintain"] == [
        f"29 0{hour}:30" for hour in range(5)
    ]
    export = await first.get()
    assert (export.missed, export.coalesced, export.runs) == (0, 0, 10)
    assert {run.trigger for run in await first.all_runs()} == {"schedule", "maintenance"}


async def test_postgres_clock_decides_what_has_come(harbour: Harbour) -> None:
    now = datetime.now(UTC)
    await scheduled(harbour, cron="* * * * *", next_at=now + timedelta(minutes=5))
    await harbour.ticks.round()
    assert await harbour.all_runs() == []
    await harbour.do("UPDATE exports SET next_at = clock_timestamp()")
    await harbour.ticks.round()
    (run,) = await harbour.all_runs()
    assert (run.kind, run.trigger, run.state) == ("export", "schedule", "queued")
    next_at = (await harbour.get()).spec.next_at
    assert next_at is not None
    assert run.scheduled_for is not None
    assert next_at > run.scheduled_for


async def test_a_scheduler_that_dies_before_it_hears_makes_nothing_twice(harbour: Harbour) -> None:
    class Deaf(Clock):
        async def make(self, due: DueExport, what: Ticks) -> Tick | None:
            await super().make(due, what)
            raise MetadataUnavailable("gone")

    await scheduled(harbour)
    now = START + timedelta(hours=1)
    for schedules in (Deaf(harbour.database, now), Clock(harbour.database, now)):
        with contextlib.suppress(MetadataUnavailable):
            await ExportTicks(schedules).round()
    assert times(await harbour.all_runs()) == [("export", "29 00:00")]


async def test_ticks_coalesce_with_a_run_that_is_not_over(harbour: Harbour) -> None:
    """The tick is counted as coalesced with a run of its own kind; other kinds of run wait
    behind that run.
    """
    await scheduled(harbour, maintain_cron="0 * * * *", maintain_next_at=START + timedelta(hours=3))
    clock = Clock(harbour.database, START)
    claimed = None
    for hour in range(1, 5):
        clock.now = START + timedelta(hours=hour)
        await ExportTicks(clock).round()
        if hour == 2:
            claimed = await harbour.claimed()
    export = await harbour.get()
    assert (export.coalesced, export.missed, export.runs) == (4, 0, 2)
    assert times(await harbour.all_runs()) == [("export", "29 00:00"), ("maintain", "29 02:00")]
    assert claimed is not None
    await harbour.succeed(claimed)
    clock.now = START + timedelta(hours=5)
    await ExportTicks(clock).round()
    assert times(await harbour.all_runs())[2:] == [("export", "29 04:00")]


async def test_missed_ticks_follow_the_policy_and_maintenance_is_made_late(
    harbour: Harbour,
) -> None:
    await harbour.topic()
    after = START + timedelta(hours=1)
    for policy in ("skip", "latest"):
        await harbour.export(
            policy,
            missed_runs=policy,
            cron="@hourly",
            next_at=after,
            maintain_cron="@hourly",
            maintain_next_at=after,
        )
    clock = Clock(harbour.database, START + timedelta(hours=5, minutes=10))
    await ExportTicks(clock).round()
    assert times(await harbour.all_runs("skip")) == [("maintain", "29 04:00")]
    assert sorted(times(await harbour.all_runs("latest"))) == [
        ("export", "29 04:00"),
        ("maintain", "29 04:00"),
    ]
    assert (await harbour.get("skip")).missed == 5 + 4
    assert (await harbour.get("latest")).missed == 4 + 4
    assert (await harbour.get("skip")).spec.next_at == START + timedelta(hours=6)
    clock.now = START + timedelta(hours=6)
    await ExportTicks(clock).round()
    assert times(await harbour.all_runs("skip"))[1:] == [("export", "29 05:00")]


async def test_a_clock_that_goes_back_makes_nothing_again(harbour: Harbour) -> None:
    await scheduled(harbour)
    clock = Clock(harbour.database, START)
    for hour in (1, 2, 1, 0, 2, 3):
        clock.now = START + timedelta(hours=hour)
        await ExportTicks(clock).round()
        await finish_all(harbour)
    made = [("export", "29 00:00"), ("export", "29 01:00"), ("export", "29 02:00")]
    assert times(await harbour.all_runs()) == made
    # Nor does a schedule that was changed by a clock that was behind.
    await harbour.exports.update(
        harbour.tenant_id,
        "lake",
        lambda export: replace(export.spec, next_at=START + timedelta(hours=3)),
    )
    for hour in (3, 4):
        clock.now = START + timedelta(hours=hour)
        await ExportTicks(clock).round()
        await finish_all(harbour)
    assert times(await harbour.all_runs()) == [*made, ("export", "29 03:00")]
    export = await harbour.get()
    assert (export.missed, export.coalesced) == (0, 0)


async def test_the_night_in_which_clocks_change_is_the_time_zones(harbour: Harbour) -> None:
    """02:30 is left out in Berlin on the 29th: its run comes when that hour is over."""
    await scheduled(
        harbour,
        cron="30 2 * * *",
        time_zone="Europe/Berlin",
        next_at=datetime(2026, 3, 28, 1, 30, tzinfo=UTC),
    )
    clock = Clock(harbour.database, START)
    for day in (28, 29, 30):
        clock.now = datetime(2026, 3, day, 1, 30, tzinfo=UTC)
        await ExportTicks(clock).round()
        await finish_all(harbour)
    assert times(await harbour.all_runs()) == [
        ("export", "28 01:30"),
        ("export", "29 01:00"),
        ("export", "30 00:30"),
    ]


async def test_a_schedule_that_was_changed_meanwhile_is_not_moved(harbour: Harbour) -> None:
    await scheduled(harbour)
    now = START + timedelta(hours=1)
    clock = Clock(harbour.database, now)
    (due,) = await clock.due(1)
    for change in (
        {"cron": "5 * * * *"},
        {"time_zone": "Asia/Tokyo"},
        {"next_at": START + timedelta(hours=2)},
        {"paused": True},
    ):
        before = (await harbour.get()).spec
        changed = replace(before, **change)  # type: ignore[arg-type]
        await harbour.exports.update(harbour.tenant_id, "lake", lambda _, spec=changed: spec)  # type: ignore[misc]
        assert await clock.make(due, Ticks([due.at], 0, now + timedelta(hours=1))) is None
        await harbour.exports.update(harbour.tenant_id, "lake", lambda _, spec=before: spec)  # type: ignore[misc]
    assert await harbour.all_runs() == []
    assert await clock.make(due, Ticks([due.at], 0, None)) == Tick(due.at, 0, 0)
    assert (await harbour.get()).spec.next_at is None


async def test_what_is_paused_or_suspended_or_deleted_makes_nothing(harbour: Harbour) -> None:
    past = datetime.now(UTC) - timedelta(hours=2)
    await scheduled(harbour, cron="@hourly", next_at=past, paused=True)
    await harbour.ticks.round()
    assert await harbour.all_runs() == []
    await harbour.exports.update(
        harbour.tenant_id, "lake", lambda export: replace(export.spec, paused=False)
    )
    tenant = await harbour.world.tenants.get_by_id(harbour.tenant_id)
    suspended = TenantSpec(tenant.name, state="suspended")
    await harbour.world.tenants.update(suspended)
    await harbour.ticks.round()
    assert await harbour.all_runs() == []
    await harbour.world.tenants.update(replace(suspended, state="active"))
    (due,) = await harbour.schedules.due(10)
    await harbour.ticks.round()
    assert len(await harbour.all_runs()) == 1
    await harbour.exports.delete(harbour.tenant_id, "lake")
    assert await harbour.schedules.make(due, Ticks([due.at], 0, None)) is None
    await harbour.ticks.round()


async def test_a_schedule_that_cannot_be_read_says_so_and_keeps_nobody_waiting(
    harbour: Harbour,
) -> None:
    past = datetime.now(UTC) - timedelta(minutes=5)
    await scheduled(harbour, cron="@hourly", next_at=past)
    await harbour.export("bad", time_zone="Moon/Sea", cron="@hourly", next_at=past)
    await harbour.ticks.round()
    assert len(await harbour.all_runs()) == 1
    assert await harbour.all_runs("bad") == []
    failure = (await harbour.get("bad")).failure
    assert failure is not None
    assert failure.code == "schedule-failed"
    assert "time_zone" in failure.message
    assert (await harbour.get("bad")).spec.next_at == past
