"""Topics: made, changed, grown, moved, read back, deleted."""

from __future__ import annotations

from tests.recorded.client import Client
from tests.recorded.scenarios.usual import pages, principals, refusals

FULL = {
    "partitions": 2,
    "priorities": 2,
    "retention": {"mode": "retain", "seconds": 3600, "bytes": 1000000, "on_limit": "expire_oldest"},
    "dedup_window_seconds": 60,
    "ack_history": True,
    "labels": {"team": "shop", "cost/centre": "7"},
}
MESSAGE_OF_NONE = "AQGiGV794H1LiEmU4B33Cy0AAAAAAAAAAAAAAAAA"
"""A message id of another installation's topic."""
JSON = {"Content-Type": "application/json"}


def topics(ask: Client) -> None:
    """Send the requests about topics."""
    principals(ask)
    ask("list-none", "GET", "/topics")
    _resources(ask)
    _partitions(ask)
    _messages(ask)
    _delayed(ask)
    _replay(ask)
    _filters(ask)
    _deletion(ask)


def _resources(ask: Client) -> None:
    ask("create-least", "POST", "/topics", {"name": "least"})
    ask("create-again", "POST", "/topics", {"name": "least"})
    ask("create-other", "POST", "/topics", {"name": "least", "partitions": 2})
    ask("create-full", "POST", "/topics", {"name": "full", **FULL})
    ask("create-missing-schema", "POST", "/topics", {"name": "x", "schema": "none"})
    ask("create-bad-name", "POST", "/topics", {"name": "a/b"})
    ask("create-bad-label", "POST", "/topics", {"name": "x", "labels": {"a b": "x"}})
    retention = {"mode": "consume", "seconds": 599}
    ask("create-short-retention", "POST", "/topics", {"name": "x", "retention": retention})
    ask("put-new", "PUT", "/topics/orders", {"partitions": 1})
    same = ask("put-same", "PUT", "/topics/orders", {"labels": {"team": "shop"}}).etag
    ask("put-at-version", "PUT", "/topics/orders", {}, headers={"If-Match": same})
    ask("put-at-old-version", "PUT", "/topics/orders", {}, headers={"If-Match": same})
    ask("put-if-it-exists", "PUT", "/topics/orders", {}, headers={"If-Match": "*"})
    ask("put-other-partitions", "PUT", "/topics/orders", {"partitions": 2})
    ask("put-other-priorities", "PUT", "/topics/orders", {"priorities": 2})
    ask("get", "GET", "/topics/full")
    ask("get-as-reader", "GET", "/topics/full", as_="reader")
    pages(ask, "/topics")
    change = {"retention": {"seconds": 7200, "bytes": None}, "labels": {"team": None, "new": "x"}}
    changed = ask("patch", "PATCH", "/topics/full", change).etag
    defaults = {
        "retention": None,
        "dedup_window_seconds": None,
        "ack_history": None,
        "schema": None,
        "labels": None,
    }
    ask("patch-to-defaults", "PATCH", "/topics/full", defaults, headers={"If-Match": changed})
    ask("patch-nothing", "PATCH", "/topics/full", {})
    ask("patch-partitions", "PATCH", "/topics/full", {"partitions": 3})
    ask("patch-rename", "PATCH", "/topics/full", {"name": "other"})
    ask("patch-missing-schema", "PATCH", "/topics/full", {"schema": "none"})
    refusals(
        ask,
        "/topics",
        "/topics/full",
        {"POST": {"name": "x"}, "PUT": {}, "PATCH": {"ack_history": True}},
    )


