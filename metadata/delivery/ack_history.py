"""The state of one message for each subscription, and the time for which the history of acks is
kept.

A row of `ack_history` says when a range of offsets was settled, and how. It is written with the
cursor that settled it (cursors.py), and goes when the messages are trimmed and the topic's
retention has passed since. The rows of one generation of a cursor do not overlap: so the one that
holds an offset is the first that ends above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from metadata.database import Connection, Database
from metadata.delivery.cursors import COLUMNS, state_of
from metadata.types import CursorState
from openapi.topics import Outcome

_FATES = (
    "SELECT"
    + COLUMNS
    + """,
        open.reason AS open_reason, open.attempts AS open_attempts, open.detail AS open_detail,
        open.not_before AS open_not_before,
        dead.reason AS dead_reason, dead.attempts AS dead_attempts, dead.detail AS dead_detail,
        dead.dead_at,
        settled.outcome, settled.settled_at
    FROM cursors
    LEFT JOIN deliveries AS open
        ON open.tenant_id = cursors.tenant_id
        AND open.subscription_uid = cursors.subscription_uid
        AND open.partition = cursors.partition AND open.lane = cursors.lane
        AND open.message_offset = $5
    LEFT JOIN dead_letters AS dead
        ON dead.tenant_id = cursors.tenant_id
        AND dead.subscription_uid = cursors.subscription_uid
        AND dead.generation = cursors.generation
        AND dead.partition = cursors.partition AND dead.lane = cursors.lane
        AND dead.message_offset = $5
    LEFT JOIN LATERAL (
        SELECT low, outcome, settled_at FROM ack_history
        WHERE ack_history.tenant_id = cursors.tenant_id
          AND ack_history.topic_uid = cursors.topic_uid
          AND ack_history.partition = cursors.partition AND ack_history.lane = cursors.lane
          AND ack_history.subscription_uid = cursors.subscription_uid
          AND ack_history.generation = cursors.generation
          AND ack_history.high > $5
        ORDER BY high LIMIT 1
    ) AS settled ON settled.low <= $5
    WHERE cursors.tenant_id = $1 AND cursors.topic_uid = $2
      AND cursors.partition = $3 AND cursors.lane = $4
    """
)
_TRIM = """
DELETE FROM ack_history AS old USING (
    SELECT cursors.tenant_id, cursors.topic_uid, cursors.partition, cursors.lane,
        cursors.subscription_uid, ended.id
    FROM cursors
    JOIN topics ON topics.tenant_id = cursors.tenant_id AND topics.uid = cursors.topic_uid
    JOIN partitions ON partitions.tenant_id = cursors.tenant_id
        AND partitions.topic_uid = cursors.topic_uid
        AND partitions.partition = cursors.partition AND partitions.lane = cursors.lane
        AND partitions.sealed_at IS NULL
    CROSS JOIN LATERAL (
        SELECT now() - make_interval(secs => coalesce(topics.retention_seconds, $1)) AS before
    ) AS kept
    CROSS JOIN LATERAL (
        SELECT settled_at FROM ack_history
        WHERE ack_history.tenant_id = cursors.tenant_id
          AND ack_history.topic_uid = cursors.topic_uid
          AND ack_history.partition = cursors.partition AND ack_history.lane = cursors.lane
          AND ack_history.subscription_uid = cursors.subscription_uid
        ORDER BY id LIMIT 1
    ) AS oldest
    CROSS JOIN LATERAL (
        SELECT id, high, settled_at FROM ack_history
        WHERE oldest.settled_at < kept.before
          AND ack_history.tenant_id = cursors.tenant_id
          AND ack_history.topic_uid = cursors.topic_uid
          AND ack_history.partition = cursors.partition AND ack_history.lane = cursors.lane
          AND ack_history.subscription_uid = cursors.subscription_uid
        ORDER BY id LIMIT $2
    ) AS ended
    WHERE ended.settled_at < kept.before AND ended.high <= partitions.trimmed_to
    LIMIT $2
) AS gone
WHERE old.tenant_id = gone.tenant_id AND old.topic_uid = gone.topic_uid
  AND old.partition = gone.partition AND old.lane = gone.lane
  AND old.subscription_uid = gone.subscription_uid AND old.id = gone.id
"""


@dataclass(frozen=True, slots=True)
class OpenState:
    """The message has a row of `deliveries`: attempts ended without an ack, or the cursor
    went on.
    """

    reason: str
    attempts: int
    detail: str | None
    not_before: datetime | None


@dataclass(frozen=True, slots=True)
class DeadLetterState:
    """The message is among the dead letters."""

    reason: str
    attempts: int
    detail: str | None
    dead_at: datetime


@dataclass(frozen=True, slots=True)
class SettledState:
    """The history says how it was settled, and when."""

    outcome: Outcome
    settled_at: datetime


@dataclass(frozen=True, slots=True)
class MessageState:
    """The state of one message for one subscription, at one moment."""

    cursor: CursorState
    open: OpenState | None = None
    dead: DeadLetterState | None = None
    settled: SettledState | None = None


class AckHistoryRepository:
    """Reads of one topic; `trim` goes over all of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def message_states(
        self, tenant_id: bytes, topic_uid: bytes, partition: int, lane: int, offset: int
    ) -> list[MessageState]:
        """Return the state for each subscription, as committed."""
        arguments = (tenant_id, topic_uid, partition, lane, offset)

        async def work(connection: Connection) -> list[MessageState]:
            return [_message_state(row) for row in await connection.fetch(_FATES, *arguments)]

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def trim(self, default_retention_s: float, limit: int = 10_000) -> int:
        """Deletes at most `limit` rows, the oldest first, of messages that are trimmed, settled
        longer ago than their topic keeps messages; how many those were."""

        async def work(connection: Connection) -> int:
            tag = await connection.execute(_TRIM, int(default_retention_s), limit)
            return int(tag.rpartition(" ")[2])

        return await self._database.statement(work, writes=True)


def _message_state(row: Any) -> MessageState:
    return MessageState(
        state_of(row),
        None
        if row["open_reason"] is None
        else OpenState(
            row["open_reason"], row["open_attempts"], row["open_detail"], row["open_not_before"]
        ),
        None
        if row["dead_reason"] is None
        else DeadLetterState(
            row["dead_reason"], row["dead_attempts"], row["dead_detail"], row["dead_at"]
        ),
        None if row["outcome"] is None else SettledState(row["outcome"], row["settled_at"]),
    )
