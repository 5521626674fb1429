"""Tasks and outputs of a job, page by page."""

from __future__ import annotations

from typing import Any, TypeVar

from metadata.database import Connection, Database
from metadata.errors import BadPageToken, NotFound
from metadata.jobs.types import REDUCE, Output, Task
from metadata.paging import name_after, token_after
from metadata.types import Page

MAX_PAGE_BYTES = 8 * 1024 * 1024
"""The limit for the outputs of a page; a page has at least one."""
V = TypeVar("V", Task, Output)

_JOB = "SELECT uid FROM jobs WHERE tenant_id = $1 AND name = $2 AND NOT gone"
_TASKS = """
WITH shown AS (
    SELECT t.number, t.attempt, t.error, t.worker, t.started_at, t.finished_at, t.wait_for,
        CASE WHEN t.state = 'running' THEN t.lease_until END AS lease_until,
        CASE
            WHEN t.state NOT IN ('succeeded', 'failed')
                AND j.state NOT IN ('open', 'running', 'reducing') THEN 'cancelled'
            WHEN t.state = 'delayed' AND t.ready_at <= clock_timestamp() THEN 'waiting'
            ELSE t.state
        END AS state
    FROM job_tasks AS t JOIN jobs AS j ON j.tenant_id = t.tenant_id AND j.uid = t.job_uid
    WHERE t.tenant_id = $1 AND t.job_uid = $2 AND (t.number > $3 OR t.number = -1)
), page AS (
    SELECT * FROM shown
    WHERE $4::text IS NULL OR state = $4
    ORDER BY number = -1, number
    LIMIT $5
)
SELECT page.number, page.state, page.attempt, page.error, page.worker, child.name AS wait_for,
    page.lease_until, page.started_at, page.finished_at
FROM page
LEFT JOIN jobs AS child ON child.tenant_id = $1 AND child.uid = page.wait_for
ORDER BY page.number = -1, page.number
"""
_OUTPUTS = """
WITH chosen AS (
    SELECT number, output, error, coalesce(octet_length(output), 0) AS size
    FROM job_tasks
    WHERE tenant_id = $1 AND job_uid = $2 AND number > $3 AND number >= 0
      AND state IN ('succeeded', 'failed')
    ORDER BY number
    LIMIT $4
), sized AS (
    SELECT number, output, error, size, sum(size) OVER (ORDER BY number) AS upto,
        count(*) OVER () AS found
    FROM chosen
)
SELECT number, output, error, found FROM sized
WHERE upto - size <= $5 - size OR upto = size
ORDER BY number
"""


class JobReader:
    """Reads the tasks and outputs of a job; its methods raise NotFound and BadPageToken."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def tasks(
        self,
        tenant_id: bytes,
        name: str,
        *,
        state: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Page[Task]:
        """Return the map tasks by index, then the reduce task."""
        after = _number_after(page_token)

        async def work(connection: Connection) -> Page[Task]:
            uid = await _uid(connection, tenant_id, name)
            rows = await connection.fetch(_TASKS, tenant_id, uid, after, state, page_size + 1)
            return _page([Task(*row) for row in rows[:page_size]], more=len(rows) > page_size)

        return await self._database.of(tenant_id).transaction(work)

    async def outputs(
        self,
        tenant_id: bytes,
        name: str,
        *,
        first_index: int = 0,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Page[Output]:
        """Return outputs of map tasks that have ended, by index; fewer than asked for if
        they are large.
        """
        after = max(first_index - 1, _number_after(page_token))

        async def work(connection: Connection) -> Page[Output]:
            uid = await _uid(connection, tenant_id, name)
            asked = (after, page_size + 1, MAX_PAGE_BYTES)
            rows = await connection.fetch(_OUTPUTS, tenant_id, uid, *asked)
            kept = [_output(row) for row in rows[:page_size]]
            return _page(kept, more=bool(rows) and rows[0]["found"] > len(kept))

        return await self._database.of(tenant_id).transaction(work)


async def _uid(connection: Connection, tenant_id: bytes, name: str) -> bytes:
    uid: bytes | None = await connection.fetchval(_JOB, tenant_id, name)
    if uid is None:
        raise NotFound("job", name)
    return uid


def _output(row: Any) -> Output:
    return Output(row["number"], row["output"], row["error"])


def _page(items: list[V], *, more: bool) -> Page[V]:
    token = token_after(str(items[-1].number)) if more and items else None
    return Page(tuple(items), token)


def _number_after(page_token: str | None) -> int:
    text = name_after(page_token)
    if not text:
        return REDUCE
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadPageToken("the page token is not one of ours")
    return int(text)
