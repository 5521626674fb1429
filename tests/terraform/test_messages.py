"""The resources that carry messages, by the real terraform against a live server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import requests

from tests.e2e.installation import Installation
from tests.terraform.conftest import PROVIDER_BLOCK, MakeWorkspace
from tests.terraform.workspace import TerraformFailed

SEEN_S = 60.0
"""In which a message that was published is in the backlog; far more than it takes."""

ALL = """
resource "packetboat_schema" "it" {
  name          = "PREFIX-schema"
  type          = "json_schema"
  compatibility = "none"
  definition    = jsonencode({ type = "object", properties = { id = { type = "integer" } } })
}
resource "packetboat_topic" "letters" {
  name = "PREFIX-letters"
}
resource "packetboat_topic" "it" {
  name                 = "PREFIX-topic"
  partitions           = 2
  priorities           = 2
  dedup_window_seconds = 60
  ack_history          = true
  schema               = packetboat_schema.it.name
  labels               = { team = "harbour" }
  retention = {
    mode     = "retain"
    seconds  = 3600
    bytes    = 1000000
    on_limit = "expire_oldest"
  }
}
resource "packetboat_subscription" "pull" {
  name                 = "PREFIX-pull"
  topic                = packetboat_topic.it.name
  ordered              = true
  delivery             = "exactly_once"
  ack_deadline_seconds = 12.5
  filter               = "attributes.kind == 'a'"
  dead_letter_topic    = packetboat_topic.letters.name
  max_outstanding      = 10
  labels               = { team = "harbour" }
  start                = { time = "2026-01-31T12:00:00Z" }
  retry = {
    min_backoff_seconds = 0.5
    max_backoff_seconds = 7
    max_attempts        = 3
  }
  rate_limit = {
    messages_per_second              = 10.5
    per_consumer_messages_per_second = 2
  }
}
resource "packetboat_subscription" "push" {
  name  = "PREFIX-push"
  topic = packetboat_topic.it.name
  push = {
    url                   = "http://127.0.0.1:9/in"
    format                = "cloudevents_batched"
    headers               = { Authorization = "Bearer of-the-test" }
    signing               = ["v1", "v1a"]
    timeout_seconds       = 1.5
    max_concurrency       = 3
    max_batch             = 4
    disable_after_seconds = 0
    verify                = false
    events_topic          = packetboat_topic.letters.name
  }
}
resource "packetboat_schedule" "it" {
  name        = "PREFIX-schedule"
  topic       = packetboat_topic.letters.name
  cron        = "0 4 * * *"
  time_zone   = "Europe/Rome"
  missed_runs = "latest"
  paused      = true
  labels      = { team = "harbour" }
  message = {
    data         = jsonencode({ task = "clean", of = [1, 2.5, null] })
    content_type = "application/json"
    key          = "k"
    attributes   = { kind = "a" }
    ttl_seconds  = 1.5
    priority     = 3
  }
}
resource "packetboat_export" "it" {
  name                 = "PREFIX-export"
  topic                = "${packetboat_topic.it.name}*"
  start                = "2026-01-31T12:00:00Z"
  table                = "PREFIX_table"
  body                 = "json"
  partition_by         = "hour"
  key_buckets          = 4
  columns              = { id = "long" }
  keep_data            = true
  filter               = "true"
  max_bytes_per_second = 1000
  cron                 = "@hourly"
  time_zone            = "Europe/Rome"
  missed_runs          = "skip"
  maintain_cron        = ""
  paused               = true
  labels               = { team = "harbour" }
  maintenance = {
    target_file_bytes      = 2000000
    keep_snapshots_seconds = 3600
    orphans_after_seconds  = 7200
  }
}
"""
"""All that can be said of each."""

NAMES = {
    "packetboat_schema.it": "schema",
    "packetboat_topic.letters": "letters",
    "packetboat_topic.it": "topic",
    "packetboat_subscription.pull": "pull",
    "packetboat_subscription.push": "push",
    "packetboat_schedule.it": "schedule",
    "packetboat_export.it": "export",
}


def of(text: str, prefix: str) -> str:
    """Return the text with names of this test's own."""
    return text.replace("PREFIX", prefix)


@pytest.fixture
def api(installation: Installation) -> Api:
    return Api(installation)


