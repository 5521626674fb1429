"""Locks against a model: any order of acquires, renewals, ends of leases, deletes and sweeps."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from metadata.database import Connection, Database
from metadata.errors import LeaseLost, NotFound
from metadata.ids import new_uid
from metadata.locks.catalog import LockCatalog
from metadata.locks.locks import Claim, Held, Lock, LockRepository
from metadata.settings import DatabaseSettings

T = TypeVar("T")
NAMES = st.sampled_from(["a", "b"])
WHO = st.sampled_from(["ann", "bob", "eve"])
TTL_S = 3600.0


@dataclass
class Model:
    """The expected state of one lock: its holder, the holder's request, and the highest
    fence ever.
    """

    lock: Lock | None = None
    request_id: str | None = None
    fence: int = 0
    old: list[Lock] = field(default_factory=list)
    known: bool = False

    def end(self) -> None:
        if self.lock is not None:
            self.old.append(self.lock)
        self.lock = self.request_id = None


class LockMachine(RuleBasedStateMachine):
    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.models = {"a": Model(), "b": Model()}
        self.fences: list[int] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.run(self.database.close())
        self.runner.close()

    @initialize()
    def open(self) -> None:
        self.tenant_id = new_uid()
        self.database = Database(DatabaseSettings(self.url, data_connections=1))
        self.run(self.database.connect())
        self.locks, self.catalog = LockRepository(self.database), LockCatalog(self.database)

    def execute(self, statement: str, *arguments: object) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(statement, *arguments)

        self.run(self.database.statement(work, writes=True))

    @rule(name=NAMES, who=WHO, again=st.booleans())
    def acquire(self, name: str, who: str, again: bool) -> None:
        model = self.models[name]
        request_id = model.request_id if again and model.request_id else new_uid().hex()
        claim = Claim(self.tenant_id, name, new_uid(), TTL_S, who, request_id)
        got = self.run(self.locks.acquire(claim))
        model.known = True
        if model.lock is not None and request_id != model.request_id:
            assert isinstance(got, Held)
            assert got.holder == model.lock.holder
            assert 0 < got.free_in_s <= TTL_S
            return
        assert isinstance(got, Lock)
        if model.lock is not None:
            assert (got.owner, got.fence) == (model.lock.owner, model.lock.fence)
        else:
            assert got.fence > model.fence
        model.lock, model.request_id, model.fence = got, request_id, got.fence

    @rule(name=NAMES)
    def renew(self, name: str) -> None:
        lock = self.models[name].lock
        if lock is not None:
            assert self.run(self.locks.renew(lock)).fence == lock.fence
            renewed = self.run(self.locks.renew_holding(self.tenant_id, name, lock.owner, None))
            assert (renewed.fence, renewed.ttl_s) == (lock.fence, TTL_S)

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        model = self.models[name]
        if model.lock is not None:
            self.run(self.locks.release_holding(self.tenant_id, name, model.lock.owner))
            model.end()

    @rule(name=NAMES, data=st.data())
    def an_old_holder_has_no_say(self, name: str, data: st.DataObject) -> None:
        model = self.models[name]
        if model.old:
            lock = data.draw(st.sampled_from(model.old))
            with pytest.raises(LeaseLost):
                self.run(self.locks.renew(lock))
            self.run(self.locks.release(lock))
            self.run(self.locks.undo(lock))

    @rule(name=NAMES)
    def its_lease_ends(self, name: str) -> None:
        self.execute(
            "UPDATE locks SET lease_until = now() - interval '1 ms'"
            " WHERE tenant_id = $1 AND name = $2",
            self.tenant_id,
            name,
        )
        self.models[name].end()

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        model = self.models[name]
        if model.known:
            self.run(self.catalog.delete(self.tenant_id, name))
        else:
            with pytest.raises(NotFound):
                self.run(self.catalog.delete(self.tenant_id, name))
        model.known = False
        model.end()

    @rule()
    def sweep(self) -> None:
        self.run(self.catalog.sweep(idle_s=0.0))
        for model in self.models.values():
            model.known = model.lock is not None

    @rule()
    def postgres_lost_history(self) -> None:
        """Begin a new era, in which rows may be old."""
        self.execute(
            "INSERT INTO eras (era, system_identifier, timeline, reason)"
            " SELECT coalesce(max(era), 0) + 1, '', 1, 'test' FROM eras"
        )
        self.execute("DELETE FROM locks WHERE tenant_id = $1", self.tenant_id)
        self.execute("DELETE FROM lock_fences WHERE tenant_id = $1", self.tenant_id)
        for model in self.models.values():
            model.known = False
            model.end()

    @invariant()
    def others_see_the_same(self) -> None:
        for name, model in self.models.items():
            if not model.known:
                with pytest.raises(NotFound):
                    self.run(self.catalog.get(self.tenant_id, name))
                continue
            state = self.run(self.catalog.get(self.tenant_id, name))
            assert state.fence == model.fence
            assert state.held is (model.lock is not None)
            assert state.holder == (model.lock.holder if model.lock else None)


def test_locks_do_as_the_model_says(database_url: str) -> None:
    LockMachine.url = database_url
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        LockMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            phases=(Phase.explicit, Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )
