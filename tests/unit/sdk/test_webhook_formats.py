"""A message is read as it was published, in every format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packetboat.webhooks import Delivery, Receiver, Unreadable
from packetboat.webhooks import Message as Got

from metadata.subscriptions.push_config import BATCHING
from openapi.webhooks import PushFormat
from store_nodes.record_batch import Message
from tests.unit.sdk.webhook_support import (
    NOW_S,
    PUBLISHED,
    Hook,
    Pair,
    headers_of,
    message_id,
    pair,
)

KEY = pair()
FORMATS: tuple[PushFormat, ...] = get_args(get_args(PushFormat)[0])
TOGETHER = [one for one in FORMATS if one in BATCHING]
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RICH = Message(
    b'{"n":1, "text": "p\xc3\xa4ckchen"}',
    "application/json",
    key="ключ/100%",
    attributes={"shop": "7", "x-Long.Name": "ä\x7f", "ce-type": "order.made", "": "empty"},
    traceparent=TRACE,
    tracestate="a=1,b=2",
)


def received(format_: PushFormat, *messages: Message, key: Pair = KEY) -> Delivery:
    request = Hook(key, format=format_).push(*messages, attempt=2)
    receiver = Receiver(key.told, format=format_, clock=lambda: NOW_S)
    found = receiver.verify(request.body, headers_of(request))
    assert isinstance(found, Delivery)
    return found


@pytest.mark.parametrize("format_", FORMATS)
def test_all_that_was_published_arrives(format_: PushFormat) -> None:
    delivery = received(format_, RICH)
    of = Hook(KEY).subscription
    assert (delivery.subscription, delivery.topic) == (of.name, of.topic_name)
    got = delivery.message
    assert got.message_id == delivery.webhook_id == message_id(7)
    assert (got.key, got.attributes) == (RICH.key, RICH.attributes)
    assert (got.attempt, got.content_type) == (2, "application/json")
    assert (got.traceparent, got.tracestate) == (TRACE, "a=1,b=2")
    assert got.json() == json.loads(RICH.data)
    if format_ != "raw":
        assert (got.publish_time, got.partition, got.offset) == (PUBLISHED, 3, 7)
    assert not delivery.is_test


@pytest.mark.parametrize("format_", TOGETHER)
def test_many_messages_arrive_in_order(format_: PushFormat) -> None:
    delivery = received(format_, RICH, Message(b"text", "text/plain"), Message(b"\x00\xff"))
    assert [one.message_id for one in delivery.messages] == [message_id(7 + n) for n in range(3)]
    assert [one.body for one in delivery.messages][1:] == [b"text", b"\x00\xff"]
    assert delivery.messages[1].text == "text"
    assert delivery.webhook_id.startswith("batch_")
    with pytest.raises(ValueError, match="3 messages"):
        _ = delivery.message


TYPES = st.sampled_from([None, "application/json", "text/plain", "image/png", "a/b+json"])


@given(data=st.binary(max_size=40), content_type=TYPES, format_=st.sampled_from(FORMATS))
def test_bytes_of_any_kind_come_through(
    data: bytes, content_type: str | None, format_: PushFormat
) -> None:
    got = received(format_, Message(data, content_type)).message
    if content_type in ("application/json", "a/b+json") and format_ not in (
        "raw",
        "cloudevents_binary",
    ):
        assert _same(got.body, data)
    else:
        assert got.body == data


def _same(got: bytes, data: bytes) -> bool:
    """Return whether both are the same bytes, or the same JSON."""
    return got == data or bool(msgspec.json.decode(got) == msgspec.json.decode(data))


NAMES = st.text(max_size=8) | st.sampled_from(["id", "data", "subject", "ce-source", "pbattempt"])


@given(
    attributes=st.dictionaries(NAMES, st.text(max_size=8), max_size=4),
    key=st.none() | st.text(min_size=1, max_size=8),
    format_=st.sampled_from(FORMATS),
)
def test_attributes_and_keys_of_any_kind_come_through(
    attributes: Mapping[str, str], key: str | None, format_: PushFormat
) -> None:
    got: Got = received(format_, Message(b"x", "text/plain", key, attributes)).message
    assert got.key == key
    assert got.attributes == {
        name: value
        for name, value in attributes.items()
        if not (got.event and name == "ce-subject" and value == key)
    }


def test_an_event_is_there_as_it_came() -> None:
    event = received("cloudevents_structured", RICH).message.event
    assert event is not None
    assert (event["type"], event["specversion"], event["pbpartition"]) == ("order.made", "1.0", "3")
    assert received("json", RICH).message.event is None


@pytest.mark.parametrize("sent", FORMATS, ids=lambda one: f"sent-{one}")
@pytest.mark.parametrize("read", FORMATS, ids=lambda one: f"read-{one}")
def test_another_format_is_refused_or_a_message_of_bytes(
    sent: PushFormat, read: PushFormat
) -> None:
    """`raw` takes any bytes; no other format is taken for one that it is not."""
    request = Hook(KEY, format=sent).push(RICH)
    receiver = Receiver(KEY.told, format=read, clock=lambda: NOW_S)
    if sent is read:
        return
    if read == "raw":
        found = receiver.verify(request.body, headers_of(request))
        assert isinstance(found, Delivery)
        assert found.message.body == request.body
        return
    with pytest.raises(Unreadable):
        receiver.verify(request.body, headers_of(request))


def test_what_a_publisher_writes_is_never_taken_for_another_request() -> None:
    """A message whose bytes look like a request of another format is that message."""
    forged = Hook(KEY).push(RICH).body
    got = received("raw", Message(forged, "application/json")).message
    assert (got.body, got.key) == (forged, None)


@pytest.mark.parametrize(
    ("format_", "header"),
    [
        ("raw", "Packetboat-Message-Id"),
        ("cloudevents_binary", "ce-id"),
    ],
    ids=["raw", "cloudevents_binary"],
)
def test_unsigned_headers_do_not_say_which_message_it_is(format_: PushFormat, header: str) -> None:
    request = Hook(KEY, format=format_).push(RICH)
    receiver = Receiver(KEY.told, format=format_, clock=lambda: NOW_S)
    assert header in headers_of(request)
    found = receiver.verify(request.body, {**headers_of(request), header: "another"})
    assert isinstance(found, Delivery)
    assert found.message.message_id == message_id(7)
