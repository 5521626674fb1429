"""Messages sent again: one copy, and the answer of the first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edge.partition import partition_of
from edge.problem import Problem
from publish_forwarder.delays import Delay
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.idempotency import Producer, batch_id, fingerprint, key_id
from publish_forwarder.outcomes import Single, StoredRange
from store_nodes.errors import OutcomeUnknown, Overloaded, Unavailable
from store_nodes.record_batch import Message
from store_nodes.wire import Durability
from tests.unit.publish_forwarder.publish_support import (
    TENANT,
    FakeCatalog,
    FakeStore,
    post,
    post_batch,
    run_ready,
    running,
    topic,
)

UID = bytes(range(16))
HOME = partition_of("i1", 4)
PRODUCER = Producer(bytes(range(16)), 7)
PRODUCER_HEADERS = {"Packetboat-Producer": PRODUCER.producer.hex(), "Packetboat-Sequence": "7"}


def test_ids_and_fingerprints_are_the_same_in_every_process_and_version() -> None:
    assert key_id(UID, "order-17").hex() == "8cf0313160c9c9690af092e67c548a23"
    assert batch_id(UID, PRODUCER, 4, 1, kind=0).hex() == "ac986fe64f2444677d2c287c2da24b70"
    message = Message(b"x", "text/plain", "k", {"b": "2", "a": "1"}, "till")
    assert fingerprint([(message, None)]) == 0x78E57129BD8489EE
    assert fingerprint([(message, Delay(False, 5))]) == 0x8212D4A9116FFB0C


@pytest.mark.parametrize(
    "change",
    [
        {"data": b"y"},
        {"content_type": "text/html"},
        {"key": "l"},
        {"attributes": {"a": "2"}},
        {"publisher_id": "other"},
    ],
)
def test_a_fingerprint_tells_messages_apart(change: dict[str, Any]) -> None:
    base = {"data": b"x", "content_type": "text/plain", "key": "k", "attributes": {"a": "1"}}
    one, other = Message(**base), Message(**(base | change))  # type: ignore[arg-type]
    assert fingerprint([(one, None)]) != fingerprint([(other, None)])


def test_a_fingerprint_does_not_mind_the_order_of_attributes_nor_what_is_not_content() -> None:
    one = Message(b"x", attributes={"a": "1", "b": "2"}, traceparent="1", deliver_at_us=5)
    other = Message(b"x", attributes={"b": "2", "a": "1"}, traceparent="2", idempotency_key="i")
    assert fingerprint([(one, None)]) == fingerprint([(other, None)])
    assert fingerprint([(one, Delay(False, 1))]) != fingerprint([(other, Delay(True, 1))])
    assert fingerprint([(Message(b""), None)]) == fingerprint([(Message(b"", attributes={}), None)])


async def test_a_message_sent_again_is_answered_with_the_first_and_stored_once() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        first = await post(forwarder, b"x", {"Idempotency-Key": "i1"})
        again = await post(forwarder, b"x", {"Idempotency-Key": "i1"})
        assert (first.status, again.status) == (201, 201)
        assert first.json()["duplicate"] is False
        assert again.json() == first.json() | {"duplicate": True}
        assert store.stored() == [b"x"]
        assert forwarder.metrics.duplicates == 1


async def test_another_body_under_the_same_key_is_refused() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        await post(forwarder, b"x", {"Idempotency-Key": "i1"})
        for body, headers in (
            (b"y", {}),
            (b"x", {"Packetboat-Attr-a": "1"}),
            (b"x", {"Packetboat-Delay": "5"}),
        ):
            answer = await post(forwarder, body, {"Idempotency-Key": "i1", **headers})
            assert answer.status == 422
            assert answer.json()["type"].endswith("/idempotency-key-reused")
            assert answer.json()["errors"][0]["field"] == "idempotency_key"
        assert store.stored() == [b"x"]


async def test_a_key_is_of_one_topic() -> None:
    store = FakeStore()
    two = topic("other", uid=8)
    async with running(store, FakeCatalog(topic(), two)) as forwarder:
        await post(forwarder, b"x", {"Idempotency-Key": "i1"})
        answer = await post(forwarder, b"y", {"Idempotency-Key": "i1"}, topic_name="other")
        assert answer.status == 201


async def test_without_a_window_keys_are_not_remembered() -> None:
    from dataclasses import replace

    store = FakeStore()
    async with running(store, FakeCatalog(replace(topic(), dedup_window_s=0))) as forwarder:
        for _ in range(2):
            answer = await post(forwarder, b"x", {"Idempotency-Key": "i1"})
            assert answer.json()["duplicate"] is False
        assert store.stored() == [b"x", b"x"]


async def test_the_retry_after_an_unknown_outcome_finds_the_first() -> None:
    store = FakeStore()
    store.hold(HOME)
    async with running(store) as forwarder:
        first = asyncio.create_task(post(forwarder, b"x", {"Idempotency-Key": "i1"}))
        await run_ready()
        store.partition(HOME).lose_the_answer()
        lost = await first
        assert lost.status == 504
        assert "at most once" in lost.json()["detail"]
        store.partition(HOME).held = False
        again = await post(forwarder, b"x", {"Idempotency-Key": "i1"})
        assert (again.status, again.json()["duplicate"], again.json()["offset"]) == (201, True, 0)
        assert store.stored() == [b"x"]


async def test_who_comes_while_the_first_is_on_its_way_waits_for_it() -> None:
    store = FakeStore()
    store.hold(HOME)
    async with running(store) as forwarder:
        headers = {"Idempotency-Key": "i1"}
        tasks = [asyncio.create_task(post(forwarder, b"x", headers)) for _ in range(3)]
        await run_ready()
        other = await post(forwarder, b"y", headers)
        assert other.json()["type"].endswith("/idempotency-key-reused")
        await run_ready()
        assert forwarder.budget.held_messages == 3
        store.partition(HOME).release()
        answers = [await task for task in tasks]
        assert [answer.json()["duplicate"] for answer in answers] == [False, True, True]
        assert {answer.json()["message_id"] for answer in answers} == {
            answers[0].json()["message_id"]
        }
        assert store.stored() == [b"x"]
        assert forwarder.budget.held_bytes == 0
        assert forwarder._acceptor._in_flight == {}


async def test_who_waits_is_told_that_the_first_failed() -> None:
    store = FakeStore()
    store.hold(HOME)
    async with running(store) as forwarder:
        headers = {"Idempotency-Key": "i1"}
        tasks = [asyncio.create_task(post(forwarder, b"x", headers)) for _ in range(2)]
        await run_ready()
        store.partition(HOME).fail(OutcomeUnknown("silence"))
        assert [(await task).status for task in tasks] == [504, 504]
        store.partition(HOME).held = False
        assert (await post(forwarder, b"y", headers)).status == 201


async def test_known_messages_of_an_append_are_answered_and_the_rest_goes_in_order() -> None:
    store = FakeStore()
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        queue = store.partition(0)
        await post(forwarder, b"old-1", {"Idempotency-Key": "i1"})
        await post(forwarder, b"old-2", {"Idempotency-Key": "i2"})
        queue.held = True
        tasks = [asyncio.create_task(post(forwarder, b"front"))]
        await run_ready()
        for body, headers in (
            (b"a", {"Packetboat-Key": "k"}),
            (b"old-1", {"Idempotency-Key": "i1"}),
            (b"b", {"Packetboat-Key": "k"}),
            (b"old-2", {"Idempotency-Key": "i2"}),
            (b"c", {"Packetboat-Key": "k", "Idempotency-Key": "i3"}),
        ):
            tasks.append(asyncio.create_task(post(forwarder, body, headers)))
        await run_ready()
        queue.answer()
        await run_ready()
        assert len(queue.sent[0].messages) == 5
        queue.release()
        await run_ready()
        answers = [(await task).json() for task in tasks]
        assert [answer["offset"] for answer in answers] == [2, 3, 0, 4, 1, 5]
        assert [answer["duplicate"] for answer in answers] == [
            *(False, False, True, False, True, False)
        ]
        assert store.stored() == [b"old-1", b"old-2", b"front", b"a", b"b", b"c"]


async def test_what_is_left_of_an_append_with_known_messages_goes_before_what_came_later() -> None:
    store = FakeStore()
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        await post(forwarder, b"old", {"Idempotency-Key": "i1"})
        queue = store.partition(0)
        queue.held = True
        bodies = [b"1", b"old", b"2"]
        key = {"Packetboat-Key": "k"}
        tasks = [
            asyncio.create_task(
                post(forwarder, body, {"Idempotency-Key": "i1"} if body == b"old" else key)
            )
            for body in bodies
        ]
        await run_ready()
        tasks.append(asyncio.create_task(post(forwarder, b"3", key)))
        await run_ready()
        queue.release()
        await asyncio.gather(*tasks)
        assert store.stored() == [b"old", b"1", b"2", b"3"]


async def test_a_group_that_remembers_no_more_ids_says_so_and_takes_the_rest() -> None:
    store = FakeStore()
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        queue = store.partition(0)
        queue.held = True
        keyed = asyncio.create_task(post(forwarder, b"x", {"Idempotency-Key": "i1"}))
        plain = asyncio.create_task(post(forwarder, b"y"))
        await run_ready()
        queue.fail(Overloaded("ids"))
        queue.held = False
        answer = await keyed
        assert (answer.status, answer.json()["outcome"]) == (503, "not_done")
        assert (await plain).status == 201
        assert store.stored() == [b"y"]


async def test_an_id_whose_first_try_was_not_done_is_free_again() -> None:
    store = FakeStore()
    store.partition(HOME).refusal = Unavailable("no leader")
    async with running(store, timeout_s=0.05) as forwarder:
        assert (await post(forwarder, b"x", {"Idempotency-Key": "i1"})).status == 503
        store.partition(HOME).refusal = None
        answer = await post(forwarder, b"other", {"Idempotency-Key": "i1"})
        assert (answer.status, answer.json()["duplicate"]) == (201, False)


async def test_a_batch_sent_again_is_known_item_by_item() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        items = [{"data": n, "idempotency_key": f"i{n}"} for n in range(20)]
        first = (await post_batch(forwarder, items[:10])).json()["results"]
        again = (await post_batch(forwarder, items)).json()["results"]
        assert again[:10] == [result | {"duplicate": True} for result in first]
        assert [result["duplicate"] for result in again[10:]] == [False] * 10
        assert len(store.stored()) == 20
        assert forwarder.budget.held_bytes == 0


async def test_an_id_twice_in_a_batch_is_one_message() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        items = [
            {"data": "x", "idempotency_key": "i1"},
            {"data": "y"},
            {"data": "x", "idempotency_key": "i1"},
            {"data": "z", "idempotency_key": "i1"},
        ]
        results = (await post_batch(forwarder, items)).json()["results"]
        assert results[2] == results[0] | {"duplicate": True}
        assert results[3]["status"] == 422
        assert sorted(store.stored()) == [b"x", b"y"]


async def test_after_a_reused_key_later_items_of_its_ordering_key_are_not_stored() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        await post(forwarder, b"x", {"Idempotency-Key": "i1", "Packetboat-Key": "k"})
        items = [
            {"data": "before", "key": "k"},
            {"data": "changed", "key": "k", "idempotency_key": "i1"},
            {"data": "after", "key": "k", "idempotency_key": "i2"},
            {"data": "after", "key": "k"},
            {"data": "free", "key": next(_same_partition("k"))},
        ]
        results = (await post_batch(forwarder, items)).json()["results"]
        assert [result.get("status", 201) for result in results] == [201, 422, 424, 424, 201]
        assert store.stored() == [b"x", b"before", b"free"]
        assert forwarder._acceptor._in_flight == {}


def _same_partition(key: str) -> Any:
    return (f"o{n}" for n in range(99) if partition_of(f"o{n}", 4) == partition_of(key, 4))


@pytest.mark.parametrize("durability", ["leader", "none"])
async def test_an_early_answer_loses_no_neighbour_of_a_known_message(durability: str) -> None:
    store = FakeStore()
    headers = {"Packetboat-Durability": durability}
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        await post(forwarder, b"x", {"Idempotency-Key": "i1"})
        items = [{"data": "x", "idempotency_key": "i1"}, {"data": "y", "idempotency_key": "i2"}]
        await post_batch(forwarder, items, headers)
        answer = await post(forwarder, b"x", {"Idempotency-Key": "i1", **headers})
        assert (answer.status, list(answer.json())) == (202, ["publish_id"])
        await run_ready()
        assert store.stored()[0] == b"x"
        assert forwarder.metrics.lost == 0


async def results_of(forwarder: PublishForwarder, *bodies: bytes, **more: Any) -> list[Single]:
    messages = [Message(body) for body in bodies]
    results = await forwarder.publish_batch(TENANT, "orders", messages, **more)
    return [result for result in results if not isinstance(result, str)]


async def test_a_producers_batch_sent_again_is_known_as_a_whole() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        items = [{"data": n, "key": f"k{n}" if n % 3 else None} for n in range(30)]
        first = (await post_batch(forwarder, items, PRODUCER_HEADERS)).json()["results"]
        again = (await post_batch(forwarder, items, PRODUCER_HEADERS)).json()["results"]
        assert again == [result | {"duplicate": True} for result in first]
        assert len(store.stored()) == 30
        ids = sum(len(group) for group in store.remembered.values())
        assert ids == len({result["partition"] for result in first}), "one id per partition"


async def test_a_producers_batch_with_other_content_is_refused() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        await results_of(forwarder, b"a", b"b", producer=PRODUCER)
        results = await results_of(forwarder, b"a", b"c", producer=PRODUCER)
        assert [r.slug for r in results if isinstance(r, Problem)] == ["idempotency-key-reused"] * 2
        fresh = await results_of(forwarder, b"a", b"c", producer=PRODUCER._replace(sequence=8))
        assert all(isinstance(result, StoredRange) for result in fresh)


async def test_a_producers_batch_sent_twice_at_once_is_stored_once() -> None:
    store = FakeStore()
    store.hold(0, 1, 2, 3)
    async with running(store) as forwarder:
        tasks = [
            asyncio.create_task(results_of(forwarder, b"a", b"b", producer=PRODUCER))
            for _ in range(2)
        ]
        await run_ready()
        for number in range(4):
            store.partition(number).release()
        first, second = [await task for task in tasks]
        assert [r.again() for r in first if isinstance(r, StoredRange)] == second
        assert store.stored() == [b"a", b"b"]


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"Packetboat-Producer": "ab" * 16}, "Packetboat-Sequence"),
        ({"Packetboat-Sequence": "1"}, "Packetboat-Producer"),
        ({"Packetboat-Producer": "x" * 32, "Packetboat-Sequence": "1"}, "Packetboat-Producer"),
        ({**PRODUCER_HEADERS, "Packetboat-Sequence": str(2**63)}, "Packetboat-Sequence"),
        ({**PRODUCER_HEADERS, "Packetboat-Sequence": "-1"}, "Packetboat-Sequence"),
    ],
)
async def test_wrong_producers_are_refused(headers: dict[str, str], field: str) -> None:
    async with running(FakeStore()) as forwarder:
        answer = await post_batch(forwarder, [{"data": 1}], headers)
        assert (answer.status, answer.json()["errors"][0]["field"]) == (422, field)


async def test_an_item_of_a_producers_batch_has_no_key_of_its_own() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        items = [{"data": 1}, {"data": 2, "idempotency_key": "i"}]
        answer = await post_batch(forwarder, items, PRODUCER_HEADERS)
        assert (answer.status, answer.json()["errors"][0]["field"]) == (422, "idempotency_key")
        assert store.stored() == []
        assert forwarder.budget.held_bytes == 0


async def test_plain_messages_cost_no_ids() -> None:
    store = FakeStore()
    store.hold(0)
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        routes = await forwarder.routes_of(TENANT, "orders")
        share = forwarder.budget.share(TENANT)
        request = forwarder.publish_nowait(routes, share, Message(b"x"), Durability.QUORUM)
        await run_ready()
        assert (request.ids, store.partition(0).sent[0].ids) == (None, [])
        store.partition(0).release()
        await run_ready()
