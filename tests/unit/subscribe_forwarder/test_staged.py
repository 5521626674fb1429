"""Messages that were staged: their id is that of their staging, wherever they are now."""

from __future__ import annotations

from typing import Any

from edge import message_id
from edge.problem import TYPE_BASE
from metadata.delivery.due import QueueKey
from metadata.delivery.forwarded import Forwarded
from metadata.types import Counters
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import ORIGIN_STAGE_ID, Message
from subscribe_forwarder.delivery.reading.staged import StagedIds, Where
from tests.unit.subscribe_forwarder.subscribe_support import (
    LOG_TIME_US,
    TENANT,
    TOPIC_UID,
    FakeMetadata,
    FakeStore,
    World,
    subscription,
    topic,
    world,
)
from tests.unit.subscribe_forwarder.test_generations import moved, tell

DUE_US = LOG_TIME_US + 60_000_000


def staged(number: int, generation: int = 0, partition: int = 0) -> str:
    return str(message_id.staged(TOPIC_UID, partition, generation, number))


def slugs(answer: Any) -> list[tuple[int, str]]:
    return [(r["index"], r["type"].removeprefix(TYPE_BASE)) for r in answer.json()["results"]]


async def acked_by_id(w: World, *ids: str) -> Any:
    return await w.post("ack", {"message_ids": list(ids)})


async def test_a_released_message_keeps_the_id_it_was_staged_under() -> None:
    async with world() as w:
        w.store.publish(b"plain")
        w.store.stage(b"a", b"b", b"c", deliver_at_us=DUE_US)
        w.store.stage(b"d")
        w.store.release(2, 0)
        w.store.release(3)
        messages = await w.pulled()
        assert [(m["data"], m["offset"]) for m in messages] == [
            ("plain", 0),
            ("c", 1),
            ("a", 2),
            ("d", 3),
        ]
        assert [m["message_id"] for m in messages[1:]] == [staged(2), staged(0), staged(3)]
        assert messages[1]["scheduled_for"] == "2026-01-01T00:00:59.123456Z"
        assert messages[1]["publish_time"] == "2025-12-31T23:59:59.123457Z", "of its release"
        assert messages[3]["scheduled_for"] is None


async def test_an_ack_by_an_id_delivered_here_asks_nobody() -> None:
    async with world() as w:
        w.store.stage(b"a", b"b")
        w.store.release(0, 1)
        messages = await w.pulled()
        assert (await w.ack(*messages, by="message_id")).json() == {"acked": 2, "results": []}
        assert w.store.located == []
        assert w.metadata.row().counters == Counters(acked=2)


async def test_an_ack_by_an_id_delivered_elsewhere_asks_the_store_once() -> None:
    store = FakeStore()
    store.stage(b"a", b"b")
    metadata = FakeMetadata(topic(), subscription())
    async with world(store, metadata) as w:
        await w.ready()
        store.release(1)
        await w.pulled()
    async with world(store, metadata) as w:
        await w.ready()
        for _ in range(2):
            assert (await acked_by_id(w, staged(1))).json() == {"acked": 1, "results": []}
        assert store.located == [1]
        assert w.metadata.row().counters == Counters(acked=1)


async def test_ids_that_name_nothing_delivered_fail_alone() -> None:
    async with world() as w:
        w.store.stage(b"a", b"b", b"c")
        w.store.discard(1)
        w.store.release(2)
        await w.pulled()
        answer = await acked_by_id(
            w, staged(2), staged(0), staged(1), staged(0, generation=3), staged(0, partition=9)
        )
        assert answer.json()["acked"] == 1
        assert slugs(answer) == [(item, "not-delivered") for item in (1, 2, 3, 4)]


async def test_a_released_message_that_nobody_was_handed_is_not_delivered() -> None:
    async with world() as w:
        w.store.stage(b"a")
        w.store.release(0)
        assert slugs(await acked_by_id(w, staged(0))) == [(0, "not-delivered")]


async def test_an_ack_repeated_after_truncation_is_no_error() -> None:
    async with world() as w:
        w.store.stage(b"a")
        w.store.release(0)
        (message,) = await w.pulled()
        await w.ack(message)
        w.store.truncate(1)
        w.store.publish(b"next")
        w.forwarder.staged.ids._places.clear()
        assert (await acked_by_id(w, staged(0))).json() == {"acked": 1, "results": []}
        nack = await w.post("nack", {"message_id": staged(0)})
        assert slugs(nack) == [(0, "lease-expired")]
        assert w.metadata.row().counters == Counters(acked=1)


async def test_nack_and_release_by_a_staged_id() -> None:
    async with world() as w:
        w.store.stage(b"a")
        w.store.release(0)
        (message,) = await w.pulled()
        await w.post("nack", {"message_id": message["message_id"], "delay_seconds": 0})
        (again,) = await w.pulled()
        assert (again["message_id"], again["attempt"]) == (staged(0), 2)
        await w.post("release", {"message_id": staged(0)})
        assert len(await w.pulled()) == 1


