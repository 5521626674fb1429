"""Messages with a delay: staged, answered with a final id, cancelled, rescheduled."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge import message_id
from edge.asgi import MutableMapping
from edge.problem import Problem
from edge.times import rfc3339
from metadata.delivery.due import QueueKey
from metadata.delivery.forwarded import Forwarded
from metadata.types import SealedPartition
from publish_forwarder.delays import Delay, after, after_text, at
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.routes import routes
from store_nodes.errors import Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from store_nodes.wire import Durability
from tests.unit.publish_forwarder.publish_support import (
    LOG_TIME_US,
    TENANT,
    Answer,
    FakeCatalog,
    FakeStore,
    post,
    post_batch,
    run_ready,
    running,
    topic,
)

NOW_US = 1_790_000_000_000_000
PATH = "/topics/{topic}/messages/{id}"


@given(st.integers(0, 365 * 86_400 * 10**6))
def test_a_moment_is_the_same_however_it_is_written(ahead_us: int) -> None:
    moment_us = NOW_US + ahead_us
    assert at("x", rfc3339(moment_us), NOW_US) == Delay(True, moment_us)
    assert at("x", rfc3339(moment_us).replace("Z", "+00:00"), NOW_US).due_us(0) == moment_us


@pytest.mark.parametrize(
    ("text", "delay_us"),
    [("5", 5_000_000), ("0.25", 250_000), ("1e-3", 1000), ("31536000", 31_536_000_000_000)],
)
def test_seconds(text: str, delay_us: int) -> None:
    delay = after_text("x", text)
    assert delay is not None
    assert delay.due_us(NOW_US) == NOW_US + delay_us


@pytest.mark.parametrize("text", ["0", "-1", "-0.5"])
def test_no_delay_is_none(text: str) -> None:
    assert after_text("x", text) is None


@pytest.mark.parametrize("text", ["", "soon", "1_0", "0x10", "31536000.1", "inf", "nan", "1,5"])
def test_wrong_seconds(text: str) -> None:
    with pytest.raises(Problem, match="422"):
        after_text("x", text)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e300])
def test_wrong_numbers(seconds: float) -> None:
    with pytest.raises(Problem, match="422"):
        after("x", seconds)


@pytest.mark.parametrize(
    "text",
    [
        "2026-09-21",
        "2026-09-21T12:00:00",
        "2026-09-21 12:00:00Z",
        "2026-13-21T12:00:00Z",
        "2026-09-21T12:00:60Z",
        "0000-01-01T00:00:00Z",
        "20260921T120000Z",
        "2028-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
    ],
)
def test_wrong_moments(text: str) -> None:
    with pytest.raises(Problem, match="422"):
        at("x", text, NOW_US)


async def test_a_delayed_message_is_staged_and_has_a_final_id() -> None:
    store = FakeStore()
    before_us = time.time_ns() // 1000
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        await post(forwarder, b"first", {"Packetboat-Delay": "60"})
        answer = await post(forwarder, b"x", {"Packetboat-Delay": "60"})
        assert answer.status == 201
        receipt = answer.json()
        parsed = message_id.parse(receipt["message_id"])
        assert parsed == message_id.staged(topic().uid, 0, 0, 1)
        assert (receipt["offset"], receipt["publish_time"]) == (None, None)
        assert receipt["accepted_time"] == rfc3339(LOG_TIME_US + 1)
        message, due_us = store.partition(0).staged[1]
        assert before_us + 60_000_000 <= due_us <= time.time_ns() // 1000 + 60_000_000
        assert receipt["scheduled_for"] == rfc3339(due_us) == rfc3339(message.deliver_at_us)
        assert store.stored() == []
        assert forwarder.metrics.scheduled == 2


async def test_a_moment_that_has_passed_is_now() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        for headers in (
            {"Packetboat-Deliver-At": "2020-01-01T00:00:00Z"},
            {"Packetboat-Delay": "0"},
            {"Packetboat-Delay": "-5"},
        ):
            answer = await post(forwarder, b"x", headers)
            assert isinstance(answer.json()["offset"], int)
        assert store.stored() == [b"x"] * 3


async def test_both_headers_are_refused() -> None:
    async with running(FakeStore()) as forwarder:
        headers = {"Packetboat-Delay": "5", "Packetboat-Deliver-At": "2026-01-01T00:00:00Z"}
        answer = await post(forwarder, b"x", headers)
        assert (answer.status, answer.json()["errors"][0]["field"]) == (
            422,
            "Packetboat-Deliver-At",
        )


async def test_staging_goes_together_like_appending() -> None:
    store = FakeStore()
    store.hold(0)
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        routes_ = await forwarder.routes_of(TENANT, "orders")
        share = forwarder.budget.share(TENANT)
        delay = Delay(False, 10**9)

        def publish(data: bytes, delayed: bool) -> None:
            forwarder.publish_nowait(
                routes_, share, Message(data), Durability.QUORUM, delay if delayed else None
            )

        publish(b"0", True)
        await run_ready()
        for number in range(5):
            publish(b"%d" % number, True)
            publish(b"%d" % number, False)
        await run_ready()
        sizes = []
        queue = store.partition(0)
        while queue.sent:
            sizes.append((len(queue.sent[0].messages), queue.sent[0].due_us is not None))
            queue.answer()
            await run_ready()
        assert sizes == [(1, True), (5, False), (5, True)]
        assert forwarder.budget.held_bytes == 0


async def test_a_delayed_message_without_a_key_goes_to_a_group_with_a_leader() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        for number in (0, 1, 2):
            store.partition(number).refusal = Unavailable("no leader")
        answer = await post(forwarder, b"x", {"Packetboat-Delay": "60"})
        assert answer.json()["partition"] == 3
        assert len(store.partition(3).staged) == 1


async def test_a_delayed_message_sent_again_is_known_staged_or_not() -> None:
    store = FakeStore()
    headers = {"Idempotency-Key": "i1", "Packetboat-Delay": "60"}
    async with running(store) as forwarder:
        first = (await post(forwarder, b"x", headers)).json()
        again = (await post(forwarder, b"x", headers)).json()
        assert again == first | {"duplicate": True, "scheduled_for": None}
        assert sum(len(queue.staged) for queue in store.queues.values()) == 1


async def test_a_batch_mixes_both_and_answers_in_order() -> None:
    store = FakeStore()
    async with running(store) as forwarder:
        items: list[dict[str, Any]] = [
            {"data": "a", "key": "k"},
            {"data": "b", "key": "k", "delay_seconds": 60},
            {"data": "c", "ttl_seconds": 0},
            {"data": "d", "delay_seconds": 90.5},
            {"data": "e", "deliver_at": "2020-01-01T00:00:00Z"},
            {"data": "f", "delay_seconds": None},
        ]
        results = (await post_batch(forwarder, items)).json()["results"]
        assert [result.get("offset", "wrong") is None for result in results] == [
            *(False, True, False, True, False, False)
        ]
        assert results[2]["status"] == 422
        staged = [m.data for q in store.queues.values() for m, _ in q.staged]
        assert sorted(staged) == [b"b", b"d"]
        assert sorted(store.stored()) == [b"a", b"e", b"f"]


async def test_a_producers_batch_stages_the_same_messages_in_every_retry() -> None:
    store = FakeStore()
    headers = {"Packetboat-Producer": "ab" * 16, "Packetboat-Sequence": "1"}
    items = [{"data": "a"}, {"data": "b", "deliver_at": "2020-01-01T00:00:00Z"}]
    async with running(store) as forwarder:
        first = (await post_batch(forwarder, items, headers)).json()["results"]
        assert [result["offset"] for result in first] == [0, None], "due at once, but staged"
        again = (await post_batch(forwarder, items, headers)).json()["results"]
        assert [result["duplicate"] for result in again] == [True, True]
        assert [r["message_id"] for r in again] == [r["message_id"] for r in first]


class FakeForwarded:
    def __init__(self) -> None:
        self.moved: set[tuple[QueueKey, int]] = set()

    async def find(self, queue: QueueKey, numbers: list[int]) -> dict[int, object]:
        return {number: object() for number in numbers if (queue, number) in self.moved}

    async def record(self, queue: QueueKey, moved: list[Forwarded]) -> None:
        self.moved |= {(queue, each.stage_number) for each in moved}


async def call(
    forwarder: PublishForwarder, method: str, text: str, body: bytes = b"", name: str = "orders"
) -> Answer:
    """Handle a request as the gateway would."""
    handler = next(r.handler for r in routes(forwarder) if (r.method, r.path) == (method, PATH))
    answer = Answer(0, {}, b"")

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        answer.status = message.get("status", answer.status)
        answer.body += message.get("body", b"")

    scope: dict[str, Any] = {
        "packetboat.tenant": TENANT,
        "path_params": {"topic": name, "id": text},
        "headers": [],
    }
    try:
        await handler(scope, receive, send)
    except Problem as problem:
        return Answer(problem.status, {}, problem.to_json())
    return answer


def kind(answer: Answer) -> tuple[int, str]:
    return answer.status, str(answer.json()["type"]).rpartition("/")[2]


async def delayed(forwarder: PublishForwarder, **headers: str) -> str:
    answer = await post(forwarder, b"x", {"Packetboat-Delay": "60", **headers})
    return str(answer.json()["message_id"])


async def test_cancel_holds_and_may_be_repeated() -> None:
    store = FakeStore()
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        text = await delayed(forwarder)
        for _ in range(2):
            answer = await call(forwarder, "DELETE", text)
            assert (answer.status, answer.body) == (204, b"")
        assert store.partition(0).fates == {0: ("discarded", None)}
        answer = await call(forwarder, "PATCH", text, b'{"delay_seconds": 5}')
        assert kind(answer) == (409, "message-cancelled")


async def test_reschedule_moves_the_time() -> None:
    store = FakeStore()
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        text = await delayed(forwarder)
        answer = await call(forwarder, "PATCH", text, b'{"delay_seconds": 3600}')
        due_us = store.partition(0).staged[0][1]
        assert answer.status == 200
        assert answer.json() == {
            "message_id": text,
            "topic": "orders",
            "partition": 0,
            "scheduled_for": rfc3339(due_us),
        }
        for body in (b'{"delay_seconds": 0}', b'{"deliver_at": "2020-01-01T00:00:00Z"}'):
            before_us = time.time_ns() // 1000
            assert (await call(forwarder, "PATCH", text, body)).status == 200
            assert before_us <= store.partition(0).staged[0][1] <= time.time_ns() // 1000


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"delay_seconds": 1, "deliver_at": "2026-01-01T00:00:00Z"}', 422),
        (b'{"delay_seconds": 1e9}', 422),
        (b'{"deliver_at": 5}', 422),
        (b'{"when": 5}', 422),
    ],
)
async def test_wrong_times_of_a_reschedule(body: bytes, status: int) -> None:
    async with running(FakeStore()) as forwarder:
        text = await delayed(forwarder)
        assert (await call(forwarder, "PATCH", text, body)).status == status


@pytest.mark.parametrize("method", ["DELETE", "PATCH"])
async def test_what_is_published_can_be_changed_no_more(method: str) -> None:
    store = FakeStore()
    body = b'{"delay_seconds": 1}'
    async with running(store, FakeCatalog(topic(partitions=1))) as forwarder:
        released, gone = await delayed(forwarder), await delayed(forwarder)
        store.partition(0).fates = {0: ("offset", 5), 1: ("truncated", None)}
        plain = (await post(forwarder, b"x")).json()["message_id"]
        for text in (released, gone, plain):
            answer = await call(forwarder, method, text, body)
            assert kind(answer) == (409, "already-released")


@pytest.mark.parametrize("method", ["DELETE", "PATCH"])
async def test_ids_of_no_message(method: str) -> None:
    uid = topic().uid
    body = b'{"delay_seconds": 1}'
    async with running(FakeStore(), FakeCatalog(topic(partitions=1))) as forwarder:
        await delayed(forwarder)
        await post(forwarder, b"x")
        for text in (
            str(message_id.staged(uid, 0, 0, 1)),
            str(message_id.staged(uid, 0, 1, 0)),
            str(message_id.staged(uid, 3, 0, 0)),
            str(message_id.staged(uid, 0, 0, 0, lane=1)),
            str(message_id.staged(b"o" * 16, 0, 0, 0)),
            str(message_id.MessageId(1, uid, 0, 0, 1)),
        ):
            assert kind(await call(forwarder, method, text, body)) == (404, "message-not-found")
        assert kind(await call(forwarder, method, "junk", body)) == (400, "bad-message-id")
        answer = await call(forwarder, method, text, body, name="nothing")
        assert kind(answer) == (404, "topic-not-found")


async def test_a_message_staged_before_a_move_is_found_in_its_own_queue() -> None:
    store, forwarded = FakeStore(), FakeForwarded()
    old = topic(partitions=1)
    sealed = SealedPartition(0, 0, 0, 0, 0, 7, 1, 1)
    moved = replace(
        old, partitions=(replace(old.partitions[0], group=1, generation=1),), sealed=(sealed,)
    )
    catalog = FakeCatalog(old)
    async with running(store, catalog, forwarded=forwarded) as forwarder:
        waits, copied, raced = [await delayed(forwarder) for _ in range(3)]
        catalog.cached[TENANT, "orders"] = moved
        store.partition(0).successors = ((1, QueueId(old.uid, 0, generation=1).pack()),)
        key = QueueKey(TENANT, *QueueId(old.uid, 0))
        forwarded.moved = {(key, 1), (key, 2)}
        store.partition(0).fates[1] = ("discarded", None)
        assert (await call(forwarder, "DELETE", waits)).status == 204
        for text in (copied, raced):
            assert kind(await call(forwarder, "DELETE", text)) == (409, "already-released")
