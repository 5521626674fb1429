"""Every operation of the API as a request that would be good, if it were one's own."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import openapi
from edge.message_id import FORM_OFFSET, MessageId
from metadata.exports.types import RunId
from metadata.jobs.types import Lease
from tests.security.tenants import fresh

METHODS = ("get", "put", "patch", "post", "delete")
Ids = Mapping[str, str]
_OF_PATH = {
    "subscriptions": "subscription",
    "locks": "lock",
    "schemas": "schema",
    "schedules": "schedule",
    "exports": "export",
    "snapshots": "snapshot",
    "clients": "client",
    "keys": "key",
    "policies": "policy",
    "issuers": "issuer",
}
"""Kind of the resource that `{name}` names, by the segment before it."""
_LITERAL = {"partition": "0", "number": "1", "run": "1", "signing_secret": "0" * 32}
_BODIES: dict[str, Callable[[Ids], Any]] = {
    "pullPost": lambda ids: {"max_messages": 1, "wait_seconds": 0},
    "ack": lambda ids: {"ack_id": ids["ack"]},
    "nack": lambda ids: {"ack_id": ids["ack"]},
    "reject": lambda ids: {"ack_id": ids["ack"]},
    "release": lambda ids: {"ack_id": ids["ack"]},
    "modifyAckDeadline": lambda ids: {"ack_id": ids["ack"], "deadline_seconds": 60},
    "discardDeadLetters": lambda ids: {"ids": [ids["letter"]]},
    "redriveDeadLetters": lambda ids: {"ids": [ids["letter"]]},
    "resumeParkedKey": lambda ids: {"key": "k"},
    "skipParkedKey": lambda ids: {"key": "k"},
    "acquireLock": lambda ids: {"ttl_seconds": 60},
    "renewLock": lambda ids: {"lock_id": ids["lock_id"]},
    "releaseLock": lambda ids: {"lock_id": ids["lock_id"]},
    "verifyLock": lambda ids: {"fencing_token": 1},
    "createJob": lambda ids: {"name": fresh("job"), "map": "k"},
    "putJob": lambda ids: {"map": "k"},
    "addTasks": lambda ids: {"first_index": 1, "inputs": [1]},
    "sealJob": lambda ids: {"tasks": 2},
    "putPool": lambda ids: {"max_running": 1},
    "claimTasks": lambda ids: {"kinds": ["k"], "max_tasks": 100},
    "completeTasks": lambda ids: {"tasks": [{"lease_id": ids["task_lease"]}]},
    "failTasks": lambda ids: {"tasks": [{"lease_id": ids["task_lease"], "error": "x"}]},
    "extendTasks": lambda ids: {"lease_ids": [ids["task_lease"]]},
    "releaseTasks": lambda ids: {"lease_ids": [ids["task_lease"]]},
    "seek": lambda ids: {"to": "latest"},
    "pause": lambda ids: {},
    "resume": lambda ids: {},
    "drain": lambda ids: {},
    "createSnapshot": lambda ids: {"name": fresh("snapshot")},
    "publish": lambda ids: {"x": 1},
    "publishBatch": lambda ids: {"messages": [{"data": 1}]},
    "createSchedule": lambda ids: _schedule(ids) | {"name": fresh("schedule")},
    "putSchedule": lambda ids: _schedule(ids),
    "changeSchedule": lambda ids: {"labels": {"x": "y"}},
    "createExport": lambda ids: {"name": fresh("export"), "topic": ids["topic"]},
    "putExport": lambda ids: {"topic": ids["topic"]},
    "patchExport": lambda ids: {"labels": {"x": "y"}},
    "runExport": lambda ids: {},
    "claimExportRun": lambda ids: {"runner": "x", "lakes": ["default"]},
    "planExportRun": lambda ids: {"lease": ids["run_lease"], "positions": []},
    "renewExportRun": lambda ids: {"lease": ids["run_lease"]},
    "finishExportRun": lambda ids: {"lease": ids["run_lease"], "state": "cancelled"},
    "createSchema": lambda ids: {
        "name": fresh("schema"),
        "type": "json_schema",
        "definition": {"type": "string"},
    },
    "changeSchema": lambda ids: {"compatibility": "none"},
    "addSchemaVersion": lambda ids: {"definition": {"type": "string"}},
    "checkSchema": lambda ids: {"definition": {"type": "string"}},
    "validateBody": lambda ids: {"data": "x"},
    "previewSchema": lambda ids: {"type": "json_schema", "definition": {"type": "string"}},
    "createSubscription": lambda ids: {"name": fresh("subscription")},
    "putSubscription": lambda ids: {"topic": ids["topic"]},
    "patchSubscription": lambda ids: {"labels": {"x": "y"}},
    "addSkipRule": lambda ids: {"expression": "true", "reason": "x"},
    "previewSubscriptionFilter": lambda ids: {"filter": "true"},
    "previewTopicFilter": lambda ids: {"filter": "true"},
    "replayToEndpoint": lambda ids: {"message_ids": [ids["message"]]},
    "createSigningSecret": lambda ids: {},
    "sayFlow": lambda ids: {"max_outstanding": 10},
    "createTopic": lambda ids: {"name": fresh("topic"), "partitions": 1},
    "putTopic": lambda ids: {},
    "patchTopic": lambda ids: {"labels": {"x": "y"}},
    "growTopic": lambda ids: {"partitions": 8},
    "movePartition": lambda ids: {"group": 1},
    "rescheduleMessage": lambda ids: {"delay_seconds": 1},
    "createTenant": lambda ids: {"name": fresh("tenant")},
    "putTenant": lambda ids: {"state": "suspended"},
    "putQuotas": lambda ids: {"limits": {"topics": 1}},
    "createClient": lambda ids: {"name": fresh("client")},
    "putClient": lambda ids: {"display_name": "x"},
    "addClientSecret": lambda ids: {},
    "createKey": lambda ids: {"name": fresh("key"), "scopes": ["read"]},
    "putKey": lambda ids: {"scopes": ["manage"]},
    "rotateKey": lambda ids: {},
    "createPolicy": lambda ids: _policy() | {"name": fresh("policy")},
    "putPolicy": lambda ids: _policy(),
    "createIssuer": lambda ids: _issuer() | {"name": fresh("issuer")},
    "putIssuer": lambda ids: _issuer(),
}
_QUERIES = {
    "offsetsOfPartition": {"time": "2026-01-01T00:00:00Z"},
    "stream": {"max_seconds": "0.1"},
    "streamTopicSubscription": {"max_seconds": "0.1"},
    "streamBacklog": {"max_seconds": "0.1"},
    "streamBacklogs": {"max_seconds": "0.1"},
}


def _schedule(ids: Ids) -> dict[str, Any]:
    return {"topic": ids["topic"], "cron": "0 0 1 1 *", "message": {"data": 1}}


def _policy() -> dict[str, Any]:
    return {"role": "viewer", "members": [f"client:{fresh('nobody')}"]}


def _issuer() -> dict[str, Any]:
    return {"issuer": f"https://{fresh('login')}.example.com"}


@dataclass(frozen=True)
class Operation:
    id: str
    method: str
    template: str
    params: tuple[str, ...]
    """Parameters of the path, in the words of `Victim.ids`."""

    @property
    def lists(self) -> bool:
        return self.method == "GET" and not self.params

    @property
    def makes(self) -> bool:
        """Whether it makes a resource that its body names."""
        return self.method == "POST" and not self.params and not self.by_leases

    @property
    def by_leases(self) -> bool:
        """Whether it answers for each lease that its body names."""
        return self.template.startswith("/tasks:")

    def request(self, ids: Ids) -> dict[str, Any]:
        """Return arguments of `requests.Session.request`, without the server's part of the URL."""
        path = self.template
        for name, what in _params(self.template, self.method):
            value = _LITERAL.get(name) or ids[what]
            path = path.replace("{" + name + "}", quote(value, safe=""), 1)
        asked: dict[str, Any] = {"method": self.method, "path": path}
        if self.id in _BODIES:
            asked["json"] = _BODIES[self.id](ids)
        if self.id in _QUERIES:
            asked["params"] = _QUERIES[self.id]
        if self.method == "PUT":
            # A missing resource would be made, under a name that is free in every tenant.
            asked["headers"] = {"If-Match": '"1"'}
        return asked


