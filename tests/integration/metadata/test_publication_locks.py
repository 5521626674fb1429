"""A publication by an ack is decided once: by the flush that commits the ack, or by a sweep."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from metadata.database import Connection
from metadata.delivery import publications
from metadata.delivery.deliveries import Publication
from metadata.delivery.publications import PublicationRepository
from tests.integration.metadata.world import World, settled


async def test_a_sweep_waits_for_the_flush_that_commits_a_publication(world: World) -> None:
    """The sweep would abort what the flush found open, and discard outputs of a committed ack."""
    topic = await world.topic(partitions=1)
    await world.subscription(topic)
    claims = await world.claim(await world.forwarder(), topic)
    repository = PublicationRepository(world.database)
    publication = Publication(world.tenant_id, os.urandom(16), ())
    await repository.open([publication])
    update = replace(settled(claims[0].cursors[0], floor=1, read_to=1), publications=(publication,))

    async def flush(connection: Connection) -> asyncio.Task[bool]:
        assert await publications.lock(connection, [update]) == set()
        sweeping = asyncio.create_task(repository.abort(*publication[:2]))
        await asyncio.sleep(0.3)
        assert not sweeping.done(), "it was aborted under the flush that commits it"
        await publications.commit(connection, [update])
        return sweeping

    sweeping = await world.database.transaction(flush)
    assert not await sweeping
    assert await repository.left("aborted", older_than_s=-1, limit=10) == []
    (committed,) = await repository.left("committed", older_than_s=-1, limit=10)
    assert committed.tag == publication.tag
