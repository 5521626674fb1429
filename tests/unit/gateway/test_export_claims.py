"""Claims of runs that wait, over a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from edge.shares import TooManyWaiting
from gateway.exports import waits
from gateway.exports.waits import RunClaims, Runner
from metadata.errors import MetadataUnavailable
from metadata.exports.types import EXPORT, ClaimedRun, ExportSpec, RunId

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Store:
    """The part of `ExportLeaseRepository` that the line uses; runs are numbers, by lake."""

    def __init__(self) -> None:
        self.queued: dict[str, list[int]] = {}
        self.claims = 0
        self.looks: list[tuple[str, ...]] = []
        self.released: list[int] = []
        self.broken = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def claim(self, lakes: tuple[str, ...], runner: str, lease_s: float) -> ClaimedRun | None:
        self.claims += 1
        await self.gate.wait()
        if self.broken:
            raise MetadataUnavailable("away")
        for lake in lakes:
            if self.queued.get(lake):
                number = self.queued[lake].pop(0)
                run_id = RunId(bytes(16), number.to_bytes(16))
                spec = ExportSpec(name="e", topic="t", table="e", lake=lake)
                lease = number.to_bytes(16)
                return ClaimedRun(run_id, lease, NOW, "acme", spec, number, EXPORT, 1, None)
        return None

    async def claimable(self, lakes: Sequence[str]) -> list[str]:
        self.looks.append(tuple(lakes))
        return [lake for lake in lakes if self.queued.get(lake)]

    async def release(self, run_id: RunId, lease: bytes) -> None:
        self.released.append(int.from_bytes(lease))


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def line(store: Any) -> RunClaims:
    return RunClaims(store)


async def claim(line: RunClaims, lakes: Sequence[str], wait_s: float) -> ClaimedRun | None:
    return await line.claim(tuple(lakes), "me", Runner("me", 30.0), wait_s)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def number(run: ClaimedRun | None) -> int:
    assert run is not None
    return run.number


async def test_what_there_is_comes_at_once(line: RunClaims, store: Store) -> None:
    store.queued["b"] = [7]
    assert number(await claim(line, ["a", "b"], 0)) == 7
    assert await claim(line, ["a", "b"], 0) is None


async def test_who_waits_gets_what_comes_in_the_order_of_coming(
    line: RunClaims, store: Store
) -> None:
    waiting = [asyncio.create_task(claim(line, ["a"], 60.0)) for _ in range(3)]
    await turns()
    tried = store.claims
    store.queued["a"] = [1, 2]
    line.runs_wait("a")
    await turns()
    assert [number(task.result()) for task in waiting[:2]] == [1, 2]
    assert not waiting[2].done()
    assert store.claims == tried + 3, "one try in vain, however many wait"
    line.waits.drain()
    assert await waiting[2] is None
    await line.waits.close()


async def test_a_look_costs_one_statement_for_all_who_want_the_same(
    line: RunClaims, store: Store
) -> None:
    waiting = [asyncio.create_task(claim(line, ["a", "b"], 60.0)) for _ in range(5)]
    waiting.append(asyncio.create_task(claim(line, ["c"], 60.0)))
    await turns()
    tried = store.claims
    line.notice()
    await turns()
    assert store.claims == tried + 2
    line.runs_wait("elsewhere")
    await turns()
    assert store.claims == tried + 2
    line.waits.drain()
    assert await asyncio.gather(*waiting) == [None] * 6


async def test_a_look_wakes_the_claims_that_may_find_a_run(line: RunClaims, store: Store) -> None:
    await line.look()
    assert store.looks == [], "nobody waits"
    waiting = [asyncio.create_task(claim(line, lakes, 60.0)) for lakes in (["b", "a"], ["c"])]
    await turns()
    tried = store.claims
    await line.look()
    await turns()
    assert store.claims == tried
    store.queued["a"] = [1]
    await line.look()
    assert number(await waiting[0]) == 1
    assert store.claims == tried + 1
    assert store.looks == [("a", "b", "c")] * 2
    line.waits.drain()
    assert await waiting[1] is None


async def test_a_ring_between_the_first_try_and_the_wait_is_heard(
    line: RunClaims, store: Store
) -> None:
    store.gate.clear()
    waiting = asyncio.create_task(claim(line, ["a"], 60.0))
    await turns()
    line.runs_wait("a")
    store.gate.set()
    await turns(1)
    store.queued["a"] = [1]
    assert number(await waiting) == 1


async def test_who_goes_away_while_it_tries_leaves_nothing_claimed(
    line: RunClaims, store: Store
) -> None:
    store.queued["a"] = [1]
    store.gate.clear()
    trying = asyncio.create_task(claim(line, ["a"], 60.0))
    await turns()
    trying.cancel()
    await asyncio.gather(trying, return_exceptions=True)
    store.gate.set()
    await line.waits.close()
    assert store.released == [1]


async def test_who_goes_away_while_it_waits_leaves_nothing_claimed(
    line: RunClaims, store: Store
) -> None:
    waiting = asyncio.create_task(claim(line, ["a"], 60.0))
    await turns()
    store.queued["a"] = [1]
    store.gate.clear()
    line.runs_wait("a")
    await turns()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    store.gate.set()
    await turns()
    await line.waits.close()
    assert store.released == [1]


async def test_a_wait_that_ends_takes_what_its_try_gives(line: RunClaims, store: Store) -> None:
    waiting = asyncio.create_task(claim(line, ["a"], 0.01))
    await turns()
    store.queued["a"] = [1]
    store.gate.clear()
    line.runs_wait("a")
    await asyncio.sleep(0.05)
    assert not waiting.done()
    store.gate.set()
    assert number(await waiting) == 1
    assert store.released == []


async def test_a_wait_that_ends_gets_none(line: RunClaims) -> None:
    assert await claim(line, ["a"], 0.01) is None


async def test_a_try_in_vain_does_not_end_the_wait(line: RunClaims, store: Store) -> None:
    waiting = asyncio.create_task(claim(line, ["a"], 60.0))
    await turns()
    store.broken = True
    line.notice()
    await turns()
    assert not waiting.done()
    store.broken, store.queued["a"] = False, [1]
    line.notice()
    assert number(await waiting) == 1


async def test_there_is_an_end_to_who_may_wait(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "MAX_WAITING", 1)
    line = RunClaims(store)
    waiting = asyncio.create_task(claim(line, ["a"], 60.0))
    await turns()
    with pytest.raises(TooManyWaiting):
        await claim(line, ["a"], 60.0)
    line.waits.drain()
    assert await waiting is None
    assert await claim(line, ["a"], 60.0) is None, "nobody waits in a process that stops"