def _partitions(ask: Client) -> None:
    ask("partitions", "GET", "/topics/full/partitions")
    ask("partitions-missing", "GET", "/topics/none/partitions")
    ask("partitions-foreign", "GET", "/topics/full/partitions", as_="stranger")
    ask("grow-same", "POST", "/topics/full:grow", {"partitions": 2})
    ask("grow-smaller", "POST", "/topics/full:grow", {"partitions": 1})
    ask("grow-as-reader", "POST", "/topics/full:grow", {"partitions": 3}, as_="reader")
    ask("grow-missing", "POST", "/topics/none:grow", {"partitions": 3})
    ask("grow", "POST", "/topics/full:grow", {"partitions": 3})

    def placed(path: str) -> None:
        ask(
            f"{path.removeprefix('/topics/')}-placed",
            "GET",
            f"{path}/partitions",
            until=lambda got: got.json["placement"] is None,
        )

    placed("/topics/full")
    where = "/topics/orders/partitions"
    group = ask.send("GET", where).json["partitions"][0]["group"]
    ask("move-to-same", "POST", f"{where}/0:move", {"group": group}, shown_body={"group": "<same>"})
    ask("move-to-missing", "POST", f"{where}/0:move", {"group": 2147483647})
    ask("move-missing", "POST", f"{where}/9:move", {"group": 0})
    ask("move-as-reader", "POST", f"{where}/0:move", {"group": 0}, as_="reader")
    another = {"group": 1 if group == 0 else 0}
    ask("move", "POST", f"{where}/0:move", another, shown_body={"group": "<another>"})
    placed("/topics/orders")


def _messages(ask: Client) -> None:
    messages = "/topics/orders/messages"
    full = {
        **JSON,
        "Packetboat-Key": "customer%201",
        "Packetboat-Attributes": '{"kind":"new"}',
        "Packetboat-Publisher-Id": "shop",
        "Packetboat-Priority": "5",
        "Packetboat-TTL": "3600",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "vendor=1",
    }
    sent = ask("publish-full", "POST", messages, {"order": 1}, headers=full).json["message_id"]
    ask("get-message", "GET", f"{messages}/{sent}")
    ask("get-message-missing", "GET", f"{messages}/{MESSAGE_OF_NONE}")
    ask("get-message-bad-id", "GET", f"{messages}/nonsense")
    ask("get-message-foreign", "GET", f"{messages}/{sent}", as_="stranger")
    ask("get-message-as-reader", "GET", f"{messages}/{sent}", as_="reader")
    ask("ack-state-without-subscriptions", "GET", f"{messages}/{sent}/ack")
    ask.set_up("PUT", "/subscriptions/shipping", {"topic": "orders", "start": "earliest"})
    ask("ack-state", "GET", f"{messages}/{sent}/ack", until=lambda got: got.json["subscriptions"])
    ask("ack-state-missing", "GET", f"{messages}/{MESSAGE_OF_NONE}/ack")
    ask("ack-state-bad-id", "GET", f"{messages}/nonsense/ack")


def _delayed(ask: Client) -> None:
    messages = "/topics/orders/messages"
    late = {**JSON, "Packetboat-Deliver-At": "2089-01-01T00:00:00Z"}
    ask("publish-too-late", "POST", messages, 1, headers=late)
    ids = []
    for number in (1, 2, 3):
        hours = {**JSON, "Packetboat-Delay": str(3600 * number)}
        receipt = ask(f"publish-delayed-{number}", "POST", messages, number, headers=hours)
        ids.append(receipt.json["message_id"])
    whole = "/topics/orders/delayed"
    ask("delayed", "GET", whole, until=lambda got: len(got.json["messages"]) == 3)
    page = ask("delayed-page", "GET", f"{whole}?page_size=2").json["next_page_token"]
    ask("delayed-next-page", "GET", f"{whole}?page_size=2&page_token={page}")
    ask("delayed-missing", "GET", "/topics/none/delayed")
    ask("delayed-as-reader", "GET", f"{whole}?page_size=1", as_="reader")
    first, second, third = (f"{messages}/{sent}" for sent in ids)
    ask("get-delayed", "GET", first)
    ask("ack-state-delayed", "GET", f"{first}/ack")
    ask("reschedule", "PATCH", first, {"delay_seconds": 7200})
    ask("reschedule-at", "PATCH", first, {"deliver_at": "2001-01-01T00:00:00Z"})
    ask("reschedule-nothing", "PATCH", second, {})
    both = {"delay_seconds": 1, "deliver_at": "2001-01-01T00:00:00Z"}
    ask("reschedule-both", "PATCH", second, both)
    ask("reschedule-too-late", "PATCH", second, {"deliver_at": "2099-01-01T00:00:00Z"})
    ask("reschedule-as-reader", "PATCH", second, {"delay_seconds": 1}, as_="reader")
    ask("reschedule-missing", "PATCH", f"{messages}/{MESSAGE_OF_NONE}", {"delay_seconds": 1})
    ask("cancel", "DELETE", second)
    ask("cancel-cancelled", "DELETE", second)
    ask("cancel-missing", "DELETE", f"{messages}/{MESSAGE_OF_NONE}")
    ask("cancel-bad-id", "DELETE", f"{messages}/nonsense")
    ask("cancel-as-reader", "DELETE", third, as_="reader")
    ask("reschedule-cancelled", "PATCH", second, {"delay_seconds": 1})
    ask("get-cancelled", "GET", second)
    ask("get-released", "GET", first, until=lambda got: got.json["state"] == "published")
    ask("cancel-released", "DELETE", first)
    ask("reschedule-released", "PATCH", first, {"delay_seconds": 1})


