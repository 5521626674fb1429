"""Consuming: pulled, streamed, settled, dead-lettered, parked, redriven."""

from __future__ import annotations

from typing import Any

from tests.recorded.client import Client
from tests.recorded.scenarios.usual import principals

NO_MESSAGE = "AQGiGV794H1LiEmU4B33Cy0AAAAAAAAAAAAAAAAA"
SOON = {"min_backoff_seconds": 0, "max_backoff_seconds": 0}


def consume(ask: Client) -> None:
    """Send the requests of consumers that pull."""
    principals(ask)
    ask.principal("consumer", ["consume:subscriptions/reader"])
    ask.set_up("PUT", "/topics/orders", {"partitions": 1})
    ask.set_up("PUT", "/topics/done", {"partitions": 1})
    ask.set_up("PUT", "/subscriptions/reader", {"topic": "orders", "ack_deadline_seconds": 600})
    _pulled(ask)
    _settled(ask)
    _published_with_ack(ask)
    _streamed(ask)
    _exactly_once(ask)


def _publish(ask: Client, count: int, topic: str = "orders", **fields: Any) -> list[str]:
    items = [{"data": {"n": number}, **fields} for number in range(count)]
    sent = ask.set_up("POST", f"/topics/{topic}/messages:batch", {"messages": items})
    return [receipt["message_id"] for receipt in sent.json["results"]]


def _pull(ask: Client, count: int, path: str = "/subscriptions/reader") -> list[dict[str, Any]]:
    query = f"max_messages={count}&min_messages={count}&wait_seconds=60"
    got: list[dict[str, Any]] = ask.set_up("GET", f"{path}/messages?{query}").json["messages"]
    assert len(got) == count, got
    return got


def _pulled(ask: Client) -> None:
    path = "/subscriptions/reader"
    ask("pull-none", "GET", f"{path}/messages")
    full = {
        "data": {"n": 1},
        "key": "a",
        "attributes": {"kind": "new"},
        "priority": 4,
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "vendor=1",
    }
    items = [full, {"data_base64": "/wA="}, {"data": 2}]
    for item in items:
        ask.set_up("POST", "/topics/orders/messages:batch", {"messages": [item]})
    one = "max_messages=1&wait_seconds=60"
    ask("pull", "GET", f"{path}/messages?{one}")
    ask("pull-of-topic", "GET", f"/topics/orders/subscriptions/reader/messages?{one}")
    whole = {
        "max_messages": 10,
        "wait_seconds": 0.5,
        "max_bytes": 1000,
        "min_messages": 1,
        "consumer": "worker-1",
        "partitions": [0],
        "affinity": False,
    }
    there = lambda got: got.json["messages"]  # noqa: E731
    ask("pull-by-post", "POST", f"{path}:pull", whole, until=there)
    ask("pull-by-post-least", "POST", f"{path}:pull")
    ask("pull-as-consumer", "GET", f"{path}/messages", as_="consumer")
    named = {"Packetboat-Consumer": "worker-1"}
    ask("pull-named", "GET", f"{path}/messages", headers=named)
    ask("pull-missing", "GET", "/subscriptions/none/messages")
    ask("pull-of-other-topic", "GET", "/topics/done/subscriptions/reader/messages")
    ask("pull-foreign", "GET", f"{path}/messages", as_="stranger")
    ask("pull-as-reader", "GET", f"{path}/messages", as_="reader")
    ask("pull-without-token", "GET", f"{path}/messages", as_="nobody")
    for query in (
        "max_messages=0",
        "max_messages=1001",
        "wait_seconds=61",
        "wait_seconds=soon",
        "min_messages=0",
        "max_bytes=0",
        "partitions=a",
        "partitions=9",
        "consumer=%00",
        "affinity=yes",
        "colour=red",
    ):
        ask(f"pull-{query}", "GET", f"{path}/messages?{query}")


