"""Publishing: one message and batches, in every format, and what is refused."""

from __future__ import annotations

import json

import msgspec

from tests.recorded.client import Client
from tests.recorded.scenarios.usual import principals

JSON = {"Content-Type": "application/json"}
EVENT = {
    "specversion": "1.0",
    "id": "e-1",
    "source": "/shop",
    "type": "order.made",
    "subject": "order 1",
    "time": "2001-02-03T04:05:06Z",
    "data": {"order": 1},
    "colour": "red",
}
EVENTS = "application/cloudevents-batch+json"
PRODUCER = {"Packetboat-Producer": "0" * 31 + "1", "Packetboat-Sequence": "7"}


def publish(ask: Client) -> None:
    """Send the requests that publish."""
    principals(ask)
    ask.principal("publisher", ["publish:topics/orders"])
    ask.set_up("PUT", "/topics/orders", {"partitions": 1, "retention": {"mode": "retain"}})
    ask.set_up("PUT", "/topics/unread", {"partitions": 1})
    _single(ask)
    _events(ask)
    _refused(ask)
    _batches(ask)
    _refused_batches(ask)
    _limits(ask)
    ask("replayed", "GET", "/topics/orders/partitions/0/messages")


def _single(ask: Client) -> None:
    messages = "/topics/orders/messages"
    ask("least", "POST", messages, data=b"")
    ask("json", "POST", messages, {"order": 1})
    ask("as-publisher", "POST", messages, {"order": 1}, as_="publisher")
    ask("text", "POST", messages, data=b"plain", headers={"Content-Type": "text/plain"})
    ask("bytes", "POST", messages, data=b"\xff\x00")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    ask("json-of-form-type", "POST", messages, data=b'{"a":1}', headers=form)
    full = {
        **JSON,
        "Packetboat-Key": "customer%201",
        "Packetboat-Attributes": '{"kind":"new"}',
        "Packetboat-Attr-Colour": "red",
        "Packetboat-Publisher-Id": "shop%201",
        "Packetboat-Priority": "9",
        "Packetboat-Durability": "all",
        "Packetboat-TTL": "60.5",
        "Idempotency-Key": "once",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "vendor=1",
    }
    ask("full", "POST", messages, {"order": 2}, headers=full)
    ask("full-repeated", "POST", messages, {"order": 2}, headers=full)
    ask("key-of-another", "POST", messages, {"order": 3}, headers=full)
    ask("delayed", "POST", messages, {"order": 3}, headers={**JSON, "Packetboat-Delay": "3600"})
    past = {**JSON, "Packetboat-Deliver-At": "2001-01-01T00:00:00Z"}
    ask("due-before", "POST", messages, {"order": 4}, headers=past)
    for durability in ("quorum", "leader", "none"):
        asked = {**JSON, "Packetboat-Durability": durability}
        # In a topic of their own: nobody knows when what is not awaited gets its offset.
        ask(f"durability-{durability}", "POST", "/topics/unread/messages", 1, headers=asked)


def _events(ask: Client) -> None:
    messages = "/topics/orders/messages"
    structured = {"Content-Type": "application/cloudevents+json"}
    ask("event", "POST", messages, data=json.dumps(EVENT).encode(), headers=structured)
    headers = {f"ce-{name}": str(EVENT[name]) for name in ("specversion", "id", "source", "type")}
    ask("event-in-headers", "POST", messages, {"order": 1}, headers={**JSON, **headers})
    two = json.dumps([EVENT, EVENT | {"id": "e-2"}]).encode()
    ask("events", "POST", messages, data=two, headers={"Content-Type": EVENTS})
    none = json.dumps({**EVENT, "source": ""}).encode()
    ask("event-without-source", "POST", messages, data=none, headers=structured)
    ask("event-no-json", "POST", messages, data=b"{", headers=structured)


