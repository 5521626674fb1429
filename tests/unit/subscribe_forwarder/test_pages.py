"""Pages in binary: what they have is what JSON has, and their ack ids do what others do."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from packetboat.aio.resources.delivery import AsyncDelivery
from packetboat.aio.sender import AsyncSender
from packetboat.calls import Call
from packetboat.calls.consuming import ack as ack_call
from packetboat.calls.consuming import pull as pull_call
from packetboat.calls.pages import ACCEPT, is_page, join_ids, read_page
from packetboat.models import ItemFailure, Message, Settled
from packetboat.transport import Response

from edge.problem import TYPE_BASE
from openapi.consume import PAGE_TYPE
from store_nodes import record_batch
from subscribe_forwarder.delivery import ack_id
from tests.unit.subscribe_forwarder.subscribe_support import (
    FakeMetadata,
    World,
    subscription,
    topic,
    world,
)

PAGES = [(b"accept", ACCEPT.encode())]
JSON_BODY = msgspec.json.Decoder(dict[str, Any])


async def page(w: World, max_messages: int = 1000, **options: Any) -> list[Message]:
    answer = await w.pull(max_messages, headers=PAGES, **options)
    assert answer.status == 200, answer.body
    assert answer.headers[b"content-type"] == PAGE_TYPE.encode()
    return read_page(answer.body)


def of_json(body: bytes) -> list[Message]:
    return pull_call("reader", 1, 0).result(Response(200, {}, body))


async def ack(w: World, ids: list[str], verb: str = "ack", **more: Any) -> Any:
    answer = await w.post(verb, {"ack_ids": join_ids(ids).texts, **more})
    assert answer.status == 200, answer.body
    return answer.json()


def ids_of(messages: list[Message]) -> list[str]:
    return [message.ack_id or "" for message in messages]


def slugs(answer: Any) -> list[str]:
    return [result["type"].removeprefix(TYPE_BASE) for result in answer["results"]]


MESSAGES = st.builds(
    record_batch.Message,
    data=st.one_of(
        st.binary(max_size=20),
        st.text(max_size=20).map(str.encode),
        st.sampled_from([b"{}", b' {"a": 1} ', b"[1,", b'"\xff"', b"\n", "é\u2028".encode()]),
    ),
    content_type=st.sampled_from(
        [
            None,
            "text/plain",
            "TEXT/plain ; charset=UTF-8",
            "text/plain; charset=latin-1",
            "application/json",
            "application/problem+json; charset=latin-1",
            "application/x-ndjson",
            "application/octet-stream",
            "",
        ]
    ),
    key=st.none() | st.text(max_size=5),
    attributes=st.none() | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    publisher_id=st.none() | st.text(max_size=5),
    priority=st.integers(0, 9),
    deliver_at_us=st.sampled_from([0, 1_767_225_599_123_456]),
    traceparent=st.none() | st.just("00-" + "1" * 32 + "-" + "2" * 16 + "-01"),
    tracestate=st.none() | st.just("a=b"),
    idempotency_key=st.none() | st.just("secret of the publisher"),
    origin=st.none() | st.just({"topic": "old"}),
)


@settings(max_examples=30)
@given(st.lists(MESSAGES, min_size=1, max_size=40), st.integers(0, 99))
async def test_a_page_has_the_messages_that_json_has(
    messages: list[record_batch.Message], seed: int
) -> None:
    messages = [
        one if one.traceparent else replace(one, tracestate=None)  # it comes only beside the other
        for one in messages
    ]
    both: list[list[Message]] = []
    for headers in ((), PAGES):
        async with world() as w:
            left, dice = list(messages), random.Random(seed)
            while left:
                count = dice.randint(1, len(left))
                w.store.publish(*left[:count])
                left = left[count:]
            answer = await w.pull(1000, headers=headers)
            both.append(of_json(answer.body))
            assert is_page(answer.body) == bool(headers)
            assert b"secret" not in answer.body
    as_json, as_page = ([replace(one, ack_id="") for one in some] for some in both)
    assert as_json == as_page


async def test_one_id_acks_a_page() -> None:
    async with world(partitions=2) as w:
        w.store.publish(b"a", b"b", b"c")
        w.store.publish(b"d", partition=1)
        w.store.publish(b"e")
        messages = await page(w)
        assert sorted(message.text for message in messages) == ["a", "b", "c", "d", "e"]
        assert len(join_ids(ids_of(messages)).texts) == 2
        assert await ack(w, ids_of(messages)) == {"acked": 5, "results": []}
        assert (w.metadata.row(0).floor, w.metadata.row(1).floor) == (4, 1)
        assert await ack(w, ids_of(messages)) == {"acked": 5, "results": []}


async def test_parts_of_a_page_are_acked_alone() -> None:
    async with world() as w:
        w.store.publish(*[b"x"] * 10)
        ids = ids_of(await page(w))
        assert await ack(w, [ids[1], ids[2], ids[7]]) == {"acked": 3, "results": []}
        assert w.metadata.row().acked == ((1, 3), (7, 8))


async def test_a_page_of_messages_far_apart_has_several_tokens() -> None:
    async with world() as w:
        w.store.publish(*[b"x"] * 200)
        first = ids_of(await page(w))
        assert len(first) == 200
        await ack(w, first[::2])
        assert (await ack(w, first[1::2], "nack"))["done"] == 100
        again = await page(w)
        assert [message.attempt for message in again] == [2] * 100
        assert [message.offset for message in again] == list(range(1, 200, 2))
        sent = join_ids(ids_of(again)).texts
        assert len(sent) == 4  # 32 runs each
        assert max(map(len, sent)) <= 1024
        assert (await ack(w, ids_of(again)))["acked"] == 100
        assert w.metadata.row().floor == 200


@pytest.mark.parametrize(
    ("verb", "more", "attempts"),
    [
        ("nack", {}, [2, 2]),
        ("release", {}, [1, 1]),
        ("modify_ack_deadline", {"deadline_seconds": 0}, [2, 2]),
    ],
)
async def test_what_else_may_be_done_to_a_page(
    verb: str, more: dict[str, Any], attempts: list[int]
) -> None:
    async with world() as w:
        w.store.publish(b"a", b"b", b"c")
        ids = ids_of(await page(w))
        assert await ack(w, ids[:2], verb, **more) == {"done": 2, "results": []}
        late = await ack(w, ids, verb, **more)
        assert late["done"] == 1
        assert slugs(late) == ["lease-expired"] * 2
        assert [result["ack_id"] for result in late["results"]] == ids[:2]
        again = await page(w, wait_s=5)
        assert [message.attempt for message in again][:2] == attempts
        assert (await ack(w, ids_of(again)))["acked"] == 3


async def test_a_lease_of_before_is_not_that_of_now() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b")
        before = ids_of(await page(w))
        await ack(w, before, "nack")
        again = ids_of(await page(w, wait_s=5))
        assert slugs(await ack(w, before, "release")) == ["lease-expired"] * 2
        assert (await ack(w, again, "release"))["done"] == 2


async def token(w: World) -> str:
    w.store.publish(b"a", b"b", b"c")
    messages = await page(w)
    return ids_of(messages)[0].partition(".")[0]


@pytest.mark.parametrize(
    "selection",
    ["3", "0-3", "2-1", "1,0", "0,0", "0-1,1-2", "", "-1", "0-", "0,", "a", "0.1", "99999", "0 "],
)
async def test_numbers_that_a_page_does_not_have(selection: str) -> None:
    async with world() as w:
        text = f"{await token(w)}.{selection}"
        answer = (await w.post("ack", {"ack_ids": [text]})).json()
        assert (answer["acked"], slugs(answer)) == (0, ["bad-ack-id"])
        assert answer["results"][0]["ack_id"] == text
        assert w.metadata.row().counters.acked == 0


async def test_a_token_of_another_subscription() -> None:
    metadata = FakeMetadata(topic(), subscription(), subscription("other", b"o" * 16))
    async with world(metadata=metadata) as w:
        await w.ready()
        text = f"{await token(w)}.0-2"
        answer = (await w.post("ack", {"ack_ids": [text]}, name="other")).json()
        assert (answer["acked"], slugs(answer)) == (0, ["bad-ack-id"])


async def test_a_token_from_before_a_seek() -> None:
    async with world() as w:
        w.store.publish(b"a")
        ids = ids_of(await page(w))
        (reader,) = (await w.forwarder.hub(w.tenant_id, "reader")).readers.values()
        reader.cursor.generation += 1
        answer = await ack(w, ids)
        assert (answer["acked"], slugs(answer)) == (0, ["stale-ack-id"])


@pytest.mark.parametrize("at", range(0, 76, 5))
async def test_a_changed_token(at: int) -> None:
    async with world() as w:
        text = await token(w)
        forged = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
        answer = (await w.post("ack", {"ack_ids": [f"{forged}.0"]})).json()
        assert (answer["acked"], slugs(answer)) == (0, ["bad-ack-id"])


async def test_a_request_names_so_many_messages() -> None:
    async with world() as w:
        text = f"{await token(w)}.0-2"
        assert (await w.post("ack", {"ack_ids": [text] * 334})).status == 422
        assert (await w.post("ack", {"ack_ids": [text] * 333})).json()["acked"] == 999


async def test_at_most_once_has_no_token() -> None:
    metadata = FakeMetadata(topic(), replace(subscription(), delivery="at_most_once"))
    async with world(metadata=metadata) as w:
        await w.ready()
        w.store.publish(b"a", b"b")
        messages = await page(w)
        assert [(message.text, message.ack_id) for message in messages] == [
            ("a", None),
            ("b", None),
        ]
        assert w.metadata.row().floor == 2


async def test_exactly_once_is_json() -> None:
    metadata = FakeMetadata(topic(), replace(subscription(), delivery="exactly_once"))
    async with world(metadata=metadata) as w:
        await w.ready()
        w.store.publish(b"a")
        answer = await w.pull(headers=PAGES)
        assert answer.headers[b"content-type"] == b"application/json"
        (message,) = answer.json()["messages"]
        assert len(message["ack_id"]) == ack_id.ID_CHARS


async def test_an_empty_page() -> None:
    async with world() as w:
        w.store.publish()
        assert await page(w) == []


async def test_messages_that_were_staged_keep_their_ids() -> None:
    bodies = []
    for headers in ((), PAGES):
        async with world() as w:
            w.store.stage(b"a", b"b")
            w.store.release(1)
            w.store.release(0)
            bodies.append(of_json((await w.pull(headers=headers)).body))
    one, other = bodies
    assert [m.message_id for m in one] == [m.message_id for m in other]
    assert [m.text for m in other] == ["b", "a"]


def test_failures_are_those_of_the_given_ids() -> None:
    page, other = "p" * 76, "o" * 76
    given = [f"{page}.4", "x" * 72, f"{other}.0", f"{page}.3", f"{page}.9", f"{page}.4"]
    joined = join_ids(given)
    assert joined.texts == ["x" * 72, f"{page}.3-4,9", f"{other}.0"]
    found = [
        ItemFailure(index=1, status=409, type="t/lease-expired", ack_id=f"{page}.4"),
        ItemFailure(index=2, status=400, type="t/bad-ack-id", ack_id=f"{other}.0"),
    ]
    failures = joined.failures(found, given)
    assert [(one.index, one.ack_id) for one in failures] == [
        (0, given[0]),
        (2, given[2]),
        (5, given[5]),
    ]
    whole = [ItemFailure(index=1, status=400, type="t", ack_id=f"{page}.3-4,9")]
    assert [one.index for one in joined.failures(whole, given)] == [0, 3, 4, 5]


def test_a_call_counts_messages_that_are_named_twice() -> None:
    page = "p" * 76
    call = ack_call("reader", [f"{page}.0", f"{page}.0", f"{page}.1"], False)
    assert msgspec.json.decode(call.request.body) == {"ack_ids": [f"{page}.0-1"]}
    settled = call.result(Response(200, {}, b'{"acked":2,"results":[]}'))
    assert (settled.count, settled.failures) == (3, ())


@given(st.sets(st.integers(0, 999), min_size=1))
def test_ids_of_a_page_fit_into_a_request(numbers: set[int]) -> None:
    page = "p" * (ack_id.HEAD_CHARS + 16 * (ack_id.MAX_RUNS + 1))
    joined = join_ids([f"{page}.{number}" for number in numbers])
    assert max(map(len, joined.texts)) <= 1024
    named = [
        n for text in joined.texts for some in ack_id._ranges(text.partition(".")[2]) for n in some
    ]
    assert named == sorted(numbers)


class EarlierServer:
    """Answers acks as a server does that knows no pages."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, list[str]]] = []

    async def send(self, call: Call[Settled], timeout_s: float | None = None) -> Settled:
        body = msgspec.json.decode(call.request.body, type=dict[str, list[str]])
        self.bodies.append(body)
        kind, detail = f"{TYPE_BASE}bad-ack-id", "an ack id has 72 characters"
        failures = [
            {"index": at, "ack_id": text, "status": 400, "type": kind, "detail": detail}
            for at, text in enumerate(body.get("ack_ids", ()))
            if len(text) != ack_id.ID_CHARS
        ]
        if "lost" in body.get("message_ids", ()):
            failures.append({"index": 1, "status": 409, "type": "t/not-delivered"})
        acked = sum(map(len, body.values())) - len(failures)
        answer = msgspec.json.encode({"acked": acked, "results": failures})
        return call.result(Response(200, {}, answer))


def given_message(message_id: str, ack_id: str) -> Message:
    return Message(
        message_id=message_id,
        ack_id=ack_id,
        publish_time=datetime.now(UTC),
        partition=0,
        offset=0,
    )


async def test_an_earlier_server_is_told_message_ids() -> None:
    page, server = "p" * 76, EarlierServer()
    messages = [
        given_message("a", f"{page}.0"),
        given_message("b", "x" * 72),
        given_message("lost", f"{page}.1"),
    ]
    delivery = AsyncDelivery(cast(AsyncSender, server))
    settled = await delivery.ack("reader", messages)
    assert server.bodies == [
        {"ack_ids": ["x" * 72, f"{page}.0-1"]},
        {"message_ids": ["a", "lost"]},
    ]
    assert settled.count == 2
    assert [(one.index, one.slug) for one in settled.failures] == [(2, "not-delivered")]


async def test_of_ids_alone_the_refusal_is_told() -> None:
    settled = await AsyncDelivery(cast(AsyncSender, EarlierServer())).ack("reader", "p" * 76 + ".0")
    assert (settled.count, [one.slug for one in settled.failures]) == (0, ["bad-ack-id"])
