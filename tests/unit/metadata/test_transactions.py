"""A raw transaction tells the error that ended it, whatever becomes of its connection."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from metadata import database as module
from metadata.database import Database
from metadata.errors import LeaseLost
from metadata.settings import DatabaseSettings


class Pooled:
    """A pool of asyncpg and its connection in one, which the pool takes back once it is lost."""

    def __init__(self, *, answers: bool = True) -> None:
        self.answers = answers
        self.lost = False
        self.did: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name in ("is_closed", "terminate") and self.lost:
            raise asyncpg.InterfaceError(f"cannot call Connection.{name}(): released to the pool")
        return super().__getattribute__(name)

    async def acquire(self, **_: object) -> Pooled:
        return self

    async def release(self, *_: object, **__: object) -> None:
        self.did.append("release")

    def become(self, statements: str) -> None:
        pass

    def is_closed(self) -> bool:
        return False

    def terminate(self) -> None:
        self.did.append("terminate")

    def transaction(self) -> Pooled:
        return self

    async def start(self) -> None:
        self.did.append("begin")

    async def rollback(self) -> None:
        self.did.append("rollback")
        if self.lost:
            raise asyncpg.InterfaceError("cannot perform operation: connection is closed")
        if not self.answers:
            await asyncio.Event().wait()


async def failed(pooled: Pooled, *, lost: bool) -> None:
    """Run a transaction whose work finds out that it may not continue."""
    database = Database(DatabaseSettings(url="postgresql://nowhere"))
    database._pool = pooled

    async def work(connection: Pooled) -> None:
        connection.lost = lost
        raise LeaseLost("another leads")

    with pytest.raises(LeaseLost, match="another leads"):
        await asyncio.wait_for(database.transaction(work), 3)


async def test_a_lost_connection_does_not_hide_why_the_transaction_failed() -> None:
    """The pool has the connection back by then, and refused to say whether it is closed."""
    pooled = Pooled()
    await failed(pooled, lost=True)
    assert pooled.did == ["begin", "rollback", "release"]


async def test_a_failed_transaction_is_rolled_back() -> None:
    pooled = Pooled()
    await failed(pooled, lost=False)
    assert pooled.did == ["begin", "rollback", "release"]


async def test_a_rollback_that_nobody_answers_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_CLEAN_UP_S", 0.01)
    pooled = Pooled(answers=False)
    await failed(pooled, lost=False)
    assert pooled.did == ["begin", "rollback", "terminate", "release"]
