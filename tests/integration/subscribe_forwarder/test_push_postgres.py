"""Pushing on a real Postgres, to a real endpoint that behaves as endpoints do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest
from msgspec import structs

from edge.egress.guard import Guard
from harness.hostile_endpoint import HostileEndpoint
from metadata.database import Database
from metadata.subscriptions.push_attempts import PushAttemptRepository
from metadata.subscriptions.push_config import PushConfig
from metadata.subscriptions.push_endpoints import PushEndpointRepository
from metadata.tenancy.audit import AuditFilter, AuditLog
from metadata.types import RetryPolicy, Subscription
from openapi.push import PushStatus
from outbox import Outbox
from subscribe_forwarder.push import breaker as breaker_module
from subscribe_forwarder.push import pushers as pushers_module
from subscribe_forwarder.push.attempts import AttemptLog
from subscribe_forwarder.push.endpoints import Endpoints
from subscribe_forwarder.push.engine import Means
from subscribe_forwarder.push.pushers import Pushers
from subscribe_forwarder.push.requests import NoTokens, Requests
from subscribe_forwarder.push.sender import OneRule, Sender
from tests.integration.subscribe_forwarder.forwarder_support import Site, kill, subscribe
from tests.unit.subscribe_forwarder.subscribe_support import NO_OUTBOX, Consumer, doomed

AT_ONCE = RetryPolicy(min_backoff_s=0.0, max_backoff_s=0.1, max_attempts=3)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushers_module, "TICK_S", 0.05)
    monkeypatch.setattr(pushers_module, "TOLD_AFTER_S", 0.2)
    monkeypatch.setattr(breaker_module, "PAUSE_FIRST_S", 0.05)
    monkeypatch.setattr(breaker_module, "PAUSE_MOST_S", 0.2)


@pytest.fixture
async def endpoint() -> AsyncIterator[HostileEndpoint]:
    async with HostileEndpoint() as made:
        yield made


class Pushing:
    """One forwarder that pushes."""

    def __init__(self, consumer: Consumer, site: Site, sender: Sender) -> None:
        forwarder = consumer.forwarder
        self.consumer = consumer
        self.log = AttemptLog(PushAttemptRepository(site.database))
        requests = Requests(None, NoTokens())
        self.means = Means(
            forwarder, Endpoints(), requests, sender, self.log, lambda _, __, ___: None
        )
        self.endpoints = PushEndpointRepository(site.database)
        self.pushers = Pushers(forwarder, self.endpoints, self.means, requests)

    def state(self, one: Subscription) -> Any:
        shown = self.pushers.status(one.uid)
        return None if shown is None else shown.state


@asynccontextmanager
async def pushing(
    site: Site, endpoint: HostileEndpoint, outbox: Outbox | None = None
) -> AsyncIterator[Pushing]:
    guard = Guard(["http://127.0.0.0/8:*"])
    sender = Sender(OneRule(guard), ssl_context=endpoint.trusting())
    async with site.forwarder(outbox=outbox) as consumer:
        made = Pushing(consumer, site, sender)
        made.log.start()
        made.pushers.start()
        try:
            yield made
        finally:
            await made.pushers.close()
            await made.log.close()
            await sender.close()


def to(url: str, **push: Any) -> dict[str, Any]:
    """Return the fields of a subscription that pushes to the URL."""
    config = PushConfig(**({"url": url, "verify": False, "timeout_s": 1.0} | push))
    return {"type": "push", "push": config, "retry": AT_ONCE}


async def until(true: Callable[[], Any], within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while True:
            found = true()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.02)


async def test_what_was_delivered_is_acked_and_not_repeated_after_a_kill(
    database: Database, endpoint: HostileEndpoint
) -> None:
    site = await Site.open(database, **to(endpoint.url("/ok")))
    total = 2000
    async with pushing(site, endpoint) as first:
        for n in range(total // 100):
            site.store.publish(*[b"%d" % (100 * n + i) for i in range(100)])
        await endpoint.arrivals(total // 2)
        await kill(first.consumer)
        engine = next(iter(first.pushers._pushed.values())).engine
        assert engine is not None
        shown = PushStatus("enabled", None, None)
        engine.tell(shown)
        at_most = engine.in_flight + cast(int, shown.uncommitted)
        await first.pushers.close()
    received = len(endpoint.received)
    row = await site.row()
    durable = row.floor + sum(high - low for low, high in row.acked)
    assert received - durable <= at_most + 100, "what may be repeated"
    async with pushing(site, endpoint) as second:
        await until(lambda: _acked(site, total))
        assert second.state(site.subscription) == "enabled"
    bodies = [msgspec.json.decode(one.body)["messages"][0]["offset"] for one in endpoint.received]
    assert set(bodies) == set(range(total))
    assert len(bodies) - total <= at_most + 100


async def _acked(site: Site, total: int) -> bool:
    row = await site.row()
    return row.floor == total and row.exceptions == 0


MESSAGES = 3
"""The number of messages.