def _settled(ask: Client) -> None:
    path = "/subscriptions/reader"
    ids = _publish(ask, 8)
    leased = [message["ack_id"] for message in _pull(ask, 8)]
    ask("ack", "POST", f"{path}/ack", {"ack_id": leased[0]})
    ask("ack-again", "POST", f"{path}/ack", {"ack_id": leased[0]})
    ask("ack-message", "POST", f"{path}/ack", {"message_id": ids[1]})
    ask("ack-several", "POST", f"{path}/ack", {"ack_ids": [leased[1], "nonsense", leased[2]]})
    ask("ack-messages", "POST", f"{path}/ack", {"message_ids": [ids[0], "nonsense", NO_MESSAGE]})
    ask("ack-nothing", "POST", f"{path}/ack", {})
    ask("ack-two-kinds", "POST", f"{path}/ack", {"ack_id": leased[0], "message_id": ids[0]})
    ask("ack-no-ids", "POST", f"{path}/ack", {"ack_ids": []})
    ask("ack-missing", "POST", "/subscriptions/none/ack", {"ack_id": leased[0]})
    ask("ack-as-reader", "POST", f"{path}/ack", {"ack_id": leased[0]}, as_="reader")
    ask(
        "modify",
        "POST",
        f"{path}/modify_ack_deadline",
        {"ack_id": leased[3], "deadline_seconds": 60},
    )
    late = {"ack_ids": [leased[0], "nonsense"], "deadline_seconds": 60}
    ask("modify-acked", "POST", f"{path}/modify_ack_deadline", late)
    ask("modify-nothing", "POST", f"{path}/modify_ack_deadline", {"ack_id": leased[3]})
    later = {"ack_id": leased[3], "delay_seconds": 600, "reason": "busy"}
    ask("nack", "POST", f"{path}/nack", later)
    ask("nack-again", "POST", f"{path}/nack", later)
    ask("nack-unknown", "POST", f"{path}/nack", {"ack_ids": ["nonsense"]})
    ask("nack-message", "POST", f"{path}/nack", {"message_id": NO_MESSAGE})
    ask("release", "POST", f"{path}/release", {"ack_id": leased[4]})
    ask("release-again", "POST", f"{path}/release", {"ack_id": leased[4]})
    ask("reject-without-topic", "POST", f"{path}/reject", {"ack_id": leased[5]})
    ask("ack-states", "GET", f"/topics/orders/messages/{ids[0]}/ack")
    ask("ack-state-of-nacked", "GET", f"/topics/orders/messages/{ids[3]}/ack")
    ask("ack-state-of-leased", "GET", f"/topics/orders/messages/{ids[6]}/ack")
    ask("backlog", "GET", f"{path}/backlog")
    ask.set_up("POST", f"{path}/seek", {"to": "latest"})
    ask("nack-after-seek", "POST", f"{path}/nack", {"ack_id": leased[6]})


def _published_with_ack(ask: Client) -> None:
    path = "/subscriptions/reader"
    _publish(ask, 3)
    first, second, third = (message["ack_id"] for message in _pull(ask, 3))
    output = {
        "topic": "done",
        "data": {"sum": 1},
        "key": "a",
        "attributes": {"kind": "sum"},
        "priority": 1,
        "ttl_seconds": 60,
    }
    ask("ack-and-publish", "POST", f"{path}/ack", {"ack_id": first, "publish": [output]})
    ask("ack-and-publish-again", "POST", f"{path}/ack", {"ack_id": first, "publish": [output]})
    both = {"ack_ids": [first, second], "publish": [output]}
    ask("ack-some-and-publish", "POST", f"{path}/ack", both)
    nowhere = {"ack_id": third, "publish": [{"topic": "none", "data": 1}]}
    ask("ack-and-publish-nowhere", "POST", f"{path}/ack", nowhere)
    nothing = {"ack_id": third, "publish": [{"topic": "done"}]}
    ask("ack-and-publish-nothing", "POST", f"{path}/ack", nothing)
    unknown = {"ack_id": "nonsense", "publish": [output]}
    ask("ack-unknown-and-publish", "POST", f"{path}/ack", unknown)


def _streamed(ask: Client) -> None:
    path = "/subscriptions/streamer"
    ask.set_up("PUT", path, {"topic": "orders", "start": "latest"})
    lines = f"{path}/messages:stream"
    ask("stream-none", "GET", f"{lines}?max_seconds=0")
    ask(
        "stream-of-topic",
        "GET",
        "/topics/orders/subscriptions/streamer/messages:stream?max_seconds=0",
    )
    _publish(ask, 2)
    ask("stream", "GET", f"{lines}?max_seconds=1&max_outstanding_messages=2&consumer=a")
    events = {"Accept": "text/event-stream"}
    ask("stream-of-events", "GET", f"{lines}?max_seconds=0", headers=events)
    ask("stream-missing", "GET", "/subscriptions/none/messages:stream?max_seconds=0")
    ask("stream-too-many", "GET", f"{lines}?max_outstanding_messages=10001")
    ask("stream-heartbeat", "GET", f"{lines}?heartbeat_seconds=0")
    ask("stream-no-ticket", "GET", f"{lines}?max_seconds=0&ticket=nonsense", as_="nobody")
    ask("stream-as-reader", "GET", f"{lines}?max_seconds=0", as_="reader")
    tickets = f"{path}/stream_tickets"
    ticket = ask("ticket", "POST", tickets).json["ticket"]
    ask("ticket-missing", "POST", "/subscriptions/none/stream_tickets")
    ask("ticket-as-reader", "POST", tickets, as_="reader")
    ask("stream-by-ticket", "GET", f"{lines}?max_seconds=0&ticket={ticket}", as_="nobody")
    elsewhere = f"/subscriptions/reader/messages:stream?max_seconds=0&ticket={ticket}"
    ask("stream-by-other-ticket", "GET", elsewhere, as_="nobody")


