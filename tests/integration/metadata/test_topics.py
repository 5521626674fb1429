from __future__ import annotations

import asyncio

import pytest

from metadata.errors import BadPageToken, Conflict, NotFound
from metadata.ids import new_uid
from metadata.types import Retention, SubscriptionSpec, TopicSpec, TopicState
from tests.integration.metadata.world import World


async def test_a_topic_is_creating_until_it_is_activated(world: World) -> None:
    spec = TopicSpec("orders", Retention("retain", 60, 1 << 40), 30, {"team": "ä"})
    made = await world.topics.create(world.tenant_id, spec, [5, 6, 7])
    assert made.state is TopicState.CREATING
    active = await world.topics.activate(world.tenant_id, made.uid)
    assert active.state is TopicState.ACTIVE
    assert active.version > made.version
    assert (active.retention, active.dedup_window_s) == (spec.retention, 30)
    assert active.labels == {"team": "ä"}
    assert [(each.number, each.group) for each in active.partitions] == [(0, 5), (1, 6), (2, 7)]
    assert await world.topics.get(world.tenant_id, "orders") == active
    assert await world.topics.activate(world.tenant_id, made.uid) == active
    await world.topics.mark_deleting(world.tenant_id, active.name)
    with pytest.raises(NotFound):
        await world.topics.activate(world.tenant_id, made.uid)


async def test_a_taken_name_is_a_conflict_that_shows_who_has_it(world: World) -> None:
    topic = await world.topic()
    with pytest.raises(Conflict) as caught:
        await world.topics.create(world.tenant_id, TopicSpec("orders"), [0])
    assert caught.value.existing == topic


async def test_of_many_creators_of_one_name_one_wins(world: World) -> None:
    async def create() -> bool:
        try:
            await world.topics.create(world.tenant_id, TopicSpec("orders"), [0])
        except Conflict:
            return False
        return True

    assert sum(await asyncio.gather(*(create() for _ in range(8)))) == 1


async def test_a_deleted_name_is_free_at_once_and_shares_nothing(world: World) -> None:
    first = await world.topic()
    await world.subscription(first)
    gone = await world.topics.mark_deleting(world.tenant_id, "orders")
    assert (gone.state, gone.uid, len(gone.partitions)) == (TopicState.DELETING, first.uid, 2)
    second = await world.topic()
    assert second.uid != first.uid
    assert await world.subscriptions.of_topic(world.tenant_id, second.uid) == ()
    assert await world.cursors.of_topic(world.tenant_id, first.uid) == ()
    await world.subscription(second)
    await world.topics.remove(world.tenant_id, first.uid)
    await world.topics.remove(world.tenant_id, first.uid)
    with pytest.raises(NotFound):
        await world.topics.get_by_uid(world.tenant_id, first.uid)
    await world.topics.remove(world.tenant_id, second.uid)
    assert await world.topics.get(world.tenant_id, "orders") == second


async def test_deleting_at_another_version_is_a_conflict(world: World) -> None:
    topic = await world.topic()
    with pytest.raises(Conflict):
        await world.topics.mark_deleting(world.tenant_id, "orders", if_version=topic.version - 1)
    await world.topics.mark_deleting(world.tenant_id, "orders", if_version=topic.version)


async def test_a_topic_of_another_tenant_is_not_there(world: World) -> None:
    topic = await world.topic()
    other = new_uid()
    with pytest.raises(NotFound):
        await world.topics.get(other, "orders")
    with pytest.raises(NotFound):
        await world.topics.get_by_uid(other, topic.uid)
    with pytest.raises(NotFound):
        await world.topics.mark_deleting(other, "orders")
    assert (await world.topics.page(other)).items == ()
    neighbour = await World.open(world.database)
    assert (await neighbour.topic("orders")).uid != topic.uid


async def test_what_a_dead_process_left_half_way_is_found(world: World) -> None:
    await world.topic("fine")
    await world.topics.create(world.tenant_id, TopicSpec("half"), [0])
    await world.topic("going")
    await world.topics.mark_deleting(world.tenant_id, "going")
    assert await world.topics.unfinished(older_than_s=60) == []
    found = await world.topics.unfinished(older_than_s=0)
    assert {topic.name for topic in found} == {"half", "going"}


async def test_pages_follow_each_other_and_end(world: World) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        await world.topic(name, partitions=1)
    seen: list[str] = []
    token: str | None = None
    for size in (2, 2, 1):
        page = await world.topics.page(world.tenant_id, page_size=2, page_token=token)
        assert len(page.items) == size
        seen += [topic.name for topic in page.items]
        token = page.next_token
    assert seen == names
    assert token is None


@pytest.mark.parametrize("token", ["", "x", "////", "ä", "Mg==", "MQA=", "Mf8="])
async def test_a_foreign_page_token_is_refused(world: World, token: str) -> None:
    with pytest.raises(BadPageToken):
        await world.topics.page(world.tenant_id, page_token=token)


async def test_a_subscription_needs_an_active_topic_and_a_free_name(world: World) -> None:
    creating = await world.topics.create(world.tenant_id, TopicSpec("young"), [0])
    with pytest.raises(NotFound):
        await world.subscription(creating)
    topic, other = await world.topic(), await world.topic("other")
    made = await world.subscription(topic)
    assert made.topic_name == "orders"
    with pytest.raises(Conflict) as caught:
        await world.subscription(other)
    assert caught.value.existing == made
    with pytest.raises(NotFound):
        await world.subscriptions.get(new_uid(), "billing")