class Api:
    """The API beside terraform, as somebody else uses it."""

    def __init__(self, installation: Installation) -> None:
        self._url, self._session = installation.url, installation.session()

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._session.request(method, self._url + path, json=body, timeout=60)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def gone(self, path: str) -> bool:
        with pytest.raises(requests.HTTPError, match="404"):
            self("GET", path)
        return True

    def publish(self, topic: str, *subscriptions: str, count: int = 3) -> None:
        """Returns when the subscriptions have the messages to do."""
        messages = [{"data": {"id": number}} for number in range(count)]
        self("POST", f"/topics/{topic}/messages:batch", {"messages": messages})
        deadline_s = time.monotonic() + SEEN_S
        for name in subscriptions:
            while self("GET", f"/subscriptions/{name}/backlog")["messages"] < count:
                assert time.monotonic() < deadline_s, f"{name} does not see the messages"
                time.sleep(0.05)


def test_what_is_applied_is_as_planned_and_what_is_imported_too(
    workspace: MakeWorkspace, api: Api
) -> None:
    made = workspace(of(ALL, "one"), "made")
    made.apply()

    assert made.plan().empty
    assert api("GET", "/topics/one-topic")["partitions"] == 2
    assert api("GET", "/subscriptions/one-push")["push"]["disable_after_seconds"] is None
    secrets = made.resources()["packetboat_subscription.push"]["signing_secrets"]
    assert [secret["kind"] for secret in secrets] == ["v1", "v1a"]
    assert secrets[0]["secret"].startswith("whsec_")
    assert secrets[1]["public_key"].startswith("whpk_")

    imports = "".join(
        f'import {{\n  to = {address}\n  id = "one-{name}"\n}}\n' for address, name in NAMES.items()
    )
    taken = workspace(of(ALL, "one") + imports, "taken")
    # Values of headers are shown to nobody: that of the configuration is written.
    assert taken.plan().changes == {"packetboat_subscription.push": ("update",)}
    assert "7 imported" in taken.apply_planned()
    assert taken.plan().empty
    taken.destroy()
    assert all(api.gone(f"/{kind}") for kind in ("topics/one-topic", "exports/one-export"))


def test_all_that_somebody_else_changes_is_seen_and_put_back(
    workspace: MakeWorkspace, api: Api
) -> None:
    made = workspace(of(ALL, "two"))
    made.apply()
    others = {
        "packetboat_topic.it": (
            "/topics/two-topic",
            {
                "dedup_window_seconds": 61,
                "ack_history": False,
                "schema": None,
                "labels": {"team": None},
                "retention": {"mode": "consume"},
            },
        ),
        "packetboat_subscription.pull": (
            "/subscriptions/two-pull",
            {
                "ack_deadline_seconds": 13,
                "filter": None,
                "dead_letter_topic": None,
                "max_outstanding": None,
                "labels": {"team": None},
                "retry": {"on_exhausted": "park"},
                "rate_limit": None,
            },
        ),
        "packetboat_subscription.push": (
            "/subscriptions/two-push",
            {
                "push": {
                    "url": "http://127.0.0.1:9/other",
                    "headers": {"Authorization": None},
                    "signing": ["v1"],
                    "format": None,
                    "timeout_seconds": None,
                    "max_concurrency": None,
                    "max_batch": None,
                    "disable_after_seconds": 600,
                    "verify": None,
                    "events_topic": None,
                }
            },
        ),
        "packetboat_schedule.it": (
            "/schedules/two-schedule",
            {
                "topic": "two-topic",
                "cron": "@daily",
                "time_zone": "UTC",
                "missed_runs": "skip",
                "paused": False,
                "labels": {"team": None},
                "message": {"data": {"id": 1}},
            },
        ),
        "packetboat_export.it": (
            "/exports/two-export",
            {
                "columns": {"id": None},
                "keep_data": False,
                "filter": None,
                "max_bytes_per_second": None,
                "maintenance": {"target_file_bytes": 3000000},
                "cron": None,
                "time_zone": "UTC",
                "missed_runs": "latest",
                "maintain_cron": "@daily",
                "paused": False,
                "labels": {"team": None},
            },
        ),
        "packetboat_schema.it": ("/schemas/two-schema", {"compatibility": "full"}),
    }
    before = {path: without_times(api("GET", path)) for path, _ in others.values()}
    api("POST", "/schemas/two-schema/versions", {"definition": {"type": "object"}})
    for path, changes in others.values():
        api("PATCH", path, changes)
    api("POST", "/topics/two-letters:grow", {"partitions": 7})

    plan = made.plan()

    assert plan.changes == dict.fromkeys(others, ("update",))  # more partitions are nobody's loss
    assert plan.drift["packetboat_topic.letters"]["after"]["partitions"] == 7
    for address, (_, changes) in others.items():
        drift = plan.drift[address]
        for name in changes:
            assert drift["before"][name] != drift["after"][name], f"{address}: {name}"
    push = plan.drift["packetboat_subscription.push"]
    same = {k for k, v in push["before"]["push"].items() if push["after"]["push"][k] == v}
    assert same == {"oidc"}
    made.apply_planned()
    assert {path: without_times(api("GET", path)) for path in before} == before | {
        "/schemas/two-schema": before["/schemas/two-schema"] | {"number": 3}
    }
    assert made.plan().empty
    api("DELETE", "/subscriptions/two-pull?force=true")
    assert made.plan().changes == {"packetboat_subscription.pull": ("create",)}
    made.apply_planned()
    made.destroy()


