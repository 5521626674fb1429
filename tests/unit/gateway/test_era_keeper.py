"""The witness: who moves it, how often, and what its movements tell the others."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from gateway.recovery import keeper as module
from gateway.recovery.keeper import FAST_BYTES, FAST_S, SLOW_S, EraKeeper, witness
from gateway.recovery.rebuild import Report
from metadata.database import Database
from metadata.eras import HistoryCheck, Position
from metadata.errors import MetadataUnavailable
from metadata.settings import DatabaseSettings
from store_nodes.errors import Conflict, OutcomeUnknown, Unavailable


def at(wal_bytes: int, era: int = 0) -> Position:
    return Position("one", 1, wal_bytes, era, "one", 1)


class Counters:
    """The counters of group 0."""

    groups = (0,)

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.writes = 0

    async def counter(self, group: int, name: str) -> int:
        return self.values.get(name, 0)

    async def compare_and_set(
        self, group: int, name: str, expected: int, new: int, *, timeout_s: float = 5
    ) -> int:
        current = self.values.get(name, 0)
        if current != expected:
            raise Conflict(current)
        self.values[name] = new
        self.writes += 1
        return new

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def keeper(store: Counters, seen: Position) -> tuple[EraKeeper, HistoryCheck]:
    history = HistoryCheck()
    history.confirm(seen)
    return EraKeeper(DatabaseSettings(url="postgresql://nowhere"), store, history), history


async def test_a_log_that_grows_fast_is_witnessed_each_second() -> None:
    store = Counters()
    one, history = keeper(store, at(10 * FAST_BYTES))
    assert await one._turn() == FAST_S
    history.confirm(at(10 * FAST_BYTES + 100))
    assert await one._turn() == SLOW_S
    assert store.values == {witness(0): 10 * FAST_BYTES + 100}


async def test_nothing_is_written_where_nothing_changed() -> None:
    store = Counters()
    one, _ = keeper(store, at(100))
    for _ in range(3):
        assert await one._turn() == SLOW_S
    assert store.writes == 1


async def test_one_of_many_moves_it() -> None:
    store = Counters()
    one, of_one = keeper(store, at(100))
    other, of_other = keeper(store, at(100))
    assert await one._turn() == SLOW_S
    assert await other._turn() >= SLOW_S
    of_one.confirm(at(200))
    of_other.confirm(at(200))
    await one._turn()
    assert await other._turn() >= SLOW_S, "it finds it moved, and waits longer"
    assert (store.values[witness(0)], store.writes) == (200, 2)


async def test_who_moved_it_without_being_told_goes_on_moving_it() -> None:
    """The process took itself for another one, and the witness stood still for up to twice
    its time.
    """
    store = Counters()
    one, history = keeper(store, at(100))
    move = store.compare_and_set

    async def lost(*args: Any) -> int:
        await move(*args)
        raise OutcomeUnknown("the leader was lost")

    store.compare_and_set = lost  # type: ignore[method-assign, assignment]
    with pytest.raises(OutcomeUnknown):
        await one._turn()
    store.compare_and_set = move  # type: ignore[method-assign]
    history.confirm(at(200))
    assert await one._turn() < SLOW_S
    assert await one._turn() == SLOW_S
    assert store.values == {witness(0): 200}


async def test_a_witness_that_is_gone_means_that_another_era_began() -> None:
    store = Counters()
    one, history = keeper(store, at(100))
    await one._turn()
    store.values.clear()
    history.confirm(at(200))
    await one._turn()
    assert history.doubted.is_set()


async def test_leases_of_before_run_out_before_anybody_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that has not noticed yet may hand out until then, by its own clock."""
    store, entered_s = Counters(), 0.0
    one, _ = keeper(store, at(100))

    async def rebuild(connection: object) -> Report:
        return Report()

    async def enter(connection: object, era: int, *_: object) -> Position:
        nonlocal entered_s
        entered_s = time.monotonic()
        return at(100, era)

    monkeypatch.setattr(module, "LEASE_S", 0.2)
    monkeypatch.setattr(one, "_rebuild", rebuild)
    monkeypatch.setattr(module.eras, "enter", enter)
    noticed_s = time.monotonic()
    assert (await one._repair(None, 0, "restored")).era == 1
    assert entered_s >= noticed_s + 0.2
    assert (store.values[module.ERA], store.values[module.USED]) == (1, 1)


