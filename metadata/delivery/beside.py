"""Writes the rows beside a cursor: open deliveries, leases, dead letters, ack history.

They are written by the statement that writes the cursor, and only where it does: every part of it
joins the rows of `cursors` really updated, so a lost epoch writes nothing of them either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import msgspec

from metadata.database import Connection
from metadata.delivery.deliveries import DeliveryLease, OpenDelivery, Range, Reason
from metadata.types import CursorKey, CursorState, CursorUpdate

WRITE = """
, put AS (
    INSERT INTO deliveries (
        tenant_id, subscription_uid, partition, lane, message_offset,
        attempts, not_before, reason, key_hash, detail, first_at, last_at
    )
    SELECT tenant_id, subscription_uid, partition, lane, item.message_offset, item.attempts,
        timestamptz 'epoch' + item.not_before_us * interval '1 microsecond',
        item.reason, item.key_hash, item.detail,
        timestamptz 'epoch' + item.first_us * interval '1 microsecond',
        timestamptz 'epoch' + item.last_us * interval '1 microsecond'
    FROM unnest(
        $17::int8[], $18::int8[], $19::int4[], $20::int8[], $21::text[], $22::int8[], $23::text[],
        $24::int8[], $25::int8[]
    ) AS item (
        number, message_offset, attempts, not_before_us, reason, key_hash, detail,
        first_us, last_us
    )
    JOIN written USING (number)
    ON CONFLICT (tenant_id, subscription_uid, partition, lane, message_offset) DO UPDATE SET
        attempts = excluded.attempts, not_before = excluded.not_before, reason = excluded.reason,
        key_hash = excluded.key_hash, detail = excluded.detail, first_at = excluded.first_at,
        last_at = excluded.last_at
    RETURNING tenant_id, subscription_uid, partition, lane, (xmax = 0)::int AS change
), closed AS (
    DELETE FROM deliveries
    USING unnest($26::int8[], $27::int8[]) AS item (number, message_offset)
    JOIN written USING (number)
    WHERE deliveries.tenant_id = written.tenant_id
      AND deliveries.subscription_uid = written.subscription_uid
      AND deliveries.partition = written.partition
      AND deliveries.lane = written.lane
      AND deliveries.message_offset = item.message_offset
    RETURNING deliveries.tenant_id, deliveries.subscription_uid, deliveries.partition,
        deliveries.lane, -1 AS change
), leased AS (
    INSERT INTO delivery_leases (
        tenant_id, subscription_uid, partition, lane, number,
        epoch_era, epoch_n, attempt, offsets, acked, expires_at
    )
    SELECT tenant_id, subscription_uid, partition, lane, item.lease_number,
        item.epoch_era, item.epoch_n, item.attempt,
        item.offsets::int8multirange, item.acked::int8multirange,
        timestamptz 'epoch' + item.expires_us * interval '1 microsecond'
    FROM unnest(
        $28::int8[], $29::int8[], $30::int8[], $31::int8[], $32::int4[], $33::text[], $34::text[],
        $35::int8[]
    ) AS item (
        number, lease_number, epoch_era, epoch_n, attempt, offsets, acked, expires_us
    )
    JOIN written USING (number)
    ON CONFLICT (tenant_id, subscription_uid, partition, lane, number) DO UPDATE SET
        epoch_era = excluded.epoch_era, epoch_n = excluded.epoch_n, attempt = excluded.attempt,
        offsets = excluded.offsets, acked = excluded.acked, expires_at = excluded.expires_at
), ended AS (
    DELETE FROM delivery_leases
    USING unnest($36::int8[], $37::int8[]) AS item (number, lease_number)
    JOIN written USING (number)
    WHERE delivery_leases.tenant_id = written.tenant_id
      AND delivery_leases.subscription_uid = written.subscription_uid
      AND delivery_leases.partition = written.partition
      AND delivery_leases.lane = written.lane
      AND delivery_leases.number = item.lease_number
), buried AS (
    INSERT INTO dead_letters (
        tenant_id, subscription_uid, partition, lane, generation,
        uid, message_offset, message_id, key, attributes, content_type, size_bytes, reason, detail,
        attempts, first_at, last_at, publish_time,
        letter_topic_uid, letter_partition, letter_lane, letter_offset
    )
    SELECT tenant_id, subscription_uid, partition, lane, generation,
        item.uid, item.message_offset, item.message_id, item.key, item.attributes::jsonb,
        item.content_type, item.size_bytes, item.reason, item.detail, item.attempts,
        timestamptz 'epoch' + item.first_us * interval '1 microsecond',
        timestamptz 'epoch' + item.last_us * interval '1 microsecond',
        timestamptz 'epoch' + item.publish_us * interval '1 microsecond',
        item.letter_topic_uid, item.letter_partition, item.letter_lane, item.letter_offset
    FROM unnest(
        $38::int8[], $39::uuid[], $40::int8[], $41::text[], $42::text[], $43::text[], $44::text[],
        $45::int4[], $46::text[], $47::text[], $48::int4[], $49::int8[], $50::int8[], $51::int8[],
        $52::uuid[], $53::int4[], $54::int2[], $55::int8[]
    ) AS item (
        number, uid, message_offset, message_id, key, attributes, content_type, size_bytes,
        reason, detail, attempts, first_us, last_us, publish_us,
        letter_topic_uid, letter_partition, letter_lane, letter_offset
    )
    JOIN written USING (number)
    ON CONFLICT DO NOTHING
), remembered AS (
    INSERT INTO ack_history (
        tenant_id, topic_uid, partition, lane, subscription_uid, generation, low, high, outcome
    )
    SELECT tenant_id, topic_uid, partition, lane, subscription_uid, generation,
        item.low, item.high, item.outcome
    FROM unnest($56::int8[], $57::int8[], $58::int8[], $59::text[])
        AS item (number, low, high, outcome)
    JOIN written USING (number)
), changed AS (
    SELECT tenant_id, subscription_uid, partition, lane, sum(change) AS change
    FROM (SELECT * FROM put UNION ALL SELECT * FROM closed) AS each
    GROUP BY tenant_id, subscription_uid, partition, lane
)
SELECT tenant_id, subscription_uid, partition, lane,
    CASE WHEN difference <> 0 THEN difference
         ELSE exceptions_before + coalesce(changed.change, 0) - exceptions END::int8