def _params(template: str, method: str) -> list[tuple[str, str]]:
    """Return each parameter with its kind.

    Raises KeyError for one that this table does not know.
    """
    found = []
    before = ""
    for segment in template.split("/")[1:]:
        if segment.startswith("{"):
            name = segment[1 : segment.index("}")]
            what = _OF_PATH[before] if name == "name" else name
            if name == "id":
                what = "message" if method == "GET" else "staged"
            found.append((name, what))
        before = segment
    return found


def operations() -> list[Operation]:
    """Return all operations that need a token, as the contract lists them."""
    found = []
    for template, item in openapi.document()["paths"].items():
        for method in METHODS:
            if method not in item or item[method].get("security") == []:
                continue
            operation = item[method]["operationId"]
            assert ("requestBody" in item[method]) <= (operation in _BODIES), (
                f"say in this table what {operation} is sent"
            )
            params = tuple(
                what for name, what in _params(template, method.upper()) if name not in _LITERAL
            )
            found.append(Operation(operation, method.upper(), template, params))
    return found


def absent(ids: Ids) -> dict[str, str]:
    """Return ids of the same form, of nothing."""
    made = {what: fresh(what.split("_")[0]) for what in ids}
    for what in ("rule", "letter", "redrive", "lock_id"):
        made[what] = secrets.token_hex(16)
    for what in ("message", "staged"):
        form = FORM_OFFSET if what == "message" else 2
        made[what] = str(MessageId(form, secrets.token_bytes(16), 0, 0, 1))
    made["uid"] = str(RunId(secrets.token_bytes(16), secrets.token_bytes(16)))
    made["run_lease"] = secrets.token_hex(16)
    made["ack"] = ids["ack"][:-4] + "AAAA"
    made["task_lease"] = str(Lease(0, secrets.token_bytes(16), 0, secrets.token_bytes(16)))
    return made
