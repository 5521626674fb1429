"""Seeks, flushes and snapshots of one cursor in any order, against sets of offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from metadata.database import Database
from metadata.settings import DatabaseSettings
from metadata.subscriptions.seeks import SeekRepository, Target
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.topics.retention import LaneKey, RetentionRepository
from metadata.types import Counters, CursorState, CursorUpdate
from tests.integration.metadata.world import World
from tests.unit.metadata.test_seek_places import ranges_of

T = TypeVar("T")
LANE = (0, 0)
END = 40


@dataclass(frozen=True)
class Model:
    """A cursor as sets: what it began at, what it has read, and which of that is settled."""

    start: int = 0
    read_to: int = 0
    settled: frozenset[int] = field(default_factory=frozenset)

    @property
    def floor(self) -> int:
        return next(at for at in range(self.start, END + 1) if at not in self.settled)

    def open(self) -> set[int]:
        """Return the offsets that are still to be delivered, read or not."""
        return set(range(self.start, END)) - self.settled


class SeekMachine(RuleBasedStateMachine):
    """`memory` is the owner's; `committed` what the row should say."""

    url = ""

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.late: list[CursorUpdate] = []
        self.snapshots: dict[str, Model] = {}
        self.trimmed_to = 0
        self.memory = self.committed = Model()
        self.run(self._open())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def _open(self) -> None:
        self.database = Database(DatabaseSettings(self.url))
        await self.database.connect()
        self.world = await World.open(self.database)
        self.topic = await self.world.topic(partitions=1)
        self.subscription = await self.world.subscription(self.topic)
        await self.world.claim(await self.world.forwarder(), self.topic)
        self.seeks = SeekRepository(self.database)
        self.kept = SnapshotRepository(self.database)
        self.row = await self._row()

    async def _row(self) -> CursorState:
        uid = self.subscription.uid
        (row,) = await self.world.cursors.of_subscription(self.world.tenant_id, uid)
        return row

    @rule(count=st.integers(1, 8))
    def read(self, count: int) -> None:
        self.memory = replace(self.memory, read_to=min(END, self.memory.read_to + count))

    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        out = sorted(set(range(self.memory.start, self.memory.read_to)) - self.memory.settled)
        if out:
            acked = data.draw(st.sets(st.sampled_from(out), min_size=1))
            self.memory = replace(self.memory, settled=self.memory.settled | acked)

    def update(self) -> CursorUpdate:
        memory = self.memory
        above = {offset for offset in memory.settled if offset >= memory.floor}
        return CursorUpdate(
            key=self.row.key,
            epoch=self.row.epoch,
            generation=self.row.generation,
            floor=memory.floor,
            read_to=max(memory.read_to, memory.floor),
            acked=ranges_of(above),
            counters=Counters(acked=len(memory.settled)),
        )

    @rule()
    def flush(self) -> None:
        assert self.run(self.world.cursors.flush([self.update()]))
        self.committed = self.memory

    @rule()
    def send_a_flush_that_arrives_late(self) -> None:
        self.late.append(self.update())

    @precondition(lambda self: any(u.generation != self.row.generation for u in self.late))
    @rule()
    def a_late_flush_arrives(self) -> None:
        late = next(u for u in self.late if u.generation != self.row.generation)
        self.late.remove(late)
        assert not self.run(self.world.cursors.flush([late]))

    @rule(offset=st.integers(0, END), dry_run=st.booleans())
    def seek(self, offset: int, dry_run: bool) -> None:
        at = max(offset, self.trimmed_to)
        self._seek(Target(offset), Model(at, at), dry_run)

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data(), dry_run=st.booleans())
    def seek_to_snapshot(self, data: st.DataObject, dry_run: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.snapshots)))
        held = self.snapshots[name]
        start = max(held.floor, self.trimmed_to)
        while start in held.settled:
            start += 1
        settled = frozenset(offset for offset in held.settled if offset >= start)
        found = self.run(self.kept.get(self.world.tenant_id, name))
        target = self.run(self.kept.targets(found))[LANE]
        self._seek(target, Model(start, max(start, held.read_to), settled), dry_run)

    def _seek(self, target: Target, expected: Model, dry_run: bool) -> None:
        uid = self.subscription.uid
        seek = self.seeks.seek(self.world.tenant_id, uid, {LANE: target}, dry_run=dry_run)
        sought = self.run(seek)
        assert sought.generation == self.row.generation + 1
        floor, settled = sought.positions[LANE]
        assert END - floor - settled == len(expected.open())
        if not dry_run:
            self.memory = self.committed = expected
            self.row = self.run(self._row())
            assert self.row.generation == sought.generation

    @precondition(lambda self: len(self.snapshots) < 4)
    @rule()
    def take_a_snapshot(self) -> None:
        name = f"s{len(self.snapshots)}"
        create = self.kept.create(
            self.world.tenant_id, "billing", name, expires_in_s=3600.0, labels={}
        )
        self.run(create)
        self.snapshots[name] = self.committed

    @rule(offset=st.integers(0, END // 2), past_pins=st.booleans())
    def trim(self, offset: int, past_pins: bool) -> None:
        key = LaneKey(self.world.tenant_id, self.topic.uid, 0, 0)
        retention = RetentionRepository(self.database)
        trimmed = self.run(retention.trim(key, offset, past_pins=past_pins))
        assert trimmed is not None
        if not past_pins:
            held = [model.floor for model in (self.committed, *self.snapshots.values())]
            assert trimmed.trimmed_to <= max(self.trimmed_to, min(held))
        self.trimmed_to = trimmed.trimmed_to

    @invariant()
    def the_row_says_what_was_committed(self) -> None:
        row, model = self.run(self._row()), self.committed
        assert (row.start, row.floor, row.generation) == (
            model.start,
            model.floor,
            self.row.generation,
        )
        above = {offset for offset in model.settled if offset >= model.floor}
        assert row.acked == ranges_of(above)
        assert row.read_to == max(model.read_to, model.floor)
        assert self.run(self.world.cursors.unbalanced()) == []

    def teardown(self) -> None:
        self.run(self.world.feed.close())
        self.run(self.database.close())
        self.runner.close()


def test_seeks_and_flushes_in_any_order(database_url: str) -> None:
    SeekMachine.url = database_url
    run_state_machine_as_test(
        SeekMachine,
        settings=settings(
            max_examples=8,
            stateful_step_count=20,
            deadline=None,
            phases=(Phase.explicit, Phase.reuse, Phase.generate),  # shrinking takes minutes here
            suppress_health_check=list(HealthCheck),
        ),
    )
