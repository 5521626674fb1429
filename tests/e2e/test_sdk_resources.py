"""Each area of the API through the SDK, by both clients, against a real installation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest
from packetboat import (
    ApiError,
    AsyncClient,
    Conflict,
    InvalidRequest,
    NotFound,
    Outgoing,
    Retention,
    RetryPolicy,
)
from packetboat.errors import LeaseLost
from packetboat.models import ScheduleMessage

from tests.e2e.both_clients import KINDS, all_of, connected, fresh, publish, topic, until
from tests.e2e.installation import Installation


@pytest.fixture(params=KINDS)
async def client(
    running: Installation, request: pytest.FixtureRequest
) -> AsyncIterator[AsyncClient]:
    async with connected(request.param, running.url, running.token) as client:
        yield client


@pytest.fixture
async def name(client: AsyncClient) -> AsyncIterator[str]:
    async with topic(client) as name:
        yield name


async def test_topics(client: AsyncClient) -> None:
    name = fresh()
    made = await client.topics.create(name, partitions=2, labels={"by": "a test"})
    assert (made.partitions, made.labels) == (2, {"by": "a test"})
    assert made.etag is not None
    changed = await client.topics.update(name, if_match=made.etag, ack_history=True)
    assert (changed.ack_history, changed.labels) == (True, {"by": "a test"})
    with pytest.raises(Conflict, match="412"):
        await client.topics.update(name, if_match=made.etag, ack_history=False)
    again = await client.topics.put(name, retention=Retention("retain", 600))
    assert (again.retention.seconds, again.labels) == (600, {})
    assert again == await client.topics.get(name)
    assert name in [topic.name async for topic in client.topics.list(page_size=1)]
    assert len((await client.topics.page(page_size=1)).items) == 1
    await client.topics.grow(name, 3)

    async def grown() -> bool:
        state = await client.topics.partitions(name)
        return state.placement is None and max(g.partition for g in state.partitions) == 2

    await until(grown)
    with pytest.raises(ApiError):
        await client.topics.move(name, 0, 999)
    await client.topics.delete(name)
    with pytest.raises(NotFound):
        await client.topics.get(name)


async def test_messages_and_replay(client: AsyncClient, name: str) -> None:
    receipts = await publish(client, name, *[{"n": n} for n in range(5)])
    stored = await client.messages.get(name, receipts[0].message_id)
    assert (stored.json(), stored.offset, stored.state) == ({"n": 0}, 0, "published")
    page = await client.messages.read(name, 0, max_messages=2)
    assert [each.json()["n"] for each in page.messages] == [0, 1]
    assert (page.next_offset, page.first_offset, page.end_offset) == (2, 0, 5)
    replayed = client.messages.replay(name, 0, 1, page_size=2, filter="data.n != 2.0")
    assert [each.json()["n"] async for each in replayed] == [1, 3, 4]
    bounded = client.messages.replay(name, 0, 1, end_offset=4, page_size=2, follow=True)
    assert [each.offset async for each in bounded] == [1, 2, 3]
    follows = client.messages.replay(name, 0, 4, follow=True)
    async with aclosing(follows):
        assert (await anext(follows)).offset == 4
    arrow = b"".join([chunk async for chunk in client.messages.replay_arrow(name, 0)])
    assert b"publish_time" in arrow
    epoch = datetime(2026, 1, 1, tzinfo=UTC)
    assert (await client.messages.offsets(name, 0, epoch)).end == 5
    states = await client.messages.ack_states(name, receipts[0].message_id)
    assert states[name].state in ("pending", "leased")


async def test_messages_that_wait(client: AsyncClient, name: str) -> None:
    (waiting,) = await publish(client, name, Outgoing(data="later", delay_seconds=3600))
    at = datetime.now(UTC) + timedelta(hours=2)
    moved = await client.messages.reschedule(name, waiting.message_id, deliver_at=at)
    assert abs(moved - at) < timedelta(seconds=1)
    await client.messages.cancel(name, waiting.message_id)
    assert (await client.messages.get(name, waiting.message_id)).state == "cancelled"
    with pytest.raises(Conflict):
        await client.messages.reschedule(name, waiting.message_id, delay_seconds=5)


async def test_subscriptions(client: AsyncClient, name: str) -> None:
    other = f"{name}-other"
    made = await client.subscriptions.create(
        name,
        other,
        start=datetime(2026, 1, 1, tzinfo=UTC),
        retry=RetryPolicy(1, 5),
        labels={"a": "b"},
    )
    assert (made.retry.max_backoff_seconds, made.type) == (5, "pull")
    changed = await client.subscriptions.update(other, if_match=made.etag, filter="data.n > 1.0")
    assert changed.filter == "data.n > 1.0"
    with pytest.raises(Conflict):
        await client.subscriptions.update(other, if_match=made.etag, filter=None)
    put = await client.subscriptions.put(other, topic=name, max_outstanding=7)
    assert (put.filter, put.max_outstanding, put.labels) == (None, 7, {})
    assert {each.name for each in await all_of(client.subscriptions.list(name))} == {name, other}
    assert other in [each.name async for each in client.subscriptions.list(page_size=1)]
    assert len((await client.subscriptions.page(page_size=1)).items) == 1
    assert (await client.subscriptions.pause(other, "for a test")).state_reason == "for a test"
    assert (await client.subscriptions.drain(other)).state == "draining"
    assert (await client.subscriptions.resume(other)).state == "active"
    assert (await client.subscriptions.get(other)).state == "active"
    await client.subscriptions.delete(other)
    with pytest.raises(NotFound):
        await client.subscriptions.get(other)


async def test_schedules(client: AsyncClient, name: str) -> None:
    message = ScheduleMessage(data={"n": 1}, key="k", attributes={"a": "b"})
    made = await client.schedules.create(name, name, "@yearly", message, time_zone="Europe/Vienna")
    assert (made.message.json(), made.message.key, made.time_zone) == (
        {"n": 1},
        "k",
        "Europe/Vienna",
    )
    changed = await client.schedules.update(name, if_match=made.etag, cron="@monthly")
    with pytest.raises(Conflict):
        await client.schedules.update(name, if_match=made.etag, cron="@daily")
    assert changed.cron == "@monthly"
    assert len(await client.schedules.next_runs(name, count=3)) == 3
    assert (await client.schedules.pause(name)).paused
    assert not (await client.schedules.resume(name)).paused
    run = await client.schedules.run(name)
    (pulled,) = await client.pull(name, wait_seconds=30)
    assert (pulled.message_id, pulled.json(), pulled.key) == (run.message_id, {"n": 1}, "k")
    put = await client.schedules.put(name, name, "@daily", ScheduleMessage(data=b"\x00\xff"))
    assert (put.message.body, put.time_zone) == (b"\x00\xff", "UTC")
    assert name in [each.name async for each in client.schedules.list(page_size=1)]
    assert len((await client.schedules.page(page_size=1)).items) == 1
    await client.schedules.delete(name)
    with pytest.raises(NotFound):
        await client.schedules.get(name)


async def test_schemas(client: AsyncClient, name: str) -> None:
    definition = {"type": "object", "properties": {"n": {"type": "integer"}}}
    made = await client.schemas.create(name, "json_schema", definition, compatibility="backward")
    assert (made.number, made.definition) == (1, definition)
    assert not (await client.schemas.validate(name, {"n": "x"})).valid
    assert (await client.schemas.validate(name, b'{"n": 1}', content_type="application/json")).valid
    other = definition | {"required": ["n"]}
    assert not (await client.schemas.check(name, other)).compatible
    with pytest.raises(InvalidRequest):
        await client.schemas.add_version(name, other)
    assert (await client.schemas.update(name, compatibility="none")).compatibility == "none"
    assert await client.schemas.add_version(name, other) == 2
    assert {version.number for version in await client.schemas.versions(name)} == {1, 2}
    assert (await client.schemas.version(name, 1)).definition == definition
    await publish(client, name, {"n": 1}, {"n": "x"})
    preview = await client.topics.preview_schema(name, name)
    assert (preview.messages, preview.valid) == (2, 1)
    assert name in [each.name async for each in client.schemas.list(page_size=1)]
    assert len((await client.schemas.page(page_size=1)).items) == 1
    assert (await client.schemas.get(name)).number == 2
    await client.schemas.delete(name)


async def test_locks(client: AsyncClient) -> None:
    name = fresh()
    lock = await client.locks.acquire(name, ttl_seconds=30, holder="me", request_id=name)
    assert (await client.locks.renew(name, lock.lock_id)).fencing_token == lock.fencing_token
    assert (await client.locks.verify(name, lock.fencing_token)).current
    assert (await client.locks.get(name)).holder == "me"
    with pytest.raises(Conflict, match="lock-held"):
        await client.locks.acquire(name)
    await client.locks.release(name, lock.lock_id)
    async with client.locks.hold(name, ttl_s=30) as held:
        assert held.fence > lock.fencing_token
        assert not held.lost
    assert not (await client.locks.get(name)).held
    assert name in [each.name async for each in client.locks.list(page_size=1)]
    assert len((await client.locks.page(page_size=1)).items) == 1
    await client.locks.delete(name)


async def test_a_lock_that_is_taken_away_is_lost(client: AsyncClient) -> None:
    name = fresh()

    async def hold() -> None:
        async with client.locks.hold(name, ttl_s=3) as held:
            await client.locks.delete(name)
            await held.wait_lost()
            assert held.lost

    with pytest.raises(LeaseLost):
        await hold()


async def test_the_installation(client: AsyncClient) -> None:
    await client.server.alive()
    await client.server.ready()
    assert (await client.server.who_am_i()).subject == (await client.whoami()).subject
    assert len((await client.server.forwarders()).forwarders) >= 1
    metadata = await client.tokens.metadata()
    assert metadata.token_endpoint.endswith("/oauth/token")
    assert (await client.tokens.openid_configuration()).issuer == metadata.issuer
    assert len((await client.tokens.signing_keys()).keys) >= 1
