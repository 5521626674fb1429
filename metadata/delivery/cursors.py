"""Writes cursor rows, the ack state of (subscription, partition, lane), in one hot statement.

A flush relies on these rules:
- An ack is answered only after the flush that holds it has returned.
- Every write names the epoch and the generation it was made under; a row that has moved on is left
  alone. A claim moves the epoch of all rows of its partition in one transaction, so after it no
  statement of an earlier owner, however late it arrives, changes anything.
- Rows are locked in key order by flushes and claims alike, so they never deadlock.
- A flush whose outcome is unknown may still be on its way. Reading the rows again would not stop
  it; claiming the partition again does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from prometheus_client import Histogram

from metadata.database import Connection, Database
from metadata.delivery import beside, publications
from metadata.delivery.beside import format_ranges, parse_ranges
from metadata.delivery.cursor_balance import CursorBalance
from metadata.types import (
    Counters,
    CursorKey,
    CursorState,
    CursorUpdate,
    Epoch,
    Unit,
)

_FLUSH_SECONDS = Histogram(
    "packetboat_metadata_flush_seconds",
    "From taking a connection to the answer of one cursor flush",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
)

_WRITTEN = """
WITH new AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::uuid[], $3::int4[], $4::int2[], $5::int8[], $6::int8[], $7::int4[],
        $8::int8[], $9::int8[], $10::text[],
        $11::int8[], $12::int8[], $13::int8[], $14::int8[], $15::int8[], $16::int8[]
    ) WITH ORDINALITY AS new (
        tenant_id, subscription_uid, partition, lane, epoch_era, epoch_n, generation,
        floor, read_to, acked,
        acked_total, filtered_total, skipped_total, expired_total, dead_lettered_total,
        exceptions, number
    )
), locked AS MATERIALIZED (
    SELECT new.*, old.exceptions AS exceptions_before
    FROM new
    JOIN cursors AS old USING (tenant_id, subscription_uid, partition, lane)
    WHERE old.epoch_era = new.epoch_era
      AND old.epoch_n = new.epoch_n
      AND old.generation = new.generation
    ORDER BY old.tenant_id, old.subscription_uid, old.partition, old.lane
    FOR NO KEY UPDATE OF old
), written AS (
    UPDATE cursors AS old
    SET floor = locked.floor,
        read_to = locked.read_to,
        acked = locked.acked::int8multirange,
        acked_total = locked.acked_total,
        filtered_total = locked.filtered_total,
        skipped_total = locked.skipped_total,
        expired_total = locked.expired_total,
        dead_lettered_total = locked.dead_lettered_total,
        exceptions = locked.exceptions
    FROM locked
    WHERE old.tenant_id = locked.tenant_id
      AND old.subscription_uid = locked.subscription_uid
      AND old.partition = locked.partition
      AND old.lane = locked.lane
      AND old.epoch_era = locked.epoch_era
      AND old.epoch_n = locked.epoch_n
      AND old.generation = locked.generation
    RETURNING old.tenant_id, old.subscription_uid, old.partition, old.lane, old.topic_uid,
        old.generation, locked.number, locked.exceptions_before, old.exceptions,
        (old.floor - old.start_offset + (
            SELECT coalesce(sum(upper(piece) - lower(piece)), 0) FROM unnest(old.acked) AS piece
        ) - old.acked_total - old.filtered_total - old.skipped_total - old.expired_total
          - old.dead_lettered_total - old.exceptions)::int8 AS difference
)
"""
_FLUSH = (
    _WRITTEN
    + """
SELECT tenant_id, subscription_uid, partition, lane,
    CASE WHEN difference <> 0 THEN difference ELSE exceptions_before - exceptions END
FROM written
"""
)
_FLUSH_WITH_ROWS = _WRITTEN + beside.WRITE

COLUMNS = """
    cursors.tenant_id, cursors.subscription_uid, cursors.partition, cursors.lane,
    cursors.topic_uid, cursors.epoch_era, cursors.epoch_n, cursors.generation,
    cursors.start_offset, cursors.floor, cursors.read_to, cursors.acked::text AS acked,
    cursors.acked_total, cursors.filtered_total, cursors.skipped_total, cursors.expired_total,
    cursors.dead_lettered_total, cursors.exceptions
