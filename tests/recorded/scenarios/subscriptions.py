"""Subscriptions: made, changed, paused, moved, looked at, and what they skip."""

from __future__ import annotations

from tests.recorded.client import Client
from tests.recorded.scenarios.usual import pages, principals, refusals

FULL = {
    "topic": "orders",
    "delivery": "exactly_once",
    "ordered": True,
    "ack_deadline_seconds": 60,
    "retry": {
        "min_backoff_seconds": 2,
        "max_backoff_seconds": 20,
        "max_attempts": 3,
        "on_exhausted": "park",
    },
    "dead_letter_topic": "letters",
    "filter": "attributes.kind == 'new'",
    "rate_limit": {"messages_per_second": 100, "per_consumer_messages_per_second": 10.5},
    "max_outstanding": 50,
    "labels": {"team": "shop"},
    "start": "earliest",
}


def subscriptions(ask: Client) -> None:
    """Send the requests about subscriptions."""
    principals(ask)
    ask.set_up("PUT", "/topics/orders", {"partitions": 1, "retention": {"mode": "retain"}})
    ask.set_up("PUT", "/topics/letters", {"partitions": 1})
    for number in range(3):
        ask.set_up("POST", "/topics/orders/messages", {"n": number})
    ask("list-none", "GET", "/subscriptions")
    _created(ask)
    _changed(ask)
    _of_topic(ask)
    _looked_at(ask)
    _skip_rules(ask)
    refusals(
        ask,
        "/subscriptions",
        "/subscriptions/full",
        {"PUT": {"topic": "orders"}, "PATCH": {"max_outstanding": 5}},
    )
    ask("delete-held", "DELETE", "/subscriptions/least")
    ask("delete-forced", "DELETE", "/subscriptions/least?force=true")
    ask("delete-of-topic-missing", "DELETE", "/topics/none/subscriptions/full")
    ask("delete-of-topic", "DELETE", "/topics/orders/subscriptions/full?force=true")


def _created(ask: Client) -> None:
    of_topic = "/topics/orders/subscriptions"
    ask("create-least", "POST", of_topic, {"name": "least", "start": "earliest"})
    ask("create-again", "POST", of_topic, {"name": "least", "start": "earliest"})
    ask("create-full", "POST", of_topic, {"name": "full", **FULL})
    ask("create-no-topic", "POST", "/topics/none/subscriptions", {"name": "x"})
    ask("create-other-topic", "POST", of_topic, {"name": "x", "topic": "letters"})
    ask("create-as-reader", "POST", of_topic, {"name": "x"}, as_="reader")
    ask("put-new", "PUT", "/subscriptions/put", {"topic": "orders"})
    same = ask("put-same", "PUT", "/subscriptions/put", {"topic": "orders"}).etag
    at = {"If-Match": same}
    changed = {"topic": "orders", "ack_deadline_seconds": 5}
    ask("put-at-version", "PUT", "/subscriptions/put", changed, headers=at)
    ask("put-at-old-version", "PUT", "/subscriptions/put", changed, headers=at)
    ask("put-without-topic", "PUT", "/subscriptions/new", {})
    ask("put-no-topic", "PUT", "/subscriptions/new", {"topic": "none"})
    ask("put-other-topic", "PUT", "/subscriptions/put", {"topic": "letters"})
    ask("put-other-delivery", "PUT", "/subscriptions/put", {"delivery": "at_most_once"})
    ask("put-other-start", "PUT", "/subscriptions/put", {"start": "earliest"})
    starts = {
        "time": {"time": "2001-01-01T00:00:00Z"},
        "offset": {"offset": 1},
        "no-offset": {"offset": -1},
        "no-snapshot": {"snapshot": "none"},
        "nothing": {},
        "no-word": "soon",
    }
    for name, start in starts.items():
        body = {"topic": "orders", "start": start}
        ask(f"put-start-{name}", "PUT", f"/subscriptions/start-{name}", body)
    wrong = {
        "bad-name": {"name": "a/b"},
        "bad-filter": {"filter": "attributes."},
        "no-letter-topic": {"dead_letter_topic": "none"},
        "backoffs": {"retry": {"min_backoff_seconds": 5, "max_backoff_seconds": 1}},
        "attempts-without-letters": {"retry": {"max_attempts": 3}},
        "park-unordered": {"retry": {"max_attempts": 3, "on_exhausted": "park"}},
        "push-of-pull": {"push": {"url": "https://shop.example/hook"}},
        "push-without-url": {"type": "push"},
        "at-most-once-retries": {"delivery": "at_most_once", "retry": {"max_attempts": 3}},
        "bad-label": {"labels": {"a b": "x"}},
    }
    for name, fields in wrong.items():
        ask(f"create-{name}", "POST", of_topic, {"name": f"x-{name}", **fields})


