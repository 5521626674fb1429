"""Runners, schedulers, tenants and time at once, each with connections of its own."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress

from metadata.errors import LeaseLost, NotFound
from metadata.exports.exports import ExportRepository
from metadata.exports.notices import notifier
from metadata.exports.types import FAILED, SUCCEEDED, ClaimedRun, Ending, LanePosition, RunResult
from metadata.types import Topic
from scheduler.export_keeper import ExportKeeper
from scheduler.sizes import Sizes
from scheduler.topic_map import TopicMap
from tests.integration.exports.conftest import OpenHarbour
from tests.integration.exports.export_support import Harbour, each, lanes
from tests.unit.scheduler.scheduler_support import FakeStore

DEADLINE_S = 180
MESSAGES = 60
NAMES = ("a", "b", "c")


class Lake:
    """Tables as a catalog has them: rows and positions change together, and runs go up."""

    def __init__(self) -> None:
        self.positions: dict[str, dict[object, int]] = {name: {} for name in NAMES}
        self.last_run = dict.fromkeys(NAMES, 0)
        self.rows: Counter[tuple[str, object, int]] = Counter()

    def commit(self, claimed: ClaimedRun, ranges: tuple[object, ...]) -> bool:
        """Return False if another run has superseded this one."""
        name, positions = claimed.spec.name, self.positions[claimed.spec.name]
        if self.last_run[name] >= claimed.number:
            return True
        for lane, start, _, position in ranges:  # type: ignore[misc]
            if positions.get(lane, start) != (start if position is None else position):
                return False
        for lane, start, end, _ in ranges:  # type: ignore[misc]
            positions[lane] = end
            self.rows.update((name, lane, offset) for offset in range(start, end))
        if ranges:
            self.last_run[name] = claimed.number
        return True


class Runner:
    """Does runs as they come, and now and then dies, stalls past its lease, or fails."""

    def __init__(self, harbour: Harbour, lake: Lake, topic: Topic, seed: int) -> None:
        self.harbour = harbour
        self.lake = lake
        self.topic = topic
        self.random = random.Random(seed)
        self.calm = False
        self.over = False

    async def run(self) -> None:
        while not self.over:
            claimed = await self.harbour.claim(lease_s=0.4 if not self.calm else 30.0)
            if claimed is None:
                await asyncio.sleep(0.02)
                continue
            with suppress(LeaseLost):
                await self._do(claimed)

    async def _do(self, claimed: ClaimedRun) -> None:
        positions = self.lake.positions[claimed.spec.name]
        ends = each(self.topic, MESSAGES, MESSAGES)
        ranges = await self.harbour.plan(claimed, ends, dict(positions), most=20)  # type: ignore[arg-type]
        await self._trouble()
        if not self.lake.commit(claimed, ranges):
            ending = Ending(FAILED, retry=True)
            await self.harbour.leases.finish(claimed.id, claimed.lease, ending)
            return
        if await self._trouble():
            return
        reached = [LanePosition(lane, at) for lane, at in positions.items()]  # type: ignore[arg-type]
        ending = Ending(SUCCEEDED, RunResult(), reached)
        await self.harbour.leases.finish(claimed.id, claimed.lease, ending)

    async def _trouble(self) -> bool:
        """Return True if the runner dies."""
        if self.calm:
            return False
        chance = self.random.random()
        if chance < 0.15:
            await asyncio.sleep(0.6)
        return chance > 0.9


async def test_every_message_is_in_its_tables_once_whoever_dies_or_stalls(
    open_harbour: OpenHarbour,
) -> None:
    """Zombies commit late, leases end, ticks come, tenants cancel and ask for runs; then it is
    calm, and all is there."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    sites = [await open_harbour() for _ in range(3)]
    first, lake = sites[0], Lake()
    topic = await first.topic()
    for name in NAMES:
        await first.export(name, cron="* * * * *")
    keepers = [_keeper(site) for site in sites[:2]]
    runners = [Runner(site, lake, topic, seed + at) for at, site in enumerate(sites * 2)]
    chance = random.Random(seed)
    async with asyncio.TaskGroup() as tasks:
        owned = [tasks.create_task(keeper.run()) for keeper in keepers]
        working = [tasks.create_task(runner.run()) for runner in runners]
        for _ in range(60):
            name = chance.choice(NAMES)
            await first.do("UPDATE exports SET next_at = clock_timestamp() WHERE name = $1", name)
            with suppress(NotFound):
                match chance.randrange(4):
                    case 0:
                        run = await first.run(name)
                        await first.runs.cancel(first.tenant_id, name, run.number)
                    case 1:
                        await first.run(name, "maintain")
                    case _:
                        await first.ready()
            await asyncio.sleep(0.03)
        for runner in runners:
            runner.calm = True
        async with asyncio.timeout(DEADLINE_S):
            while not await _all_there(first, lake):
                await first.ready()
                for name in NAMES:
                    await first.run(name)
                await asyncio.sleep(0.05)
        for runner in runners:
            runner.over = True
        await asyncio.gather(*working)
        for task in owned:
            task.cancel()
    assert set(lake.rows.values()) == {1}
    assert len(lake.rows) == len(NAMES) * 2 * MESSAGES
    for name in NAMES:
        numbers = [run.number for run in await first.all_runs(name)]
        assert numbers == list(range(1, len(numbers) + 1))


async def _all_there(harbour: Harbour, lake: Lake) -> bool:
    exports = [await harbour.get(name) for name in NAMES]
    return all(
        [state.offset for state in export.positions] == [MESSAGES, MESSAGES]
        and list(lake.positions[export.name].values()) == [MESSAGES, MESSAGES]
        for export in exports
    )