def _refused(ask: Client) -> None:
    messages = "/topics/orders/messages"
    ask("missing", "POST", "/topics/none/messages", {"a": 1})
    ask("foreign", "POST", messages, {"a": 1}, as_="stranger")
    ask("without-token", "POST", messages, {"a": 1}, as_="nobody")
    ask("as-reader", "POST", messages, {"a": 1}, as_="reader")
    ask("elsewhere-as-publisher", "POST", "/topics/none/messages", {"a": 1}, as_="publisher")
    ask("unknown-parameter", "POST", f"{messages}?key=1", {"a": 1})
    wrong = {
        "unknown-header": {"Packetboat-Colour": "red"},
        "key-too-long": {"Packetboat-Key": "k" * 1025},
        "key-no-utf8": {"Packetboat-Key": "%ff"},
        "attributes-no-json": {"Packetboat-Attributes": "{"},
        "attributes-no-strings": {"Packetboat-Attributes": '{"a":1}'},
        "attribute-too-long": {"Packetboat-Attr-A": "x" * 1025},
        "publisher-too-long": {"Packetboat-Publisher-Id": "p" * 257},
        "priority-too-high": {"Packetboat-Priority": "10"},
        "priority-no-number": {"Packetboat-Priority": "high"},
        "unknown-durability": {"Packetboat-Durability": "some"},
        "idempotency-key-too-long": {"Idempotency-Key": "k" * 257},
        "delay-too-long": {"Packetboat-Delay": "31536001"},
        "delay-no-number": {"Packetboat-Delay": "soon"},
        "two-delays": {"Packetboat-Delay": "1", "Packetboat-Deliver-At": "2001-01-01T00:00:00Z"},
        "time-without-zone": {"Packetboat-Deliver-At": "2001-01-01T00:00:00"},
        "ttl-of-nothing": {"Packetboat-TTL": "0"},
        "ttl-too-long": {"Packetboat-TTL": "31536001"},
        "schema-version-of-nothing": {"Packetboat-Schema-Version": "0"},
        "schema-version-without-schema": {"Packetboat-Schema-Version": "1"},
        "content-type-too-long": {"Content-Type": f"text/{'x' * 256}"},
        "content-encoding": {"Content-Encoding": "gzip"},
        "bad-traceparent": {"traceparent": "nonsense"},
        "producer-of-single": PRODUCER,
    }
    for name, headers in wrong.items():
        ask(name, "POST", messages, {"a": 1}, headers={**JSON, **headers})


def _batches(ask: Client) -> None:
    batch = "/topics/orders/messages:batch"
    full = {
        "data": {"order": 1},
        "content_type": "application/vnd.order+json",
        "key": "customer 1",
        "attributes": {"kind": "new"},
        "priority": 2,
        "idempotency_key": "batch-1",
        "ttl_seconds": 60,
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "vendor=1",
    }
    late = {"data": 1, "delay_seconds": 3600}
    items = [{"data": 1}, full, {"data_base64": "/wA="}, {"data": None}, late]
    ask("batch", "POST", batch, {"messages": items})
    ask("batch-repeated", "POST", batch, {"messages": [full]})
    once = {**JSON, **PRODUCER}
    ask("batch-of-producer", "POST", batch, {"messages": [{"data": 1}]}, headers=once)
    ask("batch-of-producer-again", "POST", batch, {"messages": [{"data": 1}]}, headers=once)
    none = {**JSON, "Packetboat-Durability": "none", "Packetboat-Publisher-Id": "shop"}
    unread = "/topics/unread/messages:batch"
    ask("batch-unawaited", "POST", unread, {"messages": [{"data": 1}]}, headers=none)
    lines = b'{"data":1,"key":"a"}\n{"data":2}\n'
    as_lines = {"Content-Type": "application/x-ndjson"}
    ask("batch-of-lines", "POST", batch, data=lines, headers=as_lines)
    packed = msgspec.msgpack.encode({"messages": [{"data": b"\xff\x00", "key": "a"}]})
    ask("batch-packed", "POST", batch, data=packed, headers={"Content-Type": "application/msgpack"})
    events = json.dumps([EVENT]).encode()
    ask("batch-of-events", "POST", batch, data=events, headers={"Content-Type": EVENTS})
    one = json.dumps(EVENT).encode()
    ask(
        "batch-of-one-event",
        "POST",
        batch,
        data=one,
        headers={"Content-Type": "application/cloudevents+json"},
    )