They take a minute: where nothing answers well, an origin gets a request a second.
"""
BAD = ["/status/418", "/500", "/hang", "/huge", "/redirect", "/early-close", "/garbage", "/drip"]


async def test_every_message_is_delivered_or_dead_lettered_and_others_go_on(
    database: Database, endpoint: HostileEndpoint
) -> None:
    site = await Site.open(database, **to(endpoint.url("/ok")))
    bad: list[Subscription] = []
    for number, path in enumerate(BAD):
        made = await subscribe(
            database,
            site.topic,
            f"bad-{number}",
            dead_letter_topic="letters",
            **to(endpoint.url(path), timeout_s=0.2),
        )
        bad.append(made)

    def dead_of(one: Subscription) -> set[int]:
        uid = one.uid
        return {dead.offset for reader, dead in told if reader.cursor.key.subscription_uid == uid}

    with doomed() as told:
        async with pushing(site, endpoint, NO_OUTBOX) as p:
            site.store.publish(*[b"%d" % i for i in range(MESSAGES)])
            await endpoint.arrivals(MESSAGES, "/ok")
            await until(lambda: all(len(dead_of(one)) == MESSAGES for one in bad), 120)
            await until(lambda: _acked(site, MESSAGES))
            await p.log.flush()
            for one in bad:
                page = await p.log._attempts.page(  # type: ignore[attr-defined]
                    site.tenant_id, one.uid, limit=1000
                )
                assert len(page) >= 3 * MESSAGES, "three attempts of each"
                assert {row.attempt for row in page} == {1, 2, 3}
                assert "delivered" not in {row.outcome for row in page}


async def test_an_endpoint_is_disabled_and_enabled_again(
    database: Database, endpoint: HostileEndpoint
) -> None:
    patient = replace(AT_ONCE, max_attempts=None)
    url = endpoint.url("/410")
    site = await Site.open(database, **(to(url) | {"retry": patient}))
    async with pushing(site, endpoint) as p:
        site.store.publish(b"a", b"b")
        await until(lambda: p.state(site.subscription) == "disabled")
        row = await p.endpoints.get(site.tenant_id, site.subscription.uid)
        assert row is not None
        assert (row.state, row.reason) == ("disabled", "the endpoint answered 410")
        assert await audited(site) == [("disabled", row.reason)]
    async with pushing(site, endpoint) as p:
        await until(lambda: p.state(site.subscription) == "disabled")
        count = len(endpoint.received)
        await asyncio.sleep(0.3)
        assert len(endpoint.received) == count, "also at the next owner"


async def test_nothing_but_failures_for_long_enough(
    database: Database, endpoint: HostileEndpoint
) -> None:
    patient = replace(AT_ONCE, max_attempts=None)
    spec = to(endpoint.url("/500"), disable_after_s=1.0) | {"retry": patient}
    site = await Site.open(database, **spec)
    async with pushing(site, endpoint) as p:
        site.store.publish(b"a")
        await until(lambda: p.state(site.subscription) == "disabled")
        row = await p.endpoints.get(site.tenant_id, site.subscription.uid)
        assert row is not None
        assert "nothing but failures" in (row.reason or "")
        await p.pushers.enable(site.subscription)
        await until(lambda: p.state(site.subscription) == "enabled")
        row = await p.endpoints.get(site.tenant_id, site.subscription.uid)
        assert row is not None
        assert (row.state, row.verified_url) == ("unverified", None)


async def test_what_is_written_of_endpoints(database: Database) -> None:
    site = await Site.open(database, **to("https://hooks.example/"))
    one, endpoints = site.subscription, PushEndpointRepository(database)
    assert await endpoints.get(one.tenant_id, one.uid) is None
    assert await endpoints.not_verified(one, "no answer")
    assert not await endpoints.not_verified(one, "no answer"), "nothing new"
    assert await endpoints.verified(one, "https://hooks.example/")
    assert not await endpoints.disable(one, "too early", failing_for_s=10)
    await endpoints.failing([(one, 5.0)])
    assert not await endpoints.disable(one, "too early", failing_for_s=10)
    await endpoints.well([one])
    await endpoints.failing([(one, 20.0)])
    await endpoints.failing([(one, 1.0)])
    assert await endpoints.disable(one, "long enough", failing_for_s=10)
    assert not await endpoints.disable(one, "again")
    assert await endpoints.verified(one, "https://other.example/")
    row = (await endpoints.load([one]))[one.uid]
    assert (row.state, row.reason, row.verified_url) == (
        "disabled",
        "long enough",
        "https://other.example/",
    )
    assert await endpoints.enable(one)
    row = (await endpoints.load([one]))[one.uid]
    assert (row.state, row.reason, row.failing_since) == ("enabled", None, None)
    gone = structs.replace(one, uid=bytes(16))
    await endpoints.failing([(gone, 1.0)])
    await endpoints.well([gone])
    assert await endpoints.load([gone]) == {}


async def audited(site: Site) -> list[tuple[str, str | None]]:
    """Return the platform's actions on `reader`, in their order."""
    wanted = AuditFilter(actor="platform", oldest_first=True)
    page = await AuditLog(site.database).page(site.tenant_id, wanted)
    assert {entry.resource for entry in page.items} <= {"subscriptions/reader"}
    assert all(entry.status == 200 for entry in page.items)
    prefix = "subscriptions.push."
    return [(one.action.removeprefix(prefix), one.detail.get("reason")) for one in page.items]