def _replay(ask: Client) -> None:
    ask.set_up("PUT", "/topics/log", {"partitions": 1, "retention": {"mode": "retain"}})
    for number in range(3):
        ask.set_up("POST", "/topics/log/messages", {"n": number})
    where = "/topics/log/partitions/0"
    ask("replay", "GET", f"{where}/messages")
    ask("replay-range", "GET", f"{where}/messages?offset=1&end_offset=2")
    ask("replay-few", "GET", f"{where}/messages?max_messages=1&max_bytes=1")
    ask("replay-filter", "GET", f"{where}/messages?filter=data.n%20%3E%201")
    ask("replay-time", "GET", f"{where}/messages?time=2001-01-01T00:00:00Z&max_messages=1")
    ask("replay-past-end", "GET", f"{where}/messages?offset=100")
    as_lines = {"Accept": "application/x-ndjson"}
    ask("replay-lines", "GET", f"{where}/messages", headers=as_lines)
    ask("replay-offset-and-time", "GET", f"{where}/messages?offset=1&time=2001-01-01T00:00:00Z")
    ask("replay-bad-filter", "GET", f"{where}/messages?filter=)")
    ask("replay-no-lane", "GET", f"{where}/messages?lane=1")
    ask("replay-missing", "GET", "/topics/none/partitions/0/messages")
    ask("replay-missing-partition", "GET", "/topics/log/partitions/7/messages")
    ask("replay-foreign", "GET", f"{where}/messages", as_="stranger")
    ask("offsets", "GET", f"{where}/offsets?time=2001-01-01T00:00:00Z")
    ask("offsets-without-time", "GET", f"{where}/offsets")
    ask("offsets-no-time", "GET", f"{where}/offsets?time=noon")
    ask(
        "offsets-missing-partition",
        "GET",
        "/topics/log/partitions/7/offsets?time=2001-01-01T00:00:00Z",
    )
    ask("offsets-missing", "GET", "/topics/none/partitions/0/offsets?time=2001-01-01T00:00:00Z")


def _filters(ask: Client) -> None:
    preview = "/topics/log:preview_filter"
    ask("preview-filter", "POST", preview, {"filter": "data.n > 0"})
    ask("preview-filter-few", "POST", preview, {"filter": "data.n > 0", "messages": 1})
    ask("preview-filter-failing", "POST", preview, {"filter": "data.missing > 0"})
    ask("preview-filter-wrong", "POST", preview, {"filter": "data.n >"})
    ask("preview-filter-missing", "POST", "/topics/none:preview_filter", {"filter": "true"})
    ask("preview-filter-foreign", "POST", preview, {"filter": "true"}, as_="stranger")


def _deletion(ask: Client) -> None:
    ask("holds", "GET", "/topics/orders/holds")
    ask("holds-none", "GET", "/topics/log/holds")
    ask("holds-missing", "GET", "/topics/none/holds")
    ask("delete-held", "DELETE", "/topics/orders")
    ask("delete-no-flag", "DELETE", "/topics/orders?force=yes")
    ask("delete-forced", "DELETE", "/topics/orders?force=true")
    ask("delete-again", "DELETE", "/topics/orders")
    ask("delete", "DELETE", "/topics/log")
    ask("get-deleted", "GET", "/topics/log")
