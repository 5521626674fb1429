"""Publishes of tenants with limits: refused as a whole, before anything of them is accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from edge.quota import PUBLISHED_BYTES, PUBLISHED_MESSAGES
from gateway.quotas.limiter import Limiter
from metadata.tenancy.quotas import TenantQuota
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.settings import PublishSettings
from tests.unit.publish_forwarder.publish_support import (
    TENANT,
    FakeCatalog,
    FakeStore,
    post,
    post_batch,
    topic,
)

LIMITS = ("publish_messages_per_second", "publish_bytes_per_second")


class Site:
    def __init__(self, **limits: float) -> None:
        self.now_s = 1000.0
        self.store = FakeStore()
        self.limiter = Limiter(LIMITS, {}, lambda: self.now_s)
        self.limiter.follow([TenantQuota(TENANT, limits)])
        self.usage: Counter[str] = Counter()
        self.forwarder = PublishForwarder(
            FakeCatalog(topic(partitions=1)),
            self.store,
            PublishSettings(drain_s=0.05, timeout_s=2.0),
            quotas=self.limiter,
            usage=self,
            registry=None,
        )

    def count(self, tenant_id: bytes, metric: str, value: float) -> None:
        assert tenant_id == TENANT
        self.usage[metric] += int(value)


@asynccontextmanager
async def site_of(**limits: float) -> AsyncIterator[Site]:
    site = Site(**limits)
    try:
        yield site
    finally:
        await site.forwarder.close()


async def test_beyond_the_limit_it_is_429_and_nothing_is_stored() -> None:
    async with site_of(publish_messages_per_second=8) as site:
        first = await post(site.forwarder, b"one")
        assert first.status == 201
        assert first.headers[b"ratelimit-policy"] == b'"publish_messages_per_second";q=8;w=1'
        assert first.headers[b"ratelimit"] == b'"publish_messages_per_second";r=1;t=1'
        assert (await post(site.forwarder, b"two")).status == 201
        refused = await post(site.forwarder, b"three")
        assert refused.status == 429
        assert refused.json()["quota"] == "publish_messages_per_second"
        assert [message.data for message in site.store.partition(0).log] == [b"one", b"two"]
        assert site.forwarder.budget.held_messages == 0
        site.now_s += 1.0
        assert (await post(site.forwarder, b"four")).status == 201


async def test_a_batch_is_refused_as_a_whole() -> None:
    async with site_of(publish_messages_per_second=8) as site:
        items = [{"data": str(number)} for number in range(20)]
        stored = await post_batch(site.forwarder, items)
        assert stored.status == 200, "larger than a second's worth, it passes"
        refused = await post_batch(site.forwarder, items[:1])
        assert refused.status == 429
        assert len(site.store.partition(0).log) == 20
        assert site.forwarder.budget.held_messages == 0


async def test_bytes_are_those_of_the_texts() -> None:
    async with site_of(publish_bytes_per_second=4000) as site:
        assert (await post(site.forwarder, b"x" * 999)).status == 201
        assert (await post(site.forwarder, b"x" * 999)).status == 201
        assert (await post(site.forwarder, b"x")).status == 429


async def test_what_was_stored_is_counted() -> None:
    async with site_of() as site:
        assert b"ratelimit" not in (await post(site.forwarder, b"12345")).headers
        await post_batch(site.forwarder, [{"data": "1"}, {"data": "2"}])
        assert site.usage[PUBLISHED_MESSAGES] == 3
        assert site.usage[PUBLISHED_BYTES] >= 7


async def test_what_was_refused_or_known_already_is_not_counted() -> None:
    async with site_of(publish_messages_per_second=8) as site:
        headers = {"Idempotency-Key": "once"}
        await post(site.forwarder, b"one", headers)
        again = await post(site.forwarder, b"one", headers)
        assert again.json()["duplicate"]
        assert (await post(site.forwarder, b"three")).status == 429
        assert site.usage[PUBLISHED_MESSAGES] == 1
