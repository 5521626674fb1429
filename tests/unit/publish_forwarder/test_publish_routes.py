from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edge import message_id
from edge.asgi import ClientGone, MutableMapping
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.routes import routes
from store_nodes.errors import OutcomeUnknown
from store_nodes.record_batch import Message
from tests.unit.publish_forwarder.publish_support import (
    LOG_TIME_US,
    TENANT,
    FakeCatalog,
    FakeStore,
    post,
    post_batch,
    run_ready,
    running,
    topic,
)


async def test_every_route_names_its_permission() -> None:
    found = [(r.method, r.path, r.permission) for r in routes(_forwarder())]
    assert found == [
        ("POST", "/topics/{topic}/messages", "publish"),
        ("POST", "/topics/{topic}/messages:batch", "publish"),
        ("DELETE", "/topics/{topic}/messages/{id}", "publish"),
        ("PATCH", "/topics/{topic}/messages/{id}", "publish"),
    ]


def _forwarder() -> PublishForwarder:
    return PublishForwarder(FakeCatalog(), FakeStore(), registry=None)


async def test_a_publish_is_answered_201_with_its_receipt() -> None:
    store = FakeStore()
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        await post(forwarder, b"first")
        answer = await post(forwarder, b'{"a": 1}', {"Content-Type": "application/json"})
        assert answer.status == 201
        assert answer.headers[b"content-type"] == b"application/json"
        assert answer.headers[b"content-length"] == str(len(answer.body)).encode()
        receipt = answer.json()
        parsed = message_id.parse(receipt.pop("message_id"))
        assert (parsed.topic_uid, parsed.partition, parsed.number) == (topic().uid, 0, 1)
        assert receipt == {
            "topic": "orders",
            "partition": 0,
            "offset": 1,
            "publish_time": "2025-12-31T23:59:59.123457Z",
            "duplicate": False,
        }
        assert LOG_TIME_US % 10 == 6
        assert store.partition(0).log[1] == Message(b'{"a": 1}', "application/json")


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("body", "recorded"),
    [(b' {"order":  1}', "application/json"), (b"order=1", FORM["Content-Type"])],
)
async def test_json_with_the_default_type_of_curl_is_json(body: bytes, recorded: str) -> None:
    store = FakeStore()
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        assert (await post(forwarder, body, FORM)).status == 201
        assert store.partition(0).log == [Message(body, recorded)]


EVENT = b'{"specversion":"1.0","id":"%s","source":"/s","type":"t","data":{"a": 1}}'
BATCH_OF_EVENTS = {"Content-Type": "application/cloudevents-batch+json; charset=utf-8"}


@pytest.mark.parametrize("path", ["messages", "messages:batch"])
async def test_events_in_json_are_taken_apart(path: str) -> None:
    store = FakeStore()
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        one = {"Content-Type": "application/cloudevents+json"}
        answer = await post(forwarder, EVENT % b"1", one, path=path)
        assert answer.status == (201 if path == "messages" else 200)
        many = b"[%b]" % b",".join([EVENT % b"2", EVENT % b"", EVENT % b"3"])
        answer = await post(forwarder, many, BATCH_OF_EVENTS, path=path)
        assert answer.status == 200
        results = answer.json()["results"]
        assert ["message_id" in result for result in results] == [True, False, True]
        assert results[1]["errors"][0]["field"] == "id"
        stored = store.partition(0).log
        assert [message.data for message in stored] == [b'{"a": 1}'] * 3
        assert [(message.attributes or {})["ce-id"] for message in stored] == ["1", "2", "3"]
        assert {message.content_type for message in stored} == {"application/json"}


async def test_a_body_in_parts_is_one_message() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        assert (await post(forwarder, [b"a", b"", b"bc"])).status == 201
        assert (await post(forwarder, [])).status == 201
        assert sorted(store.stored()) == [b"", b"abc"]


@pytest.mark.parametrize("length", [True, False])
async def test_the_largest_message_goes_and_a_larger_is_413(length: bool) -> None:
    limit = 10 * 1024 * 1024
    store = FakeStore()
    async with running(store) as forwarder:
        for size, status in ((limit, 201), (limit + 1, 413)):
            body = bytes(size)
            chunks = [body[at : at + 2**20] for at in range(0, size, 2**20)]
            headers = {"Content-Length": str(size)} if length else {}
            assert (await post(forwarder, chunks, headers)).status == status
        assert forwarder.budget.held_bytes == 0


