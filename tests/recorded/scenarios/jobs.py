"""Jobs, their tasks, and the pools that workers claim tasks from."""

from __future__ import annotations

from tests.recorded.client import Client
from tests.recorded.scenarios.usual import pages, principals, refusals

FULL = {
    "map": "count:words",
    "reduce": "sum:words",
    "pool": "words",
    "reduce_pool": "sums",
    "priority": 3,
    "max_attempts": 2,
    "retry": {"min_backoff_seconds": 0, "max_backoff_seconds": 5},
    "on_failure": "continue",
    "max_failed": 1,
    "keep_seconds": 3600,
    "labels": {"team": "data"},
}
NO_LEASE = "0" * 32


def jobs(ask: Client) -> None:
    """Send the requests about jobs and tasks."""
    principals(ask)
    ask("list-none", "GET", "/jobs")
    _resources(ask)
    _tasks(ask)
    _failing(ask)
    _waiting(ask)
    refusals(
        ask,
        "/jobs",
        "/jobs/least",
        {"POST": {"name": "x", "map": "k"}, "PUT": {"map": "k"}},
    )
    ask("delete-live", "DELETE", "/jobs/least")
    ask("delete-forced", "DELETE", "/jobs/least?force=true")
    ask("delete", "DELETE", "/jobs/full")


def pools(ask: Client) -> None:
    """Send the requests about pools."""
    principals(ask)
    ask("list-none", "GET", "/pools")
    ask("put-new", "PUT", "/pools/words", {"max_running": 2})
    same = ask("put-same", "PUT", "/pools/words", {"max_running": 2}).etag
    ask("put-at-version", "PUT", "/pools/words", {"max_running": 0}, headers={"If-Match": same})
    ask("put-least", "PUT", "/pools/least", {})
    ask("put-no-limit", "PUT", "/pools/words", {"max_running": None})
    ask("put-limit", "PUT", "/pools/words", {"max_running": 5})
    ask.set_up("PUT", "/pools/sums", {"max_running": 1})
    ask("get", "GET", "/pools/words")
    ask("get-least", "GET", "/pools/least")
    pages(ask, "/pools")
    refusals(ask, "/pools", "/pools/words", {"PUT": {"max_running": 1}})
    ask("delete", "DELETE", "/pools/words")


def _resources(ask: Client) -> None:
    ask("create-least", "POST", "/jobs", {"name": "least", "map": "k"})
    ask("create-again", "POST", "/jobs", {"name": "least", "map": "k"})
    ask("create-other", "POST", "/jobs", {"name": "least", "map": "other"})
    ask("create-full", "POST", "/jobs", {"name": "full", **FULL})
    ask("put-new", "PUT", "/jobs/put", {"map": "k"})
    ask("put-same", "PUT", "/jobs/put", {"map": "k"})
    ask("put-other", "PUT", "/jobs/put", {"map": "k", "priority": 1})
    ask(
        "create-no-parent",
        "POST",
        "/jobs",
        {"name": "x", "map": "k", "parent": {"job": "none", "index": 0}},
    )
    ask("create-bad-kind", "POST", "/jobs", {"name": "x", "map": "a b"})
    ask("create-bad-label", "POST", "/jobs", {"name": "x", "map": "k", "labels": {"a b": "x"}})
    ask("get", "GET", "/jobs/full")
    ask("get-as-reader", "GET", "/jobs/full", as_="reader")
    ask("get-after-wait", "GET", "/jobs/full?wait_seconds=0.01")
    ask("get-no-wait", "GET", "/jobs/full?wait_seconds=61")
    pages(ask, "/jobs")
    ask("list-of-state", "GET", "/jobs?state=succeeded")
    ask("list-of-no-state", "GET", "/jobs?state=lost")


