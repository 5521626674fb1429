"""CloudEvents in their three modes, written and read by the CloudEvents SDK, are the same event."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

import pytest
from cloudevents.core.bindings import http as ce_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from msgspec.structs import replace
from packetboat.webhooks import cloud_events as received

from edge.problem import Problem
from metadata.subscriptions.push_config import PushConfig
from openapi.webhooks import PushFormat
from publish_forwarder import batch_body
from publish_forwarder.cloud_events import BodyKind, is_json_body, read_structured
from publish_forwarder.headers import parse, parse_batch
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.render import PartitionRenderer, time_json
from subscribe_forwarder.push.outgoing import Outgoing
from subscribe_forwarder.push.requests import NoTokens, Requests
from tests.unit.subscribe_forwarder.subscribe_support import TOPIC_UID, subscription

EVENTS_TYPE = b"application/cloudevents-batch+json"
TIME_US = 1_700_000_000_000_000
RENDERER = PartitionRenderer(TOPIC_UID, 3)
MINIMAL = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "made"}
TIME = {"time": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)}
EVENTS = [
    CloudEvent(
        MINIMAL
        | TIME
        | {"subject": "order 7", "datacontenttype": "application/json", "partitionkey": "k"}
        | {"dataschema": "https://shop.example/s", "region": "eu", "note": 'größe "100%"'},
        {"total": 1.5, "of": [1, "é"]},
    ),
    CloudEvent(MINIMAL | TIME | {"datacontenttype": "text/plain"}, "grüße"),
    CloudEvent(MINIMAL | TIME | {"datacontenttype": "image/png"}, b"\x00\xff"),
    CloudEvent(MINIMAL | TIME | {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7-01"}, None),
]


def binary(event: CloudEvent) -> Message:
    sent = ce_http.to_binary(event, JSONFormat())
    headers = [(name.lower().encode(), value.encode()) for name, value in sent.headers.items()]
    message = parse(headers).message
    message.data = sent.body
    return message


def structured(event: CloudEvent) -> Message:
    message = Message(b"")
    read_structured(message, ce_http.to_structured(event, JSONFormat()).body)
    return message


def batched(event: CloudEvent) -> Message:
    body = b"[%b]" % ce_http.to_structured(event, JSONFormat()).body
    (message,) = batch_body.decode(body, parse_batch([(b"content-type", EVENTS_TYPE)])).entries
    assert isinstance(message, Message)
    return message


def item(event: CloudEvent) -> Message:
    """Return the message of an event that is published as an item of a JSON batch, as by the
    SDK.
    """
    inner = json.loads(ce_http.to_structured(event, JSONFormat()).body)
    one = {"data": inner, "content_type": "application/cloudevents+json"}
    (message,) = batch_body.decode(
        json.dumps({"messages": [one]}).encode(), parse_batch([])
    ).entries
    assert isinstance(message, Message)
    return message


def delivered(message: Message, format_: PushFormat) -> tuple[dict[str, str], bytes]:
    """Return the request of a webhook that delivers the message."""
    config = PushConfig(url="https://hook.example/in", format=format_)
    of = replace(subscription(), type="push", push=config)
    fragment = RENDERER.fragment(message, 7, time_json(TIME_US))
    one = Outgoing(message, RENDERER.plain_id(7).decode(), TIME_US, 3, 7, 1, fragment)
    request = Requests(None, NoTokens()).build(of, [one], TIME_US / 1e6)
    return dict(request.headers), request.body


def event_in(message: Message, format_: PushFormat) -> Any:
    headers, body = delivered(message, format_)
    if format_ == "cloudevents_batched":
        (one,) = json.loads(body)
        body = json.dumps(one).encode()
        headers["Content-Type"] = "application/cloudevents+json"
    return ce_http.from_http(ce_http.HTTPMessage(headers=headers, body=body), JSONFormat())


def own(event: Any) -> dict[str, Any]:
    """Return the event's attributes, except those that describe the delivery."""
    found = event.get_attributes().items()
    return {name: value for name, value in found if not name.startswith("pb")}


def same_data(one: Any, other: Any) -> bool:
    """Text and bytes are the same where their octets are; so are no data and empty data."""

    def octets(data: Any) -> Any:
        return data.encode() if isinstance(data, str) else data or b""

    return bool(octets(one) == octets(other))