def _exactly_once(ask: Client) -> None:
    path = "/subscriptions/once"
    ask.set_up(
        "PUT", path, {"topic": "orders", "delivery": "exactly_once", "ack_deadline_seconds": 600}
    )
    ids = _publish(ask, 2)
    leased = [message["ack_id"] for message in _pull(ask, 2, path)]
    ask("once-ack-message", "POST", f"{path}/ack", {"message_id": ids[0]})
    ask.set_up("POST", f"{path}/release", {"ack_id": leased[0]})
    ask("once-ack-released", "POST", f"{path}/ack", {"ack_id": leased[0]})
    ask("once-ack", "POST", f"{path}/ack", {"ack_id": leased[1]})
    ask("once-ack-of-other", "POST", "/subscriptions/reader/ack", {"ack_id": leased[1]})


def dead_letters(ask: Client) -> None:
    """Send the requests about dead letters, their redrives and keys that wait aside."""
    principals(ask)
    ask.set_up("PUT", "/topics/orders", {"partitions": 1})
    ask.set_up("PUT", "/topics/letters", {"partitions": 1})
    ask.set_up("PUT", "/topics/other", {"partitions": 1})
    made = {"topic": "orders", "dead_letter_topic": "letters", "ack_deadline_seconds": 600}
    ask.set_up("PUT", "/subscriptions/reader", made)
    path = "/subscriptions/reader"
    ask("list-none", "GET", f"{path}/dead_letters")
    _publish(ask, 6, attributes={"kind": "new"}, key="a")
    leased = [message["ack_id"] for message in _pull(ask, 6)]
    ask("reject", "POST", f"{path}/reject", {"ack_ids": leased[:2], "reason": "no such customer"})
    ask("reject-again", "POST", f"{path}/reject", {"ack_id": leased[0]})
    ask("reject-unknown", "POST", f"{path}/reject", {"ack_ids": ["nonsense"]})
    ask("reject-as-reader", "POST", f"{path}/reject", {"ack_id": leased[0]}, as_="reader")
    ask.set_up("POST", f"{path}/reject", {"ack_ids": leased[2:]})
    whole = lambda got: len(got.json["dead_letters"]) == 6  # noqa: E731
    letters = ask("list", "GET", f"{path}/dead_letters", until=whole).json["dead_letters"]
    ids = [letter["id"] for letter in letters]
    page = ask("list-page", "GET", f"{path}/dead_letters?page_size=1").json["next_page_token"]
    ask("list-next-page", "GET", f"{path}/dead_letters?page_size=1&page_token={page}")
    ask("list-filter", "GET", f"{path}/dead_letters?filter=attributes.kind%20%3D%3D%20'old'")
    ask("list-bad-filter", "GET", f"{path}/dead_letters?filter=(")
    ask("list-no-state", "GET", f"{path}/dead_letters?state=lost")
    ask("list-missing", "GET", "/subscriptions/none/dead_letters")
    ask("list-foreign", "GET", f"{path}/dead_letters", as_="stranger")
    ask("get", "GET", f"{path}/dead_letters/{ids[0]}")
    ask("get-missing", "GET", f"{path}/dead_letters/nonsense")
    ask("discard", "POST", f"{path}/dead_letters:discard", {"ids": ids[:1]})
    ask("discard-again", "POST", f"{path}/dead_letters:discard", {"ids": [ids[0], "nonsense"]})
    ask("discard-nothing", "POST", f"{path}/dead_letters:discard", {})
    ask(
        "discard-filter",
        "POST",
        f"{path}/dead_letters:discard",
        {"filter": "attributes.kind == 'old'"},
    )
    ask("discard-as-reader", "POST", f"{path}/dead_letters:discard", {"ids": ids[:1]}, as_="reader")
    ask("list-discarded", "GET", f"{path}/dead_letters?state=discarded")
    _redriven(ask, path, ids)
    _parked(ask)


