"""Counts of processes, added to the hours in which they were counted: each report once.

A process numbers its reports. One statement takes the number down and adds the report, or finds the
number taken and adds nothing: so a report whose outcome was not learned is simply made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from metadata.database import Connection, Database

FORGET_DAYS = 7
"""Days after which a process that has not reported repeats no report any more."""

# In the order of the key: reports that meet do not wait for each other crosswise.
_ADD = """
WITH first AS (
    INSERT INTO usage_reporters (incarnation, sequence, reported_at)
    VALUES ($1, $2, clock_timestamp())
    ON CONFLICT (incarnation)
    DO UPDATE SET sequence = EXCLUDED.sequence, reported_at = EXCLUDED.reported_at
    WHERE usage_reporters.sequence < EXCLUDED.sequence
    RETURNING incarnation
), added AS (
    INSERT INTO usage_hours (tenant_id, hour, metric, value)
    SELECT tenant_id, $3, metric, value
    FROM unnest($4::uuid[], $5::text[], $6::float8[]) AS of (tenant_id, metric, value)
    WHERE EXISTS (SELECT 1 FROM first)
    ORDER BY tenant_id, metric
    ON CONFLICT (tenant_id, hour, metric)
    DO UPDATE SET value = usage_hours.value + EXCLUDED.value
)
SELECT count(*) > 0 FROM first
"""
_PRUNE = "DELETE FROM usage_reporters WHERE reported_at < clock_timestamp() - $1::interval"


class Counted(NamedTuple):
    """The increase of a metric."""

    tenant_id: bytes
    metric: str
    value: float


class UsageReports:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, incarnation: bytes, sequence: int, hour: datetime, counted: Sequence[Counted]
    ) -> bool:
        """Add a report, with a row per tenant and metric at most, to the hour that begins at
        `hour`.

        Returns False if it was added before. Reports of a process have rising numbers, one after
        the other.
        """
        columns = [list(column) for column in zip(*counted, strict=True)]

        async def work(connection: Connection) -> bool:
            row = await connection.fetchval(_ADD, incarnation, sequence, hour, *columns)
            return bool(row)

        return await self._database.statement(work, writes=True)

    async def prune(self, days: int = FORGET_DAYS) -> None:
        """Delete processes that are long gone."""

        async def work(connection: Connection) -> None:
            await connection.execute(_PRUNE, timedelta(days=days))

        await self._database.statement(work, writes=True)
