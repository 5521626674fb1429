"""Two forwarders with links on a real Postgres: units go where hints want them, and come back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from metadata.catalog import Catalog
from metadata.database import Database
from metadata.delivery.assignments import AssignmentRepository
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.fleet import FleetRepository
from metadata.delivery.forwarded import ForwardedRepository
from metadata.delivery.hints import HintRepository
from metadata.delivery.leases import LeaseRepository
from metadata.feed import ChangeFeed
from metadata.ids import new_uid
from metadata.locks.locks import LockRepository
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.topics.topics import TopicRepository
from metadata.types import Unit
from subscribe_forwarder.fleet import rendezvous
from subscribe_forwarder.fleet.links.network import LinkNetwork
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.settings import SubscribeSettings
from tests.integration.metadata.world import keys_of
from tests.integration.subscribe_forwarder.forwarder_support import Site
from tests.unit.subscribe_forwarder.subscribe_support import ACK_KEY

PATIENCE_S = 30.0


@asynccontextmanager
async def linked(site: Site) -> AsyncIterator[SubscribeForwarder]:
    """Yield a forwarder that shares with others, and reports its load."""
    database = site.database
    async with AsyncExitStack() as stack:
        feed = ChangeFeed(database, poll_every_s=0.2)
        links = LinkNetwork(ACK_KEY)
        port = await links.start("127.0.0.1", 0)
        stack.push_async_callback(links.close, 0.1)
        forwarder = SubscribeForwarder(
            store=site.store,
            catalog=Catalog(TopicRepository(database), SubscriptionRepository(database), feed),
            feed=feed,
            cursors=CursorRepository(database),
            assignments=AssignmentRepository(database),
            leases=LeaseRepository(database),
            forwarded=ForwardedRepository(database),
            ack_key=ACK_KEY,
            settings=SubscribeSettings(drain_s=2.0),
            address=f"127.0.0.1:{port}",
            links=links,
            hints=HintRepository(database),
        )
        await feed.start()
        stack.push_async_callback(feed.close)
        await forwarder.start()
        stack.push_async_callback(forwarder.close)
        yield forwarder


async def owned(site: Site, wanted: Mapping[Unit, bytes]) -> None:
    """Wait until the topic has exactly these units, with these owners."""
    fleet = FleetRepository(site.database)
    found: Mapping[Unit, bytes | None] = {}
    deadline_s = time.monotonic() + PATIENCE_S
    while found != wanted:
        assert time.monotonic() < deadline_s, f"{told(found)}, not {told(wanted)}"
        await asyncio.sleep(0.1)
        found = await fleet.owned([(site.tenant_id, site.topic.uid)])


def told(owners: Mapping[Unit, bytes | None]) -> list[str]:
    return [
        f"{unit.partition}/{unit.subscription_uid.hex()[-4:]}: {(owner or b'').hex()[:4]}"
        for unit, owner in sorted(owners.items())
    ]


async def reporting(database: Database, *forwarders: SubscribeForwarder) -> None:
    """Until each has a lease, and its load is in Postgres."""
    fleet = FleetRepository(database)
    async with asyncio.timeout(PATIENCE_S):
        while {each.incarnation for each in await fleet.live() if each.load is not None} != {
            forwarder.incarnation for forwarder in forwarders
        }:
            await asyncio.sleep(0.1)


async def test_units_go_where_hints_want_them_and_come_back(database: Database) -> None:
    site = await Site.open(database, partitions=2)
    first, second = keys_of(site.topic)
    hints = HintRepository(database)
    lock = await LockRepository(database).take("scheduler", new_uid())
    assert lock is not None
    async with linked(site) as one, linked(site) as other:
        await reporting(database, one, other)
        ids = {forwarder.incarnation: 1.0 for forwarder in (one, other)}
        home = rendezvous.home(site.topic.uid, ids)
        assert home is not None
        (away,) = ids.keys() - {home}
        await owned(site, {first: home, second: home})
        split = first._replace(subscription_uid=site.subscription.uid)

        await hints.replace(lock, {second: (away, "partition: load"), split: (away, "split: load")})
        await owned(site, {first: home, second: away, split: away})

        await hints.replace(lock, {}, [second, split])
        await owned(site, {first: home, second: home})
