from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from edge.problem import Problem
from openapi.publish import MAX_BATCH_MESSAGES
from publish_forwarder.batch_body import Entry, decode
from publish_forwarder.headers import parse_batch
from store_nodes import record_batch
from store_nodes.record_batch import Message

DEEP = b"[" * 100_000 + b"]" * 100_000


def decoded(body: bytes, content_type: str = "application/json") -> list[Entry]:
    return decode(body, parse_batch([(b"content-type", content_type.encode())])).entries


def batch(*items: Any) -> bytes:
    return msgspec.json.encode({"messages": items})


def one(item: Any) -> Entry:
    (entry,) = decoded(batch(item))
    return entry


def message(item: Any) -> Message:
    entry = one(item)
    assert isinstance(entry, Message), entry
    return entry


def problem(item: Any) -> Problem:
    entry = one(item)
    assert isinstance(entry, Problem), entry
    return entry


def whole(body: bytes, content_type: str = "application/json") -> Problem:
    with pytest.raises(Problem) as caught:
        decoded(body, content_type)
    return caught.value


def test_data_is_stored_as_it_was_written() -> None:
    body = b'{"messages":[{"data": {"n":  1.50, "big": 123456789012345678901} }]}'
    (entry,) = decoded(body)
    assert isinstance(entry, Message)
    assert entry.data == b'{"n":  1.50, "big": 123456789012345678901}'
    assert entry.content_type == "application/json"


@pytest.mark.parametrize(
    ("item", "data", "content_type"),
    [
        ({"data": "hé\n"}, "hé\n".encode(), "text/plain"),
        ({"data": "a", "content_type": "application/json"}, b'"a"', "application/json"),
        ({"data": [1], "content_type": "application/ld+json"}, b"[1]", "application/ld+json"),
        ({"data": "<a/>", "content_type": "application/xml"}, b"<a/>", "application/xml"),
        ({"data": None}, b"null", "application/json"),
        ({"data": ""}, b"", "text/plain"),
        ({"data_base64": "AP8="}, b"\x00\xff", None),
        ({"data_base64": "AP8=", "content_type": "image/png"}, b"\x00\xff", "image/png"),
    ],
)
def test_what_data_becomes(item: Any, data: bytes, content_type: str | None) -> None:
    stored = message(item)
    assert (stored.data, stored.content_type) == (data, content_type)


def test_all_fields_of_an_item() -> None:
    stored = message(
        {
            "data": "x",
            "key": "k",
            "attributes": {"a": "b"},
            "priority": 3,
            "ttl_seconds": 1.5,
            "idempotency_key": "i",
        }
    )
    assert stored == Message(
        b"x", "text/plain", "k", {"a": "b"}, priority=3, ttl_ms=1500, idempotency_key="i"
    )


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({}, "data"),
        ({"data": 1, "data_base64": "AA=="}, "data_base64"),
        ({"data_base64": "%%"}, "data_base64"),
        ({"data": 1, "content_type": "text/plain"}, "data"),
        ({"data": 1, "key": 5}, "key"),
        ({"data": 1, "key": ""}, "key"),
        ({"data": 1, "key": "k" * 1025}, "key"),
        ({"data": 1, "attributes": {"a": 1}}, "attributes[...]"),
        ({"data": 1, "attributes": {"a": "v" * 1025}}, "attributes.a"),
        ({"data": 1, "priority": 10}, "priority"),
        ({"data": "1", "content_type": "a\nb"}, "content_type"),
        ({"data": 1, "delay_seconds": 365 * 86400 + 1}, "delay_seconds"),
        ({"data": 1, "delay_seconds": "5"}, "delay_seconds"),
        ({"data": 1, "deliver_at": "tomorrow"}, "deliver_at"),
        ({"data": 1, "deliver_at": "2030-01-01T00:00:00"}, "deliver_at"),
        ({"data": 1, "deliver_at": "2030-01-01T00:00:00Z", "delay_seconds": 1}, "deliver_at"),
        ({"data": 1, "ttl_seconds": 0}, "ttl_seconds"),
        ({"data": 1, "ttl_seconds": 365 * 86400 + 1}, "ttl_seconds"),
        ({"data": 1, "ttl_seconds": "5"}, "ttl_seconds"),
        ({"data": 1, "surprise": 5}, "surprise"),
        (5, "(item)"),
    ],
)
def test_a_wrong_item_says_which_field(item: Any, field: str) -> None:
    entry = problem(item)
    assert entry.status == 422
    assert [error.field for error in entry.errors] == [field]