async def test_each_transition_is_audited_once_however_many_find_out(database: Database) -> None:
    url, other = "https://hooks.example/", "https://other.example/"
    site = await Site.open(database, **to(url))
    one = site.subscription
    owners = [PushEndpointRepository(database) for _ in range(4)]

    async def all_of(act: Callable[[PushEndpointRepository], Any]) -> None:
        await asyncio.gather(*(act(owner) for owner in owners))

    await all_of(lambda owner: owner.not_verified(one, "no answer"))
    await all_of(lambda owner: owner.not_verified(one, "still no answer"))
    await all_of(lambda owner: owner.verified(one, url))
    await all_of(lambda owner: owner.failing([(one, 20.0)]))
    await all_of(lambda owner: owner.disable(one, "too early", failing_for_s=30))
    await all_of(lambda owner: owner.disable(one, "long enough", failing_for_s=10))
    await all_of(lambda owner: owner.enable(one))
    await all_of(lambda owner: owner.failing([(one, 1.0)]))
    await all_of(lambda owner: owner.enable(one))
    await all_of(lambda owner: owner.verified(one, other))
    assert await audited(site) == [
        ("unverified", "no answer"),
        ("verified", None),
        ("disabled", "long enough"),
        ("enabled", None),
        ("verified", None),
    ]


async def test_the_log_is_listed_and_bounded(database: Database, endpoint: HostileEndpoint) -> None:
    site = await Site.open(database, **to(endpoint.url("/ok")))
    attempts = PushAttemptRepository(database)
    async with pushing(site, endpoint) as p:
        site.store.publish(*[b"%d" % i for i in range(50)])
        await endpoint.arrivals(50)
        await until(lambda: _acked(site, 50))
        await p.log.flush()
        uid = site.subscription.uid
        page = await attempts.page(site.tenant_id, uid, limit=1000)
        # Deliveries end in any order; and where the lease is lost amid them, some come twice.
        assert {row.offset for row in page} == set(range(50))
        assert [row.id for row in page] == sorted((row.id for row in page), reverse=True)
        rest = await attempts.page(site.tenant_id, uid, before=page[29].id, limit=1000)
        assert rest == page[30:]
        wanted = page[7].message_id
        found = await attempts.page(site.tenant_id, uid, message_id=wanted, limit=1000)
        assert found == [row for row in page if row.message_id == wanted]
        assert await attempts.page(site.tenant_id, uid, outcome="failed", limit=10) == []
        await attempts.trim([(site.tenant_id, uid)], 20)
        assert await attempts.page(site.tenant_id, uid, limit=1000) == page[:20]
        await attempts.prune()
        assert len(await attempts.page(site.tenant_id, uid, limit=1000)) == 20