@pytest.mark.parametrize("noticed_by", ["connection", "comparison"])
async def test_a_log_that_grows_past_where_it_was_before_it_is_judged_again_is_repaired(
    monkeypatch: pytest.MonkeyPatch, noticed_by: str
) -> None:
    """Other processes had not noticed and wrote on; the process looked again, and all seemed
    well.
    """
    store = Counters()
    store.values[witness(0)] = 90
    one, history = keeper(store, at(100))
    sizes = iter([80, 110, 120] if noticed_by == "connection" else [80, 110])
    repaired: list[str] = []

    async def observe(_: object) -> Position:
        return at(next(sizes))

    async def alone(_: object) -> bool:
        return True

    async def repair(_: object, store_era: int, reason: str) -> Position:
        repaired.append(reason)
        return at(150, store_era + 1)

    @contextlib.asynccontextmanager
    async def connection() -> AsyncIterator[object]:
        yield object()

    monkeypatch.setattr(module.eras, "observe", observe)
    monkeypatch.setattr(module.eras, "alone", alone)
    monkeypatch.setattr(one, "_connection", connection)
    monkeypatch.setattr(one, "_repair", repair)
    if noticed_by == "connection":
        with pytest.raises(MetadataUnavailable):
            await history.check(object())
    await one._compare()
    assert len(repaired) == 1
    assert history.suspicion is None
    assert history.lacks(at(160, 1), None) is None


async def test_a_store_that_is_away_is_not_asked_without_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Counters()
    one, history = keeper(store, at(100))
    turns = 0

    async def fail() -> float:
        nonlocal turns
        turns += 1
        raise Unavailable("no leader")

    monkeypatch.setattr(one, "_turn", fail)
    history.doubted.set()
    task = asyncio.create_task(one.run())
    await asyncio.sleep(0.3)
    task.cancel()
    assert turns <= 3


async def test_readiness_says_how_far_a_repair_is(monkeypatch: pytest.MonkeyPatch) -> None:
    one, history = keeper(Counters(), at(0))
    history.suspicion = "it may have gone back in time"
    said: list[str | None] = []

    class Repair:
        progress = "3 of 9 topics are repaired"

        def __init__(self, *_: object) -> None:
            pass

        async def run(self) -> Report:
            said.append(one.not_ready_reason())
            return Report()

    class Server:
        def get_server_pid(self) -> int:
            return 1

    monkeypatch.setattr(module, "Rebuild", Repair)
    await one._rebuild(Server())
    assert said == ["it may have gone back in time; 3 of 9 topics are repaired"]
    assert one.not_ready_reason() == "it may have gone back in time"


async def test_a_repair_ends_once_its_turn_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair did not end while it waited ten minutes for a statement that nobody answered.

    It waited as long again for the statement to end before it closed its connections.
    """
    one, _ = keeper(Counters(), at(0))
    sent = asyncio.Event()

    class Repair:
        progress = "reading Postgres"

        def __init__(self, database: Database, *_: object) -> None:
            self._database = database

        async def run(self) -> Report:
            await self._database.statement(self._statement, writes=False)
            raise AssertionError

        async def _statement(self, _: object) -> None:
            sent.set()
            await asyncio.Event().wait()

    class Server:
        def get_server_pid(self) -> int:
            return 1

        async def execute(self, _: str) -> None:
            await sent.wait()
            raise asyncpg.ConnectionDoesNotExistError("connection was closed")

    async def with_connection(_: Database, use: Callable[[object], Awaitable[object]]) -> object:
        return await use(object())

    monkeypatch.setattr(module, "Rebuild", Repair)
    monkeypatch.setattr(Database, "_with_free_connection", with_connection)
    monkeypatch.setattr(module.eras, "REPAIR_IDLE_S", 0.01)
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await asyncio.wait_for(one._rebuild(Server()), 2)
    assert one.not_ready_reason() is None