def without_times(thing: dict[str, Any]) -> dict[str, Any]:
    """Return the members that the configuration determines."""
    return {k: v for k, v in thing.items() if k not in ("updated_at", "next_runs", "state")}


CHANGING = """
variable "later" { default = false }
variable "secret" { default = "1" }
resource "packetboat_schema" "it" {
  name = "PREFIX-schema"
  type = "avro"
  definition = jsonencode({ type = "record", name = "R", fields = concat(
    [{ name = "id", type = "long" }],
    var.later ? [{ name = "at", type = "long", default = 0 }] : [],
  ) })
}
resource "packetboat_topic" "it" {
  name       = "PREFIX-topic"
  partitions = var.later ? 3 : 1
}
resource "packetboat_subscription" "it" {
  name  = "PREFIX-sub"
  topic = packetboat_topic.it.name
  push  = var.later ? { url = "http://127.0.0.1:9/in", headers = { Open = "o" } } : null

  secret_version         = var.secret
  secret_headers         = var.later ? { Authorization = "Bearer of-nobody" } : null
  secret_headers_version = var.later ? "1" : null
}
resource "packetboat_schedule" "it" {
  name    = "PREFIX-schedule"
  topic   = packetboat_topic.it.name
  cron    = "@daily"
  message = { data = var.later ? null : "text", data_base64 = var.later ? "aGVsbG8=" : null }
}
"""


def test_what_can_is_changed_in_place(workspace: MakeWorkspace, api: Api) -> None:
    made = workspace(of(CHANGING, "three"))
    made.apply()
    assert made.resources()["packetboat_subscription.it"]["type"] == "pull"

    plan = made.plan("-var=later=true")

    assert set(plan.changes.values()) == {("update",)}
    assert len(plan.changes) == 4
    made.apply_planned()
    assert made.plan("-var=later=true").empty
    assert api("GET", "/topics/three-topic")["partitions"] == 3
    assert api("GET", "/schemas/three-schema")["number"] == 2
    assert api("GET", "/schedules/three-schedule")["message"]["data"] == "hello"
    push = made.resources()["packetboat_subscription.it"]
    assert push["type"] == "push"
    headers = api("GET", "/subscriptions/three-sub")["push"]["headers"]
    assert headers == {"Open": "set", "Authorization": "set"}
    assert push["push"]["headers"] == {"Open": "o"}
    assert "of-nobody" not in made.command("show", "-json")
    [first] = push["signing_secrets"]
    made.apply("-var=later=true", "-var=secret=2")
    second, old = made.resources()["packetboat_subscription.it"]["signing_secrets"]
    assert second["secret"].startswith("whsec_")
    assert second["expires_at"] is None
    assert (old["id"], old["secret"]) == (first["id"], first["secret"])
    assert old["expires_at"] is not None
    # A reader of the new version cannot do without `id`, which has no default.
    broken = CHANGING.replace('"id", type = "long"', '"id", type = "string"')
    made.write(PROVIDER_BLOCK + of(broken, "three"))
    with pytest.raises(TerraformFailed, match="Not compatible"):
        made.plan("-var=later=true")
    made.write(PROVIDER_BLOCK + of(CHANGING, "three")).destroy()


