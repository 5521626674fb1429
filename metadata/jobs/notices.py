"""Notifications of jobs: at a commit, every process hears which pools may have tasks, and which
jobs ended.

They are sent when tasks begin to wait, when a job ends, and when a pool with a limit has room
again. A lost notification only costs the time until the next poll (gateway/jobs/waits.py).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection

from metadata.database import Connection, Database
from metadata.notifier import Notifier

CHANNEL = "packetboat_jobs"
_POOL, _JOB = "p", "j"
_NOTIFY = """
SELECT pg_notify($1, payload) FROM (
    SELECT * FROM unnest($3::text[])
    UNION
    SELECT $5::text || name FROM job_pools
    WHERE tenant_id = $2 AND name = ANY ($4::text[]) AND max_running IS NOT NULL
) AS notices (payload)
"""


def tasks_wait(tenant_id: bytes, pool: str) -> str:
    """Return the payload for tasks that wait in that pool."""
    return f"{_POOL}:{uuid.UUID(bytes=tenant_id)}:{pool}"


def job_ended(tenant_id: bytes, job_uid: bytes) -> str:
    return f"{_JOB}:{uuid.UUID(bytes=tenant_id)}:{uuid.UUID(bytes=job_uid)}"


async def notify(
    connection: Connection,
    tenant_id: bytes,
    payloads: Collection[str],
    freed: Collection[str] = (),
) -> None:
    """Notify at the commit.

    `freed` are pools in which leases ended; those with a limit are named.
    """
    if payloads or freed:
        prefix = tasks_wait(tenant_id, "")
        await connection.execute(_NOTIFY, CHANNEL, tenant_id, list(payloads), list(freed), prefix)


def notifier(
    database: Database,
    on_tasks: Callable[[bytes, str], None],
    on_end: Callable[[bytes, bytes], None],
    on_connect: Callable[[], None],
) -> Notifier:
    """Return a notifier.

    `on_tasks` gets the tenant and the pool, `on_end` the tenant and the uid of the job.
    """

    def heard(payload: str) -> None:
        what, tenant, name = payload.split(":", 2)
        tenant_id = uuid.UUID(tenant).bytes
        if what == _POOL:
            on_tasks(tenant_id, name)
        else:
            on_end(tenant_id, uuid.UUID(name).bytes)

    return Notifier(database, CHANNEL, "packetboat-jobs", heard, on_connect)
