"""Runs on a real Postgres: the order they come in, what a lease may do, what their ends change."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from metadata.errors import BadPageToken, LeaseLost, NotFound
from metadata.exports.run_machine import LEASE_ENDED
from metadata.exports.runs import MAX_ATTEMPTS, MAX_LOG_BYTES, TooManyRuns
from metadata.exports.sweep import KEPT_RUNS
from metadata.exports.types import (
    CANCELLED,
    Ending,
    Failure,
    LaneRange,
    RunId,
    RunProgress,
    RunResult,
    TableState,
)
from metadata.types import TenantSpec
from tests.integration.exports.export_support import Harbour, each, lanes

DAY_S = 86_400.0


async def test_a_run_is_claimed_planned_and_done(harbour: Harbour) -> None:
    topic = await harbour.topic()
    await harbour.export()
    made = await harbour.run()
    assert (made.number, made.state, made.trigger, made.attempt) == (1, "queued", "manual", 0)
    assert (await harbour.get()).state == "queued"
    claimed = await harbour.claimed()
    assert (claimed.id, claimed.tenant) == (
        RunId(harbour.tenant_id, made.uid),
        f"tenant-{harbour.tenant_id.hex()}",
    )
    assert (claimed.number, claimed.kind, claimed.attempt) == (1, "export", 1)
    assert claimed.ranges is None
    assert claimed.spec == (await harbour.get()).spec
    assert (await harbour.get()).state == "running"
    ranges = await harbour.plan(claimed, each(topic, 10, 0))
    assert ranges == (LaneRange(lanes(topic)[0], 0, 10),)
    assert (await harbour.leases.held(claimed.id, claimed.lease)).ranges == ranges
    assert (await harbour.get()).lag_messages == 10
    renewed = await harbour.leases.renew(
        claimed.id, claimed.lease, 60.0, RunProgress("write", 5, 50, 10), b"half way\n"
    )
    assert (renewed.cancelled, renewed.attempt) == (False, 1)
    assert renewed.lease_until > claimed.lease_until
    assert (await harbour.run_of(claimed)).progress == RunProgress("write", 5, 50, 10)
    table = TableState("sales.lake", "/lake", "/lake/v1.json", 7)
    finished = await harbour.succeed(
        claimed, each(topic, 10, 0), rows=7, rejected=2, filtered=1, bytes=70, table=table
    )
    assert (finished.state, finished.kind, finished.attempt) == ("succeeded", "export", 1)
    run = await harbour.run_of(claimed)
    assert (run.state, run.failure, run.ranges) == ("succeeded", None, ranges)
    assert run.result == RunResult(rows=7, rejected=2, filtered=1, bytes=70, table=table)
    assert run.finished_at is not None
    export = await harbour.get()
    sums = (export.rows, export.rejected, export.filtered, export.bytes, export.expired)
    assert sums == (7, 2, 1, 70, 0)
    assert (export.state, export.runs, export.lag_messages) == ("idle", 1, 0)
    assert (export.table_state, export.rejects_state, export.last_run) == (table, None, run)
    assert await harbour.pinned(export, topic) == {(0, 0): 10, (1, 0): 0}
    assert await harbour.runs.log(harbour.tenant_id, "lake", 1) == "half way\n"


async def test_a_plan_stands_for_the_same_positions(harbour: Harbour) -> None:
    """The plan also stands in the next attempt, after more was published.

    Other positions get another plan.
    """
    topic = await harbour.topic()
    await harbour.export()
    await harbour.run()
    claimed = await harbour.claimed()
    before = each(topic, 3, 4)
    ranges = await harbour.plan(claimed, each(topic, 10, 10), before)
    assert [(part.start, part.end) for part in ranges] == [(3, 10), (4, 10)]
    assert await harbour.plan(claimed, each(topic, 20, 20), before) == ranges
    await harbour.fail(claimed)
    await harbour.ready()
    again = await harbour.claimed()
    assert (again.ranges, again.attempt) == (ranges, 2)
    assert await harbour.plan(again, each(topic, 20, 20), before) == ranges
    other = await harbour.plan(again, each(topic, 20, 20), each(topic, 10, 10))
    assert [(part.start, part.end) for part in other] == [(10, 20), (10, 20)]
    assert await harbour.pinned(await harbour.get(), topic) == {(0, 0): 10, (1, 0): 10}


async def test_a_plan_whose_messages_are_gone_is_made_anew_and_they_are_counted(
    harbour: Harbour,
) -> None:
    topic = await harbour.topic()
    await harbour.export()
    await harbour.run()
    claimed = await harbour.claimed()
    await harbour.plan(claimed, each(topic, 10, 10))
    await harbour.do("UPDATE partitions SET trimmed_to = 6 WHERE partition = 1")
    ranges = await harbour.plan(claimed, each(topic, 10, 10))
    assert [(part.start, part.end) for part in ranges] == [(0, 10), (6, 10)]
    # The table says where it is, so that its commit can be held to that.
    await harbour.fail(claimed)
    await harbour.ready()
    claimed = await harbour.claimed()
    ranges = await harbour.plan(claimed, each(topic, 10, 10), each(topic, 0, 2))
    assert [part[1:] for part in ranges] == [(0, 10, None), (6, 10, 2)]
    assert (await harbour.leases.held(claimed.id, claimed.lease)).ranges == ranges
    await harbour.succeed(claimed, each(topic, 10, 10), rows=14)
    export = await harbour.get()
    assert (export.rows, export.expired, export.lag_messages) == (14, 6, 0)


async def test_what_all_of_a_lane_lost_is_counted_once(harbour: Harbour) -> None:
    """No range is left of it, so its position in the table stays where it was."""
    topic = await harbour.topic(partitions=1)
    await harbour.export()
    await harbour.do("UPDATE partitions SET trimmed_to = 6")
    for end in (6, 6, 7):
        await harbour.run()
        claimed = await harbour.claimed()
        ranges = await harbour.plan(claimed, each(topic, end), each(topic, 4))
        assert [part[1:] for part in ranges] == ([(6, 7, 4)] if end == 7 else [])
        await harbour.succeed(claimed)
        assert (await harbour.get()).expired == 2


async def test_what_a_plan_has_no_room_for_is_the_next_runs(harbour: Harbour) -> None:
    topic = await harbour.topic()
    await harbour.export()
    await harbour.run()
    reached, numbers = each(topic, 0, 0), []
    while (claimed := await harbour.claim()) is not None:
        ranges = await harbour.plan(claimed, each(topic, 100, 10), reached, most=40)
        assert sum(part.end - part.start for part in ranges) <= 40
        reached |= {part.lane: part.end for part in ranges}
        await harbour.succeed(claimed, reached)
        numbers.append(claimed.number)
    assert numbers == [1, 2, 3]
    assert reached == each(topic, 100, 10)
    assert {run.trigger for run in await harbour.all_runs()} == {"manual"}


async def test_more_is_left_to_a_run_that_waits_already(harbour: Harbour) -> None:
    topic = await harbour.topic()
    await harbour.export()
    await harbour.run()
    claimed = await harbour.claimed()
    await harbour.plan(claimed, each(topic, 100, 10), most=40)
    assert (await harbour.run()).number == 2
    await harbour.succeed(claimed, each(topic, 20, 10))
    assert [run.state for run in await harbour.all_runs()] == ["succeeded", "queued"]


async def test_a_table_that_has_less_than_it_had_gets_it_again(harbour: Harbour) -> None:
    topic = await harbour.topic(partitions=1)
    await harbour.export()
    for positions, start in (({}, 0), (each(topic, 8), 8), (each(topic, 2), 2), ({}, 0)):
        await harbour.run()
        claimed = await harbour.claimed()
        (part,) = await harbour.plan(claimed, each(topic, 10), positions)
        assert part.start == start
        assert await harbour.pinned(await harbour.get(), topic) == {(0, 0): start}
        await harbour.succeed(claimed, each(topic, 10))
        assert await harbour.pinned(await harbour.get(), topic) == {(0, 0): 10}


async def test_files_without_a_table_go_by_what_is_kept_here(harbour: Harbour) -> None:
    topic = await harbour.topic()
    await harbour.export(format="parquet", at=1)
    for start, end in ((1, 5), (5, 9)):
        await harbour.run()
        claimed = await harbour.claimed()
        ranges = await harbour.plan(claimed, each(topic, end, end))
        assert {(part.start, part.end) for part in ranges} == {(start, end)}
        await harbour.succeed(claimed, each(topic, start, start))
        assert {state.offset for state in (await harbour.get()).positions} == {end}
    await harbour.runs.create(
        harbour.tenant_id, "lake", "backfill", [LaneRange(lanes(topic)[0], 1, 3)]
    )
    await harbour.succeed(await harbour.claimed(), each(topic, 3, 3))
    assert {state.offset for state in (await harbour.get()).positions} == {9}


async def test_a_lane_that_is_new_to_a_plan_is_begun_and_one_that_is_gone_left_out(
    harbour: Harbour,
) -> None:
    topic = await harbour.topic("orders", 1)
    await harbour.export(topic="*", at=5)
    newer = await harbour.topic("newer", 1)
    await harbour.run()
    claimed = await harbour.claimed()
    ends = each(topic, 9) | each(newer, 3)
    ranges = await harbour.plan(claimed, ends)
    assert {(part.lane.topic, part.start, part.end) for part in ranges} == {
        ("orders", 5, 9),
        ("newer", 0, 3),
    }
    assert await harbour.pinned(await harbour.get(), newer) == {(0, 0): 0}
    await harbour.world.topics.mark_deleting(harbour.tenant_id, "orders")
    ranges = await harbour.plan(claimed, ends)
    assert [part.lane.topic for part in ranges] == ["newer"]


async def test_runs_of_an_export_come_one_after_the_other(harbour: Harbour) -> None:
    """Also while the first waits for its next attempt: a table takes numbers in their order."""
    await harbour.topic()
    await harbour.export()
    await harbour.run(kind="reconcile")
    await harbour.run()
    await harbour.run(kind="maintain")
    for state in ("waits", "failed"):
        claimed = await harbour.claimed()
        assert claimed.number == 1
        assert await harbour.claims_nothing()
        await harbour.fail(claimed, retry=state == "waits")
        if state == "waits":
            assert await harbour.claims_nothing()
            await harbour.ready()
            assert await harbour.leases.claimable(["default"]) == ["default"]
    for number in (2, 3):
        claimed = await harbour.claimed()
        assert claimed.number == number
        await harbour.succeed(claimed)
    assert await harbour.claims_nothing()


async def test_of_kind_export_one_waits_at_a_time(harbour: Harbour) -> None:
    await harbour.topic()
    await harbour.export()
    first, created = await harbour.runs.create(harbour.tenant_id, "lake")
    assert created
    assert await harbour.runs.create(harbour.tenant_id, "lake") == (first, False)
    claimed = await harbour.claimed()
    second, created = await harbour.runs.create(harbour.tenant_id, "lake")
    assert (second.number, created) == (2, True)
    # Back among those that wait, and a third is not needed: the back-off ends.
    await harbour.fail(claimed)
    waiting, created = await harbour.runs.create(harbour.tenant_id, "lake")
    assert (waiting.number, created) == (1, False)
    assert {run.state for run in await harbour.all_runs()} == {"queued"}
    assert (await harbour.claimed()).number == 1


async def test_ranges_of_a_back_fill_are_its_plan(harbour: Harbour) -> None:
    topic = await harbour.topic()
    await harbour.export()
    ranges = (LaneRange(lanes(topic)[0], 2, 4),)
    run, created = await harbour.runs.create(harbour.tenant_id, "lake", "backfill", ranges)
    assert (created, run.ranges) == (True, ranges)
    claimed = await harbour.claimed()
    assert claimed.ranges == ranges
    assert await harbour.plan(claimed, each(topic, 100, 100)) == ranges
    await harbour.succeed(claimed, rows=2)
    export = await harbour.get()
    assert (export.rows, {state.offset for state in export.positions}) == (0, {0})
    await harbour.run(kind="maintain")
    assert await harbour.plan(await harbour.claimed(), each(topic, 100, 100)) == ()


async def test_too_many_runs_are_refused(harbour: Harbour, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metadata.exports.runs.MAX_LIVE", 2)
    await harbour.topic()
    await harbour.export()
    await harbour.run(kind="maintain")
    await harbour.run(kind="maintain")
    with pytest.raises(TooManyRuns):
        await harbour.run(kind="maintain")


async def test_a_claim_takes_one_run_however_it_is_planned(harbour: Harbour) -> None:
    """Postgres joins small tables otherwise than large ones, as it last counted them."""
    await harbour.topic()
    for number in range(30):
        await harbour.export(f"export-{number}")
        await harbour.run(f"export-{number}")
    for taken in range(1, 31):
        if taken % 10 == 1:
            await harbour.do("ANALYZE export_runs, exports, tenants")
        await harbour.claimed()
        query = "SELECT count(*) FROM export_runs WHERE state = 'running'"
        assert await harbour.ask(query) == taken


async def test_tenants_take_turns_and_lakes_are_kept_apart(harbour: Harbour) -> None:
    other = await Harbour.open(harbour.database, bytes(15) + b"\x0f")
    for site, count in ((harbour, 3), (other, 1)):
        await site.topic()
        for number in range(count):
            await site.export(f"export-{number}")
            await site.run(f"export-{number}")
    await other.export("elsewhere", lake="blue")
    await other.run("elsewhere")
    claims = [await harbour.claimed() for _ in range(4)]
    assert [claim.id.tenant_id for claim in claims] == [
        harbour.tenant_id,
        other.tenant_id,
        harbour.tenant_id,
        harbour.tenant_id,
    ]
    assert await harbour.claims_nothing()
    assert await harbour.leases.claimable(["blue", "default"]) == ["blue"]
    assert (await harbour.claimed(lake="blue")).spec.name == "elsewhere"


async def test_nothing_is_done_for_a_tenant_that_is_suspended(harbour: Harbour) -> None:
    await harbour.topic()
    await harbour.export("a")
    await harbour.export("b")
    await harbour.run("a")
    claimed = await harbour.claimed()
    await harbour.run("b")
    tenant = await harbour.world.tenants.get_by_id(harbour.tenant_id)
    suspended = TenantSpec(tenant.name, state="suspended")
    await harbour.world.tenants.update(suspended)
    assert await harbour.claims_nothing()
    assert (await harbour.leases.renew(claimed.id, claimed.lease, 60.0)).cancelled
    await harbour.world.tenants.update(replace(suspended, state="active"))
    assert not (await harbour.leases.renew(claimed.id, claimed.lease, 60.0)).cancelled
    assert (await harbour.claimed()).spec.name == "b"


async def test_attempts_end_and_the_export_says_why(harbour: Harbour) -> None:
    await harbour.topic()
    await harbour.export()
    await harbour.run()
    for attempt in range(1, MAX_ATTEMPTS + 1):
        claimed = await harbour.claimed()
        assert claimed.attempt == attempt
        assert (await harbour.get()).failure is None
        finished = await harbour.fail(claimed)
        assert finished.state == ("queued" if attempt < MAX_ATTEMPTS else "failed")
        assert finished.attempt == attempt
        assert (await harbour.run_of(claimed)).failure == Failure("broken", "it broke")
        await harbour.ready()
    assert await harbour.claim() is None
    assert (await harbour.get()).failure == Failure("broken", "it broke")
    await harbour.run()
    await harbour.succeed(await harbour.claimed())
    assert (await harbour.get()).failure is None


async def test_a_lease_that_is_over_holds_nothing(harbour: Harbour) -> None:
    """The old runner has lost the run, whether another runner has it by then or not."""
    topic = await harbour.topic()
    await harbour.export()
    await harbour.run()
    lost = await harbour.claimed()
    for taken in (False, True):
        await harbour.end_leases()
        if taken:
            assert await harbour.sweeping.expire(lost.id) == "queued"
            await harbour.ready()
            await harbour.claimed()
        for attempt in (
            harbour.leases.held(lost.id, lost.lease),
            harbour.plan(lost, each(topic, 1, 1)),
            harbour.leases.renew(lost.id, lost.lease, 60.0),
            harbour.succeed(lost, rows=1),
        ):
            with pytest.raises(LeaseLost):
                await attempt
        await harbour.leases.release(lost.id, lost.lease)
    run = await harbour.run_of(lost)
    assert (run.state, run.attempt, run.failure) == ("running", 2, LEASE_ENDED)
    assert (await harbour.get()).rows == 0


async def test_an_end_is_heard_once(harbour: Harbour) -> None:
    """A repeated end, sent because the answer was lost, gets the same answer."""
    topic = await harbour.topic()
    await harbour.export()
    await harbour.run()
    claimed = await harbour.claimed()
    await harbour.plan(claimed, each(topic, 5, 5))
    failed = [await harbour.fail(claimed) for _ in range(2)]
    assert failed[0] == failed[1]
    await harbour.ready()
    claimed = await harbour.claimed()
    assert claimed.attempt == 2
    done = [await harbour.succeed(claimed, each(topic, 5, 5), rows=10) for _ in range(3)]
    assert {each_done.state for each_done in done} == {"succeeded"}
    assert (await harbour.get()).rows == 10


async def test_a_claim_that_nobody_heard_of_does_not_count(harbour: Harbour) -> None:
    await harbour.topic()
    await harbour.export()
    await harbour.run()
    for _ in range(3):
        claimed = await harbour.claimed()
        assert claimed.attempt == 1
        await harbour.run()
        await harbour.leases.release(claimed.id, claimed.lease)
        with pytest.raises(LeaseLost):
            await harbour.succeed(claimed)
    assert [run.state for run in await harbour.all_runs()] == ["queued", "queued"]


async def test_leases_that_end_give_their_runs_back_until_no_attempt_is_left(
    harbour: Harbour,
) -> None:
    await harbour.topic()
    await harbour.export()
    await harbour.run()
    for attempt in range(1, MAX_ATTEMPTS + 1):
        claimed = await harbour.claimed()
        assert await harbour.sweeping.expired(10) == []
        assert await harbour.sweeping.expire(claimed.id) is None
        await harbour.end_leases()
        assert await harbour.sweeping.expired(10) == [claimed.id]
        state = await harbour.sweeping.expire(claimed.id)
        assert state == ("queued" if attempt < MAX_ATTEMPTS else "failed")
        assert await harbour.sweeping.expire(claimed.id) is None
        await harbour.ready()
    assert (await harbour.get()).failure == LEASE_ENDED


async def test_a_cancelled_run_ends_where_it_is(harbour: Harbour) -> None:
    await harbour.topic()
    await harbour.export()

    async def cancel(number: int) -> str:
        run = await harbour.runs.cancel(harbour.tenant_id, "lake", number)
        return f"{run.state} {run.cancelling}"

    await harbour.run()
    assert await cancel(1) == "cancelled False"
    assert await cancel(1) == "cancelled False"
    assert await harbour.claim() is None
    # Its runner is told; the commits that it made before it heard count.
    await harbour.run()
    claimed = await harbour.claimed()
    assert await cancel(2) == "running True"
    assert (await harbour.leases.renew(claimed.id, claimed.lease, 60.0)).cancelled
    assert (await harbour.succeed(claimed)).state == "succeeded"
    assert await cancel(2) == "succeeded True"
    # It is not tried again, however it ends.
    await harbour.run()
    claimed = await harbour.claimed()
    await cancel(3)
    assert (await harbour.fail(claimed)).state == "cancelled"
    await harbour.run()
    claimed = await harbour.claimed()
    await cancel(4)
    await harbour.end_leases()
    assert await harbour.sweeping.expire(claimed.id) == "cancelled"
    await harbour.run()
    claimed = await harbour.claimed()
    ended = await harbour.leases.finish(claimed.id, claimed.lease, Ending(CANCELLED))
    assert ended.state == "cancelled"
    assert (await harbour.get()).failure is None
    with pytest.raises(NotFound):
        await cancel(99)


async def test_deletion_takes_the_run_from_its_runner(harbour: Harbour) -> None:
    topic = await harbour.topic()
    await harbour.export()
    await harbour.run()
    claimed = await harbour.claimed()
    await harbour.run()
    running = await harbour.run_of(claimed)
    assert await harbour.exports.delete(harbour.tenant_id, "lake") == running
    for attempt in (
        harbour.leases.held(claimed.id, claimed.lease),
        harbour.plan(claimed, each(topic, 1, 1)),
        harbour.leases.renew(claimed.id, claimed.lease, 60.0),
        harbour.succeed(claimed),
    ):
        with pytest.raises(LeaseLost):
            await attempt
    await harbour.leases.release(claimed.id, claimed.lease)


async def test_of_a_log_the_latest_is_kept(harbour: Harbour) -> None:
    await harbour.topic()
    await harbour.export()
    await harbour.run()
    claimed = await harbour.claimed()
    for text in ("é" * (MAX_LOG_BYTES // 2), "x" * 99, "", "end\n"):
        await harbour.leases.renew(claimed.id, claimed.lease, 60.0, log=text.encode())
    log = await harbour.runs.log(harbour.tenant_id, "lake", 1)
    assert log.endswith("é" + "x" * 99 + "end\n")
    assert MAX_LOG_BYTES - 5 < len(log.encode(errors="ignore")) <= MAX_LOG_BYTES + 2
    with pytest.raises(NotFound):
        await harbour.runs.log(harbour.tenant_id, "lake", 2)


async def test_pages_of_runs_go_back_in_time(harbour: Harbour) -> None:
    await harbour.topic()
    await harbour.export()
    await harbour.export("other")
    for _ in range(5):
        await harbour.run(kind="maintain")
        await harbour.run("other", "maintain")
    numbers, token = [], None
    while True:
        page = await harbour.runs.page(harbour.tenant_id, "lake", page_size=2, page_token=token)
        numbers += [run.number for run in page.items]
        if (token := page.next_token) is None:
            break
    assert numbers == [5, 4, 3, 2, 1]
    for bad in ("?", "LTE=", "w6k="):
        with pytest.raises(BadPageToken):
            await harbour.runs.page(harbour.tenant_id, "lake", page_token=bad)
    for missing in (
        harbour.runs.page(harbour.tenant_id, "none"),
        harbour.runs.get(harbour.tenant_id, "lake", 6),
        harbour.runs.create(harbour.tenant_id, "none"),
    ):
        with pytest.raises(NotFound):
            await missing


async def test_old_runs_go_and_the_latest_stays(harbour: Harbour) -> None:
    await harbour.topic()
    await harbour.export()
    await harbour.do(
        "INSERT INTO export_runs (tenant_id, uid, export_uid, number, kind, trigger, state,"
        " max_attempts, finished_at) SELECT tenant_id, gen_random_uuid(), uid, number, 'export',"
        " 'manual', 'succeeded', 5, now() FROM exports, generate_series(1, $1) AS number",
        KEPT_RUNS + 20,
    )
    await harbour.do("UPDATE exports SET next_number = $1", KEPT_RUNS + 21)
    pruned = [await harbour.sweeping.prune(90 * DAY_S, 15) for _ in range(3)]
    assert pruned == [15, 5, 0]
    runs = await harbour.all_runs()
    assert [runs[0].number, len(runs)] == [21, KEPT_RUNS]
    await harbour.do("UPDATE export_runs SET finished_at = now() - interval '91 days'")
    assert await harbour.sweeping.prune(90 * DAY_S, 1000) == KEPT_RUNS - 1
    assert [run.number for run in await harbour.all_runs()] == [KEPT_RUNS + 20]


async def test_each_run_is_claimed_and_counted_once_whoever_races(harbour: Harbour) -> None:
    topic = await harbour.topic(partitions=1)
    names = [f"export-{number}" for number in range(6)]
    for name in names:
        await harbour.export(name)
        for _ in range(4):
            await harbour.run(name, "maintain")
        await harbour.run(name)
    seen: list[tuple[str, int]] = []
    running: set[str] = set()

    async def work() -> None:
        while (claimed := await harbour.claim()) is not None:
            name = claimed.spec.name
            assert name not in running
            running.add(name)
            await harbour.plan(claimed, each(topic, 3))
            running.remove(name)
            ends = [harbour.succeed(claimed, each(topic, 3), rows=1) for _ in range(2)]
            await asyncio.gather(
                *ends, harbour.leases.renew(claimed.id, claimed.lease, 9.0), return_exceptions=True
            )
            seen.append((name, claimed.number))

    async def until_done() -> None:
        while len(seen) < 5 * len(names):
            await work()
            await asyncio.sleep(0.01)

    async with asyncio.timeout(120):
        await asyncio.gather(*(until_done() for _ in range(8)))
    assert sorted(seen) == [(name, number) for name in names for number in range(1, 6)]
    for name in names:
        assert [number for seen_name, number in seen if seen_name == name] == [1, 2, 3, 4, 5]
        assert (await harbour.get(name)).rows == 1


async def test_numbers_catch_up_with_a_table_that_is_ahead(harbour: Harbour) -> None:
    """A table is ahead if it belongs to another export, or is of a time that Postgres has
    forgotten.

    Its runner takes the run for done.
    """
    topic = await harbour.topic()
    await harbour.export()
    await harbour.run()
    await harbour.fail(await harbour.claimed())
    await harbour.ready()
    # The second attempt of a run finds what the first has committed: nothing is behind.
    await harbour.succeed(await harbour.claimed(), already=True, last_run=1)
    assert [run.number for run in await harbour.all_runs()] == [1]
    await harbour.run()
    claimed = await harbour.claimed()
    await harbour.plan(claimed, each(topic, 5, 5))
    await harbour.succeed(claimed, each(topic, 2, 2), already=True, last_run=57)
    assert [run.number for run in await harbour.all_runs()] == [1, 2, 58]
    claimed = await harbour.claimed()
    ranges = await harbour.plan(claimed, each(topic, 5, 5), each(topic, 2, 2))
    assert [part.start for part in ranges] == [2, 2]
    await harbour.succeed(claimed, each(topic, 5, 5), rows=6)
    # Also where its last number is that of the run, which was not tried before.
    await harbour.run()
    claimed = await harbour.claimed()
    assert claimed.number == 59
    await harbour.succeed(claimed, already=True, last_run=59)
    assert (await harbour.claimed()).number == 60