def _redriven(ask: Client, path: str, ids: list[str]) -> None:
    redrive = f"{path}/dead_letters:redrive"
    ask("redrive-dry", "POST", redrive, {"dry_run": True})
    edited = {
        "ids": ids[1:2],
        "to": "other",
        "edit": {
            "attributes": {"kind": "mended", "other": None},
            "data": {"n": 0},
            "content_type": "application/vnd.order+json",
            "key": "b",
        },
    }
    for name, to in (("topic-word", "topic"), ("nowhere", "none")):
        ask(f"redrive-{name}", "POST", redrive, {**edited, "to": to, "dry_run": True})
    ask("redrive-edited", "POST", redrive, edited, only=_without_progress)
    ask("redrive-again", "POST", redrive, {"ids": ids[1:2]}, only=_without_progress)
    ask("redrive-unknown", "POST", redrive, {"ids": ["nonsense"]})
    ask("redrive-two-bodies", "POST", redrive, {"edit": {"data": 1, "data_base64": "AA=="}})
    ask("redrive-as-reader", "POST", redrive, {}, as_="reader")
    ask("redrive-missing", "POST", "/subscriptions/none/dead_letters:redrive", {})
    slow = {"filter": "attributes.kind == 'new'", "rate": 0.001}
    started = ask("redrive-slow", "POST", redrive, slow, only=_without_progress)
    ask("redrives", "GET", f"{path}/redrives", only=_without_progress)
    ask("redrives-missing", "GET", "/subscriptions/none/redrives")
    one = f"{path}/redrives/{started.json['redrive_id']}"
    ask("redrive-get", "GET", one, only=_without_progress)
    ask("redrive-get-missing", "GET", f"{path}/redrives/nonsense")
    ask("redrive-cancel-as-reader", "POST", f"{one}:cancel", as_="reader")
    ask("redrive-cancel", "POST", f"{one}:cancel", only=_without_progress)
    ask("redrive-cancel-again", "POST", f"{one}:cancel", only=_without_progress)
    ask("redrive-cancel-missing", "POST", f"{path}/redrives/nonsense:cancel")


def _without_progress(value: Any) -> Any:
    """Return a redrive, or a page of them, without how far it has come."""
    if isinstance(value, list):
        return [_without_progress(member) for member in value]
    if not isinstance(value, dict):
        return value
    moving = ("total", "redriven", "done", "state", "finished_at", "progress")
    return {
        key: "<moving>" if key in moving else _without_progress(member)
        for key, member in value.items()
    }


def _parked(ask: Client) -> None:
    path = "/subscriptions/parking"
    retry = {**SOON, "max_attempts": 1, "on_exhausted": "park"}
    # A redrive may publish to `orders` still, and keys of this subscription would wait for that.
    ask.set_up("PUT", "/topics/keyed", {"partitions": 1})
    made = {"topic": "keyed", "dead_letter_topic": "letters", "ordered": True, "retry": retry}
    ask.set_up("PUT", path, made)
    ask("parked-none", "GET", f"{path}/parked_keys")
    for key in ("a", "b", "c"):
        _publish(ask, 1, "keyed", key=key)
        (message,) = _pull(ask, 1, path)
        ask.set_up("POST", f"{path}/nack", {"ack_id": message["ack_id"], "reason": "no customer"})
    parked = lambda got: len(got.json["parked_keys"]) == 3  # noqa: E731
    ask("parked", "GET", f"{path}/parked_keys", until=parked)
    ask("parked-missing", "GET", "/subscriptions/none/parked_keys")
    ask("parked-resume", "POST", f"{path}/parked_keys:resume", {"key": "a"})
    ask("parked-resume-unknown", "POST", f"{path}/parked_keys:resume", {"key": "z"})
    ask("parked-resume-as-reader", "POST", f"{path}/parked_keys:resume", {"key": "b"}, as_="reader")
    ask("parked-skip", "POST", f"{path}/parked_keys:skip", {"key": "b"})
    ask(
        "parked-skip-to-letters",
        "POST",
        f"{path}/parked_keys:skip",
        {"key": "c", "dead_letter": True},
    )
    ask("parked-skip-unknown", "POST", f"{path}/parked_keys:skip", {"key": "z"})