async def test_a_subscription_comes_back_as_it_was_given(world: World) -> None:
    topic = await world.topic(partitions=1)
    spec = SubscriptionSpec("s", start={"time": "2026-01-01T00:00:00Z"}, labels={"a": "b"})
    made = await world.subscriptions.create(world.tenant_id, topic.uid, spec, {(0, 0): 17})
    assert made == await world.subscriptions.get(world.tenant_id, "s")
    assert (made.start, made.labels, made.retry) == (spec.start, spec.labels, spec.retry)
    (cursor,) = await world.cursors.of_subscription(world.tenant_id, made.uid)
    assert (cursor.start, cursor.floor, cursor.read_to) == (17, 17, 17)


async def test_a_start_below_what_was_trimmed_is_lifted(world: World) -> None:
    topic = await world.topic(partitions=1)

    async def trim(connection: object) -> None:
        await connection.execute("UPDATE partitions SET trimmed_to = 50")  # type: ignore[attr-defined]

    await world.database.statement(trim, writes=True)
    made = await world.subscription(topic, floor=20)
    (cursor,) = await world.cursors.of_subscription(world.tenant_id, made.uid)
    assert cursor.start == 50


async def test_a_deleted_subscription_leaves_no_cursor_and_frees_its_name(world: World) -> None:
    topic = await world.topic()
    first = await world.subscription(topic)
    with pytest.raises(Conflict):
        await world.subscriptions.delete(world.tenant_id, "billing", if_version=0)
    assert await world.subscriptions.delete(world.tenant_id, "billing") == first
    with pytest.raises(NotFound):
        await world.subscriptions.delete(world.tenant_id, "billing")
    assert await world.cursors.of_subscription(world.tenant_id, first.uid) == ()
    assert (await world.subscription(topic)).uid != first.uid


async def test_subscriptions_page_by_topic(world: World) -> None:
    topic, other = await world.topic(), await world.topic("other")
    for name in ("c", "a", "b"):
        await world.subscription(topic, name)
    await world.subscription(other, "d")
    page = await world.subscriptions.page(world.tenant_id, topic_uid=topic.uid, page_size=2)
    assert [each.name for each in page.items] == ["a", "b"]
    rest = await world.subscriptions.page(
        world.tenant_id, topic_uid=topic.uid, page_size=2, page_token=page.next_token
    )
    assert [each.name for each in rest.items] == ["c"]
    assert len((await world.subscriptions.page(world.tenant_id)).items) == 4


async def test_a_topic_with_priorities_has_all_lanes_of_a_partition_in_one_group(
    world: World,
) -> None:
    made = await world.topics.create(world.tenant_id, TopicSpec("orders", priorities=3), [5, 6])
    topic = await world.topics.activate(world.tenant_id, made.uid)
    assert (topic.priorities, topic.partition_count) == (3, 2)
    assert [(each.number, each.lane, each.group) for each in topic.partitions] == [
        *((0, 0, 5), (0, 1, 5), (0, 2, 5)),
        *((1, 0, 6), (1, 1, 6), (1, 2, 6)),
    ]
    await world.subscription(topic, floor=0)
    cursors = await world.cursors.of_topic(world.tenant_id, topic.uid)
    assert [(each.key.partition, each.key.lane) for each in cursors] == [
        (each.number, each.lane) for each in topic.partitions
    ]
    assert sorted(await world.claim(await world.forwarder(), topic)) == [0, 1]


async def test_a_changed_topic_is_a_new_version_that_the_feed_tells(world: World) -> None:
    topic = await world.topic()
    await world.feed.start()
    assert (await world.catalog.topic(world.tenant_id, "orders")).version == topic.version
    wanted = TopicSpec("orders", Retention("retain", 900), 60, {"team": "b"}, ack_history=True)
    changed = await world.topics.update(world.tenant_id, "orders", lambda _: wanted)
    assert changed.version > topic.version
    assert (changed.retention, changed.dedup_window_s) == (wanted.retention, 60)
    assert (changed.labels, changed.ack_history) == ({"team": "b"}, True)
    async with asyncio.timeout(10):
        while await world.catalog.topic(world.tenant_id, "orders") != changed:
            await asyncio.sleep(0.02)
    again = await world.topics.update(world.tenant_id, "orders", lambda _: wanted)
    assert again == changed, "nothing changed, so there is no new version"


async def test_a_change_is_refused_when_the_version_or_the_schema_is_not_there(
    world: World,
) -> None:
    topic = await world.topic()

    async def update(spec: TopicSpec, if_version: int | None = None) -> None:
        await world.topics.update(world.tenant_id, "orders", lambda _: spec, if_version=if_version)

    with pytest.raises(Conflict):
        await update(TopicSpec("orders", dedup_window_s=1), if_version=topic.version + 1)
    with pytest.raises(NotFound) as caught:
        await update(TopicSpec("orders", schema="none"))
    assert caught.value.kind == "schema"
    assert await world.topics.get(world.tenant_id, "orders") == topic
    with pytest.raises(NotFound):
        await world.topics.create(world.tenant_id, TopicSpec("bills", schema="none"), [0])
