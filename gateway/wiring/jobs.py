"""Jobs, in processes that have the control plane."""

from __future__ import annotations

from edge.lifetime import own
from gateway.jobs.jobs import JobRoutes
from gateway.jobs.pools import PoolRoutes
from gateway.jobs.waits import JobWaits
from gateway.jobs.work import WorkRoutes
from gateway.wiring.parts import Shared
from metadata.jobs.claims import JobLeaseRepository
from metadata.jobs.jobs import JobLimits, JobRepository
from metadata.jobs.pools import JobPoolRepository
from metadata.jobs.reading import JobReader
from metadata.jobs.steps import JobSteps


def open_jobs(shared: Shared) -> None:
    """Open jobs, which listen until the parts are closed."""
    parts, database, settings = shared.parts, shared.database, shared.settings
    waits = JobWaits(database)
    shared.stack.push_async_callback(waits.close)
    own(shared.stack, waits.run)
    parts.drains.append(waits.drain)
    limits = JobLimits(settings.max_jobs, settings.max_job_tasks, settings.max_job_bytes)
    parts.routes += JobRoutes(
        JobRepository(database),
        JobSteps(database),
        JobReader(database),
        waits.ends,
        limits,
        shared.process_pool,
    ).routes()
    parts.routes += PoolRoutes(JobPoolRepository(database)).routes()
    parts.routes += WorkRoutes(
        JobLeaseRepository(database), waits.claims, waits.transitions, shared.process_pool
    ).routes()
