"""Exports and their runs, also as a runner asks for them."""

from __future__ import annotations

from typing import Any

from tests.recorded.client import Client
from tests.recorded.scenarios.usual import pages, principals, refusals

LAKE = "recorded"
"""A lake that no runner has: its runs wait for claims of this scenario."""
LEAST: dict[str, Any] = {"topic": "orders", "lake": LAKE, "maintain_cron": None}
FULL = {
    "topic": "orders",
    "start": "latest",
    "lake": LAKE,
    "table": "all_orders",
    "format": "parquet",
    "body": "json",
    "partition_by": "hour",
    "key_buckets": 4,
    "columns": {"data.id": "string", "data.amount": "decimal(10,2)"},
    "keep_data": True,
    "filter": "attributes.kind == 'new'",
    "max_bytes_per_second": 1000000,
    "maintenance": {
        "target_file_bytes": 1048576,
        "keep_snapshots_seconds": 3600,
        "orphans_after_seconds": 7200,
    },
    "cron": "0 0 29 2 *",
    "time_zone": "Europe/Vienna",
    "missed_runs": "skip",
    "maintain_cron": None,
    "paused": True,
    "labels": {"team": "data"},
}
NO_RUN = "01a2197c-9611-7e25-9642-671e4958580a"


def exports(ask: Client) -> None:
    """Send the requests about exports."""
    principals(ask)
    retained = {"partitions": 1, "retention": {"mode": "retain"}}
    ask.set_up("PUT", "/topics/orders", retained)
    ask.set_up("POST", "/topics/orders/messages", {"id": "a", "amount": 1})
    ask("list-none", "GET", "/exports")
    _resources(ask)
    _runs(ask)
    _runner(ask)
    refusals(
        ask,
        "/exports",
        "/exports/full",
        {"POST": {"name": "x", **LEAST}, "PUT": LEAST, "PATCH": {"paused": True}},
    )
    ask("delete", "DELETE", "/exports/full")


def _resources(ask: Client) -> None:
    ask("create-least", "POST", "/exports", {"name": "least", "topic": "orders", "lake": LAKE})
    ask("create-again", "POST", "/exports", {"name": "least", **LEAST})
    ask("create-full", "POST", "/exports", {"name": "full", **FULL})
    ask("create-same-table", "POST", "/exports", {"name": "x", **FULL})
    ask("put-new", "PUT", "/exports/put", LEAST)
    same = ask("put-same", "PUT", "/exports/put", LEAST).etag
    changed = {**LEAST, "keep_data": True}
    ask("put-at-version", "PUT", "/exports/put", changed, headers={"If-Match": same})
    ask("put-other-format", "PUT", "/exports/put", {**LEAST, "format": "parquet"})
    wrong = {
        "no-topic": {"topic": "none"},
        "no-lake": {"lake": "none"},
        "bad-table": {"table": "All"},
        "rejects-table": {"table": "a_rejects"},
        "no-start": {"start": "soon"},
        "no-column-type": {"columns": {"data.id": "text"}},
        "no-cron": {"cron": "daily"},
        "no-time-zone": {"time_zone": "Mars/Olympus"},
        "bad-filter": {"filter": "("},
        "bad-label": {"labels": {"a b": "x"}},
    }
    for name, fields in wrong.items():
        ask(f"create-{name}", "POST", "/exports", {"name": f"x-{name}", **LEAST, **fields})
    ask("get", "GET", "/exports/full")
    pages(ask, "/exports")
    change = {"columns": {"data.id": None, "data.new": "long"}, "cron": None, "labels": None}
    ask("patch", "PATCH", "/exports/full", change)
    ask("patch-nothing", "PATCH", "/exports/full", {})
    ask("patch-format", "PATCH", "/exports/full", {"format": "iceberg"})
    ask("patch-rename", "PATCH", "/exports/full", {"name": "other"})
    for action in ("pause", "resume"):
        ask(action, "POST", f"/exports/full:{action}")
        ask(f"{action}-stale", "POST", f"/exports/full:{action}", headers={"If-Match": '"1"'})
        ask(f"{action}-missing", "POST", f"/exports/none:{action}")
        ask(f"{action}-as-reader", "POST", f"/exports/full:{action}", as_="reader")


