"""Look-ups of names: who waits for whom. The system is a function that answers when told to."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import defaultdict
from collections.abc import AsyncIterator

import pytest
from aiohttp.abc import ResolveResult

from edge.egress import resolver as resolver_module
from edge.egress.resolver import Question, SystemResolver, asking

PATIENCE_S = 20.0


class System:
    """Names answer at once, but for those of `hangs`, which do when `let_go` is set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.hangs: set[str] = set()
        self.failing: dict[str, int] = {}
        self.let_go = threading.Event()
        self.at_work: defaultdict[str, int] = defaultdict(int)
        self.most = 0
        self._lock = threading.Lock()

    def ask(self, question: Question) -> list[ResolveResult]:
        host = question.host
        with self._lock:
            self.asked.append(host)
            self.at_work["all"] += 1
            self.most = max(self.most, self.at_work["all"])
        try:
            if host in self.hangs:
                assert self.let_go.wait(PATIENCE_S)
            if host in self.failing:
                raise socket.gaierror(self.failing[host], "no")
        finally:
            with self._lock:
                self.at_work["all"] -= 1
        return [
            ResolveResult(hostname=host, host=address, port=1, family=2, proto=6, flags=0)
            for address in ("192.0.2.1", "192.0.2.2")
        ]


@pytest.fixture
async def system() -> AsyncIterator[System]:
    made = System()
    yield made
    made.let_go.set()


def resolver_of(system: System, **options: float) -> SystemResolver:
    return SystemResolver(system.ask, **({"threads": 4, "threads_of_one": 2} | options))  # type: ignore[arg-type]


async def ask(resolver: SystemResolver, host: str, asker: str = "one") -> list[str]:
    with asking(asker):
        found = await asyncio.wait_for(resolver.resolve(host, 1), PATIENCE_S)
    return [one["host"] for one in found]


async def test_who_asks_for_names_that_hang_waits_alone(system: System) -> None:
    resolver = resolver_of(system)
    system.hangs = {f"hangs-{n}" for n in range(50)}
    waiting = [asyncio.create_task(ask(resolver, host)) for host in system.hangs]
    mine = asyncio.create_task(ask(resolver, "fine"))
    assert await ask(resolver, "fine", "other") == ["192.0.2.1", "192.0.2.2"]
    assert not mine.done()
    assert system.most <= 3
    system.let_go.set()
    await asyncio.gather(mine, *waiting)
    await resolver.close()


async def test_who_gives_up_has_its_thread_until_the_system_answers(system: System) -> None:
    resolver = resolver_of(system)
    system.hangs = {"hangs"}
    for _ in range(6):
        waiting = asyncio.create_task(ask(resolver, "hangs"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert await ask(resolver, "fine", "other")
    assert system.asked.count("hangs") <= 2
    system.let_go.set()
    assert await ask(resolver, "fine-too")
    await resolver.close()


async def test_a_name_that_was_known_is_used_where_it_takes_long_and_is_asked_again(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver_module, "FRESH_S", 0.0)
    resolver = resolver_of(system, slow_s=0.01)
    first = await ask(resolver, "name")
    system.hangs = {"name"}
    assert sorted(await ask(resolver, "name")) == sorted(first)
    system.failing = {"name": socket.EAI_AGAIN}
    system.let_go.set()
    assert sorted(await ask(resolver, "name")) == sorted(first)
    assert system.asked == ["name"] * 3
    monkeypatch.setattr(resolver_module, "KNOWN_S", 0.0)
    with pytest.raises(socket.gaierror):
        await ask(resolver, "name")
    await resolver.close()


async def test_a_name_that_is_gone_is_gone(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver_module, "FRESH_S", 0.0)
    resolver = resolver_of(system)
    await ask(resolver, "name")
    system.failing = {"name": socket.EAI_NONAME}
    with pytest.raises(socket.gaierror):
        await ask(resolver, "name")
    await resolver.close()


async def test_what_is_fresh_is_not_asked_again_and_addresses_take_turns(system: System) -> None:
    resolver = resolver_of(system)
    found = [await ask(resolver, "name", asker) for asker in ("one", "other", "third")]
    assert system.asked == ["name"]
    assert {one[0] for one in found} == {"192.0.2.1", "192.0.2.2"}
    await resolver.close()


async def test_closed_it_resolves_nothing(system: System) -> None:
    resolver = resolver_of(system)
    await resolver.close()
    with pytest.raises(OSError, match="shutdown"):
        await ask(resolver, "name")


async def test_the_systems_own() -> None:
    resolver = SystemResolver()
    assert "127.0.0.1" in await ask(resolver, "127.0.0.1")
    with pytest.raises(socket.gaierror):
        await ask(resolver, "name.invalid")
    await resolver.close()
