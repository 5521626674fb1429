"""Consuming through the SDK, by both clients, against a real installation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from packetboat import (
    AsyncClient,
    NotFound,
    Outgoing,
    RetryPolicy,
)
from packetboat.models import Edit, Output

from tests.e2e.both_clients import (
    KINDS,
    PATIENCE_S,
    all_of,
    connected,
    publish,
    topic,
    until,
)
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


async def test_what_a_subscription_has_to_do(client: AsyncClient, name: str) -> None:
    await publish(client, name, *[{"n": n} for n in range(4)])
    dry = await client.subscriptions.seek(name, 2, dry_run=True)
    assert (dry.dry_run, dry.backlog) == (True, 2)
    assert (await client.subscriptions.seek(name, "earliest")).backlog == 4
    assert (await client.subscriptions.backlog(name)).messages == 4
    preview = await client.subscriptions.preview_filter(name, "data.n > 1.0")
    assert (preview.examined, preview.matched) == (4, 2)
    assert (await client.topics.preview_filter(name, "true", messages=3)).examined == 3
    rule = await client.subscriptions.add_skip_rule(name, "data.n == 0.0", "a test")
    assert [r.id for r in (await client.subscriptions.skip_rules(name)).skip_rules] == [rule.id]
    await client.subscriptions.remove_skip_rule(name, rule.id)
    removed = await client.subscriptions.skip_rules(name, removed=True)
    assert [r.id for r in removed.skip_rules] == [rule.id]
    said = await client.subscriptions.say_flow(name, messages_per_second=5, reason="a test")
    assert (await client.subscriptions.flow(name)).reason == said.reason
    await client.subscriptions.end_flow(name)
    assert (await client.subscriptions.reconciliation(name)).balanced


async def test_streams_of_backlogs(client: AsyncClient, name: str) -> None:
    await publish(client, name, "a", "b")
    stream = client.subscriptions.backlog_stream(name, max_seconds=PATIENCE_S)
    async with aclosing(stream):
        async for update in stream:
            if update.messages == 2 and update.complete:
                break
    assert update.subscription == name
    follow = client.subscriptions.follow_backlog(name)
    assert (await anext(follow)).subscription == name
    await client.subscriptions.delete(name, force=True)
    await all_of(follow)
    with pytest.raises(NotFound):
        await anext(client.subscriptions.follow_backlog(name))


async def test_delivery(client: AsyncClient, name: str) -> None:
    await publish(client, name, *"abcd")
    pulled = await client.pull(name, max_messages=4, min_messages=4, wait_seconds=30, consumer="me")
    assert [each.text for each in pulled] == list("abcd")
    a, b, c, d = pulled
    assert (await client.extend(name, pulled, 300)).count == 4
    assert (await client.ack(name, a)).count == 1
    assert (await client.nack(name, b, delay_seconds=0, reason="not now")).count == 1
    assert (await client.release(name, c)).count == 1
    again = await client.pull(name, max_messages=2, min_messages=2, wait_seconds=30)
    assert sorted((each.text, each.attempt) for each in again) == [("b", 2), ("c", 1)]
    await client.subscriptions.seek(name, "earliest")
    stale = await client.ack(name, [d, *again])
    assert stale.count == 0
    assert [failure.slug for failure in stale.failures] == ["stale-ack-id"] * 3


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_the_trace_of_a_publish_reaches_pulls_streams_and_replays(
    client: AsyncClient, name: str
) -> None:
    """The trace was lost before, except in webhooks."""
    sent = [Outgoing(data=1, traceparent=TRACE, tracestate="a=1"), Outgoing(data=2)]
    await client.publish_batch(name, sent)
    await client.publish_early(name, Outgoing(data=3, traceparent=TRACE), durability="leader")
    pulled = {}
    async with asyncio.timeout(PATIENCE_S):
        while len(pulled) < 3:
            for message in await client.pull(name, max_messages=10, wait_seconds=5):
                pulled[message.json()] = message
    traces = {n: (each.traceparent, each.tracestate) for n, each in pulled.items()}
    assert traces == {1: (TRACE, "a=1"), 2: (None, None), 3: (TRACE, None)}
    await client.release(name, list(pulled.values()))
    streamed = {}
    async with aclosing(client.stream(name)) as stream:
        async for message in stream:
            streamed[message.json()] = (message.traceparent, message.tracestate)
            if len(streamed) == 3:
                break
    assert streamed == traces
    stored = await client.messages.get(name, pulled[1].message_id)
    assert (stored.traceparent, stored.tracestate) == (TRACE, "a=1")


async def test_an_ack_publishes_once(client: AsyncClient, name: str) -> None:
    await publish(client, name, "in")
    (message,) = await client.pull(name, wait_seconds=30)
    outputs = [Output(topic=name, data={"out": 1}, key="k"), Output(topic=name, data=b"\x00\xff")]
    first = await client.ack(name, message, publish=outputs)
    assert (first.count, len(first.published), first.duplicate) == (1, 2, False)
    second = await client.ack(name, message, publish=outputs)
    assert (second.published, second.duplicate) == ((), True)
    pulled = await client.pull(name, max_messages=3, min_messages=2, wait_seconds=30)
    assert {each.body for each in pulled} == {b'{"out":1}', b"\x00\xff"}


async def test_a_stream_holds_back_what_is_not_acked(client: AsyncClient, name: str) -> None:
    await publish(client, name, *[str(n) for n in range(30)])
    seen = []
    stream = client.stream(name, max_outstanding_messages=5, heartbeat_seconds=1)
    async with aclosing(stream):
        async for message in stream:
            seen.append(message.text)
            assert (await client.ack(name, message)).count == 1
            if len(seen) == 30:
                break
    assert seen == [str(n) for n in range(30)]
    assert await all_of(client.stream(name, max_seconds=0.5)) == []


async def test_a_stream_ends_with_its_subscription(client: AsyncClient, name: str) -> None:
    await publish(client, name, "a")
    stream = client.stream(name)
    assert (await anext(stream)).text == "a"
    await client.subscriptions.delete(name, force=True)
    with pytest.raises(NotFound):
        await anext(stream)


async def test_delivered_at_most_once_there_is_nothing_to_ack(
    client: AsyncClient, name: str
) -> None:
    once = f"{name}-once"
    await client.subscriptions.create(name, once, delivery="at_most_once", start="earliest")
    await publish(client, name, "a")
    (message,) = await client.pull(once, wait_seconds=30)
    assert message.ack_id is None
    with pytest.raises(ValueError, match="acked as it was delivered"):
        await client.ack(once, message)


async def test_snapshots(client: AsyncClient, name: str) -> None:
    await publish(client, name, "a", "b")
    made = await client.snapshots.create(name, name, expires_in_seconds=600, labels={"a": "b"})
    assert made == await client.snapshots.get(name)
    assert name in [each.name async for each in client.snapshots.list(page_size=1)]
    assert len((await client.snapshots.page(page_size=1)).items) == 1
    await client.ack(name, await client.pull(name, max_messages=2, min_messages=2, wait_seconds=30))
    assert (await client.subscriptions.seek(name, {"snapshot": name})).backlog == 2
    await client.snapshots.delete(name)
    with pytest.raises(NotFound):
        await client.snapshots.get(name)


async def test_dead_letters(client: AsyncClient, name: str) -> None:
    letters = f"{name}-letters"
    await client.topics.create(letters, partitions=1)
    await client.subscriptions.update(name, dead_letter_topic=letters)
    await publish(client, name, *[Outgoing(data=str(n), attributes={"a": "b"}) for n in range(3)])
    pulled = await client.pull(name, max_messages=3, min_messages=3, wait_seconds=30)
    assert (await client.reject(name, pulled, reason="bad")).count == 3

    async def written() -> bool:
        return len(await all_of(client.dead_letters.list(name, page_size=1))) == 3

    await until(written)
    page = await client.dead_letters.page(name, filter='detail == "bad"', state="open")
    assert (page.examined, page.undelivered.messages) == (3, 0)
    letter = await client.dead_letters.get(name, page.items[0].id)
    assert letter.message is not None
    assert letter.message.text == "0"
    discarded = await client.dead_letters.discard(name, ids=[page.items[1].id])
    assert (discarded.discarded, discarded.complete) == (1, True)
    assert (await client.dead_letters.redrive_dry_run(name)).matched == 2
    edit = Edit(data={"fixed": True}, attributes={"a": None})
    redrive = await client.dead_letters.redrive(name, ids=[letter.id], edit=edit, rate=100)

    async def finished() -> bool:
        return (await client.dead_letters.get_redrive(name, redrive.redrive_id)).finished

    await until(finished)
    (fixed,) = await client.pull(name, wait_seconds=30)
    assert (fixed.json(), "a" in fixed.attributes) == ({"fixed": True}, False)
    assert [each.redrive_id async for each in client.dead_letters.redrives(name)] == [
        redrive.redrive_id
    ]
    assert len((await client.dead_letters.redrives_page(name)).items) == 1
    assert (await client.dead_letters.cancel_redrive(name, redrive.redrive_id)).finished
    await client.subscriptions.update(name, dead_letter_topic=None)
    await client.topics.delete(letters, force=True)


async def test_parked_keys(client: AsyncClient, name: str) -> None:
    parking = f"{name}-parking"
    retry = RetryPolicy(0, 0, max_attempts=1, on_exhausted="park")
    await client.subscriptions.create(name, parking, ordered=True, retry=retry, start="earliest")
    await publish(client, name, *[Outgoing(data=str(n), key="k") for n in range(3)])
    (first,) = await client.pull(parking, wait_seconds=30)
    await client.nack(parking, first, reason="bad")

    async def parked() -> bool:
        return [key.key for key in await client.parked_keys.list(parking)] == ["k"]

    await until(parked)
    assert await client.parked_keys.resume(parking, "k") == 1
    (first,) = await client.pull(parking, wait_seconds=30)
    await client.nack(parking, first)
    await until(parked)
    assert await client.parked_keys.skip(parking, "k") == 1
    (second,) = await client.pull(parking, wait_seconds=30)
    assert second.text == "1"