async def test_bodies_count_against_the_budget_while_they_arrive() -> None:
    store = FakeStore()
    async with running(store, max_in_flight_bytes=3 * 2**20, tenant_share=1.0) as forwarder:
        forwarder.budget.share(TENANT).reserve(2 * 2**20, 1)
        headers = {"Content-Length": str(2**21)}
        assert (await post(forwarder, bytes(2**21), headers)).status == 503
        chunks = [bytes(2**16)] * 32
        assert (await post(forwarder, chunks)).status == 503
        assert (await post(forwarder, bytes(2**19))).status == 201
        forwarder.budget.share(TENANT).release(2 * 2**20, 1)
        assert forwarder.budget.held_bytes == 0


async def test_an_unknown_topic_is_404() -> None:
    async with running(FakeStore()) as forwarder:
        answer = await post(forwarder, b"", topic_name="nope")
        assert answer.status == 404
        assert answer.json()["type"].endswith("/topic-not-found")


async def test_durability_none_is_202_with_a_publish_id() -> None:
    async with running(FakeStore()) as forwarder:
        answer = await post(forwarder, b"", {"Packetboat-Durability": "none"})
        assert answer.status == 202
        assert list(answer.json()) == ["publish_id"]
        answer = await post_batch(
            forwarder, [{"data": 1}, {"data": 2}], {"Packetboat-Durability": "leader"}
        )
        assert answer.status == 202
        ids = [result["publish_id"] for result in answer.json()["results"]]
        assert len(set(ids)) == 2


async def test_a_batch_has_a_receipt_or_a_problem_per_item() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        items = [
            {"data": "a", "key": "k"},
            {"data": "b", "priority": 99},
            {"data": "c"},
            {"data": "d", "key": "k"},
        ]
        answer = await post_batch(forwarder, items)
        assert answer.status == 200
        results = answer.json()["results"]
        assert ["message_id" in result for result in results] == [True, False, True, True]
        assert results[1]["status"] == 422
        assert results[1]["errors"][0]["field"] == "priority"
        for item, result in zip(items, results, strict=True):
            if "offset" in result:
                stored = store.partition(result["partition"]).log[result["offset"]]
                assert stored.data == str(item["data"]).encode()


async def test_a_batch_of_only_wrong_items_stores_nothing() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        answer = await post_batch(forwarder, [{}, {}])
        assert [result["status"] for result in answer.json()["results"]] == [422, 422]
        assert store.stored() == []


async def test_a_part_of_a_batch_that_the_store_lost_says_so() -> None:
    store = FakeStore()
    store.hold(0)
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        task = asyncio.create_task(post_batch(forwarder, [{"data": 1}, {"data": 2}]))
        await run_ready()
        store.partition(0).fail(OutcomeUnknown("silence"))
        answer = await task
        assert answer.status == 200
        for result in answer.json()["results"]:
            assert result["status"] == 504
            assert result["outcome"] == "unknown"


async def test_publisher_id_and_traceparent_of_a_batch_hold_for_all() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        headers = {"Packetboat-Publisher-Id": "till", "traceparent": "00-1-2-01"}
        await post_batch(forwarder, [{"data": 1}, {"data": 2}], headers)
        logs = [message for queue in store.queues.values() for message in queue.log]
        assert {(m.publisher_id, m.traceparent) for m in logs} == {("till", "00-1-2-01")}


async def test_an_item_may_have_a_trace_of_its_own() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        own = {"data": 1, "traceparent": "00-3-4-01", "tracestate": "a=1"}
        headers = {"traceparent": "00-1-2-01", "tracestate": "b=2"}
        answer = await post_batch(forwarder, [own, {"data": 2}], headers)
        assert answer.status == 200
        logs = [message for queue in store.queues.values() for message in queue.log]
        found = {m.data: (m.traceparent, m.tracestate) for m in logs}
        assert found == {b"1": ("00-3-4-01", "a=1"), b"2": ("00-1-2-01", "b=2")}


async def test_a_client_that_leaves_before_its_body_is_whole_publishes_nothing() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        parts = [
            {"type": "http.request", "body": b"half", "more_body": True},
            {"type": "http.disconnect"},
        ]

        async def receive() -> MutableMapping[str, Any]:
            return parts.pop(0)

        async def send(message: MutableMapping[str, Any]) -> None:
            raise AssertionError(message)

        scope: dict[str, Any] = {
            "packetboat.tenant": TENANT,
            "path_params": {"topic": "orders"},
            "headers": [(b"content-length", b"100000")],
        }
        with pytest.raises(ClientGone):
            await routes(forwarder)[0].handler(scope, receive, send)
        assert forwarder.budget.held_bytes == 0
        assert store.stored() == []
