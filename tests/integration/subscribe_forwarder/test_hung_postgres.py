"""Postgres accepts connections and answers nothing: who acks is told so, soon at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from edge.breaker import State
from gateway.breakers import MetadataBreaker
from metadata.database import Database
from metadata.types import Counters
from tests.integration.metadata.proxy import Proxy
from tests.integration.subscribe_forwarder.forwarder_support import Site

AT_ONCE_S = 0.3


async def test_after_the_first_no_ack_waits_and_all_heals(database: Database) -> None:
    site = await Site.open(database)
    proxy, guard = Proxy(database.settings.url), MetadataBreaker()
    behind = Database(replace(database.settings, url=await proxy.start()), guard=guard)
    await behind.connect()
    try:
        async with site.forwarder(behind) as consumer:
            site.store.publish(b"a", b"b", b"c")
            messages = await consumer.pulled(3)
            proxy.requests.clear()
            assert (await consumer.ack(messages[0])).status == 503
            async with asyncio.timeout(10):
                while guard.state is State.CLOSED:
                    await asyncio.sleep(0.05)
            for message in messages[1:]:
                async with asyncio.timeout(AT_ONCE_S):
                    assert (await consumer.ack(message)).status == 503
            proxy.requests.set()
            async with asyncio.timeout(30):
                await consumer.ready()
                while (answer := await consumer.ack(*messages)).status == 503:
                    await asyncio.sleep(0.1)
            assert answer.json()["acked"] == 3
            assert (await site.row()).counters == Counters(acked=3)
            assert guard.state is State.CLOSED
    finally:
        proxy.requests.set()
        await behind.close()
        await proxy.close()
