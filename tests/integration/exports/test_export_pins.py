"""Messages that an export has not read yet stay in the log.

Rounds of the truncator run on a real Postgres, over the store of the unit tests.
"""

from __future__ import annotations

import asyncio

import pytest

from metadata.database import Database
from metadata.errors import MetadataUnavailable
from metadata.exports.pins import ExportPinRepository
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.topics.holds import Held, HoldRepository, Pin
from metadata.types import Retention, Topic, TopicSpec
from tests.integration.exports.export_support import Harbour, each
from tests.integration.metadata.world import World
from tests.integration.scheduler.test_trimming import Site

RETAIN = "retain"


class Quay:
    """A scheduler's rounds, and the exports of its tenant."""

    def __init__(self, database: Database, world: World) -> None:
        self.site = Site(world)
        self.harbour = Harbour(world)

    async def export_to(self, topic: Topic, *offsets: int, name: str = "lake") -> None:
        """Let a run of the export succeed up to these offsets."""
        await self.harbour.run(name)
        claimed = await self.harbour.claimed()
        await self.harbour.plan(claimed, each(topic, *offsets))
        await self.harbour.succeed(claimed, each(topic, *offsets))


@pytest.fixture
async def quay(database: Database) -> Quay:
    return Quay(database, await World.open(database))


async def test_acked_messages_stay_until_they_are_exported(quay: Quay) -> None:
    site = quay.site
    topic = await site.topic()
    await quay.harbour.world.subscription(topic)
    await quay.harbour.export()
    await site.publish(topic, 10)
    await site.ack(topic, 10)
    await site.round()
    assert site.first(topic) == 0
    await quay.export_to(topic, 4)
    await site.round()
    assert site.first(topic) == 4
    await quay.harbour.exports.delete(quay.harbour.tenant_id, "lake")
    await site.round()
    assert site.first(topic) == 10


async def test_limits_wait_for_exports_or_go_past_them_as_the_topic_says(quay: Quay) -> None:
    site = quay.site
    patient = await site.topic("patient", mode=RETAIN, bytes=300)
    hasty = await site.topic("hasty", mode=RETAIN, bytes=300, on_limit="expire_oldest")
    await quay.harbour.export("a", "patient")
    await quay.harbour.export("b", "hasty")
    for topic in (patient, hasty):
        await site.publish(topic, 10)
    await site.round()
    assert site.first(patient) == 0
    assert site.first(hasty) > 0
    await quay.export_to(hasty, 10, name="b")
    assert (await quay.harbour.get("b")).expired == site.first(hasty)


async def test_an_export_begins_where_its_messages_still_are(quay: Quay) -> None:
    site = quay.site
    topic = await site.topic()
    await quay.harbour.world.subscription(topic)
    await site.publish(topic, 10)
    await site.ack(topic, 6)
    await site.round()
    export = await quay.harbour.export(at=2)
    assert [state.offset for state in export.positions] == [6]
    await site.ack(topic, 10)
    await site.round()
    assert site.first(topic) == 6


async def test_lanes_that_come_later_are_held_from_their_first_message_on(quay: Quay) -> None:
    """However late the scheduler hears of them: it has not trimmed them before."""
    site, harbour = quay.site, quay.harbour
    await harbour.export(topic="ord*", at=0)
    topic = await site.topic()
    other = await site.topic("other")
    for each_topic in (topic, other):
        await harbour.world.subscription(each_topic, f"reads-{each_topic.name}")
        await site.publish(each_topic, 5)
        await site.ack(each_topic, 5)
    assert (await harbour.get()).positions == ()
    await site.round()
    assert (site.first(topic), site.first(other)) == (0, 5)
    assert [(state.lane.topic, state.offset) for state in (await harbour.get()).positions] == [
        ("orders", 0)
    ]
    # Nothing is begun twice, nor moved back.
    await quay.export_to(topic, 3)
    await site.round()
    assert site.first(topic) == 3
    assert [state.offset for state in (await harbour.get()).positions] == [3]