"""
"""The columns that `state_of` reads, for statements that are composed when their module is loaded.
"""

_OF_PARTITIONS = (
    "SELECT"
    + COLUMNS
    + """
    FROM cursors
    JOIN unnest($1::uuid[], $2::uuid[], $3::int4[], $4::uuid[])
        AS wanted (tenant_id, topic_uid, partition, split_off)
        USING (tenant_id, topic_uid, partition)
    WHERE wanted.split_off IN ('00000000-0000-0000-0000-000000000000', cursors.subscription_uid)
    ORDER BY cursors.tenant_id, cursors.subscription_uid, cursors.partition, cursors.lane
    """
)
_OF_SUBSCRIPTION = (
    "SELECT"
    + COLUMNS
    + "FROM cursors WHERE tenant_id = $1 AND subscription_uid = $2 ORDER BY partition, lane"
)
_OF_TOPIC = (
    "SELECT"
    + COLUMNS
    + "FROM cursors WHERE tenant_id = $1 AND topic_uid = $2"
    + " ORDER BY subscription_uid, partition, lane"
)
_BALANCES = (
    "SELECT"
    + COLUMNS
    + """, (
        SELECT count(*) FROM deliveries
        WHERE deliveries.tenant_id = cursors.tenant_id
          AND deliveries.subscription_uid = cursors.subscription_uid
          AND deliveries.partition = cursors.partition
          AND deliveries.lane = cursors.lane
    ) AS open_deliveries
    FROM cursors
    """
)
_ALL_BALANCES = _BALANCES + "ORDER BY tenant_id, subscription_uid, partition, lane"
_BALANCES_OF_SUBSCRIPTION = (
    _BALANCES + "WHERE tenant_id = $1 AND subscription_uid = $2 ORDER BY partition, lane"
)
_BALANCES_OF_KEYS = (
    _BALANCES
    + """
    JOIN unnest($1::uuid[], $2::uuid[], $3::int4[], $4::int2[])
        AS wanted (tenant_id, subscription_uid, partition, lane)
        USING (tenant_id, subscription_uid, partition, lane)
    """
)
_UNBALANCED_OF_PARTITIONS = (
    "SELECT * FROM ("
    + _BALANCES
    + """
    JOIN unnest($1::uuid[], $2::uuid[], $3::int4[])
        AS wanted (tenant_id, topic_uid, partition) USING (tenant_id, topic_uid, partition)
    ) AS cursors
    WHERE exceptions <> open_deliveries
       OR floor - start_offset + (
            SELECT coalesce(sum(upper(piece) - lower(piece)), 0)
            FROM unnest(acked::int8multirange) AS piece
          ) <> acked_total + filtered_total + skipped_total + expired_total
               + dead_lettered_total + exceptions
    """
)


class CursorRepository:
    """Reads and writes cursors for the owner of their partition, under the epoch of its claim."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def flush(
        self, updates: Sequence[CursorUpdate], *, deadline_s: float | None = None
    ) -> dict[CursorKey, int]:
        """Write all updates durably in one statement; return the keys of written rows.

        Each key has the number of messages by which the counters of its row do not balance: 0 if
        they do.

        A key that is missing has lost its epoch (or its subscription is gone, or was sought): drop
        what is in memory. MetadataUnavailable: nothing was written, flush again. OutcomeUnknown:
        freeze these cursors and claim their partitions again.
        """
        if not updates:
            return {}
        if len({update.key for update in updates}) != len(updates):
            raise ValueError("a cursor is flushed once per flush")
        if any(update.publications for update in updates):
            return await self._flush_and_publish(updates, deadline_s)

        async def work(connection: Connection) -> dict[CursorKey, int]:
            """Run the statement on a connection, and note its duration."""
            with _FLUSH_SECONDS.time():
                return await _flush(connection, updates)

        return await self._database.statement(work, writes=True, deadline_s=deadline_s)

    async def _flush_and_publish(
        self, updates: Sequence[CursorUpdate], deadline_s: float | None
    ) -> dict[CursorKey, int]:
        """Write cursors and commit their publications; skip a cursor if one of its publications was
        aborted.
        """

        async def work(connection: Connection) -> dict[CursorKey, int]:
            with _FLUSH_SECONDS.time():
                refused = await publications.lock(connection, updates)
                written = await _flush(connection, [u for u in updates if u.key not in refused])
                await publications.commit(connection, [u for u in updates if u.key in written])
                return written

        return await self._database.transaction(work, deadline_s=deadline_s)

    async def load(self, keys: Iterable[Unit]) -> list[CursorState]:
        """Return all cursors of these units, as committed, with the rows beside them; a claim
        already returns them.

        The cursors of a whole partition include those that are split off it: their epochs tell.
        """
        columns = unit_columns(keys)

        async def work(connection: Connection) -> list[CursorState]:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                rows = await connection.fetch(_OF_PARTITIONS, *columns)
                return await beside.with_rows(connection, [state_of(row) for row in rows])

        return await self._database.statement(work, writes=False)

    async def of_subscription(
        self, tenant_id: bytes, subscription_uid: bytes
    ) -> tuple[CursorState, ...]:
        """Return the cursors of a subscription for any process to show, as of the last flush."""
        return await self._select(_OF_SUBSCRIPTION, tenant_id, subscription_uid)

    async def of_topic(self, tenant_id: bytes, topic_uid: bytes) -> tuple[CursorState, ...]:
        """Return the cursors of every subscription of a topic, as of the last flush."""
        return await self._select(_OF_TOPIC, tenant_id, topic_uid)

    async def balances(
        self, tenant_id: bytes, subscription_uid: bytes
    ) -> tuple[CursorBalance, ...]:
        """Return a subscription's cursors with their counts, in one snapshot."""

        async def work(connection: Connection) -> tuple[CursorBalance, ...]:
            rows = await connection.fetch(_BALANCES_OF_SUBSCRIPTION, tenant_id, subscription_uid)
            return tuple(map(_balance_of, rows))

        return await self._database.of(tenant_id).statement(work, writes=False)

    async def balances_of(self, keys: Sequence[CursorKey]) -> tuple[CursorBalance, ...]:
        """Return the balances of these cursors, in one snapshot."""
        return await self._balances(_BALANCES_OF_KEYS, *beside.key_columns(keys))

    async def unbalanced_in(self, partitions: Iterable[Unit]) -> tuple[CursorBalance, ...]:
        """Return the balances of whole partitions that do not balance, in one snapshot.

        Postgres drops those that balance, so that thousands of cursors can be checked.
        """
        wanted = unit_columns(unit.base for unit in partitions)[:3]
        return await self._balances(_UNBALANCED_OF_PARTITIONS, *wanted)

    async def unbalanced(self) -> list[CursorState]:
        """Return rows whose books do not balance (P9).

        Reads the whole table, one snapshot: for checks, not for requests.
        """
        return [
            balance.cursor for balance in await self._balances(_ALL_BALANCES) if balance.difference
        ]

    async def _balances(self, statement: str, *arguments: object) -> tuple[CursorBalance, ...]:
        async def work(connection: Connection) -> tuple[CursorBalance, ...]:
            rows = await connection.fetch(statement, *arguments)
            return tuple(map(_balance_of, rows))

        return await self._database.statement(work, writes=False)

    async def _select(
        self, statement: str, tenant_id: bytes, uid: bytes
    ) -> tuple[CursorState, ...]:
        async def work(connection: Connection) -> tuple[CursorState, ...]:
            return tuple(map(state_of, await connection.fetch(statement, tenant_id, uid)))

        return await self._database.of(tenant_id).statement(work, writes=False)