def _runs(ask: Client) -> None:
    run = "/exports/least:run"
    ask("run", "POST", run)
    ask("run-again", "POST", run, {})
    ask("run-maintain", "POST", run, {"kind": "maintain"})
    part = {"kind": "backfill", "from_offset": 0, "to_offset": 1, "topic": "orders", "partition": 0}
    ask("run-backfill", "POST", run, part)
    ask(
        "run-backfill-of-time",
        "POST",
        run,
        {"kind": "backfill", "from_time": "2001-01-01T00:00:00Z"},
    )
    nothing = {"kind": "backfill", "to_time": "2001-01-01T00:00:00Z"}
    ask("run-backfill-of-nothing", "POST", run, nothing)
    ask("run-reconcile", "POST", run, {"kind": "reconcile"})
    ask("run-export-of-part", "POST", run, {"from_offset": 1})
    ask("run-no-kind", "POST", run, {"kind": "all"})
    ask("run-missing", "POST", "/exports/none:run")
    ask("run-as-reader", "POST", run, as_="reader")
    runs = "/exports/least/runs"
    ask("runs", "GET", runs)
    page = ask("runs-page", "GET", f"{runs}?page_size=1").json["next_page_token"]
    ask("runs-next-page", "GET", f"{runs}?page_size=1&page_token={page}")
    ask("runs-missing", "GET", "/exports/none/runs")
    ask("run-get", "GET", f"{runs}/1")
    ask("run-get-missing", "GET", f"{runs}/999")
    ask("run-get-no-number", "GET", f"{runs}/first")
    ask("run-get-foreign", "GET", f"{runs}/1", as_="stranger")
    ask("run-log-none", "GET", f"{runs}/1/log")
    ask("run-log-missing", "GET", f"{runs}/999/log")
    ask("run-cancel-missing", "POST", f"{runs}/999:cancel")
    ask("run-cancel-as-reader", "POST", f"{runs}/1:cancel", as_="reader")


def _runner(ask: Client) -> None:
    """Send what a runner sends; there is one of these requests at a time."""
    own = lambda got: (got.json["run"] or {}).get("tenant") == ask.tenant  # noqa: E731
    wanted = {"runner": "runner-1", "lakes": [LAKE], "lease_seconds": 600}
    ask("claim-as-owner", "POST", "/export_runs:claim", wanted)
    claimed = ask("claim", "POST", "/export_runs:claim", wanted, as_="operator", until=own).json[
        "run"
    ]
    uid, lease = claimed["uid"], claimed["lease"]
    path = f"/export_runs/{uid}"
    keys = [one["key"] for one in claimed["ranges"] or []]
    positions = [{"key": key, "offset": 0} for key in keys]
    planned = ask(
        "plan", "POST", f"{path}:plan", {"lease": lease, "positions": positions}, as_="operator"
    )
    ask(
        "plan-missing",
        "POST",
        f"/export_runs/{NO_RUN}:plan",
        {"lease": "x", "positions": []},
        as_="operator",
    )
    said = {
        "lease": lease,
        "lease_seconds": 300,
        "progress": {"stage": "reading", "rows": 1, "bytes": 10, "of_messages": 1},
        "log": "reading\n",
    }
    ask("renew", "POST", f"{path}:renew", said, as_="operator")
    ask("renew-lost", "POST", f"{path}:renew", {"lease": "nonsense"}, as_="operator")
    ask("renew-as-owner", "POST", f"{path}:renew", said)
    runs = "/exports/least/runs"
    ask("run-get-running", "GET", f"{runs}/{claimed['number']}")
    ask("run-log", "GET", f"{runs}/{claimed['number']}/log")
    ranges = planned.json["ranges"] if planned.status == 200 else []
    done = {
        "lease": lease,
        "state": "succeeded",
        "result": {"rows": 1, "bytes": 10, "files": 1, "file_bytes": 100},
        "positions": [{"key": one["key"], "offset": one["end"]} for one in ranges],
        "log": "done\n",
    }
    ask("finish", "POST", f"{path}:finish", done, as_="operator")
    ask("finish-again", "POST", f"{path}:finish", done, as_="operator")
    ask("run-get-finished", "GET", f"{runs}/{claimed['number']}")
    ask("run-cancel-finished", "POST", f"{runs}/{claimed['number']}:cancel")
    second = ask("claim-second", "POST", "/export_runs:claim", wanted, as_="operator", until=own)
    run = second.json["run"]
    ask("run-cancel", "POST", f"{runs}/{run['number']}:cancel")
    ask(
        "renew-cancelled",
        "POST",
        f"/export_runs/{run['uid']}:renew",
        {"lease": run["lease"]},
        as_="operator",
    )
    failure = {"code": "cancelled", "message": "as asked"}
    failed = {"lease": run["lease"], "state": "cancelled", "failure": failure}
    ask("finish-cancelled", "POST", f"/export_runs/{run['uid']}:finish", failed, as_="operator")
    nothing = {"runner": "runner-1", "lakes": ["default-of-nobody"]}
    ask("claim-nothing", "POST", "/export_runs:claim", nothing, as_="operator")
