from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from edge.problem import Problem
from metadata.errors import MetadataUnavailable
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.outcomes import StoredRange
from publish_forwarder.settings import PublishSettings, load
from store_nodes.errors import QueueNotFound, Unavailable
from store_nodes.record_batch import Message
from store_nodes.wire import Durability
from tests.unit.publish_forwarder.publish_support import (
    TENANT,
    FakeCatalog,
    FakeStore,
    run_ready,
    running,
    topic,
)

OTHER_TENANT = bytes(15) + b"\x02"


async def refused(forwarder: PublishForwarder, name: str = "orders", data: bytes = b"") -> Problem:
    with pytest.raises(Problem) as caught:
        await forwarder.publish(TENANT, name, Message(data))
    return caught.value


async def test_publish_says_where_the_message_is() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        placed = await forwarder.publish(TENANT, "orders", Message(b"x", key="k"))
        assert isinstance(placed, StoredRange)
        assert store.partition(placed.partition).log[placed.base_offset].data == b"x"


async def test_publish_batch_answers_in_the_order_given() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        messages = [Message(b"%d" % n, key=f"k{n}" if n % 2 else None) for n in range(50)]
        results = await forwarder.publish_batch(TENANT, "orders", messages)
        for message, placed in zip(messages, results, strict=True):
            assert isinstance(placed, StoredRange)
            assert store.partition(placed.partition).log[placed.base_offset] == message


async def test_a_batch_is_cut_into_parcels_of_a_megabyte() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        messages = [Message(bytes(300 * 1024)) for _ in range(12)]
        results = await forwarder.publish_batch(TENANT, "orders", messages)
        assert {p.partition for p in results if isinstance(p, StoredRange)} == {0, 1, 2, 3}


async def test_an_unknown_topic_is_not_found_and_asked_for_each_time() -> None:
    catalog = FakeCatalog()
    async with running(FakeStore(), catalog) as forwarder:
        for lookups in (1, 2):
            assert (await refused(forwarder, "nope")).slug == "topic-not-found"
            assert catalog.lookups == lookups


async def test_a_topic_of_another_tenant_is_not_found() -> None:
    async with running(FakeStore()) as forwarder:
        with pytest.raises(Problem, match="topic-not-found"):
            await forwarder.publish(OTHER_TENANT, "orders", Message(b""))


async def test_known_topics_need_no_metadata_store() -> None:
    catalog = FakeCatalog(topic())
    catalog.failure = MetadataUnavailable("down", retry_after_s=2.0)
    async with running(FakeStore(), catalog) as forwarder:
        await forwarder.publish(TENANT, "orders", Message(b""))
        problem = await refused(forwarder, "unknown")
        assert (problem.status, problem.retry_after_s) == (503, 2.0)


async def test_a_topic_made_again_shares_nothing_with_its_namesake() -> None:
    store, catalog = FakeStore(), FakeCatalog(topic(uid=7))
    async with running(store, catalog) as forwarder:
        await forwarder.publish(TENANT, "orders", Message(b"old", key="k"))
        again = topic(uid=8)
        catalog.behind[TENANT, "orders"] = again
        for queue in store.queues.values():
            queue.refusal = QueueNotFound("deleted")
        assert (await refused(forwarder)).slug == "topic-changed"
        placed = await forwarder.publish(TENANT, "orders", Message(b"new", key="k"))
        assert isinstance(placed, StoredRange)
        assert store.partition(placed.partition, again.uid).log[0].data == b"new"


async def test_a_deleted_topic_is_told_as_such() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        await forwarder.publish(TENANT, "orders", Message(b"", key="k"))
        for queue in store.queues.values():
            queue.refusal = QueueNotFound("deleted")
        assert (await refused(forwarder)).slug == "topic-changed"
        assert (await refused(forwarder)).slug == "topic-not-found"


async def test_a_topic_read_again_keeps_its_queue_senders() -> None:
    store, catalog = FakeStore(), FakeCatalog(topic())
    async with running(store, catalog) as forwarder:
        before = await forwarder.routes_of(TENANT, "orders")
        catalog.cached[TENANT, "orders"] = topic()
        after = await forwarder.routes_of(TENANT, "orders")
        assert after is not before
        assert after.partitioners[0].senders == before.partitioners[0].senders


async def test_cached_topics_are_bounded() -> None:
    topics = [topic(f"t{n}", partitions=1, uid=n) for n in range(30)]
    async with running(FakeStore(), FakeCatalog(*topics), max_cached_topics=10) as forwarder:
        for each in topics:
            await forwarder.publish(TENANT, each.name, Message(b""))
        assert len(forwarder._routes) <= 10


async def test_beyond_the_tenants_share_it_is_told_to_wait() -> None:
    store = FakeStore()
    store.hold(0, 1, 2, 3)
    async with running(store, max_in_flight_messages=20) as forwarder:
        tasks = [
            asyncio.create_task(forwarder.publish(TENANT, "orders", Message(b"")))
            for _ in range(10)
        ]
        await run_ready()
        problem = await refused(forwarder)
        assert (problem.status, problem.retry_after_s) == (429, 1.0)
        for number in range(4):
            store.partition(number).release()
        await asyncio.gather(*tasks)
        await forwarder.publish(TENANT, "orders", Message(b""))


