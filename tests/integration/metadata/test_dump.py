"""All rows as of one moment, and another database made of them."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from metadata.database import Database
from metadata.postgres.dump import Dump, NoSchema, NotEmpty, dump, load
from metadata.settings import DatabaseSettings
from metadata.subscriptions.seeks import ERA_SHIFT
from tests.integration.metadata.world import World

ERA = 16


class Files:
    """The files of a dump in memory, by the name of a table."""

    def __init__(self) -> None:
        self.written: dict[str, bytes] = {}

    @contextlib.contextmanager
    def new(self, name: str) -> Iterator[io.BytesIO]:
        file = io.BytesIO()
        yield file
        self.written[name] = file.getvalue()

    @contextlib.contextmanager
    def old(self, name: str) -> Iterator[io.BytesIO]:
        yield io.BytesIO(self.written[name])


@pytest.fixture
async def other_url(database_url: str) -> AsyncIterator[str]:
    """Create an empty database of the same server."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("CREATE DATABASE restored")
    try:
        yield database_url.rsplit("/", 1)[0] + "/restored"
    finally:
        await connection.execute("DROP DATABASE restored WITH (FORCE)")
        await connection.close()


async def taken(url: str) -> tuple[Dump, Files]:
    files = Files()
    return await dump(url, files.new), files


async def test_a_database_is_made_again_as_it_was(
    world: World, database_url: str, other_url: str
) -> None:
    """The dump has rows of several tenants, under row-level security, with their references."""
    other = await World.open(world.database)
    for one in (world, other):
        topic = await one.topic()
        subscription = await one.subscription(topic)
    claims = await world.claim(await world.forwarder(), await world.topic("again"))
    assert claims
    before, files = await taken(database_url)
    assert sum(table.rows for table in before.tables) > 10

    await load(other_url, before, files.old, era=ERA)

    after, again = await taken(other_url)
    assert (after.revision, after.tables, after.sequences) == (
        before.revision,
        before.tables,
        before.sequences,
    )
    changed = {name for name, rows in files.written.items() if again.written[name] != rows}
    assert changed == {"subscriptions", "cursors"}, "but for the generation of cursors"
    database = Database(DatabaseSettings(other_url))
    await database.connect()
    try:
        restored = World(database, other.tenant_id)
        found = await restored.subscriptions.get(other.tenant_id, subscription.name)
        assert found.generation == ERA << ERA_SHIFT
        assert (await restored.topics.get(other.tenant_id, "orders")).uid == topic.uid
    finally:
        await database.close()


async def test_rows_are_of_one_moment(world: World, database_url: str) -> None:
    """No table has rows that were written while tables were read."""
    files = Files()
    later = threading.Thread(target=lambda: asyncio.run(_write(database_url)))

    @contextlib.contextmanager
    def new(name: str) -> Iterator[io.BytesIO]:
        if later.ident is None:
            later.start()
            later.join()
        with files.new(name) as file:
            yield file

    dumped = await dump(database_url, new)
    rows = {table.name: table.rows for table in dumped.tables}
    again, _ = await taken(database_url)
    assert {table.name: table.rows for table in again.tables} == rows | {
        "usage_reporters": rows["usage_reporters"] + 1
    }


async def _write(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("INSERT INTO usage_reporters SELECT gen_random_uuid(), 1")
    await connection.close()


async def test_a_database_with_tables_is_left_alone(world: World, database_url: str) -> None:
    dumped, files = await taken(database_url)
    with pytest.raises(NotEmpty):
        await load(database_url, dumped, files.old, era=ERA)


async def test_a_database_without_ours_is_not_dumped(other_url: str) -> None:
    with pytest.raises(NoSchema):
        await taken(other_url)