FROM written
LEFT JOIN changed USING (tenant_id, subscription_uid, partition, lane)
"""
"""Goes on after `written` (cursors.py), which has a `number` for each update. The answer is what a
cursor's books lack: where the row balances, its rows of `deliveries` have to fit its count."""

_OPEN = """
SELECT tenant_id, subscription_uid, partition, lane, message_offset, attempts, reason,
    (extract(epoch FROM not_before) * 1000000)::int8 AS not_before_us, key_hash, detail,
    (extract(epoch FROM first_at) * 1000000)::int8 AS first_us,
    (extract(epoch FROM last_at) * 1000000)::int8 AS last_us
FROM deliveries
JOIN unnest($1::uuid[], $2::uuid[], $3::int4[], $4::int2[])
    AS wanted (tenant_id, subscription_uid, partition, lane)
    USING (tenant_id, subscription_uid, partition, lane)
ORDER BY tenant_id, subscription_uid, partition, lane, message_offset
"""
_LEASES = """
SELECT tenant_id, subscription_uid, partition, lane, number, epoch_era, epoch_n, attempt,
    offsets::text AS offsets, acked::text AS acked,
    (extract(epoch FROM expires_at) * 1000000)::int8 AS expires_us
FROM delivery_leases
JOIN unnest($1::uuid[], $2::uuid[], $3::int4[], $4::int2[])
    AS wanted (tenant_id, subscription_uid, partition, lane)
    USING (tenant_id, subscription_uid, partition, lane)
ORDER BY tenant_id, subscription_uid, partition, lane, number
"""


async def with_rows(connection: Connection, states: Sequence[CursorState]) -> list[CursorState]:
    """Return the cursors with their open deliveries and leases, read in the same transaction."""
    if not states:
        return []
    open_: dict[CursorKey, list[OpenDelivery]] = {}
    leases: dict[CursorKey, list[DeliveryLease]] = {}
    with_open = [state.key for state in states if state.exceptions]
    if with_open:
        for row in await connection.fetch(_OPEN, *key_columns(with_open)):
            open_.setdefault(_key_of(row), []).append(_delivery(row))
    for row in await connection.fetch(_LEASES, *key_columns([state.key for state in states])):
        leases.setdefault(_key_of(row), []).append(_lease(row))
    if not open_ and not leases:
        return list(states)
    return [
        replace(
            state,
            stepped_over=tuple(open_.get(state.key, ())),
            leases=tuple(leases.get(state.key, ())),
        )
        for state in states
    ]


