"""Keeps the fate of messages that an ack publishes: one row per ack, by their tag in the store.

    open        written before anything is staged, naming the queues
    committed   by the flush that commits the ack (cursors.py), naming the stage numbers: from here
                on they are released, by whoever gets to it
    aborted     by a sweep, of a row that stayed open: after it no flush can commit the tag, so
                what is staged under it may be discarded; kept for a while from then on (its
                `created_at` is when it was aborted), and swept once more, for what a slow process
                staged after that
    no row      released, or discarded

A flush and a sweep change a row only where it is `open`, so exactly one of them wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from metadata.database import Connection, Database
from metadata.delivery.deliveries import Publication, StagedOutputs
from metadata.types import CursorKey, CursorUpdate

_OPEN = """
INSERT INTO ack_publications (tenant_id, tag, state, outputs)
SELECT tenant_id, tag, 'open', outputs
FROM unnest($1::uuid[], $2::uuid[], $3::bytea[]) AS new (tenant_id, tag, outputs)
"""
_DROP = """
DELETE FROM ack_publications
USING unnest($1::uuid[], $2::uuid[]) AS gone (tenant_id, tag)
WHERE ack_publications.tenant_id = gone.tenant_id AND ack_publications.tag = gone.tag
  AND state = $3
"""
_LEFT = """
SELECT tenant_id, tag, state, outputs FROM ack_publications
WHERE state = $1 AND created_at < clock_timestamp() - make_interval(secs => $2)
ORDER BY created_at, tag
OFFSET $4 LIMIT $3
"""
_WITH_SOME = """
SELECT wanted.state FROM unnest($1::text[], $2::float8[]) AS wanted (state, older_than_s)
WHERE EXISTS (
    SELECT FROM ack_publications
    WHERE ack_publications.state = wanted.state
      AND created_at < clock_timestamp() - make_interval(secs => wanted.older_than_s)
)
"""
_LOCK_OPEN = """
SELECT ack_publications.tenant_id, ack_publications.tag
FROM ack_publications
JOIN unnest($1::uuid[], $2::uuid[]) AS wanted (tenant_id, tag) USING (tenant_id, tag)
WHERE state = 'open'
ORDER BY ack_publications.tenant_id, ack_publications.tag
FOR UPDATE OF ack_publications
"""
_COMMIT = """
UPDATE ack_publications SET state = 'committed', outputs = new.outputs
FROM unnest($1::uuid[], $2::uuid[], $3::bytea[]) AS new (tenant_id, tag, outputs)
WHERE ack_publications.tenant_id = new.tenant_id AND ack_publications.tag = new.tag
"""
_FATES = """
SELECT ack_publications.tag, state
FROM ack_publications
JOIN unnest($1::uuid[], $2::uuid[]) AS wanted (tenant_id, tag) USING (tenant_id, tag)
"""
_ABORT = """
UPDATE ack_publications SET state = 'aborted', created_at = clock_timestamp()
WHERE tenant_id = $1 AND tag = $2 AND state = 'open'
RETURNING 1
"""


_encode = msgspec.msgpack.encode
_decoder = msgspec.msgpack.Decoder(tuple[StagedOutputs, ...])


def encode_outputs(outputs: Sequence[StagedOutputs]) -> bytes:
    """Return the column `outputs`."""
    return _encode(list(outputs))


async def lock(connection: Connection, updates: Sequence[CursorUpdate]) -> set[CursorKey]:
    """Return the cursors that must not be written, because a publication of theirs is no longer
    open.

    The open publications stay open until this transaction ends. They are locked before cursors, as
    everywhere.
    """
    wanted = [
        (update.key, publication) for update in updates for publication in update.publications
    ]
    rows = await connection.fetch(
        _LOCK_OPEN,
        [publication.tenant_id for _, publication in wanted],
        [publication.tag for _, publication in wanted],
    )
    open_ = {(row["tenant_id"], row["tag"]) for row in rows}
    return {key for key, publication in wanted if publication[:2] not in open_}


async def commit(connection: Connection, updates: Sequence[CursorUpdate]) -> None:
    """Commit the publications of cursors that were written in this transaction, after `lock`."""
    await connection.execute(_COMMIT, *_columns([p for u in updates for p in u.publications]))


def _columns(publications: Sequence[Publication]) -> tuple[list[Any], ...]:
    return (
        [publication.tenant_id for publication in publications],
        [publication.tag for publication in publications],
        [encode_outputs(publication.outputs) for publication in publications],
    )


class PublicationRepository:
    """Reads and writes `ack_publications`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, publications: Sequence[Publication]) -> None:
        """Write the rows of publications with new tags, before anything is staged under them."""

        async def work(connection: Connection) -> None:
            await connection.execute(_OPEN, *_columns(publications))

        await self._database.statement(work, writes=True)

    async def released(self, publications: Sequence[Publication]) -> None:
        """Delete the rows of committed publications whose messages can all be read. Idempotent."""
        await self._drop(publications, "committed")

    async def discarded(self, publications: Sequence[Publication]) -> None:
        """Delete the rows of aborted publications of which nothing is staged. Idempotent."""
        await self._drop(publications, "aborted")

    async def with_some(self, older_than_s: Mapping[str, float]) -> set[str]:
        """Return the states with rows that `left` would return at these ages."""
        states, ages = list(older_than_s), list(older_than_s.values())

        async def work(connection: Connection) -> set[str]:
            return {row[0] for row in await connection.fetch(_WITH_SOME, states, ages)}

        return await self._database.statement(work, writes=False)

    async def left(
        self, state: str, *, older_than_s: float, limit: int, skip: int = 0
    ) -> list[Publication]:
        """Return rows of that state that nobody has finished, the oldest first, without the first
        `skip` of them.
        """

        async def work(connection: Connection) -> list[Publication]:
            rows = await connection.fetch(_LEFT, state, older_than_s, limit, skip)
            return [
                Publication(row["tenant_id"], row["tag"], _decoder.decode(row["outputs"]))
                for row in rows
            ]

        return await self._database.statement(work, writes=False)

    async def states_of(self, publications: Sequence[Publication]) -> dict[bytes, str]:
        """Return their states by tag.

        A publication that was open before and is missing was committed and is released. An aborted
        row stays for longer than any caller waits before it asks.
        """

        async def work(connection: Connection) -> dict[bytes, str]:
            tenants, tags, _ = _columns(publications)
            return {row[0]: row[1] for row in await connection.fetch(_FATES, tenants, tags)}

        return await self._database.statement(work, writes=False)

    async def abort(self, tenant_id: bytes, tag: bytes) -> bool:
        """Return whether a publication was open; it is aborted for good now."""

        async def work(connection: Connection) -> bool:
            return await connection.fetchval(_ABORT, tenant_id, tag) is not None

        return await self._database.statement(work, writes=True)

    async def _drop(self, publications: Sequence[Publication], state: str) -> None:
        if not publications:
            return

        async def work(connection: Connection) -> None:
            await connection.execute(
                _DROP,
                [publication.tenant_id for publication in publications],
                [publication.tag for publication in publications],
                state,
            )

        await self._database.statement(work, writes=True)