def _changed(ask: Client) -> None:
    ask("get", "GET", "/subscriptions/full")
    ask("get-as-reader", "GET", "/subscriptions/full", as_="reader")
    pages(ask, "/subscriptions")
    change = {
        "retry": {"max_attempts": None},
        "rate_limit": {"messages_per_second": 7},
        "labels": {"team": None, "new": "x"},
    }
    changed = ask("patch", "PATCH", "/subscriptions/full", change).etag
    defaults = {
        "ack_deadline_seconds": None,
        "retry": None,
        "dead_letter_topic": None,
        "filter": None,
        "rate_limit": None,
        "max_outstanding": None,
        "labels": None,
    }
    at = {"If-Match": changed}
    ask("patch-to-defaults", "PATCH", "/subscriptions/full", defaults, headers=at)
    ask("patch-nothing", "PATCH", "/subscriptions/full", {})
    ask("patch-delivery", "PATCH", "/subscriptions/full", {"delivery": "at_least_once"})
    ask("patch-ordered", "PATCH", "/subscriptions/full", {"ordered": False})
    ask("patch-rename", "PATCH", "/subscriptions/full", {"name": "other"})
    ask("patch-bad-filter", "PATCH", "/subscriptions/full", {"filter": "("})


def _of_topic(ask: Client) -> None:
    of_topic = "/topics/orders/subscriptions"
    ask("list-of-topic", "GET", f"{of_topic}?page_size=1")
    ask("list-of-no-topic", "GET", "/topics/none/subscriptions")
    ask("get-of-topic", "GET", f"{of_topic}/full")
    ask("get-of-other-topic", "GET", "/topics/letters/subscriptions/full")


def _looked_at(ask: Client) -> None:
    least = "/subscriptions/least"
    ask("backlog", "GET", f"{least}/backlog", until=lambda got: got.json.get("messages") == 3)
    ask("backlog-missing", "GET", "/subscriptions/none/backlog")
    ask("backlog-foreign", "GET", f"{least}/backlog", as_="stranger")
    ask("backlog-stream", "GET", f"{least}/backlog:stream?max_seconds=0")
    ask("backlog-stream-of-many", "GET", f"{least}/backlog:stream?max_seconds=0&min_messages=9")
    ask("backlog-stream-missing", "GET", "/subscriptions/none/backlog:stream?max_seconds=0")
    ask("backlogs-stream", "GET", "/backlog:stream?max_seconds=0&subscription=least&min_messages=1")
    ask("backlogs-stream-no-time", "GET", "/backlog:stream?max_seconds=soon")
    ask("holds", "GET", f"{least}/holds")
    ask("holds-missing", "GET", "/subscriptions/none/holds")
    ask("reconciliation", "GET", f"{least}/reconciliation")
    ask("reconciliation-missing", "GET", "/subscriptions/none/reconciliation")
    preview = f"{least}:preview_filter"
    ask("preview-filter", "POST", preview, {"filter": "data.n > 0"})
    ask("preview-filter-few", "POST", preview, {"filter": "data.n > 0", "messages": 1})
    ask("preview-filter-wrong", "POST", preview, {"filter": "data.n >"})
    ask("preview-filter-missing", "POST", "/subscriptions/none:preview_filter", {"filter": "true"})


def _skip_rules(ask: Client) -> None:
    rules = "/subscriptions/put/skip_rules"
    rule = {"expression": "attributes.kind == 'old'", "reason": "nobody reads them"}
    ask("skip-rules-none", "GET", rules)
    made = ask("add-skip-rule", "POST", rules, rule).json["id"]
    ask("skip-rules", "GET", rules)
    ask("add-skip-rule-wrong", "POST", rules, {**rule, "expression": "("})
    ask("add-skip-rule-no-reason", "POST", rules, {**rule, "reason": ""})
    ask("add-skip-rule-missing", "POST", "/subscriptions/none/skip_rules", rule)
    ask("add-skip-rule-as-reader", "POST", rules, rule, as_="reader")
    ask("remove-skip-rule-as-reader", "DELETE", f"{rules}/{made}", as_="reader")
    ask("remove-skip-rule", "DELETE", f"{rules}/{made}")
    ask("remove-skip-rule-again", "DELETE", f"{rules}/{made}")
    ask("remove-skip-rule-missing", "DELETE", f"{rules}/nonsense")
    ask("skip-rules-removed", "GET", f"{rules}?removed=true")
    ask("skip-rules-no-flag", "GET", f"{rules}?removed=yes")


