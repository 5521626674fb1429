"""The turns of jobs in a pool: each task gets a number when it is created.

Workers get tasks by priority, then by turn. The turns of a job follow each other; a job that
comes, or comes back, goes on from where the others are being served, so jobs of one priority take
turns task by task, and nobody saves up for later (start-time fair queueing).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from metadata.database import Connection
from metadata.jobs.types import REDUCE

# The first waiting task has the turn of the pool; with none waiting, the next job sets it.
_FRONT = """
SELECT coalesce(
    (
        SELECT min(first.turn)
        FROM (
            SELECT DISTINCT map_kind AS kind FROM jobs
            WHERE tenant_id = $1 AND pool = $2 AND state IN ('open', 'running', 'reducing')
        ) AS kinds,
        LATERAL (
            SELECT turn FROM job_tasks
            WHERE tenant_id = $1 AND pool = $2 AND kind = kinds.kind AND rank = $3
              AND state = 'waiting'
            ORDER BY turn
            LIMIT 1
        ) AS first
    ),
    (
        SELECT max(next_turn) FROM jobs
        WHERE tenant_id = $1 AND pool = $2 AND priority = -$3::integer
          AND state IN ('open', 'running', 'reducing')
    ),
    0
)
"""
_ADD = """
INSERT INTO job_tasks (tenant_id, job_uid, number, kind, pool, rank, turn, state, input)
SELECT $1, $2, $3::integer + n.at - 1, $4, $5, $6, $7::bigint + n.at - 1, 'waiting', n.input
FROM unnest($8::bytea[]) WITH ORDINALITY AS n (input, at)
ON CONFLICT DO NOTHING
RETURNING octet_length(input)
"""
_REDUCE = """
SELECT reduce_kind, coalesce(reduce_pool, pool) AS pool, priority FROM jobs
WHERE tenant_id = $1 AND uid = $2
"""


class TaskBatch(NamedTuple):
    """Tasks of one job that follow each other, in their numbers and their turns."""

    job_uid: bytes
    kind: str
    pool: str
    priority: int
    first_number: int
    turn: int


async def front(connection: Connection, tenant_id: bytes, pool: str, priority: int) -> int:
    """Return the turn that is being served."""
    turn: int = await connection.fetchval(_FRONT, tenant_id, pool, -priority)
    return turn


async def make_tasks(
    connection: Connection, tenant_id: bytes, lot: TaskBatch, inputs: Sequence[bytes]
) -> list[int]:
    """Add tasks; return the sizes of those that did not exist."""
    rows = await connection.fetch(
        *(_ADD, tenant_id, lot.job_uid, lot.first_number, lot.kind),
        *(lot.pool, -lot.priority, lot.turn, inputs),
    )
    return [row[0] for row in rows]


async def make_reduce_task(connection: Connection, tenant_id: bytes, job_uid: bytes) -> str:
    """Add the reduce task of a job whose row is locked; return the pool in which it waits."""
    row = await connection.fetchrow(_REDUCE, tenant_id, job_uid)
    pool: str = row["pool"]
    turn = await front(connection, tenant_id, pool, row["priority"])
    lot = TaskBatch(job_uid, row["reduce_kind"], pool, row["priority"], REDUCE, turn)
    await make_tasks(connection, tenant_id, lot, [b"null"])
    return pool