async def test_a_message_staged_before_a_move_and_released_there_is_one() -> None:
    """Both generations count their stage numbers from 0: their ids differ all the same."""
    async with world() as w:
        w.store.stage(b"old")
        w.store.release(0)
        await tell(w, moved(w.metadata.topics[TOPIC_UID], 0, w.store.seal()))
        w.store.stage(b"new", generation=1)
        w.store.release(0, generation=1)
        messages = await w.pulled() + await w.pulled()
        assert [(m["data"], m["message_id"]) for m in messages] == [
            ("old", staged(0)),
            ("new", staged(0, generation=1)),
        ]
        w.forwarder.staged.ids._places.clear()
        assert (await w.ack(*messages, by="message_id")).json()["acked"] == 2


async def test_a_message_copied_out_of_a_sealed_queue_keeps_its_id() -> None:
    async with world() as w:
        w.store.stage(b"late", deliver_at_us=DUE_US)
        await tell(w, moved(w.metadata.topics[TOPIC_UID], 0, w.store.seal()))
        origin: dict[str, str | int] = {ORIGIN_STAGE_ID: staged(0)}
        w.store.publish(
            Message(b"late", "text/plain", deliver_at_us=DUE_US, origin=origin), generation=1
        )
        (message,) = await w.pulled()
        assert (message["message_id"], message["offset"]) == (staged(0), 0)
        assert (await acked_by_id(w, staged(0))).json()["acked"] == 1
        assert w.store.located == [], "it was delivered here"


async def test_a_copy_delivered_elsewhere_is_found_in_postgres() -> None:
    async with world() as w:
        w.store.stage(b"late", b"cancelled")
        await tell(w, moved(w.metadata.topics[TOPIC_UID], 0, w.store.seal()))
        origin: dict[str, str | int] = {ORIGIN_STAGE_ID: staged(0)}
        w.store.publish(Message(b"late", origin=origin), generation=1)
        await w.pulled()
        w.forwarder.staged.ids._places.clear()
        assert slugs(await acked_by_id(w, staged(0))) == [(0, "not-delivered")]
        queue = QueueKey(TENANT, TOPIC_UID, 0, 0, 0)
        w.metadata.forwarded[queue, 0] = Forwarded(0, 0, 0)
        assert (await acked_by_id(w, staged(0))).json()["acked"] == 1
        for one in w.store.queues[QueueId(TOPIC_UID, 0)].staged:
            one.state = "discarded"
        w.forwarder.staged.ids._places.clear()
        answer = await acked_by_id(w, staged(0), staged(1))
        assert answer.json()["acked"] == 1
        assert slugs(answer) == [(1, "not-delivered")]


async def test_looking_at_a_message_and_its_acks_by_its_staged_id() -> None:
    path = "/topics/{topic}/messages/{id}"
    async with world() as w:
        w.store.stage(b"a", b"b", deliver_at_us=DUE_US)
        w.store.release(1)
        shown = await w.call("GET", path, topic="orders", id=staged(1))
        assert (shown.status, shown.json()["message_id"]) == (200, staged(1))
        assert shown.json()["data"] == "b"
        (message,) = await w.pulled()
        await w.ack(message)
        acks = await w.call("GET", path + "/ack", topic="orders", id=staged(1))
        assert acks.json() == {"subscriptions": {"reader": {"state": "acked"}}}


def test_what_is_remembered_is_bounded_and_the_least_used_goes() -> None:
    ids = StagedIds(max_entries=2)
    for number in range(2):
        ids.put(str(number), Where(0, number))
    assert ids.get("0") == Where(0, 0)
    ids.put("2", Where(0, 2))
    assert ids.get("1") is None
    assert [ids.get("0"), ids.get("2")] == [Where(0, 0), Where(0, 2)]


async def shown(w: World, text: str) -> dict[str, Any]:
    answer = await w.call("GET", "/topics/{topic}/messages/{id}", topic="orders", id=text)
    assert answer.status == 200
    return dict(answer.json())


async def test_a_message_is_shown_by_the_same_id_while_it_waits_and_after() -> None:
    async with world() as w:
        w.store.stage(b"a", b"b", deliver_at_us=DUE_US)
        waits = await shown(w, staged(1))
        assert (waits["state"], waits["data"], waits["offset"]) == ("scheduled", "b", None)
        assert waits["message_id"] == staged(1)
        assert waits["publish_time"] is None
        assert waits["accepted_time"] == "2025-12-31T23:59:59.123456Z"
        assert waits["scheduled_for"] == "2026-01-01T00:00:59.123456Z"
        queue = w.store.queues[QueueId(TOPIC_UID, 0)]
        queue.staged[1].due_us = DUE_US + 1_000_000
        assert (await shown(w, staged(1)))["scheduled_for"] == "2026-01-01T00:01:00.123456Z"
        w.store.release(1)
        published = await shown(w, staged(1))
        assert (published["state"], published["offset"]) == ("published", 0)
        assert published["message_id"] == staged(1)


async def test_a_cancelled_message_is_shown_as_such() -> None:
    async with world() as w:
        w.store.stage(b"a")
        w.store.discard(0)
        assert await shown(w, staged(0)) == {
            "state": "cancelled",
            "message_id": staged(0),
            "publish_time": None,
            "partition": 0,
            "offset": None,
        }
