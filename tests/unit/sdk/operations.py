"""Each operation of the API, asked for through the SDK: as little as it needs, and all it takes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from msgspec import Raw
from packetboat import (
    Outgoing,
    Retention,
    RetryPolicy,
)
from packetboat import calls as published
from packetboat.calls import Call, StreamCall
from packetboat.models import (
    Edit,
    FirstOwner,
    Output,
    Push,
    PushToken,
    RateLimit,
    ScheduleMessage,
)
from packetboat.models.jobs import Completion, Failing, JobParent, JobSpec, TaskRetry
from packetboat.options import Options
from packetboat.sync.sender import Sender

from tests.unit.sdk.export_operations import EXPORTS

NOW = datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)
AREAS = {
    "audit": "Audit",
    "clients": "Clients",
    "dead_letters": "DeadLetters",
    "delivery": "Delivery",
    "export_runs": "ExportRuns",
    "exports": "Exports",
    "issuers": "Issuers",
    "jobs": "Jobs",
    "keys": "Keys",
    "locks": "Locks",
    "messages": "Messages",
    "parked_keys": "ParkedKeys",
    "policies": "Policies",
    "pools": "Pools",
    "quotas": "Quotas",
    "schedules": "Schedules",
    "schemas": "Schemas",
    "server": "Server",
    "snapshots": "Snapshots",
    "subscriptions": "Subscriptions",
    "tenants": "Tenants",
    "tokens": "Tokens",
    "topics": "Topics",
    "usage": "Usage",
    "webhooks": "Webhooks",
}


class Recorded(Exception):
    """Instead of an answer."""


class Recorder(Sender):
    """A sender that keeps what it is to send."""

    def __init__(self) -> None:
        self.options = Options()
        self.calls: list[Call[Any] | StreamCall] = []

    def send(self, call: Call[Any], timeout_s: float | None = None) -> Any:
        self.calls.append(call)
        raise Recorded

    def stream(self, call: StreamCall, timeout_s: float | None = None) -> Any:
        self.calls.append(call)
        raise Recorded


def resources(sender: Sender) -> Any:
    """Return all areas, by their names on a client."""
    made = {
        area: getattr(importlib.import_module(f"packetboat.sync.resources.{area}"), kind)(sender)
        for area, kind in AREAS.items()
    }
    return SimpleNamespace(**made, sender=sender)


Ask = Callable[[Any], object]


def recorded(ask: Ask) -> Call[Any] | StreamCall:
    """Return the one call that a question makes."""
    sender = Recorder()
    with suppress(Recorded):
        result = ask(resources(sender))
        if isinstance(result, Iterable):
            next(iter(result))
    (call,) = sender.calls
    return call


TOPIC = {
    "partitions": 2,
    "priorities": 3,
    "retention": Retention("retain", 600, 1, "expire_oldest"),
    "dedup_window_seconds": 60,
    "ack_history": True,
    "schema": "s",
    "labels": {"a": "b"},
}
TOPIC_CHANGES = {
    name: value for name, value in TOPIC.items() if name not in ("partitions", "priorities")
}
PUSH = Push(
    url="https://example.com/hook",
    format="cloudevents_batched",
    headers={"X-A": "b"},
    signing=("v1", "v1a"),
    oidc=PushToken("a", "s"),
    timeout_seconds=5,
    max_concurrency=3,
    max_batch=2,
    disable_after_seconds=None,
    verify=False,
    events_topic="events",
)
SUBSCRIPTION_CHANGES = {
    "type": "push",
    "push": PUSH,
    "ack_deadline_seconds": 30.0,
    "retry": RetryPolicy(1, 60, 5, "park"),
    "dead_letter_topic": "dead",
    "filter": "true",
    "rate_limit": RateLimit(5, 1),
    "max_outstanding": 10,
    "labels": {"a": "b"},
}
SUBSCRIPTION = {**SUBSCRIPTION_CHANGES, "delivery": "exactly_once", "ordered": True, "start": NOW}
LABELS = {"labels": {"a": "b"}}
MESSAGE = ScheduleMessage(
    data=b"\x00", content_type="a/b", key="k", attributes={"a": "b"}, ttl_seconds=5, priority=3
)
OUTPUT = Output(
    topic="o",
    data=b"\x00",
    content_type="a/b",
    key="k",
    attributes={"a": "b"},
    priority=1,
    ttl_seconds=5,
)
EDIT = Edit(attributes={"a": None}, data="x", content_type="text/plain", key=None)
SINCE = {"since": NOW, "until": NOW}
AUDIT = {
    **SINCE,
    "actor": "dev",
    "action": "createTopic",
    "resource": "topics/a",
    "order": "oldest",
}
PULL = {"consumer": "c", "partitions": [1, 2], "affinity": True}
PAGE = {"page_size": 5, "page_token": "t"}
SCHEDULE = {"time_zone": "UTC", "missed_runs": "all", "paused": True, **LABELS}
TENANT = {
    "display_name": "T",
    "state": "active",
    "egress_allowed": ("10.0.0.0/8",),
    "issuers_allowed": ("https://id.example#a",),
    "owner": FirstOwner("o", "O"),
    **LABELS,
}
ISSUER = {
    "algorithms": ("ES256",),
    "subject_claim": "sub",
    "required_claims": {"a": "b"},
    **LABELS,
}
TAG = {"if_match": '"1"'}
JOB = JobSpec(
    map="m",
    reduce="r",
    pool="p",
    reduce_pool="q",
    priority=1,
    max_attempts=2,
    retry=TaskRetry(1, 2),
    on_failure="continue",
    max_failed=3,
    parent=JobParent("up", 0),
    keep_seconds=5,
    labels={"a": "b"},
)
LOCK_ID = "0" * 32
LEASE_ID = "l"
FORCED = {"if_match": '"1"', "force": True}

ASKED: dict[str, tuple[Ask, ...]] = {
    **EXPORTS,
    # topics
    "listTopics": (lambda r: r.topics.list(), lambda r: r.topics.page(**PAGE)),
    "createTopic": (lambda r: r.topics.create("a"), lambda r: r.topics.create("a", **TOPIC)),
    "getTopic": (lambda r: r.topics.get("a/b"),),
    "putTopic": (lambda r: r.topics.put("a"), lambda r: r.topics.put("a", **TAG, **TOPIC)),
    "patchTopic": (
        lambda r: r.topics.update("a"),
        lambda r: r.topics.update("a", **TAG, **TOPIC_CHANGES),
    ),
    "deleteTopic": (lambda r: r.topics.delete("a"), lambda r: r.topics.delete("a", **FORCED)),
    "growTopic": (lambda r: r.topics.grow("a", 8),),
    "listTopicHolds": (lambda r: r.topics.holds("a"),),
    "listPartitions": (lambda r: r.topics.partitions("a"),),
    "movePartition": (lambda r: r.topics.move("a", 0, 2),),
    "previewTopicFilter": (lambda r: r.topics.preview_filter("a", "true", messages=5),),
    "previewSchema": (
        lambda r: r.topics.preview_schema("a", "s"),
        lambda r: r.topics.preview_schema("a", type="avro", definition={"type": "int"}, messages=5),
    ),
    # messages
    "getMessage": (lambda r: r.messages.get("a", "m"),),
    "listDelayedMessages": (
        lambda r: r.messages.delayed("a"),
        lambda r: r.messages.delayed_page("a", **PAGE),
    ),
    "cancelMessage": (lambda r: r.messages.cancel("a", "m"),),
    "rescheduleMessage": (
        lambda r: r.messages.reschedule("a", "m", delay_seconds=5),
        lambda r: r.messages.reschedule("a", "m", deliver_at=NOW),
    ),
    "getMessageAck": (lambda r: r.messages.ack_states("a", "m"),),
    "replay": (
        lambda r: r.messages.read("a", 0),
        lambda r: r.messages.read(
            "a", 0, 5, end_offset=9, lane=1, max_messages=5, max_bytes=5, filter="true"
        ),
        lambda r: r.messages.read("a", 0, wait_seconds=5),
        lambda r: r.messages.replay(
            "a", 0, NOW, end_offset=9, lane=1, filter="true", page_size=5, follow=True
        ),
        lambda r: r.messages.replay_arrow(
            "a", 0, 5, end_offset=9, lane=1, max_messages=5, filter="true"
        ),
    ),
    "offsetsOfPartition": (
        lambda r: r.messages.offsets("a", 0, NOW),
        lambda r: r.messages.offsets("a", 0, NOW, lane=1),
    ),
    # publishing: the client's own calls
    "publish": (
        lambda r: r.sender.send(published.publish("a", Outgoing(data=b"x"), None, None)),
        lambda r: r.sender.send(
            published.publish(
                "a",
                Outgoing(
                    data={"a": 1},
                    key="k",
                    attributes={"a": "b"},
                    priority=1,
                    idempotency_key="i",
                    delay_seconds=5,
                    ttl_seconds=5,
                ),
                "me",
                "all",
            )
        ),
    ),
    "publishBatch": (
        lambda r: r.sender.send(
            published.publish_batch("a", ["x"], "me", "all", published.Producer())
        ),
    ),
    # delivery
    "pull": (
        lambda r: r.delivery.pull("s"),
        lambda r: r.delivery.pull(
            "s", max_messages=5, wait_seconds=5, max_bytes=5, min_messages=2, **PULL
        ),
    ),
    "stream": (
        lambda r: r.delivery.stream("s"),
        lambda r: r.delivery.stream(
            "s",
            max_outstanding_messages=5,
            max_outstanding_bytes=5,
            heartbeat_seconds=5,
            max_seconds=5,
            **PULL,
        ),
    ),
    "ack": (
        lambda r: r.delivery.ack("s", "a"),
        lambda r: r.delivery.ack("s", ["a", "b"], by_message_id=True, publish=[OUTPUT]),
    ),
    "nack": (
        lambda r: r.delivery.nack("s", "a"),
        lambda r: r.delivery.nack("s", "a", by_message_id=True, delay_seconds=5, reason="x"),
    ),
    "reject": (
        lambda r: r.delivery.reject("s", "a"),
        lambda r: r.delivery.reject("s", "a", by_message_id=True, reason="x"),
    ),
    "release": (lambda r: r.delivery.release("s", ["a"]),),
    "modifyAckDeadline": (lambda r: r.delivery.extend("s", "a", 60),),
    # subscriptions
    "listSubscriptions": (
        lambda r: r.subscriptions.list(),
        lambda r: r.subscriptions.page(**PAGE),
    ),
    "listTopicSubscriptions": (
        lambda r: r.subscriptions.list("a"),
        lambda r: r.subscriptions.page("a", **PAGE),
    ),
    "createSubscription": (
        lambda r: r.subscriptions.create("a", "s"),
        lambda r: r.subscriptions.create("a", "s", **SUBSCRIPTION),
        lambda r: r.subscriptions.create("a", "s", push=Push(url="https://example.com"), start=7),
        lambda r: r.subscriptions.create("a", "s", start="earliest"),
        lambda r: r.subscriptions.create("a", "s", start={"snapshot": "x"}),
    ),
    "getSubscription": (lambda r: r.subscriptions.get("s"),),
    "putSubscription": (
        lambda r: r.subscriptions.put("s"),
        lambda r: r.subscriptions.put("s", topic="a", **TAG, **SUBSCRIPTION),
    ),
    "patchSubscription": (
        lambda r: r.subscriptions.update("s"),
        lambda r: r.subscriptions.update("s", **TAG, **SUBSCRIPTION_CHANGES),
        lambda r: r.subscriptions.update("s", filter=None, max_outstanding=None, rate_limit=None),
    ),
    "deleteSubscription": (
        lambda r: r.subscriptions.delete("s"),
        lambda r: r.subscriptions.delete("s", **FORCED),
    ),
    "pause": (lambda r: r.subscriptions.pause("s"), lambda r: r.subscriptions.pause("s", "x")),
    "resume": (lambda r: r.subscriptions.resume("s"), lambda r: r.subscriptions.resume("s", "x")),
    "drain": (lambda r: r.subscriptions.drain("s"), lambda r: r.subscriptions.drain("s", "x")),
    "seek": (
        lambda r: r.subscriptions.seek("s", "latest"),
        lambda r: r.subscriptions.seek("s", NOW, dry_run=True),
        lambda r: r.subscriptions.seek("s", 5),
        lambda r: r.subscriptions.seek("s", {"offsets": {"0": 5}}),
        lambda r: r.subscriptions.seek("s", {"snapshot": "x"}),
    ),
    "previewSubscriptionFilter": (
        lambda r: r.subscriptions.preview_filter("s", "true", messages=5),
    ),
    "listSkipRules": (
        lambda r: r.subscriptions.skip_rules("s"),
        lambda r: r.subscriptions.skip_rules("s", removed=True),
    ),
    "addSkipRule": (lambda r: r.subscriptions.add_skip_rule("s", "true", "why"),),
    "removeSkipRule": (lambda r: r.subscriptions.remove_skip_rule("s", "1"),),
    "createStreamTicket": (lambda r: r.subscriptions.stream_ticket("s"),),
    "listSubscriptionHolds": (lambda r: r.subscriptions.holds("s"),),
    "getBacklog": (lambda r: r.subscriptions.backlog("s"),),
    "getReconciliation": (lambda r: r.subscriptions.reconciliation("s"),),
    "streamBacklog": (
        lambda r: r.subscriptions.follow_backlog("s"),
        lambda r: r.subscriptions.follow_backlog(
            "s", min_messages=1, heartbeat_seconds=5, max_seconds=5
        ),
    ),
    "streamBacklogs": (
        lambda r: r.subscriptions.backlog_stream(),
        lambda r: r.subscriptions.backlog_stream(
            "s", "t*", min_messages=1, heartbeat_seconds=5, max_seconds=5
        ),
    ),
    "sayFlow": (
        lambda r: r.subscriptions.say_flow("s", messages_per_second=0),
        lambda r: r.subscriptions.say_flow(
            "s", messages_per_second=1, max_outstanding=1, ttl_seconds=5, reason="x"
        ),
    ),
    "getFlow": (lambda r: r.subscriptions.flow("s"),),
    "endFlow": (lambda r: r.subscriptions.end_flow("s"),),
    # push
    "listPushAttempts": (
        lambda r: r.webhooks.attempts("s"),
        lambda r: r.webhooks.attempts_page("s", outcome="gone", message_id="m", **PAGE),
    ),
    "testPushEndpoint": (lambda r: r.webhooks.test("s"),),
    "replayToEndpoint": (
        lambda r: r.webhooks.replay("s", ["m"]),
        lambda r: r.webhooks.replay("s", max_messages=5, **SINCE),
    ),
    "enablePushEndpoint": (lambda r: r.webhooks.enable("s"),),
    "verifyPushEndpoint": (lambda r: r.webhooks.verify("s"),),
    "listSigningSecrets": (lambda r: r.webhooks.signing_secrets("s"),),
    "createSigningSecret": (
        lambda r: r.webhooks.create_signing_secret("s"),
        lambda r: r.webhooks.create_signing_secret(
            "s", kind="v1a", expires_previous_after_seconds=5, **TAG
        ),
    ),
    "deleteSigningSecret": (
        lambda r: r.webhooks.delete_signing_secret("s", "1"),
        lambda r: r.webhooks.delete_signing_secret("s", "1", **TAG),
    ),
    # snapshots
    "createSnapshot": (
        lambda r: r.snapshots.create("s", "x"),
        lambda r: r.snapshots.create("s", "x", expires_in_seconds=5, **LABELS),
    ),
    "listSnapshots": (lambda r: r.snapshots.list(), lambda r: r.snapshots.page(**PAGE)),
    "getSnapshot": (lambda r: r.snapshots.get("x"),),
    "deleteSnapshot": (lambda r: r.snapshots.delete("x"),),
    # dead letters and parked keys
    "listDeadLetters": (
        lambda r: r.dead_letters.list("s"),
        lambda r: r.dead_letters.page("s", state="redriven", filter="true", **PAGE),
    ),
    "getDeadLetter": (lambda r: r.dead_letters.get("s", "1"),),
    "discardDeadLetters": (
        lambda r: r.dead_letters.discard("s", ids=["1"]),
        lambda r: r.dead_letters.discard("s", filter="true"),
    ),
    "redriveDeadLetters": (
        lambda r: r.dead_letters.redrive("s"),
        lambda r: r.dead_letters.redrive("s", ids=["1"], to="t", edit=EDIT, rate=5),
        lambda r: r.dead_letters.redrive("s", filter="true", edit=Edit(data=b"\x00", key="k")),
        lambda r: r.dead_letters.redrive_dry_run("s", ids=["1"], to="t", edit=EDIT),
    ),
    "listRedrives": (
        lambda r: r.dead_letters.redrives("s"),
        lambda r: r.dead_letters.redrives_page("s", **PAGE),
    ),
    "getRedrive": (lambda r: r.dead_letters.get_redrive("s", "1"),),
    "cancelRedrive": (lambda r: r.dead_letters.cancel_redrive("s", "1"),),
    "listParkedKeys": (lambda r: r.parked_keys.list("s"),),
    "resumeParkedKey": (lambda r: r.parked_keys.resume("s", "k"),),
    "skipParkedKey": (
        lambda r: r.parked_keys.skip("s", "k"),
        lambda r: r.parked_keys.skip("s", "k", dead_letter=True),
    ),
    # schedules
    "listSchedules": (lambda r: r.schedules.list(), lambda r: r.schedules.page(**PAGE)),
    "createSchedule": (
        lambda r: r.schedules.create("n", "a", "@daily", ScheduleMessage(data={"a": 1})),
        lambda r: r.schedules.create("n", "a", "@daily", MESSAGE, **SCHEDULE),
    ),
    "getSchedule": (lambda r: r.schedules.get("n"),),
    "putSchedule": (
        lambda r: r.schedules.put("n", "a", "@daily", MESSAGE, **TAG),
        lambda r: r.schedules.put("n", "a", "@daily", MESSAGE, **SCHEDULE),
    ),
    "changeSchedule": (
        lambda r: r.schedules.update("n", paused=True),
        lambda r: r.schedules.update(
            "n",
            topic="a",
            cron="@daily",
            message=MESSAGE,
            time_zone="UTC",
            missed_runs="skip",
            **TAG,
            **LABELS,
        ),
    ),
    "deleteSchedule": (
        lambda r: r.schedules.delete("n"),
        lambda r: r.schedules.delete("n", **TAG),
    ),
    "nextRuns": (lambda r: r.schedules.next_runs("n", count=5),),
    "pauseSchedule": (lambda r: r.schedules.pause("n", **TAG),),
    "resumeSchedule": (lambda r: r.schedules.resume("n", **TAG),),
    "runSchedule": (lambda r: r.schedules.run("n"),),
    # schemas
    "listSchemas": (lambda r: r.schemas.list(), lambda r: r.schemas.page(**PAGE)),
    "createSchema": (
        lambda r: r.schemas.create("n", "json_schema", {"type": "object"}),
        lambda r: r.schemas.create("n", "avro", '"int"', compatibility="full"),
    ),
    "getSchema": (lambda r: r.schemas.get("n"),),
    "changeSchema": (lambda r: r.schemas.update("n", compatibility="none", **TAG),),
    "deleteSchema": (lambda r: r.schemas.delete("n"), lambda r: r.schemas.delete("n", **TAG)),
    "listSchemaVersions": (lambda r: r.schemas.versions("n"),),
    "addSchemaVersion": (lambda r: r.schemas.add_version("n", {"type": "object"}),),
    "getSchemaVersion": (lambda r: r.schemas.version("n", 1),),
    "checkSchema": (lambda r: r.schemas.check("n", {"type": "object"}),),
    "validateBody": (
        lambda r: r.schemas.validate("n", {"a": 1}),
        lambda r: r.schemas.validate("n", b"\x00", content_type="avro/binary", number=1),
    ),
    # locks
    "listLocks": (lambda r: r.locks.list(), lambda r: r.locks.page(**PAGE)),
    "getLock": (lambda r: r.locks.get("n"),),
    "deleteLock": (lambda r: r.locks.delete("n"),),
    "acquireLock": (
        lambda r: r.locks.acquire("n"),
        lambda r: r.locks.acquire(
            "n", ttl_seconds=5, wait_seconds=5, holder="me", request_id="1", **LABELS
        ),
        lambda r: r.locks.hold("n", ttl_s=5, wait_s=None, holder="me", **LABELS).__enter__(),
    ),
    "renewLock": (
        lambda r: r.locks.renew("n", LOCK_ID),
        lambda r: r.locks.renew("n", LOCK_ID, ttl_seconds=5),
    ),
    "releaseLock": (lambda r: r.locks.release("n", LOCK_ID),),
    "verifyLock": (lambda r: r.locks.verify("n", 1),),
    # tenants
    "listTenants": (lambda r: r.tenants.list(), lambda r: r.tenants.page(**PAGE)),
    "createTenant": (
        lambda r: r.tenants.create("t"),
        lambda r: r.tenants.create("t", **TENANT),
    ),
    "getTenant": (lambda r: r.tenants.get("t"),),
    "putTenant": (
        lambda r: r.tenants.put("t", **TAG),
        lambda r: r.tenants.put("t", **TENANT),
    ),
    "deleteTenant": (lambda r: r.tenants.delete("t"), lambda r: r.tenants.delete("t", **FORCED)),
    "getOwnQuotas": (lambda r: r.quotas.get(),),
    "getQuotas": (lambda r: r.quotas.get("t"),),
    "putQuotas": (
        lambda r: r.quotas.put("t", {}),
        lambda r: r.quotas.put("t", {"topics": 5, "in_flight": None}, weight=2, **TAG),
    ),
    "getOwnUsage": (
        lambda r: r.usage.list(),
        lambda r: r.usage.page(metric="published_messages", **SINCE, **PAGE),
    ),
    "getUsage": (
        lambda r: r.usage.list("t"),
        lambda r: r.usage.page("t", metric="published_messages", **SINCE, **PAGE),
    ),
    "getOwnAudit": (lambda r: r.audit.list(), lambda r: r.audit.page(**AUDIT, **PAGE)),
    "getAudit": (lambda r: r.audit.list("t"), lambda r: r.audit.page("t", **AUDIT, **PAGE)),
    "exportOwnAudit": (lambda r: r.audit.export(), lambda r: r.audit.export(**AUDIT)),
    "exportAudit": (lambda r: r.audit.export("t"), lambda r: r.audit.export("t", **AUDIT)),
    # access
    "listClients": (lambda r: r.clients.list(), lambda r: r.clients.page(**PAGE)),
    "createClient": (
        lambda r: r.clients.create("n"),
        lambda r: r.clients.create("n", display_name="N", state="disabled", **LABELS),
    ),
    "getClient": (lambda r: r.clients.get("n"),),
    "putClient": (
        lambda r: r.clients.put("n"),
        lambda r: r.clients.put("n", display_name="N", state="active", **FORCED, **LABELS),
    ),
    "deleteClient": (lambda r: r.clients.delete("n"), lambda r: r.clients.delete("n", **FORCED)),
    "addClientSecret": (
        lambda r: r.clients.add_secret("n"),
        lambda r: r.clients.add_secret("n", old_expires_in_seconds=0, **TAG),
    ),
    "removeClientSecret": (
        lambda r: r.clients.remove_secret("n", "p"),
        lambda r: r.clients.remove_secret("n", "p", **FORCED),
    ),
    "revokeClientTokens": (lambda r: r.clients.revoke_tokens("n"),),
    "listKeys": (lambda r: r.keys.list(), lambda r: r.keys.page(**PAGE)),
    "createKey": (
        lambda r: r.keys.create("n", ["read"]),
        lambda r: r.keys.create("n", ["read"], expires_at=NOW, state="active", **LABELS),
    ),
    "getKey": (lambda r: r.keys.get("n"),),
    "putKey": (
        lambda r: r.keys.put("n", ["read"], expires_at=None, **FORCED),
        lambda r: r.keys.put("n", ["read"], expires_at=NOW, state="disabled", **LABELS),
    ),
    "deleteKey": (lambda r: r.keys.delete("n"), lambda r: r.keys.delete("n", **FORCED)),
    "rotateKey": (
        lambda r: r.keys.rotate("n"),
        lambda r: r.keys.rotate("n", old_expires_in_seconds=0, **TAG),
    ),
    "listPolicies": (lambda r: r.policies.list(), lambda r: r.policies.page(**PAGE)),
    "createPolicy": (
        lambda r: r.policies.create("n", "viewer", ["client:a"]),
        lambda r: r.policies.create("n", "viewer", ["client:a"], resources=["topics/a"], **LABELS),
    ),
    "getPolicy": (lambda r: r.policies.get("n"),),
    "putPolicy": (lambda r: r.policies.put("n", "viewer", ["client:a"], **FORCED, **LABELS),),
    "deletePolicy": (lambda r: r.policies.delete("n"), lambda r: r.policies.delete("n", **FORCED)),
    "listIssuers": (lambda r: r.issuers.list(), lambda r: r.issuers.page(**PAGE)),
    "createIssuer": (
        lambda r: r.issuers.create("n", "https://id.example"),
        lambda r: r.issuers.create(
            "n",
            "https://id.example",
            "a",
            **ISSUER,
        ),
    ),
    "getIssuer": (lambda r: r.issuers.get("n"),),
    "putIssuer": (
        lambda r: r.issuers.put("n", "https://id.example", **TAG),
        lambda r: r.issuers.put("n", "https://id.example", "a", **ISSUER),
    ),
    "deleteIssuer": (lambda r: r.issuers.delete("n"), lambda r: r.issuers.delete("n", **FORCED)),
    # tokens
    "getToken": (
        lambda r: r.tokens.get("id", "secret"),
        lambda r: r.tokens.get("id", "secret", scope="read publish", tenant="t"),
    ),
    "introspectToken": (lambda r: r.tokens.introspect("id", "secret", "token"),),
    "revokeToken": (lambda r: r.tokens.revoke("id", "secret", "token"),),
    "oauthMetadata": (lambda r: r.tokens.metadata(),),
    "openidConfiguration": (lambda r: r.tokens.openid_configuration(),),
    "jwks": (lambda r: r.tokens.signing_keys(),),
    # jobs
    "listJobs": (lambda r: r.jobs.list(), lambda r: r.jobs.page(state="running", **PAGE)),
    "createJob": (
        lambda r: r.jobs.create("j", JobSpec(map="m")),
        lambda r: r.jobs.create("j", JOB),
    ),
    "getJob": (lambda r: r.jobs.get("j"), lambda r: r.jobs.get("j", wait_seconds=5)),
    "putJob": (lambda r: r.jobs.put("j", JobSpec(map="m")), lambda r: r.jobs.put("j", JOB)),
    "deleteJob": (lambda r: r.jobs.delete("j"), lambda r: r.jobs.delete("j", force=True)),
    "listTasks": (lambda r: r.jobs.tasks("j", state="failed"),),
    "addTasks": (lambda r: r.jobs.add_tasks("j", 0, [Raw(b"1")]),),
    "sealJob": (lambda r: r.jobs.seal("j", 5),),
    "cancelJob": (lambda r: r.jobs.cancel("j"),),
    "retryJob": (lambda r: r.jobs.retry("j"),),
    "listOutputs": (lambda r: r.jobs.outputs("j"), lambda r: r.jobs.outputs_page("j", **PAGE)),
    "listPools": (lambda r: r.pools.list(), lambda r: r.pools.page(**PAGE)),
    "getPool": (lambda r: r.pools.get("p"),),
    "putPool": (lambda r: r.pools.put("p", max_running=5),),
    "deletePool": (lambda r: r.pools.delete("p"),),
    "claimTasks": (
        lambda r: r.jobs.claim("p", ["m"]),
        lambda r: r.jobs.claim(
            "p", ["m"], max_tasks=5, wait_seconds=5, lease_seconds=60, worker="me"
        ),
    ),
    "completeTasks": (
        lambda r: r.jobs.complete([Completion(LEASE_ID, Raw(b"1"))]),
        lambda r: r.jobs.complete([Completion(LEASE_ID, wait_for="j")]),
    ),
    "failTasks": (
        lambda r: r.jobs.fail([Failing(LEASE_ID, "bad")]),
        lambda r: r.jobs.fail([Failing(LEASE_ID, "bad", retry=True, delay_seconds=5)]),
    ),
    "releaseTasks": (lambda r: r.jobs.release([LEASE_ID]),),
    "extendTasks": (lambda r: r.jobs.extend([LEASE_ID], 60),),
    # server
    "whoAmI": (lambda r: r.server.who_am_i(),),
    "listForwarders": (lambda r: r.server.forwarders(),),
    "healthz": (lambda r: r.server.alive(),),
    "readyz": (lambda r: r.server.ready(),),
}


def every_ask() -> Iterator[tuple[str, int, Ask]]:
    """Yield each operation, the number of one way to call it, and that way."""
    for operation, asks in ASKED.items():
        for index, ask in enumerate(asks):
            yield operation, index, ask
