"""A tenant is deleted step by step, and any process that finds it half deleted continues."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.tenancy.tenant_deletion import TenantDeletion
from metadata.errors import MetadataUnavailable, NotFound
from metadata.types import Page


@dataclass
class Named:
    name: str
    tenant_id: bytes = b"t" * 16


class Died(BaseException):
    """The process is gone."""


@dataclass
class World:
    """A tenant with topics; `dies_after` counts the steps until the process dies."""

    topics: list[str] = field(default_factory=lambda: [f"t{i}" for i in range(45)])
    queues: set[str] = field(default_factory=lambda: {f"t{i}" for i in range(45)})
    rows: int = 3
    there: bool = True
    dies_after: int = 10**9
    steps: int = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps > self.dies_after:
            raise Died

    async def deleting(self) -> tuple[Any, ...]:
        return (Named("acme"),) if self.there else ()

    async def page(self, tenant_id: bytes, *, page_size: int, page_token: Any = None) -> Page[Any]:
        return Page(tuple(Named(name) for name in self.topics[:page_size]), None)

    async def delete(self, tenant_id: bytes, name: str, if_version: int | None) -> None:
        if name not in self.topics:
            raise NotFound("topic", name)
        self.step()
        self.topics.remove(name)
        self.step()
        self.queues.discard(name)

    async def has_topics(self, tenant_id: bytes) -> bool:
        return bool(self.queues)

    async def purge(self, tenant_id: bytes) -> None:
        assert not self.queues, "rows went before the queues they name"
        while self.rows:
            self.step()
            self.rows -= 1

    async def remove(self, tenant_id: bytes) -> None:
        assert not self.rows
        self.step()
        self.there = False

    def deletion(self) -> TenantDeletion:
        return TenantDeletion(self, self, self)  # type: ignore[arg-type]


async def test_everything_goes() -> None:
    world = World()
    assert await world.deletion().round() == 0
    assert (world.topics, world.queues, world.rows, world.there) == ([], set(), 0, False)


@pytest.mark.parametrize("dies_after", range(0, 95, 7))
async def test_another_process_goes_on_where_one_died(dies_after: int) -> None:
    world = World(dies_after=dies_after)
    with pytest.raises(Died):
        await world.deletion().round()
    # The repair of topics does this with a topic that is half deleted.
    world.queues &= set(world.topics)
    world.dies_after = 10**9
    assert await world.deletion().round() == 0
    assert not world.there


async def test_queues_that_cannot_go_now_keep_the_tenant() -> None:
    world = World(topics=[], queues={"t0"})
    assert await world.deletion().round() == 1
    assert world.there
    assert world.rows == 3


async def test_two_processes_do_it_together() -> None:
    world = World()

    async def slowly(tenant_id: bytes, name: str, if_version: int | None) -> None:
        await asyncio.sleep(0)
        await World.delete(world, tenant_id, name, if_version)

    world.delete = slowly  # type: ignore[method-assign]
    await asyncio.gather(world.deletion().round(), world.deletion().round())
    assert not world.there


async def test_it_goes_on_once_postgres_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.tenancy.tenant_deletion.AGAIN_S", 0.001)
    world, failures = World(), [MetadataUnavailable("down")]
    deleting = world.deleting
    gone = asyncio.Event()

    async def failing() -> tuple[Any, ...]:
        if failures:
            raise failures.pop()
        found = await deleting()
        if not found:
            gone.set()
        return found

    world.deleting = failing  # type: ignore[method-assign]
    deletion = world.deletion()
    task = asyncio.create_task(deletion.run())
    async with asyncio.timeout(10):
        while not gone.is_set():
            deletion.wake()
            await asyncio.sleep(0)
    task.cancel()
    assert not world.there
