"""Schemas on a real Postgres."""

from __future__ import annotations

import asyncio

import pytest

from metadata.errors import Conflict, NotFound
from metadata.topics.schema_catalog import SchemaCatalog
from metadata.topics.schemas import SchemaRepository
from metadata.types import TopicSpec
from tests.integration.metadata.world import World


async def made(world: World, name: str = "order", definition: str = "{}") -> SchemaRepository:
    schemas = SchemaRepository(world.database)
    await schemas.create(
        world.tenant_id, name, type_="json_schema", compatibility="none", definition=definition
    )
    return schemas


async def test_versions_grow_by_one_and_only_after_the_latest(world: World) -> None:
    schemas, tenant_id = await made(world), world.tenant_id
    with pytest.raises(Conflict):
        await made(world)
    added = await asyncio.gather(
        *(schemas.add_version(tenant_id, "order", f'{{"n":{n}}}', after=1) for n in range(4)),
        return_exceptions=True,
    )
    assert sum(isinstance(one, Conflict) for one in added) == 3
    latest = await schemas.get(tenant_id, "order")
    assert latest.number == 2
    assert (await schemas.version(tenant_id, "order", 1)).definition == "{}"
    with pytest.raises(NotFound):
        await schemas.version(tenant_id, "order", 3)
    assert [number for number, _ in await schemas.versions(tenant_id, "order")] == [2, 1]
    changed = await schemas.set_compatibility(tenant_id, "order", "full")
    assert changed.version > latest.version
    with pytest.raises(Conflict):
        await schemas.delete(tenant_id, "order", if_version=latest.version)


async def test_a_schema_in_use_stays_and_names_belong_to_tenants(world: World) -> None:
    schemas, tenant_id = await made(world), world.tenant_id
    await world.topics.create(tenant_id, TopicSpec("t", schema="order"), [0])
    with pytest.raises(Conflict) as refused:
        await schemas.delete(tenant_id, "order")
    assert refused.value.existing == "t"
    other = await World.open(world.database)
    for work in (
        schemas.get(other.tenant_id, "order"),
        schemas.delete(other.tenant_id, "order"),
        other.topics.create(other.tenant_id, TopicSpec("t", schema="order"), [0]),
    ):
        with pytest.raises(NotFound):
            await work
    page = await schemas.page(tenant_id, page_size=1)
    assert ([one.name for one in page.items], page.next_token) == (["order"], None)


async def test_the_catalog_hears_of_versions_and_of_a_schema_made_again(world: World) -> None:
    schemas, tenant_id = await made(world), world.tenant_id
    catalog = SchemaCatalog(schemas, world.feed)
    await world.feed.start()
    assert (await catalog.get(tenant_id, "order")).number == 1
    await schemas.add_version(tenant_id, "order", '{"n":2}', after=1)
    await until(lambda: (c := catalog.cached(tenant_id, "order")) is not None and c.number == 2)
    assert (await catalog.version(tenant_id, "order", 1)).definition == "{}"
    await schemas.delete(tenant_id, "order")
    await made(world, definition='{"again":1}')
    await until(lambda: (c := catalog.cached(tenant_id, "order")) is None or c.number == 1)
    assert (await catalog.get(tenant_id, "order")).definition == '{"again":1}'
    await until_version_is(catalog, tenant_id, '{"again":1}')


async def until_version_is(catalog: SchemaCatalog, tenant_id: bytes, definition: str) -> None:
    async with asyncio.timeout(30):
        while (await catalog.version(tenant_id, "order", 1)).definition != definition:
            await asyncio.sleep(0.02)


async def until(holds: object) -> None:
    async with asyncio.timeout(30):
        while not holds():  # type: ignore[operator]
            await asyncio.sleep(0.02)