def positions(ask: Client) -> None:
    """Send the requests that move, stop and remember a subscription."""
    principals(ask)
    ask.set_up("PUT", "/topics/orders", {"partitions": 1, "retention": {"mode": "retain"}})
    ask.set_up("PUT", "/topics/other", {"partitions": 1})
    for number in range(3):
        ask.set_up("POST", "/topics/orders/messages", {"n": number})
    ask.set_up("PUT", "/subscriptions/reader", {"topic": "orders", "start": "earliest"})
    ask.set_up("PUT", "/subscriptions/other", {"topic": "other"})
    path = "/subscriptions/reader"
    for action in ("pause", "drain", "resume"):
        ask(action, "POST", f"{path}/{action}", {"reason": "at night"})
        ask(f"{action}-again", "POST", f"{path}/{action}")
        ask(f"{action}-missing", "POST", f"/subscriptions/none/{action}")
        ask(f"{action}-as-reader", "POST", f"{path}/{action}", as_="reader")
    made = ask("snapshot-least", "POST", f"{path}/snapshots", {"name": "least"})
    assert made.status == 201
    full = {"name": "full", "expires_in_seconds": 60, "labels": {"team": "shop"}}
    ask("snapshot-full", "POST", f"{path}/snapshots", full)
    ask("snapshot-again", "POST", f"{path}/snapshots", {"name": "least"})
    ask("snapshot-missing", "POST", "/subscriptions/none/snapshots", {"name": "x"})
    ask("snapshot-as-reader", "POST", f"{path}/snapshots", {"name": "x"}, as_="reader")
    ask("snapshot-get", "GET", "/snapshots/full")
    pages(ask, "/snapshots")
    targets = {
        "earliest": "earliest",
        "latest": "latest",
        "time": {"time": "2001-01-01T00:00:00Z"},
        "offset": {"offset": 1},
        "offsets": {"offsets": {"0": 2}},
        "snapshot": {"snapshot": "least"},
        "no-snapshot": {"snapshot": "none"},
        "no-partition": {"offsets": {"7": 0}},
        "nothing": {},
        "no-word": "soon",
        "no-time": {"time": "noon"},
    }
    for name, to in targets.items():
        ask(f"seek-dry-{name}", "POST", f"{path}/seek", {"to": to, "dry_run": True})
        ask(f"seek-{name}", "POST", f"{path}/seek", {"to": to})
    ask("seek-other-topic", "POST", "/subscriptions/other/seek", {"to": {"snapshot": "least"}})
    ask("seek-missing", "POST", "/subscriptions/none/seek", {"to": "latest"})
    ask("seek-as-reader", "POST", f"{path}/seek", {"to": "latest"}, as_="reader")
    refusals(ask, "/snapshots", "/snapshots/full", {}, versioned=frozenset())
    ask("snapshot-delete", "DELETE", "/snapshots/full")


def flow(ask: Client) -> None:
    """Send the requests by which consumers say how much they take."""
    principals(ask)
    ask.set_up("PUT", "/topics/orders", {"partitions": 1})
    ask.set_up("PUT", "/subscriptions/reader", {"topic": "orders"})
    path = "/subscriptions/reader/flow"
    ask("get-none", "GET", path)
    ask("say-least", "POST", path, {"messages_per_second": 5})
    full = {
        "messages_per_second": 0,
        "max_outstanding": 7,
        "ttl_seconds": 600,
        "reason": "the disk is full",
    }
    ask("say-full", "POST", path, full)
    ask("say-nothing", "POST", path, {})
    ask("say-negative", "POST", path, {"messages_per_second": -1})
    ask("say-missing", "POST", "/subscriptions/none/flow", full)
    ask("say-as-reader", "POST", path, full, as_="reader")
    ask("get", "GET", path)
    ask("get-as-reader", "GET", path, as_="reader")
    ask("get-missing", "GET", "/subscriptions/none/flow")
    ask("end-as-reader", "DELETE", path, as_="reader")
    ask("end", "DELETE", path)
    ask("end-again", "DELETE", path)
    ask("end-missing", "DELETE", "/subscriptions/none/flow")