FORMATS = [
    "cloudevents_binary",
    "cloudevents_structured",
    "cloudevents_batched",
]


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("publish", [binary, structured, batched, item])
@pytest.mark.parametrize("format_", FORMATS)
def test_an_event_comes_out_as_it_went_in(
    event: CloudEvent, publish: Any, format_: PushFormat
) -> None:
    back = event_in(publish(event), format_)
    assert own(back) == event.get_attributes()
    assert same_data(back.get_data(), event.get_data())


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("publish", [structured, batched, item])
def test_all_modes_make_the_same_message(event: CloudEvent, publish: Any) -> None:
    one, other = binary(event), publish(event)
    for message in (one, other):
        if message.content_type == "application/json":
            message.data = json.dumps(json.loads(message.data)).encode()
    assert other == one


@pytest.mark.parametrize("event", EVENTS)
def test_a_pull_shows_the_event_as_headers_of_the_binary_mode(event: CloudEvent) -> None:
    message = structured(event)
    shown = json.loads(b"{%b}" % RENDERER.fragment(message, 7, time_json(TIME_US)))
    headers = {name: quote(value) for name, value in shown["attributes"].items() if "ce-" in name}
    if shown["content_type"] is not None:
        headers["content-type"] = shown["content_type"]
    back = ce_http.from_http(ce_http.HTTPMessage(headers=headers, body=b""), JSONFormat())
    assert back.get_attributes() == event.get_attributes()


@pytest.mark.parametrize("format_", FORMATS[1:])
def test_numbers_and_truths_stay_bare_in_json(format_: PushFormat) -> None:
    event = MINIMAL | {"retries": 3, "test": True, "gone": None, "digits": "42", "low": -(2**31)}
    message = Message(b"")
    read_structured(message, json.dumps(event).encode())
    assert message.attributes is not None
    assert message.attributes["ce-retries"] == "3"
    assert "ce-gone" not in message.attributes
    _, body = delivered(message, format_)
    shown = json.loads(body)
    shown = shown[0] if isinstance(shown, list) else shown
    del event["gone"]
    assert event.items() <= shown.items()
    assert "data" not in shown
    assert "data_base64" not in shown


def test_literals_that_are_none_are_texts() -> None:
    """A publisher may set the attribute that names the literals."""
    attributes = {"ce-" + name: value for name, value in MINIMAL.items()}
    attributes |= {"ce-a": '1,"id":"2"', "ce-b": "01", "packetboat-event-literals": "a b c"}
    _, body = delivered(Message(b"", None, None, attributes), "cloudevents_structured")
    shown = json.loads(body)
    assert (shown["a"], shown["b"], shown["id"]) == ('1,"id":"2"', "01", "1")


def test_the_message_id_and_all_else_go_beside_the_event() -> None:
    headers = [(b"ce-" + name.encode(), value.encode()) for name, value in MINIMAL.items()]
    headers += [(b"packetboat-key", b"k"), (b"packetboat-attr-kind", b"x")]
    back = event_in(parse(headers).message, "cloudevents_structured")
    assert back.get_id() == "1"
    assert back.get_extension("pbmessageid") == RENDERER.plain_id(7).decode()
    assert back.get_extension("pbkey") == "k"
    assert json.loads(back.get_extension("pbattributes")) == {"kind": "x"}
    assert back.get_extension("partitionkey") is None


@pytest.mark.parametrize("format_", FORMATS)
def test_the_sdk_makes_the_message_of_it_again(format_: PushFormat) -> None:
    message = binary(EVENTS[0])
    headers, body = delivered(message, format_)
    if format_ == "cloudevents_batched":
        (back,) = received.parse_all(body, "orders")
    elif format_ == "cloudevents_structured":
        back = received.parse_one(body, "orders")
    else:
        event = {k.lower()[3:]: unquote(v) for k, v in headers.items() if k.lower()[:3] == "ce-"}
        back = received.message_of(event, body, message.content_type, "orders")
    assert back.message_id == RENDERER.plain_id(7).decode()
    assert (back.key, back.attributes) == ("k", message.attributes)
    assert back.publish_time == datetime.fromtimestamp(TIME_US / 1e6, UTC)


