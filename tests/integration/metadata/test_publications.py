"""The fate of messages that an ack publishes, as its row says it, on a real Postgres."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence

import pytest

from metadata.database import Connection, Database
from metadata.delivery import publications
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.deliveries import Publication
from metadata.delivery.publications import PublicationRepository
from metadata.ids import new_uid
from metadata.types import CursorKey, CursorUpdate
from tests.integration.metadata.world import World, settled, with_epoch


class Place:
    """A cursor that an ack moves, and the publication of that ack."""

    def __init__(self, database: Database, update: CursorUpdate, tenant_id: bytes) -> None:
        self.database = database
        self.publications = PublicationRepository(database)
        self.cursors = CursorRepository(database)
        self.publication = Publication(tenant_id, new_uid(), ())
        self.update = dataclasses.replace(update, publications=(self.publication,))

    async def commit(self) -> bool:
        """Return whether the flush of the ack wrote its cursor."""
        return self.update.key in await self.cursors.flush([self.update])

    async def abort(self) -> bool:
        return await self.publications.abort(self.publication.tenant_id, self.publication.tag)

    async def left(self, state: str, older_than_s: float = -1.0) -> list[bytes]:
        rows = await self.publications.left(state, older_than_s=older_than_s, limit=10)
        return [row.tag for row in rows]

    async def age(self, seconds: int) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(
                "UPDATE ack_publications SET created_at = created_at - $1 * interval '1 s'", seconds
            )

        await self.database.statement(work, writes=True)


@pytest.fixture
async def place(database: Database) -> Place:
    world = await World.open(database)
    topic = await world.topic("outputs", partitions=1)
    await world.subscription(topic)
    claim = (await world.claim(await world.forwarder(), topic))[0]
    (cursor,) = claim.cursors
    made = Place(database, with_epoch(settled(cursor, floor=1, read_to=1), claim), world.tenant_id)
    await made.publications.open([made.publication])
    return made


async def test_what_is_committed_cannot_be_aborted(place: Place) -> None:
    assert await place.commit()
    assert not await place.abort()
    assert await place.left("committed") == [place.publication.tag]
    assert await place.left("aborted") == []


async def test_what_is_aborted_cannot_be_committed(place: Place) -> None:
    assert await place.abort()
    assert not await place.abort()
    assert not await place.commit()
    assert await place.left("aborted") == [place.publication.tag]


async def test_an_abort_waits_for_the_commit_that_is_under_way(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush has the row to itself from when it looked until it is over."""
    looked, go_on = asyncio.Event(), asyncio.Event()
    lock = publications.lock

    async def slow(connection: Connection, updates: Sequence[CursorUpdate]) -> set[CursorKey]:
        lost = await lock(connection, updates)
        looked.set()
        await go_on.wait()
        return lost

    monkeypatch.setattr(publications, "lock", slow)
    committing = asyncio.create_task(place.commit())
    await looked.wait()
    aborting = asyncio.create_task(place.abort())
    await asyncio.wait({aborting}, timeout=0.3)
    under_way = not aborting.done()
    go_on.set()
    assert (await committing, await aborting) == (True, False)
    assert under_way


async def test_an_aborted_row_is_kept_from_its_abort_on(place: Place) -> None:
    """The sweep aborts a message that a slow process stages afterwards, however long the
    row was open.
    """
    await place.age(3600)
    assert await place.abort()
    assert await place.left("aborted", older_than_s=600.0) == []
    assert await place.publications.with_some({"aborted": 600.0}) == set()
    await place.age(601)
    assert await place.left("aborted", older_than_s=600.0) == [place.publication.tag]