def _keeper(harbour: Harbour) -> ExportKeeper:
    return ExportKeeper(
        harbour.database, TopicMap(harbour.retention), Sizes(FakeStore(), 5.0), every_s=0.05
    )


async def test_a_look_ends_leases_that_are_over(harbour: Harbour) -> None:
    await harbour.topic()
    await harbour.export()
    await harbour.run()
    claimed = await harbour.claimed()
    keeper = _keeper(harbour)
    await keeper.look()
    assert [run.state for run in await harbour.all_runs()] == ["running"]
    await harbour.end_leases()
    await keeper.look()
    assert await harbour.sweeping.expire(claimed.id) is None
    assert [run.state for run in await harbour.all_runs()] == ["queued"]


async def test_a_look_makes_the_runs_of_ticks_of_both_kinds(harbour: Harbour) -> None:
    await harbour.topic()
    await harbour.export()
    keeper = _keeper(harbour)
    for tick in ("cron = '* * * * *', next_at", "maintain_cron = '* * * * *', maintain_next_at"):
        before = len(await harbour.all_runs())
        await keeper.look()
        assert len(await harbour.all_runs()) == before
        await harbour.do(f"UPDATE exports SET {tick} = clock_timestamp()")
        await keeper.look()
        assert len(await harbour.all_runs()) == before + 1


async def test_deletion_among_runs_leaves_nothing_behind(open_harbour: OpenHarbour) -> None:
    """Locks are taken in one order: nothing here ends by a deadlock."""
    sites = [await open_harbour() for _ in range(3)]
    first = sites[0]
    topic = await first.topic()
    over = asyncio.Event()

    async def run_them(site: Harbour) -> None:
        while not over.is_set():
            claimed = await site.claim()
            if claimed is None:
                await asyncio.sleep(0.005)
                continue
            with suppress(LeaseLost):
                await site.plan(claimed, each(topic, 5, 5))
                await site.leases.renew(claimed.id, claimed.lease, 60.0, log=b"x")
                await site.succeed(claimed, each(topic, 5, 5), rows=10)

    async def note_ends(site: Harbour) -> None:
        end = 5
        while not over.is_set():
            end += 1
            keys = await site.sweeping.lanes()
            await site.sweeping.note_ends([(key, end) for key in keys])
            await site.sweeping.prune(0.0, 10)
            await asyncio.sleep(0.005)

    async with asyncio.TaskGroup() as tasks:
        for site in sites:
            tasks.create_task(run_them(site))
        tasks.create_task(note_ends(first))
        for _ in range(25):
            await first.export("lake")
            for kind in ("export", "maintain", "export"):
                await first.run("lake", kind)
            await asyncio.sleep(0.02)
            await ExportRepository(first.database).delete(first.tenant_id, "lake")
        over.set()
    for table in ("exports", "export_runs", "export_positions", "pins"):
        assert await first.ask(f"SELECT count(*) FROM {table}") == 0


async def test_who_waits_for_runs_hears_of_them(open_harbour: OpenHarbour) -> None:
    harbour, other = await open_harbour(), await open_harbour()
    await harbour.topic()
    heard: asyncio.Queue[str] = asyncio.Queue()
    connected = asyncio.Event()
    listening = asyncio.create_task(notifier(other.database, heard.put_nowait, connected.set).run())
    async with asyncio.timeout(DEADLINE_S):
        await connected.wait()
        for name, lake in (("a", "default"), ("b", "blue")):
            await harbour.export(name, lake=lake)
            await harbour.run(name, "maintain")
            assert await heard.get() == lake
        # And where one ends, for another may wait behind it.
        await harbour.run("b")
        assert await heard.get() == "blue"
        await harbour.succeed(await harbour.claimed(lake="blue"))
        assert await heard.get() == "blue"
        claimed = await harbour.claimed(lake="blue")
        await harbour.end_leases()
        await harbour.sweeping.expire(claimed.id)
        assert await heard.get() == "blue"
        await harbour.ready()
        claimed = await harbour.claimed(lake="blue")
        await harbour.leases.release(claimed.id, claimed.lease)
        assert await heard.get() == "blue"
        await harbour.runs.cancel(harbour.tenant_id, "b", claimed.number)
        assert await heard.get() == "blue"
        await harbour.do("UPDATE exports SET cron = '* * * * *', next_at = clock_timestamp()")
        await harbour.ticks.round()
        assert {await heard.get(), await heard.get()} == {"default", "blue"}
    listening.cancel()


async def test_how_much_there_is_to_do_is_known(harbour: Harbour) -> None:
    topic = await harbour.topic()
    await harbour.export()
    await harbour.export("other")
    await harbour.run()
    await harbour.run(kind="maintain")
    load = await harbour.sweeping.load()
    assert (load.queued, load.running, load.lag) == (2, 0, 0)
    claimed = await harbour.claimed()
    await harbour.plan(claimed, each(topic, 10, 4))
    load = await harbour.sweeping.load()
    assert (load.queued, load.running, load.lag) == (1, 1, 14)
    keys = await harbour.sweeping.lanes()
    assert {(key.partition, key.lane) for key in keys} == {(0, 0), (1, 0)}
    await harbour.sweeping.note_ends((key, 20) for key in keys)
    await harbour.sweeping.note_ends((key, 3) for key in keys)
    assert (await harbour.sweeping.load()).lag == 80
    assert (await harbour.get()).lag_messages == 40
    assert [state.end for state in (await harbour.get("other")).positions] == [20, 20]
    assert lanes(topic) == [state.lane for state in (await harbour.get()).positions]