def refused(event: dict[str, Any]) -> list[str]:
    """Return the fields that the error names."""
    with pytest.raises(Problem) as caught:
        read_structured(Message(b""), json.dumps(event).encode())
    assert caught.value.status == 422
    return [error.field for error in caught.value.errors]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": None}, "id"),
        ({"id": ""}, "id"),
        ({"id": 7}, "id"),
        ({"source": None}, "source"),
        ({"type": "a\nb"}, "type"),
        ({"specversion": "0.3"}, "specversion"),
        ({"specversion": None}, "specversion"),
        ({"time": "yesterday"}, "time"),
        ({"time": "2026-01-01T00:00:00"}, "time"),
        ({"subject": ""}, "subject"),
        ({"Region": "eu"}, "Region"),
        ({"my-name": "x"}, "my-name"),
        ({"n": 1.5}, "n"),
        ({"n": 2**31}, "n"),
        ({"n": {}}, "n"),
        ({"datacontenttype": "a\x00"}, "datacontenttype"),
        ({"data": 1, "data_base64": "AA=="}, "data_base64"),
        ({"data_base64": "?"}, "data_base64"),
        ({"data": {}, "datacontenttype": "text/plain"}, "data"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], field: str) -> None:
    assert refused(MINIMAL | change) == [field]


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"ce-specversion": None}, "ce-specversion"),
        ({"ce-source": None}, "ce-source"),
        ({"ce-time": "x"}, "ce-time"),
        ({"ce-my-name": "x"}, "ce-my-name"),
        ({"ce-note": "%ff"}, "ce-note"),
        ({"ce-datacontenttype": "text/html", "content-type": "text/plain"}, "ce-datacontenttype"),
    ],
)
def test_what_is_wrong_in_headers_is_named(headers: dict[str, str | None], field: str) -> None:
    all_of_them = {"ce-" + name: value for name, value in MINIMAL.items()} | headers
    with pytest.raises(Problem) as caught:
        parse([(k.encode(), v.encode()) for k, v in all_of_them.items() if v is not None])
    assert caught.value.status == 422
    assert [error.field for error in caught.value.errors] == [field]


def test_of_a_batch_the_wrong_event_fails_alone_and_those_of_its_key_with_it() -> None:
    keyed = MINIMAL | {"partitionkey": "k"}
    body = json.dumps([keyed | {"id": ""}, MINIMAL, keyed]).encode()
    entries = batch_body.decode(body, parse_batch([(b"content-type", EVENTS_TYPE)])).entries
    first, second, third = entries
    assert isinstance(first, Problem)
    assert [error.field for error in first.errors] == ["id"]
    assert isinstance(second, Message)
    assert isinstance(third, Problem)
    assert third.slug == "preceding-item-failed"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[{", 400),
        (b"\xff", 400),
        (b'[{"data":' + b"[" * 100_000, 400),
        (b"[1]", 422),
        (b"{}", 422),
    ],
)
def test_a_body_that_is_no_batch_is_refused_whole(body: bytes, status: int) -> None:
    with pytest.raises(Problem) as caught:
        batch_body.decode(body, parse_batch([(b"content-type", EVENTS_TYPE)]))
    assert caught.value.status == status


def test_a_member_of_many_digits_costs_nothing() -> None:
    assert refused(MINIMAL | {"n": "x"} | {"m": 10**4000}) == ["m"]


def test_attributes_beyond_the_limit_are_refused_before_they_are_read() -> None:
    many = {f"a{number}": "x" * 20 for number in range(50_000)}
    assert refused(MINIMAL | many) == ["(body)"]


def test_other_headers_beside_a_whole_event_repeat_what_is_in_it() -> None:
    metadata = parse(
        [(b"content-type", b"application/cloudevents+json; charset=utf-8"), (b"ce-id", b"x")]
    )
    assert (metadata.kind, metadata.message.attributes) == (BodyKind.EVENT, None)


def test_a_chosen_type_alone_makes_no_event_of_a_message() -> None:
    message = parse([(b"ce-type", b"a%20b")]).message
    assert message.attributes == {"ce-type": "a%20b"}
    assert event_in(message, "cloudevents_structured").get_type() == "a%20b"


@pytest.mark.parametrize("body", [b'{"order": 1}', b" [1,2]", b"\r\n{}"])
def test_json_of_a_forms_type_is_json(body: bytes) -> None:
    assert is_json_body(body)


@pytest.mark.parametrize(
    "body", [b"", b"a=1&b=2", b'{"a":1', b'{"a":1}=', b'"x"', b"1", b'{"a":"\xff"}', b"[" * 100_000]
)
def test_what_else_a_form_has_stays_a_form(body: bytes) -> None:
    assert not is_json_body(body)
