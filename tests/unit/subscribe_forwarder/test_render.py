"""Messages as JSON: bodies as they were published, whatever they are."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge import message_id
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.render import (
    PartitionRenderer,
    deliveries,
    pull_body,
    time_json,
)

UID = b"u" * 16
RENDERER = PartitionRenderer(UID, 3)


def rendered(message: Message, offset: int = 9) -> dict[str, Any]:
    fragment = RENDERER.fragment(message, offset, time_json(1_700_000_000_123_456))
    body = pull_body([deliveries([fragment], [b"ack"], [2])])
    (only,) = json.loads(body)["messages"]
    return dict(only)


def test_every_field() -> None:
    message = Message(
        b'{"n": 1}',
        "application/json",
        'key "é"',
        {"a": "ü"},
        "me",
        4,
        1_700_000_001_000_000,
    )
    assert rendered(message) == {
        "message_id": str(message_id.MessageId(1, UID, 3, 0, 9)),
        "ack_id": "ack",
        "attempt": 2,
        "data": {"n": 1},
        "content_type": "application/json",
        "key": 'key "é"',
        "attributes": {"a": "ü"},
        "publisher_id": "me",
        "priority": 4,
        "scheduled_for": "2023-11-14T22:13:21.000000Z",
        "publish_time": "2023-11-14T22:13:20.123456Z",
        "partition": 3,
        "offset": 9,
    }


def test_the_trace_of_a_message_is_shown_where_it_has_one() -> None:
    traced = Message(b"x", traceparent="00-a", tracestate='b="1"')
    shown = rendered(traced)
    assert (shown["traceparent"], shown["tracestate"]) == ("00-a", 'b="1"')
    assert "tracestate" not in rendered(Message(b"x", traceparent="00-a"))
    assert "traceparent" not in rendered(Message(b"x"))


@pytest.mark.parametrize(
    ("content_type", "data", "expected"),
    [
        ("application/json", b' {"a":[1,2.50]} ', {"a": [1, 2.5]}),
        ("application/problem+json; charset=utf-8", b'"x"', "x"),
        ("text/plain", "grüße".encode(), "grüße"),
        ("Text/HTML; charset=UTF-8", b"<b>", "<b>"),
        ("application/x-www-form-urlencoded", b"a=1", "a=1"),
    ],
)
def test_what_is_shown_as_it_is(content_type: str, data: bytes, expected: object) -> None:
    assert rendered(Message(data, content_type))["data"] == expected


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        (None, b"plain"),
        ("application/octet-stream", b"\x00\xff"),
        ("application/json", b"{not json"),
        ("application/json", b""),
        ("application/json", b'"\xff"'),
        ("application/json", b"1 2"),
        ("application/json", b"NaN"),
        ("application/json", b"[" * 100_000),
        ("text/plain", b"\xff\xfe"),
        ("text/plain; charset=latin-1", b"caf\xe9"),
    ],
)
def test_what_is_base64(content_type: str | None, data: bytes) -> None:
    message = rendered(Message(data, content_type))
    assert "data" not in message
    assert b64decode(message["data_base64"]) == data


@given(st.binary(max_size=60), st.sampled_from(["application/json", "text/plain", None, "a/b"]))
def test_any_body_makes_valid_json(data: bytes, content_type: str | None) -> None:
    message = rendered(Message(data, content_type))
    if "data_base64" in message:
        assert b64decode(message["data_base64"]) == data


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8))
def test_json_bodies_keep_their_value(value: object) -> None:
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    message = rendered(Message(data, "application/json"))
    if "data" in message:
        assert message["data"] == value


def test_times_beyond_the_calendar_are_its_end() -> None:
    assert time_json(2**63) == b'"9999-12-31T23:59:59.999999Z"'