def test_a_wrong_item_does_not_hold_up_the_others() -> None:
    entries = decoded(batch({"data": 1}, {"data": 2, "key": 7}, {"data": 3}))
    assert [isinstance(entry, Message) for entry in entries] == [True, False, True]


def test_after_an_item_of_a_key_fails_later_ones_of_that_key_fail() -> None:
    bad = {"data": 1, "priority": 99}
    entries = decoded(
        batch(
            {"data": 1, "key": "a"},
            bad | {"key": "a"},
            {"data": 2, "key": "b"},
            {"data": 3, "key": "a"},
            {"data": 4},
        )
    )
    outcomes = [e.slug if isinstance(e, Problem) else "stored" for e in entries]
    assert outcomes == ["stored", "invalid-request", "stored", "preceding-item-failed", "stored"]


def test_ndjson_has_an_item_per_line_and_an_error_per_bad_line() -> None:
    body = b'{"data":1}\n\nnot json\n{"data":"\xff"}\r\n{"data":{"a":2}}'
    entries = decoded(body, "application/x-ndjson")
    assert [e.slug if isinstance(e, Problem) else e.data for e in entries] == [
        b"1",
        "malformed-body",
        "malformed-body",
        b'{"a":2}',
    ]


def test_good_ndjson() -> None:
    entries = decoded(b'{"data":1}\n{"data":"x"}\n', "application/x-ndjson; charset=utf-8")
    assert [e.data for e in entries if isinstance(e, Message)] == [b"1", b"x"]


def test_msgpack() -> None:
    items = [
        {"data": b"\x00\xff"},
        {"data": "text", "key": "k"},
        {"data": {"a": 1}},
        {"data": 1, "content_type": "image/png"},
        {"data": b"{}", "content_type": "application/json"},
        {"data_base64": b"raw"},
        {"key": 5},
    ]
    body = msgspec.msgpack.encode({"messages": items})
    entries = decoded(body, "application/msgpack")
    assert [(e.data, e.content_type) if isinstance(e, Message) else e.slug for e in entries] == [
        (b"\x00\xff", None),
        (b"text", "text/plain"),
        (b'{"a":1}', "application/json"),
        "invalid-request",
        (b"{}", "application/json"),
        (b"raw", None),
        "invalid-request",
    ]


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b'{"messages":[{"data":"\xff"}]}', "application/json", 400),
        (
            b'{"messages":[{"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
            "application/json",
            400,
        ),
        (b"[]", "application/json", 422),
        (b"{}", "application/json", 422),
        (b'{"messages":{}}', "application/json", 422),
        (b'{"messages":[],"x":1}', "application/json", 422),
        (b'{"messages":[]}', "application/json", 422),
        (b"\n\n", "application/x-ndjson", 422),
        (b"\x81\xa8messages\xdd\xff\xff\xff\xff", "application/msgpack", 413),
        (b"\x81\xa8messages\x91\xc1", "application/msgpack", 400),
        (b"\x80", "application/msgpack", 422),
        (b"<messages/>", "application/xml", 415),
        (b"a=1", "application/x-www-form-urlencoded", 415),
    ],
)
def test_a_body_that_is_no_batch(body: bytes, content_type: str, status: int) -> None:
    assert whole(body, content_type).status == status


def test_a_batch_has_at_most_a_thousand_messages() -> None:
    assert MAX_BATCH_MESSAGES == record_batch.MAX_BATCH_MESSAGES == 1000
    items = [{"data": 1}] * 1000
    assert len(decoded(batch(*items))) == 1000
    assert whole(batch(*items, {"data": 1})).status == 413
    line = b'{"data":1}\n'
    assert len(decoded(line * 1000, "application/x-ndjson")) == 1000
    assert whole(line * 1001, "application/x-ndjson").status == 413
    packed = msgspec.msgpack.encode({"messages": [*items, {"data": 1}]})
    assert whole(packed, "application/msgpack").status == 413


def test_a_body_of_nothing_but_braces_is_refused_before_it_is_decoded() -> None:
    assert whole(b'{"messages":[' + b"{}," * 1_000_000 + b"{}]}").status == 413


def test_a_batch_has_at_most_10_mib_of_data() -> None:
    half = base64.b64encode(bytes(5 * 1024 * 1024)).decode()
    assert len(decoded(batch({"data_base64": half}, {"data_base64": half}))) == 2
    assert whole(batch({"data_base64": half}, {"data_base64": half}, {"data": 1})).status == 413