async def test_beyond_all_memory_everybody_is_told_to_wait() -> None:
    store = FakeStore()
    store.hold(0, 1, 2, 3)
    async with running(store, max_in_flight_bytes=10_000, tenant_share=1.0) as forwarder:
        task = asyncio.create_task(forwarder.publish(TENANT, "orders", Message(bytes(9_000))))
        await run_ready()
        problem = await refused(forwarder, data=bytes(2_000))
        assert (problem.status, problem.slug) == (503, "publish-overloaded")
        assert forwarder.budget.refusals == 1
        for number in range(4):
            store.partition(number).release()
        await task


async def test_a_batch_over_the_limit_is_refused_whole() -> None:
    store = FakeStore()
    store.hold(0, 1, 2, 3)
    async with running(store, max_in_flight_messages=20) as forwarder:
        task = asyncio.create_task(forwarder.publish(TENANT, "orders", Message(b"")))
        await run_ready()
        with pytest.raises(Problem, match="429"):
            await forwarder.publish_batch(TENANT, "orders", [Message(b"")] * 10)
        assert forwarder.budget.held_messages == 1
        for number in range(4):
            store.partition(number).release()
        await task


async def test_a_cancelled_publish_is_stored_all_the_same() -> None:
    store = FakeStore()
    store.hold(0, 1, 2, 3)
    async with running(store) as forwarder:
        task = asyncio.create_task(forwarder.publish(TENANT, "orders", Message(b"x")))
        await run_ready()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for number in range(4):
            store.partition(number).release()
        await run_ready()
        assert store.stored() == [b"x"]
        assert forwarder.budget.held_bytes == 0


@pytest.mark.parametrize("durability", [Durability.LEADER, Durability.NONE])
async def test_early_answers_have_a_publish_id_and_no_offset(durability: Durability) -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        first = await forwarder.publish(TENANT, "orders", Message(b"1"), durability)
        second = await forwarder.publish(TENANT, "orders", Message(b"2"), durability)
        assert isinstance(first, str)
        assert isinstance(second, str)
        assert first != second
        await run_ready()
        assert sorted(store.stored()) == [b"1", b"2"]


async def test_durability_none_does_not_wait_and_its_loss_is_counted() -> None:
    store = FakeStore()
    store.hold(0, 1, 2, 3)
    async with running(store, timeout_s=0.05) as forwarder:
        await forwarder.publish(TENANT, "orders", Message(b"x", key="k"), Durability.NONE)
        await run_ready()
        for number in range(4):
            store.partition(number).refusal = Unavailable("gone")
            if store.partition(number).sent:
                store.partition(number).fail(Unavailable("gone"))
        await asyncio.sleep(0.3)
        assert forwarder.metrics.lost == 1
        assert forwarder.budget.held_messages == 0


async def test_close_waits_for_what_was_accepted_and_refuses_the_rest() -> None:
    store = FakeStore()
    store.hold(0, 1, 2, 3)
    async with running(store, drain_s=5.0) as forwarder:
        task = asyncio.create_task(forwarder.publish(TENANT, "orders", Message(b"x")))
        await run_ready()
        closing = asyncio.create_task(forwarder.close())
        await run_ready()
        assert (await refused(forwarder)).slug == "stopping"
        assert not closing.done()
        for number in range(4):
            store.partition(number).release()
        assert isinstance(await task, StoredRange)
        await closing


async def test_past_the_drain_what_was_sent_is_unknown_and_what_was_not_is_not_done() -> None:
    store = FakeStore()
    store.hold(0, 1, 2, 3)
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        publish = forwarder.publish
        sent = asyncio.create_task(publish(TENANT, "orders", Message(b"sent")))
        await run_ready()
        waiting = asyncio.create_task(publish(TENANT, "orders", Message(b"waiting")))
        await run_ready()
        await forwarder.close()
        with pytest.raises(Problem, match="outcome-unknown"):
            await sent
        with pytest.raises(Problem, match="stopping"):
            await waiting
        store.partition(0).release()
        await run_ready()
        assert forwarder.budget.held_bytes == 0


async def test_metrics_are_there_while_it_runs() -> None:
    registry = CollectorRegistry()
    forwarder = PublishForwarder(FakeCatalog(topic()), FakeStore(), registry=registry)
    await forwarder.publish(TENANT, "orders", Message(b"x"))
    text = generate_latest(registry).decode()
    assert "packetboat_publish_messages_total 1.0" in text
    assert 'packetboat_publish_append_seconds_bucket{le="+Inf"} 1.0' in text
    await forwarder.close()
    assert generate_latest(registry) == b""


def test_settings_come_from_the_environment() -> None:
    assert load({}) == PublishSettings()
    given = load({"PACKETBOAT_PUBLISH_TIMEOUT_S": "2.5", "PACKETBOAT_PUBLISH_STICKY_MESSAGES": "1"})
    assert given == PublishSettings(timeout_s=2.5, sticky_messages=1)


@pytest.mark.parametrize("text", ["x", "0", "-1", "nan"])
def test_a_wrong_setting_names_its_variable(text: str) -> None:
    with pytest.raises(ValueError, match="PACKETBOAT_PUBLISH_DRAIN_S"):
        load({"PACKETBOAT_PUBLISH_DRAIN_S": text})
