"""One process's part in exports, on a real Postgres, and short words for what tests do."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from metadata.database import Connection, Database
from metadata.exports.exports import ExportRepository
from metadata.exports.leases import ExportLeaseRepository, Finished
from metadata.exports.pins import ExportPinRepository
from metadata.exports.runs import ExportRunRepository
from metadata.exports.sweep import ExportSweepRepository
from metadata.exports.ticks import ExportTickRepository
from metadata.exports.types import (
    FAILED,
    SUCCEEDED,
    ClaimedRun,
    Ending,
    Export,
    ExportSpec,
    Failure,
    Lane,
    LaneEnd,
    LanePosition,
    LaneRange,
    Run,
    RunResult,
)
from metadata.topics.retention import RetentionRepository
from metadata.types import Topic
from scheduler.export_ticks import ExportTicks
from tests.integration.metadata.world import World

TENANT = bytes(15) + b"\x0e"
MANY = 10**9


class Harbour:
    """Every repository of exports over one database."""

    def __init__(self, world: World) -> None:
        database = world.database
        self.world = world
        self.database = database
        self.tenant_id = world.tenant_id
        self.exports = ExportRepository(database)
        self.runs = ExportRunRepository(database)
        self.leases = ExportLeaseRepository(database)
        self.pins = ExportPinRepository(database)
        self.sweeping = ExportSweepRepository(database)
        self.schedules = ExportTickRepository(database)
        self.ticks = ExportTicks(self.schedules)
        self.retention = RetentionRepository(database)

    @classmethod
    async def open(cls, database: Database, tenant_id: bytes = TENANT) -> Harbour:
        return cls(await World.open(database, tenant_id))

    async def topic(self, name: str = "orders", partitions: int = 2) -> Topic:
        return await self.world.topic(name, partitions)

    async def export(
        self, name: str = "lake", topic: str = "orders", at: int = 0, **options: Any
    ) -> Export:
        """Beginning at `at` in every lane there is."""
        options = {"table": name.replace("-", "_"), "maintain_cron": None, **options}
        starts = [
            LanePosition(lane, at)
            for each in await self.exports.topics(self.tenant_id, topic)
            for lane in lanes(each)
        ]
        return await self.exports.create(
            self.tenant_id, ExportSpec(name=name, topic=topic, **options), starts
        )

    async def get(self, name: str = "lake") -> Export:
        return await self.exports.get(self.tenant_id, name)

    async def run(self, name: str = "lake", kind: str = "export") -> Run:
        run, _ = await self.runs.create(self.tenant_id, name, kind)
        return run

    async def run_of(self, claimed: ClaimedRun) -> Run:
        return await self.runs.get(self.tenant_id, claimed.spec.name, claimed.number)

    async def all_runs(self, name: str = "lake") -> list[Run]:
        """Return all runs, the oldest first."""
        page = await self.runs.page(self.tenant_id, name, page_size=1000)
        return list(reversed(page.items))

    async def claim(self, *, lake: str = "default", lease_s: float = 60.0) -> ClaimedRun | None:
        return await self.leases.claim([lake], "runner", lease_s)

    async def claims_nothing(self) -> bool:
        """Return whether there is nothing to claim; a look and a claim must agree."""
        looked = await self.leases.claimable(["default"])
        claimed = await self.claim()
        assert (looked == []) == (claimed is None)
        return claimed is None

    async def claimed(self, **options: Any) -> ClaimedRun:
        claimed = await self.claim(**options)
        assert claimed is not None
        return claimed

    async def plan(
        self,
        claimed: ClaimedRun,
        ends: dict[Lane, int],
        positions: dict[Lane, int] | None = None,
        most: int = MANY,
    ) -> tuple[LaneRange, ...]:
        return await self.leases.plan(
            claimed.id,
            claimed.lease,
            [LanePosition(*each) for each in (positions or {}).items()],
            [LaneEnd(*each) for each in ends.items()],
            most,
        )

    async def succeed(
        self,
        claimed: ClaimedRun,
        positions: dict[Lane, int] | None = None,
        **result: Any,
    ) -> Finished:
        reached = None
        if positions is not None:
            reached = [LanePosition(*each) for each in positions.items()]
        ending = Ending(SUCCEEDED, RunResult(**result), reached)
        return await self.leases.finish(claimed.id, claimed.lease, ending)

    async def fail(self, claimed: ClaimedRun, *, retry: bool = True) -> Finished:
        ending = Ending(FAILED, failure=Failure("broken", "it broke"), retry=retry)
        return await self.leases.finish(claimed.id, claimed.lease, ending)

    async def do(self, statement: str, *arguments: object) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(statement, *arguments)

        await self.database.transaction(work)

    async def ask(self, query: str, *arguments: object) -> Any:
        async def work(connection: Connection) -> Any:
            return await connection.fetchval(query, *arguments)

        return await self.database.statement(work, writes=False)

    async def ready(self) -> None:
        """End the back-off of every run."""
        await self.do("UPDATE export_runs SET ready_at = now() WHERE state = 'queued'")

    async def end_leases(self) -> None:
        """Let every lease end, as if no runner had renewed it for a while."""
        await self.do(
            "UPDATE export_runs SET lease_until = clock_timestamp() - interval '1 ms'"
            " WHERE state = 'running'"
        )

    async def pinned(self, export: Export, topic: Topic) -> dict[tuple[int, int], int]:
        async def work(connection: Connection) -> dict[tuple[int, int], int]:
            rows = await connection.fetch(
                "SELECT partition, lane, pinned_offset FROM pins"
                " WHERE holder = $1 AND topic_uid = $2 AND kind = 'export'",
                export.uid,
                topic.uid,
            )
            return {(row[0], row[1]): row[2] for row in rows}

        return await self.database.statement(work, writes=False)


def lanes(topic: Topic) -> list[Lane]:
    return [Lane(topic.name, topic.uid, each.number, each.lane) for each in topic.partitions]


def each(topic: Topic, *offsets: int) -> dict[Lane, int]:
    """Map each lane to its offset; `offsets` are in the order of the lanes."""
    return dict(zip(lanes(topic), offsets, strict=True))


def uuid(uid: bytes) -> UUID:
    return UUID(bytes=uid)