def _tasks(ask: Client) -> None:
    ask("add", "POST", "/jobs/full/tasks", {"first_index": 0, "inputs": [{"part": 1}, "b", None]})
    ask("add-again", "POST", "/jobs/full/tasks", {"first_index": 1, "inputs": ["b"]})
    ask("add-other-input", "POST", "/jobs/full/tasks", {"first_index": 1, "inputs": ["c"]})
    ask("add-with-gap", "POST", "/jobs/full/tasks", {"first_index": 7, "inputs": ["c"]})
    ask("add-missing", "POST", "/jobs/none/tasks", {"first_index": 0, "inputs": [1]})
    ask(
        "add-as-reader", "POST", "/jobs/full/tasks", {"first_index": 0, "inputs": [1]}, as_="reader"
    )
    ask("seal-missing-tasks", "POST", "/jobs/full:seal", {"tasks": 5})
    ask("seal-missing", "POST", "/jobs/none:seal", {"tasks": 1})
    ask.set_up("POST", "/jobs/full/tasks", {"first_index": 3, "inputs": [1, 2, 3, 4]})
    ask("seal", "POST", "/jobs/full:seal", {"tasks": 8})
    ask("seal-again", "POST", "/jobs/full:seal", {"tasks": 8})
    ask("seal-other", "POST", "/jobs/full:seal", {"tasks": 9})
    ask("add-to-sealed", "POST", "/jobs/full/tasks", {"first_index": 8, "inputs": [1]})
    ask("tasks-page", "GET", "/jobs/full/tasks?page_size=2")
    ask("tasks-of-state", "GET", "/jobs/full/tasks?state=waiting&page_size=1")
    ask("tasks-of-no-state", "GET", "/jobs/full/tasks?state=lost")
    ask("tasks-missing", "GET", "/jobs/none/tasks")
    ask("claim-none", "POST", "/pools/words:claim", {"kinds": ["other"]})
    ask("claim-unknown-pool", "POST", "/pools/none:claim", {"kinds": ["count:words"]})
    ask("claim-as-reader", "POST", "/pools/words:claim", {"kinds": ["count:words"]}, as_="reader")
    ask("claim-least", "POST", "/pools/words:claim", {"kinds": ["count:words"]})
    wanted = {
        "kinds": ["count:words", "other"],
        "max_tasks": 3,
        "lease_seconds": 600,
        "worker": "w",
    }
    claimed = ask("claim", "POST", "/pools/words:claim", wanted).json["tasks"]
    first, second, third = (task["lease_id"] for task in claimed)
    ask("tasks-running", "GET", "/jobs/full/tasks?state=running")
    ask("extend", "POST", "/tasks:extend", {"lease_ids": [first, NO_LEASE], "lease_seconds": 60})
    done = {"tasks": [{"lease_id": first, "output": {"n": 1}}, {"lease_id": NO_LEASE}]}
    ask("complete", "POST", "/tasks:complete", done)
    ask("complete-again", "POST", "/tasks:complete", {"tasks": [{"lease_id": first}]})
    ask("release", "POST", "/tasks:release", {"lease_ids": [second, NO_LEASE]})
    failed = {"lease_id": third, "error": "no such file", "retry": False}
    ask("fail", "POST", "/tasks:fail", {"tasks": [failed, {"lease_id": NO_LEASE, "error": "x"}]})
    ask("fail-least", "POST", "/tasks:fail", {"tasks": [{"lease_id": second, "error": ""}]})
    ask("outputs", "GET", "/jobs/full/outputs")
    ask("outputs-page", "GET", "/jobs/full/outputs?page_size=1&first_index=1")
    ask("outputs-missing", "GET", "/jobs/none/outputs")
    ask("retry-live", "POST", "/jobs/full:retry")
    ask("cancel", "POST", "/jobs/full:cancel")
    ask("cancel-again", "POST", "/jobs/full:cancel")
    ask("cancel-missing", "POST", "/jobs/none:cancel")
    ask("add-to-ended", "POST", "/jobs/full/tasks", {"first_index": 8, "inputs": [1]})


def _failing(ask: Client) -> None:
    ask.set_up("PUT", "/jobs/failing", {"map": "k", "pool": "failing", "max_attempts": 1})
    ask.set_up("POST", "/jobs/failing/tasks", {"first_index": 0, "inputs": [1]})
    ask.set_up("POST", "/jobs/failing:seal", {"tasks": 1})
    task = ask.set_up("POST", "/pools/failing:claim", {"kinds": ["k"]}).json["tasks"][0]
    lost = {"lease_id": task["lease_id"], "error": "no such file"}
    ask.set_up("POST", "/tasks:fail", {"tasks": [lost]})
    ask("get-failed", "GET", "/jobs/failing")
    ask("tasks-failed", "GET", "/jobs/failing/tasks")
    ask("retry", "POST", "/jobs/failing:retry")
    ask("retry-missing", "POST", "/jobs/none:retry")


def _waiting(ask: Client) -> None:
    ask.set_up("PUT", "/jobs/parent", {"map": "k", "pool": "parents"})
    ask.set_up("POST", "/jobs/parent/tasks", {"first_index": 0, "inputs": [1, 2]})
    two = {"kinds": ["k"], "max_tasks": 2}
    tasks = ask.set_up("POST", "/pools/parents:claim", two).json["tasks"]
    ask.set_up("PUT", "/jobs/child", {"map": "k", "parent": {"job": "parent", "index": 0}})
    completions = [{"lease_id": task["lease_id"], "wait_for": "child"} for task in tasks]
    ask("wait-for-jobs", "POST", "/tasks:complete", {"tasks": completions})
    ask("tasks-waiting-for-job", "GET", "/jobs/parent/tasks")
