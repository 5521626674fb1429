"""One process's part in jobs, on a real Postgres."""

from __future__ import annotations

from typing import Any

from metadata.database import Connection, Database
from metadata.jobs.claims import JobLeaseRepository, Wanted
from metadata.jobs.jobs import JobRepository
from metadata.jobs.machine import Complete, Fail, Transition, Verdict
from metadata.jobs.pools import JobPoolRepository
from metadata.jobs.reading import JobReader
from metadata.jobs.steps import JobSteps
from metadata.jobs.sweep import JobSweepRepository
from metadata.jobs.transaction import TaskTransition
from metadata.jobs.types import Job, JobSpec, LeasedTask

TENANT = bytes(15) + b"\x09"


class Desk:
    """Every repository of jobs over one database, and short words for what tests do."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.jobs = JobRepository(database)
        self.steps = JobSteps(database)
        self.leases = JobLeaseRepository(database)
        self.pools = JobPoolRepository(database)
        self.reader = JobReader(database)
        self.sweeping = JobSweepRepository(database)

    async def job(self, name: str = "count", tasks: int = 3, **options: Any) -> Job:
        """Create a sealed job whose tasks have the inputs 0, 1 and so on."""
        await self.jobs.create(TENANT, JobSpec(name, "map", **options))
        if tasks:
            inputs = [str(at).encode() for at in range(tasks)]
            await self.steps.add(TENANT, name, 0, inputs)
        return await self.steps.seal(TENANT, name, tasks)

    async def claim(
        self,
        most: int = 100,
        *,
        pool: str = "default",
        lease_s: float = 60.0,
        kinds: tuple[str, ...] = ("map", "reduce"),
    ) -> list[LeasedTask]:
        return await self.leases.claim(TENANT, Wanted(pool, kinds, most, lease_s, "w"))

    async def apply(self, task: LeasedTask, what: Transition) -> Verdict:
        (verdict,) = await self.leases.apply(TENANT, [TaskTransition(task.lease, what)])
        return verdict

    async def complete(self, *tasks: LeasedTask, output: bytes = b'"done"') -> list[Verdict]:
        return await self.leases.apply(
            TENANT, [TaskTransition(task.lease, Complete(output)) for task in tasks]
        )

    async def fail(self, task: LeasedTask, *, retry: bool = True, delay_s: float = 0.0) -> Verdict:
        return await self.apply(task, Fail("broken", retry, delay_s))

    async def get(self, name: str = "count") -> Job:
        return await self.jobs.get(TENANT, name)

    async def state(self, name: str = "count") -> str:
        return (await self.get(name)).state

    async def ask(self, query: str, *arguments: object) -> Any:
        async def work(connection: Connection) -> Any:
            return await connection.fetchval(query, *arguments)

        return await self.database.statement(work, writes=True)

    async def end_leases(self) -> None:
        """Time goes by for every lease there is."""
        await self.ask(
            "UPDATE job_tasks SET lease_until = clock_timestamp() - interval '1 s'"
            " WHERE state = 'running'"
        )