async def _flush(connection: Connection, updates: Sequence[CursorUpdate]) -> dict[CursorKey, int]:
    """Write the updates of cursors, with the rows beside them if there are any."""
    statement, columns = _FLUSH, _columns(updates)
    if any(map(beside.has_rows, updates)):
        statement, columns = _FLUSH_WITH_ROWS, (*columns, *beside.columns(updates))
    rows = await connection.fetch(statement, *columns)
    return {CursorKey(*row[:4]): row[4] for row in map(tuple, rows)}


def state_of(row: Any) -> CursorState:
    """Return the state of a cursor from a row of `COLUMNS`."""
    return CursorState(
        key=CursorKey(row["tenant_id"], row["subscription_uid"], row["partition"], row["lane"]),
        topic_uid=row["topic_uid"],
        epoch=Epoch(row["epoch_era"], row["epoch_n"]),
        generation=row["generation"],
        start=row["start_offset"],
        floor=row["floor"],
        read_to=row["read_to"],
        acked=parse_ranges(row["acked"]),
        counters=Counters(
            acked=row["acked_total"],
            filtered=row["filtered_total"],
            skipped=row["skipped_total"],
            expired=row["expired_total"],
            dead_lettered=row["dead_lettered_total"],
        ),
        exceptions=row["exceptions"],
    )


def _balance_of(row: Any) -> CursorBalance:
    return CursorBalance(state_of(row), row["open_deliveries"])


def unit_columns(
    keys: Iterable[Unit],
) -> tuple[list[bytes], list[bytes], list[int], list[bytes]]:
    """Return the columns of units as arrays for unnest."""
    ordered = sorted(set(keys))
    return (
        [key.tenant_id for key in ordered],
        [key.topic_uid for key in ordered],
        [key.partition for key in ordered],
        [key.subscription_uid for key in ordered],
    )


def _columns(updates: Sequence[CursorUpdate]) -> tuple[list[Any], ...]:
    """Return the updates as columns, one list for each parameter of the statement."""
    return (
        [update.key.tenant_id for update in updates],
        [update.key.subscription_uid for update in updates],
        [update.key.partition for update in updates],
        [update.key.lane for update in updates],
        [update.epoch.era for update in updates],
        [update.epoch.n for update in updates],
        [update.generation for update in updates],
        [update.floor for update in updates],
        [update.read_to for update in updates],
        [format_ranges(update.acked) for update in updates],
        [update.counters.acked for update in updates],
        [update.counters.filtered for update in updates],
        [update.counters.skipped for update in updates],
        [update.counters.expired for update in updates],
        [update.counters.dead_lettered for update in updates],
        [update.exceptions for update in updates],
    )
