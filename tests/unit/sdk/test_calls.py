from __future__ import annotations

import inspect
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from packetboat import (
    AsyncClient,
    Client,
    InvalidRequest,
    Message,
    Outgoing,
    Push,
    Receipt,
    Retention,
    Settled,
)

from tests.unit.sdk.sdk_support import RECEIPT, AsyncScript, Script, ok

NOW = "2026-01-31T23:59:59.123456Z"

DELIVERY = {
    "message_id": "m1",
    "ack_id": "a1",
    "content_type": "application/json",
    "publish_time": NOW,
    "partition": 0,
    "offset": 0,
    "attempt": 1,
}
SUBSCRIPTION = {
    "name": "s",
    "topic": "t",
    "type": "push",
    "delivery": "at_least_once",
    "ack_deadline_seconds": 30,
    "retry": {},
    "start": "latest",
    "created_at": NOW,
    "updated_at": NOW,
}


def client(*answers: Any) -> tuple[Client, Script]:
    script = Script(*answers)
    return Client(transport=script, retry_for_s=0), script


def message(**fields: Any) -> Message:
    return msgspec.json.decode(msgspec.json.encode(DELIVERY | fields), type=Message)


def test_publish_sends_the_body_verbatim_and_metadata_in_headers() -> None:
    boat, script = client(ok({"publish_id": "p-1"}, 202))
    message = Outgoing(
        data=b"\x00\xff",
        key="kunde ü",
        attributes={"größe": "XL"},
        content_type="image/png",
        priority=3,
        idempotency_key="i-1",
    )
    assert boat.publish_early("or/ders", message, publisher_id="till 4") == "p-1"
    (request,) = script.requests
    assert (request.method, request.path) == ("POST", "/topics/or%2Fders/messages")
    assert request.body == b"\x00\xff"
    headers = dict(request.headers)
    assert msgspec.json.decode(unquote(headers.pop("Packetboat-Attributes"))) == {"größe": "XL"}
    assert headers == {
        "Content-Type": "image/png",
        "Packetboat-Key": "kunde%20%C3%BC",
        "Packetboat-Priority": "3",
        "Packetboat-Publisher-Id": "till%204",
        "Packetboat-Durability": "leader",
        "Idempotency-Key": "i-1",
    }


@pytest.mark.parametrize(
    ("data", "body", "content_type"),
    [
        (b"x", b"x", None),
        ("hé", "hé".encode(), "text/plain; charset=utf-8"),
        ({"a": [1, None]}, b'{"a":[1,null]}', "application/json"),
        (17, b"17", "application/json"),
        (None, b"null", "application/json"),
    ],
)
def test_what_data_is_sent_as(data: Any, body: bytes, content_type: str | None) -> None:
    boat, script = client(ok({"publish_id": "p-1"}, 202))
    boat.publish_early("orders", Outgoing(data=data))
    assert script.requests[0].body == body
    assert script.requests[0].headers.get("Content-Type") == content_type


def test_a_batch_is_msgpack_and_its_results_are_receipts_or_errors() -> None:
    refused = {"type": "https://packetboat.dev/problems/invalid-request", "status": 422}
    boat, script = client(ok({"results": [RECEIPT, refused]}))
    results = boat.publish_batch("orders", [b"raw", Outgoing(data={"a": 1}, key="k", priority=99)])
    assert isinstance(results[0], Receipt)
    assert isinstance(results[1], InvalidRequest)
    (request,) = script.requests
    assert request.path == "/topics/orders/messages:batch"
    assert request.headers["Content-Type"] == "application/msgpack"
    assert msgspec.msgpack.decode(request.body) == {
        "messages": [
            {"data": b"raw"},
            {
                "data": b'{"a":1}',
                "content_type": "application/json",
                "key": "k",
                "priority": 99,
            },
        ]
    }


def test_an_endpoint_gets_the_format_that_it_was_given() -> None:
    """`raw` was not sent, as a default of the SDK alone, and the endpoint got `json`."""
    boat, script = client(ok(SUBSCRIPTION, 201))
    boat.subscriptions.create("t", "s", push=Push(url="https://example.com", format="raw"))
    sent = msgspec.json.decode(script.requests[0].body or b"")
    assert sent["push"] == {"url": "https://example.com", "format": "raw"}


def test_a_receipt_says_where_a_message_is() -> None:
    boat, script = client(ok({"results": [RECEIPT]}))
    receipt = boat.publish("or/ders", b"x", key="kunde ü").result()
    assert receipt == Receipt(
        "m" * 40, "orders", 3, 17, datetime(2026, 1, 31, 23, 59, 59, 123456, UTC), False
    )
    assert script.requests[0].path == "/topics/or%2Fders/messages:batch"


