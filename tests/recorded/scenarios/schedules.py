"""Schedules: messages that are published by the clock."""

from __future__ import annotations

from tests.recorded.client import Client
from tests.recorded.scenarios.usual import pages, principals, refusals

NEVER = "0 0 29 2 *"
LEAST = {"topic": "reports", "cron": NEVER, "message": {"data": 1}}
FULL = {
    "topic": "reports",
    "cron": "30 6 1 1 *",
    "message": {
        "data": {"kind": "monthly"},
        "content_type": "application/vnd.report+json",
        "key": "customer-1",
        "attributes": {"source": "clock"},
        "ttl_seconds": 3600,
        "priority": 3,
    },
    "time_zone": "Europe/Vienna",
    "missed_runs": "latest",
    "paused": True,
    "labels": {"team": "data"},
}
BINARY = {"data_base64": "/wA="}


def schedules(ask: Client) -> None:
    """Send the requests about schedules."""
    principals(ask)
    ask.set_up("PUT", "/topics/reports", {"partitions": 1})
    ask("list-none", "GET", "/schedules")
    ask("create-least", "POST", "/schedules", {"name": "least", **LEAST})
    ask("create-again", "POST", "/schedules", {"name": "least", **LEAST})
    ask("create-full", "POST", "/schedules", {"name": "full", **FULL})
    ask("create-without-topic", "POST", "/schedules", {"name": "x", **LEAST, "topic": "none"})
    ask("put-new", "PUT", "/schedules/binary", {**LEAST, "message": BINARY, "paused": True})
    same = ask("put-same", "PUT", "/schedules/binary", {**LEAST, "message": BINARY}).etag
    ask("put-at-version", "PUT", "/schedules/binary", LEAST, headers={"If-Match": same})
    ask("put-at-old-version", "PUT", "/schedules/binary", LEAST, headers={"If-Match": same})
    ask("put-if-it-exists", "PUT", "/schedules/binary", LEAST, headers={"If-Match": "*"})
    ask("put-new-if-it-exists", "PUT", "/schedules/new", LEAST, headers={"If-Match": "*"})
    ask("get", "GET", "/schedules/full")
    ask("get-as-reader", "GET", "/schedules/full", as_="reader")
    pages(ask, "/schedules")
    change = {"cron": "@daily", "message": {"attributes": {"source": None, "more": "x"}}}
    changed = ask("patch", "PATCH", "/schedules/full", change).etag
    defaults = {"time_zone": None, "missed_runs": None, "paused": None, "labels": None}
    ask("patch-to-defaults", "PATCH", "/schedules/full", defaults, headers={"If-Match": changed})
    ask("patch-nothing", "PATCH", "/schedules/full", {})
    ask("patch-rename", "PATCH", "/schedules/full", {"name": "other"})
    ask("pause", "POST", "/schedules/full:pause")
    ask("pause-paused", "POST", "/schedules/full:pause")
    ask("pause-stale", "POST", "/schedules/full:pause", headers={"If-Match": '"1"'})
    ask("pause-missing", "POST", "/schedules/none:pause")
    ask("pause-as-reader", "POST", "/schedules/full:pause", as_="reader")
    ask("run-paused", "POST", "/schedules/full:run")
    ask("run-missing", "POST", "/schedules/none:run")
    ask("resume", "POST", "/schedules/full:resume")
    ask("resume-missing", "POST", "/schedules/none:resume")
    ask("next", "GET", "/schedules/full/next")
    ask("next-two", "GET", "/schedules/full/next?count=2")
    ask("next-too-many", "GET", "/schedules/full/next?count=1001")
    ask("next-missing", "GET", "/schedules/none/next")
    wrong = {
        "no-cron": {"cron": "every day"},
        "never-due": {"cron": "0 0 30 2 *"},
        "no-time-zone": {"time_zone": "Mars/Olympus"},
        "two-bodies": {"message": {"data": 1, "data_base64": "AA=="}},
        "message-of-nothing": {"message": {}},
        "no-base64": {"message": {"data_base64": "*"}},
        "bad-label": {"labels": {"a b": "x"}},
        "bad-attribute": {"message": {"data": 1, "attributes": {"": "x"}}},
        "bad-name": {"name": "a/b"},
        "bad-topic": {"topic": "a/b"},
    }
    for name, fields in wrong.items():
        ask(f"create-{name}", "POST", "/schedules", {"name": "x", **LEAST, **fields})
    refusals(
        ask,
        "/schedules",
        "/schedules/full",
        {"POST": {"name": "x", **LEAST}, "PUT": LEAST, "PATCH": {"paused": True}},
    )
    ask("delete", "DELETE", "/schedules/full")