def _refused_batches(ask: Client) -> None:
    batch = "/topics/orders/messages:batch"
    items = [
        {"data": 1, "data_base64": "AA=="},
        {},
        {"data_base64": "*"},
        {"data": 1, "colour": "red"},
        {"data": 1, "key": 7},
        {"data": 1, "priority": 10},
        {"data": 1, "ttl_seconds": 0},
        {"data": 1, "delay_seconds": 1, "deliver_at": "2001-01-01T00:00:00Z"},
        {"data": 1, "deliver_at": "noon"},
        {"data": 1, "attributes": {"a": 1}},
        {"data": 1, "key": "a", "idempotency_key": "k" * 257},
        {"data": 1, "key": "a"},
        {"data": 1, "key": "b"},
    ]
    ask("batch-of-wrong-items", "POST", batch, {"messages": items})
    ask("batch-empty", "POST", batch, {"messages": []})
    ask("batch-unknown-field", "POST", batch, {"messages": [{"data": 1}], "colour": 1})
    ask("batch-array", "POST", batch, [])
    ask("batch-no-json", "POST", batch, data=b"{", headers=JSON)
    ask("batch-no-type", "POST", batch, data=b"x", headers={"Content-Type": "text/plain"})
    as_lines = {"Content-Type": "application/x-ndjson"}
    ask("batch-wrong-line", "POST", batch, data=b'{"data":1}\n{\n', headers=as_lines)
    as_packed = {"Content-Type": "application/msgpack"}
    ask("batch-no-msgpack", "POST", batch, data=b"\xc1", headers=as_packed)
    alone = {**JSON, "Packetboat-Producer": "0" * 32}
    ask("batch-without-sequence", "POST", batch, {"messages": [{"data": 1}]}, headers=alone)
    keyed = {"messages": [{"data": 1, "idempotency_key": "x"}]}
    ask("batch-two-keys", "POST", batch, keyed, headers={**JSON, **PRODUCER})
    ask("batch-missing", "POST", "/topics/none/messages:batch", {"messages": [{"data": 1}]})
    ask("batch-as-reader", "POST", batch, {"messages": [{"data": 1}]}, as_="reader")
    ask("batch-without-token", "POST", batch, {"messages": [{"data": 1}]}, as_="nobody")


def _limits(ask: Client) -> None:
    many = json.dumps({"messages": [{"data": 1}] * 1001}).encode()
    ask.big("batch-too-many", "POST", "/topics/orders/messages:batch", many, headers=JSON)
    longer = b"x" * (10 * 1024 * 1024 + 1)
    ask.big("message-too-large", "POST", "/topics/orders/messages", longer)
    batch = b'{"messages":[{"data":"%s"}]}' % longer
    ask.big("batch-too-large", "POST", "/topics/orders/messages:batch", batch, headers=JSON)
    ask.set_up(
        "PUT",
        "/topics/small",
        {"partitions": 1, "retention": {"mode": "retain", "bytes": 1}},
    )
    # A subscription holds the message. Without one the topic is full only while publishing outruns
    # truncation.
    ask.set_up("PUT", "/subscriptions/holder", {"topic": "small"})
    ask.set_up("POST", "/topics/small/messages", {"a": 1})
    ask(
        "topic-full",
        "POST",
        "/topics/small/messages",
        {"a": 1},
        until=lambda got: got.status == 507,
    )