LOSING = """
variable "force" { default = false }
variable "ordered" { default = false }
variable "partitions" { default = 2 }
resource "packetboat_topic" "it" {
  name          = "PREFIX-topic"
  partitions    = var.partitions
  force_destroy = var.force
}
resource "packetboat_subscription" "it" {
  name          = "PREFIX-sub"
  topic         = packetboat_topic.it.name
  ordered       = var.ordered
  force_destroy = var.force
}
data "packetboat_topic" "it" { name = packetboat_topic.it.name }
data "packetboat_subscription" "it" { name = packetboat_subscription.it.name }
output "backlogs" {
  value = [
    data.packetboat_topic.it.backlog_messages,
    data.packetboat_subscription.it.backlog_messages,
  ]
}
"""


def test_a_backlog_is_lost_only_by_who_says_so(workspace: MakeWorkspace, api: Api) -> None:
    made = workspace(of(LOSING, "four"))
    made.apply()
    assert made.outputs() == {"backlogs": [0, 0]}
    made.plan("-var=ordered=true")  # nothing to lose as yet
    api.publish("four-topic", "four-sub")

    # The server has the last word.
    assert "loses messages that are not acked: 'four-sub' (3)" in refused(made.apply_planned)
    loses = 'the subscription "four-sub" would lose 3 messages'
    assert loses in refused(made.plan, "-destroy")
    replaced = refused(made.plan, "-var=ordered=true")
    assert loses in replaced
    assert "It is to be replaced: ordered cannot be changed in place." in replaced
    replaced = refused(made.plan, "-var=ordered=true", "-var=force=true")
    assert loses in replaced
    assert "apply it without the rest, then plan again" in replaced
    shrunk = refused(made.plan, "-var=partitions=1", "-target=packetboat_topic.it")
    assert 'the topic "four-topic" would lose 3 messages' in shrunk

    made.apply("-var=force=true")
    assert made.outputs() == {"backlogs": [3, 3]}
    plan = made.plan("-var=ordered=true", "-var=force=true")
    assert plan.replaced_because == {"packetboat_subscription.it": ("ordered",)}
    assert 'Warning: Destroying the subscription "four-sub" loses 3 messages' in plan.text
    plan = made.plan("-var=partitions=1", "-var=force=true")
    assert plan.replaced_because["packetboat_topic.it"] == ("partitions",)
    assert 'Warning: Destroying the topic "four-topic" loses 3 messages' in plan.text
    made.destroy("-var=force=true")
    assert api.gone("/topics/four-topic")
    assert api.gone("/subscriptions/four-sub")


def refused(command: Callable[..., object], *arguments: str) -> str:
    """Return the output of a command that fails, in one line."""
    with pytest.raises(TerraformFailed) as failed:
        command(*arguments)
    return " ".join(str(failed.value).split())


WRONG = """
resource "packetboat_topic" "it" {
  name       = "-"
  partitions = 257
  retention  = { seconds = 1 }
  labels     = { "a b" = "c" }
}
resource "packetboat_subscription" "it" {
  name                 = "sub"
  topic                = "t"
  ack_deadline_seconds = 0
  delivery             = "once"
  start                = { position = "earliest", offset = 1 }
  push                 = { url = "", disable_after_seconds = 0.5, signing = ["v2"] }
}
resource "packetboat_schema" "it" {
  name       = "s"
  type       = "avro"
  definition = "{"
}
resource "packetboat_schedule" "it" {
  name    = "s"
  topic   = "t"
  cron    = "CRON"
  message = { priority = 10 }
}
resource "packetboat_export" "it" {
  name  = "e"
  topic = "t"
  table = "A"
}
"""
WRONG_AT = (
    *("name: ", "partitions: at most 256", "retention.seconds: at least 600", 'labels["a b"]'),
    *("ack_deadline_seconds: at least 1", "delivery: one of", "start: at most 1 entries"),
    *("push.url: at least 1", "push.disable_after_seconds: at least 1", '"v2": one of v1, v1a'),
    *("definition: has to be JSON", "cron: at most 200", "message.priority: at most 9"),
    "table: has to match",
)


def test_the_plan_has_the_servers_own_limits(workspace: MakeWorkspace) -> None:
    made = workspace(WRONG.replace("CRON", "x" * 201))

    said = refused(made.command, "validate", "-no-color")

    assert [text for text in WRONG_AT if text not in said] == []