async def test_nothing_is_trimmed_while_it_is_not_known_who_wants_it(
    quay: Quay, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, harbour = quay.site, quay.harbour
    await harbour.export(topic="ord*", at=0)
    topic = await site.topic()
    await harbour.world.subscription(topic)
    await site.publish(topic, 5)
    await site.ack(topic, 5)

    async def away(self: ExportPinRepository) -> int:
        raise MetadataUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(ExportPinRepository, "begin_in_new_lanes", away)
        with pytest.raises(MetadataUnavailable):
            await site.round()
    assert site.first(topic) == 0
    await site.round()
    assert site.first(topic) == 0


async def test_a_round_trims_no_lane_that_exports_were_not_asked_about(
    quay: Quay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map of topics is read anew at any time: what it learns within a round is for the next."""
    site, harbour = quay.site, quay.harbour
    await harbour.export(topic="ord*", at=0)
    ask = ExportPinRepository.begin_in_new_lanes

    async def asked_too_early(self: ExportPinRepository) -> int:
        begun = await ask(self)
        topic = await site.topic()
        await harbour.world.subscription(topic)
        await site.publish(topic, 5)
        await site.ack(topic, 5)
        await site.topics.read()
        return begun

    with monkeypatch.context() as patched:
        patched.setattr(ExportPinRepository, "begin_in_new_lanes", asked_too_early)
        await site.round()
    topic = await harbour.world.topics.get(harbour.tenant_id, "orders")
    assert site.first(topic) == 0
    await site.round()
    assert site.first(topic) == 0


async def test_a_namesake_of_a_deleted_topic_is_begun_anew(quay: Quay) -> None:
    site, harbour = quay.site, quay.harbour
    topic = await site.topic()
    await harbour.export()
    await site.publish(topic, 5)
    await quay.export_to(topic, 5)
    await harbour.world.topics.mark_deleting(harbour.tenant_id, "orders")
    again = await site.topic()
    await site.publish(again, 2)
    await site.round()
    positions = {state.lane.topic_uid: state.offset for state in (await harbour.get()).positions}
    assert positions == {topic.uid: 5, again.uid: 0}
    await quay.export_to(again, 2)
    await harbour.world.topics.remove(harbour.tenant_id, topic.uid)
    assert [state.offset for state in (await harbour.get()).positions] == [2]


async def test_an_export_that_is_made_or_deleted_meanwhile_leaves_no_pin_behind(
    quay: Quay,
) -> None:
    """An export is deleted while its new lanes get pins; no pin stays behind for good."""
    harbour = quay.harbour
    for number in range(10):
        name = f"topic-{number}"
        await harbour.export("gone", topic=f"{name}*", at=0)
        made = await harbour.world.topics.create(
            harbour.tenant_id, TopicSpec(name, Retention()), range(4)
        )
        await harbour.world.topics.activate(harbour.tenant_id, made.uid)
        await asyncio.gather(
            harbour.pins.begin_in_new_lanes(),
            harbour.pins.begin_in_new_lanes(),
            harbour.exports.delete(harbour.tenant_id, "gone"),
        )
        assert await harbour.ask("SELECT count(*) FROM pins") == 0


async def test_pins_of_many_exports_of_a_topic_hold_its_lowest(quay: Quay) -> None:
    site, harbour = quay.site, quay.harbour
    topic = await site.topic(partitions=2)
    await harbour.world.subscription(topic)
    for name in ("a", "b"):
        await harbour.export(name)
    for partition in range(2):
        await site.publish(topic, 8, partition=partition)
    await quay.export_to(topic, 5, 8, name="a")
    await quay.export_to(topic, 2, 6, name="b")
    holds = (await harbour.retention.holds()).pinned
    found = {key.partition: at for key, at in holds.items() if key.topic_uid == topic.uid}
    assert found == {0: 0, 1: 0}  # the subscription's
    await site.ack(topic, 8)
    holds = (await harbour.retention.holds()).pinned
    assert {key.partition: at for key, at in holds.items() if key.partition == 0} == {0: 2}


async def test_what_exports_and_snapshots_pin_is_listed_by_their_names(quay: Quay) -> None:
    topic = await quay.site.topic()
    world = quay.harbour.world
    subscription = await world.subscription(topic)
    await quay.harbour.export()
    await quay.site.publish(topic, 10)
    await quay.export_to(topic, 4)
    snapshots = SnapshotRepository(world.database)
    for name, expires_in_s in (("then", 3600.0), ("over", -1.0)):
        await snapshots.create(
            world.tenant_id, subscription.name, name, expires_in_s=expires_in_s, labels={}
        )
    held = await HoldRepository(world.database).of_topic(topic.tenant_id, topic.uid)
    assert held == Held((Pin("export", "lake", 0, 0, 4), Pin("snapshot", "then", 0, 0, 0)), {})