def test_topics() -> None:
    topic = {
        "name": "orders",
        "partitions": 4,
        "retention": {"mode": "retain", "seconds": 600, "bytes": None, "on_limit": "refuse"},
        "dedup_window_seconds": 600,
        "labels": {"a": "b"},
        "created_at": NOW,
        "updated_at": NOW,
    }
    boat, script = client(
        ok(topic, 201),
        ok(topic),
        ok({"topics": [topic], "next_page_token": "t"}),
        ok(None, 204),
    )
    made = boat.topics.create("orders", retention=Retention("retain", 600), labels={"a": "b"})
    assert made.retention == Retention("retain", 600)
    assert script.body() == {
        "name": "orders",
        "retention": {"mode": "retain", "seconds": 600, "bytes": None, "on_limit": "refuse"},
        "labels": {"a": "b"},
    }
    assert boat.topics.get("orders") == made
    page = boat.topics.page(page_size=1, page_token="s")
    assert page.items == (made,)
    assert page.next_page_token == "t"
    boat.topics.delete("orders")
    assert [f"{r.method} {r.path}" for r in script.requests] == [
        "POST /topics",
        "GET /topics/orders",
        "GET /topics?page_size=1&page_token=s",
        "DELETE /topics/orders",
    ]


def test_subscriptions() -> None:
    subscription = {
        "name": "workers",
        "topic": "orders",
        "type": "pull",
        "delivery": "at_least_once",
        "ack_deadline_seconds": 30,
        "retry": {"min_backoff_seconds": 1, "max_backoff_seconds": 600, "max_attempts": None},
        "start": "earliest",
        "labels": {},
        "created_at": NOW,
        "updated_at": NOW,
    }
    page = {"subscriptions": [subscription], "next_page_token": None}
    boat, script = client(
        ok(subscription, 201), ok(subscription), ok(page), ok(page), ok(None, 204)
    )
    made = boat.subscriptions.create("orders", "workers", start="earliest")
    assert script.body() == {"name": "workers", "start": "earliest"}
    assert boat.subscriptions.get("workers") == made
    assert boat.subscriptions.page("orders").items == (made,)
    assert boat.subscriptions.page().next_page_token is None
    boat.subscriptions.delete("workers")
    assert [f"{r.method} {r.path}" for r in script.requests] == [
        "POST /topics/orders/subscriptions",
        "GET /subscriptions/workers",
        "GET /topics/orders/subscriptions?page_size=100",
        "GET /subscriptions?page_size=100",
        "DELETE /subscriptions/workers",
    ]


def test_pull_waits_longer_than_the_server_does() -> None:
    boat, script = client(ok({"messages": [DELIVERY | {"data": {"a": 1}}]}))
    (pulled,) = boat.pull("workers", max_messages=5, wait_seconds=20)
    assert pulled.json() == {"a": 1}
    (request,) = script.requests
    assert request.path == "/subscriptions/workers/messages?max_messages=5&wait_seconds=20"
    assert request.timeout_s > 20


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({"data": {"a": 1}, "content_type": "application/json"}, b'{"a":1}'),
        ({"data": "x", "content_type": "application/json"}, b'"x"'),
        ({"data": "é\n", "content_type": "text/plain"}, "é\n".encode()),
        ({"data_base64": "AP8=", "content_type": "image/png"}, b"\x00\xff"),
        ({"data_base64": ""}, b""),
    ],
)
def test_the_body_of_a_message(fields: dict[str, Any], body: bytes) -> None:
    assert message(**fields).body == body


def test_acks_take_messages_or_ids_one_or_many() -> None:
    done = ok({"acked": 1, "results": []})
    boat, script = client(done, done, done, done)
    boat.ack("workers", message())
    boat.ack("workers", "a2")
    boat.ack("workers", [message(), "a2"])
    boat.ack("workers", [message(), "m2"], by_message_id=True)
    assert [script.body(n) for n in range(4)] == [
        {"ack_ids": ["a1"]},
        {"ack_ids": ["a2"]},
        {"ack_ids": ["a1", "a2"]},
        {"message_ids": ["m1", "m2"]},
    ]


def test_ack_failures_are_named() -> None:
    failure = {
        "index": 1,
        "ack_id": "a2",
        "status": 409,
        "type": "https://packetboat.dev/problems/stale-ack-id",
        "detail": "x",
    }
    boat, _ = client(ok({"acked": 1, "results": [failure]}))
    settled = boat.ack("workers", ["a1", "a2"])
    assert settled.count == 1
    assert [(f.index, f.slug, f.ack_id) for f in settled.failures] == [(1, "stale-ack-id", "a2")]


def test_nack_release_and_deadline() -> None:
    done = ok({"done": 1, "results": []})
    boat, script = client(done, done, done)
    assert boat.nack("workers", "a1", delay_seconds=5, reason="busy") == Settled(1)
    boat.release("workers", "a1")
    boat.extend("workers", "a1", 60)
    assert [(r.path.rpartition("/")[2], script.body(n)) for n, r in enumerate(script.requests)] == [
        ("nack", {"ack_ids": ["a1"], "delay_seconds": 5, "reason": "busy"}),
        ("release", {"ack_ids": ["a1"]}),
        ("modify_ack_deadline", {"ack_ids": ["a1"], "deadline_seconds": 60}),
    ]


async def test_the_asyncio_client_does_the_same() -> None:
    transport = AsyncScript(ok({"results": [RECEIPT]}), ok({"messages": []}))
    async with AsyncClient(transport=transport) as boat:
        assert (await boat.publish("orders", "x")).offset == 17
        assert await boat.pull("workers") == []


def test_both_clients_have_one_surface() -> None:
    def surface(kind: type) -> dict[str, str]:
        return {
            name: str(inspect.signature(method)).replace("AsyncClient", "Client")
            for name, method in vars(kind).items()
            if callable(method) and not name.startswith("_")
        }

    assert surface(Client) == surface(AsyncClient)