def has_rows(update: CursorUpdate) -> bool:
    """Return whether an update has rows beside its cursor."""
    return bool(
        update.stepped_over
        or update.closed
        or update.leases
        or update.ended_leases
        or update.dead_letters
        or update.history
    )


def columns(updates: Sequence[CursorUpdate]) -> tuple[list[Any], ...]:
    """Return the arguments of `WRITE`; updates are numbered from 1."""
    return (
        *_table(
            updates,
            lambda update: (
                (
                    row.offset,
                    row.attempts,
                    row.not_before_us,
                    row.reason.value,
                    row.key_hash,
                    row.detail,
                    row.first_us,
                    row.last_us,
                )
                for row in update.stepped_over
            ),
            8,
        ),
        *_table(updates, lambda update: ((offset,) for offset in update.closed), 1),
        *_table(
            updates,
            lambda update: (
                (
                    row.number,
                    row.epoch_era,
                    row.epoch_n,
                    row.attempt,
                    format_ranges(row.offsets),
                    format_ranges(row.acked),
                    row.expires_us,
                )
                for row in update.leases
            ),
            7,
        ),
        *_table(updates, lambda update: ((number,) for number in update.ended_leases), 1),
        *_table(updates, _dead_letters, 17),
        *_table(
            updates,
            lambda update: ((each.low, each.high, each.outcome) for each in update.history),
            3,
        ),
    )


def _dead_letters(update: CursorUpdate) -> Iterable[tuple[Any, ...]]:
    return (
        (
            row.uid,
            row.offset,
            row.message_id,
            row.key,
            msgspec.json.encode(row.attributes).decode(),
            row.content_type,
            row.size_bytes,
            row.reason,
            row.detail,
            row.attempts,
            row.first_us,
            row.last_us,
            row.publish_us,
            row.letter_topic_uid,
            row.letter_partition,
            row.letter_lane,
            row.letter_offset,
        )
        for row in update.dead_letters
    )


def _table(
    updates: Sequence[CursorUpdate],
    rows_of: Callable[[CursorUpdate], Iterable[tuple[Any, ...]]],
    width: int,
) -> list[list[Any]]:
    """Return the rows of all updates as arrays: the number of the update, then each column."""
    rows = list(
        chain.from_iterable(
            ((number, *row) for row in rows_of(update)) for number, update in enumerate(updates, 1)
        )
    )
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width + 1)]


def key_columns(keys: Sequence[CursorKey]) -> tuple[list[Any], ...]:
    """Return the columns of keys as arrays for unnest."""
    return (
        [key.tenant_id for key in keys],
        [key.subscription_uid for key in keys],
        [key.partition for key in keys],
        [key.lane for key in keys],
    )


def format_ranges(ranges: Sequence[Range]) -> str:
    """Return ranges as a multirange in Postgres' text form.

    It costs both sides less than asyncpg's Range objects.
    """
    return "{" + ",".join([f"[{low},{high})" for low, high in ranges]) + "}"


def parse_ranges(text: str) -> tuple[Range, ...]:
    """Return the ranges of a finite int8multirange in Postgres' text form."""
    if text == "{}":
        return ()
    return tuple(
        (int(low), int(high))
        for low, _, high in (piece.partition(",") for piece in text[2:-2].split("),["))
    )


def _key_of(row: Any) -> CursorKey:
    return CursorKey(row["tenant_id"], row["subscription_uid"], row["partition"], row["lane"])


def _delivery(row: Any) -> OpenDelivery:
    return OpenDelivery(
        offset=row["message_offset"],
        attempts=row["attempts"],
        reason=Reason(row["reason"]),
        not_before_us=row["not_before_us"],
        key_hash=row["key_hash"],
        detail=row["detail"],
        first_us=row["first_us"],
        last_us=row["last_us"],
    )


def _lease(row: Any) -> DeliveryLease:
    return DeliveryLease(
        number=row["number"],
        epoch_era=row["epoch_era"],
        epoch_n=row["epoch_n"],
        attempt=row["attempt"],
        offsets=parse_ranges(row["offsets"]),
        acked=parse_ranges(row["acked"]),
        expires_us=row["expires_us"],
    )
