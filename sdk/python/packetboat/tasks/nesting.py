"""Starts the job that is to give a task's output."""

from __future__ import annotations

import msgspec

from packetboat.aio.resources.jobs import AsyncJobs
from packetboat.errors import PacketboatError
from packetboat.models.jobs import JobSpec
from packetboat.tasks.outcomes import Failed, Nested, Settlement, Waits, bounded
from packetboat.worker.outage import is_passing


async def start_nested(jobs: AsyncJobs, nested: Nested) -> Settlement:
    """Goes on with one that an earlier attempt began. One that had ended without a result is what
    this attempt tries again."""
    try:
        spec = await _urgent(jobs, nested)
        job = await jobs.put(nested.name, spec)
        if job.state in ("failed", "cancelled"):
            await jobs.retry(nested.name)
        await jobs.start(nested.name, spec, nested.inputs)
    except (PacketboatError, ValueError) as error:
        passing = isinstance(error, PacketboatError) and is_passing(error)
        return Failed(bounded(f"the job {nested.name} did not start: {error}"), retry=passing)
    return Waits(nested.name)


async def _urgent(jobs: AsyncJobs, nested: Nested) -> JobSpec:
    """Else the parts of an urgent job would wait behind other jobs."""
    parent = nested.spec.parent
    if parent is None or not nested.as_urgent:
        return nested.spec
    priority = (await jobs.get(parent.job)).priority
    return msgspec.structs.replace(nested.spec, priority=priority)
